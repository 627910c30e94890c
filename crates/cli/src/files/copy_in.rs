//! Copies files and trees of the host into the file system.
//!
//! As `cp -a` does: content, holes, permissions, owners, times and hard links are kept.

use super::list::device;
use super::path::join;
use super::tally::Tally;
use super::{Files, Outcome, ToolError, error::shown};
use seekless_fs::call::{Attr, Errno, FileKind, Ino, New, Request, SetAttr};
use seekless_fs::system::Runs;
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Copies into the file system.
#[derive(Debug, Default)]
pub struct CopyIn {
    /// Copied files with several names: device and inode of the host, and the path of the copy.
    links: BTreeMap<(u64, u64), Vec<u8>>,
    /// What was copied and what was not.
    pub tally: Tally,
}

impl CopyIn {
    /// Copies a file or tree to a path; into it, under its own name, if that is a directory. The
    /// tally keeps the errors of files that cannot be read, made, or are of another kind on both
    /// sides.
    ///
    /// # Errors
    /// If the target cannot be found out, or nothing else could be copied.
    pub fn copy<R: Runs>(&mut self, files: &mut Files<R>, from: &Path, to: &[u8]) -> Outcome<()> {
        let mark = files.mark();
        let is_directory = |attr: &Attr| attr.kind == FileKind::Directory;
        let inside = files.try_resolve(to, true)?.filter(is_directory);
        let target = match (inside, from.canonicalize().ok().as_deref().and_then(Path::file_name)) {
            (Some(_), Some(name)) if from.file_name().is_some() || to.is_empty() => {
                join(to, from.file_name().unwrap_or(name).as_bytes())
            }
            _ => to.to_vec(),
        };
        let outcome = self.tree(files, from, target);
        files.forget_to(mark);
        outcome
    }

    fn tree<R: Runs>(&mut self, files: &mut Files<R>, from: &Path, to: Vec<u8>) -> Outcome<()> {
        let mut stack = vec![(from.to_owned(), to)];
        // Directories get their attributes when nothing changes them again.
        let mut finished = Vec::new();
        while let Some((from, to)) = stack.pop() {
            let mark = files.mark();
            let copied = self.object(files, &from, &to, &mut stack, &mut finished);
            files.forget_to(mark);
            self.tally.count(copied)?;
        }
        for (path, meta) in finished.iter().rev() {
            let mark = files.mark();
            let attr = files.resolve(path, true);
            let set = attr.and_then(|attr| files.set(path, attr.ino, attributes(meta, true)));
            files.forget_to(mark);
            self.tally.keep(set)?;
        }
        Ok(())
    }

    /// Copies one object; of a directory all but what is in it, which goes to the stack.
    fn object<R: Runs>(
        &mut self,
        files: &mut Files<R>,
        from: &Path,
        to: &[u8],
        stack: &mut Vec<(PathBuf, Vec<u8>)>,
        finished: &mut Vec<(Vec<u8>, Metadata)>,
    ) -> Outcome<()> {
        let meta = fs::symlink_metadata(from).map_err(ToolError::host(from))?;
        if !meta.is_dir() {
            return self.one(files, from, to, &meta);
        }
        directory(files, to)?;
        finished.push((to.to_vec(), meta));
        stack.extend(below(from, to)?);
        Ok(())
    }

    /// Copies what is no directory. A file that is there gets new content; anything else that is
    /// there and is no directory is replaced.
    fn one<R: Runs>(
        &mut self,
        files: &mut Files<R>,
        from: &Path,
        to: &[u8],
        meta: &Metadata,
    ) -> Outcome<()> {
        let key = (meta.dev(), meta.ino());
        let (dir, name) = files.place(to)?;
        let old = files.lookup(to, dir, name)?;
        if let Some(first) = self.links.get(&key).filter(|first| first.as_slice() != to) {
            return link(files, (dir, name), to, &first.clone());
        }
        let kind = meta.file_type();
        if kind.is_file() {
            let mut source = File::open(from).map_err(ToolError::host(from))?;
            let file = target_file(files, to, (dir, name), old)?;
            files.fill(to, &file, &mut source, ToolError::host(from))?;
            files.set(to, file.ino, attributes(meta, true))?;
        } else {
            let what = special(from, meta)?;
            clear(files, to, (dir, name), old)?;
            let made = files.make(to, (dir, name), what)?;
            files.set(to, made.ino, attributes(meta, !kind.is_symlink()))?;
        }
        if meta.nlink() > 1 {
            self.links.insert(key, to.to_vec());
        }
        Ok(())
    }
}

