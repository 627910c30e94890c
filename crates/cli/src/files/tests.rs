//! The tools over the model: what goes in comes out.

use super::copy_in::CopyIn;
use super::copy_out::CopyOut;
use super::list::{ListStyle, permissions, print, time};
use super::tar_out::TarOut;
use super::*;
use seekless_fs_model::model::{Limits, Model};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use tempfile::TempDir;

const NOW: Timestamp = 1_700_000_000_000_000_000;

fn empty() -> Files<Model> {
    Files::new(Model::new(Limits::default()), NOW)
}

/// A tree of the host: nested directories, an empty one, links of both kinds, a hole, an odd name.
fn tree() -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("a/b/c")).expect("directories");
    fs::create_dir(at("empty")).expect("a directory");
    fs::write(at("a/one"), b"the first file").expect("a file");
    fs::write(at("a/b/c/big"), pattern(700_001)).expect("a file");
    fs::write(at("zero"), b"").expect("a file");
    fs::write(at("name \u{fc} with\nlines"), b"odd").expect("a file");
    fs::hard_link(at("a/one"), at("a/b/same")).expect("a link");
    symlink("../one", at("a/b/up")).expect("a link");
    symlink("nowhere", at("dangling")).expect("a link");
    let sparse = fs::File::create(at("sparse")).expect("a file");
    sparse.set_len(1 << 20).expect("a size");
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"middle", 500_000).expect("a write");
    dir
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

/// Everything below a directory of the host: path, mode, size, time and content, in order.
fn host_tree(top: &Path) -> Vec<(String, u32, i64, i64, Vec<u8>)> {
    let (mut found, mut stack) = (Vec::new(), vec![top.to_owned()]);
    while let Some(path) = stack.pop() {
        let meta = fs::symlink_metadata(&path).expect("it exists");
        let content = if meta.is_symlink() {
            fs::read_link(&path).expect("a link").to_string_lossy().into_owned().into_bytes()
        } else if meta.is_file() {
            fs::read(&path).expect("a file")
        } else {
            let entries = fs::read_dir(&path).expect("a directory");
            stack.extend(entries.map(|entry| entry.expect("an entry").path()));
            Vec::new()
        };
        let name = path.strip_prefix(top).expect("below").to_string_lossy().into_owned();
        found.push((name, meta.mode(), meta.mtime(), meta.mtime_nsec(), content));
    }
    found.sort_unstable();
    found
}

fn copied_in(from: &Path, to: &[u8]) -> Files<Model> {
    let mut files = empty();
    CopyIn::default().copy(&mut files, from, to).expect("the tree is copied");
    files
}

#[test]
fn a_tree_that_goes_in_comes_out() {
    let source = tree();
    let mut files = copied_in(source.path(), b"/copy");
    let target = tempfile::tempdir().expect("a directory");
    let mut out = CopyOut::default();
    out.copy(&mut files, b"/copy", &target.path().join("back")).expect("the tree is copied");
    assert_eq!(host_tree(source.path()), host_tree(&target.path().join("back")));
    let inode = |name: &str| fs::metadata(target.path().join("back").join(name)).map(|m| m.ino());
    assert_eq!(inode("a/one").expect("a file"), inode("a/b/same").expect("a file"));
    assert!(out.left_out.is_empty());
    assert_eq!(files.mark(), 0, "lookups are forgotten");
}

#[test]
fn copies_go_into_directories_and_over_files() {
    let source = tree();
    let mut files = copied_in(source.path(), b"/d");
    CopyIn::default().copy(&mut files, &source.path().join("a/one"), b"/d").expect("a copy");
    CopyIn::default().copy(&mut files, &source.path().join("zero"), b"/d/a/one").expect("a copy");
    let model = files.into_system();
    assert_eq!(model.at("d/one").map(|attr| attr.size), Some(14));
    assert_eq!(model.at("d/a/one").map(|attr| attr.size), Some(0));
    assert_eq!(model.at("d/sparse").map(|attr| attr.sectors), Some(8), "holes stay");
    let mut files = Files::new(model, NOW);
    let mut over = CopyIn::default();
    over.copy(&mut files, &source.path().join("a"), b"/d/zero").expect("the rest is copied");
    assert!(matches!(over.tally.failed[..], [ToolError::Kinds(_)]), "{:?}", over.tally);
}

/// A file system of which one file cannot be read.
struct Damaged {
    model: Model,
    bad: Ino,
}

