//! Workloads that fail, hang, fork, fill the disk, unmount it, or die.

use super::bench::{Bench, DURABLE, FORGETFUL, ROWS, ends_with, finished, kill};
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

#[test]
fn a_workload_that_fails_is_told_with_its_last_lines() {
    let Some(bench) = Bench::new() else { return };
    let fails = format!("{DURABLE}; echo out of ideas; echo really >&2; exit 3");
    let ended = ends_with(&mut bench.test(&fails, ROWS), 6);
    assert!(ended.err.contains("--run failed: exit code 3"), "{}", ended.err);
    assert!(ended.err.contains("out of ideas\n") && ended.err.contains("really"), "{}", ended.err);
    let dir = bench.kept_one();
    let log = std::fs::read_to_string(dir.join("run.log")).expect("a log");
    assert_eq!(log, "out of ideas\nreally\n");
    assert!(dir.join("run.tape").exists(), "the recording is kept");
    assert!(ended.out.is_empty(), "no verdict: {}", ended.out);
    bench.assert_no_leak();
}

#[test]
fn what_a_workload_did_before_it_died_is_tried() {
    let Some(bench) = Bench::new() else { return };
    for (signal, code) in [("SEGV", 139), ("BUS", 135), ("ABRT", 134)] {
        // Itself, and the last command of the shell.
        for dies in [format!("kill -{signal} $$"), format!("sh -c 'kill -{signal} $$'; exit $?")] {
            let ended = ends_with(&mut bench.test(&format!("{FORGETFUL}; {dies}"), ROWS), 1);
            assert!(ended.out.starts_with("RED: "), "{}", ended.out);
            assert!(ended.out.contains(&format!("(SIG{signal}); what it wrote")), "{}", ended.out);
            let ended = ends_with(&mut bench.test(&format!("{DURABLE}; {dies}"), ROWS), 6);
            assert!(ended.out.starts_with("NO VERDICT: the workload died ("), "{}", ended.out);
            assert!(ended.out.contains(&format!("(SIG{signal})")), "{code}: {}", ended.out);
        }
    }
    let ended = ends_with(&mut bench.test("echo x > {dir}/x; kill -SEGV $$", ROWS), 6);
    assert!(ended.err.contains("died before it acknowledged anything"), "{}", ended.err);
    let ended = ends_with(&mut bench.test("echo poor me; kill -SEGV $$", ROWS), 6);
    assert!(ended.err.contains("--run failed: killed by signal 11 (SIGSEGV)"), "{}", ended.err);
    bench.assert_no_leak();
}

#[test]
fn a_workload_that_is_not_there_is_told() {
    let Some(bench) = Bench::new() else { return };
    let ended = ends_with(&mut bench.test("no-such-workload {dir}", ROWS), 6);
    assert!(ended.err.contains("--run failed: exit code 127"), "{}", ended.err);
    assert!(ended.err.contains("no-such-workload"), "{}", ended.err);
    bench.assert_no_leak();
}

#[test]
fn a_workload_that_hangs_is_ended() {
    let Some(bench) = Bench::new() else { return };
    let hangs = format!("{DURABLE}; (cd {{dir}}; sleep 1000) & sleep 1000");
    let mut test = bench.test(&hangs, ROWS);
    let ended = ends_with(test.args(["--workload-timeout", "1s"]), 6);
    assert!(ended.err.contains("--run failed: it took longer than allowed"), "{}", ended.err);
    assert!(ended.err.contains("--workload-timeout"), "the remedy: {}", ended.err);
    assert!(bench.kept_one().join("run.tape").exists());
    bench.assert_no_leak();
}

#[test]
fn daemons_of_a_workload_are_ended_and_counted() {
    let Some(bench) = Bench::new() else { return };
    let forks = format!("cd {{dir}}; setsid sleep 1000 & setsid sleep 1000 & {DURABLE}");
    let ended = ends_with(&mut bench.test(&forks, ROWS), 0);
    assert!(ended.err.contains("exit code 0, left 2 processes"), "{}", ended.err);
    bench.assert_nothing_left();
}

