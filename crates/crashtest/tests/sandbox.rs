//! The sandbox against the kernel: whatever a check does, it leaves no mount, no loop device and
//! no process. Needs root, loop devices and `mkfs.ext4`; says so and ends well without.
//!
//! This program is its own worker, so it has a `main` and no test harness. An argument selects the
//! tests whose names contain it.

#[path = "sandbox/checks.rs"]
mod checks;
#[path = "sandbox/machine.rs"]
mod machine;
#[path = "sandbox/workloads.rs"]
mod workloads;

use machine::Machine;

type Test = (&'static str, fn(&Machine));

fn main() {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().unwrap_or_default();
    match first.as_str() {
        seekless_crashtest::sandbox::process::COMMAND => seekless_crashtest::sandbox::worker::run(),
        checks::PARENT => return checks::be_a_parent(&arguments.collect::<Vec<_>>()),
        _ => {}
    }
    if first == "--list" {
        return;
    }
    let machine = match Machine::new() {
        Ok(machine) => machine,
        Err(missing) => return eprintln!("skipped: {missing}"),
    };
    let filter = if first.starts_with("--") { String::new() } else { first };
    for (name, test) in checks::TESTS.iter().chain(workloads::TESTS) {
        if name.contains(&filter) {
            let began = std::time::Instant::now();
            let before = machine.mounts();
            test(&machine);
            machine.nothing_is_left(name, &before);
            eprintln!("test {name} ... ok ({} ms)", began.elapsed().as_millis());
        }
    }
}
