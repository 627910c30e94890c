//! Tables of sorted and compressed volumes: a formula or a few bits for each block, a table of
//! exceptions for what lies elsewhere (section 8.2 of the paper).
//!
//! The checksums of the blocks, which the paper does not have, are kept beside them, four bytes
//! each: they do not get smaller.

use super::bands::{Bands, Within};
use super::exceptions::Exceptions;
use super::homes::Homes;
use super::table::Entry;
use crate::eager::Mapped;
use seekless_engine::units::BlockNr;

/// Where blocks lie that are no exceptions.
#[derive(Clone, Debug)]
pub enum Places {
    /// Within a band around their homes.
    Banded(Bands),
    /// At home. A bit for each block says if it is stored.
    Homes {
        /// Which place is whose.
        homes: Homes,
        /// The bits.
        stored: Vec<u64>,
    },
}

impl Places {
    /// At home; nothing is stored.
    pub fn at(homes: Homes, blocks: u64) -> Places {
        Places::Homes { homes, stored: vec![0; blocks.div_ceil(64) as usize] }
    }
}

/// A table in a compact form.
#[derive(Clone, Debug)]
pub struct Compact {
    places: Places,
    exceptions: Exceptions,
    sums: Vec<u32>,
}

impl Compact {
    /// Nothing is stored; there is room for so many exceptions.
    pub fn new(blocks: u64, places: Places, exceptions: u64) -> Compact {
        let sums = vec![0; blocks as usize];
        Compact { places, exceptions: Exceptions::new(exceptions), sums }
    }

    /// Where blocks lie that are no exceptions.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// What lies elsewhere.
    pub fn exceptions(&self) -> &Exceptions {
        &self.exceptions
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        self.sums.len() as u64
    }

    /// Memory that the places take and that the checksums take, in bytes.
    pub fn bytes(&self) -> (u64, u64) {
        let places = match &self.places {
            Places::Banded(bands) => bands.bytes(),
            Places::Homes { stored, .. } => (stored.len() * size_of::<u64>()) as u64,
        };
        (places + self.exceptions.bytes(), (self.sums.len() * size_of::<u32>()) as u64)
    }

    /// Where a block lies.
    pub fn get(&self, at: BlockNr) -> Entry {
        let place = match &self.places {
            Places::Banded(bands) => match bands.get(at) {
                Within::Nothing => None,
                Within::At(place) => Some(place),
                Within::Exception => self.exceptions.get(at),
            },
            Places::Homes { homes, stored } => (stored[at as usize / 64] >> (at % 64) & 1 != 0)
                .then(|| self.exceptions.get(at).unwrap_or_else(|| homes.of(at))),
        };
        place.map_or(Entry::UNMAPPED, |place| Entry::new(place, self.sums[at as usize]))
    }

    /// Puts a block elsewhere; returns where it was.
    pub fn replace(&mut self, at: BlockNr, entry: Entry) -> Entry {
        let old = self.get(at);
        let place = entry.is_mapped().then(|| entry.place());
        let regular = match &mut self.places {
            Places::Banded(bands) => bands.set(at, place),
            Places::Homes { homes, stored } => {
                let (word, bit) = (&mut stored[at as usize / 64], 1 << (at % 64));
                *word = if place.is_some() { *word | bit } else { *word & !bit };
                place.is_none_or(|place| place == homes.of(at))
            }
        };
        match place {
            Some(place) if !regular => self.exceptions.set(at, place),
            _ => self.exceptions.remove(at),
        }
        self.sums[at as usize] = entry.checksum();
        old
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::Areas;
    use super::*;
    use crate::eager::freemap::FreeMap;
    use seekless_engine::rng::Rng;

    #[test]
    fn both_forms_agree_with_a_plain_table() {
        let areas = Areas { blocks: 3000, device_blocks: 4000, headers: false };
        let free = FreeMap::new(areas.device_blocks, None);
        let banded = Places::Banded(Bands::new(&areas, &free, None, 1));
        let homes = Homes::new(areas);
        let forms = [banded, Places::at(homes, areas.blocks)];
        for places in forms {
            let mut rng = Rng::stream(8, "compact");
            let mut compact = Compact::new(areas.blocks, places, 100);
            let mut plain = vec![Entry::UNMAPPED; areas.blocks as usize];
            for round in 0..30_000 {
                let at = rng.below(areas.blocks);
                let home = rng.chance(0.7).then(|| homes.of(at));
                let place = home.unwrap_or_else(|| 100 + rng.below(3800) as u32);
                let entry = match rng.chance(0.9) {
                    true => Entry::new(place, round),
                    false => Entry::UNMAPPED,
                };
                let old = std::mem::replace(&mut plain[at as usize], entry);
                assert_eq!(compact.replace(at, entry), old);
                let at = rng.below(areas.blocks);
                assert_eq!(compact.get(at), plain[at as usize], "block {at}");
            }
            assert!(compact.exceptions().len() > 100, "it has more room than it was given");
            for at in 0..areas.blocks {
                assert_eq!(compact.replace(at, Entry::UNMAPPED), plain[at as usize]);
            }
            assert_eq!(compact.exceptions().len(), 0);
        }
    }
}
