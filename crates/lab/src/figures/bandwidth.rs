//! `dcd/bandwidth`: random writes of eight sizes to the disk of paper 002 alone, and the bounds
//! that follow for a program that writes small requests.
//!
//! The paper explains all its ratios by a bandwidth of `B s / (s + X)` for requests of `s`: half of
//! the full bandwidth is reached at `X`. The claims take a mix of sizes from the paper (D25).

use super::chart::{Chart, Series, Shape};
use super::claim::Judge;
use super::job::{IN_PLACE, Job, Key, Outcome, Platform, Results, Told, Work};
use super::table::{Table, heads, told};
use super::{Parts, Settings, UFS};

pub(super) const PARTS: Parts = Parts {
    name: "dcd/bandwidth",
    source: "paper 002, figure 10",
    title: "random writes of eight sizes to the disk alone",
    systems: &UFS,
    logged: false,
    jobs,
    judge,
    chart,
};

const SIZES_KB: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// How many times slower than 128 KB the paper prints, as far as it does.
const PUBLISHED: [Option<f64>; 8] =
    [Some(55.0), Some(28.0), Some(14.3), Some(7.4), None, None, None, None];
const LARGEST_KB: u64 = 128;
/// The constant that explains the ratios of the paper.
const PAPER_X: f64 = 94.7;
/// Bytes that each size writes: those of the paper.
const BYTES: u64 = 20 << 20;
const QUICK_BYTES: u64 = 2 << 20;
/// Shares of requests of 8, 2 and 1 KB when four users remove (D25).
const MIX: [(f64, f64); 3] = [(8.0, 0.50), (2.0, 0.15), (1.0, 0.35)];
/// Share of the time that is neither a write nor shortened by the log.
const REST: f64 = 0.07;

fn variant(kb: u64) -> String {
    format!("random writes of {kb} KB")
}

fn jobs(settings: &Settings) -> Vec<Job> {
    let all = if settings.quick { QUICK_BYTES } else { BYTES };
    let job = |&kb: &u64| {
        let key = Key { policy: "", volume: IN_PLACE.name, variant: variant(kb) };
        let work = Work::Raw { each: kb << 10, all };
        Job::new(key, Platform::Barracuda, work)
    };
    SIZES_KB.iter().map(job).collect()
}

fn rate(results: &Results<'_>, kb: u64) -> Told<f64> {
    match results.other("", &variant(kb))? {
        Outcome::Stream(rate) => Ok(*rate),
        _ => Err("the disk alone was not run".to_owned()),
    }
}

/// How many times slower than the largest requests.
fn slower(results: &Results<'_>, kb: u64) -> Told<f64> {
    Ok(rate(results, LARGEST_KB)? / rate(results, kb)?.max(f64::MIN_POSITIVE))
}

/// The same by the formula.
fn formula(kb: f64, x: f64) -> f64 {
    let largest = LARGEST_KB as f64;
    (kb + x) / kb * largest / (largest + x)
}

/// The constant that fits best, and the largest share by which a size is off.
fn fit(results: &Results<'_>) -> Told<(f64, f64)> {
    let found: Vec<(f64, f64)> =
        SIZES_KB.iter().map(|&kb| Ok((kb as f64, slower(results, kb)?))).collect::<Told<_>>()?;
    let off = |x: f64| {
        let each = found.iter().map(|&(kb, ratio)| (ratio / formula(kb, x) - 1.0).abs());
        each.fold(0.0, f64::max)
    };
    let constants = (100..4000).map(|tenths| f64::from(tenths) / 10.0);
    let best = constants.map(|x| (x, off(x))).min_by(|a, b| a.1.total_cmp(&b.1));
    best.ok_or_else(|| "nothing was fitted".to_owned())
}

