//! The table of exceptions: where the blocks lie that are not where a formula or a band says.
//!
//! Open addressing with linear probing in one array; a block that leaves makes room by moving the
//! ones behind it up, so nothing is ever marked as deleted. An entry is two numbers of four bytes,
//! and with a quarter of the entries free an exception takes 10.7 bytes: 2.7 times as much as
//! an address in a plain table (section 8.2.2 of the paper assumes four times).

use seekless_engine::units::BlockNr;

/// Bytes of an entry: the block, or 0, and its place.
const ENTRY_BYTES: u64 = 8;
/// Fewest entries.
const LEAST_ENTRIES: u64 = 8;

/// Places of misplaced blocks.
#[derive(Clone, Debug)]
pub struct Exceptions {
    /// One more than the block, or 0; and its place.
    entries: Vec<(u32, u32)>,
    len: u64,
    most: u64,
    peak: u64,
}

/// Entries for so many exceptions.
fn entries_for(exceptions: u64) -> u64 {
    (exceptions + exceptions.div_ceil(3)).max(LEAST_ENTRIES)
}

impl Exceptions {
    /// None, with room for `most`.
    pub fn new(most: u64) -> Exceptions {
        let entries = vec![(0, 0); entries_for(most) as usize];
        Exceptions { entries, len: 0, most, peak: 0 }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// How many there are to be at most.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The most that there have been.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// Memory that they take, in bytes, used or not.
    pub fn bytes(&self) -> u64 {
        self.entries.len() as u64 * ENTRY_BYTES
    }

    /// The entry where a block is looked for first.
    fn first(&self, key: u32) -> usize {
        let spread = key.wrapping_mul(0x9e37_79b9);
        ((u64::from(spread) * self.entries.len() as u64) >> 32) as usize
    }

    fn next(&self, index: usize) -> usize {
        if index + 1 == self.entries.len() { 0 } else { index + 1 }
    }

    /// The entry of a block, or the free one where it would go.
    fn find(&self, key: u32) -> usize {
        let mut index = self.first(key);
        while self.entries[index].0 != 0 && self.entries[index].0 != key {
            index = self.next(index);
        }
        index
    }

    /// Where a block lies, if it is an exception.
    pub fn get(&self, at: BlockNr) -> Option<u32> {
        let (key, place) = self.entries[self.find(at as u32 + 1)];
        (key != 0).then_some(place)
    }

    /// A block lies at a place from now on. There is room for more than [`Exceptions::most`]: what
    /// has to be stored is stored.
    pub fn set(&mut self, at: BlockNr, place: u32) {
        let key = at as u32 + 1;
        let index = self.find(key);
        if self.entries[index].0 == 0 {
            self.len += 1;
            self.peak = self.peak.max(self.len);
        }
        self.entries[index] = (key, place);
        if 8 * self.len > 7 * self.entries.len() as u64 {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let larger = vec![(0, 0); self.entries.len() * 3 / 2];
        for (key, place) in std::mem::replace(&mut self.entries, larger) {
            if key != 0 {
                let index = self.find(key);
                self.entries[index] = (key, place);
            }
        }
    }

    /// A block ceases to be an exception.
    pub fn remove(&mut self, at: BlockNr) {
        let mut hole = self.find(at as u32 + 1);
        if self.entries[hole].0 == 0 {
            return;
        }
        self.len -= 1;
        let mut index = self.next(hole);
        while self.entries[index].0 != 0 {
            let wanted = self.first(self.entries[index].0);
            // Moves up unless it would come to lie before where it is looked for first.
            let behind = match hole <= index {
                true => wanted <= hole || wanted > index,
                false => wanted <= hole && wanted > index,
            };
            if behind {
                self.entries[hole] = self.entries[index];
                hole = index;
            }
            index = self.next(index);
        }
        self.entries[hole] = (0, 0);
    }

    /// The exceptions among the next `looks` entries from `cursor` on, with wrapping round; the
    /// cursor goes on behind them.
    pub fn some(&self, cursor: &mut usize, looks: usize) -> Vec<(BlockNr, u32)> {
        let mut out = Vec::new();
        for _ in 0..looks.min(self.entries.len()) {
            *cursor = if *cursor + 1 >= self.entries.len() { 0 } else { *cursor + 1 };
            let (key, place) = self.entries[*cursor];
            if key != 0 {
                out.push((u64::from(key) - 1, place));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::rng::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_a_map() {
        let mut own = Exceptions::new(40);
        let mut plain = BTreeMap::new();
        let mut rng = Rng::stream(9, "exceptions");
        for round in 0..40_000_u64 {
            let at = rng.below(120);
            // Beyond its room and back to nothing.
            let rising = round % 4000 < 2000;
            if rng.chance(if rising { 0.8 } else { 0.2 }) {
                own.set(at, round as u32);
                plain.insert(at, round as u32);
            } else {
                own.remove(at);
                plain.remove(&at);
            }
            assert_eq!(own.len(), plain.len() as u64);
            for at in 0..120 {
                assert_eq!(own.get(at), plain.get(&at).copied(), "round {round}, block {at}");
            }
        }
        assert!(own.peak() > own.most());
        let mut cursor = 77_777;
        let mut all = own.some(&mut cursor, usize::MAX);
        all.sort_unstable();
        assert_eq!(all, plain.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn an_exception_takes_less_than_eleven_bytes() {
        let own = Exceptions::new(10_000);
        assert_eq!(own.bytes(), 8 * 13_334);
    }
}
