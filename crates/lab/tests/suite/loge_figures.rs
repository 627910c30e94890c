//! Figures of the Loge paper in simulation: its heuristics, a workload like news, the arm in
//! transit, and block sorting in idle time.

use seekless_disk::specs;
use seekless_engine::options::Options;
use seekless_engine::units::{MILLIS, SECONDS};
use seekless_lab::driver::{Pacing, ReplayOptions};
use seekless_lab::news::News;
use seekless_lab::sim::{Load, Open, SimOptions, SimReport, Target, simulate, simulate_trace};
use seekless_lab::system::System;
use seekless_lab::trace::{Mapping, Record, Records};
use seekless_lab::workload::{Bursts, Pattern, Workload};
use seekless_layouts::Kind;
use seekless_layouts::loge::options::{ANTICIPATE, HEURISTIC, SORT};

fn no_clock() -> u64 {
    0
}

fn target(disk: &str) -> Target {
    Target::disk(&specs::find(disk).expect("built in"), None).expect("sound")
}

fn run(disk: &str, options: &SimOptions) -> SimReport {
    simulate(&target(disk), options, no_clock).expect("nothing is lost")
}

fn with_heuristic(name: &str) -> SimOptions {
    let options = Options::default().with(&HEURISTIC, name.parse().expect("known"));
    SimOptions { options, ..SimOptions::new(Kind::LOGE) }
}

/// L30, under uniform writes at 80 %: linear scan empties the low cylinders and is the slowest,
/// random and farthest leave free space flat. Closest is not poor here: with blocks of 4 KiB few
/// other cylinders are within reach in one position.
#[test]
fn l30_heuristics_and_what_they_leave() {
    let of = |name: &str| run("hp97560", &with_heuristic(name));
    let [soonest, ls, cr, fr, r, pl] = ["soonest", "ls", "cr", "fr", "r", "pl"].map(of);
    let mean = |report: &SimReport| report.latency_ms.mean;
    for (faster, slower) in [(&soonest, &cr), (&cr, &r), (&r, &fr), (&fr, &ls), (&pl, &ls)] {
        assert!(mean(faster) < mean(slower), "{} ms, {} ms", mean(faster), mean(slower));
    }
    let low = |report: &SimReport| report.free_profile[..10].iter().sum::<f64>() / 10.0;
    assert!(low(&ls) < 0.05 && ls.free_profile[18] > 0.8, "{:?}", ls.free_profile);
    for flat in [&fr, &r] {
        let least = flat.free_profile.iter().copied().fold(1.0, f64::min);
        let most = flat.free_profile.iter().copied().fold(0.0, f64::max);
        assert!(least > 0.1 && most < 0.3, "{:?}", flat.free_profile);
    }
}

/// Means of reads and writes of the synthetic news, in milliseconds.
fn news(kind: Kind, heuristic: &str) -> (f64, f64) {
    means(kind, heuristic, Box::new(|volume| Ok(Box::new(News::new(volume, 1).map(Ok)))))
}

/// The same of a synthetic trace.
fn means(kind: Kind, heuristic: &str, open: Box<Open<'_>>) -> (f64, f64) {
    means_on(&target("hp97560-full"), kind, heuristic, open)
}

fn means_on(disk: &Target, kind: Kind, heuristic: &str, open: Box<Open<'_>>) -> (f64, f64) {
    let options =
        SimOptions { kind, utilisation: Some(0.9), age: 0.0, ..with_heuristic(heuristic) };
    let load = Load {
        name: "synthetic".to_owned(),
        open,
        replay: ReplayOptions {
            pacing: Pacing::Closed { users: 1 },
            mapping: Mapping::Fold,
            pool: None,
        },
        requests: Some(30_000),
        warm_up: 0,
    };
    let report = simulate_trace(disk, &options, &load, no_clock);
    let report = report.expect("nothing is lost");
    let mean = |side: Option<seekless_lab::sim::Side>| side.expect("both kinds").latency_ms.mean;
    (mean(report.reads), mean(report.writes))
}

/// L23 and L24 on a synthetic trace: writes at least 80 % faster, reads 5 to 25 % slower; both
/// heuristics alike on reads, PL better on writes.
#[test]
fn l23_news_writes_gain_and_reads_lose() {
    let (reads, writes) = news(Kind::INPLACE, "soonest");
    let ls = news(Kind::LOGE, "ls");
    let pl = news(Kind::LOGE, "pl");
    for (own_reads, own_writes) in [ls, pl] {
        let (read_gain, write_gain) = (reads / own_reads - 1.0, writes / own_writes - 1.0);
        assert!(write_gain >= 0.8, "writes gain {write_gain}");
        assert!((-0.25..=-0.05).contains(&read_gain), "reads gain {read_gain}");
    }
    assert!((ls.0 / pl.0 - 1.0).abs() < 0.08, "reads: {} and {} ms", ls.0, pl.0);
    assert!(ls.1 / pl.1 > 1.05, "writes: {} and {} ms", ls.1, pl.1);
}

