//! Writes a tree as a tar archive.
//!
//! Headers are those of GNU tar; a time with nanoseconds and long names go into records of their
//! own. Names are relative to the directory that is archived. Sockets have no place in archives.

use super::list::{major, minor};
use super::path::join;
use super::{Files, Outcome, ToolError};
use seekless_fs::call::{Attr, FileKind, Ino};
use seekless_fs::system::Runs;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use tar::{Builder, EntryType, Header};

const NANOS: i64 = 1_000_000_000;

/// Writes an archive.
pub struct TarOut<W: Write> {
    builder: Builder<W>,
    /// Archived files with several names, and the first of them.
    links: BTreeMap<Ino, Vec<u8>>,
    /// Paths of sockets, which were left out.
    pub left_out: Vec<Vec<u8>>,
}

impl<W: Write> TarOut<W> {
    /// An archive that is written to `out`.
    pub fn new(out: W) -> TarOut<W> {
        TarOut { builder: Builder::new(out), links: BTreeMap::new(), left_out: Vec::new() }
    }

    /// Adds a tree: with `from` a directory, everything in it; else the one file.
    ///
    /// # Errors
    /// If there is no such path, or the output cannot be written.
    pub fn add<R: Runs>(&mut self, files: &mut Files<R>, from: &[u8]) -> Outcome<()> {
        let top = files.resolve(from, true)?;
        let name = match top.kind {
            FileKind::Directory => b".".to_vec(),
            _ => super::path::last_name(from).unwrap_or(from).to_vec(),
        };
        let mut stack = vec![(from.to_vec(), name)];
        while let Some((path, name)) = stack.pop() {
            let mark = files.mark();
            let attr = files.resolve(&path, name == b".")?;
            self.one(files, &path, &name, &attr)?;
            if attr.kind == FileKind::Directory {
                for below in files.names(&path, attr.ino)?.into_iter().rev() {
                    stack.push((join(&path, &below), join(&name, &below)));
                }
            }
            files.forget_to(mark);
        }
        Ok(())
    }

    /// Writes the end of the archive.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(self) -> Outcome<W> {
        let mut out = self.builder.into_inner().map_err(ToolError::Output)?;
        out.flush().map_err(ToolError::Output)?;
        Ok(out)
    }

    fn one<R: Runs>(
        &mut self,
        files: &mut Files<R>,
        path: &[u8],
        name: &[u8],
        attr: &Attr,
    ) -> Outcome<()> {
        if attr.kind == FileKind::Socket {
            self.left_out.push(path.to_vec());
            return Ok(());
        }
        let mut header = header(attr);
        self.nanoseconds(attr).map_err(ToolError::Output)?;
        let to = Path::new(OsStr::from_bytes(name));
        if let Some(first) = self.links.get(&attr.ino) {
            header.set_entry_type(EntryType::Link);
            let first = Path::new(OsStr::from_bytes(first));
            return self.builder.append_link(&mut header, to, first).map_err(ToolError::Output);
        }
        match attr.kind {
            FileKind::File => {
                header.set_size(attr.size);
                let builder = &mut self.builder;
                let append = |reader: &mut super::stream::Reader<'_, R>| {
                    builder.append_data(&mut header, to, reader)
                };
                files.stream(path, attr.ino, append, ToolError::Output)?;
            }
            FileKind::Symlink => {
                let text = files.read_link(path, attr.ino)?;
                let target = Path::new(OsStr::from_bytes(&text));
                let linked = self.builder.append_link(&mut header, to, target);
                linked.map_err(ToolError::Output)?;
            }
            _ => {
                let added = self.builder.append_data(&mut header, to, io::empty());
                added.map_err(ToolError::Output)?;
            }
        }
        if attr.links > 1 && attr.kind != FileKind::Directory {
            self.links.insert(attr.ino, name.to_vec());
        }
        Ok(())
    }

    /// A record with the exact time, if a header cannot hold it.
    fn nanoseconds(&mut self, attr: &Attr) -> io::Result<()> {
        if attr.mtime.rem_euclid(NANOS) == 0 && attr.mtime >= 0 {
            return Ok(());
        }
        let time = decimal(attr.mtime);
        self.builder.append_pax_extensions([("mtime", time.as_bytes())])
    }
}

/// Seconds with nine decimals, as records of archives have them.
pub(super) fn decimal(time: i64) -> String {
    let sign = if time < 0 { "-" } else { "" };
    let (seconds, nanos) =
        (time.unsigned_abs() / 1_000_000_000, time.unsigned_abs() % 1_000_000_000);
    format!("{sign}{seconds}.{nanos:09}")
}

fn header(attr: &Attr) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(match attr.kind {
        FileKind::File | FileKind::Socket => EntryType::Regular,
        FileKind::Directory => EntryType::Directory,
        FileKind::Symlink => EntryType::Symlink,
        FileKind::Fifo => EntryType::Fifo,
        FileKind::CharDevice => EntryType::Char,
        FileKind::BlockDevice => EntryType::Block,
    });
    header.set_mode(u32::from(attr.mode));
    header.set_uid(u64::from(attr.uid));
    header.set_gid(u64::from(attr.gid));
    header.set_mtime(u64::try_from(attr.mtime.div_euclid(NANOS)).unwrap_or(0));
    header.set_size(0);
    if matches!(attr.kind, FileKind::CharDevice | FileKind::BlockDevice) {
        // A header of GNU has both fields.
        let _ = header.set_device_major(major(attr.device));
        let _ = header.set_device_minor(minor(attr.device));
    }
    header
}
