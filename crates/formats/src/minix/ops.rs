//! The operations of Minix, straight-line code over [`seekless_fs::tx::Tx`].
//!
//! An operation runs to its end or stops. The caller then ends it in the transaction and in the
//! [`Volume`](crate::minix::volume::Volume), both with success or both with an undo. One that may
//! touch many blocks is a chain of steps: its function says how far it came.

pub mod ancestry;
pub mod attr;
pub mod link;
pub mod list;
pub mod lookup;
pub mod make;
pub mod read;
pub mod remove;
pub mod rename;
pub mod seek;
pub mod space;
pub mod truncate;
pub mod write;

use seekless_fs::call::Ino;

/// Zones of data that a step touches at most.
pub const STEP_ZONES: u64 = 32;

/// Whether a chain of steps has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has.
    Done,
    /// Call again with the same arguments.
    More,
}

/// What became of the object of a removed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The object.
    pub ino: Ino,
    /// It has no names left: once no handle and no lookup holds it, call [`remove::reap`].
    pub last: bool,
}
