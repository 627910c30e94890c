//! The files below a volume, open and locked until the volume has come to its end.

use crate::device::raw;
use crate::image::{Image, ImageError};
use rustix::fs::FlockOperation;
use seekless_engine::io::IoError;
use seekless_engine::node::Node;
use std::fmt;
use std::fs::File;
use std::path::PathBuf;

/// A file below a volume: a handle that keeps its lock.
#[derive(Debug)]
pub(crate) struct Backing {
    /// Which member of an array it belongs to.
    member: Option<usize>,
    path: PathBuf,
    file: File,
}

/// A file that could not be made durable at the end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct BackingError {
    member: Option<usize>,
    path: PathBuf,
    error: IoError,
}

impl fmt::Display for BackingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(member) = self.member {
            write!(f, "member {member}, ")?;
        }
        write!(f, "{}: {}", self.path.display(), self.error)
    }
}

impl BackingError {
    /// What the system said.
    pub(crate) fn error(&self) -> IoError {
        self.error
    }
}

/// The files of an image.
///
/// # Errors
/// If the process has no file descriptor left.
pub(crate) fn of(image: &Image, member: Option<usize>) -> Result<Vec<Backing>, ImageError> {
    let file = |file| Backing { member, path: image.path().to_owned(), file };
    Ok(image.locks()?.into_iter().map(file).collect())
}

/// The members of an array below a volume that are not part of it any longer.
pub(crate) fn members_out(node: &Node) -> Vec<usize> {
    let members = node.devices.iter().flat_map(|device| device.status().members());
    members.enumerate().filter(|(_, member)| member.state == "out").map(|it| it.0).collect()
}

/// Makes all files durable, except those of members that are `out` of their array: their content
/// does not count.
///
/// # Errors
/// The first file that cannot be.
pub(crate) fn sync(files: &[Backing], out: &[usize]) -> Result<(), BackingError> {
    let counts = |file: &&Backing| !file.member.is_some_and(|member| out.contains(&member));
    for Backing { member, path, file } in files.iter().filter(counts) {
        raw::sync(file).map_err(|errno| BackingError {
            member: *member,
            path: path.clone(),
            error: raw::sync_error(errno),
        })?;
    }
    Ok(())
}

/// Takes the files of new members in the place of those that they replace.
pub(crate) fn replace(files: &mut Vec<Backing>, new: Vec<Backing>) {
    let is_replaced =
        |file: &Backing| file.member.is_some() && new.iter().any(|one| one.member == file.member);
    files.retain(|file| !is_replaced(file));
    files.extend(new);
}

/// Gives up the locks of all files of a volume that has come to a clean end.
///
/// The kernel keeps a file open that a ring has used until it has torn the ring down, which may be
/// after the process has ended: without this, the next command finds the image in use. Writes that
/// are under way need the locks, so that only a volume without any may give them up.
pub(crate) fn release(files: &[Backing]) {
    for Backing { path, file, .. } in files {
        // The end of the process releases what is not released here.
        if let Err(errno) = rustix::fs::flock(file, FlockOperation::Unlock) {
            tracing::debug!("{}: the lock is kept until the end: {errno}", path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    /// A pipe cannot be synced.
    #[test]
    fn a_member_that_is_out_does_not_count() {
        let (_, end) = std::io::pipe().expect("a pipe");
        let whole = tempfile::tempfile().expect("a file");
        let file = |member, file| Backing { member, path: PathBuf::from("b.img"), file };
        let files = [file(Some(0), whole), file(Some(1), File::from(OwnedFd::from(end)))];
        assert_eq!(sync(&files, &[1]), Ok(()));
        let error = sync(&files, &[0]).expect_err("a pipe");
        assert!(error.to_string().starts_with("member 1, b.img: "), "{error}");
        let mut files = Vec::from(files);
        replace(&mut files, vec![file(Some(1), tempfile::tempfile().expect("a file"))]);
        assert_eq!((files.len(), sync(&files, &[])), (2, Ok(())), "the new one counts");
    }
}
