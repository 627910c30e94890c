//! `vlog/large`: one file of 10 MB is written and read, in order and at random, in place and on the
//! virtual log, on both disks of the paper.

use super::chart::{Chart, Series, Shape};
use super::claim::Judge;
use super::job::{self, IN_PLACE, Job, Key, LAYOUTS, Platform, Results, VLOG, ratio, spent_both};
use super::table::{Table, heads, told};
use super::ufs::{CLAIMED, host, mkfs};
use super::{Parts, Settings, UFS_AND_LFS, lfs, ufs_policy, vlfs};
use crate::files::programs::{Amount, ProgramKind};
use crate::files::report::PhaseReport;
use crate::files::run::FilesOptions;

pub(super) const PARTS: Parts = Parts {
    name: "vlog/large",
    source: "paper 000, figure 7",
    title: "one file of 10 MB, in order and at random",
    systems: &UFS_AND_LFS,
    logged: false,
    jobs,
    judge,
    chart,
};

const DISKS: [Platform; 2] = [Platform::St19101, Platform::Hp97560];
const WRITE: &str = "sequential write";
const READ: &str = "sequential read";
const RANDOM_WRITE: &str = "random write";
const READ_AGAIN: &str = "sequential read again";
const RANDOM_READ: &str = "random read";
const SYNCED: &str = "random write, synced";
const PHASES: [&str; 6] = [WRITE, READ, RANDOM_WRITE, READ_AGAIN, RANDOM_READ, SYNCED];

fn jobs(settings: &Settings) -> Vec<Job> {
    let disks = if settings.quick { &DISKS[..1] } else { &DISKS[..] };
    let mut jobs = Vec::new();
    for &disk in disks {
        for volume in settings.volumes_of(&LAYOUTS, &CLAIMED) {
            for policy in settings.policies() {
                let amount = Amount { seed: settings.seed, ..Amount::one_user() };
                let options = FilesOptions::new(ProgramKind::Large, volume.kind);
                let (host, mkfs) = (host("sparc10"), mkfs());
                let options = FilesOptions { amount, host, mkfs, policy, ..options };
                let variant = disk.name().to_owned();
                let key = Key { policy: policy.name(), volume: volume.name, variant };
                jobs.extend(job::files_on(&key, disk, options, (volume, &CLAIMED)));
            }
        }
        for volume in lfs::BOTH.into_iter().filter(|_| lfs::is_asked(settings)) {
            let amount = Amount { seed: settings.seed, ..Amount::one_user() };
            let options = lfs::options(ProgramKind::Large, amount);
            let variant = disk.name().to_owned();
            let key = Key { policy: lfs::POLICY.name(), volume: volume.name, variant };
            jobs.extend(job::files_on(&key, disk, options, (volume, &lfs::BOTH)));
        }
        let amount = Amount { seed: settings.seed, ..Amount::one_user() };
        let options = FilesOptions::new(ProgramKind::Large, vlfs::PATCHED.kind);
        let options = FilesOptions { amount, host: host("sparc10"), ..options };
        jobs.extend(vlfs::jobs(settings, disk, disk.name(), &options));
    }
    jobs
}

/// MB/s until everything was on the disk.
fn rate(phase: &PhaseReport) -> f64 {
    phase.megabytes_per_second
}

fn judge(results: &Results<'_>, judge: &mut Judge<'_>) -> Vec<Table> {
    let mut tables = Vec::new();
    for disk in DISKS {
        let ran = results.all.keys().any(|(_, key)| key.variant == disk.name());
        if !ran {
            continue;
        }
        let columns = PHASES.map(|name| name.replace(' ', "/"));
        let title = format!("MB/s on {} until all is on the disk", disk.name());
        let mut table = Table::new(title, heads("policy, volume", columns));
        for (policy, volume) in lfs::systems(results) {
            let of = |name: &&str| results.phase(policy, volume, disk.name(), name).map(rate);
            let cells = PHASES.iter().map(|name| told(of(name)));
            table.row(format!("{policy}, {volume}"), cells.collect());
        }
        tables.push(table);
    }
    claims(results, judge);
    tables
}

