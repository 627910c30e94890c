//! What power cuts leave behind the end of a file under soft updates.

use crate::block::Blocking;
use crate::call::{ROOT, Request};
use crate::ffs::Ffs;
use crate::ffs::dying::{Dying, content, file, lengthen, made, mount, mount_over, write};
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::units::SECONDS;

/// Carries out changes of files on an image and lets the syncer write them. Hands over what is left
/// when the power is cut after each of its writes, or when one that was not flushed is lost, too.
fn each_cut(
    cells: &Cells,
    change: impl Fn(&mut Blocking<Ffs>),
    mut each: impl FnMut(String, Dying),
) {
    for writes in 0..100 {
        let medium = Dying::new(cells.clone());
        let mut files = mount_over(Ram::volatile(Box::new(medium.clone())), 1000 * SECONDS);
        medium.with(|shared| shared.left = Some(writes));
        change(&mut files);
        files.idle(120 * SECONDS);
        for lost in 0..=medium.with(|shared| shared.unflushed.len()) {
            let left = medium.with(|shared| shared.without(lost));
            each(format!("{writes} writes but the {lost}th"), Dying::new(left));
        }
        if files.fs().core().failed().is_none() {
            return;
        }
    }
    panic!("the changes are never written");
}

/// A cut-off append leaves addresses behind the end. When the file grows later, and the power is
/// cut in the midst of that, too, it has zeros there and not what was appended before.
#[test]
fn what_a_crash_has_left_behind_the_end_does_not_come_back() {
    let (mut grown, mut images) = (0, 0);
    for writes in 0.. {
        let medium = Dying::new(made(4 << 20));
        let mut files = mount(&medium, SECONDS);
        file(&mut files, ROOT, "log", 150_000).expect("there is room");
        files.run(Request::Sync).expect("the device works");
        medium.with(|shared| shared.left = Some(writes));
        let appended = write(&mut files, "log", (150_000, 200_000));
        if appended.and_then(|()| files.run(Request::Sync)).is_ok() {
            break;
        }
        let cells = medium.with(|shared| shared.cells.clone());
        let end = content(&mut mount(&Dying::new(cells.clone()), SECONDS), "log").len();
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