#[test]
fn a_full_disk_is_an_error_of_the_workload_only() {
    let Some(bench) = Bench::new() else { return };
    // A sync of all file systems would wait for the disks of other tests, of which servers die.
    let fills = format!(
        "{DURABLE}; dd if=/dev/zero of={{dir}}/full bs=64k status=none; sync -f {{dir}}; exit 0"
    );
    let check = ROWS;
    let mut test = bench.test(&fills, check);
    let ended = ends_with(test.args(["--budget", "5s", "--min-coverage", "1%"]), 0);
    assert!(ended.out.starts_with("GREEN"), "{}", ended.out);
    bench.assert_nothing_left();
    let fails = "dd if=/dev/zero of={dir}/full bs=64k status=none";
    let ended = ends_with(&mut bench.test(fails, ROWS), 6);
    assert!(ended.err.contains("No space left on device"), "{}", ended.err);
    bench.assert_no_leak();
}

#[test]
fn a_workload_that_unmounts_the_disk_is_no_test() {
    let Some(bench) = Bench::new() else { return };
    for unmounts in ["umount {dir}", "umount -l {dir}; echo row 9 >> {dir}/log"] {
        let ended = ends_with(&mut bench.test(&format!("{DURABLE}; {unmounts}"), ROWS), 6);
        assert!(ended.err.contains("unmounted the disk"), "{}", ended.err);
        bench.assert_no_leak();
    }
    let raw = "printf A | dd of={device} conv=notrunc status=none; echo 1 >> $SEEKLESS_ACKS";
    let mut test = bench.command("crash-test");
    test.args(["--fs", "raw", "--size", "1M", "--run", &format!("{raw}; losetup -d {{device}}")]);
    let ended =
        run_any(test.args(["--check", "grep -q A {device} || test -z \"$SEEKLESS_ACKED\""]));
    assert!(!ended.contains("panicked"), "{ended}");
    bench.assert_no_leak();
}

#[test]
fn a_workload_that_is_killed_is_no_test() {
    let Some(bench) = Bench::new() else { return };
    let ended = ends_with(&mut bench.test(&format!("{DURABLE}; kill -9 $$"), ROWS), 6);
    assert!(ended.err.contains("--run failed: killed by signal 9"), "{}", ended.err);
    // It reaches nothing outside: neither the recorder nor this test.
    let ended = ends_with(&mut bench.test(&format!("{DURABLE}; kill -9 -1; exit 1"), ROWS), 6);
    assert!(ended.err.contains("--run failed"), "{}", ended.err);
    bench.assert_no_leak();
}

#[test]
fn a_recorder_that_is_killed_leaves_a_usable_recording_and_nothing_else() {
    let Some(bench) = Bench::new() else { return };
    let started = bench.shown("started");
    let workload = format!("{DURABLE}; echo x > {started}; cd {{dir}}; sleep 1000");
    let child = bench.start(bench.test(&workload, ROWS), "started");
    let leaks = bench.leaks();
    assert!(leaks.iter().any(|leak| leak.contains("/sys/block/")), "no loop device: {leaks:#?}");
    kill(&child, 9);
    assert_eq!(finished(child).code(), -1);
    bench.assert_no_leak();
    let dir = bench.kept_one();
    let doubted = ends_with(&mut bench.replay(&dir, ROWS), 3);
    assert!(doubted.err.contains("cut short"), "{}", doubted.err);
    assert!(doubted.err.contains("--cut-short"), "{}", doubted.err);
    let ended = ends_with(bench.replay(&dir, ROWS).arg("--cut-short"), 0);
    assert!(ended.out.contains("3 acknowledgements"), "{}", ended.out);
}

