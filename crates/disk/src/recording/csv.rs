//! Comma-separated values: a header that names the columns, then one request a line.
//!
//! `op`, `lbn`, `sectors` and `response_us` must be there, and either `gap_us` or `time_us`;
//! `device` may be. Their order is free.

use super::lines::{self, Lines};
use super::{Pace, Place, Recorded, RecordingError};
use std::io::BufRead;

const NAMES: [&str; 7] = ["op", "lbn", "sectors", "response_us", "gap_us", "time_us", "device"];
const HEADER: &str = "the first line is a header such as `op,lbn,sectors,response_us,gap_us` \
                      (or time_us, when each request was sent)";

/// True if a line is neither empty nor a comment.
pub(super) fn is_content(line: &[u8]) -> bool {
    line.trim_ascii().first().is_some_and(|&byte| byte != b'#')
}

#[derive(Debug)]
pub(super) struct Csv<R> {
    lines: Lines<R>,
    /// For each of [`NAMES`] the column that holds it.
    columns: [Option<usize>; NAMES.len()],
    width: usize,
}

impl<R: BufRead> Csv<R> {
    pub(super) fn new(bytes: R) -> Result<Csv<R>, RecordingError> {
        let mut lines = Lines::new(bytes);
        let Some((place, header)) = lines.next()? else { return Err(RecordingError::Empty) };
        let mut columns = [None; NAMES.len()];
        let mut width = 0;
        for (index, name) in header.split(',').enumerate() {
            width += 1;
            let name = name.trim();
            let Some(known) = NAMES.iter().position(|known| *known == name) else {
                let problem = format!("the header names an unknown column `{name}`");
                return Err(RecordingError::new(place, problem, HEADER));
            };
            if columns[known].replace(index).is_some() {
                let problem = format!("the header names `{name}` twice");
                return Err(RecordingError::new(place, problem, HEADER));
            }
        }
        if let Some(missing) = (0..4).find(|&known| columns[known].is_none()) {
            let problem = format!("the header has no column `{}`", NAMES[missing]);
            return Err(RecordingError::new(place, problem, HEADER));
        }
        if columns[4].is_some() == columns[5].is_some() {
            let problem = "the header must have one of `gap_us` and `time_us`";
            return Err(RecordingError::new(place, problem, HEADER));
        }
        Ok(Csv { lines, columns, width })
    }

    pub(super) fn read(&mut self) -> Result<Option<Recorded>, RecordingError> {
        let Some((place, line)) = self.lines.next()? else { return Ok(None) };
        let mut fields = [""; NAMES.len()];
        let mut width = 0;
        for field in line.split(',') {
            if let Some(place) = fields.get_mut(width) {
                *place = field.trim();
            }
            width += 1;
        }
        if width != self.width {
            return Err(RecordingError::new(
                place,
                format!("{width} values under {} columns", self.width),
                "every line has as many values as the header",
            ));
        }
        parse(place, &self.columns, &fields).map(Some)
    }
}

fn parse(
    place: Place,
    columns: &[Option<usize>; NAMES.len()],
    fields: &[&str; NAMES.len()],
) -> Result<Recorded, RecordingError> {
    let field = |known: usize| columns[known].map(|index| fields[index]);
    let must = |known: usize| field(known).unwrap_or_default();
    let pace = match field(5) {
        Some(at) => Pace::At(lines::time(place, "time", at)?),
        None => Pace::Gap(lines::time(place, "gap", must(4))?),
    };
    let device = match field(6) {
        Some(text) => {
            let number = lines::number(place, "device", text)?;
            u32::try_from(number).map_err(|_| {
                RecordingError::new(place, format!("device {number}"), "number drives from 0")
            })?
        }
        None => 0,
    };
    lines::bounded(Recorded {
        place,
        op: lines::op(place, must(0))?,
        lbn: lines::number(place, "first sector", must(1))?,
        sectors: lines::sectors(place, must(2))?,
        response_ns: lines::time(place, "response", must(3))?,
        pace,
        device,
    })
}
