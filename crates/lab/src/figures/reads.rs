//! A part of `dcd/responses`: cold reads of files whose blocks have gone home, in place and over a
//! disk caching disk (D33).

use super::Settings;
use super::claim::Judge;
use super::job::{self, IN_PLACE, Job, Key, Platform, Results, Told, ratio, spent_both};
use super::tree::{DRIVER, POLICY};
use crate::files::host::Host;
use crate::files::programs::{Amount, ProgramKind};
use crate::files::report::PhaseReport;
use crate::files::run::FilesOptions;
use seekless_formats::MkfsOptions;

const FILES: u32 = 1000;
const QUICK_FILES: u32 = 100;
const BYTES: u64 = 8 << 10;
const REST_SECONDS: u32 = 120;
const VARIANT: &str = "reads of 8 KB";
const PHASE: &str = "read 8K";

/// The runs.
pub(super) fn jobs(settings: &Settings) -> Vec<Job> {
    let mut jobs = Vec::new();
    for volume in [IN_PLACE, DRIVER] {
        for policy in settings.policies() {
            let files = Some(if settings.quick { QUICK_FILES } else { FILES });
            let (sizes, rest_seconds) = (vec![BYTES], Some(REST_SECONDS));
            let seed = settings.seed;
            let amount = Amount { files, sizes, rest_seconds, seed, ..Amount::one_user() };
            let host = Host::find("ultra170").expect("a table of this crate");
            let mkfs = MkfsOptions { block: 8192, fragment: 1024, ..MkfsOptions::default() };
            let options = FilesOptions::new(ProgramKind::Micro, volume.kind);
            let options = FilesOptions { amount, host, mkfs, policy, ..options };
            let variant = VARIANT.to_owned();
            let key = Key { policy: policy.name(), volume: volume.name, variant };
            jobs.extend(job::files(&key, Platform::Barracuda, &volume.under(options)));
        }
    }
    jobs
}

/// D33: reads take no longer.
pub(super) fn claim(results: &Results<'_>, judge: &mut Judge<'_>) {
    let of = |volume| -> Told<&PhaseReport> { results.phase(POLICY, volume, VARIANT, PHASE) };
    let seconds = |volume| of(volume).map(|phase| phase.elapsed_seconds);
    let (plain, cached) = (IN_PLACE.name, DRIVER.name);
    let says = "cold reads of files of 8 KB take no longer than in place: times as long";
    let longer = ratio(seconds(cached), seconds(plain));
    let because = || spent_both((plain, of(plain)), (cached, of(cached)));
    judge.claim("D33", says).between(0.0, 1.02, longer, because);
}
