//! Arithmetic of byte ranges over blocks.

use super::New;
use bytes::Bytes;
use seekless_engine::data::Data;
use seekless_engine::io::Extent;
use seekless_engine::io::Io;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// A range of bytes inside the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub offset: u64,
    pub length: u32,
}

impl Span {
    fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }

    /// The blocks touched: the first and how many.
    pub(super) fn blocks(&self) -> (BlockNr, u32) {
        let first = self.offset / BLOCK;
        // At most 2²⁰ + 1, since the length is below 2³².
        (first, (self.end().div_ceil(BLOCK) - first) as u32)
    }

    /// The blocks that lie in the range as a whole, if any.
    pub(super) fn whole_blocks(&self) -> Option<(BlockNr, u32)> {
        let (first, end) = (self.offset.div_ceil(BLOCK), self.end() / BLOCK);
        (first < end).then(|| (first, (end - first) as u32))
    }

    /// Bytes of the first block before the range.
    pub(super) fn skip(&self) -> usize {
        (self.offset % BLOCK) as usize
    }

    /// True if the range covers whole blocks only.
    pub(super) fn is_whole(&self) -> bool {
        self.offset.is_multiple_of(BLOCK) && self.end().is_multiple_of(BLOCK)
    }

    /// The blocks that are covered in part: the first one, and the last one if that is another.
    pub(super) fn partial_blocks(&self) -> (Option<BlockNr>, Option<BlockNr>) {
        let (first, last) = (self.offset / BLOCK, (self.end() - 1) / BLOCK);
        let head_partial = !self.offset.is_multiple_of(BLOCK)
            || (first == last && !self.end().is_multiple_of(BLOCK));
        let tail_partial = first != last && !self.end().is_multiple_of(BLOCK);
        (head_partial.then_some(first), tail_partial.then_some(last))
    }

    /// True if some block is touched by both. A flush touches none.
    pub(super) fn shares_block(&self, other: &Span) -> bool {
        if self.length == 0 || other.length == 0 {
            return false;
        }
        let ((a, a_count), (b, b_count)) = (self.blocks(), other.blocks());
        a < b + u64::from(b_count) && b < a + u64::from(a_count)
    }
}

/// The block requests that put new content into a range; `head` and `tail` are the present
/// content of the blocks covered in part.
pub(super) fn writes(span: &Span, new: &New, head: Option<Data>, tail: Option<Data>) -> Vec<Io> {
    let (first, count) = span.blocks();
    let head = head.map(|data| overlay(data, span, first, new));
    let tail = tail.map(|data| overlay(data, span, first + u64::from(count) - 1, new));
    let whole = span.whole_blocks();
    let middle = match new {
        New::Zeros { keep_space: false } => return punches(first, count, head, whole, tail),
        New::Zeros { keep_space: true } => whole.map(|(_, count)| Data::zeros(count)),
        New::Bytes(bytes) => whole.map(|(at, count)| {
            let from = (at * BLOCK - span.offset) as usize;
            Data::bytes(bytes.slice(from..from + count as usize * BLOCK_BYTES))
        }),
    };
    // One request, so that a layout which writes requests atomically writes this one so.
    let mut rope = Data::none();
    for part in [head, middle, tail].into_iter().flatten() {
        rope.append(part);
    }
    let write = Io::write(0, first, rope);
    // A client that wants no hole wants no later write there to find the volume full.
    vec![if matches!(new, New::Zeros { .. }) { write.with_room() } else { write }]
}

/// Zeros that give their space back: the whole blocks are trimmed, the edges written.
fn punches(
    first: BlockNr,
    count: u32,
    head: Option<Data>,
    whole: Option<(BlockNr, u32)>,
    tail: Option<Data>,
) -> Vec<Io> {
    let last = first + u64::from(count) - 1;
    let head = head.map(|data| Io::write(0, first, data));
    let whole = whole.map(|(at, count)| Io::trim(0, at, count));
    let tail = tail.map(|data| Io::write(0, last, data));
    [head, whole, tail].into_iter().flatten().collect()
}

/// The content of `block` with the part that the range covers replaced.
fn overlay(data: Data, span: &Span, block: BlockNr, new: &New) -> Data {
    let mut bytes = vec![0; BLOCK_BYTES];
    data.copy_to(&mut bytes);
    let start = span.offset.max(block * BLOCK);
    let end = span.end().min((block + 1) * BLOCK);
    let inside = (start - block * BLOCK) as usize..(end - block * BLOCK) as usize;
    match new {
        New::Zeros { .. } => bytes[inside].fill(0),
        New::Bytes(new) => {
            let from = (start - span.offset) as usize;
            bytes[inside.clone()].copy_from_slice(&new[from..from + inside.len()]);
        }
    }
    Data::bytes(Bytes::from(bytes))
}

/// Where data is and where holes are in a range of bytes, as runs of bytes.
pub(super) fn status(
    extent: &mut dyn FnMut(BlockNr, u64) -> (Extent, u64),
    offset: u64,
    length: u32,
    one: bool,
    most: usize,
) -> Vec<(u32, Extent)> {
    let span = Span { offset, length };
    let mut runs: Vec<(u32, Extent)> = Vec::new();
    let (mut at, count) = span.blocks();
    let end = at + u64::from(count);
    while at < end {
        let (kind, blocks) = extent(at, end - at);
        assert!((1..=end - at).contains(&blocks), "an extent of {blocks} blocks of {}", end - at);
        let from = (at * BLOCK).max(offset);
        at += blocks;
        // Within the range, whose length fits.
        let bytes = ((at * BLOCK).min(span.end()) - from) as u32;
        let full = runs.len() == if one { 1 } else { most };
        match runs.last_mut() {
            Some((length, last)) if *last == kind => *length += bytes,
            Some(_) if full => break,
            _ => runs.push((bytes, kind)),
        }
    }
    runs
}
