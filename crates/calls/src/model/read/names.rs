//! Calls that change names.

use super::{Reader, Unmodelled};
use crate::model::micro::{Change, NameChange, Object, ObjectId};
use bytes::Bytes;
use seekless_fs::call::{Ino, New, RenameHow};

/// What a name error says.
const ABSENT: &str = "is not there";
const PRESENT: &str = "is there already";

impl Reader {
    pub(super) fn make(
        &mut self,
        dir: Ino,
        name: &Bytes,
        object: Object,
    ) -> Result<(), Unmodelled> {
        let directory = self.directory(dir)?;
        if self.seen[directory as usize].names.contains_key(name) {
            return Err(self.bad_name(name, PRESENT));
        }
        let word = match &object.what {
            New::File => "create",
            New::Directory => "mkdir",
            New::Symlink(_) => "symlink",
            _ => "mknod",
        };
        let size = match &object.what {
            New::Symlink(text) => text.len() as u64,
            _ => 0,
        };
        let id = self.add(object);
        self.seen[id as usize].size = size;
        self.given.extend(self.call.map(|call| (call, id)));
        self.set(directory, name, Some(id));
        let said = format!("{word}({:?})", self.path(id));
        self.rename_to(&said, vec![one(directory, name, Some(id))], None);
        Ok(())
    }

    pub(super) fn link(&mut self, ino: Ino, dir: Ino, name: &Bytes) -> Result<(), Unmodelled> {
        let (object, directory) = (self.object(ino)?, self.directory(dir)?);
        if self.objects[object as usize].is_directory() {
            return Err(self.bad_kind(ino, "object that is no directory"));
        }
        if self.seen[directory as usize].names.contains_key(name) {
            return Err(self.bad_name(name, PRESENT));
        }
        let before = self.path(object);
        self.set(directory, name, Some(object));
        let said = format!("link({before:?}, {:?})", self.path(object));
        self.rename_to(&said, vec![one(directory, name, Some(object))], None);
        Ok(())
    }

    pub(super) fn unlink(&mut self, dir: Ino, name: &Bytes) -> Result<(), Unmodelled> {
        let directory = self.directory(dir)?;
        if !self.seen[directory as usize].names.contains_key(name) {
            return Err(self.bad_name(name, ABSENT));
        }
        let said = format!("{}({:?})", self.word, self.path_in(directory, name));
        self.set(directory, name, None);
        self.rename_to(&said, vec![one(directory, name, None)], None);
        Ok(())
    }

    pub(super) fn rename(
        &mut self,
        (dir, name): (Ino, &Bytes),
        (to_dir, to_name): (Ino, &Bytes),
        how: RenameHow,
    ) -> Result<(), Unmodelled> {
        let (from, to) = (self.directory(dir)?, self.directory(to_dir)?);
        let Some(&object) = self.seen[from as usize].names.get(name) else {
            return Err(self.bad_name(name, ABSENT));
        };
        let target = self.seen[to as usize].names.get(to_name).copied();
        let other = match (how, target) {
            (RenameHow::Exchange, None) => return Err(self.bad_name(to_name, ABSENT)),
            (RenameHow::NoReplace, Some(_)) => return Err(self.bad_name(to_name, PRESENT)),
            (RenameHow::Exchange, other) => other,
            _ => None,
        };
        // Two names of one file: `rename` leaves both.
        if target == Some(object) {
            return Ok(());
        }
        let [before, after] = [self.path_in(from, name), self.path_in(to, to_name)];
        let word = if other.is_some() { "exchange" } else { "rename" };
        self.set(from, name, other);
        self.set(to, to_name, Some(object));
        let is_file = self.objects[object as usize].what == New::File;
        let replacing = target.filter(|_| other.is_none() && is_file).map(|_| object);
        let sets = vec![one(from, name, other), one(to, to_name, Some(object))];
        self.rename_to(&format!("{word}({before:?}, {after:?})"), sets, replacing);
        Ok(())
    }

    fn rename_to(&mut self, said: &str, sets: Vec<NameChange>, replacing: Option<ObjectId>) {
        self.push(&said.into(), Change::Names { sets, replacing });
    }

    /// What the program sees from now on.
    fn set(&mut self, directory: ObjectId, name: &Bytes, object: Option<ObjectId>) {
        let names = &mut self.seen[directory as usize].names;
        match object {
            Some(object) => {
                names.insert(name.clone(), object);
                self.seen[object as usize].place = Some((directory, name.clone()));
            }
            None => drop(names.remove(name)),
        }
    }

    fn directory(&self, ino: Ino) -> Result<ObjectId, Unmodelled> {
        self.wanted(self.object(ino)?, &New::Directory)
    }

    fn path_in(&self, directory: ObjectId, name: &[u8]) -> String {
        let name = String::from_utf8_lossy(name);
        match self.path(directory).as_str() {
            "." => name.into_owned(),
            path => format!("{path}/{name}"),
        }
    }

    fn bad_name(&self, name: &[u8], what: &'static str) -> Unmodelled {
        let name = String::from_utf8_lossy(name).into_owned();
        Unmodelled::Name { entry: self.now, word: self.word, name, what }
    }
}

fn one(directory: ObjectId, name: &Bytes, object: Option<ObjectId>) -> NameChange {
    NameChange { directory, name: name.clone(), object }
}
