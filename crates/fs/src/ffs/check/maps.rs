//! Phase 5: headers and bitmaps of the groups against what the inodes claim.

use super::finding::{Bitmap, Finding, Outcome};
use super::state::Known;
use super::{Examination, is_mark};
use crate::call::FileKind;
use crate::ffs::format::FIRST_INODE;
use crate::ffs::geometry::{Bit, Geometry, Place};
use crate::ffs::group::{Counters, GroupHeader};
use crate::ffs::seal::{SealKind, counter};
use crate::ffs::store::Store;
use seekless_engine::units::SECTOR_BYTES;

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
            match header {
                None => self.found.add(Finding::BadHeader { group }),
                Some(header) if header.counters != counters(&self.known, &geometry, group) => {
                    self.found.add(Finding::WrongCounters { group });
                }
                Some(_) => {}
            }
        }
        for what in [Bitmap::Inodes, Bitmap::Fragments] {
            let (mut lost, mut leaked, mut first) = (0, 0, None);
            for (number, bit, used) in bits(&self.known, &geometry, group, what) {
                let at = offset(&geometry, group, bit);
                let stored = bytes[at] & bit.mask != 0;
                if whole[at / SECTOR_BYTES] && stored != used {
                    lost += u32::from(used);
                    leaked += u32::from(stored);
                    first.get_or_insert(number);
                }
            }
            if let Some(first) = first {
                self.found.add(Finding::WrongBits { group, what, lost, leaked, first });
            }
        }
        Ok(())
    }
}

/// Offset of the byte of a bit in the maps of its group.
fn offset(geometry: &Geometry, group: u32, bit: Bit) -> usize {
    (bit.block - geometry.maps_of(group)) as usize * geometry.block_bytes() + bit.at
}

/// The bits of a group as they should be: number of the thing, its bit, whether it is in use.
fn bits<'k>(
    known: &'k Known,
    geometry: &'k Geometry,
    group: u32,
    what: Bitmap,
) -> Box<dyn Iterator<Item = (u32, Bit, bool)> + 'k> {
    match what {
        Bitmap::Inodes => {
            let count = geometry.sizes().inodes_per_group;
            let numbers = group * count..(group + 1) * count;
            Box::new(numbers.map(|ino| (ino, geometry.inode_bit(ino), is_used(known, ino))))
        }
        Bitmap::Fragments => {
            let first = geometry.group_start(group);
            let numbers = first..first + geometry.group_fragments(group);
            Box::new(numbers.map(|fragment| {
                (fragment, geometry.fragment_bit(fragment), known.is_claimed(fragment))
            }))
        }
    }
}

fn is_used(known: &Known, ino: u32) -> bool {
    ino < FIRST_INODE || known.kind(ino).is_some()
}

/// The counters of a group as they should be.
fn counters(known: &Known, geometry: &Geometry, group: u32) -> Counters {
    let mut counters = Counters::default();
    let each = geometry.sizes().inodes_per_group;
    for ino in group * each..(group + 1) * each {
        counters.directories += u32::from(known.kind(ino) == Some(FileKind::Directory));
        counters.free_inodes += u32::from(!is_used(known, ino));
    }
    let per_block = geometry.fragments_per_block();
    let data = geometry.data_of(group);
    for block in data.step_by(per_block as usize) {
        let free = (block..block + per_block).filter(|&at| !known.is_claimed(at)).count() as u32;
        if free == per_block {
            counters.free_blocks += 1;
        } else {
            counters.free_fragments += free;
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
        for (_, bit, used) in bits(known, &geometry, group, what) {
            if used {
                maps[offset(&geometry, group, bit)] |= bit.mask;
            }
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
