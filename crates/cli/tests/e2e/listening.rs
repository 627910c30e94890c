//! How a server starts and stops: it opens an image only if it can listen, and each signal for it
//! to stop causes a clean shutdown.

use crate::each_layout;
use crate::harness::{
    PATIENCE, Server, check_is_clean, create, pattern, run, seekless, seekless_of_terminal,
    succeed, temp_dir,
};
use crate::nbd::Client;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;

each_layout!(a_server_that_cannot_listen_leaves_the_image_alone, a_hangup_is_a_clean_shutdown);

fn a_server_that_cannot_listen_leaves_the_image_alone(layout: &str) {
    let dir = temp_dir();
    let image = create(dir.path(), layout, "8M");
    fill(&image);
    let before = fs::read(&image).expect("read");
    let port = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = port.local_addr().expect("address").to_string();
    let path = dir.path().join("taken.sock");
    let _listener = UnixListener::bind(&path).expect("a socket");
    let path = path.to_str().expect("text");
    let long = format!("/tmp/{}", "long".repeat(50));
    let control = dir.path().join("free.sock");
    let free = control.to_str().expect("text");
    for (code, args) in [
        (4, vec!["--socket", path]),
        (4, vec!["--listen", &taken]),
        (1, vec!["--listen", "no-such-host.invalid:10809"]),
        (1, vec!["--socket", "/nonexistent/disk.sock"]),
        (2, vec!["--listen", "nowhere"]),
        (2, vec!["--listen", "0.0.0.0:0"]),
        (2, vec!["--listen", "[::]:0"]),
        (2, vec!["--socket", &long]),
        (4, vec!["--socket", free, "--control", path]),
    ] {
        let ended = run(seekless().arg("serve").arg(&image).args(&args));
        assert_eq!(ended.code(), code, "{args:?}: {}", ended.err);
        assert_eq!(ended.out, "", "{args:?}");
        assert!(fs::read(&image).expect("read") == before, "{args:?} changed the image");
    }
    assert!(!control.exists(), "a refused server left its socket behind");
}

fn fill(image: &Path) {
    let server = Server::image(image);
    let mut client = Client::connect(server.socket()).expect("connection");
    client.write(0, &pattern(5, 1 << 20), false).expect("write");
    client.disconnect().expect("goodbye");
    assert_eq!(server.stop().code(), 0);
}

/// SIGHUP, as a closed terminal sends it.
fn a_hangup_is_a_clean_shutdown(layout: &str) {
    let dir = temp_dir();
    let image = create(dir.path(), layout, "8M");
    let socket = image.with_extension("sock");
    let mut command = seekless_of_terminal();
    command.arg("serve").arg(&image).arg("--socket").arg(&socket);
    let mut server = Server::start(command, socket);
    let mut client = Client::connect(server.socket()).expect("connection");
    client.write(0, &pattern(6, 1 << 20), false).expect("write");
    client.disconnect().expect("goodbye");
    let pid = rustix::process::Pid::from_raw(server.pid() as i32).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("signal");
    let ended = server.ended();
    assert_eq!(ended.code(), 0, "{}", ended.err);
    assert!(!server.socket().exists(), "the socket is left behind");
    let report = succeed(seekless().args(["check", "--json"]).arg(&image));
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let expected = if layout == "inplace" { "stateless" } else { "tail" };
    assert_eq!(report["mount"]["path"], expected, "{report:#}");
    check_is_clean(&image);
}

/// Under `nohup`, a server must survive SIGHUP.
#[test]
fn a_hangup_that_is_ignored_ends_nothing() {
    let dir = temp_dir();
    let image = create(dir.path(), "inplace", "1M");
    let socket = dir.path().join("disk.sock");
    let mut command = crate::harness::command("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_seekless"), "serve"]);
    command.arg(&image).arg("--socket").arg(&socket);
    let server = Server::start(command, socket);
    let pid = rustix::process::Pid::from_raw(server.pid() as i32).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("signal");
    let mut client = Client::connect(server.socket()).expect("connection");
    client.read(0, &mut [0; 4096]).expect("read");
    client.disconnect().expect("goodbye");
    assert_eq!(server.stop().code(), 0);
}

