//! `vlog/bursts`: bursts of durable updates with pauses between them, of LFS whose cache is NVRAM
//! and of UFS on the virtual log, at 80 % of what `df` shows.
//!
//! What counts is the wait of an update for the disk: its time without that of the CPU. The mean
//! falls with idle time. The tail of the virtual log rises, because an update may come while the
//! compactor moves a track; both are shown.

use super::chart::{Chart, Series, Shape};
use super::claim::Judge;
use super::job::{self, Job, Key, Platform, Results, Told, VLOG, Volume, ratio, spent_in};
use super::lfs::{self, LFS};
use super::table::{Table, heads, told};
use super::ufs::{host, mkfs};
use super::updates::COUNTED;
use super::{Parts, Settings, UFS_AND_LFS, vlfs};
use crate::files::programs::{Amount, ProgramKind};
use crate::files::report::{PhaseReport, UpdateReport};
use crate::files::run::FilesOptions;
use seekless_engine::units::BLOCK_BYTES;
use seekless_fs::policy::PolicyKind;

pub(super) const PARTS: Parts = Parts {
    name: "vlog/bursts",
    source: "paper 000, figures 11 and 12",
    title: "bursts of durable updates with idle time between them, at 80 %",
    systems: &UFS_AND_LFS,
    logged: false,
    jobs,
    judge,
    chart,
};

const BURSTS_KB: [u32; 6] = [128, 256, 504, 1008, 2016, 4032];
const QUICK_BURSTS_KB: [u32; 2] = [128, 1008];
const IDLES_MS: [u32; 9] = [0, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];
const QUICK_IDLES_MS: [u32; 3] = [0, 500, 10_000];
const DISK: Platform = Platform::St19101;
const PERCENT: f64 = 80.0;
/// Measured updates: at least so many, and so many bursts.
const UPDATES: u32 = 3000;
const LEAST_BURSTS: u32 = 4;
/// The hosts. The claims are about the first one, and V48 about how the second one compares.
const HOSTS: [&str; 2] = ["sparc10", "ultra170"];
/// The longest burst of which the paper says that curves meet.
const ONE_MB_KB: u32 = 1008;

fn variant(host: &str, burst_kb: u32, idle_ms: u32) -> String {
    format!("{host}, bursts of {burst_kb} KB, {idle_ms} ms idle")
}

fn jobs(settings: &Settings) -> Vec<Job> {
    let Ok(target) = DISK.target(0) else { return Vec::new() };
    let vlog_blocks = target.largest_volume(VLOG.kind);
    let bytes = |blocks: u64| {
        let bytes = (blocks * BLOCK_BYTES as u64) as f64 * COUNTED * PERCENT / 100.0;
        Some(bytes as u64 / BLOCK_BYTES as u64 * BLOCK_BYTES as u64)
    };
    let mut jobs = Vec::new();
    for (host_name, burst_kb, idle_ms) in points(settings) {
        let updates = UPDATES.max(LEAST_BURSTS * burst_kb / 4);
        let amount = |blocks| Amount {
            file_bytes: bytes(blocks),
            burst_bytes: Some(u64::from(burst_kb) << 10),
            idle_ms: Some(idle_ms),
            updates: Some(updates),
            warm_up: settings.quick.then_some(2 * UPDATES),
            seed: settings.seed,
            ..Amount::one_user()
        };
        let mut push = |policy: PolicyKind, volume: Volume, options: FilesOptions| {
            let variant = variant(host_name, burst_kb, idle_ms);
            let key = Key { policy: policy.name(), volume: volume.name, variant };
            let options = FilesOptions { host: host(host_name), ..options };
            jobs.extend(job::files_on(&key, DISK, options, (volume, &[VLOG, LFS])));
        };
        if lfs::is_asked(settings) {
            let options = lfs::with_nvram(ProgramKind::Burst, amount(target.blocks()));
            let volume_blocks = Some(target.largest_volume(LFS.kind));
            let options = FilesOptions { volume_blocks, ..options };
            push(lfs::POLICY, LFS, options);
        }
        for policy in ufs_policies(settings) {
            let options = FilesOptions {
                amount: amount(vlog_blocks),
                mkfs: mkfs(),
                policy,
                volume_blocks: Some(vlog_blocks),
                ..FilesOptions::new(ProgramKind::Burst, VLOG.kind)
            };
            push(policy, VLOG, options);
        }
        let options = FilesOptions {
            amount: amount(vlog_blocks),
            host: host(host_name),
            ..FilesOptions::new(ProgramKind::Burst, vlfs::PATCHED.kind)
        };
        let variant = variant(host_name, burst_kb, idle_ms);
        jobs.extend(vlfs::jobs(settings, DISK, &variant, &options));
    }
    jobs
}