/// L25 on a synthetic trace of a disk with root and swap, two reads for each write: reads lose at
/// most 25 % (paper: 8 %), all in all it is faster (20 %). Writes gain half at least; the 140 % of
/// the paper are not reached: 68 % with LS and 123 % with PL.
#[test]
fn l25_root_and_swap_gain_though_most_requests_read() {
    let run = |kind: Kind, heuristic: &str| {
        let system = |volume| Ok(Box::new(System::new(volume, 1).map(Ok)) as Records<'_>);
        means(kind, heuristic, Box::new(system))
    };
    let (reads, writes) = run(Kind::INPLACE, "soonest");
    for heuristic in ["ls", "pl"] {
        let (own_reads, own_writes) = run(Kind::LOGE, heuristic);
        let (read_gain, write_gain) = (reads / own_reads - 1.0, writes / own_writes - 1.0);
        let all = (2.0 * reads + writes) / (2.0 * own_reads + own_writes) - 1.0;
        println!("{heuristic}: reads {read_gain:.3}, writes {write_gain:.3}, all {all:.3}");
        assert!(write_gain >= 0.5, "writes gain {write_gain} with {heuristic}");
        assert!((-0.25..0.0).contains(&read_gain), "reads gain {read_gain} with {heuristic}");
        assert!(all > 0.05, "{all} in all with {heuristic}");
    }
}

/// A disk on which a block passes the head and the bus in the time of a kilobyte on the original:
/// it has four times as many sectors on a track. Otherwise the two disks are the same.
fn of_kilobytes(disk: &str) -> Target {
    let mut spec = specs::find(disk).expect("built in");
    for zone in &mut spec.zones {
        zone.sectors *= 4;
        zone.track_skew *= 4.0;
        zone.cylinder_skew *= 4.0;
    }
    spec.buffer.fence_sectors *= 4;
    spec.buffer.bus_mb_per_s *= 4.0;
    Target::disk(&spec, None).expect("sound")
}

/// L26: blocks of a kilobyte, four for each one of the workload of L25, with sequential grouping.
/// Writes gain 1.4 (paper: 1.64), all in all it is a fifth faster (paper: 36 %). Reads lose a
/// quarter, where the paper finds a gain of 8 %: in place the track buffer answers many of them.
#[test]
fn l26_blocks_of_a_kilobyte_gain_as_larger_ones_do() {
    let disk = of_kilobytes("hp97560-full");
    let run = |kind: Kind| {
        let quarters = |record: Record| Record {
            sector: 4 * record.sector,
            sectors: 4 * record.sectors,
            ..record
        };
        let system = |volume: u64| {
            let records = System::new(volume / 4, 1).map(quarters);
            Ok(Box::new(records.map(Ok)) as Records<'_>)
        };
        means_on(&disk, kind, "pl+sg", Box::new(system))
    };
    let ((reads, writes), (own_reads, own_writes)) = (run(Kind::INPLACE), run(Kind::LOGE));
    let (read_gain, write_gain) = (reads / own_reads - 1.0, writes / own_writes - 1.0);
    let all = (2.0 * reads + writes) / (2.0 * own_reads + own_writes) - 1.0;
    println!("reads {read_gain:.3}, writes {write_gain:.3}, all {all:.3}");
    assert!(write_gain > 1.3 && all > 0.2, "writes gain {write_gain}, all {all}");
    assert!((-0.3..0.0).contains(&read_gain), "reads gain {read_gain}");
}

/// L19: with the arm on its way to the next free block a single write waits less, by a fifth of the
/// positioning time on this disk.
#[test]
fn l19_an_arm_in_transit_is_ready_sooner() {
    let bursts = Some(Bursts { requests: 1, idle_ns: 177 * MILLIS });
    let workload = Workload { bursts, requests: 3000, ..Workload::default() };
    let locate = |anticipate: bool| {
        let options = Options::default().with(&ANTICIPATE, anticipate);
        let workload = workload.clone();
        let options = SimOptions { workload, options, ..SimOptions::new(Kind::LOGE) };
        let report = run("hp97560", &options);
        let parts = report.breakdown_ms;
        report.latency_ms.mean - parts.overhead - parts.transfer
    };
    let (resting, moving) = (locate(false), locate(true));
    assert!(moving < 0.85 * resting, "{moving} ms against {resting} ms");
}

/// Block sorting (section 8.1.1 of the paper): at 80 % utilisation, blocks that random writes
/// scattered are read in sequence as fast as if they had never moved.
#[test]
fn sorted_blocks_are_read_in_sequence() {
    let workload = Workload {
        pattern: Pattern::Sequential,
        read_share: 1.0,
        request_blocks: 16,
        requests: 200,
        ..Workload::default()
    };
    let rate = |kind: Kind, sort: bool| {
        let options = Options::default().with(&SORT, sort);
        let rest_ns = if sort { 200 * SECONDS } else { 0 };
        let workload = workload.clone();
        let options = SimOptions { workload, options, rest_ns, ..SimOptions::new(kind) };
        run("st19101", &options).throughput.mebibytes_per_second
    };
    let (in_place, scattered, sorted) =
        (rate(Kind::INPLACE, false), rate(Kind::LOGE, false), rate(Kind::LOGE, true));
    assert!(sorted > 6.0 * scattered, "{sorted} MiB/s after {scattered}");
    assert!(sorted > 0.85 * in_place, "{sorted} MiB/s against {in_place} in place");
}
