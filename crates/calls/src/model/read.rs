//! From calls to micro-operations.
//!
//! [`Reader`] follows the directory as the program sees it, so that a call that names an inode or
//! a handle finds its object. A call that failed has changed nothing. One without a reply may have
//! changed something: its micro-operations are there, and no sync covers them. An id that a reply
//! gives counts from the reply on.

mod files;
mod names;

use super::micro::{Attributes, Change, Mark, Micro, Object, ObjectId, Recorded, Sync, TOP};
use crate::{Entry, Foreign, Told, word};
use bytes::Bytes;
use seekless_fs::call::{Call, Handle, Ino, New, ROOT, Request, inode_of};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why a model cannot say what a power cut leaves of a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unmodelled {
    /// An inode that no earlier call made.
    #[error(
        "entry {entry} ({word}) names inode {ino}, which no earlier call of the recording makes; \
         record again with the directory as it is at the start"
    )]
    Object {
        /// Position in the recording.
        entry: u64,
        /// The operation.
        word: &'static str,
        /// The inode.
        ino: Ino,
    },
    /// A handle that no earlier call gave.
    #[error(
        "entry {entry} ({word}) uses handle {handle}, which no earlier reply of the recording \
         gives; record again from the start of the program"
    )]
    Handle {
        /// Position in the recording.
        entry: u64,
        /// The operation.
        word: &'static str,
        /// The handle.
        handle: Handle,
    },
    /// A name that is not there, or is there already.
    #[error(
        "entry {entry} ({word}) succeeded although {name:?} {what}; a program that was not \
         recorded changed the directory, or the recording lacks a call"
    )]
    Name {
        /// Position in the recording.
        entry: u64,
        /// The operation.
        word: &'static str,
        /// The name.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Bytes or names in an object that has none.
    #[error("entry {entry} ({word}) needs a {wanted}, and inode {ino} is none; record again")]
    Kind {
        /// Position in the recording.
        entry: u64,
        /// The operation.
        word: &'static str,
        /// The inode.
        ino: Ino,
        /// What it should be.
        wanted: &'static str,
    },
    /// A range that no file has.
    #[error("entry {entry} ({word}) goes beyond the largest size of a file; record again")]
    Range {
        /// Position in the recording.
        entry: u64,
        /// The operation.
        word: &'static str,
    },
    /// A sync that failed on the way to the disk: what it was to cover may be gone.
    #[error(
        "call {call} ({word}) failed with error {errno}: models describe disks that work; record \
         again on a disk that does"
    )]
    FailedSync {
        /// Number of the call.
        call: u64,
        /// The operation.
        word: &'static str,
        /// The error number.
        errno: i32,
    },
    /// The recording has more micro-operations than a model takes.
    #[error("the recording has more than {most} micro-operations; record a shorter run")]
    Long {
        /// How many a model takes.
        most: u32,
    },
}

/// Errors of a sync that say that it did not do its work: `EIO`, `ENOSPC`, `EDQUOT`.
const LOST_BYTES: [i32; 3] = [5, 28, 122];

/// Parts of a path that messages show at most.
const MOST_PARTS: usize = 256;

/// What the program sees of an object.
#[derive(Debug, Default)]
struct Seen {
    size: u64,
    /// The directory and name that it got last.
    place: Option<(ObjectId, Bytes)>,
    names: BTreeMap<Bytes, ObjectId>,
}

/// A recording on the way to micro-operations.
#[derive(Debug)]
struct Reader {
    replies: BTreeMap<u64, (u64, Told)>,
    objects: Vec<Object>,
    seen: Vec<Seen>,
    inos: BTreeMap<Ino, ObjectId>,
    handles: BTreeMap<Handle, ObjectId>,
    /// What a call made or opened whose reply is yet to come, by its number.
    given: BTreeMap<u64, ObjectId>,
    /// The entry that is read.
    now: u64,
    /// The operation of its call.
    word: &'static str,
    /// The number of its call.
    call: Option<u64>,
    /// The entry that answers it.
    answered: Option<u64>,
    micros: Vec<Micro>,
    syncs: Vec<Sync>,
    /// The file whose next sync covers a range.
    range: Option<(ObjectId, (u64, u64))>,
}

