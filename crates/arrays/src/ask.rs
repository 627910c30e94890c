//! Asking the layout above, while an array is assembled, which blocks are right in rows about which
//! the members disagree.
//!
//! The layout is mounted and checked over a [`Question`]: an array that writes nothing. Where it
//! reads a block in such a row with a checksum, each way to have the block is tried until one
//! meets it; that one is believed from then on. What the members hold is tried first, so a row
//! keeps what a resync without checksums would give it unless the layout knows better.
//!
//! [`arbitrate`](super::arbitrate) is the thorough way of a scrub: it tries a whole volume with
//! each member in turn. A resync must be quick, so the layout is mounted once, and only blocks in
//! these rows are checked.

use super::Level;
use super::arbitrate::right;
use super::array::{Array, Parts};
use super::blocking::ArrayDisk;
use super::geometry::{Geometry, Place};
use super::member::MemberSuperblock;
use super::scrub::Row;
use seekless_engine::data::{Data, Piece};
use seekless_engine::disk::{Disk, check_range};
use seekless_engine::io::{Expected, IoError};
use seekless_engine::units::BlockNr;
use std::collections::{BTreeMap, BTreeSet};

/// Why a block is believed to be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    /// For no reason that lasts: it may rightly be something else.
    None,
    /// It is whole by itself. It may still be older than what belongs there.
    Whole,
    /// It has the checksum that the layout stored elsewhere.
    Checksum,
}

/// What is believed of a row.
#[derive(Clone, Copy, Debug)]
struct Belief {
    candidate: usize,
    proof: Proof,
}

/// What the layout has said.
#[derive(Debug)]
pub(super) struct Answers {
    beliefs: BTreeMap<Row, Belief>,
    /// Blocks of each member that were not as the layout expects, and another way to have them was.
    pub wrong: Vec<u64>,
}

impl Answers {
    /// The layout knows nothing.
    pub(super) fn none(members: usize) -> Answers {
        Answers { beliefs: BTreeMap::new(), wrong: vec![0; members] }
    }

    /// What is believed of a row, if the layout knows; see [`right`].
    pub(super) fn believed(&self, row: Row) -> Option<usize> {
        self.beliefs.get(&row).map(|belief| belief.candidate)
    }
}

/// The array as the layout sees it when it is asked.
pub(super) struct Question<'q, 'd> {
    disks: &'q mut [Option<&'d mut dyn Disk>],
    array: Array,
    geometry: Geometry,
    suspects: &'q BTreeSet<Row>,
    answers: Answers,
    read: u64,
}

