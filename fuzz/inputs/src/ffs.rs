//! An FFS with any bytes in any of its metadata, under valid seals or not: mounted, read, written,
//! checked, repaired, and checked again.

use crate::files::{Files, Shared};
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::units::SECTOR_BYTES;
use seekless_formats::ffs::{Finding, SealKind, Sealer, check, mkfs, repair};
use seekless_formats::{FsError, Kind, MkfsOptions};
use std::sync::OnceLock;

const KINDS: [SealKind; 5] = [
    SealKind::Superblock,
    SealKind::Map,
    SealKind::Inodes,
    SealKind::Indirect,
    SealKind::Directory,
];

fn ffs() -> Kind {
    "ffs".parse().expect("it is one of the formats")
}

/// Applies edits {sector 2, offset in it 2, kind of the seal 1, length 1, bytes} to the image.
fn damage(disk: &mut dyn Disk, mut input: &[u8]) {
    let sectors = disk.blocks() * 8;
    while let Some((head, rest)) = input.split_first_chunk::<6>() {
        let sector = u64::from(u16::from_le_bytes([head[0], head[1]])) % sectors;
        let from = usize::from(u16::from_le_bytes([head[2], head[3]])) % SECTOR_BYTES;
        let length = usize::from(head[5]).min(rest.len()).min(SECTOR_BYTES - from);
        let Ok(block) = disk.read(sector / 8, 1) else { return };
        let mut bytes = block.to_bytes().to_vec();
        let at = (sector % 8) as usize * SECTOR_BYTES;
        bytes[at + from..at + from + length].copy_from_slice(&rest[..length]);
        if let Some(&kind) = KINDS.get(usize::from(head[4])) {
            Sealer::new(1).set(&mut bytes[at..at + SECTOR_BYTES], sector, kind, 1);
        }
        if disk.write(sector / 8, Data::bytes(bytes.into())).is_err() {
            return;
        }
        input = &rest[length..];
    }
}

/// The image before its damage.
fn base() -> &'static Cells {
    static BASE: OnceLock<Cells> = OnceLock::new();
    BASE.get_or_init(|| {
        let mut cells = Cells::new(512);
        let options = MkfsOptions { id: 1, group: Some(512 << 10), ..MkfsOptions::default() };
        mkfs(&mut MediumDisk(&mut cells), &options).expect("these options are possible");
        let medium = Shared::new(cells);
        let mut files = Files::mount(ffs(), &medium, false).expect("just made");
        files.fill([b"d", b"f", b"l", b"g"]).expect("there is room");
        files.0.unmount().1.expect("memory");
        medium.cells()
    })
}

/// Checks, repairs and checks.
fn mends(cells: &Cells) {
    let mut cells = cells.clone();
    let mut disk = MediumDisk(&mut cells);
    let Ok(findings) = check(&mut disk) else { return };
    let outcome = repair(&mut disk);
    let left = check(&mut disk).expect("the superblock was readable");
    match outcome {
        Ok(_) => assert!(left.is_clean(), "{findings}\nleft {left}"),
        Err(FsError::ReadOnlyFeatures(_)) => {}
        Err(FsError::NotRepaired { .. }) => {
            // A full file system has no room for what lost its name; nothing else may remain.
            let is_room =
                |finding: &Finding| matches!(finding, Finding::Nameless { .. } | Finding::NoRoot);
            assert!(left.list.iter().any(is_room), "{findings}\nleft {left}");
        }
        Err(error) => panic!("{error}"),
    }
}

/// The fuzz target.
pub fn run(input: &[u8]) {
    let mut cells = base().clone();
    damage(&mut MediumDisk(&mut cells), input);
    let medium = Shared::new(cells.clone());
    if let Ok(mut files) = Files::mount(ffs(), &medium, true) {
        files.wander();
        drop(files.0.unmount());
    }
    if let Ok(mut files) = Files::mount(ffs(), &medium, false) {
        files.change();
        files.wander();
        drop(files.0.unmount());
        mends(&medium.cells());
    }
    mends(&cells);
}
