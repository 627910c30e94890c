//! Bytes from hostile or broken clients. The connection may end, the server may not, and other
//! clients must not notice.

use crate::each_layout;
use crate::harness::{Server, check_is_clean, create, pattern, temp_dir};
use crate::nbd::Client;
use seekless_engine::rng::Rng;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

each_layout!(hostile_bytes_end_the_connection_only);

const OPTION_MAGIC: &[u8] = b"IHAVEOPT";

/// The client's half of a handshake up to transmission.
fn hello() -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 3];
    bytes.extend(option(7, &[0; 6]));
    bytes
}

fn option(number: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn request(flags: u16, command: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(77_u64.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// Sends bytes and reads the answer until the server closes or sends nothing for a while.
fn send(socket: &Path, bytes: &[u8]) {
    let mut stream = UnixStream::connect(socket).expect("connection");
    stream.set_read_timeout(Some(Duration::from_millis(20))).expect("timeout");
    stream.set_write_timeout(Some(Duration::from_millis(500))).expect("timeout");
    // The server may have closed the connection already.
    let _ = stream.write_all(bytes);
    let mut answer = [0; 4096];
    while matches!(stream.read(&mut answer), Ok(count) if count > 0) {}
}

fn hostile_bytes_end_the_connection_only(layout: &str) {
    let dir = temp_dir();
    let image = create(dir.path(), layout, "8M");
    let server = Server::image(&image);
    let socket = server.socket().to_owned();
    let mut honest = Client::connect(&socket).expect("connection");
    let content = pattern(4, 1 << 20);
    honest.write(0, &content, true).expect("write");
    let mut cases = deliberate();
    let mut rng = Rng::stream(2, "hostile");
    for round in 0..40 {
        let length = rng.below(3000) as usize;
        let noise = pattern(1000 + round, length);
        cases.push(noise.clone());
        cases.push([hello(), noise].concat());
        // A valid session with one byte changed.
        let mut changed = [hello(), request(0, 0, 0, 4096), request(0, 3, 0, 0)].concat();
        let at = rng.below(changed.len() as u64) as usize;
        changed[at] ^= 1 << rng.below(8);
        cases.push(changed);
    }
    for case in &cases {
        send(&socket, case);
    }
    let mut found = vec![0; content.len()];
    honest.read(0, &mut found).expect("the honest connection still works");
    assert!(found == content, "content differs");
    let mut fresh = Client::connect(&socket).expect("new connections still work");
    fresh.read(0, &mut found).expect("read");
    assert!(found == content, "content differs");
    let ended = server.stop();
    assert_eq!(ended.code(), 0, "{}", ended.err);
    assert!(!ended.err.contains("panicked"), "{}", ended.err);
    check_is_clean(&image);
}

/// Attacks by a client that knows the protocol. None may write.
fn deliberate() -> Vec<Vec<u8>> {
    let size = 8_u64 << 20;
    let mut cases = vec![
        Vec::new(),
        vec![0],
        vec![0xff; 4],
        hello()[..10].to_vec(),
        // Options: unknown, too long, lying about the length of names, aborted.
        [vec![0, 0, 0, 3], option(0xdead, &[1; 64])].concat(),
        [&[0, 0, 0, 3], OPTION_MAGIC, &7_u32.to_be_bytes(), &u32::MAX.to_be_bytes()].concat(),
        [vec![0, 0, 0, 3], option(7, &[0xff; 6])].concat(),
        [vec![0, 0, 0, 3], option(7, &[])].concat(),
        [vec![0, 0, 0, 3], option(1, &[b'x'; 5000])].concat(),
        [vec![0, 0, 0, 3], option(2, &[])].concat(),
        [vec![0, 0, 0, 3], option(5, &[])].concat(),
        [vec![0, 0, 0, 3], option(8, &[])].concat(),
        [vec![0, 0, 0, 3], option(10, &[0; 9])].concat(),
        // The same option a thousand times over.
        [vec![0, 0, 0, 3], option(3, &[]).repeat(1000)].concat(),
    ];
    for (flags, command, offset, length) in [
        (0, 0, size, 1),
        (0, 0, size - 1, 2),
        (0, 0, u64::MAX, 1),
        (0, 0, u64::MAX - 4095, 4096),
        (0, 0, 0, u32::MAX),
        (0, 0, 0, 0),
        (0, 4, 0, 0),
        (0, 4, size - 1, 4096),
        (0, 6, u64::MAX, u32::MAX),
        (0, 7, 0, 4096),
        (0, 9, 0, 4096),
        (0xffff, 0, 0, 4096),
        (0, 0xffff, 0, 4096),
        (0, 3, 5, 5),
        (0xffff, 3, 0, 0),
    ] {
        cases.push([hello(), request(flags, command, offset, length)].concat());
    }
    // Writes without all of their payload, and writes past the end of the volume.
    cases.push([hello(), request(0, 1, 0, 1 << 20), vec![1; 1000]].concat());
    cases.push([hello(), request(0, 1, 0, u32::MAX), vec![1; 1000]].concat());
    cases.push([hello(), request(0, 1, size, 4096), vec![1; 4096]].concat());
    // Many reads whose answers the client does not fetch.
    cases.push([hello(), request(0, 0, 0, 1 << 20).repeat(200)].concat());
    cases
}

/// Memory of a process in mebibytes.
fn resident(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a size");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok()).expect("KiB") >> 10
}

#[test]
fn clients_that_fetch_nothing_fill_the_limit_and_no_more() {
    const LONGEST: usize = 32 << 20;
    let dir = temp_dir();
    let image = create(dir.path(), "inplace", "64M");
    let server = Server::image(&image);
    let mut honest = Client::connect(server.socket()).expect("connection");
    let content = pattern(5, LONGEST);
    honest.write(0, &content, false).expect("write");
    let check = |honest: &mut Client, what: &str| {
        let mut found = vec![0; 128 << 10];
        for round in 0..64 {
            honest.read(round << 17, &mut found).expect("read");
        }
        assert!(found == content[63 << 17..64 << 17], "content differs");
        honest.write(LONGEST as u64, &found, true).expect("write");
        let now = resident(server.pid());
        assert!((100..600).contains(&now), "{now} MiB with {what}");
    };
    let connect = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(server.socket()).expect("connection");
        stream.set_write_timeout(Some(Duration::from_millis(100))).expect("timeout");
        // The server may close before it has read everything.
        let _ = stream.write_all(bytes);
        stream
    };
    let reads = [hello(), request(0, 0, 0, LONGEST as u32).repeat(20)].concat();
    let readers: Vec<UnixStream> = (0..40).map(|_| connect(&reads)).collect();
    check(&mut honest, "40 clients that do not read");
    // A long request waits for memory and is then served.
    honest.send_read(0, LONGEST as u32).expect("request");
    std::thread::sleep(Duration::from_millis(100));
    drop(readers);
    let mut found = vec![0; LONGEST];
    honest.receive_read(&mut found).expect("answer");
    assert!(found == content, "content differs");
    let half = [hello(), request(0, 1, 0, LONGEST as u32), vec![9; LONGEST - 1]].concat();
    let writers: Vec<UnixStream> = (0..30).map(|_| connect(&half)).collect();
    check(&mut honest, "30 writes that do not end");
    drop((writers, found));
    honest.read(0, &mut [0; 4096]).expect("read");
    let ended = server.stop();
    assert_eq!(ended.code(), 0, "{}", ended.err);
}
