//! What the call loop needs of a format.

use super::pending::{Pending, Step};
use crate::call::{Ino, Timestamp};
use crate::core::handles::Handles;
use crate::core::tx::CoreTx;
use crate::tx::{BlockNo, PageKind, Stop};
use seekless_engine::data::Data;
use seekless_engine::units::BlockNr;
use std::fmt::Debug;
use std::ops::Range;

/// Background work of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// There is none.
    None,
    /// It goes on when space is free that a policy keeps back.
    Waits,
    /// Its next step can run.
    Ready,
}

/// A format of file systems, as far as it is loaded: what its operations know in memory.
///
/// All of it can be read again from the volume. An operation that stops must leave it as it was, as
/// the transaction does with blocks: each run ends with exactly one of [`Personality::commit`] and
/// [`Personality::roll_back`].
pub trait Personality: Clone + Debug + Send {
    /// What a call for durability writes, as far as the format notes that.
    type Mark: Clone + Debug + Send;

    /// Runs one step of a call, or of work of the file system itself.
    ///
    /// # Errors
    /// Why the step does not come to its end. It is undone then.
    fn perform(
        &mut self,
        tx: &mut CoreTx<'_>,
        handles: &Handles,
        pending: &Pending<Self::Mark>,
    ) -> Result<Step<Self::Mark>, Stop>;

    /// The step has succeeded: its changes stand.
    fn commit(&mut self);

    /// The step has stopped: its changes are undone.
    fn roll_back(&mut self);

    /// Makes clones cheap: what has changed since the last time is shared from now on.
    fn share(&mut self);

    /// A call for durability has written what its mark names.
    fn is_durable(&mut self, mark: &Self::Mark);

    /// The maps in this block contradict what is known: takes what they describe out of use. False
    /// if that has happened before.
    fn close(&mut self, map: BlockNo) -> bool;

    /// The blocks of the volume behind some blocks of a file, as far as the cache knows them.
    fn mapped(
        &mut self,
        tx: &mut CoreTx<'_>,
        ino: Ino,
        blocks: Range<u64>,
    ) -> Vec<(BlockNo, PageKind)>;

    /// True if [`super::pending::Work::Store`] has something to store: counters, say, that are
    /// behind on the volume.
    fn is_behind(&self) -> bool;

    /// The clean mark of an unmount at this time, and the block that has it; none if the format
    /// has no such mark.
    fn clean_mark(&mut self, now: Timestamp) -> Option<(BlockNr, Data)>;

    /// An operation has taken the last name of an inode.
    fn lost_last_name(&mut self, _ino: Ino) {}

    /// An inode without names is deleted.
    fn was_deleted(&mut self, _ino: Ino) {}

    /// Background work that is under way.
    fn background(&self) -> Background {
        Background::None
    }

    /// A step of it has come to its end. True if calls that wait for space may find some.
    fn background_stepped(&mut self, _failed: bool) -> bool {
        false
    }

    /// Counters for reports, in a fixed order.
    fn stats(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}
