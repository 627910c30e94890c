//! Whether a recording is complete: the tree that it gives is the directory at the end of the run.
//!
//! A recording that misses a change gives another tree. So a difference says that no verdict may
//! rest on the recording: a process that was not recorded wrote, or the recorder has a defect.
//!
//! Names, kinds, bytes, modes, owners, targets of symbolic links, hard links and extended
//! attributes of the classes `user` and `trusted` are compared; times are not.

mod replay;

use crate::content::{next_data, open_for_reading, read_at};
use crate::pages::CHUNK;
use crate::pending::{xattr, xattrs};
use crate::stat::{Key, Stat};
use crate::tree::names;
use bytes::Bytes;
use replay::{Node, Replay};
use seekless_calls::Entry;
use seekless_fs::call::{FileKind, Ino, ROOT};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Where the tree of a recording differs from a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The path below the directory; empty for the directory itself.
    pub path: PathBuf,
    /// How it differs.
    pub what: What,
}

/// How an object differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The directory has it, the recording has not.
    Unrecorded,
    /// The recording has it, the directory has not.
    Missing,
    /// The kinds differ: recorded, found.
    Kind(FileKind, FileKind),
    /// The permission bits differ: recorded, found.
    Mode(u16, u16),
    /// Owner and group differ: recorded, found.
    Owner((u32, u32), (u32, u32)),
    /// The sizes in bytes differ: recorded, found.
    Size(u64, u64),
    /// A byte differs.
    Byte {
        /// Its offset in the file.
        offset: u64,
        /// What it is in the recording.
        recorded: u8,
        /// What it is in the directory.
        found: u8,
    },
    /// The text of a symbolic link differs.
    Text,
    /// The number of a device file differs.
    Device,
    /// Two names are one file in the recording and two in the directory, or the reverse.
    Links,
    /// An extended attribute differs.
    Attribute(String),
    /// It cannot be read.
    Unreadable(String),
    /// The entry with this index cannot be carried out on what the ones before it give.
    Entry(usize),
}

impl Difference {
    /// What probably was the reason.
    pub fn likely_cause(&self) -> &'static str {
        match self.what {
            What::Unreadable(_) => "the user of the recorder may not read it",
            What::Entry(_) => "the recording is damaged, or the recorder has a defect",
            What::Byte { .. } | What::Size(..) => {
                "a process that the command did not start wrote to it, a process was killed during \
                 a write, or a process of another user could not be watched"
            }
            _ => {
                "a process that the command did not start changed it, or a process of another user \
                 could not be watched"
            }
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.as_os_str().is_empty() { Path::new(".") } else { &self.path };
        write!(f, "{}: ", path.display())?;
        match &self.what {
            What::Unrecorded => write!(f, "it is in the directory, but not on record")?,
            What::Missing => write!(f, "it is on record, but not in the directory")?,
            What::Kind(recorded, found) => {
                write!(f, "a {recorded:?} is on record, but it is a {found:?}")?;
            }
            What::Mode(recorded, found) => {
                write!(f, "mode {recorded:04o} is on record, but it has {found:04o}")?;
            }
            What::Owner((uid, gid), (found, group)) => {
                write!(f, "owner {uid}:{gid} is on record, but it has {found}:{group}")?;
            }
            What::Size(recorded, found) => {
                write!(f, "{recorded} bytes are on record, but it has {found}")?;
            }
            What::Byte { offset, recorded, found } => {
                let bytes = format!("{recorded:#04x} is on record, but it is {found:#04x}");
                write!(f, "byte {offset} differs: {bytes}")?;
            }
            What::Text => write!(f, "the symbolic link leads elsewhere than on record")?,
            What::Device => write!(f, "it stands for another device than on record")?,
            What::Links => write!(f, "its hard links are not those on record")?,
            What::Attribute(name) => write!(f, "the attribute {name} is not as on record")?,
            What::Unreadable(error) => write!(f, "it cannot be read ({error})")?,
            What::Entry(index) => write!(f, "entry {index} of the recording cannot be replayed")?,
        }
        write!(f, "; probably {}", self.likely_cause())
    }
}

impl std::error::Error for Difference {}

/// Compares the tree that a recording gives with a directory.
///
/// # Errors
/// The first difference, in the order of the names.
pub fn compare(entries: &[Entry], directory: &Path) -> Result<(), Difference> {
    let mut replay = Replay::default();
    for (index, entry) in entries.iter().enumerate() {
        let what = What::Entry(index);
        replay.apply(entry).ok_or(Difference { path: PathBuf::new(), what })?;
    }
    Comparison::new(directory, &replay).all()
}

/// A comparison that goes on.
struct Comparison<'a> {
    replay: &'a Replay,
    directory: &'a Path,
    /// Which inode an object of the recording is, and the reverse.
    keys: BTreeMap<Ino, Key>,
    inos: HashMap<Key, Ino>,
}

