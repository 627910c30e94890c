//! Guards and actions come, are released, are superseded and dropped.

use super::image::touched;
use super::{Fact, Guard, Guards, Keeps, Need, Old, Span, Target, Waiting};
use crate::tx::{BlockNo, Field};
use seekless_engine::edge::Edge;
use seekless_engine::planted::{PlantedBug, planted};
use smallvec::SmallVec;

/// So many of the youngest facts of a block are looked through for one to widen: that of the last
/// piece of a file is among them.
const MOST_WIDENED: usize = 64;

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
            asked: 0,
            count: 0,
            keeps_all: false,
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

    /// From now on guards are superseded, or none is: a call for durability waits for changes that
    /// a later one would keep from the disk for ever.
    pub fn keep_all(&mut self, keeps: bool) {
        self.keeps_all = keeps;
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
    /// the disk, so its needs do not matter, unless the new one keeps back a growth. That holds for
    /// additions and growths, unless something waits for the content that they keep back.
    ///
    /// # Panics
    /// If the changes lie in several blocks.
    pub fn guard(&mut self, changes: &Changes<'_>, needs: &[Field], keeps: Keeps) {
        let Some(&(Field { block, .. }, _)) = changes.first() else { return };
        assert!(changes.iter().all(|(field, _)| field.block == block), "one guard, one block");
        self.serial += 1;
        let serial = self.serial;
        let mut guard =
            Guard { serial, since: serial, needs: SmallVec::new(), olds: olds(changes), keeps };
        self.supersede(block, &mut guard);
        let hung = self.blocks.entry(block).or_default();
        let blocked = hung.guards.iter().any(|g| guard.olds.iter().any(|o| g.overlaps(o.span)));
        if needs.is_empty() && guard.needs.is_empty() && !blocked {
            self.tidy(block);
            return;
        }
        let mut fresh: SmallVec<[Field; 4]> = SmallVec::new();
        for &field in needs {
            if !self.widen(block, &mut guard, field) {
                fresh.push(field);
            }
        }
        let first = self.asked + 1;
        let numbered = (first..).zip(&fresh);
        guard.needs.extend(numbered.map(|(number, &field)| Need { field, number, time: serial }));
        self.asked += fresh.len() as u64;
        self.oldest.insert((guard.since, serial));
        self.blocks.entry(block).or_default().guards.push(guard);
        self.count += 1;
        for (need, field) in (first..).zip(fresh) {
            self.want(field, Target::Guard { block, need });
        }
    }

    /// Has a need that a guard took over from one that it superseded ask for a field as well: what
    /// is appended piece by piece needs one fact, not one for each piece. Only where that asks for
    /// no other sector, and where no guard could tell an older fact from a younger one.
    fn widen(&mut self, block: BlockNo, guard: &mut Guard, field: Field) -> bool {
        let Some(hung) = self.blocks.get_mut(&field.block) else { return false };
        // What lies between the pieces must not be what the guard itself keeps back.
        if field.block == block || !hung.guards.is_empty() {
            return false;
        }
        let span = Span::of(field);
        for need in guard.needs.iter_mut().filter(|need| need.field.block == field.block) {
            let old = Span::of(need.field);
            let whole = Span { from: old.from.min(span.from), to: old.to.max(span.to) };
            let target = Target::Guard { block, need: need.number };
            let mut youngest = hung.facts.iter_mut().rev().take(MOST_WIDENED);
            let fact = youngest.find(|fact| fact.target == target);
            // Without a fact a write that carries it is under way.
            let Some(fact) = fact else { continue };
            if touched(whole) == touched(old) | touched(span) {
                (fact.span, fact.time) = (whole, guard.serial);
                fact.left |= touched(span);
                need.field = Field { at: whole.from, length: whole.to - whole.from, ..field };
                need.time = guard.serial;
                return true;
            }
        }
        false
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

    /// True if a guard or an action waits for content of a field.
    pub fn is_needed(&self, field: Field) -> bool {
        let span = Span::of(field);
        let hung = self.blocks.get(&field.block);
        hung.is_some_and(|hung| hung.facts.iter().any(|fact| fact.span.overlaps(span)))
    }

    /// The content of a field means nothing, and nothing on the disk leads to it: its guards are
    /// dropped, and what waits for it waits no longer.
    pub fn forget(&mut self, field: Field) {
        let span = Span::of(field);
        let within = |guard: &Guard| guard.olds.iter().all(|old| span.covers(old.span));
        self.drop_guards(field.block, within);
        let Some(hung) = self.blocks.get_mut(&field.block) else { return };
        let mut gone: SmallVec<[Target; 4]> = SmallVec::new();
        hung.facts.retain(|fact| {
            fact.left &= !touched(span);
            let goes = span.covers(fact.span) || fact.left == 0;
            if goes {
                gone.push(fact.target);
            }
            !goes
        });
        self.count -= gone.len();
        gone.into_iter().for_each(|target| self.holds(target));
        self.release(field.block);
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
        block.is_some_and(|block| self.superseded(block, &olds(changes)).contains(&guard))
    }

    /// Lets a new guard take the old bytes of those that it supersedes.
    fn supersede(&mut self, block: BlockNo, new: &mut Guard) {
        let gone = self.superseded(block, &new.olds);
        if let Some(hung) = self.blocks.get(&block) {
            let goes = |guard: &&Guard| gone.contains(&guard.serial);
            let older = hung.guards.iter().rev().filter(goes);
            let kept = older.filter(|_| !planted(PlantedBug::CancelForgetsReplaced));
            kept.for_each(|guard| keep_older(new, guard));
        }
        if new.keeps == Keeps::Growth
            && !planted(PlantedBug::GrowthForgetsNeeds)
            && let Some(hung) = self.blocks.get_mut(&block)
        {
            for guard in hung.guards.iter_mut().filter(|guard| gone.contains(&guard.serial)) {
                new.needs.extend(std::mem::take(&mut guard.needs));
            }
            new.needs.sort_unstable_by_key(|need| need.number);
        }
        self.drop_guards(block, |guard| gone.contains(&guard.serial));
    }

    /// The guards that a change of these bytes supersedes. All that stay and overlap with one of
    /// them are older than it, so the order of changes is kept.
    fn superseded(&self, block: BlockNo, new: &[Old]) -> SmallVec<[u64; 4]> {
        let mut gone = SmallVec::new();
        if self.keeps_all {
            return gone;
        }
        let Some(hung) = self.blocks.get(&block) else { return gone };
        // What waits for these bytes as they were in between would wait for the new guard.
        let is_new = |span: Span| new.iter().any(|old| old.span.overlaps(span));
        let waited: SmallVec<[u64; 4]> =
            hung.facts.iter().filter(|fact| is_new(fact.span)).map(|fact| fact.time).collect();
        let mut stay: SmallVec<[&Guard; 4]> = SmallVec::new();
        for guard in hung.guards.iter().rev() {
            let covered = |old: &Old| new.iter().any(|one| one.span.covers(old.span));
            let held = |old: &Old| stay.iter().any(|other| other.overlaps(old.span));
            let goes = matches!(guard.keeps, Keeps::Addition | Keeps::Growth)
                && guard.olds.iter().all(|old| covered(old) && !held(old))
                && !Edge::SupersededWaited.blocks(waited.iter().any(|&time| time >= guard.since));
            if goes {
                gone.push(guard.serial);
            } else {
                stay.push(guard);
            }
        }
        gone
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
                self.unwant(need.field.block, need.number);
            }
        }
    }

    /// Nothing waits for a fact: the guard that needed it is dropped.
    fn unwant(&mut self, block: BlockNo, number: u64) {
        let Some(hung) = self.blocks.get_mut(&block) else { return };
        let before = hung.facts.len();
        hung.facts
            .retain(|fact| !matches!(fact.target, Target::Guard { need, .. } if need == number));
        self.count -= before - hung.facts.len();
        self.tidy(block);
    }

    /// A fact holds.
    fn holds(&mut self, target: Target) {
        if let Some(block) = self.meet(target) {
            self.release(block);
        }
    }

    /// A fact holds. The block in which a guard needs nothing now.
    pub(super) fn meet(&mut self, target: Target) -> Option<BlockNo> {
        match target {
            Target::Guard { block, need } => {
                for guard in &mut self.blocks.get_mut(&block)?.guards {
                    let place = guard.needs.binary_search_by_key(&need, |one| one.number);
                    let Ok(place) = place else { continue };
                    guard.needs.remove(place);
                    return guard.needs.is_empty().then_some(block);
                }
            }
            Target::Action { slot, serial } => {
                let waiting = self.actions.get_mut(slot).filter(|w| w.serial == serial)?;
                waiting.missing -= 1;
                if waiting.missing == 0 {
                    let waiting = self.actions.remove(slot);
                    self.count -= 1;
                    self.ready.push_back(waiting.action);
                }
            }
        }
        None
    }

    /// Drops the guards of a block that need nothing and that no older one holds back.
    pub(super) fn release(&mut self, block: BlockNo) {
        let Some(hung) = self.blocks.get_mut(&block) else { return };
        let mut index = 0;
        while index < hung.guards.len() {
            let (older, rest) = hung.guards.split_at(index);
            let held = || rest[0].olds.iter().any(|o| older.iter().any(|g| g.overlaps(o.span)));
            if rest[0].needs.is_empty() && !Edge::OverlapHolds.blocks(held()) {
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
            if Edge::KeepsAge.stands() {
                guard.since = guard.since.min(older.since);
            }
        }
    }
}
