//! Which earlier micro-operations are on the disk if a later one is.
//!
//! Needs name earlier micro-operations only, and direct ones: the rest follows. So closing a set
//! takes one pass, and a recording of many small writes has few needs each.

mod ahead;
mod follow;

use super::kept::Kept;
use super::micro::Recorded;
use super::rules::{Model, Rule};
use ahead::Ahead;
use follow::Follow;
use std::sync::Arc;

/// An earlier micro-operation that a later one needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// Its index.
    pub micro: u32,
    /// The rule that says so; the first one if several do.
    pub rule: Rule,
}

/// A recording under a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modelled {
    recorded: Arc<Recorded>,
    model: Model,
    /// One list a micro-operation.
    needs: Vec<Vec<Need>>,
}

impl Modelled {
    /// Applies the rules of a model.
    pub fn new(recorded: Arc<Recorded>, model: Model) -> Modelled {
        let ahead = match model.unsynced_in_order {
            true => {
                let mut follow = Follow::new(Model::POSIX, &recorded, Ahead::default());
                let needs: Vec<_> =
                    recorded.micros.iter().map(|micro| follow.needs(micro)).collect();
                Ahead::of(model, &recorded, &needs)
            }
            false => Ahead::default(),
        };
        let mut follow = Follow::new(model, &recorded, ahead);
        let needs = recorded.micros.iter().map(|micro| follow.needs(micro)).collect();
        Modelled { recorded, model, needs }
    }

    /// What the model is applied to.
    pub fn recorded(&self) -> &Arc<Recorded> {
        &self.recorded
    }

    /// The model.
    pub fn model(&self) -> Model {
        self.model
    }

    /// What a micro-operation needs directly, in order of rules.
    pub fn needs(&self, micro: usize) -> &[Need] {
        &self.needs[micro]
    }

    /// Adds micro-operations to a set, and what they need.
    pub fn add(&self, set: &mut Kept, micros: impl IntoIterator<Item = usize>) {
        let mut left: Vec<usize> = micros.into_iter().collect();
        while let Some(micro) = left.pop() {
            if set.insert(micro) {
                left.extend(self.needs[micro].iter().map(|need| need.micro as usize));
            }
        }
    }

    /// True if a set has what its members need: a power cut that finds these durable or written
    /// back may leave it.
    pub fn is_closed(&self, set: &Kept) -> bool {
        set.iter().all(|micro| self.missing(micro, set).is_none())
    }

    /// What a micro-operation needs that a set lacks.
    pub fn missing(&self, micro: usize, set: &Kept) -> Option<Need> {
        self.needs[micro].iter().copied().find(|need| !set.contains(need.micro as usize))
    }
}
