//! Calls of scripts as system calls on a directory.
//!
//! The ids of a script stand for open descriptors: an object is one that `O_PATH` opened, and a
//! handle is an open file. So a script reaches objects without names, as programs do.

use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{
    self, AtFlags, FallocateFlags, FileType, Gid, Mode, OFlags, RenameFlags, SeekFrom, Stat,
    Timespec, Timestamps, UTIME_OMIT, Uid,
};
use rustix::io::Errno;
use seekless_fs::call::{AllocateHow, Call, New, ROOT, RenameHow, Request, SeekWhat, SetAttr};
use std::collections::BTreeMap;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What a call brings.
#[derive(Debug)]
pub enum Got {
    Nothing,
    Object(Box<Stat>),
    Bytes(Vec<u8>),
    Written(usize),
    Names(Vec<Vec<u8>>),
    At(u64),
}

/// A mounted directory, and what a script holds of it.
#[derive(Debug)]
pub struct Kernel {
    objects: BTreeMap<u64, OwnedFd>,
    handles: BTreeMap<u64, OwnedFd>,
}

impl Kernel {
    pub fn new(root: &Path) -> Kernel {
        let root = fs::open(root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let objects = BTreeMap::from([(ROOT, root.expect("the root opens"))]);
        Kernel { objects, handles: BTreeMap::new() }
    }

    fn object(&self, id: u64) -> Result<BorrowedFd<'_>, Errno> {
        self.objects.get(&id).map(|fd| fd.as_fd()).ok_or(Errno::BADF)
    }

    fn handle(&self, id: u64) -> Result<BorrowedFd<'_>, Errno> {
        self.handles.get(&id).map(|fd| fd.as_fd()).ok_or(Errno::BADF)
    }

    /// Makes the system calls of a call.
    pub fn run(&mut self, call: &Call) -> Result<Got, Errno> {
        match &call.request {
            Request::Lookup { dir, name } => self.hold(call.id, *dir, name),
            Request::Make { dir, name, what, mode, open } => {
                let handle = make(self.object(*dir)?, name, what, *mode)?;
                if let (true, Some(handle)) = (*open, handle) {
                    self.handles.insert(call.id, handle);
                }
                self.hold(call.id, *dir, name)
            }
            Request::Link { ino, dir, name } => {
                let (file, to) = (self.object(*ino)?, self.object(*dir)?);
                fs::linkat(file, "", to, &name[..], AtFlags::EMPTY_PATH)?;
                self.hold(call.id, *dir, name)
            }
            Request::Forget { ino, .. } => {
                if *ino != ROOT {
                    self.objects.remove(ino);
                }
                Ok(Got::Nothing)
            }
            Request::Release { handle } => {
                self.handles.remove(handle);
                Ok(Got::Nothing)
            }
            Request::Open { ino, truncate } => {
                let opened = open(self.object(*ino)?, *truncate)?;
                self.handles.insert(call.id, opened);
                Ok(Got::Nothing)
            }
            Request::Attr { ino } => stat(self.object(*ino)?),
            Request::SetAttr { ino, set } => set_attr(self.object(*ino)?, set),
            Request::ReadLink { ino } => {
                let text = fs::readlinkat(self.object(*ino)?, "", Vec::new())?;
                Ok(Got::Bytes(text.into_bytes()))
            }
            Request::Fsync { ino, data_only } => {
                let file = open(self.object(*ino)?, false)?;
                if *data_only {
                    fs::fdatasync(file)?
                } else {
                    fs::fsync(file)?
                }
                Ok(Got::Nothing)
            }
            request => self.more(request),
        }
    }

    /// Calls that bring no object and no handle.
    fn more(&self, request: &Request) -> Result<Got, Errno> {
        match request {
            Request::Unlink { dir, name } => {
                fs::unlinkat(self.object(*dir)?, &name[..], AtFlags::empty())?;
            }
            Request::RmDir { dir, name } => {
                fs::unlinkat(self.object(*dir)?, &name[..], AtFlags::REMOVEDIR)?;
            }
            Request::Rename { dir, name, to_dir, to_name, how } => {
                let how = match how {
                    RenameHow::Replace => RenameFlags::empty(),
                    RenameHow::NoReplace => RenameFlags::NOREPLACE,
                    RenameHow::Exchange => RenameFlags::EXCHANGE,
                };
                let (from, to) = (self.object(*dir)?, self.object(*to_dir)?);
                fs::renameat_with(from, &name[..], to, &to_name[..], how)?;
            }
            Request::Read { handle, at, length } => {
                let mut bytes = vec![0; *length as usize];
                let read = rustix::io::pread(self.handle(*handle)?, &mut bytes[..], *at)?;
                bytes.truncate(read);
                return Ok(Got::Bytes(bytes));
            }
            Request::Write { handle, at, data, append } => {
                let file = self.handle(*handle)?;
                let at = if *append { fs::fstat(file)?.st_size as u64 } else { *at };
                return rustix::io::pwrite(file, data, at).map(Got::Written);
            }
            Request::List { handle, most_bytes, .. } => {
                return list(self.handle(*handle)?, *most_bytes);
            }
            Request::Allocate { handle, at, length, how } => {
                let how = match how {
                    AllocateHow::Extend => FallocateFlags::empty(),
                    AllocateHow::KeepSize => FallocateFlags::KEEP_SIZE,
                    AllocateHow::Punch => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                    AllocateHow::Zero { keep_size: false } => FallocateFlags::ZERO_RANGE,
                    AllocateHow::Zero { keep_size: true } => {
                        FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE
                    }
                };
                fs::fallocate(self.handle(*handle)?, how, *at, *length)?;
            }
            Request::Seek { handle, at, what } => {
                let to = match what {
                    SeekWhat::Data => SeekFrom::Data(*at),
                    SeekWhat::Hole => SeekFrom::Hole(*at),
                };
                return fs::seek(self.handle(*handle)?, to).map(Got::At);
            }
            Request::Sync => fs::fsync(open(self.object(ROOT)?, false)?)?,
            _ => {
                let space = fs::fstatvfs(self.object(ROOT)?)?;
                assert!(space.f_bfree <= space.f_blocks && space.f_bavail <= space.f_bfree);
                assert!(space.f_ffree <= space.f_files);
            }
        }
        Ok(Got::Nothing)
    }

    /// Opens the object of a name, for an id.
    fn hold(&mut self, id: u64, dir: u64, name: &[u8]) -> Result<Got, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = fs::openat(self.object(dir)?, name, flags, Mode::empty())?;
        let got = stat(found.as_fd());
        self.objects.insert(id, found);
        got
    }
}

