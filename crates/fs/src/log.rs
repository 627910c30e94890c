//! A write-ahead log in a range of a volume: the bytes, the writer and the reader. It does no I/O.
//!
//! The range begins with two superblocks, written in turn. The rest is a ring of sealed sectors of
//! 512 bytes. Sectors are numbered without end; sector *p* lies at place *p* mod *S* of the ring.
//! The payload of the sectors is a stream of *groups*, and a group holds all that one operation
//! changes. A position in the stream is an [`Lsn`].
//!
//! [`ring::Ring`] writes. It writes no sector twice, so no write in flight can harm a group that is
//! durable. [`scan::scan`] reads after a crash. It tells the end of the log from damage: each
//! sector says up to where the log was durable when it was sealed.
//!
//! [`redo::Redo`] is what recovery makes of the groups.
//!
//! The bytes are those of `SPEC.md`, "Log of a file system".

pub mod edit;
pub mod format;
pub mod group;
pub mod redo;
pub mod ring;
pub mod scan;
#[cfg(test)]
mod tests;

pub use edit::Edit;
pub use format::{LogShape, LogSuperblock, Lsn};
pub use group::{GroupBuilder, GroupView, Malformed, Record, checkpoint};
pub use redo::{Redo, SectorRedo, Space};
pub use ring::{Begun, Full, LogWrite, Placed, Ring};
pub use scan::{LogError, LogSource, Scanned, scan};
