#![allow(clippy::unwrap_used)]

use super::copy::Copy;
use seekless_calls::model::{Attributes, Change, NameChange, Object, TOP, Tree};
use seekless_fs::call::New;
use std::fs::Permissions;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use tempfile::TempDir;

const DIRECTORY: u32 = 1;
const FILE: u32 = 2;
const OTHER: u32 = 3;
const LINK: u32 = 4;

/// A tree of a directory `d`, files and a link, none of which has a name yet.
fn empty() -> Tree {
    let object = |what: New, mode: u16| Object {
        ino: Default::default(),
        what,
        attributes: Attributes { mode: Some(mode), ..Attributes::default() },
    };
    let link = New::Symlink(b"d/f".to_vec().into());
    let whats = [(New::Directory, 0o755), (New::Directory, 0o750), (New::File, 0o640)];
    let more = [(New::File, 0o600), (link, 0o777)];
    Tree::new(whats.into_iter().chain(more).map(|(what, mode)| object(what, mode)).collect())
}

fn name(tree: &mut Tree, directory: u32, name: &str, object: Option<u32>) {
    let set = NameChange { directory, name: name.as_bytes().to_vec().into(), object };
    tree.apply(&Change::Names { sets: vec![set], replacing: None });
}

fn write(tree: &mut Tree, object: u32, at: u64, data: &[u8]) {
    tree.apply(&Change::Grow { object, to: at + data.len() as u64 });
    tree.apply(&Change::Page { object, at, data: data.to_vec().into() });
}

/// `d/f` and `g` are one file, `h` is another one, `l` a link.
fn full() -> Tree {
    let mut tree = empty();
    name(&mut tree, TOP, "d", Some(DIRECTORY));
    name(&mut tree, DIRECTORY, "f", Some(FILE));
    name(&mut tree, TOP, "g", Some(FILE));
    name(&mut tree, TOP, "h", Some(OTHER));
    name(&mut tree, TOP, "l", Some(LINK));
    write(&mut tree, FILE, 0, b"content");
    write(&mut tree, OTHER, 8192, b"behind a hole");
    tree
}

/// What the directory holds is what the tree says.
fn assert_shows(root: &Path, tree: &Tree) {
    let mut there = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(above) = left.pop() {
        for entry in std::fs::read_dir(above).unwrap() {
            let path = entry.unwrap().path();
            if path.symlink_metadata().unwrap().is_dir() {
                left.push(path.clone());
            }
            there.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
        }
    }
    there.sort();
    let found = tree.found();
    let mut wanted: Vec<String> =
        found.iter().map(|one| String::from_utf8(one.path.clone()).unwrap()).collect();
    wanted.sort();
    assert_eq!(there, wanted);
    for one in &found {
        let path = root.join(std::str::from_utf8(&one.path).unwrap());
        let metadata = path.symlink_metadata().unwrap();
        if !metadata.is_symlink() {
            let mode = tree.attributes(one.object).mode.unwrap();
            assert_eq!(metadata.mode() & 0o7777, u32::from(mode), "{}", path.display());
        }
        if metadata.is_file() {
            assert_eq!(std::fs::read(&path).unwrap(), tree.bytes(one.object), "{}", path.display());
        }
        if let Some(first) = &one.link_to {
            let first = root.join(std::str::from_utf8(first).unwrap());
            assert_eq!(metadata.ino(), first.metadata().unwrap().ino(), "one file, two names");
        }
    }
}

/// A copy that shows [`full`], in a new directory below `above`.
fn shown(above: &Path) -> (TempDir, Copy) {
    let dir = tempfile::tempdir_in(above).unwrap();
    let mut copy = Copy::new(dir.path(), empty()).unwrap();
    copy.show(&full()).unwrap();
    assert_shows(dir.path(), &full());
    (dir, copy)
}

/// File systems with times of their own: that of temporary files, and one in memory.
fn places() -> Vec<std::path::PathBuf> {
    let places = [std::env::temp_dir(), "/dev/shm".into()];
    places.into_iter().filter(|place| place.is_dir()).collect()
}

