//! The backing store fails while a volume is served; the volume itself is full.

use crate::each_layout;
use crate::harness::{
    Server, check_is_clean, command, create, pattern, run, seekless, skip, succeed, temp_dir,
};
use crate::nbd::Client;
use std::path::{Path, PathBuf};

each_layout!(
    a_full_file_system_is_reported,
    a_file_size_limit_is_reported,
    a_full_volume_says_so_and_is_overwritten_and_trimmed,
);

/// A small memory file system, unmounted when dropped.
struct Small(PathBuf);

impl Small {
    fn new(dir: &Path) -> Option<Small> {
        let at = dir.join("small");
        std::fs::create_dir_all(&at).expect("directory");
        let mut mount = command("mount");
        let mounted = run(mount.args(["-t", "tmpfs", "-o", "size=4m", "seekless-test"]).arg(&at));
        mounted.status.success().then_some(Small(at))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        run(command("umount").arg("--lazy").arg(&self.0));
    }
}

/// Writes until the server refuses; returns the number of whole mebibytes acknowledged and flushed.
fn fill_up(client: &mut Client) -> u64 {
    for index in 0..32 {
        let bytes = pattern(index, 1 << 20);
        let wrote = client.write(index << 20, &bytes, false).and_then(|()| client.flush());
        if let Err(error) = wrote {
            let errno = error.raw_os_error();
            // ENOSPC, EIO, EFBIG and EPERM or EROFS once the volume is read-only.
            assert!(matches!(errno, Some(28 | 5 | 27 | 1 | 30)), "{error:?}");
            return index;
        }
    }
    panic!("32 MiB fit into a store of 4 MiB");
}

/// Acknowledged data reads back. Further writes are refused, each by itself or all of them, and
/// then the server reports the cause when it ends.
fn fails_clearly(server: Server, layout: &str) {
    let mut client = Client::connect(server.socket()).expect("connection");
    let kept = fill_up(&mut client);
    assert!(kept >= 1, "nothing at all could be written");
    let goes_on = ["inplace", "vlog", "loge"].contains(&layout);
    let refused = client.write(kept << 20, &[1; 1 << 20], true);
    assert!(refused.is_err(), "a mebibyte found room");
    assert!(goes_on || client.flush().is_err(), "a flush after a lost write was called good");
    let mut found = vec![0; 1 << 20];
    for index in 0..kept {
        client.read(index << 20, &mut found).expect("what was acknowledged can be read");
        assert!(found == pattern(index, 1 << 20), "mebibyte {index} differs");
    }
    let ended = server.stop();
    let clean = goes_on && ended.code() == 0;
    assert!(clean || ended.code() == 5 && ended.err.contains("error: "), "{}", ended.err);
    assert!(!ended.err.contains("panicked"), "{}", ended.err);
}

fn a_full_file_system_is_reported(layout: &str) {
    let dir = temp_dir();
    let Some(small) = Small::new(dir.path()) else {
        return skip("a small tmpfs needs root rights");
    };
    let image = create(&small.0, layout, "32M");
    fails_clearly(Server::with(&image, &[]), layout);
    check_is_clean(&image);
    drop(small);
}

fn a_file_size_limit_is_reported(layout: &str) {
    let dir = temp_dir();
    let image = create(dir.path(), layout, "32M");
    // The limit is in blocks of 512 bytes; the signal that comes with it is ignored.
    let script = "trap '' XFSZ; ulimit -f 8192; exec \"$@\"";
    let socket = image.with_extension("sock");
    let mut limited = command("sh");
    limited.args(["-c", script, "sh"]).arg(seekless().get_program());
    limited.arg("serve").arg(&image).arg("--socket").arg(&socket);
    fails_clearly(Server::start(limited, socket), layout);
    succeed(seekless().arg("check").arg(&image));
}