impl Recorded {
    /// The micro-operations of a recording.
    ///
    /// # Errors
    /// If the recording names what it does not show, or has what no model describes.
    pub fn read(entries: &[Entry]) -> Result<Recorded, Unmodelled> {
        let mut reader = Reader::new(entries);
        let (mut marks, mut begin) = (Vec::new(), 0);
        for (at, entry) in (0..).zip(entries) {
            reader.now = at;
            match entry {
                Entry::Call { call, .. } => reader.call(call)?,
                Entry::Reply { number, told } => reader.reply(*number, *told),
                Entry::Foreign { change, .. } => reader.foreign(change)?,
                Entry::Begin => begin = at,
                Entry::Mark(value) => marks.push(Mark { at, value: value.as_str().into() }),
            }
        }
        if u32::try_from(reader.micros.len()).is_err() {
            return Err(Unmodelled::Long { most: u32::MAX });
        }
        let Reader { objects, micros, mut syncs, .. } = reader;
        syncs.sort_by_key(|sync| sync.answered);
        let (objects, entries) = (objects.into(), entries.len() as u64);
        Ok(Recorded { objects, micros, syncs, marks, begin, entries })
    }
}

impl Reader {
    fn new(entries: &[Entry]) -> Reader {
        let replies = (0..).zip(entries).filter_map(|(at, entry)| match entry {
            Entry::Reply { number, told } => Some((*number, (at, *told))),
            _ => None,
        });
        let attributes = Attributes::default();
        let top = Object { ino: ROOT, what: New::Directory, attributes };
        Reader {
            replies: replies.collect(),
            objects: vec![top],
            seen: vec![Seen::default()],
            inos: BTreeMap::from([(ROOT, TOP)]),
            handles: BTreeMap::new(),
            given: BTreeMap::new(),
            now: 0,
            word: "",
            call: None,
            answered: None,
            micros: Vec::new(),
            syncs: Vec::new(),
            range: None,
        }
    }

    fn call(&mut self, call: &Call) -> Result<(), Unmodelled> {
        let reply = self.replies.get(&call.id).copied();
        (self.word, self.call) = (word(&call.request), Some(call.id));
        self.answered = reply.map(|(at, _)| at);
        let told = reply.map(|(_, told)| told);
        if let Some(Told::Failed(errno)) = told {
            let is_sync = matches!(call.request, Request::Fsync { .. } | Request::Sync);
            return match is_sync && LOST_BYTES.contains(&errno) {
                true => Err(Unmodelled::FailedSync { call: call.id, word: self.word, errno }),
                false => Ok(()),
            };
        }
        self.request(call, told)
    }

    fn request(&mut self, call: &Call, told: Option<Told>) -> Result<(), Unmodelled> {
        match &call.request {
            Request::Make { dir, name, what, mode, .. } => {
                let attributes = Attributes {
                    mode: Some(*mode),
                    uid: Some(call.who.uid),
                    gid: Some(call.who.gid),
                    ..Attributes::default()
                };
                let ino = match told {
                    Some(Told::Object(ino, ..)) => ino,
                    _ => 0,
                };
                self.make(*dir, name, Object { ino, what: what.clone(), attributes })
            }
            Request::Link { ino, dir, name } => self.link(*ino, *dir, name),
            Request::Unlink { dir, name } | Request::RmDir { dir, name } => self.unlink(*dir, name),
            Request::Rename { dir, name, to_dir, to_name, how } => {
                self.rename((*dir, name), (*to_dir, to_name), *how)
            }
            Request::Open { ino, truncate } => self.open(*ino, *truncate),
            Request::Write { handle, at, data, append } => {
                let count = match told {
                    Some(Told::Written(count)) => data.len().min(count as usize),
                    _ => data.len(),
                };
                self.write(*handle, (!append).then_some(*at), data.slice(..count))
            }
            Request::SetAttr { ino, set } => self.set_attributes(*ino, set),
            Request::Allocate { handle, at, length, how } => {
                self.allocate(*handle, *at, *length, *how)
            }
            Request::Fsync { ino, data_only } => {
                let object = Some(self.object(*ino)?);
                self.sync(object, *data_only);
                Ok(())
            }
            Request::Sync => {
                self.sync(None, false);
                Ok(())
            }
            // A handle is closed, or nothing changes: free space is nothing that a program finds.
            Request::Lookup { .. }
            | Request::Forget { .. }
            | Request::Attr { .. }
            | Request::ReadLink { .. }
            | Request::Release { .. }
            | Request::Read { .. }
            | Request::List { .. }
            | Request::Space
            | Request::Trim { .. }
            | Request::Seek { .. } => Ok(()),
        }
    }

    fn sync(&mut self, object: Option<ObjectId>, data_only: bool) {
        let asked = self.now;
        let range = self.range.take_if(|(of, _)| Some(*of) == object).map(|(_, range)| range);
        let sync = self.answered.map(|answered| Sync { asked, answered, object, data_only, range });
        self.syncs.extend(sync);
    }

