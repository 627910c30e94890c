//! What `mkfs`, `fs log create` and `fs switch-policy` share: they make files, and refuse to
//! overwrite what holds something.

use crate::failure::{Exit, Failure, Outcome};
use crate::filesystem::{blame, blame_device, ends_are_empty, names};
use seekless_engine::disk::Disk as _;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use seekless_formats::log::{self, LogReader};
use seekless_formats::{FsError, Kind};
use seekless_serve::files::Volume;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Makes a file of so many bytes, or none.
///
/// # Errors
/// If it is there, or the operating system refuses.
pub fn make_file(path: &Path, bytes: u64) -> Outcome {
    if path.exists() {
        let problem = format!("{} exists, --size is for a new file", path.display());
        return Err(Failure::usage(problem).hint("leave out --size"));
    }
    let cannot = |error| Failure::failed(format!("cannot create {}: {error}", path.display()));
    let file = File::create_new(path).map_err(cannot)?;
    file.set_len(bytes).map_err(|error| {
        let _ = std::fs::remove_file(path);
        cannot(error)
    })
}

/// Refuses to overwrite content of a volume.
///
/// # Errors
/// If it holds something, or cannot be read.
pub fn refuse_content(images: &[PathBuf], volume: &mut Volume) -> Outcome {
    let holds = |what: &str| {
        let cause = format!("{} holds {what}", names(images));
        Err(Failure::new(Exit::Failed, cause).hint("--force overwrites it"))
    };
    match Kind::of(volume) {
        Err(FsError::Foreign) => {}
        Err(error) => return Err(blame(images, &error)),
        Ok(kind) => return holds(&format!("a file system, {}", kind.title)),
    }
    if volume.patch_bytes() > 0 {
        // Its drive was made for a file system, and there is none.
        return Ok(());
    }
    match LogReader::open(&mut *volume) {
        Ok(_) | Err(log::Error::Truncated { .. } | log::Error::Stale(_)) => return holds("a log"),
        Err(log::Error::OfFileSystem) => return holds("the log of a file system"),
        Err(log::Error::Io(error)) => return Err(blame_device(images, error)),
        Err(_) => {}
    }
    let blocks = volume.blocks();
    match ends_are_empty(volume, 0..blocks).map_err(|error| blame_device(images, error))? {
        true => Ok(()),
        false => holds("data that Seekless did not write"),
    }
}

/// Makes the file of a log, unless it is there. True if it is new.
///
/// # Errors
/// Without a size for a file that is not there; if it cannot be made.
pub fn make_journal(path: Option<&Path>, size: Option<u64>) -> Result<bool, Failure> {
    let Some(path) = path.filter(|path| !path.exists()) else {
        return Ok(false);
    };
    let Some(size) = size else {
        let problem = format!("{} does not exist", path.display());
        return Err(Failure::usage(problem).hint("--journal-size SIZE makes it"));
    };
    make_file(path, size.div_ceil(BLOCK_BYTES as u64).saturating_mul(BLOCK_BYTES as u64))?;
    Ok(true)
}

/// Refuses to overwrite content of the device of a log, which begins at block `own` of the volume.
///
/// # Errors
/// If it holds something, or cannot be read.
pub fn refuse_journal(
    (images, path): (&[PathBuf], &Path),
    own: BlockNr,
    volume: &mut Volume,
) -> Outcome {
    let blocks = volume.blocks();
    if ends_are_empty(volume, own..blocks).map_err(|error| blame_device(images, error))? {
        return Ok(());
    }
    let cause = format!("{} holds a log or other data", names(&[path.to_owned()]));
    Err(Failure::new(Exit::Failed, cause).hint("--force overwrites it"))
}
