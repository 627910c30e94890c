//! How the gaps of a recording are read, and its requests to one device.

use super::files::{self, wrong_recording};
use crate::failure::{Exit, Failure};
use clap::ValueEnum;
use seekless_disk::calibrate::{CalibrateError, Readings, readings};
use seekless_disk::recording::{self, Recorded, Recording};
use seekless_disk::spec::Spec;
use std::io::BufReader;
use std::path::Path;

/// Requests that decide how gaps are read.
const FOR_GAP: usize = 5000;

/// Which pause the gap on a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Gap {
    /// From the completion before to this request.
    Before,
    /// From this completion to the next request.
    After,
    /// Whichever the angles of the platter agree with.
    Auto,
}

impl Gap {
    /// The reading, if it is not left open.
    pub(super) fn fixed(self) -> Option<recording::Gap> {
        match self {
            Gap::Before => Some(recording::Gap::Before),
            Gap::After => Some(recording::Gap::After),
            Gap::Auto => None,
        }
    }
}

/// The requests of a recording to one device: the one asked for, or the first.
pub(super) fn requests(
    path: &Path,
    device: Option<u32>,
    most: usize,
) -> Result<Vec<Recorded>, Failure> {
    let file = files::open(path)?;
    let blame = |error: recording::RecordingError| wrong_recording(path, &error.into());
    let mut recording = Recording::open(BufReader::new(file)).map_err(blame)?;
    files::name_unknown(path, &recording);
    let (mut kept, mut elsewhere, mut wanted) = (Vec::new(), 0u64, device);
    for request in recording.by_ref() {
        let request = request.map_err(blame)?;
        if request.device == *wanted.get_or_insert(request.device) {
            kept.push(request);
        } else {
            elsewhere += 1;
        }
        if kept.len() == most {
            break;
        }
    }
    if kept.is_empty() {
        let cause = format!("{}: no request went to that device", path.display());
        return Err(Failure::usage(cause).hint(format!("{elsewhere} went to others")));
    }
    Ok(kept)
}

/// How the gaps of a recording are to be read, found out if the command line leaves it open.
///
/// # Errors
/// If the recording does not show it.
pub(super) fn decide(
    gap: Gap,
    spec: &Spec,
    path: &Path,
    device: Option<u32>,
) -> Result<recording::Gap, Failure> {
    if let Some(gap) = gap.fixed() {
        return Ok(gap);
    }
    let requests = requests(path, device, FOR_GAP)?;
    if requests.iter().any(|one| matches!(one.pace, recording::Pace::At(_))) {
        return Ok(recording::Gap::After);
    }
    let found = readings(spec, &requests).map_err(|error| failure(&spec.name, path, error))?;
    found.gap().ok_or_else(|| {
        Failure::failed(format!("{}: {}", path.display(), unclear(&found)))
            .hint("give --gap before or --gap after")
    })
}

fn unclear(found: &Readings) -> String {
    format!(
        "it does not show how gaps are read: angles agree by {:.2} with gaps before requests and \
         by {:.2} with gaps after them, over {} pairs",
        found.before, found.after, found.pairs
    )
}

/// The failure for a recording that no calibration can use.
pub(super) fn failure(disk: &str, path: &Path, error: CalibrateError) -> Failure {
    match error {
        CalibrateError::Few(_) => {
            Failure::from_message(Exit::Failed, &format!("{}: {error}", path.display()))
        }
        CalibrateError::Spec(error) => {
            Failure::from_message(Exit::Usage, &format!("{disk}: {error}"))
        }
        CalibrateError::Replay(error) => wrong_recording(path, &error),
    }
}
