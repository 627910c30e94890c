//! `vlog/update`: durable updates of random blocks of one file, by how full the file system is, and
//! on three platforms.
//!
//! The utilisation is what `df` shows: a share of the volume without the 12 % that users cannot
//! have. Each update is measured with the inode, whose time changes, and without: the paper does
//! not say which. The disk alone is measured with a host that takes no time.

use super::buffered;
use super::chart::{Chart, Series, Shape};
use super::claim::Judge;
use super::job::{
    self, IN_PLACE, Job, Key, LAYOUTS, Platform, Results, Told, VLOG, ratio, spent_both, spent_in,
};
use super::table::{Table, heads, told};
use super::ufs::{CLAIMED, host, mkfs};
use super::updates::{DATA_ONLY, PLATFORMS, QUICK_UPDATES, amount, fresh, ms, volume_blocks};
use super::{Parts, Settings, UFS_AND_LFS, generations, lfs, stacked, ufs_policy, vlfs};
use crate::files::host::Host;
use crate::files::programs::ProgramKind;
use crate::files::run::FilesOptions;
use seekless_fs::policy::PolicyKind;

pub(super) const PARTS: Parts = Parts {
    name: "vlog/update",
    source: "paper 000, figures 8 to 10",
    title: "durable updates of random blocks of one file",
    systems: &UFS_AND_LFS,
    logged: false,
    jobs,
    judge,
    chart,
};

const PERCENTS: [u32; 10] = [10, 20, 30, 40, 50, 60, 70, 80, 90, 95];
const QUICK_PERCENTS: [u32; 2] = [30, 80];
/// Utilisations of layouts that no claim names.
const FEW_PERCENTS: [u32; 2] = [30, 80];
/// Updates right after the virtual log was compacted, and the idleness for that.
const FRESH_UPDATES: u32 = 300;
const REST_SECONDS: u32 = 30;
const WITH_INODE: &str = "update";
/// A run of figure 8.
fn curve(host: &str, disk: Platform, percent: u32) -> String {
    format!("{host}, {}, {percent} %", disk.name())
}

fn jobs(settings: &Settings) -> Vec<Job> {
    let percents = if settings.quick { &QUICK_PERCENTS[..] } else { &PERCENTS[..] };
    let mut jobs = Vec::new();
    let mut push = |policy: PolicyKind,
                    host: Host,
                    disk: Platform,
                    percent: u32,
                    fresh: bool,
                    variant: String| {
        let is_everywhere = fresh || FEW_PERCENTS.contains(&percent);
        for volume in settings.volumes_of(&LAYOUTS, &CLAIMED) {
            if !CLAIMED.contains(&volume) && !is_everywhere {
                continue;
            }
            let blocks = volume_blocks(disk, volume.kind);
            let mut amount = amount(settings, blocks.unwrap_or(0), percent);
            if fresh {
                amount.rest_seconds = Some(REST_SECONDS);
                amount.updates = Some(if settings.quick { QUICK_UPDATES } else { FRESH_UPDATES });
            }
            let options = FilesOptions {
                amount,
                host: host.clone(),
                mkfs: mkfs(),
                policy,
                volume_blocks: blocks,
                ..FilesOptions::new(ProgramKind::Update, volume.kind)
            };
            let variant = variant.clone();
            let key = Key { policy: policy.name(), volume: volume.name, variant };
            jobs.extend(job::files_on(&key, disk, options, (volume, &CLAIMED)));
        }
    };
    for policy in settings.policies() {
        for disk in [Platform::St19101, Platform::Hp97560] {
            for &percent in percents {
                push(policy, Host::none(), disk, percent, false, curve("none", disk, percent));
                if disk == Platform::St19101 {
                    let variant = curve("sparc10", disk, percent);
                    push(policy, host("sparc10"), disk, percent, false, variant);
                }
            }
        }
        for (name, disk) in PLATFORMS {
            push(policy, host(name), disk, 80, true, fresh(name, disk));
        }
    }
    jobs.extend(on_vlfs(settings, percents));
    jobs.extend(generations::jobs(settings));
    jobs.extend(buffered::jobs(settings));
    jobs
}

