//! `vlog/small`: 1,500 files of 1 KB in one directory are made, read with a cold cache, and
//! removed, in place and on the virtual log.

use super::chart::{Chart, Series, Shape};
use super::claim::Judge;
use super::job::{
    self, IN_PLACE, Job, Key, LAYOUTS, Platform, Results, Told, VLOG, Volume, ratio, spent_both,
};
use super::table::{Table, heads, told};
use super::ufs::{CLAIMED, host, mkfs};
use super::{Parts, Settings, UFS_AND_LFS, lfs, vlfs};
use crate::files::programs::{Amount, ProgramKind};
use crate::files::report::PhaseReport;
use crate::files::run::FilesOptions;
use seekless_fs::policy::PolicyKind;

pub(super) const PARTS: Parts = Parts {
    name: "vlog/small",
    source: "paper 000, figure 6",
    title: "1,500 files of 1 KB are made, read and removed",
    systems: &UFS_AND_LFS,
    logged: false,
    jobs,
    judge,
    chart,
};

const PHASES: [&str; 3] = ["create", "read", "delete"];
const FILES: u32 = 1500;
const QUICK_FILES: u32 = 200;
const POLICY: &str = "sync";
const DISK: Platform = Platform::St19101;

fn jobs(settings: &Settings) -> Vec<Job> {
    let mut jobs = Vec::new();
    for volume in settings.volumes_of(&LAYOUTS, &CLAIMED) {
        for policy in settings.policies() {
            let files = Some(if settings.quick { QUICK_FILES } else { FILES });
            let amount = Amount { files, seed: settings.seed, ..Amount::one_user() };
            let options = FilesOptions::new(ProgramKind::Small, volume.kind);
            let (host, mkfs) = (host("sparc10"), mkfs());
            let options = FilesOptions { amount, host, mkfs, policy, ..options };
            let variant = DISK.name().to_owned();
            let key = Key { policy: policy.name(), volume: volume.name, variant };
            jobs.extend(job::files_on(&key, DISK, options, (volume, &CLAIMED)));
        }
    }
    if lfs::is_asked(settings) {
        for volume in lfs::BOTH {
            let files = Some(if settings.quick { QUICK_FILES } else { FILES });
            let amount = Amount { files, seed: settings.seed, ..Amount::one_user() };
            let options = lfs::options(ProgramKind::Small, amount);
            let variant = DISK.name().to_owned();
            let key = Key { policy: lfs::POLICY.name(), volume: volume.name, variant };
            jobs.extend(job::files_on(&key, DISK, options, (volume, &lfs::BOTH)));
        }
    }
    let files = Some(if settings.quick { QUICK_FILES } else { FILES });
    let amount = Amount { files, seed: settings.seed, ..Amount::one_user() };
    let options = FilesOptions::new(ProgramKind::Small, vlfs::PATCHED.kind);
    let options = FilesOptions { amount: amount.clone(), ..options };
    let on_host = FilesOptions { host: host("sparc10"), ..options };
    jobs.extend(vlfs::jobs(settings, DISK, DISK.name(), &on_host));
    jobs.extend(disk_alone(settings, amount));
    jobs
}

/// Files are made with a host that takes no time, on VLFS and on UFS on the virtual log.
fn disk_alone(settings: &Settings, amount: Amount) -> Vec<Job> {
    if !settings.vlfs || !settings.asks(PolicyKind::Sync) {
        return Vec::new();
    }
    let mut jobs = Vec::new();
    for disk in vlfs::DISKS {
        let variant = vlfs::alone(disk);
        let amount = amount.clone();
        let options = FilesOptions::new(ProgramKind::Small, VLOG.kind);
        let ufs = FilesOptions { amount, mkfs: mkfs(), policy: PolicyKind::Sync, ..options };
        let key = Key { policy: POLICY, volume: VLOG.name, variant: variant.clone() };
        jobs.extend(job::files_on(&key, disk, ufs.clone(), (VLOG, &[])));
        let own = FilesOptions { kind: vlfs::PATCHED.kind, ..ufs };
        jobs.extend(vlfs::jobs(settings, disk, &variant, &own));
    }
    jobs
}