/// The policies of UFS: that of the paper, unless others are asked for.
fn ufs_policies(settings: &Settings) -> Vec<PolicyKind> {
    match settings.policies.is_empty() {
        true => vec![PolicyKind::Sync],
        false => settings.policies(),
    }
}

/// Hosts, sizes of bursts and idle times: all for the first host, and for the second one what V48
/// compares.
fn points(settings: &Settings) -> Vec<(&'static str, u32, u32)> {
    let (bursts, idles) = match settings.quick {
        true => (&QUICK_BURSTS_KB[..], &QUICK_IDLES_MS[..]),
        false => (&BURSTS_KB[..], &IDLES_MS[..]),
    };
    let of = |&kb: &u32| idles.iter().map(move |&ms| (HOSTS[0], kb, ms));
    let longest = idles.last().map(|&ms| (HOSTS[1], bursts[0], ms));
    bursts.iter().flat_map(of).chain(longest).collect()
}

/// The one system of UFS: the first policy that was run.
fn ufs(results: &Results<'_>) -> &'static str {
    super::ufs_policy(results)
}

fn phase<'r>(
    results: &Results<'r>,
    (policy, volume): (&'static str, &'static str),
    (host, burst_kb, idle_ms): (&str, u32, u32),
) -> Told<&'r PhaseReport> {
    results.phase(policy, volume, &variant(host, burst_kb, idle_ms), "burst")
}

fn updates(phase: &PhaseReport) -> UpdateReport {
    phase.updates.expect("the phase is one of bursts")
}

/// Milliseconds that an update waits for the disk.
fn wait(phase: &PhaseReport) -> f64 {
    let updates = updates(phase);
    let cpu = phase.cpu_answered_seconds * 1e3 / updates.updates.max(1) as f64;
    (updates.latency_ms.mean - cpu).max(0.0)
}

