//! Taking a new member in while the array is used. What is on it says that it is to be filled
//! before any other member does, as with an array at rest (`replace`): whatever a crash leaves, the
//! next assembly fills it from its first stripe on.

use super::Array;
use super::rebuild::Rebuild;
use super::status::Faults;
use crate::create::{prepare, write_both};
use crate::log::Log;
use crate::member::{MemberState, MemberSuperblock};
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::replaceable::{Replaceable, Vacancy};
use seekless_engine::units::BlockNr;
use seekless_engine::upkeep::UpkeepError;

impl Array {
    /// What the members will say once a new one has the place of `member`.
    fn filling(&self, member: usize) -> MemberSuperblock {
        let mut superblock = self.superblock.clone();
        superblock.states[member] = MemberState::Rebuilding;
        (superblock.rebuilt, superblock.clean) = (0, false);
        superblock.events += 1;
        superblock
    }

    /// An empty log for a new member, and the block that begins it; none if members have no logs.
    fn empty_log(superblock: &MemberSuperblock, member: usize) -> Option<(Log, (BlockNr, Data))> {
        if superblock.log_blocks == 0 {
            return None;
        }
        let mut log = Log::new(superblock.id, member, superblock.log_blocks, 0, 0);
        let first = log.open(superblock.events);
        Some((log, first))
    }
}

impl Replaceable for Array {
    fn vacancy(&self) -> Result<Vacancy, UpkeepError> {
        let states = &self.superblock.states;
        if self.table.is_read_only() {
            return Err(UpkeepError::ReadOnly);
        }
        if self.table.failed().is_some() || !self.table.is_running() {
            return Err(UpkeepError::Failed);
        }
        if states.contains(&MemberState::Rebuilding) {
            return Err(UpkeepError::Filling);
        }
        let out = states.iter().position(|&state| state == MemberState::Out);
        let member = out.ok_or(UpkeepError::NoneOut)?;
        if !self.scrub.is_resting() {
            return Err(UpkeepError::Scrubbing);
        }
        // Until all know that a member is out, its place is not free.
        let settled = self.is_settled() && self.rebuild.is_resting();
        if !settled || !self.member_queue.is_idle_at(member) {
            return Err(UpkeepError::Unsettled);
        }
        Ok(Vacancy { member, blocks: self.superblock.device_blocks() })
    }

    fn prepare(&mut self, disk: &mut dyn Disk) -> Result<Vacancy, UpkeepError> {
        let place = self.vacancy()?;
        debug_assert!(disk.blocks() >= place.blocks, "it was made or chosen for its place");
        let mut superblock = self.filling(place.member);
        let log = Array::empty_log(&superblock, place.member);
        prepare(disk, &superblock, false)
            .and_then(|()| log.map_or(Ok(()), |(_, (at, first))| disk.write(at, first)))
            .and_then(|()| disk.flush_for(Edge::ReplaceFlush))
            .and_then(|()| write_both(disk, &mut superblock, place.member))
            .map_err(UpkeepError::NewMember)?;
        Ok(place)
    }

    fn admit(&mut self, volatile: bool) {
        let Vacancy { member, .. } = self.vacancy().expect("nothing has happened since");
        let events = self.superblock.events;
        self.superblock = self.filling(member);
        if let Some((log, _)) = Array::empty_log(&self.superblock, member) {
            self.logs[member] = log;
        }
        let rate = self.rebuild.rate();
        self.rebuild = Rebuild::new(&self.superblock);
        self.rebuild.set_rate(rate);
        self.faults[member] = Faults::default();
        self.heads[member] = (0, 0);
        self.volatile |= volatile;
        // The others are told what the new one says already, and once more: the member that was
        // replaced is two behind then, and no other one ever is.
        (self.superblock.events, self.stale) = (events, 2);
    }
}