fn phase<'r>(
    results: &Results<'r>,
    policy: &'static str,
    volume: &'static str,
    name: &str,
) -> Told<&'r PhaseReport> {
    results.phase(policy, volume, DISK.name(), name)
}

fn seconds(phase: &PhaseReport) -> f64 {
    phase.elapsed_seconds
}

/// Speed against the UFS in place.
fn normal(
    results: &Results<'_>,
    policy: &'static str,
    volume: &'static str,
    name: &str,
) -> Told<f64> {
    let of = |policy, volume| phase(results, policy, volume, name).map(seconds);
    ratio(of(POLICY, IN_PLACE.name), of(policy, volume))
}

fn judge(results: &Results<'_>, judge: &mut Judge<'_>) -> Vec<Table> {
    let columns = PHASES.into_iter().flat_map(|name| {
        [format!("{name}/s"), format!("{name}/settled s"), format!("{name}/speed")]
    });
    let title = format!("on {}; speed against {POLICY} in place", DISK.name());
    let mut table = Table::new(title, heads("policy, volume", columns));
    for (policy, volume) in lfs::systems(results) {
        let cells = PHASES.iter().flat_map(|name| {
            let of = phase(results, policy, volume, name);
            let settled = of.clone().map(|phase| phase.settled_seconds);
            [of.map(seconds), settled, normal(results, policy, volume, name)].map(told)
        });
        table.row(format!("{policy}, {volume}"), cells.collect());
    }
    let because = |name: &'static str| {
        move || {
            let of = |volume: Volume| phase(results, POLICY, volume.name, name);
            spent_both((IN_PLACE.name, of(IN_PLACE)), (VLOG.name, of(VLOG)))
        }
    };
    let speed = |name| normal(results, POLICY, VLOG.name, name);
    for name in ["create", "delete"] {
        let says = format!("UFS on the virtual log, {name}, against in place: clearly faster");
        let claim = judge.claim(format!("V37/{name}"), says);
        claim.at_least(1.5, speed(name), because(name));
    }
    let claim =
        judge.claim("V37/read", "UFS on the virtual log reads slightly slower than in place");
    claim.between(0.7, 1.0, speed("read"), because("read"));
    lfs_claims(results, judge);
    vlfs::create_claims(results, judge, "create");
    vec![table]
}

/// LFS in the phases that write: far above UFS, and the same on both disks.
fn lfs_claims(results: &Results<'_>, judge: &mut Judge<'_>) {
    let (lfs, on_vlog) = (lfs::LFS.name, lfs::LFS_ON_VLOG.name);
    let of = |volume, name| phase(results, lfs::POLICY.name(), volume, name);
    for name in ["create", "delete"] {
        let because = || {
            let plain = phase(results, POLICY, IN_PLACE.name, name);
            spent_both((IN_PLACE.name, plain), (lfs, of(lfs, name)))
        };
        let speed = normal(results, lfs::POLICY.name(), lfs, name);
        let says = format!("LFS in place, {name}, against UFS in place: far above");
        judge.claim(format!("V37/lfs/{name}"), says).at_least(3.0, speed, because);
        let both = ratio(of(on_vlog, name).map(seconds), of(lfs, name).map(seconds));
        let says = format!("LFS on the virtual log, {name}, against in place: the same");
        let claim = judge.claim(format!("V37/lfs/same/{name}"), says);
        claim.between(0.85, 1.15, both, || {
            spent_both((lfs, of(lfs, name)), (on_vlog, of(on_vlog, name)))
        });
    }
}

fn chart(results: &Results<'_>) -> Chart {
    let mut series = Vec::new();
    for (policy, volume) in lfs::systems(results) {
        let value = |name: &&str| told(phase(results, policy, volume, name).map(seconds));
        let (name, values) = (format!("{policy}, {volume}"), PHASES.iter().map(value).collect());
        series.push(Series { name, values, published: false });
    }
    Chart {
        title: "1,500 files of 1 KB".to_owned(),
        x: "phase".to_owned(),
        y: "seconds".to_owned(),
        labels: PHASES.map(str::to_owned).to_vec(),
        series,
        shape: Shape::Bars,
    }
}
