//! Which blocks are free, track by track.

use super::columns::Columns;
use seekless_engine::arm::{Arm, Track};
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::BlockNr;

/// Blocks of a nominal track, for devices without a head.
pub const NOMINAL_TRACK: u32 = 256;

/// Free bitmap with a counter per track, and a bitmap of tracks that are wholly free. Choosing a
/// block costs a few words of bitmap, never a scan of the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeMap {
    /// First block of each track, and the end of the last one. A volume may leave the last tracks
    /// of a disk alone; these have no blocks.
    bounds: Vec<u32>,
    /// Tracks that have blocks.
    tracks: Track,
    words_per_track: usize,
    /// Blocks of every track but perhaps the last one, where tracks are alike.
    alike: Option<u32>,
    /// One bit per block, set if free; each track starts at a word boundary.
    bits: Vec<u64>,
    free_on: Vec<u32>,
    /// One bit per track, set if every block of it is free.
    empty: Vec<u64>,
    /// One bit per track, set if any block of it is free.
    open: Vec<u64>,
    free: u64,
    empty_tracks: u32,
    open_tracks: u32,
    /// Blocks of wholly free tracks.
    empty_blocks: u64,
    /// Free slots by rotational position, on disks with several surfaces.
    columns: Option<Columns>,
    /// Blocks that no search finds.
    withheld: Option<Withheld>,
}

/// Blocks that are taken by name only; a bit for each block of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Withheld {
    blocks: Vec<u64>,
    /// Those of them that are free, and how many.
    free: Vec<u64>,
    count: u64,
}

impl Withheld {
    /// The word and the bit of a block, if it is one of them.
    fn bit(&self, block: u32) -> Option<(usize, u64)> {
        let (word, bit) = (block as usize / 64, 1 << (block % 64));
        (self.blocks[word] & bit != 0).then_some((word, bit))
    }
}

impl FreeMap {
    /// All blocks in use, on the geometry of `arm` or, without one, a nominal geometry.
    pub fn new(device_blocks: u64, arm: Option<&dyn Arm>) -> FreeMap {
        let end = device_blocks as u32;
        let mut bounds: Vec<u32> = match arm {
            Some(arm) => (0..arm.tracks())
                .map(|track| arm.track_blocks(track).0.min(device_blocks) as u32)
                .collect(),
            None => (0..end).step_by(NOMINAL_TRACK as usize).collect(),
        };
        let used = bounds.iter().filter(|&&first| first < end).count() as Track;
        bounds.push(end);
        let longest = bounds.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(1);
        let words_per_track = longest.div_ceil(64) as usize;
        let tracks = bounds.len() - 1;
        let even = |track: usize| (track as u64 * u64::from(bounds[1])).min(device_blocks) as u32;
        let alike =
            (1..tracks).all(|track| bounds[track] == even(track)).then_some(bounds[1].max(1));
        FreeMap {
            bounds,
            tracks: used,
            words_per_track,
            alike,
            bits: vec![0; tracks * words_per_track],
            free_on: vec![0; tracks],
            empty: vec![0; tracks.div_ceil(64)],
            open: vec![0; tracks.div_ceil(64)],
            free: 0,
            empty_tracks: 0,
            open_tracks: 0,
            empty_blocks: 0,
            columns: arm.and_then(Columns::new),
            withheld: None,
        }
    }

    /// Withholds blocks from every search from now on; none of them is free. They are taken with
    /// [`FreeMap::take`] only.
    pub fn withhold(&mut self, blocks: impl Iterator<Item = u32>) {
        let end = self.bounds.last().copied().unwrap_or(0);
        let none = vec![0; end.div_ceil(64) as usize];
        let mut withheld = Withheld { blocks: none.clone(), free: none, count: 0 };
        for block in blocks {
            withheld.blocks[block as usize / 64] |= 1 << (block % 64);
        }
        self.withheld = Some(withheld);
    }

    /// True if a block is withheld from searches and free.
    pub fn is_free_by_name(&self, block: u32) -> bool {
        let withheld = self.withheld.as_ref();
        withheld
            .is_some_and(|all| all.bit(block).is_some_and(|(word, bit)| all.free[word] & bit != 0))
    }

