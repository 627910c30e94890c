//! What assembling does about a crash: records of the logs are written once more, marked regions
//! are brought into step. Only then does a new superblock say who belongs to the array, and only
//! after that are logs and marks declared done, so that a second crash finds them again.

use super::Array;
use super::array::Parts;
use super::assemble::{AssembleOptions, Assembled, on};
use super::bitmap::{self, Bitmap, Marks};
use super::log::{self, Log, Run};
use super::member::{BITMAP_BLOCK, LOG_BLOCK, MemberState, MemberSuperblock};
use super::{Level, VolumeError};
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::io::IoError;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::BLOCK_BYTES;
use std::collections::BTreeMap;

/// An assembly under way.
pub(super) struct Recovery<'r, 'd> {
    pub(super) disks: &'r mut [Option<&'d mut dyn Disk>],
    pub(super) superblock: MemberSuperblock,
    pub(super) usable: Vec<bool>,
    /// Members that have not heard the last word.
    pub(super) behind: Vec<bool>,
    pub(super) options: &'r AssembleOptions,
    pub(super) read: u64,
    pub(super) replayed: u64,
    /// Blocks of each member that the layout's checksums showed to be wrong.
    pub(super) healed: Vec<u64>,
}

impl Recovery<'_, '_> {
    pub(super) fn disk(&mut self, member: usize) -> &mut dyn Disk {
        self.disks[member].as_deref_mut().expect("a usable member is there")
    }

    pub(super) fn members(&self) -> Vec<usize> {
        (0..self.usable.len()).filter(|&member| self.usable[member]).collect()
    }

    /// True if a member has what it should have of a stripe.
    pub(super) fn present(&self, member: usize, stripe: u64) -> bool {
        let rebuilt = stripe < self.superblock.rebuilt;
        self.usable[member]
            && match self.superblock.states[member] {
                MemberState::Rebuilding => rebuilt,
                MemberState::Active | MemberState::Out => true,
            }
    }

    pub(super) fn run(&mut self) -> Result<Assembled, VolumeError> {
        let clean = self.superblock.clean;
        let read_only = self.options.read_only;
        let mut damaged = Vec::new();
        let mut logs = Vec::new();
        let mut runs = Vec::new();
        for member in 0..self.usable.len() {
            let contents = self.scan(member)?;
            if contents.damaged && !clean {
                damaged.push(member);
            } else if !clean {
                runs.extend(contents.runs);
            }
            let (id, log_blocks) = (self.superblock.id, self.superblock.log_blocks);
            if log_blocks > 0 {
                logs.push(Log::new(id, member, log_blocks, contents.last, contents.head));
            }
        }
        let states = &self.superblock.states;
        let short = self.usable.contains(&false) || states.contains(&MemberState::Rebuilding);
        if let Some(&member) = damaged.first().filter(|_| short) {
            return Err(VolumeError::LogDamaged { member });
        }
        runs.retain(|run| self.usable.get(run.member) == Some(&true));
        if !read_only {
            self.inform()?;
        }
        self.replay(runs)?;
        let marked = if clean { Vec::new() } else { self.marked(!damaged.is_empty())? };
        let (mut resynced, mut distrusted) = (0, Vec::new());
        if read_only {
            // Where one cannot be read there is still what the others hold.
            match self.resync(&marked) {
                Ok(stripes) => resynced = stripes,
                Err(_) => distrusted = marked,
            }
            self.superblock = self.counted_out();
        } else {
            let marked = if planted(PlantedBug::NoResync) { Vec::new() } else { marked };
            resynced = self.resync(&marked)?;
            self.sign(&mut logs)?;
        }
        let missing = (0..self.usable.len()).filter(|&member| !self.usable[member]).collect();
        let parts = Parts {
            superblock: self.superblock.clone(),
            volatile: self.options.volatile,
            read_only,
            distrusted,
            logs,
            healed: self.healed.clone(),
        };
        let (replayed, blocks_read) = (self.replayed, self.read);
        let array = Array::new(parts);
        let healed = std::mem::take(&mut self.healed);
        Ok(Assembled { array, missing, clean, replayed, resynced, healed, blocks_read })
    }

    fn scan(&mut self, member: usize) -> Result<log::Contents, VolumeError> {
        let (id, blocks) = (self.superblock.id, self.superblock.log_blocks);
        if !self.usable[member] || blocks == 0 {
            return Ok(log::Contents::default());
        }
        self.read += u64::from(blocks);
        let chunks = self.superblock.geometry.first..self.superblock.device_blocks();
        let bounds = log::Bounds { members: self.usable.len(), blocks: chunks };
        match self.disk(member).read(LOG_BLOCK, blocks) {
            Ok(ring) => Ok(log::scan(&ring, id, member, &bounds)),
            Err(IoError::Media { .. } | IoError::Checksum { .. }) => {
                Ok(log::Contents { damaged: true, ..log::Contents::default() })
            }
            Err(error) => Err(VolumeError::Io { member, error }),
        }
    }

