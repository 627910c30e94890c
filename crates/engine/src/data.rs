//! Payload: the content of a request and of a medium.
//!
//! A payload is a rope of pieces, so that layers can split and join requests without copying
//! bytes. Client data in a simulation is a *stamp* (which block, which version): it costs no
//! memory, and its content can still be verified. Metadata is always real bytes.

mod parity;
pub mod sealed;
mod sums;

pub use parity::{Parity, cancel};
pub use sums::is_zero;

use crate::units::{BLOCK_BYTES, BLOCK_SECTORS, SECTOR_BYTES};
use bytes::Bytes;
use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::sync::Arc;

/// The bytes of a sector.
pub type SectorBytes = [u8; SECTOR_BYTES];

/// The bytes of a block, sector by sector.
pub type BlockSectors = [Arc<SectorBytes>; BLOCK_SECTORS as usize];

/// The bytes of one block, generated when they are read. On a simulated disk most records of a log
/// are overwritten unread, so this saves the work.
pub trait Lazy: Send + Sync {
    /// Writes the bytes, always the same ones; `out` is one block long.
    fn render(&self, out: &mut [u8]);
}

/// Content of one or more consecutive blocks.
#[derive(Clone)]
pub enum Body {
    /// All blocks read as zeros.
    Zeros,
    /// Stands for the bytes of version `version` of block `key`; block `i` of the piece has the key
    /// `key + i`. Equal stamps are equal bytes.
    Stamp {
        /// Which block the client wrote, in the client's numbering.
        key: u64,
        /// Which of its versions.
        version: u64,
    },
    /// Real bytes, a whole number of blocks of them.
    Bytes(Bytes),
    /// Real bytes of one block in sectors that other blocks may share: similar records of a log
    /// take memory only for their differences.
    Sectors(Arc<BlockSectors>),
    /// Real bytes of one block that are not generated yet.
    Lazy(Arc<dyn Lazy>),
    /// One block of parity over contents that are not all real bytes: see [`Parity`].
    Parity(Arc<Parity>),
}

impl PartialEq for Body {
    fn eq(&self, other: &Body) -> bool {
        match (self, other) {
            (Body::Zeros, Body::Zeros) => true,
            (Body::Stamp { key: a, version: v }, Body::Stamp { key: b, version: w }) => {
                a == b && v == w
            }
            (Body::Bytes(a), Body::Bytes(b)) => a == b,
            (Body::Sectors(a), Body::Sectors(b)) => a == b,
            (Body::Parity(a), Body::Parity(b)) => a == b,
            (Body::Bytes(bytes), Body::Sectors(sectors))
            | (Body::Sectors(sectors), Body::Bytes(bytes)) => {
                let (parts, rest) = bytes.as_chunks::<SECTOR_BYTES>();
                rest.is_empty() && parts.iter().eq(sectors.iter().map(|sector| &**sector))
            }
            (Body::Lazy(a), Body::Lazy(b)) if Arc::ptr_eq(a, b) => true,
            (Body::Lazy(_), Body::Bytes(_) | Body::Sectors(_) | Body::Lazy(_))
            | (Body::Bytes(_) | Body::Sectors(_), Body::Lazy(_)) => {
                let bytes = |body: &Body| Piece::block(body.clone()).to_bytes();
                bytes(self) == bytes(other)
            }
            _ => false,
        }
    }
}

impl Eq for Body {}

/// A run of blocks with one body.
#[derive(Clone, PartialEq, Eq)]
pub struct Piece {
    /// Length of the run, in blocks, at least 1.
    pub blocks: u32,
    /// Its content.
    pub body: Body,
}

impl Piece {
    /// A single block.
    pub fn block(body: Body) -> Piece {
        Piece { blocks: 1, body }
    }

    /// The real bytes of the piece, copied only if need be.
    pub fn to_bytes(&self) -> Bytes {
        match &self.body {
            Body::Bytes(bytes) => return bytes.clone(),
            Body::Sectors(sectors) => {
                let mut out = Vec::with_capacity(BLOCK_BYTES);
                sectors.iter().for_each(|sector| out.extend_from_slice(&**sector));
                return Bytes::from(out);
            }
            Body::Zeros | Body::Stamp { .. } | Body::Lazy(_) | Body::Parity(_) => {}
        }
        if self.blocks == 1 && matches!(self.body, Body::Zeros) {
            return Bytes::from_static(&[0; BLOCK_BYTES]);
        }
        let mut out = vec![0; self.blocks as usize * BLOCK_BYTES];
        self.copy_to(&mut out);
        Bytes::from(out)
    }