/// The same on VLFS, with files as large as those of UFS on the virtual log.
fn on_vlfs(settings: &Settings, percents: &[u32]) -> Vec<Job> {
    let options = |host: Host, disk: Platform, percent: u32, fresh: bool| {
        let mut amount = amount(settings, volume_blocks(disk, VLOG.kind).unwrap_or(0), percent);
        if fresh {
            amount.rest_seconds = Some(REST_SECONDS);
            amount.updates = Some(if settings.quick { QUICK_UPDATES } else { FRESH_UPDATES });
        }
        let plain = FilesOptions::new(ProgramKind::Update, vlfs::PATCHED.kind);
        FilesOptions { amount, host, ..plain }
    };
    let mut jobs = Vec::new();
    for &percent in percents {
        for disk in [Platform::St19101, Platform::Hp97560] {
            let options = options(Host::none(), disk, percent, false);
            jobs.extend(vlfs::jobs(settings, disk, &curve("none", disk, percent), &options));
        }
        let disk = Platform::St19101;
        let options = options(host("sparc10"), disk, percent, false);
        jobs.extend(vlfs::jobs(settings, disk, &curve("sparc10", disk, percent), &options));
    }
    for (name, disk) in PLATFORMS {
        let options = options(host(name), disk, 80, true);
        jobs.extend(vlfs::jobs(settings, disk, &fresh(name, disk), &options));
    }
    jobs
}

/// The runs at which VLFS is compared with UFS on the virtual log, each with its name in a table.
fn compared(results: &Results<'_>) -> Vec<(String, String)> {
    let mut runs = Vec::new();
    for disk in vlfs::DISKS {
        for percent in percents(results).into_iter().filter(|percent| *percent >= 50) {
            let label = format!("{}/{percent} %", disk.name());
            runs.push((label, curve("none", disk, percent)));
        }
    }
    runs
}

fn percents(results: &Results<'_>) -> Vec<u32> {
    let ran = |percent: &u32| {
        let variant = curve("none", Platform::St19101, *percent);
        results.all.keys().any(|(_, key)| key.variant == variant)
    };
    PERCENTS.into_iter().filter(ran).collect()
}

fn judge(results: &Results<'_>, judge: &mut Judge<'_>) -> Vec<Table> {
    let mut tables = Vec::new();
    let curves =
        [("sparc10", Platform::St19101), ("none", Platform::St19101), ("none", Platform::Hp97560)];
    for (host, disk) in curves {
        tables.push(by_utilisation(results, host, disk));
    }
    tables.push(platforms(results));
    let runs: Vec<_> = compared(results).into_iter().chain(vlfs::on_platforms()).collect();
    tables.extend(vlfs::against_ufs(results, &runs));
    tables.push(stacked::table(results));
    tables.push(generations::table(results));
    tables.push(buffered::table(results));
    claims(results, judge);
    buffered::claims(results, judge);
    faster(results, judge);
    stacked::claims(results, judge);
    generations::claim(results, judge);
    vlfs::update_claims(results, judge, &compared(results));
    tables
}

/// Milliseconds of an update, by utilisation.
fn by_utilisation(results: &Results<'_>, host: &str, disk: Platform) -> Table {
    let runs = lfs::ufs(results);
    let columns = runs.iter().flat_map(|(policy, volume)| {
        [format!("{policy}/{volume}/with inode"), format!("{policy}/{volume}/data only")]
    });
    let title = format!("ms for an update on {}, host {host}", disk.name());
    let mut table = Table::new(title, heads("% of df", columns));
    for percent in percents(results) {
        let variant = curve(host, disk, percent);
        let cells = runs.iter().flat_map(|&(policy, volume)| {
            [WITH_INODE, DATA_ONLY]
                .map(|name| told(results.phase(policy, volume, &variant, name).map(ms)))
        });
        table.row(percent.to_string(), cells.collect());
    }
    table
}

/// How much faster the virtual log is, by platform.
fn platforms(results: &Results<'_>) -> Table {
    let columns = ["in place/ms", "vlog/ms", "faster by/with inode", "faster by/data only"];
    let title = "updates at 80 %, the virtual log just compacted";
    let mut table = Table::new(title, heads("policy, platform", columns.map(str::to_owned)));
    for policy in results.policies() {
        for (host, disk) in PLATFORMS {
            let of = |volume, name: &str| {
                results.phase(policy, volume, &fresh(host, disk), name).map(ms)
            };
            let (plain, vlog) = (IN_PLACE.name, VLOG.name);
            let cells = [
                of(plain, DATA_ONLY),
                of(vlog, DATA_ONLY),
                ratio(of(plain, WITH_INODE), of(vlog, WITH_INODE)),
                ratio(of(plain, DATA_ONLY), of(vlog, DATA_ONLY)),
            ];
            let label = format!("{policy}, {host} with {}", disk.name());
            table.row(label, cells.map(told).to_vec());
        }
    }
    table
}

