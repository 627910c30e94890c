//! Which segments are cleaned next, and how: copied to new segments or plugged into holes.
//!
//! Copying and plugging are compared by what a segment of space costs (Matthews and others, SOSP
//! 1997; section 4.3 of the HyLog paper), where there are hot segments and cold ones for both
//! kinds: HyLog's four ways. The candidates to be copied are chosen by benefit over cost
//! (Rosenblum and Ousterhout), those to be plugged are the emptiest.

use super::Lfs;
use super::clean::Way;
use super::options::{Cleaning, Victims};
use super::segments::{Segment, SegmentNr};
use seekless_engine::units::{MILLIS, Time};

/// A way to win space.
#[derive(Clone, Debug)]
struct Plan {
    way: Way,
    victims: Vec<SegmentNr>,
    /// Times of a segment for each segment that is won.
    value: f64,
}

/// What a segment of space costs by copying candidates of these utilisations.
fn copying(utilisations: &[f64]) -> f64 {
    let (count, live) = (utilisations.len() as f64, utilisations.iter().sum::<f64>());
    (count + live) / (count - live).max(1e-9)
}

/// And by plugging their blocks into holes: reads of whole segments, and blocks one by one that
/// take `efficiency` times as long.
fn plugging(utilisations: &[f64], efficiency: f64) -> f64 {
    let (count, live) = (utilisations.len() as f64, utilisations.iter().sum::<f64>());
    (count + efficiency * live) / count
}

/// The first `count` by falling worth.
fn best(mut all: Vec<(f64, SegmentNr)>, count: usize) -> Vec<SegmentNr> {
    let order =
        |a: &(f64, SegmentNr), b: &(f64, SegmentNr)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    let count = count.min(all.len());
    if count < all.len() && count > 0 {
        all.select_nth_unstable_by(count - 1, order);
        all.truncate(count);
    }
    all.sort_unstable_by(order);
    all.into_iter().map(|(_, segment)| segment).collect()
}

impl Lfs {
    /// Chooses the segments of a pass and the way they are cleaned.
    pub(super) fn choose_victims(&mut self, now: Time) {
        // What the last pass held is given back, even if there is no other.
        self.set_holes(false, Vec::new());
        self.set_holes(true, Vec::new());
        self.segments.release(self.log.durable(), self.checkpoint.start());
        let plans = [false, true].map(|cold| self.plans(cold, now));
        let least = |a: &Plan, b: &Plan| a.value.total_cmp(&b.value);
        let Some(plan) = plans.into_iter().flatten().min_by(least) else {
            return self.cleaner.begin_pass(Way::Copy, Vec::new());
        };
        if plan.way == Way::Plug {
            for cold in [false, true] {
                let holes = self.segments_with_holes(cold, &plan.victims);
                self.set_holes(cold, holes);
            }
        }
        self.cleaner.begin_pass(plan.way, plan.victims);
    }

