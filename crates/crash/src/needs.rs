//! Writes that are on the medium only together with others.
//!
//! A file system writes some of its changes in order: a write that needs another one survives a
//! power cut only if the other one does, whole. [`AtRisk::needs`] names earlier writes of the same
//! list, so one pass closes an outcome: towards more kept ones from the last write to the first,
//! towards more lost ones from the first to the last.

use crate::at_risk::AtRisk;
use crate::fate::Fate;

/// True if some write needs another one.
pub fn any(writes: &[AtRisk]) -> bool {
    writes.iter().any(|write| !write.needs.is_empty())
}

/// True if all that surviving writes need is whole.
pub fn is_closed(writes: &[AtRisk], fates: &[Fate]) -> bool {
    let survives = |(_, fate): &(&AtRisk, &Fate)| !fate.is_nothing();
    let mut survivors = writes.iter().zip(fates).filter(survives);
    survivors.all(|(write, _)| write.needs.iter().all(|&need| fates[need].is_whole()))
}

/// Keeps what surviving writes need. True if that changed a fate.
pub fn keep_needed(writes: &[AtRisk], fates: &mut [Fate]) -> bool {
    let mut changed = false;
    for (at, write) in writes.iter().enumerate().rev() {
        if fates[at].is_nothing() {
            continue;
        }
        for &need in &write.needs {
            debug_assert!(need < at, "write {at} needs {need}, which is no earlier one");
            if !fates[need].is_whole() {
                fates[need] = Fate::Kept;
                changed = true;
            }
        }
    }
    changed
}

/// Loses what needs writes that are not whole. True if that changed a fate.
pub fn lose_needing(writes: &[AtRisk], fates: &mut [Fate]) -> bool {
    let mut changed = false;
    for (at, write) in writes.iter().enumerate() {
        debug_assert!(write.needs.iter().all(|&need| need < at), "{at}: {:?}", write.needs);
        let lacks = write.needs.iter().any(|&need| !fates[need].is_whole());
        if lacks && !fates[at].is_nothing() {
            fates[at] = Fate::Lost;
            changed = true;
        }
    }
    changed
}

/// What an outcome is made of, without what follows from it: the number of survivors that no other
/// survivor needs, and that of lost writes that need no other lost one.
pub fn of_its_own(writes: &[AtRisk], fates: &[Fate]) -> (usize, usize) {
    let (mut is_needed, mut lost) = (vec![false; writes.len()], 0);
    for (write, fate) in writes.iter().zip(fates) {
        match fate.is_nothing() {
            true => lost += usize::from(write.needs.iter().all(|&need| fates[need].is_whole())),
            false => write.needs.iter().for_each(|&need| is_needed[need] = true),
        }
    }
    let survivors = fates.iter().zip(is_needed).filter(|(fate, _)| !fate.is_nothing());
    (survivors.filter(|(_, is_needed)| !is_needed).count(), lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: Fate = Fate::Kept;
    const LOST: Fate = Fate::Lost;

    fn write(needs: &[usize]) -> AtRisk {
        AtRisk { needs: needs.to_vec(), ..AtRisk::of_blocks(0, 0, None, 1) }
    }

    #[test]
    fn an_outcome_is_closed_in_either_direction() {
        // 2 needs 1, which needs 0; 3 needs nothing.
        let writes = [write(&[]), write(&[0]), write(&[1]), write(&[])];
        let torn = Fate::Torn(vec![true, false]);
        let open = [LOST, torn.clone(), KEPT, LOST];
        assert!(!is_closed(&writes, &open));
        let (mut kept, mut lost) = (open.clone(), open);
        assert!(keep_needed(&writes, &mut kept) && is_closed(&writes, &kept));
        assert_eq!(kept, [KEPT, KEPT, KEPT, LOST]);
        assert!(lose_needing(&writes, &mut lost) && is_closed(&writes, &lost));
        assert_eq!(lost, [LOST, LOST, LOST, LOST]);
        assert!(!keep_needed(&writes, &mut kept) && !lose_needing(&writes, &mut kept));
        // A torn write that nothing needs is closed if what it needs is whole.
        assert!(is_closed(&writes, &[KEPT, torn.clone(), LOST, torn]));
    }
}
