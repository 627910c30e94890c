//! Reading a recording, record by record, even if it is damaged.

use super::{
    ANSWER, BEGIN, DISKS, EMPTY, END, FLUSH, FUA, Fields, HEADER_BYTES, Header, MAGIC, MARK,
    MARKS_SINCE, MOST_MARK_BYTES, NO_HOLE, ONE_DISK, RECORD_BYTES, TRIM, VERSION, WRITE, ZEROS,
    check_mark, le32, le64,
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
    #[error("the recording has format version {0}, this program reads up to {latest}; update it",
        latest = VERSION)]
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
    /// The workload begins.
    Begin,
    /// A program acknowledged a value. [`Recording::mark`] has it until the next event is read.
    Mark {
        /// Where the value is in the recording.
        payload: Payload,
        /// Bytes of the value.
        length: u32,
    },
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which connection, from 1; 0 for marks and the begin.
    pub connection: u32,
    /// Number of the request that is asked or answered, from 1 in order of asking. Marks are
    /// numbered from 1 on their own.
    pub number: u64,
    /// The request, answer or mark.
    pub what: What,
}

/// A recording being read. For any file the events are valid: ranges lie on the export, numbers
/// count up, each answer belongs to a request, and payloads match their checksums.
#[derive(Debug)]
pub struct Recording<R> {
    file: R,
    header: Header,
    version: u32,
    at: u64,
    requests: u64,
    marks: u64,
    has_begun: bool,
    open: HashSet<(u32, u64)>,
    end: Option<TapeEnd>,
    chunk: Vec<u8>,
    /// Value of the mark that was read last.
    mark: String,
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
        if !(1..=VERSION).contains(&version) {
            return Err(TapeError::Newer(version));
        }
        let second = Some(le64(&bytes, 24)).filter(|_| version > ONE_DISK);
        let header =
            Header { size_bytes: le64(&bytes, 16), multi_conn: le32(&bytes, 12) & 1 != 0, second };
        if !header.is_sound() {
            return Err(TapeError::Header);
        }
        Ok(Recording {
            file,
            header,
            version,
            at: HEADER_BYTES as u64,
            requests: 0,
            marks: 0,
            has_begun: false,
            open: HashSet::new(),
            end: None,
            chunk: Vec::new(),
            mark: String::new(),
        })
    }

    /// The export, from the header.
    pub fn header(&self) -> Header {
        self.header
    }

    /// The value of the mark that [`Recording::next_event`] gave last; empty before the first.
    pub fn mark(&self) -> &str {
        &self.mark
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
            FLUSH => self.ask(&fields) && self.has_connection(fields.connection),
            ANSWER => self.open.remove(&(fields.connection, fields.number)),
            MARK => self.is_next_mark(&fields),
            BEGIN => self.is_begin(&fields),
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
        if fields.kind == MARK && !self.take_mark(&fields) {
            return Ok(None);
        }
        Ok(Some(Event { connection: fields.connection, number: fields.number, what }))
    }

    fn ask(&mut self, fields: &Fields) -> bool {
        self.requests += 1;
        fields.number == self.requests && self.open.insert((fields.connection, fields.number))
    }

    fn is_next_mark(&self, fields: &Fields) -> bool {
        let length = fields.length as usize;
        self.version >= MARKS_SINCE
            && fields.connection == 0
            && fields.number == self.marks + 1
            && (1..=MOST_MARK_BYTES).contains(&length)
    }

    /// A recording has one begin at most.
    fn is_begin(&mut self, fields: &Fields) -> bool {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let empty = Fields { kind: BEGIN, ..Fields::default() };
        self.version >= MARKS_SINCE && is_first && *fields == empty
    }

    /// Keeps the value of a mark whose payload was just read; false if it is no value.
    fn take_mark(&mut self, fields: &Fields) -> bool {
        const { assert!(MOST_MARK_BYTES <= CHUNK, "a value is read at once") };
        let Ok(value) = check_mark(&self.chunk[..fields.length as usize]) else { return false };
        self.mark.clear();
        self.mark.push_str(value);
        self.marks = fields.number;
        true
    }

    fn is_inside(&self, fields: &Fields) -> bool {
        let range = self.header.range(fields.connection);
        let end = fields.offset.checked_add(u64::from(fields.length));
        range.start <= fields.offset && end.is_some_and(|end| end <= range.end)
    }

    /// Of two disks each has a connection, and there are no others.
    fn has_connection(&self, connection: u32) -> bool {
        self.header.second.is_none() || DISKS.contains(&connection)
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
        MARK => What::Mark { payload: Payload::At(payload_at), length },
        BEGIN => What::Begin,
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
