//! Following the micro-operations in order, to know which earlier ones each needs.

use super::Need;
use super::ahead::Ahead;
use crate::model::micro::{Change, Micro, NameChange, ObjectId, PAGE, Recorded};
use crate::model::rules::{Model, Rule};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;

/// What is remembered of an object.
#[derive(Clone, Debug, Default)]
struct Past {
    /// The last attribute, or size that a call set.
    set: Option<u32>,
    /// Micro-operations of its content.
    content: Vec<u32>,
    /// The last size that a call set or a write brought.
    size: Option<u32>,
    /// The last change of each page.
    pages: BTreeMap<u64, u32>,
    /// Ranges that truncations and zeros have cut, by first and last byte, in order.
    cuts: Vec<Cut>,
}

/// A range that reads as zeros.
#[derive(Clone, Copy, Debug)]
struct Cut {
    from: u64,
    to: u64,
    micro: u32,
    /// A truncation: it cuts all that follows.
    is_truncation: bool,
}

/// The past of a micro-operation.
#[derive(Debug)]
pub(super) struct Follow {
    model: Model,
    directories: Vec<bool>,
    /// Index of the next one.
    next: u32,
    /// The last change of each directory entry.
    entries: BTreeMap<(ObjectId, Bytes), u32>,
    /// The last move of a directory to another one.
    moved: Option<u32>,
    /// The last change of metadata.
    metadata: Option<u32>,
    /// Metadata that a sync may write before earlier metadata.
    ahead: Ahead,
    /// The last change of metadata that no sync takes ahead, and those behind it. What a sync has
    /// made durable may be missing.
    unsynced: Vec<u32>,
    objects: Vec<Past>,
}

/// The needs of one micro-operation.
#[derive(Debug, Default)]
struct Needs(Vec<Need>);

impl Needs {
    fn add(&mut self, micros: impl IntoIterator<Item = u32>, rule: Rule) {
        for micro in micros {
            if !self.0.iter().any(|need| need.micro == micro) {
                self.0.push(Need { micro, rule });
            }
        }
    }
}

impl Follow {
    pub(super) fn new(model: Model, recorded: &Recorded, ahead: Ahead) -> Follow {
        Follow {
            model,
            directories: recorded.objects.iter().map(|object| object.is_directory()).collect(),
            next: 0,
            entries: BTreeMap::new(),
            moved: None,
            metadata: None,
            ahead,
            unsynced: Vec::new(),
            objects: vec![Past::default(); recorded.objects.len()],
        }
    }

    /// What the next micro-operation needs.
    pub(super) fn needs(&mut self, micro: &Micro) -> Vec<Need> {
        let mut needs = Needs::default();
        let ahead = &self.ahead;
        self.unsynced.retain(|&before| !ahead.is_durable(before, micro.asked));
        match &micro.change {
            Change::Names { sets, replacing } => self.names(sets, *replacing, &mut needs),
            Change::Page { object, at, data } => {
                self.page(*object, *at..*at + data.len() as u64, &mut needs);
            }
            Change::Zeros { object, from, to } => {
                let (from, to, micro) = (*from, *to, self.next);
                let past = &mut self.objects[*object as usize];
                if self.model.pages_are_whole && from / PAGE == (to - 1) / PAGE {
                    needs.add(past.pages.insert(from / PAGE, micro), Rule::PagesAreWhole);
                }
                past.cuts.retain(|cut| cut.is_truncation || cut.from < from || to < cut.to);
                past.cuts.push(Cut { from, to, micro, is_truncation: false });
                past.content.push(micro);
            }
            Change::Grow { object, to } => self.grow(*object, *to, &mut needs),
            Change::SetSize { object, from, to } => {
                self.set(*object, &mut needs);
                let micro = self.next;
                let past = &mut self.objects[*object as usize];
                past.content.push(micro);
                past.size = Some(micro);
                if to < from {
                    past.cuts.retain(|cut| cut.from < *to);
                    // The block of the page that is cut stays where it is.
                    let (from, to) = (to.next_multiple_of(PAGE), u64::MAX);
                    past.cuts.push(Cut { from, to, micro, is_truncation: true });
                }
            }
            Change::Attributes { object, .. } | Change::Attribute { object, .. } => {
                self.set(*object, &mut needs);
            }
        }
        self.next += 1;
        needs.0
    }

    fn names(&mut self, sets: &[NameChange], replacing: Option<ObjectId>, needs: &mut Needs) {
        for NameChange { directory, name, .. } in sets {
            let before = self.entries.insert((*directory, name.clone()), self.next);
            needs.add(before, Rule::OnePlace);
        }
        let is_directory =
            |set: &NameChange| set.object.is_some_and(|object| self.directories[object as usize]);
        let is_move = sets.iter().any(|set| set.directory != sets[0].directory);
        if is_move && sets.iter().any(is_directory) {
            needs.add(self.moved.replace(self.next), Rule::OnePlace);
        }
        self.metadata(needs);
        if let (Some(object), true) = (replacing, self.model.replace_needs_content) {
            let content = self.objects[object as usize].content.iter().copied();
            needs.add(content, Rule::ReplaceNeedsContent);
        }
        if let (Some(object), true) = (replacing, self.model.replace_needs_size) {
            needs.add(self.objects[object as usize].size, Rule::ReplaceNeedsSize);
        }
    }

    /// A change of metadata that comes in order.
    fn metadata(&mut self, needs: &mut Needs) {
        let before = self.metadata.replace(self.next);
        if self.model.metadata_in_order {
            needs.add(before, Rule::MetadataInOrder);
        }
        if self.model.unsynced_in_order {
            if !self.ahead.has(self.next) {
                needs.add(std::mem::take(&mut self.unsynced), Rule::UnsyncedInOrder);
            }
            self.unsynced.push(self.next);
        }
    }

    /// A call sets what the inode holds.
    fn set(&mut self, object: ObjectId, needs: &mut Needs) {
        let before = self.objects[object as usize].set.replace(self.next);
        needs.add(before, Rule::OnePlace);
        self.metadata(needs);
    }

    fn page(&mut self, object: ObjectId, range: Range<u64>, needs: &mut Needs) {
        let past = &mut self.objects[object as usize];
        let before = past.pages.insert(range.start / PAGE, self.next);
        if self.model.pages_are_whole {
            needs.add(before, Rule::PagesAreWhole);
        }
        if self.model.cut_before_new_bytes {
            let cuts = past.cuts.iter().filter(|cut| cut.from < range.end && range.start < cut.to);
            needs.add(cuts.map(|cut| cut.micro), Rule::CutBeforeNewBytes);
        }
        past.content.push(self.next);
    }

    fn grow(&mut self, object: ObjectId, to: u64, needs: &mut Needs) {
        let past = &mut self.objects[object as usize];
        needs.add(past.set, Rule::OnePlace);
        if self.model.size_needs_bytes {
            needs.add(past.pages.get(&((to - 1) / PAGE)).copied(), Rule::SizeNeedsBytes);
        }
        past.content.push(self.next);
        past.size = Some(self.next);
        if self.model.metadata_in_order {
            needs.add(self.metadata, Rule::MetadataInOrder);
        }
        if self.model.unsynced_in_order && !self.ahead.has(self.next) {
            needs.add(self.unsynced.iter().copied(), Rule::UnsyncedInOrder);
        }
    }
}