impl<'a> Comparison<'a> {
    fn new(directory: &'a Path, replay: &'a Replay) -> Comparison<'a> {
        Comparison { replay, directory, keys: BTreeMap::new(), inos: HashMap::new() }
    }

    fn all(&mut self) -> Result<(), Difference> {
        let mut rest = vec![(ROOT, PathBuf::new())];
        while let Some((ino, path)) = rest.pop() {
            self.object(ino, &path).map_err(|what| Difference { path: path.clone(), what })?;
            let Some(node) = self.replay.node(ino) else { continue };
            if node.kind == FileKind::Directory {
                rest.extend(self.names(node, &path)?);
            }
        }
        Ok(())
    }

    /// The entries of a directory, the last one first, if both sides have the same.
    fn names(&self, node: &Node, path: &Path) -> Result<Vec<(Ino, PathBuf)>, Difference> {
        let found = names(&self.directory.join(path)).map_err(|error| Difference {
            path: path.to_owned(),
            what: What::Unreadable(error.to_string()),
        })?;
        let found: BTreeSet<Bytes> = found.into_iter().map(Bytes::from).collect();
        let below = |name: &Bytes| path.join(OsStr::from_bytes(name));
        let differs = |name: &Bytes, what: What| Err(Difference { path: below(name), what });
        if let Some(name) = found.iter().find(|&name| !node.entries.contains_key(name)) {
            return differs(name, What::Unrecorded);
        }
        if let Some(name) = node.entries.keys().find(|&name| !found.contains(name)) {
            return differs(name, What::Missing);
        }
        Ok(node.entries.iter().rev().map(|(name, &ino)| (ino, below(name))).collect())
    }

    fn object(&mut self, ino: Ino, path: &Path) -> Result<(), What> {
        let unreadable = |error: io::Error| What::Unreadable(error.to_string());
        let node = self.replay.node(ino).ok_or(What::Unrecorded)?;
        let path = self.directory.join(path);
        let is_root = ino == ROOT;
        let stat = Stat::of_path(&path, is_root).map_err(unreadable)?;
        if node.kind != stat.kind {
            return Err(What::Kind(node.kind, stat.kind));
        }
        let is_first = !self.keys.contains_key(&ino);
        let key = *self.keys.entry(ino).or_insert(stat.key);
        if key != stat.key || *self.inos.entry(stat.key).or_insert(ino) != ino {
            return Err(What::Links);
        }
        if !is_first {
            return Ok(());
        }
        attributes(node, &stat, &path)?;
        match node.kind {
            FileKind::File => content(node, &stat, &path),
            FileKind::Symlink => {
                let text = std::fs::read_link(&path).map_err(unreadable)?.into_os_string();
                if text.into_vec() == node.text { Ok(()) } else { Err(What::Text) }
            }
            FileKind::CharDevice | FileKind::BlockDevice if node.device != stat.device => {
                Err(What::Device)
            }
            _ => Ok(()),
        }
    }
}

fn attributes(node: &Node, stat: &Stat, path: &Path) -> Result<(), What> {
    if node.mode != stat.mode {
        return Err(What::Mode(node.mode, stat.mode));
    }
    let (recorded, found) = ((node.uid, node.gid), (stat.uid, stat.gid));
    if recorded != found {
        return Err(What::Owner(recorded, found));
    }
    let is_compared = |name: &[u8]| name.starts_with(b"user.") || name.starts_with(b"trusted.");
    // A file system without such attributes has none.
    let found: BTreeMap<Vec<u8>, Vec<u8>> = xattrs(path, false)
        .unwrap_or_default()
        .into_iter()
        .filter(|name| is_compared(name))
        .map(|name| (name.clone(), xattr(path, false, &name).unwrap_or_default()))
        .collect();
    let recorded: BTreeMap<Vec<u8>, Vec<u8>> = node
        .attributes
        .iter()
        .filter(|(name, _)| is_compared(name))
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect();
    let mut all = found.keys().chain(recorded.keys());
    match all.find(|&name| found.get(name) != recorded.get(name)) {
        Some(name) => Err(What::Attribute(String::from_utf8_lossy(name).into_owned())),
        None => Ok(()),
    }
}

/// Compares bytes, chunk by chunk; holes on both sides are skipped.
fn content(node: &Node, stat: &Stat, path: &Path) -> Result<(), What> {
    if node.pages.size() != stat.size {
        return Err(What::Size(node.pages.size(), stat.size));
    }
    if stat.size == 0 {
        return Ok(());
    }
    let unreadable = |error: io::Error| What::Unreadable(error.to_string());
    let file = open_for_reading(path).map_err(unreadable)?;
    let mut found = vec![0; CHUNK];
    let mut recorded = vec![0; CHUNK];
    let mut at = 0;
    while at < stat.size {
        let length = (stat.size - at).min(CHUNK as u64) as usize;
        let got = read_at(file.as_raw_fd(), &mut found[..length], at).map_err(unreadable)?;
        if got < length {
            return Err(What::Size(stat.size, at + got as u64));
        }
        node.pages.read(at, &mut recorded[..length]);
        if found[..length] != recorded[..length] {
            let mut pairs = recorded.iter().zip(&found);
            let index = pairs.position(|(recorded, found)| recorded != found).unwrap_or(0);
            let (recorded, found) = (recorded[index], found[index]);
            return Err(What::Byte { offset: at + index as u64, recorded, found });
        }
        at += CHUNK as u64;
        let next = next_data(file.as_raw_fd(), at, stat.size).unwrap_or(stat.size);
        let next = next.min(node.pages.next(at).unwrap_or(stat.size));
        at = at.max(next - next % CHUNK as u64);
    }
    Ok(())
}
