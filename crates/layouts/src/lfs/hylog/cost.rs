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
    /// Blocks of the log that a block of a client takes, with summaries and what is left empty.
    pub room: f64,
    /// How many times as much as the rest of the model was found where all blocks were hot: it
    /// leaves out checkpoints, and skew within the hot blocks, which makes cleaning cheaper.
    all: Option<f64>,
    /// The same where some were.
    some: Option<f64>,
    /// They were found elsewhere; how much was measured since, 1 being as good as that.
    borrowed: Option<f64>,
}

/// What may be wrong with the model at most.
const FACTORS: std::ops::RangeInclusive<f64> = 0.1..=100.0;
/// What an interval leaves of what was found, where the log was not used.
const FADES: f64 = 0.98;
/// Blocks of the log for a forced write, until that was measured: one and its summary, in
/// three quarters of a segment.
const FORCED_ROOM: f64 = 2.0 / 0.75;

impl Found {
    /// Nothing was found yet; blocks fill segments.
    pub const UNKNOWN: Found =
        Found { append: 0.0, room: 1.0, all: None, some: None, borrowed: None };

    /// Nothing was found yet where each block is written out alone, and `append` is what it takes
    /// to position for it; `other` was found where they are not.
    pub fn forced(append: f64, other: Found) -> Found {
        Found { append, room: FORCED_ROOM, borrowed: Some(0.0), ..other }
    }

    /// A share `hot` of the blocks was hot, and a write to the log cost so much; half of what was
    /// known is forgotten. What was found elsewhere counts as much as a measurement of `weight` 1:
    /// cleaning goes by fits and starts, so what few writes cost is mostly chance.
    pub fn learn(&mut self, hot: f64, utilisation: f64, cost: f64, prices: Prices, weight: f64) {
        let model = room_cost(self.room, hot, utilisation, prices);
        let factor = (cost - self.append) / model;
        let factor = factor.clamp(*FACTORS.start(), *FACTORS.end());
        let believed = match self.borrowed {
            Some(seen) => {
                let seen = seen + weight;
                self.borrowed = (seen < 1.0).then_some(seen);
                let old = self.factor(hot);
                old + (factor - old) * weight / (1.0 + seen)
            }
            None => self.known(hot).map_or(factor, |old| (old + factor) / 2.0),
        };
        *self.known(hot) = Some(believed);
        // What is not tried is believed a little less, so that it is tried again.
        if hot < 1.0 {
            self.all = self.all.map(|factor| FADES * factor);
        }
    }

    /// What was found where such a share of the blocks was hot.
    fn known(&mut self, hot: f64) -> &mut Option<f64> {
        if hot >= 1.0 { &mut self.all } else { &mut self.some }
    }

    /// True if too little was measured to forget what was found elsewhere.
    pub fn is_borrowed(&self) -> bool {
        self.borrowed.is_some()
    }

    /// The log was not used: what was found holds a little less, so that it is tried again.
    pub fn fade(&mut self) {
        for known in [&mut self.all, &mut self.some] {
            *known = known.map(|factor| FADES * factor);
        }
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
        let room = room_cost(self.room, hot, utilisation, prices);
        self.append + self.factor(hot) * room
    }

    /// Equation (8): what a write costs if a share `writes` of the writes goes to a share `hot` of
    /// the blocks.
    pub fn write_cost(&self, writes: f64, hot: f64, utilisation: f64, prices: Prices) -> f64 {
        (1.0 - writes) * prices.page + writes * self.log_cost(hot, utilisation, prices)
    }
}

/// What the room costs that a block of a client takes: writing there, and winning as much by
/// cleaning. Segments that clients leave half empty are cleaned before others: that is a read and a
/// write of what they hold, and then the block lies in a full segment.
fn room_cost(room: f64, hot: f64, utilisation: f64, prices: Prices) -> f64 {
    // Equation (7), with the utilisation of the disk (claim H11).
    let partition = utilisation * hot / (1.0 - utilisation + utilisation * hot);
    let cleaned = cleaning_utilisation(partition);
    let copying = 2.0 / (1.0 - cleaned);
    // Equation (5), where plugging holes is the cheaper way to clean.
    let plugging = prices.hole.map_or(f64::INFINITY, |hole| 2.0 + cleaned * hole);
    2.0 * (room - 1.0) + copying.min(plugging)
}

/// Equation (2) solved for the utilisation of the segments that are cleaned, by bisection: how full
/// they still are where live blocks fill a share `disk` of the space.
fn cleaning_utilisation(disk: f64) -> f64 {
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

    const COPIES: Prices = Prices { page: 32.77, hole: None };

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
        let found = Found::UNKNOWN;
        assert!((found.write_cost(0.0, 0.0, 0.9, COPIES) - 32.77).abs() < 1e-9);
        let lfs = 2.0 / (1.0 - cleaning_utilisation(0.9));
        assert!((found.write_cost(1.0, 1.0, 0.9, COPIES) - lfs).abs() < 1e-6);
    }

    /// What was found where all blocks are hot holds for part of them until that was tried.
    #[test]
    fn what_was_found_corrects_the_model() {
        let mut found = Found::UNKNOWN;
        let model = |hot| Found::UNKNOWN.log_cost(hot, 0.9, COPIES);
        found.learn(1.0, 0.9, 3.0 * model(1.0), COPIES, 1.0);
        assert!((found.factor(0.4) - 3.0).abs() < 1e-9);
        found.learn(0.4, 0.9, model(0.4), COPIES, 1.0);
        assert!((found.factor(0.5) - 1.0).abs() < 1e-9);
        assert!((found.factor(1.0) - 3.0 * FADES).abs() < 1e-9, "it was not tried");
        found.learn(1.0, 0.9, model(1.0), COPIES, 1.0);
        let half = (1.0 + 3.0 * FADES) / 2.0;
        assert!((found.factor(1.0) - half).abs() < 1e-9, "half of it is forgotten");
    }

    /// What was found without forced writes holds for those until enough was measured.
    #[test]
    fn few_writes_say_little_of_what_cleaning_costs() {
        let mut found = Found::forced(5.0, Found::UNKNOWN);
        let model = |found: &Found| Found { all: None, ..*found }.log_cost(1.0, 0.8, COPIES);
        let cost = 5.0 + 9.0 * (model(&found) - 5.0);
        found.learn(1.0, 0.8, cost, COPIES, 0.1);
        assert!((found.factor(1.0) - (1.0 + 8.0 * 0.1 / 1.1)).abs() < 1e-9, "{found:?}");
        found.learn(1.0, 0.8, cost, COPIES, 0.9);
        assert!((found.factor(1.0) - 5.0).abs() < 1e-9 && !found.is_borrowed(), "{found:?}");
        found.learn(1.0, 0.8, cost, COPIES, 0.1);
        assert!((found.factor(1.0) - 7.0).abs() < 1e-9, "as ever");
    }
}
