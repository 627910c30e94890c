//! States of a recording as a check finds them: disks, or a directory.

use super::Session;
use crate::replay::extents::Extents;
use crate::replay::image::Image;
use crate::states::history::Epoch;
use crate::states::state::State;
use crate::states::tree::StateTrees;
use seekless_calls::model::Tree;
use std::sync::Arc;

/// What a power cut leaves.
#[derive(Debug)]
pub enum CrashImage {
    /// The bytes of one disk, or of two that lie one behind the other.
    Disk(Image),
    /// A directory.
    Tree(Arc<Tree>),
}

impl CrashImage {
    /// The same, without what a check has written to it.
    #[must_use]
    pub fn unchanged(&self) -> CrashImage {
        match self {
            CrashImage::Disk(image) => CrashImage::Disk(image.unchanged()),
            CrashImage::Tree(tree) => CrashImage::Tree(Arc::clone(tree)),
        }
    }

    /// Its disks; none if it is a directory.
    pub fn disks(self) -> Vec<Image> {
        match self {
            CrashImage::Disk(image) => image.disks(),
            CrashImage::Tree(_) => Vec::new(),
        }
    }
}

/// What the states of an epoch have in common. It goes on from epoch to epoch.
#[derive(Debug)]
pub enum Ground<'s> {
    /// What is durable on the disk.
    Disk(Arc<Extents>),
    /// The trees of a recording of calls.
    Calls(Box<StateTrees<'s>>),
}

impl Session {
    /// What the states of the first epoch have in common, before it is settled.
    pub fn ground(&self) -> Ground<'_> {
        match self.history.trees() {
            Some(trees) => Ground::Calls(Box::new(trees)),
            None => Ground::Disk(Arc::default()),
        }
    }

    /// The same for the epoch with this cut.
    pub fn ground_at(&self, cut: u64) -> Ground<'_> {
        match self.history.trees() {
            Some(trees) => Ground::Calls(Box::new(trees)),
            None => Ground::Disk(Arc::new(self.durable(cut))),
        }
    }
}

impl Ground<'_> {
    /// Takes in what became durable at the beginning of an epoch.
    pub fn settle(&mut self, session: &Session, epoch: &Epoch) {
        match self {
            Ground::Disk(durable) => session.settle(Arc::make_mut(durable), epoch),
            // Trees follow the cut of the epoch.
            Ground::Calls(_) => {}
        }
    }

    /// A state of the epoch that was settled last.
    pub fn state(&mut self, session: &Session, epoch: &Epoch, state: &State) -> CrashImage {
        match self {
            Ground::Disk(durable) => {
                CrashImage::Disk(session.image_over(Arc::clone(durable), epoch, state))
            }
            Ground::Calls(trees) => CrashImage::Tree(Arc::new(trees.tree(epoch, state))),
        }
    }
}
