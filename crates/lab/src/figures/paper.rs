//! The platform of paper 001: its host, its file system, and the systems that keep a log.
//!
//! The log of WAFS has 128 MB and is written in blocks of 4 KB. That of LFFS-file has 1 % of the
//! file system and is written in clusters of 64 KB (J4). A call forces it once (J52), and content
//! goes at any time: the paper orders metadata only.

use crate::files::host::Host;
use crate::files::run::FilesOptions;
use seekless_formats::MkfsOptions;
use seekless_fs::policy::PolicyKind;
use seekless_fs::policy::journal::{DataMode, JournalOptions};

/// Bytes of a log.
const LOG_BYTES: u64 = 128 << 20;
/// Bytes of the largest write of a log in a file.
const CLUSTER_BYTES: u32 = 64 << 10;

/// How a log is written.
pub(super) fn options() -> JournalOptions {
    let data = DataMode::Writeback;
    JournalOptions { data, group_commit: false, ..JournalOptions::default() }
}

/// The platform of paper 001 under a policy. Transactions of the volume are not in it: operations
/// share them.
pub(super) fn under(policy: PolicyKind, run: FilesOptions) -> FilesOptions {
    let mkfs = match (policy.is_logged(), policy.has_log_in_file()) {
        (false, _) => mkfs(),
        (true, false) => MkfsOptions { journal: Some(LOG_BYTES), ..mkfs() },
        // The default is 1 %.
        (true, true) => MkfsOptions { journal_unit: CLUSTER_BYTES, ..mkfs() },
    };
    let options = JournalOptions { group_commit: policy.wants_transactions(), ..options() };
    FilesOptions { policy, mkfs, journal: options, host: host(), ..run }
}

/// The host of paper 001.
pub(super) fn host() -> Host {
    Host::find("p3-500").expect("a table of this crate")
}

/// The file system of paper 001.
pub(super) fn mkfs() -> MkfsOptions {
    MkfsOptions { block: 8192, fragment: 1024, journal_unit: 4096, ..MkfsOptions::default() }
}

pub(super) fn label(kb: u64) -> String {
    if kb >= 1024 { format!("{}M", kb / 1024) } else { format!("{kb}K") }
}
