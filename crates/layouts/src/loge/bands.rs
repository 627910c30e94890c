//! The bands of a sorted volume: each block stays near its home, within so many cylinders, and the
//! table keeps where in its band it lies, in as few bits as that takes (section 8.2.1 of the
//! paper). A host that sorts its requests by block number sorts them by cylinder, too.

use super::format::Areas;
use crate::eager::freemap::FreeMap;
use seekless_engine::arm::{Arm, Track};
use seekless_engine::units::BlockNr;

/// What is kept of a block: nothing stored, or an exception; from here on a place in its band.
const NOTHING: u64 = 0;
const EXCEPTION: u64 = 1;
const FIRST: u64 = 2;

/// Where a block lies, as far as its band tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    /// It is not stored.
    Nothing,
    /// Outside its band.
    Exception,
    /// At this place.
    At(u32),
}

/// Cylinders, the first and the last one.
pub type Span = (u32, u32);

/// Where the cylinders of a device begin, and how wide the bands are.
#[derive(Clone, Debug)]
pub struct Bands {
    blocks: u64,
    start: u64,
    end: u64,
    heads: u32,
    /// Cylinders on either side of the home.
    reach: u32,
    /// First place of each cylinder, and the end of the last one.
    cylinders: Vec<u32>,
    /// Bits of an entry, and the entries one after the other.
    bits: u32,
    words: Vec<u64>,
}

impl Bands {
    /// Nothing is stored. Without an arm a nominal track counts as a cylinder.
    pub fn new(areas: &Areas, free: &FreeMap, arm: Option<&dyn Arm>, reach: u8) -> Bands {
        let heads = arm.map_or(1, Arm::tracks_per_cylinder);
        let first = |track: Track| free.block(track, 0);
        let mut cylinders: Vec<u32> =
            (0..free.tracks()).step_by(heads as usize).map(first).collect();
        cylinders.push(areas.device_blocks as u32);
        let reach = u32::from(reach);
        let count = cylinders.len() - 1;
        let wide = (2 * reach as usize + 1).min(count);
        let widest = cylinders.windows(wide + 1).map(|band| band[wide] - band[0]).max();
        let bits = (u64::from(widest.unwrap_or(1)) + FIRST).next_power_of_two().trailing_zeros();
        let words = (areas.blocks * u64::from(bits)).div_ceil(64) + 1;
        let (start, end, blocks) = (areas.start(), areas.end(), areas.blocks);
        let words = vec![0; words as usize];
        Bands { blocks, start, end, heads, reach, cylinders, bits, words }
    }

    /// Bits of an entry.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Memory that it takes, in bytes.
    pub fn bytes(&self) -> u64 {
        (self.words.len() * size_of::<u64>() + self.cylinders.len() * size_of::<u32>()) as u64
    }

    /// Where a block would lie if each had a fixed place, evenly spread.
    pub fn home(&self, at: BlockNr) -> u32 {
        let spread = u128::from(at) * u128::from(self.end - self.start) / u128::from(self.blocks);
        self.start as u32 + spread as u32
    }

    fn cylinder(&self, place: u32) -> u32 {
        self.cylinders.partition_point(|&first| first <= place) as u32 - 1
    }

    /// The band of a block: cylinders.
    pub fn span(&self, at: BlockNr) -> Span {
        self.around(at, self.reach)
    }

    /// The cylinders around the home of a block, as many on either side at the edges, too, as
    /// there are.
    pub fn around(&self, at: BlockNr, reach: u32) -> Span {
        let here = self.cylinder(self.home(at));
        let last = self.cylinders.len() as u32 - 2;
        let low = here.saturating_sub(reach).min(last.saturating_sub(2 * reach));
        (low, (low + 2 * reach).min(last))
    }

    /// The next wider reach to look for room in, up to that of all cylinders.
    pub fn wider(&self, reach: u32) -> Option<u32> {
        (reach < self.count()).then_some(reach * 2)
    }

