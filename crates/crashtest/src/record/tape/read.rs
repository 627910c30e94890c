//! Reading a recording, record by record, even if it is damaged.

use super::{
    ANSWER, EMPTY, END, FLUSH, FUA, Fields, HEADER_BYTES, Header, MAGIC, NO_HOLE, RECORD_BYTES,
    TRIM, VERSION, WRITE, ZEROS, le32, le64,
};
use seekless_engine::checksum::crc32c;
use std::collections::HashSet;
use std::io::{self, Read};

/// Bytes of payload read at once.
const CHUNK: usize = 256 << 10;

/// Why a file is not a usable recording.
#[derive(Debug, thiserror::Error)]
pub enum TapeError {
    /// It does not begin with the magic bytes.
    #[error("this is not a recording; `seekless record` makes one")]
    Foreign,
    /// It is from a later version of the program.
    #[error("the recording has format version {0}, this program reads up to 1; update it")]
    Newer(u32),
    /// The header is cut short or damaged.
    #[error("the header of the recording is damaged or cut short; record again")]
    Header,
    /// The operating system fails.
    #[error("cannot read the recording: {0}")]
    Os(#[from] io::Error),
}

/// How a recording ends behind its last whole record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapeEnd {
    /// With the mark of a clean shutdown.
    Clean,
    /// With the mark of a clean shutdown and bytes behind it, such as another recording.
    Followed {
        /// Where those bytes begin.
        at: u64,
    },
    /// With nothing, or part of a record: the recorder was killed or the file was cut off here.
    Cut {
        /// Bytes of whole records.
        at: u64,
    },
    /// With bytes that are not a record.
    Damaged {
        /// Where they begin.
        at: u64,
    },
}

/// The content of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Zeros, without payload on the tape.
    Zeros,
    /// The bytes that begin here in the recording.
    At(u64),
}

impl Payload {
    /// The content from `bytes` further on.
    pub fn skip(self, bytes: u64) -> Payload {
        match self {
            Payload::Zeros => Payload::Zeros,
            Payload::At(at) => Payload::At(at + bytes),
        }
    }
}

/// A request or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A write request.
    Write {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u32,
        /// Acknowledge only when durable.
        fua: bool,
        /// Content to write.
        payload: Payload,
    },
    /// A request to write zeros.
    Zeros {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u32,
        /// Acknowledge only when durable.
        fua: bool,
        /// Keep the space allocated.
        no_hole: bool,
    },
    /// A trim request.
    Trim {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u32,
        /// Acknowledge only when durable.
        fua: bool,
    },
    /// A flush request.
    Flush,
    /// The request of that number was answered.
    Answer {
        /// 0 for success.
        errno: u32,
    },
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which connection, from 1.
    pub connection: u32,
    /// Number of the request that is asked or answered, from 1 in order of asking.
    pub number: u64,
    /// The request or answer.
    pub what: What,
}

/// A recording being read. For any file the events are valid: ranges lie on the export, numbers
/// count up, each answer belongs to a request, and payloads match their checksums.
#[derive(Debug)]
pub struct Recording<R> {
    file: R,
    header: Header,
    at: u64,
    requests: u64,
    open: HashSet<(u32, u64)>,
    end: Option<TapeEnd>,
    chunk: Vec<u8>,
}

/// Result of filling a buffer.
enum Filled {
    Whole,
    Short,
}

