//! A volume as a disk in blocking style that takes no writes: for those who look at images.

use super::address::{ATTRIBUTES, Child, ObjectNr, Within};
use super::format::{Entry, decode_indirect};
use super::objects::{Held, Objects, Unknown};
use super::{BLOCKS_AT_ONCE, Vlfs, address, recover, write};
use crate::eager::Mapped as _;
use crate::eager::read::verify;
use crate::registry::known;
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::disk::{Disk, check_range};
use seekless_engine::io::{Expected, Extent, IoError};
use seekless_engine::layer::{Layer as _, Status as _};
use seekless_engine::layout::{LayoutError, MountOptions, RecoverySteps};
use seekless_engine::superblock::{Superblock, SuperblockError};
use seekless_engine::units::BlockNr;
use std::fmt;

/// The content of a volume, as a mount would serve it.
pub struct Reader<'d> {
    volume: Vlfs,
    disk: &'d mut dyn Disk,
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("volume", &self.volume).finish_non_exhaustive()
    }
}

impl<'d> Reader<'d> {
    /// Opens the volume on a device. Nothing is written.
    ///
    /// # Errors
    /// A volume of another layout, damage of what leads to everything, errors of the device.
    pub fn open(disk: &'d mut dyn Disk) -> Result<Reader<'d>, LayoutError> {
        let superblock = Superblock::read(disk, &known)?;
        if superblock.layout.0 != super::DESCRIPTOR.number {
            return Err(SuperblockError::Foreign.into());
        }
        let options = MountOptions { read_only: true, ..MountOptions::default() };
        let mut steps = RecoverySteps::new(None);
        let volume = recover::mount(disk, &superblock, &options, &mut steps)?;
        Ok(Reader { volume, disk })
    }

    fn block(&mut self, at: BlockNr) -> Result<Piece, IoError> {
        loop {
            match self.volume.objects.content(at) {
                Ok(Held::Hole) => return Ok(Data::zeros(1).block(0)),
                Ok(Held::Bytes(bytes)) => return Ok(Piece::block(Body::Bytes(bytes.into()))),
                Ok(Held::At(entry)) => return Ok(self.stored(entry)?.block(0)),
                Err(Unknown::Missing(entry)) => {
                    let bytes = self.stored(entry)?.to_bytes();
                    self.volume.objects.nodes.put(entry.place(), bytes);
                }
                Err(Unknown::Damaged(object)) => {
                    return Err(IoError::Checksum { block: address::address(object, 0) });
                }
            }
        }
    }

    /// A block of the device, as it was written.
    fn stored(&mut self, entry: Entry) -> Result<Data, IoError> {
        let at = BlockNr::from(entry.place());
        let expected = Expected::one(self.volume.sums, entry.checksum());
        let data = self.disk.read_expecting(at, expected)?;
        verify(self.volume.sums, &[entry], data, at)
    }
}

impl Disk for Reader<'_> {
    fn blocks(&self) -> u64 {
        self.volume.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        check_range(self.blocks(), at, count)?;
        if !address::are_blocks(at, u64::from(count)) {
            return Err(IoError::OutOfRange { at, count });
        }
        let mut all = Data::none();
        for at in at..at + u64::from(count) {
            all.append(self.block(at)?.into());
        }
        Ok(all)
    }

    fn write(&mut self, _at: BlockNr, _data: Data) -> Result<(), IoError> {
        Err(IoError::ReadOnly)
    }

    fn transaction_blocks(&self) -> u64 {
        BLOCKS_AT_ONCE
    }

    fn patch_bytes(&self) -> u64 {
        write::FRESH_ROOM as u64
    }

    fn flush(&mut self) -> Result<(), IoError> {
        Ok(())
    }

    /// Blocks of content that pointers lead to, and all attributes of slices that were ever used.
    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        let (mut at, end) = (at, self.blocks());
        while at < end {
            match self.volume.extent(at, end - at) {
                (Extent::Data, _) => {
                    let (object, within) = address::split(at);
                    let found = self.next_of(object, within).unwrap_or(within);
                    return Some(address::address(object, found));
                }
                (Extent::Hole, count) => at += count,
            }
        }
        None
    }
}

impl Reader<'_> {
    /// The next block of an object from one on that holds something.
    fn next_of(&mut self, object: ObjectNr, from: Within) -> Result<Within, IoError> {
        loop {
            match next_of(&self.volume.objects, object, from) {
                Ok(found) => return Ok(found),
                Err(Unknown::Missing(entry)) => {
                    let bytes = self.stored(entry)?.to_bytes();
                    self.volume.objects.nodes.put(entry.place(), bytes);
                }
                Err(Unknown::Damaged(object)) => {
                    return Err(IoError::Checksum { block: address::address(object, 0) });
                }
            }
        }
    }
}

/// The next block of an object that pointers or patches lead to; else its attributes.
fn next_of(objects: &Objects, object: ObjectNr, from: Within) -> Result<Within, Unknown> {
    let inode = objects.inode(object)?;
    let slice = objects.slice(address::slice_of(object));
    let member = address::member_of(object);
    let changes = slice.and_then(|slice| slice.content.patches.of(member));
    let is_cut = |within: Within| changes.is_some_and(|changes| changes.is_cut(within));
    let mut first = ATTRIBUTES;
    if let Some(changes) = changes {
        let placed = changes.placed.range(from..).next().map(|(&within, _)| within);
        let edited = changes.edits.range(from..).next().map(|(&within, _)| within);
        first = placed.into_iter().chain(edited).min().unwrap_or(first);
    }
    for (index, &entry) in inode.pointers.iter().enumerate() {
        let below = (entry, address::inode_child(index));
        if let Some(found) = next_below(objects, below, from, &is_cut)? {
            return Ok(first.min(found));
        }
    }
    Ok(first)
}

fn next_below(
    objects: &Objects,
    (entry, child): (Entry, Child),
    from: Within,
    is_cut: &impl Fn(Within) -> bool,
) -> Result<Option<Within>, Unknown> {
    if !entry.is_mapped() {
        return Ok(None);
    }
    let one = match child {
        Child::Block(within) => return Ok((within >= from && !is_cut(within)).then_some(within)),
        Child::Indirect(one) => one,
    };
    if one.reach().end <= from {
        return Ok(None);
    }
    let entries: Vec<Entry> = decode_indirect(objects.nodes.get(entry)?).collect();
    for (index, entry) in entries.into_iter().enumerate() {
        if let Some(found) = next_below(objects, (entry, one.child(index)), from, is_cut)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