    /// True if the content begins with these bytes: a search for headers need not generate the
    /// other blocks.
    pub fn begins_with(&self, magic: [u8; 8]) -> bool {
        let word = u64::from_le_bytes(magic);
        match &self.body {
            Body::Zeros => word == 0,
            Body::Stamp { key, .. } => word == *key,
            Body::Bytes(bytes) => bytes[..8] == magic,
            Body::Sectors(sectors) => sectors[0][..8] == magic,
            Body::Parity(parity) => word == parity.first_word(),
            Body::Lazy(_) => self.to_bytes()[..8] == magic,
        }
    }

    /// Copies the content to `out`, whose length is that of the piece.
    fn copy_to(&self, out: &mut [u8]) {
        match &self.body {
            Body::Zeros => out.fill(0),
            Body::Bytes(bytes) => out.copy_from_slice(bytes),
            Body::Sectors(sectors) => {
                for (out, sector) in out.as_chunks_mut().0.iter_mut().zip(sectors.iter()) {
                    *out = **sector;
                }
            }
            Body::Lazy(lazy) => lazy.render(out),
            Body::Parity(parity) => parity.copy_to(out),
            Body::Stamp { key, version } => {
                for (block, key) in out.chunks_exact_mut(BLOCK_BYTES).zip(*key..) {
                    fill_stamp(block, key, *version);
                }
            }
        }
    }

    /// Blocks `from..from + count` of this piece.
    ///
    /// # Panics
    /// If the range leaves the piece.
    pub fn slice(&self, from: u32, count: u32) -> Piece {
        assert!(from + count <= self.blocks, "slice {from}+{count} of {} blocks", self.blocks);
        let body = match &self.body {
            Body::Zeros => Body::Zeros,
            Body::Stamp { key, version } => {
                Body::Stamp { key: key + u64::from(from), version: *version }
            }
            Body::Bytes(bytes) => {
                let start = from as usize * BLOCK_BYTES;
                Body::Bytes(bytes.slice(start..start + count as usize * BLOCK_BYTES))
            }
            Body::Sectors(sectors) => {
                assert_eq!(count, 1, "a block in sectors is one block");
                Body::Sectors(Arc::clone(sectors))
            }
            Body::Lazy(lazy) => {
                assert_eq!(count, 1, "what is put together is one block");
                Body::Lazy(Arc::clone(lazy))
            }
            Body::Parity(parity) => {
                assert_eq!(count, 1, "a block of parity is one block");
                Body::Parity(Arc::clone(parity))
            }
        };
        Piece { blocks: count, body }
    }
}

/// The payload of a request or the answer to a read.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Data {
    pieces: SmallVec<[Piece; 1]>,
    /// The sum of their lengths, cached because every layer reads it.
    blocks: u32,
}

impl From<Piece> for Data {
    fn from(piece: Piece) -> Data {
        Data { blocks: piece.blocks, pieces: smallvec![piece] }
    }
}

impl Data {
    /// No payload: flushes, trims and reads carry none.
    pub fn none() -> Data {
        Data::default()
    }

    /// `blocks` blocks of zeros.
    pub fn zeros(blocks: u32) -> Data {
        Data::from_piece(blocks, Body::Zeros)
    }

    /// `blocks` stamped blocks, the first with key `key`.
    pub fn stamp(blocks: u32, key: u64, version: u64) -> Data {
        Data::from_piece(blocks, Body::Stamp { key, version })
    }

    /// Real bytes.
    ///
    /// # Panics
    /// If the length is not a whole number of blocks, or above 2³² blocks.
    pub fn bytes(bytes: Bytes) -> Data {
        assert!(
            bytes.len().is_multiple_of(BLOCK_BYTES),
            "{} bytes are not whole blocks",
            bytes.len()
        );
        let blocks = u32::try_from(bytes.len() / BLOCK_BYTES).expect("at most 2^32 blocks");
        Data::from_piece(blocks, Body::Bytes(bytes))
    }

    /// One block.
    pub fn block_of(body: Body) -> Data {
        Data::from(Piece::block(body))
    }

    fn from_piece(blocks: u32, body: Body) -> Data {
        if blocks == 0 {
            return Data::none();
        }
        Data::from(Piece { blocks, body })
    }

    /// Length in blocks.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// True if there is no payload.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The pieces in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// An empty payload with capacity for so many pieces.
    pub fn with_room(pieces: usize) -> Data {
        Data { pieces: SmallVec::with_capacity(pieces), blocks: 0 }
    }

