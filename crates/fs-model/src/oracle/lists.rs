//! What lists of a directory must bring while its names change.
//!
//! A name that exists from the first piece to the last comes exactly once. Others may come or not,
//! but an entry that comes is one that exists at that moment.

use super::matches::Matches;
use crate::model::Model;
use bytes::Bytes;
use seekless_fs::call::{Call, DirEntry, FileKind, Ino, Request};
use std::collections::{BTreeMap, BTreeSet};

/// Lists that are under way, by the id of the handle.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    cursors: BTreeMap<u64, Cursor>,
}

#[derive(Clone, Debug)]
struct Cursor {
    dir: Ino,
    /// Names that have existed all the time, and whether they came.
    required: BTreeMap<Bytes, bool>,
    /// The last piece had no entries.
    ended: bool,
}

impl Lists {
    /// A list begins or goes on; the id of its handle, and the directory.
    pub fn begin(&mut self, handle: u64, from_start: bool, dir: Ino, model: &Model) {
        if from_start || !self.cursors.contains_key(&handle) {
            let entries = model.node(dir).and_then(|node| node.entries());
            let names = entries.into_iter().flat_map(|entries| entries.iter());
            let required = names.map(|(name, _)| (name.clone(), false)).collect();
            self.cursors.insert(handle, Cursor { dir, required, ended: false });
        }
    }

    /// Names of this call do not stay throughout the lists of their directories.
    pub fn names_change(&mut self, call: &Call) {
        let mut gone = |dir: &Ino, name: &Bytes| {
            let of_dir = self.cursors.values_mut().filter(|cursor| cursor.dir == *dir);
            of_dir.for_each(|cursor| cursor.required.retain(|required, _| required != name));
        };
        match &call.request {
            Request::Unlink { dir, name } | Request::RmDir { dir, name } => gone(dir, name),
            Request::Rename { dir, name, to_dir, to_name, .. } => {
                gone(dir, name);
                gone(to_dir, to_name);
            }
            _ => {}
        }
    }

    /// True if the last piece of a list was its end.
    pub fn has_ended(&self, handle: u64) -> bool {
        self.cursors.get(&handle).is_some_and(|cursor| cursor.ended)
    }

    /// The handle is closed.
    pub fn end(&mut self, handle: u64) {
        self.cursors.remove(&handle);
    }

    /// Checks a piece of a list.
    pub fn check(
        &mut self,
        handle: u64,
        entries: &[DirEntry],
        model: &Model,
        matches: &Matches,
    ) -> Result<(), String> {
        let Some(cursor) = self.cursors.get_mut(&handle) else { return Ok(()) };
        cursor.ended = entries.is_empty();
        let mut cookies = BTreeSet::new();
        for entry in entries {
            if !cookies.insert(entry.cookie) || entry.cookie == 0 {
                let (cookie, name) = (entry.cookie, String::from_utf8_lossy(&entry.name));
                return Err(format!("the cookie {cookie} of `{name}` is no place"));
            }
            cursor.entry(entry, model, matches)?;
        }
        let missing = cursor.required.iter().find(|(_, seen)| !**seen);
        match missing.filter(|_| entries.is_empty()) {
            Some((name, _)) => {
                Err(format!("the list ends without `{}`", String::from_utf8_lossy(name)))
            }
            None => Ok(()),
        }
    }
}

impl Cursor {
    fn entry(&mut self, entry: &DirEntry, model: &Model, matches: &Matches) -> Result<(), String> {
        let shown = String::from_utf8_lossy(&entry.name);
        if [&b"."[..], b".."].contains(&&entry.name[..]) {
            let kind = entry.kind;
            let fine = kind == FileKind::Directory;
            return if fine { Ok(()) } else { Err(format!("`{shown}` is listed as {kind:?}")) };
        }
        let names = model.node(self.dir).and_then(|node| node.entries());
        let Some(ours) = names.and_then(|names| names.get(&entry.name)) else {
            return Err(format!("the list has `{shown}`, which does not exist"));
        };
        let kind = model.node(ours).map(|node| node.kind());
        if kind != Some(entry.kind) {
            return Err(format!("`{shown}` is listed as {:?}, it is {kind:?}", entry.kind));
        }
        if matches.theirs(ours).is_some_and(|theirs| theirs != entry.ino) {
            return Err(format!("`{shown}` is listed as inode {}, of another", entry.ino));
        }
        match self.required.get_mut(&entry.name).map(|seen| std::mem::replace(seen, true)) {
            Some(true) => Err(format!("the list has `{shown}` twice")),
            _ => Ok(()),
        }
    }
}
