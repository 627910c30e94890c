//! Lines of bounded length, the fields in them, and the format with six columns.

use super::{Op, Pace, Place, Recorded, RecordingError};
use crate::disksim::lexer::shorten;
use seekless_engine::units::Time;
use std::io::BufRead;

/// Longest line of a recording: a file without line ends must not fill memory.
const LONGEST: usize = 4096;

/// Times above this (eleven days) are no response of a drive and no pause of a host.
pub(super) const LONGEST_NS: f64 = 1e15;

/// Lines with their numbers.
#[derive(Debug)]
pub(super) struct Lines<R> {
    bytes: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(bytes: R) -> Lines<R> {
        Lines { bytes, line: Vec::new(), number: 0 }
    }

    /// The next line that is neither empty nor a comment (`#`).
    pub(super) fn next(&mut self) -> Result<Option<(Place, &str)>, RecordingError> {
        loop {
            self.line.clear();
            if !self.fill()? {
                return Ok(None);
            }
            let content = self.line.trim_ascii();
            if !content.is_empty() && content[0] != b'#' {
                break;
            }
        }
        let place = Place::Line(self.number);
        match std::str::from_utf8(self.line.trim_ascii()) {
            Ok(text) => Ok(Some((place, text))),
            Err(_) => Err(RecordingError::new(
                place,
                "this is not text",
                "recordings are text, or HP Labs' SRT records",
            )),
        }
    }

    /// Reads one line into the buffer; false at the end of the file.
    fn fill(&mut self) -> Result<bool, RecordingError> {
        self.number += 1;
        loop {
            let buffer = self.bytes.fill_buf()?;
            if buffer.is_empty() {
                return Ok(!self.line.is_empty());
            }
            let end = buffer.iter().position(|&byte| byte == b'\n');
            let length = end.unwrap_or(buffer.len());
            if self.line.len() + length > LONGEST {
                return Err(RecordingError::new(
                    Place::Line(self.number),
                    format!("the line is longer than {LONGEST} bytes"),
                    "is this a recording?",
                ));
            }
            self.line.extend_from_slice(&buffer[..length]);
            self.bytes.consume(length + usize::from(end.is_some()));
            if end.is_some() {
                return Ok(true);
            }
        }
    }
}

/// The content of a column, for error messages.
pub(super) fn op(place: Place, text: &str) -> Result<Op, RecordingError> {
    match text {
        "R" | "r" | "read" | "Read" | "READ" => Ok(Op::Read),
        "W" | "w" | "write" | "Write" | "WRITE" => Ok(Op::Write),
        other => Err(RecordingError::new(
            place,
            format!("`{}` is not an operation", shorten(other)),
            "write R for a read, W for a write",
        )),
    }
}

pub(super) fn number(place: Place, name: &str, text: &str) -> Result<u64, RecordingError> {
    text.parse().map_err(|_| {
        RecordingError::new(
            place,
            format!("the {name} `{}` is not a whole number", shorten(text)),
            "write it in decimal digits",
        )
    })
}

pub(super) fn sectors(place: Place, text: &str) -> Result<u32, RecordingError> {
    let sectors = number(place, "length", text)?;
    u32::try_from(sectors).ok().filter(|&sectors| sectors > 0).ok_or_else(|| {
        RecordingError::new(
            place,
            format!("a request of {sectors} sectors"),
            "a request has at least one sector and less than 2 TiB",
        )
    })
}

/// Microseconds, with a fraction or without, as nanoseconds.
pub(super) fn time(place: Place, name: &str, text: &str) -> Result<Time, RecordingError> {
    time_in(place, name, text, 1e3, LONGEST_NS)
}

/// A time as nanoseconds, `unit_ns` of which are in its unit, from zero to `most_ns`.
pub(super) fn time_in(
    place: Place,
    name: &str,
    text: &str,
    unit_ns: f64,
    most_ns: f64,
) -> Result<Time, RecordingError> {
    let ns = text.parse::<f64>().ok().map(|time| time * unit_ns);
    ns.filter(|ns| (0.0..=most_ns).contains(ns)).map(|ns| ns.round() as Time).ok_or_else(|| {
        let unit = match unit_ns {
            1.0 => "nanoseconds",
            1e6 => "milliseconds",
            _ => "microseconds",
        };
        RecordingError::new(
            place,
            format!("the {name} `{}` is not a time", shorten(text)),
            format!("write {unit}, zero or more"),
        )
    })
}

/// Checks that a request ends below sector 2⁵⁵.
pub(super) fn bounded(request: Recorded) -> Result<Recorded, RecordingError> {
    if request.lbn.checked_add(u64::from(request.sectors)).is_some_and(|end| end < 1 << 55) {
        return Ok(request);
    }
    Err(RecordingError::new(
        request.place,
        format!("sector {} lies beyond any disk", request.lbn),
        "the third column is the first sector of 512 bytes",
    ))
}

/// The six columns of DiskSim's validation traces.
#[derive(Debug)]
pub(super) struct Columns<R> {
    lines: Lines<R>,
}

impl<R: BufRead> Columns<R> {
    pub(super) fn new(bytes: R) -> Columns<R> {
        Columns { lines: Lines::new(bytes) }
    }

    pub(super) fn read(&mut self) -> Result<Option<Recorded>, RecordingError> {
        let Some((place, line)) = self.lines.next()? else { return Ok(None) };
        let mut fields = line.split_ascii_whitespace();
        let mut take = || fields.next();
        let (Some(op), Some(_label), Some(lbn), Some(sectors), Some(response), Some(gap)) =
            (take(), take(), take(), take(), take(), take())
        else {
            return Err(RecordingError::new(place, "fewer than six columns", COLUMNS));
        };
        if fields.next().is_some() {
            return Err(RecordingError::new(place, "more than six columns", COLUMNS));
        }
        let request = Recorded {
            place,
            op: self::op(place, op)?,
            lbn: number(place, "first sector", lbn)?,
            sectors: self::sectors(place, sectors)?,
            response_ns: time(place, "response", response)?,
            pace: Pace::Gap(time(place, "gap", gap)?),
            device: 0,
        };
        bounded(request).map(Some)
    }
}

const COLUMNS: &str =
    "they are: R or W, a label, first sector, sectors, response and gap in microseconds";
