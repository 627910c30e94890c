//! What operations tell a reclaim that is under way. It may hear of an operation that is undone
//! afterwards: then it leaves more to another pass than it had to.

use super::{Reclaim, Reclaimed};
use crate::ffs::volume::Volume;
use seekless_engine::edge::Edge;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_fs::call::Ino;

impl Volume {
    /// A name of an inode comes to a directory, or goes from it.
    pub fn names_change(&mut self, ino: Ino, dir: Ino) {
        self.paths.named(ino, dir);
        let Some(reclaim) = &mut self.reclaim else { return };
        if !planted(PlantedBug::ReclaimForgetsNames) {
            reclaim.touched.insert(ino as u32);
        }
        reclaim.disturb(dir);
    }

    /// The space of an inode changes.
    pub fn space_changes(&mut self, ino: Ino) {
        if let Some(reclaim) = &mut self.reclaim {
            reclaim.disturb(ino);
        }
    }

    /// Fragments are freed, at once or later.
    pub fn gives_up(&mut self, at: u32, count: u32) {
        if let Some(reclaim) = &mut self.reclaim
            && !planted(PlantedBug::ReclaimForgetsFrees)
        {
            reclaim.fragments.remove(at..at.saturating_add(count));
        }
    }

    /// An inode is freed, at once or later.
    pub fn gives_up_inode(&mut self, ino: u32) {
        if let Some(reclaim) = &mut self.reclaim {
            reclaim.inodes.remove(ino..ino + 1);
            reclaim.disturb(Ino::from(ino));
        }
    }

    /// The inode of a directory is free, and its number will be when the disk knows that.
    pub fn leaves_directory(&mut self, ino: u32) {
        if let Some(reclaim) = &mut self.reclaim {
            reclaim.leaving.insert(ino);
        }
    }

    /// The number of such an inode is free. True if it was not noted before.
    pub(in crate::ffs) fn has_left_directory(&mut self, ino: u32) -> bool {
        self.reclaim.as_mut().is_some_and(|reclaim| reclaim.leaving.remove(&ino))
    }

    /// True if a directory had this number, which is not free yet.
    pub(super) fn is_leaving_directory(&self, ino: u32) -> bool {
        Edge::ReclaimLeaving
            .blocks(self.reclaim.as_ref().is_some_and(|reclaim| reclaim.leaving.contains(&ino)))
    }

    /// What a reclaim has freed so far, if one is under way.
    pub fn reclaimed(&self) -> Option<Reclaimed> {
        self.reclaim.as_ref().map(|reclaim| reclaim.done())
    }
}

impl Reclaim {
    fn disturb(&mut self, ino: Ino) {
        self.disturbed |= Edge::ReclaimDisturbed.blocks(self.watched == Some(ino));
    }

    /// An operation has taken the last name of an inode, which is deleted in the usual way.
    pub(crate) fn lost_its_last_name(&mut self, ino: Ino) {
        self.unnamed.insert(ino);
    }

    /// The deletion of an inode has come to its end.
    pub(crate) fn was_deleted(&mut self, ino: Ino) {
        self.unnamed.remove(&ino);
    }

    /// The visit of an inode begins.
    pub(super) fn watch(&mut self, ino: Ino) {
        (self.watched, self.disturbed) = (Some(ino), false);
    }

    /// True if no operation has disturbed the visit.
    pub(super) fn undisturbed(&self) -> bool {
        !self.disturbed
    }
}
