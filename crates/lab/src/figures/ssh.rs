//! `journal/ssh`: ssh is unpacked, configured and built. The operations are synthetic, and their
//! CPU times are fitted to FFS-async: only the other systems verify something.

use super::chart::Chart;
use super::claim::Judge;
use super::job::{self, IN_PLACE, Job, Key, Platform, Results, Told, Volume, ratio};
use super::published::SYSTEMS;
use super::speeds::{BASE, Speeds, TOTAL, listed, waits};
use super::table::Table;
use super::{Parts, Settings, paper};
use crate::files::programs::{Amount, ProgramKind};
use crate::files::run::FilesOptions;
use seekless_fs::policy::PolicyKind;

pub(super) const PARTS: Parts = Parts {
    name: "journal/ssh",
    source: "paper 001, table 4",
    title: "ssh is unpacked, configured and built (synthetic operations)",
    systems: &SYSTEMS,
    logged: true,
    jobs,
    judge,
    chart,
};

const VOLUMES: [Volume; 1] = [IN_PLACE];
/// Soft updates that write content in no order.
const UNORDERED: &str = "ssh, content in no order";

/// Table 4.
const TABLE: Speeds<4> = Speeds {
    variant: "ssh",
    columns: ["unpack", "config", "build", TOTAL],
    printed: [
        [0.14, 0.66, 0.85, 0.73],
        [1.0, 1.0, 1.0, 1.0],
        [0.99, 0.98, 1.01, 1.01],
        [0.72, 1.08, 0.95, 0.96],
        [0.15, 1.01, 0.88, 0.82],
        [0.20, 0.85, 0.93, 0.86],
        [0.90, 0.94, 1.00, 0.99],
        [0.90, 1.05, 0.98, 0.99],
    ],
};

fn jobs(settings: &Settings) -> Vec<Job> {
    let mut jobs = Vec::new();
    for volume in settings.volumes(&VOLUMES) {
        for policy in settings.policies_on(volume) {
            let options = FilesOptions::new(ProgramKind::Ssh, volume.kind);
            let amount = Amount { seed: settings.seed, ..Amount::one_user() };
            let options = paper::under(policy, FilesOptions { amount, ..options });
            let run = |variant: &str, options: FilesOptions| {
                let variant = variant.to_owned();
                let key = Key { policy: policy.name(), volume: volume.name, variant };
                job::files_on(&key, Platform::Cheetah, options, (volume, &VOLUMES))
            };
            jobs.extend(run(TABLE.variant, options.clone()));
            if policy == PolicyKind::Soft {
                jobs.extend(run(UNORDERED, FilesOptions { data_order: false, ..options }));
            }
        }
    }
    jobs
}

fn judge(results: &Results<'_>, judge: &mut Judge<'_>) -> Vec<Table> {
    calibrations(results, judge);
    for policy in SYSTEMS.iter().map(|system| system.policy).filter(|policy| *policy != BASE) {
        let says = format!("{policy} unpacks, against FFS-async");
        let (paper, speed) =
            (TABLE.paper(policy, "unpack"), TABLE.speed(results, policy, "unpack"));
        let because = || TABLE.because(results, [policy, BASE], "unpack");
        judge.claim(format!("J23/unpack/{policy}"), says).near(paper, 0.05 / paper, speed, because);
    }
    shapes(results, judge);
    over_ffs(results, judge);
    let says = "FFS loses a quarter over all phases, against FFS-async";
    let because = || TABLE.because(results, ["sync", BASE], TOTAL);
    let total = TABLE.speed(results, "sync", TOTAL);
    judge.claim("J25", says).near(0.73, 0.05 / 0.73, total, because);
    let says = "to write content before inodes costs soft updates nothing: speed without it";
    let of = |variant| TABLE.seconds(results, ("soft", IN_PLACE.name, variant), TOTAL);
    let gain = ratio(of(TABLE.variant), of(UNORDERED));
    let because = || TABLE.because(results, ["soft", BASE], TOTAL);
    judge.claim("J9/ssh", says).near(1.0, 0.01, gain, because);
    vec![TABLE.table(results, format!("ssh on {}", Platform::Cheetah.name()))]
}

/// J22.
fn calibrations(results: &Results<'_>, judge: &mut Judge<'_>) {
    for (name, seconds) in TABLE.columns.into_iter().zip(["1.02", "10.38", "42.60", "53.99"]) {
        let claim = judge.claim(format!("J22/{name}"), format!("FFS-async, {name}: {seconds} s"));
        let measured = TABLE.seconds(results, (BASE, IN_PLACE.name, TABLE.variant), name);
        claim.unit("s").calibration(measured);
    }
}

/// J23: of the other columns, what sets systems apart.
fn shapes(results: &Results<'_>, judge: &mut Judge<'_>) {
    let of = |name| TABLE.all(results, name);
    let slowest = |all: &[(&str, f64)]| {
        let first = all.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map(|one| one.0);
        first == Some("sync")
    };
    let seen = || -> Told<(bool, String)> {
        let all = of("config")?;
        let near = all.iter().filter(|one| one.0 != "sync").all(|one| one.1 >= 0.80);
        Ok((slowest(&all) && near, listed(&all)))
    };
    let because = |name| move || TABLE.because(results, ["sync", BASE], name);
    let says = "FFS configures slowest, and all others reach 0.80 of FFS-async";
    judge.claim("J23/config", says).shape(seen(), because("config"));
    let seen = || -> Told<(bool, String)> {
        let all = of("build")?;
        let near = all.iter().all(|one| one.1 >= if waits(one.0) { 0.80 } else { 0.93 });
        Ok((slowest(&all) && near, listed(&all)))
    };
    let says =
        "FFS builds slowest; what waits for the disk reaches 0.80 of FFS-async, the rest 0.93";
    judge.claim("J23/build", says).shape(seen(), because("build"));
    let seen = || -> Told<(bool, String)> {
        let all = of(TOTAL)?;
        let apart = all.iter().all(|one| match waits(one.0) {
            true => one.1 < 0.90,
            false => one.1 >= 0.95,
        });
        Ok((slowest(&all) && apart, listed(&all)))
    };
    let says = "over all, FFS is slowest; what waits for the disk stays below 0.90, the rest is \
                above 0.95";
    judge.claim("J23/total", says).shape(seen(), because(TOTAL));
}

/// J24: the text says that synchronous logs gain 10 to 20 % over FFS, table 4 says 7 and 43 %.
fn over_ffs(results: &Results<'_>, judge: &mut Judge<'_>) {
    for policy in ["wafs-1sync", "wafs-2sync"] {
        let of = |policy| TABLE.speed(results, policy, "unpack");
        let paper = TABLE.paper(policy, "unpack") / TABLE.paper("sync", "unpack");
        let says = format!("{policy} unpacks faster than FFS (the text says 1.1 to 1.2, table 4)");
        let measured = ratio(of(policy), of("sync"));
        let because = || TABLE.because(results, [policy, "sync"], "unpack");
        judge.claim(format!("J24/{policy}"), says).near(paper, 0.10, measured, because);
    }
}

fn chart(results: &Results<'_>) -> Chart {
    TABLE.chart(results, "ssh: unpacked, configured, built")
}
