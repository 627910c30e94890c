//! Bugs that are planted to see the prover find them.

use seekless_engine::planted::{PlantedBug, with_bug};

/// A bug that can be planted.
pub type Planted = PlantedBug;

/// The bug that has this name.
pub fn parse(name: &str) -> Result<Planted, String> {
    let unknown = || format!("known are {:?}", PlantedBug::ALL);
    PlantedBug::named(name).ok_or_else(unknown)
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
        self.0.map(|bug| format!("{bug:?}"))
    }

    /// Calls `run` with the bug planted in this thread.
    pub fn with<R>(self, run: impl FnOnce() -> R) -> R {
        with_bug(self.0, run)
    }
}
