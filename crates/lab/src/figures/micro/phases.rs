//! The phases of `journal/micro`, and rates of one.

use crate::figures::job::{IN_PLACE, Results, Told};
use crate::figures::paper::label;
use crate::files::report::PhaseReport;

/// A phase of the files of a size.
pub(in crate::figures) fn phase<'r>(
    results: &Results<'r>,
    policy: &'static str,
    volume: &'static str,
    what: &str,
    kb: u64,
) -> Told<&'r PhaseReport> {
    results.phase(policy, volume, &label(kb), &format!("{what} {}", label(kb)))
}

/// MB/s until all calls were answered.
pub(in crate::figures) fn rate(phase: &PhaseReport) -> f64 {
    phase.bytes as f64 / 1e6 / phase.elapsed_seconds.max(f64::MIN_POSITIVE)
}

/// MB/s until everything was on the disk.
pub(in crate::figures) fn settled(phase: &PhaseReport) -> f64 {
    phase.megabytes_per_second
}

/// Files removed per second until everything was on the disk.
pub(in crate::figures) fn removed_settled(phase: &PhaseReport) -> f64 {
    phase.files_per_second
}

/// Files removed per second until all calls were answered.
pub(in crate::figures) fn removed(phase: &PhaseReport) -> f64 {
    phase.by_call.get("unlink").map_or(0.0, |call| call.per_second)
}

/// The phase on the volume of the paper.
pub(in crate::figures) fn plain<'r>(
    results: &Results<'r>,
    policy: &'static str,
    what: &str,
    kb: u64,
) -> Told<&'r PhaseReport> {
    phase(results, policy, IN_PLACE.name, what, kb)
}
