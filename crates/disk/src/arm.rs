//! The arm of a disk of any geometry: the model that an eager-writing layout plans with.
//!
//! Tracks are those of the platter in the order in which the host's sectors fill them, with the
//! blocks that begin on each; a block that runs over the end of its track belongs to it. Their
//! lengths and places are taken from the geometry when the disk is made. Times come from the
//! [`Motion`] that also serves commands.

use crate::drive::bus::BusRules;
use crate::geometry::{PARTS, Run};
use crate::motion::{Motion, Place};
use crate::spec::{Spec, ns};
use seekless_engine::arm::{Arm, Track};
use seekless_engine::units::{BLOCK_SECTORS, BlockNr, Time};
use std::sync::Arc;

/// Disks with more tracks have no arm: tables of layouts would take some hundred megabytes.
const MAX_TRACKS: usize = 1 << 21;
/// No track.
const NONE: Track = Track::MAX;

/// Where a track is and what begins on it.
#[derive(Clone, Copy, Debug)]
struct TrackPlace {
    first: BlockNr,
    cylinder: u32,
    head: u32,
    sectors: u32,
    /// Blocks from the first one on that lie evenly one behind the other.
    even: u32,
    /// Where the first block begins behind the index mark, in parts of a sector.
    position: u64,
    /// How long a block takes to pass, in nanoseconds, rounded up.
    slot_ns: Time,
}

/// The tracks of a disk, and the motion over them. A rotational position is a slot.
#[derive(Debug)]
pub(crate) struct TrackArm {
    motion: Arc<Motion>,
    tracks: Vec<TrackPlace>,
    blocks: BlockNr,
    /// The track of every `step`-th block: where a search starts.
    guide: Vec<Track>,
    step: u64,
    tracks_per_cylinder: u32,
    overhead_ns: Time,
    /// The track under each head at each cylinder.
    under: Vec<Track>,
    heads: u32,
}

impl TrackArm {
    /// `None` for disks whose head position is unknown or irrelevant: without rotational position,
    /// with a cache that reports writes early, with sequential zones, or with too many tracks for
    /// tables.
    pub fn new(spec: &Spec, motion: &Arc<Motion>) -> Option<TrackArm> {
        if spec.reports_early()
            || spec.zoned.is_some()
            || spec.shingled.is_some()
            || spec.simple.is_some()
            || spec.average_rotation
        {
            return None;
        }
        if spec.capacity_sectors() / longest(spec) > MAX_TRACKS as u64 {
            // Refuse before tables of two million tracks are built.
            return None;
        }
        let tracks = tracks(motion)?;
        let cylinders = tracks.iter().map(|track| track.cylinder).max()? + 1;
        let heads = tracks.iter().map(|track| track.head).max()? + 1;
        let mut under = vec![NONE; cylinders as usize * heads as usize];
        for (number, track) in tracks.iter().enumerate() {
            under[(track.cylinder * heads + track.head) as usize] = number as Track;
        }
        // The host fills cylinder after cylinder with all heads; other disks have no cylinders
        // here.
        let whole = |(number, track): (usize, &TrackPlace)| {
            track.cylinder.checked_sub(tracks[0].cylinder) == Some(number as u32 / heads)
        };
        let blocks = spec.capacity_blocks();
        let step = (blocks / tracks.len() as u64).max(1);
        let in_cylinders =
            tracks.len().is_multiple_of(heads as usize) && tracks.iter().enumerate().all(whole);
        Some(TrackArm {
            motion: motion.clone(),
            blocks,
            guide: guide(&tracks, blocks, step),
            step,
            tracks_per_cylinder: if in_cylinders { heads } else { 1 },
            overhead_ns: overhead_ns(spec),
            under,
            heads,
            tracks,
        })
    }

    /// The track under a head, if any of the host's sectors is on it; else the first one.
    pub fn under(&self, place: Place) -> Track {
        let known = place.head < self.heads;
        let index = (place.cylinder * self.heads + place.head) as usize;
        let found = self.under.get(index).copied().filter(|&track| known && track != NONE);
        found.unwrap_or(0)
    }

    fn place(&self, track: Track) -> &TrackPlace {
        &self.tracks[track as usize]
    }

    fn slots(&self, track: Track) -> u32 {
        let next = self.tracks.get(track as usize + 1).map_or(self.blocks, |next| next.first);
        (next - self.place(track).first) as u32
    }

    fn run(&self, block: BlockNr) -> Run {
        self.motion.geometry().run(block * BLOCK_SECTORS)
    }
}

/// Least cost of a write of one block before the head can be over it: the controller, and the data
/// on the bus, which the head waits for at any place. Costs that vary are part of
/// [`crate::drive::Drive::writer`].
fn overhead_ns(spec: &Spec) -> Time {
    let overheads = &spec.overheads;
    let command = overheads.write_miss_after_write_ms.min(overheads.write_miss_after_read_ms);
    let bus = BusRules::new(spec);
    let taking = bus.taking(spec.overhead_ns(), ns(command), BLOCK_SECTORS as u32, true);
    let lead = overheads.write_lead_ms + overheads.write_lead_sector_ms * BLOCK_SECTORS as f64;
    let before = taking.data.max(taking.arm + ns(overheads.minimum_seek_delay_ms)).max(ns(lead));
    before + taking.regain + ns(overheads.write_completion_ms)
}