    /// All blocks in order, each as a piece of one block.
    pub fn each(&self) -> Each<'_> {
        Each { pieces: self.pieces.iter(), piece: None, index: 0 }
    }

    /// True if something holds for each block, given its index and itself as a piece of one block.
    pub fn all(&self, mut holds: impl FnMut(u32, &Piece) -> bool) -> bool {
        let mut first = 0;
        self.pieces.iter().all(|piece| {
            let at = first;
            first += piece.blocks;
            match piece.blocks {
                1 => holds(at, piece),
                blocks => (0..blocks).all(|index| holds(at + index, &piece.slice(index, 1))),
            }
        })
    }

    /// The payload to be cut into parts, one after the other.
    pub fn cuts(&self) -> Cuts<'_> {
        Cuts { pieces: &self.pieces, skip: 0 }
    }

    /// Appends a piece, merging it with the last one if that needs no copy.
    pub fn push(&mut self, piece: Piece) {
        debug_assert!(piece.blocks > 0, "a piece of nothing");
        self.blocks += piece.blocks;
        if let Some(last) = self.pieces.last_mut() {
            let merges = match (&last.body, &piece.body) {
                (Body::Zeros, Body::Zeros) => true,
                (Body::Stamp { key: a, version: v }, Body::Stamp { key: b, version: w }) => {
                    v == w && a + u64::from(last.blocks) == *b
                }
                _ => false,
            };
            if merges {
                last.blocks += piece.blocks;
                return;
            }
        }
        self.pieces.push(piece);
    }

    /// Appends all of `other`.
    pub fn append(&mut self, other: Data) {
        if self.is_empty() {
            *self = other;
            return;
        }
        for piece in other.pieces {
            self.push(piece);
        }
    }

    /// Blocks `from..from + count`.
    ///
    /// # Panics
    /// If the range leaves the payload.
    pub fn slice(&self, from: u32, count: u32) -> Data {
        debug_assert!(from + count <= self.blocks, "slice {from}+{count} of {}", self.blocks);
        if from == 0 && self.pieces.len() == 1 && self.pieces[0].blocks == count {
            return self.clone();
        }
        let mut out = Data::none();
        let (mut skip, mut left) = (from, count);
        for piece in &self.pieces {
            if left == 0 {
                break;
            }
            if skip >= piece.blocks {
                skip -= piece.blocks;
                continue;
            }
            let take = left.min(piece.blocks - skip);
            out.push(piece.slice(skip, take));
            left -= take;
            skip = 0;
        }
        assert!(left == 0, "slice {from}+{count} of {} blocks", self.blocks());
        out
    }

    /// The single block at index `at`, as a piece of one block.
    ///
    /// # Panics
    /// If `at` is outside.
    pub fn block(&self, at: u32) -> Piece {
        let mut skip = at;
        for piece in &self.pieces {
            if skip < piece.blocks {
                return piece.slice(skip, 1);
            }
            skip -= piece.blocks;
        }
        panic!("block {at} of {}", self.blocks());
    }

    /// All bytes in one piece. One piece of real bytes is shared; else the content is copied, and
    /// stamps are filled in.
    pub fn to_bytes(&self) -> Bytes {
        if let [piece] = self.pieces.as_slice() {
            return piece.to_bytes();
        }
        let mut out = Vec::with_capacity(self.blocks() as usize * BLOCK_BYTES);
        for piece in &self.pieces {
            if let Body::Bytes(bytes) = &piece.body {
                out.extend_from_slice(bytes);
                continue;
            }
            let from = out.len();
            out.resize(from + piece.blocks as usize * BLOCK_BYTES, 0);
            piece.copy_to(&mut out[from..]);
        }
        Bytes::from(out)
    }

    /// Copies the content to `out`, whose length is that of the payload.
    pub fn copy_to(&self, out: &mut [u8]) {
        assert_eq!(out.len(), self.blocks() as usize * BLOCK_BYTES);
        let mut rest = out;
        for piece in &self.pieces {
            let (here, after) = rest.split_at_mut(piece.blocks as usize * BLOCK_BYTES);
            piece.copy_to(here);
            rest = after;
        }
    }
}

/// The blocks of a payload in order, each as a piece of one block.
#[derive(Clone, Debug)]
pub struct Each<'a> {
    pieces: std::slice::Iter<'a, Piece>,
    piece: Option<&'a Piece>,
    /// The next block of it.
    index: u32,
}

impl Iterator for Each<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let piece = match self.piece {
            Some(piece) if self.index < piece.blocks => piece,
            _ => {
                self.index = 0;
                self.piece = self.pieces.next();
                self.piece?
            }
        };
        self.index += 1;
        Some(if piece.blocks == 1 { piece.clone() } else { piece.slice(self.index - 1, 1) })
    }
}

