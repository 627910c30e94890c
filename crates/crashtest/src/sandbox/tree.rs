//! The fingerprint of a mounted state: all that a check sees of its tree.
//!
//! Crash states with different blocks often have equal trees, and a check says the same of each.
//! Names, kinds, attributes, links, content and the times of content count. The numbers of inodes,
//! other times, the order of directories and the free space do not.

use rustix::fs::{lgetxattr, llistxattr};
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_128;

/// Bytes of a tree at most: reading a larger one costs more than checks do.
const MOST_BYTES: u64 = 16 << 20;
/// Objects of a tree at most.
const MOST_OBJECTS: usize = 20_000;
/// Bytes of the attributes of an object at most.
const MOST_ATTRIBUTES: usize = 64 << 10;
/// Bytes of a read.
const PIECE: usize = 128 << 10;

/// The fingerprint of the tree below a directory. `None` for one that is large, or that cannot be
/// read as a whole.
pub(super) fn fingerprint(root: &Path) -> Option<u128> {
    let mut walk = Walk { hash: XxHash3_128::new(), numbers: BTreeMap::new(), left: MOST_BYTES };
    walk.tree(root).ok()??;
    Some(walk.hash.finish_128())
}

struct Walk {
    hash: XxHash3_128,
    /// Objects by inode, in the order in which the walk meets them.
    numbers: BTreeMap<(u64, u64), u64>,
    /// Bytes that may still be read.
    left: u64,
}

impl Walk {
    /// The inner `None` is a tree that is too large.
    fn tree(&mut self, root: &Path) -> io::Result<Option<()>> {
        let mut directories = vec![root.to_owned()];
        self.object(root)?;
        while let Some(dir) = directories.pop() {
            let entries: io::Result<Vec<_>> = std::fs::read_dir(&dir)?.collect();
            let mut names: Vec<PathBuf> = entries?.iter().map(std::fs::DirEntry::path).collect();
            names.sort();
            self.word(names.len() as u64);
            for path in names {
                self.bytes(path.file_name().unwrap_or_default().as_bytes());
                match self.object(&path)? {
                    None => return Ok(None),
                    Some(true) => directories.push(path),
                    Some(false) => {}
                }
            }
        }
        Ok(Some(()))
    }

    /// Adds an object; true for a directory.
    fn object(&mut self, path: &Path) -> io::Result<Option<bool>> {
        let metadata = std::fs::symlink_metadata(path)?;
        let next = self.numbers.len() as u64;
        let number = *self.numbers.entry((metadata.dev(), metadata.ino())).or_insert(next);
        self.word(number);
        if number < next {
            return Ok(Some(false));
        }
        if self.numbers.len() > MOST_OBJECTS || !self.attributes(path, &metadata)? {
            return Ok(None);
        }
        let kind = metadata.file_type();
        if kind.is_symlink() {
            self.bytes(std::fs::read_link(path)?.as_os_str().as_bytes());
        } else if kind.is_file() {
            let Some(left) = self.left.checked_sub(metadata.len()) else { return Ok(None) };
            self.left = left;
            self.content(path)?;
        } else if kind.is_block_device() || kind.is_char_device() {
            self.word(metadata.rdev());
        }
        Ok(Some(kind.is_dir()))
    }

    /// False if there are too many extended attributes.
    fn attributes(&mut self, path: &Path, metadata: &Metadata) -> io::Result<bool> {
        let size = if metadata.is_dir() { 0 } else { metadata.size() };
        let words = [metadata.mode().into(), metadata.uid().into(), metadata.gid().into(), size];
        let times = [metadata.mtime().cast_unsigned(), metadata.mtime_nsec().cast_unsigned()];
        words.into_iter().chain(times).for_each(|word| self.word(word));
        self.word(metadata.nlink());
        let (mut names, mut value) = (vec![0; MOST_ATTRIBUTES], vec![0; MOST_ATTRIBUTES]);
        let length = match llistxattr(path, &mut names[..]) {
            Ok(length) => length,
            Err(rustix::io::Errno::OPNOTSUPP) => 0,
            Err(rustix::io::Errno::RANGE) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        };
        let mut all: Vec<&[u8]> =
            names[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty()).collect();
        all.sort();
        for name in all {
            self.bytes(name);
            let length = lgetxattr(path, name, &mut value[..])?;
            self.bytes(&value[..length]);
        }
        Ok(true)
    }

    fn content(&mut self, path: &Path) -> io::Result<()> {
        let mut file = File::open(path)?;
        let mut piece = vec![0; PIECE];
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(()),
                length => self.hash.write(&piece[..length]),
            }
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        self.hash.write(bytes);
    }

    fn word(&mut self, word: u64) {
        self.hash.write(&word.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_a_check_sees_makes_the_fingerprint() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("f");
        std::fs::write(&file, "one").expect("written");
        std::fs::create_dir(dir.path().join("d")).expect("made");
        let time = std::fs::metadata(&file).expect("there").modified().expect("a time");
        let root = std::fs::metadata(dir.path()).expect("there").modified().expect("a time");
        let now = || {
            for (path, time) in [(&file, time), (&dir.path().to_owned(), root)] {
                File::open(path).expect("opens").set_modified(time).expect("set");
            }
            fingerprint(dir.path()).expect("it is small")
        };
        let first = now();
        assert_eq!(first, now(), "the same again");
        std::fs::write(&file, "two").expect("written");
        let second = now();
        assert_ne!(first, second, "content");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("set");
        let third = now();
        assert_ne!(second, third, "mode");
        std::fs::hard_link(&file, dir.path().join("d/g")).expect("linked");
        let fourth = now();
        assert_ne!(third, fourth, "a name");
        // Another file with the same content is no second name.
        std::fs::remove_file(dir.path().join("d/g")).expect("removed");
        std::fs::copy(&file, dir.path().join("d/g")).expect("copied");
        assert_ne!(fourth, now(), "links");
        File::create(dir.path().join("large")).expect("made").set_len(MOST_BYTES + 1).expect("set");
        assert_eq!(fingerprint(dir.path()), None);
    }
}