impl<R: Read> Recording<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// If this is not a usable recording.
    pub fn open(mut file: R) -> Result<Recording<R>, TapeError> {
        let mut bytes = [0; HEADER_BYTES];
        let filled = fill(&mut file, &mut bytes)?;
        if bytes[..8] != MAGIC {
            return Err(TapeError::Foreign);
        }
        let version = le32(&bytes, 8);
        if matches!(filled, Filled::Short)
            || le32(&bytes, HEADER_BYTES - 4) != crc32c(&bytes[..HEADER_BYTES - 4])
        {
            return Err(TapeError::Header);
        }
        if version != VERSION {
            return Err(TapeError::Newer(version));
        }
        let header = Header { size_bytes: le64(&bytes, 16), multi_conn: le32(&bytes, 12) & 1 != 0 };
        Ok(Recording {
            file,
            header,
            at: HEADER_BYTES as u64,
            requests: 0,
            open: HashSet::new(),
            end: None,
            chunk: Vec::new(),
        })
    }

    /// The export, from the header.
    pub fn header(&self) -> Header {
        self.header
    }

    /// What follows the last event; `None` until that has been read.
    pub fn end(&self) -> Option<TapeEnd> {
        self.end
    }

    /// The next event; `None` behind the last whole record. [`Recording::end`] then says why.
    ///
    /// # Errors
    /// Only what the operating system reports.
    pub fn next_event(&mut self) -> io::Result<Option<Event>> {
        if self.end.is_some() {
            return Ok(None);
        }
        let start = self.at;
        let event = self.record()?;
        if event.is_none() {
            self.end.get_or_insert(TapeEnd::Damaged { at: start });
        }
        Ok(event)
    }

    /// The next record; `None` at the end, which is damage unless the end is set.
    fn record(&mut self) -> io::Result<Option<Event>> {
        let start = self.at;
        let mut bytes = [0; RECORD_BYTES];
        if let Filled::Short = fill(&mut self.file, &mut bytes)? {
            self.end = Some(TapeEnd::Cut { at: start });
            return Ok(None);
        }
        let Some(fields) = Fields::from_bytes(&bytes) else { return Ok(None) };
        let payload_at = start + RECORD_BYTES as u64;
        self.at = payload_at + u64::from(fields.payload_bytes());
        let known = match fields.kind {
            WRITE | ZEROS | TRIM => self.ask(&fields) && self.is_inside(&fields),
            FLUSH => self.ask(&fields),
            ANSWER => self.open.remove(&(fields.connection, fields.number)),
            _ => {
                let clean = fields.kind == END && fields.number == self.requests;
                if clean {
                    self.end = Some(match fill(&mut self.file, &mut [0])? {
                        Filled::Short => TapeEnd::Clean,
                        Filled::Whole => TapeEnd::Followed { at: self.at },
                    });
                }
                return Ok(None);
            }
        };
        let Some(what) = what(&fields, payload_at).filter(|_| known) else { return Ok(None) };
        match self.payload(&fields)? {
            Some(Filled::Whole) => {}
            Some(Filled::Short) => {
                self.end = Some(TapeEnd::Cut { at: start });
                return Ok(None);
            }
            None => return Ok(None),
        }
        Ok(Some(Event { connection: fields.connection, number: fields.number, what }))
    }

    fn ask(&mut self, fields: &Fields) -> bool {
        self.requests += 1;
        fields.number == self.requests && self.open.insert((fields.connection, fields.number))
    }

    fn is_inside(&self, fields: &Fields) -> bool {
        let end = fields.offset.checked_add(u64::from(fields.length));
        end.is_some_and(|end| end <= self.header.size_bytes)
    }

    /// Reads past the payload of a record; `None` if its checksum is wrong.
    fn payload(&mut self, fields: &Fields) -> io::Result<Option<Filled>> {
        let (mut left, mut sum) = (fields.payload_bytes() as usize, 0);
        self.chunk.resize(CHUNK.min(left).max(self.chunk.len()), 0);
        while left > 0 {
            let part = &mut self.chunk[..left.min(CHUNK)];
            if let Filled::Short = fill(&mut self.file, part)? {
                return Ok(Some(Filled::Short));
            }
            sum = crc_on(sum, part);
            left -= part.len();
        }
        Ok((sum == fields.payload_crc).then_some(Filled::Whole))
    }
}

fn crc_on(sum: u32, part: &[u8]) -> u32 {
    seekless_engine::checksum::crc32c_append(sum, part)
}

fn what(fields: &Fields, payload_at: u64) -> Option<What> {
    let Fields { flags, offset, length, errno, .. } = *fields;
    let (fua, no_hole) = (flags & FUA != 0, flags & NO_HOLE != 0);
    let allowed = match fields.kind {
        WRITE => FUA | EMPTY,
        ZEROS => FUA | NO_HOLE,
        TRIM => FUA,
        _ => 0,
    };
    if flags & !allowed != 0 {
        return None;
    }
    Some(match fields.kind {
        WRITE => {
            let payload = if flags & EMPTY != 0 { Payload::Zeros } else { Payload::At(payload_at) };
            What::Write { offset, length, fua, payload }
        }
        ZEROS => What::Zeros { offset, length, fua, no_hole },
        TRIM => What::Trim { offset, length, fua },
        FLUSH => What::Flush,
        ANSWER => What::Answer { errno },
        _ => return None,
    })
}

/// Fills a buffer unless the file ends before.
fn fill(file: &mut impl Read, out: &mut [u8]) -> io::Result<Filled> {
    let mut filled = 0;
    while filled < out.len() {
        match file.read(&mut out[filled..]) {
            Ok(0) => return Ok(Filled::Short),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Filled::Whole)
}
