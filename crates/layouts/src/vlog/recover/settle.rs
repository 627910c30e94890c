//! Making the recovered state the one that any later recovery starts from.

use super::find::{Recovered, Recovery, damaged};
use crate::eager::freemap::FreeMap;
use crate::vlog::format::TAIL_BLOCK;
use crate::vlog::tree::SliceNr;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::layout::{LayoutError, MountPath};
use seekless_engine::planted::{PlantedBug, planted};

/// A volume while it is brought back.
pub(crate) trait Rebuilt {
    /// Its free blocks.
    fn free(&self) -> &FreeMap;

    /// The slice of its youngest map block.
    fn root(&self) -> Option<SliceNr>;

    /// Writes a map block of slice `root` to a free block, as a commit that changes nothing and
    /// says that all before it is durable.
    ///
    /// # Errors
    /// Those of the device.
    fn write_marker(
        &mut self,
        disk: &mut dyn Disk,
        found: &Recovered,
        root: SliceNr,
        place: u32,
    ) -> Result<(), LayoutError>;
}

impl Recovery<'_> {
    /// Makes the recovered state the one that any later recovery starts from, before anything may
    /// be written over what this one relied on.
    pub fn settle(
        &mut self,
        volume: &mut impl Rebuilt,
        found: &Recovered,
        path: MountPath,
    ) -> Result<(), LayoutError> {
        self.steps.begin("flush device");
        self.disk.flush_for(Edge::VlogMountFlush)?;
        if path == MountPath::Scan && !planted(PlantedBug::RecoveryUnrecorded) {
            // What is torn claims nothing, and goes first: were it made whole by an erasure that
            // is torn itself, nothing younger may be there yet. What is whole may be the only
            // witness that something before it is durable, until the marker is.
            let torn = std::mem::take(&mut self.torn);
            self.steps.begin("erase torn map blocks");
            if Edge::VlogTornErased.stands() {
                self.erase(volume.free(), &torn)?;
            }
            if let Some(root) = volume.root().filter(|_| !found.marked) {
                self.steps.begin("write recovery marker");
                let place = self.place_of_marker(volume.free(), found)?;
                volume.write_marker(self.disk, found, root, place)?;
                self.disk.flush_for(Edge::VlogMarkerFlush)?;
            }
            self.steps.begin("erase dropped map blocks");
            self.erase(volume.free(), &found.doomed)?;
        }
        if !planted(PlantedBug::StaleTailAccepted) {
            self.steps.begin("clear tail record");
            self.disk.write(TAIL_BLOCK, Data::zeros(1))?;
            self.disk.flush_for(Edge::VlogTailCleared)?;
        }
        Ok(())
    }

    /// Overwrites blocks with zeros, durably, unless they are in use.
    fn erase(&mut self, free: &FreeMap, places: &[u32]) -> Result<(), LayoutError> {
        let free = |place: &&u32| free.is_free(u64::from(**place));
        self.steps.count(places.iter().filter(free).count() as u64, "blocks");
        for &place in places.iter().filter(free) {
            self.disk.write(u64::from(place), Data::zeros(1))?;
        }
        if !places.is_empty() {
            self.disk.flush_for(Edge::VlogEraseFlush)?;
        }
        Ok(())
    }

    /// A free block that no other recovery needs.
    fn place_of_marker(&self, free: &FreeMap, found: &Recovered) -> Result<u32, LayoutError> {
        let mut candidates = self.pool().map(|place| place as u32);
        let place = candidates.find(|&place| {
            free.is_free(u64::from(place))
                && Edge::VlogKeptForAnother.allows(found.keep.binary_search(&place).is_err())
        });
        match place {
            Some(place) => Ok(place),
            None => damaged("no free block is left to record the recovery"),
        }
    }
}
