//! The plan of a batch on a device with a head, and where blocks go on one without.

use super::columns::{Candidate, Columns};
use super::freemap::FreeMap;
use seekless_engine::arm::{Arm, Head, Track};
use seekless_engine::units::{BlockNr, Time};

/// Where the head is going to be: the state of a plan for the commands of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Track that the head is over.
    pub track: Track,
    /// When it is ready for the next command.
    pub at: Time,
    /// Slot after the last one planned on `track`, if the plan has begun.
    follow: Option<u32>,
    /// Where the block after the last one goes, if that has been found out with it.
    second: Option<Candidate>,
}

impl Plan {
    /// A plan that starts where the head is.
    pub fn new(head: Head) -> Plan {
        Plan { track: head.track, follow: None, at: head.free_at, second: None }
    }

    /// The slot behind the last one, if it is free: it costs no new command.
    pub fn continuation(&self, free: &FreeMap) -> Option<Candidate> {
        let slot = self.follow.filter(|&slot| free.slot_is_free(self.track, slot))?;
        Some(Candidate { track: self.track, slot, start: self.at })
    }

    /// Takes a slot and goes on behind it; returns the block.
    pub fn take(&mut self, free: &mut FreeMap, arm: &dyn Arm, next: Candidate) -> u32 {
        let Candidate { track, slot, start } = next;
        let at = start + slot_ns(free, arm, track);
        *self = Plan { track, follow: Some(slot + 1), at, second: self.second };
        free.take_slot(track, slot);
        free.block(track, slot)
    }

    /// Notes where the block after the next one goes.
    pub fn expect(&mut self, second: Option<Candidate>) {
        self.second = second;
    }

    /// What was noted.
    pub fn expected(&mut self) -> Option<Candidate> {
        self.second.take()
    }
}

/// Time for a slot of a track to pass, in nanoseconds.
pub fn slot_ns(free: &FreeMap, arm: &dyn Arm, track: Track) -> Time {
    free.columns().map_or_else(|| arm.transfer_ns(track, 1), Columns::slot_ns)
}

/// Chooses blocks on a device without a head: the track is a nominal run of blocks, the head is
/// where the last write ended, and writing goes on from there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nominal {
    /// The track that runs are written to.
    fill: Option<Track>,
    /// The block behind the last one of a run.
    cursor: u32,
    /// The track that holes are filled on.
    hole: Track,
}

impl Nominal {
    /// The track that runs are written to.
    pub fn filling(&self) -> Option<Track> {
        self.fill
    }

    /// Goes on with another track: the medium refuses a block of this one, and bad blocks are
    /// neighbours.
    pub fn leave(&mut self, free: &FreeMap, bad: u32) {
        let next = (free.locate(bad).0 + 1) % free.tracks();
        self.cursor = free.block(next, 0);
        self.fill = None;
        self.hole = next;
    }

    /// Takes the next free block. `None` if nothing is free.
    ///
    /// What is written in runs goes to empty tracks, in order. What is `scattered` anyway goes to
    /// holes where there are any: it would only break up empty tracks, and on a sparse file each
    /// block written for the first time costs the file system a transaction.
    pub fn choose(&mut self, free: &mut FreeMap, scattered: bool) -> Option<u32> {
        if free.free() == 0 {
            return None;
        }
        if scattered && let Some(block) = self.hole(free) {
            free.take(block);
            return Some(block);
        }
        let (here, slot) = free.locate(self.cursor);
        let ahead = free.next_free_ahead(here, slot).map(|slot| (here, slot));
        // Whole tracks first, so that sequential writing stays sequential on the device.
        let (track, slot) = match (ahead, self.fill) {
            (Some(found), Some(track)) if track == here => found,
            _ => {
                self.fill = free.next_empty_track(here);
                match self.fill {
                    Some(track) => (track, 0),
                    None => match ahead {
                        Some(found) => found,
                        None => {
                            let track = free.next_open_track((here + 1) % free.tracks())?;
                            (track, free.next_free_ahead(track, 0)?)
                        }
                    },
                }
            }
        };
        let block = free.block(track, slot);
        self.take(free, block);
        Some(block)
    }

