//! The text of `blkparse`: a line for each event of a request. A request is sent to the drive with
//! the event `D` and complete with `C`; the other events are the host's own.
//!
//! Requests come out in the order in which they were sent, each once it is complete. Lines of
//! another shape, such as the summary at the end, are passed over.

use super::lines::{self, Lines};
use super::{Op, Pace, Place, Recorded, RecordingError};
use crate::disksim::lexer::shorten;
use seekless_engine::units::Time;
use std::collections::VecDeque;
use std::io::BufRead;

/// So many requests may be in drives at a time. More are events whose completions are missing.
const MOST: usize = 4096;

/// An event of a request to a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event {
    complete: bool,
    device: u32,
    at: Time,
    op: Op,
    lbn: u64,
    sectors: u32,
}

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    place: Place,
    event: Event,
    done: Option<Time>,
}

#[derive(Debug)]
pub(super) struct Blkparse<R> {
    lines: Lines<R>,
    /// In the order in which they were sent.
    sent: VecDeque<Sent>,
    ended: bool,
}

/// True for a line of an event: device, processor, number, time, process, event.
pub(super) fn looks_like(line: &[u8]) -> bool {
    let Ok(line) = std::str::from_utf8(line) else { return false };
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    fields.len() >= 7
        && device(fields[0]).is_some()
        && fields[1].parse::<u32>().is_ok()
        && fields[2].parse::<u64>().is_ok()
        && fields[3].contains('.')
        && fields[4].parse::<u64>().is_ok()
}

/// A device as one number, from `major,minor`.
fn device(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once(',')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}

/// What a request does, from its letters; none if it moves no data.
fn op(letters: &str) -> Option<Op> {
    // A leading F is a flush before the data; any other letters are modifiers.
    match letters.strip_prefix('F').unwrap_or(letters).chars().next()? {
        'R' => Some(Op::Read),
        'W' => Some(Op::Write),
        _ => None,
    }
}

/// Seconds with a fraction, as nanoseconds.
fn time(place: Place, text: &str) -> Result<Time, RecordingError> {
    let read = || {
        let (seconds, fraction) = text.split_once('.')?;
        let digits = fraction.len();
        if !(1..=9).contains(&digits) || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let seconds: u64 = seconds.parse().ok().filter(|&seconds| seconds < 1 << 32)?;
        let fraction: u64 = fraction.parse().ok()?;
        Some(seconds * 1_000_000_000 + fraction * 10u64.pow(9 - digits as u32))
    };
    read().ok_or_else(|| {
        let problem = format!("`{}` is not a time", shorten(text));
        RecordingError::new(place, problem, "blkparse writes seconds with nine decimals")
    })
}

/// The event on a line, if it concerns data of a drive.
fn event(place: Place, line: &str) -> Result<Option<Event>, RecordingError> {
    if !looks_like(line.as_bytes()) {
        return Ok(None);
    }
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let complete = match fields[5] {
        "D" => false,
        "C" => true,
        _ => return Ok(None),
    };
    let (Some(device), Some(op)) = (device(fields[0]), op(fields[6])) else { return Ok(None) };
    // A flush without data and a command of the driver have no such sectors.
    let [Some(lbn), Some("+"), Some(sectors)] = [7, 8, 9].map(|index| fields.get(index).copied())
    else {
        return Ok(None);
    };
    if sectors == "0" {
        return Ok(None);
    }
    Ok(Some(Event {
        complete,
        device,
        at: time(place, fields[3])?,
        op,
        lbn: lines::number(place, "first sector", lbn)?,
        sectors: lines::sectors(place, sectors)?,
    }))
}

impl<R: BufRead> Blkparse<R> {
    pub(super) fn new(bytes: R) -> Blkparse<R> {
        Blkparse { lines: Lines::new(bytes), sent: VecDeque::new(), ended: false }
    }

    pub(super) fn read(&mut self) -> Result<Option<Recorded>, RecordingError> {
        loop {
            if let Some(request) = self.first_complete() {
                return lines::bounded(request).map(Some);
            }
            if self.ended {
                return Ok(None);
            }
            let Some((place, line)) = self.lines.next()? else {
                // What is not complete at the end never will be.
                self.ended = true;
                self.sent.retain(|one| one.done.is_some());
                continue;
            };
            if let Some(event) = event(place, line)? {
                self.take(place, event)?;
            }
        }
    }

