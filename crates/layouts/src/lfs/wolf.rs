//! WOLF: the write buffer holds several segments; when it is written out, blocks that are written
//! often go to other segments than blocks that are not, so that segments become either nearly empty
//! soon or stay full. (Wang and Hu, "WOLF: a novel reordering write buffer to boost the performance
//! of log-structured file systems", FAST 2002.)

use super::pool::Slot;
use seekless_engine::units::{SECONDS, Time};
use std::cmp::Reverse;

/// Segments in the write buffer: the paper has two to four.
pub const BUFFERS: u64 = 2;
/// Age at which reference counts are forgotten, at first.
const TIME_BAR: Time = 600 * SECONDS;
/// What the time-bar may be halved to and doubled to.
const TIME_BARS: std::ops::RangeInclusive<Time> = SECONDS..=100 * TIME_BAR;

/// Reference counts: one byte for each block of the volume.
#[derive(Clone, Debug)]
pub struct Wolf {
    counts: Vec<u8>,
    time_bar: Time,
    cleared_at: Time,
}

impl Wolf {
    /// No references yet.
    pub fn new(blocks: u64) -> Wolf {
        Wolf { counts: vec![0; blocks as usize], time_bar: TIME_BAR, cleared_at: 0 }
    }

    /// A block is written.
    pub fn refer(&mut self, block: u64, now: Time) {
        if now - self.cleared_at > self.time_bar {
            self.cleared_at = now;
            self.counts.fill(0);
        }
        let count = &mut self.counts[block as usize];
        *count = count.saturating_add(1);
    }

    /// Puts slots into the order of their counts, the highest first; equal ones by their place in
    /// the volume. The time-bar is doubled if nine tenths of the counts are the same, and halved if
    /// only one tenth is: then it tells too little, or remembers too much.
    pub fn arrange(&mut self, slots: &[Slot], order: &mut [u32]) {
        let count = |index: u32| self.counts[slots[index as usize].block as usize];
        let mut tally = [0_usize; 256];
        for &index in order.iter() {
            tally[usize::from(count(index))] += 1;
        }
        order.sort_unstable_by_key(|&index| (Reverse(count(index)), slots[index as usize].block));
        let most = tally.iter().max().copied().unwrap_or(0);
        if most * 10 >= order.len() * 9 {
            self.time_bar = (self.time_bar * 2).min(*TIME_BARS.end());
        } else if most * 10 <= order.len() {
            self.time_bar = (self.time_bar / 2).max(*TIME_BARS.start());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::data::Body;

    fn slots(blocks: u32) -> Vec<Slot> {
        (0..blocks).map(|block| Slot { block, body: Body::Zeros, written: 0, from: None }).collect()
    }

    #[test]
    fn what_is_written_often_comes_first() {
        let mut wolf = Wolf::new(10);
        for (block, times) in [(3, 5), (7, 2), (1, 2)] {
            (0..times).for_each(|_| wolf.refer(block, 0));
        }
        let mut order: Vec<u32> = (0..10).collect();
        wolf.arrange(&slots(10), &mut order);
        assert_eq!(order[..4], [3, 1, 7, 0]);
    }

    #[test]
    fn the_time_bar_follows_the_counts() {
        let mut wolf = Wolf::new(20);
        let mut order: Vec<u32> = (0..20).collect();
        wolf.arrange(&slots(20), &mut order);
        assert_eq!(wolf.time_bar, 2 * TIME_BAR, "all counts are the same");
        for block in 0..20 {
            (0..block).for_each(|_| wolf.refer(block, 0));
        }
        wolf.arrange(&slots(20), &mut order);
        assert_eq!(wolf.time_bar, TIME_BAR, "all counts differ");
        wolf.refer(5, 2 * TIME_BAR);
        assert_eq!(wolf.counts.iter().filter(|&&count| count > 0).count(), 1, "old ones are gone");
    }
}
