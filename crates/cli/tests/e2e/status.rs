//! What a process that serves says of itself: to `status`, to `top`, to Prometheus, to a signal.

use crate::harness::{
    Server, command, create, eventually, pattern, run, seekless, succeed, temp_dir,
};
use crate::mount::{Disk, possible};
use crate::nbd::Client;
use seekless_serve::status::Report;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

fn status(what: &Path) -> Command {
    let mut status = seekless();
    status.arg("status").arg(what);
    status
}

fn report(what: &Path) -> Report {
    let text = succeed(status(what).arg("--json"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Ten writes of a block, five reads, a flush.
fn work(socket: &Path) {
    let mut client = Client::connect(socket).expect("connection");
    let bytes = pattern(1, 4096);
    for block in 0..10 {
        client.write(block * 4096, &bytes, false).expect("writes");
    }
    for block in 0..5 {
        client.read(block * 4096, &mut [0; 4096]).expect("reads");
    }
    client.flush().expect("flushes");
    client.disconnect().expect("leaves");
}

#[test]
fn counts_are_those_of_the_clients_by_whatever_name_it_is_found() {
    let dir = temp_dir();
    let image = create(dir.path(), "vlog", "16M");
    let control = dir.path().join("control");
    let server = Server::with(&image, &["--control", control.to_str().expect("a path")]);
    work(server.socket());
    for name in [image.as_path(), server.socket(), control.as_path()] {
        let report = report(name);
        let requests = |kind: &str| report.requests.get(kind).map(|one| (one.count, one.bytes));
        assert_eq!(report.pid, server.pid(), "{}", name.display());
        assert_eq!(requests("write"), Some((10, 40_960)));
        assert_eq!(requests("read"), Some((5, 20_480)));
        assert_eq!(requests("flush"), Some((1, 0)));
        assert_eq!(report.requests["write"].latency.count(), 10);
        assert_eq!(report.layout.as_deref(), Some("vlog"));
        assert!(report.layout_counters["commits"] >= 1.0);
        assert!(report.devices[0].traffic.written_bytes >= 40_960);
        assert!(report.write_amplification().expect("writes") >= 1.0);
    }
    // What the disk that crashes says is beside it.
    let text = succeed(seekless().arg("control").arg(&control).arg("status"));
    assert!(text.contains("\"power\":\"on\"") && text.contains("\"requests\":{"), "{text}");
    let text = succeed(&mut status(&image));
    assert!(text.contains("vlog") && text.contains("write               10   40.0 KiB"), "{text}");
    assert_eq!(server.stop().code(), 0);
    // Then it says what the image holds.
    let text = succeed(&mut status(&image));
    assert!(text.contains("not served") && text.contains("layout   vlog"), "{text}");
}

#[test]
fn errors_are_counted() {
    let dir = temp_dir();
    let image = create(dir.path(), "inplace", "16M");
    let server = Server::with(&image, &["--faults", "eio-read=65536+4096"]);
    let mut client = Client::connect(server.socket()).expect("connection");
    let failed = (0..32).filter(|&block| client.read(block * 4096, &mut [0; 4096]).is_err());
    assert_eq!(failed.count(), 1, "one block cannot be read");
    let found = report(&image);
    let reads = &found.requests["read"];
    assert_eq!((reads.count, reads.errors, reads.bytes), (32, 1, 31 * 4096));
    assert_eq!((found.faults.count, found.devices[0].faults.count), (1, 1), "{found:?}");
    let text = succeed(&mut status(&image));
    let damage: Vec<&str> = text.lines().filter(|line| line.contains("DAMAGE")).collect();
    assert_eq!(damage.len(), 2, "{text}");
    assert!(
        damage[1].contains(&format!("requests to {} that failed: 1,", image.display())),
        "{text}"
    );
    let ended = server.stop();
    let name = format!("{}: 1 request failed: ", image.display());
    assert!(ended.err.contains(&name), "{}", ended.err);
    assert!(ended.err.contains("to clients: 1 request failed: block 15"), "{}", ended.err);
}

#[test]
fn all_servers_are_listed_and_what_a_crash_leaves_is_removed() {
    let dir = temp_dir();
    let registry = dir.path().join("run");
    let image = create(dir.path(), "inplace", "16M");
    let socket = dir.path().join("served");
    let list = || succeed(seekless().env("SEEKLESS_RUNTIME_DIR", &registry).arg("status"));
    assert_eq!(list(), "nothing is served or mounted by you\n");
    let mut serve = seekless();
    serve.env("SEEKLESS_RUNTIME_DIR", &registry);
    serve.arg("serve").arg(&image).arg("--socket").arg(&socket);
    let server = Server::start(serve, socket);
    let text = list();
    assert!(text.contains(image.to_str().expect("a path")), "{text}");
    server.kill();
    assert_eq!(registry.read_dir().expect("it was made").count(), 1);
    assert_eq!(list(), "nothing is served or mounted by you\n");
    assert_eq!(registry.read_dir().expect("it is there").count(), 0);
}

#[test]
fn a_registry_that_cannot_be_made_stops_no_server() {
    let dir = temp_dir();
    let image = create(dir.path(), "inplace", "16M");
    let socket = dir.path().join("served");
    let mut serve = seekless();
    serve.env("SEEKLESS_RUNTIME_DIR", dir.path().join("not/there"));
    serve.arg("serve").arg(&image).arg("--socket").arg(&socket);
    let server = Server::start(serve, socket);
    work(server.socket());
    let ended = server.stop();
    assert_eq!(ended.code(), 0);
    assert!(ended.err.contains("WARN seekless: `seekless status` will not find"), "{}", ended.err);
}

#[test]
fn wrong_names_are_told() {
    let dir = temp_dir();
    let missing = run(&mut status(&dir.path().join("missing")));
    assert_eq!(missing.code(), 1, "{}", missing.err);
    assert!(missing.err.contains("No such file"), "{}", missing.err);
    let no_mount = run(&mut status(dir.path()));
    assert!(no_mount.err.contains("no file system of yours"), "{}", no_mount.err);
    let text = dir.path().join("text");
    std::fs::write(&text, "no volume").expect("writes");
    assert_ne!(run(&mut status(&text)).code(), 0);
    let listener = std::os::unix::net::UnixListener::bind(dir.path().join("dead")).expect("binds");
    drop(listener);
    let dead = run(&mut status(&dir.path().join("dead")));
    assert!(dead.err.contains("nothing listens there"), "{}", dead.err);
}

#[test]
fn prometheus_is_answered_and_nothing_else_is() {
    let dir = temp_dir();
    let image = create(dir.path(), "lfs", "16M");
    let log = dir.path().join("log");
    let mut serve = seekless();
    serve.arg("serve").arg(&image).args(["--metrics", "127.0.0.1:0", "--socket"]);
    let socket = dir.path().join("served");
    serve.arg(&socket);
    // The address is in the log.
    let mut shell = command("sh");
    shell.arg("-c").arg(format!("exec {} 2>{}", quoted(&serve), log.display()));
    let server = Server::start(shell, socket);
    work(server.socket());
    let said = std::fs::read_to_string(&log).expect("a log");
    let address = said.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    let address = address.unwrap_or_else(|| panic!("no address in {said}"));
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(address).expect("connects");
        stream.write_all(request.as_bytes()).expect("asks");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    let answer = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("openmetrics-text"), "{answer}");
    assert!(answer.contains("\nseekless_requests_total{kind=\"write\"} 10.0\n"), "{answer}");
    assert!(answer.ends_with("# EOF\n"), "{answer}");
    assert!(ask("GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    // A port of the network takes no commands.
    assert!(ask("{\"command\":\"status\"}\n\n").starts_with("HTTP/1.1 400"));
    assert_eq!(server.stop().code(), 0);
}

/// The command as a line for a shell.
fn quoted(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(|word| format!("'{}'", word.to_string_lossy())).collect();
    words.join(" ")
}

#[test]
fn sigusr1_logs_a_line_and_ends_nothing() {
    let dir = temp_dir();
    let image = create(dir.path(), "inplace", "16M");
    let server = Server::with(&image, &["--log-json"]);
    let pid = rustix::process::Pid::from_raw(server.pid() as i32).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::USR1).expect("signal");
    work(server.socket());
    rustix::process::kill_process(pid, rustix::process::Signal::USR1).expect("signal");
    // The line is written before the next answer.
    report(&image);
    let ended = server.stop();
    assert_eq!(ended.code(), 0);
    let lines = ended.err.lines().filter(|line| line.contains("\"message\":\"status: "));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 2, "{}", ended.err);
    assert!(lines[1].contains("5 reads, 10 writes, 1 flushes, 0 errors"), "{}", lines[1]);
    let json: serde_json::Value = serde_json::from_str(lines[0]).expect("JSON");
    assert_eq!(json["level"], "INFO");
    assert!(json["timestamp"].is_string());
}

#[test]
fn quiet_logs_have_what_is_severe_alone() {
    let dir = temp_dir();
    let image = create(dir.path(), "inplace", "16M");
    let server = Server::with(&image, &["--log-level", "error"]);
    work(server.socket());
    let ended = server.stop();
    assert!(!ended.err.contains("INFO"), "{}", ended.err);
}

#[test]
fn top_prints_lines_and_refuses_to_draw_into_a_file() {
    let dir = temp_dir();
    let image = create(dir.path(), "inplace", "16M");
    let server = Server::image(&image);
    let mut top = seekless();
    top.arg("top").arg(&image).args(["--lines", "2", "--interval", "0.1"]);
    let text = succeed(&mut top);
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.starts_with("0 requests/s, 0 B/s read"), "{text}");
    let refused = run(seekless().arg("top").arg(&image));
    assert_eq!(refused.code(), 2, "{}", refused.err);
    assert!(refused.err.contains("--lines N"), "{}", refused.err);
    drop(server);
    let refused = run(seekless().arg("top").arg(&image));
    assert!(refused.err.contains("it is not served"), "{}", refused.err);
}

#[test]
fn a_mount_says_how_it_is() {
    if !possible() {
        return;
    }
    let disk = Disk::new("vlog", "32M", &[]);
    let mounted = disk.mount(&["--policy", "soft"]);
    std::fs::write(mounted.path("file"), pattern(3, 50_000)).expect("writes");
    let file = std::fs::File::open(mounted.path("file")).expect("opens");
    file.sync_all().expect("syncs");
    drop(file);
    for name in [disk.image(), mounted.point.clone()] {
        let report = report(&name);
        assert_eq!(report.requests["flush"].count, 1);
        assert!(report.requests["write"].bytes >= 50_000);
        let file_system = report.file_system.expect("a file system");
        assert_eq!(file_system.policy, "soft");
        assert!(!file_system.counters.is_empty());
    }
    mounted.unmount();
    eventually("its end", || run(status(&disk.image()).arg("--json")).out.contains("\"layout\""));
}
