//! The names of `std::fs`, on the disk of the thread.
//!
//! Signatures and errors are those of `std::fs` on Linux. The methods of the traits `FileExt`,
//! `OpenOptionsExt`, `PermissionsExt` and `MetadataExt` of `std::os::unix::fs` that make sense in
//! memory are inherent ones. The working directory is the top. Rights are not
//! checked, files have at most 1 GiB, and there are no symbolic links. Entries of a directory come
//! in the order of their names.
//!
//! # Panics
//! Every function that takes a path panics if the thread has no disk.

mod dir;
mod file;
mod metadata;
mod options;

pub use dir::{DirEntry, ReadDir};
pub use file::File;
pub use metadata::{FileType, Metadata, Permissions};
pub use options::OpenOptions;

use crate::disk::current;
use crate::volume::fail;
use seekless_fs::call::Errno;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// See [`std::fs::read`].
///
/// # Errors
/// As `std::fs` has them.
pub fn read<P: AsRef<Path>>(path: P) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// See [`std::fs::read_to_string`].
///
/// # Errors
/// As `std::fs` has them.
pub fn read_to_string<P: AsRef<Path>>(path: P) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// See [`std::fs::write`].
///
/// # Errors
/// As `std::fs` has them.
pub fn write<P: AsRef<Path>, C: AsRef<[u8]>>(path: P, contents: C) -> io::Result<()> {
    File::create(path)?.write_all(contents.as_ref())
}

/// See [`std::fs::rename`].
///
/// # Errors
/// As `std::fs` has them.
pub fn rename<P: AsRef<Path>, Q: AsRef<Path>>(from: P, to: Q) -> io::Result<()> {
    current().lock().rename(from.as_ref(), to.as_ref())
}

/// See [`std::fs::remove_file`].
///
/// # Errors
/// As `std::fs` has them.
pub fn remove_file<P: AsRef<Path>>(path: P) -> io::Result<()> {
    current().lock().unlink(path.as_ref())
}

/// See [`std::fs::hard_link`].
///
/// # Errors
/// As `std::fs` has them.
pub fn hard_link<P: AsRef<Path>, Q: AsRef<Path>>(original: P, link: Q) -> io::Result<()> {
    current().lock().link(original.as_ref(), link.as_ref())
}

/// See [`std::fs::copy`].
///
/// # Errors
/// As `std::fs` has them.
pub fn copy<P: AsRef<Path>, Q: AsRef<Path>>(from: P, to: Q) -> io::Result<u64> {
    let mut reader = File::open(from)?;
    let metadata = reader.metadata()?;
    if !metadata.is_file() {
        let text = "the source path is not an existing regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(metadata.mode());
    let mut writer = options.open(to)?;
    // The mode counts for new files only.
    writer.set_permissions(metadata.permissions())?;
    io::copy(&mut reader, &mut writer)
}

/// See [`std::fs::create_dir`].
///
/// # Errors
/// As `std::fs` has them.
pub fn create_dir<P: AsRef<Path>>(path: P) -> io::Result<()> {
    current().lock().make_directory(path.as_ref())
}

/// See [`std::fs::create_dir_all`].
///
/// # Errors
/// As `std::fs` has them.
pub fn create_dir_all<P: AsRef<Path>>(path: P) -> io::Result<()> {
    let path = path.as_ref();
    if path.as_os_str().is_empty() {
        return Ok(());
    }
    let is_there = || metadata(path).is_ok_and(|found| found.is_dir());
    match create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let Some(parent) = path.parent() else { return Err(error) };
            create_dir_all(parent)?;
        }
        Err(_) if is_there() => return Ok(()),
        result => return result,
    }
    match create_dir(path) {
        // The way to the parent, as in `a/../b`, has made it.
        Err(_) if is_there() => Ok(()),
        result => result,
    }
}

/// See [`std::fs::remove_dir`].
///
/// # Errors
/// As `std::fs` has them.
pub fn remove_dir<P: AsRef<Path>>(path: P) -> io::Result<()> {
    current().lock().remove_directory(path.as_ref())
}

/// See [`std::fs::remove_dir_all`].
///
/// # Errors
/// As `std::fs` has them.
pub fn remove_dir_all<P: AsRef<Path>>(path: P) -> io::Result<()> {
    let path = path.as_ref();
    if !metadata(path)?.is_dir() {
        return Err(fail(Errno::NotDir));
    }
    // The way to the directory, as in `a/..`, may lead through what goes first.
    for entry in read_dir(canonicalize(path)?)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => remove_dir_all(entry.path())?,
            false => remove_file(entry.path())?,
        }
    }
    match remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// See [`std::fs::read_dir`].
///
/// # Errors
/// As `std::fs` has them.
pub fn read_dir<P: AsRef<Path>>(path: P) -> io::Result<ReadDir> {
    ReadDir::of(&current(), path.as_ref())
}

/// See [`std::fs::metadata`].
///
/// # Errors
/// As `std::fs` has them.
pub fn metadata<P: AsRef<Path>>(path: P) -> io::Result<Metadata> {
    let volume = current();
    let state = volume.lock();
    Ok(Metadata(state.stat(state.find(path.as_ref())?)))
}

/// See [`std::fs::symlink_metadata`]. There are no symbolic links.
///
/// # Errors
/// As `std::fs` has them.
pub fn symlink_metadata<P: AsRef<Path>>(path: P) -> io::Result<Metadata> {
    metadata(path)
}

/// See [`std::fs::set_permissions`].
///
/// # Errors
/// As `std::fs` has them.
pub fn set_permissions<P: AsRef<Path>>(path: P, permissions: Permissions) -> io::Result<()> {
    let volume = current();
    let mut state = volume.lock();
    let object = state.find(path.as_ref())?;
    state.set_mode(object, permissions.bits());
    Ok(())
}

/// See [`std::fs::exists`].
///
/// # Errors
/// As `std::fs` has them.
pub fn exists<P: AsRef<Path>>(path: P) -> io::Result<bool> {
    match metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// See [`std::fs::canonicalize`]. The top is `/`.
///
/// # Errors
/// As `std::fs` has them.
pub fn canonicalize<P: AsRef<Path>>(path: P) -> io::Result<PathBuf> {
    current().lock().canonical(path.as_ref())
}
