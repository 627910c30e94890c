//! Any bytes as the recording of a drive: read in pieces, replayed, compared and drawn.

use seekless_disk::Drive;
use seekless_disk::recording::plot::{Ink, distributions};
use seekless_disk::recording::{Format, Gap, Pace, Recorded, Recording, Replay, Statistics};
use std::io::BufReader;

/// Times are at most eleven days; a thousand of them in a row stay far below the limit of 64 bits.
const REPLAYED: usize = 1000;

fn read(format: Option<Format>, piece: usize, bytes: &[u8]) -> (Vec<Recorded>, Option<String>) {
    let bytes = BufReader::with_capacity(piece, bytes);
    let opened = match format {
        Some(format) => Recording::with_format(bytes, format),
        None => Recording::open(bytes),
    };
    let mut recording = match opened {
        Ok(recording) => recording,
        Err(error) => return (Vec::new(), Some(error.to_string())),
    };
    let mut found = Vec::new();
    for request in recording.by_ref() {
        match request {
            Ok(request) => found.push(request),
            Err(error) => {
                assert!(recording.next().is_none(), "something follows {error}");
                return (found, Some(error.to_string()));
            }
        }
    }
    (found, None)
}

/// The fuzz target.
pub fn run(input: &[u8]) {
    let [setup, piece, bytes @ ..] = input else { return };
    let format = match setup & 3 {
        0 => None,
        1 => Some(Format::Columns),
        2 => Some(Format::Csv),
        _ => Some(Format::Srt),
    };
    let found = read(format, 1 << 16, bytes);
    if format.is_some() {
        // The split of the bytes does not change the result.
        assert_eq!(read(format, usize::from(*piece).max(1), bytes), found);
    }
    let (requests, error) = found;
    assert!(error.is_some() || !requests.is_empty(), "nothing was found and nothing is wrong");
    let spec = seekless_disk::specs::find("hp-c2490a").expect("a built-in disk");
    let sectors = spec.capacity_sectors();
    let gap = if setup & 4 == 0 { Gap::Before } else { Gap::After };
    let mut replay = Replay::new(gap, || Drive::new(&spec).expect("a sound disk"));
    let mut statistics = Statistics::new();
    let mut count = 0;
    for mut request in requests.into_iter().take(REPLAYED) {
        assert!(request.sectors > 0 && request.lbn < 1 << 55);
        if setup & 8 != 0 {
            // Onto the disk, so that more than one request is served.
            request.lbn %= sectors - 1;
            request.sectors = 1 + request.sectors % 256;
        }
        // One drive is enough, and fast.
        request.device = 0;
        let Ok(outcome) = replay.step(request) else { break };
        assert!(outcome.simulated_ns > 0);
        if let Pace::At(_) = request.pace {
            assert!(count > 0 || outcome.issued == 0);
        }
        statistics.add(&outcome);
        count += 1;
    }
    let report = statistics.report();
    assert_eq!(report.all.requests, count);
    assert_eq!(report.reads.requests + report.writes.requests, count);
    for figures in [report.all, report.reads, report.writes] {
        for value in [figures.rms_ms, figures.mae_ms, figures.correlation] {
            assert!(value.is_none_or(f64::is_finite), "{figures:?}");
        }
    }
    let text = distributions(&report.measured, &report.simulated, 60, 16, Ink::Ascii);
    assert_eq!(text.is_empty(), count == 0);
    assert!(text.is_ascii());
}
