//! Images of earlier versions, kept in `fixtures` with a listing of their trees: each must mount,
//! list the same, pass its check and accept writes, forever.
//!
//! When the format changes, fixtures of the new version join the old ones, which stay as they are:
//!
//! ```text
//! SEEKLESS_FIXTURES=write cargo test -p seekless-fs --test suite images::fixtures
//! ```
//!
//! A fixture is text. `blocks N` is the size of the volume. Each `block AT …` has the bytes of a
//! block in hexadecimal, 16 at a time, with `*N` after a unit that is there N times, up to the last
//! one that is not zero. `NAME.tree.txt` is the listing, of a dirty image the one after repair.

use super::medium::{Shared, mount};
use super::tree::{Files, content, fill, listing};
use seekless_engine::Bytes;
use seekless_engine::data::Body;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::disk::MediumDisk;
use seekless_engine::units::{BLOCK_BYTES, SECONDS};
use seekless_formats::ffs::{check, mkfs, repair};
use seekless_formats::{FsError, MkfsOptions};
use seekless_fs::call::New;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Bytes in a unit of the text.
const UNIT: usize = 16;
/// Largest fixture.
const MOST_TEXT: usize = 50_000;
/// Blocks of 4096 bytes of an image: 2 MiB, two groups.
const BLOCKS: u64 = 512;
/// Version, sizes of block and fragment.
const CLEAN: [(&str, u32, u32); 4] = [
    ("ffs-1-8192-4096", 8192, 4096),
    ("ffs-1-8192-1024", 8192, 1024),
    ("ffs-1-4096-1024", 4096, 1024),
    ("ffs-1-4096-4096", 4096, 4096),
];
const DIRTY: (&str, u32, u32) = ("ffs-1-8192-1024-dirty", 8192, 1024);

fn file(name: &str, ending: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/suite/images/fixtures")
        .join(name.to_owned() + ending)
}

fn to_text(cells: &mut Cells) -> String {
    let mut out = format!("blocks {}\n", cells.blocks());
    for at in 0..cells.blocks() {
        let bytes = cells.read(at, 1).unwrap().to_bytes();
        let units: Vec<&[u8]> = bytes.chunks_exact(UNIT).collect();
        let used = units.iter().rposition(|unit| unit.iter().any(|&byte| byte != 0));
        let Some(used) = used else { continue };
        write!(out, "block {at}").unwrap();
        for run in units[..=used].chunk_by(|a, b| a == b) {
            out.push(' ');
            run[0].iter().for_each(|byte| write!(out, "{byte:02x}").unwrap());
            if run.len() > 1 {
                write!(out, "*{}", run.len()).unwrap();
            }
        }
        out.push('\n');
    }
    out
}

fn from_text(text: &str) -> Cells {
    let mut cells = Cells::new(0);
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = words[1].parse().unwrap();
        match words[0] {
            "blocks" => cells = Cells::new(number),
            "block" => cells.set(number, Body::Bytes(Bytes::from(block(&words[2..])))),
            other => panic!("`{other}` in a fixture"),
        }
    }
    cells
}

fn block(words: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in words {
        let (unit, count) = word.split_once('*').unwrap_or((word, "1"));
        let byte = |at: usize| u8::from_str_radix(&unit[at * 2..at * 2 + 2], 16).unwrap();
        let unit: Vec<u8> = (0..UNIT).map(byte).collect();
        bytes.extend(unit.repeat(count.parse().unwrap()));
    }
    bytes.resize(BLOCK_BYTES, 0);
    bytes
}

/// Makes an image with everything in it; a dirty one is cut while the syncer writes.
fn made(block: u32, fragment: u32, dirty: bool) -> Cells {
    let mut cells = Cells::new(BLOCKS);
    let options = MkfsOptions {
        block,
        fragment,
        group: Some(1 << 20),
        id: 0x5eed,
        label: b"fixture".to_vec(),
        now: 1_000_000_000,
        ..MkfsOptions::default()
    };
    mkfs(&mut MediumDisk(&mut cells), &options).unwrap();
    let medium = Shared::new(cells);
    let mut files = Files(mount(&medium, false).unwrap());
    fill(&mut files).unwrap();
    if !dirty {
        files.unmount();
        return medium.cells();
    }
    files.run(seekless_fs::call::Request::Sync).unwrap();
    files.unlink("/a/b/direct").unwrap();
    files.0.idle(20 * SECONDS);
    files.make("/late", New::File).unwrap();
    files.write("/late", 0, &content(50, 30_000)).unwrap();
    files.0.idle(12 * SECONDS);
    files.0.abandon();
    medium.cells()
}

