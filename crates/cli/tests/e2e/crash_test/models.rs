//! Crash tests by system calls and models: no root, no mount, no device.

use super::bench::{DURABLE, FORGETFUL, ROWS, expect_code, finished, kill};
use crate::harness::{Ended, command, copy_program, eventually, run, skip, temp_dir};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A setup that keeps the path of the run in a file, and a check that its state is there.
const SAYS_WHERE: &str = "echo {dir} > {dir}/path";
const AT_THE_RUN: &str = "test $(cat {dir}/path) = {dir} || exit 9";
/// A user without rights.
const USER: &str = "65534";

/// A directory of which all belongs to a user without rights, if this process can become one.
struct Home {
    dir: TempDir,
    program: PathBuf,
}

impl Home {
    fn new() -> Home {
        let dir = temp_dir();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("mode");
        let program = dir.path().join("seekless");
        copy_program(&program);
        let tmp = dir.path().join("tmp");
        fs::create_dir(&tmp).expect("directory");
        // The user without rights reaches it.
        fs::set_permissions(&tmp, fs::Permissions::from_mode(0o1777)).expect("mode");
        Home { dir, program }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A crash test as a user without rights, in an environment without anything. Signals reach it
    /// although a background job of a shell ignores SIGINT.
    fn test(&self, arguments: &[&str]) -> Command {
        let mut test = command("env");
        test.arg("--default-signal=HUP,INT");
        if rustix::process::geteuid().is_root() {
            test.args([
                "setpriv",
                "--reuid",
                USER,
                "--regid",
                USER,
                "--clear-groups",
                "--bounding-set=-all",
            ]);
        }
        test.arg(&self.program);
        test.arg("crash-test").current_dir(self.path("tmp")).env("TMPDIR", self.path("tmp"));
        test.args(arguments);
        test
    }

    fn ends(&self, arguments: &[&str], code: i32) -> Ended {
        let ended = run(&mut self.test(arguments));
        expect_code(&ended, code);
        ended
    }

    /// No process and no directory of a test is left.
    fn assert_nothing_left(&self) {
        let home = self.dir.path().to_str().expect("text").to_owned();
        let is_left = || {
            let processes = fs::read_dir("/proc").expect("/proc").flatten();
            let lines =
                processes.map(|one| fs::read(one.path().join("cmdline")).unwrap_or_default());
            lines.into_iter().any(|line| String::from_utf8_lossy(&line).contains(&home))
        };
        eventually("the end of all processes", || !is_left());
        let entries = fs::read_dir(self.path("tmp")).expect("directory");
        let names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        assert!(names.is_empty(), "{names:?}");
    }
}

/// Skips where this machine lets no process trace its children.
fn can_trace() -> bool {
    if !crate::harness::installed("setpriv") {
        skip("setpriv is not installed");
        return false;
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if scope.trim().parse().is_ok_and(|scope: u32| scope >= 2) {
        skip("kernel.yama.ptrace_scope does not allow it");
        return false;
    }
    true
}

#[test]
fn a_synced_log_is_green_and_another_is_red() {
    if !can_trace() {
        return;
    }
    let home = Home::new();
    let green = home.ends(&["--model", "ext4,xfs,posix", "--run", DURABLE, "--check", ROWS], 0);
    assert!(green.out.starts_with("GREEN: no bad state on ext4, xfs\n"), "{}", green.out);
    // The directory of the new file is not synced, and POSIX does not promise its name.
    assert!(green.out.contains("the program relies on more than POSIX promises"), "{}", green.out);
    home.assert_nothing_left();
    let red = home.ends(&["--model", "ext4", "--run", FORGETFUL, "--check", ROWS], 1);
    assert!(red.out.starts_with("RED: bad states on ext4\n"), "{}", red.out);
    assert!(red.out.contains("why: \"3\" was acknowledged when"), "{}", red.out);
    assert!(red.out.contains("fsync of \"log\" before that is missing"), "{}", red.out);
    // The command that a report names finds the state again.
    let again =
        red.out.lines().find_map(|line| line.split_once("again:   seekless ")).expect("one");
    let mut shell = command("sh");
    let line = format!("{} {}", home.program.display(), again.1);
    let again = run(shell.args(["-c", &line]).env("TMPDIR", home.path("tmp")));
    expect_code(&again, 1);
    assert!(again.out.contains("1 of 1 state loses acknowledged data"), "{}", again.out);
}

/// Syncs that are not carried out are on record all the same.
#[test]
fn skipped_syncs_change_no_verdict() {
    if !can_trace() {
        return;
    }
    let home = Home::new();
    let states = |syncs: &str| {
        let args = ["--model", "ext4", "--syncs", syncs, "--run", DURABLE, "--check", ROWS];
        let ended = home.ends(&args, 0);
        let row = ended.out.lines().find(|line| line.starts_with("  ext4 ")).expect("a row");
        row.to_owned()
    };
    assert_eq!(states("real"), states("skip"));
}

#[test]
fn json_names_the_models_and_which_decide() {
    if !can_trace() {
        return;
    }
    let home = Home::new();
    let args = ["--model", "ext4,posix", "--run", DURABLE, "--check", ROWS, "--json"];
    let ended = home.ends(&args, 0);
    let report: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    let models = report["models"].as_array().expect("models");
    let decides: Vec<_> = models.iter().map(|one| (&one["model"], &one["decides"])).collect();
    assert_eq!(decides, [(&"ext4".into(), &true.into()), (&"posix".into(), &false.into())]);
    assert_eq!(report["verdict"], "green");
    let posix = home.ends(&["--model", "posix", "--run", DURABLE, "--check", ROWS], 1);
    assert!(posix.out.starts_with("RED: bad states on posix"), "{}", posix.out);
}

#[test]
fn without_root_calls_are_recorded_unless_a_disk_was_asked_for() {
    if !can_trace() {
        return;
    }
    let home = Home::new();
    let ended = home.ends(&["--run", DURABLE, "--check", ROWS], 0);
    let said = "system calls are recorded and judged by models of ext4, xfs, posix: ";
    assert!(ended.err.contains(said), "{}", ended.err);
    home.assert_nothing_left();
    let refused = home.ends(&["--fs", "ext4", "--run", DURABLE, "--check", ROWS], 7);
    assert!(refused.err.contains("may not mount (no CAP_SYS_ADMIN)"), "{}", refused.err);
    assert!(refused.err.contains("--model ext4"), "{}", refused.err);
    let sized = home.ends(&["--size", "64M", "--run", DURABLE, "--check", ROWS], 7);
    assert!(sized.err.contains("may not mount"), "{}", sized.err);
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let home = Home::new();
    for (arguments, hint) in [
        (vec!["--model", "ext4", "--recorder", "block"], "give --recorder ptrace"),
        (vec!["--fs", "ext4", "--recorder", "ptrace"], "give --model"),
        (vec!["--fs", "ext4", "--recorder", "fuse"], "give --recorder block"),
        (vec!["--recorder", "fuse"], "seekless:ffs:all"),
        (vec!["--model", "zfs"], "ext4"),
        (vec!["--fs", "ext4", "--syncs", "skip"], "give --model"),
        (vec!["--model", "ext4", "--fs", "ext4"], "cannot be used with"),
    ] {
        let arguments = [&arguments[..], &["--run", DURABLE, "--check", ROWS]].concat();
        let ended = home.ends(&arguments, 2);
        assert!(ended.err.contains(hint), "{arguments:?}: {}", ended.err);
    }
    home.assert_nothing_left();
}

#[test]
fn a_workload_that_says_or_writes_nothing_has_no_verdict() {
    if !can_trace() {
        return;
    }
    let home = Home::new();
    let silent = home.ends(&["--model", "ext4", "--run", "echo x > {dir}/log", "--check", ROWS], 3);
    assert!(silent.err.contains("the workload acknowledged nothing"), "{}", silent.err);
    let idle = "echo 1 >> $SEEKLESS_ACKS";
    let idle = home.ends(&["--model", "ext4", "--run", idle, "--check", ROWS], 3);
    assert!(idle.err.contains("wrote nothing"), "{}", idle.err);
    let broken = home.ends(&["--model", "ext4", "--run", "exit 5", "--check", ROWS], 6);
    assert!(broken.err.contains("--run failed: exit code 5"), "{}", broken.err);
    let no_check = home.ends(&["--model", "ext4", "--run", DURABLE, "--check", "true {dir}"], 6);
    assert!(no_check.err.contains("your check cannot fail"), "{}", no_check.err);
}

#[test]
fn a_setup_is_there_from_the_beginning_and_a_control_must_fail() {
    if !can_trace() {
        return;
    }
    let home = Home::new();
    let setup = "mkdir {dir}/sub; echo kept > {dir}/sub/old";
    let check = format!("grep -q kept {{dir}}/sub/old || exit 9; {ROWS}");
    let args = ["--model", "ext4", "--setup", setup, "--run", DURABLE, "--check", &check];
    let ended = home.ends(&[&args[..], &["--control", FORGETFUL]].concat(), 0);
    assert!(ended.out.contains("control fails as expected"), "{}", ended.out);
    let ended = home.ends(&[&args[..], &["--control", DURABLE]].concat(), 6);
    assert!(ended.out.contains("control passes UNEXPECTEDLY"), "{}", ended.out);
}

/// A writer that is no child of the workload: what it writes is on no record.
#[test]
fn a_recording_that_is_not_whole_gives_no_verdict() {
    if !can_trace() {
        return;
    }
    let home = Home::new();
    let dir = home.path("tmp").join("test");
    let ready = home.path("tmp").join("ready");
    let workload =
        format!("{DURABLE}; touch {0}; while test -e {0}; do sleep 0.02; done", ready.display());
    let shown = dir.display().to_string();
    let args = ["--model", "ext4", "--dir", &shown, "--run", &workload, "--check", ROWS];
    let mut test = home.test(&args);
    let child = test.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    eventually("the workload", || ready.exists());
    fs::write(dir.join("mnt/stranger"), "not recorded").expect("written");
    fs::remove_file(&ready).expect("removed");
    let ended = finished(child);
    expect_code(&ended, 6);
    let said = "the recording does not give the final directory: stranger";
    assert!(ended.err.contains(said), "{}", ended.err);
    assert!(ended.err.contains("no verdict"), "{}", ended.err);
}

#[test]
fn a_signal_ends_a_test_in_each_phase() {
    if !can_trace() {
        return;
    }
    let home = Home::new();
    let mark = |name: &str| home.path("tmp").join(name);
    let wait = |name: &str| format!("touch {}; sleep 1000", mark(name).display());
    let in_run = wait("in-run");
    let in_check =
        format!("case $SEEKLESS_STATE in *state|*data) {ROWS};; *) {};; esac", wait("in-check"));
    let in_setup = wait("in-setup");
    let cases: [(&str, Vec<&str>); 3] = [
        ("in-setup", vec!["--setup", &in_setup, "--run", DURABLE, "--check", ROWS]),
        ("in-run", vec!["--run", &in_run, "--check", ROWS]),
        ("in-check", vec!["--run", DURABLE, "--check", &in_check]),
    ];
    for (name, arguments) in cases {
        let mut test = home.test(&[&["--model", "ext4"], &arguments[..]].concat());
        let child = test.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        eventually(name, || mark(name).exists());
        kill(&child, 2);
        let ended = finished(child);
        expect_code(&ended, 130);
        fs::remove_file(mark(name)).expect("removed");
        remove_kept(&home.path("tmp"));
        home.assert_nothing_left();
    }
}

/// Removes the directories of tests that were ended while they had a recording.
fn remove_kept(tmp: &Path) {
    for entry in fs::read_dir(tmp).expect("directory").flatten() {
        assert!(!entry.path().join("copies").exists(), "copies of states are removed");
        fs::remove_dir_all(entry.path()).expect("removed");
    }
}

/// Software keeps absolute paths in its files, so each state is where the run was. That holds for
/// a later check of the same calls, too.
#[test]
fn states_are_at_the_path_of_the_run() {
    if !can_trace() {
        return;
    }
    let home = Home::new();
    let dir = home.path("tmp").join("test").display().to_string();
    let check = format!("{ROWS}; {AT_THE_RUN}");
    let args = ["--setup", SAYS_WHERE, "--run", DURABLE, "--check", &check];
    home.ends(&[&["--model", "ext4", "--dir", &dir], &args[..]].concat(), 0);
    home.ends(&["--model", "ext4", "--calls", &dir, "--check", &check], 0);
}

/// As in a container whose runtime lets no user make namespaces: one state after the other, at the
/// path of the run.
#[test]
fn without_namespaces_checks_share_the_machine_and_say_so() {
    if !can_trace() {
        return;
    }
    let none = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let confined = |arguments: &[&str]| {
        let mut test = command("unshare");
        test.args(["--user", "--map-root-user", "sh", "-c", none, "sh"]);
        test.args(["setpriv", "--bounding-set=-all", "--inh-caps=-all"]).args(arguments);
        test
    };
    if !confined(&["true"]).output().is_ok_and(|probe| probe.status.success()) {
        return skip("this machine lets no process make a user namespace");
    }
    let home = Home::new();
    let program = home.program.display().to_string();
    let check = format!("{ROWS}; {AT_THE_RUN}");
    for (workload, code, verdict) in [(DURABLE, 0, "GREEN"), (FORGETFUL, 1, "RED")] {
        let arguments = [&*program, "crash-test", "--model", "ext4", "--setup", SAYS_WHERE];
        let arguments = [&arguments[..], &["--run", workload, "--check", &check]].concat();
        let mut test = confined(&arguments);
        let ended = run(test.current_dir(home.path("tmp")).env("TMPDIR", home.path("tmp")));
        expect_code(&ended, code);
        assert!(ended.out.starts_with(verdict), "{}", ended.out);
        assert!(ended.out.contains("processes and the network ("), "{}", ended.out);
    }
}

/// The second opinion: file systems of Seekless replay the calls, and their states are copied.
#[test]
fn calls_are_replayed_under_every_policy_without_root() {
    if !can_trace() {
        return;
    }
    let home = Home::new();
    let test = |workload: &str, code: i32| {
        let args = ["--fs", "seekless:ffs:all", "--size", "16M", "--run", workload];
        home.ends(&[&args[..], &["--check", ROWS]].concat(), code)
    };
    let synced = format!("touch {{dir}}/log; sync {{dir}}; {DURABLE}");
    let good = test(&synced, 0);
    assert!(good.err.contains("system calls are recorded: this machine"), "{}", good.err);
    assert!(good.out.starts_with("GREEN: no bad state under async, "), "{}", good.out);
    home.assert_nothing_left();
    let bad = test(FORGETFUL, 1);
    assert!(bad.out.starts_with("RED: bad states under async, "), "{}", bad.out);
}
