//! Comma-separated values: a header that names the columns, then one request a line.
//!
//! `op`, `lbn`, `sectors` and `response_us` are required, and either `gap_us` or `time_us`;
//! `device` and `label` are optional, and `label` is ignored. Their order is free, some other names
//! are accepted, and times may be in `_ms` or `_ns`. Other columns are skipped and reported. A file
//! without a header has the six columns of [`lines`], in their order, or five, without the label.

use super::foreign::Foreign;
use super::lines::{self, Lines};
use super::{Pace, Place, Recorded, RecordingError};
use crate::disksim::lexer::shorten;
use seekless_engine::units::Time;
use std::io::BufRead;

/// The meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Op,
    Lbn,
    Sectors,
    Response,
    Gap,
    Time,
    Device,
    Label,
}

const COLUMNS: usize = 8;

impl Column {
    /// Its names in a header: our name first, then other common ones.
    const NAMES: [(Column, &'static [&'static str]); COLUMNS] = [
        (Column::Op, &["op", "rw", "r/w", "operation", "type"]),
        (Column::Lbn, &["lbn", "lba", "blkno", "sector"]),
        (Column::Sectors, &["sectors", "size_sectors", "length_sectors"]),
        (
            Column::Response,
            &["response_us", "response", "response_time", "latency", "service_time"],
        ),
        (Column::Gap, &["gap_us", "gap"]),
        (Column::Time, &["time_us", "time", "arrival", "start_time"]),
        (Column::Device, &["device", "dev", "drive"]),
        (Column::Label, &["label", "hit"]),
    ];

    fn name(self) -> &'static str {
        Column::NAMES[self as usize].1[0]
    }

    /// The column of that name, and nanoseconds in its unit. A time without a unit is refused.
    fn of(name: &str) -> Option<(Column, f64)> {
        let name = name.trim().trim_matches('"').to_ascii_lowercase();
        let is = |name: &str| {
            Column::NAMES.iter().find(|(_, names)| names.contains(&name)).map(|&(column, _)| column)
        };
        let timed =
            |column: &Column| matches!(column, Column::Response | Column::Gap | Column::Time);
        if let Some(column) = is(&name).filter(|column| !timed(column)) {
            return Some((column, 1.0));
        }
        let units = [("_us", 1e3), ("_ms", 1e6), ("_ns", 1.0)];
        units.into_iter().find_map(|(unit, ns)| {
            is(name.strip_suffix(unit)?).filter(timed).map(|column| (column, ns))
        })
    }
}

const HEADER: &str = "the first line is a header such as `op,lbn,sectors,response_us,gap_us` \
                      (or time_us, when each request was sent)";

/// A point in time may count from 1970.
const LATEST_NS: f64 = 9e18;

/// True if a line is neither empty nor a comment.
pub(super) fn is_content(line: &[u8]) -> bool {
    line.trim_ascii().first().is_some_and(|&byte| byte != b'#')
}

#[derive(Debug)]
pub(super) struct Csv<R> {
    lines: Lines<R>,
    /// For each [`Column`] where it stands, and nanoseconds in its unit.
    columns: [Option<(usize, f64)>; COLUMNS],
    width: usize,
    /// Names of columns that are not used.
    pub(super) unknown: Vec<String>,
    /// The format, if another program wrote it.
    foreign: Option<Foreign>,
    /// The first request, where no header came before it.
    first: Option<Recorded>,
}

impl<R: BufRead> Csv<R> {
    pub(super) fn new(bytes: R) -> Result<Csv<R>, RecordingError> {
        let mut lines = Lines::new(bytes);
        let Some((place, line)) = lines.next()? else { return Err(RecordingError::Empty) };
        let line = line.trim_start_matches('\u{feff}');
        if let Some(foreign) = Foreign::of(line) {
            let first = Some(foreign.parse(place, line)?);
            let (columns, width, unknown) = ([None; COLUMNS], 0, Vec::new());
            return Ok(Csv { lines, columns, width, unknown, foreign: Some(foreign), first });
        }
        let mut unknown = Vec::new();
        let (columns, width) = match unnamed(line) {
            Some(columns) => columns,
            None => header(place, line, &mut unknown)?,
        };
        let first = match unnamed(line) {
            Some(_) => Some(parse(place, line, &columns, width)?),
            None => None,
        };
        Ok(Csv { lines, columns, width, unknown, foreign: None, first })
    }

