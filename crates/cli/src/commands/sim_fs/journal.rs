//! Options of the log of a simulated file system.

use crate::failure::{Failure, Outcome};
use crate::filesystem::{data_modes, on_or_off};
use seekless_engine::size::parse_bytes;
use seekless_fs::log::format::MOST_UNIT;
use seekless_fs::policy::PolicyKind;
use seekless_fs::policy::journal::{DataMode, JournalOptions};

/// The log of a policy that keeps one.
#[derive(Clone, Debug, clap::Args)]
pub struct JournalArgs {
    /// When content of files must be on the disk, under a policy with a log: `ordered`, before the
    /// group that gave it its place, or `writeback`, at any time. [default: ordered]
    #[arg(long, value_name = "MODE", value_parser = data_modes())]
    data: Option<DataMode>,
    /// Calls that wait for the log share a write of it. [default: on]
    #[arg(long, value_name = "SWITCH", value_parser = on_or_off())]
    group_commit: Option<bool>,
    /// Size of the log. [default: 1 % of the volume, 4M to 128M; 128M on a disk of its own]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    journal_size: Option<u64>,
    /// Bytes of the largest write of the log, as of `mkfs`: 4k to 64k. [default: 64k]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    journal_unit: Option<u64>,
    /// The disk for the log of `wafs-2sync` and `wafs-2async`, named like --disk. [default: one
    /// that equals --disk]
    #[arg(long, value_name = "SPEC")]
    journal: Option<String>,
}

impl JournalArgs {
    /// Refuses what the policy has no use for.
    ///
    /// # Errors
    /// Names the first such option.
    pub fn refuse_without_effect(&self, policy: PolicyKind) -> Outcome {
        let apart = |policy: &PolicyKind| policy.has_own_log_volume();
        let logged = |policy: &PolicyKind| policy.is_logged();
        let grouped = |policy: &PolicyKind| policy.is_one_point();
        type Users = fn(&PolicyKind) -> bool;
        let flags = [
            ("--data", self.data.is_some(), logged as Users),
            ("--group-commit", self.group_commit.is_some(), grouped),
            ("--journal-size", self.journal_size.is_some(), logged),
            ("--journal-unit", self.journal_unit.is_some(), logged),
            ("--journal", self.journal.is_some(), apart),
        ];
        let means_nothing = |flag: &&(&str, bool, Users)| flag.1 && !flag.2(&policy);
        let Some((flag, _, uses)) = flags.iter().find(means_nothing) else { return Ok(()) };
        let users: Vec<&str> =
            PolicyKind::ALL.into_iter().filter(uses).map(PolicyKind::name).collect();
        let name = policy.name();
        Err(Failure::usage(format!("{flag}: the policy {name} has no use for it"))
            .hint(format!("leave it out, or choose --policy {}", users.join(" or "))))
    }

    /// How the log is written.
    pub fn options(&self) -> JournalOptions {
        let standard = JournalOptions::default();
        JournalOptions {
            data: self.data.unwrap_or(standard.data),
            group_commit: self.group_commit.unwrap_or(standard.group_commit),
            ..standard
        }
    }

    /// Bytes of the log, if they were given.
    pub fn size(&self) -> Option<u64> {
        self.journal_size
    }

    /// Bytes of the largest write of the log.
    pub fn unit(&self) -> u32 {
        self.journal_unit.map_or(MOST_UNIT, |bytes| u32::try_from(bytes).unwrap_or(u32::MAX))
    }

    /// The disk of the log, if it was given.
    pub fn disk(&self) -> Option<&str> {
        self.journal.as_deref()
    }
}
