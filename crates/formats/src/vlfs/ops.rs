//! The operations of VLFS, straight-line code over [`seekless_fs::tx::Tx`].
//!
//! An operation runs to its end or stops. The caller then ends it in the transaction and in the
//! [`Volume`](crate::vlfs::volume::Volume), both with success or both with an undo. Only a read and
//! a write of much are chains of steps: a file of any size is cut in one.

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
use seekless_fs::tx::{Stop, Tx};

/// Blocks of content that a step touches at most.
pub const STEP_BLOCKS: u64 = 64;
/// Blocks that what gives up space may use, and nothing else.
const LAST_BLOCKS: u64 = 8;

/// What became of the object of a removed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The object.
    pub ino: Ino,
    /// It has no names left: once no handle and no lookup holds it, call [`remove::reap`].
    pub last: bool,
}

/// Refuses to change so many blocks for which the volume has no space.
///
/// # Errors
/// [`Stop::NoRoom`].
fn need_room(tx: &dyn Tx, blocks: u64) -> Result<(), Stop> {
    match tx.room() {
        Some(room) if room < blocks + LAST_BLOCKS => Err(Stop::NoRoom),
        _ => Ok(()),
    }
}
