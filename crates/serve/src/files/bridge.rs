//! The side of the kernel: a thread of `fuser` hears its requests, makes calls of them and carries
//! them out. What must wait for a device is answered later, in any order.
//!
//! The kernel caches names and attributes for an hour. That is safe because each change passes
//! through it: it updates or drops the attributes of every object that an operation changes. It
//! also checks permissions, and clears set-user-id bits by `setattr` of its own.
//! `open`, `create` (it is `mknod` then), `flush` (at each `close`), extended attributes, locks and
//! `copy_file_range` are refused with `ENOSYS`: the kernel asks for each once and then never again.
//! Files have no handles, since the kernel forgets no inode of an open file.

use super::pending::Pending;
use super::shared::Shared;
use super::state::State;
use super::translate;
use bytes::Bytes;
use fuser::{
    BsdFileFlags, FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags, IoctlFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, TimeOrNow, WriteFlags,
};
use seekless_fs::call::{
    Credentials, Errno, Handle, MOST_NAME, MOST_SYMLINK, New, Request, SetAttr, Timestamp, by_inode,
};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::SystemTime;

/// Bytes of one read or write at most.
const MOST_BYTES: u32 = 1 << 20;
/// Requests that the kernel may have under way in the background (read-ahead), and how many of them
/// it calls many.
const MOST_BACKGROUND: u16 = 64;
const MANY_BACKGROUND: u16 = 48;

/// `_IOWR('X', 121, struct fstrim_range)`: give free space back.
const FITRIM: u32 = 0xc018_5879;

/// What the kernel is asked for beyond the defaults. Not among it is `FUSE_ATOMIC_O_TRUNC`: the
/// kernel truncates by `setattr`, whose answer it heeds. Nor `FUSE_HANDLE_KILLPRIV_V2`: `fuser`
/// does not hand on the flag of `setattr` that belongs to it. Nor `FUSE_ASYNC_DIO`: the kernel
/// drops cached pages when a direct write returns, and with it a write returns before it is done.
/// Buffered reads would then find old blocks for as long as the pages last.
const WANTED: [InitFlags; 5] = [
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_CACHE_SYMLINKS,
    // File handles outlive the cache: the kernel looks `.` up in an object that it has forgotten.
    InitFlags::FUSE_EXPORT_SUPPORT,
];

/// The side of the kernel.
#[derive(Debug)]
pub(super) struct Bridge {
    shared: Shared,
    /// The kernel is to write back.
    writeback: bool,
    /// The kernel opens files without asking once it has been refused.
    opens_alone: bool,
}

impl Bridge {
    /// Carries requests out there.
    pub(super) fn new(shared: Shared, writeback: bool) -> Bridge {
        Bridge { shared, writeback, opens_alone: false }
    }

    fn ask(&self, from: &fuser::Request, request: Request, pending: Pending) {
        self.ask_at(from, now(), request, pending);
    }

    fn ask_at(&self, from: &fuser::Request, now: Timestamp, request: Request, pending: Pending) {
        let by = (credentials(from), now);
        // Without a state the file system has ended; a question that is dropped gets an error.
        let _ = self.shared.enter(|state| state.take(by, request, pending));
    }

    /// Asks for what a name, or whatever else was checked, allows.
    fn ask_if(&self, from: &fuser::Request, request: Result<Request, Errno>, pending: Pending) {
        match request {
            Ok(request) => self.ask(from, request, pending),
            Err(errno) => pending.fail(errno),
        }
    }

    fn make(
        &self,
        from: &fuser::Request,
        (parent, name): (INodeNo, &OsStr),
        what: Result<New, Errno>,
        mode: u32,
        pending: Pending,
    ) {
        let (dir, mode) = (translate::ino(parent), translate::permissions(mode));
        let request = self::name(name)
            .and_then(|name| Ok(Request::Make { dir, name, what: what?, mode, open: false }));
        self.ask_if(from, request, pending);
    }
}

fn now() -> Timestamp {
    translate::timestamp(SystemTime::now())
}

/// A name as the kernel gives it: without slashes, but it may be too long.
fn name(name: &OsStr) -> Result<Bytes, Errno> {
    match name.len() {
        0 => Err(Errno::NoEnt),
        1..=MOST_NAME => Ok(Bytes::copy_from_slice(name.as_bytes())),
        _ => Err(Errno::NameTooLong),
    }
}

