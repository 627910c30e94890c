//! Tombstones: they cancel what the log has of blocks that have a younger version at home.
//!
//! A block is *killed* when its younger version has been written home, and *buried*, by a tombstone
//! in the log, when that version is durable there. Never earlier: until then the log has the only
//! durable version. Between the two, nothing that was killed goes home.

use super::Dcd;
use super::log::{Addrs, Log, Slot};
use super::table::{Addr, DIRTY};
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::Time;

impl Log {
    /// Appends tombstones as far as there is room.
    pub fn bury(&mut self, now: Time) {
        while !self.graves.is_empty() && self.has_room(1) {
            let index = self.open(1, now);
            if let Some(block) = self.graves.pop_first()
                && !planted(PlantedBug::TombstoneLost)
            {
                self.buffers[index].slots.push(Slot::tombstone(block));
            }
        }
    }

    /// A younger version of a block is at home, durable there as soon as a stamp is. A slot that is
    /// clean may be filled anew before that, so it is not remembered.
    ///
    /// What a slot in memory replaces is dirty, too. It must not go home: that would undo
    /// the younger version there.
    pub fn kill(&mut self, block: u32, addr: Addr, stamp: u64) {
        let mut addrs = Addrs::new();
        let mut todo = Addrs::from_elem(addr, 1);
        while let Some(addr) = todo.pop() {
            if !self.is_logged(addr)
                && let Some(slot) = self.slot_mut(addr)
            {
                todo.extend(std::mem::take(&mut slot.replaces));
            }
            addrs.push(addr);
        }
        addrs.retain(|addr| !self.is_logged(*addr) || self.table.is(*addr, DIRTY));
        // Of what was killed before and has not been buried, too, nothing must go home.
        let before = self.killed.remove(&block).map(|(addrs, _)| addrs);
        addrs.extend(before.into_iter().flatten());
        self.killed.insert(block, (addrs, stamp));
        self.table.remove(block);
        self.progress.forget(block);
    }
}

impl Dcd {
    /// Buries the blocks whose content at home has become durable. Where a younger version has come
    /// to the log meanwhile, that stands for a tombstone.
    pub(super) fn bury_killed(&mut self) {
        let durable = self.home_writes.durable();
        let killed = std::mem::take(&mut self.log.killed);
        for (block, (addrs, stamp)) in killed {
            // One number stands for both devices: a block has one home only.
            let port = self.home_port(u64::from(block));
            if stamp <= durable[port] || planted(PlantedBug::TombstoneEarly) {
                addrs.into_iter().for_each(|addr| self.log.release(addr));
                if self.log.table.get(block).is_none() {
                    self.log.graves.insert(block);
                }
            } else {
                self.log.killed.insert(block, (addrs, stamp));
            }
        }
    }
}
