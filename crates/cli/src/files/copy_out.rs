//! Copies files and trees of the file system to the host.
//!
//! As `cp -a` does: content, holes, permissions, times and hard links are kept, owners if root
//! runs it. A socket has no content to copy and is left out.

use super::list::{major, minor};
use super::path::{join, last_name};
use super::tally::Tally;
use super::{Files, Outcome, ToolError};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use seekless_fs::call::{Attr, FileKind, Ino, Timestamp};
use seekless_fs::system::Runs;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};

/// Bytes of a write.
const PIECE: usize = 64 << 10;

/// Copies out of the file system.
#[derive(Debug, Default)]
pub struct CopyOut {
    /// Copied files with several names, and the path of the copy.
    links: BTreeMap<Ino, PathBuf>,
    /// Paths of sockets, which were left out.
    pub left_out: Vec<Vec<u8>>,
    /// What was copied and what was not.
    pub tally: Tally,
}

impl CopyOut {
    /// Copies a file or tree to a path of the host; into it, under its own name, if that is a
    /// directory. The tally keeps the errors of files that cannot be read or made.
    ///
    /// # Errors
    /// If nothing else could be copied.
    pub fn copy<R: Runs>(&mut self, files: &mut Files<R>, from: &[u8], to: &Path) -> Outcome<()> {
        let target = match last_name(from).filter(|_| to.is_dir()) {
            Some(name) => to.join(OsStr::from_bytes(name)),
            None => to.to_owned(),
        };
        let mut stack = vec![(from.to_vec(), target)];
        let mut finished = Vec::new();
        while let Some((from, to)) = stack.pop() {
            let mark = files.mark();
            let copied = self.object(files, &from, &to, &mut stack, &mut finished);
            files.forget_to(mark);
            self.tally.count(copied)?;
        }
        finished.iter().rev().try_for_each(|(to, attr)| self.tally.keep(attributes(to, attr)))
    }

    /// Copies one object; of a directory all but what is in it, which goes to the stack.
    fn object<R: Runs>(
        &mut self,
        files: &mut Files<R>,
        from: &[u8],
        to: &Path,
        stack: &mut Vec<(Vec<u8>, PathBuf)>,
        finished: &mut Vec<(PathBuf, Attr)>,
    ) -> Outcome<()> {
        let attr = files.resolve(from, false)?;
        if attr.kind != FileKind::Directory {
            return self.one(files, from, to, &attr);
        }
        match fs::create_dir(to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && to.is_dir() => {}
            made => made.map_err(ToolError::host(to))?,
        }
        finished.push((to.to_owned(), attr));
        for name in files.names(from, attr.ino)?.into_iter().rev() {
            stack.push((join(from, &name), to.join(OsStr::from_bytes(&name))));
        }
        Ok(())
    }

    fn one<R: Runs>(
        &mut self,
        files: &mut Files<R>,
        from: &[u8],
        to: &Path,
        attr: &Attr,
    ) -> Outcome<()> {
        if to.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            return Err(ToolError::Kinds(to.display().to_string()));
        }
        if let Some(first) = self.links.get(&attr.ino) {
            clear(to)?;
            return fs::hard_link(first, to).map_err(ToolError::host(to));
        }
        match attr.kind {
            FileKind::File => file(files, from, to, attr)?,
            FileKind::Symlink => {
                let text = files.read_link(from, attr.ino)?;
                clear(to)?;
                symlink(OsStr::from_bytes(&text), to).map_err(ToolError::host(to))?;
            }
            FileKind::Socket => {
                self.left_out.push(from.to_vec());
                return Ok(());
            }
            _ => special(to, attr)?,
        }
        attributes(to, attr)?;
        if attr.links > 1 {
            self.links.insert(attr.ino, to.to_owned());
        }
        Ok(())
    }
}

/// Makes room for what is not overwritten in place.
fn clear(to: &Path) -> Outcome<()> {
    match fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ToolError::host(to)(error)),
        _ => Ok(()),
    }
}

/// Copies content; zeros become holes.
fn file<R: Runs>(files: &mut Files<R>, from: &[u8], to: &Path, attr: &Attr) -> Outcome<()> {
    let mut target = File::create(to).map_err(ToolError::host(to))?;
    let copy = |reader: &mut super::stream::Reader<'_, R>| {
        let mut piece = vec![0; PIECE];
        loop {
            let length = reader.read(&mut piece)?;
            if length == 0 {
                break;
            }
            if piece[..length].iter().all(|byte| *byte == 0) {
                target.seek(SeekFrom::Current(length as i64))?;
            } else {
                target.write_all(&piece[..length])?;
            }
        }
        let end = target.stream_position()?;
        target.set_len(end)
    };
    files.stream(from, attr.ino, copy, ToolError::host(to))
}

fn special(to: &Path, attr: &Attr) -> Outcome<()> {
    use rustix::fs::{FileType, Mode, makedev, mknodat};
    clear(to)?;
    let kind = match attr.kind {
        FileKind::CharDevice => FileType::CharacterDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
        _ => FileType::Fifo,
    };
    let number = makedev(major(attr.device), minor(attr.device));
    mknodat(CWD, to, kind, Mode::from_raw_mode(0o600), number)
        .map_err(|errno| ToolError::host(to)(errno.into()))
}

/// Gives a copy the attributes of the original. Owners first: a change of owner ends set-id bits.
fn attributes(to: &Path, attr: &Attr) -> Outcome<()> {
    let host = || ToolError::host(to);
    if rustix::process::geteuid().is_root() {
        lchown(to, Some(attr.uid), Some(attr.gid)).map_err(host())?;
    }
    if attr.kind != FileKind::Symlink {
        let mode = Permissions::from_mode(u32::from(attr.mode));
        fs::set_permissions(to, mode).map_err(host())?;
    }
    let times =
        Timestamps { last_access: timespec(attr.atime), last_modification: timespec(attr.mtime) };
    utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(|errno| host()(errno.into()))
}

fn timespec(at: Timestamp) -> Timespec {
    Timespec { tv_sec: at.div_euclid(1_000_000_000), tv_nsec: at.rem_euclid(1_000_000_000) as _ }
}
