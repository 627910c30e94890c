//! The clean shutdown of a layout that leaves a record: what is in flight is answered, what is left is
//! made durable, the record is written, and the record is flushed.

use crate::data::Data;
use crate::io::{Done, Io, Purpose, Tag};
use crate::layer::Cx;
use crate::request_table::RequestTable;
use crate::units::BlockNr;

/// How far a clean shutdown has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CleanShutdown {
    /// Nobody asked for it.
    #[default]
    Running,
    /// Waiting for requests in flight, then for what is left to be made durable.
    Asked,
    /// The record is being written.
    Record,
    /// The record is being flushed.
    Flush,
    /// Done.
    Done,
}

impl CleanShutdown {
    /// Asks for it.
    pub fn ask(&mut self) {
        if *self == CleanShutdown::Running {
            *self = CleanShutdown::Asked;
        }
    }

    /// Writes the record, one block. Everything that it speaks of is durable.
    pub fn write(&mut self, tag: Tag, at: BlockNr, record: Data, cx: &mut Cx<'_>) {
        debug_assert_eq!(*self, CleanShutdown::Asked);
        *self = CleanShutdown::Record;
        cx.send(0, Io::write(tag, at, record).for_purpose(Purpose::Map));
    }

    /// The record, or the flush behind it, has been answered; both have the tag `tag`.
    pub fn written(&mut self, tag: Tag, done: Done, requests: &mut RequestTable, cx: &mut Cx<'_>) {
        if let Err(error) = done.outcome {
            requests.fail_volume(error, cx);
            *self = CleanShutdown::Done;
        } else if *self == CleanShutdown::Record {
            *self = CleanShutdown::Flush;
            cx.send(0, Io::flush(tag).for_purpose(Purpose::Map));
        } else {
            *self = CleanShutdown::Done;
        }
    }
}
