//! A layout given as a tree of repeated patterns.

use super::{PARTS, Physical, Run};
use crate::spec::geometry::{Pattern, PatternChild, PatternEntry, PatternRemap, PatternTrack};

#[derive(Clone, Debug)]
pub(super) struct PatternMap {
    pattern: Pattern,
    remaps: Vec<PatternRemap>,
    /// For each slip the host's first sector that it moves, ascending.
    keys: Vec<u64>,
}

/// A position on the way down the tree.
struct Found {
    cylinder: i64,
    head: u32,
    track: PatternTrack,
    sector: u32,
    /// Rotational position in turns.
    angle: f64,
    /// Sectors to the end of the track, or of the last, shortened repetition.
    room: u64,
}

impl PatternMap {
    pub(super) fn new(pattern: &Pattern) -> PatternMap {
        let mut remaps = pattern.remaps.clone();
        remaps.sort_by_key(|remap| remap.lbn);
        let mut before = 0;
        let keys = pattern.slips.iter().map(|slip| {
            let key = slip.at.saturating_sub(before);
            before = slip.total;
            key
        });
        PatternMap { keys: keys.collect(), pattern: pattern.clone(), remaps }
    }

    fn remap(&self, lbn: u64) -> (Option<&PatternRemap>, u64) {
        let after = self.remaps.partition_point(|remap| remap.lbn <= lbn);
        let room = self.remaps.get(after).map_or(u64::MAX, |remap| remap.lbn - lbn);
        let found = after.checked_sub(1).map(|index| &self.remaps[index]);
        (found.filter(|remap| lbn < remap.lbn + u64::from(remap.count)), room)
    }

    /// The sector in the numbering of the tree, and how many follow without a slip.
    fn slipped(&self, lbn: u64) -> (u64, u64) {
        let passed = self.keys.partition_point(|&key| key <= lbn);
        let total = passed.checked_sub(1).map_or(0, |index| self.pattern.slips[index].total);
        (lbn + total, self.keys.get(passed).map_or(u64::MAX, |key| key - lbn))
    }

    fn find(&self, lbn: u64) -> Found {
        let (mut at, mut room) = self.slipped(lbn);
        let mut node = self.pattern.root;
        let (mut cylinder, mut angle) = (0, 0.0);
        loop {
            let entries = &self.pattern.nodes[node as usize].entries;
            let index = entries.partition_point(|entry| entry.lbn <= at).max(1) - 1;
            let entry: &PatternEntry = &entries[index];
            let within = at - entry.lbn;
            room = room.min(entry.run.saturating_sub(within)).max(1);
            let (turn, rest) = (within / entry.length, within % entry.length);
            room = room.min(entry.length - rest);
            let along = if entry.cylinder_run < 0 { -(turn as i64) } else { turn as i64 };
            cylinder += entry.cylinder + along * entry.cylinder_length;
            // Each repetition has a larger angle than the one before, in both directions of the
            // arm.
            angle += entry.offset + turn as f64 * entry.skew;
            at = rest;
            match entry.child {
                PatternChild::Node(child) => node = child,
                PatternChild::Track(track) => {
                    let track = self.pattern.tracks[track as usize];
                    let sector = (u64::from(track.first) + at).min(u64::from(track.last)) as u32;
                    angle += at as f64 / f64::from(track.sectors);
                    room = room.min(u64::from(track.last - sector) + 1);
                    return Found { cylinder, head: entry.head, track, sector, angle, room };
                }
            }
        }
    }

    pub(super) fn run(&self, lbn: u64) -> Run {
        let (remapped, room) = self.remap(lbn);
        if let Some(remap) = remapped {
            let inside = (lbn - remap.lbn) as u32;
            let turn = u64::from(remap.track_sectors.max(1)) * PARTS;
            return Run {
                cylinder: remap.cylinder,
                head: remap.head,
                track_sectors: remap.track_sectors.max(1),
                position: u64::from(remap.sector + inside) * PARTS % turn,
                count: remap.count - inside,
            };
        }
        let found = self.find(lbn);
        let turn = u64::from(found.track.sectors) * PARTS;
        let position = (found.angle.rem_euclid(1.0) * turn as f64).round() as u64 % turn;
        Run {
            cylinder: found.cylinder.max(0) as u32,
            head: found.head,
            track_sectors: found.track.sectors,
            position,
            count: found.room.min(room).min(u64::from(u32::MAX)) as u32,
        }
    }

    pub(super) fn physical(&self, lbn: u64) -> Physical {
        if let (Some(remap), _) = self.remap(lbn) {
            let sector = remap.sector + (lbn - remap.lbn) as u32;
            return Physical { cylinder: remap.cylinder, head: remap.head, sector };
        }
        let found = self.find(lbn);
        Physical { cylinder: found.cylinder.max(0) as u32, head: found.head, sector: found.sector }
    }

    /// The sector at a place, found by going down every branch that holds the cylinder.
    pub(super) fn lbn(&self, at: Physical, sectors: u64) -> Option<u64> {
        for remap in &self.remaps {
            let here = remap.cylinder == at.cylinder && remap.head == at.head;
            if here && at.sector.wrapping_sub(remap.sector) < remap.count {
                return Some(remap.lbn + u64::from(at.sector - remap.sector));
            }
        }
        let tree = self.down(self.pattern.root, i64::from(at.cylinder), at)?;
        // Undo the slips: the last one whose moved sectors begin at or before the result.
        let passed = self
            .pattern
            .slips
            .iter()
            .zip(&self.keys)
            .take_while(|(slip, key)| **key + slip.total <= tree)
            .count();
        let total = passed.checked_sub(1).map_or(0, |index| self.pattern.slips[index].total);
        let lbn = tree.checked_sub(total)?;
        (lbn < sectors && self.physical(lbn) == at).then_some(lbn)
    }

    fn down(&self, node: u32, cylinder: i64, at: Physical) -> Option<u64> {
        for entry in &self.pattern.nodes[node as usize].entries {
            let away = cylinder - entry.cylinder;
            let away = if entry.cylinder_run < 0 { -away } else { away };
            let turns = entry.run.div_ceil(entry.length);
            let span = entry.cylinder_length.abs().max(1);
            // A repetition covers the cylinders from its own on; inner ones may run backwards.
            let near = away.div_euclid(span);
            for turn in [near, near + 1, near - 1] {
                if turn < 0 || turn as u64 >= turns {
                    continue;
                }
                let along = if entry.cylinder_run < 0 { -turn } else { turn };
                let inner = cylinder - entry.cylinder - along * entry.cylinder_length;
                let base = entry.lbn + turn as u64 * entry.length;
                let found = match entry.child {
                    PatternChild::Track(track) => {
                        let track = &self.pattern.tracks[track as usize];
                        let inside = (track.first..=track.last).contains(&at.sector);
                        (inner == 0 && entry.head == at.head && inside)
                            .then(|| u64::from(at.sector - track.first))
                    }
                    PatternChild::Node(child) => self.down(child, inner, at),
                };
                if let Some(found) = found
                    && found < entry.length
                    && base + found < entry.lbn + entry.run
                {
                    return Some(base + found);
                }
            }
        }
        None
    }
}
