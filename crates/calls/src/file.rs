//! Recordings of calls as files. `SPEC.md` has every byte.
//!
//! A file is written at once, when the workload has ended, and read whole. Every record has
//! checksums; a file that is not whole, or breaks a rule of the format, is refused. So a reader
//! gives only calls that a kernel could have made: names are names, and replies have their calls.

mod request;

use crate::mark::check_mark;
use crate::{Entry, Told};
use bytes::Bytes;
use request::{Fields, Out};
use seekless_engine::checksum::crc32c;
use seekless_fs::call::{Call, Credentials, Request};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// First bytes of a recording of calls.
pub const MAGIC: [u8; 8] = *b"SKLSCALL";
/// The newest version that is read. Recordings with changes that are foreign to file systems of
/// Seekless have it.
pub const VERSION: u32 = 2;
/// The version of a recording without such changes, which earlier programs read.
const WITHOUT_FOREIGN: u32 = 1;
/// Bytes before the first record.
pub const HEADER_BYTES: usize = 64;
/// Bytes of a record without its payload.
pub const RECORD_BYTES: usize = 32;

const CALL: u8 = 1;
const REPLY: u8 = 2;
const BEGIN: u8 = 3;
const MARK: u8 = 4;
const END: u8 = 5;
const FOREIGN: u8 = 6;

/// Why bytes are no recording of calls that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCalls {
    /// They are something else.
    #[error("no recording of calls")]
    Foreign,
    /// A newer version wrote them.
    #[error("version {0} of the format, this program knows {VERSION}")]
    Newer(u32),
    /// A record is not whole, or breaks a rule of the format.
    #[error("damaged at byte {at}")]
    Damaged {
        /// Where the record begins.
        at: u64,
    },
}

/// The fixed part of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Head {
    kind: u8,
    op: u8,
    length: u32,
    number: u64,
    at: u64,
    payload_crc: u32,
}

