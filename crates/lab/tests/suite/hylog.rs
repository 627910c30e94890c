//! Log-structured layouts on the disks of the HyLog study, against the cost model of the paper and
//! against each other. Claims are numbered `H`.
#![allow(missing_docs)]

use seekless_disk::specs;
use seekless_engine::options::Options;
use seekless_lab::distribution::Distribution;
use seekless_lab::model::hylog::cleaning_utilisation;
use seekless_lab::sim::{SimOptions, SimReport, Target, simulate};
use seekless_lab::workload::Workload;
use seekless_layouts::Kind;
use seekless_layouts::lfs::{CLEANING, Cleaning};
use seekless_layouts::shared::SEGMENT as SEGMENT_BLOCKS;
use std::collections::BTreeMap;

/// Blocks of the disks: their outer 512 MiB.
const BLOCKS: u64 = 1 << 17;
/// Blocks in a segment: 256 KiB.
const SEGMENT: u32 = 64;

fn no_clock() -> u64 {
    0
}

fn disk(name: &str) -> Target {
    outer(name, BLOCKS)
}

fn outer(name: &str, blocks: u64) -> Target {
    let spec = specs::find(name).expect("a built-in disk");
    Target::disk(&spec.outer(blocks), None).expect("it can be simulated")
}

fn options(kind: Kind, utilisation: f64, cleaning: Cleaning) -> SimOptions {
    let workload = Workload { requests: 40_000, fua: false, ..Workload::default() };
    SimOptions {
        utilisation: Some(utilisation),
        workload,
        age: 1.0,
        options: Options::default().with(&SEGMENT_BLOCKS, Some(SEGMENT)).with(&CLEANING, cleaning),
        ..SimOptions::new(kind)
    }
}

fn run(target: &Target, options: &SimOptions) -> SimReport {
    simulate(target, options, no_clock).expect("it runs")
}

fn throughput(target: &Target, options: &SimOptions) -> f64 {
    run(target, options).throughput.requests_per_second
}

/// The counters of a run minus those of a shorter run with the same start.
fn growth(target: &Target, options: &SimOptions) -> BTreeMap<&'static str, f64> {
    let mut long = options.clone();
    long.workload.requests *= 2;
    let (before, after) = (run(target, options).layout_stats, run(target, &long).layout_stats);
    after.iter().map(|(name, value)| (*name, value - before[name])).collect()
}

/// The live share of cleaned segments. The layout also keeps its map and its summaries in the log,
/// which the equation ignores. The small simulator beside the model checks the 2 % of the claim.
#[test]
fn h6_segments_are_cleaned_as_equation_2_says() {
    let target = disk("hylog-2003");
    for utilisation in [0.6, 0.75] {
        let options = options(Kind::LFS, utilisation, Cleaning::Copy);
        let done = growth(&target, &options);
        let slots = f64::from(SEGMENT - 1);
        let found = done["blocks_moved"] / (done["segments_cleaned"] * slots);
        // All segments except the few free ones; two superblocks and four records lie outside.
        let free = run(&target, &options).layout_stats["free_segments"];
        let segments = ((BLOCKS - 6) / u64::from(SEGMENT)) as f64 - free;
        let expected = cleaning_utilisation(utilisation * BLOCKS as f64 / (segments * slots));
        println!("{utilisation}: u {found:.4}, equation (2) {expected:.4}");
        assert!((found / expected - 1.0).abs() < 0.06, "{utilisation}: {found} {expected}");
    }
}

#[test]
fn h19_plugging_pays_on_full_disks_and_the_choice_follows() {
    let target = disk("hylog-2003");
    for (utilisation, copying_wins) in [(0.5, true), (0.75, true), (0.94, false)] {
        let [adaptive, copy, plug] = Cleaning::ALL
            .map(|cleaning| throughput(&target, &options(Kind::LFS, utilisation, cleaning)));
        println!("{utilisation}: copy {copy:.0}, plug {plug:.0}, adaptive {adaptive:.0}");
        assert_eq!(copy > plug, copying_wins, "{utilisation}: {copy} {plug}");
        // Near the crossing the choice is late: the layout learns the cost of plugging by plugging.
        assert!(adaptive > 0.8 * copy.max(plug), "{utilisation}: {adaptive}, {copy}, {plug}");
    }
}

