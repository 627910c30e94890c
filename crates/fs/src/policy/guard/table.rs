//! Guards and actions come, are released, are superseded and dropped.

use super::image::touched;
use super::{Fact, Guard, Guards, Hung, Keeps, Need, Old, Span, Target, Waiting};
use crate::tx::{BlockNo, Field};
use smallvec::SmallVec;

/// Fields of one block with the bytes that the disk may show.
pub type Changes<'a> = [(Field, &'a [u8])];

impl<A> Default for Guards<A> {
    fn default() -> Guards<A> {
        Guards {
            blocks: Default::default(),
            actions: Default::default(),
            ready: Default::default(),
            oldest: Default::default(),
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

    /// Actions that wait or are ready.
    pub fn actions(&self) -> usize {
        self.actions.len() + self.ready.len()
    }

    /// Now: every change that was guarded before has this time, or an earlier one.
    pub fn now(&self) -> u64 {
        self.serial
    }

    /// Keeps changes of one block from the disk until each of `needs` is there. `changes` has the
    /// fields with their old bytes; the new ones are in the cache. Without needs the changes wait
    /// for older guards of the same bytes only.
    ///
    /// A guard whose fields are all changed again is superseded: what it kept back never reaches
    /// the disk, so its needs do not matter. That holds for additions, unless
    /// something waits for the content that it keeps back.
    ///
    /// # Panics
    /// If the changes lie in several blocks.
    pub fn guard(&mut self, changes: &Changes<'_>, needs: &[Field], keeps: Keeps) {
        let Some(&(Field { block, .. }, _)) = changes.first() else { return };
        assert!(changes.iter().all(|(field, _)| field.block == block), "one guard, one block");
        self.serial += 1;
        let serial = self.serial;
        let numbered = needs.iter().enumerate();
        let mut guard = Guard {
            serial,
            since: serial,
            needs: numbered.map(|(n, &field)| Need { field, number: n as u16 }).collect(),
            olds: olds(changes),
            keeps,
        };
        self.supersede(block, &mut guard);
        let hung = self.blocks.entry(block).or_default();
        let blocked = hung.guards.iter().any(|g| guard.olds.iter().any(|o| g.overlaps(o.span)));
        if guard.needs.is_empty() && !blocked {
            self.tidy(block);
            return;
        }
        self.oldest.insert((guard.since, serial));
        hung.guards.push(guard);
        self.count += 1;
        for (number, &need) in needs.iter().enumerate() {
            self.want(need, Target::Guard { block, serial, need: number as u16 });
        }
        self.release(block);
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

    /// True if a guard keeps a change of some of these bytes from the disk.
    pub fn is_guarded(&self, field: Field) -> bool {
        let hung = self.blocks.get(&field.block);
        hung.is_some_and(|hung| hung.guards.iter().any(|guard| guard.overlaps(Span::of(field))))
    }

    /// The youngest guard that keeps all of these bytes back, by serial: no write has carried their
    /// content, and none will before the guard is released.
    pub fn hider(&self, field: Field) -> Option<u64> {
        let guards = &self.blocks.get(&field.block)?.guards;
        guards.iter().rev().find(|guard| guard.covers(Span::of(field))).map(|guard| guard.serial)
    }

    /// True if a guard of a block is still there: not released, and not superseded.
    pub fn has(&self, block: BlockNo, serial: u64) -> bool {
        let hung = self.blocks.get(&block);
        hung.is_some_and(|hung| hung.guards.iter().any(|guard| guard.serial == serial))
    }

    /// The content of a field means nothing, and is not written: its guards are dropped. An
    /// addition does not wait for it. A removal waits for `instead`, after which nothing leads to
    /// the field.
    pub fn forget(&mut self, field: Field, instead: Option<Field>) {
        let span = Span::of(field);
        let within = |guard: &Guard| guard.olds.iter().all(|old| span.covers(old.span));
        self.drop_guards(field.block, within);
        let Some(hung) = self.blocks.get_mut(&field.block) else { return };
        let mut gone: SmallVec<[Fact; 4]> = SmallVec::new();
        hung.facts.retain(|fact| {
            fact.left &= !touched(span);
            let goes = span.covers(fact.span) || fact.left == 0;
            if goes {
                gone.push(*fact);
            }
            !goes
        });
        self.count -= gone.len();
        for fact in gone {
            match instead {
                Some(instead) if self.is_removal(fact.target) => self.move_to(fact.target, instead),
                _ => self.holds(fact.target),
            }
        }
        self.release(field.block);
    }

    /// A waiting target waits for another field instead.
    fn move_to(&mut self, target: Target, instead: Field) {
        if let Target::Guard { block, serial, need } = target
            && let Some(hung) = self.blocks.get_mut(&block)
            && let Some(guard) = hung.guards.iter_mut().find(|guard| guard.serial == serial)
            && let Some(need) = guard.needs.iter_mut().find(|one| one.number == need)
        {
            need.field = instead;
        }
        self.want(instead, target);
    }

    /// True if a target waits for something to be gone.
    fn is_removal(&self, target: Target) -> bool {
        match target {
            Target::Action { .. } => true,
            Target::Guard { block, serial, .. } => self.blocks.get(&block).is_some_and(|hung| {
                hung.guards.iter().any(|guard| guard.serial == serial && guard.keeps == Keeps::Link)
            }),
        }
    }

    /// A fact is wanted from the next writes of its block.
    fn want(&mut self, need: Field, target: Target) {
        let span = Span::of(need);
        let fact = Fact { span, left: touched(span), time: self.serial, target };
        self.blocks.entry(need.block).or_default().facts.push(fact);
        self.count += 1;
    }

    /// True if a change of these fields supersedes a guard.
    pub fn supersedes(&self, changes: &Changes<'_>, guard: u64) -> bool {
        let block = changes.first().map(|(field, _)| field.block);
        block.is_some_and(|block| self.superseded(block, &olds(changes)).gone.contains(&guard))
    }

    /// Lets a new guard take the old bytes of those that it supersedes, and become one with those
    /// that it absorbs.
    fn supersede(&mut self, block: BlockNo, new: &mut Guard) {
        let Superseded { gone, absorbed } = self.superseded(block, &new.olds);
        let Some(hung) = self.blocks.get(&block) else { return };
        let mut joined: SmallVec<[Guard; 2]> = SmallVec::new();
        for guard in hung.guards.iter().rev() {
            if gone.contains(&guard.serial) {
                keep_older(new, guard);
            } else if absorbed.contains(&guard.serial) {
                keep_older(new, guard);
                new.since = new.since.min(guard.since);
                let own = |old: &&Old| !new.olds.iter().any(|one| one.span.covers(old.span));
                let more: SmallVec<[Old; 2]> = guard.olds.iter().filter(own).cloned().collect();
                new.olds.extend(more);
                joined.push(guard.clone());
            }
        }
        for guard in joined {
            self.take_needs(block, new, &guard);
        }
        let goes = |guard: &Guard| gone.contains(&guard.serial) || absorbed.contains(&guard.serial);
        self.drop_guards(block, goes);
    }

    /// A guard waits for what another one of its block waits for.
    fn take_needs(&mut self, block: BlockNo, new: &mut Guard, other: &Guard) {
        for need in &other.needs {
            let number = new.needs.iter().map(|one| one.number + 1).max().unwrap_or(0);
            new.needs.push(Need { number, ..*need });
            let old = Target::Guard { block, serial: other.serial, need: need.number };
            let target = Target::Guard { block, serial: new.serial, need: number };
            let hung = self.blocks.get_mut(&need.field.block);
            let facts = hung.into_iter().flat_map(|hung| &mut hung.facts);
            facts.filter(|fact| fact.target == old).for_each(|fact| fact.target = target);
        }
    }

    /// The guards that a change of these bytes supersedes: all of their bytes change. Younger ones
    /// that overlap with them have other bytes, too: the change absorbs them. All that stay and
    /// overlap with one of these are older than it, so the order of changes is kept.
    fn superseded(&self, block: BlockNo, new: &[Old]) -> Superseded {
        let mut result = Superseded::default();
        let Some(hung) = self.blocks.get(&block) else { return result };
        let (mut stay, mut more): (SmallVec<[&Guard; 4]>, SmallVec<[&Guard; 4]>) =
            (SmallVec::new(), SmallVec::new());
        for guard in hung.guards.iter().rev() {
            let covered = |old: &Old| new.iter().any(|one| one.span.covers(old.span));
            let held = guard.olds.iter().any(|o| stay.iter().any(|one| one.overlaps(o.span)));
            if held || guard.keeps != Keeps::Addition || hung.awaits(new, guard.since) {
                stay.push(guard);
            } else if guard.olds.iter().all(covered) {
                let joined = joined(guard, &more);
                if joined.iter().any(|one| hung.awaits(&one.olds, guard.since)) {
                    stay.push(guard);
                    continue;
                }
                result.gone.push(guard.serial);
                result.absorbed.extend(joined.iter().map(|one| one.serial));
            } else {
                more.push(guard);
            }
        }
        result
    }

    /// Drops guards of a block, and the facts that only they have wanted.
    fn drop_guards(&mut self, block: BlockNo, goes: impl Fn(&Guard) -> bool) {
        let Some(hung) = self.blocks.get_mut(&block) else { return };
        let mut gone: SmallVec<[Guard; 2]> = SmallVec::new();
        hung.guards.retain(|guard| {
            let goes = goes(guard);
            if goes {
                gone.push(guard.clone());
            }
            !goes
        });
        self.count -= gone.len();
        for guard in gone {
            self.oldest.remove(&(guard.since, guard.serial));
            for need in guard.needs {
                self.unwant(need.field.block, guard.serial);
            }
        }
    }

    /// Nothing waits for the facts of a dropped guard.
    fn unwant(&mut self, block: BlockNo, guard: u64) {
        let Some(hung) = self.blocks.get_mut(&block) else { return };
        let before = hung.facts.len();
        hung.facts
            .retain(|fact| !matches!(fact.target, Target::Guard { serial, .. } if serial == guard));
        self.count -= before - hung.facts.len();
        self.tidy(block);
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
                guard.needs.retain(|one| one.number != need);
                if guard.needs.is_empty() {
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
            if rest[0].needs.is_empty() && !held {
                let guard = hung.guards.remove(index);
                self.oldest.remove(&(guard.since, guard.serial));
                self.count -= 1;
            } else {
                index += 1;
            }
        }
        self.tidy(block);
    }

    pub(super) fn tidy(&mut self, block: BlockNo) {
        if self.blocks.get(&block).is_some_and(|h| h.guards.is_empty() && h.facts.is_empty()) {
            self.blocks.remove(&block);
        }
    }
}

/// Guards, by serial, that a change makes needless.
#[derive(Default)]
struct Superseded {
    gone: SmallVec<[u64; 4]>,
    absorbed: SmallVec<[u64; 4]>,
}

/// Those of some guards that overlap with one, or with each other that does.
fn joined<'g>(guard: &'g Guard, more: &[&'g Guard]) -> SmallVec<[&'g Guard; 4]> {
    let mut joined: SmallVec<[&Guard; 4]> = SmallVec::new();
    let mut from = 0;
    let mut at = guard;
    loop {
        for &one in more {
            let overlaps = at.olds.iter().any(|old| one.overlaps(old.span));
            if overlaps && joined.iter().all(|other| other.serial != one.serial) {
                joined.push(one);
            }
        }
        let Some(&next) = joined.get(from) else { return joined };
        (at, from) = (next, from + 1);
    }
}

impl Hung {
    /// True if something waits for some of these bytes as they were at a time, or later.
    fn awaits(&self, olds: &[Old], since: u64) -> bool {
        let is_one = |span: Span| olds.iter().any(|old| old.span.overlaps(span));
        self.facts.iter().any(|fact| fact.time >= since && is_one(fact.span))
    }
}

fn olds(changes: &Changes<'_>) -> SmallVec<[Old; 2]> {
    let old = |&(field, bytes): &(Field, &[u8])| {
        assert_eq!(usize::from(field.length), bytes.len(), "old bytes of the whole field");
        Old { span: Span::of(field), bytes: SmallVec::from_slice(bytes) }
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
