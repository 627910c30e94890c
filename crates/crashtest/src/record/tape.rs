//! The recording: the requests to an NBD export and its answers, in order.
//!
//! `SPEC.md` has every byte. A recording is only appended to. A crash can cut off its end; the
//! records before are whole and usable.
//!
//! A mark stands between requests and answers: the value that a program has acknowledged by then.

mod exercise;
mod read;
mod write;

pub use exercise::exercise;
pub use read::{Event, Payload, Recording, TapeEnd, TapeError, What};
pub use seekless_calls::mark::{BadMark, MOST_MARK_BYTES, check_mark};
pub use write::{Request, Writer};

use seekless_engine::checksum::crc32c;
use seekless_serve::nbd::wire::{be32, be64};

/// First bytes of a recording.
pub const MAGIC: [u8; 8] = *b"SKLSTAPE";
/// The newest version that is read. Recordings of two disks have it.
pub const VERSION: u32 = 3;
/// The version of a recording of one disk, which earlier programs read.
const ONE_DISK: u32 = 2;
/// The version that brought marks. Earlier recordings have none.
const MARKS_SINCE: u32 = 2;
/// Bytes before the first record.
pub const HEADER_BYTES: usize = 64;
/// Bytes of a record without its payload.
pub const RECORD_BYTES: usize = 40;

const FLAG_MULTI_CONN: u32 = 1;

const WRITE: u8 = 1;
const ZEROS: u8 = 2;
const TRIM: u8 = 3;
const FLUSH: u8 = 4;
const ANSWER: u8 = 5;
const END: u8 = 6;
const MARK: u8 = 7;
const BEGIN: u8 = 8;

const FUA: u8 = 1;
const EMPTY: u8 = 1 << 1;
const NO_HOLE: u8 = 1 << 2;

/// The header: what is known before the first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Size of the export in bytes.
    pub size_bytes: u64,
    /// A flush on one connection covers the writes answered on all connections.
    pub multi_conn: bool,
    /// Two disks lie on the export one behind the other, and the second one begins at this byte.
    /// Connection 1 is then the first disk and connection 2 the second.
    pub second: Option<u64>,
}

/// Connections of a recording of two disks: one for each.
pub(crate) const DISKS: [u32; 2] = [1, 2];

impl Header {
    /// One disk of this size. A flush of it covers all that it has answered.
    pub fn one_disk(size_bytes: u64) -> Header {
        Header { size_bytes, multi_conn: true, second: None }
    }

    /// Two disks of these sizes. A flush covers what its own disk has answered.
    pub fn two_disks(first_bytes: u64, second_bytes: u64) -> Header {
        let size_bytes = first_bytes + second_bytes;
        Header { size_bytes, multi_conn: false, second: Some(first_bytes) }
    }

    /// The bytes of the export that a connection may name; empty if it may name none.
    pub(crate) fn range(&self, connection: u32) -> std::ops::Range<u64> {
        match (self.second, connection) {
            (None, _) => 0..self.size_bytes,
            (Some(second), 1) => 0..second,
            (Some(second), 2) => second..self.size_bytes,
            (Some(_), _) => 0..0,
        }
    }

    /// Both disks have bytes, and no flush of one covers the other.
    fn is_sound(&self) -> bool {
        self.second.is_none_or(|second| (1..self.size_bytes).contains(&second) && !self.multi_conn)
    }

    fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        let version = if self.second.is_some() { VERSION } else { ONE_DISK };
        out[8..12].copy_from_slice(&version.to_le_bytes());
        let flags = if self.multi_conn { FLAG_MULTI_CONN } else { 0 };
        out[12..16].copy_from_slice(&flags.to_le_bytes());
        out[16..24].copy_from_slice(&self.size_bytes.to_le_bytes());
        out[24..32].copy_from_slice(&self.second.unwrap_or(0).to_le_bytes());
        let sum = crc32c(&out[..HEADER_BYTES - 4]);
        out[HEADER_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        out
    }
}

/// The fixed part of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fields {
    kind: u8,
    flags: u8,
    connection: u32,
    number: u64,
    offset: u64,
    length: u32,
    errno: u32,
    payload_crc: u32,
}

impl Fields {
    fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut out = [0; RECORD_BYTES];
        out[0] = self.kind;
        out[1] = self.flags;
        out[4..8].copy_from_slice(&self.connection.to_le_bytes());
        out[8..16].copy_from_slice(&self.number.to_le_bytes());
        out[16..24].copy_from_slice(&self.offset.to_le_bytes());
        out[24..28].copy_from_slice(&self.length.to_le_bytes());
        out[28..32].copy_from_slice(&self.errno.to_le_bytes());
        out[32..36].copy_from_slice(&self.payload_crc.to_le_bytes());
        let sum = crc32c(&out[..RECORD_BYTES - 4]);
        out[RECORD_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// `None` if the checksum or a reserved byte is wrong.
    fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Option<Fields> {
        let sound = le32(bytes, RECORD_BYTES - 4) == crc32c(&bytes[..RECORD_BYTES - 4]);
        (sound && bytes[2..4] == [0; 2]).then(|| Fields {
            kind: bytes[0],
            flags: bytes[1],
            connection: le32(bytes, 4),
            number: le64(bytes, 8),
            offset: le64(bytes, 16),
            length: le32(bytes, 24),
            errno: le32(bytes, 28),
            payload_crc: le32(bytes, 32),
        })
    }

    /// Bytes of payload that follow.
    fn payload_bytes(&self) -> u32 {
        payload_bytes(self.kind, self.flags, self.length)
    }
}

/// Bytes of payload that follow a record.
fn payload_bytes(kind: u8, flags: u8, length: u32) -> u32 {
    match kind {
        WRITE if flags & EMPTY == 0 => length,
        MARK => length,
        _ => 0,
    }
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    be32(bytes, at).swap_bytes()
}

fn le64(bytes: &[u8], at: usize) -> u64 {
    be64(bytes, at).swap_bytes()
}

#[cfg(test)]
mod tests;
