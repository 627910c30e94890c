//! Recordings of real drives: the requests, when they were sent, and how long the drive took.
//!
//! [`Recording`] reads one request after the other from a reader, in any of four formats
//! ([`Format`]). [`Replay`] sends the same requests to a model, and [`Statistics`] computes its
//! error.

mod blkparse;
mod csv;
mod foreign;
mod lines;
pub mod plot;
mod replay;
mod srt;
mod statistics;
mod subject;

#[cfg(test)]
mod tests;

use seekless_engine::units::Time;
use std::io::BufRead;

pub use replay::{Gap, LONGEST_REPLAY, Outcome, Refused, Replay, ReplayError, Subject};
pub use statistics::{Figures, Report, Statistics};

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Data come from the drive.
    Read,
    /// Data go to the drive.
    Write,
}

/// When a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// A pause before or after the request, in nanoseconds; [`Gap`] says which.
    Gap(Time),
    /// At this time, in nanoseconds; zero is defined by the recording.
    At(Time),
}

/// One request of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its place: the number of the line, or the byte offset in a binary file.
    pub place: Place,
    /// Read or write.
    pub op: Op,
    /// First logical block, in sectors of 512 bytes.
    pub lbn: u64,
    /// Length in sectors of 512 bytes, at least one.
    pub sectors: u32,
    /// How long the drive took, in nanoseconds.
    pub response_ns: Time,
    /// When it was sent.
    pub pace: Pace,
    /// Which drive it went to; zero if the format has only one drive.
    pub device: u32,
}

/// A place in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line, from one.
    Line(u64),
    /// A byte of a binary file, from zero.
    Byte(u64),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The text or the record is invalid.
    #[error("{place}: {problem}; {remedy}")]
    Malformed {
        /// Where.
        place: Place,
        /// What is wrong.
        problem: String,
        /// What to do about it.
        remedy: String,
    },
    /// There is not one request in it.
    #[error("the recording holds no request; give a file with one request a line, or an SRT file")]
    Empty,
    /// The bytes could not be read.
    #[error("cannot read the recording: {0}")]
    Io(#[from] std::io::Error),
}

impl RecordingError {
    fn new(place: Place, problem: impl Into<String>, remedy: impl Into<String>) -> RecordingError {
        RecordingError::Malformed { place, problem: problem.into(), remedy: remedy.into() }
    }
}

/// The format of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Six columns: `R` or `W`, a label, first sector, sectors, response and gap in microseconds.
    Columns,
    /// Comma-separated values under a header that names them.
    Csv,
    /// HP Labs' binary records, with a text header or without.
    Srt,
    /// The events of requests as `blkparse` writes them.
    Blkparse,
}

impl Format {
    /// The format that the first bytes of a recording suggest.
    pub fn of(begin: &[u8]) -> Format {
        if srt::looks_like(begin) {
            return Format::Srt;
        }
        let line = begin.split(|&byte| byte == b'\n').find(|line| csv::is_content(line));
        match line {
            Some(line) if blkparse::looks_like(line) => Format::Blkparse,
            Some(line) if line.contains(&b',') => Format::Csv,
            _ => Format::Columns,
        }
    }
}

/// The program that compressed a file, by its magic bytes.
fn compressed(begin: &[u8]) -> Option<&'static str> {
    let magic: [(&[u8], &str); 2] = [(&[0x1f, 0x8b], "gzip"), (&[0x28, 0xb5, 0x2f, 0xfd], "zstd")];
    magic.into_iter().find(|(bytes, _)| begin.starts_with(bytes)).map(|(_, name)| name)
}

/// A recording, read request by request: memory does not grow with its length.
#[derive(Debug)]
pub struct Recording<R> {
    reader: Reader<R>,
    format: Format,
    /// Nothing comes after an error or the end.
    ended: bool,
    count: u64,
    /// When the latest request so far was sent, if the recording has times.
    latest: Option<Time>,
    belated: u64,
}

