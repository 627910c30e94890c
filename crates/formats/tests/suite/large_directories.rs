//! Directories of more blocks than one run of an operation reads: looked up and listed when nothing
//! of them is in the cache.

use crate::vlfs;
use bytes::Bytes;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::node::Node;
use seekless_engine::units::SECONDS;
use seekless_formats::{MkfsOptions, MountOptions, ffs};
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, Ino, New, ROOT, Request};
use seekless_fs::policy::PolicyKind;
use seekless_fs::system::FileSystem;

/// Names of a length of which a chunk holds one.
fn name(number: u32) -> Bytes {
    format!("{number:0>250}").into()
}

fn made<F: FileSystem>(fs: &mut Blocking<F>, request: Request) -> Ino {
    match fs.run(request) {
        Ok(Answer::Object(attr, _)) => attr.ino,
        other => panic!("{other:?}"),
    }
}

/// A directory with so many names of one file.
fn fill<F: FileSystem>(fs: &mut Blocking<F>, names: u32) -> Ino {
    let (what, mode, open) = (New::Directory, 0o755, false);
    let dir = Request::Make { dir: ROOT, name: "dir".into(), what, mode, open };
    let dir = made(fs, dir);
    let file = Request::Make { dir, name: name(0), what: New::File, mode, open };
    let ino = made(fs, file);
    for number in 1..names {
        made(fs, Request::Link { ino, dir, name: name(number) });
    }
    dir
}

/// The last name is found, and is the only one of a list when all others are gone.
fn last_is_found<F: FileSystem>(
    mut fs: Blocking<F>,
    dir: Ino,
    names: u32,
    again: impl FnOnce(Blocking<F>) -> Blocking<F>,
) {
    made(&mut fs, Request::Lookup { dir, name: name(names - 1) });
    for number in 0..names - 1 {
        fs.run(Request::Unlink { dir, name: name(number) }).expect("it is there");
    }
    let mut fs = again(fs);
    let Ok(Answer::Opened(handle)) = fs.run(Request::Open { ino: dir, truncate: false }) else {
        panic!("it is there");
    };
    let mut found = Vec::new();
    let mut cookie = 0;
    loop {
        match fs.run(Request::List { handle, cookie, most_bytes: 4096 }) {
            Ok(Answer::Entries(entries)) if entries.is_empty() => break,
            Ok(Answer::Entries(entries)) => {
                cookie = entries.last().map_or(cookie, |entry| entry.cookie);
                found.extend(entries.into_iter().map(|entry| entry.name));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(found, [Bytes::from_static(b"."), Bytes::from_static(b".."), name(names - 1)]);
}

#[test]
fn of_vlfs() {
    let names = 8 * 3_200;
    let again = |fs: Blocking<_>| {
        let now = fs.now() + SECONDS;
        vlfs::mount((fs.unmount().0, now), PolicyKind::Async)
    };
    let mut fs = vlfs::mount(vlfs::formatted(1 << 15, false), PolicyKind::Async);
    let dir = fill(&mut fs, names);
    last_is_found(again(fs), dir, names, again);
}

fn mount_ffs(node: Node) -> Blocking<ffs::Ffs> {
    let options = MountOptions { now: 1, ..MountOptions::default() };
    Blocking::mount(node, |disk| ffs::mount(disk, &options)).expect("it is clean")
}

#[test]
fn of_ffs() {
    let names = 8 * 3_200;
    let again = |fs: Blocking<_>| mount_ffs(fs.unmount().0);
    let mut node = Plain::node(Box::new(Ram::new(Box::new(Cells::new(1 << 14)))));
    let options = MkfsOptions { block: 4096, ..MkfsOptions::default() };
    ffs::mkfs(&mut NodeDisk::new(&mut node, &mut 0), &options).expect("it fits");
    let mut fs = mount_ffs(node);
    let dir = fill(&mut fs, names);
    last_is_found(again(fs), dir, names, again);
}
