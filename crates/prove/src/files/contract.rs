//! What each policy promises, as a table: the client and the judge read it, and the contract page
//! is made of it.
//!
//! [`table`] has a row for each operation of each policy, [`operation`] the operations, [`damage`]
//! what a crash may leave of them, and [`page`] the words of the page. A row that promises too much
//! is found by the prover, which `crates/prove/tests/suite/contract.rs` tries row by row.

pub mod damage;
pub mod operation;
pub mod page;
pub mod standard;
pub mod table;

use damage::{Damage, Damages};
use operation::{Operation, Operations};
use seekless_formats::{Finding, Kind};
use seekless_fs::policy::PolicyKind;
use seekless_fs::policy::journal::DataMode;
use table::{Contract, Durable, Row};

/// Whose promises a crash state is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rules {
    /// Nothing is ordered; what was synced and is unchanged survives a repair.
    Async,
    /// Names are durable when they are acknowledged, and the file system is sound before repair.
    Sync,
    /// The file system is sound before repair and shows no content of others.
    Soft,
    /// Transactions of the volume: as with a log, but space may leak.
    Atomic,
    /// The same with content: it is of that point in time, too.
    Unit,
    /// A log: names and inodes are those of one point in time.
    Logged {
        /// Which of [`PolicyKind::LOGGED`].
        policy: PolicyKind,
        /// Content may be written after what leads to it.
        data: DataMode,
    },
    /// Minix.
    Minix {
        /// One of its policies.
        policy: PolicyKind,
    },
    /// VLFS.
    Vlfs {
        /// One of its policies.
        policy: PolicyKind,
    },
    /// A contract that a test has changed, to see the prover find what it promises too much.
    Changed(&'static Contract),
}

impl Rules {
    /// Those of the policies that keep no log.
    pub const UNLOGGED: [Rules; 5] =
        [Rules::Async, Rules::Sync, Rules::Soft, Rules::Atomic, Rules::Unit];

    /// Those of every policy of FFS, with each mode of data where it keeps a log.
    pub fn all() -> Vec<Rules> {
        let logged = DataMode::ALL.into_iter().flat_map(|data| {
            PolicyKind::LOGGED.into_iter().map(move |policy| Rules::Logged { policy, data })
        });
        Rules::UNLOGGED.into_iter().chain(logged).collect()
    }

    /// Those of a policy of a format; none if this program does not know it.
    pub fn of_kind(kind: Kind, policy: PolicyKind, data: DataMode) -> Option<Rules> {
        match (kind.needs_objects, kind.limits.allocates) {
            (true, _) => kind.policies.contains(&policy).then_some(Rules::Vlfs { policy }),
            (false, true) => Rules::of(policy, data),
            (false, false) => kind.policies.contains(&policy).then_some(Rules::Minix { policy }),
        }
    }

    /// Those of a policy of FFS; none if this program does not know it.
    pub fn of(policy: PolicyKind, data: DataMode) -> Option<Rules> {
        match policy.is_logged() {
            true => Some(Rules::Logged { policy, data }),
            false => Rules::UNLOGGED.into_iter().find(|one| one.name() == policy.name()),
        }
    }

    /// The table of the promises.
    pub fn contract(self) -> &'static Contract {
        match self {
            Rules::Async => &table::ASYNC,
            Rules::Sync => &table::SYNC,
            Rules::Soft => &table::SOFT,
            Rules::Atomic => &table::ATOMIC,
            Rules::Unit => &table::UNIT,
            Rules::Logged { policy, data } => logged(policy, data),
            Rules::Minix { policy: PolicyKind::Unit } => &table::MINIX_UNIT,
            Rules::Minix { policy: PolicyKind::Atomic } => &table::MINIX_ATOMIC,
            Rules::Minix { .. } => &table::MINIX_ASYNC,
            Rules::Vlfs { policy: PolicyKind::Sync } => &table::VLFS_SYNC,
            Rules::Vlfs { .. } => &table::VLFS_ASYNC,
            Rules::Changed(contract) => contract,
        }
    }

    /// The name of the policy, and a mode of data behind it if it is not the default.
    pub fn name(self) -> &'static str {
        self.contract().policy
    }

    /// True if a repair comes before the mount after a crash.
    pub fn repairs(self) -> bool {
        self.contract().repairs
    }

    /// True if a call may be done when it fails: it waits until its changes are durable.
    pub fn waits(self) -> bool {
        self.contract().is_durable(Operation::Create)
    }

    /// True if a check of the image before any repair may find this, whatever was done.
    pub fn allows(self, finding: &dyn Finding) -> bool {
        let leaves = self.contract().leaves(Operations::ALL);
        leaves.has(Damage::Anything) || leaves.has(Damage::of(finding))
    }

    /// The same for what was done.
    pub fn terms(self, done: Operations) -> Terms {
        Terms { rules: self, leaves: self.contract().leaves(done) }
    }

    /// The damage of an image before any repair.
    ///
    /// # Errors
    /// The first finding that no operation may leave, of those that count.
    pub fn damages(
        self,
        findings: &[Box<dyn Finding>],
        counts: impl Fn(&dyn Finding) -> bool,
    ) -> Result<Damages, &dyn Finding> {
        let all = findings.iter().map(|one| &**one);
        match all.clone().find(|one| !self.allows(*one) && counts(*one)) {
            Some(bad) => Err(bad),
            None => {
                let allowed = all.filter(|one| self.allows(*one));
                Ok(allowed.fold(Damages::NONE, |sum, one| sum.with(Damage::of(one))))
            }
        }
    }

    /// True if no operation that changes more than a value in place promises anything before it is
    /// durable: then nothing about an image needs to be known before its repair.
    pub fn is_loose(self) -> bool {
        let mut rows = self.contract().rows.iter();
        rows.all(|row| {
            let in_place = row.is_barrier() || row.operation == Operation::Attributes;
            in_place || row.durable == Durable::Refused || row.leaves.has(Damage::Anything)
        })
    }
}

