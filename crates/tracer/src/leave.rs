//! The exit of a call that succeeded: what it changed.

use crate::arch::{Op, Place};
use crate::content::open_for_reading;
use crate::pending::{InCall, MOVES, Reached, Spot, Subject, xattr};
use crate::session::Session;
use crate::stat::Stat;
use crate::tracee::{Opened, Tracee, split};
use bytes::Bytes;
use seekless_calls::mark::check_mark;
use seekless_fs::call::{AllocateHow, FileKind, Ino, RenameHow, SetAttr};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

/// Flags of `pwritev2`.
const RWF_DSYNC: i32 = 2;
const RWF_SYNC: i32 = 4;
const RWF_APPEND: i32 = 16;
const RWF_NOAPPEND: i32 = 32;
/// `O_SYNC` without the bit of `O_DSYNC`.
const SYNC_BIT: i32 = libc::O_SYNC & !libc::O_DSYNC;
/// `RENAME_WHITEOUT`.
const WHITEOUT: u64 = 4;
/// The pages of a file that reach a disk as a whole.
const PAGE: u64 = 4096;
/// `FICLONE`; the other request is `FICLONERANGE`.
const WHOLE_CLONE: u32 = 0x4004_9409;

impl Session<'_> {
    /// Records a call that returned `result`, which is not negative.
    ///
    /// # Errors
    /// If something that it changed cannot be read.
    pub(crate) fn leave(&mut self, t: &mut Tracee, call: &InCall, result: u64) -> io::Result<()> {
        let args = &call.entered.args;
        match &call.subject {
            Subject::Open(flags, spot) => self.left_open(t, *flags, spot.as_ref(), result),
            Subject::File(ino, opened) => self.left_file(t, *ino, opened, (call.op, args), result),
            Subject::Acks(opened) => self.left_acks(t, opened, (call.op, args), result),
            Subject::Name(spot) => self.left_name(call.op, spot),
            Subject::Names(from, to) => {
                let flags = match call.op {
                    Op::Rename(_, _, Some(index)) => args[index],
                    _ => 0,
                };
                self.left_rename(from, to, flags)
            }
            Subject::Link(from, to) => self.left_link(*from, to),
            Subject::Object(ino, reached) => self.left_object(t, *ino, reached, (call.op, args)),
            Subject::Elsewhere => Ok(()),
            Subject::Syncs(numbers) => {
                numbers.iter().for_each(|&number| self.record.sync_answered(number, 0));
                Ok(())
            }
        }
    }

    fn left_open(
        &mut self,
        t: &mut Tracee,
        flags: i32,
        spot: Option<&Spot>,
        fd: u64,
    ) -> io::Result<()> {
        let Some(opened) = self.opened(t, fd) else { return Ok(()) };
        let stat = opened.stat;
        if stat.kind != FileKind::File || stat.key == self.acks.key {
            return Ok(());
        }
        if flags & libc::O_TMPFILE == libc::O_TMPFILE {
            return self.left_unnamed(&opened);
        }
        let known = self.record.objects.of(&stat);
        // An unnamed file has no name to be opened by: this is another file with its inode number.
        let is_new =
            known.and_then(|ino| self.record.objects.get(ino)).is_none_or(|old| old.links == 0);
        if let Some(ino) = known.filter(|_| !is_new) {
            if flags & libc::O_TRUNC != 0 {
                self.record.resize(ino, 0);
            }
            return Ok(());
        }
        let own = spot.and_then(Spot::own);
        let Some((dir, name)) = own.or_else(|| self.place_of(&opened)) else { return Ok(()) };
        let ino = self.record.make(dir, name, &stat, Bytes::new());
        if stat.size > 0 {
            // It was there, and the scan did not see it.
            let file = self.file(ino, &opened)?;
            self.record.content(ino, file.as_raw_fd())?;
        }
        Ok(())
    }

    fn left_unnamed(&mut self, opened: &Opened) -> io::Result<()> {
        let Some((dir, _)) = self.place_of(opened) else { return Ok(()) };
        debug_assert!(self.record.objects.is_directory(dir), "a file is no directory");
        let ino = self.record.unnamed(&opened.stat);
        // Held, so that its inode number does not come again while it may get a name.
        self.record.objects.hold(ino, open_for_reading(&opened.path())?);
        Ok(())
    }

    /// Directory and name of an open file, by the path that the kernel has of it.
    fn place_of(&self, opened: &Opened) -> Option<(Ino, Bytes)> {
        let path = opened.link().ok()?;
        let (dir, name) = split(&path)?;
        let dir = self.record.objects.of(&Stat::of_path(dir, true).ok()?)?;
        Some((dir, Bytes::copy_from_slice(name.as_bytes())))
    }

    fn left_file(
        &mut self,
        t: &Tracee,
        ino: Ino,
        opened: &Opened,
        (op, args): (Op, &[u64; 6]),
        result: u64,
    ) -> io::Result<()> {
        let (position, flags) = opened.position()?;
        let at = match op {
            Op::Write(place) => begin_of(place, args, opened, (position, flags), result)?,
            Op::Send(_) => position.saturating_sub(result),
            Op::Copy if args[3] != 0 => t.word(args[3]).saturating_sub(result),
            Op::Copy => position.saturating_sub(result),
            Op::Map => return self.left_map(ino, opened, args),
            Op::Allocate => return self.left_allocate(ino, opened, args),
            Op::Clone => return self.left_clone(t, ino, opened, args),
            _ => return Ok(()),
        };
        if result == 0 {
            return Ok(());
        }
        match opened.readable(flags) {
            Some(fd) => self.record.written(ino, fd, at, result)?,
            None => {
                let file = self.file(ino, opened)?;
                self.record.written(ino, file.as_raw_fd(), at, result)?;
            }
        }
        self.check_mode(ino, opened)?;
        let rwf = if op == Op::Write(Place::OffsetFlags) { args[5] as i32 } else { 0 };
        let is_synced = flags & libc::O_DSYNC != 0 || rwf & (RWF_DSYNC | RWF_SYNC) != 0;
        if is_synced {
            let data_only = flags & SYNC_BIT == 0 && rwf & RWF_SYNC == 0;
            let number = self.record.range_sync_asked((ino, data_only), at..at + result);
            self.record.sync_answered(number, 0);
        }
        Ok(())
    }

    /// Writes by others than root take rights away from a program that runs as its owner.
    fn check_mode(&mut self, ino: Ino, opened: &Opened) -> io::Result<()> {
        let mode = self.record.objects.get(ino).map_or(0, |object| object.mode);
        if mode & 0o6000 == 0 {
            return Ok(());
        }
        let stat = opened.again()?;
        if stat.mode != mode {
            let set = SetAttr { mode: Some(stat.mode), ..SetAttr::default() };
            self.record.set(ino, set, stat.size);
        }
        Ok(())
    }

    /// A descriptor of a file that can be read through.
    fn file(&mut self, ino: Ino, opened: &Opened) -> io::Result<Rc<OwnedFd>> {
        match self.record.objects.opened(ino) {
            Some(file) => Ok(file),
            None => Ok(self.record.objects.hold(ino, open_for_reading(&opened.path())?)),
        }
    }

    /// A file is mapped, and may be stored into at once or after `mprotect`.
    fn left_map(&mut self, ino: Ino, opened: &Opened, args: &[u64; 6]) -> io::Result<()> {
        if self.record.objects.mapping(ino).is_some() {
            return Ok(());
        }
        self.record.objects.map_to_read(ino, open_for_reading(&opened.path())?);
        let is_writable = args[2] as i32 & libc::PROT_WRITE != 0;
        if is_writable { self.record.map(ino) } else { Ok(()) }
    }

    fn left_allocate(&mut self, ino: Ino, opened: &Opened, args: &[u64; 6]) -> io::Result<()> {
        let (mode, at, length) = (args[1] as i32, args[2], args[3]);
        let size = opened.again()?.size;
        let keep_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let how = if mode & MOVES != 0 {
            return self.left_move(ino, opened, at, size);
        } else if mode & libc::FALLOC_FL_PUNCH_HOLE != 0 {
            AllocateHow::Punch
        } else if mode & libc::FALLOC_FL_ZERO_RANGE != 0 {
            AllocateHow::Zero { keep_size }
        } else if keep_size {
            AllocateHow::KeepSize
        } else {
            AllocateHow::Extend
        };
        self.record.allocate(ino, at, length, how, size);
        Ok(())
    }

    /// What is behind a place has moved: each of its pages becomes zeros and is written anew.
    ///
    /// XFS moves one extent a transaction. A power cut meanwhile leaves a gap of zeros between
    /// the pages that moved and those that did not. So zeros come in the order in which it moves
    /// pages, and a file is as large as it is at any time until all are in their places.
    fn left_move(&mut self, ino: Ino, opened: &Opened, from: u64, size: u64) -> io::Result<()> {
        let before = opened.stat.size;
        let file = self.file(ino, opened)?;
        let all = before.max(size);
        let mut pages: Vec<u64> = (from / PAGE..all.div_ceil(PAGE)).collect();
        if size > before {
            pages.reverse();
            self.record.resize(ino, size);
        }
        for page in pages {
            let (at, end) = ((page * PAGE).max(from), ((page + 1) * PAGE).min(all));
            let how = AllocateHow::Zero { keep_size: true };
            self.record.allocate(ino, at, end - at, how, all);
            self.record.written(ino, file.as_raw_fd(), at, end.min(size).saturating_sub(at))?;
        }
        if size < before {
            self.record.resize(ino, size);
        }
        Ok(())
    }

    fn left_clone(
        &mut self,
        t: &Tracee,
        ino: Ino,
        opened: &Opened,
        args: &[u64; 6],
    ) -> io::Result<()> {
        let size = opened.again()?.size;
        let (at, length) = if args[1] as u32 == WHOLE_CLONE {
            (0, size)
        } else {
            match (t.word(args[2] + 24), t.word(args[2] + 16)) {
                (at, 0) => (at, size.saturating_sub(at)),
                range => range,
            }
        };
        let file = self.file(ino, opened)?;
        self.record.written(ino, file.as_raw_fd(), at, length)
    }

    /// Whole lines that were written to the file of acknowledgements are marks.
    fn left_acks(
        &mut self,
        t: &Tracee,
        opened: &Opened,
        (op, args): (Op, &[u64; 6]),
        result: u64,
    ) -> io::Result<()> {
        let Op::Write(place) = op else { return Ok(()) };
        let at = begin_of(place, args, opened, opened.position()?, result)?;
        let mut bytes = vec![0; result as usize];
        let got = crate::content::read_at(self.acks.file.as_raw_fd(), &mut bytes, at)?;
        self.all_stores();
        let mut text = self.acks.begun.remove(&t.tid).unwrap_or_default();
        text.extend_from_slice(&bytes[..got]);
        let rest = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        for line in text[..rest].split_inclusive(|&byte| byte == b'\n') {
            self.mark(&line[..line.len() - 1]);
        }
        if rest < text.len() {
            self.acks.begun.insert(t.tid, text.split_off(rest));
        }
        Ok(())
    }

    /// Records an acknowledged line.
    pub(crate) fn mark(&mut self, line: &[u8]) {
        match check_mark(line) {
            Ok(value) => self.record.mark(value),
            Err(error) => self.trouble(error.to_string()),
        }
    }

    fn left_name(&mut self, op: Op, spot: &Spot) -> io::Result<()> {
        let Some((dir, name)) = spot.own() else { return Ok(()) };
        match op {
            Op::Remove(_) => self.record.remove_tree(dir, name),
            _ => self.arrived(dir, name, &spot.path)?,
        }
        Ok(())
    }

    fn left_rename(&mut self, from: &Spot, to: &Spot, flags: u64) -> io::Result<()> {
        let is_exchange = flags & u64::from(libc::RENAME_EXCHANGE) != 0;
        let how = if is_exchange {
            RenameHow::Exchange
        } else if flags & u64::from(libc::RENAME_NOREPLACE) != 0 {
            RenameHow::NoReplace
        } else {
            RenameHow::Replace
        };
        match (from.own(), to.own()) {
            (Some(from), Some(to)) => self.record.rename(from, to, how),
            (Some((dir, name)), None) => {
                self.record.remove_tree(dir, name.clone());
                if is_exchange {
                    self.arrived(dir, name, &from.path)?;
                }
            }
            (None, Some((dir, name))) => self.arrived(dir, name, &to.path)?,
            (None, None) => {}
        }
        if flags & WHITEOUT != 0
            && let Some((dir, name)) = from.own()
        {
            self.arrived(dir, name, &from.path)?;
        }
        Ok(())
    }

    fn left_link(&mut self, from: Option<Ino>, to: &Spot) -> io::Result<()> {
        let Some((dir, name)) = to.own() else { return Ok(()) };
        match from {
            Some(ino) => {
                let size = Stat::of_path(&to.path, false)?.size;
                self.record.link(ino, dir, name, size);
                Ok(())
            }
            None => self.arrived(dir, name, &to.path),
        }
    }

    fn left_object(
        &mut self,
        t: &Tracee,
        ino: Ino,
        reached: &Reached,
        (op, args): (Op, &[u64; 6]),
    ) -> io::Result<()> {
        let stat = reached.stat()?;
        match op {
            Op::Truncate(_) => {
                self.stores(ino);
                self.record.resize(ino, stat.size);
            }
            Op::Attributes(_) => self.attributes(ino, &stat, true),
            Op::Times(_) => {
                let set = SetAttr {
                    atime: Some(stat.atime),
                    mtime: Some(stat.mtime),
                    ..SetAttr::default()
                };
                self.record.set(ino, set, stat.size);
            }
            Op::SetXattr(_, index) => {
                let name = t.text(args[index]);
                let (path, follow) = reached.path();
                match xattr(&path, follow, &name) {
                    Ok(value) => {
                        self.record.xattr(ino, Bytes::from(name), Some(Bytes::from(value)));
                    }
                    // An access list that only says the mode again is not kept.
                    Err(error) if error.raw_os_error() == Some(libc::ENODATA) => {}
                    Err(error) => return Err(error),
                }
                // An access list changes the mode, too.
                self.attributes(ino, &stat, false);
            }
            Op::RemoveXattr(_, index) => {
                let name = t.text(args[index]);
                self.record.xattr(ino, Bytes::from(name), None);
                self.attributes(ino, &stat, false);
            }
            _ => {}
        }
        Ok(())
    }

    /// Records which of mode, owner and group changed; with `always`, a call that changed none,
    /// too.
    pub(crate) fn attributes(&mut self, ino: Ino, stat: &Stat, always: bool) {
        let Some(object) = self.record.objects.get(ino) else { return };
        let changed = |is_other: bool| is_other.then_some(());
        let mut set = SetAttr {
            mode: changed(object.mode != stat.mode).map(|()| stat.mode),
            uid: changed(object.uid != stat.uid).map(|()| stat.uid),
            gid: changed(object.gid != stat.gid).map(|()| stat.gid),
            ..SetAttr::default()
        };
        if set == SetAttr::default() {
            if !always {
                return;
            }
            set.mode = Some(stat.mode);
        }
        self.record.set(ino, set, stat.size);
    }
}

/// Where the bytes of a write begin that has ended.
fn begin_of(
    place: Place,
    args: &[u64; 6],
    opened: &Opened,
    (position, flags): (u64, i32),
    result: u64,
) -> io::Result<u64> {
    let (has_offset, rwf) = match place {
        Place::Position => (false, 0),
        Place::Offset => (true, 0),
        Place::OffsetFlags => (args[3] != u64::MAX, args[5] as i32),
    };
    // Linux appends whatever offset `pwrite` gives.
    let appends = flags & libc::O_APPEND != 0 && rwf & RWF_NOAPPEND == 0 || rwf & RWF_APPEND != 0;
    match (has_offset, appends) {
        (true, false) => Ok(args[3]),
        (true, true) => Ok(opened.again()?.size.saturating_sub(result)),
        (false, _) => Ok(position.saturating_sub(result)),
    }
}
