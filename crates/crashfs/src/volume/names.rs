//! Operations on names.

use super::path::Place;
use super::{Body, Inode, State, TOP, fail, ino};
use bytes::Bytes;
use seekless_fs::call::{Errno, New, RenameHow, Request};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `EBUSY`: the top can neither go nor move.
const BUSY: i32 = 16;

/// How a file is opened that may not be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    pub(crate) write: bool,
    pub(crate) truncate: bool,
    pub(crate) create: bool,
    /// Only if it is not there.
    pub(crate) exclusive: bool,
    /// Permission bits of a new file.
    pub(crate) mode: u16,
}

impl State {
    /// The entries of a directory.
    pub(super) fn names(&self, index: usize) -> io::Result<&BTreeMap<Bytes, usize>> {
        match &self.inodes[index].body {
            Body::Directory(names) => Ok(names),
            Body::File(_) => Err(fail(Errno::NotDir)),
        }
    }

    fn is_directory(&self, index: usize) -> bool {
        matches!(self.inodes[index].body, Body::Directory(_))
    }

    /// The names in a directory in order, each with its object.
    pub(crate) fn list(&self, index: usize) -> io::Result<Vec<(Bytes, usize)>> {
        let names = self.names(index)?;
        Ok(names.iter().map(|(name, object)| (name.clone(), *object)).collect())
    }

    /// Gives a name to an object, or takes it away.
    pub(super) fn set_name(&mut self, directory: usize, name: &Bytes, object: Option<usize>) {
        self.touch(directory);
        let Body::Directory(names) = &mut self.inodes[directory].body else { return };
        let before = match object {
            Some(object) => names.insert(name.clone(), object),
            None => names.remove(name),
        };
        if let Some(before) = before {
            self.inodes[before].links -= 1;
        }
        if let Some(object) = object {
            self.inodes[object].links += 1;
        }
    }

    /// A new object without a name.
    pub(super) fn add(&mut self, what: &New, mode: u16) -> usize {
        let body = match what {
            New::Directory => Body::Directory(BTreeMap::new()),
            _ => Body::File(Vec::new()),
        };
        self.clock += 1;
        self.inodes.push(Inode { mode, links: 0, modified: self.clock, body });
        self.inodes.len() - 1
    }

    fn make(&mut self, place: &Place, what: New, mode: u16) -> io::Result<usize> {
        let name = place.name().ok_or_else(|| fail(Errno::Exist))?.clone();
        let directory = place.directory();
        let object = self.add(&what, mode);
        self.set_name(directory, &name, Some(object));
        let dir = ino(directory);
        if let Some(record) = &mut self.record {
            record.made(Request::Make { dir, name, what, mode, open: false }, ino(object));
        }
        Ok(object)
    }

    /// Opens a file or directory.
    pub(crate) fn open(&mut self, path: &Path, how: &Opening) -> io::Result<usize> {
        let place = self.place(path)?;
        let Some(object) = place.object() else {
            return match how.create || how.exclusive {
                true if place.wants_directory() => Err(fail(Errno::IsDir)),
                true => self.make(&place, New::File, how.mode),
                false => Err(fail(Errno::NoEnt)),
            };
        };
        if how.exclusive {
            return Err(fail(Errno::Exist));
        }
        if self.is_directory(object) && (how.write || how.create) {
            return Err(fail(Errno::IsDir));
        }
        if how.truncate {
            self.set_size(object, 0)?;
        }
        Ok(object)
    }

    /// Makes a directory.
    pub(crate) fn make_directory(&mut self, path: &Path) -> io::Result<()> {
        let place = self.place(path)?;
        match place.object() {
            Some(_) => Err(fail(Errno::Exist)),
            None => self.make(&place, New::Directory, 0o755).map(drop),
        }
    }

