//! Micro-operations: what of a recording reaches the disk as a whole.

use bytes::Bytes;
use seekless_fs::call::{Ino, New, Timestamp};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a page: what of a file is written as a whole.
pub const PAGE: u64 = 4096;

/// An object of a recording, by its place in [`Recorded::objects`]. Inode numbers are used again,
/// these are not.
pub type ObjectId = u32;

/// The directory at the top.
pub const TOP: ObjectId = 0;

/// A file, directory or other object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its inode number in the recording; 0 if no reply said it.
    pub ino: Ino,
    /// What it is, with the text of a symbolic link or the number of a device.
    pub what: New,
    /// What it was made with.
    pub attributes: Attributes,
}

impl Object {
    /// True for a directory.
    pub fn is_directory(&self) -> bool {
        self.what == New::Directory
    }
}

/// Attributes of an object. `None` is not known, or stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// Permission bits (07777).
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Time of the last access, if a call set it.
    pub atime: Option<Timestamp>,
    /// Time of the last change of content, if a call set it.
    pub mtime: Option<Timestamp>,
}

impl Attributes {
    /// These with the values of `newer`, where it has some.
    #[must_use]
    pub fn updated(self, newer: Attributes) -> Attributes {
        Attributes {
            mode: newer.mode.or(self.mode),
            uid: newer.uid.or(self.uid),
            gid: newer.gid.or(self.gid),
            atime: newer.atime.or(self.atime),
            mtime: newer.mtime.or(self.mtime),
        }
    }
}

/// A directory entry gets another object, or goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameChange {
    /// In which directory.
    pub directory: ObjectId,
    /// The name there.
    pub name: Bytes,
    /// What it names from now on.
    pub object: Option<ObjectId>,
}

/// What a micro-operation changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Names change together.
    Names {
        /// Which: two for a rename.
        sets: Vec<NameChange>,
        /// A rename put this file in the place of another one.
        replacing: Option<ObjectId>,
    },
    /// Bytes of one page.
    Page {
        /// Of this file.
        object: ObjectId,
        /// First byte in the file.
        at: u64,
        /// The bytes, which end on the same page.
        data: Bytes,
    },
    /// A range reads as zeros from now on.
    Zeros {
        /// Of this file.
        object: ObjectId,
        /// First byte.
        from: u64,
        /// One past the last byte.
        to: u64,
    },
    /// A write behind the end makes the file longer.
    Grow {
        /// Which file.
        object: ObjectId,
        /// Its size at least.
        to: u64,
    },
    /// A call sets the size.
    SetSize {
        /// Of this file.
        object: ObjectId,
        /// The size before, in the order of the calls.
        from: u64,
        /// The new one.
        to: u64,
    },
    /// A call sets attributes.
    Attributes {
        /// Of this object.
        object: ObjectId,
        /// The new values.
        set: Attributes,
    },
    /// A call sets or removes an extended attribute.
    Attribute {
        /// Of this object.
        object: ObjectId,
        /// Its name.
        name: Bytes,
        /// Its value; without one it goes.
        value: Option<Bytes>,
    },
}

impl Change {
    /// The object whose content or attributes change; `None` for names.
    pub fn object(&self) -> Option<ObjectId> {
        match self {
            Change::Names { .. } => None,
            Change::Page { object, .. }
            | Change::Zeros { object, .. }
            | Change::Grow { object, .. }
            | Change::SetSize { object, .. }
            | Change::Attributes { object, .. }
            | Change::Attribute { object, .. } => Some(*object),
        }
    }

    /// True for a change of names that gives an object one.
    pub fn names(&self, object: ObjectId) -> bool {
        match self {
            Change::Names { sets, .. } => sets.iter().any(|set| set.object == Some(object)),
            _ => false,
        }
    }

    /// The bytes that it writes or makes zero; none for others.
    pub fn bytes(&self) -> Range<u64> {
        match self {
            Change::Page { at, data, .. } => *at..*at + data.len() as u64,
            Change::Zeros { from, to, .. } => *from..*to,
            _ => 0..0,
        }
    }

    /// True for bytes, zeros and the sizes that writes bring: what a file system writes back when
    /// it likes.
    pub fn is_written_back(&self) -> bool {
        matches!(self, Change::Page { .. } | Change::Zeros { .. } | Change::Grow { .. })
    }
}

/// A micro-operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Micro {
    /// Number of the call; `None` for a foreign change.
    pub call: Option<u64>,
    /// The entry of the recording that asked for it.
    pub asked: u64,
    /// The entry that answered.
    pub answered: Option<u64>,
    /// The call in words, as `rename("a.tmp", "a")`.
    pub said: Arc<str>,
    /// What it changes.
    pub change: Change,
}

impl Micro {
    /// True if the call was complete before the entry at this position.
    pub fn is_complete_at(&self, position: u64) -> bool {
        self.answered.is_some_and(|answered| answered < position)
    }
}

/// The micro-operation in words: its part of the call.
impl fmt::Display for Micro {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = &self.said;
        match &self.change {
            Change::Page { at, data, .. } => {
                write!(f, "bytes {at} to {} of {said}", at + data.len() as u64)
            }
            Change::Zeros { from, to, .. } => write!(f, "zeros from {from} to {to} of {said}"),
            Change::Grow { to, .. } => write!(f, "the size {to} after {said}"),
            Change::SetSize { to, .. } => write!(f, "the size {to} of {said}"),
            _ => f.write_str(said),
        }
    }
}

/// A sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync {
    /// The entry that asked. What was complete before is covered.
    pub asked: u64,
    /// The entry that answered. From then on it counts.
    pub answered: u64,
    /// Of which object; `None` is all.
    pub object: Option<ObjectId>,
    /// Without attributes that are not needed to read the content (`fdatasync`).
    pub data_only: bool,
    /// Of the content only these bytes, from the first one to one past the last.
    pub range: Option<(u64, u64)>,
}

/// An acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its entry.
    pub at: u64,
    /// What was acknowledged.
    pub value: Arc<str>,
}

/// A recording in terms of what a power cut may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// What the recording names, the top first.
    pub objects: Arc<[Object]>,
    /// In the order of the calls.
    pub micros: Vec<Micro>,
    /// In the order of their answers.
    pub syncs: Vec<Sync>,
    /// The acknowledgements in order.
    pub marks: Vec<Mark>,
    /// The entry with which the workload begins; what came before is durable.
    pub begin: u64,
    /// Number of entries.
    pub entries: u64,
}
