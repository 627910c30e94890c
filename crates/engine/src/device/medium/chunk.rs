//! Blocks that forks of a store share until one of them is written.

use crate::data::{Body, Data, Piece};
use std::ops::Range;
use std::sync::Arc;

/// Blocks in a chunk. A sweep forks at every event and writes a block or two: then small chunks
/// cost less than few of them save.
pub const CHUNK: usize = 16;

/// Some blocks.
#[derive(Clone, Debug)]
pub struct Chunk(Arc<Blocks>);

/// Zeros, and stamps with numbers of 32 bits, are words: that is all that a simulation stores of
/// its clients, in a third of the memory of a body.
#[derive(Debug)]
struct Blocks {
    words: [u64; CHUNK],
    /// Whatever else there is, each named by a word: its number, counted from 1.
    others: Vec<Body>,
}

impl Chunk {
    /// Zeros.
    pub fn zeros() -> Chunk {
        Chunk(Arc::new(Blocks { words: [0; CHUNK], others: Vec::new() }))
    }

    /// One block.
    pub fn get(&self, index: usize) -> Body {
        self.0.body(self.0.words[index])
    }

    /// Appends some blocks to what is being read.
    pub fn append_to(&self, data: &mut Data, range: Range<usize>) {
        for &word in &self.0.words[range] {
            data.push(Piece { blocks: 1, body: self.0.body(word) });
        }
    }

    /// True if a fork has the same block here, as can be told without a look at bytes.
    pub fn shares(&self, other: &Chunk, index: usize) -> bool {
        let of = |chunk: &'_ Chunk| chunk.0.words[index];
        match (other_of(of(self)), other_of(of(other))) {
            (None, None) => of(self) == of(other),
            (Some(one), Some(two)) => is_same(&self.0.others[one], &other.0.others[two]),
            _ => false,
        }
    }

    /// True if a fork has the same blocks here, and neither has written any of them.
    pub fn is_shared(&self, other: &Chunk) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Replaces one block.
    pub fn set(&mut self, index: usize, body: Body) {
        let blocks = Arc::make_mut(&mut self.0);
        match (other_of(blocks.words[index]), pack(&body)) {
            (None, Some(word)) => blocks.words[index] = word,
            (Some(old), None) => blocks.others[old] = body,
            (None, None) => {
                blocks.others.push(body);
                blocks.words[index] = blocks.others.len() as u64;
            }
            (Some(old), Some(word)) => {
                blocks.words[index] = word;
                blocks.remove(old);
            }
        }
    }
}

impl Clone for Blocks {
    /// Apart from the code that writes a block, which hardly ever has to copy others.
    #[inline(never)]
    fn clone(&self) -> Blocks {
        Blocks { words: self.words, others: self.others.clone() }
    }
}

impl Blocks {
    fn body(&self, word: u64) -> Body {
        match other_of(word) {
            None => unpack(word),
            Some(number) => self.others[number].clone(),
        }
    }

    /// Takes one out of the others; the last of them gets its number.
    fn remove(&mut self, number: usize) {
        self.others.swap_remove(number);
        let last = self.others.len() as u64 + 1;
        if let Some(word) = self.words.iter_mut().find(|word| **word == last) {
            *word = number as u64 + 1;
        }
    }
}

impl PartialEq for Chunk {
    fn eq(&self, other: &Chunk) -> bool {
        let (one, two) = (&self.0, &other.0);
        match one.others.is_empty() && two.others.is_empty() {
            true => one.words == two.words,
            false => (0..CHUNK).all(|index| self.get(index) == other.get(index)),
        }
    }
}

impl Eq for Chunk {}

/// Which of the others a word names, if any: those of stamps are greater.
fn other_of(word: u64) -> Option<usize> {
    (1..=CHUNK as u64).contains(&word).then(|| word as usize - 1)
}

/// True if two bodies are the same memory.
fn is_same(one: &Body, other: &Body) -> bool {
    match (one, other) {
        (Body::Bytes(a), Body::Bytes(b)) => a.as_ptr() == b.as_ptr() && a.len() == b.len(),
        (Body::Sectors(a), Body::Sectors(b)) => Arc::ptr_eq(a, b),
        (Body::Lazy(a), Body::Lazy(b)) => Arc::ptr_eq(a, b),
        (Body::Parity(a), Body::Parity(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

/// A body in eight bytes, if it fits: 0 for zeros, else the key and one in the upper half, the
/// version in the lower one.
fn pack(body: &Body) -> Option<u64> {
    match *body {
        Body::Zeros => Some(0),
        Body::Stamp { key, version } if key < u64::from(u32::MAX) => {
            Some((key + 1) << 32 | u64::from(u32::try_from(version).ok()?))
        }
        _ => None,
    }
}

fn unpack(word: u64) -> Body {
    match word {
        0 => Body::Zeros,
        _ => Body::Stamp { key: (word >> 32) - 1, version: word & u64::from(u32::MAX) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use bytes::Bytes;

    #[test]
    fn what_is_packed_comes_back() {
        let most = u64::from(u32::MAX);
        let stamp = |key, version| Body::Stamp { key, version };
        for body in [Body::Zeros, stamp(0, 0), stamp(0, most), stamp(most - 1, 7)] {
            assert_eq!(pack(&body).map(unpack), Some(body));
        }
        for body in [stamp(most, 0), stamp(0, most + 1), Body::Bytes(Bytes::from(vec![1; 4096]))] {
            assert_eq!(pack(&body), None);
        }
    }

    #[test]
    fn blocks_are_what_was_last_put_there() {
        let mut rng = Rng::stream(1, "chunk");
        let (mut chunk, mut model) = (Chunk::zeros(), vec![Body::Zeros; CHUNK]);
        for version in 0..2000 {
            let at = rng.below(CHUNK as u64) as usize;
            let body = match rng.below(3) {
                0 => Body::Zeros,
                1 => Body::Stamp { key: at as u64, version },
                _ => Body::Bytes(Bytes::from(vec![version as u8; 4096])),
            };
            model[at] = body.clone();
            chunk.set(at, body);
            assert!((0..CHUNK).all(|at| chunk.get(at) == model[at]));
            let others = model.iter().filter(|body| pack(body).is_none());
            assert_eq!(chunk.0.others.len(), others.count());
        }
    }

    #[test]
    fn chunks_are_equal_if_their_blocks_are() {
        let mut one = Chunk::zeros();
        one.set(3, Body::Stamp { key: 1, version: 2 });
        let mut other = one.clone();
        other.set(5, Body::Bytes(Bytes::from(vec![1; 4096])));
        assert_ne!(one, other);
        assert_eq!(other.get(3), one.get(3));
        other.set(5, Body::Zeros);
        assert_eq!(one, other);
        for (chunk, first) in [(&mut one, 7), (&mut other, 8)] {
            // The same others, in another order.
            chunk.set(first, Body::Bytes(Bytes::from(vec![1; 4096])));
            chunk.set(15 - first, Body::Bytes(Bytes::from(vec![1; 4096])));
        }
        assert_eq!(one, other);
        other.set(7, Body::Zeros);
        assert_ne!(one, other);
    }
}
