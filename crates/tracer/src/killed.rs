//! A thread that was killed during a change: what the change did is looked up in the files.
//!
//! The exit of such a call is not reported. The thread is gone when its end is, so the call has
//! done all that it will do, and no other change has begun meanwhile. Its paths and its memory are
//! gone, too: files are reached by the names that the record has of them.

use crate::arch::Op;
use crate::content::open_for_reading;
use crate::pending::{InCall, Spot, Subject};
use crate::ptrace::Entered;
use crate::session::Session;
use crate::stat::Stat;
use crate::tracee::Opened;
use bytes::Bytes;
use seekless_fs::call::{Ino, ROOT, RenameHow};
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

impl Session<'_> {
    /// Records what a call did whose thread was killed in it.
    pub(crate) fn killed(&mut self, call: InCall) {
        let op = call.op;
        if let Err(error) = self.look_up(call) {
            self.trouble(format!(
                "a thread was killed during a change ({op:?}), and what it did cannot be read: \
                 {error}"
            ));
        }
    }

    fn look_up(&mut self, call: InCall) -> io::Result<()> {
        match call.subject {
            Subject::Open(flags, Some(spot)) => {
                self.reconcile(&spot)?;
                let own = spot.own();
                let ino = own.and_then(|(dir, name)| self.record.objects.named(dir, &name));
                match ino.filter(|_| flags & libc::O_TRUNC != 0) {
                    Some(ino) => self.reconcile_size(ino),
                    None => Ok(()),
                }
            }
            // A file that never gets a name shows nowhere.
            Subject::Open(flags, None) if flags & libc::O_TMPFILE == libc::O_TMPFILE => Ok(()),
            Subject::Open(_, None) => Err(io::Error::other("it was opened through a link")),
            Subject::Name(spot) | Subject::Link(_, spot) => self.reconcile(&spot),
            Subject::Names(from, to) => self.reconcile_rename(&from, &to),
            Subject::File(_, _) if call.op == Op::Map => Ok(()),
            Subject::File(ino, opened) => self.reconcile_content(ino, &opened, &call.entered),
            Subject::Object(ino, _) => {
                let stat = Stat::of_path(&self.path_of(ino)?, false)?;
                self.attributes(ino, &stat, false);
                if matches!(call.op, Op::Truncate(_)) { self.reconcile_size(ino) } else { Ok(()) }
            }
            // A sync without a reply, and an acknowledgement that was not made, promise nothing.
            Subject::Syncs(_) | Subject::Acks(_) | Subject::Elsewhere => Ok(()),
        }
    }

    /// A path of an object, by the names on record.
    fn path_of(&self, ino: Ino) -> io::Result<PathBuf> {
        let mut names = Vec::new();
        let mut at = ino;
        while at != ROOT {
            let found = self.record.objects.name_of(at);
            let (dir, name) = found.ok_or(io::ErrorKind::NotFound)?;
            names.push(name);
            at = dir;
        }
        let mut path = self.directory().to_owned();
        path.extend(names.iter().rev().map(|name| OsStr::from_bytes(name)));
        Ok(path)
    }

    fn path_in(&self, dir: Ino, name: &Bytes) -> io::Result<PathBuf> {
        Ok(self.path_of(dir)?.join(OsStr::from_bytes(name)))
    }

    /// Records what a name stands for if that is not what the record says.
    fn reconcile(&mut self, spot: &Spot) -> io::Result<()> {
        let Some((dir, name)) = spot.own() else { return Ok(()) };
        let path = self.path_in(dir, &name)?;
        let recorded = self.record.objects.named(dir, &name);
        let found = match Stat::of_path(&path, false) {
            Ok(stat) => Some(stat),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        match (recorded, found) {
            (Some(_), None) => self.record.remove_tree(dir, name),
            (recorded, Some(found)) if recorded.is_none() || !self.is_it(recorded, &found) => {
                self.arrived(dir, name, &path)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn is_it(&self, ino: Option<Ino>, stat: &Stat) -> bool {
        let object = ino.and_then(|ino| self.record.objects.get(ino));
        object.is_some_and(|object| object.key == stat.key)
    }

    /// A rename within the directory was done if the new name stands for what the old one stood
    /// for.
    fn reconcile_rename(&mut self, from: &Spot, to: &Spot) -> io::Result<()> {
        if let (Some(old), Some(new)) = (from.own(), to.own()) {
            let at_new = Stat::of_path(&self.path_in(new.0, &new.1)?, false).ok();
            let at_old = Stat::of_path(&self.path_in(old.0, &old.1)?, false).ok();
            let moved = self.record.objects.named(old.0, &old.1);
            let target = self.record.objects.named(new.0, &new.1);
            if at_new.is_some_and(|stat| self.is_it(moved, &stat)) && moved != target {
                let is_exchange = at_old.is_some_and(|stat| self.is_it(target, &stat));
                let how = if is_exchange { RenameHow::Exchange } else { RenameHow::Replace };
                self.record.rename(old, new, how);
            }
        }
        self.reconcile(from)?;
        self.reconcile(to)
    }

    fn reconcile_size(&mut self, ino: Ino) -> io::Result<()> {
        let size = Stat::of_path(&self.path_of(ino)?, false)?.size;
        self.record.resize(ino, size);
        Ok(())
    }

    /// Records the range that a call was to write as it is.
    fn reconcile_content(
        &mut self,
        ino: Ino,
        opened: &Opened,
        entered: &Entered,
    ) -> io::Result<()> {
        let is_named = self.record.objects.get(ino).is_some_and(|object| object.links > 0);
        if !is_named {
            return Ok(());
        }
        let file = open_for_reading(&self.path_of(ino)?)?;
        let size = Stat::of_fd(file.as_raw_fd())?.size;
        let (before, args) = (opened.stat.size, &entered.args);
        let appends = opened.position().is_ok_and(|(_, flags)| flags & libc::O_APPEND != 0);
        let range = match entered.number {
            _ if appends => before..size,
            libc::SYS_pwrite64 => args[3]..args[3].saturating_add(args[2]).min(size),
            // Where the others wrote is not known without their memory and position.
            _ => 0..size,
        };
        if size < before {
            self.record.resize(ino, size);
        }
        let length = range.end.saturating_sub(range.start);
        self.record.written(ino, file.as_raw_fd(), range.start, length)
    }
}
