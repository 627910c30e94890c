//! All operations against the POSIX model, with and without missing pages.

use super::rename::Rename;
use super::{Progress, attr, lookup, make, read, remove, rename, space};
use crate::ffs::inodes;
use crate::ffs::kit::harness::{MemFs, Shared};
use crate::ffs::ondisk::inode::Inode;
use crate::options::MkfsOptions;
use seekless_fs::call::{
    AllocateHow, Credentials, Errno, FileKind, Ino, New, ROOT, RenameHow, SeekWhat,
};
use seekless_fs_model::model::Limits;
use seekless_fs_model::oracle;
use seekless_fs_model::script::{Kind, Script, Shape};
use std::cell::RefCell;
use std::rc::Rc;

const ROOT_USER: Credentials = Credentials { uid: 0, gid: 0 };
const SHAPES: [(u32, u32); 4] = [(8192, 4096), (8192, 1024), (4096, 1024), (4096, 4096)];

fn options((block, fragment): (u32, u32)) -> MkfsOptions {
    MkfsOptions { block, fragment, ..MkfsOptions::default() }
}

fn fs(bytes: u64, shape: (u32, u32)) -> MemFs {
    MemFs::new(bytes, &options(shape))
}

fn limits(fs: &MemFs) -> Limits {
    Limits { most_bytes: fs.vol.geometry.most_file_bytes(), ..Limits::default() }
}

fn agree(kind: Kind, seed: u64, length: usize, shape: (u32, u32), misses: bool) {
    let bytes = if kind.may_fill() { 2 << 20 } else { 64 << 20 };
    let limits = limits(&fs(bytes, shape));
    let script = Script::random(kind, seed, length, Shape::default());
    let mut last = None;
    let mut new = || {
        let mut fs = fs(bytes, shape);
        if misses {
            fs.tx.miss_at_random(seed);
        }
        let fs = Shared(Rc::new(RefCell::new(fs)));
        last = Some(fs.clone());
        fs
    };
    if let Err(difference) = oracle::check(&mut new, &script, limits) {
        panic!("blocks {shape:?}, misses {misses}: {difference}");
    }
    let Shared(fs) = last.expect("the oracle has used one");
    let mut fs = fs.borrow_mut();
    assert_eq!(fs.tx.misses > 0, misses);
    let findings = fs.unmount_and_check();
    assert!(findings.is_clean(), "{kind:?}, seed {seed}, blocks {shape:?}: {findings}");
}

#[test]
fn every_reply_is_that_of_the_model() {
    for kind in Kind::ALL {
        for seed in 0..8 {
            agree(kind, seed, 600, SHAPES[seed as usize % 4], false);
        }
    }
}

#[test]
fn operations_that_are_stopped_anywhere_and_run_again_agree_too() {
    for kind in Kind::ALL {
        for seed in 100..104 {
            agree(kind, seed, 300, SHAPES[seed as usize % 4], true);
        }
    }
}

#[test]
#[ignore = "takes most of a minute; `cargo xtask ci fuzz` runs it"]
fn many_scripts_agree() {
    for seed in 1000..1060 {
        for kind in Kind::ALL {
            agree(kind, seed, 2000, SHAPES[seed as usize % 4], seed % 3 == 0);
        }
    }
}

fn make_file(fs: &mut MemFs, dir: Ino, name: &[u8], what: &New) -> Result<Ino, Errno> {
    let make = make::Make { dir, name, what, mode: 0o644 };
    fs.op(|tx, vol| make::make(tx, vol, ROOT_USER, make)).map(|attr| attr.ino)
}

fn remove_file(fs: &mut MemFs, dir: Ino, name: &[u8]) {
    let removed = fs.op(|tx, vol| remove::unlink(tx, vol, dir, name)).expect("there");
    while fs.op(|tx, vol| remove::reap(tx, vol, removed.ino)).expect("free")
        != super::Progress::Done
    {}
}

#[test]
fn all_space_comes_back_from_files_of_every_shape() {
    for shape in SHAPES {
        let mut fs = fs(64 << 20, shape);
        fs.tx.miss_at_random(7);
        let before = space::space(&fs.vol);
        let block = u64::from(shape.0);
        let each = block / 512 * 126;
        // Ends around fragments and blocks, and holes up to triple indirect blocks.
        let places = [
            vec![(0, 1)],
            vec![(0, 12 * block as usize - 1)],
            vec![(0, 12 * block as usize + 1)],
            vec![(0, 3 << 20)],
            vec![(0, 10), ((12 + each + 5) * block, 100_000)],
            vec![((12 + each + each * each + 7) * block - 3, 50_000)],
        ];
        for writes in places {
            let ino = make_file(&mut fs, ROOT, b"file", &New::File).expect("room");
            for (at, length) in writes {
                let data = vec![at as u8 | 1; length];
                assert_eq!(fs.write(ROOT_USER, ino, (at, false), &data), Ok(length));
                assert_eq!(fs.read(ino, at, length).expect("there"), data);
            }
            fs.check_summaries();
            remove_file(&mut fs, ROOT, b"file");
            assert_eq!(space::space(&fs.vol), before, "{shape:?}");
        }
        fs.check_summaries();
    }
}

