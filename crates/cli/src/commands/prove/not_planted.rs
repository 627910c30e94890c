//! The same as `planted.rs` in a build without assertions: such a build contains no bugs to plant.

/// No bug.
#[derive(Clone, Copy, Debug)]
pub struct Plant;

impl Plant {
    /// No bug.
    pub const NONE: Plant = Plant;

    /// No bug has a name here.
    pub fn named(_name: &str) -> Result<Option<Plant>, String> {
        Ok(None)
    }

    /// None.
    pub fn name(self) -> Option<String> {
        None
    }

    /// None.
    pub fn reached(self) -> Option<bool> {
        None
    }

    /// Calls `run`.
    pub fn with<R>(self, run: impl FnOnce() -> R) -> R {
        run()
    }
}
