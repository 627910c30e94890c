//! Crashes of recorded disks: a toy database, and checks that crash or hang.

use crate::harness::{
    Ended, Server, command, eventually, run, seekless, seekless_of_terminal, skip, succeed,
    temp_dir,
};
use crate::nbd::Client;
use crate::record::{memory, recorder};
use crate::require;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

fn replay(dir: &Path, check: &str) -> Command {
    let mut command = seekless_of_terminal();
    command.arg("replay-crashes").arg(dir.join("run.tape")).args(["--check", check]);
    command
}

fn json(ended: &Ended) -> serde_json::Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

/// Records what `act` does to a small disk of zeros.
fn recorded(act: impl FnOnce(&mut Client)) -> TempDir {
    let dir = temp_dir();
    let server = memory(dir.path());
    let proxy = recorder(dir.path(), server.uri());
    let mut client = Client::connect(proxy.socket()).expect("connection");
    act(&mut client);
    client.disconnect().expect("goodbye");
    assert_eq!(proxy.stop().code(), 0);
    dir
}

/// Two writes that are not flushed in between, then a flush: the second means the first is there.
fn forgotten_flush() -> TempDir {
    recorded(|client| {
        client.write(8192, &[1; 4096], false).expect("write");
        client.write(0, &[2; 4096], false).expect("write");
        client.flush().expect("flush");
    })
}

/// Fails if block 0 is there and block 2 is not.
const IMPLIES: &str = "test \"$(head -c 1 {device} | od -An -tu1 | tr -d ' ')\" = 0 || \
     test \"$(tail -c +8193 {device} | head -c 1 | od -An -tu1 | tr -d ' ')\" = 1";

#[test]
fn a_forgotten_flush_has_a_minimal_counterexample() {
    let dir = forgotten_flush();
    let ended = run(replay(dir.path(), IMPLIES).args(["--sector", "4096", "--json"]));
    assert_eq!(ended.code(), 1, "{ended:?}");
    let report = json(&ended);
    assert_eq!(report["coverage"]["broken"], 1, "{report:#}");
    let example = &report["groups"][0]["example"];
    let name = example["id"].as_str().expect("a state");
    assert_eq!(name, "5:keep,1=lost", "{report:#}");
    let (write, fate) = (&example["writes"][0], "lost");
    assert_eq!((&write["number"], &write["offset"]), (&1.into(), &8192.into()), "{write:#}");
    assert_eq!(write["fate"], fate, "{write:#}");
    // The same state again, by its name, and through copies.
    let again = run(replay(dir.path(), IMPLIES).args(["--state", name, "--via", "copy"]));
    assert_eq!(again.code(), 1);
    assert!(again.out.contains("example: state 5:keep,1=lost"), "{}", again.out);
    let other = run(replay(dir.path(), IMPLIES).args(["--state", "5:keep"]));
    assert_eq!(other.code(), 0, "{other:?}");
    // As a file, and as a disk.
    let kept = dir.path().join("bad.raw");
    let ended = run(replay(dir.path(), IMPLIES).arg("--keep").arg(&kept));
    assert_eq!(ended.code(), 1);
    let bytes = fs::read(&kept).expect("kept");
    assert_eq!((bytes.len(), bytes[0]), (1 << 20, 2));
    assert_ne!(bytes[8192..8192 + 4096], [1; 4096], "{}", ended.out);
    let socket = dir.path().join("state.sock");
    let mut open = seekless();
    open.arg("replay-crashes").arg(dir.path().join("run.tape"));
    open.args(["--open", name, "--socket"]).arg(&socket);
    let server = Server::start(open, socket);
    let mut client = Client::connect(server.socket()).expect("connection");
    let mut found = [9; 3 * 4096];
    client.read(0, &mut found).expect("read");
    assert_eq!((found[0], found[4096], found[8192]), (2, 0, 0));
    client.write(4096, &[5; 10], false).expect("states can be written");
    client.read(4096, &mut found[..20]).expect("read");
    assert_eq!(found[..11], [5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 0]);
    let ended = server.stop();
    assert!(ended.err.contains("LOST  request 1"), "{}", ended.err);
}

