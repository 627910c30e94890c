//! Free slots by rotational position: for each cylinder and position, which surfaces have a free
//! slot (or a run of two) that begins there. The first one to pass is found with a few word
//! operations per cylinder, whatever the number of tracks.

use crate::arm::{Arm, Track};

/// Most surfaces that a column has bits for.
pub const MAX_SURFACES: u32 = 64;

/// Columns of one disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    heads: u32,
    positions: usize,
    words: usize,
    /// Bit per surface, by cylinder and position.
    surfaces: Vec<u64>,
    /// Bit per position that has any surface, by cylinder.
    occupied: Vec<u64>,
}

impl Columns {
    /// Empty columns.
    pub fn new(arm: &dyn Arm) -> Columns {
        let heads = arm.tracks_per_cylinder();
        assert!(heads <= MAX_SURFACES);
        let cylinders = (arm.tracks() / heads) as usize;
        let positions = arm.positions(0) as usize;
        let words = positions.div_ceil(64);
        Columns {
            heads,
            positions,
            words,
            surfaces: vec![0; cylinders * positions],
            occupied: vec![0; cylinders * words],
        }
    }

    /// Sets or clears the slot of `track` that begins at `position`.
    pub fn set(&mut self, track: Track, position: u32, free: bool) {
        let (cylinder, surface) = ((track / self.heads) as usize, track % self.heads);
        let column = &mut self.surfaces[cylinder * self.positions + position as usize];
        let word = &mut self.occupied[cylinder * self.words + position as usize / 64];
        let mark = 1 << (position % 64);
        if free {
            *column |= 1 << surface;
            *word |= mark;
        } else {
            *column &= !(1 << surface);
            if *column == 0 {
                *word &= !mark;
            }
        }
    }

    /// The first position of a cylinder at or after `from`, wrapping round, where a surface other
    /// than that of track `not` has a free slot; and the track.
    pub fn next(&self, cylinder: u32, from: u32, not: Option<Track>) -> Option<(u32, Track)> {
        let mask = not.map_or(u64::MAX, |track| !(1 << (track % self.heads)));
        let end = self.positions as u32;
        self.between(cylinder, from, end, mask).or_else(|| self.between(cylinder, 0, from, mask))
    }

    fn between(&self, cylinder: u32, from: u32, end: u32, mask: u64) -> Option<(u32, Track)> {
        if from >= end {
            return None;
        }
        let base = cylinder as usize * self.words;
        let columns = cylinder as usize * self.positions;
        let mut index = from as usize / 64;
        let mut bits = self.occupied[base + index] & (u64::MAX << (from % 64));
        loop {
            while bits != 0 {
                let position = index as u32 * 64 + bits.trailing_zeros();
                if position >= end {
                    return None;
                }
                let surfaces = self.surfaces[columns + position as usize] & mask;
                if surfaces != 0 {
                    return Some((position, cylinder * self.heads + surfaces.trailing_zeros()));
                }
                bits &= bits - 1;
            }
            index += 1;
            if index == self.words || index * 64 >= end as usize {
                return None;
            }
            bits = self.occupied[base + index];
        }
    }
}