#[test]
fn a_directory_goes_from_tree_to_tree() {
    for place in places() {
        let (dir, mut copy) = shown(&place);
        let inode = |name: &str| dir.path().join(name).metadata().unwrap().ino();
        let file = inode("g");
        let mut next = full();
        write(&mut next, FILE, 2, b"N");
        name(&mut next, TOP, "h", None);
        name(&mut next, DIRECTORY, "h", Some(OTHER));
        assert!(copy.show(&next).unwrap() > 0);
        assert_shows(dir.path(), &next);
        assert_eq!(inode("g"), file, "a file is changed where it is");
        assert_eq!(copy.show(&next).unwrap(), 0, "nothing is left to do");
        copy.show(&empty()).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        copy.show(&full()).unwrap();
        assert_shows(dir.path(), &full());
    }
}

#[test]
fn what_a_check_has_done_is_undone() {
    let changes: [fn(&Path); 9] = [
        |root| std::fs::write(root.join("g"), "another").unwrap(),
        |root| std::fs::remove_file(root.join("d/f")).unwrap(),
        |root| std::fs::remove_dir_all(root.join("d")).unwrap(),
        |root| std::fs::write(root.join("d/new"), "left behind").unwrap(),
        |root| std::fs::rename(root.join("h"), root.join("g")).unwrap(),
        |root| {
            std::fs::set_permissions(root.join("d"), Permissions::from_mode(0o0)).unwrap();
        },
        |root| {
            std::fs::remove_file(root.join("l")).unwrap();
            std::fs::create_dir_all(root.join("l/deep/er")).unwrap();
        },
        |root| {
            std::fs::remove_dir_all(root.join("d")).unwrap();
            std::os::unix::fs::symlink("/etc", root.join("d")).unwrap();
        },
        // Equal size, within the tick of the last look, by a descriptor.
        |root| {
            let file = std::fs::File::options().write(true).open(root.join("h")).unwrap();
            file.write_all_at(b"X", 8192).unwrap();
        },
    ];
    for place in places() {
        for (number, change) in changes.iter().enumerate() {
            let (dir, mut copy) = shown(&place);
            change(dir.path());
            copy.show(&full()).unwrap_or_else(|error| panic!("change {number}: {error}"));
            assert_shows(dir.path(), &full());
            assert!(Path::new("/etc/passwd").exists(), "nothing outside is touched");
        }
    }
}

/// Stores into a mapping change no time on tmpfs, and may change none within a tick elsewhere.
#[test]
fn stores_into_mappings_are_undone() {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    for place in places() {
        let (dir, mut copy) = shown(&place);
        let file =
            std::fs::File::options().read(true).write(true).open(dir.path().join("g")).unwrap();
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the mapping is of a file that has a byte there, and goes before the file.
        unsafe {
            let mapped = mmap(std::ptr::null_mut(), 4096, protection, flags, &file, 0).unwrap();
            mapped.cast::<u8>().write(b'X');
            munmap(mapped, 4096).unwrap();
        }
        assert_eq!(std::fs::read(dir.path().join("d/f")).unwrap(), b"Xontent");
        copy.show(&full()).unwrap();
        assert_shows(dir.path(), &full());
    }
}

#[test]
fn a_directory_that_its_owner_may_not_change_is_shown_and_goes() {
    for place in places() {
        let (dir, mut copy) = shown(&place);
        let mut next = full();
        let set = Attributes { mode: Some(0o500), ..Attributes::default() };
        next.apply(&Change::Attributes { object: DIRECTORY, set });
        write(&mut next, FILE, 0, b"C");
        copy.show(&next).unwrap();
        assert_shows(dir.path(), &next);
        assert_eq!(copy.show(&next).unwrap(), 0);
        copy.show(&full()).unwrap();
        assert_shows(dir.path(), &full());
    }
}