/// A directory at a path, made if it is missing.
fn directory<R: Runs>(files: &mut Files<R>, path: &[u8]) -> Outcome<()> {
    if let Some(found) = files.try_resolve(path, true)? {
        let fine = found.kind == FileKind::Directory;
        return if fine { Ok(()) } else { Err(ToolError::Kinds(format!(":{}", shown(path)))) };
    }
    let place = files.place(path)?;
    files.directory(path, place).map(drop)
}

fn below(from: &Path, to: &[u8]) -> Outcome<Vec<(PathBuf, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(from).map_err(ToolError::host(from))? {
        let entry = entry.map_err(ToolError::host(from))?;
        found.push((entry.path(), join(to, entry.file_name().as_bytes())));
    }
    // The order of the host's directory is none that could be repeated.
    found.sort_unstable();
    found.reverse();
    Ok(found)
}

/// The file to be filled: the one that is there, or a new one.
pub(super) fn target_file<R: Runs>(
    files: &mut Files<R>,
    path: &[u8],
    place: (Ino, &[u8]),
    old: Option<Attr>,
) -> Outcome<Attr> {
    match old {
        Some(attr) if attr.kind == FileKind::File => Ok(attr),
        old => {
            clear(files, path, place, old)?;
            files.make(path, place, New::File)
        }
    }
}

/// Removes what stands where something else is to be made; never a directory.
pub(super) fn clear<R: Runs>(
    files: &mut Files<R>,
    path: &[u8],
    (dir, name): (Ino, &[u8]),
    old: Option<Attr>,
) -> Outcome<()> {
    match old.map(|attr| attr.kind) {
        None => Ok(()),
        Some(FileKind::Directory) => Err(ToolError::Kinds(format!(":{}", shown(path)))),
        Some(_) => files.call(path, Request::Unlink { dir, name: name.to_vec().into() }).map(drop),
    }
}

/// Gives the object at `first` another name.
pub(super) fn link<R: Runs>(
    files: &mut Files<R>,
    (dir, name): (Ino, &[u8]),
    path: &[u8],
    first: &[u8],
) -> Outcome<()> {
    let target = files.resolve(first, false)?;
    let old = files.lookup(path, dir, name)?;
    if old.is_some_and(|old| old.ino == target.ino) {
        return Ok(());
    }
    clear(files, path, (dir, name), old)?;
    let request = Request::Link { ino: target.ino, dir, name: name.to_vec().into() };
    files.call(path, request).map(drop)
}

fn special(from: &Path, meta: &Metadata) -> Outcome<New> {
    let kind = meta.file_type();
    let number = rustix::fs::major(meta.rdev()) as u32;
    let number = device(number, rustix::fs::minor(meta.rdev()) as u32);
    Ok(match () {
        () if kind.is_symlink() => {
            let text = fs::read_link(from).map_err(ToolError::host(from))?;
            New::Symlink(text.into_os_string().into_vec().into())
        }
        () if kind.is_fifo() => New::Fifo,
        () if kind.is_socket() => New::Socket,
        () if kind.is_char_device() => New::CharDevice(number),
        () if kind.is_block_device() => New::BlockDevice(number),
        () => return Err(ToolError::of(from.as_os_str().as_bytes(), Errno::NotSup)),
    })
}

/// Attributes of a file of the host; those of a symbolic link have no permissions.
fn attributes(meta: &Metadata, with_mode: bool) -> SetAttr {
    let time = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000) + nanos;
    SetAttr {
        mode: with_mode.then_some((meta.mode() & 0o7777) as u16),
        uid: Some(meta.uid()),
        gid: Some(meta.gid()),
        size: None,
        atime: Some(time(meta.atime(), meta.atime_nsec())),
        mtime: Some(time(meta.mtime(), meta.mtime_nsec())),
        handle: None,
    }
}

/// Checks that a path is a directory, as several sources need one.
///
/// # Errors
/// If it is none.
pub fn need_directory<R: Runs>(files: &mut Files<R>, path: &[u8]) -> Outcome<()> {
    let mark = files.mark();
    let found = files.resolve(path, true);
    files.forget_to(mark);
    match found?.kind {
        FileKind::Directory => Ok(()),
        _ => Err(ToolError::of(path, Errno::NotDir)),
    }
}