fn credentials(from: &fuser::Request) -> Credentials {
    Credentials { uid: from.uid(), gid: from.gid() }
}

/// A file that is open. What the kernel calls its handle says nothing.
fn file(number: INodeNo) -> Handle {
    by_inode(translate::ino(number))
}

impl Filesystem for Bridge {
    fn init(&mut self, _: &fuser::Request, config: &mut KernelConfig) -> io::Result<()> {
        // The kernel may offer less than it is asked for, which works as well.
        let _ = config.set_max_write(MOST_BYTES);
        let _ = config.set_max_readahead(MOST_BYTES);
        let _ = config.set_max_background(MOST_BACKGROUND);
        let _ = config.set_congestion_threshold(MANY_BACKGROUND);
        for flag in WANTED {
            let _ = config.add_capabilities(flag);
        }
        if self.writeback {
            // From then on size and times of a file with unwritten pages are the kernel's: it
            // flushes them before it asks for anything that depends on them.
            let _ = config.add_capabilities(InitFlags::FUSE_WRITEBACK_CACHE);
        }
        self.opens_alone = config.add_capabilities(InitFlags::FUSE_NO_OPEN_SUPPORT).is_ok();
        Ok(())
    }

    fn destroy(&mut self) {
        let _ = self.shared.enter(State::stop_files);
    }

    fn lookup(&self, from: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let dir = translate::ino(parent);
        let request = self::name(name).map(|name| Request::Lookup { dir, name });
        self.ask_if(from, request, Pending::Lookup(reply));
    }

    fn forget(&self, from: &fuser::Request, number: INodeNo, count: u64) {
        let ino = translate::ino(number);
        self.ask(from, Request::Forget { ino, count }, Pending::None);
    }

    fn getattr(
        &self,
        from: &fuser::Request,
        number: INodeNo,
        _: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        self.ask(from, Request::Attr { ino: translate::ino(number) }, Pending::Attr(reply));
    }

    fn setattr(
        &self,
        from: &fuser::Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        opened: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let now = now();
        let set = SetAttr {
            mode: mode.map(translate::permissions),
            uid,
            gid,
            size,
            atime: atime.map(|time| translate::given_time(time, now)),
            mtime: mtime.map(|time| translate::given_time(time, now)),
            handle: opened.map(|_| file(number)),
        };
        let request = Request::SetAttr { ino: translate::ino(number), set };
        self.ask_at(from, now, request, Pending::Attr(reply));
    }

    fn readlink(&self, from: &fuser::Request, number: INodeNo, reply: ReplyData) {
        self.ask(from, Request::ReadLink { ino: translate::ino(number) }, Pending::Text(reply));
    }

    fn mknod(
        &self,
        from: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let what = translate::special(mode, device);
        self.make(from, (parent, name), what, mode, Pending::Entry(reply));
    }

    fn mkdir(
        &self,
        from: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        self.make(from, (parent, name), Ok(New::Directory), mode, Pending::Entry(reply));
    }

    fn symlink(
        &self,
        from: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        text: &Path,
        reply: ReplyEntry,
    ) {
        let text = text.as_os_str().as_bytes();
        let what = match text.len() {
            0..=MOST_SYMLINK => Ok(New::Symlink(Bytes::copy_from_slice(text))),
            _ => Err(Errno::NameTooLong),
        };
        self.make(from, (parent, name), what, 0o777, Pending::Entry(reply));
    }

    fn create(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        // The kernel makes files by `mknod` then, and opens them without asking.
        reply.error(fuser::Errno::ENOSYS);
    }

    fn unlink(&self, from: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let dir = translate::ino(parent);
        let request = self::name(name).map(|name| Request::Unlink { dir, name });
        self.ask_if(from, request, Pending::Empty(reply));
    }

    fn rmdir(&self, from: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let dir = translate::ino(parent);
        let request = self::name(name).map(|name| Request::RmDir { dir, name });
        self.ask_if(from, request, Pending::Empty(reply));
    }

    fn rename(
        &self,
        from: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        to_parent: INodeNo,
        to_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (dir, to_dir) = (translate::ino(parent), translate::ino(to_parent));
        let request = translate::rename_how(flags).and_then(|how| {
            let (name, to_name) = (self::name(name)?, self::name(to_name)?);
            Ok(Request::Rename { dir, name, to_dir, to_name, how })
        });
        self.ask_if(from, request, Pending::Empty(reply));
    }

