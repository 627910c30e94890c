//! Words of features: what a program does that does not know a bit.

use super::medium::{Shared, mount};
use super::tree::{Files, fill};
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::disk::MediumDisk;
use seekless_formats::ffs::{check, load, mkfs, repair};
use seekless_formats::{FsError, MkfsOptions};

/// Offsets of the words in the superblock.
const COMPATIBLE: usize = 12;
const READ_ONLY: usize = 16;
const INCOMPATIBLE: usize = 20;

/// A file system of which one word of the superblock has these bits.
fn with(word: usize, bits: u32) -> Shared {
    let mut cells = Cells::new(512);
    mkfs(&mut MediumDisk(&mut cells), &MkfsOptions::default()).expect("possible");
    let medium = Shared::new(cells);
    let mut files = Files(mount(&medium, false).expect("clean"));
    fill(&mut files).expect("room");
    files.unmount();
    let mut cells = medium.cells();
    let sealer = load(&mut MediumDisk(&mut cells)).expect("whole").superblock.sealer();
    let mut bytes = cells.read(16, 1).expect("memory").to_bytes().to_vec();
    bytes[word..word + 4].copy_from_slice(&bits.to_le_bytes());
    sealer.set(&mut bytes[..512], 128, seekless_formats::ffs::SealKind::Superblock, 9);
    cells.write(16, &Data::bytes(bytes.into())).expect("memory");
    Shared::new(cells)
}

#[test]
fn unknown_compatible_features_are_ignored() {
    let medium = with(COMPATIBLE, 0x8000_0001);
    let mut files = Files(mount(&medium, false).expect("compatible"));
    files.write("/small", 0, b"new").expect("room");
    files.unmount();
    let mut cells = medium.cells();
    let mut disk = MediumDisk(&mut cells);
    assert_eq!(load(&mut disk).expect("whole").superblock.compatible, 0x8000_0001, "kept");
    assert!(check(&mut disk).expect("compatible").is_clean());
}

#[test]
fn unknown_read_only_features_allow_reading() {
    let medium = with(READ_ONLY, 2);
    let error = mount(&medium, false).map(|_| ()).expect_err("this program must not write");
    assert_eq!(error, FsError::ReadOnlyFeatures(2));
    assert!(error.to_string().contains("(bit 1)") && error.to_string().contains("--read-only"));
    let before = medium.cells();
    let mut files = Files(mount(&medium, true).expect("reading is allowed"));
    assert!(files.tree().values().all(Result::is_ok));
    files.unmount();
    let mut cells = medium.cells();
    assert!(check(&mut MediumDisk(&mut cells)).expect("reading is allowed").is_clean());
    let refused = repair(&mut MediumDisk(&mut cells));
    assert_eq!(refused, Err(FsError::ReadOnlyFeatures(2)));
    assert!(cells == before, "nothing was written");
}

#[test]
fn unknown_incompatible_features_refuse_everything() {
    let medium = with(INCOMPATIBLE, 1 << 9);
    let refused = FsError::UnknownFeatures(1 << 9);
    for read_only in [false, true] {
        assert_eq!(mount(&medium, read_only).map(|_| ()).expect_err("unknown"), refused);
    }
    let mut cells = medium.cells();
    let before = cells.clone();
    assert_eq!(check(&mut MediumDisk(&mut cells)), Err(refused.clone()));
    assert_eq!(repair(&mut MediumDisk(&mut cells)), Err(refused));
    assert!(cells == before, "nothing was written");
}
