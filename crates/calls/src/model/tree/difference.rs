//! How one tree is made from another one that lies in a directory.

use super::{Found, Tree};
use crate::model::micro::{Attributes, ObjectId};
use bytes::Bytes;
use seekless_fs::call::New;
use std::collections::BTreeMap;

/// A step on the way from one tree to another. Paths go from the top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A name goes, with all that was in it.
    Remove {
        /// Its path.
        path: Vec<u8>,
        /// It is an empty directory.
        is_directory: bool,
    },
    /// An object is made: a file is empty.
    Make {
        /// Its path.
        path: Vec<u8>,
        /// What it is.
        what: New,
    },
    /// A file gets another name.
    Link {
        /// The name that is there.
        to: Vec<u8>,
        /// The new one.
        path: Vec<u8>,
    },
    /// A file gets a size.
    SetSize {
        /// Its path.
        path: Vec<u8>,
        /// The size in bytes.
        size: u64,
    },
    /// Bytes of one page of a file; the rest of the page is zeros, up to the size.
    Page {
        /// Its path.
        path: Vec<u8>,
        /// First byte of the page.
        at: u64,
        /// What is not zeros at the end of the page.
        bytes: Bytes,
    },
    /// Attributes and extended attributes are these, and there are no others.
    Attributes {
        /// Of the object at this path; the empty one is the top.
        path: Vec<u8>,
        /// Those that are known.
        set: Attributes,
        /// Extended attributes by name.
        extended: Vec<(Bytes, Bytes)>,
    },
}

/// The steps from `from` to `to`, trees of one recording, in an order in which they can be done:
/// names go before names come, directories come before what is in them, attributes come last.
pub fn difference(from: &Tree, to: &Tree) -> Vec<Step> {
    let (before, after) = (from.found(), to.found());
    let (old, new) = (by_path(&before), by_path(&after));
    // A name stays if it names the same kind of object, and shares it with the same first name.
    let stays = |one: &Found, other: Option<&Found>| {
        other.is_some_and(|other| {
            let alike = from.objects[one.object as usize].what == to.object(other.object).what;
            alike && one.link_to == other.link_to
        })
    };
    let mut steps = Vec::new();
    for one in before.iter().rev().filter(|one| !stays(one, new.get(&one.path[..]).copied())) {
        let is_directory = from.object(one.object).is_directory();
        steps.push(Step::Remove { path: one.path.clone(), is_directory });
    }
    let mut attributes = Vec::new();
    attributes.extend(changed(from, Some(super::TOP), to, super::TOP, &[]));
    for one in &after {
        let there = old.get(&one.path[..]).filter(|there| stays(there, Some(one)));
        match (&one.link_to, there) {
            (Some(_), Some(_)) => {}
            (Some(first), None) => {
                steps.push(Step::Link { to: first.clone(), path: one.path.clone() });
            }
            (None, there) => {
                let object = there.map(|there| there.object);
                if object == Some(one.object) && from.shares(to, one.object) {
                    continue;
                }
                content(from, object, to, one, &mut steps);
                attributes.extend(changed(from, object, to, one.object, &one.path));
            }
        }
    }
    // Rights of directories may forbid what comes later in them.
    steps.extend(attributes.into_iter().rev());
    steps
}

fn by_path(found: &[Found]) -> BTreeMap<&[u8], &Found> {
    found.iter().map(|one| (&one.path[..], one)).collect()
}

/// Makes an object, or the difference of a file that is there.
fn content(from: &Tree, there: Option<ObjectId>, to: &Tree, one: &Found, steps: &mut Vec<Step>) {
    let (path, object) = (&one.path, one.object);
    let what = &to.object(object).what;
    if there.is_none() {
        steps.push(Step::Make { path: path.clone(), what: what.clone() });
    }
    if *what != New::File {
        return;
    }
    let size = to.size(object);
    if there.map_or(0, |there| from.size(there)) != size {
        steps.push(Step::SetSize { path: path.clone(), size });
    }
    let old = there.and_then(|there| from.held(there));
    let pages = match (old, to.held(object)) {
        (Some(old), Some(new)) => new.content.differing(&old.content),
        (Some(old), None) => super::Content::default().differing(&old.content),
        (None, _) => to.pages(object),
    };
    for (at, bytes) in pages.into_iter().filter(|(at, _)| *at < size) {
        steps.push(Step::Page { path: path.clone(), at, bytes });
    }
}

/// The attributes of an object, if they differ from those of what is there.
fn changed(
    from: &Tree,
    there: Option<ObjectId>,
    to: &Tree,
    object: ObjectId,
    path: &[u8],
) -> Option<Step> {
    let of = |tree: &Tree, object: ObjectId| {
        let extended = tree.extended(object).map(|(name, value)| (name.clone(), value.clone()));
        (tree.attributes(object), extended.collect::<Vec<_>>())
    };
    let (set, extended) = of(to, object);
    let same = there.is_some_and(|there| of(from, there) == (set, extended.clone()));
    (!same).then(|| Step::Attributes { path: path.to_vec(), set, extended })
}