impl<'q, 'd> Question<'q, 'd> {
    /// Nothing has been answered. The superblock says which members are there.
    pub(super) fn new(
        disks: &'q mut [Option<&'d mut dyn Disk>],
        superblock: MemberSuperblock,
        suspects: &'q BTreeSet<Row>,
    ) -> Question<'q, 'd> {
        let (geometry, members) = (superblock.geometry, disks.len());
        let array = Array::new(Parts {
            superblock,
            volatile: false,
            read_only: true,
            distrusted: Vec::new(),
            logs: Vec::new(),
            healed: vec![0; members],
        });
        Question { disks, array, geometry, suspects, answers: Answers::none(members), read: 0 }
    }

    /// What has been answered, and how many blocks that took.
    pub(super) fn end(self) -> (Answers, u64) {
        (self.answers, self.read)
    }

    fn suspect(&self, at: BlockNr) -> Option<Row> {
        let Place { stripe, row, .. } = self.geometry.place(at);
        self.suspects.contains(&(stripe, row)).then_some((stripe, row))
    }

    /// What each member holds in a row.
    fn held(&mut self, row: Row) -> Vec<Option<Data>> {
        let at = self.geometry.block(row.0, row.1);
        let mut held = Vec::with_capacity(self.disks.len());
        for (member, disk) in self.disks.iter_mut().enumerate() {
            let there = self.array.present(member, row.0);
            self.read += u64::from(there);
            held.push(disk.as_mut().filter(|_| there).and_then(|disk| disk.read(at, 1).ok()));
        }
        held
    }

    /// The ways to have a block of a row, as candidates of [`right`] and content. The first one is
    /// what is believed so far.
    fn ways(&mut self, row: Row, at: BlockNr) -> Vec<(usize, Piece)> {
        let Place { stripe, index, .. } = self.geometry.place(at);
        let member = self.geometry.member(stripe, index);
        let held = self.held(row);
        let there = |one: &usize| held[*one].is_some();
        let mut candidates: Vec<usize> = match self.geometry.level {
            // The parity is wrong and the member is right, or the member is wrong.
            Level::Raid5 => vec![0, member + 1],
            _ => (0..held.len()).filter(there).collect(),
        };
        if let Some(believed) = self.answers.believed(row) {
            candidates.insert(0, believed);
        }
        let content = |candidate: usize| {
            let blocks = right(&self.geometry, row, candidate, held.clone())?;
            Some((candidate, blocks[member].block(0)))
        };
        candidates.into_iter().filter_map(content).collect()
    }

    /// Members whose block is not what a row is believed to hold.
    fn wrong(&mut self, row: Row, candidate: usize) -> Vec<usize> {
        if self.geometry.level == Level::Raid5 {
            return candidate.checked_sub(1).into_iter().collect();
        }
        let held = self.held(row);
        let bytes = |data: &Data| data.to_bytes();
        let Some(chosen) = held[candidate].as_ref().map(bytes) else { return Vec::new() };
        let differs = |one: &usize| held[*one].as_ref().is_some_and(|it| bytes(it) != chosen);
        (0..held.len()).filter(differs).collect()
    }

    /// A block of a row, by the first way that `is_met`; by the usual one if none is. What is
    /// found is believed from then on, as far as `proof` goes.
    fn read_suspect(
        &mut self,
        row: Row,
        at: BlockNr,
        is_met: &dyn Fn(&Piece) -> bool,
        proof: Proof,
    ) -> Result<Piece, IoError> {
        let ways = self.ways(row, at);
        let usual = ways.first().cloned().ok_or(IoError::Media { block: at })?;
        let met = ways.into_iter().enumerate().find(|(_, way)| is_met(&way.1));
        let Some((number, (candidate, block))) = met else { return Ok(usual.1) };
        match (number, proof) {
            (_, Proof::None) => {}
            (0, _) => self.confirm(row, at, candidate, proof),
            _ => self.believe(row, candidate, proof),
        }
        Ok(block)
    }

    /// What is believed of a row has turned out right for one of its blocks.
    fn confirm(&mut self, row: Row, at: BlockNr, candidate: usize, proof: Proof) {
        let Place { stripe, index, .. } = self.geometry.place(at);
        let own = self.geometry.member(stripe, index) + 1;
        // That another member of a stripe is wrong is not proved by this one's being right.
        let told = self.geometry.level == Level::Raid1 || candidate == 0 || candidate == own;
        if proof == Proof::Checksum && told {
            self.answers.beliefs.insert(row, Belief { candidate, proof });
        }
    }

    /// The layout knows better than what was believed of a row.
    fn believe(&mut self, row: Row, candidate: usize, proof: Proof) {
        let known = self.answers.beliefs.get(&row).map(|belief| belief.proof);
        if known == Some(Proof::Checksum) && proof != Proof::Checksum {
            return;
        }
        self.answers.beliefs.insert(row, Belief { candidate, proof });
        if proof == Proof::Checksum {
            for member in self.wrong(row, candidate) {
                self.answers.wrong[member] += 1;
            }
        }
    }

    /// Reads blocks: those in suspect rows one by one, the others from the array as it is.
    fn read_each(
        &mut self,
        at: BlockNr,
        count: u32,
        suspect: &mut dyn FnMut(&mut Self, Row, u32) -> Result<Piece, IoError>,
        other: &mut dyn FnMut(&mut ArrayDisk<'_, '_>, u32, u32) -> Result<Data, IoError>,
    ) -> Result<Data, IoError> {
        check_range(self.geometry.blocks(), at, count)?;
        let (mut whole, mut index) = (Data::none(), 0);
        while index < count {
            if let Some(row) = self.suspect(at + u64::from(index)) {
                whole.push(suspect(self, row, index)?);
                index += 1;
                continue;
            }
            let next = (index + 1..count).find(|&one| self.suspect(at + u64::from(one)).is_some());
            let blocks = next.unwrap_or(count) - index;
            self.read += u64::from(blocks);
            let mut disk = ArrayDisk::new(&mut self.array, &mut *self.disks);
            whole.append(other(&mut disk, index, blocks)?);
            index += blocks;
        }
        Ok(whole)
    }
}

