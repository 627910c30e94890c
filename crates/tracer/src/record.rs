//! The recording as it grows: changes of objects become calls with their replies.
//!
//! Between two calls of its functions the objects are those that a replay of the entries gives.

use crate::objects::Objects;
use crate::pages::Pages;
use crate::stat::Stat;
use bytes::Bytes;
use seekless_calls::{Entry, Foreign, Told};
use seekless_engine::units::Time;
use seekless_fs::call::{
    AllocateHow, Answer, Attr, Call, Credentials, FileKind, Ino, New, RenameHow, Request, SetAttr,
    by_inode,
};
use std::ops::Range;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Bytes of one write at most; longer ones become several.
pub(crate) const MOST_WRITE: usize = 128 << 10;

/// A recording that grows.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) objects: Objects,
    entries: Vec<Entry>,
    calls: u64,
    begun: Instant,
    /// Wall clock at `begun`, in nanoseconds since 1970.
    wall: i64,
    /// Who makes calls that do not make an object.
    who: Credentials,
}

impl Record {
    pub(crate) fn new() -> Record {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |at| at.as_nanos());
        // SAFETY: both calls only return a number.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        Record {
            objects: Objects::default(),
            entries: Vec::new(),
            calls: 0,
            begun: Instant::now(),
            wall: i64::try_from(wall).unwrap_or(i64::MAX),
            who: Credentials { uid, gid },
        }
    }

    pub(crate) fn into_entries(mut self) -> Vec<Entry> {
        self.entries.shrink_to_fit();
        self.entries
    }

    fn at(&self) -> Time {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Records a call; its number.
    fn call(&mut self, who: Credentials, request: Request) -> u64 {
        let (id, at) = (self.calls, self.at());
        self.calls += 1;
        let now = self.wall.saturating_add_unsigned(at);
        self.entries.push(Entry::Call { call: Call { id, who, now, request }, at });
        id
    }

    fn reply(&mut self, number: u64, told: Told) {
        self.entries.push(Entry::Reply { number, told });
    }

    /// Records a call that was done at once.
    fn done(&mut self, request: Request, told: Told) {
        let number = self.call(self.who, request);
        self.reply(number, told);
    }

    fn foreign(&mut self, change: Foreign) {
        let at = self.at();
        self.entries.push(Entry::Foreign { change, at });
    }

    /// The workload begins.
    pub(crate) fn begin(&mut self) {
        self.entries.push(Entry::Begin);
    }

    /// The program acknowledged a value.
    pub(crate) fn mark(&mut self, value: &str) {
        self.entries.push(Entry::Mark(value.to_owned()));
    }

    fn told_attr(&self, ino: Ino, size: u64, answer: fn(Attr) -> Answer) -> Told {
        let attr = self.objects.get(ino).map(|object| object.attr(ino, size));
        attr.map_or(Told::Other, |attr| Told::of(&Ok(answer(attr))))
    }

    /// An object is made. `text` is that of a symbolic link.
    pub(crate) fn make(&mut self, dir: Ino, name: Bytes, stat: &Stat, text: Bytes) -> Ino {
        let size = text.len() as u64;
        let what = match stat.kind {
            FileKind::File => New::File,
            FileKind::Directory => New::Directory,
            FileKind::Symlink => New::Symlink(text),
            FileKind::Fifo => New::Fifo,
            FileKind::Socket => New::Socket,
            FileKind::CharDevice => New::CharDevice(stat.device),
            FileKind::BlockDevice => New::BlockDevice(stat.device),
        };
        // A name that stands for something, which an unseen change took away.
        self.drop_name(dir, &name);
        let ino = self.objects.add(stat);
        self.objects.name(dir, name.clone(), ino);
        self.looked_up(ino);
        let who = Credentials { uid: stat.uid, gid: stat.gid };
        let request = Request::Make { dir, name, what, mode: stat.mode, open: false };
        let number = self.call(who, request);
        let told = self.told_attr(ino, size, |attr| Answer::Object(attr, None));
        self.reply(number, told);
        ino
    }

    fn looked_up(&mut self, ino: Ino) {
        if let Some(object) = self.objects.get_mut(ino) {
            object.lookups += 1;
        }
    }

    /// A file without a name is made.
    pub(crate) fn unnamed(&mut self, stat: &Stat) -> Ino {
        let ino = self.objects.add(stat);
        let (mode, uid, gid) = (stat.mode, stat.uid, stat.gid);
        self.foreign(Foreign::Unnamed { ino, mode, uid, gid });
        ino
    }

    /// A file gets another name.
    pub(crate) fn link(&mut self, ino: Ino, dir: Ino, name: Bytes, size: u64) {
        self.drop_name(dir, &name);
        self.objects.name(dir, name.clone(), ino);
        self.looked_up(ino);
        let told = self.told_attr(ino, size, |attr| Answer::Object(attr, None));
        self.done(Request::Link { ino, dir, name }, told);
    }

    /// A name goes; a directory is empty.
    pub(crate) fn remove(&mut self, dir: Ino, name: Bytes) {
        let Some(ino) = self.objects.unname(dir, &name) else { return };
        let is_dir = self.objects.is_directory(ino);
        let request =
            if is_dir { Request::RmDir { dir, name } } else { Request::Unlink { dir, name } };
        self.done(request, Told::Done);
        self.forget(ino);
    }

    fn drop_name(&mut self, dir: Ino, name: &Bytes) {
        if self.objects.named(dir, name).is_some() {
            self.remove_tree(dir, name.clone());
        }
    }

    /// A name goes, and everything below it.
    pub(crate) fn remove_tree(&mut self, dir: Ino, name: Bytes) {
        // Directories whose names still have to go, each behind what is in it.
        let mut path = vec![(dir, name)];
        while let Some((dir, name)) = path.last().cloned() {
            let below =
                self.objects.named(dir, &name).filter(|&ino| self.objects.is_directory(ino));
            let entries = below.map(|ino| (ino, self.objects.entries(ino))).unwrap_or_default();
            if entries.1.is_empty() {
                self.remove(dir, name);
                path.pop();
            }
            path.extend(entries.1.into_iter().map(|(name, _)| (entries.0, name)));
        }
    }

    /// Lets go of an object whose last name has gone. What programs that have it open still do to
    /// it, no file system shows after a crash.
    fn forget(&mut self, ino: Ino) {
        let Some(object) = self.objects.get(ino) else { return };
        let is_gone = object.kind == FileKind::Directory || object.links == 0;
        if is_gone && let Some(object) = self.objects.remove(ino) {
            let count = object.lookups;
            self.call(self.who, Request::Forget { ino, count });
        }
    }

    /// A name is changed. Both directories are known.
    pub(crate) fn rename(&mut self, from: (Ino, Bytes), to: (Ino, Bytes), how: RenameHow) {
        let Some(moved) = self.objects.named(from.0, &from.1) else { return };
        let target = self.objects.named(to.0, &to.1);
        let request = Request::Rename {
            dir: from.0,
            name: from.1.clone(),
            to_dir: to.0,
            to_name: to.1.clone(),
            how,
        };
        self.done(request, Told::Done);
        if target == Some(moved) {
            return; // Two names of one file: both stay.
        }
        self.objects.unname(from.0, &from.1);
        if target.is_some() {
            self.objects.unname(to.0, &to.1);
        }
        self.objects.name(to.0, to.1, moved);
        match target {
            Some(target) if how == RenameHow::Exchange => {
                self.objects.name(from.0, from.1, target);
            }
            Some(target) => self.forget(target),
            None => {}
        }
    }

    fn shadow(&mut self, ino: Ino) -> Option<&mut Pages> {
        self.objects.get_mut(ino)?.shadow.as_mut()
    }

    /// Bytes are written, at most [`MOST_WRITE`].
    pub(crate) fn write(&mut self, ino: Ino, at: u64, data: Bytes) {
        if let Some(shadow) = self.shadow(ino) {
            shadow.write(at, &data);
        }
        let count = data.len() as u32;
        let request = Request::Write { handle: by_inode(ino), at, data, append: false };
        self.done(request, Told::Written(count));
    }

    /// The size of a file is set.
    pub(crate) fn resize(&mut self, ino: Ino, size: u64) {
        if let Some(shadow) = self.shadow(ino) {
            shadow.resize(size);
        }
        self.set(ino, SetAttr { size: Some(size), ..SetAttr::default() }, size);
    }

    /// Attributes are set; `size` is that of the object afterwards.
    pub(crate) fn set(&mut self, ino: Ino, set: SetAttr, size: u64) {
        if let Some(object) = self.objects.get_mut(ino) {
            object.mode = set.mode.unwrap_or(object.mode);
            object.uid = set.uid.unwrap_or(object.uid);
            object.gid = set.gid.unwrap_or(object.gid);
        }
        let told = self.told_attr(ino, size, Answer::Attr);
        self.done(Request::SetAttr { ino, set }, told);
    }

    /// Blocks are allocated or freed; the size is `size` afterwards.
    pub(crate) fn allocate(&mut self, ino: Ino, at: u64, length: u64, how: AllocateHow, size: u64) {
        if let Some(shadow) = self.shadow(ino) {
            shadow.resize(size);
            if matches!(how, AllocateHow::Punch | AllocateHow::Zero { .. }) {
                shadow.zero(at, length);
            }
        }
        self.done(Request::Allocate { handle: by_inode(ino), at, length, how }, Told::Done);
    }

    /// An extended attribute gets a value, or goes if there is none. Linux removes access lists
    /// that are not there; that is no change.
    pub(crate) fn xattr(&mut self, ino: Ino, name: Bytes, value: Option<Bytes>) {
        let Some(object) = self.objects.get_mut(ino) else { return };
        let change = match value {
            Some(value) => {
                object.xattrs.insert(name.clone());
                Foreign::SetAttribute { ino, name, value }
            }
            None if object.xattrs.remove(&name) => Foreign::RemoveAttribute { ino, name },
            None => return,
        };
        self.foreign(change);
    }

    /// A sync is asked for of a range of a file. The number of the call.
    pub(crate) fn range_sync_asked(
        &mut self,
        (ino, data_only): (Ino, bool),
        of: Range<u64>,
    ) -> u64 {
        let (at, length) = (of.start, of.end.saturating_sub(of.start));
        self.foreign(Foreign::SyncedRange { ino, at, length });
        self.sync_asked(Some((ino, data_only)))
    }

    /// A sync is asked for: of a file, or of everything. The number of the call.
    pub(crate) fn sync_asked(&mut self, file: Option<(Ino, bool)>) -> u64 {
        let request = match file {
            Some((ino, data_only)) => Request::Fsync { ino, data_only },
            None => Request::Sync,
        };
        self.call(self.who, request)
    }

    /// A sync is answered, with 0 or an error number.
    pub(crate) fn sync_answered(&mut self, number: u64, errno: i32) {
        self.reply(number, if errno == 0 { Told::Done } else { Told::Failed(errno) });
    }
}
