//! Recovery of states, and what stands in them.

use super::*;
use crate::own;
use crate::own::device::ImageDevice;
use crate::own::run::image_of;
use crate::places::Places;
use crate::record::recorder::Recorder;
use crate::session::Load;
use crate::states::state::{Fate, State};
use seekless_formats::{Kind, MountedFs, ffs};
use seekless_fs::call::{Answer, Call, Credentials, Errno, FileKind, Ino, New, ROOT, Request};
use seekless_fs::call::{Reply, by_inode};
use seekless_fs::system::{FileSystem as _, Runs as _};
use seekless_serve::files::{Offline, Volume};
use tempfile::TempDir;

const SIZE: u64 = 8 << 20;

/// An image with a file system.
fn base() -> (TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("base");
    File::create(&path).and_then(|file| file.set_len(SIZE)).expect("a file");
    own::make(Kind::default(), OwnPolicy::default(), &path).expect("a file system");
    (dir, path)
}

fn ask(fs: &mut Offline<Box<dyn MountedFs>>, request: Request) -> Result<Answer, Errno> {
    let Reply { result, .. } = fs.run(Call { id: 1, who: Credentials::default(), now: 1, request });
    result
}

fn lookup(fs: &mut Offline<Box<dyn MountedFs>>, name: &'static str) -> Result<Ino, Errno> {
    ask(fs, Request::Lookup { dir: ROOT, name: name.into() }).map(|answer| match answer {
        Answer::Object(attr, _) => attr.ino,
        other => panic!("{other:?}"),
    })
}

/// A file with content; durable if `sync`.
fn write(fs: &mut Offline<Box<dyn MountedFs>>, name: &'static str, data: Vec<u8>, sync: bool) {
    let (what, name) = (New::File, name.into());
    let make = Request::Make { dir: ROOT, name, what, mode: 0o644, open: false };
    let Ok(Answer::Object(attr, _)) = ask(fs, make) else { panic!("no file") };
    let (handle, ino) = (by_inode(attr.ino), attr.ino);
    let write = Request::Write { handle, at: 0, data: data.into(), append: false };
    ask(fs, write).expect("written");
    if sync {
        ask(fs, Request::Fsync { ino, data_only: false }).expect("durable");
    }
}

/// Records two files, of which the first is durable, and a clean end.
fn recording(dir: &TempDir, base: &Path) -> std::path::PathBuf {
    let tape = dir.path().join("tape");
    let recorder = Recorder::create(&tape, SIZE, false).expect("a recording");
    let image = Arc::new(image_of(base).expect("an image"));
    let device = ImageDevice::recorded(Arc::clone(&image), Arc::clone(&recorder));
    let mut volume = Volume::of_device(Box::new(device), "recorded");
    let fs = own::mount(&mut volume, OwnPolicy::default(), 1).expect("a mount");
    let mut fs = Offline::new(fs, volume);
    write(&mut fs, "durable", vec![1; 20_000], true);
    write(&mut fs, "late", vec![2; 200_000], false);
    fs.close().expect("a clean end");
    recorder.finish().expect("an end");
    // The recording and the device agree.
    let session = Load { recording: &tape, base: Some(base) }.session().expect("a recording");
    let last = session.history().epochs().last().expect("an epoch");
    let fates = vec![Fate::Kept; last.unsettled.len()];
    let end = session.image(&last, &State { cut: last.cut, fates });
    for at in (0..SIZE).step_by(4096) {
        let (mut ours, mut theirs) = ([0; 4096], [0; 4096]);
        image.read(at, &mut ours).expect("read");
        end.read(at, &mut theirs).expect("read");
        assert!(ours == theirs, "byte {at}");
    }
    tape
}

#[test]
fn states_are_recovered_with_what_was_durable() {
    let (dir, base) = base();
    let tape = recording(&dir, &base);
    let session = Load { recording: &tape, base: Some(&base) }.session().expect("a recording");
    let (mut repaired, mut clean, mut lost) = (0, 0, 0);
    for epoch in session.history().epochs() {
        for fate in [Fate::Lost, Fate::Kept] {
            let fates = vec![fate; epoch.unsettled.len()];
            let image = session.image(&epoch, &State { cut: epoch.cut, fates });
            let recovered = recover(Arc::new(image), OwnPolicy::default()).expect("recovered");
            match recovered.repaired {
                Some(_) => repaired += 1,
                None => clean += 1,
            }
            let mut fs = Offline::new(recovered.fs, recovered.volume);
            assert_eq!(fs.fs().failed(), None);
            lost += u32::from(lookup(&mut fs, "durable").is_err());
            // The epochs behind the first fsync have the file whole.
            if let Ok(ino) = lookup(&mut fs, "durable") {
                let (handle, length) = (by_inode(ino), 30_000);
                let read = ask(&mut fs, Request::Read { handle, at: 0, length });
                assert_eq!(read, Ok(Answer::Bytes(vec![1; 20_000].into())));
            }
        }
    }
    assert!(repaired > 0, "no state needed a check");
    assert!(clean > 0, "no state was clean");
    assert!(lost > 0, "a state before the fsync has no file");
}

