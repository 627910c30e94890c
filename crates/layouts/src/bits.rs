//! A set of numbers, a bit each.

/// Numbers below a limit.
#[derive(Clone, Debug)]
pub(crate) struct Bits {
    words: Vec<u64>,
    count: u64,
}

impl Bits {
    /// None of the numbers below `limit`.
    pub fn none(limit: u32) -> Bits {
        Bits { words: vec![0; limit.div_ceil(64) as usize], count: 0 }
    }

    /// All of them.
    pub fn all(limit: u32) -> Bits {
        let mut bits = Bits { words: vec![u64::MAX; limit.div_ceil(64) as usize], count: 0 };
        if let Some(last) = bits.words.last_mut() {
            *last = u64::MAX >> (63 - (limit - 1) % 64);
        }
        bits.count = u64::from(limit);
        bits
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Adds a number.
    pub fn insert(&mut self, number: u32) {
        let (word, bit) = (number as usize / 64, 1_u64 << (number % 64));
        self.count += u64::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    /// Takes a number out; false if it was not there.
    pub fn remove(&mut self, number: u32) -> bool {
        let (word, bit) = (number as usize / 64, 1_u64 << (number % 64));
        let was_there = self.words.get(word).is_some_and(|word| word & bit != 0);
        if was_there {
            self.words[word] &= !bit;
            self.count -= 1;
        }
        was_there
    }

    /// The lowest number from `from` on.
    pub fn next(&self, from: u32) -> Option<u32> {
        let first = from as usize / 64;
        let here = self.words.get(first)? & (u64::MAX << (from % 64));
        let rest = self.words[first + 1..].iter().copied();
        let mut words = (first..).zip(std::iter::once(here).chain(rest));
        let (index, word) = words.find(|&(_, word)| word != 0)?;
        Some(index as u32 * 64 + word.trailing_zeros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::rng::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn agrees_with_a_plain_set() {
        let (mut bits, mut plain) = (Bits::all(300), (0..300).collect::<BTreeSet<u32>>());
        let mut rng = Rng::stream(2, "bits");
        for _ in 0..20_000 {
            let number = rng.below(300) as u32;
            if rng.chance(0.45) {
                bits.insert(number);
                plain.insert(number);
            } else {
                assert_eq!(bits.remove(number), plain.remove(&number));
            }
            let from = rng.below(320) as u32;
            assert_eq!(bits.next(from), plain.range(from..).next().copied());
            assert_eq!(bits.len(), plain.len() as u64);
        }
        assert_eq!(Bits::none(64).next(0), None);
        assert_eq!(Bits::all(64).next(63), Some(63));
    }
}
