//! What figure 3 of paper 001 claims about systems that keep a log.

use crate::figures::claim::Judge;
use crate::figures::job::{IN_PLACE, Job, Results, Told, Work, ratio};
use crate::files::report::{FilesReport, PhaseReport};

/// Pairs per second over all directories.
pub(super) fn rate(report: &FilesReport) -> f64 {
    let pairs: u64 =
        report.phases.iter().filter_map(|phase| phase.by_call.get("unlink")).map(|c| c.calls).sum();
    let seconds: f64 = report.phases.iter().map(|phase| phase.elapsed_seconds).sum();
    pairs as f64 / seconds.max(f64::MIN_POSITIVE)
}

/// The claims.
pub(super) fn claims(
    results: &Results<'_>,
    judge: &mut Judge<'_>,
    variant: &str,
    because: &dyn Fn(&'static str) -> String,
) {
    let of = |policy: &'static str| results.files(policy, IN_PLACE.name, variant);
    let rate = |policy| of(policy).map(rate);
    for policy in ["wafs-1sync", "wafs-2sync"] {
        let says = format!("{policy} makes and removes empty files, two revolutions each");
        let claim = judge.claim(format!("J20/{policy}"), says).unit("pairs/s");
        claim.near(80.0, 0.15, rate(policy), || because(policy));
    }
    for policy in ["wafs-1async", "wafs-2async"] {
        let says = format!("{policy} reaches less than half of FFS-async");
        let measured = ratio(rate(policy), rate("async"));
        let claim = judge.claim(format!("J20/{policy}"), says);
        claim.between(0.0, 0.5, measured, || because(policy));
    }
    let measured = ratio(rate("lffs-file"), rate("async"));
    let claim = judge.claim("J20/lffs-file", "LFFS-file reaches 74 % of FFS-async");
    claim.near(6795.0 / 9142.0, 0.15, measured, || because("lffs-file"));
    log_claims(judge, &of);
    let says = "a journal in a file is faster than wafs, as it writes 64 KB of log at once";
    let measured = ratio(rate("lffs-file"), rate(UNITS_OF));
    judge
        .claim("J21", says)
        .at_least(1.2, measured, || [because("lffs-file"), because(UNITS_OF)].join("; "));
    let says = "wafs gains as its log is written in larger units: 64 KB against 4 KB";
    let unit = |kib| results.files(UNITS_OF, IN_PLACE.name, &unit_name(kib)).map(self::rate);
    judge.claim("J21/unit", says).at_least(1.2, ratio(unit(64), unit(4)), || {
        let told = |kib: u32| match unit(kib) {
            Ok(rate) => format!("{kib} KiB: {rate:.0} pairs/s"),
            Err(why) => why,
        };
        UNITS_KIB.map(told).join(", ")
    });
}

/// The system whose log is written in units of these sizes, for J21.
pub(super) const UNITS_OF: &str = "wafs-1async";
/// The sizes in KiB.
pub(super) const UNITS_KIB: [u32; 5] = [4, 8, 16, 32, 64];

fn unit_name(kib: u32) -> String {
    format!("pairs, log written in {kib} KiB")
}

/// The same run with another unit of the log.
pub(super) fn with_unit(job: &Job, kib: u32) -> Job {
    let mut job = job.clone();
    if let Work::Files(options) = &mut job.work {
        options.mkfs.journal_unit = kib << 10;
    }
    job.key.variant = unit_name(kib);
    job
}

type Reports<'f, 'r> = &'f dyn Fn(&'static str) -> Told<&'r FilesReport>;

/// Requests for the log, and their bytes, until all calls were answered.
fn log_writes(phases: &[PhaseReport]) -> (u64, u64) {
    let causes = phases.iter().flat_map(|phase| &phase.responses.causes);
    let writes = causes.filter(|one| one.cause.starts_with("journal writes"));
    writes.fold((0, 0), |sum, one| (sum.0 + one.requests, sum.1 + one.bytes))
}

fn counted(phases: &[PhaseReport], name: &str) -> f64 {
    phases.iter().filter_map(|phase| phase.file_system.get(name)).sum()
}

/// J4, J5 and J52: the log itself.
fn log_claims(judge: &mut Judge<'_>, of: Reports<'_, '_>) {
    const SYNC: &str = "wafs-1sync";
    let bytes = of(SYNC).and_then(|report| {
        let journal = report.journal.as_ref().ok_or("the run has no log")?;
        Ok(journal.log_bytes as f64 / f64::from(1 << 20))
    });
    let claim = judge.claim("J4/size", "the log of wafs has 128 MB").unit("MiB");
    claim.near(128.0, 0.01, bytes, String::new);
    let each = of(SYNC).map(|report| {
        let (writes, bytes) = log_writes(&report.phases);
        bytes as f64 / writes.max(1) as f64 / 1024.0
    });
    let claim = judge.claim("J4/unit", "wafs writes its log in blocks of 4 KB").unit("KiB");
    claim.near(4.0, 0.05, each, || {
        "the disk takes single sectors, so a forced write has the new ones only".to_owned()
    });
    let share = of("lffs-file").and_then(|report| {
        let journal = report.journal.as_ref().ok_or("the run has no log")?;
        Ok(100.0 * journal.log_bytes as f64 / journal.volume_bytes.max(1) as f64)
    });
    let claim = judge.claim("J4/file", "the log of LFFS-file has 1 % of the file system").unit("%");
    claim.near(1.0, 0.05, share, || {
        "the file lies in one piece, and a group with fragments of 1 KB has 31.5 MiB".to_owned()
    });
    let moves = of("wafs-1async").map(|report| {
        let seconds: f64 = report.phases.iter().map(|phase| phase.settled_seconds).sum();
        counted(&report.phases, "log start moved") / seconds.max(f64::MIN_POSITIVE)
    });
    let claim = judge.claim("J5", "the log is truncated once a second").unit("a second");
    claim.near(1.0, 0.1, moves, || {
        let mib = of("wafs-1async").map_or(0.0, |report| counted(&report.phases, "log bytes"));
        format!(
            "the start moves when half of the log is in use, not by time; {:.1} MiB were logged",
            mib / f64::from(1 << 20)
        )
    });
    let forces = of(SYNC).map(|report| {
        let names = ["create", "unlink"];
        let calls = report.phases.iter().flat_map(|phase| &phase.by_call);
        let calls: u64 =
            calls.filter(|one| names.contains(one.0)).map(|(_, call)| call.calls).sum();
        log_writes(&report.phases).0 as f64 / calls.max(1) as f64
    });
    let says = "a synchronous journal flushes its log once for each operation";
    judge.claim("J52", says).near(1.0, 0.01, forces, || match of(SYNC) {
        Ok(report) => format!("{} groups were logged", counted(&report.phases, "log groups")),
        Err(why) => why,
    });
}
