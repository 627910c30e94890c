//! A directory that shows one tree after the other.
//!
//! After a check the directory is looked through: what has another inode, size, mode or time of
//! change than it was left with is not trusted, and is made again. Times come from a clock that
//! ticks every few milliseconds, so files that were written within a tick of that look are
//! compared, as git compares them. All are compared where the file system keeps no time of stores
//! into mappings (tmpfs).

use super::steps::{apply, place, remove, told};
use seekless_calls::model::{Change, NameChange, Step, TOP, Tree, difference};
use std::collections::BTreeMap;
use std::fs::{Metadata, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The number of tmpfs, as statfs(2) gives it.
const TMPFS: i64 = 0x0102_1994;
/// What a directory needs so that its owner can change it.
const OWNER: u32 = 0o700;

/// A directory and what it shows.
#[derive(Debug)]
pub struct Copy {
    root: PathBuf,
    shows: Tree,
    /// Of each path below it, as it was left.
    stamps: BTreeMap<Vec<u8>, Stamp>,
    /// When they were taken, by the clock of files.
    stamped: Tick,
    /// Stores into mappings leave no trace but their bytes.
    compares_content: bool,
    /// Bytes written since it was made.
    written: u64,
}

/// Seconds and nanoseconds of the clock of files.
type Tick = (i64, i64);

/// What tells that an object was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    /// Of a directory without what its owner may do: that is set each time.
    mode: u32,
    /// Size and time of change; none of a directory, whose entries are compared.
    content: Option<(u64, Tick)>,
}

/// The time that a file gets which changes now.
fn tick() -> Tick {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    (now.tv_sec, now.tv_nsec)
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        let content = (metadata.size(), (metadata.ctime(), metadata.ctime_nsec()));
        let ignored = if metadata.is_dir() { OWNER } else { 0 };
        Stamp {
            inode: metadata.ino(),
            mode: metadata.mode() & !ignored,
            content: Some(content).filter(|_| !metadata.is_dir()),
        }
    }
}

impl Copy {
    /// An empty directory at `root`, which must be there and empty. `empty` is the tree without
    /// entries of the recording whose trees it is to show.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn new(root: &Path, empty: Tree) -> io::Result<Copy> {
        let kind = rustix::fs::statfs(root).map_err(|errno| told(root)(errno.into()))?.f_type;
        #[allow(clippy::useless_conversion)] // Other architectures have another type.
        let compares_content = i64::from(kind) == TMPFS;
        Ok(Copy {
            root: root.to_owned(),
            shows: empty,
            stamps: BTreeMap::new(),
            stamped: Tick::default(),
            compares_content,
            written: 0,
        })
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Bytes of content written since it was made.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Makes the directory show a tree, whatever a check has done to it. Gives the number of steps.
    ///
    /// # Errors
    /// As the system refuses a step. The next tree then begins with an empty directory.
    pub fn show(&mut self, tree: &Tree) -> io::Result<usize> {
        let shown = self.try_to_show(tree);
        if shown.is_err() {
            // Nothing that is there is trusted.
            self.shows = tree.without_entries();
            self.stamps.clear();
        }
        shown
    }

    fn try_to_show(&mut self, tree: &Tree) -> io::Result<usize> {
        self.make_writable()?;
        self.forget_changed()?;
        let steps = difference(&self.shows, tree);
        for step in &steps {
            apply(&self.root, step)?;
            if let Step::Page { bytes, .. } = step {
                self.written += bytes.len() as u64;
            }
        }
        self.shows = tree.clone();
        self.set_modes()?;
        self.stamped = tick();
        self.stamps = self.scan()?;
        Ok(steps.len())
    }

    /// The directories of the tree that is shown, the top first.
    fn directories(&self) -> Vec<(Vec<u8>, Option<u16>)> {
        let mode = |object| self.shows.attributes(object).mode;
        let found = self.shows.found().into_iter();
        let below = found.filter(|one| self.shows.object(one.object).is_directory());
        let below = below.map(|one| (one.path, mode(one.object)));
        std::iter::once((Vec::new(), mode(TOP))).chain(below).collect()
    }

    /// Lets this process change all directories: a check, or the recorded program, may have
    /// forbidden that.
    fn make_writable(&self) -> io::Result<()> {
        for (path, _) in self.directories() {
            let path = place(&self.root, &path);
            match path.symlink_metadata() {
                Ok(found) if found.is_dir() && found.mode() & OWNER != OWNER => {
                    let mode = Permissions::from_mode(found.mode() & 0o7777 | OWNER);
                    std::fs::set_permissions(&path, mode).map_err(told(&path))?;
                }
                // It was changed, and is made again.
                _ => {}
            }
        }
        Ok(())
    }

    /// Gives directories the rights of the tree. Those that hold others come last.
    fn set_modes(&self) -> io::Result<()> {
        for (path, mode) in self.directories().into_iter().rev() {
            let Some(mode) = mode.map(u32::from) else { continue };
            let path = place(&self.root, &path);
            let found = path.symlink_metadata().map_err(told(&path))?.mode();
            if found & 0o7777 != mode {
                let mode = Permissions::from_mode(mode);
                std::fs::set_permissions(&path, mode).map_err(told(&path))?;
            }
        }
        Ok(())
    }

