//! Acknowledgements: `seekless ack`, `record --acks`, and the examples in several languages.

use crate::harness::{Ended, Server, command, run, seekless, skip, succeed, temp_dir};
use crate::nbd::Client;
use crate::record::memory;
use crate::require;
use seekless_crashtest::record::disk::Node;
use seekless_crashtest::record::marks::MarkFile;
use seekless_crashtest::record::recorder::Recorder;
use seekless_crashtest::record::tape::{Recording, What};
use seekless_serve::fuse::disks::DiskDirectory;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Starts a recorder that takes acknowledgements at `acks` in the directory.
fn recorder(dir: &Path, upstream: &str) -> Server {
    let socket = dir.join("tape.sock");
    let mut command = seekless();
    command.arg("record").args(["--upstream", upstream]).arg("--acks").arg(dir.join("acks"));
    command.arg("--socket").arg(&socket).arg("--output").arg(dir.join("run.tape"));
    Server::start(command, socket)
}

fn ack(place: &Path, value: &str) -> Ended {
    run(seekless().args(["ack", value]).env("SEEKLESS_ACKS", place))
}

/// The events of a recording in short.
fn events(tape: &Path) -> Vec<String> {
    let file = BufReader::new(File::open(tape).expect("a recording"));
    let mut recording = Recording::open(file).expect("a recording");
    let mut events = Vec::new();
    while let Some(event) = recording.next_event().expect("it reads") {
        events.push(match event.what {
            What::Write { .. } => "write".to_owned(),
            What::Flush => "flush".to_owned(),
            What::Answer { .. } => "answer".to_owned(),
            What::Mark { .. } => format!("mark {}", recording.mark()),
            other => format!("{other:?}"),
        });
    }
    events
}

fn marks(tape: &Path) -> Vec<String> {
    let marks = events(tape).into_iter();
    marks.filter_map(|event| event.strip_prefix("mark ").map(str::to_owned)).collect()
}

fn one_to(count: u64) -> Vec<String> {
    (1..=count).map(|n| n.to_string()).collect()
}

#[test]
fn acknowledgements_are_ordered_with_the_requests() {
    let dir = temp_dir();
    let server = memory(dir.path());
    let proxy = recorder(dir.path(), server.uri());
    let acks = dir.path().join("acks");
    let mut client = Client::connect(proxy.socket()).expect("connection");
    for n in 1..=3 {
        client.write(n * 4096, &[n as u8; 4096], false).expect("write");
        client.flush().expect("flush");
        let ended = ack(&acks, &n.to_string());
        assert_eq!((ended.code(), ended.out, ended.err), (0, String::new(), String::new()));
    }
    client.disconnect().expect("goodbye");
    let ended = proxy.stop();
    assert_eq!(ended.code(), 0, "{}", ended.err);
    let said = "seekless: 6 requests and 3 acknowledgements of 1 connections recorded";
    assert!(ended.err.contains(said), "{}", ended.err);
    let expected: Vec<String> = (1..=3)
        .flat_map(|n| {
            ["write", "answer", "flush", "answer", &format!("mark {n}")].map(str::to_owned)
        })
        .collect();
    assert_eq!(events(&dir.path().join("run.tape")), expected);
    assert!(!acks.exists(), "the socket is removed");
    // The recording can be replayed.
    let mut replay = seekless();
    replay.arg("replay-crashes").arg(dir.path().join("run.tape"));
    succeed(replay.args(["--check", "true {device}", "--consistency-only"]));
}

#[test]
fn the_socket_takes_many_lines_and_refuses_bad_ones() {
    let dir = temp_dir();
    let server = memory(dir.path());
    let proxy = recorder(dir.path(), server.uri());
    let socket = UnixStream::connect(dir.path().join("acks")).expect("connection");
    (&socket).write_all(b"a\n\nb\n").expect("sent");
    let mut replies = BufReader::new(&socket).lines();
    let mut reply = || replies.next().expect("a reply").expect("text");
    assert_eq!(reply(), "ok");
    assert!(reply().starts_with("error: "));
    assert_eq!(reply(), "ok");
    // A connection that stays open does not hold up the end.
    assert_eq!(proxy.stop().code(), 0);
    assert_eq!(marks(&dir.path().join("run.tape")), ["a", "b"]);
}

#[test]
fn ack_says_why_it_cannot() {
    let dir = temp_dir();
    let refused = |ended: &Ended, code: i32, part: &str| {
        assert_eq!(ended.code(), code, "{}", ended.err);
        assert!(ended.err.starts_with("error: ") && ended.err.contains(part), "{}", ended.err);
        assert!(ended.err.contains("hint: "), "{}", ended.err);
    };
    let unset = run(seekless().args(["ack", "1"]).env_remove("SEEKLESS_ACKS"));
    refused(&unset, 2, "SEEKLESS_ACKS is not set");
    refused(&ack(Path::new(""), "1"), 2, "SEEKLESS_ACKS is not set");
    let plain = dir.path().join("plain");
    refused(&ack(&plain, "1"), 1, "cannot write to SEEKLESS_ACKS=");
    assert!(!plain.exists(), "a wrong path makes no file");
    fs::write(&plain, "0\n").expect("written");
    refused(&ack(&plain, ""), 2, "empty");
    refused(&ack(&plain, "a\nb"), 2, "newline");
    assert_eq!(ack(&plain, "-1").code(), 0);
    assert_eq!(fs::read_to_string(&plain).expect("read"), "0\n-1\n");
    let socket = dir.path().join("left");
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("a socket"));
    refused(&ack(&socket, "1"), 1, "refused");
    // A recorder that ends without a reply.
    let socket = dir.path().join("silent");
    let listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    std::thread::scope(|scope| {
        scope.spawn(|| drop(listener.accept().expect("a client")));
        let ended = ack(&socket, "1");
        assert_eq!(ended.code(), 1, "{}", ended.err);
    });
}

