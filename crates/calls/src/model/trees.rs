//! The trees of the states of a recording, one power cut after the other.

use super::durable::Barriers;
use super::kept::Kept;
use super::micro::{Change, Micro, ObjectId, PAGE};
use super::needs::Modelled;
use super::tree::Tree;
use std::collections::BTreeMap;

/// Builds the trees of power cuts in order, from what they have in common.
///
/// A durable micro-operation goes into the common tree unless an older one of the same file is
/// pending: then their order counts. Names need no such care, since every model has those of a
/// directory entry in order.
#[derive(Clone, Debug)]
pub struct Trees<'m> {
    modelled: &'m Modelled,
    barriers: Barriers<'m>,
    common: Tree,
    /// Durable micro-operations that are not in the common tree, in order.
    withheld: Vec<usize>,
    /// What the power cut may take, in order.
    pending: Vec<usize>,
    /// Of each write of a page the later one that overwrites all of its bytes. If that one is in a
    /// tree, the earlier one need not be applied: a mapping that is stored to again and again, and
    /// never synced, would make each tree as costly as all stores.
    overwritten: Vec<Option<usize>>,
}

impl Modelled {
    /// The trees of this recording, with the power going right before the first entry behind
    /// `Begin`.
    pub fn trees(&self) -> Trees<'_> {
        let recorded = self.recorded();
        let barriers = self.barriers();
        let mut common = Tree::new(recorded.objects.clone());
        barriers.durable().iter().for_each(|index| common.apply(&recorded.micros[index].change));
        let mut trees = Trees {
            modelled: self,
            barriers,
            common,
            withheld: Vec::new(),
            pending: Vec::new(),
            overwritten: overwritten(&recorded.micros),
        };
        trees.advance(recorded.begin + 1);
        trees
    }

    /// The tree that a program sees if no power is cut: what the directory holds at the end.
    pub fn whole(&self) -> Tree {
        let recorded = self.recorded();
        let mut tree = Tree::new(recorded.objects.clone());
        recorded.micros.iter().for_each(|micro| tree.apply(&micro.change));
        tree
    }
}

impl Trees<'_> {
    /// Goes on to the power cut right before the entry at this position. It does not go back.
    pub fn advance(&mut self, position: u64) {
        while self.barriers.peek().is_some_and(|sync| sync.answered < position) {
            let Some((sync, made)) = self.barriers.next() else { break };
            if !made.is_empty() {
                self.settle(sync.answered, made);
            }
        }
        self.pending = self.barriers.pending(position).collect();
    }

    /// What the power cut may take, in order.
    pub fn pending(&self) -> &[usize] {
        &self.pending
    }

    /// What it may not take.
    pub fn durable(&self) -> &Kept {
        self.barriers.durable()
    }

    /// The tree if these pending micro-operations reached the disk.
    pub fn tree(&self, is_kept: impl Fn(usize) -> bool) -> Tree {
        let micros = &self.modelled.recorded().micros;
        let kept = self.pending.iter().copied().filter(|&index| is_kept(index));
        let all: Kept = kept.chain(self.withheld.iter().copied()).collect();
        let mut tree = self.common.clone();
        for index in all.iter() {
            let mut later =
                std::iter::successors(self.overwritten[index], |&later| self.overwritten[later]);
            if !later.any(|later| all.contains(later)) {
                tree.apply(&micros[index].change);
            }
        }
        tree
    }

    /// Takes in what has become durable.
    fn settle(&mut self, position: u64, made: Vec<usize>) {
        let micros = &self.modelled.recorded().micros;
        self.withheld.extend(made);
        self.withheld.sort_unstable();
        let mut first: BTreeMap<ObjectId, usize> = BTreeMap::new();
        for index in self.barriers.pending(position) {
            if let Some(object) = content_of(&micros[index]) {
                first.entry(object).or_insert(index);
            }
        }
        let common = &mut self.common;
        self.withheld.retain(|&index| {
            let older = content_of(&micros[index]).and_then(|object| first.get(&object));
            let waits = older.is_some_and(|&older| older < index);
            if !waits {
                common.apply(&micros[index].change);
            }
            waits
        });
    }
}

/// The file whose content a micro-operation changes.
fn content_of(micro: &Micro) -> Option<ObjectId> {
    match &micro.change {
        Change::Attributes { .. } | Change::Attribute { .. } => None,
        change => change.object(),
    }
}

/// Of each write of a page the next one of that page, if it covers the same bytes.
fn overwritten(micros: &[Micro]) -> Vec<Option<usize>> {
    let mut next: BTreeMap<(ObjectId, u64), usize> = BTreeMap::new();
    let mut found = vec![None; micros.len()];
    for (index, micro) in micros.iter().enumerate().rev() {
        let Change::Page { object, at, data } = &micro.change else { continue };
        let later = next.insert((*object, at / PAGE), index);
        found[index] = later.filter(|&later| match &micros[later].change {
            Change::Page { at: from, data: over, .. } => {
                from <= at && at + data.len() as u64 <= from + over.len() as u64
            }
            _ => false,
        });
    }
    found
}
