//! Torn writes: where a write may tear, how a tear is drawn, and what it leaves on a medium.

use crate::fate::Fate;
use crate::pending::BlockWrite;
use seekless_engine::data::{Body, Piece};
use seekless_engine::device::medium::Cells;
use seekless_engine::rng::Rng;
use seekless_engine::units::{BLOCK_SECTORS, BlockNr, SECTOR_BYTES};

/// The unit that a device writes as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Sectors of 512 bytes.
    Sector,
    /// Blocks of 4096 bytes.
    Block,
    /// Requests.
    Request,
}

impl Unit {
    /// True if a tear with these marks lies between two units. Marks count from a block boundary.
    pub fn allows(self, marks: &[bool]) -> bool {
        match self {
            Unit::Sector => true,
            Unit::Block => marks.chunks(BLOCK_SECTORS as usize).all(is_uniform),
            Unit::Request => is_uniform(marks),
        }
    }

    /// The nearest fate that this unit allows: a unit survives as its first sector does.
    pub fn round(self, fate: Fate) -> Fate {
        let Fate::Torn(mut marks) = fate else { return fate };
        let unit = match self {
            Unit::Sector => return Fate::Torn(marks),
            Unit::Block => BLOCK_SECTORS as usize,
            Unit::Request => marks.len().max(1),
        };
        for part in marks.chunks_mut(unit) {
            let first = part[0];
            part.fill(first);
        }
        debug_assert!(self.allows(&marks), "{self:?}: {marks:?}");
        Fate::of_sectors(marks)
    }
}

fn is_uniform(marks: &[bool]) -> bool {
    marks.iter().all(|mark| *mark == marks[0])
}

/// Tears a write of `sectors` sectors, at least two: up to a sector, from a sector on, or
/// anywhere, each as often. Draws the place first and the way second.
pub fn draw(sectors: usize, rng: &mut Rng) -> Fate {
    debug_assert!(sectors >= 2, "a sector is written as a whole");
    let at = 1 + rng.below(sectors as u64 - 1) as usize;
    let way = rng.below(3);
    let mut mark = |sector: usize| match way {
        0 => sector < at,
        1 => sector >= at,
        _ => rng.below(2) == 1,
    };
    Fate::of_sectors((0..sectors).map(&mut mark).collect())
}

/// Any fate of a write of `sectors` sectors: lost, kept, up to a sector as a head would leave it,
/// from a sector on, or any sectors, each as often. Draws the way first, and leaves a tear that
/// marks all sectors or none as it is: the prover's seeds and counts depend on both.
pub fn draw_any(sectors: usize, rng: &mut Rng) -> Fate {
    match rng.below(5) {
        0 => Fate::Lost,
        1 => Fate::Kept,
        2 => {
            let end = rng.below(sectors as u64) as usize;
            Fate::Torn((0..sectors).map(|sector| sector < end).collect())
        }
        3 => {
            let from = rng.below(sectors as u64) as usize;
            Fate::Torn((0..sectors).map(|sector| sector >= from).collect())
        }
        _ => Fate::Torn((0..sectors).map(|_| rng.chance(0.5)).collect()),
    }
}

/// Puts the sectors of `new` that are marked over those of `old`.
///
/// # Panics
/// If a marked sector is not in both.
pub fn overlay(old: &mut [u8], new: &[u8], marks: &[bool]) {
    for (sector, _) in marks.iter().enumerate().filter(|(_, mark)| **mark) {
        let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
        old[range.clone()].copy_from_slice(&new[range]);
    }
}

/// Puts on a medium what survives of a write.
pub fn apply(medium: &mut Cells, write: &BlockWrite, fate: &Fate) {
    match fate {
        Fate::Lost => {}
        Fate::Kept => {
            write.write_to(medium).expect("memory does not fail");
        }
        Fate::Torn(sectors) => {
            debug_assert!(write.places.is_none(), "a transaction never tears");
            debug_assert_eq!(sectors.len() as u64, u64::from(write.blocks()) * BLOCK_SECTORS);
            for index in 0..write.blocks() {
                let from = index as usize * BLOCK_SECTORS as usize;
                let mut marks = sectors[from..from + BLOCK_SECTORS as usize].to_vec();
                if let Some(part) = write.part {
                    let written = part.in_block(index);
                    marks
                        .iter_mut()
                        .enumerate()
                        .for_each(|(at, mark)| *mark &= written.contains(&at));
                }
                let at = write.at + u64::from(index);
                apply_block(medium, at, &write.data.block(index), &marks);
                // The label is there if the beginning of its block is: harsher than a disk, which
                // would notice that the headers of the sectors differ.
                if let Some(labels) = &write.labels
                    && marks[0]
                {
                    medium.set_label(at, labels[index as usize]);
                }
            }
        }
    }
}