impl Disk for Question<'_, '_> {
    fn blocks(&self) -> u64 {
        self.geometry.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.read_each(
            at,
            count,
            &mut |this, row, index| {
                this.read_suspect(row, at + u64::from(index), &|_| true, Proof::None)
            },
            &mut |disk, index, count| disk.read(at + u64::from(index), count),
        )
    }

    fn read_expecting(&mut self, at: BlockNr, expected: Expected) -> Result<Data, IoError> {
        let Expected { sums, ref each } = expected;
        self.read_each(
            at,
            each.len() as u32,
            &mut |this, row, index| {
                let known = each[index as usize].is_some();
                let proof = if known { Proof::Checksum } else { Proof::None };
                let is_met = |block: &Piece| expected.is_met(index, block);
                this.read_suspect(row, at + u64::from(index), &is_met, proof)
            },
            &mut |disk, index, count| {
                let each = each[index as usize..(index + count) as usize].iter().copied();
                disk.read_expecting(at + u64::from(index), Expected { sums, each: each.collect() })
            },
        )
    }

    fn read_whole(
        &mut self,
        at: BlockNr,
        count: u32,
        is_whole: &dyn Fn(u32, &Piece) -> bool,
    ) -> Result<Data, IoError> {
        self.read_each(
            at,
            count,
            &mut |this, row, index| {
                let is_met = |block: &Piece| is_whole(index, block);
                this.read_suspect(row, at + u64::from(index), &is_met, Proof::Whole)
            },
            &mut |disk, from, count| {
                let is_whole = |index: u32, block: &Piece| is_whole(from + index, block);
                disk.read_whole(at + u64::from(from), count, &is_whole)
            },
        )
    }

    fn look_for_whole(
        &mut self,
        at: BlockNr,
        is_whole: &dyn Fn(&Piece) -> bool,
    ) -> Result<Data, IoError> {
        self.read_each(
            at,
            1,
            &mut |this, row, _| this.read_suspect(row, at, is_whole, Proof::None),
            &mut |disk, _, _| disk.look_for_whole(at, is_whole),
        )
    }

    fn is_asked(&self, at: BlockNr, count: u32) -> bool {
        (at..at + u64::from(count)).any(|at| self.suspect(at).is_some())
    }

    fn is_computed(&self, at: BlockNr) -> bool {
        self.array.is_computed(at)
    }

    fn write(&mut self, at: BlockNr, _data: Data) -> Result<(), IoError> {
        // A check mounts read-only; if it did write, the copies in question would be lost.
        Err(IoError::Media { block: at })
    }

    fn flush(&mut self) -> Result<(), IoError> {
        Ok(())
    }

    fn stripe(&self) -> u64 {
        let level = self.geometry.level;
        if level == Level::Raid5 { self.geometry.stripe_blocks() } else { 1 }
    }

    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        ArrayDisk::new(&mut self.array, self.disks).next_data(at)
    }
}
