//! The recording proxy between foreign servers and foreign clients.

use crate::harness::{
    Helper, Server, check_is_clean, command, create, eventually, layouts, pattern, run, seekless,
    succeed, temp_dir,
};
use crate::load::fio;
use crate::nbd::Client;
use crate::require;
use std::fs;
use std::path::Path;
use std::process::Stdio;

/// Starts a recorder in front of a server.
pub fn recorder(dir: &Path, upstream: &str) -> Server {
    let socket = dir.join("tape.sock");
    let mut command = seekless();
    command.arg("record").args(["--upstream", upstream, "--force"]);
    command.arg("--socket").arg(&socket).arg("--output").arg(dir.join("run.tape"));
    Server::start(command, socket)
}

/// A foreign server (nbdkit), over `disk.raw` in the directory.
fn foreign(dir: &Path, name: &str, size: u64) -> (Helper, String) {
    let (raw, socket) = (dir.join("disk.raw"), dir.join("upstream.sock"));
    fs::File::create(&raw).and_then(|file| file.set_len(size)).expect("an empty disk");
    let mut server = command(name);
    match name {
        "qemu-nbd" => {
            server.args(["--format=raw", "--persistent", "--shared=16"]);
            server.arg(format!("--socket={}", socket.display())).arg(&raw);
        }
        _ => {
            server.args(["--foreground", "--unix"]).arg(&socket).arg("file").arg(&raw);
        }
    }
    let child = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let helper = Helper(child);
    eventually(name, || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    (helper, format!("nbd+unix:///?socket={}", socket.display()))
}

/// Writes and reads through the proxy arrive, and the recording alone suffices to make the disk
/// again.
fn passes_everything_on(name: &str) {
    require!(name, "nbdcopy", "fio");
    const SIZE: u64 = 32 << 20;
    let dir = temp_dir();
    let (_server, upstream) = foreign(dir.path(), name, SIZE);
    let proxy = recorder(dir.path(), &upstream);
    let (there, back) = (dir.path().join("there"), dir.path().join("back"));
    let mut content = pattern(1, SIZE as usize);
    // Holes, so that zeros travel as such.
    content[5 << 20..9 << 20].fill(0);
    fs::write(&there, &content).expect("write");
    let copy = ["--connections=4", "--flush"];
    succeed(command("nbdcopy").args(copy).arg(&there).arg(proxy.uri()));
    succeed(command("nbdcopy").args(copy).arg(proxy.uri()).arg(&back));
    assert!(fs::read(&back).expect("read") == content, "content differs");
    let load = ["--rw=randwrite", "--bssplit=512/20:4k/60:64k/20", "--iodepth=16", "--size=16m"];
    let verify = ["--verify=crc32c", "--verify_fatal=1", "--do_verify=1", "--fsync=64"];
    succeed(fio(proxy.uri(), dir.path(), &load).args(verify));
    let ended = proxy.stop();
    assert_eq!(ended.code(), 0, "{}", ended.err);
    assert!(ended.err.contains("requests of"), "{}", ended.err);
    let held = fs::read(dir.path().join("disk.raw")).expect("read");
    let last = last_state(dir.path(), None);
    assert!(fs::read(last).expect("read") == held, "the recording is another disk");
}

/// Writes the state in which everything was kept to a file.
pub fn last_state(dir: &Path, base: Option<&Path>) -> std::path::PathBuf {
    let replay = || {
        let mut replay = seekless();
        replay.arg("replay-crashes").arg(dir.join("run.tape"));
        if let Some(base) = base {
            replay.arg("--base").arg(base);
        }
        replay
    };
    // The check cannot fail, and no acknowledgement says that it could.
    let all = ["--check", "true {device}", "--samples", "0", "--exhaustive", "0", "--json"];
    let report = succeed(replay().args(all));
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let (path, events) = (dir.join("last.raw"), &report["tape"]["events"]);
    succeed(replay().args(["--state", &format!("{events}:keep")]).arg("--keep").arg(&path));
    path
}

/// For every layout: the last state is the content that clients see, and every crash state can be
/// made.
#[test]
fn recordings_of_every_layout_are_byte_exact() {
    for layout in layouts() {
        let dir = temp_dir();
        let image = create(dir.path(), &layout, "4M");
        let server = Server::image(&image);
        let proxy = recorder(dir.path(), server.uri());
        let mut client = Client::connect(proxy.socket()).expect("connection");
        for n in 0..60 {
            let at = n * 37 % 250 * 4096;
            match n % 6 {
                4 => client.trim(at, 3 * 4096).expect("trim"),
                5 => client.flush().expect("flush"),
                kind => {
                    let length = 512 + kind as usize * 4096;
                    client.write(at, &pattern(n, length), kind == 3).expect("write");
                }
            }
        }
        let mut held = vec![0; 4 << 20];
        client.read(0, &mut held).expect("read");
        client.disconnect().expect("goodbye");
        assert_eq!(proxy.stop().code(), 0);
        assert_eq!(server.stop().code(), 0);
        check_is_clean(&image);
        let last = fs::read(last_state(dir.path(), None)).expect("read");
        assert!(last == held, "{layout}: the recording is another disk");
        let mut states = seekless();
        states.arg("replay-crashes").arg(dir.path().join("run.tape"));
        let check = "test $(wc -c < {device}) = 4194304";
        let report = succeed(states.args(["--check", check, "--samples", "4", "--json"]));
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        assert!(
            report["coverage"]["tried"].as_u64().expect("a number") > 10,
            "{layout}: {report:#}"
        );
    }
}

#[test]
fn a_recording_of_qemu_nbd_is_byte_exact() {
    passes_everything_on("qemu-nbd");
}

#[test]
fn a_recording_of_nbdkit_is_byte_exact() {
    passes_everything_on("nbdkit");
}

#[test]
fn recorders_refuse_what_cannot_be_and_say_why() {
    let dir = temp_dir();
    let (socket, tape) = (dir.path().join("s"), dir.path().join("t"));
    let record = |upstream: &str| {
        let mut command = seekless();
        command.args(["record", "--upstream", upstream, "--socket"]).arg(&socket);
        run(command.arg("--output").arg(&tape))
    };
    let unserved = record("nbd+unix:///?socket=/nonexistent/sock");
    assert_eq!(unserved.code(), 1);
    assert!(unserved.err.contains("cannot record nbd+unix:"), "{}", unserved.err);
    assert!(!tape.exists(), "nothing was recorded");
    let senseless = record("/tmp/sock");
    assert_eq!(senseless.code(), 2);
    assert!(senseless.err.contains("is not a URI"), "{}", senseless.err);
    let server = memory(dir.path());
    fs::write(&tape, "precious").expect("write");
    let exists = record(server.uri());
    assert_eq!(exists.code(), 1);
    assert!(exists.err.contains("--force"), "{}", exists.err);
    assert_eq!(fs::read(&tape).expect("read"), b"precious");
}

/// A server of a small volume in memory.
pub fn memory(dir: &Path) -> Server {
    let socket = dir.join("memory.sock");
    let mut command = seekless();
    command.args(["serve", "--memory", "1M", "--layout", "inplace", "--socket"]).arg(&socket);
    Server::start(command, socket)
}

#[test]
fn a_server_that_dies_under_its_clients_is_told_of() {
    let dir = temp_dir();
    let server = memory(dir.path());
    let proxy = recorder(dir.path(), server.uri());
    let mut client = Client::connect(proxy.socket()).expect("connection");
    client.write(0, &[1; 4096], false).expect("write");
    server.kill();
    assert!(client.write(0, &[2; 4096], false).is_err());
    // One more connection, without a handshake.
    let begin = std::time::Instant::now();
    assert!(Client::connect(proxy.socket()).is_err());
    assert!(begin.elapsed().as_secs() < 20, "it was not left to wait");
    let ended = proxy.stop();
    assert_eq!(ended.code(), 1, "{}", ended.err);
    assert!(ended.err.contains("the server closed the connection with"), "{}", ended.err);
    assert!(ended.err.contains("2 connections were lost"), "{}", ended.err);
    // A client may disconnect without a message: that is no failure of the recording.
    let server = memory(dir.path());
    let proxy = recorder(dir.path(), server.uri());
    drop(Client::connect(proxy.socket()).expect("connection"));
    let _open = Client::connect(proxy.socket()).expect("connection");
    let ended = proxy.stop();
    assert_eq!(ended.code(), 0, "{}", ended.err);
    assert!(ended.err.contains("it ended without a disconnect request"), "{}", ended.err);
}

#[test]
fn what_follows_a_recording_is_told_of() {
    let dir = temp_dir();
    let server = memory(dir.path());
    let proxy = recorder(dir.path(), server.uri());
    let mut client = Client::connect(proxy.socket()).expect("connection");
    client.write(0, &[1; 4096], false).expect("write");
    client.disconnect().expect("goodbye");
    assert_eq!(proxy.stop().code(), 0);
    let tape = dir.path().join("run.tape");
    let bytes = fs::read(&tape).expect("read");
    fs::write(&tape, [&bytes[..], &bytes].concat()).expect("write");
    let replay = |more: &[&str]| {
        let mut command = seekless();
        command.arg("replay-crashes").arg(&tape).args(["--check", "true {device}"]);
        run(command.args(more))
    };
    let ended = replay(&[]);
    assert_eq!(ended.code(), 3, "{ended:?}");
    let truncate = format!("truncate -s {}", bytes.len());
    assert!(ended.err.contains(&truncate) && ended.err.contains("were not tried"), "{}", ended.err);
    assert_eq!(replay(&["--cut-short"]).code(), 0);
    let base = replay(&["--base", dir.path().to_str().expect("a name")]);
    assert_eq!(base.code(), 3);
    assert!(base.err.contains("neither a file nor a block device"), "{}", base.err);
}

#[test]
fn a_killed_recorder_leaves_a_usable_recording() {
    let dir = temp_dir();
    let server = memory(dir.path());
    let proxy = recorder(dir.path(), server.uri());
    let mut client = Client::connect(proxy.socket()).expect("connection");
    for at in 0..10 {
        client.write(at * 4096, &pattern(at, 4096), false).expect("write");
    }
    client.flush().expect("flush");
    proxy.kill();
    let tape = dir.path().join("run.tape");
    let replay = |more: &[&str]| {
        let mut command = seekless();
        command.arg("replay-crashes").arg(&tape).args(["--check", "true {device}"]);
        run(command.args(more))
    };
    let ended = replay(&[]);
    assert_eq!(ended.code(), 3, "{}", ended.err);
    assert!(ended.err.contains("cut short: 22 events"), "{}", ended.err);
    assert_eq!(replay(&["--cut-short"]).code(), 0);
    // In the middle of a record, and damaged.
    let bytes = fs::read(&tape).expect("read");
    fs::write(&tape, &bytes[..bytes.len() - 50]).expect("write");
    assert!(replay(&[]).err.contains("cut short: 20 events"));
    let mut bad = bytes.clone();
    bad[5000] ^= 1;
    fs::write(&tape, &bad).expect("write");
    let damaged = replay(&[]);
    assert_eq!(damaged.code(), 3);
    let doubt = "no state is bad, but the recording is damaged at byte";
    assert!(damaged.err.contains(doubt), "{}", damaged.err);
    assert!(!damaged.err.contains("cut short:"), "{}", damaged.err);
    assert_eq!(replay(&["--cut-short"]).code(), 0);
    fs::write(&tape, "no recording at all").expect("write");
    let foreign = replay(&[]);
    assert_eq!(foreign.code(), 3);
    assert!(foreign.err.contains("this is not a recording"), "{}", foreign.err);
}
