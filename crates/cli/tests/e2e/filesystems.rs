//! File systems of the kernel on a served volume: NBD, FUSE, a loop device, ext4 and xfs.

use crate::harness::{Server, check_is_clean, command, create, run, seekless, succeed, temp_dir};
use crate::stacked::Stack;
use crate::tree::Tree;
use crate::{each_layout, require};
use std::fs;
use std::time::Instant;

each_layout!(ext4_keeps_a_tree_of_files, xfs_keeps_a_tree_of_files);

fn ext4_keeps_a_tree_of_files(layout: &str) {
    require!("mkfs.ext4", "e2fsck");
    keeps_a_tree(layout, &["mkfs.ext4", "-q", "-F"], &["e2fsck", "-f", "-n"]);
}

fn xfs_keeps_a_tree_of_files(layout: &str) {
    require!("mkfs.xfs", "xfs_repair");
    keeps_a_tree(layout, &["mkfs.xfs", "-q", "-f"], &["xfs_repair", "-n"]);
}

fn keeps_a_tree(layout: &str, make: &[&str], check: &[&str]) {
    require!("fstrim", "diff", "cp", "blkid");
    if !Stack::possible() {
        return;
    }
    let dir = temp_dir();
    let begin = Instant::now();
    let source = Tree::find_or_plant(dir.path());
    source.say(layout, make[0], "planted or found", begin);
    let image = create(dir.path(), layout, &source.volume_size());
    let server = Server::image(&image);
    {
        let mut stack = Stack::new(dir.path(), server.uri());
        succeed(command(make[0]).args(&make[1..]).arg(stack.device()));
        stack.mount();
        let begin = Instant::now();
        succeed(command("cp").arg("-a").arg(&source.root).arg(stack.root().join("tree")));
        stack.unmount();
        source.say(layout, make[0], "copied", begin);
        succeed(command(check[0]).args(&check[1..]).arg(stack.device()));
        stack.mount();
        let copy = stack.root().join("tree");
        let begin = Instant::now();
        source.compare(&copy, None);
        source.say(layout, make[0], "compared", begin);
        // Deleting and trimming frees space and leaves the other files intact.
        let gone = source.first_directory();
        let begin = Instant::now();
        fs::remove_dir_all(copy.join(&gone)).expect("remove");
        succeed(command("fstrim").arg(stack.root()));
        stack.unmount();
        source.say(layout, make[0], "partly removed and trimmed", begin);
        stack.mount();
        source.compare(&copy, Some(&gone));
        stack.unmount();
        let begin = Instant::now();
        succeed(command(check[0]).args(&check[1..]).arg(stack.device()));
        source.say(layout, make[0], "checked by the file system's own checker", begin);
    }
    assert_eq!(server.stop().code(), 0);
    let begin = Instant::now();
    check_is_clean(&image);
    source.say(layout, make[0], "checked by `seekless check`", begin);
    // The same content by another path: the image contains the file system.
    let server = Server::with(&image, &["--read-only"]);
    let stack = Stack::new(dir.path(), server.uri());
    let seen = run(command("blkid").arg("-p").arg(stack.device()));
    assert!(seen.out.contains("TYPE="), "{seen:?}");
    succeed(seekless().arg("info").arg(&image));
}
