//! A permutation of `0..count` that is computed, not stored.

use seekless_engine::checksum::mix;

/// Rounds of the network: with four, the permutation looks random to every caller.
const ROUNDS: usize = 4;

/// A bijection of `0..count`: a Feistel network over the next even number of bits, walked until it
/// falls inside the range (Black and Rogaway, *Ciphers with Arbitrary Finite Domains*, 2002). It
/// takes no memory, so that a volume of any size can have its pages scattered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permutation {
    count: u64,
    /// Bits in each half of a number.
    half: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0..count` that belongs to `seed`.
    ///
    /// # Panics
    /// If `count` is zero.
    pub fn new(count: u64, seed: u64) -> Permutation {
        assert!(count > 0, "a permutation of nothing");
        let bits = u64::BITS - (count - 1).leading_zeros();
        let mut key = seed ^ 0x5ca7_7e2e_d1ac_e5e5;
        let keys = [(); ROUNDS].map(|()| {
            key = mix(key.wrapping_add(0x9e37_79b9_7f4a_7c15));
            key
        });
        Permutation { count, half: bits.div_ceil(2).max(1), keys }
    }

    /// Where `index` goes.
    ///
    /// # Panics
    /// If `index` lies outside the range.
    pub fn at(&self, index: u64) -> u64 {
        assert!(index < self.count, "{index} of {}", self.count);
        let mut number = self.round_trip(index);
        // The network permutes at most four times as many numbers: on average few steps are walked,
        // and the walk returns to the range, because it is part of a cycle through its start.
        while number >= self.count {
            number = self.round_trip(number);
        }
        number
    }

    fn round_trip(&self, number: u64) -> u64 {
        let mask = (1_u64 << self.half) - 1;
        let (mut left, mut right) = (number >> self.half, number & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_hit_once() {
        for count in [1, 2, 3, 7, 64, 65, 1000, 4097] {
            for seed in 0..4 {
                let permutation = Permutation::new(count, seed);
                let mut hit = vec![false; count as usize];
                for index in 0..count {
                    let place = permutation.at(index) as usize;
                    assert!(!std::mem::replace(&mut hit[place], true), "{place} of {count}");
                }
            }
        }
    }

    #[test]
    fn seeds_differ_and_neighbours_part() {
        let (a, b) = (Permutation::new(10_000, 1), Permutation::new(10_000, 2));
        let same = (0..10_000).filter(|&index| a.at(index) == b.at(index)).count();
        assert!(same < 10, "{same} places in common");
        let near = (1..10_000).filter(|&index| a.at(index).abs_diff(a.at(index - 1)) < 10).count();
        assert!(near < 60, "{near} of 10000 stay side by side");
    }

    #[test]
    fn the_largest_ranges_work() {
        for count in [u64::MAX, 1 << 63, (1 << 40) + 1] {
            assert!(Permutation::new(count, 1).at(count - 1) < count);
        }
    }
}
