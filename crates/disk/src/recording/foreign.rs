//! Comma-separated recordings of other programs, which have no header: fio's latency log, and the
//! traces of MSR Cambridge.

use super::lines;
use super::{Op, Pace, Place, Recorded, RecordingError};
use seekless_engine::units::Time;

/// Sectors of 512 bytes.
const SECTOR: u64 = 512;

/// Whose format it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Foreign {
    /// `write_lat_log` of fio with `log_offset=1`: time in ms, latency in ns, direction, bytes,
    /// offset, and more. The time is too coarse for a platter. With one request at a time each is
    /// sent when the one before is complete, so the latencies give the times.
    Fio,
    /// Timestamp in 100 ns, host, disk, `Read` or `Write`, offset, bytes, response in 100 ns.
    Msr,
}

impl Foreign {
    /// The format that a line shows.
    pub(super) fn of(line: &str) -> Option<Foreign> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let number = |index: usize| fields[index].parse::<u64>().ok();
        match fields.len() {
            5.. if (0..5).all(|index| number(index).is_some())
                && number(2).is_some_and(|kind| kind < 3)
                && number(3).is_some_and(|bytes| bytes > 0 && bytes.is_multiple_of(SECTOR)) =>
            {
                Some(Foreign::Fio)
            }
            7 if [0, 2, 4, 5, 6].iter().all(|&index| number(index).is_some())
                && matches!(fields[3], "Read" | "Write") =>
            {
                Some(Foreign::Msr)
            }
            _ => None,
        }
    }

    /// A line of it.
    pub(super) fn parse(self, place: Place, line: &str) -> Result<Recorded, RecordingError> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let (least, name) = match self {
            Foreign::Fio => (5, "a latency log of fio with log_offset=1"),
            Foreign::Msr => (7, "a trace of MSR Cambridge"),
        };
        if fields.len() < least {
            let problem = format!("{} values, in {name}", fields.len());
            return Err(RecordingError::new(place, problem, "is the line complete?"));
        }
        let number = |index: usize, name: &str| lines::number(place, name, fields[index]);
        let (op, offset, bytes) = match self {
            Foreign::Fio => {
                let op = match fields[2] {
                    "0" => Op::Read,
                    "1" => Op::Write,
                    other => {
                        let problem = format!("direction {other}");
                        return Err(RecordingError::new(place, problem, "log reads and writes"));
                    }
                };
                (op, number(4, "offset")?, number(3, "length")?)
            }
            Foreign::Msr => {
                (lines::op(place, fields[3])?, number(4, "offset")?, number(5, "length")?)
            }
        };
        let time = |index: usize, name: &str, ns: f64| {
            lines::time_in(place, name, fields[index], ns, lines::LONGEST_NS)
        };
        let (response_ns, pace, device) = match self {
            Foreign::Fio => (time(1, "latency", 1.0)?, Pace::Gap(0), 0),
            Foreign::Msr => {
                // Dates count from 1601: only differences matter, and they must fit.
                let ticks = number(0, "timestamp")?;
                let at: Time = (ticks % (1 << 54)) * 100;
                let device = u32::try_from(number(2, "disk")?).unwrap_or(u32::MAX);
                (time(6, "response", 100.0)?, Pace::At(at), device)
            }
        };
        let sectors = bytes.div_ceil(SECTOR);
        let sectors = lines::sectors(place, &sectors.to_string())?;
        let lbn = offset / SECTOR;
        lines::bounded(Recorded { place, op, lbn, sectors, response_ns, pace, device })
    }
}
