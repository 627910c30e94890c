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

/// The bug that a command plants, if any.
#[derive(Clone, Copy, Debug)]
pub struct Plant(pub Option<Planted>);

impl Plant {
    /// No bug.
    pub const NONE: Plant = Plant(None);

    /// The bug of this name; `None` in a build that has no bugs to plant.
    ///
    /// # Errors
    /// An unknown name.
    pub fn named(name: &str) -> Result<Option<Plant>, String> {
        parse(name).map(|bug| Some(Plant(Some(bug))))
    }

    /// Its name.
    pub fn name(self) -> Option<String> {
        let Planted { block, files } = self.0?;
        block.map(|bug| format!("{bug:?}")).or_else(|| files.map(|bug| format!("{bug:?}")))
    }

    /// Calls `run` with the bug planted in this thread.
    pub fn with<R>(self, run: impl FnOnce() -> R) -> R {
        let block = self.0.and_then(|bug| bug.block);
        let files = self.0.and_then(|bug| bug.files);
        with_bug(block, || planted::with(files, run))
    }
}