#[test]
fn checks_that_misbehave_are_no_findings() {
    let dir = forgotten_flush();
    for (check, why) in [
        ("no-such-program {device}", "exit code 127: it was not found"),
        ("kill -9 $$ # {device}", "killed by signal 9"),
        ("sleep 100 # {device}", "takes longer than its time limit"),
    ] {
        let ended = run(replay(dir.path(), check).args(["--timeout", "300ms", "--jobs", "1"]));
        assert_eq!(ended.code(), 6, "{ended:?}");
        assert!(ended.err.contains(why), "{}", ended.err);
        assert!(ended.out.starts_with("NO VERDICT"), "{}", ended.out);
    }
    // The same on one crash state only: the others are good, this one says nothing.
    let crashes = format!("{IMPLIES} || kill -9 $$");
    let ended = run(&mut replay(dir.path(), &crashes));
    assert_eq!(ended.code(), 6, "{ended:?}");
    assert!(ended.out.contains("killed by signal 9"), "{}", ended.out);
    let negative = run(&mut replay(dir.path(), &format!("{{ {IMPLIES}; }} || exit 255")));
    assert_eq!(negative.code(), 1, "{negative:?}");
    assert!(negative.out.contains("exit 255: no output"), "{}", negative.out);
    let unused = run(&mut replay(dir.path(), "true"));
    assert_eq!(unused.code(), 2);
    assert!(unused.err.contains("does not contain {device}"), "{}", unused.err);
    for (state, why) in [
        ("9:keep", "no flush boundary is at event 9"),
        ("5:keep,3=lost", "request 3 is not an unsettled write"),
        ("5:keep,1=8", "touches 8 sectors"),
        ("5", "names no state"),
    ] {
        let ended = run(replay(dir.path(), "true {device}").args(["--state", state]));
        assert_eq!(ended.code(), 2, "{ended:?}");
        assert!(ended.err.contains(why), "{}", ended.err);
    }
    fs::write(dir.path().join("small"), [0; 512]).expect("write");
    let base = run(replay(dir.path(), "true {device}").arg("--base").arg(dir.path().join("small")));
    assert_eq!(base.code(), 3, "{base:?}");
    assert!(base.err.contains("has 512 bytes, the recorded export 1048576"), "{}", base.err);
}

#[test]
fn states_are_kept_if_they_can_be_and_refused_before_the_work_if_not() {
    let dir = forgotten_flush();
    let (kept, marker) = (dir.path().join("kept.raw"), dir.path().join("ran"));
    let check = format!("touch {}; {IMPLIES}", marker.display());
    fs::write(&kept, "precious").expect("write");
    for (path, why) in [
        (kept.clone(), "there is such a file already"),
        (dir.path().join("none/kept.raw"), "no file can be made in"),
    ] {
        let ended = run(replay(dir.path(), &check).arg("--keep").arg(path));
        assert_eq!(ended.code(), 2, "{ended:?}");
        assert!(ended.err.contains(why), "{}", ended.err);
        assert!(!marker.exists(), "no check was run");
    }
    assert_eq!(fs::read(&kept).expect("read"), b"precious");
    fs::remove_file(&kept).expect("removed");
    // A good state is written if it was named. Without a bad state, the program says that none is
    // written.
    let good = run(replay(dir.path(), &check).args(["--state", "5:keep"]).arg("--keep").arg(&kept));
    assert_eq!(good.code(), 0, "{good:?}");
    assert!(good.out.contains("kept as"), "{}", good.out);
    assert_eq!(fs::read(&kept).expect("kept").len(), 1 << 20);
    fs::remove_file(&kept).expect("removed");
    let none = run(replay(dir.path(), "true {device}").arg("--keep").arg(&kept));
    assert_eq!((none.code(), kept.exists()), (0, false));
    assert!(none.err.contains("is not written: no state is bad"), "{}", none.err);
    // The report is printed before the state is written, and survives a failed write.
    let check = format!("touch {}; {IMPLIES}", kept.display());
    let late = run(replay(dir.path(), &check).arg("--keep").arg(&kept));
    assert_eq!(late.code(), 1);
    assert!(late.out.contains("example: state 5:"), "{}", late.out);
    assert!(late.err.contains("cannot write"), "{}", late.err);
}

