//! A volume as recovery would leave it, without a write: a disk over a disk.

use super::patches::Patches;
use bytes::Bytes;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::io::IoError;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use seekless_fs::core::input::Overlay as ReadThrough;

/// The disk. It refuses writes.
pub struct Overlay<'d> {
    disk: &'d mut dyn Disk,
    patches: &'d Patches,
}

impl std::fmt::Debug for Overlay<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Overlay").finish_non_exhaustive()
    }
}

impl<'d> Overlay<'d> {
    /// A disk with the sectors that its log makes.
    pub fn new(disk: &'d mut dyn Disk, patches: &'d Patches) -> Overlay<'d> {
        Overlay { disk, patches }
    }
}

impl Disk for Overlay<'_> {
    fn blocks(&self) -> u64 {
        self.disk.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        if count == 1 {
            return Ok(Data::bytes(self.patches.read(self.disk, at)?));
        }
        let mut bytes = self.disk.read(at, count)?.to_bytes().to_vec();
        ReadThrough::patch(self.patches, at, &mut bytes);
        Ok(Data::bytes(Bytes::from(bytes)))
    }

    fn write(&mut self, _at: BlockNr, _data: Data) -> Result<(), IoError> {
        Err(IoError::ReadOnly)
    }

    fn flush(&mut self) -> Result<(), IoError> {
        Ok(())
    }

    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        let patched = self.patches.next_block(at);
        match (self.disk.next_data(at), patched) {
            (Some(own), Some(patched)) => Some(own.min(patched)),
            (own, patched) => own.or(patched),
        }
    }
}

/// The cache of a mount that only reads takes blocks through it.
impl ReadThrough for Patches {
    fn patch(&self, first: BlockNr, bytes: &mut [u8]) {
        for (block, part) in (first..).zip(bytes.chunks_exact_mut(BLOCK_BYTES)) {
            Patches::patch(self, block, part);
        }
    }
}
