//! Minix as the call loop sees it: what a mount knows of the volume.

use super::perform::perform;
use crate::minix::inodes;
use crate::minix::space::map;
use crate::minix::volume::{Volume, Which};
use seekless_engine::data::Data;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use seekless_fs::call::{Ino, Timestamp};
use seekless_fs::core::handles::Handles;
use seekless_fs::core::tx::CoreTx;
use seekless_fs::mounted::Mounted;
use seekless_fs::mounted::pending::{Pending, Step};
use seekless_fs::mounted::personality::Personality;
use seekless_fs::tx::{BlockNo, PageKind, Stop};
use std::ops::Range;

/// A mounted Minix.
pub type Minix = Mounted<Format>;

/// What a mount knows of a Minix file system.
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

    fn close(&mut self, map: BlockNo) -> bool {
        self.volume.close(map)
    }

    fn mapped(
        &mut self,
        tx: &mut CoreTx<'_>,
        ino: Ino,
        blocks: Range<u64>,
    ) -> Vec<(BlockNo, PageKind)> {
        let mut wanted: Vec<(BlockNo, PageKind)> = Vec::new();
        let volume = &self.volume;
        let each = u64::from(volume.geometry.zones_per_page());
        let mut look = || -> Result<(), Stop> {
            let (_, inode) = inodes::file(tx, volume, ino)?;
            let end = u64::from(inode.size).div_ceil(BLOCK_BYTES as u64);
            for index in blocks.start * each..blocks.end.min(end) * each {
                let zone = map::address(tx, volume, &inode, index)?;
                let page = (volume.geometry.place_of(zone).page, PageKind::Data);
                if zone != 0 && wanted.last() != Some(&page) {
                    wanted.push(page);
                }
            }
            Ok(())
        };
        // A zone of addresses that is missing here ends the search: reading ahead is no reason to
        // wait.
        let _ = look();
        wanted
    }

    fn is_behind(&self) -> bool {
        false
    }

    /// The format has none.
    fn clean_mark(&mut self, _now: Timestamp) -> Option<(BlockNr, Data)> {
        None
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        vec![("free blocks", (self.volume.free(Which::Zones) + self.volume.held()) as f64)]
    }
}
