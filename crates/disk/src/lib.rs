//! The mechanical disk: geometry, seek, rotation, head switch, transfer, track buffer.
//!
//! [`spec`] says what a disk is, [`mechanics`] computes how long things take, [`disk`] is the
//! device, [`buffer`] its read-ahead.
#![forbid(unsafe_code)]

pub mod buffer;
pub mod cache;
pub mod disk;
pub mod disksim;
pub mod drive;
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
