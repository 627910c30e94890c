//! Writes a tree as a tar archive.
//!
//! Headers are those of GNU tar; a time with nanoseconds and long names go into records of their
//! own. Names are relative to the directory that is archived. Sockets have no place in archives.

use super::list::{major, minor};
use super::path::join;
use super::tally::Tally;
use super::{Files, Outcome, ToolError};
use seekless_fs::call::{Attr, FileKind, Ino};
use seekless_fs::system::Runs;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
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
    /// What is in the archive and what is not, or not whole.
    pub tally: Tally,
}

impl<W: Write> TarOut<W> {
    /// An archive that is written to `out`.
    pub fn new(out: W) -> TarOut<W> {
        TarOut {
            builder: Builder::new(out),
            links: BTreeMap::new(),
            left_out: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Adds a tree: with `from` a directory, everything in it; else the one file. The tally keeps
    /// the errors of what cannot be read. A file that cannot be read to its end has zeros there.
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
            let added = self.object(files, &path, &name, &mut stack);
            files.forget_to(mark);
            self.tally.count(added)?;
        }
        Ok(())
    }

    /// Adds one object; what is in a directory goes to the stack.
    fn object<R: Runs>(
        &mut self,
        files: &mut Files<R>,
        path: &[u8],
        name: &[u8],
        stack: &mut Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Outcome<()> {
        let attr = files.resolve(path, name == b".")?;
        self.one(files, path, name, &attr)?;
        if attr.kind == FileKind::Directory {
            for below in files.names(path, attr.ino)?.into_iter().rev() {
                stack.push((join(path, &below), join(name, &below)));
            }
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
        let to = Path::new(OsStr::from_bytes(name));
        let builder = &mut self.builder;
        if let Some(first) = self.links.get(&attr.ino) {
            header.set_entry_type(EntryType::Link);
            let first = Path::new(OsStr::from_bytes(first));
            let linked = nanoseconds(builder, attr);
            let linked = linked.and_then(|()| builder.append_link(&mut header, to, first));
            return linked.map_err(ToolError::Output);
        }
        // The record with the time belongs to the next header: only what has one gets there.
        match attr.kind {
            FileKind::File => {
                header.set_size(attr.size);
                let append = |reader: &mut super::stream::Reader<'_, R>| {
                    nanoseconds(builder, attr)?;
                    builder.append_data(&mut header, to, Padded { reader, left: attr.size })
                };
                files.stream(path, attr.ino, append, ToolError::Output)?;
            }
            FileKind::Symlink => {
                let text = files.read_link(path, attr.ino)?;
                nanoseconds(builder, attr).map_err(ToolError::Output)?;
                let target = Path::new(OsStr::from_bytes(&text));
                let linked = builder.append_link(&mut header, to, target);
                linked.map_err(ToolError::Output)?;
            }
            _ => {
                let added = nanoseconds(builder, attr)
                    .and_then(|()| builder.append_data(&mut header, to, io::empty()));
                added.map_err(ToolError::Output)?;
            }
        }
        if attr.links > 1 && attr.kind != FileKind::Directory {
            self.links.insert(attr.ino, name.to_vec());
        }
        Ok(())
    }
}

/// Writes a record with the exact time, if a header cannot hold it.
fn nanoseconds<W: Write>(builder: &mut Builder<W>, attr: &Attr) -> io::Result<()> {
    if attr.mtime.rem_euclid(NANOS) == 0 && attr.mtime >= 0 {
        return Ok(());
    }
    let time = decimal(attr.mtime);
    builder.append_pax_extensions([("mtime", time.as_bytes())])
}

/// As many bytes as the header says: zeros where the file cannot be read.
struct Padded<'r, 'f, R> {
    reader: &'r mut super::stream::Reader<'f, R>,
    left: u64,
}

impl<R: Runs> Read for Padded<'_, '_, R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(to.len());
        if most == 0 {
            return Ok(0);
        }
        let to = &mut to[..most];
        let read = match self.reader.error {
            // What is behind the error may be readable; the file is damaged all the same.
            Some(_) => 0,
            // The reader keeps its error for the caller.
            None => self.reader.read(to).unwrap_or(0),
        };
        let length = if read == 0 { most } else { read };
        to[read..length].fill(0);
        self.left -= length as u64;
        Ok(length)
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