fn apply_block(medium: &mut Cells, at: BlockNr, new: &Piece, marks: &[bool]) {
    if marks.iter().all(|&mark| mark) {
        medium.set(at, new.body.clone());
    } else if marks.iter().any(|&mark| mark) {
        let before = Piece::block(medium.get(at)).to_bytes();
        let after = new.to_bytes();
        let mut mixed = before.to_vec();
        overlay(&mut mixed, &after, marks);
        // A stamp has a checksum of its own: it must not come back as the bytes it stands for.
        if mixed == after {
            medium.set(at, new.body.clone());
        } else if mixed != before {
            medium.set(at, Body::Bytes(mixed.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::data::Data;
    use seekless_engine::device::medium::Medium as _;
    use seekless_engine::io::Part;

    #[test]
    fn torn_writes_mix_at_sectors() {
        let mut medium = Cells::new(4);
        medium.set(1, Body::Stamp { key: 1, version: 1 });
        let write = BlockWrite {
            at: 1,
            data: Data::stamp(1, 1, 2),
            labels: None,
            part: None,
            places: None,
        };
        let marks = vec![true, false, false, false, false, false, false, true];
        apply(&mut medium, &write, &Fate::Torn(marks));
        let old = Data::stamp(1, 1, 1).to_bytes();
        let new = Data::stamp(1, 1, 2).to_bytes();
        let Body::Bytes(found) = medium.get(1) else { panic!("a mixture has bytes") };
        assert_eq!(found[..512], new[..512]);
        assert_eq!(found[512..3584], old[512..3584]);
        assert_eq!(found[3584..], new[3584..]);
        // What is the same in the end is the same, however it came about.
        apply(&mut medium, &write, &Fate::Torn([[false; 1], [true; 1]].concat().repeat(4)));
        let rest = vec![false, true, true, true, true, true, true, false];
        apply(&mut medium, &write, &Fate::Torn(rest));
        assert!(matches!(medium.get(1), Body::Stamp { key: 1, version: 2 }));
    }

    #[test]
    fn a_torn_part_leaves_other_sectors_alone() {
        let part = Some(Part { first: 6, sectors: 4 });
        let write =
            BlockWrite { at: 1, data: Data::stamp(2, 1, 2), labels: None, part, places: None };
        let old = Data::stamp(2, 1, 1).to_bytes();
        let new = write.data.to_bytes();
        let fates = [(Fate::Kept, 6..10), (Fate::Lost, 0..0)];
        let torn = |upto| Fate::Torn((0..16).map(|sector| sector < upto).collect());
        for (fate, changed) in fates.into_iter().chain([(torn(9), 6..9), (torn(7), 6..7)]) {
            let mut medium = Cells::new(4);
            medium.write(1, &Data::stamp(2, 1, 1)).expect("memory");
            apply(&mut medium, &write, &fate);
            let found = medium.read(1, 2).expect("memory").to_bytes();
            for sector in 0..16 {
                let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
                let expected = if changed.contains(&sector) { &new } else { &old };
                assert_eq!(found[range.clone()], expected[range], "{fate:?}, sector {sector}");
            }
        }
    }

    #[test]
    fn a_unit_survives_as_a_whole() {
        let marks: Vec<bool> = (0..24).map(|sector| sector < 12).collect();
        let torn = Fate::Torn(marks.clone());
        assert!(Unit::Sector.allows(&marks) && !Unit::Block.allows(&marks));
        assert_eq!(Unit::Sector.round(torn.clone()), torn);
        let blocks = Fate::Torn((0..24).map(|sector| sector < 16).collect());
        assert_eq!(Unit::Block.round(torn.clone()), blocks);
        assert_eq!(Unit::Request.round(torn), Fate::Kept);
    }

    #[test]
    fn drawn_tears_come_in_every_way() {
        let mut rng = Rng::stream(1, "tears");
        let mut seen = [false; 3];
        for _ in 0..200 {
            let Fate::Torn(marks) = draw(8, &mut rng) else { continue };
            assert!(marks.contains(&true) && marks.contains(&false));
            let turns = marks.windows(2).filter(|pair| pair[0] != pair[1]).count();
            seen[if turns > 1 { 2 } else { usize::from(marks[0]) }] = true;
        }
        assert_eq!(seen, [true; 3]);
    }
}
