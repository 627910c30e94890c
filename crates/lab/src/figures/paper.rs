//! The platform of paper 001: its host, its file system, and the systems that keep a log.
//!
//! The log has 128 MB (J4), a call forces it once (J52), and content goes at any time: the paper
//! orders metadata only.

use crate::files::host::Host;
use crate::files::run::FilesOptions;
use seekless_formats::MkfsOptions;
use seekless_fs::policy::PolicyKind;
use seekless_fs::policy::journal::{DataMode, JournalOptions};

/// Bytes of a log.
const LOG_BYTES: u64 = 128 << 20;
/// Why claims about a log in a file have no verdict.
pub(super) const NO_FILE: &str = "LFFS-file is not built";

/// How a log is written.
pub(super) fn options() -> JournalOptions {
    let data = DataMode::Writeback;
    JournalOptions { data, group_commit: false, ..JournalOptions::default() }
}

/// The platform of paper 001 under a policy. Transactions of the volume are not in it: operations
/// share them.
pub(super) fn under(policy: PolicyKind, run: FilesOptions) -> FilesOptions {
    let journal = policy.is_logged().then_some(LOG_BYTES);
    let mkfs = MkfsOptions { journal, ..mkfs() };
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
