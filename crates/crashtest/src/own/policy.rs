//! How a file system of Seekless under test orders its writes: a policy, and the mode of data of
//! one that keeps a log. A crash test has one disk for a file system, so a log lies on the same
//! one.

use seekless_formats::{Kind, MountOptions};
use seekless_fs::call::Timestamp;
use seekless_fs::core::CoreOptions;
use seekless_fs::policy::PolicyKind;
use seekless_fs::policy::journal::{DataMode, JournalOptions};
use std::fmt;

/// A policy as crash tests name it: `async`, `wafs-1async`, `wafs-1async-writeback`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OwnPolicy {
    /// The policy.
    pub kind: PolicyKind,
    /// When content is written, if the policy keeps a log.
    pub data: DataMode,
}

impl OwnPolicy {
    /// Those of a format that need one plain disk. A policy with a log is there with each mode of
    /// data.
    pub fn of(format: Kind) -> Vec<OwnPolicy> {
        let is_on_a_disk =
            |kind: &&PolicyKind| !kind.has_own_log_volume() && !kind.wants_transactions();
        let on_one_disk = format.policies.iter().filter(is_on_a_disk);
        let modes = |kind: PolicyKind| {
            let modes = DataMode::ALL.into_iter();
            modes.filter(move |&data| kind.is_logged() || data == DataMode::default())
        };
        on_one_disk
            .flat_map(|&kind| modes(kind).map(move |data| OwnPolicy { kind, data }))
            .collect()
    }

    /// What to mount with.
    pub fn mount_options(self, core: CoreOptions, now: Timestamp) -> MountOptions {
        let journal = JournalOptions { data: self.data, ..JournalOptions::default() };
        MountOptions { core, policy: self.kind, journal, now }
    }
}

impl From<PolicyKind> for OwnPolicy {
    fn from(kind: PolicyKind) -> OwnPolicy {
        OwnPolicy { kind, data: DataMode::default() }
    }
}

impl fmt::Display for OwnPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.data == DataMode::default() {
            true => f.pad(self.kind.name()),
            false => f.pad(&format!("{}-{}", self.kind.name(), self.data.name())),
        }
    }
}
