//! A Minix file system with any bytes anywhere: mounted, read, written, checked, repaired, and
//! checked again.

use crate::files::{Files, Shared};
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::units::BLOCK_BYTES;
use seekless_formats::minix::{check, mkfs, repair};
use seekless_formats::{FsError, Kind, MkfsOptions};
use std::sync::OnceLock;

fn minix() -> Kind {
    "minix".parse().expect("it is one of the formats")
}

/// Applies edits {block 1, offset in it 2, length 1, bytes} to the image. The metadata lies in the
/// first blocks.
fn damage(disk: &mut dyn Disk, mut input: &[u8]) {
    while let Some((head, rest)) = input.split_first_chunk::<4>() {
        let block = u64::from(head[0]) % disk.blocks();
        let from = usize::from(u16::from_le_bytes([head[1], head[2]])) % BLOCK_BYTES;
        let length = usize::from(head[3]).min(rest.len()).min(BLOCK_BYTES - from);
        let Ok(old) = disk.read(block, 1) else { return };
        let mut bytes = old.to_bytes().to_vec();
        bytes[from..from + length].copy_from_slice(&rest[..length]);
        if disk.write(block, Data::bytes(bytes.into())).is_err() {
            return;
        }
        input = &rest[length..];
    }
}

/// The images before their damage, with blocks of 1,024 and of 4,096 bytes.
fn base(which: u8) -> &'static Cells {
    static BASES: [OnceLock<Cells>; 2] = [OnceLock::new(), OnceLock::new()];
    let which = usize::from(which % 2);
    BASES[which].get_or_init(|| {
        let mut cells = Cells::new(256);
        let block = [1024, 4096][which];
        let options = MkfsOptions { block, inodes: Some(64), ..(minix().defaults)() };
        mkfs(&mut MediumDisk(&mut cells), &options).expect("these options are possible");
        let medium = Shared::new(cells);
        let mut files = Files::mount(minix(), &medium, false).expect("just made");
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
    match repair(&mut disk) {
        Ok(_) => {
            let left = check(&mut disk).expect("the superblock was readable");
            assert!(left.list.is_empty(), "{findings:?} left {left:?}");
        }
        // Without a root, or without a free block for one, nothing is repaired.
        Err(FsError::NotRepaired { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// The fuzz target. The first byte chooses the image.
pub fn run(input: &[u8]) {
    let Some((&which, input)) = input.split_first() else { return };
    let mut cells = base(which).clone();
    damage(&mut MediumDisk(&mut cells), input);
    let medium = Shared::new(cells.clone());
    if let Ok(mut files) = Files::mount(minix(), &medium, true) {
        files.wander();
        drop(files.0.unmount());
    }
    if let Ok(mut files) = Files::mount(minix(), &medium, false) {
        files.change();
        files.wander();
        drop(files.0.unmount());
        mends(&medium.cells());
    }
    mends(&cells);
}