/// The bound of the gain if requests count alike, and if they count by the time they take.
fn bounds(x: f64) -> (f64, f64) {
    let by_request = MIX.iter().map(|&(kb, share)| share * formula(kb, x)).sum();
    let time: f64 = MIX.iter().map(|&(kb, share)| share * kb * formula(kb, x)).sum();
    (by_request, time / MIX.iter().map(|&(kb, share)| share * kb).sum::<f64>())
}

fn overall(bound: f64) -> f64 {
    1.0 / (REST + (1.0 - REST) / bound)
}

fn judge(results: &Results<'_>, judge: &mut Judge<'_>) -> Vec<Table> {
    let columns =
        ["MB/s", "slower than/128 KB", "formula/with our X", "formula/with X 94.7", "paper"];
    let title = format!("random writes to {}", Platform::Barracuda.name());
    let mut table = Table::new(title, heads("KB", columns.map(str::to_owned)));
    let fitted = fit(results);
    for (&kb, printed) in SIZES_KB.iter().zip(PUBLISHED) {
        let ours = fitted.clone().map(|(x, _)| formula(kb as f64, x));
        let paper = Some(formula(kb as f64, PAPER_X));
        let measured = [told(rate(results, kb)), told(slower(results, kb)), told(ours)];
        table.row(kb.to_string(), measured.into_iter().chain([paper, printed]).collect());
    }
    let because = || {
        let revolution = Platform::Barracuda.revolution_ms().unwrap_or(0.0);
        match &fitted {
            Ok((x, off)) => format!(
                "the model of this disk has X = {x:.1} KB, to {:.1} %; a revolution takes \
                 {revolution:.2} ms",
                off * 100.0
            ),
            Err(why) => why.clone(),
        }
    };
    for (&kb, printed) in SIZES_KB.iter().zip(PUBLISHED) {
        let Some(printed) = printed else { continue };
        let says = format!("random writes of {kb} KB, times slower than of {LARGEST_KB} KB");
        judge.claim(format!("D20/{kb}"), says).near(printed, 0.05, slower(results, kb), because);
    }
    let says = "one constant explains all sizes: largest share by which one is off";
    let off = fitted.clone().map(|(_, off)| off);
    judge.claim("D20/fit", says).between(0.0, 0.05, off, because);
    let bound = |of: fn((f64, f64)) -> f64| fitted.clone().map(|(x, _)| of(bounds(x)));
    let misprint = || {
        let (by_request, _) = bounds(PAPER_X);
        format!(
            "with the paper's constant the sum is {by_request:.2}: 25.4 is a misprint; here {}",
            because()
        )
    };
    let says = "bound of the gain of removing, each request counted alike";
    judge.claim("D21", says).near(25.4, 0.02, bound(|one| one.0), misprint);
    let says = "the same with 7 % for reads and the CPU";
    judge.claim("D22", says).near(9.4, 0.02, bound(|one| overall(one.0)), misprint);
    let by_time = || {
        let (_, paper) = bounds(PAPER_X);
        format!("with the paper's constant it is {paper:.2}; {}", because())
    };
    let says = "the bound with requests counted by their time, on this disk";
    judge.claim("D23", says).near(12.3, 0.15, bound(|one| one.1), by_time);
    vec![table]
}

fn chart(results: &Results<'_>) -> Chart {
    let fitted = fit(results);
    let ours = SIZES_KB.iter().map(|&kb| told(rate(results, kb))).collect();
    let formula = SIZES_KB.iter().map(|&kb| {
        let (x, _) = told(fitted.clone())?;
        Some(told(rate(results, LARGEST_KB))? / formula(kb as f64, x))
    });
    Chart {
        title: format!("Random writes to {}", Platform::Barracuda.name()),
        x: "KB".to_owned(),
        y: "MB/s".to_owned(),
        labels: SIZES_KB.iter().map(u64::to_string).collect(),
        series: vec![
            Series { name: "measured".to_owned(), values: ours, published: false },
            Series { name: "formula".to_owned(), values: formula.collect(), published: true },
        ],
        shape: Shape::Lines,
    }
}