    /// The ids that a reply gives.
    fn reply(&mut self, number: u64, told: Told) {
        let Some(object) = self.given.remove(&number) else { return };
        match told {
            Told::Object(ino, _, handle) => {
                self.inos.insert(ino, object);
                self.handles.extend(handle.map(|handle| (handle, object)));
            }
            Told::Opened(handle) => drop(self.handles.insert(handle, object)),
            _ => {}
        }
    }

    fn foreign(&mut self, change: &Foreign) -> Result<(), Unmodelled> {
        (self.call, self.answered) = (None, Some(self.now));
        match change {
            Foreign::Unnamed { ino, mode, uid, gid } => {
                let attributes = Attributes {
                    mode: Some(*mode),
                    uid: Some(*uid),
                    gid: Some(*gid),
                    ..Attributes::default()
                };
                let object = self.add(Object { ino: *ino, what: New::File, attributes });
                self.inos.insert(*ino, object);
                Ok(())
            }
            Foreign::SyncedRange { ino, at, length } => {
                self.word = "sync";
                self.range = Some((self.object(*ino)?, (*at, self.end(*at, *length)?)));
                Ok(())
            }
            Foreign::SetAttribute { ino, name, value } => {
                self.word = "setxattr";
                self.attribute(*ino, name, Some(value.clone()))
            }
            Foreign::RemoveAttribute { ino, name } => {
                self.word = "removexattr";
                self.attribute(*ino, name, None)
            }
        }
    }

    fn attribute(
        &mut self,
        ino: Ino,
        name: &Bytes,
        value: Option<Bytes>,
    ) -> Result<(), Unmodelled> {
        let object = self.object(ino)?;
        let (word, shown) = (self.word, String::from_utf8_lossy(name).into_owned());
        let said = format!("{word}({:?}, {shown:?})", self.path(object));
        self.push(&said.into(), Change::Attribute { object, name: name.clone(), value });
        Ok(())
    }

    fn add(&mut self, object: Object) -> ObjectId {
        let id = self.objects.len() as ObjectId;
        self.objects.push(object);
        self.seen.push(Seen::default());
        id
    }

    fn push(&mut self, said: &Arc<str>, change: Change) {
        let (call, asked, answered) = (self.call, self.now, self.answered);
        self.micros.push(Micro { call, asked, answered, said: Arc::clone(said), change });
    }

    fn object(&self, ino: Ino) -> Result<ObjectId, Unmodelled> {
        let unknown = Unmodelled::Object { entry: self.now, word: self.word, ino };
        self.inos.get(&ino).copied().ok_or(unknown)
    }

    fn handled(&self, handle: Handle) -> Result<ObjectId, Unmodelled> {
        let unknown = Unmodelled::Handle { entry: self.now, word: self.word, handle };
        match inode_of(handle) {
            Some(ino) => self.object(ino),
            None => self.handles.get(&handle).copied().ok_or(unknown),
        }
    }

    /// The object, if it is a file or a directory as wanted.
    fn wanted(&self, object: ObjectId, what: &New) -> Result<ObjectId, Unmodelled> {
        let found = &self.objects[object as usize];
        let wanted = if *what == New::File { "regular file" } else { "directory" };
        match found.what == *what {
            true => Ok(object),
            false => Err(self.bad_kind(found.ino, wanted)),
        }
    }

    fn bad_kind(&self, ino: Ino, wanted: &'static str) -> Unmodelled {
        Unmodelled::Kind { entry: self.now, word: self.word, ino, wanted }
    }

    /// The end of a range, if a file can have it.
    fn end(&self, at: u64, length: u64) -> Result<u64, Unmodelled> {
        let end = at.checked_add(length).filter(|&end| end <= i64::MAX as u64);
        end.ok_or(Unmodelled::Range { entry: self.now, word: self.word })
    }

    /// The path of an object by its last name, relative to the top; the top itself is `.`.
    fn path(&self, object: ObjectId) -> String {
        let mut parts = Vec::new();
        let mut at = object;
        // A recording that moves a directory into itself has no end of the path.
        while let (Some((directory, name)), true) =
            (&self.seen[at as usize].place, parts.len() < MOST_PARTS)
        {
            parts.push(String::from_utf8_lossy(name));
            at = *directory;
        }
        match (parts.is_empty(), object) {
            (true, TOP) => ".".to_owned(),
            (true, _) => format!("(file {} without a name)", self.objects[object as usize].ino),
            (false, _) => {
                parts.reverse();
                parts.join("/")
            }
        }
    }
}