/// V39: the disk alone, and the shape of the curves.
fn claims(results: &Results<'_>, judge: &mut Judge<'_>) {
    let policy = ufs_policy(results);
    let phase = |host: &str, disk: Platform, volume: &'static str, percent: u32| {
        results.phase(policy, volume, &curve(host, disk, percent), DATA_ONLY)
    };
    let (st, hp) = (Platform::St19101, Platform::Hp97560);
    let (plain, vlog) = (IN_PLACE.name, VLOG.name);
    for (disk, paper) in [(st, 3.80), (hp, 15.8)] {
        let at = |volume| phase("none", disk, volume, 80);
        let says = format!("{policy} in place at 80 %, the disk alone");
        let claim = judge.claim(format!("V39/inplace/{}", disk.name()), says).unit("ms");
        claim.near(paper, 0.15, at(plain).map(ms), || spent_in(at(plain)));
    }
    let at = || phase("none", st, vlog, 80);
    // The model of the claim: a data write alone, to one with a map write each time.
    let says = format!("{policy} on the virtual log at 80 %, the disk alone");
    let claim = judge.claim("V39/vlog/st19101", says).unit("ms");
    claim.between(0.733, 1.57, at().map(ms), || spent_in(at()));
    let shape = |volume: &'static str, most: f64| -> Told<(bool, String)> {
        let low = ms(phase("sparc10", st, volume, 30)?);
        let high = ms(phase("sparc10", st, volume, *percents(results).last().unwrap_or(&30))?);
        let grows = high / low;
        Ok((grows >= 0.95 && grows <= most, format!("{low:.2} to {high:.2} ms")))
    };
    for (volume, most) in [(plain, 1.3), (vlog, 2.0)] {
        let says = format!("{volume}: an update takes little longer the fuller the file system is");
        let claim = judge.claim(format!("V39/shape/{volume}"), says);
        claim.shape(shape(volume, most), || {
            let both = [30, 80].map(|percent| phase("sparc10", st, volume, percent));
            spent_both(("30 %", both[0].clone()), ("80 %", both[1].clone()))
        });
    }
    let below = || -> Told<(bool, String)> {
        let mut least = f64::INFINITY;
        for percent in percents(results) {
            let of = |volume| phase("sparc10", st, volume, percent).map(ms);
            least = least.min(ratio(of(plain), of(vlog))?);
        }
        Ok((least > 1.0, format!("at least {least:.2} times as fast")))
    };
    let claim =
        judge.claim("V39/order", "the virtual log is faster than in place at all utilisations");
    claim.shape(below(), || {
        spent_both((plain, phase("sparc10", st, plain, 80)), (vlog, phase("sparc10", st, vlog, 80)))
    });
}

/// V41 and V42: how much faster the virtual log is on three platforms.
fn faster(results: &Results<'_>, judge: &mut Judge<'_>) {
    let policy = ufs_policy(results);
    let phase = |(host, disk): (&str, Platform), volume: &'static str| {
        results.phase(policy, volume, &fresh(host, disk), DATA_ONLY)
    };
    let (plain, vlog) = (IN_PLACE.name, VLOG.name);
    let gain = |platform| ratio(phase(platform, plain).map(ms), phase(platform, vlog).map(ms));
    let because = |platform| {
        move || spent_both((plain, phase(platform, plain)), (vlog, phase(platform, vlog)))
    };
    let [old, slow, fast] = PLATFORMS;
    let claim = judge.claim("V41/sparc10+hp97560", "the virtual log against in place at 80 %");
    claim.between(1.5, 3.0, gain(old), because(old));
    let claim = judge.claim("V41/ultra170+st19101", "the virtual log against in place at 80 %");
    claim.at_least(3.5, gain(fast), because(fast));
    let order = || -> Told<(bool, String)> {
        let (old, slow, fast) = (gain(old)?, gain(slow)?, gain(fast)?);
        Ok((old < slow && slow < fast, format!("{old:.2}, {slow:.2} and {fast:.2} times as fast")))
    };
    let says = "the gain grows with the disk, and then with the host";
    judge.claim("V41/order", says).shape(order(), because(slow));
    let claim = judge.claim("V42", "random updates are about ten times as fast on the virtual log");
    claim.near(10.0, 0.25, gain(fast), because(fast));
}

fn chart(results: &Results<'_>) -> Chart {
    let percents = percents(results);
    let mut series = Vec::new();
    for (policy, volume) in lfs::ufs(results) {
        let value = |percent: &u32| {
            let variant = curve("sparc10", Platform::St19101, *percent);
            told(results.phase(policy, volume, &variant, DATA_ONLY).map(ms))
        };
        let values = percents.iter().map(value).collect();
        series.push(Series { name: format!("{policy}, {volume}"), values, published: false });
    }
    Chart {
        title: "Durable updates of random blocks, sparc10 with st19101".to_owned(),
        x: "utilisation in % of df".to_owned(),
        y: "ms for an update".to_owned(),
        labels: percents.iter().map(u32::to_string).collect(),
        series,
        shape: Shape::Lines,
    }
}
