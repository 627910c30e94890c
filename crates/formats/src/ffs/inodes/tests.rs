//! In which order power cuts show the changes of one inode.

use crate::ffs::Ffs;
use crate::ffs::kit::dying::{checked, each_cut, file, find, lengthen, made, mount, write};
use seekless_crash::device::cut::CutMedium;
use seekless_engine::units::{MILLIS, SECONDS};
use seekless_fs::block::Blocking;
use seekless_fs::call::{ROOT, Request};

/// A greater size waits for content, while all that a block behind the old end needs is on the
/// disk: the block waits for the size.
#[test]
fn a_block_does_not_go_before_the_size_that_covers_it() {
    let medium = CutMedium::new(made(4 << 20));
    let mut files = mount(&medium, SECONDS);
    // The tail has all fragments of its block, so a greater size takes no space.
    file(&mut files, ROOT, "holes", 7680).expect("there is room");
    assert_eq!(files.unmount().1, Ok(()));
    let cells = medium.contents();
    let mut images = 0;
    let change = |files: &mut Blocking<Ffs>| {
        files.fs_mut().parts_mut().0.volume.maxcontig = 4;
        write(files, "holes", (7680, 512)).expect("there is room");
        lengthen(files, "holes", 96 << 10);
        // A whole cluster is written at once.
        write(files, "holes", (64 << 10, 32 << 10)).expect("there is room");
        // That makes the bits of all blocks durable, and then writes the inodes of both files.
        let other = file(files, ROOT, "other", 1000).and_then(|()| find(files, ROOT, "other"));
        let synced = other.and_then(|ino| files.run(Request::Fsync { ino, data_only: false }));
        assert!(synced.is_ok() || files.fs().core().failed().is_some());
    };
    each_cut(&cells, change, |after, medium| {
        let mut files = mount(&medium, 100 * MILLIS);
        files.idle(600 * SECONDS);
        assert_eq!(files.unmount().1, Ok(()));
        let found = checked(&medium);
        assert!(found.is_clean(), "{after}: {found}");
        images += 1;
    });
    assert!(images > 5, "{images} images");
}