/// Sectors on the longest track.
fn longest(spec: &Spec) -> u64 {
    let zones = spec.zones.iter().map(|zone| zone.sectors);
    let pattern = spec.pattern.iter().flat_map(|pattern| &pattern.tracks);
    let longest = zones.chain(pattern.map(|track| track.sectors)).max();
    u64::from(longest.unwrap_or(1).max(1))
}

/// The tracks on which blocks begin. `None` if they are too many.
fn tracks(motion: &Motion) -> Option<Vec<TrackPlace>> {
    let geometry = motion.geometry();
    let blocks = geometry.sectors() / BLOCK_SECTORS;
    let mut tracks = Vec::new();
    let mut block = 0;
    while block < blocks {
        let run = geometry.run(block * BLOCK_SECTORS);
        tracks.push(TrackPlace {
            first: block,
            cylinder: run.cylinder,
            head: run.head,
            sectors: run.track_sectors,
            even: if geometry.is_even() { run.count.div_ceil(BLOCK_SECTORS as u32) } else { 0 },
            position: run.position,
            slot_ns: pass_ns(motion.rev_ns(), run.track_sectors, 1),
        });
        if tracks.len() > MAX_TRACKS {
            return None;
        }
        block = geometry.track_end(block * BLOCK_SECTORS).div_ceil(BLOCK_SECTORS);
    }
    (!tracks.is_empty()).then_some(tracks)
}

/// The track of every `step`-th block.
fn guide(tracks: &[TrackPlace], blocks: BlockNr, step: u64) -> Vec<Track> {
    let places = (0..blocks).step_by(step as usize);
    places.map(|block| (tracks.partition_point(|one| one.first <= block) - 1) as Track).collect()
}

/// Time that `count` blocks of a track take to pass, at most a turn, in nanoseconds, rounded up.
fn pass_ns(turn_ns: Time, sectors: u32, count: u32) -> Time {
    let sectors = u64::from(sectors);
    let passing = (u64::from(count) * BLOCK_SECTORS).min(sectors);
    (passing * turn_ns).div_ceil(sectors)
}

impl Arm for TrackArm {
    fn tracks(&self) -> Track {
        self.tracks.len() as Track
    }

    fn tracks_per_cylinder(&self) -> u32 {
        self.tracks_per_cylinder
    }

    fn track_blocks(&self, track: Track) -> (BlockNr, u32) {
        (self.place(track).first, self.slots(track))
    }

    fn track_of(&self, block: BlockNr) -> Track {
        let mut track = self.guide[(block / self.step) as usize];
        while self.tracks.get(track as usize + 1).is_some_and(|next| next.first <= block) {
            track += 1;
        }
        track
    }

    fn overhead_ns(&self) -> Time {
        self.overhead_ns
    }

    fn travel_ns(&self, from: Track, to: Track) -> Time {
        let (from, to) = (self.place(from), self.place(to));
        let from = Place { cylinder: from.cylinder, head: from.head };
        let (seek, switch) = self.motion.travel_to(from, to.cylinder, to.head, true);
        seek + switch
    }

    fn turn_ns(&self) -> Time {
        self.motion.rev_ns()
    }

    fn positions(&self, track: Track) -> u32 {
        self.slots(track)
    }

    fn position(&self, _track: Track, slot: u32) -> u32 {
        slot
    }

    fn slot_at(&self, _track: Track, position: u32) -> u32 {
        position
    }

    fn next_position(&self, track: Track, angle: Time) -> u32 {
        self.next_slot(track, angle)
    }

    fn next_slot(&self, track: Track, angle: Time) -> u32 {
        let place = self.place(track);
        let turn = u64::from(place.sectors) * PARTS;
        // Rounded up: a sector is never predicted later than it passes by less than a part. The
        // product fits: a turn has less than 2³² parts, and rarely takes a second.
        let here = match angle.checked_mul(turn) {
            Some(product) => product.div_ceil(self.turn_ns()),
            None => {
                let product = u128::from(angle) * u128::from(turn);
                product.div_ceil(u128::from(self.turn_ns())) as u64
            }
        };
        // Both terms are at most a turn, so `behind` is at most two turns.
        let behind = here + turn - place.position;
        let behind = if behind >= turn { behind - turn } else { behind };
        let behind = if behind >= turn { behind - turn } else { behind };
        let slot = behind.div_ceil(PARTS * BLOCK_SECTORS) as u32;
        // Defects move what lies behind them by less than the slot that they would miss.
        if slot < self.slots(track) { slot } else { 0 }
    }