fn stat(object: BorrowedFd<'_>) -> Result<Got, Errno> {
    fs::fstat(object).map(|stat| Got::Object(Box::new(stat)))
}

/// A path to the object of a descriptor that `O_PATH` opened.
fn path(object: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", object.as_raw_fd())
}

fn open(object: BorrowedFd<'_>, truncate: bool) -> Result<OwnedFd, Errno> {
    let directory = FileType::from_raw_mode(fs::fstat(object)?.st_mode) == FileType::Directory;
    let access = if directory && !truncate { OFlags::RDONLY } else { OFlags::RDWR };
    let cut = if truncate { OFlags::TRUNC } else { OFlags::empty() };
    fs::open(path(object), access | cut | OFlags::CLOEXEC, Mode::empty())
}

fn make(dir: BorrowedFd<'_>, name: &[u8], what: &New, mode: u16) -> Result<Option<OwnedFd>, Errno> {
    let mode = Mode::from_raw_mode(mode.into());
    let special = |kind| fs::mknodat(dir, name, kind, mode, 0).map(|()| None);
    match what {
        New::File => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
            fs::openat(dir, name, flags, mode).map(Some)
        }
        New::Directory => fs::mkdirat(dir, name, mode).map(|()| None),
        New::Symlink(text) => fs::symlinkat(&text[..], dir, name).map(|()| None),
        New::Fifo => special(FileType::Fifo),
        New::Socket => special(FileType::Socket),
        New::CharDevice(_) => special(FileType::CharacterDevice),
        New::BlockDevice(_) => special(FileType::BlockDevice),
    }
}

fn set_attr(object: BorrowedFd<'_>, set: &SetAttr) -> Result<Got, Errno> {
    if let Some(size) = set.size {
        fs::ftruncate(open(object, false)?, size)?;
    }
    if set.uid.is_some() || set.gid.is_some() {
        let (uid, gid) = (set.uid.map(Uid::from_raw), set.gid.map(Gid::from_raw));
        fs::chownat(object, "", uid, gid, AtFlags::EMPTY_PATH)?;
    }
    if let Some(mode) = set.mode {
        fs::chmod(path(object), Mode::from_raw_mode(mode.into()))?;
    }
    if set.atime.is_some() || set.mtime.is_some() {
        let time = |set: Option<i64>| match set {
            Some(at) => Timespec {
                tv_sec: at.div_euclid(1_000_000_000),
                tv_nsec: at.rem_euclid(1_000_000_000),
            },
            None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        };
        let times = Timestamps { last_access: time(set.atime), last_modification: time(set.mtime) };
        fs::utimensat(object, "", &times, AtFlags::EMPTY_PATH)?;
    }
    stat(object)
}

/// Lists a directory from its beginning, in pieces.
fn list(handle: BorrowedFd<'_>, most_bytes: u32) -> Result<Got, Errno> {
    fs::seek(handle, SeekFrom::Start(0))?;
    let mut names = Vec::new();
    let mut piece = Vec::with_capacity(most_bytes as usize);
    let mut entries = fs::RawDir::new(handle, piece.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    names.sort();
    Ok(Got::Names(names))
}

/// The names in a directory, in order.
pub fn names(dir: &Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(dir).expect("a directory");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.expect("an entry").file_name().as_bytes().to_vec()
    };
    let mut names: Vec<_> = entries.map(name).collect();
    names.sort();
    names
}
