//! `vlog/large`: one file of 10 MB is written and read, in order and at random, in place and on the
//! virtual log, on both disks of the paper.

use super::chart::{Chart, Series, Shape};
use super::claim::Judge;
use super::job::{self, IN_PLACE, Job, Key, LAYOUTS, Platform, Results, VLOG, ratio, spent_both};
use super::small::{CLAIMED, host, mkfs};
use super::table::{Table, heads, told};
use super::{Parts, Settings, UFS_AND_LFS, ufs};
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
        for policy in results.policies() {
            for volume in results.volumes() {
                let of = |name: &&str| results.phase(policy, volume, disk.name(), name).map(rate);
                let cells = PHASES.iter().map(|name| told(of(name)));
                table.row(format!("{policy}, {volume}"), cells.collect());
            }
        }
        tables.push(table);
    }
    claims(results, judge);
    tables
}

fn claims(results: &Results<'_>, judge: &mut Judge<'_>) {
    let policy = ufs(results);
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
    for (id, says) in [
        ("V38a", "LFS is below UFS in the first two phases"),
        ("V38d", "LFS writes faster at random than in order, as its cache absorbs overwrites"),
        ("V38h", "LFS writes slightly faster on the virtual log than in place"),
    ] {
        judge.claim(id, says).untold("LFS is not built");
    }
}

fn chart(results: &Results<'_>) -> Chart {
    let disk = Platform::St19101.name();
    let mut series = Vec::new();
    for policy in results.policies() {
        for volume in results.volumes() {
            let value = |name: &&str| told(results.phase(policy, volume, disk, name).map(rate));
            let (name, values) =
                (format!("{policy}, {volume}"), PHASES.iter().map(value).collect());
            series.push(Series { name, values, published: false });
        }
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