#[test]
fn a_state_that_cannot_be_recovered_is_bad() {
    let bad = not_recovered(&FsError::NotRepaired { left: 3 });
    assert_eq!(bad.verdict, Verdict::Bad(NOT_RECOVERED));
    assert!(bad.output.starts_with("recovery: repair left 3 findings"), "{}", bad.output);
    let failed = not_recovered(&FsError::Io(IoError::Os { errno: 5 }));
    assert!(matches!(failed.verdict, Verdict::Failed(_)), "{failed:?}");
    // An image of zeros is no file system.
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("zeros");
    File::create(&path).and_then(|file| file.set_len(SIZE)).expect("a file");
    let image = Arc::new(image_of(&path).expect("an image"));
    assert_eq!(recover(image, OwnPolicy::default()).err(), Some(FsError::Foreign));
}

#[test]
fn blocks_have_the_names_of_their_files() {
    let (dir, base) = base();
    let image = Arc::new(image_of(&base).expect("an image"));
    let mut volume = Volume::of_device(Box::new(ImageDevice::new(Arc::clone(&image))), "image");
    let fs = own::mount(&mut volume, OwnPolicy::default(), 1).expect("a mount");
    let mut fs = Offline::new(fs, volume);
    let marked = |index: usize| [&(index as u32).to_le_bytes()[..], &[7; 4092]].concat();
    let content: Vec<u8> = (0..60).flat_map(marked).collect();
    write(&mut fs, "large", content.clone(), true);
    fs.close().expect("a clean end");
    let path = dir.path().join("end");
    let stop = crate::replay::stop::Stop::new().expect("a descriptor");
    image.save(&path, &stop).expect("saved");
    let places = Places::of(Some("seekless:ffs:async"), &path).expect("an FFS");
    assert!(Places::of(Some("ext4"), &path).is_none(), "it is no ext4");
    let bytes = std::fs::read(&path).expect("read");
    for (index, piece) in content.chunks(4096).enumerate() {
        let at = bytes.chunks(4096).position(|block| block == piece).expect("it is there");
        let place = places.describe(at as u64 * 4096, 4096).expect("a place");
        assert_eq!(place, format!("large bytes {}-{}", index * 4096, (index + 1) * 4096));
    }
    assert_eq!(places.describe(65_536, 512).as_deref(), Some("FFS superblock"));
    let root = ffs_directory(&bytes);
    assert_eq!(places.describe(root, 512).as_deref(), Some("directory /"));
    let free = bytes.chunks(4096).rposition(|block| block.iter().all(|&byte| byte == 0));
    let free = free.expect("free space") as u64 * 4096;
    assert_eq!(places.describe(free, 4096), None);
}

/// Where the entry of a file of the root lies.
fn ffs_directory(bytes: &[u8]) -> u64 {
    let entry = [&[ffs::ondisk::entries::type_byte(FileKind::File), 5][..], b"large"].concat();
    let at = bytes.windows(entry.len()).position(|part| part == entry).expect("an entry");
    at as u64 / 512 * 512
}

#[test]
fn trees_are_equal_if_a_check_sees_no_difference() {
    let (dir, base) = base();
    let tape = recording(&dir, &base);
    let session = Load { recording: &tape, base: Some(&base) }.session().expect("a recording");
    let mut trees = std::collections::BTreeMap::new();
    for epoch in session.history().epochs() {
        for fate in [Fate::Lost, Fate::Kept] {
            let fates = vec![fate; epoch.unsettled.len()];
            let image = session.image(&epoch, &State { cut: epoch.cut, fates });
            let image = Arc::new(image);
            let recovered = recover(Arc::clone(&image), OwnPolicy::default()).expect("recovered");
            let tree =
                tree(&image, OwnPolicy::default(), Size::Small).expect("it is small").print();
            let mut fs = Offline::new(recovered.fs, recovered.volume);
            let names = ["durable", "late", "lost+found"];
            let found = names.map(|name| lookup(&mut fs, name).is_ok());
            let known = *trees.entry(tree).or_insert(found);
            assert_eq!(known, found, "epoch {}", epoch.cut);
        }
    }
    // Nothing, the durable file without its name, the durable file, and both.
    let mut found: Vec<[bool; 3]> = trees.values().copied().collect();
    found.sort_unstable();
    let [no, yes] = [false, true];
    assert_eq!(found, [[no, no, no], [no, no, yes], [yes, no, no], [yes, yes, no]], "{trees:?}");
    // One byte of a file, or its mode, makes another tree.
    let tree_of = |data: u8, mode: u16| {
        let image = Arc::new(image_of(&base).expect("an image"));
        let device = ImageDevice::new(Arc::clone(&image));
        let mut volume = Volume::of_device(Box::new(device), "image");
        let fs = own::mount(&mut volume, OwnPolicy::default(), 1).expect("a mount");
        let mut fs = Offline::new(fs, volume);
        write(&mut fs, "file", vec![data; 5000], true);
        let set = seekless_fs::call::SetAttr { mode: Some(mode), ..Default::default() };
        let ino = lookup(&mut fs, "file").expect("it is there");
        ask(&mut fs, Request::SetAttr { ino, set }).expect("set");
        fs.close().expect("a clean end");
        tree(&image, OwnPolicy::default(), Size::Small).expect("it is small").print()
    };
    assert_eq!(tree_of(1, 0o644), tree_of(1, 0o644));
    assert_ne!(tree_of(1, 0o644), tree_of(2, 0o644));
    assert_ne!(tree_of(1, 0o644), tree_of(1, 0o600));
}