/// A value of a report, by its name.
type Value = (&'static str, fn(&PhaseReport) -> f64);

const VALUES: [Value; 3] = [
    ("mean wait for the disk", wait),
    ("standard deviation", |phase| updates(phase).deviation_ms),
    ("99.9th percentile", |phase| updates(phase).latency_ms.p999),
];

/// What was run: sizes of bursts, and idle times.
fn ran(results: &Results<'_>) -> (Vec<u32>, Vec<u32>) {
    let any = |kb: u32, ms: u32| {
        let variant = variant(HOSTS[0], kb, ms);
        results.all.keys().any(|(_, key)| key.variant == variant)
    };
    let bursts = BURSTS_KB.into_iter().filter(|&kb| any(kb, 0)).collect();
    let idles = IDLES_MS.into_iter().filter(|&ms| any(BURSTS_KB[0], ms)).collect();
    (bursts, idles)
}

fn judge(results: &Results<'_>, judge: &mut Judge<'_>) -> Vec<Table> {
    let (bursts, idles) = ran(results);
    let mut tables = Vec::new();
    let lfs = (lfs::POLICY.name(), LFS.name);
    let mut systems: Vec<(&'static str, &'static str)> = vec![lfs];
    systems.extend(results.policies_on(VLOG.name).into_iter().map(|policy| (policy, VLOG.name)));
    systems.extend(vlfs::systems(results));
    for system in systems {
        for (name, value) in VALUES {
            let columns = bursts.iter().map(|kb| format!("{kb} KB"));
            let title =
                format!("{}, {}: ms of an update, {name}, host {}", system.0, system.1, HOSTS[0]);
            let mut table = Table::new(title, heads("idle ms", columns));
            for &ms in &idles {
                let of = |&kb: &u32| told(phase(results, system, (HOSTS[0], kb, ms)).map(value));
                table.row(ms.to_string(), bursts.iter().map(of).collect());
            }
            tables.push(table);
        }
    }
    of_lfs(results, judge, (&bursts, &idles));
    of_vlog(results, judge, (&bursts, &idles));
    tables
}

/// The points at which something is measured: sizes of bursts, and idle times.
type Points<'p> = (&'p [u32], &'p [u32]);

fn list(values: &[f64]) -> String {
    values.iter().map(|value| format!("{value:.3}")).collect::<Vec<_>>().join(", ")
}

/// V45: LFS with NVRAM.
fn of_lfs(results: &Results<'_>, judge: &mut Judge<'_>, (bursts, idles): Points<'_>) {
    let at = |kb: u32, ms: u32| phase(results, (lfs::POLICY.name(), LFS.name), (HOSTS[0], kb, ms));
    let waits = |all: &[u32], ms: u32| -> Told<Vec<f64>> {
        all.iter().map(|&kb| at(kb, ms).map(wait)).collect()
    };
    let because = || spent_in(at(bursts.first().copied().unwrap_or(0), 0));
    let longest = idles.last().copied().unwrap_or(0);
    let none = waits(bursts, 0).map(|waits| {
        let least = waits.iter().copied().fold(f64::INFINITY, f64::min);
        (least > 0.1 && least.is_finite(), format!("ms: {}", list(&waits)))
    });
    let says = "LFS with NVRAM, no idle time: updates wait until it is flushed";
    judge.claim("V45/a", says).shape(none, because);
    let small: Vec<u32> = bursts.iter().copied().filter(|&kb| kb <= ONE_MB_KB).collect();
    let idle = waits(&small, longest).and_then(|idle| {
        let busy = waits(&small, 0)?;
        let holds = idle.iter().zip(&busy).all(|(idle, busy)| *idle <= 0.05 * busy);
        Ok((holds, format!("ms: {}; without idle time {}", list(&idle), list(&busy))))
    });
    let says = "LFS with NVRAM, idle time for a whole burst: the speed of memory";
    judge.claim("V45/d", says).shape(idle, because);
    let curves = small.iter().map(|&kb| idles.iter().map(|&ms| at(kb, ms).map(wait)).collect());
    let falls = curves.collect::<Told<Vec<Vec<f64>>>>().map(|curves| {
        let rises = |curve: &&Vec<f64>| curve.windows(2).any(|pair| pair[1] > 1.05 * pair[0]);
        let steps = |curve: &&Vec<f64>| curve.windows(2).any(|pair| pair[1] < 0.5 * pair[0]);
        let (rising, falling) =
            (curves.iter().filter(rises).count(), curves.iter().filter(steps).count());
        let found = format!(
            "of {} curves {falling} fall by half or more in a step, and {rising} rise before that",
            curves.len()
        );
        (rising == 0 && falling == curves.len() && !curves.is_empty(), found)
    });
    let says = "LFS with NVRAM: the wait falls in steps with idle time, and never rises";
    judge.claim("V45/steps", says).shape(falls, because);
    let claim = judge.claim("V46", "the NVRAM is larger than what is free at 80 % of the disk");
    let free = DISK.target(0).map_err(|error| error.to_string());
    let free = free.map(|target| (target.blocks() * BLOCK_BYTES as u64) as f64 * 0.2);
    claim.at_least(1.0, ratio(Ok(lfs::CACHE_BYTES as f64), free), String::new);
}

/// V47 to V50: UFS on the virtual log.
fn of_vlog(results: &Results<'_>, judge: &mut Judge<'_>, (bursts, idles): Points<'_>) {
    let ufs = ufs(results);
    let vlog = |host: &str, kb: u32, ms: u32| phase(results, (ufs, VLOG.name), (host, kb, ms));
    let lfs = |kb: u32, ms: u32| phase(results, (lfs::POLICY.name(), LFS.name), (HOSTS[0], kb, ms));
    let (first, longest) =
        (bursts.first().copied().unwrap_or(0), idles.last().copied().unwrap_or(0));
    let because = || spent_in(vlog(HOSTS[0], first, longest));
    let mean = |kb: u32, ms: u32| vlog(HOSTS[0], kb, ms).map(wait);
    let falls = || -> Told<(bool, String)> {
        let (mut most, mut total) = (0.0_f64, 0.0_f64);
        for &kb in bursts {
            let waits = idles.iter().map(|&ms| mean(kb, ms)).collect::<Told<Vec<f64>>>()?;
            let rises = waits.windows(2).map(|pair| pair[1] / pair[0].max(1e-6) - 1.0);
            most = rises.fold(most, f64::max);
            total = total.max(1.0 - waits[waits.len() - 1] / waits[0].max(1e-6));
        }
        let found = format!(
            "no step rises by more than {:.1} %, and the whole falls by up to {:.0} %",
            most * 100.0,
            total * 100.0
        );
        Ok((most <= 0.05 && total > 0.05, found))
    };
    let says = "UFS on the virtual log: the mean never rises with idle time, and falls";
    judge.claim("V47/mean", says).shape(falls(), because);
    let tail = |ms: u32| vlog(HOSTS[0], first, ms).map(|one| updates(one).latency_ms.p999);
    let both = tail(0).and_then(|without| {
        let tails = idles.iter().map(|&ms| tail(ms)).collect::<Told<Vec<f64>>>()?;
        let worst = tails.iter().copied().fold(0.0, f64::max);
        Ok((worst <= 1.05 * without, format!("{without:.2} ms without, up to {worst:.2} ms with")))
    });
    let says = "UFS on the virtual log: the 99.9th percentile does not rise with idle time";
    judge.claim("V47/tail", says).shape(both, || {
        format!("an update waits while the compactor moves a track; {}", because())
    });
    let varies = ratio(
        lfs(first, 0).map(|one| updates(one).deviation_ms),
        vlog(HOSTS[0], first, 0).map(|one| updates(one).deviation_ms),
    );
    let says = "LFS with NVRAM varies more than UFS on the virtual log: standard deviations";
    judge.claim("V47/deviation", says).at_least(3.0, varies, because);
    let all = |host: &str| vlog(host, first, longest).map(|one| updates(one).latency_ms.mean);
    let says = "UFS on the virtual log takes half the time on the faster host";
    judge.claim("V48", says).between(0.35, 0.65, ratio(all(HOSTS[1]), all(HOSTS[0])), because);
    let says = "with unlimited idle time LFS with NVRAM is faster than UFS on the virtual log";
    let gain = ratio(all(HOSTS[0]), lfs(first, longest).map(|one| updates(one).latency_ms.mean));
    judge.claim("V49", says).at_least(1.0, gain, because);
    let share = vlog(HOSTS[0], first, 0).and_then(|busy| {
        let idle = vlog(HOSTS[0], first, longest)?;
        let (of_wait, of_all) = (
            1.0 - wait(idle) / wait(busy).max(1e-6),
            1.0 - updates(idle).latency_ms.mean / updates(busy).latency_ms.mean.max(1e-6),
        );
        let found = format!(
            "idle time saves {:.0} % of the wait and {:.0} % of the whole",
            of_wait * 100.0,
            of_all * 100.0
        );
        Ok((of_all < 0.5 * of_wait, found))
    });
    let says = "the overheads hide most of what the compactor gains";
    judge.claim("V50/compactor", says).shape(share, because);
}

fn chart(results: &Results<'_>) -> Chart {
    let (bursts, idles) = ran(results);
    let plain = [(lfs::POLICY.name(), LFS.name), (ufs(results), VLOG.name)];
    let systems: Vec<_> = plain.into_iter().chain(vlfs::systems(results)).collect();
    let mut series = Vec::new();
    for system in systems {
        for &kb in &bursts {
            let value = |&ms: &u32| told(phase(results, system, (HOSTS[0], kb, ms)).map(wait));
            let name = format!("{}, {kb} KB", system.1);
            series.push(Series {
                name,
                values: idles.iter().map(value).collect(),
                published: false,
            });
        }
    }
    Chart {
        title: format!("Bursts of updates at 80 % on {}", DISK.name()),
        x: "idle ms between bursts".to_owned(),
        y: "ms that an update waits for the disk".to_owned(),
        labels: idles.iter().map(u32::to_string).collect(),
        series,
        shape: Shape::Lines,
    }
}
