//! `seekless fs`: files of unmounted file systems, on volumes with and without a layout.

use crate::harness::{command, installed, pattern, run, seekless, skip, succeed, temp_dir};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A fresh FFS on a volume of this layout, or in a plain file.
fn made(dir: &Path, layout: Option<&str>) -> PathBuf {
    let image = dir.join("disk.img");
    let mut mkfs = seekless();
    mkfs.arg("mkfs").arg(&image).args(["--fs", "ffs", "--size", "64M"]);
    if let Some(layout) = layout {
        mkfs.args(["--layout", layout]);
    }
    succeed(&mut mkfs);
    image
}

/// `seekless fs TOOL IMAGE`.
fn tool(name: &str, image: &Path) -> Command {
    let mut tool = seekless();
    tool.args(["fs", name]).arg(image);
    tool
}

/// A small tree with links, a large file and a hole.
fn tree(dir: &Path) -> PathBuf {
    let top = dir.join("tree");
    fs::create_dir_all(top.join("a/b")).expect("directories");
    fs::write(top.join("a/large"), pattern(1, 3_000_000)).expect("a file");
    fs::write(top.join("a/b/small"), "a few words\n").expect("a file");
    fs::hard_link(top.join("a/b/small"), top.join("again")).expect("a link");
    symlink("a/b/small", top.join("soft")).expect("a link");
    fs::File::create(top.join("hole")).and_then(|file| file.set_len(9 << 20)).expect("a file");
    top
}

fn same(one: &Path, other: &Path) {
    succeed(command("diff").args(["-r", "--no-dereference"]).args([one, other]));
}

#[test]
fn trees_go_in_and_come_out_on_every_kind_of_volume() {
    for layout in [None, Some("inplace"), Some("vlog"), Some("lfs")] {
        let dir = temp_dir();
        let (image, tree) = (made(dir.path(), layout), tree(dir.path()));
        succeed(tool("cp", &image).arg(&tree).arg(":/"));
        let listed = succeed(tool("ls", &image).args(["/tree", "--recursive"]));
        assert_eq!(listed.lines().count(), 7, "{layout:?}: {listed}");
        assert_eq!(succeed(tool("cat", &image).arg("/tree/soft")), "a few words\n");
        let back = dir.path().join("back");
        succeed(tool("cp", &image).arg(":/tree").arg(&back));
        same(&tree, &back);
        succeed(tool("rm", &image).args(["/tree", "--recursive"]));
        assert_eq!(succeed(&mut tool("ls", &image)), "", "{layout:?}");
    }
}

#[test]
fn what_cannot_be_copied_is_named_and_the_rest_is_copied() {
    let dir = temp_dir();
    let (image, tree) = (made(dir.path(), None), tree(dir.path()));
    let said = |ended: &crate::harness::Ended, all: &[&str]| {
        assert_eq!(ended.code(), 1, "{}", ended.err);
        for what in all {
            assert!(ended.err.contains(what), "{what}: {}", ended.err);
        }
    };
    let missing = dir.path().join("missing");
    let into = run(tool("cp", &image).args([&missing, &tree]).arg(":/"));
    said(&into, &["/missing: No such file", "error: 1 of 9 files and directories could not be"]);
    let back = dir.path().join("back");
    fs::create_dir_all(back.join("tree/a/large")).expect("a directory in the way");
    let out = run(tool("cp", &image).args([":/gone", ":/tree"]).arg(&back));
    said(&out, &[":/gone: ", "tree/a/large exists and is of another kind", "error: 2 of 9"]);
    assert_eq!(fs::read(back.join("tree/a/b/small")).expect("a file"), b"a few words\n");
    let printed = run(tool("cat", &image).args(["/gone", "/tree/soft"]));
    said(&printed, &[":/gone: ", "error: 1 of 2"]);
    assert_eq!(printed.out, "a few words\n");
    let alone = run(tool("cp", &image).arg(":/gone").arg(&back));
    said(&alone, &["error: :/gone: no such file"]);
}

