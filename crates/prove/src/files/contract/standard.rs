//! What POSIX and Linux say about each operation and a crash, and what the policies promise beyond.
//!
//! The contract is read against these sentences and not against the file system that it describes.
//! [`STANDARD`] is the contract of a file system that promises what the standards say and no more.
//! Programs that are to work on other file systems must not rely on anything else.

use super::damage::Damage;
use super::operation::Operation;
use super::table::{Contract, Covers, Durable, Row};
use super::{Damages, Rules};
use std::fmt::Write as _;

/// What a standard says about an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saying {
    /// Where it says so.
    pub source: &'static str,
    /// What it says, in our words.
    pub says: &'static str,
    /// What every policy promises beyond that.
    pub beyond: &'static str,
}

const NO_CRASH: &str = "Nothing about a crash. The call is not one of those that make durable.";

/// What the standards say about an operation.
pub fn saying(operation: Operation) -> Saying {
    use Operation as O;
    let (source, says, beyond) = match operation {
        O::Create => ("POSIX open(), symlink(), mknod()", NO_CRASH, "See the row of the policy."),
        O::Mkdir => ("POSIX mkdir()", NO_CRASH, "See the row of the policy."),
        O::Link => (
            "POSIX link()",
            "The name and the count of links change as one step for other processes. Nothing about \
             a crash.",
            "Under all policies but `async` a count of links is never too low.",
        ),
        O::Remove => (
            "POSIX unlink(), rmdir()",
            "The content stays while a process has the file open. Nothing about a crash.",
            "Under all policies but `async` a crash after the removal leaks space at \
             most.",
        ),
        O::Rename => (
            "Linux rename(2)",
            "Other names of the file and open files stay. Nothing about a crash.",
            "Under all policies but `async` the object keeps a name through a crash \
             (I11).",
        ),
        O::Replace => (
            "POSIX rename(); Linux rename(2)",
            "The new name leads to the old file or to the new one throughout, for other \
             processes. There may be a window in which both names lead to the file. Nothing \
             about a crash.",
            "Under all policies but `async` that holds through a crash.",
        ),
        O::Exchange => (
            "Linux renameat2(2), RENAME_EXCHANGE",
            "The names are exchanged as one step. A file system may refuse the flag with EINVAL. \
             Nothing about a crash.",
            "With a log both names change as one step through a crash.",
        ),
        O::Write => (
            "Linux write(2)",
            "Success does not mean that data is on the disk; fsync() makes sure of it.",
            "Under `soft`, and with a log and `--data ordered`, a file never shows content of \
             another one after a crash (I8).",
        ),
        O::Truncate => (
            "POSIX ftruncate()",
            "Bytes that extend a file read as zeros. Nothing about a crash.",
            "Under `sync` and with a log that calls wait for, the new size is durable when the \
             call is answered.",
        ),
        O::Allocate => (
            "Linux fallocate(2)",
            "Allocated and punched ranges read as zeros. Nothing about a crash.",
            "Under `sync` and with a log that calls wait for, the new size is durable when the \
             call is answered.",
        ),
        O::Attributes => (
            "POSIX chmod(), chown()",
            NO_CRASH,
            "Mode and owner change as one step through a crash.",
        ),
        O::Fsync => (
            "POSIX fsync(); Linux fsync(2), sync(2)",
            "All data and attributes of the file are on the device when the call returns. Its \
             entry in the directory need not be: that takes an fsync of the directory.",
            "A path to the file is durable, too. With a log so are names, attributes and sizes \
             of all calls before this one.",
        ),
        O::Fdatasync => (
            "POSIX fdatasync(); Linux fdatasync(2)",
            "The data is on the device, and the metadata that a later read of it needs, such as \
             the size. Times and modes need not be.",
            "A path to the file is durable, too. With a log so are names, attributes and sizes \
             of all calls before this one.",
        ),
    };
    Saying { source, says, beyond }
}

const fn open(operation: Operation) -> Row {
    Row {
        operation,
        durable: Durable::Synced,
        leaves: Damages::of(&[Damage::Anything]),
        covers: Covers { content: false, attributes: false, names: false },
    }
}

const fn barrier(operation: Operation, attributes: bool) -> Row {
    Row {
        operation,
        durable: Durable::Acknowledged,
        leaves: Damages::NONE,
        covers: Covers { content: true, attributes, names: false },
    }
}

/// What the standards promise, and no more: calls for durability cover an object and no path to it,
/// and nothing else has an order.
pub const STANDARD: Contract = Contract {
    policy: "standard",
    repairs: true,
    one_point: false,
    content: false,
    rows: [
        open(Operation::Create),
        open(Operation::Mkdir),
        open(Operation::Link),
        open(Operation::Remove),
        open(Operation::Rename),
        open(Operation::Replace),
        open(Operation::Exchange),
        open(Operation::Write),
        open(Operation::Truncate),
        open(Operation::Allocate),
        open(Operation::Attributes),
        barrier(Operation::Fsync, true),
        barrier(Operation::Fdatasync, false),
    ],
};

/// The rules of the standards.
pub const RULES: Rules = Rules::Changed(&STANDARD);

/// The table of the page.
pub(super) fn table(out: &mut String) {
    out.push_str(
        "#### What the standards say\n\nThe source, in our words, and what FFS promises \
         beyond that. A program that is to work on other file systems must not rely on the last \
         column.\n\n\
         | operation | source | it says | FFS promises beyond |\n|---|---|---|---|\n",
    );
    for operation in Operation::ALL {
        let Saying { source, says, beyond } = saying(operation);
        // Writing to a string does not fail.
        let _ = writeln!(out, "| {} | {source} | {says} | {beyond} |", operation.name());
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A policy may promise more than the standards, and never less.
    #[test]
    fn no_policy_promises_less_than_the_standards() {
        for rules in Rules::all() {
            for operation in Operation::ALL {
                let (ours, theirs) = (rules.contract().row(operation), STANDARD.row(operation));
                let covers = [
                    (theirs.covers.content, ours.covers.content),
                    (theirs.covers.attributes, ours.covers.attributes),
                    (theirs.covers.names, ours.covers.names),
                ];
                assert!(covers.iter().all(|(asked, given)| given >= asked), "{ours:?}");
                let damages = ours
                    .leaves
                    .iter()
                    .all(|one| theirs.leaves.has(Damage::Anything) || theirs.leaves.has(one));
                assert!(damages, "{ours:?}");
            }
        }
    }

    /// A row that promises a path says so on the page.
    #[test]
    fn what_a_barrier_covers_beyond_the_standards_is_named() {
        for operation in [Operation::Fsync, Operation::Fdatasync] {
            let ours = Rules::Async.contract().row(operation).covers;
            let more = ours.names && !STANDARD.row(operation).covers.names;
            assert_eq!(more, saying(operation).beyond.contains("path"), "{operation:?}");
        }
    }
}
