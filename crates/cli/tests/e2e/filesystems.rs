//! File systems of the kernel on a served volume: NBD, FUSE, a loop device, ext4 and xfs.

use crate::harness::{Server, check_is_clean, command, create, run, seekless, succeed, temp_dir};
use crate::stacked::Stack;
use crate::{each_layout, require};
use std::fs;
use std::path::Path;

each_layout!(ext4_keeps_a_tree_of_files, xfs_keeps_a_tree_of_files);

/// Files in the tree.
const FILES: u64 = 2000;

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
    let image = create(dir.path(), layout, "384M");
    let source = dir.path().join("source");
    plant_tree(&source);
    let server = Server::image(&image);
    {
        let mut stack = Stack::new(dir.path(), server.uri());
        succeed(command(make[0]).args(&make[1..]).arg(stack.device()));
        stack.mount();
        succeed(command("cp").arg("-a").arg(&source).arg(stack.root().join("tree")));
        stack.unmount();
        succeed(command(check[0]).args(&check[1..]).arg(stack.device()));
        stack.mount();
        let copy = stack.root().join("tree");
        succeed(command("diff").arg("-r").arg(&source).arg(&copy));
        // Deleting and trimming gives the space back without touching what is left.
        fs::remove_dir_all(copy.join("d3")).expect("remove");
        fs::remove_dir_all(source.join("d3")).expect("remove");
        succeed(command("fstrim").arg(stack.root()));
        stack.unmount();
        stack.mount();
        succeed(command("diff").arg("-r").arg(&source).arg(&copy));
        stack.unmount();
        succeed(command(check[0]).args(&check[1..]).arg(stack.device()));
    }
    assert_eq!(server.stop().code(), 0);
    check_is_clean(&image);
    // The same content through another path: what lies in the image is the file system.
    let server = Server::with(&image, &["--read-only"]);
    let stack = Stack::new(dir.path(), server.uri());
    let seen = run(command("blkid").arg("-p").arg(stack.device()));
    assert!(seen.out.contains("TYPE="), "{seen:?}");
    succeed(seekless().arg("info").arg(&image));
}

/// A tree of small and middling files, names and content functions of their number.
fn plant_tree(root: &Path) {
    let mut rng = seekless_engine::rng::Rng::stream(11, "tree");
    for number in 0..FILES {
        let dir = root.join(format!("d{}", number % 20)).join(format!("s{}", number % 7));
        fs::create_dir_all(&dir).expect("directory");
        let most = if number % 50 == 0 { 300_000 } else { 12_000 };
        let length = rng.below(most) as usize;
        let bytes = crate::harness::pattern(number, length);
        fs::write(dir.join(format!("file {number}")), bytes).expect("file");
    }
}
