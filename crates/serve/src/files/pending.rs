//! How a request of the kernel is answered when the file system has replied.

use super::translate;
use fuser::{
    FileHandle, FopenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
};
use seekless_fs::call::{Answer, Attr, DirEntry, Errno, Ino, Space};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

/// How long the kernel may trust names and attributes: all changes pass through it.
pub(super) const VALID: Duration = Duration::from_secs(3600);

/// A question of the kernel that waits for its answer.
#[derive(Debug)]
pub(super) enum Pending {
    /// No answer is expected.
    None,
    /// The object of a name, or that there is none.
    Lookup(ReplyEntry),
    /// A new object, or a new name of one.
    Entry(ReplyEntry),
    Attr(ReplyAttr),
    Text(ReplyData),
    Data(ReplyData),
    OpenDirectory(ReplyOpen),
    Write(ReplyWrite),
    Empty(ReplyEmpty),
    Statfs(ReplyStatfs),
    Seek(ReplyLseek),
    /// FITRIM, with the range that the caller gave.
    Trim(ReplyIoctl, [u64; 3]),
    List(ReplyDirectory),
    /// Entries with their attributes, which are looked up one by one.
    ListPlus {
        reply: ReplyDirectoryPlus,
        /// The directory.
        dir: Ino,
    },
}

/// A question with its answer.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) pending: Pending,
    pub(super) result: Result<Answer, Errno>,
}

impl Answered {
    /// Tells the kernel.
    pub(super) fn send(self) {
        match self.result {
            Ok(answer) => self.pending.succeed(answer),
            Err(errno) => self.pending.fail(errno),
        }
    }
}

impl Pending {
    /// Tells the kernel what a call has brought.
    fn succeed(self, answer: Answer) {
        match (self, answer) {
            (Pending::Lookup(reply) | Pending::Entry(reply), Answer::Object(attr, _)) => {
                let generation = translate::generation(&attr);
                reply.entry(&VALID, &translate::attributes(&attr), generation);
            }
            (Pending::Attr(reply), Answer::Attr(attr)) => {
                reply.attr(&VALID, &translate::attributes(&attr));
            }
            (Pending::Text(reply), Answer::Text(bytes))
            | (Pending::Data(reply), Answer::Bytes(bytes)) => reply.data(&bytes),
            (Pending::OpenDirectory(reply), Answer::Opened(handle)) => {
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            (Pending::Write(reply), Answer::Written(count)) => reply.written(count),
            // A change of attributes that brings no object, too, ends a call well.
            (Pending::Empty(reply), _) => reply.ok(),
            (Pending::Statfs(reply), Answer::Space(space)) => statfs(reply, &space),
            (Pending::Seek(reply), Answer::At(at)) => {
                reply.offset(i64::try_from(at).unwrap_or(i64::MAX));
            }
            // The kernel gives the range back with the number of bytes in its second word.
            (Pending::Trim(reply, [start, _, least]), Answer::Trimmed(bytes)) => {
                reply.ioctl(0, &translate::words([start, bytes, least]));
            }
            (Pending::List(reply), Answer::Entries(entries)) => list(reply, &entries),
            (Pending::None, _) => {}
            (pending, answer) => {
                debug_assert!(false, "{answer:?} is no answer to {pending:?}");
                pending.fail(Errno::Io);
            }
        }
    }

    /// Tells the kernel that a call failed.
    pub(super) fn fail(self, errno: Errno) {
        let number = translate::errno(errno);
        match self {
            Pending::None => {}
            // The kernel remembers that the name does not exist; it learns of all new names.
            Pending::Lookup(reply) if errno == Errno::NoEnt => {
                let nothing = translate::bare_attributes(0, seekless_fs::call::FileKind::File);
                reply.entry_with_ttls(&Duration::ZERO, &VALID, &nothing, fuser::Generation(0));
            }
            Pending::Lookup(reply) | Pending::Entry(reply) => reply.error(number),
            Pending::Attr(reply) => reply.error(number),
            Pending::Text(reply) | Pending::Data(reply) => reply.error(number),
            Pending::OpenDirectory(reply) => reply.error(number),
            Pending::Write(reply) => reply.error(number),
            Pending::Empty(reply) => reply.error(number),
            Pending::Statfs(reply) => reply.error(number),
            Pending::Seek(reply) => reply.error(number),
            Pending::Trim(reply, _) => reply.error(number),
            Pending::List(reply) => reply.error(number),
            Pending::ListPlus { reply, .. } => reply.error(number),
        }
    }
}

fn statfs(reply: ReplyStatfs, space: &Space) {
    reply.statfs(
        space.fragments,
        space.free,
        space.available,
        space.inodes,
        space.free_inodes,
        space.block_bytes,
        space.name_bytes,
        space.fragment_bytes,
    );
}

fn list(mut reply: ReplyDirectory, entries: &[DirEntry]) {
    for entry in entries {
        let (number, kind) = (translate::number(entry.ino), translate::kind(entry.kind));
        if reply.add(number, entry.cookie, kind, OsStr::from_bytes(&entry.name)) {
            break;
        }
    }
    reply.ok();
}

/// An entry with the attributes that its lookup found; none for `.` and `..`.
pub(super) type Found = (DirEntry, Option<Attr>);

/// Answers with as many entries as fit and says how many did. The kernel has looked those up; the
/// others it has not.
pub(super) fn list_plus(mut reply: ReplyDirectoryPlus, found: &[Found]) -> usize {
    let mut fitted = 0;
    for (entry, attr) in found {
        let (attributes, generation) = match attr {
            Some(attr) => (translate::attributes(attr), translate::generation(attr)),
            None => (translate::bare_attributes(entry.ino, entry.kind), fuser::Generation(0)),
        };
        let name = OsStr::from_bytes(&entry.name);
        let number = attributes.ino;
        if reply.add(number, entry.cookie, name, &VALID, &attributes, generation) {
            break;
        }
        fitted += 1;
    }
    reply.ok();
    fitted
}
