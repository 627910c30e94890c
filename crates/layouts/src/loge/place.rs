//! Eager placement: which free block the head can write next (sections 5 and 6 of the paper).
//!
//! The search looks for the first rotational position at which a free segment within reach of the
//! arm passes the head. Of all free segments that pass during that position the heuristic takes
//! one: LS the lowest cylinder, CR the nearest, FR the farthest, R any, PL the one nearest to the
//! preferred address of the block. SG prefers segments that begin a run of free ones, and combines
//! with each of them. `soonest` takes whatever passes first.

use super::bands::Span;
use crate::eager::columns::{Candidate, Wanted};
use crate::eager::freemap::FreeMap;
use crate::eager::place::{Nominal, Plan, slot_ns};
use seekless_engine::arm::{Arm, Track};
use seekless_engine::rng::Rng;
use seekless_engine::units::Time;
use std::fmt;
use std::str::FromStr;

/// Longest run of free segments that SG tells from shorter ones.
const LONGEST_RUN: u32 = 4;

/// Which of several segments that pass at the same position is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The first to pass.
    #[default]
    Soonest,
    /// LS: that on the lowest cylinder.
    Lowest,
    /// CR: that on the nearest cylinder.
    Closest,
    /// FR: that on the farthest cylinder in reach.
    Farthest,
    /// R: any.
    Random,
    /// PL: that nearest to where the block would lie if each block had a fixed place.
    Preferred,
}

impl Order {
    /// All of them.
    pub const ALL: [Order; 6] = [
        Order::Soonest,
        Order::Lowest,
        Order::Closest,
        Order::Farthest,
        Order::Random,
        Order::Preferred,
    ];

    fn name(self) -> &'static str {
        match self {
            Order::Soonest => "soonest",
            Order::Lowest => "ls",
            Order::Closest => "cr",
            Order::Farthest => "fr",
            Order::Random => "r",
            Order::Preferred => "pl",
        }
    }
}

/// How places are chosen on a device with a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Heuristic {
    /// Which segment is taken.
    pub order: Order,
    /// SG: long runs of free segments first.
    pub grouping: bool,
}

impl Heuristic {
    /// As it is kept in the superblock.
    pub fn encode(self) -> u32 {
        let order = Order::ALL.iter().position(|&order| order == self.order);
        order.unwrap_or(0) as u32 | u32::from(self.grouping) << 7
    }

    /// From the superblock; what is unknown there is the default: any choice of places is sound.
    pub fn decode(bits: u32) -> Heuristic {
        let order = Order::ALL.get(bits as usize & 0x7f).copied().unwrap_or_default();
        Heuristic { order, grouping: bits & 0x80 != 0 }
    }
}

impl fmt::Display for Heuristic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.order.name(), if self.grouping { "+sg" } else { "" })
    }
}

/// No heuristic has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown heuristic `{0}`: known are soonest, ls, cr, fr, r and pl, each with or without +sg"
)]
pub struct UnknownHeuristic(String);

impl FromStr for Heuristic {
    type Err = UnknownHeuristic;

    fn from_str(text: &str) -> Result<Heuristic, UnknownHeuristic> {
        let unknown = || UnknownHeuristic(text.to_owned());
        let mut heuristic = Heuristic::default();
        let mut named = false;
        for word in text.split('+') {
            if word == "sg" && !heuristic.grouping {
                heuristic.grouping = true;
            } else if !named {
                let order = Order::ALL.into_iter().find(|order| order.name() == word);
                heuristic.order = order.ok_or_else(unknown)?;
                named = true;
            } else {
                return Err(unknown());
            }
        }
        Ok(heuristic)
    }
}

/// Any cylinder.
pub const ANYWHERE: Span = (0, u32::MAX);

/// What is to be placed on a device with a head.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    /// Blocks that are still to be written, this one included.
    pub want: u32,
    /// The track where it would lie at a fixed place.
    pub preferred: Track,
    /// The cylinders that it may lie on.
    pub span: Span,
}

