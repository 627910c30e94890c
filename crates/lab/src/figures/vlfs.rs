//! VLFS beside the systems of paper 000, which designed it (section 3.3) and did not build it.
//!
//! It runs in two forms: with patches, and literally as the paper describes it, where each change
//! writes inode and indirect blocks anew.

use super::Settings;
use super::claim::Judge;
use super::job::{self, Job, Key, Platform, Results, VLOG, Volume, plain, ratio, spent_both};
use super::table::{Table, heads, told};
use super::updates::{DATA_ONLY, PLATFORMS, fresh, ms};
use crate::files::report::PhaseReport;
use crate::files::run::FilesOptions;
use seekless_formats::Kind as FsKind;
use seekless_fs::policy::PolicyKind;
use seekless_layouts::Kind;
use seekless_layouts::vlfs::LITERAL;

/// With patches.
pub(super) const PATCHED: Volume = plain("vlfs", Kind::VLFS);
/// As in the paper.
pub(super) const AS_IN_PAPER: Volume = plain("vlfs, literal", Kind::VLFS);
/// Both.
const BOTH: [Volume; 2] = [PATCHED, AS_IN_PAPER];
/// The disks of the paper.
pub(super) const DISKS: [Platform; 2] = [Platform::St19101, Platform::Hp97560];
/// The policies that run on a drive of objects.
const POLICIES: [PolicyKind; 2] = [PolicyKind::Async, PolicyKind::Sync];
/// Its updates are compared with those of this UFS.
const POLICY: &str = "sync";
/// How long an update may take against one of UFS on the virtual log that writes its data only,
/// and against one that writes the inode, too.
const MOST_OF_DATA_ONLY: f64 = 1.10;
const MOST_OF_BOTH: f64 = 0.70;
/// How long files may take to be made against UFS on the virtual log.
const MOST_OF_CREATE: f64 = 0.60;

/// The runs that do on it what `options` do on UFS.
pub(super) fn jobs(
    settings: &Settings,
    disk: Platform,
    variant: &str,
    options: &FilesOptions,
) -> Vec<Job> {
    let mut jobs = Vec::new();
    for policy in POLICIES.into_iter().filter(|&policy| settings.vlfs && settings.asks(policy)) {
        for volume in BOTH {
            let key =
                Key { policy: policy.name(), volume: volume.name, variant: variant.to_owned() };
            let options = volume.under(on_it(policy, volume, options));
            jobs.extend(job::files_on(&key, disk, options, (volume, &[])));
        }
    }
    jobs
}

/// The options of a program on it.
fn on_it(policy: PolicyKind, volume: Volume, options: &FilesOptions) -> FilesOptions {
    let vlfs: FsKind = "vlfs".parse().expect("a format of this program");
    FilesOptions {
        file_system: vlfs,
        mkfs: (vlfs.defaults)(),
        policy,
        volume_blocks: None,
        options: options.options.clone().with(&LITERAL, volume == AS_IN_PAPER),
        ..options.clone()
    }
}

/// The policies and volumes of it that were run.
pub(super) fn systems(results: &Results<'_>) -> Vec<(&'static str, &'static str)> {
    let on = |volume: Volume| {
        results.policies_on(volume.name).into_iter().map(move |policy| (policy, volume.name))
    };
    BOTH.into_iter().flat_map(on).collect()
}

/// The claims and the table of a part that is only there with it.
fn if_run<T>(results: &Results<'_>, what: impl FnOnce() -> T) -> Option<T> {
    (!results.policies_on(PATCHED.name).is_empty()).then(what)
}

/// Times of an update against those of UFS on the virtual log, for runs of these names.
pub(super) fn against_ufs(results: &Results<'_>, runs: &[(String, String)]) -> Option<Table> {
    if_run(results, || {
        let names = ["UFS data only/ms", "UFS with inode/ms", "data only/ms", "with inode/ms"];
        let ratios = ["against/data only", "against/with inode", "literal/ms"];
        let columns = names.into_iter().chain(ratios).map(str::to_owned);
        let title = format!("updates of VLFS against UFS on the virtual log, {POLICY}");
        let mut table = Table::new(title, heads("run", columns));
        for (label, variant) in runs {
            let of = |volume, name| results.phase(POLICY, volume, variant, name).map(ms);
            let (ufs, own) = (VLOG.name, PATCHED.name);
            let cells = [
                of(ufs, DATA_ONLY),
                of(ufs, "update"),
                of(own, DATA_ONLY),
                of(own, "update"),
                ratio(of(own, DATA_ONLY), of(ufs, DATA_ONLY)),
                ratio(of(own, "update"), of(ufs, "update")),
                of(AS_IN_PAPER.name, DATA_ONLY),
            ];
            table.row(label.clone(), cells.map(told).to_vec());
        }
        table
    })
}

/// Updates at 80 % of `df` on the platforms of the paper.
pub(super) fn on_platforms() -> Vec<(String, String)> {
    let run = |(host, disk): (&str, Platform)| {
        (format!("{host} with {}", disk.name()), fresh(host, disk))
    };
    PLATFORMS.map(run).to_vec()
}

/// What VLFS should come to in updates: on each of these runs.
pub(super) fn update_claims(
    results: &Results<'_>,
    judge: &mut Judge<'_>,
    runs: &[(String, String)],
) {
    let claims = || {
        for (id, phase, most) in
            [("update", DATA_ONLY, MOST_OF_DATA_ONLY), ("inode", "update", MOST_OF_BOTH)]
        {
            for (label, variant) in runs {
                let of = |volume: Volume| results.phase(POLICY, volume.name, variant, phase);
                let all = ratio(of(PATCHED).map(ms), of(VLOG).map(ms));
                let says = format!("VLFS against UFS on the virtual log, {phase}");
                let claim = judge.claim(format!("VLFS/{id}/{label}"), says);
                claim.between(0.0, most, all, || {
                    spent_both((PATCHED.name, of(PATCHED)), (VLOG.name, of(VLOG)))
                });
            }
        }
    };
    if_run(results, claims);
}

/// A run of the disk alone.
pub(super) fn alone(disk: Platform) -> String {
    format!("{}, the disk alone", disk.name())
}

/// What VLFS should come to where files are made: seconds against UFS on the virtual log.
pub(super) fn create_claims(results: &Results<'_>, judge: &mut Judge<'_>, name: &'static str) {
    let claims = || {
        for disk in DISKS {
            let of = |volume: Volume| results.phase(POLICY, volume.name, &alone(disk), name);
            let seconds = |volume| of(volume).map(|phase: &PhaseReport| phase.elapsed_seconds);
            let says =
                "VLFS against UFS on the virtual log, the disk alone: the time to make files";
            let claim = judge.claim(format!("VLFS/create/{}", disk.name()), says);
            claim.between(0.0, MOST_OF_CREATE, ratio(seconds(PATCHED), seconds(VLOG)), || {
                spent_both((PATCHED.name, of(PATCHED)), (VLOG.name, of(VLOG)))
            });
        }
    };
    if_run(results, claims);
}