    fn first_complete(&mut self) -> Option<Recorded> {
        let Sent { place, event, done } = *self.sent.front()?;
        let response_ns = done?.saturating_sub(event.at);
        self.sent.pop_front();
        let Event { device, at, op, lbn, sectors, .. } = event;
        Some(Recorded { place, op, lbn, sectors, response_ns, pace: Pace::At(at), device })
    }

    fn take(&mut self, place: Place, event: Event) -> Result<(), RecordingError> {
        if event.complete {
            let same = |one: &&mut Sent| {
                one.done.is_none() && Event { complete: true, at: event.at, ..one.event } == event
            };
            // A request that was sent before the recording began has no beginning.
            if let Some(one) = self.sent.iter_mut().find(same) {
                one.done = Some(event.at);
            }
            return Ok(());
        }
        if self.sent.len() == MOST {
            let problem = format!("{MOST} requests were sent and the first is not complete");
            let remedy = "record the events issue and complete of one drive";
            return Err(RecordingError::new(place, problem, remedy));
        }
        self.sent.push_back(Sent { place, event, done: None });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, Pace, Recorded, Recording, RecordingError};

    const TEXT: &str = "\
  8,16   1        1     0.000000000  4242  A   R 80 + 8 <- (8,17) 16
  8,16   1        2     0.000001000  4242  Q   R 80 + 8 [fio]
  8,16   1        3     0.000001500  4242  P   N [fio]
  8,16   1        4     0.000002000  4242  D   R 80 + 8 [fio]
  8,16   1        5     0.000003000  4242  D  WS 160 + 16 [fio]
  8,16   0        1     0.004003000     0  C  WS 160 + 16 [0]
  8,16   0        2     0.008002000     0  C   R 80 + 8 [0]
  8,16   0        3     0.008002500     0  C   R 8000 + 8 [0]
  8,16   1        6     0.009000000  4242  D  FN [fio]
  8,16   1        7     0.010000000  4242  D   D 400 + 8 [fio]
  8,16   1        8     1.010000001  4242  D FWS 240 + 8 [fio]
  8,16   1        9     1.020000001     0  C FWS 240 + 8 [0]
  8,16   1       10     1.030000000  4242  D  RA 320 + 8 [fio]
CPU0 (8,16):
 Reads Queued:           1,        4KiB\t Writes Queued:           1,        8KiB
Total (8,16):
Throughput (R/W): 1KiB/s / 2KiB/s
";

    fn read(text: &str) -> Result<Vec<Recorded>, RecordingError> {
        let recording = Recording::open(text.as_bytes())?;
        assert_eq!(recording.format(), Format::Blkparse);
        recording.collect()
    }

    /// A read that ends after a later write, a flush, a trim, and a read without an end.
    #[test]
    fn requests_are_paired_with_their_completions() {
        let found = read(TEXT).expect("three requests");
        let told: Vec<_> = found
            .iter()
            .map(|one| (one.place.to_string(), one.lbn, one.sectors, one.response_ns, one.pace))
            .collect();
        assert_eq!(
            told,
            [
                ("line 4".to_owned(), 80, 8, 8_000_000, Pace::At(2000)),
                ("line 5".to_owned(), 160, 16, 4_000_000, Pace::At(3000)),
                ("line 11".to_owned(), 240, 8, 10_000_000, Pace::At(1_010_000_001)),
            ]
        );
        assert!(found.iter().all(|one| one.device == 8 << 20 | 16));
    }

    #[test]
    fn what_blkparse_does_not_write_is_an_error_with_its_line() {
        let line = TEXT.lines().nth(3).expect("a request");
        for (from, to, said) in [
            ("80 +", "x +", "line 1: the first sector `x`"),
            ("+ 8", "+ -8", "line 1: the length `-8`"),
            ("0.000002000", "0.0000020001", "line 1: `0.0000020001` is not a time"),
        ] {
            let error = read(&line.replace(from, to)).expect_err(to).to_string();
            assert!(error.contains(said), "{error}");
        }
        let sent = format!("{line}\n").repeat(5000);
        let error = read(&sent).expect_err("no end").to_string();
        assert!(error.contains("line 4097: 4096 requests"), "{error}");
        let error = read(line).expect_err("no request is complete").to_string();
        assert!(error.contains("no request"), "{error}");
    }
}
