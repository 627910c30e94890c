//! The disk that crashes on demand.

use crate::each_layout;
use crate::harness::{
    Ended, Server, check_is_clean, create, layouts, pattern, run, seekless, succeed, temp_dir,
};
use crate::nbd::Client;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

each_layout!(flushed_writes_survive_power_cuts);

#[test]
fn flushed_writes_survive_power_cuts_on_the_other_layouts() {
    for layout in layouts() {
        if !["inplace", "vlog", "loge", "lfs"].contains(&layout.as_str()) {
            flushed_writes_survive_power_cuts(&layout);
        }
    }
}

fn control(dir: &Path, words: &[&str]) -> Ended {
    run(seekless().arg("control").arg(dir.join("ctl")).args(words))
}

fn told(dir: &Path, words: &[&str]) -> serde_json::Value {
    let ended = control(dir, words);
    assert_eq!(ended.code(), 0, "{words:?}: {}", ended.err);
    serde_json::from_str(&ended.out).expect("JSON")
}

/// A device with bad blocks where data goes: what can be placed elsewhere is, and is there after a
/// clean shutdown and after a crash. A layout that writes in place ends with the cause.
#[test]
fn data_goes_elsewhere_where_a_device_is_bad() {
    for (layout, copes) in [("vlog", true), ("loge", true), ("inplace", false)] {
        let dir = temp_dir();
        let image = create(dir.path(), layout, "16M");
        let ctl = dir.path().join("ctl");
        // Blocks of data: labels of Loge have fixed places.
        let mut more = vec!["--faults", "eio-write=6148k+4k", "--faults", "eio-write=3076k+64k"];
        more.extend(["--control", ctl.to_str().expect("a name")]);
        for life in 0..3 {
            let server = Server::with(&image, &more);
            let mut client = Client::connect(server.socket()).expect("connection");
            let bytes = pattern(life, 12 << 20);
            let mut written = bytes.chunks(256 << 10).zip((0..).step_by(256 << 10));
            let took = written.try_for_each(|(part, at)| client.write(at, part, false));
            let took = took.and_then(|()| client.flush());
            if !copes {
                took.expect_err("a bad place");
                assert_ne!(server.stop().code(), 0);
                break;
            }
            took.unwrap_or_else(|error| panic!("{layout}, life {life}: {error}"));
            let status = succeed(seekless().arg("status").arg(&image));
            assert!(status.contains("blocks of the device refuse writes"), "{status}");
            if life == 1 {
                told(dir.path(), &["cut"]);
                told(dir.path(), &["restart"]);
                client = Client::connect(server.socket()).expect("connection");
            }
            let mut found = vec![0; bytes.len()];
            for (at, part) in (0..).step_by(1 << 20).zip(found.chunks_mut(1 << 20)) {
                client.read(at, part).expect("reads");
            }
            assert!(found == bytes, "{layout}, life {life}");
            drop(client);
            assert_eq!(server.stop().code(), 0, "{layout}, life {life}");
            check_is_clean(&image);
        }
    }
}

/// A raw disk of a mebibyte that can crash.
fn raw(dir: &Path, more: &[&str]) -> Server {
    let disk = dir.join("disk.raw");
    if !disk.exists() {
        fs::write(&disk, vec![0; 1 << 20]).expect("an empty disk");
    }
    let socket = dir.join("disk.sock");
    let mut serve = seekless();
    serve.arg("serve").arg("--raw").arg(&disk).arg("--socket").arg(&socket);
    serve.arg("--control").arg(dir.join("ctl")).args(more);
    Server::start(serve, socket)
}

const BLOCK: u64 = 4096;

/// Power cuts at random points. Flushed data must survive each, on any layout.
fn flushed_writes_survive_power_cuts(layout: &str) {
    let dir = temp_dir();
    let image = create(dir.path(), layout, "4M");
    let ctl = dir.path().join("ctl");
    let more = ["--faults", "seed=5", "--control", ctl.to_str().expect("a name")];
    let server = Server::with(&image, &more);
    let mut durable = [0_u64; 64];
    let mut newest = durable;
    let mut version = 0;
    for round in 0..12 {
        // Taken before the fault is armed, because writes of the layout itself may trigger it.
        let mut client = Client::connect(server.socket()).expect("connection");
        told(dir.path(), &["arm", "cut-at-random=60"]);
        loop {
            version += 1;
            let at = version * 7 % 64;
            // In doubt from the moment it is sent.
            newest[at as usize] = version;
            if client.write(at * BLOCK, &pattern(version, BLOCK as usize), false).is_err() {
                break;
            }
            if version % 5 == 0 && client.flush().is_ok() {
                durable = newest;
            }
        }
        let cut = &told(dir.path(), &["log"])["cut"];
        assert_eq!(cut["number"], round + 1, "{cut}");
        assert!(Client::connect(server.socket()).is_err(), "the power is off");
        told(dir.path(), &["restart"]);
        let mut client = Client::connect(server.socket()).expect("connection");
        let mut found = vec![0; BLOCK as usize];
        for at in 0..64 {
            client.read(at * BLOCK, &mut found).expect("read");
            let (oldest, last) = (durable[at as usize], newest[at as usize]);
            let known = (oldest..=last).filter(|version| version * 7 % 64 == at);
            let zeros = oldest == 0 && found.iter().all(|&byte| byte == 0);
            let version = known.rev().find(|&version| found == pattern(version, BLOCK as usize));
            // Layouts that update in place promise no more than a disk does.
            if version.is_none() && !zeros && ["inplace", "hylog", "dcd"].contains(&layout) {
                continue;
            }
            assert!(version.is_some() || zeros, "round {round}: block {at} holds nothing known");
        }
        for at in 0..64 {
            // The next version of this block.
            version = (version + 1..).find(|version| version * 7 % 64 == at).expect("one in 64");
            newest[at as usize] = version;
            client.write(at * BLOCK, &pattern(version, BLOCK as usize), false).expect("write");
        }
        client.flush().expect("flush");
        durable = newest;
        client.disconnect().expect("goodbye");
    }
    let ended = server.stop();
    assert_eq!(ended.code(), 0, "{}", ended.err);
    assert!(ended.err.contains("power cut 12 (cut-at-random=60)"), "{}", ended.err);
    check_is_clean(&image);
}

