//! `vlog/recover`: mounts of the virtual log after a clean shutdown, which begin at the record of
//! its tail, and after a crash, which scan the disk for map blocks.

use super::chart::{Chart, Series, Shape};
use super::claim::Judge;
use super::job::{AS_IT_IS, Job, Key, Outcome, Platform, Results, Told, VLOG, Volume, Work};
use super::table::{Table, heads, told};
use super::{Parts, Settings, UFS_AND_LFS, vlfs};
use crate::remount::{RemountOptions, RemountReport};
use seekless_engine::options::Options;
use std::collections::BTreeSet;

pub(super) const PARTS: Parts = Parts {
    name: "vlog/recover",
    source: "paper 000, sections 3.2 and 3.3",
    title: "mounts after a clean shutdown and after a crash",
    systems: &UFS_AND_LFS,
    logged: false,
    jobs,
    judge,
    chart,
};

const DISK: Platform = Platform::St19101;
const PERCENTS: [u32; 4] = [10, 25, 50, 80];
const QUICK_PERCENTS: [u32; 2] = [10, 25];
/// Durable updates of single blocks before the end.
const UPDATES: u32 = 2000;
const QUICK_UPDATES: u32 = 200;
/// What counts as little of a scan.
const SMALL_PART: f64 = 0.05;
/// How long the whole disk of the paper takes to read, in seconds (22 MB at 21.8 MB/s).
const WHOLE_DISK_S: f64 = 1.1;

fn variant(percent: u32, clean: bool) -> String {
    let end = if clean { "clean" } else { "crash" };
    format!("{percent} % stored, {end}")
}

fn volumes(settings: &Settings) -> Vec<Volume> {
    let mut volumes = settings.volumes(&[VLOG]);
    volumes.extend(settings.vlfs.then_some(vlfs::PATCHED));
    volumes
}

fn jobs(settings: &Settings) -> Vec<Job> {
    let percents = if settings.quick { &QUICK_PERCENTS[..] } else { &PERCENTS };
    let updates = if settings.quick { QUICK_UPDATES } else { UPDATES };
    let mut jobs = Vec::new();
    for volume in volumes(settings) {
        for &percent in percents {
            for clean in [true, false] {
                let (kind, options, seed) = (volume.kind, Options::default(), settings.seed);
                let work = RemountOptions { kind, options, percent, updates, clean, seed };
                let key = Key { policy: "", volume: volume.name, variant: variant(percent, clean) };
                jobs.push(Job::new(key, DISK, Work::Remount(Box::new(work))));
            }
        }
    }
    jobs
}

fn report(
    results: &Results<'_>,
    volume: &'static str,
    percent: u32,
    clean: bool,
) -> Told<RemountReport> {
    let key = Key { policy: "", volume, variant: variant(percent, clean) };
    match results.all.get(&(AS_IT_IS, key)) {
        Some(Outcome::Remount(report)) => Ok(*report),
        _ => Err(format!("{volume} was not mounted with {percent} % stored")),
    }
}

/// What was run: volumes, and how much each stored.
fn ran(results: &Results<'_>) -> (Vec<&'static str>, Vec<u32>) {
    let volumes: BTreeSet<&'static str> = results.all.keys().map(|(_, key)| key.volume).collect();
    let volumes: Vec<&'static str> = volumes.into_iter().collect();
    let any =
        |percent: &u32| volumes.iter().any(|one| report(results, one, *percent, true).is_ok());
    let percents = PERCENTS.into_iter().filter(any).collect();
    (volumes, percents)
}

fn judge(results: &Results<'_>, judge: &mut Judge<'_>) -> Vec<Table> {
    let (volumes, percents) = ran(results);
    let names = ["blocks/stored", "clean/ms", "clean/blocks read", "crash/ms", "crash/blocks read"];
    let title = format!("mounts on {}", DISK.name());
    let mut table = Table::new(title, heads("volume", names.map(str::to_owned)));
    for &volume in &volumes {
        for &percent in &percents {
            let [clean, crash] = [true, false].map(|end| report(results, volume, percent, end));
            let cells = [
                clean.clone().map(|one| one.blocks_stored),
                clean.clone().map(|one| one.mount_ms),
                clean.map(|one| one.blocks_read),
                crash.clone().map(|one| one.mount_ms),
                crash.map(|one| one.blocks_read),
            ];
            table.row(format!("{volume}, {percent} %"), cells.map(told).to_vec());
        }
    }
    claims(results, judge, &percents);
    vec![table]
}

/// V33: two ways to the same state.
fn claims(results: &Results<'_>, judge: &mut Judge<'_>, percents: &[u32]) {
    let of = |percent: u32, clean: bool| report(results, VLOG.name, percent, clean);
    let both = || -> Told<(bool, String)> {
        let (mut clean, mut crash) = (0, 0);
        for &percent in percents {
            clean += u32::from(of(percent, true)?.from_tail);
            crash += u32::from(!of(percent, false)?.from_tail);
        }
        let all = percents.len() as u32;
        let found = format!("of {all} mounts each, {clean} by the tail and {crash} by a scan");
        Ok(((clean, crash) == (all, all) && all > 0, found))
    };
    let says = "a mount begins at the tail after a clean shutdown, and scans after a crash";
    judge.claim("V33/paths", says).shape(both(), String::new);
    let share = || -> Told<f64> {
        let mut most = 0.0_f64;
        for &percent in percents {
            most = most.max(of(percent, true)?.blocks_read / of(percent, false)?.blocks_read);
        }
        Ok(most)
    };
    let says = "from the tail, a mount reads little: its blocks against those of a scan";
    judge.claim("V33/tail", says).between(0.0, SMALL_PART, share(), String::new);
    let last = percents.last().copied().unwrap_or(0);
    let scan = of(last, false).map(|one| one.mount_ms / 1e3);
    let says = format!("a scan takes as long as to read the disk, {last} % of which is in use");
    let claim = judge.claim("V33/scan", says).unit("s");
    claim.near(WHOLE_DISK_S, 0.5, scan, || {
        "after the scan, blocks of commits that no record calls durable are read again".to_owned()
    });
}

fn chart(results: &Results<'_>) -> Chart {
    let (volumes, percents) = ran(results);
    let mut series = Vec::new();
    for &volume in &volumes {
        for (clean, end) in [(true, "clean"), (false, "crash")] {
            let value =
                |&percent: &u32| told(report(results, volume, percent, clean).map(|r| r.mount_ms));
            let values = percents.iter().map(value).collect();
            series.push(Series { name: format!("{volume}, {end}"), values, published: false });
        }
    }
    Chart {
        title: format!("Mounts on {}", DISK.name()),
        x: "% of the disk stored".to_owned(),
        y: "ms of a mount".to_owned(),
        labels: percents.iter().map(u32::to_string).collect(),
        series,
        shape: Shape::Lines,
    }
}
