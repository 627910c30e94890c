//! The mechanical disk: geometry, seek, rotation, head switch, transfer, track buffer.
//!
//! [`spec`] says what a disk is, [`geometry`] where sectors are, [`motion`] how long it takes to
//! get there, [`cache`] what is held and read ahead, [`drive`] puts the times together, [`disk`]
//! adds data and power cuts. [`mechanics`] and [`buffer`] are the tables of plain disks that
//! layouts plan on.
#![forbid(unsafe_code)]

mod arm;
pub mod buffer;
pub mod cache;
pub mod disk;
pub mod disksim;
pub mod drive;
pub mod fit;
pub mod geometry;
pub mod mechanics;
pub mod motion;
mod plain;
pub mod recording;
pub mod spec;
pub mod specs;
pub mod zoned;

pub use disk::Disk;
pub use drive::Drive;
pub use spec::{ReadAhead, Spec, SpecError};
