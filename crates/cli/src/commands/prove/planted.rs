//! Bugs that are planted, and edges that are cut, to see the prover find them.

use seekless_engine::edge::{Edge, with_cut};
use seekless_engine::planted::{PlantedBug, with_bug};
use std::sync::atomic::{AtomicBool, Ordering};

/// Some run has come to the edge that is cut.
static REACHED: AtomicBool = AtomicBool::new(false);

/// A bug that can be planted.
#[derive(Clone, Copy, Debug)]
pub enum Planted {
    /// Wrong logic.
    Bug(PlantedBug),
    /// Something left out.
    Edge(Edge),
}

/// The bug or edge that has this name.
pub fn parse(name: &str) -> Result<Planted, String> {
    let bug = PlantedBug::named(name).map(Planted::Bug);
    let unknown = || format!("known are {:?} and {:?}", PlantedBug::ALL, Edge::ALL);
    bug.or_else(|| Edge::named(name).map(Planted::Edge)).ok_or_else(unknown)
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
        self.0.map(|planted| match planted {
            Planted::Bug(bug) => format!("{bug:?}"),
            Planted::Edge(edge) => format!("{edge:?}"),
        })
    }

    /// Whether what ran has come to the edge that is cut, if one is.
    pub fn reached(self) -> Option<bool> {
        let is_edge = matches!(self.0, Some(Planted::Edge(_)));
        is_edge.then(|| REACHED.load(Ordering::Relaxed))
    }

    /// Calls `run` with the bug planted in this thread.
    pub fn with<R>(self, run: impl FnOnce() -> R) -> R {
        match self.0 {
            None => with_bug(None, run),
            Some(Planted::Bug(bug)) => with_bug(Some(bug), run),
            Some(Planted::Edge(edge)) => {
                let (result, reached) = with_cut(Some(edge), run);
                REACHED.fetch_or(reached, Ordering::Relaxed);
                result
            }
        }
    }
}