    fn wait_ns(&self, track: Track, position: u32, angle: Time) -> Time {
        let place = self.place(track);
        if position >= place.even {
            let run = self.run(place.first + u64::from(position));
            return self.motion.wait_ns(&run, angle);
        }
        let turn = u64::from(place.sectors) * PARTS;
        let turned = place.position + u64::from(position) * BLOCK_SECTORS * PARTS;
        let turned = if turned >= turn { turned - turn } else { turned };
        self.motion.wait_for_ns(turned, place.sectors, angle)
    }

    fn transfer_ns(&self, track: Track, count: u32) -> Time {
        let place = self.place(track);
        match count {
            1 => place.slot_ns,
            _ => pass_ns(self.turn_ns(), place.sectors, count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{Drive, Request};
    use crate::spec::FastWrite;
    use crate::specs;
    use seekless_engine::io::Op;
    use seekless_engine::rng::Rng;

    /// Writes each block to the next slot that the arm predicts on some track. The head must be
    /// there at exactly that nanosecond.
    fn predicts(name: &str, capacity: Option<u64>) {
        let mut spec = specs::find(name).expect("a built-in disk");
        spec.capacity_sectors = capacity.or(spec.capacity_sectors);
        if let Some(cache) = &mut spec.cache {
            cache.fast_write = FastWrite::None;
        }
        let mut drive = Drive::new(&spec).expect("it can be simulated");
        let arm = TrackArm::new(&spec, drive.motion()).expect("it has an arm");
        let mut rng = Rng::stream(5, name);
        let (mut now, mut done) = (0, Vec::new());
        for tag in 0..2_000 {
            let from = arm.under(drive.writer(now).0);
            let track = match rng.below(3) {
                0 => from,
                1 => (from + rng.below(8) as u32).min(arm.tracks() - 1),
                _ => rng.below(u64::from(arm.tracks())) as u32,
            };
            now = now.max(drive.head().1) + rng.below(2) * rng.below(20_000_000);
            let reached = drive.writer(now).1 + arm.overhead_ns() + arm.travel_ns(from, track);
            let angle = arm.angle_ns(reached);
            let slot = arm.next_slot(track, angle);
            let start = reached + arm.wait_ns(track, arm.position(track, slot), angle);
            let block = arm.track_blocks(track).0 + u64::from(slot);
            assert_eq!(arm.track_of(block), track);
            let lbn = block * BLOCK_SECTORS;
            let request = Request { tag, op: Op::Write, lbn, sectors: 8, fua: true };
            drive.submit(now, request).expect("it lies on the disk");
            while let Some(due) = drive.next_event() {
                now = due;
                drive.advance(now, &mut done);
            }
            let found = done.pop().expect("it was written").media_start;
            assert_eq!(found, start, "{name}: write {tag}, track {track}, slot {slot}");
        }
    }

    #[test]
    fn the_head_is_where_the_arm_says() {
        predicts("hp-c2490a", None);
        predicts("rz26", None);
        predicts("atlas10k", None);
        predicts("cmr-20tb", Some(32 << 20));
    }

    #[test]
    fn every_block_lies_on_one_track() {
        for name in ["hp-c2490a", "rz26"] {
            let spec = specs::find(name).expect("a built-in disk");
            let drive = Drive::new(&spec).expect("it can be simulated");
            let arm = TrackArm::new(&spec, drive.motion()).expect("it has an arm");
            let mut next = 0;
            for track in 0..arm.tracks() {
                let (first, slots) = arm.track_blocks(track);
                assert_eq!(first, next);
                assert!(slots > 0, "{name}: track {track}");
                next = first + u64::from(slots);
            }
            assert_eq!(next, spec.capacity_blocks());
        }
    }

    /// Its first sector was moved to a later cylinder, so the tracks are not in order.
    #[test]
    fn a_disk_that_begins_in_the_middle_has_no_cylinders() {
        let text = r#"
            name = "moved"
            summary = "a disk"
            rpm = 6000
            heads = 1
            cylinders = 10
            head_switch_ms = 1.0
            overhead_ms = 0.5
            [seek]
            three_points = { single_ms = 1.0, average_ms = 4.0, full_ms = 9.0, curve = true }
            [pattern]
            root = 0
            remaps = [
                { lbn = 0, count = 8, cylinder = 9, head = 0, sector = 8, track_sectors = 96 },
            ]
            tracks = [{ first = 0, last = 79, sectors = 96 }]
            [[pattern.nodes]]
            entries = [{ lbn = 0, length = 80, run = 800, cylinder = 0, cylinder_length = 1,
                         cylinder_run = 10, child = { track = 0 } }]
        "#;
        let spec = Spec::parse(text).expect("it makes sense");
        let drive = Drive::new(&spec).expect("it can be simulated");
        let arm = TrackArm::new(&spec, drive.motion()).expect("it has an arm");
        assert_eq!((arm.place(0).cylinder, arm.tracks_per_cylinder()), (9, 1));
    }
}
