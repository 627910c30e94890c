//! The policies: no change of metadata is on the disk before what it needs.
//!
//! `async` guards tails of files and directories that move, and nothing else: what a sync has made
//! durable stays until the disk has it at its new place. Other writes go out in any order, by age.
//! After a crash a check that repairs makes the file system usable again.
//!
//! `sync` and `soft` keep the same guards. `soft` (soft updates) writes when the syncer does, and
//! waits for the content of files, too. `sync` (classic FFS) has a call wait until what it names is
//! written; maps and content of files go out by age. So after a crash under `sync` a check must
//! make the maps from the inodes, and the end of a file may hold what its blocks held before.

use super::guard::{Guards, Keeps, Manifest};
use super::{Policy, PolicyKind, Rule, Settle};
use crate::core::page::{Mask, Page};
use crate::tx::{BlockNo, Deferred, Field, Freed, Need, Role, Why};
use seekless_engine::edge::Edge;
use seekless_engine::planted::{PlantedBug, planted};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// Orders writes by guards.
#[derive(Clone, Debug)]
pub struct Ordered {
    kind: PolicyKind,
    guards: Guards<Vec<Deferred>>,
    /// Calls for durability are under way.
    awaited: bool,
    /// `soft` keeps what leads to content of a file from the disk until the content is there.
    data_order: bool,
}

/// What a transaction frees.
#[derive(Default)]
struct Frees {
    /// Nothing on the disk leads there.
    now: Vec<Deferred>,
    later: Vec<Deferred>,
    after: Vec<Field>,
    /// Content that means nothing, and whether the disk may lead there.
    contents: Vec<(Field, bool)>,
}

impl Ordered {
    /// A policy of this kind, with nothing to order.
    pub fn new(kind: PolicyKind) -> Ordered {
        Ordered { kind, guards: Guards::default(), awaited: false, data_order: true }
    }

    /// The same without the order of content: after a crash, files may hold what their blocks held
    /// before. Only measurements want that (paper 001, section 6; claim J9).
    #[must_use]
    pub fn without_data_order(self) -> Ordered {
        Ordered { data_order: false, ..self }
    }

    /// What the disk does not show before the transaction, and the guards that keep it back: names
    /// that go, and addresses of what is freed.
    fn hidden(&self, rules: &[Rule]) -> BTreeMap<Field, u64> {
        let mut hidden = BTreeMap::new();
        let mut note = |field: Field| {
            if let Some(guard) = self.guards.hider(field) {
                hidden.insert(field, guard);
            }
        };
        for rule in rules {
            match rule {
                Rule::Guard { needs, olds, role } => {
                    needs.iter().filter(|n| n.why == Why::Removal).for_each(|n| note(n.field));
                    if *role == Role::Removes {
                        olds.iter().for_each(|(field, _)| note(name_of(*field)));
                    }
                }
                Rule::Free { freed, .. } if freed.exact => note(freed.after),
                _ => {}
            }
        }
        hidden
    }

    /// True if no write will ever carry what was hidden before: its guard was superseded.
    fn never_shown(&self, field: Field, hidden: &BTreeMap<Field, u64>) -> bool {
        hidden.get(&field).is_some_and(|&guard| !self.guards.has(field.block, guard))
    }

    /// True if the policy waits for such a need.
    fn waits_for(&self, need: &Need, hidden: &BTreeMap<Field, u64>) -> bool {
        match need.why {
            Why::Data | Why::Address if planted(PlantedBug::PointerBeforeData) => false,
            Why::Content | Why::Moved if planted(PlantedBug::PointerBeforeContent) => false,
            Why::Moved => true,
            _ if self.kind == PolicyKind::Async => false,
            Why::Data => self.kind == PolicyKind::Soft && self.data_order,
            Why::Bits | Why::Address => self.kind == PolicyKind::Soft,
            Why::Content | Why::Link => true,
            Why::Removal => !self.never_shown(need.field, hidden),
            Why::Body => true,
        }
    }

