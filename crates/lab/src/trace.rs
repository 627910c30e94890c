//! Recorded block requests, and the reader of their lines.
//!
//! A trace is a stream of [`Record`]s, from a file or from a generator, and never in memory as a
//! whole. [`Lines`] reads the kernel's block trace as comma-separated values, from any reader;
//! [`Mapper`] maps a record to blocks of a volume.

mod footprint;

pub(crate) use footprint::push;
pub use footprint::{Blocks, Footprint, Mapper, Mapping, NoRoom};

use seekless_engine::units::{BLOCK_SECTORS, BlockNr, SECONDS, Time};
use std::io::BufRead;

/// Longest line of a trace, in bytes. The four fields are much shorter.
const LONGEST_LINE: u64 = 1024;

/// Longest request of a trace, in sectors (1 GiB): a longer one is an error.
const LONGEST_REQUEST: u64 = 1 << 21;

/// Latest time of a trace, in seconds: thirty years.
const LATEST_SECONDS: f64 = 1e9;

/// The operation of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read sectors.
    Read,
    /// Write sectors.
    Write,
    /// Trim sectors.
    Trim,
    /// Make acknowledged writes durable.
    Flush,
}

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it arrived, in nanoseconds of the trace's own clock.
    pub at_ns: Time,
    /// Its operation.
    pub action: Action,
    /// A flush comes first (the kernel's `PREFLUSH`).
    pub flush_first: bool,
    /// Acknowledge only when durable.
    pub fua: bool,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Number of sectors; 0 for a flush.
    pub sectors: u64,
}

impl Record {
    /// A request without a time for `count` blocks from `at` on; neither flush nor FUA.
    pub fn of_blocks(action: Action, at: BlockNr, count: u64) -> Record {
        Record {
            at_ns: 0,
            action,
            flush_first: false,
            fua: false,
            sector: at * BLOCK_SECTORS,
            sectors: count * BLOCK_SECTORS,
        }
    }
}

/// Why a trace cannot be read further. Messages name the file and the line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line is malformed.
    #[error(
        "{name}:{line}: {problem}; a line has four fields: time in seconds, flags such as R, WS \
         or FWFS, first sector, number of sectors"
    )]
    Line {
        /// The file.
        name: String,
        /// The line, from 1 on.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// Times run backwards, and the replay uses them.
    #[error(
        "{name}:{line}: this time is before that of the line above; sort the lines, or let users \
         take turns: --loop closed"
    )]
    Backwards {
        /// The file.
        name: String,
        /// The line, from 1 on.
        line: u64,
    },
    /// The file cannot be read.
    #[error("{name}: {problem}")]
    Read {
        /// The file.
        name: String,
        /// The error of the reader.
        problem: String,
    },
    /// The trace has no requests.
    #[error("{0}: the trace has no requests")]
    Empty(String),
}

/// A stream of records.
pub type Records<'a> = Box<dyn Iterator<Item = Result<Record, TraceError>> + 'a>;

/// Reads lines of `time,flags,sector,sectors`, as the kernel's tracepoint `block_bio_queue` has
/// them. Empty lines and lines that begin with `#` are skipped. After an error it ends.
#[derive(Debug)]
pub struct Lines<R> {
    name: String,
    reader: R,
    line: u64,
    text: Vec<u8>,
    ended: bool,
    /// Times must not run backwards; the last one.
    ordered: bool,
    last_ns: Time,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `reader`, which errors call `name`.
    pub fn new(name: &str, reader: R) -> Lines<R> {
        let (name, text) = (name.to_owned(), Vec::new());
        Lines { name, reader, line: 0, text, ended: false, ordered: false, last_ns: 0 }
    }

    /// The same, but a line with an earlier time than the line above is an error: for replays that
    /// use the times.
    pub fn in_order(mut self) -> Lines<R> {
        self.ordered = true;
        self
    }

    /// The next line into the buffer; false at the end.
    fn fetch(&mut self) -> Result<bool, TraceError> {
        self.text.clear();
        self.line += 1;
        let mut part = std::io::Read::take(&mut self.reader, LONGEST_LINE);
        let read = part.read_until(b'\n', &mut self.text).map_err(|error| TraceError::Read {
            name: self.name.clone(),
            problem: error.to_string(),
        })?;
        if read as u64 == LONGEST_LINE && self.text.last() != Some(&b'\n') {
            return Err(self.problem(format!("longer than {LONGEST_LINE} bytes")));
        }
        Ok(read > 0)
    }

    fn problem(&self, problem: String) -> TraceError {
        TraceError::Line { name: self.name.clone(), line: self.line, problem }
    }

