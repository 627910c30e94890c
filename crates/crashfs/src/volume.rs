//! A file system in memory, and the record of what changes it.
//!
//! A [`Volume`] is a tree of inodes under one lock. The volume of a run records each change as a
//! call with its reply; those that checks see record nothing. All changes happen under the lock, so
//! the record has them in the order in which they took effect. An inode stays until the volume
//! goes, so a file that is open without a name needs no care.
//!
//! Errors are those of Linux, as `io::Error` with the error number. Rights are not checked, and
//! there are no symbolic links.

mod load;
mod names;
mod path;
mod record;

use bytes::Bytes;
pub(crate) use names::Opening;
use record::Record;

use seekless_fs::call::{Errno, Ino, ROOT, Request, SetAttr, by_inode};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The directory at the top.
const TOP: usize = 0;

/// Bytes of a file at most: contents are held in memory as they are, holes included.
const MOST_BYTES: u64 = 1 << 30;

/// A file system in memory.
#[derive(Debug)]
pub(crate) struct Volume {
    state: Mutex<State>,
}

/// What a volume holds.
#[derive(Debug)]
pub(crate) struct State {
    inodes: Vec<Inode>,
    /// Changes so far: the time stamps.
    clock: u64,
    record: Option<Record>,
}

#[derive(Debug)]
struct Inode {
    mode: u16,
    links: u32,
    modified: u64,
    body: Body,
}

#[derive(Debug)]
enum Body {
    File(Vec<u8>),
    Directory(BTreeMap<Bytes, usize>),
}

/// What is known of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) ino: Ino,
    pub(crate) is_directory: bool,
    /// Size of a file in bytes; 0 for a directory.
    pub(crate) size: u64,
    /// Permission bits (07777).
    pub(crate) mode: u16,
    pub(crate) links: u32,
    /// Number of the change that was the last one.
    pub(crate) modified: u64,
}

/// The error with this number.
pub(crate) fn fail(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.number())
}

fn ino(index: usize) -> Ino {
    ROOT + index as Ino
}

impl Volume {
    /// An empty directory; changes are recorded.
    pub(crate) fn recorded() -> Volume {
        Volume::of(State::new(Some(Record::default())))
    }

    fn of(state: State) -> Volume {
        Volume { state: Mutex::new(state) }
    }

    /// The volume for one operation. No code of others runs under the lock, so a panic elsewhere
    /// leaves the state as it was between two operations.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new(record: Option<Record>) -> State {
        let body = Body::Directory(BTreeMap::new());
        let top = Inode { mode: 0o755, links: 1, modified: 0, body };
        State { inodes: vec![top], clock: 0, record }
    }

    pub(crate) fn stat(&self, index: usize) -> Stat {
        let Inode { mode, links, modified, ref body } = self.inodes[index];
        let (is_directory, size) = match body {
            Body::File(bytes) => (false, bytes.len() as u64),
            Body::Directory(_) => (true, 0),
        };
        Stat { ino: ino(index), is_directory, size, mode, links, modified }
    }

    fn file(&mut self, index: usize) -> io::Result<&mut Vec<u8>> {
        match &mut self.inodes[index].body {
            Body::File(bytes) => Ok(bytes),
            Body::Directory(_) => Err(fail(Errno::IsDir)),
        }
    }

    /// Copies bytes from `at` on; fewer at the end of the file. Returns how many.
    pub(crate) fn read(&self, index: usize, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let Body::File(bytes) = &self.inodes[index].body else { return Err(fail(Errno::IsDir)) };
        let at = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        let count = into.len().min(bytes.len() - at);
        into[..count].copy_from_slice(&bytes[at..at + count]);
        Ok(count)
    }

    /// Writes at a place, or at the end of the file. Returns the end of what was written.
    pub(crate) fn write(&mut self, index: usize, at: Option<u64>, data: &[u8]) -> io::Result<u64> {
        let bytes = self.file(index)?;
        let at = at.unwrap_or(bytes.len() as u64);
        if data.is_empty() {
            return Ok(at);
        }
        let end = at.checked_add(data.len() as u64).filter(|&end| end <= MOST_BYTES);
        let end = end.ok_or_else(|| fail(Errno::FBig))?;
        if end > bytes.len() as u64 {
            bytes.resize(end as usize, 0);
        }
        bytes[at as usize..end as usize].copy_from_slice(data);
        self.touch(index);
        if let Some(record) = &mut self.record {
            record.write(by_inode(ino(index)), at, data);
        }
        Ok(end)
    }

    /// Cuts a file off, or fills it with zeros.
    pub(crate) fn set_size(&mut self, index: usize, size: u64) -> io::Result<()> {
        let bytes = self.file(index)?;
        if size > MOST_BYTES {
            return Err(fail(Errno::FBig));
        }
        bytes.resize(size as usize, 0);
        self.touch(index);
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        self.done(Request::SetAttr { ino: ino(index), set });
        Ok(())
    }

    /// Sets the permission bits (07777).
    pub(crate) fn set_mode(&mut self, index: usize, mode: u16) {
        self.inodes[index].mode = mode;
        let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
        self.done(Request::SetAttr { ino: ino(index), set });
    }

    /// A sync of a file or directory.
    pub(crate) fn sync(&mut self, index: usize, data_only: bool) {
        self.done(Request::Fsync { ino: ino(index), data_only });
    }

    fn touch(&mut self, index: usize) {
        self.clock += 1;
        self.inodes[index].modified = self.clock;
    }

    /// Records a call that was answered with success.
    fn done(&mut self, request: Request) {
        if let Some(record) = &mut self.record {
            record.done(request);
        }
    }
}
