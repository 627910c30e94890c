//! A damaged map block: `check` names the remedy, and `salvage` copies the rest.

use crate::harness::{
    Server, check_is_clean, create, layouts, pattern, run, seekless, succeed, temp_dir,
};
use crate::nbd::Client;
use std::fs;
use std::path::{Path, PathBuf};

const BLOCK: usize = 4096;

/// The runs of a mapfile: first byte, length, state.
fn runs(map: &Path) -> Vec<(u64, u64, String)> {
    let text = fs::read_to_string(map).expect("a map");
    let lines = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    let number = |text: &str| u64::from_str_radix(&text[2..], 16).expect("a number");
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            (number(fields[0]), number(fields[1]), fields[2].to_owned())
        })
        .collect()
}

#[test]
fn one_flipped_byte_in_a_map_block_loses_what_that_maps() {
    let dir = temp_dir();
    let image = create(dir.path(), "vlog", "16M");
    succeed(seekless().arg("mkfs").arg(&image));
    let whole = dir.path().join("whole.raw");
    let said = succeed(seekless().arg("salvage").arg(&image).arg("--to").arg(&whole));
    assert!(said.contains("16 MiB copied"), "{said}");
    let whole = fs::read(&whole).expect("a copy");
    let good = fs::read(&image).expect("an image");
    let begins = |at: &usize| good[at * BLOCK..].starts_with(b"SKLSMAP1");
    let mut struck = 0;
    for (number, at) in (0..good.len() / BLOCK).filter(begins).enumerate() {
        let mut bad = good.clone();
        bad[at * BLOCK + 700] ^= 1;
        fs::write(&image, &bad).expect("damage");
        let check = run(seekless().arg("check").arg(&image));
        if check.code() == 0 {
            continue; // Superseded.
        }
        struck += 1;
        assert_eq!(check.code(), 3, "{check:?}");
        assert!(check.err.contains("seekless salvage"), "{check:?}");
        let copy = dir.path().join(format!("copy{number}.raw"));
        let ended = run(seekless().arg("salvage").arg(&image).arg("--to").arg(&copy));
        assert_eq!(ended.code(), 1, "{ended:?}");
        let copy_bytes = fs::read(&copy).expect("a copy");
        let runs = runs(&dir.path().join(format!("copy{number}.raw.map")));
        let (mut next, mut lost) = (0, 0);
        for (from, count, state) in runs {
            assert_eq!(from, next, "runs follow each other");
            next += count;
            let range = from as usize..next as usize;
            if state == "+" {
                assert!(copy_bytes[range.clone()] == whole[range], "{from}+{count} of {number}");
            } else {
                assert_eq!(state, "-");
                lost += count;
            }
        }
        assert_eq!(next, whole.len() as u64);
        assert!(lost > 0 && lost <= 448 * BLOCK as u64, "{lost} bytes lost");
        assert_eq!(fs::read(&image).expect("an image"), bad, "nothing is written to the image");
    }
    assert!(struck > 0, "no map block was live");
    let again =
        run(seekless().arg("salvage").arg(&image).arg("--to").arg(dir.path().join("whole.raw")));
    assert_eq!(again.code(), 1, "an existing file is not replaced: {again:?}");
    assert!(again.err.contains("cannot write"), "{again:?}");
}

/// A number of four bytes at a byte of an image.
fn le32(image: &[u8], at: usize) -> usize {
    u32::from_le_bytes(image[at..at + 4].try_into().expect("four bytes")) as usize
}

/// Flips a byte of the first map block that the last checkpoint of an `lfs` volume names.
fn damage_lfs(image: &Path) {
    let mut bytes = fs::read(image).expect("an image");
    let number = |record: &usize| le32(&bytes, record * BLOCK + 24);
    let record = (1..5).max_by_key(number).expect("records");
    let place = |at: usize| le32(&bytes, at) & ((1 << 30) - 1);
    let index = place(record * BLOCK + 96);
    let at = place(index * BLOCK) * BLOCK + 5;
    bytes[at] ^= 1;
    fs::write(image, bytes).expect("damage");
}

/// Flips a byte of a map block of a `vlog` volume that is needed.
fn damage_vlog(image: &Path) {
    let good = fs::read(image).expect("an image");
    for at in (0..good.len() / BLOCK).filter(|at| good[at * BLOCK..].starts_with(b"SKLSMAP1")) {
        let mut bad = good.clone();
        bad[at * BLOCK + 700] ^= 1;
        fs::write(image, bad).expect("damage");
        if run(seekless().arg("check").arg(image)).code() == 3 {
            return;
        }
    }
    panic!("no map block is needed");
}

/// A volume with a file system, and its content.
fn with_files(dir: &Path, layout: &str) -> (PathBuf, Vec<u8>) {
    let image = create(dir, layout, "16M");
    succeed(seekless().arg("mkfs").arg(&image));
    let whole = dir.join("whole.raw");
    succeed(seekless().arg("salvage").arg(&image).arg("--to").arg(&whole));
    (image, fs::read(whole).expect("a copy"))
}

#[test]
fn a_rebuilt_map_block_of_lfs_loses_nothing() {
    let dir = temp_dir();
    let (image, whole) = with_files(dir.path(), "lfs");
    damage_lfs(&image);
    let check = run(seekless().arg("check").arg(&image));
    assert_eq!(check.code(), 3, "{check:?}");
    assert!(check.err.contains("seekless salvage"), "{check:?}");
    let copy = dir.path().join("copy.raw");
    let said = succeed(seekless().arg("salvage").arg(&image).arg("--to").arg(&copy));
    assert!(said.contains("damage: "), "{said}");
    assert!(fs::read(&copy).expect("a copy") == whole, "the copy differs");
    let said = succeed(seekless().args(["check", "--repair"]).arg(&image));
    assert!(said.contains("repaired, 0 blocks given up"), "{said}");
    succeed(seekless().arg("fsck").arg(&image));
}

