//! FFS as the call loop sees it: what a mount knows of the volume.

use crate::ffs::calls::perform::perform;
use crate::ffs::inodes;
use crate::ffs::names::paths::Mark;
use crate::ffs::ondisk::format::{
    LOG_IN_USE, Recovery, SUPERBLOCK_AT, SUPERBLOCK_BLOCK, State, Superblock,
};
use crate::ffs::reclaim::Reclaimed;
use crate::ffs::space::map;
use crate::ffs::volume::{Owed, Volume};
use seekless_engine::data::Data;
use seekless_engine::units::BlockNr;
use seekless_fs::call::{Ino, Timestamp};
use seekless_fs::core::handles::Handles;
use seekless_fs::core::tx::CoreTx;
use seekless_fs::mounted::Mounted;
use seekless_fs::mounted::pending::{Pending, Step};
use seekless_fs::mounted::personality::{Background, Personality};
use seekless_fs::tx::{BlockNo, PageKind, Stop};
use std::ops::Range;

/// A mounted FFS.
pub type Ffs = Mounted<Format>;

/// What a mount knows of an FFS.
#[derive(Clone, Debug)]
pub struct Format {
    pub(crate) volume: Volume,
    superblock: Superblock,
    /// Write counter of the superblock.
    counter: u16,
    /// A crash before this mount may have left space in use that nothing leads to.
    leaks: bool,
    /// What the last reclaim has freed.
    reclaimed: Reclaimed,
    /// What is wrong with the log, of a mount that only reads.
    log_damage: Option<String>,
    /// What recovery has brought in place, if a crash came before the mount.
    recovered: Option<String>,
}

impl Format {
    /// A file system of which all groups are loaded. `leaks` as in [`Format::may_leak`].
    pub(crate) fn new(volume: Volume, superblock: Superblock, counter: u16, leaks: bool) -> Format {
        let reclaimed = Reclaimed::default();
        Format { volume, superblock, counter, leaks, reclaimed, log_damage: None, recovered: None }
    }

    /// The same; its log is damaged.
    /// The same after a recovery.
    pub(crate) fn with_recovered(self, recovered: Option<String>) -> Format {
        Format { recovered, ..self }
    }

    /// What recovery has brought in place, if a crash came before the mount.
    pub fn recovered(&self) -> Option<&str> {
        self.recovered.as_deref()
    }

    pub(crate) fn with_log_damage(self, log_damage: Option<String>) -> Format {
        Format { log_damage, ..self }
    }

    /// What is wrong with the log, as a sentence without a full stop. Only a mount that reads takes
    /// such a file system.
    pub fn log_damage(&self) -> Option<&str> {
        self.log_damage.as_deref()
    }

    /// The superblock, as the mount has it.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Groups in which nothing is allocated because their maps are damaged.
    pub fn closed_groups(&self) -> Vec<u32> {
        self.volume.closed().iter().copied().collect()
    }

    /// True if a crash before the mount may have left space in use that nothing leads to. A reclaim
    /// is under way that frees it, unless the file system cannot be written or has damage; then a
    /// check does.
    pub fn may_leak(&self) -> bool {
        self.leaks
    }

    /// What the reclaim since the mount has freed. It has come to its end when
    /// [`Format::may_leak`] says so.
    pub fn reclaimed(&self) -> Reclaimed {
        self.volume.reclaimed().unwrap_or(self.reclaimed)
    }

    /// True while a reclaim is under way.
    pub fn reclaims(&self) -> bool {
        self.volume.reclaim.is_some()
    }
}

impl Personality for Format {
    type Mark = Mark;

    fn perform(
        &mut self,
        tx: &mut CoreTx<'_>,
        handles: &Handles,
        pending: &Pending<Mark>,
    ) -> Result<Step<Mark>, Stop> {
        perform(tx, &mut self.volume, handles, pending)
    }

    fn commit(&mut self) {
        self.volume.commit();
    }

    fn roll_back(&mut self) {
        self.volume.roll_back();
    }

    fn share(&mut self) {
        self.volume.share();
    }

    fn is_durable(&mut self, mark: &Mark) {
        self.volume.paths.end(mark);
    }

    fn close(&mut self, map: BlockNo) -> bool {
        let geometry = &self.volume.geometry;
        let group = geometry.group_of_fragment(geometry.first_fragment(map));
        if self.volume.is_closed(group) {
            return false;
        }
        let initialised = self.volume.group(group).initialised;
        self.volume.close_group(group, initialised);
        true
    }

    fn mapped(
        &mut self,
        tx: &mut CoreTx<'_>,
        ino: Ino,
        blocks: Range<u64>,
    ) -> Vec<(BlockNo, PageKind)> {
        let mut wanted = Vec::new();
        let geometry = self.volume.geometry.clone();
        let mut look = || -> Result<(), Stop> {
            let inode = inodes::file(tx, &self.volume, ino)?;
            let end = inode.size.div_ceil(geometry.block_bytes() as u64);
            for index in blocks.start..blocks.end.min(end) {
                let at = map::address(tx, &self.volume, &inode, index)?;
                if at != 0 {
                    wanted.push((geometry.block_of(at), PageKind::Data));
                }
            }
            Ok(())
        };
        // A block that is missing here ends the search: reading ahead is no reason to wait.
        let _ = look();
        wanted
    }

    fn is_behind(&self) -> bool {
        self.volume.stale_group().is_some()
    }

    fn clean_mark(&mut self, now: Timestamp) -> Option<(BlockNr, Data)> {
        let is_whole = self.volume.closed().is_empty();
        (self.superblock.state, self.superblock.recovery) = match (is_whole, self.leaks) {
            (true, false) => (State::Clean, Recovery::None),
            // Soft updates may mount it, and go on to free what has leaked.
            (true, true) => (State::InUse, Recovery::None),
            (false, _) => (State::Error, Recovery::Fsck),
        };
        // The log has ended: all its groups are in place.
        self.superblock.incompatible &= !LOG_IN_USE;
        self.superblock.written = now;
        self.counter = self.counter.wrapping_add(1);
        let block = self.superblock.encode(SUPERBLOCK_AT, self.counter);
        Some((SUPERBLOCK_BLOCK, Data::bytes(block)))
    }

    fn lost_last_name(&mut self, ino: Ino) {
        if let Some(reclaim) = &mut self.volume.reclaim {
            reclaim.lost_its_last_name(ino);
        }
    }

    fn was_deleted(&mut self, ino: Ino) {
        if let Some(reclaim) = &mut self.volume.reclaim {
            reclaim.was_deleted(ino);
        }
    }

    fn background(&self) -> Background {
        match &self.volume.reclaim {
            None => Background::None,
            Some(reclaim) if reclaim.waits_for_frees() && self.volume.owed() != Owed::default() => {
                Background::Waits
            }
            Some(_) => Background::Ready,
        }
    }

    /// After a step that has failed the leaks stay for a repair.
    fn background_stepped(&mut self, failed: bool) -> bool {
        let Some(reclaim) = &self.volume.reclaim else { return false };
        let (is_complete, done) = (reclaim.is_complete(), reclaim.done());
        let room = |done: Reclaimed| (done.fragments, done.inodes);
        let freed = room(done) != room(self.reclaimed);
        let leaves = failed || reclaim.leaves_two_names();
        self.reclaimed = done;
        if failed || is_complete {
            self.volume.reclaim = None;
            self.leaks &= leaves;
            if !leaves {
                self.volume.have_one_name();
            }
        }
        failed || is_complete || freed
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        vec![("free fragments", self.volume.free_fragments() as f64)]
    }
}
