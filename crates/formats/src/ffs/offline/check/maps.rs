//! Phase 5: headers and bitmaps of the groups against what the inodes claim.

use super::finding::{Bitmap, Finding, Outcome};
use super::state::{Brief, Known};
use super::{Examination, is_mark};
use crate::ffs::offline::store::Store;
use crate::ffs::ondisk::fields::{array_at, put};
use crate::ffs::ondisk::format::{FIRST_INODE, SECTOR_BITS};
use crate::ffs::ondisk::geometry::{Geometry, Place};
use crate::ffs::ondisk::group::{Counters, GroupHeader};
use crate::ffs::ondisk::seal::{SealKind, counter};
use seekless_engine::units::SECTOR_BYTES;
use seekless_fs::call::FileKind;

impl Examination<'_> {
    /// Phase 5.
    pub(super) fn maps(&mut self) -> Outcome {
        for group in 0..self.store.geometry.groups() {
            self.group(group)?;
            if self.found.cut {
                break;
            }
        }
        Ok(())
    }

    fn group(&mut self, group: u32) -> Outcome {
        let geometry = self.store.geometry.clone();
        let first = geometry.maps_of(group);
        let bytes = self.store.read(first, geometry.map_blocks())?;
        let place = |at: usize| {
            let block = first + (at / geometry.block_bytes()) as u64;
            Place { block, at: at % geometry.block_bytes() }
        };
        let mut whole = Vec::new();
        for (index, sector) in bytes.chunks_exact(SECTOR_BYTES).enumerate() {
            let place = place(index * SECTOR_BYTES);
            let address = geometry.sector_of(place);
            whole.push(self.store.sealer.is_whole(sector, address, SealKind::Map));
            if whole.last() == Some(&false) {
                let (kind, first) = (SealKind::Map, Some(group));
                self.found.add(Finding::Sector { kind, place, first });
            }
        }
        if whole[0] {
            let header = GroupHeader::decode(&bytes)
                .filter(|header| header.number == group && is_mark(header.initialised, &geometry));
            // Counters are not in the log: the next mount computes them.
            let in_log = self.known.open.is_some();
            match header {
                None => self.found.add(Finding::BadHeader { group }),
                Some(_) if in_log => {}
                Some(header) if header.counters != counters(&self.known, &geometry, group) => {
                    self.found.add(Finding::WrongCounters { group });
                }
                Some(_) => {}
            }
        }
        for what in [Bitmap::Inodes, Bitmap::Fragments] {
            self.bits(&bytes, &whole, group, what);
        }
        Ok(())
    }

    /// Compares a bitmap with what it should be, word by word.
    fn bits(&mut self, maps: &[u8], whole: &[bool], group: u32, what: Bitmap) {
        let words = Words::new(&self.store.geometry, group, what);
        let Words { first_sector, first, .. } = words;
        let (mut lost, mut leaked, mut wrong) = (0, 0, None);
        for (index, (right, mask)) in words.of(&self.known).enumerate() {
            let (sector, at) = (first_sector + index / SECTOR_WORDS, index % SECTOR_WORDS * 8);
            if !whole[sector] {
                continue;
            }
            let at = sector * SECTOR_BYTES + at;
            let stored = u64::from_le_bytes(array_at(maps, at));
            let mut differ = (stored ^ right) & mask;
            if let Some(open) = &self.known.open {
                differ &= !open.word(what, first + index as u32 * 64, differ & stored);
            }
            if differ != 0 {
                lost += (differ & right).count_ones();
                leaked += (differ & stored).count_ones();
                wrong.get_or_insert(first + index as u32 * 64 + differ.trailing_zeros());
            }
        }
        if let Some(first) = wrong {
            self.found.add(Finding::WrongBits { group, what, lost, leaked, first });
        }
    }
}

/// Words of 64 bits in a sector of a bitmap.
const SECTOR_WORDS: usize = SECTOR_BITS as usize / 64;
const _: () = assert!(SECTOR_BITS.is_multiple_of(64));

/// A bitmap as it should be, in words of 64 bits.
struct Words {
    what: Bitmap,
    /// Its first sector in the maps of the group.
    first_sector: usize,
    /// Number of its first thing.
    first: u32,
    /// Things of the group.
    count: u32,
}

