//! Trees that come into the directory of a run: the one at the start, and those renamed into it.

use crate::content::open_for_reading;
use crate::pending::{xattr, xattrs};
use crate::record::Record;
use crate::stat::Stat;
use bytes::Bytes;
use seekless_fs::call::{FileKind, Ino, SetAttr};
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

impl Record {
    /// Records the directory of a run, and what is in it at the start. If `stop` becomes true, the
    /// rest is left out.
    ///
    /// # Errors
    /// What cannot be read, and why.
    pub(crate) fn root(
        &mut self,
        path: &Path,
        stop: &AtomicBool,
    ) -> Result<(), (PathBuf, io::Error)> {
        let stat = Stat::of_path(path, true).map_err(|error| (path.to_owned(), error))?;
        if stat.kind != FileKind::Directory {
            return Err((path.to_owned(), io::ErrorKind::NotADirectory.into()));
        }
        let ino = self.objects.add(&stat);
        let set = SetAttr {
            mode: Some(stat.mode),
            uid: Some(stat.uid),
            gid: Some(stat.gid),
            ..SetAttr::default()
        };
        self.set(ino, set, 0);
        self.attributes_of(ino, path).map_err(|error| (path.to_owned(), error))?;
        self.below(ino, path, stop)
    }

    /// Records an object that has come to be at a name, and all below it.
    ///
    /// # Errors
    /// What cannot be read, and why. What a program removed meanwhile is no error.
    pub(crate) fn arrival(
        &mut self,
        dir: Ino,
        name: Bytes,
        path: &Path,
    ) -> Result<(), (PathBuf, io::Error)> {
        match self.object(dir, name, path) {
            Ok(Some(ino)) => self.below(ino, path, &AtomicBool::new(false)),
            Ok(None) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err((path.to_owned(), error)),
        }
    }

    fn below(
        &mut self,
        dir: Ino,
        path: &Path,
        stop: &AtomicBool,
    ) -> Result<(), (PathBuf, io::Error)> {
        // Directories whose entries are still to be recorded.
        let mut rest = vec![(dir, path.to_owned())];
        while let Some((dir, path)) = rest.pop() {
            let names = names(&path).map_err(|error| (path.clone(), error))?;
            for name in names {
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let path = path.join(OsStr::from_bytes(&name));
                match self.object(dir, Bytes::from(name), &path) {
                    Ok(Some(ino)) => rest.push((ino, path)),
                    Ok(None) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err((path, error)),
                }
            }
        }
        Ok(())
    }

    /// Records one object; its number if it is a directory.
    fn object(&mut self, dir: Ino, name: Bytes, path: &Path) -> io::Result<Option<Ino>> {
        let stat = Stat::of_path(path, false)?;
        let is_dir = stat.kind == FileKind::Directory;
        let known =
            self.objects.of(&stat).and_then(|ino| Some((ino, self.objects.get(ino)?.links)));
        if let Some((ino, 1..)) = known.filter(|_| !is_dir) {
            self.link(ino, dir, name, stat.size);
            return Ok(None);
        }
        let text = match stat.kind {
            FileKind::Symlink => Bytes::from(std::fs::read_link(path)?.into_os_string().into_vec()),
            _ => Bytes::new(),
        };
        // Open before the record knows of it, so that a failure leaves no half.
        let file = (stat.kind == FileKind::File && stat.size > 0).then(|| open_for_reading(path));
        let file = file.transpose()?;
        let ino = self.make(dir, name, &stat, text);
        if let Some(file) = file {
            self.content(ino, file.as_raw_fd())?;
        }
        self.attributes_of(ino, path)?;
        if stat.kind == FileKind::File {
            let (atime, mtime) = (Some(stat.atime), Some(stat.mtime));
            self.set(ino, SetAttr { atime, mtime, ..SetAttr::default() }, stat.size);
        }
        Ok(is_dir.then_some(ino))
    }

    /// Records extended attributes; file systems without them have none.
    fn attributes_of(&mut self, ino: Ino, path: &Path) -> io::Result<()> {
        for name in xattrs(path, false).unwrap_or_default() {
            // Rights of a class that this user may not read are no concern of its programs.
            if let Ok(value) = xattr(path, false, &name) {
                self.xattr(ino, Bytes::from(name), Some(Bytes::from(value)));
            }
        }
        Ok(())
    }
}

/// Names in a directory, in their order.
pub(crate) fn names(path: &Path) -> io::Result<Vec<Vec<u8>>> {
    let entries = std::fs::read_dir(path)?;
    let mut names = entries
        .map(|entry| Ok(entry?.file_name().into_vec()))
        .collect::<io::Result<Vec<Vec<u8>>>>()?;
    names.sort();
    Ok(names)
}