fn claims(results: &Results<'_>, judge: &mut Judge<'_>) {
    let policy = ufs_policy(results);
    let (plain, vlog) = (IN_PLACE.name, VLOG.name);
    let of = |disk: Platform, volume, name: &str| results.phase(policy, volume, disk.name(), name);
    let against = |disk, one: (&'static str, &str), two: (&'static str, &str)| {
        ratio(of(disk, one.0, one.1).map(rate), of(disk, two.0, two.1).map(rate))
    };
    let because = |disk, one: (&'static str, &'static str), two: (&'static str, &'static str)| {
        move || spent_both((one.0, of(disk, one.0, one.1)), (two.0, of(disk, two.0, two.1)))
    };
    let st = Platform::St19101;
    let hp = Platform::Hp97560;
    let claim = judge.claim("V38b", format!("{policy} in place reads much faster than it writes"));
    let (one, two) = ((plain, READ), (plain, WRITE));
    claim.at_least(1.5, against(st, one, two), because(st, one, two));
    let says =
        "on the virtual log, reading in order is poor after random writes: part that is left";
    let (one, two) = ((vlog, READ_AGAIN), (vlog, READ));
    let claim = judge.claim("V38c/vlog", says);
    claim.between(0.0, 0.5, against(st, one, two), because(st, one, two));
    let (one, two) = ((plain, READ_AGAIN), (plain, READ));
    let claim = judge.claim("V38c/inplace", "in place it is as before: part that is left");
    claim.between(0.9, 1.1, against(st, one, two), because(st, one, two));
    let (one, two) = ((vlog, SYNCED), (plain, SYNCED));
    let claim = judge.claim("V38e", "random durable writes: the virtual log against in place");
    claim.at_least(2.0, against(st, one, two), because(st, one, two));
    let (one, two) = ((vlog, WRITE), (plain, WRITE));
    let says = "writes in order: the virtual log against in place on the newer disk, no slower";
    let claim = judge.claim("V38f/st19101", says);
    claim.at_least(1.0, against(st, one, two), because(st, one, two));
    let says = "writes in order: the virtual log against in place on the older disk, slower";
    let claim = judge.claim("V38f/hp97560", says);
    claim.between(0.0, 1.0, against(hp, one, two), because(hp, one, two));
    let (one, two) = ((vlog, RANDOM_WRITE), (plain, RANDOM_WRITE));
    let says = "random writes that the file system sorts: the virtual log against in place";
    let claim = judge.claim("V38g", says);
    claim.at_least(1.02, against(st, one, two), because(st, one, two));
    lfs_claims(results, judge);
}

/// V38a, c, d and h: LFS on the newer disk.
fn lfs_claims(results: &Results<'_>, judge: &mut Judge<'_>) {
    type At = (&'static str, &'static str);
    let ufs = ufs_policy(results);
    let disk = Platform::St19101;
    let (plain, lfs, on_vlog) = (IN_PLACE.name, lfs::LFS.name, lfs::LFS_ON_VLOG.name);
    let of = |(volume, name): At| {
        let policy = if volume == plain { ufs } else { lfs::POLICY.name() };
        results.phase(policy, volume, disk.name(), name)
    };
    let against = |one: At, two: At| ratio(of(one).map(rate), of(two).map(rate));
    let because = |one: At, two: At| move || spent_both((one.0, of(one)), (two.0, of(two)));
    for (id, says, name) in [
        ("V38a/write", "LFS in place against UFS, writes in order: below", WRITE),
        ("V38a/read", "LFS in place against UFS, reads in order: below", READ),
    ] {
        let (one, two) = ((lfs, name), (plain, name));
        judge.claim(id, says).between(0.0, 1.0, against(one, two), because(one, two));
    }
    for (id, volume) in [("V38c/lfs", lfs), ("V38c/lfs on vlog", on_vlog)] {
        let (one, two) = ((volume, READ_AGAIN), (volume, READ));
        let says = format!("{volume}: reading in order is poor after random writes: part left");
        let claim = judge.claim(id, says);
        claim.between(0.0, 0.5, against(one, two), because(one, two));
    }
    let (one, two) = ((lfs, RANDOM_WRITE), (lfs, WRITE));
    let says = "LFS writes faster at random than in order, as its cache absorbs overwrites";
    judge.claim("V38d", says).at_least(1.0, against(one, two), because(one, two));
    let (one, two) = ((on_vlog, WRITE), (lfs, WRITE));
    let says = "LFS writes slightly faster on the virtual log than in place";
    judge.claim("V38h", says).between(1.0, 1.3, against(one, two), because(one, two));
}

fn chart(results: &Results<'_>) -> Chart {
    let disk = Platform::St19101.name();
    let mut series = Vec::new();
    for (policy, volume) in lfs::systems(results) {
        let value = |name: &&str| told(results.phase(policy, volume, disk, name).map(rate));
        let (name, values) = (format!("{policy}, {volume}"), PHASES.iter().map(value).collect());
        series.push(Series { name, values, published: false });
    }
    Chart {
        title: format!("One file of 10 MB on {disk}"),
        x: "phase".to_owned(),
        y: "MB/s".to_owned(),
        labels: ["write", "read", "random write", "read again", "random read", "synced"]
            .map(str::to_owned)
            .to_vec(),
        series,
        shape: Shape::Bars,
    }
}
