//! Which object of the system is which object of the model.
//!
//! A pair is learned when both sides make an object, and must hold until it goes. A system may then
//! give the number to another object, but never with the same generation.

use crate::model::Model;
use seekless_fs::call::{Attr, Ino, ROOT};
use std::collections::{BTreeMap, BTreeSet};

/// Pairs of objects.
#[derive(Clone, Debug)]
pub(super) struct Matches {
    /// By the system's number: the model's, and the generation.
    theirs: BTreeMap<Ino, (Ino, u32)>,
    /// By the model's number: the system's.
    ours: BTreeMap<Ino, Ino>,
    /// Numbers and generations of objects that are gone.
    gone: BTreeSet<(Ino, u32)>,
}

impl Matches {
    pub fn new() -> Matches {
        let ours = BTreeMap::from([(ROOT, ROOT)]);
        Matches { theirs: BTreeMap::new(), ours, gone: BTreeSet::new() }
    }

    /// The system's number of an object of the model's.
    pub fn theirs(&self, ours: Ino) -> Option<Ino> {
        self.ours.get(&ours).copied()
    }

    /// Checks that both attributes are of one object, and learns the pair if it is new.
    pub fn check(&mut self, ours: &Attr, theirs: &Attr, model: &Model) -> Result<(), String> {
        let (number, generation) = (theirs.ino, theirs.generation);
        if let Some((known, before)) = self.theirs.get(&number).copied() {
            if known == ours.ino && before == generation {
                return Ok(());
            }
            if known == ours.ino {
                return Err(format!("inode {number} changes its generation"));
            }
            if model.node(known).is_some() {
                return Err(format!("inode {number} stands for two objects"));
            }
            self.theirs.remove(&number);
            self.ours.remove(&known);
            self.gone.insert((number, before));
        }
        if let Some(other) = self.ours.get(&ours.ino).filter(|other| **other != number) {
            return Err(format!("the object is inode {other}, and now {number}"));
        }
        if self.gone.contains(&(number, generation)) {
            return Err(format!("inode {number} is used again with generation {generation}"));
        }
        self.theirs.insert(number, (ours.ino, generation));
        self.ours.insert(ours.ino, number);
        Ok(())
    }
}
