//! Labels in memory, beside the blocks of a medium.

use crate::io::Label;
use crate::table::Table;
use crate::units::BlockNr;
use std::sync::Arc;

const CHUNK: usize = 64;

/// A label for each block of a medium; zeros where none was set. Chunks that were never set take
/// no memory, and copies share the others until they change them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelStore {
    /// Empty for a medium without labels.
    chunks: Table<Arc<[Label; CHUNK]>>,
    blocks: u64,
}

impl LabelStore {
    /// Room for the labels of `blocks` blocks.
    pub fn new(blocks: u64) -> LabelStore {
        LabelStore { chunks: Table::new(blocks.div_ceil(CHUNK as u64)), blocks }
    }

    /// True if there is room for any.
    pub fn exists(&self) -> bool {
        !self.chunks.is_empty()
    }

    /// The label of a block; zeros if it has none.
    pub fn get(&self, at: BlockNr) -> Label {
        match self.chunks.get(at as usize / CHUNK) {
            Some(chunk) => chunk[at as usize % CHUNK],
            None => Label::default(),
        }
    }

    /// Replaces the label of a block; without effect where there is no room for any.
    pub fn set(&mut self, at: BlockNr, label: Label) {
        let index = at as usize / CHUNK;
        if at >= self.blocks || label == Label::default() && self.chunks.get(index).is_none() {
            return;
        }
        let chunk = self.chunks.entry(index, || Arc::new([Label::default(); CHUNK]));
        Arc::make_mut(chunk)[at as usize % CHUNK] = label;
    }

    /// Replaces the labels of consecutive blocks.
    pub fn set_all(&mut self, at: BlockNr, labels: &[Label]) {
        for (block, &label) in (at..).zip(labels) {
            self.set(block, label);
        }
    }

    /// Takes the labels of consecutive blocks away.
    pub fn clear(&mut self, at: BlockNr, count: u32) {
        if self.exists() {
            (at..at + u64::from(count)).for_each(|block| self.set(block, Label::default()));
        }
    }

    /// The labels of consecutive blocks.
    pub fn range(&self, at: BlockNr, count: u32) -> Vec<Label> {
        (at..at + u64::from(count)).map(|block| self.get(block)).collect()
    }
}
