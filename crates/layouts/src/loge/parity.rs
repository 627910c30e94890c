//! The exclusive or of all label blocks, in the record of a volume at rest: one label block that is
//! damaged is rebuilt from it and the others.
//!
//! Nothing else says which block of the volume a place holds, so without it a damaged label block
//! would leave every block in doubt. It costs no write: the record has room for it. The digest in
//! the same record proves what was rebuilt.

use super::format::{FLAGS_AT, GROUP, HAS_PARITY, sum_at};
use seekless_engine::checksum::Identity;
use seekless_engine::io::Label as LabelBytes;
use seekless_engine::units::BLOCK_BYTES;

/// Bytes of a label without its check, which follows from them.
const KEPT: usize = 28;
const LABEL: usize = 32;
const PARITY_AT: usize = 64;
const BYTES: usize = GROUP as usize * KEPT;
const _: () = assert!(PARITY_AT + BYTES <= BLOCK_BYTES - 4);

/// The parity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabelParity(Box<[u8; BYTES]>);

impl LabelParity {
    /// That of no label blocks.
    pub fn none() -> LabelParity {
        LabelParity(Box::new([0; BYTES]))
    }

    /// Adds a label block, or takes it away.
    pub fn add(&mut self, block: &[u8]) {
        for (index, label) in block.as_chunks::<LABEL>().0.iter().enumerate() {
            self.toggle(index, label);
        }
    }

    /// Adds the label at an index of its label block, or takes it away.
    pub fn toggle(&mut self, index: usize, label: &LabelBytes) {
        let own = &mut self.0.as_chunks_mut::<KEPT>().0[index];
        own.iter_mut().zip(label).for_each(|(own, byte)| *own ^= byte);
    }

    /// True if nothing is left, as where all label blocks have been taken away.
    pub fn is_none(&self) -> bool {
        self.0.iter().all(|&byte| byte == 0)
    }

    /// Puts it into the block of a record.
    pub fn put(&self, record: &mut [u8]) {
        record[FLAGS_AT] |= HAS_PARITY;
        record[PARITY_AT..PARITY_AT + BYTES].copy_from_slice(&*self.0);
    }

    /// That of the block of a record that is whole, if it has one.
    pub fn decode(record: &[u8]) -> Option<LabelParity> {
        let bytes = record[PARITY_AT..PARITY_AT + BYTES].try_into().ok()?;
        (record[FLAGS_AT] & HAS_PARITY != 0).then(|| LabelParity(Box::new(bytes)))
    }

    /// The label block of a group, where this is the parity without all others.
    pub fn label_block(&self, id: Identity, group: u64) -> Vec<u8> {
        let mut block = vec![0; BLOCK_BYTES];
        let labels = block.as_chunks_mut::<LABEL>().0.iter_mut();
        for ((label, kept), place) in labels.zip(self.0.as_chunks::<KEPT>().0).zip(group * GROUP..)
        {
            if kept.iter().any(|&byte| byte != 0) {
                label[..KEPT].copy_from_slice(kept);
                label[KEPT..].copy_from_slice(&sum_at(id, place, kept).to_le_bytes());
            }
        }
        block
    }
}