    fn link(
        &self,
        from: &fuser::Request,
        number: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let (ino, dir) = (translate::ino(number), translate::ino(parent));
        let request = self::name(name).map(|name| Request::Link { ino, dir, name });
        self.ask_if(from, request, Pending::Entry(reply));
    }

    fn open(&self, _: &fuser::Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.opens_alone {
            true => reply.error(fuser::Errno::ENOSYS),
            // The kernel keeps its pages from one opening to the next.
            false => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
        }
    }

    fn opendir(&self, from: &fuser::Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let request = Request::Open { ino: translate::ino(number), truncate: false };
        self.ask(from, request, Pending::OpenDirectory(reply));
    }

    fn release(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn releasedir(
        &self,
        from: &fuser::Request,
        _: INodeNo,
        opened: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.ask(from, Request::Release { handle: opened.0 }, Pending::Empty(reply));
    }

    fn read(
        &self,
        from: &fuser::Request,
        number: INodeNo,
        _: FileHandle,
        at: u64,
        length: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let request = Request::Read { handle: file(number), at, length };
        self.ask(from, request, Pending::Data(reply));
    }

    /// The kernel knows the size of the file, and so where `O_APPEND` writes.
    fn write(
        &self,
        from: &fuser::Request,
        number: INodeNo,
        _: FileHandle,
        at: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let data = Bytes::copy_from_slice(data);
        let request = Request::Write { handle: file(number), at, data, append: false };
        self.ask(from, request, Pending::Write(reply));
    }

    fn fsync(
        &self,
        from: &fuser::Request,
        number: INodeNo,
        _: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let request = Request::Fsync { ino: translate::ino(number), data_only };
        self.ask(from, request, Pending::Empty(reply));
    }

    /// `fstrim` asks for FITRIM of the root directory. The kernel hands 24 bytes in and out: start,
    /// length and the shortest run, in bytes.
    fn ioctl(
        &self,
        from: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        command: u32,
        input: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        let Some(range) = translate::three_words(input).filter(|_| command == FITRIM) else {
            return reply.error(fuser::Errno::ENOTTY);
        };
        let pending = Pending::Trim(reply, range);
        let is_owner = from.uid() == rustix::process::geteuid().as_raw();
        if from.uid() != 0 && !is_owner {
            return pending.fail(Errno::Perm);
        }
        let [start, length, least] = range;
        let to = start.saturating_add(length);
        self.ask(from, Request::Trim { from: start, to, least }, pending);
    }

    fn fsyncdir(
        &self,
        from: &fuser::Request,
        number: INodeNo,
        opened: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.fsync(from, number, opened, data_only, reply);
    }

    fn readdir(
        &self,
        from: &fuser::Request,
        _: INodeNo,
        opened: FileHandle,
        cookie: u64,
        reply: ReplyDirectory,
    ) {
        let request = Request::List { handle: opened.0, cookie, most_bytes: super::LIST_BYTES };
        self.ask(from, request, Pending::List(reply));
    }

    fn readdirplus(
        &self,
        from: &fuser::Request,
        number: INodeNo,
        opened: FileHandle,
        cookie: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let request = Request::List { handle: opened.0, cookie, most_bytes: super::LIST_BYTES };
        self.ask(from, request, Pending::ListPlus { reply, dir: translate::ino(number) });
    }

    fn statfs(&self, from: &fuser::Request, _: INodeNo, reply: ReplyStatfs) {
        self.ask(from, Request::Space, Pending::Statfs(reply));
    }

    fn fallocate(
        &self,
        from: &fuser::Request,
        number: INodeNo,
        _: FileHandle,
        at: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let handle = file(number);
        let request =
            translate::allocate_how(mode).map(|how| Request::Allocate { handle, at, length, how });
        self.ask_if(from, request, Pending::Empty(reply));
    }

    fn lseek(
        &self,
        from: &fuser::Request,
        number: INodeNo,
        _: FileHandle,
        at: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let handle = file(number);
        let request = translate::seek_what(whence).and_then(|what| {
            let at = u64::try_from(at).map_err(|_| Errno::NxIo)?;
            Ok(Request::Seek { handle, at, what })
        });
        self.ask_if(from, request, Pending::Seek(reply));
    }
}
