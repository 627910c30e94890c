//! What ends a run, what is refused, and that nothing is left behind.

use crate::harness::{
    PLAIN_USER, Place, assert_complete, assert_sound, copy_program, is_root, python, shell,
};
use seekless_tracer::selfcheck::compare;
use seekless_tracer::{Error, Exit, Recorder, Recording};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// True if a process has this text in its command line.
fn is_running(text: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let own = std::process::id().to_string();
    processes.filter(|process| process.file_name() != own.as_str()).any(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    })
}

/// Records a script, and stops the run once `when` is true.
fn stopped(place: &Place, script: &str, when: impl Fn() -> bool + Send) -> Recording {
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let recording = std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            while !when() && begun.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(Duration::from_millis(1));
            }
            stop.store(true, Ordering::Relaxed);
            assert!(begun.elapsed() < Duration::from_secs(5), "the phase did not come");
        });
        let command = shell(script, &place.run());
        Recorder::new(place.options()).run(command, stop).unwrap()
    });
    assert!(begun.elapsed() < Duration::from_secs(8), "the run did not end");
    recording
}

#[test]
fn a_run_is_stopped_in_each_phase() {
    // Before the command begins.
    let place = Place::new();
    let recording = stopped(&place, ": stopped-first; sleep 100", || true);
    assert_eq!(recording.exit, Exit::Stopped);
    let stop = AtomicBool::new(true);
    let recording = Recorder::new(place.options()).run(shell("echo > f", &place.run()), &stop);
    assert_eq!(recording.unwrap().exit, Exit::Stopped);
    assert!(!place.run().join("f").exists(), "the command ran");
    // While programs sleep, of which one ignores signals.
    let script = "trap '' INT TERM HUP; : stopped-second; echo > begun; \
                  (sleep 101 & sleep 101); sleep 101";
    let begun = place.run().join("begun");
    let recording = stopped(&place, script, || begun.exists() && is_running("sleep\u{0}101"));
    assert_eq!(recording.exit, Exit::Stopped);
    assert!(!is_running("stopped-") && !is_running("sleep\u{0}101"), "a process is left");
    // While programs write without a pause.
    let place = Place::new();
    let busy = place.run().join("busy");
    let script = ": stopped-third; while :; do echo x > busy; mv busy other; echo x > busy; done";
    let recording = stopped(&place, script, || busy.exists());
    assert_eq!(recording.exit, Exit::Stopped);
    assert!(!is_running("stopped-"), "a process is left");
    // While the recorder waits for what outlives the command.
    let place = Place::new();
    let mark = place.run().join("mark");
    let mut options = place.options();
    options.linger = Duration::from_secs(100);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !mark.exists() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(50));
            stop.store(true, Ordering::Relaxed);
        });
        let command = shell("(sleep 102; : stopped-fourth) & echo > mark", &place.run());
        let recording = Recorder::new(options).run(command, &stop).unwrap();
        assert_eq!(recording.exit, Exit::Stopped);
    });
    assert!(!is_running("sleep\u{0}102"), "a process is left");
}

#[test]
fn a_time_limit_ends_a_run() {
    let place = Place::new();
    let mut options = place.options();
    options.time_limit = Some(Duration::from_millis(200));
    let begun = Instant::now();
    let recording = place.record(options, shell("echo x > f; sleep 103", &place.run()));
    assert_eq!(recording.exit, Exit::TimeLimit);
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(!is_running("sleep\u{0}103"), "a process is left");
    compare(&recording.entries, &place.run()).unwrap();
}

#[test]
fn a_daemon_has_a_moment_and_is_named() {
    let place = Place::new();
    let mut options = place.options();
    options.linger = Duration::from_millis(300);
    let script = "setsid sh -c '(sleep 0.1; echo late > f; sleep 104) &' & exit 3";
    let recording = place.record(options, shell(script, &place.run()));
    assert_eq!(recording.exit, Exit::Code(3));
    let text = format!("{:?}", recording.outlived);
    assert!(text.contains("sleep"), "{text}");
    assert!(!is_running("sleep\u{0}104"), "a process is left");
    assert_eq!(std::fs::read(place.run().join("f")).unwrap(), b"late\n");
    compare(&recording.entries, &place.run()).unwrap();
}