#[test]
fn archives_are_streams() {
    if !installed("tar") {
        return skip("tar is not installed");
    }
    let dir = temp_dir();
    let (image, tree) = (made(dir.path(), Some("vlog")), tree(dir.path()));
    let archive = dir.path().join("in.tar");
    succeed(command("tar").arg("-C").arg(&tree).arg("-cf").arg(&archive).arg("."));
    let input = fs::File::open(&archive).expect("the archive");
    succeed(tool("tar", &image).args(["/new/place", "--extract"]).stdin(Stdio::from(input)));
    let out = dir.path().join("out.tar");
    succeed(tool("tar", &image).arg("/new/place").arg("--file").arg(&out));
    let back = dir.path().join("back");
    fs::create_dir(&back).expect("a directory");
    succeed(command("tar").arg("-C").arg(&back).arg("-xf").arg(&out));
    same(&tree, &back);
    // GNU tar compares permissions, owners, times and links, too.
    succeed(command("tar").arg("-C").arg(&tree).arg("-df").arg(&out));
}

/// The bytes at the places that the map tells are those of the file.
#[test]
fn the_map_says_where_the_bytes_of_a_file_lie() {
    let dir = temp_dir();
    let image = made(dir.path(), None);
    let file = dir.path().join("file");
    let mut content = pattern(3, 30_000_001);
    content[1_000_000..20_000_000].fill(0);
    fs::write(&file, &content).expect("a file");
    succeed(tool("cp", &image).arg(&file).arg(":/"));
    let said = succeed(tool("map", &image).arg("/file").arg("--json"));
    let extents: Vec<serde_json::Value> = serde_json::from_str(&said).expect("JSON");
    let volume = fs::read(&image).expect("the volume is the image");
    let mut end = 0;
    for extent in &extents {
        let number = |name: &str| extent[name].as_u64().map(|number| number as usize);
        let (at, length) = (number("file").expect("file"), number("length").expect("length"));
        assert_eq!(at, end, "{said}");
        end = at + length;
        match number("volume") {
            Some(place) => assert!(volume[place..place + length] == content[at..end], "{extent}"),
            None => assert!(content[at..end].iter().all(|byte| *byte == 0), "{extent}"),
        }
    }
    assert_eq!(end, content.len());
    assert!(extents.iter().any(|extent| extent["volume"].is_null()), "there is a hole: {said}");
    let text = succeed(tool("map", &image).arg("/file"));
    assert!(text.contains("hole") && text.lines().count() == extents.len() + 1, "{text}");
    assert_eq!(run(tool("map", &image).arg("/")).code(), 2);
}

#[test]
fn the_dump_shows_the_root() {
    let dir = temp_dir();
    let image = made(dir.path(), None);
    let text = succeed(&mut tool("dump", &image));
    assert!(text.contains("state Clean") && text.contains("\ngroup 0,"), "{text}");
    let root = succeed(tool("dump", &image).args(["--inode", "2"]));
    assert!(root.contains("drwxr-xr-x, 2 links"), "{root}");
    let beyond = run(tool("dump", &image).args(["--inode", "99999999"]));
    assert_eq!(beyond.code(), 2);
}

#[test]
fn errors_name_the_path_and_a_remedy() {
    let dir = temp_dir();
    let image = made(dir.path(), None);
    let refused = |tool: &mut Command, code: i32, says: &str| {
        let ended = run(tool);
        assert_eq!(ended.code(), code, "{ended:?}");
        assert!(ended.err.contains(says), "{ended:?}");
    };
    refused(tool("cat", &image).arg("/none"), 1, ":/none: no such file");
    refused(tool("cat", &image).arg("/"), 1, "is a directory");
    refused(tool("rm", &image).arg("/none"), 1, "no such file");
    succeed(tool("rm", &image).args(["/none", "--force"]));
    refused(tool("cp", &image).args(["a", "b"]), 2, "begin each path in the image with a colon");
    refused(tool("cp", &image).args(["/nowhere", ":/"]), 1, "/nowhere: ");
    let foreign = dir.path().join("foreign");
    fs::write(&foreign, pattern(2, 1 << 20)).expect("a file");
    refused(&mut tool("ls", &foreign), 3, "foreign");
}

