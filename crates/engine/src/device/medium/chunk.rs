//! Blocks that forks of a store share until one of them is written.

use crate::data::Body;
use std::sync::Arc;

/// Blocks in a chunk. A sweep forks at every event and writes a block or two: then small chunks
/// cost less than few of them save.
pub const CHUNK: usize = 16;

/// Some blocks.
#[derive(Clone, Debug)]
pub enum Chunk {
    /// Zeros, and stamps with numbers of 32 bits, in a third of the memory: all that a simulation
    /// stores of its clients.
    Packed(Arc<[u64; CHUNK]>),
    /// Anything.
    Mixed(Arc<[Body; CHUNK]>),
}

impl Chunk {
    /// Zeros.
    pub fn zeros() -> Chunk {
        Chunk::Packed(Arc::new([0; CHUNK]))
    }

    /// One block.
    pub fn get(&self, index: usize) -> Body {
        match self {
            Chunk::Packed(words) => unpack(words[index]),
            Chunk::Mixed(bodies) => bodies[index].clone(),
        }
    }

    /// Replaces one block.
    pub fn set(&mut self, index: usize, body: Body) {
        match self {
            Chunk::Mixed(bodies) => Arc::make_mut(bodies)[index] = body,
            Chunk::Packed(words) => match pack(&body) {
                Some(word) => Arc::make_mut(words)[index] = word,
                None => {
                    let mut bodies = words.map(unpack);
                    bodies[index] = body;
                    *self = Chunk::Mixed(Arc::new(bodies));
                }
            },
        }
    }
}

impl PartialEq for Chunk {
    fn eq(&self, other: &Chunk) -> bool {
        match (self, other) {
            (Chunk::Packed(a), Chunk::Packed(b)) => a == b,
            (Chunk::Mixed(a), Chunk::Mixed(b)) => a == b,
            _ => (0..CHUNK).all(|index| self.get(index) == other.get(index)),
        }
    }
}

impl Eq for Chunk {}

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
    fn chunks_are_equal_if_their_blocks_are() {
        let mut one = Chunk::zeros();
        one.set(3, Body::Stamp { key: 1, version: 2 });
        let mut other = one.clone();
        other.set(5, Body::Bytes(Bytes::from(vec![1; 4096])));
        assert_ne!(one, other);
        assert_eq!(other.get(3), one.get(3));
        other.set(5, Body::Zeros);
        assert_eq!(one, other, "though one of them is not packed any more");
    }
}
