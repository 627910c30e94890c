//! What a device promises about a power cut: which fates of its pending writes are legal.
//!
//! A *contract device* is as bad as its contract allows. A file system that is proved on one is
//! proved on every layout, array or disk that promises as much.

pub use crate::at_risk::AtRisk;
use crate::fate::Fate;
use crate::needs;
use crate::tear::Unit;

/// Which pending writes may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Those in flight. A completed write is durable without a flush.
    KeepsCompleted,
    /// Any, but no write survives another one that had completed before it was submitted: what
    /// survives is a prefix of what was written. Writes in flight together have no order.
    Prefix,
    /// Any.
    Unordered,
}

/// What a device promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    /// Which pending writes may be lost.
    pub order: Order,
    /// What of a write is written as a whole.
    pub unit: Unit,
}

impl Contract {
    /// A disk with a volatile cache: it loses any writes and tears them at sectors.
    pub const DISK: Contract = Contract { order: Order::Unordered, unit: Unit::Sector };

    /// Every contract, from the strongest order to the weakest.
    pub fn all() -> impl Iterator<Item = Contract> {
        let orders = [Order::KeepsCompleted, Order::Prefix, Order::Unordered];
        let units = [Unit::Request, Unit::Block, Unit::Sector];
        let with = move |order| units.map(|unit| Contract { order, unit });
        orders.into_iter().flat_map(with)
    }

    /// True if a power cut may leave this outcome, one fate a write.
    pub fn allows(&self, writes: &[AtRisk], fates: &[Fate]) -> bool {
        debug_assert_eq!(writes.len(), fates.len(), "a fate for each write");
        let each = writes.iter().zip(fates).all(|(write, fate)| {
            let fits = match (fate, write.sectors) {
                (Fate::Torn(marks), Some(sectors)) => {
                    marks.len() == sectors && self.unit.allows(marks)
                }
                (Fate::Torn(_), None) => false,
                (Fate::Kept | Fate::Lost, _) => true,
            };
            fits && (!self.keeps(write) || fate.is_whole())
        });
        let is_closed = needs::is_closed(writes, fates);
        each && is_closed && (self.order != Order::Prefix || is_prefix(writes, fates))
    }

    /// Turns an outcome into one that is allowed: keeps what cannot be lost and what that needs,
    /// rounds tears, and loses what would outlive a loss. True if that changed a fate.
    pub fn restrict(&self, writes: &[AtRisk], fates: &mut [Fate]) -> bool {
        debug_assert_eq!(writes.len(), fates.len(), "a fate for each write");
        let mut changed = false;
        for (write, fate) in writes.iter().zip(fates.iter_mut()) {
            if self.keeps(write) {
                changed |= *fate != Fate::Kept;
                *fate = Fate::Kept;
            } else if self.unit != Unit::Sector && matches!(fate, Fate::Torn(_)) {
                *fate = self.unit.round(std::mem::replace(fate, Fate::Lost));
                changed = true;
            }
        }
        changed |= self.keep_what_certain_writes_need(writes, fates);
        changed |= needs::lose_needing(writes, fates);
        // Each pass loses writes or is the last one.
        while self.order == Order::Prefix && lose_what_follows(writes, fates) {
            changed = true;
            if !needs::lose_needing(writes, fates) {
                break;
            }
        }
        debug_assert!(self.allows(writes, fates), "{self:?}: {writes:?} {fates:?}");
        changed
    }

    /// Keeps what is needed by writes that the device cannot lose.
    fn keep_what_certain_writes_need(&self, writes: &[AtRisk], fates: &mut [Fate]) -> bool {
        if !needs::any(writes) {
            return false;
        }
        let certain = |write: &AtRisk| if self.keeps(write) { Fate::Kept } else { Fate::Lost };
        let mut certain: Vec<Fate> = writes.iter().map(certain).collect();
        needs::keep_needed(writes, &mut certain);
        let mut changed = false;
        for (fate, certain) in fates.iter_mut().zip(certain) {
            if certain == Fate::Kept {
                changed |= *fate != Fate::Kept;
                *fate = Fate::Kept;
            }
        }
        changed
    }