    /// Free blocks that are withheld from searches.
    pub fn free_by_name(&self) -> u64 {
        self.withheld.as_ref().map_or(0, |withheld| withheld.count)
    }

    /// Free blocks that a search finds.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Tracks that are wholly free.
    pub fn empty_tracks(&self) -> u32 {
        self.empty_tracks
    }

    /// Free blocks on tracks that have blocks in use.
    pub fn in_holes(&self) -> u64 {
        debug_assert!(self.empty_blocks <= self.free, "an empty track has free blocks only");
        self.free - self.empty_blocks
    }

    /// True if the free blocks of a track are holes: it has blocks in use. Not those of `victim`.
    pub fn is_hole(&self, track: Track, victim: Track) -> bool {
        track != victim && self.free_on(track) != self.slots(track)
    }

    /// Which of at most 32 tracks from `first` on have blocks in use, a bit each.
    pub fn mixed_tracks(&self, first: Track, count: u32) -> u32 {
        debug_assert!((1..=32).contains(&count), "{count} tracks in 32 bits");
        let (word, bit) = (first as usize / 64, first % 64);
        let next = self.empty.get(word + 1).copied().unwrap_or(0);
        let empty = self.empty[word] >> bit | next << 1 << (63 - bit);
        !empty as u32 & (u32::MAX >> (32 - count))
    }

    /// Number of tracks that have blocks.
    pub fn tracks(&self) -> Track {
        self.tracks
    }

    /// Free blocks of a track.
    pub fn free_on(&self, track: Track) -> u32 {
        self.free_on[track as usize]
    }

    /// Blocks of a track.
    pub fn slots(&self, track: Track) -> u32 {
        self.bounds[track as usize + 1] - self.bounds[track as usize]
    }

    /// The block at a slot of a track.
    pub fn block(&self, track: Track, slot: u32) -> u32 {
        // The slot behind the last one is the first one of the next track.
        debug_assert!(slot <= self.slots(track), "slot {slot} of track {track}");
        self.bounds[track as usize] + slot
    }

    /// Track and slot of a block.
    pub fn locate(&self, block: u32) -> (Track, u32) {
        debug_assert!(self.bounds.last().is_some_and(|&end| block < end), "no block {block}");
        let track = if let Some(slots) = self.alike {
            (block / slots).min(self.tracks - 1)
        } else {
            let behind = self.bounds.partition_point(|&first| first <= block);
            (behind - 1).min(self.tracks as usize - 1) as Track
        };
        (track, block - self.bounds[track as usize])
    }

    fn word(&self, track: Track, slot: u32) -> (usize, u64) {
        let word = track as usize * self.words_per_track + (slot / 64) as usize;
        (word, 1 << (slot % 64))
    }

    /// True if a block is free.
    pub fn is_free(&self, block: BlockNr) -> bool {
        let (track, slot) = self.locate(block as u32);
        let (word, bit) = self.word(track, slot);
        self.bits[word] & bit != 0
    }

    /// Calls `each` with the blocks that are in use, in order. Those withheld count as in use.
    pub fn each_used(&self, mut each: impl FnMut(u32)) {
        for track in (0..self.tracks).filter(|&track| self.free_on(track) < self.slots(track)) {
            let words = &self.bits[track as usize * self.words_per_track..];
            let end = self.slots(track);
            for (&word, from) in words[..self.words_per_track].iter().zip((0..end).step_by(64)) {
                let mut used = !word & (u64::MAX >> (64 - (end - from).min(64)));
                while used != 0 {
                    each(self.block(track, from + used.trailing_zeros()));
                    used &= used - 1;
                }
            }
        }
    }

    /// True if a slot is free; false outside the track.
    pub fn slot_is_free(&self, track: Track, slot: u32) -> bool {
        if slot >= self.slots(track) {
            return false;
        }
        let (word, bit) = self.word(track, slot);
        self.bits[word] & bit != 0
    }

    /// The free slots by rotational position, if the disk has them.
    pub fn columns(&self) -> Option<&Columns> {
        self.columns.as_ref()
    }