impl Runs for Damaged {
    fn run(&mut self, call: Call) -> seekless_fs::call::Reply {
        let id = call.id;
        let is_bad = |handle| seekless_fs::call::by_inode(self.bad) == handle;
        match call.request {
            Request::Open { ino, .. } if ino == self.bad => {
                let opened = Answer::Opened(seekless_fs::call::by_inode(ino));
                seekless_fs::call::Reply { id, result: Ok(opened) }
            }
            Request::Read { handle, .. } if is_bad(handle) => {
                seekless_fs::call::Reply { id, result: Err(Errno::Io) }
            }
            Request::Release { handle } if is_bad(handle) => {
                seekless_fs::call::Reply { id, result: Ok(Answer::Done) }
            }
            _ => self.model.run(call),
        }
    }
}

fn damaged(source: &Path, bad: &str) -> Files<Damaged> {
    let model = copied_in(source, b"/t").into_system();
    let bad = model.at(bad).expect("the file is there").ino;
    Files::new(Damaged { model, bad }, NOW)
}

#[test]
fn the_rest_comes_out_though_a_file_cannot_be_read() {
    let source = tree();
    let mut files = damaged(source.path(), "t/a/b/c/big");
    let target = tempfile::tempdir().expect("a directory");
    let back = target.path().join("back");
    let mut copy = CopyOut::default();
    copy.copy(&mut files, b"/t", &back).expect("the rest is copied");
    let [ref only] = copy.tally.failed[..] else { panic!("{:?}", copy.tally) };
    assert!(only.to_string().starts_with(":/t/a/b/c/big: "), "{only}");
    assert_eq!(copy.tally.tried, 13);
    let but_bad = |top: &Path| {
        let mut all = host_tree(top);
        all.retain(|(name, ..)| name != "a/b/c/big");
        all
    };
    assert_eq!(but_bad(source.path()), but_bad(&back));

    let mut archive = TarOut::new(Vec::new());
    archive.add(&mut files, b"/t").expect("the rest is archived");
    assert_eq!((archive.tally.failed.len(), archive.tally.tried), (1, 13));
    let mut again = empty();
    let archive = archive.finish().expect("its end");
    again.extract(archive.as_slice(), b"/x").expect("the archive is whole");
    let (mut out, again_at) = (CopyOut::default(), target.path().join("again"));
    out.copy(&mut again, b"/x", &again_at).expect("the tree is copied");
    assert_eq!(but_bad(source.path()), but_bad(&again_at));
    assert!(fs::read(again_at.join("a/b/c/big")).expect("a file").iter().all(|byte| *byte == 0));
}

#[test]
fn the_rest_goes_in_though_a_file_cannot_be_made() {
    let source = tree();
    let mut files = empty();
    let name = source.path().file_name().expect("a name").as_encoded_bytes();
    let mut dir = ROOT;
    for name in [b"t", name, b"zero"] {
        dir = files.make(name, (dir, name), New::Directory).expect("a directory").ino;
    }
    files.forget_to(0);
    let mut copy = CopyIn::default();
    copy.copy(&mut files, source.path(), b"/t").expect("the rest is copied");
    assert!(matches!(copy.tally.failed[..], [ToolError::Kinds(_)]), "{:?}", copy.tally);
    assert_eq!(files.list(b"/t", true).expect("a list").len(), 13);
}

#[test]
fn an_archive_holds_the_whole_tree() {
    let source = tree();
    let mut files = copied_in(source.path(), b"/t");
    let mut archive = TarOut::new(Vec::new());
    archive.add(&mut files, b"/t").expect("an archive");
    let archive = archive.finish().expect("its end");
    let mut again = empty();
    let done = again.extract(archive.as_slice(), b"/x/y").expect("extraction");
    assert_eq!((done.objects, done.left_out.len()), (13, 0));
    let target = tempfile::tempdir().expect("a directory");
    let back = target.path().join("back");
    CopyOut::default().copy(&mut again, b"/x/y", &back).expect("the tree is copied");
    assert_eq!(host_tree(source.path()), host_tree(&back));
}

#[test]
fn archives_of_others_are_read() {
    let source = tree();
    let mut tar = std::process::Command::new("tar");
    let Ok(made) = tar.arg("-C").arg(source.path()).args(["-c", "."]).output() else {
        eprintln!("skipped: tar is not installed");
        return;
    };
    let mut files = empty();
    files.extract(made.stdout.as_slice(), b"/").expect("extraction");
    let mut out = Vec::new();
    files.cat(b"/a/b/c/big", &mut out).expect("the content");
    assert!(out == pattern(700_001));
    let attr = files.resolve(b"/a/b/up", true).expect("it leads to a file");
    assert_eq!((attr.size, attr.links), (14, 2));
}

