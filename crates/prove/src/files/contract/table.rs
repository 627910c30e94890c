//! The table: for each policy what each operation promises, and what a crash may leave of it.
//!
//! The prover reads it: the client settles what a row says is durable, and the judge lets pass the
//! damage that the rows of the operations since the mount allow. The contract page is made of it.

use super::damage::{Damage, Damages};
use super::operation::Operation;

/// When the effect of an operation is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durable {
    /// When it is acknowledged.
    Acknowledged,
    /// After an `fsync` of the object, or of the directory of the name, or a `sync`.
    Synced,
    /// Never: the file system refuses the operation.
    Refused,
}

/// What a call for durability makes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Covers {
    /// The content and the size.
    pub content: bool,
    /// Permissions and owner.
    pub attributes: bool,
    /// A path to the object, and of a directory its names.
    pub names: bool,
}

/// A row: what a policy promises about an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The operation.
    pub operation: Operation,
    /// When it is durable.
    pub durable: Durable,
    /// What a crash may leave before that, beside the old state and the new one.
    pub leaves: Damages,
    /// What it makes durable, if it is a call for durability.
    pub covers: Covers,
}

/// The rows of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Contract {
    /// The policy, and a mode of data behind it if it is not the default.
    pub policy: &'static str,
    /// A repair comes before the mount after a crash.
    pub repairs: bool,
    /// The file system is what it was after one of its operations, content aside; what a call makes
    /// durable brings all operations before it.
    pub one_point: bool,
    /// So is content. A call that writes more than a step may be there from its start to a block.
    pub content: bool,
    /// A row for each operation, in their order.
    pub rows: [Row; Operation::ALL.len()],
}

impl Contract {
    /// The same with another row for an operation.
    const fn with(mut self, row: Row) -> Contract {
        self.rows[row.operation as usize] = row;
        self
    }
}

const NOTHING: Covers = Covers { content: false, attributes: false, names: false };
/// What `fsync` makes durable under every policy.
pub const EVERYTHING: Covers = Covers { content: true, attributes: true, names: true };
const CONTENT: Covers = Covers { attributes: false, ..EVERYTHING };

const fn row(operation: Operation, durable: Durable, leaves: &[Damage]) -> Row {
    Row { operation, durable, leaves: Damages::of(leaves), covers: NOTHING }
}

const fn barrier(operation: Operation, covers: Covers) -> Row {
    Row { operation, durable: Durable::Acknowledged, leaves: Damages::NONE, covers }
}

use Damage as D;
use Durable::{Acknowledged, Refused, Synced};
use Operation as O;

/// `async`: nothing is ordered.
pub const ASYNC: Contract = Contract {
    policy: "async",
    repairs: true,
    one_point: false,
    content: false,
    rows: [
        row(O::Create, Synced, &[D::Anything]),
        row(O::Mkdir, Synced, &[D::Anything]),
        row(O::Link, Synced, &[D::Anything]),
        row(O::Remove, Synced, &[D::Anything]),
        row(O::Rename, Synced, &[D::Anything]),
        row(O::Replace, Synced, &[D::Anything]),
        row(O::Exchange, Synced, &[D::Anything]),
        row(O::Write, Synced, &[D::Anything]),
        row(O::Truncate, Synced, &[D::Anything]),
        row(O::Allocate, Synced, &[D::Anything]),
        row(O::Attributes, Synced, &[]),
        barrier(O::Fsync, EVERYTHING),
        barrier(O::Fdatasync, CONTENT),
    ],
};

/// `sync`: metadata is written in order, before the call is answered; maps and content later.
pub const SYNC: Contract = Contract {
    policy: "sync",
    repairs: true,
    one_point: false,
    content: false,
    rows: [
        row(O::Create, Acknowledged, &[D::Leak, D::Maps]),
        row(O::Mkdir, Acknowledged, &[D::Leak, D::Count, D::Maps]),
        row(O::Link, Acknowledged, &[D::Leak, D::Count, D::Maps]),
        row(O::Remove, Acknowledged, &[D::Leak, D::Count]),
        row(O::Rename, Acknowledged, &[D::Leak, D::Count, D::Maps, D::BothNames, D::TwoParents]),
        row(O::Replace, Acknowledged, &[D::Leak, D::Count, D::Maps, D::BothNames, D::TwoParents]),
        row(O::Exchange, Refused, &[]),
        row(O::Write, Synced, &[D::Leak, D::Maps, D::Sectors, D::Size, D::Stale]),
        row(O::Truncate, Acknowledged, &[D::Leak, D::Maps, D::Sectors, D::Size, D::Stale]),
        row(O::Allocate, Acknowledged, &[D::Leak, D::Maps, D::Sectors, D::Size, D::Stale]),
        row(O::Attributes, Synced, &[]),
        barrier(O::Fsync, EVERYTHING),
        barrier(O::Fdatasync, CONTENT),
    ],
};