/// Chooses blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placer {
    heuristic: Heuristic,
    /// Where blocks go on a device without a head.
    pub nominal: Nominal,
    rng: Rng,
}

impl Placer {
    /// A placer of its own stream of randomness, which only R draws from.
    pub fn new(heuristic: Heuristic) -> Placer {
        Placer { heuristic, nominal: Nominal::default(), rng: Rng::stream(0, "loge places") }
    }

    /// How it chooses.
    pub fn heuristic(&self) -> Heuristic {
        self.heuristic
    }

    /// Takes the best free block for the next one to be written, on a device with a head. `None`
    /// if nothing is free where it may lie.
    pub fn choose(
        &mut self,
        free: &mut FreeMap,
        arm: &dyn Arm,
        plan: &mut Plan,
        next: &Next,
    ) -> Option<u32> {
        if free.free() == 0 {
            return None;
        }
        let (low, high) = next.span;
        let within = |track: Track| (low..=high).contains(&(track / arm.tracks_per_cylinder()));
        let behind = plan.continuation(free).filter(|behind| within(behind.track));
        let found = match behind {
            Some(behind) => behind,
            None => self.search(free, arm, plan, next)?,
        };
        Some(plan.take(free, arm, found))
    }

    /// The free block that a head over `from` can begin to write first, if it is free at `at`.
    pub fn soonest(
        &self,
        free: &FreeMap,
        arm: &dyn Arm,
        from: Track,
        at: Time,
    ) -> Option<Candidate> {
        let reach = Reach { free, arm, from, at: at + arm.overhead_ns(), span: ANYWHERE };
        if free.free() == 0 { None } else { reach.soonest() }
    }

    fn search(
        &mut self,
        free: &FreeMap,
        arm: &dyn Arm,
        plan: &Plan,
        next: &Next,
    ) -> Option<Candidate> {
        let &Next { want, preferred, span } = next;
        let Heuristic { order, grouping } = self.heuristic;
        let grouping = grouping || want > 1;
        let reach = Reach { free, arm, from: plan.track, at: plan.at + arm.overhead_ns(), span };
        let soonest = reach.soonest()?;
        if order == Order::Soonest && !grouping {
            return Some(soonest);
        }
        let end = soonest.start + slot_ns(free, arm, soonest.track);
        let heads = arm.tracks_per_cylinder();
        let (here, home) = (plan.track / heads, preferred / heads);
        let mut best = (rank(order, here, home, heads, &soonest, &mut self.rng), soonest);
        if grouping {
            best.0.0 = LONGEST_RUN - reach.run(&soonest);
        }
        reach.each(end, &mut |found| {
            let mut key = rank(order, here, home, heads, &found, &mut self.rng);
            if grouping {
                key.0 = LONGEST_RUN - reach.run(&found);
            }
            if key < best.0 {
                best = (key, found);
            }
        });
        Some(best.1)
    }
}

/// The smaller the better: run length first, then the heuristic, then time.
fn rank(
    order: Order,
    here: u32,
    home: u32,
    heads: u32,
    found: &Candidate,
    rng: &mut Rng,
) -> (u32, u64, Time) {
    let cylinder = found.track / heads;
    let key = match order {
        Order::Soonest => 0,
        Order::Lowest => u64::from(cylinder),
        Order::Closest => u64::from(cylinder.abs_diff(here)),
        Order::Farthest => u64::from(u32::MAX - cylinder.abs_diff(here)),
        Order::Random => rng.next(),
        Order::Preferred => u64::from(cylinder.abs_diff(home)),
    };
    (0, key, found.start)
}

/// What a head that is free to leave track `from` at `at` can reach, and when.
struct Reach<'r> {
    free: &'r FreeMap,
    arm: &'r dyn Arm,
    from: Track,
    at: Time,
    span: Span,
}

