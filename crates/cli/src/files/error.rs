//! Why a tool cannot do something with a file.

use seekless_fs::call::{Answer, Errno};
use std::io;
use std::path::{Path, PathBuf};

/// Why a tool cannot do something with a file. Paths in the image begin with a colon.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The file system refuses.
    #[error(":{path}: {errno}{}", remedy(*.errno))]
    Refused {
        /// The path in the file system.
        path: String,
        /// Why.
        errno: Errno,
    },
    /// Symbolic links lead in a circle.
    #[error(":{0}: too many symbolic links; name the file that they should lead to")]
    Circle(String),
    /// A path has no last name, or leads out of the archive.
    #[error("`{0}` names no file that can be made; give a path that ends with a name")]
    NoName(String),
    /// A directory where there must be none, without a flag for it.
    #[error(":{0} is a directory; remove it and all in it with --recursive")]
    Recursive(String),
    /// The host refuses.
    #[error("{}: {source}", .path.display())]
    Host {
        /// The path on the host.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory on one side, something else on the other.
    #[error("{0} exists and is of another kind; remove it first")]
    Kinds(String),
    /// The archive cannot be read.
    #[error("cannot read the archive: {0}; give an uncompressed tar archive")]
    Archive(io::Error),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
}

impl ToolError {
    /// The file system refuses something about a path.
    pub fn of(path: &[u8], errno: Errno) -> ToolError {
        ToolError::Refused { path: shown(path), errno }
    }

    /// An error, or an answer that does not belong to the call: then the file system is at fault.
    pub fn unexpected(path: &[u8], result: Result<Answer, Errno>) -> ToolError {
        ToolError::of(path, result.err().unwrap_or(Errno::Io))
    }

    /// The host refuses something about a path.
    pub fn host(path: &Path) -> impl FnOnce(io::Error) -> ToolError {
        let path = path.to_owned();
        move |source| ToolError::Host { path, source }
    }
}

/// A path for people.
pub fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

fn remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::NoEnt => "; `seekless fs ls IMAGE DIR` shows what is there",
        Errno::NoSpc => "; remove files with `seekless fs rm`",
        Errno::Io => "; check the file system with `seekless fsck`",
        Errno::RoFs => "; the file system has failed: check it with `seekless fsck`",
        _ => "",
    }
}
