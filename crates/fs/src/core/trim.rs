//! Trims: free space that goes back to the volume. A call waits until all its trims are answered.

use super::{CallKey, Core, Sent};
use seekless_engine::client::Below;
use seekless_engine::io::{Io, IoError};
use seekless_engine::units::BlockNr;
use std::ops::Range;

/// Blocks of one request at most.
const MOST_BLOCKS: u64 = 1 << 20;

/// The trims of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trims {
    in_flight: usize,
    /// Why one of them failed.
    error: Option<IoError>,
}

impl Core {
    /// Gives blocks of 4096 bytes back to the volume, which nothing uses. The call becomes ready
    /// when the volume has answered. One call at a time.
    pub(crate) fn trim(&mut self, key: CallKey, ranges: &[Range<BlockNr>], below: &mut Below<'_>) {
        debug_assert_eq!(self.trims.in_flight, 0, "one call trims at a time");
        for range in ranges {
            let mut at = range.start;
            while at < range.end {
                let count = (range.end - at).min(MOST_BLOCKS);
                let tag = self.sent.insert(Sent::Trim(key));
                self.trims.in_flight += 1;
                // It fits: it is at most 2²⁰.
                below.submit(0, Io::trim(tag, at, count as u32));
                at += count;
            }
        }
        if self.trims.in_flight == 0 {
            self.ready.push(key);
        }
    }

    /// A trim was answered.
    pub(super) fn trimmed(&mut self, key: CallKey, error: Option<IoError>) {
        self.trims.in_flight -= 1;
        self.trims.error = self.trims.error.or(error);
        if self.trims.in_flight == 0 {
            self.ready.push(key);
        }
    }

    /// Why a trim of the last call failed; each failure is told once.
    pub(crate) fn take_trim_error(&mut self) -> Option<IoError> {
        self.trims.error.take()
    }
}
