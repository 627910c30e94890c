//! The third curve of `vlog/update`: LFS whose cache is NVRAM, by utilisation.

use super::claim::Judge;
use super::job::{self, Job, Key, Platform, Results, Told};
use super::table::{Table, heads, told};
use super::updates::{COUNTED, DATA_ONLY, ms};
use super::{Settings, lfs};
use crate::files::host::Host;
use crate::files::programs::{Amount, ProgramKind};
use crate::files::report::PhaseReport;
use crate::files::run::FilesOptions;
use seekless_engine::units::BLOCK_BYTES;

/// The last one is what the logical disk has room for.
const PERCENTS: [u32; 11] = [10, 20, 30, 40, 50, 60, 70, 80, 85, 90, 93];
const QUICK_PERCENTS: [u32; 3] = [20, 60, 80];
/// Several times the NVRAM.
const UPDATES: u32 = 12_000;
const QUICK_UPDATES: u32 = 3000;
/// Updates that a table of cleaning counts.
const PER: f64 = 1000.0;
const DISK: Platform = Platform::St19101;

fn variant(percent: u32) -> String {
    format!("NVRAM, {}, {percent} %", DISK.name())
}

/// The runs, with a host that takes no time.
pub(super) fn jobs(settings: &Settings) -> Vec<Job> {
    let percents = if settings.quick { &QUICK_PERCENTS[..] } else { &PERCENTS[..] };
    let updates = Some(if settings.quick { QUICK_UPDATES } else { UPDATES });
    let Some(target) = DISK.target(0).ok().filter(|_| lfs::is_asked(settings)) else {
        return Vec::new();
    };
    let disk = target.blocks() * BLOCK_BYTES as u64;
    let volume_blocks = Some(target.largest_volume(lfs::LFS.kind));
    let job = |&percent: &u32| {
        let bytes = (disk as f64 * COUNTED * f64::from(percent) / 100.0) as u64;
        let amount = Amount {
            file_bytes: Some(bytes / BLOCK_BYTES as u64 * BLOCK_BYTES as u64),
            updates,
            seed: settings.seed,
            ..Amount::one_user()
        };
        let options = lfs::with_nvram(ProgramKind::Update, amount);
        let options = FilesOptions { host: Host::none(), volume_blocks, ..options };
        let key =
            Key { policy: lfs::POLICY.name(), volume: lfs::LFS.name, variant: variant(percent) };
        job::files(&key, DISK, &lfs::LFS.under(options))
    };
    percents.iter().flat_map(job).collect()
}

fn report<'r>(results: &Results<'r>, percent: u32) -> Told<&'r PhaseReport> {
    results.phase(lfs::POLICY.name(), lfs::LFS.name, &variant(percent), DATA_ONLY)
}

fn percents(results: &Results<'_>) -> Vec<u32> {
    PERCENTS.into_iter().filter(|&percent| report(results, percent).is_ok()).collect()
}

/// Counters of the volume, for a thousand updates.
fn per_thousand(report: &PhaseReport, counter: &str) -> f64 {
    let updates = report.by_call.get("fsync").map_or(0, |call| call.calls);
    report.volume.get(counter).copied().unwrap_or(0.0) / updates.max(1) as f64 * PER
}

/// Segments cleaned for a thousand updates.
fn cleaned(report: &PhaseReport) -> f64 {
    per_thousand(report, "segments_cleaned")
}

/// The curve as a table.
pub(super) fn table(results: &Results<'_>) -> Table {
    let columns = ["mean ms", "longest ms", "segments cleaned/per 1000 updates"];
    let title = format!("updates of LFS with 6.1 MB of NVRAM on {}, host none", DISK.name());
    let mut table = Table::new(title, heads("% of df", columns.map(str::to_owned)));
    for percent in percents(results) {
        let of = report(results, percent);
        let longest = |one: &PhaseReport| {
            one.by_call.values().map(|call| call.latency_ms.max).fold(0.0, f64::max)
        };
        let cells = [of.clone().map(ms), of.clone().map(longest), of.map(cleaned)];
        table.row(percent.to_string(), cells.map(told).to_vec());
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
    // 6.1 MB are 31 % of what df shows.
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
        let (middle, end) = (at(60, 85), at(90, 100));
        let high = middle.iter().copied().fold(0.0, f64::max);
        let low = middle.iter().copied().fold(high, f64::min);
        let climbs = !end.is_empty() && end.iter().all(|&last| last > high);
        let found = format!("{low:.2} to {high:.2} ms between 60 and 85 %");
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