    /// Marks a block as in use.
    ///
    /// # Panics
    /// If it was in use: two owners of one block would be a corruption.
    pub fn take(&mut self, block: u32) {
        if let Some(withheld) = &mut self.withheld
            && let Some((word, bit)) = withheld.bit(block)
        {
            assert!(withheld.free[word] & bit != 0, "block {block} is taken twice");
            withheld.free[word] &= !bit;
            withheld.count -= 1;
            return;
        }
        let (track, slot) = self.locate(block);
        self.take_slot(track, slot);
    }

    /// The same for a slot of a track.
    ///
    /// # Panics
    /// If it was in use.
    pub fn take_slot(&mut self, track: Track, slot: u32) {
        let (word, bit) = self.word(track, slot);
        assert!(self.bits[word] & bit != 0, "slot {slot} of track {track} is taken twice");
        self.bits[word] &= !bit;
        self.free -= 1;
        self.set_columns(track, slot, false);
        debug_assert!(self.free_on[track as usize] > 0, "a full track had a free slot");
        let (group, mark) = (track as usize / 64, 1_u64 << (track % 64));
        if self.free_on[track as usize] == self.slots(track) {
            self.empty[group] &= !mark;
            self.empty_tracks -= 1;
            self.empty_blocks -= u64::from(self.slots(track));
        }
        self.free_on[track as usize] -= 1;
        if self.free_on[track as usize] == 0 {
            self.open[group] &= !mark;
            self.open_tracks -= 1;
        }
    }

    #[inline(always)]
    fn set_columns(&mut self, track: Track, slot: u32, free: bool) {
        let Some(columns) = &mut self.columns else { return };
        let (before, behind) = match self.words_per_track {
            1 => {
                // Beyond both ends of a track no bit is set.
                let bits = self.bits[track as usize];
                (bits << 1 >> slot & 1 != 0, bits >> 1 >> slot & 1 != 0)
            }
            words => {
                let track_bits = &self.bits[track as usize * words..][..words];
                let is_free = |slot: u32| {
                    let word = track_bits.get((slot / 64) as usize).copied().unwrap_or(0);
                    word >> (slot % 64) & 1 != 0
                };
                (slot > 0 && is_free(slot - 1), is_free(slot + 1))
            }
        };
        columns.set(track, slot, free, before, behind);
    }

    /// Marks a block as free.
    ///
    /// # Panics
    /// If it was free.
    pub fn release(&mut self, block: u32) {
        if let Some(withheld) = &mut self.withheld
            && let Some((word, bit)) = withheld.bit(block)
        {
            assert!(withheld.free[word] & bit == 0, "block {block} is freed twice");
            withheld.free[word] |= bit;
            withheld.count += 1;
            return;
        }
        let (track, slot) = self.locate(block);
        let (word, bit) = self.word(track, slot);
        if planted(PlantedBug::CheckpointEarly) && self.bits[word] & bit != 0 {
            return; // It gives blocks two owners: the prover is to find that in what is read.
        }
        assert!(self.bits[word] & bit == 0, "block {block} is freed twice");
        self.bits[word] |= bit;
        self.set_columns(track, slot, true);
        self.released(track, 1);
    }

    /// Marks blocks that follow one another as free; where nothing is kept for each of them, many
    /// at once.
    ///
    /// # Panics
    /// If one of them was free.
    pub fn release_all(&mut self, blocks: std::ops::Range<u32>) {
        if self.columns.is_some() || self.withheld.is_some() {
            return blocks.for_each(|block| self.release(block));
        }
        let mut at = blocks.start;
        while at < blocks.end {
            let (track, slot) = self.locate(at);
            let end = self.slots(track).min(slot + (blocks.end - at));
            let mut from = slot;
            while from < end {
                let count = (64 - from % 64).min(end - from);
                let (word, _) = self.word(track, from);
                let mask = u64::MAX >> (64 - count) << (from % 64);
                assert!(self.bits[word] & mask == 0, "a slot of track {track} is freed twice");
                self.bits[word] |= mask;
                from += count;
            }
            self.released(track, end - slot);
            at += end - slot;
        }
    }

