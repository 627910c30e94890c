//! The clean shutdown of a volume: what is in flight is answered, what is left is made durable, a
//! record that says so is written and flushed.
//!
//! The [`RequestTable`](crate::request_table::RequestTable) owns the state, because a shutdown
//! waits for the requests in it. A layout advances it: a layout without a record goes from
//! [`CleanShutdown::Asked`] to [`CleanShutdown::Done`]; one with a record passes
//! [`CleanShutdown::Record`] and [`CleanShutdown::Flush`]. A shutdown never goes back.

/// How far a clean shutdown has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CleanShutdown {
    /// The volume serves.
    #[default]
    Running,
    /// Waiting for requests in flight, then for what is left to be made durable.
    Asked,
    /// The record is being written.
    Record,
    /// The record is being flushed.
    Flush,
    /// The devices hold a state that the next mount recognises as clean, or the volume has failed.
    Done,
}

impl CleanShutdown {
    /// Goes on to a later state.
    pub(crate) fn advance(&mut self, to: CleanShutdown) {
        debug_assert!(*self < to, "a shutdown went from {self:?} to {to:?}");
        *self = to;
    }
}