#[test]
fn a_directory_holds_a_hundred_thousand_names() {
    let mut fs = MemFs::new(
        64 << 20,
        &MkfsOptions { bytes_per_inode: 512, minfree: 0, ..options((8192, 1024)) },
    );
    let target = make_file(&mut fs, ROOT, b"target", &New::File).expect("room");
    let dir = make_file(&mut fs, ROOT, b"dir", &New::Directory).expect("room");
    let name = |n: u32| format!("name {n}").into_bytes();
    let most = 64_000;
    for n in 0..most {
        let name = name(n);
        fs.op(|tx, vol| super::link::link(tx, vol, ROOT_USER, target, dir, &name)).expect("room");
    }
    fs.store_groups();
    fs.remount().expect("whole");
    for n in (0..most).step_by(997) {
        let name = name(n);
        let found = fs.op(|tx, vol| lookup::lookup(tx, vol, dir, &name)).expect("there");
        assert_eq!(found.ino, target);
    }
    let size = fs.op(|tx, vol| attr::get(tx, vol, dir)).expect("there").size;
    for n in 0..most {
        let name = name(n);
        fs.op(|tx, vol| remove::unlink(tx, vol, dir, &name)).expect("there");
    }
    for n in 0..1000 {
        let name = name(n);
        fs.op(|tx, vol| super::link::link(tx, vol, ROOT_USER, target, dir, &name)).expect("room");
    }
    let after = fs.op(|tx, vol| attr::get(tx, vol, dir)).expect("there").size;
    assert_eq!(after, size, "new names take the room of old ones");
    assert_eq!(fs.op(|tx, vol| remove::rmdir(tx, vol, ROOT, b"dir")), Err(Errno::NotEmpty));
}

#[test]
fn only_root_fills_the_reserve_and_a_full_disk_refuses_without_a_trace() {
    let mut fs = fs(2 << 20, (8192, 1024));
    let user = Credentials { uid: 1000, gid: 1000 };
    let ino = make_file(&mut fs, ROOT, b"file", &New::File).expect("room");
    let chunk = vec![7; 100_000];
    while fs.write(user, ino, (0, true), &chunk) == Ok(chunk.len()) {}
    let left = space::space(&fs.vol);
    assert!(left.available < 8 + 8, "the user got what users may have: {left:?}");
    assert!(left.free >= left.fragments * 8 / 100);
    let size = fs.op(|tx, vol| attr::get(tx, vol, ino)).expect("there").size;
    while fs.write(ROOT_USER, ino, (0, true), &chunk) == Ok(chunk.len()) {}
    let full = fs.op(|tx, vol| attr::get(tx, vol, ino)).expect("there");
    assert!(full.size > size && space::space(&fs.vol).free < 16);
    assert_eq!(fs.write(ROOT_USER, ino, (0, true), &chunk), Err(Errno::NoSpc));
    assert_eq!(fs.op(|tx, vol| attr::get(tx, vol, ino)).expect("there"), full);
    fs.check_summaries();
}

#[test]
fn the_inodes_run_out_and_come_back() {
    let mut fs = fs(1 << 20, (4096, 1024));
    let mut made = 0_u32;
    let errno = loop {
        let name = format!("f{made}").into_bytes();
        match make_file(&mut fs, ROOT, &name, &New::File) {
            Ok(_) => made += 1,
            Err(errno) => break errno,
        }
    };
    assert_eq!(errno, Errno::NoSpc);
    assert!(made > 20);
    remove_file(&mut fs, ROOT, b"f3");
    let ino = make_file(&mut fs, ROOT, b"again", &New::Fifo).expect("one is free");
    let attr = fs.op(|tx, vol| attr::get(tx, vol, ino)).expect("there");
    assert_eq!((attr.kind, attr.links), (FileKind::Fifo, 1));
    fs.check_summaries();
}

