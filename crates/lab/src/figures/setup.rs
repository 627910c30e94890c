//! The platform and the systems of paper 001, as far as they are here (J1, J2 and J11).

use super::claim::Judge;
use super::job::{IN_PLACE, Platform, Results, Told};
use super::paper::{host, label};
use super::published::{SIZES_KB, SYSTEMS};
use seekless_engine::units::BLOCK_BYTES;
use seekless_fs::policy::PolicyKind;

/// MB of the partition with the file system and of that with the log.
const PARTITIONS_MB: f64 = 9088.0 + 128.0;
/// Files of a size, and their bytes, at least; files of a directory.
const LEAST_FILES: u64 = 512;
const LEAST_BYTES: u64 = 128 << 20;
const PER_DIRECTORY: u64 = 50;

/// The claims.
pub(super) fn claims(results: &Results<'_>, judge: &mut Judge<'_>) {
    platform(judge);
    let built = |policy: &str| PolicyKind::ALL.iter().any(|kind| kind.name() == policy);
    let missing: Vec<&str> =
        SYSTEMS.iter().filter(|system| !built(system.policy)).map(|system| system.name).collect();
    let built = SYSTEMS.len() - missing.len();
    let claim = judge.claim("J2", "eight systems are compared");
    claim.near(SYSTEMS.len() as f64, 0.0, Ok(built as f64), || {
        format!("these are not built: {}", missing.join(", "))
    });
    let claim = judge.claim("J11", "of each size 128 MB, at least 512 files, 50 in a directory");
    claim
        .shape(amounts(results), || "small amounts were asked for, or a run is missing".to_owned());
}

/// J1: disk and memory.
fn platform(judge: &mut Judge<'_>) {
    let disk = Platform::Cheetah;
    let claim = judge.claim("J1/disk", "a Cheetah of 10,000 rpm").unit("rpm");
    let rpm = disk.revolution_ms().map(|turn| 60_000.0 / turn);
    let rpm = rpm.ok_or_else(|| "the disk is not built in".to_owned());
    claim.near(10_000.0, 0.01, rpm, String::new);
    let megabytes = disk.target(0).map_err(|error| error.to_string());
    let megabytes = megabytes.map(|target| (target.blocks() * BLOCK_BYTES as u64) as f64 / 1e6);
    let claim = judge.claim("J1/partitions", "room for 9088 MB of files and 128 MB of log");
    claim.unit("MB").at_least(PARTITIONS_MB, megabytes, || {
        "the ST39102LW of DiskSim is smaller than the disk of the paper; a run uses 80 % of it"
            .to_owned()
    });
    let cache = host().cache_bytes as f64 / f64::from(1 << 20);
    let claim = judge.claim("J1/memory", "512 MB of memory, of which a part caches files");
    claim.unit("MiB").between(1.0, 512.0, Ok(cache), String::new);
}

/// Whether each size has the files of the paper.
fn amounts(results: &Results<'_>) -> Told<(bool, String)> {
    let policy = results.policies().first().copied().ok_or("no policy was run")?;
    let (mut holds, mut files, mut bytes) = (true, 0, 0);
    for kb in SIZES_KB {
        let (label, size) = (label(kb), kb << 10);
        let report = results.files(policy, IN_PLACE.name, &label)?;
        let create = report.phase(&format!("create {label}"));
        let create = create.ok_or_else(|| format!("{label} was not made"))?;
        let made = create.by_call.get("create").map_or(0, |call| call.calls);
        // The cache is cold, so each directory is looked up once.
        let dirs = create.by_call.get("lookup").map_or(0, |call| call.calls);
        holds &= made == LEAST_FILES.max(LEAST_BYTES / size);
        holds &= dirs == made.div_ceil(PER_DIRECTORY);
        files += made;
        bytes += create.bytes;
    }
    Ok((holds, format!("{files} files of {} sizes, {:.0} MB", SIZES_KB.len(), bytes as f64 / 1e6)))
}
