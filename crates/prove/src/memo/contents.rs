//! Numbers for the contents of blocks: equal contents have the same number.
//!
//! A content that was seen before is found by the address of its bytes, which are kept so that no
//! others can come to lie there; else by a hash and a comparison.

use bytes::Bytes;
use seekless_engine::checksum::{mix, xxh3_64};
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::device::medium::Cells;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The number of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Content(u32);

/// A block of zeros.
pub const ZEROS: Content = Content(0);

/// Mixes the word that a key is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.write_u64(xxh3_64(bytes));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0 ^ word);
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

/// A table whose order nothing depends on.
pub type Words<K, V> = HashMap<K, V, BuildHasherDefault<Mixed>>;

/// An image that was numbered, from which the next one differs in a few blocks.
#[derive(Clone, Debug)]
struct Numbered {
    cells: Cells,
    image: Vec<Content>,
}

/// The contents that were seen.
#[derive(Debug)]
pub struct Contents {
    bytes: Vec<Bytes>,
    by_place: Words<usize, Content>,
    by_hash: Words<u64, Vec<Content>>,
    /// Bytes that hold what others do, and are kept as well.
    others: Vec<Bytes>,
    /// Some contents side by side, as file systems with blocks of two read them.
    pairs: Vec<Option<(u64, Bytes)>>,
    last: Option<Numbered>,
}

/// Places for pairs of contents; those that fall together drive each other out.
const PAIRS: usize = 512;
/// Bytes that are kept though others hold the same.
const MOST_OTHERS: usize = 2048;

/// Blocks in which an image differs from the last one before it takes that one's place.
const FAR: usize = 24;

impl Default for Contents {
    fn default() -> Contents {
        let mut contents = Contents {
            bytes: Vec::new(),
            by_place: Words::default(),
            by_hash: Words::default(),
            others: Vec::new(),
            pairs: vec![None; PAIRS],
            last: None,
        };
        let zeros = contents.number(Piece::block(Body::Zeros).to_bytes());
        debug_assert_eq!(zeros, ZEROS, "zeros come first");
        contents
    }
}

impl Contents {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of a content.
    pub fn bytes(&self, content: Content) -> &Bytes {
        &self.bytes[content.0 as usize]
    }

    /// Contents side by side, as the answer to a read.
    pub fn data(&mut self, contents: &[Content]) -> Data {
        if let &[one, other] = contents {
            let pair = u64::from(one.0) << 32 | u64::from(other.0);
            let place = mix(pair) as usize % PAIRS;
            if let Some((_, both)) = self.pairs[place].as_ref().filter(|known| known.0 == pair) {
                return Data::bytes(both.clone());
            }
            let both: Bytes = [&self.bytes(one)[..], &self.bytes(other)[..]].concat().into();
            self.pairs[place] = Some((pair, both.clone()));
            return Data::bytes(both);
        }
        let mut data = Data::none();
        for &content in contents {
            data.push(Piece::block(Body::Bytes(self.bytes(content).clone())));
        }
        data
    }

    /// The number of what a block holds.
    pub fn number_of(&mut self, body: &Body) -> Content {
        match body {
            Body::Zeros => ZEROS,
            Body::Bytes(bytes) => match self.by_place.get(&(bytes.as_ptr() as usize)) {
                Some(&content) => content,
                None => self.number(bytes.clone()),
            },
            other => self.number(Piece::block(other.clone()).to_bytes()),
        }
    }

    fn number(&mut self, bytes: Bytes) -> Content {
        debug_assert_eq!(bytes.len(), BLOCK_BYTES, "a body in a store is one block");
        let same_hash = self.by_hash.entry(xxh3_64(&bytes)).or_default();
        let known = same_hash.iter().find(|one| self.bytes[one.0 as usize] == bytes);
        if let Some(&content) = known {
            self.keep_other(bytes, content);
            return content;
        }
        let content = Content(self.bytes.len() as u32);
        same_hash.push(content);
        self.by_place.insert(bytes.as_ptr() as usize, content);
        self.bytes.push(bytes);
        content
    }

    /// Notes that these bytes hold that content, too.
    fn keep_other(&mut self, bytes: Bytes, content: Content) {
        if self.others.len() >= MOST_OTHERS {
            for old in self.others.drain(..) {
                self.by_place.remove(&(old.as_ptr() as usize));
            }
        }
        // A block of zeros may be no memory of its own.
        if self.by_place.insert(bytes.as_ptr() as usize, content).is_none() {
            self.others.push(bytes);
        }
    }

    /// The numbers of all blocks of a store.
    pub fn image_of(&mut self, cells: &Cells) -> Vec<Content> {
        let last = self.last.take().filter(|last| last.image.len() == blocks(cells));
        let mut image = match &last {
            Some(last) => last.image.clone(),
            None => vec![ZEROS; blocks(cells)],
        };
        let unlike: Vec<BlockNr> = match &last {
            Some(last) => cells.unlike(&last.cells).collect(),
            None => (0..blocks(cells) as BlockNr).collect(),
        };
        for &at in &unlike {
            image[at as usize] = self.number_of(&cells.get(at));
        }
        self.last = match last {
            Some(last) if unlike.len() < FAR => Some(last),
            _ => Some(Numbered { cells: cells.clone(), image: image.clone() }),
        };
        image
    }
}

fn blocks(cells: &Cells) -> usize {
    use seekless_engine::device::medium::Medium as _;
    cells.blocks() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::device::medium::Medium as _;
    use seekless_engine::rng::Rng;

    #[test]
    fn equal_contents_have_one_number() {
        let mut contents = Contents::default();
        let block = |fill: u8| Body::Bytes(Bytes::from(vec![fill; BLOCK_BYTES]));
        let one = contents.number_of(&block(1));
        assert_ne!(one, contents.number_of(&block(2)));
        assert_eq!(one, contents.number_of(&block(1)), "other bytes, the same content");
        assert_eq!(contents.number_of(&block(0)), ZEROS);
        assert_eq!(contents.bytes(one)[..], [1; BLOCK_BYTES]);
        assert_eq!(contents.count(), 3);
    }

    /// Forks that go their own ways, by whole blocks and by sectors: what is numbered is there.
    #[test]
    fn images_are_numbered_right() {
        let mut rng = Rng::stream(1, "images");
        let mut contents = Contents::default();
        let first = Cells::new(70);
        let mut forks = vec![first.clone()];
        for _ in 0..400 {
            let mut cells = forks[rng.below(forks.len() as u64) as usize].clone();
            for _ in 0..rng.below(30) {
                let fill = rng.below(3) as u8;
                let data = Data::bytes(Bytes::from(vec![fill; BLOCK_BYTES]));
                cells.write(rng.below(70), &data).unwrap();
            }
            let image = contents.image_of(&cells);
            for (at, content) in (0..).zip(image) {
                let bytes = cells.read(at, 1).unwrap().to_bytes();
                assert_eq!(*contents.bytes(content), bytes, "block {at}");
            }
            forks.push(cells);
        }
        assert_eq!(contents.count(), 3);
    }
}