    /// Cylinders on either side of a home.
    pub fn reach(&self) -> u32 {
        self.reach
    }

    /// Number of cylinders.
    pub fn count(&self) -> u32 {
        self.cylinders.len() as u32 - 1
    }

    /// Tracks of a cylinder.
    pub fn heads(&self) -> u32 {
        self.heads
    }

    /// Where a block lies.
    pub fn get(&self, at: BlockNr) -> Within {
        match self.code(at) {
            NOTHING => Within::Nothing,
            EXCEPTION => Within::Exception,
            code => {
                let (low, _) = self.span(at);
                Within::At(self.cylinders[low as usize] + (code - FIRST) as u32)
            }
        }
    }

    /// Puts a block elsewhere; `None` if it is not stored. Returns false if the place is
    /// not in its band: then it is an exception.
    pub fn set(&mut self, at: BlockNr, place: Option<u32>) -> bool {
        let (low, high) = self.span(at);
        let (first, end) = (self.cylinders[low as usize], self.cylinders[high as usize + 1]);
        let inside = place.is_none_or(|place| (first..end).contains(&place));
        let code = match place {
            None => NOTHING,
            Some(place) if inside => u64::from(place - first) + FIRST,
            Some(_) => EXCEPTION,
        };
        self.put(at, code);
        inside
    }

    fn code(&self, at: BlockNr) -> u64 {
        let from = at * u64::from(self.bits);
        let (word, shift) = ((from / 64) as usize, (from % 64) as u32);
        let low = self.words[word] >> shift;
        // Shifted in two steps: all 64 bits at once would be too far.
        let high = self.words[word + 1] << 1 << (63 - shift);
        (low | high) & ((1 << self.bits) - 1)
    }

    fn put(&mut self, at: BlockNr, code: u64) {
        let from = at * u64::from(self.bits);
        let (word, shift) = ((from / 64) as usize, from % 64);
        let change = u128::from(self.code(at) ^ code) << shift;
        self.words[word] ^= change as u64;
        self.words[word + 1] ^= (change >> 64) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::rng::Rng;

    #[test]
    fn entries_of_any_width_do_not_touch_each_other() {
        let mut rng = Rng::stream(5, "bands");
        for reach in [1, 2, 3, 40] {
            let areas = Areas { blocks: 5000, device_blocks: 6000, headers: true };
            let free = FreeMap::new(areas.device_blocks, None);
            let mut bands = Bands::new(&areas, &free, None, reach);
            let mut plain = vec![Within::Nothing; 5000];
            for _ in 0..20_000 {
                let at = rng.below(5000);
                let place = rng.chance(0.9).then(|| 250 + rng.below(5749) as u32);
                let (low, high) = bands.span(at);
                let inside = place.is_some_and(|place| {
                    (low..=high).contains(&(place / 256)) || place >= 6000 && high == 23
                });
                assert_eq!(bands.set(at, place), inside || place.is_none(), "{at} at {place:?}");
                plain[at as usize] = match place {
                    None => Within::Nothing,
                    Some(place) if inside => Within::At(place),
                    Some(_) => Within::Exception,
                };
                let near = at.saturating_sub(3)..(at + 3).min(5000);
                for at in near {
                    assert_eq!(bands.get(at), plain[at as usize], "{at} with reach {reach}");
                }
            }
            assert_eq!(bands.count(), 24);
            let (low, high) = bands.span(0);
            assert_eq!((low, high), (0, (2 * u32::from(reach)).min(23)));
        }
    }

    #[test]
    fn a_narrow_band_takes_few_bits() {
        let areas = Areas { blocks: 500_000, device_blocks: 600_000, headers: true };
        let free = FreeMap::new(areas.device_blocks, None);
        // Five tracks of 256 blocks, and what else an entry says.
        assert_eq!(Bands::new(&areas, &free, None, 2).bits(), 11);
    }
}
