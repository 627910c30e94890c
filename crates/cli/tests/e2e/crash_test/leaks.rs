//! Checks that misbehave. Afterwards there is no mount, no loop device, no process of theirs.

use super::bench::{Bench, DURABLE, Loop, ROWS, ends_with, expect_code, finished, kill};
use crate::harness::eventually;

/// Seconds that a process of this test sleeps: a number that no other process has.
fn odd_number(bench: &Bench) -> u32 {
    let name = bench.shown("x");
    1_000_000 + name.bytes().fold(0, |sum: u32, byte| (sum * 31 + u32::from(byte)) % 900_000)
}

/// Processes of the machine whose command line has this word.
fn running(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let line = |path: std::path::PathBuf| std::fs::read(path.join("cmdline")).unwrap_or_default();
    let has = |line: Vec<u8>| String::from_utf8_lossy(&line).replace('\0', " ").contains(word);
    processes.filter(|entry| has(line(entry.path()))).count()
}

#[test]
fn a_check_that_hangs_is_ended_with_all_that_it_started() {
    let Some(bench) = Bench::new() else { return };
    let seconds = odd_number(&bench);
    // Only on crash states: the questions before the sweep are answered.
    let hang = format!(
        "case $SEEKLESS_STATE in *state|*data) ;; \
         *) cd {{dir}}; echo x > {}; exec sleep {seconds};; esac; {ROWS}",
        bench.shown("started")
    );
    let mut test = bench.test(DURABLE, &hang);
    test.args(["--timeout", "1s", "--fail-fast"]);
    let child = bench.start(test, "started");
    let loops = bench.loops();
    assert!(!loops.is_empty(), "a state is mounted");
    let ended = finished(child);
    expect_code(&ended, 6);
    eventually("detaching", || !loops.iter().any(Loop::is_attached));
    assert!(ended.out.starts_with("NO VERDICT"), "{}", ended.out);
    assert!(ended.out.contains("raise the time limit"), "{}", ended.out);
    assert_eq!(running(&format!("sleep {seconds}")), 0);
    bench.assert_no_leak();
}

#[test]
fn a_check_that_hangs_on_the_end_state_is_told_of_its_time_limit() {
    let Some(bench) = Bench::new() else { return };
    let mut test = bench.test(DURABLE, "cd {dir}; sleep 1000; true");
    let ended = ends_with(test.args(["--timeout", "1s"]), 6);
    assert!(ended.err.contains("longer than its time limit on the end state"), "{}", ended.err);
    assert!(ended.err.contains("hint: --timeout allows more"), "{}", ended.err);
    bench.assert_no_leak();
}

#[test]
fn daemons_of_a_check_end_with_it_and_do_not_disturb_the_next() {
    let Some(bench) = Bench::new() else { return };
    let seconds = odd_number(&bench);
    let log = bench.shown("seen");
    let check = format!(
        "cd {{dir}}; setsid sleep {seconds} > {{dir}}/held 2>&1 < /dev/null & \
         ls /proc | grep -c '^[0-9]' >> {log}; {ROWS}"
    );
    ends_with(&mut bench.test(DURABLE, &check), 0);
    assert_eq!(running(&format!("sleep {seconds}")), 0);
    let counts = bench.lines("seen");
    assert!(counts.len() > 5, "{counts:?}");
    let most = counts.iter().map(|count| count.parse::<u32>().expect("a number")).max();
    assert!(most <= Some(10), "a check saw processes of others: {counts:?}");
    bench.assert_nothing_left();
}

#[test]
fn a_check_may_keep_files_open_or_unmount_the_state() {
    let Some(bench) = Bench::new() else { return };
    let unmount = format!("{ROWS}; umount -l {{dir}}; echo lost > {{dir}}/x 2>/dev/null; true");
    ends_with(&mut bench.test(DURABLE, &unmount), 0);
    bench.assert_nothing_left();
    let mount = format!("{ROWS}; mkdir {{dir}}/t && mount -t tmpfs none {{dir}}/t");
    ends_with(&mut bench.test(DURABLE, &mount), 0);
    bench.assert_nothing_left();
    let open = format!("exec 9>{{dir}}/open; (sleep 1000) & {ROWS}");
    ends_with(&mut bench.test(DURABLE, &open), 0);
    bench.assert_nothing_left();
}