#[test]
fn damaged_archives_are_refused() {
    let mut files = empty();
    let garbage = files.extract([7_u8; 2048].as_slice(), b"/");
    assert!(matches!(garbage, Err(ToolError::Archive(_))), "{garbage:?}");
    let mut archive = TarOut::new(Vec::new());
    let source = tree();
    let mut from = copied_in(source.path(), b"/t");
    archive.add(&mut from, b"/t/a/b/c/big").expect("an archive");
    let archive = archive.finish().expect("its end");
    let cut = files.extract(&archive[..archive.len() / 2], b"/");
    assert!(cut.is_err(), "{cut:?}");
}

#[test]
fn trees_are_removed_on_demand_only() {
    let source = tree();
    let mut files = copied_in(source.path(), b"/t");
    let whole = files.remove(b"/t", false);
    assert!(matches!(whole, Err(ToolError::Recursive(_))), "{whole:?}");
    files.remove(b"/t/zero", false).expect("a file goes");
    files.remove(b"/t", true).expect("a tree goes");
    let missing = files.remove(b"/t", true).expect_err("it is gone");
    assert!(missing.to_string().starts_with(":/t: no such file"), "{missing}");
    let model = files.into_system();
    assert_eq!(model.nodes().count(), 1, "only the root is left");
}

#[test]
fn a_deep_tree_needs_no_stack() {
    let mut files = empty();
    let mut path = Vec::new();
    let mut dir = ROOT;
    for _ in 0..3000 {
        path.extend_from_slice(b"/d");
        dir = files.make(&path, (dir, b"d"), New::Directory).expect("a directory").ino;
    }
    files.forget_to(0);
    assert_eq!(files.list(b"/", true).expect("a list").len(), 3000);
    files.remove(b"/d", true).expect("the tree goes");
    assert_eq!(files.into_system().nodes().count(), 1);
}

#[test]
fn links_in_a_circle_end() {
    let mut files = empty();
    files.make(b"/x", (ROOT, b"x"), New::Symlink("y".into())).expect("a link");
    files.make(b"/y", (ROOT, b"y"), New::Symlink("/x".into())).expect("a link");
    let circle = files.resolve(b"/x/z", true);
    assert!(matches!(circle, Err(ToolError::Circle(_))), "{circle:?}");
    assert!(files.resolve(b"/x", false).is_ok());
    assert_eq!(files.resolve(b"/../..", true).map(|attr| attr.ino).ok(), Some(ROOT));
}

#[test]
fn lists_are_printed_as_ls_prints_them() {
    let mut files = empty();
    files.make(b"/link", (ROOT, b"link"), New::Symlink("to".into())).expect("a link");
    files.make(b"/dir", (ROOT, b"dir"), New::Directory).expect("a directory");
    let null = New::CharDevice(super::list::device(1, 3));
    files.make(b"/null", (ROOT, b"null"), null).expect("a device");
    let listed = files.list(b"/", false).expect("a list");
    let mut out = Vec::new();
    let style = ListStyle { long: true, recursive: false };
    print(&listed, style, &mut out).expect("memory");
    let text = String::from_utf8(out).expect("text");
    let expected = "\
drwxr-xr-x   2     0     0          0 2023-11-14 22:13:20 dir
lrwxrwxrwx   1     0     0          2 2023-11-14 22:13:20 link -> to
crwxr-xr-x   1     0     0        1,3 2023-11-14 22:13:20 null
";
    assert_eq!(text, expected);
    assert_eq!(permissions(0o7644), "rwSr-Sr-T");
    assert_eq!(permissions(0o7755), "rwsr-sr-t");
    assert_eq!(time(-1), "1969-12-31 23:59:59");
    assert_eq!(time(951_782_400_000_000_000), "2000-02-29 00:00:00");
}

#[test]
fn devices_keep_their_numbers() {
    for (major, minor) in [(1, 3), (8, 0x1_2345), (0xfff, 0xf_ffff)] {
        let number = super::list::device(major, minor);
        assert_eq!((super::list::major(number), super::list::minor(number)), (major, minor));
    }
}
