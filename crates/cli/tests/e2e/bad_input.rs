//! Invalid images: a clear message and the documented exit code, never a panic, never a guess.

use crate::each_layout;
use crate::harness::{
    Ended, Server, check_is_clean, create, pattern, run, seekless, skip, succeed, temp_dir,
};
use crate::nbd::Client;
use crate::tree::is_full;
use std::fs;
use std::path::Path;

each_layout!(
    damage_in_any_sector_is_noticed_or_harmless,
    truncated_and_newer_images_are_named,
    an_image_serves_one_master,
);

const SECTOR: usize = 512;

fn refused(ended: &Ended, code: i32, part: &str) {
    assert_eq!(ended.code(), code, "{}", ended.err);
    assert!(ended.err.lines().any(|line| line.starts_with("error: ")), "{}", ended.err);
    assert!(ended.err.contains(part), "`{part}` is missing in: {}", ended.err);
    assert!(!ended.err.contains("panicked"), "{}", ended.err);
}

/// Every subcommand that opens an image.
fn on_every_command(image: &Path, code: i32, part: &str) {
    for name in ["info", "check", "dump"] {
        refused(&run(seekless().arg(name).arg(image)), code, part);
    }
    let socket = image.with_extension("refused");
    let mut serve = seekless();
    serve.arg("serve").arg(image).arg("--socket").arg(&socket);
    refused(&run(&mut serve), code, part);
    assert!(!socket.exists(), "a refused server left its socket behind");
}

#[test]
fn foreign_files_are_refused() {
    let dir = temp_dir();
    let image = dir.path().join("foreign.img");
    for content in [Vec::new(), vec![0; 100], vec![0; 1 << 20], pattern(1, 1 << 20)] {
        fs::write(&image, content).expect("write");
        on_every_command(&image, 3, "no Seekless volume");
    }
    on_every_command(&dir.path().join("missing.img"), 3, "does not exist");
    let circle = dir.path().join("circle.img");
    std::os::unix::fs::symlink(&circle, &circle).expect("a link");
    on_every_command(&circle, 3, "leads back to itself");
    on_every_command(dir.path(), 3, "neither a regular file nor a block device");
}

#[test]
fn an_existing_file_is_replaced_only_by_force() {
    let dir = temp_dir();
    let image = dir.path().join("x.img");
    fs::write(&image, "precious").expect("write");
    let make = |force: &[&str]| {
        let options = ["--layout", "inplace", "--size", "1M"];
        run(seekless().arg("create").arg(&image).args(options).args(force))
    };
    let ended = make(&[]);
    refused(&ended, 1, "already exists");
    assert!(ended.err.contains("hint: ") && ended.err.contains("--force"), "{}", ended.err);
    assert_eq!(fs::read(&image).expect("read"), b"precious");
    assert_eq!(make(&["--force"]).code(), 0);
    succeed(seekless().arg("check").arg(&image));
}

#[test]
fn places_that_cannot_be_written_are_named() {
    let options = ["--layout", "vlog", "--size", "1M"];
    let ended = run(seekless().args(["create", "/proc/no/such.img"]).args(options));
    refused(&ended, 1, "/proc/no/such.img");
}

fn truncated_and_newer_images_are_named(layout: &str) {
    let dir = temp_dir();
    let image = create(dir.path(), layout, "1M");
    let whole = fs::read(&image).expect("read");
    fs::write(&image, &whole[..whole.len() / 2]).expect("write");
    on_every_command(&image, 3, "truncated");
    let mut newer = whole.clone();
    let last = newer.len() - 4096;
    for copy in [0, last] {
        newer[copy + 8] = 200;
        let sum = crc32c(&newer[copy..copy + 4092]);
        newer[copy + 4092..copy + 4096].copy_from_slice(&sum.to_le_bytes());
    }
    fs::write(&image, &newer).expect("write");
    on_every_command(&image, 3, "version 200");
    let mut damaged = whole.clone();
    damaged[100] ^= 1;
    damaged[last + 100] ^= 1;
    fs::write(&image, &damaged).expect("write");
    on_every_command(&image, 3, "damaged");
    // One copy is enough.
    damaged[last + 100] ^= 1;
    fs::write(&image, &damaged).expect("write");
    succeed(seekless().arg("info").arg(&image));
    let ended = run(seekless().arg("check").arg(&image));
    assert_eq!(ended.code(), 1, "{}", ended.err);
    assert!(ended.out.contains("block 0 holds no whole copy of the superblock"), "{}", ended.out);
    assert!(fs::read(&image).expect("read") == damaged, "a check wrote to the image");
    assert_eq!(Server::with(&image, &["--read-only"]).stop().code(), 0);
    assert!(fs::read(&image).expect("read") == damaged, "a read-only export wrote to the image");
    assert_eq!(Server::image(&image).stop().code(), 0);
    check_is_clean(&image);
}

/// CRC-32C, bit by bit: slow, and independent of the program.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |mut crc, &byte| {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
        crc
    })
}