#[test]
fn sequential_data_is_contiguous() {
    let mut fs = fs(64 << 20, (8192, 1024));
    let ino = make_file(&mut fs, ROOT, b"file", &New::File).expect("room");
    let data = vec![1; 4 << 20];
    assert_eq!(fs.write(ROOT_USER, ino, (0, false), &data), Ok(data.len()));
    let mut blocks = Vec::new();
    for index in 0..512 {
        let block = fs.op(|tx, vol| read::place(tx, vol, ino, index)).expect("there");
        blocks.push(block.expect("no hole"));
    }
    let breaks = blocks.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
    assert!(breaks <= 3, "{breaks} breaks in 512 blocks");
}

/// A tree with files of several shapes, directories and links.
fn small_tree(fs: &mut MemFs) -> Vec<(Ino, Vec<u8>)> {
    let mut names = Vec::new();
    let dir = make_file(fs, ROOT, b"dir", &New::Directory).expect("room");
    names.push((ROOT, b"dir".to_vec()));
    for n in 0..60_u32 {
        let name = format!("a rather long name of a file, number {n}").into_bytes();
        let what = match n % 5 {
            3 => New::Directory,
            4 => New::Symlink(vec![b'x'; 100].into()),
            _ => New::File,
        };
        let parent = [ROOT, dir][n as usize % 2];
        let ino = make_file(fs, parent, &name, &what).expect("room");
        if what == New::File {
            let at = u64::from(n % 3) * 150_000;
            fs.write(ROOT_USER, ino, (at, false), &[n as u8; 5000]).expect("room");
        }
        names.push((parent, name));
    }
    names
}

/// Does something of everything with each name; errors are what damage may cause.
fn use_tree(fs: &mut MemFs, names: &[(Ino, Vec<u8>)]) {
    for (number, (dir, name)) in names.iter().enumerate() {
        let at = number as u64 * 7000;
        if let Ok(attr) = fs.op(|tx, vol| lookup::lookup(tx, vol, *dir, name)) {
            let _ = fs.read(attr.ino, at, 20_000);
            let _ = fs.write(ROOT_USER, attr.ino, (at, number % 2 == 0), &[1; 3000]);
            let _ = fs.op(|tx, vol| attr::read_link(tx, vol, attr.ino));
            let _ = fs.op(|tx, vol| super::list::list(tx, vol, attr.ino, at, 4096));
            let data = SeekWhat::Data;
            let _ = fs.op(|tx, vol| super::seek::seek(tx, vol, attr.ino, 0, data));
            let range = (at, at + 9000);
            let how = [AllocateHow::Punch, AllocateHow::KeepSize][number % 2];
            let _ = fs
                .op(|tx, vol| super::allocate::allocate(tx, vol, ROOT_USER, attr.ino, range, how));
            if number % 3 == 0 {
                let _ = fs.truncate(ROOT_USER, attr.ino, at / 2);
            }
        }
        let _ = make_file(fs, *dir, format!("new {number}").as_bytes(), &New::Directory);
        let (to_dir, to_name) = &names[(number * 7 + 1) % names.len()];
        let how = RenameHow::Replace;
        let rename = Rename { dir: *dir, name, to_dir: *to_dir, to_name, how };
        let removed = fs.op(|tx, vol| rename::rename(tx, vol, ROOT_USER, rename));
        let gone = fs.op(|tx, vol| remove::unlink(tx, vol, *to_dir, to_name));
        let _ = fs.op(|tx, vol| remove::rmdir(tx, vol, *dir, name));
        for removed in removed.ok().flatten().into_iter().chain(gone) {
            while fs.op(|tx, vol| remove::reap(tx, vol, removed.ino)) == Ok(Progress::More) {}
        }
    }
}

#[test]
fn damaged_metadata_with_whole_seals_ends_in_errors_only() {
    let mut whole = fs(4 << 20, (4096, 1024));
    let names = small_tree(&mut whole);
    whole.store_groups();
    for seed in 1..400_u64 {
        let mut fs = whole.clone();
        for n in 0..=seed % 3 {
            fs.tx.damage(seed * 0x9e37_79b9 + n);
        }
        if fs.remount().is_ok() {
            use_tree(&mut fs, &names);
        }
    }
}

#[test]
fn the_check_of_these_tests_sees_a_wrong_link_count() {
    let mut fs = fs(4 << 20, (8192, 1024));
    let names = small_tree(&mut fs);
    assert!(fs.clone().unmount_and_check().is_clean());
    let (dir, name) = names[1].clone();
    let ino = fs.op(|tx, vol| lookup::lookup(tx, vol, dir, &name)).expect("there").ino;
    fs.op(|tx, vol| {
        let old = inodes::get(tx, vol, ino)?;
        let new = Inode { links: 5, ..old.clone() };
        inodes::put(tx, vol, ino, &old, &new)
    })
    .expect("there");
    assert!(!fs.unmount_and_check().is_clean());
}
