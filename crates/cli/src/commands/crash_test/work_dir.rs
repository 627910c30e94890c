//! The directory of a crash test: disk, recording and logs.

use crate::failure::Failure;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// A directory that the test has to itself.
#[derive(Debug)]
pub struct WorkDir(PathBuf);

impl WorkDir {
    /// A new directory: the one that is named, or a temporary one.
    ///
    /// # Errors
    /// If it cannot be made, or holds something.
    pub fn new(named: Option<&Path>) -> Result<WorkDir, Failure> {
        let Some(path) = named else { return temporary() };
        let cannot = |error| Failure::failed(format!("--dir {}: {error}", path.display()));
        make(path).or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Ok(()),
            _ => Err(cannot(error)),
        })?;
        if std::fs::read_dir(path).map_err(cannot)?.next().is_some() {
            return Err(Failure::usage(format!("--dir {} is not empty", path.display()))
                .hint("nothing is overwritten: give a new directory"));
        }
        Ok(WorkDir(std::fs::canonicalize(path).map_err(cannot)?))
    }

    /// Where it is, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Removes it with all that it holds.
    pub fn remove(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Other users may enter: a database may run as a user of its own.
fn make(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(0o755).create(path)
}

fn temporary() -> Result<WorkDir, Failure> {
    let dir = std::env::temp_dir();
    let cannot = |error| Failure::failed(format!("{}: {error}", dir.display()));
    let above = std::fs::canonicalize(&dir).map_err(cannot)?;
    for attempt in 0..1000 {
        let path = above.join(format!("seekless-crash-test-{}-{attempt}", std::process::id()));
        match make(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot(error)),
            Ok(()) => return Ok(WorkDir(path)),
        }
    }
    Err(cannot(io::ErrorKind::AlreadyExists.into()))
}