    fn record(&mut self) -> Result<Option<Record>, TraceError> {
        while self.fetch()? {
            let Ok(text) = std::str::from_utf8(&self.text) else {
                let binary = "bytes that are not text; SRT files are recordings, which \
                              `seekless disk validate` takes";
                return Err(self.problem(binary.to_owned()));
            };
            let text = text.trim();
            if !text.is_empty() && !text.starts_with('#') {
                let record = parse(text).map_err(|problem| self.problem(problem))?;
                if self.ordered && record.at_ns < self.last_ns {
                    let (name, line) = (self.name.clone(), self.line);
                    return Err(TraceError::Backwards { name, line });
                }
                self.last_ns = record.at_ns;
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Result<Record, TraceError>> {
        if self.ended {
            return None;
        }
        let record = self.record().transpose();
        self.ended = !matches!(record, Some(Ok(_)));
        record
    }
}

/// What a line is that belongs to a file of another format, and what takes or converts it.
fn other_format(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    let number = |text: &&str| text.parse::<f64>().is_ok();
    let awk = |script: &str| format!("convert it with `awk {script}`");
    if let ["R" | "W", _, rest @ ..] = words.as_slice()
        && rest.len() == 4
        && rest.iter().all(number)
    {
        let how = "`seekless disk validate` and `disk calibrate` take it";
        return Some(format!("this is a line of a recording, not of a trace; {how}"));
    }
    if text.starts_with("fio version") {
        let how = "`blkparse -f` of a run writes a trace";
        return Some(format!("this is an iolog of fio, which has no times of a device; {how}"));
    }
    if let [_, _, _, "Read" | "Write", ..] = fields.as_slice()
        && fields.len() == 7
    {
        let script = "-F, '{if(!n++)t=$1; printf \"%.7f,%s,%d,%d\\n\", ($1-t)/1e7, \
                      substr($4,1,1), $5/512, $6/512}'";
        return Some(format!("this is a trace of MSR Cambridge; {}", awk(script)));
    }
    if fields.len() >= 5 && fields[..5].iter().all(number) {
        let script = "-F, '{printf \"%.3f,%s,%d,%d\\n\", $1/1e3, $3?\"W\":\"R\", $5/512, $4/512}'";
        return Some(format!("this is a latency log of fio; {}", awk(script)));
    }
    // The header of an SRT file is text.
    let srt = fields.len() < 4 && (text.contains("SRT") || text.contains("tracedate"));
    srt.then(|| "this is an SRT file; `seekless disk validate` takes it".to_owned())
}

/// A line, or what is wrong with it.
fn parse(text: &str) -> Result<Record, String> {
    if let Some(problem) = other_format(text) {
        return Err(problem);
    }
    let mut fields = text.split(',').map(str::trim);
    let mut field = |what: &str| fields.next().ok_or_else(|| format!("there is no {what}"));
    let (time, flags) = (field("time")?, field("flags")?);
    let (sector, sectors) = (field("first sector")?, field("number of sectors")?);
    if fields.next().is_some() {
        return Err("there are more than four fields".to_owned());
    }
    let seconds: f64 = time.parse().map_err(|_| format!("`{time}` is not a time"))?;
    if !(0.0..=LATEST_SECONDS).contains(&seconds) {
        return Err(format!("{seconds} s is not a time of a trace"));
    }
    let number =
        |text: &str| text.parse().map_err(|_| format!("`{text}` is not a number of sectors"));
    let (sector, sectors): (u64, u64) = (number(sector)?, number(sectors)?);
    if sectors > LONGEST_REQUEST || sector.checked_add(sectors).is_none() {
        return Err(format!("no request has sectors {sector}+{sectors}"));
    }
    let (action, flush_first, fua) = flagged(flags)?;
    let record = Record {
        at_ns: (seconds * SECONDS as f64).round() as Time,
        action,
        flush_first,
        fua,
        sector,
        sectors,
    };
    match (action, sectors, flush_first) {
        (Action::Flush, ..) => Ok(Record { sector: 0, sectors: 0, flush_first: false, ..record }),
        // The kernel reports a bare flush as an empty write that begins with a flush.
        (_, 0, true) => Ok(Record {
            action: Action::Flush,
            sector: 0,
            flush_first: false,
            fua: false,
            ..record
        }),
        (_, 0, false) => Err(format!("`{flags}` of no sectors")),
        _ => Ok(record),
    }
}

/// Reads flags as `blk_fill_rwbs` of the kernel writes them: `F` for a flush first, the operation,
/// `F` for forced unit access, and letters without effect on a disk (`A` read ahead, `S`
/// synchronous, `M` metadata).
fn flagged(flags: &str) -> Result<(Action, bool, bool), String> {
    let unknown = || format!("`{flags}` are no flags of a request");
    let (flush_first, rest) = match flags.strip_prefix('F') {
        Some(rest) if !rest.is_empty() => (true, rest),
        _ => (false, flags),
    };
    let mut letters = rest.chars();
    let action = match letters.next() {
        Some('R') => Action::Read,
        Some('W') => Action::Write,
        Some('D') => Action::Trim,
        Some('F') => Action::Flush,
        // An operation without a letter: only its flush is known.
        Some('N') if flush_first => Action::Flush,
        _ => return Err(unknown()),
    };
    let mut fua = false;
    for letter in letters {
        match letter {
            'F' => fua = true,
            'A' | 'S' | 'M' => {}
            'E' if action == Action::Trim => {}
            _ => return Err(unknown()),
        }
    }
    Ok((action, flush_first, fua))
}

#[cfg(test)]
mod tests;
