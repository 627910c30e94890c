//! What tells the log-structured layouts from one another.

use super::hylog::Hylog;
use super::lld::Lld;
use super::options::{HOT_PERCENT, INTERVAL, PARTIAL, Victims};
use super::pool::Slot;
use super::wolf::{self, Wolf};
use seekless_engine::layout::MountOptions;
use seekless_engine::superblock::LayoutNumber;
use seekless_engine::units::Time;

/// Where blocks go.
#[derive(Clone, Debug)]
pub(super) enum Policy {
    /// To the log, in the order in which they were written.
    Lfs,
    /// To the log, sorted.
    Wolf(Wolf),
    /// To the log or to where they lie.
    Hylog(Box<Hylog>),
    /// To the log, and to a fresh segment as long as one is not full.
    Lld(Lld),
}

impl Policy {
    /// That of a layout.
    pub fn new(layout: LayoutNumber, blocks: u64, options: &MountOptions<'_>) -> Policy {
        let chosen = &options.options;
        match layout.0 {
            n if n == super::WOLF.number => Policy::Wolf(Wolf::new(blocks)),
            n if n == super::HYLOG.number => {
                let interval = chosen.get(&INTERVAL).unwrap_or(super::hylog::INTERVAL);
                let hot_percent = chosen.get(&HOT_PERCENT);
                Policy::Hylog(Box::new(Hylog::new(blocks, interval, hot_percent)))
            }
            n if n == super::LLD.number => Policy::Lld(Lld::new(chosen.get(&PARTIAL))),
            _ => Policy::Lfs,
        }
    }

    /// The policy of HyLog.
    pub fn hylog(&mut self) -> Option<&mut Hylog> {
        if let Policy::Hylog(hylog) = self { Some(hylog) } else { None }
    }

    /// How victims of the cleaner are chosen unless the mount says.
    pub fn victims(&self) -> Victims {
        if let Policy::Lld(_) = self { Victims::Greedy } else { Victims::CostBenefit }
    }

    /// True if segments that are not full are kept in memory.
    pub fn keeps_partial(&self) -> bool {
        matches!(self, Policy::Lld(lld) if lld.keeps())
    }

    /// True if segments are cleaned in idle time until all that can be free are.
    pub fn cleans_all(&self) -> bool {
        matches!(self, Policy::Lld(_))
    }

    /// The policy of the logical disk.
    pub fn lld(&mut self) -> Option<&mut Lld> {
        if let Policy::Lld(lld) = self { Some(lld) } else { None }
    }

    /// True if there are cold blocks beside hot ones: they have a head of their own.
    pub fn is_mixed(&self) -> bool {
        matches!(self, Policy::Hylog(hylog) if hylog.is_mixed())
    }

    /// True if no block is hot.
    pub fn is_cold_all_over(&self) -> bool {
        matches!(self, Policy::Hylog(hylog) if hylog.is_cold_all_over())
    }

    /// True if blocks have become cold and the map does not say so yet.
    pub fn is_converting(&self) -> bool {
        matches!(self, Policy::Hylog(hylog) if hylog.converting)
    }

    /// True if what is written out together is sorted, whatever head it goes to.
    pub fn sorts(&self) -> bool {
        matches!(self, Policy::Wolf(_))
    }

    /// Segments that the write buffer collects.
    pub fn buffers(&self) -> u64 {
        match self {
            Policy::Wolf(_) => wolf::BUFFERS,
            Policy::Hylog(hylog) if hylog.is_mixed() => 2,
            Policy::Lfs | Policy::Lld(_) | Policy::Hylog(_) => 1,
        }
    }

    /// A client writes a block; true if it is cold.
    pub fn is_cold_write(&mut self, block: u64, now: Time) -> bool {
        match self {
            Policy::Lfs | Policy::Lld(_) => false,
            Policy::Wolf(wolf) => {
                wolf.refer(block, now);
                false
            }
            Policy::Hylog(hylog) => hylog.is_cold_write(block),
        }
    }

    /// A block will be read or written soon: fetches what is counted of it from memory.
    pub fn expect(&self, block: u64) {
        if let Policy::Hylog(hylog) = self {
            hylog.expect(block);
        }
    }

    /// True if a block is cold.
    pub fn is_cold(&self, block: u64) -> bool {
        matches!(self, Policy::Hylog(hylog) if hylog.is_cold(block))
    }

    /// Puts slots into the order in which they are written; `is_cold` says which of them go to the
    /// second head. Returns how many go to the first one.
    pub fn arrange(
        &mut self,
        slots: &[Slot],
        order: &mut [u32],
        is_cold: impl Fn(u32) -> bool,
    ) -> usize {
        match self {
            Policy::Lfs | Policy::Lld(_) => order.len(),
            Policy::Wolf(wolf) => {
                wolf.arrange(slots, order);
                order.len()
            }
            Policy::Hylog(_) => {
                let cold = |index: &u32| is_cold(slots[*index as usize].block);
                order.sort_by_key(cold);
                order.iter().position(cold).unwrap_or(order.len())
            }
        }
    }

    /// Share of the blocks that is hot.
    pub fn hot_share(&self) -> f64 {
        if let Policy::Hylog(hylog) = self { hylog.hot_share } else { 1.0 }
    }
}
