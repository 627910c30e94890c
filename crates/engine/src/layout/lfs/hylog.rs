//! HyLog: blocks that are written often go to the log, the others are overwritten where they lie.
//! (Wang, Zhao and Bunt, "HyLog: a high performance approach to managing disk layout", FAST 2004;
//! equations and claims are numbered as there and in the tests.)
//!
//! Each block has a counter of its writes in the present interval. At the end of an interval the
//! counters say which share *w* of the writes goes to which share *h* of the blocks; the *h* that
//! costs the least by equation (8) becomes the share of hot blocks, and the counter of the block at
//! that rank the threshold. A block is hot if it was in the last interval, or if it has reached the
//! threshold in this one; the paper forgets the last interval, so that every block would begin the
//! next one cold.

use crate::units::{SECONDS, Time};

/// Length of an interval.
pub const INTERVAL: Time = 20 * 60 * SECONDS;
/// The counter of a block, and whether it was hot in the last interval.
const COUNT: u8 = 0x7f;
const WAS_HOT: u8 = 0x80;

/// How many times as long blocks take one by one as in segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Efficiency {
    /// Anywhere: *η*.
    pub page: f64,
    /// In holes of one segment; `None` if they are not plugged.
    pub hole: Option<f64>,
}

/// What tells hot blocks from cold ones.
#[derive(Clone, Debug)]
pub struct Hylog {
    counters: Vec<u8>,
    interval: Time,
    began: Time,
    /// Writes of a block in an interval from which on it is hot; 0 while all are.
    threshold: u8,
    /// Share of hot blocks that was asked for, in percent.
    fixed: Option<u32>,
    /// Share of hot blocks that was last chosen.
    pub hot_share: f64,
    idle_ns: Time,
    idle_since: Option<Time>,
    first: bool,
}

impl Hylog {
    /// All blocks are hot in the first interval. With `fixed`, so many percent of the blocks are
    /// hot in the others, whatever that costs.
    pub fn new(blocks: u64, interval: Time, fixed: Option<u32>) -> Hylog {
        Hylog {
            counters: vec![0; blocks as usize],
            interval,
            began: 0,
            threshold: 0,
            fixed,
            hot_share: 1.0,
            idle_ns: 0,
            idle_since: None,
            first: true,
        }
    }

    /// A block is written; true if it is cold.
    pub fn is_cold_write(&mut self, block: u64) -> bool {
        let counter = &mut self.counters[block as usize];
        if *counter & COUNT < COUNT {
            *counter += 1;
        }
        self.is_cold(block)
    }

    /// True if a block is cold.
    pub fn is_cold(&self, block: u64) -> bool {
        let counter = self.counters[block as usize];
        !self.first && counter & WAS_HOT == 0 && counter & COUNT < self.threshold
    }

    /// Whether the device has anything to do from now on.
    pub fn note(&mut self, idle: bool, now: Time) {
        match (idle, self.idle_since) {
            (true, None) => self.idle_since = Some(now),
            (false, Some(since)) => {
                self.idle_ns += now - since;
                self.idle_since = None;
            }
            _ => {}
        }
    }

    /// What blocks one by one cost more if the device is idle at times (section 4.2).
    fn busy_efficiency(&self, measured: Efficiency, now: Time) -> Efficiency {
        let span = (now - self.began).max(1) as f64;
        let busy = 1.0 - (self.idle_ns as f64 / span).min(0.99);
        Efficiency { page: measured.page / busy, hole: measured.hole.map(|hole| hole / busy) }
    }

    /// At the end of an interval, chooses anew which blocks are hot; `stored` blocks fill
    /// `utilisation` of what the log can hold, and blocks one by one take so many times as long as
    /// in segments, if that has been measured.
    pub fn turn(
        &mut self,
        stored: u64,
        utilisation: f64,
        efficiency: Option<Efficiency>,
        now: Time,
    ) {
        if now - self.began < self.interval {
            return;
        }
        let mut tally = [0_u64; 128];
        for &counter in &self.counters {
            tally[usize::from(counter & COUNT)] += 1;
        }
        // What was never stored was never written: it is not among the blocks to choose from.
        tally[0] = stored.saturating_sub(tally[1..].iter().sum());
        let share = match (self.fixed, efficiency) {
            (Some(percent), _) => f64::from(percent) / 100.0,
            (None, Some(measured)) => {
                best_share(&tally, utilisation, self.busy_efficiency(measured, now))
            }
            (None, None) => 1.0,
        };
        self.hot_share = share;
        self.threshold = threshold(&tally, share);
        for counter in &mut self.counters {
            let hot = *counter & COUNT >= self.threshold;
            *counter = if hot { WAS_HOT } else { 0 };
        }
        self.first = false;
        self.began = now;
        self.idle_ns = 0;
        self.idle_since = self.idle_since.map(|_| now);
    }
}

