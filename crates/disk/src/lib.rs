//! The mechanical disk: geometry, seek, rotation, head switch, transfer, track buffer.
//!
//! Start with [`spec`], the description of a disk. [`geometry`] locates sectors, [`motion`]
//! computes the time to reach them, and [`cache`] holds and reads ahead sectors. [`drive`] combines
//! the times, and [`disk`] adds data and power cuts. [`mechanics`] and [`buffer`] are the tables of
//! plain disks, which layouts plan on.
#![forbid(unsafe_code)]

mod arm;
pub mod buffer;
pub mod cache;
pub mod calibrate;
pub mod disk;
pub mod disksim;
pub mod drive;
pub mod fit;
pub mod geometry;
mod length;
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