#[test]
fn a_recorder_that_is_killed_while_the_disk_is_written_back_ends() {
    let Some(bench) = Bench::new() else { return };
    // Much is in the page cache when the workload ends.
    let workload = format!(
        "dd if=/dev/zero of={{dir}}/big bs=1M count=120 status=none; \
         echo 1 >> $SEEKLESS_ACKS; echo x > {}",
        bench.shown("started")
    );
    for milliseconds in [0, 20, 50, 100, 200] {
        let mut test = bench.command("crash-test");
        test.args(["--size", "192M", "--run", &workload, "--check", "sleep 1000; ls {dir}"]);
        let child = bench.start(test, "started");
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        kill(&child, 9);
        assert_eq!(finished(child).code(), -1, "{milliseconds} ms");
        bench.assert_no_leak();
        std::fs::remove_file(bench.path("started")).expect("removed");
    }
}

#[test]
fn a_killed_recorder_of_a_raw_disk_with_cached_writes_ends() {
    let Some(bench) = Bench::new() else { return };
    let started = bench.shown("started");
    // What is in the page cache is written back when the last user closes the disk.
    let workload = format!(
        "dd if=/dev/zero of={{device}} bs=64k count=8 conv=notrunc status=none; \
         exec 9<{{device}}; echo x > {started}; sleep 1000"
    );
    let mut test = bench.command("crash-test");
    test.args(["--fs", "raw", "--size", "1M", "--run", &workload, "--check", "true {device}"]);
    let child = bench.start(test, "started");
    kill(&child, 9);
    assert_eq!(finished(child).code(), -1);
    bench.assert_no_leak();
}

#[test]
fn a_setup_that_fails_ends_the_test() {
    let Some(bench) = Bench::new() else { return };
    let mut test = bench.test(DURABLE, ROWS);
    let ended = ends_with(test.args(["--setup", "echo no schema; exit 4"]), 6);
    assert!(ended.err.contains("--setup failed: exit code 4"), "{}", ended.err);
    assert!(ended.err.contains("no schema"), "{}", ended.err);
    assert!(ended.err.contains("setup.log"), "{}", ended.err);
    bench.assert_no_leak();
    let mut test = bench.test(DURABLE, ROWS);
    test.args(["--setup", "cd {dir}; setsid sleep 1000 & sleep 1000", "--workload-timeout", "1s"]);
    let ended = ends_with(&mut test, 6);
    assert!(ended.err.contains("--setup failed: it took longer"), "{}", ended.err);
    let ended = ends_with(bench.test(DURABLE, ROWS).args(["--setup", "umount {dir}"]), 6);
    assert!(ended.err.contains("--setup failed: "), "{}", ended.err);
    assert!(ended.err.contains("unmounted the disk"), "{}", ended.err);
    bench.assert_no_leak();
}

#[test]
fn a_setup_that_leaves_daemons_does_not_hold_the_disk() {
    let Some(bench) = Bench::new() else { return };
    let mut test = bench.test(DURABLE, ROWS);
    test.args(["--setup", "cd {dir}; setsid sleep 1000 > {dir}/held & echo x > {dir}/y"]);
    let ended = ends_with(&mut test, 0);
    assert!(ended.err.contains("--setup took"), "{}", ended.err);
    bench.assert_nothing_left();
}

#[test]
fn a_workload_of_another_user_writes_and_acknowledges() {
    crate::require!("setpriv");
    let Some(bench) = Bench::new() else { return };
    let script = bench.path("work.sh");
    std::fs::write(&script, DURABLE.replace("{dir}", "$1")).expect("script");
    let workload = format!(
        "setpriv --reuid 65534 --regid 65534 --clear-groups sh {} {{dir}}",
        script.display()
    );
    let mut test = bench.test(&workload, ROWS);
    test.args(["--setup", "chown 65534:65534 {dir}", "--dir", "kept"]);
    let ended = ends_with(&mut test, 0);
    assert!(ended.out.contains("3 acknowledgements checked"), "{}", ended.out);
    assert_eq!(std::fs::metadata(bench.path("kept/run.tape")).expect("a tape").uid(), 0);
    // Without the chown it may not write, and says so.
    let ended = ends_with(&mut bench.test(&workload, ROWS), 6);
    assert!(ended.err.contains("Permission denied"), "{}", ended.err);
}

/// Standard error of a command, however it ends.
fn run_any(command: &mut Command) -> String {
    crate::harness::run(command).err
}
