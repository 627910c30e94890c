//! Moves of directories while one of them has two names.

use crate::ffs::Ffs;
use crate::ffs::kit::dying::{each_cut, find, made, make, mount, name};
use seekless_crash::device::cut::CutMedium;
use seekless_engine::units::SECONDS;
use seekless_fs::block::Blocking;
use seekless_fs::call::{Errno, Ino, New, ROOT, RenameHow, Request};

fn rename(files: &mut Blocking<Ffs>, from: (Ino, &str), to: (Ino, &str)) -> Result<(), Errno> {
    let how = RenameHow::Replace;
    let (old, new) = (name(from.1), name(to.1));
    let request = Request::Rename { dir: from.0, name: old, to_dir: to.0, to_name: new, how };
    files.run(request).map(|_| ())
}

fn directory(files: &mut Blocking<Ffs>, dir: Ino, of: &str) -> Ino {
    make(files, dir, New::Directory, of).expect("there is room").0
}

/// A crash has left a directory in two others. Neither of these can be moved into it, and what is
/// beside them can.
#[test]
fn nothing_moves_into_itself_by_the_second_name_of_a_directory() {
    let medium = CutMedium::new(made(4 << 20));
    let mut files = mount(&medium, SECONDS);
    let (a, b) = (directory(&mut files, ROOT, "a"), directory(&mut files, ROOT, "b"));
    directory(&mut files, ROOT, "c");
    directory(&mut files, a, "moves");
    assert_eq!(files.unmount().1, Ok(()));
    let cells = medium.contents();
    let (mut images, mut two_names) = (0, 0);
    let change =
        |files: &mut Blocking<Ffs>| rename(files, (a, "moves"), (b, "moved")).expect("it is there");
    each_cut(&cells, change, |after, medium| {
        images += 1;
        let mut files = mount(&medium, 1000 * SECONDS);
        let (old, new) = (find(&mut files, a, "moves"), find(&mut files, b, "moved"));
        let (Ok(moved), true) = (old, old == new) else { return };
        two_names += 1;
        let deep = directory(&mut files, moved, "deep");
        for parent in ["a", "b"] {
            let into = rename(&mut files, (ROOT, parent), (deep, "into"));
            assert_eq!(into, Err(Errno::Inval), "{parent}, {after}");
        }
        assert_eq!(rename(&mut files, (ROOT, "c"), (deep, "into")), Ok(()), "{after}");
    });
    assert!(two_names > 0 && images > two_names + 3, "{two_names} of {images}");
}
