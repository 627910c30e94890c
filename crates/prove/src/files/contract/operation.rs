//! The operations of a client that the contract tells apart: a row of its table each.

use crate::files::request::FileRequest as R;
use crate::files::world::Effect;

/// A row of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Operation {
    /// Makes a file, a symbolic link or a special file.
    Create,
    /// Makes a directory.
    Mkdir,
    /// Gives a file another name.
    Link,
    /// Removes a name.
    Remove,
    /// Changes a name to one that nothing had.
    Rename,
    /// Changes a name to that of another object, which loses it.
    Replace,
    /// Two names exchange their objects.
    Exchange,
    /// Writes or appends.
    Write,
    /// Sets the size.
    Truncate,
    /// Allocates blocks, or makes a hole.
    Allocate,
    /// Sets permissions or the owner.
    Attributes,
    /// Makes an object durable, or everything.
    Fsync,
    /// Makes content durable.
    Fdatasync,
}

impl Operation {
    /// All of them, in the order of the page.
    pub const ALL: [Operation; 13] = [
        Operation::Create,
        Operation::Mkdir,
        Operation::Link,
        Operation::Remove,
        Operation::Rename,
        Operation::Replace,
        Operation::Exchange,
        Operation::Write,
        Operation::Truncate,
        Operation::Allocate,
        Operation::Attributes,
        Operation::Fsync,
        Operation::Fdatasync,
    ];

    /// The calls, as the page names them.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Create => "create, symlink, mknod",
            Operation::Mkdir => "mkdir",
            Operation::Link => "link",
            Operation::Remove => "unlink, rmdir",
            Operation::Rename => "rename",
            Operation::Replace => "rename over a target",
            Operation::Exchange => "rename, exchanging",
            Operation::Write => "write, append",
            Operation::Truncate => "truncate",
            Operation::Allocate => "fallocate",
            Operation::Attributes => "chmod, chown",
            Operation::Fsync => "fsync, sync",
            Operation::Fdatasync => "fdatasync",
        }
    }

    /// The row of a request that has these effects; none if it changes nothing.
    pub(crate) fn of(request: &R, effects: &[Effect]) -> Option<Operation> {
        Some(match request {
            R::Create(_) | R::Symlink(..) | R::Fifo(_) => Operation::Create,
            R::Mkdir(_) => Operation::Mkdir,
            R::Link(..) => Operation::Link,
            R::Unlink(_) | R::Rmdir(_) => Operation::Remove,
            R::Rename(..) if effects.iter().any(|one| matches!(one, Effect::Ended(_))) => {
                Operation::Replace
            }
            R::Rename(..) => Operation::Rename,
            R::Exchange(..) => Operation::Exchange,
            R::Write(..) | R::Append(..) => Operation::Write,
            R::Truncate(..) => Operation::Truncate,
            R::Allocate(..) | R::Punch(..) => Operation::Allocate,
            R::Chmod(..) | R::Chown(..) => Operation::Attributes,
            R::Fsync(_) | R::Sync => Operation::Fsync,
            R::Fdatasync(_) => Operation::Fdatasync,
            R::Hold(..) | R::Release(_) => return None,
        })
    }
}

/// A set of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Operations(u16);

impl Operations {
    /// No operation.
    pub const NONE: Operations = Operations(0);
    /// Every operation.
    pub const ALL: Operations = Operations((1 << Operation::ALL.len()) - 1);

    /// Adds one.
    pub fn insert(&mut self, operation: Operation) {
        self.0 |= 1 << operation as u8;
    }

    /// Those of the set, in the order of the page.
    pub fn iter(self) -> impl Iterator<Item = Operation> {
        Operation::ALL.into_iter().filter(move |one| self.0 >> *one as u8 & 1 == 1)
    }
}
