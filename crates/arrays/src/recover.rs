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
use seekless_engine::data::{Cuts, Data, Piece, cancel};
use seekless_engine::disk::Disk;
use seekless_engine::io::IoError;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::BLOCK_BYTES;
use std::collections::BTreeMap;

/// Blocks of each member that a resync reads at a time (1 MiB).
const RESYNC_BLOCKS: u64 = 256;

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
}

impl Recovery<'_, '_> {
    fn disk(&mut self, member: usize) -> &mut dyn Disk {
        self.disks[member].as_deref_mut().expect("a usable member is there")
    }

    fn members(&self) -> Vec<usize> {
        (0..self.usable.len()).filter(|&member| self.usable[member]).collect()
    }

    /// True if a member has what it should have of a stripe.
    fn present(&self, member: usize, stripe: u64) -> bool {
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
        let mut overlay = Vec::new();
        for member in 0..self.usable.len() {
            let contents = self.scan(member)?;
            if contents.damaged && !clean {
                damaged.push(member);
            } else if !clean {
                overlay.extend(contents.runs);
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
        overlay.retain(|run| self.usable.get(run.member) == Some(&true));
        if !read_only {
            self.inform()?;
            self.replay(std::mem::take(&mut overlay))?;
        }
        let marked = if clean { Vec::new() } else { self.marked(!damaged.is_empty())? };
        let (mut resynced, mut distrusted) = (0, Vec::new());
        if read_only {
            distrusted = marked;
            self.count_out();
        } else {
            let marked = if planted(PlantedBug::NoResync) { Vec::new() } else { marked };
            for stripes in marked {
                resynced += stripes.end - stripes.start;
                self.resync(stripes)?;
            }
            self.sign(&mut logs)?;
        }
        let missing = (0..self.usable.len()).filter(|&member| !self.usable[member]).collect();
        let parts = Parts {
            superblock: self.superblock.clone(),
            volatile: self.options.volatile,
            read_only,
            distrusted,
            overlay,
            logs,
        };
        debug_assert!(read_only || parts.overlay.is_empty(), "what was replayed is laid over");
        let (replayed, blocks_read) = (self.replayed, self.read);
        let array = Array::new(parts);
        Ok(Assembled { array, missing, clean, replayed, resynced, blocks_read })
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
        debug_assert!(!self.options.read_only, "a read-only assembly writes");
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

    /// Brings stripes into step: copies are made equal, parity is computed anew. Where a member is
    /// missing there is nothing to be in step with.
    fn resync(&mut self, stripes: std::ops::Range<u64>) -> Result<(), VolumeError> {
        let geometry = self.superblock.geometry;
        let each = (RESYNC_BLOCKS / u64::from(geometry.chunk)).max(1);
        let mut first = stripes.start;
        while first < stripes.end {
            // A rebuild has been through all of them or through none.
            let border = self.superblock.rebuilt;
            let end = (first + each).min(stripes.end);
            let end = if first < border { end.min(border) } else { end };
            let here: Vec<usize> =
                self.members().into_iter().filter(|&one| self.present(one, first)).collect();
            match geometry.level {
                Level::Raid1 => self.copy(first, end, &here)?,
                Level::Raid5 if here.len() == geometry.members => self.add_up(first, end)?,
                _ => {}
            }
            debug_assert!(first < end, "a resync that does not get on");
            first = end;
        }
        Ok(())
    }

    fn read_stripes(&mut self, member: usize, first: u64, end: u64) -> Result<Data, VolumeError> {
        let geometry = self.superblock.geometry;
        let count = ((end - first) * u64::from(geometry.chunk)) as u32;
        self.read += u64::from(count);
        on(member, self.disk(member).read(geometry.block(first, 0), count))
    }

    fn copy(&mut self, first: u64, end: u64, here: &[usize]) -> Result<(), VolumeError> {
        let Some((&source, others)) = here.split_first() else { return Ok(()) };
        let data = self.read_stripes(source, first, end)?;
        for &member in others {
            // Copies are mostly equal as they are kept; only where they are not need bytes tell.
            let found = self.read_stripes(member, first, end)?;
            let same = |(a, b): (Piece, Piece)| a == b || a.to_bytes() == b.to_bytes();
            if found != data && !found.each().zip(data.each()).all(same) {
                let at = self.superblock.geometry.block(first, 0);
                on(member, self.disk(member).write(at, data.clone()))?;
            }
        }
        Ok(())
    }

    fn add_up(&mut self, first: u64, end: u64) -> Result<(), VolumeError> {
        let geometry = self.superblock.geometry;
        debug_assert_eq!(geometry.level, Level::Raid5, "no other level has parity");
        let mut contents = Vec::with_capacity(geometry.members);
        for member in 0..geometry.members {
            contents.push(self.read_stripes(member, first, end)?);
        }
        let mut cuts: Vec<Cuts<'_>> = contents.iter().map(Data::cuts).collect();
        for stripe in first..end {
            let chunks: Vec<Data> = cuts.iter_mut().map(|cut| cut.take(geometry.chunk)).collect();
            let parity = geometry.parity(stripe).expect("RAID-5 has parity");
            if cancel(&chunks.iter().collect::<Vec<_>>()) {
                continue;
            }
            let (one, others) = chunks.split_first().expect("an array has members");
            let sum = others.iter().fold(one.clone(), |sum, data| sum.xor(data));
            // What all of them sum to is by how much the parity is off.
            let right = sum.xor(&chunks[parity]);
            on(parity, self.disk(parity).write(geometry.block(stripe, 0), right))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), VolumeError> {
        for member in self.members() {
            on(member, self.disk(member).flush())?;
        }
        Ok(())
    }

    /// Who is missing is out.
    fn count_out(&mut self) {
        for member in 0..self.usable.len() {
            let state = &mut self.superblock.states[member];
            match (self.usable[member], *state) {
                (false, _) => *state = MemberState::Out,
                (true, MemberState::Out) => *state = MemberState::Active,
                (true, _) => {}
            }
        }
    }

    /// Tells the last word to members that have not heard it, before anything is changed. No member
    /// may fall two behind: the next record takes the place of the one before the last. And the
    /// last word may be that an array which had been ended in order was opened; if repairs were cut
    /// off then, and the members that knew it left out of the next assembly, that one would repair
    /// nothing.
    fn inform(&mut self) -> Result<(), VolumeError> {
        let mut behind = self.members();
        behind.retain(|&member| self.behind[member]);
        for member in behind {
            let superblock = self.superblock.clone();
            on(member, superblock.write(self.disk(member), member))?;
        }
        self.flush()
    }

    /// Writes down who belongs to the array, then that nothing is left to repair.
    fn sign(&mut self, logs: &mut [Log]) -> Result<(), VolumeError> {
        debug_assert!(!self.options.read_only, "a read-only assembly writes");
        // What was repaired is durable before the marks and records that asked for it go.
        self.flush()?;
        self.superblock.clean = false;
        self.count_out();
        // Twice: a member that has missed this start is two behind then, and is not taken for one
        // that a crash has left behind. And who is missing stands in both copies: were the only one
        // that knows it unreadable later, the member would be taken back.
        let times = if planted(PlantedBug::StaleMember) { 1 } else { 2 };
        for _ in 0..times {
            self.superblock.events += 1;
            for member in self.members() {
                let superblock = self.superblock.clone();
                on(member, superblock.write(self.disk(member), member))?;
            }
            self.flush()?;
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
            self.flush()?;
        }
        let empty = bitmap::encode(std::iter::empty());
        for member in self.members() {
            on(member, self.disk(member).write(BITMAP_BLOCK, Data::bytes(empty.clone())))?;
        }
        self.flush()
    }
}
