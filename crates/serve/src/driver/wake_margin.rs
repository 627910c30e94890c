//! How long before an event of a simulated disk the loop stops sleeping.

use seekless_engine::units::{MICROS, Time};

/// Bounds of the margin: what a quiet machine needs, and what is worth the heat on a busy one.
const LEAST_NS: Time = 60 * MICROS;
const MOST_NS: Time = 400 * MICROS;
/// How much one sleep that was not too long takes off the margin.
const STEP_NS: Time = 4 * MICROS;

/// The last stretch before an event of a simulated disk is not slept through, for sleeps last too
/// long: by some 50 µs on a quiet machine, by a multiple of that where others use its processors.
/// The margin follows what nine of ten sleeps need; it grows by nine steps at the tenth, so both
/// keep the balance there.
#[derive(Debug)]
pub(super) struct WakeMargin(Time);

impl WakeMargin {
    pub(super) fn new() -> WakeMargin {
        WakeMargin(LEAST_NS)
    }

    /// The margin, in nanoseconds.
    pub(super) fn ns(&self) -> Time {
        self.0
    }

    /// Takes note of a sleep that ended so much after the time it was to end.
    pub(super) fn overslept(&mut self, late: Time) {
        let next =
            if late > self.0 { self.0 + 9 * STEP_NS } else { self.0.saturating_sub(STEP_NS) };
        self.0 = next.clamp(LEAST_NS, MOST_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::units::SECONDS;

    #[test]
    fn the_margin_is_what_nine_of_ten_sleeps_need() {
        let mut margin = WakeMargin::new();
        let mut rng = seekless_engine::rng::Rng::stream(1, "sleeps");
        let mut in_time = 0;
        for round in 0..20_000 {
            // From 0 to 300 µs too long.
            let late = rng.below(300) * MICROS;
            in_time += u32::from(round >= 10_000 && late <= margin.0);
            margin.overslept(late);
        }
        assert!((8_700..=9_300).contains(&in_time), "{in_time} of 10,000");
        (0..100).for_each(|_| margin.overslept(SECONDS));
        assert_eq!(margin.0, MOST_NS);
        (0..100).for_each(|_| margin.overslept(0));
        assert_eq!(margin.0, LEAST_NS);
    }
}