    pub(super) fn read(&mut self) -> Result<Option<Recorded>, RecordingError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let Some((place, line)) = self.lines.next()? else { return Ok(None) };
        match self.foreign {
            Some(foreign) => foreign.parse(place, line).map(Some),
            None => parse(place, line, &self.columns, self.width).map(Some),
        }
    }
}

type Columns = ([Option<(usize, f64)>; COLUMNS], usize);

/// The columns of a file whose first line is a request already.
fn unnamed(line: &str) -> Option<Columns> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    lines::op(Place::Line(1), fields[0]).ok()?;
    let label = match fields.len() {
        5 => 0,
        6 => 1,
        _ => return None,
    };
    let mut columns = [None; COLUMNS];
    columns[Column::Op as usize] = Some((0, 1.0));
    let rest = [Column::Lbn, Column::Sectors, Column::Response, Column::Gap];
    for (index, column) in rest.into_iter().enumerate() {
        columns[column as usize] = Some((index + 1 + label, 1e3));
    }
    Some((columns, fields.len()))
}

fn header(place: Place, line: &str, unknown: &mut Vec<String>) -> Result<Columns, RecordingError> {
    let wrong = |problem: String| RecordingError::new(place, problem, HEADER);
    let mut columns = [None; COLUMNS];
    let mut width = 0;
    for (index, name) in line.split(',').enumerate() {
        width += 1;
        let Some((column, ns)) = Column::of(name) else {
            unknown.push(shorten(name.trim().trim_matches('"')));
            continue;
        };
        if columns[column as usize].replace((index, ns)).is_some() {
            return Err(wrong(format!("the header names `{}` twice", column.name())));
        }
    }
    // The missing column may be there under an unknown name.
    let instead = match unknown.is_empty() {
        true => String::new(),
        false => format!(", but the unknown `{}`", unknown.join("`, `")),
    };
    for column in [Column::Op, Column::Lbn, Column::Sectors, Column::Response] {
        if columns[column as usize].is_none() {
            let name = column.name();
            return Err(wrong(format!("the header has no column `{name}`{instead}")));
        }
    }
    if columns[Column::Gap as usize].is_some() == columns[Column::Time as usize].is_some() {
        let problem = format!("the header must have one of `gap_us` and `time_us`{instead}");
        return Err(wrong(problem));
    }
    Ok((columns, width))
}

fn parse(
    place: Place,
    line: &str,
    columns: &[Option<(usize, f64)>; COLUMNS],
    width: usize,
) -> Result<Recorded, RecordingError> {
    let fields: Vec<&str> = line.split(',').map(|field| field.trim().trim_matches('"')).collect();
    if fields.len() != width {
        return Err(RecordingError::new(
            place,
            format!("{} values under {width} columns", fields.len()),
            "every line has as many values as the header",
        ));
    }
    let field = |column: Column| columns[column as usize].map(|(index, _)| fields[index]);
    let must = |column: Column| field(column).unwrap_or_default();
    let time = |column: Column, name: &str| -> Result<Option<Time>, RecordingError> {
        let Some((index, ns)) = columns[column as usize] else { return Ok(None) };
        let most = if column == Column::Time { LATEST_NS } else { lines::LONGEST_NS };
        lines::time_in(place, name, fields[index], ns, most).map(Some)
    };
    let pace = match time(Column::Time, "time")? {
        Some(at) => Pace::At(at),
        None => Pace::Gap(time(Column::Gap, "gap")?.unwrap_or_default()),
    };
    let device = match field(Column::Device) {
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
        op: lines::op(place, must(Column::Op))?,
        lbn: lines::number(place, "first sector", must(Column::Lbn))?,
        sectors: lines::sectors(place, must(Column::Sectors))?,
        response_ns: time(Column::Response, "response")?.unwrap_or_default(),
        pace,
        device,
    })
}