#[test]
fn impossible_faults_are_refused_while_serving_and_nothing_of_them_is_armed() {
    let dir = temp_dir();
    let server = raw(dir.path(), &[]);
    let refused = control(dir.path(), &["arm", "slow=5", "eio=100G+4k"]);
    assert_eq!(refused.code(), 1);
    assert!(refused.err.contains("has 1048576 bytes"), "{}", refused.err);
    assert_eq!(told(dir.path(), &["status"])["armed"], serde_json::json!([]));
    let status =
        told(dir.path(), &["arm", "cut-at-write=1000", "cut-at-write=18446744073709551615"]);
    assert_eq!(status["armed"], serde_json::json!(["cut-at-write=18446744073709551615"]));
    let mut client = Client::connect(server.socket()).expect("connection");
    client.write(0, &[1; 512], false).expect("the power is on");
    client.write(0, &[1; 512], false).expect("the power is on");
    client.disconnect().expect("goodbye");
    assert_eq!(server.stop().code(), 0);
}

#[test]
fn the_power_goes_on_command_and_comes_back() {
    let dir = temp_dir();
    let server = raw(dir.path(), &["--faults", "unflushed=lose"]);
    let mut client = Client::connect(server.socket()).expect("connection");
    client.write(0, &[1; 4096], false).expect("write");
    client.flush().expect("flush");
    client.write(0, &[2; 4096], false).expect("write");
    let status = told(dir.path(), &["status"]);
    assert_eq!((&status["power"], &status["unflushed"]), (&"on".into(), &1.into()), "{status}");
    assert_eq!(status["armed"][0], "unflushed=lose");
    let cut = &told(dir.path(), &["cut"])["cut"];
    assert_eq!((&cut["lost"], &cut["cause"]), (&1.into(), &"on command".into()), "{cut}");
    assert_eq!(cut["fates"][0]["fate"], "lost");
    assert!(client.read(0, &mut [0; 512]).is_err(), "the connection has ended");
    assert!(control(dir.path(), &["cut"]).err.contains("the power is off already"));
    told(dir.path(), &["restart"]);
    assert!(control(dir.path(), &["restart"]).err.contains("the power is on"));
    let mut client = Client::connect(server.socket()).expect("connection");
    let mut found = [0; 4096];
    client.read(0, &mut found).expect("read");
    assert_eq!(found, [1; 4096]);
    client.write(4096, &[3; 4096], false).expect("write");
    // A clean shutdown writes the cache out.
    assert_eq!(server.stop().code(), 0);
    let held = fs::read(dir.path().join("disk.raw")).expect("read");
    assert_eq!((held[0], held[4096]), (1, 3));
}

#[test]
fn requests_can_fail_in_place_of_connections() {
    let dir = temp_dir();
    let server = raw(dir.path(), &["--on-cut", "error", "--faults", "cut-on-flush,unflushed=keep"]);
    let mut client = Client::connect(server.socket()).expect("connection");
    client.write(0, &[1; 4096], false).expect("write");
    const ESHUTDOWN: i32 = 108;
    let failed = |result: std::io::Result<()>| result.expect_err("no power").raw_os_error();
    assert_eq!(failed(client.flush()), Some(ESHUTDOWN));
    assert_eq!(failed(client.write(0, &[2; 512], false)), Some(ESHUTDOWN));
    told(dir.path(), &["restart"]);
    let mut found = [0; 512];
    client.read(0, &mut found).expect("the same connection");
    assert_eq!(found, [1; 512]);
    told(dir.path(), &["arm", "eio=64k+4k", "enospc=1", "slow=30"]);
    let begin = std::time::Instant::now();
    assert_eq!(failed(client.read(65_536, &mut found)), Some(5));
    assert!(begin.elapsed().as_millis() >= 30, "{:?}", begin.elapsed());
    assert_eq!(failed(client.write(0, &[2; 512], false)), Some(28));
    let status = told(dir.path(), &["clear"]);
    assert_eq!((&status["fired"]["eio"], &status["fired"]["enospc"]), (&1.into(), &1.into()));
    client.write(0, &[2; 512], false).expect("healed");
    // A stuck request is answered when it is released.
    told(dir.path(), &["arm", "stuck"]);
    let waiter = std::thread::spawn(move || client.flush());
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(!waiter.is_finished());
    told(dir.path(), &["clear"]);
    waiter.join().expect("no panic").expect("answered");
    assert_eq!(server.stop().code(), 0);
}

