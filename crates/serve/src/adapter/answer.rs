//! Answers, and what errors of the volume become for a client.

use bytes::Bytes;
use rustix::io::Errno;
use seekless_engine::data::{Body, Data};
use seekless_engine::io::Extent;
use seekless_engine::io::IoError;
use seekless_engine::units::BLOCK_BYTES;

/// Kinds of failure that clients tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request is not allowed here.
    ReadOnly,
    /// The request makes no sense.
    Invalid,
    /// There is no space left.
    NoSpace,
    /// The store failed.
    Io,
    /// The server is about to end.
    ShuttingDown,
}

/// What a request came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// The bytes read.
    Data(Rope),
    /// Runs of bytes: length, and what is there.
    Status(Vec<(u32, Extent)>),
    /// It failed, and why, for people.
    Error(Fault, String),
}

impl Answer {
    pub(super) fn refuse(fault: Fault, message: &str) -> Answer {
        Answer::Error(fault, message.to_owned())
    }
}

/// True for the errors that a sync reports where the host is full.
fn is_full(errno: i32) -> bool {
    let full = [Errno::NOSPC, Errno::DQUOT, Errno::FBIG];
    full.iter().any(|one| one.raw_os_error() == errno)
}

/// The fault that an error of the volume is.
pub(super) fn fault(error: IoError) -> Fault {
    match error {
        IoError::NoSpace => Fault::NoSpace,
        IoError::Os { errno } if is_full(errno) => Fault::NoSpace,
        IoError::ReadOnly => Fault::ReadOnly,
        IoError::OutOfRange { .. } => Fault::Invalid,
        IoError::PowerOff => Fault::ShuttingDown,
        // The protocol has no code for zones; Linux reports these as input/output errors, too.
        IoError::Media { .. }
        | IoError::Checksum { .. }
        | IoError::Zone { .. }
        | IoError::Os { .. } => Fault::Io,
    }
}

/// The answer to a request that failed. Where the volume says only that it is read-only by now,
/// the client learns what made it so.
pub(super) fn failed(error: IoError, volume: Option<IoError>) -> Answer {
    match (error, volume) {
        (IoError::ReadOnly, Some(reason)) => volume_failed(reason),
        (error, _) => Answer::Error(fault(error), error.to_string()),
    }
}

/// The answer to a write or flush after the write path has failed.
pub(super) fn volume_failed(reason: IoError) -> Answer {
    let fault = match fault(reason) {
        Fault::NoSpace => Fault::NoSpace,
        _ => Fault::Io,
    };
    Answer::Error(fault, format!("the volume is read-only since a write failed: {reason}"))
}

/// Bytes out of blocks, not copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rope {
    data: Data,
    skip: usize,
    take: usize,
}

impl Rope {
    /// The bytes `skip..skip + take` of `data`.
    ///
    /// # Panics
    /// If the range leaves the data.
    pub fn new(data: Data, skip: usize, take: usize) -> Rope {
        assert!(skip + take <= data.blocks() as usize * BLOCK_BYTES, "{skip}+{take} of {data:?}");
        Rope { data, skip, take }
    }

    /// Calls `each` for every run in order: its length, and its bytes unless they are zeros.
    pub fn runs(self, mut each: impl FnMut(usize, Option<Bytes>)) {
        let (mut skip, mut left) = (self.skip, self.take);
        for piece in self.data.pieces() {
            let length = piece.blocks as usize * BLOCK_BYTES;
            if skip >= length {
                skip -= length;
                continue;
            }
            let take = left.min(length - skip);
            if take == 0 {
                break;
            }
            match &piece.body {
                Body::Zeros => each(take, None),
                Body::Bytes(bytes) => each(take, Some(bytes.slice(skip..skip + take))),
                Body::Stamp { .. } | Body::Sectors(_) | Body::Lazy(_) | Body::Parity(_) => {
                    each(take, Some(piece.to_bytes().slice(skip..skip + take)));
                }
            }
            left -= take;
            skip = 0;
        }
    }
}