#[test]
fn a_signal_ends_a_replay_and_nothing_is_left_behind() {
    use rustix::process::{Pid, Signal, kill_process};
    let dir = forgotten_flush();
    let states = dir.path().join("states");
    fs::create_dir(&states).expect("directory");
    for (via, signal, code) in [("copy", Signal::TERM, 143), ("auto", Signal::INT, 130)] {
        let pids = dir.path().join(via);
        fs::create_dir(&pids).expect("directory");
        // All but the first few hang: the probes and one state.
        let check = format!(
            "[ $(ls {0} | wc -l) -lt 3 ] && touch {0}/$$ && exit; touch {0}/$$; sleep 100; \
             cat {{device}}",
            pids.display()
        );
        let mut command = replay(dir.path(), &check);
        command.args(["--via", via, "--jobs", "2"]).arg("--dir").arg(&states);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let child = command.spawn().expect("it starts");
        let begun = || fs::read_dir(&pids).expect("directory").count();
        eventually("hanging checks", || begun() >= 5);
        kill_process(Pid::from_child(&child), signal).expect("signal");
        let ended = child.wait_with_output().expect("it ends");
        let (out, err) =
            (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        assert_eq!(ended.status.code(), Some(code), "{err}");
        assert!(out.starts_with("NO VERDICT: SIG"), "{out}");
        assert!(err.contains("not all were tried"), "{err}");
        assert!(fs::read_dir(&states).expect("directory").next().is_none(), "{via}");
        for entry in fs::read_dir(&pids).expect("directory") {
            let group = entry.expect("an entry").file_name();
            let path = Path::new("/proc").join(group);
            assert!(!path.exists(), "{} still runs", path.display());
        }
    }
}

#[test]
fn checks_write_to_states_of_their_own() {
    let dir = forgotten_flush();
    let check = "dd if=/dev/zero of={device} bs=4096 count=1 conv=notrunc,fsync status=none && \
         test \"$(head -c 4096 {device} | tr -d '\\0' | wc -c)\" = 0";
    for via in ["fuse", "copy"] {
        let ended = run(replay(dir.path(), check).args(["--via", via, "--json"]));
        if via == "fuse" && ended.err.contains("cannot present states as files") {
            skip("no FUSE here");
            continue;
        }
        assert_eq!(ended.code(), 0, "{ended:?}");
        assert!(json(&ended)["coverage"]["tried"].as_u64().expect("a number") > 3, "{}", ended.out);
    }
}

/// The toy database of the documentation: its recording ends as described there.
#[test]
fn states_that_are_truncated_keep_their_size() {
    let dir = forgotten_flush();
    fs::write(dir.path().join("x"), [7; 4096]).expect("a file");
    let x = dir.path().join("x");
    let whole = "size=$(wc -c < {device}) && old=$(tail -c +4097 {device} | cksum)";
    let same = "test $(wc -c < {device}) = $size && \
         test \"$(tail -c +4097 {device} | cksum)\" = \"$old\"";
    for act in [
        "dd if=/dev/zero of={device} bs=512 count=1 status=none".to_owned(),
        "dd if=/dev/zero of={device} bs=512 seek=1 count=1 status=none".to_owned(),
        format!("cp {} {{device}} && cmp -n 4096 {0} {{device}}", x.display()),
        ": > {device}".to_owned(),
        "truncate -s 0 {device}".to_owned(),
    ] {
        let check = format!("{whole} && {act} && {same}");
        let ended = run(replay(dir.path(), &check).args(["--via", "fuse", "--json"]));
        if ended.err.contains("cannot present states as files") {
            return skip("no FUSE here");
        }
        assert_eq!(ended.code(), 0, "{act}: {ended:?}");
        assert!(json(&ended)["coverage"]["tried"].as_u64().expect("a number") > 3, "{}", ended.out);
    }
}

#[test]
fn the_toy_database_is_found_out_and_its_correction_passes() {
    require!("bash");
    let program = PathBuf::from(env!("CARGO_BIN_EXE_seekless"));
    let toydb = program.with_file_name("examples").join("toydb");
    assert!(toydb.is_file(), "{} is missing: cargo build --examples", toydb.display());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/forgotten-flush.sh");
    let told = succeed(command("bash").arg(script).env("SEEKLESS", &program).env("TOYDB", &toydb));
    let (broken, correct) = told.split_once("== the same database").expect("two parts");
    assert!(broken.contains("LOST disk bytes 4096-8192"), "{told}");
    assert!(broken.contains("1 records are committed, but record 0 is not there"), "{told}");
    assert!(broken.contains("exit code 1"), "{told}");
    assert!(correct.contains("0 broken") && correct.contains("exit code 0"), "{told}");
}

#[test]
fn nothing_is_left_behind() {
    let dir = forgotten_flush();
    let states = dir.path().join("states");
    fs::create_dir(&states).expect("directory");
    for via in ["auto", "copy"] {
        let ended = run(replay(dir.path(), IMPLIES).args(["--via", via]).arg("--dir").arg(&states));
        assert_eq!(ended.code(), 1);
        eventually("an empty directory", || {
            fs::read_dir(&states).expect("directory").next().is_none()
        });
    }
}
