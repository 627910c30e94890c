//! A device of its own for the log of a file system: `mkfs` and `fs switch-policy` make its file,
//! and refuse one that holds something.

use crate::failure::{Exit, Failure, Outcome};
use crate::filesystem::{blame_device, names};
use seekless_engine::disk::Disk as _;
use seekless_engine::io::IoError;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use seekless_serve::files::Volume;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Blocks at both ends that must be empty: file systems and partition tables begin or end there.
const SIGN_BLOCKS: u64 = 32;

/// Makes a file of so many bytes, or none.
///
/// # Errors
/// If it is there, or the operating system refuses.
pub fn make_file(path: &Path, bytes: u64) -> Outcome {
    let cannot = |error| Failure::failed(format!("cannot create {}: {error}", path.display()));
    let file = File::create_new(path).map_err(cannot)?;
    file.set_len(bytes).map_err(|error| {
        let _ = std::fs::remove_file(path);
        cannot(error)
    })
}

/// Makes the file of a log, unless it is there. True if it is new.
///
/// # Errors
/// Without a size for a file that is not there; if it cannot be made.
pub fn make(path: Option<&Path>, size: Option<u64>) -> Result<bool, Failure> {
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
pub fn refuse_content(
    (images, path): (&[PathBuf], &Path),
    own: BlockNr,
    volume: &mut Volume,
) -> Outcome {
    let blocks = volume.blocks();
    if is_empty(volume, own..blocks).map_err(|error| blame_device(images, error))? {
        return Ok(());
    }
    let cause = format!("{} holds a log or other data", names(&[path.to_owned()]));
    Err(Failure::new(Exit::Failed, cause).hint("--force overwrites it"))
}

/// True if both ends of a range hold nothing.
///
/// # Errors
/// Those of the volume.
pub fn is_empty(volume: &mut Volume, range: Range<BlockNr>) -> Result<bool, IoError> {
    let count = SIGN_BLOCKS.min(range.end - range.start);
    for at in [range.start, range.end - count] {
        let data = volume.read(at, count as u32)?;
        if data.to_bytes().iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}