    /// So many more blocks of a track are free.
    fn released(&mut self, track: Track, count: u32) {
        debug_assert!(count > 0, "nothing is freed");
        self.free += u64::from(count);
        let (group, mark) = (track as usize / 64, 1_u64 << (track % 64));
        if self.free_on[track as usize] == 0 {
            self.open[group] |= mark;
            self.open_tracks += 1;
        }
        self.free_on[track as usize] += count;
        debug_assert!(self.free_on[track as usize] <= self.slots(track), "more free than slots");
        if self.free_on[track as usize] == self.slots(track) {
            self.empty[group] |= mark;
            self.empty_tracks += 1;
            self.empty_blocks += u64::from(self.slots(track));
        }
    }

    /// The first free slot of `track` at or after `from`, in the order of passing; wraps round.
    #[inline(always)]
    pub fn next_free(&self, track: Track, from: u32) -> Option<u32> {
        if self.free_on[track as usize] == 0 {
            return None;
        }
        self.next_free_ahead(track, from).or_else(|| self.next_free_ahead(track, 0))
    }

    /// The first free slot of `track` at or after `from`, without wrapping.
    pub fn next_free_ahead(&self, track: Track, from: u32) -> Option<u32> {
        let base = track as usize * self.words_per_track;
        let mut word = (from / 64) as usize;
        if word >= self.words_per_track {
            return None;
        }
        let mut bits = self.bits[base + word] & (u64::MAX << (from % 64));
        loop {
            if bits != 0 {
                return Some(word as u32 * 64 + bits.trailing_zeros());
            }
            word += 1;
            if word == self.words_per_track {
                return None;
            }
            bits = self.bits[base + word];
        }
    }

    /// The start of the first run of `length` free slots at or after `from`; wraps round, but a
    /// run does not. Runs are at least 2 and at most 63 slots long.
    pub fn next_run(&self, track: Track, from: u32, length: u32) -> Option<u32> {
        debug_assert!((2..64).contains(&length));
        if self.free_on[track as usize] < length {
            return None;
        }
        self.run_between(track, from, self.slots(track), length)
            .or_else(|| self.run_between(track, 0, (from + length).min(self.slots(track)), length))
    }

    /// The same for runs of two.
    pub fn next_pair(&self, track: Track, from: u32) -> Option<u32> {
        if self.words_per_track > 1 {
            return self.next_run(track, from, 2);
        }
        let bits = self.bits[track as usize];
        let starts = bits & bits >> 1;
        let ahead = starts & (u64::MAX << from);
        let first = if ahead != 0 { ahead } else { starts };
        (first != 0).then(|| first.trailing_zeros())
    }

    fn run_between(&self, track: Track, from: u32, end: u32, length: u32) -> Option<u32> {
        let base = track as usize * self.words_per_track;
        let words = &self.bits[base..base + self.words_per_track];
        let first = (from / 64) as usize;
        for index in first..self.words_per_track {
            let next = words.get(index + 1).copied().unwrap_or(0);
            let mut starts = words[index];
            for step in 1..length {
                starts &= words[index] >> step | next << (64 - step);
            }
            if index == first {
                starts &= u64::MAX << (from % 64);
            }
            if starts != 0 {
                let at = index as u32 * 64 + starts.trailing_zeros();
                return (at + length <= end).then_some(at);
            }
        }
        None
    }

    /// The first wholly free track at or after `from`, wrapping round.
    pub fn next_empty_track(&self, from: Track) -> Option<Track> {
        if self.empty_tracks == 0 {
            return None;
        }
        next_bit(&self.empty, from as usize).map(|track| track as Track)
    }

    /// The first track with a free block at or after `from`, wrapping round.
    pub fn next_open_track(&self, from: Track) -> Option<Track> {
        next_bit(&self.open, from as usize).map(|track| track as Track)
    }

    /// The first track with free blocks and others at or after `from`, wrapping round.
    pub fn next_mixed_track(&self, from: Track) -> Option<Track> {
        if self.open_tracks == self.empty_tracks {
            return None;
        }
        let mixed = |word: usize| self.open[word] & !self.empty[word];
        next_bit_of(self.open.len(), mixed, from as usize).map(|track| track as Track)
    }
}

/// The first set bit at or after `from`, wrapping round.
fn next_bit(words: &[u64], from: usize) -> Option<usize> {
    next_bit_of(words.len(), |word| words[word], from)
}