/// The counter of the block at that share of the ranks.
fn threshold(tally: &[u64; 128], share: f64) -> u8 {
    let blocks: u64 = tally.iter().sum();
    let hot = (blocks as f64 * share).round() as u64;
    let mut above = 0;
    for count in (1..128).rev() {
        above += tally[count];
        if above >= hot {
            return count as u8;
        }
    }
    if share >= 1.0 { 0 } else { 1 }
}

/// The share of hot blocks, in steps of a per cent, at which a write costs the least.
fn best_share(tally: &[u64; 128], utilisation: f64, efficiency: Efficiency) -> f64 {
    let blocks: u64 = tally.iter().sum();
    let writes: u64 = tally.iter().zip(0..).map(|(&blocks, count)| blocks * count).sum();
    if writes == 0 || blocks == 0 {
        return 1.0;
    }
    let mut best = (f64::INFINITY, 1.0);
    for percent in 0..=100 {
        let share = f64::from(percent) / 100.0;
        let hot = hot_writes(tally, blocks as f64 * share) / writes as f64;
        let cost = write_cost(hot, share, utilisation, efficiency);
        if cost < best.0 {
            best = (cost, share);
        }
    }
    best.1
}

/// Writes that go to the so many blocks that are written most.
fn hot_writes(tally: &[u64; 128], hot: f64) -> f64 {
    let (mut left, mut writes) = (hot, 0.0);
    for (count, &blocks) in tally.iter().enumerate().rev() {
        let taken = left.min(blocks as f64);
        writes += taken * count as f64;
        left -= taken;
    }
    writes
}

/// Equation (8): what a write costs, in block transfers at the speed of whole segments, if a share
/// `writes` of the writes goes to a share `hot` of the blocks.
pub fn write_cost(writes: f64, hot: f64, utilisation: f64, efficiency: Efficiency) -> f64 {
    if hot <= 0.0 {
        return efficiency.page;
    }
    // Equation (7), with the utilisation of the disk (claim H11).
    let partition = utilisation * hot / (1.0 - utilisation + utilisation * hot);
    let cleaned = cleaning_utilisation(partition);
    let copying = 2.0 / (1.0 - cleaned);
    // Equation (5), where plugging holes is the cheaper way to clean.
    let plugging = efficiency.hole.map_or(f64::INFINITY, |hole| 2.0 + cleaned * hole);
    (1.0 - writes) * efficiency.page + writes * copying.min(plugging)
}

/// Equation (2) solved for the utilisation of the segments that are cleaned, by bisection: how full
/// they still are where live blocks fill a share `disk` of the space.
pub fn cleaning_utilisation(disk: f64) -> f64 {
    let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
    for _ in 0..60 {
        let middle: f64 = (low + high) / 2.0;
        if (middle - 1.0) / middle.ln() < disk { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const COPIES: Efficiency = Efficiency { page: 32.77, hole: None };

    /// H6: the printed values of equation (2).
    #[test]
    fn h6_cleaning_utilisation() {
        for (disk, cleaned) in [(0.6, 0.3242), (0.8, 0.6286), (0.9, 0.8069)] {
            assert!((cleaning_utilisation(disk) - cleaned).abs() < 1e-4, "{disk}");
        }
    }

    /// H12: the limits of equation (8) are the costs of overwriting and of LFS.
    #[test]
    fn h12_limits_of_the_cost() {
        assert!((write_cost(0.0, 0.0, 0.9, COPIES) - 32.77).abs() < 1e-9);
        let lfs = 2.0 / (1.0 - cleaning_utilisation(0.9));
        assert!((write_cost(1.0, 1.0, 0.9, COPIES) - lfs).abs() < 1e-6);
    }

    #[test]
    fn a_few_blocks_that_are_written_often_are_hot() {
        let mut hylog = Hylog::new(1000, 100, None);
        let efficiency = Some(COPIES);
        for round in 0..40 {
            for block in 0..100 {
                assert!(!hylog.is_cold_write(block), "all are hot at first");
            }
            for block in 0..10 {
                hylog.is_cold_write(100 + (round * 10 + block) % 900);
            }
        }
        hylog.turn(1000, 0.97, efficiency, 100);
        assert!(hylog.hot_share > 0.05 && hylog.hot_share < 0.3, "{}", hylog.hot_share);
        assert!((0..100).all(|block| !hylog.is_cold_write(block)));
        assert!((100..1000).all(|block| hylog.is_cold(block)));
        // Where there is much space, the log is cheaper for all that is written at all.
        hylog.turn(1000, 0.97, efficiency, 150);
        assert!(hylog.is_cold(500), "the interval is not over");
    }

    #[test]
    fn a_share_may_be_fixed() {
        let mut hylog = Hylog::new(100, 10, Some(30));
        for block in 0..100 {
            (0..=block / 2).for_each(|_| {
                hylog.is_cold_write(block);
            });
        }
        hylog.turn(100, 0.5, None, 10);
        let hot = (0..100).filter(|&block| !hylog.is_cold(block)).count();
        assert!((30..=32).contains(&hot), "{hot}");
    }
}