#[test]
fn no_request_waits_for_a_slow_disk_that_is_cleared_or_that_ends() {
    let dir = temp_dir();
    let server = raw(dir.path(), &["--faults", "slow=3600000"]);
    let waiting = |at: u64| {
        let mut client = Client::connect(server.socket()).expect("connection");
        let waiter = std::thread::spawn(move || client.write(at, &[7; 4096], false));
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(!waiter.is_finished());
        waiter
    };
    let first = waiting(0);
    told(dir.path(), &["clear"]);
    first.join().expect("no panic").expect("answered");
    told(dir.path(), &["arm", "slow=3600000", "stuck=2"]);
    let (slow, stuck) = (waiting(4096), waiting(8192));
    let ended = server.stop();
    assert_eq!(ended.code(), 0, "{}", ended.err);
    assert!(ended.err.contains("another signal ends at once"), "{}", ended.err);
    slow.join().expect("no panic").expect("answered at the end");
    stuck.join().expect("no panic").expect("answered at the end");
    let held = fs::read(dir.path().join("disk.raw")).expect("read");
    assert_eq!((held[0], held[4096], held[8192]), (7, 7, 7), "what was answered is there");
}

#[test]
fn a_lying_drive_loses_what_it_said_was_safe() {
    let dir = temp_dir();
    let server = raw(dir.path(), &["--faults", "lying-flush,unflushed=lose"]);
    let mut client = Client::connect(server.socket()).expect("connection");
    client.write(0, &[1; 4096], true).expect("write");
    client.flush().expect("so it says");
    told(dir.path(), &["cut"]);
    told(dir.path(), &["restart"]);
    let mut client = Client::connect(server.socket()).expect("connection");
    let mut found = [9; 512];
    client.read(0, &mut found).expect("read");
    assert_eq!(found, [0; 512]);
    assert_eq!(told(dir.path(), &["status"])["fired"]["lies"], 2);
}

#[test]
fn senseless_faults_and_commands_are_named() {
    let dir = temp_dir();
    let serve = |more: &[&str]| {
        let mut command = seekless();
        command.args(["serve", "--memory", "1M", "--layout", "inplace", "--socket"]);
        run(command.arg(dir.path().join("s")).args(more))
    };
    for (faults, why) in [
        ("melt", "unknown fault `melt`; known are"),
        ("cut-at-write=0", "there is no such point"),
        ("eio=3+5", "not in whole blocks"),
        ("slow=1,eio=2M+8k", "--faults: eio=2097152+8192: the disk below the layout has"),
    ] {
        let ended = serve(&["--faults", faults]);
        assert_eq!(ended.code(), 2, "{ended:?}");
        assert!(ended.err.contains(why), "{}", ended.err);
    }
    assert_eq!(serve(&["--faults", "slow=1", "--disk", "desktop7200"]).code(), 2);
    let alone = serve(&["--on-cut", "error"]);
    assert_eq!(alone.code(), 2);
    assert!(alone.err.contains("--faults") && alone.err.contains("--control"), "{}", alone.err);
    let unserved = control(dir.path(), &["status"]);
    assert_eq!(unserved.code(), 1);
    assert!(unserved.err.contains("listens there while it runs"), "{}", unserved.err);
    assert_eq!(control(dir.path(), &["arm"]).code(), 2);
    assert_eq!(control(dir.path(), &["cut", "slow=1"]).code(), 2);
    fs::write(dir.path().join("odd.raw"), [0; 5000]).expect("write");
    let mut odd = seekless();
    odd.arg("serve").arg("--raw").arg(dir.path().join("odd.raw"));
    let odd = run(odd.arg("--socket").arg(dir.path().join("s")));
    assert_eq!(odd.code(), 2, "{odd:?}");
    assert!(odd.err.contains("no whole number of 4 KiB blocks"), "{}", odd.err);
}

#[test]
fn a_line_that_is_no_text_is_answered_as_any_that_makes_no_sense() {
    let dir = temp_dir();
    let server = raw(dir.path(), &[]);
    let mut stream = UnixStream::connect(dir.path().join("ctl")).expect("connection");
    stream
        .write_all(b"\xff\xfe\n{\"command\":\"\xff\"}\n{\"command\":\"status\"}\n")
        .expect("send");
    let mut lines = BufReader::new(stream).lines();
    for ok in [false, false, true] {
        let line = lines.next().expect("an answer").expect("text");
        let answer: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(answer["ok"], ok, "{answer}");
        assert_eq!(answer["error"].is_string(), !ok, "{answer}");
    }
    assert_eq!(server.stop().code(), 0);
}
