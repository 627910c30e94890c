//! Recordings of calls: what a program asked of a file system, and what it was told.
//!
//! A recording of blocks knows one file system under one policy. A recording of calls knows what
//! the program relies on, so one run of it shows what any file system may have left.
//!
//! Order is what counts: a call comes behind the replies that its program had seen before, and an
//! acknowledgement behind the replies that it rests on. A call that has a reply was complete at the
//! reply; a sync covers the changes that were complete when it was asked.
//!
//! Start with [`Entry`]; [`mod@file`] has the bytes of a recording, [`mark`] what a program may
//! acknowledge, [`model`] what a power cut may leave of the calls on ext4 or XFS.
#![forbid(unsafe_code)]

pub mod file;
pub mod mark;
pub mod model;

use bytes::Bytes;
use seekless_engine::checksum::crc32c;
use seekless_engine::units::Time;
use seekless_fs::call::{Answer, Attr, Call, Errno, FileKind, Handle, Ino, Request};

/// What was heard, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A call. Its id is its number: 0 for the first call of the recording.
    Call {
        /// The call.
        call: Call,
        /// When it was made, in nanoseconds since the mount.
        at: Time,
    },
    /// The reply to a call.
    Reply {
        /// The number of the call.
        number: u64,
        /// What it said.
        told: Told,
    },
    /// A change that file systems of Seekless do not know. Models of others do.
    Foreign {
        /// The change, which is complete.
        change: Foreign,
        /// When it was made, in nanoseconds since the mount.
        at: Time,
    },
    /// The workload begins: what came before made the file system ready for it.
    Begin,
    /// The program acknowledged a value.
    Mark(String),
}

/// A change that file systems of Seekless do not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// A file without a name is made (`O_TMPFILE`); [`Request::Link`] may give it one.
    Unnamed {
        /// Its number.
        ino: Ino,
        /// Its mode, without the kind.
        mode: u16,
        /// Its owner.
        uid: u32,
        /// Its group.
        gid: u32,
    },
    /// An extended attribute is made, or gets another value.
    SetAttribute {
        /// Of which file or directory.
        ino: Ino,
        /// With its class, as `user.mime`.
        name: Bytes,
        /// The new value.
        value: Bytes,
    },
    /// The next [`Request::Fsync`] of a file covers these bytes and the metadata to find them, and
    /// no other bytes: a write with `O_DSYNC` or `O_SYNC`, or `msync`. This changes nothing by
    /// itself.
    SyncedRange {
        /// Of which file.
        ino: Ino,
        /// First byte.
        at: u64,
        /// Number of bytes.
        length: u64,
    },
    /// An extended attribute is removed.
    RemoveAttribute {
        /// Of which file or directory.
        ino: Ino,
        /// Its name.
        name: Bytes,
    },
}

/// What a reply said, as far as it does not depend on the policy, and the ids that it gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Success.
    Done,
    /// An object, with a digest of its attributes and with a handle if it was made open.
    Object(Ino, u32, Option<Handle>),
    /// A digest of attributes.
    Attr(u32),
    /// An open file or directory.
    Opened(Handle),
    /// Bytes: how many, and their checksum.
    Bytes(u64, u32),
    /// Bytes written.
    Written(u32),
    /// A place in a file.
    At(u64),
    /// Entries or sizes, which differ from policy to policy.
    Other,
    /// A failure: the error number.
    Failed(i32),
}

impl Told {
    /// What a result says.
    pub fn of(result: &Result<Answer, Errno>) -> Told {
        match result {
            Ok(Answer::Done) => Told::Done,
            Ok(Answer::Object(attr, handle)) => Told::Object(attr.ino, digest(attr), *handle),
            Ok(Answer::Attr(attr)) => Told::Attr(digest(attr)),
            Ok(Answer::Opened(handle)) => Told::Opened(*handle),
            Ok(Answer::Bytes(bytes) | Answer::Text(bytes)) => {
                Told::Bytes(bytes.len() as u64, crc32c(bytes))
            }
            Ok(Answer::Written(count)) => Told::Written(*count),
            Ok(Answer::At(at)) => Told::At(*at),
            Ok(Answer::Entries(_) | Answer::Space(_) | Answer::Trimmed(_)) => Told::Other,
            Err(errno) => Told::Failed(errno.number()),
        }
    }

    /// True if a program sees no difference between this and another one.
    pub fn is_like(self, other: Told) -> bool {
        match (self, other) {
            (Told::Object(_, digest, _), Told::Object(_, again, _)) => digest == again,
            (Told::Opened(_), Told::Opened(_)) => true,
            (told, other) => told == other,
        }
    }
}

/// What a program sees of attributes under every policy: not numbers, times and space.
fn digest(attr: &Attr) -> u32 {
    // Whether the slots of removed names are used again is a matter of the policy.
    let size = if attr.kind == FileKind::Directory { 0 } else { attr.size };
    let mut bytes = vec![attr.kind as u8];
    bytes.extend(attr.mode.to_le_bytes());
    for word in [attr.links, attr.uid, attr.gid, attr.device] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(size.to_le_bytes());
    crc32c(&bytes)
}

/// The operation of a call, in one word.
pub fn word(request: &Request) -> &'static str {
    match request {
        Request::Lookup { .. } => "lookup",
        Request::Forget { .. } => "forget",
        Request::Attr { .. } => "getattr",
        Request::SetAttr { .. } => "setattr",
        Request::ReadLink { .. } => "readlink",
        Request::Make { .. } => "make",
        Request::Link { .. } => "link",
        Request::Unlink { .. } => "unlink",
        Request::RmDir { .. } => "rmdir",
        Request::Rename { .. } => "rename",
        Request::Open { .. } => "open",
        Request::Release { .. } => "release",
        Request::Read { .. } => "read",
        Request::Write { .. } => "write",
        Request::List { .. } => "list",
        Request::Fsync { .. } => "fsync",
        Request::Sync => "sync",
        Request::Trim { .. } => "trim",
        Request::Space => "statfs",
        Request::Allocate { .. } => "allocate",
        Request::Seek { .. } => "seek",
    }
}