impl Reach<'_> {
    /// The free slot that passes first, wherever it is.
    fn soonest(&self) -> Option<Candidate> {
        if let Some(columns) = self.free.columns() {
            return columns.around(self.free, &Wanted::single(self.from, self.at), self.span);
        }
        let mut best: Option<Candidate> = None;
        let limit = |best: &Option<Candidate>| best.map_or(Time::MAX, |best| best.start);
        for distance in self.distances() {
            for track in self.at_distance(distance) {
                if let Some(found) = self.on(track)
                    && found.start < limit(&best)
                {
                    best = Some(found);
                }
            }
            if self.at + self.travel(distance + 1) >= limit(&best) {
                break;
            }
        }
        best
    }

    /// The first free slot to pass of each track that has one before `end`.
    fn each(&self, end: Time, hear: &mut dyn FnMut(Candidate)) {
        for distance in self.distances() {
            if distance > 0 && self.at + self.travel(distance) >= end {
                break;
            }
            for track in self.at_distance(distance) {
                if let Some(found) = self.on(track).filter(|found| found.start < end) {
                    hear(found);
                }
            }
        }
    }

    /// How far away cylinders are that may be taken, the nearest first.
    fn distances(&self) -> std::ops::RangeInclusive<u32> {
        let heads = self.arm.tracks_per_cylinder();
        let (here, (low, high)) = (self.from / heads, self.span);
        let high = high.min(self.arm.tracks() / heads - 1);
        let nearest = here.saturating_sub(high).max(low.saturating_sub(here));
        nearest..=here.saturating_sub(low).max(high.saturating_sub(here))
    }

    /// Tracks of the cylinders at a distance that may be taken, on both sides.
    fn at_distance(&self, distance: u32) -> impl Iterator<Item = Track> {
        let heads = self.arm.tracks_per_cylinder();
        let (here, (low, high)) = (self.from / heads, self.span);
        let last = high.min(self.arm.tracks() / heads - 1);
        let below = here.checked_sub(distance).filter(|at| (low..=last).contains(at));
        let above = (distance > 0).then_some(here + distance);
        let above = above.filter(|at| (low..=last).contains(at));
        let tracks = move |cylinder: u32| cylinder * heads..(cylinder + 1) * heads;
        below.into_iter().chain(above).flat_map(tracks)
    }

    /// Time to move so many cylinders.
    fn travel(&self, distance: u32) -> Time {
        let heads = self.arm.tracks_per_cylinder();
        let cylinders = self.arm.tracks() / heads;
        // How long it takes does not depend on where it begins.
        self.arm.travel_ns(0, distance.min(cylinders - 1) * heads)
    }

    /// The first free slot of a track to pass.
    fn on(&self, track: Track) -> Option<Candidate> {
        if self.free.free_on(track) == 0 {
            return None;
        }
        let travel = if track == self.from { 0 } else { self.arm.travel_ns(self.from, track) };
        let at = self.at + travel;
        let angle = self.arm.angle_ns(at);
        let slot = self.free.next_free(track, self.arm.next_slot(track, angle))?;
        let start = at + self.arm.wait_ns(track, self.arm.position(track, slot), angle);
        Some(Candidate { track, slot, start })
    }

    /// How many free slots begin there: 1, 2 or 4.
    fn run(&self, found: &Candidate) -> u32 {
        let is_free = |step: u32| self.free.slot_is_free(found.track, found.slot + step);
        let run = (1..LONGEST_RUN).take_while(|&step| is_free(step)).count() as u32 + 1;
        if run == 3 { 2 } else { run }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heuristics_come_back() {
        for order in Order::ALL {
            for grouping in [false, true] {
                let heuristic = Heuristic { order, grouping };
                assert_eq!(heuristic.to_string().parse(), Ok(heuristic));
                assert_eq!(Heuristic::decode(heuristic.encode()), heuristic);
            }
        }
        assert_eq!("sg".parse(), Ok(Heuristic { order: Order::Soonest, grouping: true }));
        for wrong in ["", "pl+", "pl+cr", "sg+sg", "best"] {
            assert!(wrong.parse::<Heuristic>().is_err(), "{wrong}");
        }
    }
}