/// The first set bit of `words` words at or after `from`, wrapping round.
fn next_bit_of(words: usize, word: impl Fn(usize) -> u64, from: usize) -> Option<usize> {
    let first = from / 64;
    if first < words {
        let masked = word(first) & (u64::MAX << (from % 64));
        if masked != 0 {
            return Some(first * 64 + masked.trailing_zeros() as usize);
        }
    }
    let mut order = (first + 1..words).chain(0..words.min(first + 1));
    let index = order.find(|&index| word(index) != 0)?;
    Some(index * 64 + word(index).trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::rng::Rng;

    #[test]
    fn agrees_with_a_plain_list() {
        let blocks = 3 * u64::from(NOMINAL_TRACK) + 17;
        let mut map = FreeMap::new(blocks, None);
        let mut plain = vec![false; blocks as usize];
        let mut rng = Rng::stream(3, "freemap");
        for _ in 0..20_000 {
            let block = rng.below(blocks) as u32;
            if plain[block as usize] {
                map.take(block);
            } else {
                map.release(block);
            }
            plain[block as usize] ^= true;
            let free = plain.iter().filter(|&&free| free).count() as u64;
            assert_eq!(map.free(), free);
            let track = rng.below(4) as Track;
            let from = rng.below(u64::from(map.slots(track))) as u32;
            let slots = map.slots(track);
            let is_free = |slot: u32| plain[map.block(track, slot) as usize];
            let expected = (from..slots).chain(0..from).find(|&slot| is_free(slot));
            assert_eq!(map.next_free(track, from), expected);
            let run = |slot: &u32| slot + 3 <= slots && (0..3).all(|step| is_free(slot + step));
            let expected = (from..slots).chain(0..from).find(run);
            assert_eq!(map.next_run(track, from, 3), expected);
            let mixed = |&track: &Track| {
                let free =
                    (0..map.slots(track)).filter(|&slot| plain[map.block(track, slot) as usize]);
                (1..map.slots(track) as usize).contains(&free.count())
            };
            assert_eq!(map.next_mixed_track(track), (track..4).chain(0..track).find(mixed));
            let mut used = (0..blocks as u32).filter(|&block| !plain[block as usize]);
            map.each_used(|block| assert_eq!(used.next(), Some(block)));
            assert_eq!(used.next(), None);
        }
    }

    #[test]
    fn many_at_once_is_one_by_one() {
        let blocks = 5 * u64::from(NOMINAL_TRACK) + 77;
        let mut rng = Rng::stream(4, "freemap");
        for _ in 0..200 {
            let from = rng.below(blocks) as u32;
            let end = from + rng.below(blocks - u64::from(from)) as u32;
            let (mut one_by_one, mut at_once) =
                (FreeMap::new(blocks, None), FreeMap::new(blocks, None));
            for run in [end..blocks as u32, from..end, 0..from] {
                run.clone().for_each(|block| one_by_one.release(block));
                at_once.release_all(run);
                assert_eq!(one_by_one, at_once);
            }
        }
    }

    #[test]
    fn what_is_withheld_is_taken_by_name_only() {
        let mut map = FreeMap::new(600, None);
        map.withhold([3, 300].into_iter());
        (0..600).for_each(|block| map.release(block));
        assert_eq!((map.free(), map.free_by_name()), (598, 2));
        assert_eq!(map.next_free(0, 3), Some(4));
        map.take(300);
        assert!(map.is_free_by_name(3) && !map.is_free_by_name(300) && !map.is_free_by_name(4));
        map.release(300);
        assert_eq!(map.free_by_name(), 2);
    }

    #[test]
    fn knows_empty_tracks() {
        let mut map = FreeMap::new(4 * u64::from(NOMINAL_TRACK), None);
        for block in 0..4 * NOMINAL_TRACK {
            map.release(block);
        }
        map.take(NOMINAL_TRACK);
        assert_eq!(map.empty_tracks(), 3);
        assert_eq!(map.next_empty_track(1), Some(2));
        assert_eq!(map.next_empty_track(4), Some(0));
        map.release(NOMINAL_TRACK);
        assert_eq!(map.next_empty_track(1), Some(1));
    }
}