    /// Removes what is not as it was left, and everything that shares an inode with it.
    fn forget_changed(&mut self) -> io::Result<()> {
        let there = self.scan()?;
        let is_same = |path: &Vec<u8>| {
            let Some(stamp) = there.get(path).filter(|one| self.stamps.get(path) == Some(one))
            else {
                return false;
            };
            let is_recent = stamp.content.is_some_and(|(_, changed)| changed >= self.stamped);
            !(self.compares_content || is_recent) || self.holds(path)
        };
        let changed: Vec<&Vec<u8>> = self.stamps.keys().filter(|path| !is_same(path)).collect();
        let added = there.keys().filter(|path| !self.stamps.contains_key(*path));
        let objects: Vec<_> = changed.iter().filter_map(|path| self.shows.find(path)).collect();
        let shares =
            |path: &&Vec<u8>| self.shows.find(path).is_some_and(|object| objects.contains(&object));
        let shared = if objects.is_empty() {
            Vec::new()
        } else {
            self.stamps.keys().filter(shares).collect()
        };
        let mut gone: Vec<Vec<u8>> =
            changed.into_iter().chain(shared).chain(added).cloned().collect();
        gone.sort();
        gone.dedup();
        for path in &gone {
            remove(&place(&self.root, path))?;
            self.forget(path);
        }
        Ok(())
    }

    /// The directory does not show this path any longer.
    fn forget(&mut self, path: &[u8]) {
        let (above, name) = match path.iter().rposition(|&byte| byte == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&[][..], path),
        };
        let Some(directory) = self.shows.find(above) else { return };
        let set = NameChange { directory, name: name.to_vec().into(), object: None };
        self.shows.apply(&Change::Names { sets: vec![set], replacing: None });
    }

    /// True if a file has the bytes that it is to show.
    fn holds(&self, path: &[u8]) -> bool {
        let Some(object) = self.shows.find(path) else { return false };
        let place = place(&self.root, path);
        match place.symlink_metadata() {
            Ok(metadata) if metadata.is_file() => {
                std::fs::read(&place).is_ok_and(|bytes| bytes == self.shows.bytes(object))
            }
            Ok(_) => true,
            Err(_) => false,
        }
    }

    /// All that is below the directory.
    fn scan(&self) -> io::Result<BTreeMap<Vec<u8>, Stamp>> {
        let mut found = BTreeMap::new();
        let mut left = vec![Vec::new()];
        while let Some(above) = left.pop() {
            let directory = place(&self.root, &above);
            let entries = match std::fs::read_dir(&directory) {
                // The tree wants it so, and what is in it cannot have been changed.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
                entries => entries.map_err(told(&directory))?,
            };
            for entry in entries {
                let entry = entry.map_err(told(&directory))?;
                let metadata = match entry.metadata() {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    metadata => metadata.map_err(told(&entry.path()))?,
                };
                let mut path = above.clone();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(entry.file_name().as_bytes());
                if metadata.is_dir() {
                    left.push(path.clone());
                }
                found.insert(path, Stamp::of(&metadata));
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_calls::model::{Attributes, Object};
    use seekless_fs::call::New;

    /// A file `f` of these bytes.
    fn tree(bytes: &'static [u8]) -> Tree {
        let object = |what, mode| Object {
            ino: 0,
            what,
            attributes: Attributes { mode: Some(mode), ..Attributes::default() },
        };
        let objects = [object(New::Directory, 0o755), object(New::File, 0o644)];
        let mut tree = Tree::new(objects.into());
        let set = NameChange { directory: TOP, name: b"f"[..].into(), object: Some(1) };
        tree.apply(&Change::Names { sets: vec![set], replacing: None });
        tree.apply(&Change::Grow { object: 1, to: bytes.len() as u64 });
        tree.apply(&Change::Page { object: 1, at: 0, data: bytes.into() });
        tree
    }

    /// What a file holds after a check stored other bytes into it and no stamp shows that, as
    /// within a tick of the clock, or on tmpfs. `stamped` is the clock at the last look.
    fn after_a_hidden_change(stamped: Tick, compares_content: bool) -> Vec<u8> {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("f");
        let mut copy = Copy::new(dir.path(), tree(b"good").without_entries()).expect("empty");
        copy.show(&tree(b"good")).expect("shown");
        std::fs::write(&file, "evil").expect("written");
        copy.stamps = copy.scan().expect("a directory");
        (copy.stamped, copy.compares_content) = (stamped, compares_content);
        copy.show(&tree(b"good")).expect("shown");
        std::fs::read(file).expect("there")
    }

    #[test]
    fn content_is_compared_where_stamps_may_hide_a_change() {
        let (past, future) = ((0, 0), (i64::MAX, 0));
        assert_eq!(after_a_hidden_change(past, false), b"good", "within a tick");
        assert_eq!(after_a_hidden_change(future, true), b"good", "on tmpfs");
        // Else stamps are trusted: a change that they hide stays.
        assert_eq!(after_a_hidden_change(future, false), b"evil");
    }

    #[test]
    fn after_a_step_that_failed_the_next_tree_is_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut copy = Copy::new(dir.path(), tree(b"one").without_entries()).expect("empty");
        copy.show(&tree(b"one")).expect("shown");
        // A name that no directory takes.
        let mut bad = tree(b"two");
        let name = vec![b'x'; 300].into();
        let set = NameChange { directory: TOP, name, object: Some(1) };
        bad.apply(&Change::Names { sets: vec![set], replacing: None });
        assert!(copy.show(&bad).is_err());
        copy.show(&tree(b"one")).expect("shown");
        assert_eq!(std::fs::read(dir.path().join("f")).expect("there"), b"one");
        assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 1);
    }
}
