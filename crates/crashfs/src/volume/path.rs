//! From paths to objects. The working directory is the top.

use super::{Body, State, TOP, fail};
use bytes::Bytes;
use seekless_fs::call::{Errno, MOST_NAME};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where a path leads.
#[derive(Debug)]
pub(super) struct Place {
    /// The directories from the top to that of the last name.
    pub(super) directories: Vec<usize>,
    /// Their names; the top has none.
    names: Vec<Bytes>,
    /// The last name with what it names; `None` if the path ends with the last directory itself.
    last: Option<(Bytes, Option<usize>)>,
    /// The path ends with a slash.
    is_directory: bool,
}

impl Place {
    /// The directory of the last name.
    pub(super) fn directory(&self) -> usize {
        self.directories.last().copied().unwrap_or(TOP)
    }

    /// The last name; `None` for the top, and for paths that end with a dot.
    pub(super) fn name(&self) -> Option<&Bytes> {
        self.last.as_ref().map(|(name, _)| name)
    }

    /// The object.
    pub(super) fn object(&self) -> Option<usize> {
        match &self.last {
            Some((_, object)) => *object,
            None => Some(self.directory()),
        }
    }

    /// A slash at the end asks for a directory.
    pub(super) fn wants_directory(&self) -> bool {
        self.is_directory
    }

    /// The path from the top without dots.
    fn whole(&self) -> PathBuf {
        let mut path = PathBuf::from("/");
        let names = self.names.iter().chain(self.name());
        names.for_each(|name| path.push(OsStr::from_bytes(name)));
        path
    }
}

impl State {
    /// Follows a path. The last name need not be there.
    pub(super) fn place(&self, path: &Path) -> io::Result<Place> {
        let bytes = path.as_os_str().as_bytes();
        if bytes.is_empty() {
            return Err(fail(Errno::NoEnt));
        }
        if bytes.contains(&0) {
            let text = "the path contains a zero byte";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let (directories, names) = (vec![TOP], Vec::new());
        let is_directory = bytes.ends_with(b"/");
        let mut place = Place { directories, names, last: None, is_directory };
        for part in bytes.split(|&byte| byte == b'/').filter(|part| !part.is_empty()) {
            self.descend(&mut place)?;
            match part {
                b"." => {}
                b".." if place.directories.len() > 1 => {
                    place.directories.pop();
                    place.names.pop();
                }
                b".." => {}
                name if name.len() > MOST_NAME => return Err(fail(Errno::NameTooLong)),
                name => {
                    let object = self.names(place.directory())?.get(name).copied();
                    place.last = Some((Bytes::copy_from_slice(name), object));
                }
            }
        }
        let is_file = |object: usize| matches!(self.inodes[object].body, Body::File(_));
        if is_directory && place.object().is_some_and(is_file) {
            return Err(fail(Errno::NotDir));
        }
        Ok(place)
    }

    /// Goes into the last name, which is followed by another one.
    fn descend(&self, place: &mut Place) -> io::Result<()> {
        let Some((name, object)) = place.last.take() else { return Ok(()) };
        let object = object.ok_or_else(|| fail(Errno::NoEnt))?;
        self.names(object)?;
        place.directories.push(object);
        place.names.push(name);
        Ok(())
    }

    /// The object of a path.
    pub(crate) fn find(&self, path: &Path) -> io::Result<usize> {
        self.place(path)?.object().ok_or_else(|| fail(Errno::NoEnt))
    }

    /// The path of an object from the top, without dots.
    pub(crate) fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        let place = self.place(path)?;
        place.object().map(|_| place.whole()).ok_or_else(|| fail(Errno::NoEnt))
    }
}