fn logged(policy: PolicyKind, data: DataMode) -> &'static Contract {
    let ordered = [
        &table::LFFS_FILE,
        &table::WAFS_1SYNC,
        &table::WAFS_1ASYNC,
        &table::WAFS_2SYNC,
        &table::WAFS_2ASYNC,
    ];
    let index = PolicyKind::LOGGED.iter().position(|one| *one == policy);
    let index = index.expect("the policy keeps a log");
    match data {
        DataMode::Ordered => ordered[index],
        DataMode::Writeback => &table::LOGGED_WRITEBACK[index],
    }
}

/// What a tree is held to after some operations.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    rules: Rules,
    /// What a crash may leave of them.
    leaves: Damages,
}

impl Terms {
    /// True if every name and value must be one that it may have.
    pub fn is_strict(self) -> bool {
        !self.leaves.has(Damage::Anything)
    }

    /// True if the contract allows a kind of damage.
    pub fn may(self, damage: Damage) -> bool {
        self.leaves.has(Damage::Anything) || self.leaves.has(damage)
    }

    /// True if a repair comes before the mount after a crash.
    pub fn repairs(self) -> bool {
        self.rules.repairs()
    }

    /// True if names, attributes and sizes must be those of one point in time.
    pub fn is_one_point(self) -> bool {
        self.rules.contract().one_point
    }

    /// True if content must be of that point in time, too.
    pub fn has_content_at_point(self) -> bool {
        self.rules.contract().content
    }

    /// Damage that none of the operations may leave.
    pub fn excess(self, found: Damages) -> impl Iterator<Item = Damage> {
        found.iter().filter(move |&one| !self.may(one))
    }
}

impl Row {
    /// True if the operation is a call for durability.
    pub fn is_barrier(&self) -> bool {
        matches!(self.operation, Operation::Fsync | Operation::Fdatasync)
    }

    /// True if a program sees the old state or the new one after a crash, and nothing else.
    pub fn is_atomic(&self) -> bool {
        !self.leaves.iter().any(Damage::is_seen)
    }
}

impl Contract {
    /// The row of an operation.
    pub fn row(&self, operation: Operation) -> &Row {
        &self.rows[operation as usize]
    }

    /// What a crash may leave after these operations.
    pub fn leaves(&self, operations: Operations) -> Damages {
        let rows = operations.iter().map(|one| self.row(one).leaves);
        rows.fold(Damages::NONE, Damages::and)
    }

    /// True if an acknowledged operation is durable.
    pub fn is_durable(&self, operation: Operation) -> bool {
        self.row(operation).durable == Durable::Acknowledged
    }

    /// True if the file system refuses an operation.
    pub fn refuses(&self, operation: Operation) -> bool {
        self.row(operation).durable == Durable::Refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_rules_and_every_operation_a_row() {
        for policy in PolicyKind::ALL {
            for data in DataMode::ALL {
                let rules = Rules::of(policy, data).expect("the prover knows every policy");
                assert!(Rules::all().contains(&rules), "{policy:?}");
                let contract = rules.contract();
                for operation in Operation::ALL {
                    assert_eq!(contract.row(operation).operation, operation, "{policy:?}");
                }
            }
        }
    }

    #[test]
    fn what_a_crash_may_leave_depends_on_the_policy() {
        use seekless_formats::ffs::Finding;
        let (leak, lost) = (Finding::Nameless { ino: 5 }, Finding::NoRoot);
        assert!(Rules::Async.allows(&lost) && !Rules::Soft.allows(&lost));
        assert!(Rules::Sync.allows(&leak) && Rules::Soft.allows(&leak));
        assert!(Rules::Async.is_loose() && !Rules::Sync.is_loose() && !Rules::Soft.is_loose());
    }

    #[test]
    fn sets_hold_what_they_were_given() {
        let set = Damages::of(&[Damage::Leak, Damage::Stale]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [Damage::Leak, Damage::Stale]);
        assert!(set.without(Damage::Leak).without(Damage::Stale).is_empty());
        let mut operations = Operations::NONE;
        operations.insert(Operation::Fdatasync);
        assert_eq!(operations.iter().collect::<Vec<_>>(), [Operation::Fdatasync]);
        assert_eq!(Operations::ALL.iter().count(), Operation::ALL.len());
    }
}
