//! The LFS of paper 000: Minix on the logical disk, in place and on the virtual log (section 4.4,
//! claim V10).
//!
//! Blocks have 4 KiB, segments 512 KiB, and the cache 6.1 MB. Nothing is written because it is old:
//! the cache goes out when it is full. Where the paper takes the cache for NVRAM, calls for
//! durability are answered from it.

use super::Settings;
use super::job::{Results, Volume, plain};
use super::ufs::host;
use crate::files::programs::{Amount, ProgramKind};
use crate::files::run::FilesOptions;
use seekless_formats::Kind as FsKind;
use seekless_fs::core::WRITE_AGES_S;
use seekless_fs::core::nvram::{Nvram, NvramFlush};
use seekless_fs::policy::PolicyKind;
use seekless_layouts::Kind;

/// On the disk itself.
pub(super) const LFS: Volume = plain("minix on lld", Kind::LLD);
/// On the virtual log.
pub(super) const LFS_ON_VLOG: Volume =
    Volume { base: Some(Kind::VLOG), ..plain("minix on lld on vlog", Kind::LLD) };
/// Both.
pub(super) const BOTH: [Volume; 2] = [LFS, LFS_ON_VLOG];
/// Nothing is ordered: the logical disk keeps the order of writes, and NVRAM needs none.
pub(super) const POLICY: PolicyKind = PolicyKind::Async;
/// Its cache.
pub(super) const CACHE_BYTES: u64 = 6_100_000;

/// True if it is to be run: its policy is asked for, and no other layouts.
pub(super) fn is_asked(settings: &Settings) -> bool {
    settings.asks(POLICY) && settings.layouts.is_empty()
}

/// Options of a program on it.
pub(super) fn options(program: ProgramKind, amount: Amount) -> FilesOptions {
    let minix: FsKind = "minix".parse().expect("a format of this program");
    FilesOptions {
        amount,
        host: host("sparc10"),
        file_system: minix,
        mkfs: (minix.defaults)(),
        policy: POLICY,
        cache_bytes: Some(CACHE_BYTES),
        write_age_s: *WRITE_AGES_S.end(),
        ..FilesOptions::new(program, Kind::LLD)
    }
}

/// The same with a cache that survives a power cut.
pub(super) fn with_nvram(program: ProgramKind, amount: Amount) -> FilesOptions {
    let nvram = Nvram { bytes: CACHE_BYTES, flush: NvramFlush::Whole };
    FilesOptions { nvram: Some(nvram), ..options(program, amount) }
}

/// The pairs of policy and volume that were run, those in place of the papers first.
pub(super) fn systems(results: &Results<'_>) -> Vec<(&'static str, &'static str)> {
    let mut systems = Vec::new();
    for policy in results.policies() {
        for volume in results.volumes() {
            if results.policies_on(volume).contains(&policy) {
                systems.push((policy, volume));
            }
        }
    }
    systems
}

/// Those of UFS.
pub(super) fn ufs(results: &Results<'_>) -> Vec<(&'static str, &'static str)> {
    let all = systems(results).into_iter();
    all.filter(|(_, volume)| BOTH.iter().all(|lfs| lfs.name != *volume)).collect()
}