/// The directory of the program under test.
fn built() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_seekless")).parent().expect("a directory")
}

/// An example, ready to be run; `None`, visibly, if what it needs is missing.
fn example(name: &str, dir: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/acks").join(name);
    match name {
        "rows.rs" => {
            let rows = built().join("examples/rows");
            if !rows.is_file() {
                skip("the example is not built: cargo build -p seekless --example rows");
                return None;
            }
            Some(rows)
        }
        "rows.go" => {
            if !crate::harness::installed("go") {
                skip("go is not installed");
                return None;
            }
            let rows = dir.join("rows-of-go");
            succeed(command("go").arg("build").arg("-o").arg(&rows).arg(source));
            Some(rows)
        }
        _ => Some(source),
    }
}

fn rows(program: &Path, place: &Path, words: &[&str], dir: &Path) -> Ended {
    let path = std::env::join_paths(
        [built().to_owned()]
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let mut program = Command::new(program);
    program.env("PATH", path.expect("search path")).env("SEEKLESS_ACKS", place);
    run(program.arg(words[0]).arg(dir).args(&words[1..]))
}

/// The check of an example: true if it finds all rows.
fn finds(program: &Path, acked: &str, dir: &Path) -> bool {
    let mut check = Command::new(program);
    let ended = run(check.arg("check").arg(dir).env("SEEKLESS_ACKED", acked));
    assert!(matches!(ended.code(), 0 | 1), "{ended:?}");
    assert!(ended.code() == 0 || (ended.out + &ended.err).contains("row"), "it says why");
    ended.status.success()
}

/// The check takes whole rows, and finds what a crash may do to them.
fn its_check_can_fail(program: &Path, dir: &Path) {
    let file = dir.join("rows");
    let whole = fs::read(&file).expect("rows");
    assert!(finds(program, "6", dir) && finds(program, "3", dir) && finds(program, "", dir));
    assert!(!finds(program, "7", dir), "a row that is not there");
    let last = whole.len();
    fs::write(&file, &whole[..last - 1]).expect("written");
    assert!(!finds(program, "6", dir) && finds(program, "5", dir), "a torn row");
    for (at, byte) in [(0, b'9'), (last / 2, 0)] {
        let mut damaged = whole.clone();
        damaged[at] = byte;
        fs::write(&file, damaged).expect("written");
        assert!(!finds(program, "6", dir), "byte {at} is damaged");
    }
    fs::write(&file, "").expect("written");
    assert!(!finds(program, "1", dir) && finds(program, "", dir), "an empty file");
    fs::remove_file(&file).expect("removed");
    assert!(!finds(program, "1", dir) && finds(program, "", dir), "no file");
}

/// An example over the log of acknowledgements that `crash-test` gives, and over a plain file.
fn writes_to_files(name: &str) {
    let dir = temp_dir();
    let Some(program) = example(name, dir.path()) else { return };
    let (data, plain) = (dir.path().join("data"), dir.path().join("plain"));
    fs::create_dir(&data).expect("a directory");
    File::create(&plain).expect("a file");
    let ended = rows(&program, &plain, &["run", "6"], &data);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    assert_eq!(fs::read_to_string(&plain).expect("read"), "1\n2\n3\n4\n5\n6\n");
    its_check_can_fail(&program, &data);
    let (point, tape) = (dir.path().join("point"), dir.path().join("run.tape"));
    fs::create_dir(&point).expect("a directory");
    let mounted = match DiskDirectory::mount_at(&point) {
        Ok(mounted) => mounted,
        Err(error) => return skip(&format!("no FUSE here: {error}")),
    };
    let recorder = Recorder::create(&tape, 4096, false).expect("a recording");
    let log = Arc::new(Node::Acks(MarkFile::new(Arc::clone(&recorder))));
    let (_, acks) = mounted.insert_named("acks", log).expect("a name");
    let ended = rows(&program, &acks, &["run", "6"], &data);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    drop(mounted);
    assert_eq!(recorder.finish().expect("it ends").marks, 6);
    assert_eq!(marks(&tape), one_to(6));
    // Where it cannot acknowledge, it stops. A shell would make a file in a directory that exists.
    let nowhere = dir.path().join("none/acks");
    assert_ne!(rows(&program, &nowhere, &["run", "1"], &data).code(), 0);
}

/// An example over the socket of `record --acks`.
fn writes_to_a_socket(name: &str) {
    let dir = temp_dir();
    let Some(program) = example(name, dir.path()) else { return };
    let server = memory(dir.path());
    let proxy = recorder(dir.path(), server.uri());
    let ended = rows(&program, &dir.path().join("acks"), &["run", "6"], dir.path());
    assert_eq!(ended.code(), 0, "{}", ended.err);
    assert_eq!(proxy.stop().code(), 0);
    assert_eq!(marks(&dir.path().join("run.tape")), one_to(6));
    assert!(finds(&program, "6", dir.path()));
}

#[test]
fn rows_in_shell_are_acknowledged() {
    writes_to_files("rows.sh");
    writes_to_a_socket("rows.sh");
}

#[test]
fn rows_in_python_are_acknowledged() {
    require!("python3");
    writes_to_files("rows.py");
    writes_to_a_socket("rows.py");
}

#[test]
fn rows_in_rust_are_acknowledged() {
    writes_to_files("rows.rs");
    writes_to_a_socket("rows.rs");
}

#[test]
fn rows_in_go_are_acknowledged() {
    writes_to_files("rows.go");
}
