//! What each policy promises, as a table: the judge reads it, and the contract page is made of it.

use seekless_fs::ffs::{Finding, Severity};
use seekless_fs::policy::PolicyKind;

/// Whose promises a crash state is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rules {
    /// Nothing is ordered; what was synced and is unchanged survives a repair.
    Async,
    /// Names are durable when they are acknowledged, and the file system is sound before repair.
    Sync,
    /// The file system is sound before repair and shows no content of others.
    Soft,
}

impl Rules {
    /// Those of a policy; none if this program does not know it.
    pub fn of(policy: PolicyKind) -> Option<Rules> {
        [Rules::Async, Rules::Sync, Rules::Soft].into_iter().find(|one| one.name() == policy.name())
    }

    /// The name of the policy.
    pub fn name(self) -> &'static str {
        match self {
            Rules::Async => "async",
            Rules::Sync => "sync",
            Rules::Soft => "soft",
        }
    }

    /// True if every name and value must be one that it may have.
    pub fn is_strict(self) -> bool {
        self != Rules::Async
    }

    /// True if a repair comes before the mount after a crash.
    pub fn repairs(self) -> bool {
        self != Rules::Soft
    }

    /// True if an acknowledged change of names is durable.
    pub fn names_are_durable(self) -> bool {
        self == Rules::Sync
    }

    /// True if a check of the image before any repair may find this.
    pub fn allows(self, finding: &Finding) -> bool {
        let harmless = finding.severity() == Severity::Harmless;
        match (self, finding) {
            (Rules::Async, _) => true,
            // A rename of a directory goes through both names, and `..` follows.
            (_, Finding::DirectoryTwice { .. } | Finding::WrongParent { .. }) => true,
            // Repair makes the maps from the inodes.
            (Rules::Sync, Finding::WrongBits { .. }) => true,
            _ => harmless,
        }
    }
}

/// A line of the contract: what a policy promises about an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The operation.
    pub operation: &'static str,
    /// The policy.
    pub rules: Rules,
    /// True if a crash leaves all of it or nothing.
    pub atomic: bool,
    /// When it is durable.
    pub durable: &'static str,
    /// What a crash may leave before that.
    pub leaves: &'static str,
    /// What the repair, or the reclaim of a mount, may do about it.
    pub repair: &'static str,
    /// The test that holds it, a function of `crates/prove/tests/files.rs`.
    pub test: &'static str,
}

const ACKNOWLEDGED: &str = "when acknowledged";
const SYNCED: &str = "after fsync or sync";
const ANYTHING: &str = "anything; what was synced and is unchanged stays";
const SWEEP: &str = "every_policy_keeps_its_contract";
const ACE: &str = "every_short_sequence_keeps_the_contract";
const FREES: &str = "free what leaked, lower counts";

const fn line(
    operation: &'static str,
    rules: Rules,
    (atomic, durable): (bool, &'static str),
    leaves: &'static str,
    repair: &'static str,
) -> Line {
    let test = if atomic { ACE } else { SWEEP };
    Line { operation, rules, atomic, durable, leaves, repair, test }
}

/// The operations of each policy whose changes reach the volume in order.
macro_rules! ordered {
    ($rules:expr, $names:expr, $content:expr) => {
        [
            line(
                "create, mkdir, symlink, mkfifo",
                $rules,
                (true, $names),
                "no name, or the complete object; inode and blocks may leak",
                FREES,
            ),
            line("link", $rules, (true, $names), "the name or not; a count one too high", FREES),
            line(
                "unlink, rmdir",
                $rules,
                (true, $names),
                "the name or not; without it, the object may still be allocated",
                FREES,
            ),
            line(
                "rename",
                $rules,
                (false, $names),
                "the old name, both, or the new one; never neither",
                "lower a count",
            ),
            line(
                "rename over a target",
                $rules,
                (false, $names),
                "the target name leads to the old or the new object; the old name may stay",
                FREES,
            ),
            line("write, append", $rules, (false, SYNCED), $content, FREES),
            line(
                "truncate",
                $rules,
                (true, $names),
                "the old or the new size; blocks may leak",
                FREES,
            ),
            line("chmod, chown", $rules, (true, SYNCED), "the old or the new value", "nothing"),
            line(
                "fsync",
                $rules,
                (true, ACKNOWLEDGED),
                "what may be left of the changes before it",
                "nothing",
            ),
        ]
    };
}

/// Lines of `sync`.
pub const SYNC: [Line; 9] = ordered!(
    Rules::Sync,
    ACKNOWLEDGED,
    "each sector old or new; anything in blocks that the file had not before"
);

/// Lines of `soft`.
pub const SOFT: [Line; 9] = ordered!(
    Rules::Soft,
    SYNCED,
    "each sector old or new; the size covers nothing that was not written"
);

/// Lines of `async`.
pub const ASYNC: [Line; 2] = [
    line("all but fsync and sync", Rules::Async, (false, SYNCED), ANYTHING, "anything"),
    line(
        "fsync, sync",
        Rules::Async,
        (false, ACKNOWLEDGED),
        ANYTHING,
        "nothing that changes what was synced",
    ),
];

/// The whole contract, policy by policy.
pub fn contract() -> impl Iterator<Item = Line> {
    ASYNC.into_iter().chain(SYNC).chain(SOFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_rules() {
        for policy in PolicyKind::ALL {
            let rules = Rules::of(policy).expect("the prover knows every policy");
            assert!(contract().any(|line| line.rules == rules), "{policy:?}");
        }
    }

    /// A line whose test is gone would promise what nothing holds.
    #[test]
    fn every_line_names_a_test() {
        let tests = include_str!("../../tests/files.rs");
        for Line { operation, test, .. } in contract() {
            assert!(tests.contains(&format!("fn {test}()")), "{operation}: {test}");
        }
    }

    #[test]
    fn what_a_crash_may_leave_depends_on_the_policy() {
        let (leak, lost) = (Finding::Nameless { ino: 5 }, Finding::NoRoot);
        assert!(Rules::Async.allows(&lost) && !Rules::Soft.allows(&lost));
        assert!(Rules::Sync.allows(&leak) && Rules::Soft.allows(&leak));
    }
}
