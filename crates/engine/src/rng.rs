//! Seeded random numbers: the engine uses no others.

use crate::checksum::mix;
use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// A stream of random numbers that is a function of its seed and name alone. PCG64-MCG is fixed by
/// its published definition, so results stay the same across versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng(Pcg64Mcg);

impl Rng {
    /// The stream `name` of `seed`. Streams of different names are independent, so that a new
    /// consumer never changes the numbers of another one.
    pub fn stream(seed: u64, name: &str) -> Rng {
        // FNV-1a of the name; any fixed mixing function is enough.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
        });
        // The generator sets the two low bits of its state. After mixing, no two seeds differ only
        // there.
        let mut state = [0; 16];
        let (low, high) = state.split_at_mut(8);
        low.copy_from_slice(&mixed(seed ^ mixed(hash)).to_le_bytes());
        high.copy_from_slice(&mixed(hash ^ mixed(seed)).to_le_bytes());
        Rng(Pcg64Mcg::from_seed(state))
    }

    /// Any 64-bit number.
    #[expect(clippy::should_implement_trait, reason = "a stream of randomness is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0..bound` (by multiplication; the bias is below 2⁻³² for every bound in use).
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a draw below zero");
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        debug_assert!((0.0..=1.0).contains(&p), "{p} is no probability");
        self.unit() < p
    }
}

fn mixed(x: u64) -> u64 {
    // `mix` maps zero to zero, so add a constant first.
    mix(x.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let mut a = Rng::stream(1, "a");
        let mut again = Rng::stream(1, "a");
        let mut b = Rng::stream(1, "b");
        let first: Vec<u64> = (0..8).map(|_| a.next()).collect();
        assert_eq!(first, (0..8).map(|_| again.next()).collect::<Vec<_>>());
        assert_ne!(first, (0..8).map(|_| b.next()).collect::<Vec<_>>());
    }

    #[test]
    fn near_seeds_have_streams_of_their_own() {
        let firsts: Vec<u64> = (0..64).map(|seed| Rng::stream(seed, "a").next()).collect();
        for (seed, first) in firsts.iter().enumerate() {
            assert!(!firsts[..seed].contains(first), "seed {seed} repeats another");
        }
        let ones: u32 = firsts.iter().map(|first| first.count_ones()).sum();
        assert!((1800..2300).contains(&ones), "{ones} of 4096 bits are ones");
    }

    #[test]
    fn below_stays_below() {
        let mut rng = Rng::stream(7, "below");
        for bound in 1..200 {
            for _ in 0..20 {
                assert!(rng.below(bound) < bound);
            }
        }
    }
}