impl Words {
    fn new(geometry: &Geometry, group: u32, what: Bitmap) -> Words {
        let inodes = geometry.sizes().inodes_per_group;
        match what {
            Bitmap::Inodes => Words { what, first_sector: 1, first: group * inodes, count: inodes },
            Bitmap::Fragments => Words {
                what,
                first_sector: 1 + inodes.div_ceil(SECTOR_BITS) as usize,
                first: geometry.group_start(group),
                count: geometry.group_fragments(group),
            },
        }
    }

    /// Each word with the bits that count.
    fn of<'k>(&self, known: &'k Known) -> impl Iterator<Item = (u64, u64)> + use<'k> {
        let Words { what, first, count, .. } = *self;
        (0..count).step_by(64).map(move |at| {
            let mask = if count - at < 64 { (1 << (count - at)) - 1 } else { u64::MAX };
            let word = match what {
                Bitmap::Inodes => used_inodes(known, first + at),
                Bitmap::Fragments => known.claimed_word(first + at),
            };
            (word & mask, mask)
        })
    }
}

/// One bit for each of the 64 inodes from this number on that are in use.
fn used_inodes(known: &Known, first: u32) -> u64 {
    let inodes = known.inodes_from(first, 64).iter().enumerate();
    let used = inodes.filter(|(_, brief)| brief.kind.is_some());
    let used = used.fold(0, |word, (index, _)| word | 1 << index);
    let reserved = if first == 0 { (1 << FIRST_INODE) - 1 } else { 0 };
    used | reserved
}

/// The counters of a group as they should be.
fn counters(known: &Known, geometry: &Geometry, group: u32) -> Counters {
    let inodes = Words::new(geometry, group, Bitmap::Inodes);
    let used: u32 = inodes.of(known).map(|(word, _)| word.count_ones()).sum();
    let briefs = known.inodes_from(inodes.first, inodes.count);
    let is_directory = |brief: &&Brief| brief.kind == Some(FileKind::Directory);
    let mut counters = Counters {
        directories: briefs.iter().filter(is_directory).count() as u32,
        free_inodes: inodes.count - used,
        ..Counters::default()
    };
    let per_block = geometry.fragments_per_block();
    let ones = (1 << per_block) - 1;
    // Metadata is claimed, so it adds nothing.
    for (word, mask) in Words::new(geometry, group, Bitmap::Fragments).of(known) {
        let free = !word & mask;
        if free == u64::MAX {
            counters.free_blocks += 64 / per_block;
            continue;
        }
        // A word has whole blocks, and so has a group.
        for at in (0..64).step_by(per_block as usize).filter(|_| free != 0) {
            match free >> at & ones {
                block if block == ones => counters.free_blocks += 1,
                block => counters.free_fragments += block.count_ones(),
            }
        }
    }
    counters
}

/// Writes the maps of a group as they should be.
pub(crate) fn write_group(store: &mut Store<'_>, known: &Known, group: u32) -> Outcome {
    let geometry = store.geometry.clone();
    let first = geometry.maps_of(group);
    let old = store.read(first, geometry.map_blocks())?;
    let mut maps = vec![0; old.len()];
    let kept = GroupHeader::decode(&old).unwrap_or_default();
    let in_group = |rotor: u32, most: u32| if rotor < most { rotor } else { 0 };
    let header = GroupHeader {
        number: group,
        block_rotor: in_group(kept.block_rotor, geometry.group_fragments(group)),
        fragment_rotor: in_group(kept.fragment_rotor, geometry.group_fragments(group)),
        inode_rotor: in_group(kept.inode_rotor, geometry.sizes().inodes_per_group),
        counters: counters(known, &geometry, group),
        initialised: known.marks[group as usize],
        written: kept.written,
    };
    header.encode(&mut maps);
    for what in [Bitmap::Inodes, Bitmap::Fragments] {
        let words = Words::new(&geometry, group, what);
        for (index, (word, _)) in words.of(known).enumerate() {
            let sector = words.first_sector + index / SECTOR_WORDS;
            put(&mut maps, sector * SECTOR_BYTES + index % SECTOR_WORDS * 8, &word.to_le_bytes());
        }
    }
    let next = counter(&old).wrapping_add(1);
    store.sealer.set_all(
        &mut maps,
        geometry.sector_of(geometry.header_of(group)),
        SealKind::Map,
        next,
    );
    store.write(first, maps)
}
