//! How long the device takes: measured service times, and what follows from them.

use seekless_engine::arm::Arm;
use seekless_engine::units::Time;

/// Requests over which service times are averaged (claim H17).
const REQUESTS: f64 = 10_000.0;
/// Times of blocks that say how long one takes.
const KNOWN: f64 = 100.0;
/// How many times as long a block takes in a hole than in a segment, as long as nothing is known.
const UNKNOWN: f64 = 8.0;

/// A mean over about the last [`REQUESTS`] values.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        if self.count >= REQUESTS {
            self.sum -= self.sum / self.count;
            self.count -= 1.0;
        }
        self.sum += value;
        self.count += 1.0;
    }

    /// From now on the mean so far counts no more than one value.
    fn doubt(&mut self) {
        if let Some(mean) = self.get() {
            (self.sum, self.count) = (mean, 1.0);
        }
    }

    fn get(self) -> Option<f64> {
        (self.count > 0.0).then_some(self.sum / self.count)
    }
}

/// Measured service times, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Service {
    page_ns: Mean,
    hole_ns: Mean,
    small_ns: Mean,
    block_of_segment_ns: Mean,
    /// What a page and a hole take by the mechanics of the device, until one was measured.
    expected_page_ns: Option<f64>,
    expected_hole_ns: Option<f64>,
}

impl Service {
    /// Nothing measured yet; where the device has a head, a page takes a journey between two places
    /// far apart on average, half a turn, and its transfer; a hole, which lies near the one before,
    /// takes no journey.
    pub fn new(arm: Option<&dyn Arm>) -> Service {
        let Some(arm) = arm else { return Service::default() };
        let (travel, blocks) = super::format::journeys(arm);
        let turn = arm.turn_ns() as f64;
        let hole = turn / 2.0 + turn / blocks;
        Service {
            expected_page_ns: Some(travel as f64 + hole),
            expected_hole_ns: Some(hole),
            ..Service::default()
        }
    }

    /// A block was read or written alone: how long the device took.
    pub fn page(&mut self, ns: Time) {
        self.page_ns.add(ns as f64);
    }

    /// A hole was written: how long the device took.
    pub fn hole(&mut self, ns: Time) {
        self.hole_ns.add(ns as f64);
    }

    /// Most of a segment was read or written at once, so many blocks: how long the device took.
    pub fn segment(&mut self, ns: Time, blocks: u32) {
        self.block_of_segment_ns.add(ns as f64 / f64::from(blocks.max(1)));
    }

    /// Equation (1), segment I/O efficiency *η*, from measured times: how many times as long blocks
    /// take one by one. `None` before anything was measured.
    pub fn efficiency(&self) -> Option<f64> {
        self.times_as_long(self.page_ns.get().or(self.expected_page_ns).or(self.small_ns.get()))
    }

    /// The same for blocks that go to holes: those of one segment lie near each other, and several
    /// are written at once, so they take less time than pages anywhere.
    pub fn hole_efficiency(&self) -> f64 {
        self.times_as_long(self.hole_ns.get().or(self.expected_hole_ns)).unwrap_or(UNKNOWN)
    }

    /// True if the mechanics of the device say what a page takes.
    pub fn is_mechanical(&self) -> bool {
        self.expected_page_ns.is_some()
    }

    /// Little was written to the end of the log: how long the device took. A page takes no less.
    pub fn small(&mut self, ns: Time) {
        self.small_ns.add(ns as f64);
    }

    /// Little is written for another reason than before: what it took then soon counts no more.
    pub fn doubt_small(&mut self) {
        self.small_ns.doubt();
    }

    /// True if blocks were read or written alone.
    pub fn knows_pages(&self) -> bool {
        self.page_ns.count >= KNOWN
    }

    /// How long a block of a segment takes, in nanoseconds; 0 before that was measured.
    pub fn block_ns(&self) -> f64 {
        self.block_of_segment_ns.get().unwrap_or(0.0)
    }

    fn times_as_long(&self, page_ns: Option<f64>) -> Option<f64> {
        let block = self.block_of_segment_ns.get().filter(|&ns| ns > 0.0)?;
        Some((page_ns? / block).max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn efficiency_is_a_ratio_of_measured_times() {
        let mut service = Service::default();
        assert_eq!(service.efficiency(), None);
        service.segment(22_000_000, 128);
        assert_eq!(service.efficiency(), None, "no page was measured");
        service.page(5_500_000);
        let found = service.efficiency().expect("both were measured");
        assert!((found - 32.0).abs() < 1e-9, "{found}");
        assert_eq!(service.hole_efficiency(), UNKNOWN);
        service.hole(1_375_000);
        assert!((service.hole_efficiency() - 8.0).abs() < 1e-9);
    }

    #[test]
    fn old_times_fade() {
        let mut mean = Mean::default();
        (0..20_000).for_each(|_| mean.add(1.0));
        (0..100_000).for_each(|_| mean.add(3.0));
        assert!(mean.get().is_some_and(|mean| mean > 2.99));
    }
}
