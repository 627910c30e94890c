//! Disks that follow the trends of paper 000, section 1 (claim V12): bandwidth grows by 40 % a year
//! and latency shrinks by 10 %. The gain of the virtual log grows with them.

use super::claim::Judge;
use super::job::{self, IN_PLACE, Job, Key, Platform, Results, Told, VLOG, ratio, spent_in};
use super::table::{Table, heads, told};
use super::ufs::{CLAIMED, mkfs};
use super::updates::{DATA_ONLY, amount, ms, volume_blocks};
use super::{Settings, ufs_policy};
use crate::files::host::Host;
use crate::files::programs::ProgramKind;
use crate::files::run::FilesOptions;
use seekless_fs::policy::PolicyKind;

/// The generations: tracks have twice the sectors of those three years before, and half as many.
const DISKS: [Platform; 4] =
    [Platform::St19101, Platform::InThreeYears, Platform::InSixYears, Platform::InNineYears];
const PERCENT: u32 = 80;

fn variant(disk: Platform) -> String {
    format!("generations, {}", disk.name())
}

/// The runs: the disk alone, under the policy of the UFS of the paper.
pub(super) fn jobs(settings: &Settings) -> Vec<Job> {
    let mut jobs = Vec::new();
    let policies = [PolicyKind::Sync, PolicyKind::Async].into_iter();
    let Some(policy) = policies.into_iter().find(|&kind| settings.asks(kind)) else { return jobs };
    for disk in DISKS {
        for volume in settings.volumes_of(&CLAIMED, &CLAIMED) {
            let blocks = volume_blocks(disk, volume.kind);
            let options = FilesOptions {
                amount: amount(settings, blocks.unwrap_or(0), PERCENT),
                host: Host::none(),
                mkfs: mkfs(),
                policy,
                volume_blocks: blocks,
                ..FilesOptions::new(ProgramKind::Update, volume.kind)
            };
            let key = Key { policy: policy.name(), volume: volume.name, variant: variant(disk) };
            jobs.extend(job::files(&key, disk, &volume.under(options)));
        }
    }
    jobs
}

fn of(results: &Results<'_>, disk: Platform, volume: &'static str) -> Told<f64> {
    results.phase(ufs_policy(results), volume, &variant(disk), DATA_ONLY).map(ms)
}

fn gain(results: &Results<'_>, disk: Platform) -> Told<f64> {
    ratio(of(results, disk, IN_PLACE.name), of(results, disk, VLOG.name))
}

/// The gain by generation.
pub(super) fn table(results: &Results<'_>) -> Table {
    let columns = ["in place/ms", "vlog/ms", "faster by"].map(str::to_owned);
    let title = format!("updates at {PERCENT} % on disks to come, the disk alone");
    let mut table = Table::new(title, heads("disk", columns));
    for disk in DISKS {
        let cells =
            [of(results, disk, IN_PLACE.name), of(results, disk, VLOG.name), gain(results, disk)];
        table.row(disk.name(), cells.map(told).to_vec());
    }
    table
}

/// V12.
pub(super) fn claim(results: &Results<'_>, judge: &mut Judge<'_>) {
    let gains = DISKS.map(|disk| gain(results, disk)).into_iter().collect::<Told<Vec<f64>>>();
    let seen = gains.map(|gains| {
        let grows = gains.windows(2).all(|pair| pair[1] > pair[0]);
        let list: Vec<String> = gains.iter().map(|gain| format!("{gain:.2}")).collect();
        (grows, format!("{} times as fast", list.join(", ")))
    });
    let says = "with each generation of disks the virtual log gains against in place";
    judge.claim("V12", says).shape(seen, || {
        let last = variant(DISKS[DISKS.len() - 1]);
        spent_in(results.phase(ufs_policy(results), VLOG.name, &last, DATA_ONLY))
    });
}