    /// Writes once more what the logs hold, of each block the youngest content only. It may be in
    /// its place and durable; if an older one went there first, and this is cut off and the member
    /// with the log lost, it would be gone.
    fn replay(&mut self, runs: Vec<Run>) -> Result<(), VolumeError> {
        let mut youngest = BTreeMap::new();
        for Run { member, at, data } in runs {
            if planted(PlantedBug::ReplayedInTurn) {
                on(member, self.disk(member).write(at, data.clone()))?;
            }
            youngest.extend((at..).zip(data.each()).map(|(at, piece)| ((member, at), piece)));
        }
        while let Some(((member, at), first)) = youngest.pop_first() {
            let mut data = Data::none();
            data.push(first);
            while let Some(next) = youngest.remove(&(member, at + u64::from(data.blocks()))) {
                data.push(next);
            }
            self.replayed += u64::from(data.blocks());
            on(member, self.disk(member).write(at, data))?;
        }
        Ok(())
    }

    /// Stripes that may not be in step: those of marked regions, or all of them.
    fn marked(&mut self, all: bool) -> Result<Vec<std::ops::Range<u64>>, VolumeError> {
        let geometry = self.superblock.geometry;
        if geometry.level == Level::Raid0 {
            return Ok(Vec::new());
        }
        let bitmap = Bitmap::new(&geometry);
        let mut blocks = Vec::new();
        for member in self.members() {
            self.read += 1;
            // What cannot be read counts as marked.
            let block = self.disk(member).read(BITMAP_BLOCK, 1);
            let block = block.map_or_else(|_| vec![0; BLOCK_BYTES].into(), |one| one.to_bytes());
            blocks.push(Marks::new(block));
        }
        let marked = |region| all || blocks.iter().any(|block| block.is_set(region));
        let regions = (0..bitmap.regions()).filter(|&region| marked(region));
        Ok(regions.map(|region| bitmap.stripes(region, &geometry)).collect())
    }

    fn flush(&mut self, edge: Edge) -> Result<(), VolumeError> {
        for member in self.members() {
            on(member, self.disk(member).flush_for(edge))?;
        }
        Ok(())
    }

    /// The superblock, with who is missing counted out.
    pub(super) fn counted_out(&self) -> MemberSuperblock {
        let mut superblock = self.superblock.clone();
        for (state, &usable) in superblock.states.iter_mut().zip(&self.usable) {
            match (usable, *state) {
                (false, _) => *state = MemberState::Out,
                (true, MemberState::Out) => *state = MemberState::Active,
                (true, _) => {}
            }
        }
        superblock
    }

    /// Tells the last word to members that have not heard it, before anything is changed. No member
    /// may fall two behind: the next record takes the place of the one before the last. And the
    /// last word may be that an array which had been ended in order was opened; if repairs were cut
    /// off then, and the members that knew it left out of the next assembly, that one would repair
    /// nothing.
    fn inform(&mut self) -> Result<(), VolumeError> {
        let mut behind = self.members();
        behind.retain(|&member| Edge::InformBehind.blocks(self.behind[member]));
        for member in behind {
            let superblock = self.superblock.clone();
            on(member, superblock.write(self.disk(member), member))?;
        }
        self.flush(Edge::InformFlush)
    }

    /// Writes down who belongs to the array, then that nothing is left to repair.
    fn sign(&mut self, logs: &mut [Log]) -> Result<(), VolumeError> {
        debug_assert!(!self.options.read_only, "a read-only assembly writes");
        // What was repaired is durable before the marks and records that asked for it go.
        self.flush(Edge::RepairedFlush)?;
        self.superblock.clean = false;
        self.superblock = self.counted_out();
        // Twice: a member that has missed this start is two behind then, and is not taken for one
        // that a crash has left behind. And who is missing stands in both copies: were the only one
        // that knows it unreadable later, the member would be taken back.
        let once = planted(PlantedBug::StaleMember) || !Edge::OutInBothCopies.stands();
        let times = if once { 1 } else { 2 };
        for _ in 0..times {
            self.superblock.events += 1;
            for member in self.members() {
                let superblock = self.superblock.clone();
                on(member, superblock.write(self.disk(member), member))?;
            }
            self.flush(Edge::SignFlush)?;
        }
        // The logs go first: a record that is replayed again brings back the parity that it was
        // logged with, and where that has been brought into step since, only the mark tells.
        for member in self.members() {
            if let Some(log) = logs.get_mut(member) {
                let (at, header) = log.open(self.superblock.events);
                on(member, self.disk(member).write(at, header))?;
            }
        }
        if !logs.is_empty() {
            self.flush(Edge::SignLogFlush)?;
        }
        let empty = bitmap::encode(std::iter::empty());
        for member in self.members() {
            on(member, self.disk(member).write(BITMAP_BLOCK, Data::bytes(empty.clone())))?;
        }
        self.flush(Edge::SignEnd)
    }
}
