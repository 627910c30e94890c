//! The entry of a call: whether it is about the directory of the run, and what has to be known
//! before it is carried out.

use crate::arch::{At, Follow, Of, Op};
use crate::pending::{Reached, Spot, Subject};
use crate::ptrace::Entered;
use crate::session::Session;
use crate::stat::Stat;
use crate::tracee::{Opened, Tracee, split};
use bytes::Bytes;
use seekless_fs::call::{FileKind, Ino};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Flags of an open that makes or empties a file.
const MAKES: i32 = libc::O_CREAT | libc::O_TRUNC | libc::O_TMPFILE & !libc::O_DIRECTORY;

/// Symbolic links that Linux follows at most.
const MOST_LINKS: usize = 40;

impl Session<'_> {
    /// What a call is about; `None` if it is of no interest.
    pub(crate) fn enter(&mut self, t: &mut Tracee, e: &Entered, op: Op) -> Option<Subject> {
        let args = &e.args;
        match op {
            Op::Open(at, flags) => {
                let creat = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                let flags = flags.map_or(creat, |index| args[index] as i32);
                self.enter_open(t, t.path_of(at, args), flags)
            }
            Op::OpenHow => {
                let flags = t.word(args[2]) as i32;
                (flags & MAKES != 0).then_some(Subject::Open(flags, None))
            }
            Op::Write(_) | Op::Send(_) | Op::Allocate | Op::Clone => self.enter_file(t, args[0]),
            Op::Copy => self.enter_file(t, args[2]),
            Op::Map => self.enter_file(t, args[4]).filter(|subject| match subject {
                // Only such a mapping may ever be written through.
                Subject::File(_, opened) => opened
                    .position()
                    .is_ok_and(|(_, flags)| flags & libc::O_ACCMODE == libc::O_RDWR),
                _ => false,
            }),
            Op::Make(at) | Op::Remove(at) | Op::Symlink(at) => {
                let spot = self.spot(t, at, args);
                spot.dir.is_some().then_some(Subject::Name(spot))
            }
            Op::Bind => self.enter_bind(t, args),
            Op::Rename(from, to, _) => {
                let (from, to) = (self.spot(t, from, args), self.spot(t, to, args));
                let is_ours = from.dir.is_some() || to.dir.is_some();
                is_ours.then_some(Subject::Names(from, to))
            }
            Op::Link(from, follow, to) => {
                let to = self.spot(t, to, args);
                to.dir?;
                let path = t.path_of(from, args);
                // A path below `/proc/TID/fd` names a file, though it is a link itself.
                let follow = follows(follow, args) || is_descriptor(&path);
                let from = self.look(t, &path, follow)?;
                Some(Subject::Link(self.record.objects.of(&from), to))
            }
            Op::Truncate(of) | Op::Attributes(of) | Op::Times(of) => self.enter_object(t, of, args),
            Op::SetXattr(of, _) | Op::RemoveXattr(of, _) => self.enter_object(t, of, args),
            Op::SyncFile(_) | Op::SyncAll(_) | Op::SyncMap => self.enter_sync(t, op, args),
            Op::Protect => {
                self.enter_protect(t, args);
                None
            }
            Op::Refused(..) => None,
        }
    }

    fn enter_open(&mut self, t: &Tracee, path: PathBuf, flags: i32) -> Option<Subject> {
        if flags & libc::O_TMPFILE == libc::O_TMPFILE {
            let dir = self.look(t, &path, true)?;
            self.record.objects.of(&dir)?;
            return Some(Subject::Open(flags, None));
        }
        let (mut spot, mut links) = (self.spot_of(t, path), 0);
        // A link may lead into the directory, whatever it is called.
        let target = loop {
            let target = Stat::of_path(&spot.path, false).ok();
            let is_link = target.is_some_and(|target| target.kind == FileKind::Symlink);
            if !is_link || links == MOST_LINKS {
                break target;
            }
            links += 1;
            spot = self.spot_of(t, behind(t, &spot.path)?);
        };
        match target {
            // The open of a pipe waits for its other end, and empties nothing.
            Some(target) if target.kind != FileKind::File => None,
            Some(target) if spot.dir.is_none() => {
                self.record.objects.of(&target).map(|_| Subject::Open(flags, None))
            }
            _ => spot.dir.is_some().then_some(Subject::Open(flags, Some(spot))),
        }
    }

    fn enter_file(&mut self, t: &mut Tracee, fd: u64) -> Option<Subject> {
        let opened = self.opened(t, fd)?;
        if opened.stat.kind != FileKind::File {
            return None;
        }
        if opened.stat.key == self.acks.key {
            return Some(Subject::Acks(opened));
        }
        self.record.objects.of(&opened.stat).map(|ino| Subject::File(ino, opened))
    }

    fn enter_object(&mut self, t: &mut Tracee, of: Of, args: &[u64; 6]) -> Option<Subject> {
        let (stat, reached) = match of {
            Of::Fd => self.by_fd(t, args[0])?,
            // `utimensat` without a path is about the descriptor.
            Of::Path(At::Dir(dir), _) if args[dir + 1] == 0 => self.by_fd(t, args[dir])?,
            Of::Path(at, follow) => {
                let path = t.path_of(at, args);
                let follow = follows(follow, args) || is_descriptor(&path);
                (self.look(t, &path, follow)?, Reached::Path(path, follow))
            }
        };
        self.record.objects.of(&stat).map(|ino| Subject::Object(ino, reached))
    }

    fn by_fd(&mut self, t: &mut Tracee, fd: u64) -> Option<(Stat, Reached)> {
        let opened = self.opened(t, fd)?;
        Some((opened.stat, Reached::Fd(opened)))
    }

    fn enter_bind(&mut self, t: &Tracee, args: &[u64; 6]) -> Option<Subject> {
        let mut address = [0_u8; 110];
        let length = (args[2] as usize).min(address.len());
        let got = t.memory(args[1], &mut address[..length]);
        let (family, path) = address[..got].split_first_chunk::<2>()?;
        let path = path.split(|&byte| byte == 0).next().filter(|path| !path.is_empty())?;
        if i32::from(u16::from_le_bytes(*family)) != libc::AF_UNIX {
            return None;
        }
        let spot = self.spot_of(t, t.path(None, path));
        spot.dir.is_some().then_some(Subject::Name(spot))
    }

    fn enter_sync(&mut self, t: &mut Tracee, op: Op, args: &[u64; 6]) -> Option<Subject> {
        match op {
            Op::SyncFile(data_only) => {
                let opened = self.opened(t, args[0])?;
                let ino = self.record.objects.of(&opened.stat)?;
                self.stores(ino);
                Some(Subject::Syncs(vec![self.record.sync_asked(Some((ino, data_only)))]))
            }
            Op::SyncMap => self.enter_sync_map(t, args),
            Op::SyncAll(of_fd) => {
                if of_fd && self.opened(t, args[0])?.stat.key.0 != self.device {
                    return None;
                }
                self.all_stores();
                Some(Subject::Syncs(vec![self.record.sync_asked(None)]))
            }
            _ => None,
        }
    }

    /// `msync`: what was stored into the range is covered, what was stored elsewhere is not.
    fn enter_sync_map(&mut self, t: &Tracee, args: &[u64; 6]) -> Option<Subject> {
        let mapped = self.record.objects.mapped();
        if mapped.is_empty() {
            return None;
        }
        let mut calls = Vec::new();
        for (ino, within) in self.maps(t, args, &mapped) {
            self.stores_within(ino, within.clone());
            if args[2] as i32 & libc::MS_SYNC != 0 {
                calls.push(self.record.range_sync_asked((ino, true), within));
            }
        }
        (!calls.is_empty()).then_some(Subject::Syncs(calls))
    }

    /// Memory becomes writable: files that are mapped there may be stored into from now on.
    fn enter_protect(&mut self, t: &Tracee, args: &[u64; 6]) {
        let readable = self.record.objects.mapped_to_read();
        if readable.is_empty() {
            return;
        }
        for (ino, _) in self.maps(t, args, &readable) {
            if let Err(error) = self.record.map(ino) {
                self.trouble(format!("a file that is mapped cannot be read: {error}"));
            }
        }
    }

    /// Which of some files are mapped in the range of memory that two arguments say, and which
    /// part of each.
    fn maps(&self, t: &Tracee, args: &[u64; 6], of: &[Ino]) -> Vec<(Ino, Range<u64>)> {
        let range = args[0]..args[0].saturating_add(args[1]);
        let maps = std::fs::read_to_string(t.proc("maps")).unwrap_or_default();
        let maps = maps.lines().filter_map(Map::parse).filter(|map| map.overlaps(&range));
        let found = maps.filter_map(|map| {
            let is_it = |ino: &&Ino| {
                self.record.objects.get(**ino).is_some_and(|object| object.key.1 == map.inode)
            };
            of.iter().find(is_it).map(|&ino| (ino, map.within(&range)))
        });
        found.collect()
    }

    /// An open file of a thread; `None` if there is none.
    pub(crate) fn opened(&mut self, t: &mut Tracee, fd: u64) -> Option<Opened> {
        t.opened(fd).map_err(|error| self.out_of_reach(t.tid, &error)).ok()
    }

    fn look(&mut self, t: &Tracee, path: &Path, follow: bool) -> Option<Stat> {
        Stat::of_path(path, follow).map_err(|error| self.out_of_reach(t.tid, &error)).ok()
    }

    fn spot(&mut self, t: &Tracee, at: At, args: &[u64; 6]) -> Spot {
        self.spot_of(t, t.path_of(at, args))
    }

    /// The directory of a path, found as the kernel finds it, and the last name.
    pub(crate) fn spot_of(&mut self, t: &Tracee, path: PathBuf) -> Spot {
        let Some((dir, name)) = split(&path) else {
            return Spot { dir: None, name: Bytes::new(), path };
        };
        let name = Bytes::copy_from_slice(name.as_bytes());
        let dir = self.look(t, dir, true).filter(|dir| dir.kind == FileKind::Directory);
        let dir = dir.and_then(|dir| self.record.objects.of(&dir));
        Spot { dir, name, path }
    }

    /// Notes that a thread cannot be watched. That something does not exist, the call itself finds.
    fn out_of_reach(&mut self, tid: i32, error: &io::Error) {
        // A thread that is being killed is out of reach, too, and does not carry the call out.
        if error.kind() != io::ErrorKind::PermissionDenied || crate::ptrace::message(tid).is_none()
        {
            return;
        }
        let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()).unwrap_or("?").to_owned()
        };
        let (name, uid, process) = (field("Name:"), field("Uid:"), field("Tgid:"));
        self.trouble(format!(
            "process {process} ({name}, user {uid}) cannot be watched: {error}; run the recorder \
             as that user, or add CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
        ));
    }
}