/// Every block of the volume is stored. Writes past its end fail, writes inside succeed.
fn a_full_volume_says_so_and_is_overwritten_and_trimmed(layout: &str) {
    const SIZE: u64 = 8 << 20;
    const PART: usize = 64 << 10;
    let dir = temp_dir();
    let image = create(dir.path(), layout, "8M");
    let server = Server::image(&image);
    let mut client = Client::connect(server.socket()).expect("connection");
    assert_eq!(client.size_bytes(), SIZE);
    let mut content = pattern(1, SIZE as usize);
    for (at, part) in (0..).step_by(PART).zip(content.chunks(PART)) {
        client.write(at, part, false).expect("the volume has room for itself");
    }
    client.flush().expect("flushes");
    for (at, length) in [(SIZE, 4096), (SIZE - 4096, 8192), (SIZE - 1, 2)] {
        let error = client.write(at, &vec![1; length], false).expect_err("it ends there");
        assert_eq!(error.raw_os_error(), Some(28), "{at}+{length}: {error:?}");
    }
    let places = 2 * SIZE as usize / PART - 1;
    for round in 0..3_usize {
        for place in 0..places {
            // In an order that frees no long run of old places.
            let at = (place * 89 + round) % places * (PART / 2);
            let range = at..at + PART;
            if place % 7 == 6 {
                client.trim(at as u64, PART as u32).expect("trims go on");
                content[range].fill(0);
            } else {
                content[range.clone()].copy_from_slice(&pattern((place + round) as u64, PART));
                client.write(at as u64, &content[range], place % 5 == 0).expect("writes go on");
            }
        }
    }
    let mut found = vec![0; PART];
    for (at, part) in (0..).step_by(PART).zip(content.chunks(PART)) {
        client.read(at, &mut found).expect("reads");
        assert!(found == part, "the part at {at} differs");
    }
    assert_eq!(server.stop().code(), 0);
    check_is_clean(&image);
}

/// One of two mirrors runs out of space: the array goes on, and the server reports it.
#[test]
fn a_member_that_fails_is_told_of() {
    let dir = temp_dir();
    let Some(small) = Small::new(dir.path()) else {
        return skip("a small tmpfs needs root rights");
    };
    let members = [dir.path().join("large.img"), small.0.join("small.img")];
    let make = ["create", "--raid", "1", "--layout", "inplace", "--size", "16M"];
    succeed(seekless().args(make).args(&members));
    let socket = dir.path().join("s.sock");
    let mut serve = seekless();
    serve.arg("serve").args(&members).arg("--socket").arg(&socket);
    let server = Server::start(serve, socket);
    let mut client = Client::connect(server.socket()).expect("connection");
    let bytes = pattern(1, 8 << 20);
    for (index, part) in bytes.chunks(1 << 20).enumerate() {
        client.write((index as u64) << 20, part, false).expect("the other member takes it");
    }
    client.flush().expect("the other member has it");
    let mut found = vec![0; bytes.len()];
    client.read(0, &mut found).expect("read");
    assert!(found == bytes, "content differs");
    let ended = server.stop();
    assert_eq!(ended.code(), 0, "{}", ended.err);
    assert!(ended.err.contains("seekless: member 1 ("), "{}", ended.err);
    let why = "small.img) has failed (the backing store is full)";
    assert!(ended.err.contains(why), "{}", ended.err);
    assert_eq!(ended.err.matches("has failed").count(), 1, "{}", ended.err);
    drop(small);
}

/// Recovery has no space to write. The content can be read all the same.
#[test]
fn an_array_on_a_full_file_system_says_how_it_can_be_served() {
    let dir = temp_dir();
    let Some(small) = Small::new(dir.path()) else {
        return skip("a small tmpfs needs root rights");
    };
    let members = ["a", "b", "c"].map(|name| small.0.join(name));
    succeed(
        seekless()
            .args(["create", "--raid", "5", "--layout", "vlog", "--size", "32M"])
            .args(&members),
    );
    let socket = dir.path().join("s.sock");
    let serve = |more: &[&str]| {
        let mut serve = seekless();
        serve.arg("serve").args(&members).arg("--socket").arg(&socket).args(more);
        serve
    };
    let server = Server::start(serve(&[]), socket.clone());
    let mut client = Client::connect(server.socket()).expect("connection");
    let bytes = pattern(1, 256 << 10);
    client.write(0, &bytes, true).expect("there is room");
    server.kill();
    // Whatever the file system still takes.
    let _ = std::fs::write(small.0.join("rest"), vec![1; 8 << 20]);
    let refused = run(&mut serve(&[]));
    assert_eq!(refused.code(), 5, "{}", refused.err);
    assert!(refused.err.contains("hint: free space on its file system"), "{}", refused.err);
    assert!(refused.err.contains("--read-only"), "{}", refused.err);
    let server = Server::start(serve(&["--read-only"]), socket.clone());
    let mut client = Client::connect(server.socket()).expect("connection");
    let mut found = vec![0; bytes.len()];
    client.read(0, &mut found).expect("reads");
    assert!(found == bytes, "content differs");
    assert_eq!(server.stop().code(), 0);
    drop(small);
}
