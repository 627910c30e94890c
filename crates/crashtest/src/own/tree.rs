//! The fingerprint of a recovered tree: all that a check sees of it.
//!
//! Crash states with different blocks often recover to the same tree, and a check says the same of
//! each. Names, kinds, attributes, links, content and the times of content count. The numbers of
//! inodes, other times and the space of files do not.

use super::device::ImageDevice;
use super::policy::OwnPolicy;
use crate::replay::image::Image;
use seekless_formats::{Kind, MountedFs};
use seekless_fs::call::{
    Answer, Attr, Call, Credentials, DirEntry, Errno, FileKind, Ino, ROOT, Request, by_inode,
};
use seekless_fs::core::CoreOptions;
use seekless_fs::system::Runs as _;
use seekless_serve::files::{Offline, Volume};
use std::collections::BTreeMap;
use std::sync::Arc;
use twox_hash::XxHash3_128;

/// Bytes of a tree at most: reading a larger one costs more than checks do.
const MOST_BYTES: u64 = 16 << 20;
/// Objects of a tree at most.
const MOST_OBJECTS: usize = 20_000;
/// Bytes of a read or a list.
const PIECE: u32 = 128 << 10;

/// The fingerprint of the tree in an image that was recovered. `None` for a tree that is large, or
/// that cannot be read as a whole.
pub(crate) fn fingerprint(image: &Arc<Image>, policy: OwnPolicy) -> Option<u128> {
    let device = ImageDevice::new(Arc::clone(image));
    let mut volume = Volume::of_device(Box::new(device), "a recovered state");
    // It takes the file system as it is, and writes nothing.
    let core = CoreOptions { read_only: true, ..CoreOptions::default() };
    let kind = Kind::of(&mut volume).ok()?;
    let fs = (kind.mount)(&mut volume, &policy.mount_options(core, 0)).ok()?;
    let mut walk = Walk {
        fs: Offline::new(fs, volume),
        hash: XxHash3_128::new(),
        numbers: BTreeMap::from([(ROOT, 0)]),
        left: MOST_BYTES,
    };
    walk.tree()?;
    Some(walk.hash.finish_128())
}

struct Walk {
    fs: Offline<Box<dyn MountedFs>>,
    hash: XxHash3_128,
    /// Objects in the order in which the walk meets them.
    numbers: BTreeMap<Ino, u64>,
    /// Bytes that may still be read.
    left: u64,
}

impl Walk {
    fn ask(&mut self, request: Request) -> Result<Answer, Errno> {
        let call = Call { id: 1, who: Credentials::default(), now: 0, request };
        self.fs.run(call).result
    }

    fn tree(&mut self) -> Option<()> {
        let Ok(Answer::Attr(root)) = self.ask(Request::Attr { ino: ROOT }) else { return None };
        self.attributes(&root);
        let mut directories = vec![ROOT];
        while let Some(dir) = directories.pop() {
            let mut entries = self.list(dir)?;
            entries.sort_by(|one, other| one.name.cmp(&other.name));
            self.word(entries.len() as u64);
            for DirEntry { name, .. } in entries {
                self.bytes(&name);
                let found = self.ask(Request::Lookup { dir, name });
                let Ok(Answer::Object(attr, _)) = found else { return None };
                if self.object(&attr)? {
                    directories.push(attr.ino);
                }
            }
        }
        Some(())
    }

    /// Adds an object; true for a directory that was not met before.
    fn object(&mut self, attr: &Attr) -> Option<bool> {
        let next = self.numbers.len() as u64;
        let number = *self.numbers.entry(attr.ino).or_insert(next);
        self.word(number);
        if number < next {
            return Some(false);
        }
        if self.numbers.len() > MOST_OBJECTS {
            return None;
        }
        self.attributes(attr);
        match attr.kind {
            FileKind::Directory => return Some(true),
            FileKind::File => self.content(attr)?,
            FileKind::Symlink => {
                let text = self.ask(Request::ReadLink { ino: attr.ino });
                let Ok(Answer::Text(text)) = text else { return None };
                self.bytes(&text);
            }
            _ => {}
        }
        Some(false)
    }

    fn content(&mut self, attr: &Attr) -> Option<()> {
        self.left = self.left.checked_sub(attr.size)?;
        let mut at = 0;
        while at < attr.size {
            let request = Request::Read { handle: by_inode(attr.ino), at, length: PIECE };
            let Ok(Answer::Bytes(bytes)) = self.ask(request) else { return None };
            if bytes.is_empty() {
                return None;
            }
            self.hash.write(&bytes);
            at += bytes.len() as u64;
        }
        Some(())
    }

    fn list(&mut self, dir: Ino) -> Option<Vec<DirEntry>> {
        let Ok(Answer::Opened(handle)) = self.ask(Request::Open { ino: dir, truncate: false })
        else {
            return None;
        };
        let (mut all, mut cookie) = (Vec::new(), 0);
        loop {
            let request = Request::List { handle, cookie, most_bytes: PIECE };
            let Ok(Answer::Entries(entries)) = self.ask(request) else { return None };
            let Some(last) = entries.last() else { break };
            cookie = last.cookie;
            all.extend(entries);
            if all.len() > MOST_OBJECTS {
                return None;
            }
        }
        self.ask(Request::Release { handle }).ok()?;
        all.retain(|entry| !matches!(&entry.name[..], b"." | b".."));
        Some(all)
    }

    fn attributes(&mut self, attr: &Attr) {
        let size = if attr.kind == FileKind::Directory { 0 } else { attr.size };
        let words = [attr.kind as u64, attr.mode.into(), attr.links.into(), attr.uid.into()];
        words.into_iter().for_each(|word| self.word(word));
        let words = [attr.gid.into(), attr.device.into(), size, attr.mtime.cast_unsigned()];
        words.into_iter().for_each(|word| self.word(word));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        self.hash.write(bytes);
    }

    fn word(&mut self, word: u64) {
        self.hash.write(&word.to_le_bytes());
    }
}