/// Without holes to plug, the cleaner copies: a volume that can be filled with one cleaning method
/// can be filled with all.
#[test]
fn plugging_gives_way_to_copying_before_a_write_is_refused() {
    let spec = specs::find("st19101").expect("a built-in disk");
    let target = Target::disk(&spec, None).expect("it can be simulated");
    let mut options = options(Kind::WOLF, 0.8, Cleaning::Plug);
    options.age = 2.0;
    options.options.set(&SEGMENT_BLOCKS, None);
    options.workload.distribution = Distribution::HotCold { references: 0.9, pages: 0.1 };
    (options.workload.request_blocks, options.workload.requests) = (4, 20_000);
    options.workload.fua = true;
    assert!(run(&target, &options).layout_stats["blocks_moved"] > 0.0);
}

/// Throughput of HyLog over that of the better of the others.
fn beside_both(target: &Target, options: impl Fn(Kind) -> SimOptions) -> (String, f64) {
    let [overwrite, lfs, hylog] =
        [Kind::INPLACE, Kind::LFS, Kind::HYLOG].map(|kind| throughput(target, &options(kind)));
    let told = format!("in place {overwrite:.0}, lfs {lfs:.0}, hylog {hylog:.0}");
    (told, hylog / overwrite.max(lfs))
}

/// On all three disks; the fuller the disk, the larger its part, because a log keeps a fixed number
/// of segments free.
#[test]
fn h26_hylog_is_as_good_as_the_better_of_both() {
    let knuth = Distribution::knuth(80.0, 20.0);
    let disks = ["hylog-2003", "atlas10k", "hylog-2008"];
    for name in &disks[..if crate::is_full() { 3 } else { 1 }] {
        let points = [(0.5, 4), (0.8, 4), (0.9, 4), (0.95, 1)];
        for (utilisation, part, distribution) in points
            .map(|(utilisation, part)| (utilisation, part, knuth))
            .into_iter()
            .chain([(0.9, 4, Distribution::Uniform)])
        {
            let target = outer(name, BLOCKS / part);
            let (told, share) = beside_both(&target, |kind| {
                let mut options = options(kind, utilisation, Cleaning::Adaptive);
                options.workload.distribution = distribution;
                options.workload.warm_up = 200_000 / part;
                options.workload.requests = 20_000;
                options
            });
            println!("{name} {utilisation} {distribution}: {told}: {share:.3}");
            assert!(share > 0.95, "{name} {utilisation} {distribution}: {told}");
        }
    }
}

/// A forced write takes two blocks of the log, which is then no better than writing in place. HyLog
/// detects that.
#[test]
fn h26_forced_writes_are_overwritten_in_place_where_that_is_better() {
    for name in ["st19101", "hp97560"] {
        let target = Target::disk(&specs::find(name).expect("a built-in disk"), None);
        let target = target.expect("it can be simulated");
        for utilisation in [0.5, 0.8, 0.86] {
            let (told, share) = beside_both(&target, |kind| {
                let workload =
                    Workload { requests: 10_000, warm_up: 6_000, fua: true, ..Workload::default() };
                let utilisation = Some(utilisation);
                SimOptions { utilisation, workload, age: 1.0, ..SimOptions::new(kind) }
            });
            println!("{name} {utilisation}: {told}: {share:.3}");
            assert!(share > 0.95, "{name} {utilisation}: {told}");
        }
    }
}

/// Several writes in flight share a partial segment. HyLog keeps using the log even if cleaning
/// delays the first few.
#[test]
fn h26_forced_writes_of_many_stay_in_the_log_where_that_is_better() {
    for (name, depth) in [("hylog-2003", 4), ("desktop7200-bare", 16)] {
        let target = outer(name, BLOCKS / 4);
        let (told, share) = beside_both(&target, |kind| {
            let mut options = options(kind, 0.8, Cleaning::Adaptive);
            options.workload.fua = true;
            options.workload.depth = depth;
            (options.workload.warm_up, options.workload.requests) = (5_000, 20_000);
            options
        });
        println!("{name}, {depth} at a time: {told}: {share:.3}");
        assert!(share > 0.95, "{name}, {depth} at a time: {told}");
    }
}