    /// What the rules free, once their guards stand.
    fn frees(&self, rules: &[Rule], hidden: &BTreeMap<Field, u64>) -> Frees {
        let mut frees = Frees::default();
        for rule in rules {
            let &Rule::Free { freed: Freed { what, after, .. }, content } = rule else { continue };
            let never_shown = self.never_shown(after, hidden);
            if let Some(content) = content {
                frees.contents.push((content, !never_shown));
            }
            if never_shown || planted(PlantedBug::FreedAtOnce) {
                frees.now.push(what);
            } else {
                frees.later.push(what);
                frees.after.push(after);
            }
        }
        frees.after.sort_unstable();
        frees.after.dedup();
        frees
    }

    /// Drops content that is freed, if nothing waits for it. Where the disk may lead there, and a
    /// call for durability is under way, the call may have promised it. What is kept is forgotten
    /// when the space is free.
    fn forget(&mut self, contents: Vec<(Field, bool)>, forgotten: &mut Vec<Field>) {
        // An indirect block comes behind what it leads to, and is what waits for that.
        for (content, shown) in contents.into_iter().rev() {
            let wanted = Edge::ForgetAwaited.blocks(self.awaited) || self.guards.is_needed(content);
            if !shown || !wanted || planted(PlantedBug::ContentForgottenEarly) {
                self.guards.forget(content);
                forgotten.push(content);
            }
        }
    }

    fn guard(&mut self, rule: &Rule, hidden: &BTreeMap<Field, u64>) {
        let Rule::Guard { olds, needs, role } = rule else { return };
        if *role == Role::Grows && planted(PlantedBug::SizeNotRolledBack) {
            return;
        }
        let changes: SmallVec<[(Field, &[u8]); 4]> =
            olds.iter().map(|(field, bytes)| (*field, bytes.as_slice())).collect();
        let needs: SmallVec<[&Need; 4]> =
            needs.iter().filter(|need| self.waits_for(need, hidden)).collect();
        let is_name = |need: &&Need| !matches!(need.why, Why::Removal | Why::Body);
        let counts = needs.iter().any(|need| need.why != Why::Body);
        let needs = if counts { needs } else { SmallVec::new() };
        let fields: SmallVec<[Field; 4]> = needs.iter().map(|need| need.field).collect();
        let keeps = match role {
            Role::Grows => Keeps::Growth,
            Role::Removes if needs.iter().any(is_name) => Keeps::Name,
            Role::Removes if !fields.is_empty() => Keeps::Link,
            Role::Removes | Role::Replaces | Role::Clears => Keeps::Addition,
        };
        // A name that the disk never had goes without the other one, unless a call waits for it.
        let never_had = keeps == Keeps::Name
            && !self.awaited
            && olds.iter().any(|(field, _)| {
                hidden.get(&name_of(*field)).is_some_and(|&g| self.guards.supersedes(&changes, g))
            });
        match never_had {
            true => self.guards.guard(&changes, &[], Keeps::Addition),
            false => self.guards.guard(&changes, &fields, keeps),
        }
    }
}

/// Where the entry of a name leads to its object: its first bytes.
fn name_of(entry: Field) -> Field {
    Field { length: entry.length.min(4), ..entry }
}

impl Policy for Ordered {
    fn kind(&self) -> PolicyKind {
        self.kind
    }