    /// Takes the block behind the last one, if it is free and lies between two tracks, both
    /// included, or else `home`, if that is free.
    pub fn go_on(&mut self, free: &mut FreeMap, tracks: (Track, Track), home: u32) -> Option<u32> {
        let at_home = || free.is_free(BlockNr::from(home)).then_some(home);
        let block = self.following(free, tracks).or_else(at_home)?;
        self.take(free, block);
        Some(block)
    }

    /// Takes a free block between two tracks, both included: the one behind the last one, or
    /// else the first one from `home` on, or else the nearest track's. `None` if none is free.
    pub fn choose_near(
        &mut self,
        free: &mut FreeMap,
        (low, high): (Track, Track),
        home: u32,
    ) -> Option<u32> {
        let (middle, slot) = free.locate(home);
        let ahead = || Some(free.block(middle, free.next_free_ahead(middle, slot)?));
        let on = |track: Track| Some(free.block(track, free.next_free(track, 0)?));
        let nearest = || {
            let distances = 0..=middle.abs_diff(low).max(middle.abs_diff(high));
            let both = |away| [middle.checked_sub(away), middle.checked_add(away)];
            let tracks = distances.flat_map(both).flatten();
            tracks.filter(|track| (low..=high).contains(track)).find_map(on)
        };
        let following = self.following(free, (low, high));
        let block = following.or_else(ahead).or_else(nearest)?;
        self.take(free, block);
        Some(block)
    }

    /// The block behind the last one, if it is free and lies between two tracks.
    fn following(&self, free: &FreeMap, (low, high): (Track, Track)) -> Option<u32> {
        let (here, slot) = free.locate(self.cursor);
        let follows = (low..=high).contains(&here) && free.slot_is_free(here, slot);
        follows.then_some(self.cursor)
    }

    /// Takes a block and goes on behind it.
    fn take(&mut self, free: &mut FreeMap, block: u32) {
        free.take(block);
        let end = free.block(free.tracks() - 1, free.slots(free.tracks() - 1));
        self.cursor = if block + 1 == end { 0 } else { block + 1 };
    }

    /// Takes a free block on a track that has blocks in use and is not `victim`. `None` if there
    /// is none.
    pub fn choose_hole(&mut self, free: &mut FreeMap, victim: Track) -> Option<u32> {
        let first = free.next_mixed_track(self.hole)?;
        let track = match first == victim {
            true => free.next_mixed_track((first + 1) % free.tracks())?,
            false => first,
        };
        if track == victim {
            return None;
        }
        self.hole = track;
        let block = free.next_free_ahead(track, 0).map(|slot| free.block(track, slot))?;
        free.take(block);
        Some(block)
    }

    /// A free block on a track that is neither empty nor the one that runs are written to.
    fn hole(&mut self, free: &FreeMap) -> Option<u32> {
        let filling = |track: &Track| *track == free.locate(self.cursor).0;
        let mut track = free.next_mixed_track(self.hole)?;
        if filling(&track) {
            track = free.next_mixed_track((track + 1) % free.tracks())?;
        }
        if filling(&track) {
            return None;
        }
        self.hole = track;
        free.next_free_ahead(track, 0).map(|slot| free.block(track, slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_head_writing_is_sequential_while_tracks_are_empty() {
        let mut free = FreeMap::new(1024, None);
        for block in 2..1023 {
            free.release(block);
        }
        let mut placer = Nominal::default();
        let first: Vec<u32> = (0..512).filter_map(|_| placer.choose(&mut free, false)).collect();
        assert_eq!(first, (256..768).collect::<Vec<_>>());
        let hole = placer.choose(&mut free, true);
        assert_eq!(hole, Some(2), "the first track holds a superblock: it is not empty");
        free.release(2);
        free.release(300);
        placer.hole = 1;
        assert_eq!(placer.choose(&mut free, true), Some(300));
        assert_eq!(placer.choose(&mut free, true), Some(2));
        free.release(2);
        let rest: Vec<u32> = (0..509).filter_map(|_| placer.choose(&mut free, false)).collect();
        assert_eq!(rest.len(), 509);
        assert_eq!(placer.choose(&mut free, true), None);
    }
}