#[test]
fn exit_codes_and_signals_are_told() {
    let place = Place::new();
    assert_eq!(place.sh("exit 7").exit, Exit::Code(7));
    assert_eq!(place.sh("kill -9 $$").exit, Exit::Signal(9));
    let result = Recorder::new(place.options())
        .run(Command::new("/no/such/program"), &AtomicBool::new(false));
    assert!(matches!(result, Err(Error::Start { .. })), "{result:?}");
    let options = seekless_tracer::Options::new(place.outer().join("missing"));
    let result = Recorder::new(options).run(Command::new("true"), &AtomicBool::new(false));
    assert!(matches!(result, Err(Error::Unreadable { .. })), "{result:?}");
}

#[test]
fn signals_and_job_control_reach_programs() {
    let place = Place::new();
    let script = "trap 'echo caught >> f' USR1; kill -USR1 $$; sleep 105 & kill -STOP $!; \
                  kill -CONT $!; kill $!; wait $! || echo ended >> f";
    let recording = place.sh(script);
    assert_complete(&recording, &place);
    assert_eq!(std::fs::read(place.run().join("f")).unwrap(), b"caught\nended\n");
}

#[test]
fn calls_that_cannot_be_recorded_are_refused_and_named() {
    let place = Place::new();
    let text = "import ctypes; c = ctypes.CDLL(None, use_errno=True)\n\
                assert c.syscall(425, 8, 0) == -1 and ctypes.get_errno() == 1\n\
                assert c.syscall(ctypes.c_long(206 if __import__('os').uname().machine == 'x86_64' \
                else 0), 8, 0) == -1 and ctypes.get_errno() == 38\n";
    let Some(command) = python(&["-c", text]) else { return };
    let recording = place.record(place.options(), command);
    assert_sound(&recording);
    assert_eq!(recording.refused, ["io_setup", "io_uring_setup"]);
}

