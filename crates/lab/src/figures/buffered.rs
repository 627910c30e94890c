//! The third curve of `vlog/update`: a log-structured disk behind an NVRAM buffer, by utilisation.
//!
//! The paper runs a file system there. Here random updates go to the layout `lfs` itself, so the
//! file is the whole volume. Its cleaner takes the segments with the least live blocks.

use super::Settings;
use super::claim::Judge;
use super::job::{AS_IT_IS, IN_PLACE, Job, Key, Outcome, Platform, Results, Told, Work};
use super::table::{Table, heads, told};
use crate::sim::SimReport;

const PERCENTS: [u32; 10] = [10, 20, 30, 40, 50, 60, 70, 80, 84, 86];
const QUICK_PERCENTS: [u32; 3] = [20, 60, 80];
const UPDATES: u64 = 20_000;
const QUICK_UPDATES: u64 = 2000;
/// Updates that a table of cleaning counts.
const PER: f64 = 1000.0;

fn variant(percent: u32) -> String {
    format!("lfs behind NVRAM, {percent} %")
}

/// The runs, which depend on no policy.
pub(super) fn jobs(settings: &Settings) -> Vec<Job> {
    let percents = if settings.quick { &QUICK_PERCENTS[..] } else { &PERCENTS[..] };
    let updates = if settings.quick { QUICK_UPDATES } else { UPDATES };
    let job = |&percent: &u32| {
        let key = Key { policy: "", volume: IN_PLACE.name, variant: variant(percent) };
        let work = Work::Buffered { percent, updates };
        Job { key, factor: AS_IT_IS, platform: Platform::St19101, angle: 0, work }
    };
    percents.iter().map(job).collect()
}

fn report<'r>(results: &Results<'r>, percent: u32) -> Told<&'r SimReport> {
    match results.other("", &variant(percent))? {
        Outcome::Buffered(report) => Ok(report),
        _ => Err(format!("{percent} % was not run")),
    }
}

fn percents(results: &Results<'_>) -> Vec<u32> {
    PERCENTS.into_iter().filter(|&percent| report(results, percent).is_ok()).collect()
}

fn ms(report: &SimReport) -> f64 {
    report.latency_ms.mean
}

/// Segments cleaned for a thousand updates. The counter includes the warm-up, which has as many
/// updates as are measured.
fn cleaned(report: &SimReport) -> f64 {
    let segments = report.layout_stats.get("segments_cleaned").copied().unwrap_or(0.0);
    segments / (2 * report.requests).max(1) as f64 * PER
}

/// The curve as a table.
pub(super) fn table(results: &Results<'_>) -> Table {
    let columns =
        ["mean ms", "p99 ms", "segments cleaned/per 1000 updates", "blocks written/per update"];
    let title = format!(
        "updates of a volume on lfs behind 6.1 MB of NVRAM, {}, no file system",
        Platform::St19101.name()
    );
    let mut table = Table::new(title, heads("% of the disk", columns.map(str::to_owned)));
    for percent in percents(results) {
        let of = report(results, percent);
        let cells = [
            told(of.clone().map(ms)),
            told(of.clone().map(|one| one.latency_ms.p99)),
            told(of.clone().map(cleaned)),
            told(of).and_then(|one| one.write_amplification),
        ];
        table.row(percent.to_string(), cells.to_vec());
    }
    table
}

/// V39 of LFS, and V40.
pub(super) fn claims(results: &Results<'_>, judge: &mut Judge<'_>) {
    let curve = || -> Told<Vec<(u32, f64, f64)>> {
        let percents = percents(results);
        if percents.len() < 3 {
            return Err("too few utilisations were run".to_owned());
        }
        percents
            .into_iter()
            .map(|percent| {
                let one = report(results, percent)?;
                Ok((percent, ms(one), cleaned(one)))
            })
            .collect()
    };
    let list = |each: &[(u32, f64)]| {
        let each: Vec<String> =
            each.iter().map(|(percent, value)| format!("{value:.2} at {percent} %")).collect();
        each.join(", ")
    };
    let because = || match curve() {
        Ok(curve) => {
            let cleaned: Vec<(u32, f64)> = curve.iter().map(|one| (one.0, one.2)).collect();
            format!("segments cleaned per 1000 updates: {}", list(&cleaned))
        }
        Err(why) => why,
    };
    // 6.1 MB are 28 % of the raw disk.
    let knee = curve().map(|curve| {
        let small = curve.iter().filter(|one| one.0 <= 20).map(|one| one.1).fold(0.0, f64::max);
        let large = curve.iter().filter(|one| one.0 >= 40).map(|one| one.1);
        let large = large.fold(f64::INFINITY, f64::min);
        let times: Vec<(u32, f64)> = curve.iter().map(|one| (one.0, one.1)).collect();
        (large > 10.0 * small.max(1e-6), format!("ms: {}", list(&times)))
    });
    let says = "LFS with NVRAM: memory speed while the file fits in it, then a jump";
    judge.claim("V39/lfs", says).shape(knee, because);
    let plateau = curve().map(|curve| {
        let at = |low: u32, high: u32| {
            let within = curve.iter().filter(|one| (low..=high).contains(&one.0));
            within.map(|one| one.1).collect::<Vec<f64>>()
        };
        let (middle, end) = (at(60, 80), at(86, 100));
        let high = middle.iter().copied().fold(0.0, f64::max);
        let low = middle.iter().copied().fold(high, f64::min);
        let climbs = !end.is_empty() && end.iter().all(|&last| last > high);
        let found = format!("{low:.2} to {high:.2} ms between 60 and 80 %");
        (high <= 1.3 * low && climbs, found)
    });
    let says = "LFS with NVRAM: a plateau from 60 to 85 %, within a third, then a climb";
    judge.claim("V39/lfs/plateau", says).shape(plateau, because);
    let flat = curve().map(|curve| {
        let pairs = curve.windows(2).filter(|pair| pair[0].0 >= 30);
        let equal: Vec<String> = pairs
            .filter(|pair| pair[1].2 <= pair[0].2 * 1.02)
            .map(|pair| format!("{} to {} %", pair[0].0, pair[1].0))
            .collect();
        let found = match equal.is_empty() {
            true => "the number grows with every step of utilisation".to_owned(),
            false => format!("it does not grow from {}", equal.join(", ")),
        };
        (!equal.is_empty(), found)
    });
    let says = "the segments to clean can be as many or more at a lower utilisation";
    judge.claim("V40", says).shape(flat, because);
}