    /// True if it cannot lose the write.
    fn keeps(&self, write: &AtRisk) -> bool {
        write.forced || (self.order == Order::KeepsCompleted && write.completed.is_some())
    }
}

/// True if nothing outlives what came before it.
fn is_prefix(writes: &[AtRisk], fates: &[Fate]) -> bool {
    let survives = |(write, fate): &(&AtRisk, &Fate)| !write.forced && !fate.is_nothing();
    let mut survivors = writes.iter().zip(fates).filter(survives);
    survivors.all(|(later, _)| {
        let mut earlier = writes.iter().zip(fates).filter(|(one, _)| later.comes_after(one));
        earlier.all(|(_, fate)| fate.is_whole())
    })
}

/// Loses what comes after a write that is not whole. One pass is enough: what it loses completed
/// later than the write that it follows, so nothing follows it that does not follow that write.
fn lose_what_follows(writes: &[AtRisk], fates: &mut [Fate]) -> bool {
    let mut changed = false;
    let damaged = writes.iter().zip(&*fates).filter(|(_, fate)| !fate.is_whole());
    let damaged: Vec<&AtRisk> = damaged.map(|(one, _)| one).collect();
    for (write, fate) in writes.iter().zip(fates) {
        // A forced write was made durable by itself: it is out of order by its own wish.
        if !write.forced && damaged.iter().any(|one| write.comes_after(one)) {
            changed |= *fate != Fate::Lost;
            *fate = Fate::Lost;
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(submitted: u64, completed: Option<u64>) -> AtRisk {
        AtRisk::of_blocks(0, submitted, completed, 2)
    }

    fn contract(order: Order, unit: Unit) -> Contract {
        Contract { order, unit }
    }

    const KEPT: Fate = Fate::Kept;
    const LOST: Fate = Fate::Lost;

    #[test]
    fn a_device_that_keeps_what_it_completed_loses_writes_in_flight_only() {
        let keeps = contract(Order::KeepsCompleted, Unit::Sector);
        let writes = [write(1, Some(3)), write(2, None)];
        assert!(keeps.allows(&writes, &[KEPT, LOST]));
        assert!(!keeps.allows(&writes, &[LOST, KEPT]));
        let mut fates = [LOST, LOST];
        assert!(keeps.restrict(&writes, &mut fates));
        assert_eq!(fates, [KEPT, LOST]);
        assert!(!keeps.restrict(&writes, &mut fates), "it is allowed already");
    }

    #[test]
    fn a_prefix_has_no_hole() {
        let prefix = contract(Order::Prefix, Unit::Sector);
        // The second is in flight together with the first; the third comes after the first.
        let writes = [write(1, Some(4)), write(3, Some(5)), write(4, None)];
        assert!(prefix.allows(&writes, &[LOST, KEPT, LOST]));
        assert!(!prefix.allows(&writes, &[LOST, KEPT, KEPT]));
        let torn = Fate::Torn((0..16).map(|sector| sector < 3).collect());
        assert!(!prefix.allows(&writes, &[torn.clone(), KEPT, KEPT]), "a torn write is a hole");
        assert!(prefix.allows(&writes, &[KEPT, torn.clone(), torn.clone()]));
        let mut fates = [torn.clone(), KEPT, torn];
        assert!(prefix.restrict(&writes, &mut fates));
        assert!(fates[1] == KEPT && fates[2] == LOST, "{fates:?}");
        let elsewhere = AtRisk { device: 1, ..writes[2].clone() };
        let two = [writes[0].clone(), elsewhere];
        assert!(prefix.allows(&two, &[LOST, KEPT]), "devices have no order");
    }

    #[test]
    fn a_forced_write_survives_under_every_contract() {
        let forced = AtRisk { forced: true, ..write(2, Some(2)) };
        for contract in Contract::all() {
            let mut fates = [LOST, LOST];
            contract.restrict(&[write(1, None), forced.clone()], &mut fates);
            assert_eq!(fates, [LOST, KEPT], "{contract:?}");
        }
    }
}