#[test]
fn who_cannot_listen_hears_what_helps() {
    let dir = temp_dir();
    let port = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = port.local_addr().expect("address").to_string();
    let long = format!("/tmp/{}", "l".repeat(103));
    for (args, why) in [
        (["--listen", &taken], "hint: end the server that listens there"),
        (["--listen", "no-such-host.invalid:10809"], "hint: give a name that is known here"),
        (["--listen", "0.0.0.0:0"], "hint: listen on 127.0.0.1 or on a --socket, or accept it"),
        (["--socket", "/nonexistent/disk.sock"], "hint: make the directory"),
        (["--socket", &long], "the path has 108 bytes, that of a socket at most 107"),
    ] {
        let memory = ["serve", "--memory", "1M", "--layout", "inplace"];
        let ended = run(seekless().args(memory).args(args));
        assert!(ended.err.contains(why), "{args:?}: {}", ended.err);
    }
    let missing = dir.path().join("missing");
    let mut raw = seekless();
    let ended = run(raw.arg("serve").arg("--raw").arg(&missing).args(["--socket", "never"]));
    assert_eq!(ended.code(), 3, "{}", ended.err);
    assert!(ended.err.contains("truncate -s 1G"), "{}", ended.err);
}

#[test]
fn other_machines_may_connect_on_demand() {
    let mut command = seekless();
    command.args(["serve", "--memory", "1M", "--layout", "inplace", "--listen", "0.0.0.0:0"]);
    command.arg("--insecure");
    let server = Server::start(command, "none".into());
    assert!(server.uri().starts_with("nbd://0.0.0.0:"), "{}", server.uri());
    assert_eq!(server.stop().code(), 0);
}

/// No client would learn where it listens.
#[test]
fn a_server_whose_uri_cannot_be_printed_ends_in_order() {
    let dir = temp_dir();
    let image = create(dir.path(), "vlog", "8M");
    let socket = dir.path().join("disk.sock");
    let mut command = crate::harness::command("sh");
    command.args(["-c", "exec \"$@\" > /dev/full", "sh", env!("CARGO_BIN_EXE_seekless"), "serve"]);
    let ended = run(command.arg(&image).arg("--socket").arg(&socket));
    assert_eq!(ended.code(), 1, "{}", ended.err);
    assert!(ended.err.contains("error: cannot write the output"), "{}", ended.err);
    assert!(!socket.exists(), "the socket is left behind");
    let report = succeed(seekless().args(["check", "--json"]).arg(&image));
    assert!(report.contains("\"path\":\"tail\""), "{report}");
}

/// Closing a socket with unread bytes is an error at the other side.
#[test]
fn a_client_that_is_sending_at_the_end_sees_an_end_and_no_error() {
    let dir = temp_dir();
    let image = create(dir.path(), "inplace", "1M");
    let mut server = Server::image(&image);
    let mut stream = UnixStream::connect(server.socket()).expect("connection");
    stream.read_exact(&mut [0; 18]).expect("a greeting");
    let pid = rustix::process::Pid::from_raw(server.pid() as i32).expect("a process");
    let signal = |signal| rustix::process::kill_process(pid, signal).expect("signal");
    // The server receives the signal first and the bytes right after it.
    signal(rustix::process::Signal::STOP);
    signal(rustix::process::Signal::TERM);
    stream.write_all(&[0; 96 << 10]).expect("the socket has room");
    signal(rustix::process::Signal::CONT);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("an end, not an error");
    drop(stream);
    // A second signal would stop it at once.
    assert_eq!(server.ended().code(), 0);
}

/// What systemd does for a service with a socket unit: the socket is descriptor 3, and a datagram
/// says when the server is ready.
#[test]
fn systemd_passes_the_socket_and_hears_when_the_server_is_ready() {
    let dir = temp_dir();
    let socket = dir.path().join("disk.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let manager = UnixDatagram::bind(dir.path().join("notify")).expect("a socket");
    manager.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut command = crate::harness::command("sh");
    let start = "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$@\"";
    command.args(["-c", start, "sh", env!("CARGO_BIN_EXE_seekless"), "serve", "--systemd"]);
    command.args(["--memory", "1M", "--layout", "inplace"]);
    command.env("NOTIFY_SOCKET", dir.path().join("notify")).stdin(OwnedFd::from(listener));
    let server = Server::start(command, socket.clone());
    assert!(server.uri().ends_with("/disk.sock"), "{}", server.uri());
    let heard = || {
        let mut state = [0; 64];
        let length = manager.recv(&mut state).expect("a datagram");
        String::from_utf8_lossy(&state[..length]).into_owned()
    };
    assert_eq!(heard(), "READY=1");
    let mut client = Client::connect(&socket).expect("connection");
    client.read(0, &mut [0; 4096]).expect("read");
    client.disconnect().expect("goodbye");
    assert_eq!(server.stop().code(), 0);
    assert_eq!(heard(), "STOPPING=1");
    assert!(socket.exists(), "the socket belongs to systemd");
}

#[test]
fn a_server_that_systemd_has_not_started_says_so() {
    let memory = ["serve", "--systemd", "--memory", "1M", "--layout", "inplace"];
    let ended = run(seekless().args(memory));
    assert_eq!(ended.code(), 2, "{}", ended.err);
    assert!(ended.err.contains("--systemd: systemd passed 0 sockets"), "{}", ended.err);
}
