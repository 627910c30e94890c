//! The requests that the platter timed, where they lie, and pairs of them.

use super::circle::wrap;
use super::events::Passed;
use crate::spec::{Mapping, Sparing, Spec};

/// Each request is paired with so many before it.
const BACK: usize = 24;
/// Pairs further apart than this tell nothing if the rotation is known to a thousandth, in turns.
const LONGEST_TURNS: f64 = 200.0;
/// A zone is learnt from at least so many pairs.
pub(super) const LEAST_PAIRS: usize = 24;

/// Two requests that the platter timed, of one recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    /// The earlier and the later one.
    pub(super) from: usize,
    pub(super) to: usize,
    /// Time between them, in nanoseconds.
    pub(super) span: f64,
    /// What the layout says of the angle between them, in turns.
    pub(super) angle: f64,
}

/// The requests, and the zones that they lie in.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) events: Vec<Passed>,
    pub(super) pairs: Vec<Pair>,
    /// First cylinder of each zone, ascending.
    pub(super) zones: Vec<u32>,
    /// The zone of each event.
    pub(super) zone_of: Vec<usize>,
    /// The head of each event; in odd cylinders of a disk that alternates, behind all heads.
    pub(super) head_of: Vec<usize>,
    /// Heads, or twice as many.
    pub(super) heads: usize,
    /// Odd cylinders have offsets of their own, counted from the zone or from the disk.
    pub(super) odd: Option<bool>,
    /// Slope of the layout in turns a cylinder, by zone, where it is known.
    pub(super) base: Vec<Option<f64>>,
    /// Cylinders that share spares.
    pub(super) group: u32,
}

/// Turns of the layout from a cylinder to the next.
fn base_slope(spec: &Spec, zone: usize) -> Option<f64> {
    let it = spec.zones.get(zone)?;
    let heads = f64::from(spec.heads - 1);
    let serpentine = matches!(spec.mapping, Mapping::Serpentine { .. });
    (!serpentine).then(|| (it.cylinder_skew + heads * it.track_skew) / f64::from(it.sectors))
}

/// First cylinders of ranges with the same number of sectors on a track. A layout of patterns
/// shows them only in the requests.
fn zones(spec: &Spec, events: &[Passed]) -> Vec<u32> {
    if spec.pattern.is_none() {
        return (0..spec.zones.len()).map(|zone| spec.zone_cylinders(zone).0).collect();
    }
    let mut seen: Vec<(u32, u32)> =
        events.iter().map(|event| (event.cylinder, event.track_sectors)).collect();
    seen.sort_unstable();
    let mut firsts = vec![0];
    let changes = seen.windows(2).filter(|pair| pair[0].1 != pair[1].1);
    firsts.extend(changes.map(|pair| pair[1].0));
    firsts.dedup();
    // Heads that differ in density make a change at nearly every request.
    if firsts.len() > 64 || firsts.len() * 8 > events.len() { vec![0] } else { firsts }
}

impl Scene {
    pub(super) fn new(spec: &Spec, events: Vec<Passed>, rev: f64) -> Scene {
        let zones = zones(spec, &events);
        let place = |event: &Passed| zones.partition_point(|&first| first <= event.cylinder).max(1);
        let zone_of: Vec<usize> = events.iter().map(|event| place(event) - 1).collect();
        let odd = match spec.mapping {
            Mapping::AlternatingInZone => Some(true),
            Mapping::Alternating => Some(false),
            _ => None,
        };
        let heads = spec.heads as usize;
        let head = |(event, &zone): (&Passed, &usize)| {
            let from = if odd == Some(true) { zones[zone] } else { 0 };
            let second = odd.is_some() && (event.cylinder - from) % 2 == 1;
            event.head as usize + if second { heads } else { 0 }
        };
        let head_of = events.iter().zip(&zone_of).map(head).collect();
        let base = (0..zones.len()).map(|zone| base_slope(spec, zone)).collect();
        let group = match spec.sparing {
            Sparing::Range { cylinders } if cylinders > 1 => cylinders,
            _ => 0,
        };
        let mut scene = Scene {
            pairs: Vec::new(),
            zones,
            zone_of,
            head_of,
            heads: if odd.is_some() { 2 * heads } else { heads },
            odd,
            base,
            group,
            events,
        };
        scene.pairs = scene.pairs_back(BACK, LONGEST_TURNS * rev);
        scene
    }

    pub(super) fn pairs_back(&self, back: usize, longest: f64) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for (to, late) in self.events.iter().enumerate() {
            for from in to.saturating_sub(back)..to {
                let early = &self.events[from];
                let span = late.at - early.at;
                if span <= longest {
                    pairs.push(Pair { from, to, span, angle: late.angle - early.angle });
                }
            }
        }
        pairs
    }

    pub(super) fn same_track(&self, pair: &Pair) -> bool {
        let (from, to) = (&self.events[pair.from], &self.events[pair.to]);
        (from.cylinder, from.head) == (to.cylinder, to.head)
    }

    pub(super) fn same_head(&self, pair: &Pair) -> bool {
        self.head_of[pair.from] == self.head_of[pair.to]
    }

    pub(super) fn same_zone(&self, pair: &Pair) -> bool {
        self.zone_of[pair.from] == self.zone_of[pair.to]
    }

    /// Cylinders between the two of a pair.
    pub(super) fn distance(&self, pair: &Pair) -> f64 {
        f64::from(self.events[pair.to].cylinder) - f64::from(self.events[pair.from].cylinder)
    }

    /// Cylinders that a request lies behind the first of its zone, and groups of them.
    pub(super) fn along(&self, event: usize) -> (f64, f64) {
        let along = self.events[event].cylinder - self.zones[self.zone_of[event]];
        (f64::from(along), f64::from(along.checked_div(self.group).unwrap_or(0)))
    }
}

/// What the time between two requests leaves unexplained, in turns.
pub(super) fn rest(pair: &Pair, rev: f64) -> f64 {
    wrap(pair.span / rev - pair.angle)
}