/// Copies what is left of an image and compares it; how many blocks there are. Each was written
/// once, so an older version of one is zeros.
fn copied(image: &Path, right: &[Vec<u8>], more: &[&str]) -> usize {
    let may_be_stale = more.contains(&"--allow-stale");
    let dir = temp_dir();
    let copy = dir.path().join("copy.raw");
    let mut salvage = seekless();
    salvage.arg("salvage").arg(image).arg("--to").arg(&copy).args(more);
    let ended = run(&mut salvage);
    assert_eq!(ended.code(), 1, "{ended:?}");
    assert!(ended.out.contains("the image is cut off: it has "), "{ended:?}");
    let copied = fs::read(&copy).expect("a copy");
    let runs = runs(&dir.path().join("copy.raw.map"));
    let mut whole = 0;
    for (from, count, _) in runs.iter().filter(|one| one.2 == "+") {
        for block in *from as usize / BLOCK..(from + count) as usize / BLOCK {
            let found = &copied[block * BLOCK..][..BLOCK];
            let is_right = found == &right[block][..];
            let is_older = may_be_stale && found.iter().all(|&byte| byte == 0);
            assert!(is_right || is_older, "{}: block {block}", image.display());
            whole += usize::from(is_right);
        }
    }
    whole
}

/// Cuts the last quarter of an image off.
#[test]
fn what_is_left_of_a_truncated_image_is_copied() {
    for layout in layouts() {
        let dir = temp_dir();
        let image = create(dir.path(), &layout, "16M");
        let server = Server::image(&image);
        let mut client = Client::connect(server.socket()).expect("connection");
        let right: Vec<Vec<u8>> = (0..4096).map(|block| pattern(block, BLOCK)).collect();
        for (block, bytes) in right.iter().enumerate() {
            client.write((block * BLOCK) as u64, bytes, false).expect("writes");
            if block % 300 == 0 {
                // So that older map blocks lack some of what they map.
                client.flush().expect("flushes");
            }
        }
        client.flush().expect("flushes");
        assert_eq!(server.stop().code(), 0);
        let length = fs::metadata(&image).expect("an image").len();
        let file = fs::OpenOptions::new().write(true).open(&image).expect("an image");
        file.set_len(length / 4 * 3).expect("cut off");
        assert_eq!(run(seekless().arg("check").arg(&image)).code(), 3, "{layout}");
        let whole = copied(&image, &right, &[]);
        let found = copied(&image, &right, &["--allow-stale"]);
        println!("{layout}: {whole} blocks are certain, {found} are found");
        assert!(found >= 400, "{layout}: only {found} blocks are found");
        // Elsewhere any block may have had a newer version in what was cut off.
        let is_certain = whole >= 1000 || !["inplace", "dcd"].contains(&layout.as_str());
        assert!(is_certain, "{layout}: only {whole} blocks are certain");
        // The same is served.
        let server = Server::with(&image, &["--salvage"]);
        let mut client = Client::connect(server.socket()).expect("connection");
        let mut bytes = vec![0; BLOCK];
        let mut reads = |&block: &u64| client.read(block * 4096, &mut bytes).is_ok();
        assert_eq!((0..4096).filter(|block| reads(block)).count(), whole, "{layout}");
        assert_eq!(server.stop().code(), 0);
    }
}

#[test]
fn what_is_certain_is_served_and_a_repair_marks_the_rest() {
    let dir = temp_dir();
    let (image, whole) = with_files(dir.path(), "vlog");
    damage_vlog(&image);
    let server = Server::with(&image, &["--salvage"]);
    let mut client = Client::connect(server.socket()).expect("connection");
    let mut lost = Vec::new();
    for (block, right) in whole.chunks(BLOCK).enumerate() {
        let mut found = vec![0; BLOCK];
        match client.read((block * BLOCK) as u64, &mut found) {
            Ok(()) => assert!(found == right, "block {block}"),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(5), "block {block}: {error}");
                lost.push(block as u64);
            }
        }
    }
    assert!(!lost.is_empty() && lost.len() <= 448, "{} blocks lost", lost.len());
    assert!(client.write(0, &whole[..BLOCK], false).is_err(), "a salvage is read-only");
    drop(client);
    server.stop();
    let repaired = run(seekless().args(["check", "--repair"]).arg(&image));
    assert_eq!(repaired.code(), 1, "lost blocks are damage: {repaired:?}");
    assert!(repaired.out.contains(&format!("{} blocks given up", lost.len())), "{repaired:?}");
    let server = Server::image(&image);
    let mut client = Client::connect(server.socket()).expect("connection");
    for block in lost {
        let at = block as usize * BLOCK;
        let mut found = vec![0; BLOCK];
        let error = client.read(at as u64, &mut found).expect_err("it is lost");
        assert_eq!(error.raw_os_error(), Some(5), "{error}");
        client.write(at as u64, &whole[at..at + BLOCK], false).expect("it can be written");
    }
    drop(client);
    server.stop();
    check_is_clean(&image);
    succeed(seekless().arg("fsck").arg(&image));
}
