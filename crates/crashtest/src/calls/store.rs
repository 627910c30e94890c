//! Recordings of calls as files: written at once, when the workload has ended, and read whole.

use bytes::Bytes;
use seekless_calls::Entry;
use seekless_calls::file::{self, BadCalls};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Why a recording of calls cannot be used or kept.
#[derive(Debug, thiserror::Error)]
pub enum CallsError {
    /// The file cannot be read or written.
    #[error(
        "{}: {source}; see that the file is there and its directory has space",
        .path.display()
    )]
    Os {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is another kind of file.
    #[error(
        "{} is no recording of calls; crash-test --fs seekless:ffs:all makes one",
        .0.display()
    )]
    Foreign(PathBuf),
    /// A newer version wrote it.
    #[error(
        "{} has version {version} of the format, this program knows {newest}; use a newer one",
        .path.display(), newest = file::VERSION
    )]
    Newer {
        /// Which.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// A record is not whole.
    #[error("{} is damaged at byte {at}; record again", .path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Where the record begins.
        at: u64,
    },
}

/// Writes a new file with the calls of a disk of `size` bytes.
///
/// # Errors
/// If the file exists or cannot be written.
pub fn write(path: &Path, size: u64, entries: &[Entry]) -> Result<(), CallsError> {
    let failed = |source| CallsError::Os { path: path.to_owned(), source };
    let file = std::fs::File::create_new(path).map_err(failed)?;
    let mut out = io::BufWriter::with_capacity(1 << 20, file);
    file::write_to(&mut out, size, entries).and_then(|()| out.flush()).map_err(failed)
}

/// Reads a file: the size of its disk in bytes, and the calls.
///
/// # Errors
/// If it cannot be read, or is not a whole recording of calls.
pub fn read(path: &Path) -> Result<(u64, Vec<Entry>), CallsError> {
    let path = path.to_owned();
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => Bytes::from(bytes),
        Err(source) => return Err(CallsError::Os { path, source }),
    };
    file::read(bytes).map_err(|bad| match bad {
        BadCalls::Foreign => CallsError::Foreign(path),
        BadCalls::Newer(version) => CallsError::Newer { path, version },
        BadCalls::Damaged { at } => CallsError::Damaged { path, at },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_kept_and_nothing_is_overwritten() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("run.calls");
        let entries = vec![Entry::Begin, Entry::Mark("1".to_owned())];
        write(&path, 1 << 20, &entries).expect("written");
        assert_eq!(read(&path).expect("read"), (1 << 20, entries));
        assert!(matches!(write(&path, 0, &[]), Err(CallsError::Os { .. })));
        std::fs::write(&path, b"SKLSTAPE").expect("written");
        assert!(matches!(read(&path), Err(CallsError::Foreign(_))));
    }
}