impl Head {
    fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut out = [0; RECORD_BYTES];
        (out[0], out[1]) = (self.kind, self.op);
        out[4..8].copy_from_slice(&self.length.to_le_bytes());
        out[8..16].copy_from_slice(&self.number.to_le_bytes());
        out[16..24].copy_from_slice(&self.at.to_le_bytes());
        out[24..28].copy_from_slice(&self.payload_crc.to_le_bytes());
        let sum = crc32c(&out[..RECORD_BYTES - 4]);
        out[RECORD_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// `None` if the checksum or a reserved byte is wrong.
    fn from_bytes(bytes: &[u8]) -> Option<Head> {
        let (head, sum) = bytes.split_last_chunk::<4>()?;
        let sound = u32::from_le_bytes(*sum) == crc32c(head) && head[2..4] == [0; 2];
        let word = |at: usize| head[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        let half = |at: usize| head[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
        sound.then(|| Head {
            kind: head[0],
            op: head[1],
            length: half(4),
            number: word(8),
            at: word(16),
            payload_crc: half(24),
        })
    }
}

/// Writes the calls of a disk of `size` bytes; 0 if no disk was below.
///
/// # Errors
/// What `out` reports.
pub fn write_to(out: &mut impl Write, size: u64, entries: &[Entry]) -> io::Result<()> {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    let is_plain = !entries.iter().any(|entry| matches!(entry, Entry::Foreign { .. }));
    let version = if is_plain { WITHOUT_FOREIGN } else { VERSION };
    header[8..12].copy_from_slice(&version.to_le_bytes());
    header[16..24].copy_from_slice(&size.to_le_bytes());
    let sum = crc32c(&header[..HEADER_BYTES - 4]);
    header[HEADER_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
    out.write_all(&header)?;
    let mut marks = 0;
    for entry in entries {
        let mut payload = Out::default();
        let head = match entry {
            Entry::Call { call, at } => {
                let Credentials { uid, gid } = call.who;
                payload.word(u64::from(uid) << 32 | u64::from(gid));
                payload.word(call.now.cast_unsigned());
                let op = request::put(&call.request, &mut payload);
                Head { kind: CALL, op, number: call.id, at: *at, ..Head::default() }
            }
            Entry::Reply { number, told } => {
                let op = put_told(*told, &mut payload);
                Head { kind: REPLY, op, number: *number, ..Head::default() }
            }
            Entry::Foreign { change, at } => {
                let op = request::put_foreign(change, &mut payload);
                Head { kind: FOREIGN, op, at: *at, ..Head::default() }
            }
            Entry::Begin => Head { kind: BEGIN, ..Head::default() },
            Entry::Mark(value) => {
                marks += 1;
                payload.raw(value.as_bytes());
                Head { kind: MARK, number: marks, ..Head::default() }
            }
        };
        record(out, head, &payload.into_bytes())?;
    }
    let head = Head { kind: END, number: entries.len() as u64, ..Head::default() };
    record(out, head, &[])
}

fn record(out: &mut impl Write, head: Head, payload: &[u8]) -> io::Result<()> {
    let length = u32::try_from(payload.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let payload_crc = if payload.is_empty() { 0 } else { crc32c(payload) };
    out.write_all(&Head { length, payload_crc, ..head }.to_bytes())?;
    out.write_all(payload)
}

fn put_told(told: Told, out: &mut Out) -> u8 {
    match told {
        Told::Done => 1,
        Told::Object(ino, digest, handle) => {
            out.word(ino);
            out.word(u64::from(digest));
            out.word(u64::from(handle.is_some()));
            out.word(handle.unwrap_or(0));
            2
        }
        Told::Attr(digest) => {
            out.word(u64::from(digest));
            3
        }
        Told::Opened(handle) => {
            out.word(handle);
            4
        }
        Told::Bytes(count, sum) => {
            out.word(count);
            out.word(u64::from(sum));
            5
        }
        Told::Written(count) => {
            out.word(u64::from(count));
            6
        }
        Told::At(at) => {
            out.word(at);
            7
        }
        Told::Other => 8,
        Told::Failed(number) => {
            out.word(u64::from(number.cast_unsigned()));
            9
        }
    }
}

fn get_told(op: u8, fields: &mut Fields) -> Option<Told> {
    Some(match op {
        1 => Told::Done,
        2 => {
            let (ino, digest) = (fields.word()?, fields.half()?);
            let (has_handle, handle) = (fields.flag()?, fields.word()?);
            Told::Object(ino, digest, has_handle.then_some(handle))
        }
        3 => Told::Attr(fields.half()?),
        4 => Told::Opened(fields.word()?),
        5 => Told::Bytes(fields.word()?, fields.half()?),
        6 => Told::Written(fields.half()?),
        7 => Told::At(fields.word()?),
        8 => Told::Other,
        9 => Told::Failed(fields.half()?.cast_signed()),
        _ => return None,
    })
}

/// Reads a recording: the size of its disk in bytes, and the calls.
///
/// # Errors
/// If it is not a whole recording of calls.
pub fn read(bytes: Bytes) -> Result<(u64, Vec<Entry>), BadCalls> {
    if bytes.len() < 8 || bytes[..8] != MAGIC {
        return Err(BadCalls::Foreign);
    }
    let size = header(&bytes).ok_or(BadCalls::Damaged { at: 0 })?;
    let version = bytes[8..12].try_into().map_or(0, u32::from_le_bytes);
    if version > VERSION {
        return Err(BadCalls::Newer(version));
    }
    let mut reader = Reader { bytes, at: HEADER_BYTES, ..Reader::default() };
    let entries = reader.all().ok_or(BadCalls::Damaged { at: reader.begun })?;
    // Each recording has one form.
    let has_foreign = entries.iter().any(|entry| matches!(entry, Entry::Foreign { .. }));
    match has_foreign == (version == VERSION) && version != 0 {
        true => Ok((size, entries)),
        false => Err(BadCalls::Damaged { at: 0 }),
    }
}

/// The size of the disk; `None` if the header is damaged.
fn header(bytes: &[u8]) -> Option<u64> {
    let (head, sum) = bytes.get(..HEADER_BYTES)?.split_last_chunk::<4>()?;
    let size = head[16..24].try_into().map(u64::from_le_bytes).ok()?;
    (u32::from_le_bytes(*sum) == crc32c(head)).then_some(size)
}

/// A recording that is read.
#[derive(Debug, Default)]
struct Reader {
    bytes: Bytes,
    at: usize,
    /// Where the record begins that is read.
    begun: u64,
    calls: u64,
    marks: u64,
    has_begun: bool,
    /// Calls without a reply.
    open: BTreeSet<u64>,
}

impl Reader {
    /// All entries; `None` if a record is damaged or missing.
    fn all(&mut self) -> Option<Vec<Entry>> {
        let mut entries = Vec::new();
        loop {
            self.begun = self.at as u64;
            let head = Head::from_bytes(self.bytes.get(self.at..self.at + RECORD_BYTES)?)?;
            let from = self.at + RECORD_BYTES;
            let end = from.checked_add(head.length as usize)?;
            let payload = (end <= self.bytes.len()).then(|| self.bytes.slice(from..end))?;
            let sum = if payload.is_empty() { 0 } else { crc32c(&payload) };
            if sum != head.payload_crc {
                return None;
            }
            self.at = end;
            if head.kind == END {
                let is_whole = head.number == entries.len() as u64 && end == self.bytes.len();
                let is_plain = payload.is_empty() && head.op == 0 && head.at == 0;
                return (is_whole && is_plain).then_some(entries);
            }
            entries.push(self.entry(&head, payload)?);
        }
    }

    fn entry(&mut self, head: &Head, payload: Bytes) -> Option<Entry> {
        let mut fields = Fields::new(payload);
        // Fields that a kind does not have are 0, so that each recording has one form.
        let (no_op, no_time) = (head.op == 0, head.at == 0);
        let entry = match head.kind {
            CALL => {
                let who = fields.word()?;
                let who = Credentials { uid: (who >> 32) as u32, gid: who as u32 };
                let now = fields.word()?.cast_signed();
                let request = request::get(head.op, &mut fields)?;
                let number = self.calls;
                self.calls += 1;
                if !matches!(request, Request::Forget { .. }) {
                    self.open.insert(number);
                }
                let call = Call { id: head.number, who, now, request };
                (head.number == number).then_some(Entry::Call { call, at: head.at })?
            }
            REPLY if no_time => {
                let told = get_told(head.op, &mut fields)?;
                let number = head.number;
                self.open.remove(&number).then_some(Entry::Reply { number, told })?
            }
            FOREIGN if head.number == 0 => {
                let change = request::get_foreign(head.op, &mut fields)?;
                Entry::Foreign { change, at: head.at }
            }
            BEGIN if no_op && no_time && head.number == 0 => {
                let is_first = !std::mem::replace(&mut self.has_begun, true);
                is_first.then_some(Entry::Begin)?
            }
            MARK if no_op && no_time => {
                self.marks += 1;
                let value = fields.rest();
                let value = check_mark(&value).ok()?.to_owned();
                (head.number == self.marks).then_some(Entry::Mark(value))?
            }
            _ => return None,
        };
        fields.is_empty().then_some(entry)
    }
}

#[cfg(test)]
mod tests;