/// Where a symbolic link leads. Links below `/proc/TID/fd` lead to what is open.
fn behind(t: &Tracee, link: &Path) -> Option<PathBuf> {
    let text = std::fs::read_link(link).ok()?;
    let bytes = text.as_os_str().as_bytes();
    match split(link) {
        _ if bytes.starts_with(b"/") => Some(t.path(None, bytes)),
        Some((dir, _)) => Some(dir.join(text)),
        None => None,
    }
}

fn follows(follow: Follow, args: &[u64; 6]) -> bool {
    let has = |index: usize, flag: i32| args[index] as i32 & flag != 0;
    match follow {
        Follow::Always => true,
        Follow::Never => false,
        Follow::Unless(index) => !has(index, libc::AT_SYMLINK_NOFOLLOW),
        Follow::If(index) => has(index, libc::AT_SYMLINK_FOLLOW),
    }
}

/// True for `/proc/TID/fd/N`, made of a descriptor and an empty path.
fn is_descriptor(path: &Path) -> bool {
    let mut parts = path.components().rev().map(std::path::Component::as_os_str);
    let is_number = parts.next().is_some_and(|part| part.as_bytes().iter().all(u8::is_ascii_digit));
    is_number && parts.next().is_some_and(|part| part == "fd") && path.starts_with("/proc")
}

/// A line of `/proc/TID/maps`.
struct Map {
    from: u64,
    end: u64,
    offset: u64,
    inode: u64,
}

impl Map {
    fn parse(line: &str) -> Option<Map> {
        let mut fields = line.split_whitespace();
        let (from, end) = fields.next()?.split_once('-')?;
        let offset = fields.nth(1)?;
        let inode = fields.nth(1)?.parse().ok()?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        Some(Map { from: hex(from)?, end: hex(end)?, offset: hex(offset)?, inode })
    }

    fn overlaps(&self, range: &Range<u64>) -> bool {
        self.from < range.end && range.start < self.end
    }

    /// The part of the file that a range of memory shows.
    fn within(&self, range: &Range<u64>) -> Range<u64> {
        let at = |address: u64| address.clamp(self.from, self.end) - self.from + self.offset;
        at(range.start)..at(range.end)
    }
}
