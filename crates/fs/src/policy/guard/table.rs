//! Guards and actions come, are released, are superseded and dropped.

use super::{Fact, Field, Guard, Guards, Hung, MOST_NEEDS, Old, Span, Target, Waiting};
use crate::tx::BlockNo;
use smallvec::SmallVec;

impl<A> Default for Guards<A> {
    fn default() -> Guards<A> {
        Guards {
            blocks: Default::default(),
            actions: Default::default(),
            ready: Default::default(),
            serial: 0,
            count: 0,
        }
    }
}

impl<A> Guards<A> {
    /// Guards, facts that do not hold, and actions that wait.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if nothing is guarded and no action waits.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.ready.is_empty()
    }

    /// Keeps changes of one block from the disk until each of `needs` is there. `changes` has the
    /// fields with their old bytes; the new ones are in the cache. Without needs there is no guard.
    ///
    /// A guard whose fields are all changed again is superseded: what it kept back never reaches
    /// the disk, so its needs do not matter.
    ///
    /// # Panics
    /// If the changes lie in several blocks.
    pub fn guard(&mut self, changes: &[(Field, &[u8])], needs: &[Field]) {
        let Some(&(Field { block, .. }, _)) = changes.first() else { return };
        assert!(changes.iter().all(|(field, _)| field.block == block), "one guard, one block");
        self.serial += 1;
        let serial = self.serial;
        let mut guard = Guard {
            serial,
            order: serial,
            since: serial,
            needs: SmallVec::from_slice(needs),
            missing: 0,
            olds: olds(changes),
        };
        let superseded = self.supersede(block, &mut guard);
        let hung = self.blocks.entry(block).or_default();
        let blocked = hung.guards.iter().any(|g| guard.olds.iter().any(|o| g.overlaps(o.span)));
        if needs.is_empty() && !blocked && !superseded {
            self.tidy(block);
            return;
        }
        assert!(needs.len() <= MOST_NEEDS, "{} needs", needs.len());
        guard.missing = ones(needs.len());
        let at = hung.guards.partition_point(|other| other.order < guard.order);
        hung.guards.insert(at, guard);
        self.count += 1;
        for (number, &need) in needs.iter().enumerate() {
            self.want(need, Target::Guard { block, serial, need: number as u8 });
        }
        if needs.is_empty() {
            self.release(block);
        }
    }

    /// Puts an action off until each of `needs` is on the disk; without needs it is ready at once.
    pub fn defer(&mut self, action: A, needs: &[Field]) {
        if needs.is_empty() {
            self.ready.push_back(action);
            return;
        }
        self.serial += 1;
        let serial = self.serial;
        let waiting = Waiting { serial, missing: needs.len() as u32, action };
        let slot = self.actions.insert(waiting);
        self.count += 1;
        for &need in needs {
            self.want(need, Target::Action { slot, serial });
        }
    }

    /// The next action of which all needs are on the disk.
    pub fn take_ready(&mut self) -> Option<A> {
        self.ready.pop_front()
    }

    /// True if a guard keeps a change of these bytes from the disk.
    pub fn is_guarded(&self, field: Field) -> bool {
        let hung = self.blocks.get(&field.block);
        hung.is_some_and(|hung| hung.guards.iter().any(|guard| guard.overlaps(field.span())))
    }

    /// Drops the guards that lie within a field: its content may reach the disk as it is. For a
    /// change that was taken back before it was written.
    pub fn cancel(&mut self, field: Field) {
        let Some(hung) = self.blocks.get_mut(&field.block) else { return };
        let before = hung.guards.len();
        let span = field.span();
        hung.guards.retain(|guard| !guard.olds.iter().all(|old| span.covers(old.span)));
        self.count -= before - hung.guards.len();
        self.release(field.block);
    }

    /// The content of a field means nothing, and is not written: its guards are dropped,
    /// and facts that were expected from it hold.
    pub fn forget(&mut self, field: Field) {
        self.cancel(field);
        let Some(hung) = self.blocks.get_mut(&field.block) else { return };
        let span = field.span();
        let mut gone: SmallVec<[Fact; 4]> = SmallVec::new();
        hung.facts.retain(|fact| {
            let goes = span.covers(fact.span);
            if goes {
                gone.push(*fact);
            }
            !goes
        });
        self.count -= gone.len();
        for fact in gone {
            self.holds(fact.target);
        }
        self.tidy(field.block);
    }

    /// A fact is wanted from the next writes of its block.
    fn want(&mut self, need: Field, target: Target) {
        let fact = Fact { span: need.span(), time: self.serial, target };
        self.blocks.entry(need.block).or_default().facts.push(fact);
        self.count += 1;
    }

    /// Lets a new guard take the old bytes and the place of those that it supersedes. In that place
    /// it stands before guards that are older than itself; so it takes their old bytes, too. No
    /// guard that is left may put back what a superseded one has kept from the disk.
    fn supersede(&mut self, block: BlockNo, new: &mut Guard) -> bool {
        let Some(hung) = self.blocks.get_mut(&block) else { return false };
        let covered =
            |old: &Old, new: &Guard| new.olds.iter().any(|other| other.span.covers(old.span));
        let is_superseded = |guard: &Guard| guard.olds.iter().all(|old| covered(old, new));
        let Some(first) = hung.guards.iter().position(is_superseded) else { return false };
        let gone: Vec<bool> = hung.guards.iter().map(is_superseded).collect();
        new.order = hung.guards[first].order;
        // From the youngest to the oldest, so that the oldest bytes win.
        for guard in hung.guards[first..].iter().rev() {
            keep_older(new, guard);
        }
        for index in (first..gone.len()).rev().filter(|&index| gone[index]) {
            let (older, younger) = hung.guards.split_at_mut(index + 1);
            younger.iter_mut().for_each(|guard| keep_older(guard, &older[index]));
        }
        let mut gone = gone.into_iter();
        hung.guards.retain(|_| {
            let goes = gone.next().unwrap_or(false);
            self.count -= usize::from(goes);
            !goes
        });
        true
    }

    /// A fact holds.
    pub(super) fn holds(&mut self, target: Target) {
        match target {
            Target::Guard { block, serial, need } => {
                let Some(hung) = self.blocks.get_mut(&block) else { return };
                let Some(guard) = hung.guards.iter_mut().find(|guard| guard.serial == serial)
                else {
                    return;
                };
                guard.missing &= !(1 << need);
                if guard.missing == 0 {
                    self.release(block);
                }
            }
            Target::Action { slot, serial } => {
                let Some(waiting) = self.actions.get_mut(slot).filter(|w| w.serial == serial)
                else {
                    return;
                };
                waiting.missing -= 1;
                if waiting.missing == 0 {
                    let waiting = self.actions.remove(slot);
                    self.count -= 1;
                    self.ready.push_back(waiting.action);
                }
            }
        }
    }

    /// Drops the guards of a block that need nothing and that no older one holds back.
    fn release(&mut self, block: BlockNo) {
        let Some(hung) = self.blocks.get_mut(&block) else { return };
        let mut index = 0;
        while index < hung.guards.len() {
            let (older, rest) = hung.guards.split_at(index);
            let held = rest[0].olds.iter().any(|o| older.iter().any(|g| g.overlaps(o.span)));
            if rest[0].missing == 0 && !held {
                hung.guards.remove(index);
                self.count -= 1;
            } else {
                index += 1;
            }
        }
        self.tidy(block);
    }

    pub(super) fn tidy(&mut self, block: BlockNo) {
        let is_bare = |hung: &Hung| hung.guards.is_empty() && hung.facts.is_empty();
        if self.blocks.get(&block).is_some_and(is_bare) {
            self.blocks.remove(&block);
        }
    }
}

/// The lowest bits.
fn ones(count: usize) -> u64 {
    if count == 64 { u64::MAX } else { (1 << count) - 1 }
}

fn olds(changes: &[(Field, &[u8])]) -> SmallVec<[Old; 2]> {
    let old = |&(field, bytes): &(Field, &[u8])| {
        assert_eq!(usize::from(field.length), bytes.len(), "old bytes of the whole field");
        Old { span: field.span(), bytes: SmallVec::from_slice(bytes) }
    };
    changes.iter().map(old).collect()
}

/// Bytes that an older guard has, too, are older there.
fn keep_older(guard: &mut Guard, older: &Guard) {
    for older_bytes in &older.olds {
        let span = older_bytes.span;
        for old in guard.olds.iter_mut().filter(|old| old.span.overlaps(span)) {
            let (from, to) = (old.span.from.max(span.from), old.span.to.min(span.to));
            let within = |span: Span| usize::from(from - span.from)..usize::from(to - span.from);
            old.bytes[within(old.span)].copy_from_slice(&older_bytes.bytes[within(span)]);
            guard.since = guard.since.min(older.since);
        }
    }
}