    /// Removes a name of a file.
    pub(crate) fn unlink(&mut self, path: &Path) -> io::Result<()> {
        let place = self.place(path)?;
        let object = place.object().ok_or_else(|| fail(Errno::NoEnt))?;
        match place.name() {
            Some(name) if !self.is_directory(object) => {
                let (directory, name) = (place.directory(), name.clone());
                self.set_name(directory, &name, None);
                self.done(Request::Unlink { dir: ino(directory), name });
                Ok(())
            }
            _ => Err(fail(Errno::IsDir)),
        }
    }

    /// Removes an empty directory.
    pub(crate) fn remove_directory(&mut self, path: &Path) -> io::Result<()> {
        let place = self.place(path)?;
        let object = place.object().ok_or_else(|| fail(Errno::NoEnt))?;
        let is_empty = self.names(object)?.is_empty();
        let Some(name) = place.name().cloned() else { return Err(nameless(path, object)) };
        if !is_empty {
            return Err(fail(Errno::NotEmpty));
        }
        let directory = place.directory();
        self.set_name(directory, &name, None);
        self.done(Request::RmDir { dir: ino(directory), name });
        Ok(())
    }

    /// Gives a file another name.
    pub(crate) fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let object = self.find(from)?;
        let place = self.place(to)?;
        let (Some(name), None) = (place.name().cloned(), place.object()) else {
            return Err(fail(Errno::Exist));
        };
        if place.wants_directory() {
            return Err(fail(Errno::NoEnt));
        }
        if self.is_directory(object) {
            return Err(fail(Errno::Perm));
        }
        let directory = place.directory();
        self.set_name(directory, &name, Some(object));
        let request = Request::Link { ino: ino(object), dir: ino(directory), name };
        if let Some(record) = &mut self.record {
            record.made(request, ino(object));
        }
        Ok(())
    }

    /// Renames a file or directory; what has the new name goes.
    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.place(from)?, self.place(to)?);
        let (Some(name), Some(to_name)) = (from.name().cloned(), to.name().cloned()) else {
            return Err(io::Error::from_raw_os_error(BUSY));
        };
        let object = from.object().ok_or_else(|| fail(Errno::NoEnt))?;
        if self.may_rename(object, &from, &to)? {
            let (dir, to_dir) = (from.directory(), to.directory());
            self.set_name(to_dir, &to_name, Some(object));
            self.set_name(dir, &name, None);
            let (dir, to_dir, how) = (ino(dir), ino(to_dir), RenameHow::Replace);
            self.done(Request::Rename { dir, name, to_dir, to_name, how });
        }
        Ok(())
    }

    /// False if both names are of one file: then nothing changes.
    fn may_rename(&self, object: usize, from: &Place, to: &Place) -> io::Result<bool> {
        let is_directory = self.is_directory(object);
        if to.directories.contains(&object) {
            return Err(fail(Errno::Inval));
        }
        let Some(target) = to.object() else {
            return match to.wants_directory() && !is_directory {
                true => Err(fail(Errno::NotDir)),
                false => Ok(true),
            };
        };
        if from.directories.contains(&target) {
            return Err(fail(Errno::NotEmpty));
        }
        match (is_directory, self.names(target)) {
            _ if object == target => Ok(false),
            (true, Err(not_a_directory)) => Err(not_a_directory),
            (true, Ok(names)) if !names.is_empty() => Err(fail(Errno::NotEmpty)),
            (false, Ok(_)) => Err(fail(Errno::IsDir)),
            _ => Ok(true),
        }
    }
}

/// The error of removing a directory by a path whose end is no name.
fn nameless(path: &Path, object: usize) -> io::Error {
    let mut parts = path.as_os_str().as_bytes().rsplit(|&byte| byte == b'/');
    match parts.find(|part| !part.is_empty()) {
        _ if object == TOP => io::Error::from_raw_os_error(BUSY),
        Some(b"..") => fail(Errno::NotEmpty),
        _ => fail(Errno::Inval),
    }
}