/// A payload that is cut into parts in order. Cutting all of it costs one pass, unlike
/// [`Data::slice`] for each part.
#[derive(Clone, Copy, Debug)]
pub struct Cuts<'d> {
    pieces: &'d [Piece],
    /// Blocks of the first piece that are cut off already.
    skip: u32,
}

impl Cuts<'_> {
    /// The next `count` blocks.
    ///
    /// # Panics
    /// If fewer are left.
    pub fn take(&mut self, count: u32) -> Data {
        let mut out = Data::none();
        let mut left = count;
        while left > 0 {
            let (piece, rest) = self.pieces.split_first().expect("so many blocks are left");
            let here = left.min(piece.blocks - self.skip);
            out.push(match here == piece.blocks {
                true => piece.clone(),
                false => piece.slice(self.skip, here),
            });
            left -= here;
            self.skip += here;
            if self.skip == piece.blocks {
                (self.pieces, self.skip) = (rest, 0);
            }
        }
        out
    }
}

/// Writes the bytes that a stamp stands for. Every sector differs from every other one, so that a
/// torn or misplaced sector shows.
fn fill_stamp(block: &mut [u8], key: u64, version: u64) {
    fill_pattern(block, key, version, true);
}

/// The sum of an odd or an even number of stamps.
fn fill_pattern(block: &mut [u8], key: u64, version: u64, odd: bool) {
    for (index, word) in block.chunks_exact_mut(16).enumerate() {
        let index = if odd { (index as u64) << 56 } else { 0 };
        word[..8].copy_from_slice(&(key ^ index).to_le_bytes());
        word[8..].copy_from_slice(&version.to_le_bytes());
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Zeros => f.write_str("zeros"),
            Body::Stamp { key, version } => write!(f, "stamp {key}v{version}"),
            Body::Bytes(bytes) => write!(f, "bytes {:08x}", crate::checksum::crc32c(bytes)),
            Body::Parity(parity) => write!(f, "parity {:08x}", parity.digest()),
            Body::Sectors(_) | Body::Lazy(_) => {
                let bytes = Piece::block(self.clone()).to_bytes();
                write!(f, "bytes {:08x}", crate::checksum::crc32c(&bytes))
            }
        }
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}×{:?}", self.blocks, self.body)
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.pieces).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_block_begins_with_is_known_without_its_bytes() {
        let bytes = |seed: u8| Data::bytes((0..BLOCK_BYTES).map(|at| at as u8 ^ seed).collect());
        let header = sealed::Sealed::new(b"SEEKLESS and more".to_vec()).into_body();
        let sectors = std::array::from_fn(|at| Arc::new([at as u8 + 1; SECTOR_BYTES]));
        let pieces = [
            Piece { blocks: 3, body: Body::Zeros },
            Data::stamp(2, 77, 5).pieces()[0].clone(),
            bytes(9).pieces()[0].clone(),
            Piece::block(Body::Sectors(Arc::new(sectors))),
            Piece::block(header),
            Data::stamp(1, 5, 2).xor(&bytes(3)).block(0),
            Data::stamp(1, 5, 2).xor(&Data::stamp(1, 9, 1)).block(0),
        ];
        for piece in pieces {
            let first: [u8; 8] = piece.to_bytes()[..8].try_into().expect("eight bytes");
            assert!(piece.begins_with(first), "{piece:?}");
            assert!(!piece.begins_with(first.map(|byte| byte ^ 1)), "{piece:?}");
        }
    }

    #[test]
    fn slices_and_joins_keep_the_content() {
        let mut data = Data::stamp(3, 10, 1);
        data.append(Data::bytes(Bytes::from(vec![7; 2 * BLOCK_BYTES])));
        data.append(Data::zeros(2));
        let whole = data.to_bytes();
        for from in 0..7 {
            for count in 1..=7 - from {
                let part = data.slice(from, count).to_bytes();
                let mut cuts = data.cuts();
                assert_eq!(cuts.take(from).to_bytes(), whole[..from as usize * BLOCK_BYTES]);
                assert_eq!(cuts.take(count).to_bytes(), part);
                let start = from as usize * BLOCK_BYTES;
                assert_eq!(part, whole.slice(start..start + count as usize * BLOCK_BYTES));
            }
        }
    }

    #[test]
    fn adjacent_stamps_merge() {
        let mut data = Data::stamp(1, 4, 9);
        data.append(Data::stamp(2, 5, 9));
        assert_eq!(data, Data::stamp(3, 4, 9));
        data.append(Data::stamp(1, 7, 8));
        assert_eq!(data.pieces().len(), 2);
    }
}
