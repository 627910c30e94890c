//! The block volumes that are proved, their client and its history.
//!
//! Start with [`stack`] (which volumes, and how they are mounted), [`request`] and [`workload`]
//! (what clients do), then [`oracle`] (what a client hears) and [`history`] (what it allows).

mod content_names;
mod create;
mod history;
pub mod oracle;
pub mod request;
pub mod stack;
mod volume;
mod workload;

pub use stack::BlockSubject;
pub use workload::WORKLOADS;

#[cfg(debug_assertions)]
use seekless_engine::planted::PlantedBug;
#[cfg(debug_assertions)]
use seekless_layouts::Kind;

/// All bugs that can be planted, in layouts and in arrays, some more than once.
#[cfg(debug_assertions)]
pub fn planted_bugs() -> Vec<PlantedBug> {
    let of_layouts = Kind::ALL.into_iter().flat_map(Kind::planted_bugs);
    let of_arrays = PlantedBug::ARRAY.iter().chain(&PlantedBug::STRIPED);
    of_layouts.chain(&PlantedBug::APART).chain(of_arrays).copied().collect()
}