fn writes_fixtures() -> bool {
    std::env::var("SEEKLESS_FIXTURES").is_ok_and(|value| value == "write")
}

/// The image of this name, and its listing. Writes them first if that is asked for.
fn fixture(name: &str, make: impl FnOnce() -> Cells) -> (Cells, String) {
    let (image, tree) = (file(name, ".img.txt"), file(name, ".tree.txt"));
    if writes_fixtures() && !image.exists() {
        let mut cells = make();
        std::fs::write(&image, to_text(&mut cells)).unwrap();
        let medium = Shared::new(cells);
        medium.with_disk(|disk| repair(disk).map(|_| ())).unwrap();
        let mut files = Files(mount(&medium, true).unwrap());
        std::fs::write(&tree, listing(&files.tree())).unwrap();
    }
    let text = std::fs::read_to_string(&image).unwrap();
    assert!(text.len() <= MOST_TEXT, "{name}: {} bytes", text.len());
    (from_text(&text), std::fs::read_to_string(&tree).unwrap())
}

/// Reads the tree, writes a file, and demands that nothing else has changed.
fn lists_and_accepts_writes(name: &str, medium: &Shared, expected: &str) {
    let before = medium.cells();
    let mut files = Files(mount(medium, true).expect("an old image mounts"));
    assert_eq!(listing(&files.tree()), expected, "{name}");
    files.unmount();
    assert!(medium.cells() == before, "{name}: a mount for reading wrote");
    let mut files = Files(mount(medium, false).expect("an old image mounts"));
    files.make("/a/new", New::File).unwrap();
    files.write("/a/new", 5, &content(99, 20_000)).unwrap();
    files.unlink("/small").unwrap();
    files.unmount();
    let found = medium.with_disk(|disk| check(disk)).unwrap();
    assert!(found.is_clean() && found.unmounted, "{name}: {found}");
    let mut files = Files(mount(medium, false).unwrap());
    let mut tree = files.tree();
    assert!(tree.remove("/a/new").is_some_and(|new| new.unwrap().attr.size == 20_005));
    let kept = |line: &&str| !line.starts_with("/small ") && !line.starts_with("/a/b/second name ");
    let without =
        |listing: &str| listing.lines().filter(kept).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(without(&listing(&tree)), without(expected), "{name}");
    files.unmount();
}

#[test]
fn fixtures_hold_what_was_written() {
    for (name, block, fragment) in CLEAN {
        let (mut cells, expected) = fixture(name, || made(block, fragment, false));
        assert!(expected.lines().count() > 100, "{name} has everything");
        let found = check(&mut MediumDisk(&mut cells)).unwrap();
        assert!(found.is_clean() && found.unmounted, "{name}: {found}");
        lists_and_accepts_writes(name, &Shared::new(cells), &expected);
    }
}

#[test]
fn a_fixture_of_a_crash_is_repaired() {
    let (name, block, fragment) = DIRTY;
    let (mut cells, expected) = fixture(name, || made(block, fragment, true));
    let found = check(&mut MediumDisk(&mut cells)).unwrap();
    assert!(!found.is_clean() && !found.unmounted, "{name}: {found}");
    let medium = Shared::new(cells);
    let refused = mount(&medium, false).map(|_| ()).expect_err("not unmounted");
    assert_eq!(refused, FsError::NotClean);
    let mut files = Files(mount(&medium, true).expect("for reading"));
    assert!(!files.tree().is_empty());
    medium.with_disk(|disk| repair(disk).map(|_| ())).expect("repairable");
    lists_and_accepts_writes(name, &medium, &expected);
}