#[test]
fn moves_of_large_files_are_refused_and_named() {
    let place = Place::new();
    let text = "import ctypes, os; c = ctypes.CDLL(None, use_errno=True)\n\
                f = os.open('f', os.O_CREAT | os.O_RDWR); os.ftruncate(f, 1 << 40)\n\
                n = ctypes.c_long; move = lambda mode, at: c.fallocate(f, mode, n(at), n(4096))\n\
                assert move(8, 0) == -1 and ctypes.get_errno() == 95\n\
                assert move(32, 1 << 39) == -1 and ctypes.get_errno() == 95\n";
    let Some(mut command) = python(&["-c", text]) else { return };
    command.current_dir(place.run());
    let recording = place.record(place.options(), command);
    assert_complete(&recording, &place);
    assert_eq!(recording.refused, ["fallocate that moves more than 64 MiB"]);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn calls_of_other_conventions_are_refused() {
    let place = Place::new();
    // The number of `getpid` for x32.
    let text = "import ctypes; c = ctypes.CDLL(None, use_errno=True)\n\
                assert c.syscall(0x40000000 + 39) == -1 and ctypes.get_errno() == 38";
    let Some(command) = python(&["-c", text]) else { return };
    let recording = place.record(place.options(), command);
    assert_sound(&recording);
    assert!(recording.refused[0].contains("x32"), "{:?}", recording.refused);
}

#[test]
fn set_user_id_programs_run_without_their_rights() {
    if !is_root() {
        eprintln!("skipped: only root makes such a program");
        return;
    }
    let place = Place::new();
    place.give_to(PLAIN_USER);
    let id = place.outer().join("id");
    copy_program("/usr/bin/id".as_ref(), &id);
    std::fs::set_permissions(&id, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let mut command = shell("../id -u > effective", &place.run());
    std::os::unix::process::CommandExt::uid(&mut command, PLAIN_USER);
    let recording = place.record(place.options(), command);
    assert_complete(&recording, &place);
    let effective = std::fs::read_to_string(place.run().join("effective")).unwrap();
    assert_eq!(effective.trim(), PLAIN_USER.to_string());
}

/// Children of all threads of this process.
fn children() -> String {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    threads
        .map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default())
        .collect()
}

/// Orphans and daemons are neither left running nor as zombies.
#[test]
fn no_child_is_left() {
    if std::env::var_os("SEEKLESS_TEST_ALONE").is_none() {
        // Other tests of this process have children.
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--nocapture", "--exact", "limits::no_child_is_left"])
            .env("SEEKLESS_TEST_ALONE", "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("none is left"), "{output:?}");
        return;
    }
    let place = Place::new();
    let mut options = place.options();
    options.linger = Duration::from_millis(20);
    let script = "for i in 1 2 3; do (setsid sh -c 'sleep 0.01; sleep 106' &); done; (true &)";
    for _ in 0..20 {
        let recording = place.record(options.clone(), shell(script, &place.run()));
        assert!(!recording.outlived.is_empty());
    }
    place.sh("(sleep 0.01 &); (sh -c 'exit 3' &)");
    seekless_tracer::preflight().unwrap();
    let mut child = Command::new("sleep").arg("107").spawn().unwrap();
    let left = children();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(left.trim(), child.id().to_string());
    println!("none is left");
}

/// A recorder without capabilities cannot watch a child that changes its user: it says so.
#[test]
fn a_child_that_changes_its_user_is_reported() {
    if !is_root() {
        eprintln!("skipped: only root changes its user");
        return;
    }
    let script = "echo one > f; chmod 666 f; \
                  setpriv --reuid=65534 --clear-groups sh -c 'echo two >> f'; echo three >> f";
    if std::env::var_os("SEEKLESS_TEST_WITHOUT").is_some() {
        let place = Place::new();
        std::fs::set_permissions(place.outer(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let recording = place.sh(script);
        assert!(compare(&recording.entries, &place.run()).is_err());
        assert!(recording.troubles[0].contains("65534"), "{:?}", recording.troubles);
        println!("it is reported");
        return;
    }
    // With all capabilities, such a child is on record.
    let place = Place::new();
    std::fs::set_permissions(place.outer(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let recording = place.sh(script);
    assert_complete(&recording, &place);
    let output = Command::new("setpriv")
        .args(["--bounding-set=-sys_ptrace,-dac_override,-dac_read_search"])
        .arg(std::env::current_exe().unwrap())
        .args(["--nocapture", "--exact", "limits::a_child_that_changes_its_user_is_reported"])
        .env("SEEKLESS_TEST_WITHOUT", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("it is reported"), "{output:?}");
}

/// A recorder that may not trace, because another program traces it and its children.
#[test]
fn a_debugger_gives_a_message() {
    if std::env::var_os("SEEKLESS_TEST_DEBUGGED").is_some() {
        let error = seekless_tracer::preflight().unwrap_err().to_string();
        assert!(error.contains("debugger"), "{error}");
        println!("the message is there");
        return;
    }
    let strace = std::path::Path::new("/usr/bin/strace");
    if !strace.exists() {
        eprintln!("skipped: there is no /usr/bin/strace");
        return;
    }
    let output = Command::new(strace)
        .args(["-f", "-qq", "-e", "trace=none"])
        .arg(std::env::current_exe().unwrap())
        .args(["--nocapture", "--exact", "limits::a_debugger_gives_a_message"])
        .env("SEEKLESS_TEST_DEBUGGED", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("the message is there"), "{output:?}");
}

#[test]
fn a_hundred_thousand_calls_are_on_record() {
    let place = Place::new();
    let text = "import os\nf = os.open('f', os.O_CREAT | os.O_WRONLY)\n\
                for i in range(100000): os.pwrite(f, b'%08d' % i, i * 7)\n";
    let Some(mut command) = python(&["-c", text]) else { return };
    command.current_dir(place.run());
    let recording = place.record(place.options(), command);
    assert_complete(&recording, &place);
    assert!(recording.entries.len() > 200_000);
}
