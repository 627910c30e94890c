//! What power cuts leave of names that are removed and made again.

use crate::ffs::kit::dying::{checked, each_cut, file, find, made, mount, name, unlink};
use crate::ffs::{Ffs, Finding};
use seekless_crash::device::cut::CutMedium;
use seekless_engine::units::SECONDS;
use seekless_fs::block::Blocking;
use seekless_fs::call::{ROOT, Request};

/// Two of them fill a sector of a directory.
fn long(number: u32) -> String {
    format!("{number:0200}")
}

/// Gives a file another name, which is always the same.
fn link(files: &mut Blocking<Ffs>, to: u32) {
    let ino = find(files, ROOT, &long(to)).expect("it is there");
    let link = Request::Link { ino, dir: ROOT, name: name(&long(40)) };
    files.run(link).expect("there is room");
}

/// A name is removed and made again in another block: the disk never shows it in both.
#[test]
fn a_name_that_comes_again_elsewhere_is_never_there_twice() {
    let medium = CutMedium::new(made(4 << 20));
    let mut files = mount(&medium, SECONDS);
    for number in 0..40 {
        file(&mut files, ROOT, &long(number), 0).expect("there is room");
    }
    // Another name of a file that stays: nothing else waits for it to go.
    link(&mut files, 0);
    // Room in the first block, while the last name stands in the second one.
    unlink(&mut files, ROOT, &long(1)).expect("it is there");
    assert_eq!(files.unmount().1, Ok(()));
    let cells = medium.contents();
    let (mut again, mut images) = (0, 0);
    let change = |files: &mut Blocking<Ffs>| {
        unlink(files, ROOT, &long(40)).expect("it is there");
        link(files, 2);
    };
    each_cut(&cells, change, |after, medium| {
        let found = checked(&medium);
        let twice = found.list.iter().any(|one| matches!(one, Finding::NameTwice { .. }));
        assert!(!twice, "{after}: {found}");
        let mut files = mount(&medium, SECONDS);
        let name = name(&long(40));
        again += u64::from(files.run(Request::Lookup { dir: ROOT, name }).is_ok());
        images += 1;
    });
    assert!(again > 3 && images > again, "{again} of {images} have the name");
}