fn an_image_serves_one_master(layout: &str) {
    let dir = temp_dir();
    let image = create(dir.path(), layout, "1M");
    let server = Server::image(&image);
    let pid = server.pid().to_string();
    for name in ["info", "check", "dump"] {
        refused(&run(seekless().arg(name).arg(&image)), 4, "in use");
    }
    let other = dir.path().join("other.sock");
    let ended = run(seekless().arg("serve").arg(&image).arg("--socket").arg(&other));
    refused(&ended, 4, &pid);
    let again = ["--layout", layout, "--size", "1M", "--force"];
    refused(&run(seekless().arg("create").arg(&image).args(again)), 4, "in use");
    // A second server cannot take over a socket on which one listens.
    let second =
        create(&dir.path().join("."), if layout == "vlog" { "inplace" } else { "vlog" }, "1M");
    let ended = run(seekless().arg("serve").arg(&second).arg("--socket").arg(server.socket()));
    refused(&ended, 4, "sock");
    Client::connect(server.socket()).expect("the first server still listens");
    // The socket that a killed server leaves behind is replaced.
    let socket = server.socket().to_owned();
    server.kill();
    assert!(socket.exists());
    let server = Server::image(&image);
    assert_eq!(server.socket(), socket);
    assert_eq!(server.stop().code(), 0);
}

#[test]
fn a_file_is_not_taken_for_a_socket() {
    let dir = temp_dir();
    let image = create(dir.path(), "inplace", "1M");
    let precious = dir.path().join("precious");
    fs::write(&precious, "precious").expect("write");
    let ended = run(seekless().arg("serve").arg(&image).arg("--socket").arg(&precious));
    assert_ne!(ended.code(), 0);
    assert!(ended.err.starts_with("error: "), "{}", ended.err);
    assert_eq!(fs::read(&precious).expect("read"), b"precious");
}

#[test]
fn a_taken_port_is_busy() {
    let dir = temp_dir();
    let image = create(dir.path(), "inplace", "1M");
    let Ok(taken) = std::net::TcpListener::bind("127.0.0.1:0") else {
        return skip("no TCP here");
    };
    let address = taken.local_addr().expect("address").to_string();
    let ended = run(seekless().arg("serve").arg(&image).args(["--listen", &address]));
    refused(&ended, 4, &address);
}

/// Flips a bit in each sector of a small image in turn. Either `check` reports it, or the volume
/// still has the right content; a layout without checksums cannot know about its data blocks.
fn damage_in_any_sector_is_noticed_or_harmless(layout: &str) {
    let dir = temp_dir();
    let image = create(dir.path(), layout, "128k");
    let content = pattern(9, 96 << 10);
    {
        let server = Server::image(&image);
        let mut client = Client::connect(server.socket()).expect("connection");
        // Twice, so that there are superseded blocks as well.
        client.write(0, &pattern(8, 96 << 10), true).expect("write");
        for (at, block) in content.chunks(4096).enumerate() {
            client.write(at as u64 * 4096, block, true).expect("write");
        }
        client.disconnect().expect("goodbye");
        assert_eq!(server.stop().code(), 0);
    }
    let whole = fs::read(&image).expect("read");
    let unchecked = first_unchecked(layout, &image);
    let mut rng = seekless_engine::rng::Rng::stream(1, "flips");
    let (mut noticed, mut harmless) = (0, 0);
    for sector in 0..whole.len() / SECTOR {
        // A sample of the unwritten blocks is enough: they are all alike. Of the others, each
        // sector is damaged in a full run.
        let block = &whole[sector / 8 * 4096..][..4096];
        let is_unwritten = block.iter().all(|&byte| byte == 0);
        let share = if is_unwritten { 0.03 } else { 0.25 };
        if !rng.chance(share) && (is_unwritten || !is_full()) {
            continue;
        }
        let at = sector * SECTOR + rng.below(SECTOR as u64) as usize;
        let mut bad = whole.clone();
        bad[at] ^= 1 << rng.below(8);
        fs::write(&image, &bad).expect("write");
        let ended = run(seekless().arg("check").arg(&image));
        match ended.code() {
            0 => {
                harmless += 1;
                if sector < unchecked || is_superblock(sector, whole.len()) {
                    still_right(&image, &content, sector);
                }
            }
            1 | 3 => noticed += 1,
            other => panic!("sector {sector}: exit code {other}: {}", ended.err),
        }
        assert!(!ended.err.contains("panicked"), "sector {sector}: {}", ended.err);
    }
    assert!(harmless > 0, "{noticed} noticed, {harmless} harmless");
    if unchecked == usize::MAX {
        let least = content.len() / SECTOR / if is_full() { 1 } else { 8 };
        assert!(noticed >= least, "{noticed} noticed, {harmless} harmless");
    }
}

/// The first sector without checksums: all data of `inplace`, home locations of `dcd`.
fn first_unchecked(layout: &str, image: &Path) -> usize {
    match layout {
        "inplace" => 8,
        "dcd" => {
            let dump = succeed(seekless().arg("dump").arg(image));
            let home = dump.split("at home in block ").nth(1).expect("where home is");
            let block = home.split(' ').next().and_then(|number| number.parse::<usize>().ok());
            8 * block.expect("a number")
        }
        _ => usize::MAX,
    }
}

fn is_superblock(sector: usize, bytes: usize) -> bool {
    sector < 8 || sector >= bytes / SECTOR - 8
}

/// Serves the image and compares. A read may fail, but must never return wrong content.
fn still_right(image: &Path, content: &[u8], sector: usize) {
    let server = Server::with(image, &["--read-only"]);
    let mut client = Client::connect(server.socket()).expect("connection");
    let mut found = vec![0; 4096];
    for (index, expected) in content.chunks(4096).enumerate() {
        client
            .read(index as u64 * 4096, &mut found)
            .unwrap_or_else(|error| panic!("sector {sector}, block {index}: {error}"));
        assert!(found == expected, "sector {sector}: block {index} reads wrong");
    }
}
