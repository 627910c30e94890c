//! VLFS as the call loop sees it: what a mount knows of the volume.

use super::perform::perform;
use crate::vlfs::inodes;
use crate::vlfs::ondisk::{block_of, blocks_for};
use crate::vlfs::volume::Volume;
use seekless_engine::data::Data;
use seekless_engine::units::BlockNr;
use seekless_fs::call::{Ino, Timestamp};
use seekless_fs::core::handles::Handles;
use seekless_fs::core::tx::CoreTx;
use seekless_fs::mounted::Mounted;
use seekless_fs::mounted::pending::{Pending, Step};
use seekless_fs::mounted::personality::Personality;
use seekless_fs::tx::{BlockNo, PageKind, Stop};
use std::ops::Range;

/// A mounted VLFS.
pub type Vlfs = Mounted<Format>;

/// What a mount knows of a VLFS.
#[derive(Clone, Debug)]
pub struct Format {
    pub(crate) volume: Volume,
}

impl Personality for Format {
    /// A call for durability writes everything, so there is nothing to note.
    type Mark = ();

    fn perform(
        &mut self,
        tx: &mut CoreTx<'_>,
        handles: &Handles,
        pending: &Pending<()>,
    ) -> Result<Step<()>, Stop> {
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

    fn is_durable(&mut self, _mark: &()) {}

    /// The format has no maps.
    fn close(&mut self, _map: BlockNo) -> bool {
        false
    }

    fn mapped(
        &mut self,
        tx: &mut CoreTx<'_>,
        ino: Ino,
        blocks: Range<u64>,
    ) -> Vec<(BlockNo, PageKind)> {
        // Attributes that are missing end the search: reading ahead is no reason to wait.
        let Ok((object, inode)) = inodes::file(tx, &self.volume, ino) else { return Vec::new() };
        let end = blocks.end.min(blocks_for(inode.size));
        (blocks.start..end).map(|index| (block_of(object, index), PageKind::Data)).collect()
    }

    fn is_behind(&self) -> bool {
        false
    }

    /// The format has none.
    fn clean_mark(&mut self, _now: Timestamp) -> Option<(BlockNr, Data)> {
        None
    }
}