    /// The ways to clean hot segments, or cold ones.
    fn plans(&self, cold: bool, now: Time) -> Vec<Plan> {
        let kind = |one: &Segment| one.cold == cold && self.is_worth_cleaning(one);
        let candidates = || self.segments.iter().filter(|(_, one)| kind(one));
        let size = f64::from(self.geometry.segment);
        let count = self.pass() as usize;
        let utilisations = |victims: &[SegmentNr]| -> Vec<f64> {
            victims.iter().map(|&nr| f64::from(self.segments.get(nr).live) / size).collect()
        };
        let mut plans = Vec::new();
        // Where much was moved and still no write could go on, the most space for the least work
        // counts.
        let greedy = self.starving && self.cleaner.is_in_vain();
        // And where a write waits at all, segments that hardly bring anything must wait, however
        // old they are: copying full ones takes the room that is left and brings none.
        let least = if self.starving { self.mean_gain(cold) / 2.0 } else { 0.0 };
        let gains = |one: &Segment| 1.0 - f64::from(one.live) / size >= least;
        let worth = |one: &Segment| {
            let used = f64::from(one.live) / size;
            match if greedy { Victims::Greedy } else { self.victims } {
                Victims::Greedy => (1.0 - used) / (1.0 + used),
                // A segment written just now is as old as a millisecond.
                Victims::CostBenefit => {
                    (1.0 - used) * (now - one.youngest + MILLIS) as f64 / (1.0 + used)
                }
                Victims::Fifo => -(one.written as f64),
            }
        };
        let futile = self.cleaner.moved_in_vain() > self.geometry.device_blocks;
        let otherwise = self.pluggable && (futile || self.cleaner.otherwise);
        let copies = match self.cleaning {
            Cleaning::Plug if self.pluggable => otherwise,
            Cleaning::Plug | Cleaning::Copy | Cleaning::Adaptive => !otherwise,
        };
        if copies {
            let gainful = candidates().filter(|(_, one)| gains(one));
            let victims = best(gainful.map(|(nr, one)| (worth(one), nr)).collect(), count);
            let value = copying(&utilisations(&victims));
            plans.push(Plan { way: Way::Copy, victims, value });
        }
        // Where it is all there is, it does not matter what it costs.
        let efficiency = match self.cleaning {
            Cleaning::Plug => (!otherwise).then_some(1.0),
            // Rather than that a write fails.
            Cleaning::Copy => otherwise.then_some(1.0),
            Cleaning::Adaptive => Some(self.service.hole_efficiency()),
        };
        if let Some(efficiency) = efficiency.filter(|_| self.pluggable) {
            let emptiest = |one: &Segment| -f64::from(one.live);
            let mut victims =
                best(candidates().map(|(nr, one)| (emptiest(one), nr)).collect(), count);
            self.leave_holes(cold, &mut victims);
            let value = plugging(&utilisations(&victims), efficiency);
            plans.push(Plan { way: Way::Plug, victims, value });
        }
        plans.retain(|plan| !plan.victims.is_empty());
        plans
    }

    /// Share of the space that cleaning hot segments, or cold ones, brings on average.
    fn mean_gain(&self, cold: bool) -> f64 {
        let of_kind = |one: &Segment| one.cold == cold && self.is_worth_cleaning(one);
        let all = self.segments.iter().filter(|(_, one)| of_kind(one));
        let (count, live) = all.fold((0.0, 0.0), |(count, live), (_, one)| {
            (count + 1.0, live + f64::from(one.live) / f64::from(self.geometry.segment))
        });
        if count > 0.0 { 1.0 - live / count } else { 0.0 }
    }

    /// Of these victims keeps as many as there are holes for elsewhere.
    fn leave_holes(&self, cold: bool, victims: &mut Vec<SegmentNr>) {
        let holes_of = |one: &Segment| u64::from(self.geometry.segment - one.live);
        let plugged = self.segments.iter().filter(|(_, one)| one.cold == cold);
        let plugged = plugged.filter(|(_, one)| self.may_plug(one));
        let mut holes: u64 = plugged.map(|(_, one)| holes_of(one)).sum();
        let mut kept = 0;
        for &victim in victims.iter() {
            let one = self.segments.get(victim);
            let own = if self.may_plug(one) { holes_of(one) } else { 0 };
            let Some(left) = holes.checked_sub(own + u64::from(one.live)) else { break };
            holes = left;
            kept += 1;
        }
        victims.truncate(kept);
    }

    /// Segments whose holes may be written, the fullest first.
    fn segments_with_holes(&self, cold: bool, victims: &[SegmentNr]) -> Vec<SegmentNr> {
        let of_kind = self.segments.iter().filter(|(_, one)| one.cold == cold);
        let usable = of_kind.filter(|(nr, one)| self.may_plug(one) && !victims.contains(nr));
        let mut found: Vec<(u32, SegmentNr)> = usable.map(|(nr, one)| (one.live, nr)).collect();
        found.sort_unstable_by(|a, b| b.cmp(a));
        found.into_iter().map(|(_, nr)| nr).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Claims H7 and H8: of candidates that are all alike, both ways cost the same where `u` is
    /// `1 − 2/η`.
    #[test]
    fn h8_both_ways_meet() {
        for efficiency in [4.18, 17.08, 32.77] {
            let u: f64 = 1.0 - 2.0 / efficiency;
            let alike = [u; 7];
            let (copy, plug) = (copying(&alike), plugging(&alike, efficiency));
            assert!((copy - plug).abs() < 1e-6 * copy, "{efficiency}: {copy} {plug}");
            let emptier = [u - 0.05; 7];
            assert!(copying(&emptier) < plugging(&emptier, efficiency));
        }
    }
}
