//! What writes cost by the model of the HyLog paper, in block transfers at the speed of whole
//! segments, corrected by what the log was found to cost.

/// What the device was found to take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// How many times as long a block takes anywhere as in a segment: *η*.
    pub page: f64,
    /// The same in holes of one segment; `None` if they are not plugged.
    pub hole: Option<f64>,
}

/// What a write to the log was found to cost beside what the model says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// What it takes to position for blocks that are written out before they fill a segment, in
    /// block transfers for each of them.
    pub append: f64,
    /// Blocks of the log that a block of a client takes, with summaries and with what is left empty.
    pub room: f64,
    /// How many times as much as the rest of the model was found where all blocks were hot: it
    /// leaves out checkpoints, and skew within the hot blocks, which makes cleaning cheaper.
    all: Option<f64>,
    /// The same where some were.
    some: Option<f64>,
}

/// What may be wrong with the model at most.
const FACTORS: std::ops::RangeInclusive<f64> = 0.1..=100.0;
/// Blocks of the log for a forced write, until that was measured: one and its summary, in
/// three quarters of a segment.
const FORCED_ROOM: f64 = 2.0 / 0.75;

impl Found {
    /// Nothing was found yet; blocks fill segments.
    pub const UNKNOWN: Found = Found { append: 0.0, room: 1.0, all: None, some: None };

    /// Nothing was found yet where each block is written out alone, and `append` is what it takes to
    /// position for it; `other` was found where they are not.
    pub fn forced(append: f64, other: Found) -> Found {
        Found { append, room: FORCED_ROOM, ..other }
    }

    /// A share `hot` of the blocks was hot, and a write to the log cost so much; half of what was
    /// known is forgotten.
    pub fn learn(&mut self, hot: f64, utilisation: f64, cost: f64, prices: Prices) {
        let model = self.room * room_cost(self.room, hot, utilisation, prices);
        let factor = (cost - self.append) / model;
        let factor = factor.clamp(*FACTORS.start(), *FACTORS.end());
        let known = if hot >= 1.0 { &mut self.all } else { &mut self.some };
        *known = Some(known.map_or(factor, |old| (old + factor) / 2.0));
    }

    /// What is expected where such a share of the blocks is hot.
    fn factor(&self, hot: f64) -> f64 {
        let (first, second) =
            if hot >= 1.0 { (self.all, self.some) } else { (self.some, self.all) };
        first.or(second).unwrap_or(1.0)
    }

    /// What a write to the log costs if that share of the blocks is hot: the last term of equation
    /// (8), with what was found.
    pub fn log_cost(&self, hot: f64, utilisation: f64, prices: Prices) -> f64 {
        let room = self.room * room_cost(self.room, hot, utilisation, prices);
        self.append + self.factor(hot) * room
    }

    /// Equation (8): what a write costs if a share `writes` of the writes goes to a share `hot` of
    /// the blocks.
    pub fn write_cost(&self, writes: f64, hot: f64, utilisation: f64, prices: Prices) -> f64 {
        (1.0 - writes) * prices.page + writes * self.log_cost(hot, utilisation, prices)
    }
}

/// What a block of the log costs: writing it, and winning another one by cleaning.
fn room_cost(room: f64, hot: f64, utilisation: f64, prices: Prices) -> f64 {
    // Equation (7), with the utilisation of the disk (claim H11).
    let partition = utilisation * hot / (1.0 - utilisation + utilisation * hot);
    let cleaned = cleaning_utilisation(partition, room);
    let copying = 2.0 / (1.0 - cleaned);
    // Equation (5), where plugging holes is the cheaper way to clean.
    let plugging = prices.hole.map_or(f64::INFINITY, |hole| 2.0 + cleaned * hole);
    copying.min(plugging)
}

/// Equation (2) solved for the utilisation of the segments that are cleaned, by bisection: how full
/// they still are where live blocks fill a share `disk` of the space.
///
/// The equation is for segments that are filled with live blocks. If a block of a client takes
/// `room` blocks, segments of theirs begin with a share 1/`room`, and those that the cleaner fills
/// with all. With *d* for what is left of a live block when its segment is cleaned, and *f* for the
/// share of segments that clients fill, `u = d (1 − f (1 − 1/room))`, and `1 − f = u`: for each
/// that is cleaned the cleaner fills *u*. On average `u (1 − d) / (−d ln d)` is live.
fn cleaning_utilisation(disk: f64, room: f64) -> f64 {
    let share = 1.0 / room.max(1.0);
    let cleaned = |left: f64| left * share / (1.0 - left * (1.0 - share));
    let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
    for _ in 0..60 {
        let middle: f64 = (low + high) / 2.0;
        let live = cleaned(middle) * (middle - 1.0) / (middle * middle.ln());
        if live < disk { low = middle } else { high = middle }
    }
    cleaned((low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COPIES: Prices = Prices { page: 32.77, hole: None };

    /// H6: the printed values of equation (2).
    #[test]
    fn h6_cleaning_utilisation() {
        for (disk, cleaned) in [(0.6, 0.3242), (0.8, 0.6286), (0.9, 0.8069)] {
            assert!((cleaning_utilisation(disk, 1.0) - cleaned).abs() < 1e-4, "{disk}");
        }
    }

    /// Segments of clients that begin half empty, cycle by cycle: *d* of what is live is left when
    /// a segment is cleaned, and what is copied fills segments.
    #[test]
    fn half_empty_segments_are_cleaned_sooner() {
        let (share, left): (f64, f64) = (0.5, 0.7);
        let mut copied = 0.5;
        for _ in 0..100 {
            copied = left * ((1.0 - copied) * share + copied);
        }
        let live = copied / left * (1.0 - left) / -left.ln();
        let found = cleaning_utilisation(live, 2.0);
        assert!((found - copied).abs() < 1e-6, "{found} {copied}");
    }

    /// H12: the limits of equation (8) are the costs of overwriting and of LFS.
    #[test]
    fn h12_limits_of_the_cost() {
        let found = Found::UNKNOWN;
        assert!((found.write_cost(0.0, 0.0, 0.9, COPIES) - 32.77).abs() < 1e-9);
        let lfs = 2.0 / (1.0 - cleaning_utilisation(0.9, 1.0));
        assert!((found.write_cost(1.0, 1.0, 0.9, COPIES) - lfs).abs() < 1e-6);
    }

    /// What was found where all blocks are hot holds for part of them until that was tried.
    #[test]
    fn what_was_found_corrects_the_model() {
        let mut found = Found::UNKNOWN;
        let model = |hot| Found::UNKNOWN.log_cost(hot, 0.9, COPIES);
        found.learn(1.0, 0.9, 3.0 * model(1.0), COPIES);
        assert!((found.factor(0.4) - 3.0).abs() < 1e-9);
        found.learn(0.4, 0.9, model(0.4), COPIES);
        assert!((found.factor(0.5) - 1.0).abs() < 1e-9);
        assert!((found.factor(1.0) - 3.0).abs() < 1e-9);
        found.learn(1.0, 0.9, model(1.0), COPIES);
        assert!((found.factor(1.0) - 2.0).abs() < 1e-9, "half of it is forgotten");
    }
}