#[test]
fn what_a_check_writes_is_seen_by_no_other() {
    let Some(bench) = Bench::new() else { return };
    let check =
        format!("test ! -e {{dir}}/mark || exit 9; echo x > {{dir}}/mark; sync -f {{dir}}; {ROWS}");
    let ended = ends_with(&mut bench.test(DURABLE, &check), 0);
    assert!(ended.out.starts_with("GREEN"), "{}", ended.out);
}

#[test]
fn checks_at_the_same_time_can_bind_the_same_port() {
    let Some(bench) = Bench::new() else { return };
    if !crate::harness::installed("python3") {
        return crate::harness::skip("python3 is not installed");
    }
    let server = "import socket, time; s = socket.socket(); s.bind((\"127.0.0.1\", 47811)); \
                  s.listen(); c = socket.create_connection((\"127.0.0.1\", 47811)); \
                  s.accept()[0].close(); time.sleep(0.05)";
    let check = format!("python3 -c '{server}' || exit 1; {ROWS}");
    let ended = ends_with(bench.test(DURABLE, &check).args(["--jobs", "4"]), 0);
    assert!(ended.out.starts_with("GREEN: all"), "{}", ended.out);
    bench.assert_nothing_left();
}

#[test]
fn a_check_that_wavers_is_no_finding() {
    let Some(bench) = Bench::new() else { return };
    let check = format!(
        "case $SEEKLESS_STATE in *state|*data) ;; *) \
         if mkdir seen/$SEEKLESS_STATE; then echo not this time; exit 1; fi;; esac; {ROWS}"
    );
    std::fs::create_dir(bench.path("seen")).expect("a directory");
    let ended = ends_with(&mut bench.test(DURABLE, &check), 6);
    assert!(ended.out.starts_with("NO VERDICT: the check wavers on "), "{}", ended.out);
    assert!(ended.out.contains("WAVERS - "), "{}", ended.out);
    bench.assert_no_leak();
}

#[test]
fn a_check_reaches_no_process_but_its_own() {
    let Some(bench) = Bench::new() else { return };
    let check = format!("kill -9 1 -1 2>/dev/null; {ROWS}");
    ends_with(&mut bench.test(DURABLE, &check), 0);
    bench.assert_nothing_left();
}

#[test]
fn a_check_whose_worker_is_killed_is_no_finding() {
    let Some(bench) = Bench::new() else { return };
    let check = format!("echo x > {}; sleep 1000; {ROWS}", bench.shown("started"));
    let child = bench.start(bench.test(DURABLE, &check), "started");
    let workers = bench.workers();
    assert_eq!(workers.len(), 1, "the first question has one");
    rustix::process::kill_process(workers[0], rustix::process::Signal::KILL).expect("sent");
    let ended = finished(child);
    expect_code(&ended, 6);
    assert!(ended.err.contains("its worker was killed"), "{}", ended.err);
    bench.assert_no_leak();
}

#[test]
fn killing_the_command_in_the_sweep_leaves_its_directory_alone() {
    let Some(bench) = Bench::new() else { return };
    let seconds = odd_number(&bench);
    let check = format!(
        "case $SEEKLESS_STATE in *state|*data) ;; \
         *) echo x > {started}; exec sleep {seconds};; esac; {ROWS}",
        started = bench.shown("started")
    );
    let child = bench.start(bench.test(DURABLE, &check), "started");
    let loops = bench.loops();
    assert!(!loops.is_empty(), "a state is mounted");
    assert!(running(&format!("sleep {seconds}")) > 0);
    kill(&child, 9);
    assert_eq!(finished(child).code(), -1);
    bench.assert_no_leak();
    eventually("detaching", || !loops.iter().any(Loop::is_attached));
    assert_eq!(running(&format!("sleep {seconds}")), 0);
    let dir = bench.kept_one();
    ends_with(&mut bench.replay(&dir, ROWS), 0);
}
