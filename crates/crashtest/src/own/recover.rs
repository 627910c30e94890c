//! A crash state as its owner would bring it up again: mounted, and before that repaired if the
//! mount asks for it.
//!
//! Which of the two a state needs follows from what the file system says of itself, so this holds
//! for every policy. `async` and `sync` ask for a check after a crash; a policy whose states are
//! consistent mounts them as they are.

use super::device::ImageDevice;
use super::policy::OwnPolicy;
use crate::replay::image::Image;
use seekless_formats::{FsError, Kind, MountedFs};
use seekless_serve::files::Volume;
use std::sync::Arc;

/// A state that was brought up.
#[derive(Debug)]
pub struct Recovered {
    /// The file system, mounted.
    pub fs: Box<dyn MountedFs>,
    /// The volume below it.
    pub volume: Volume,
    /// Findings that were repaired; `None` if the mount did not ask for a check.
    pub repaired: Option<usize>,
}

/// Brings a state up. What recovery writes goes to the image.
///
/// # Errors
/// If the file system cannot be mounted, after a repair if that was asked for.
pub fn recover(image: Arc<Image>, policy: OwnPolicy) -> Result<Recovered, FsError> {
    let mut volume = Volume::of_device(Box::new(ImageDevice::new(image)), "a crash state");
    let now = super::wall_clock();
    let repaired = match super::mount(&mut volume, policy, now) {
        Ok(fs) => return Ok(Recovered { fs, volume, repaired: None }),
        Err(error) if asks_for_check(&error) => {
            (Kind::of(&mut volume)?.repair)(&mut volume)?.list.len()
        }
        Err(error) => return Err(error),
    };
    let fs = super::mount(&mut volume, policy, now)?;
    Ok(Recovered { fs, volume, repaired: Some(repaired) })
}

/// True if the message of an error tells its reader to run a check with repair.
fn asks_for_check(error: &FsError) -> bool {
    matches!(
        error,
        FsError::NotClean
            | FsError::OtherPolicy { .. }
            | FsError::MetDamage
            | FsError::LostSuperblock { .. }
    )
}