#[derive(Debug)]
enum Reader<R> {
    Columns(lines::Columns<R>),
    Csv(Box<csv::Csv<R>>),
    Srt(srt::Srt<R>),
    Blkparse(blkparse::Blkparse<R>),
}

impl<R: BufRead> Recording<R> {
    /// Opens a recording whose format its first bytes show.
    ///
    /// # Errors
    /// If the bytes cannot be read or the header is wrong.
    pub fn open(mut bytes: R) -> Result<Recording<R>, RecordingError> {
        let begin = bytes.fill_buf()?;
        if let Some(name) = compressed(begin) {
            return Err(RecordingError::new(
                Place::Byte(0),
                format!("the recording is compressed with {name}"),
                "decompress it first",
            ));
        }
        let format = Format::of(begin);
        Recording::with_format(bytes, format)
    }

    /// Opens a recording of a known format.
    ///
    /// # Errors
    /// If the bytes cannot be read or the header is wrong.
    pub fn with_format(bytes: R, format: Format) -> Result<Recording<R>, RecordingError> {
        let reader = match format {
            Format::Columns => Reader::Columns(lines::Columns::new(bytes)),
            Format::Csv => Reader::Csv(Box::new(csv::Csv::new(bytes)?)),
            Format::Srt => Reader::Srt(srt::Srt::new(bytes)?),
            Format::Blkparse => Reader::Blkparse(blkparse::Blkparse::new(bytes)),
        };
        Ok(Recording { reader, format, ended: false, count: 0, latest: None, belated: 0 })
    }

    /// The format that is read.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Records so far that are not requests: the suspect records of an SRT file.
    pub fn passed_over(&self) -> u64 {
        match &self.reader {
            Reader::Srt(reader) => reader.suspect,
            Reader::Columns(_) | Reader::Csv(_) | Reader::Blkparse(_) => 0,
        }
    }

    /// Columns of comma-separated values that are not used.
    pub fn unknown_columns(&self) -> &[String] {
        match &self.reader {
            Reader::Csv(reader) => &reader.unknown,
            Reader::Columns(_) | Reader::Srt(_) | Reader::Blkparse(_) => &[],
        }
    }

    /// Requests so far that stand behind one that was sent later. SRT files may have such: a driver
    /// that sorts its queue passes requests to the drive in another order than it logs them. In
    /// comma-separated values they are an error.
    pub fn belated(&self) -> u64 {
        self.belated
    }

    /// Checks that time does not run backwards.
    fn in_order(&mut self, request: Recorded) -> Result<Recorded, RecordingError> {
        let Pace::At(at) = request.pace else { return Ok(request) };
        let latest = self.latest.unwrap_or(at);
        self.latest = Some(latest.max(at));
        if at >= latest {
            return Ok(request);
        }
        self.belated += 1;
        if self.format == Format::Srt {
            return Ok(request);
        }
        let us = |ns: Time| ns as f64 / 1e3;
        let problem = format!("time runs backwards, from {} to {} µs", us(latest), us(at));
        Err(RecordingError::new(request.place, problem, "sort the requests by when they were sent"))
    }
}

impl<R: BufRead> Iterator for Recording<R> {
    type Item = Result<Recorded, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let found = match &mut self.reader {
            Reader::Columns(reader) => reader.read(),
            Reader::Csv(reader) => reader.read(),
            Reader::Srt(reader) => reader.read(),
            Reader::Blkparse(reader) => reader.read(),
        };
        let found = match found {
            Ok(Some(request)) => self.in_order(request).map(Some),
            other => other,
        };
        match found {
            Ok(Some(request)) => {
                self.count += 1;
                Some(Ok(request))
            }
            Ok(None) => {
                self.ended = true;
                (self.count == 0).then_some(Err(RecordingError::Empty))
            }
            Err(error) => {
                self.ended = true;
                Some(Err(error))
            }
        }
    }
}
