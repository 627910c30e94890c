//! How far a specification is off parts of a recording.

use super::CalibrateError;
use crate::drive::Drive;
use crate::recording::{Figures, Gap, Recorded, Replay, Report, Statistics};
use crate::spec::Spec;
use std::ops::Range;

/// A recording, and the part of it that scores are computed on.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    pub(super) requests: &'a [Recorded],
    pub(super) gap: Gap,
    pub(super) learnt: Range<usize>,
    pub(super) apart: Range<usize>,
}

/// The disk on the host of the recording, and without a limit of its capacity: the drive served all
/// that was recorded.
pub(super) fn whole(spec: &Spec) -> Spec {
    let spec = spec.as_recorded();
    let open = Spec { capacity_sectors: None, ..spec.clone() };
    if open.validate().is_ok() { open } else { spec }
}

/// MAE and RMS together, in milliseconds. Half of RMS counts for reads and writes apart: errors of
/// the one could hide those of the other.
pub(super) fn score_of(report: &Report) -> Option<f64> {
    let part = |figures: &Figures| figures.rms_ms.unwrap_or(0.0) * figures.requests as f64;
    let apart = (part(&report.reads) + part(&report.writes)) / report.all.requests.max(1) as f64;
    Some(report.all.mae_ms? + (report.all.rms_ms? + apart) / 2.0)
}

impl Judge<'_> {
    /// Replays a recording up to the end of a part, and reports on the part.
    pub(super) fn report(
        &self,
        spec: &Spec,
        part: &Range<usize>,
    ) -> Result<Report, CalibrateError> {
        let spec = whole(spec);
        Drive::new(&spec)?;
        let make = || Drive::new(&spec).expect("the specification was tried above");
        let mut replay = Replay::new(self.gap, make);
        let mut statistics = Statistics::new();
        // What comes before a part sets the state of the drive: some hundred requests suffice.
        let begin = part.start.saturating_sub(200);
        for (index, request) in self.requests[begin..part.end].iter().enumerate() {
            let outcome = replay.step(*request)?;
            if begin + index >= part.start {
                statistics.add(&outcome);
            }
        }
        Ok(statistics.report())
    }

    /// The score on the part that is learnt from. `None` for a specification that is not sound.
    pub(super) fn score(&self, spec: &Spec) -> Option<f64> {
        let report = self.report(spec, &self.learnt).ok()?;
        score_of(&report)
    }

    /// The score on the part that is kept apart.
    pub(super) fn unseen(&self, spec: &Spec) -> Option<f64> {
        let report = self.report(spec, &self.apart).ok()?;
        score_of(&report)
    }
}
