//! Disk specifications as the command line names them: a built-in name or a TOML file.

use crate::failure::Failure;
use seekless_lab::sim::Target;

/// The disk that `text` names, to simulate on.
///
/// # Errors
/// If there is no such disk, or the file cannot be read or makes no sense.
pub fn target(text: &str) -> Result<Target, Failure> {
    if text == "ram" {
        return Ok(Target::ram(RAM_BLOCKS));
    }
    Err(Failure::usage(format!("no disk is called `{text}`")))
}

/// Size of the `ram` target in blocks: that of the small disks of the claims.
const RAM_BLOCKS: u64 = 5632;