/// A file system that fills keeps what fitted, and says so.
#[test]
fn a_full_file_system_is_named() {
    let dir = temp_dir();
    let image = made(dir.path(), None);
    let large = dir.path().join("large");
    fs::write(&large, pattern(3, 80 << 20)).expect("a file");
    let ended = run(tool("cp", &image).arg(&large).arg(":/"));
    assert_eq!(ended.code(), 1, "{ended:?}");
    assert!(ended.err.contains(":/large: no space left"), "{ended:?}");
    succeed(tool("rm", &image).arg("/large"));
    let small = dir.path().join("small");
    fs::write(&small, pattern(4, 20 << 20)).expect("a file");
    succeed(tool("cp", &image).arg(&small).arg(":/"));
    let back = dir.path().join("back");
    succeed(tool("cp", &image).arg(":/small").arg(&back));
    assert_eq!(fs::read(&small).expect("a file"), fs::read(&back).expect("a file"));
}

#[test]
fn a_list_as_json_has_the_attributes_of_each_object() {
    let dir = temp_dir();
    let (image, tree) = (made(dir.path(), None), tree(dir.path()));
    succeed(tool("cp", &image).arg(&tree).arg(":/"));
    let said = succeed(tool("ls", &image).args(["/tree", "--recursive", "--json"]));
    let listed: Vec<serde_json::Value> = serde_json::from_str(&said).expect("JSON");
    assert_eq!(listed.len(), 7, "{said}");
    let find = |path: &str| listed.iter().find(|object| object["path"] == path).expect(path);
    let large = find("/tree/a/large");
    assert_eq!((&large["kind"], &large["size"]), (&"file".into(), &3_000_000.into()));
    assert_eq!(find("/tree/soft")["target"], "a/b/small");
    assert_eq!(find("/tree/again")["inode"], find("/tree/a/b/small")["inode"]);
    assert_eq!(find("/tree/again")["links"], 2);
    assert!(find("/tree/hole")["sectors"].as_u64() < Some(100), "it is a hole");
}

#[test]
fn damaged_maps_are_a_warning_and_fsck_mends_them() {
    let dir = temp_dir();
    let (image, tree) = (made(dir.path(), None), tree(dir.path()));
    succeed(tool("cp", &image).arg(&tree).arg(":/"));
    // The maps of group 0 are behind the superblock, which has the block of 8 KiB at byte 65536.
    let mut bytes = fs::read(&image).expect("the image");
    bytes[65_536 + 8192 + 700] ^= 1;
    fs::write(&image, bytes).expect("the image");
    let back = dir.path().join("back");
    let ended = run(tool("cp", &image).arg(":/tree").arg(&back));
    assert_eq!(ended.code(), 0, "{}", ended.err);
    assert!(ended.err.contains("warning") && ended.err.contains("fsck --repair"), "{}", ended.err);
    same(&tree, &back);
    // The only group is closed: nothing can be allocated, much can be freed.
    assert_ne!(run(tool("cp", &image).arg(&tree).arg(":/more")).code(), 0);
    let refused = run(tool("rm", &image).args(["/tree", "--recursive"]));
    assert!(refused.code() == 3 && refused.err.contains("met damage"), "{}", refused.err);
    assert_eq!(run(seekless().arg("fsck").arg(&image)).code(), 4);
    assert_eq!(run(seekless().arg("fsck").arg(&image).arg("--repair")).code(), 1);
    succeed(tool("rm", &image).args(["/tree", "--recursive"]));
    assert_eq!(run(seekless().arg("fsck").arg(&image)).code(), 0);
}
