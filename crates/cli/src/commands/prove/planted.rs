//! Bugs that are planted to see the prover find them: those of layouts and those of file systems.

use seekless_engine::planted::{PlantedBug, with_bug};
use seekless_fs::policy::planted::{self, Bug};

/// A bug of a layout, or one of a file system, or one of each that have the same name.
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    block: Option<PlantedBug>,
    files: Option<Bug>,
}

/// The bug that has this name.
pub fn parse(name: &str) -> Result<Planted, String> {
    let known = seekless_prove::planted_bugs();
    let block = known.iter().find(|bug| format!("{bug:?}") == name).copied();
    let files = Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name);
    match (block, files) {
        (None, None) => {
            Err(format!("known are {known:?} of layouts, {:?} of file systems", Bug::ALL))
        }
        (block, files) => Ok(Planted { block, files }),
    }
}

/// Calls `run` with a bug planted.
pub fn with<R>(bug: Option<Planted>, run: impl FnOnce() -> R) -> R {
    let block = bug.and_then(|bug| bug.block);
    let files = bug.and_then(|bug| bug.files);
    with_bug(block, || planted::with(files, run))
}