/// `soft`: soft updates.
pub const SOFT: Contract = Contract {
    policy: "soft",
    repairs: false,
    one_point: false,
    content: false,
    rows: [
        row(O::Create, Synced, &[D::Leak]),
        row(O::Mkdir, Synced, &[D::Leak, D::Count]),
        row(O::Link, Synced, &[D::Leak, D::Count]),
        row(O::Remove, Synced, &[D::Leak, D::Count]),
        row(O::Rename, Synced, &[D::Leak, D::Count, D::BothNames, D::TwoParents]),
        row(O::Replace, Synced, &[D::Leak, D::Count, D::BothNames, D::TwoParents]),
        row(O::Exchange, Refused, &[]),
        row(O::Write, Synced, &[D::Leak, D::Sectors, D::Size]),
        row(O::Truncate, Synced, &[D::Leak, D::Sectors, D::Size]),
        row(O::Allocate, Synced, &[D::Leak, D::Sectors, D::Size]),
        row(O::Attributes, Synced, &[]),
        barrier(O::Fsync, EVERYTHING),
        barrier(O::Fdatasync, CONTENT),
    ],
};

/// A log: metadata is that of one point in time. Under `ordered` content is on the disk before what
/// leads to it.
const fn logged(policy: &'static str, names: Durable, content: &[Damage]) -> Contract {
    one_point(policy, names, &[], content)
}

/// Metadata is that of one point in time; `moved` is what may become of the end of a directory that
/// grows.
const fn one_point(
    policy: &'static str,
    names: Durable,
    moved: &[Damage],
    content: &[Damage],
) -> Contract {
    Contract {
        policy,
        repairs: false,
        one_point: true,
        content: false,
        rows: [
            row(O::Create, names, moved),
            row(O::Mkdir, names, moved),
            row(O::Link, names, moved),
            row(O::Remove, names, moved),
            row(O::Rename, names, moved),
            row(O::Replace, names, moved),
            row(O::Exchange, names, &[]),
            row(O::Write, Synced, content),
            row(O::Truncate, names, content),
            row(O::Allocate, names, content),
            row(O::Attributes, Synced, &[]),
            barrier(O::Fsync, EVERYTHING),
            barrier(O::Fdatasync, CONTENT),
        ],
    }
}

const ORDERED: &[Damage] = &[D::Sectors, D::Size];
const WRITEBACK: &[Damage] = &[D::Sectors, D::Size, D::Stale];

/// Transactions of the volume: as a log, but what is given up is freed later, and nothing notes it.
pub const ATOMIC: Contract =
    one_point("atomic", Synced, &[D::Leak], &[D::Leak, D::Sectors, D::Size]);
/// The same, and content is part of the transactions.
pub const UNIT: Contract = Contract { policy: "unit", content: true, ..ATOMIC };
/// Minix without an order.
pub const MINIX_ASYNC: Contract = ASYNC.with(row(O::Allocate, Refused, &[]));
/// Minix on transactions of the volume: space is free when its operation takes hold. Only what has
/// lost its last name and is open or under deletion may leak.
pub const MINIX_ATOMIC: Contract = one_point("atomic", Synced, &[], &[D::Sectors, D::Size])
    .with(row(O::Remove, Synced, &[D::Leak]))
    .with(row(O::Replace, Synced, &[D::Leak]))
    .with(row(O::Allocate, Refused, &[]));
/// The same, and content is part of the transactions.
pub const MINIX_UNIT: Contract = Contract { policy: "unit", content: true, ..MINIX_ATOMIC };
/// VLFS: an operation is one transaction, content too. A file that has lost its last name may be
/// there until a mount gives it up.
pub const VLFS_ASYNC: Contract = vlfs("async", Synced);
/// The same, answered when the transaction is durable.
pub const VLFS_SYNC: Contract = vlfs("sync", Acknowledged);

const fn vlfs(policy: &'static str, names: Durable) -> Contract {
    let plain = Contract { content: true, ..one_point(policy, names, &[], &[D::Sectors, D::Size]) };
    plain
        .with(row(O::Remove, names, &[D::Leak]))
        .with(row(O::Replace, names, &[D::Leak]))
        .with(row(O::Attributes, names, &[]))
        .with(row(O::Allocate, Refused, &[]))
}

/// Log in a file.
pub const LFFS_FILE: Contract = logged("lffs-file", Synced, ORDERED);
/// Log at the end of the volume, answers when the log has it.
pub const WAFS_1SYNC: Contract = logged("wafs-1sync", Acknowledged, ORDERED);
/// Log at the end of the volume.
pub const WAFS_1ASYNC: Contract = logged("wafs-1async", Synced, ORDERED);
/// Log on a volume of its own, answers when the log has it.
pub const WAFS_2SYNC: Contract = logged("wafs-2sync", Acknowledged, ORDERED);
/// Log on a volume of its own.
pub const WAFS_2ASYNC: Contract = logged("wafs-2async", Synced, ORDERED);
/// The same five with `--data writeback`.
pub const LOGGED_WRITEBACK: [Contract; 5] = [
    logged("lffs-file-writeback", Synced, WRITEBACK),
    logged("wafs-1sync-writeback", Acknowledged, WRITEBACK),
    logged("wafs-1async-writeback", Synced, WRITEBACK),
    logged("wafs-2sync-writeback", Acknowledged, WRITEBACK),
    logged("wafs-2async-writeback", Synced, WRITEBACK),
];
