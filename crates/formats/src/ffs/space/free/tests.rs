//! What power cuts leave behind the end of a file under soft updates.

use crate::ffs::Ffs;
use crate::ffs::kit::dying::{content, each_cut, file, lengthen, made, mount, write};
use seekless_crash::device::cut::CutMedium;
use seekless_engine::units::SECONDS;
use seekless_fs::block::Blocking;
use seekless_fs::call::{ROOT, Request};

/// A cut-off append leaves addresses behind the end. When the file grows later, and the power is
/// cut in the midst of that, too, it has zeros there and not what was appended before.
#[test]
fn what_a_crash_has_left_behind_the_end_does_not_come_back() {
    let (mut grown, mut images) = (0, 0);
    for writes in 0.. {
        let medium = CutMedium::new(made(4 << 20));
        let mut files = mount(&medium, SECONDS);
        file(&mut files, ROOT, "log", 150_000).expect("there is room");
        files.run(Request::Sync).expect("the device works");
        medium.die_after(writes);
        let appended = write(&mut files, "log", (150_000, 200_000));
        if appended.and_then(|()| files.run(Request::Sync)).is_ok() {
            break;
        }
        let cells = medium.contents();
        let end = content(&mut mount(&CutMedium::new(cells.clone()), SECONDS), "log").len();
        let end = end.next_multiple_of(8192);
        let longer = |files: &mut Blocking<Ffs>| lengthen(files, "log", 400_000);
        each_cut(&cells, longer, |after, medium| {
            let found = content(&mut mount(&medium, 1000 * SECONDS), "log");
            let is_long = found.len() == 400_000;
            let stale = is_long && found[end..].iter().any(|&byte| byte != 0);
            assert!(!stale, "behind {end}: {writes} writes, then {after}");
            (grown, images) = (grown + u64::from(is_long), images + 1);
        });
    }
    assert!(grown > 10 && images > grown + 10, "{grown} of {images} had grown");
}