    fn fork(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn guards(&self) -> bool {
        self.kind != PolicyKind::Async
    }

    fn guards_moves(&self) -> bool {
        true
    }

    fn defers_frees(&self) -> bool {
        self.kind != PolicyKind::Async
    }

    fn answers_late(&self) -> bool {
        self.kind == PolicyKind::Sync
    }

    fn committed(&mut self, rules: &mut Vec<Rule>, forgotten: &mut Vec<Field>) -> Settle {
        if rules.is_empty() {
            return Settle::Now;
        }
        let hidden = self.hidden(rules);
        // Cleared addresses wait for the size, which the same transaction changes.
        let (clears, others): (Vec<&Rule>, Vec<&Rule>) =
            rules.iter().partition(|rule| matches!(rule, Rule::Guard { role: Role::Clears, .. }));
        others.into_iter().chain(clears).for_each(|rule| self.guard(rule, &hidden));
        for rule in &*rules {
            if let Rule::Forget(content) = rule {
                self.guards.forget(*content);
            }
        }
        let frees = self.frees(rules, &hidden);
        self.forget(frees.contents, forgotten);
        if !frees.now.is_empty() {
            self.guards.defer(frees.now, &[]);
        }
        if !frees.later.is_empty() {
            self.guards.defer(frees.later, &frees.after);
        }
        let at_once: Vec<Field> = match self.kind {
            PolicyKind::Sync => rules.iter().filter_map(at_once).collect(),
            _ => Vec::new(),
        };
        rules.clear();
        if at_once.is_empty() { Settle::Now } else { Settle::Written(at_once) }
    }

    fn awaits(&mut self, calls: bool) {
        self.awaited = calls;
        self.guards.keep_all(calls);
    }

    fn image(&mut self, block: BlockNo, sectors: Mask, page: &mut Page) -> (Manifest, Mask) {
        self.guards.image(block, sectors, page)
    }

    fn settled(&mut self, manifest: Manifest) {
        self.guards.settled(manifest);
    }

    fn take_free(&mut self) -> Option<Vec<Deferred>> {
        self.guards.take_ready()
    }

    fn frees(&self) -> usize {
        self.guards.actions()
    }

    fn is_guarded(&self, field: Field) -> bool {
        self.guards.is_guarded(field)
    }

    fn now(&self) -> u64 {
        self.guards.now()
    }

    fn keeps_back(&self, fields: Option<&[Field]>, mark: u64) -> bool {
        match fields {
            Some(fields) => self.guards.keeps_back(fields, mark),
            None => self.guards.keeps_any_back(mark),
        }
    }

    fn next_writes(&self, fields: &[Field]) -> BTreeSet<BlockNo> {
        self.guards.next_writes(fields)
    }

    fn next_writes_by(&self, mark: u64) -> BTreeSet<BlockNo> {
        self.guards.next_writes_by(mark)
    }

    fn load(&self) -> usize {
        self.guards.len()
    }
}

fn at_once(rule: &Rule) -> Option<Field> {
    match rule {
        Rule::AtOnce(field) => Some(*field),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    /// What needs keep a change from the disk.
    fn kept_back(mut policy: Ordered) -> Vec<Why> {
        let all =
            [Why::Bits, Why::Data, Why::Address, Why::Content, Why::Moved, Why::Link, Why::Removal];
        let is_kept = |(why, block): (Why, BlockNo)| {
            let change = Field::new(2 * block, 0, 4);
            let need = Need { field: Field::new(2 * block + 1, 0, 4), why };
            let olds = smallvec![(change, SmallVec::from_slice(&[0; 4]))];
            let mut rules =
                vec![Rule::Guard { olds, needs: smallvec![need], role: Role::Replaces }];
            policy.committed(&mut rules, &mut Vec::new());
            policy.is_guarded(change).then_some(why)
        };
        all.into_iter().zip(1..).filter_map(is_kept).collect()
    }

    #[test]
    fn without_the_order_of_content_all_else_is_ordered() {
        let all = kept_back(Ordered::new(PolicyKind::Soft));
        assert_eq!(all.len(), 7, "{all:?}");
        let left = kept_back(Ordered::new(PolicyKind::Soft).without_data_order());
        let others: Vec<Why> = all.into_iter().filter(|why| *why != Why::Data).collect();
        assert_eq!(left, others);
    }

    #[test]
    fn ffs_waits_for_no_content_with_or_without_the_order() {
        let plain = kept_back(Ordered::new(PolicyKind::Sync));
        assert!(!plain.contains(&Why::Data) && plain.contains(&Why::Link), "{plain:?}");
        assert_eq!(kept_back(Ordered::new(PolicyKind::Sync).without_data_order()), plain);
    }
}
