//! File systems over a medium that dies or loses a write that it has not flushed, for tests.

use crate::ffs::{self, Ffs, Findings};
use crate::ffs::{check, mkfs};
use crate::{MkfsOptions, MountOptions};
use bytes::Bytes;
use seekless_crash::device::cut::CutMedium;
use seekless_crash::fate::Fate;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::units::{BLOCK_BYTES, SECONDS, Time};
use seekless_fs::block::Blocking;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, Errno, Handle, Ino, New, ROOT, Request, SetAttr};
use seekless_fs::core::CoreOptions;
use seekless_fs::policy::PolicyKind;

pub(crate) fn made(bytes: u64) -> Cells {
    let mut cells = Cells::new(bytes / BLOCK_BYTES as u64);
    let options = MkfsOptions {
        block: 8192,
        fragment: 1024,
        bytes_per_inode: 8192,
        group: Some(1 << 20),
        id: 7,
        ..MkfsOptions::default()
    };
    mkfs(&mut MediumDisk(&mut cells), &options).expect("it fits");
    cells
}

pub(crate) fn mount(medium: &CutMedium, idle_step: Time) -> Blocking<Ffs> {
    mount_over(Ram::new(Box::new(medium.clone())), idle_step)
}

pub(crate) fn mount_over(device: Ram, idle_step: Time) -> Blocking<Ffs> {
    let core = CoreOptions { idle_step, cache_bytes: 512 << 10, ..CoreOptions::default() };
    let options =
        MountOptions { core, policy: PolicyKind::Soft, now: 1, ..MountOptions::default() };
    let node = Plain::node(Box::new(device));
    Blocking::mount(node, |disk| ffs::mount(disk, &options)).expect("soft updates need no repair")
}

pub(crate) fn name(name: &str) -> Bytes {
    Bytes::copy_from_slice(name.as_bytes())
}

pub(crate) fn make(
    files: &mut Blocking<Ffs>,
    dir: Ino,
    what: New,
    of: &str,
) -> Result<(Ino, Handle), Errno> {
    let open = what == New::File;
    match files.run(Request::Make { dir, name: name(of), what, mode: 0o755, open })? {
        Answer::Object(attr, handle) => {
            files.run(Request::Forget { ino: attr.ino, count: 1 })?;
            Ok((attr.ino, handle.unwrap_or_default()))
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) fn file(
    files: &mut Blocking<Ffs>,
    dir: Ino,
    of: &str,
    bytes: usize,
) -> Result<(), Errno> {
    let (_, handle) = make(files, dir, New::File, of)?;
    let data = Bytes::from(vec![7; bytes]);
    let written = files.run(Request::Write { handle, at: 0, data, append: false });
    files.run(Request::Release { handle })?;
    match written? {
        Answer::Written(count) if count as usize == bytes => Ok(()),
        _ => Err(Errno::NoSpc),
    }
}

pub(crate) fn find(files: &mut Blocking<Ffs>, dir: Ino, of: &str) -> Result<Ino, Errno> {
    match files.run(Request::Lookup { dir, name: name(of) })? {
        Answer::Object(attr, _) => {
            files.run(Request::Forget { ino: attr.ino, count: 1 })?;
            Ok(attr.ino)
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) fn unlink(files: &mut Blocking<Ffs>, dir: Ino, of: &str) -> Result<Answer, Errno> {
    files.run(Request::Unlink { dir, name: name(of) })
}

/// Writes to a file of the root.
pub(crate) fn write(
    files: &mut Blocking<Ffs>,
    of: &str,
    (at, bytes): (u64, usize),
) -> Result<(), Errno> {
    let ino = find(files, ROOT, of)?;
    let Answer::Opened(handle) = files.run(Request::Open { ino, truncate: false })? else {
        panic!("another answer to an open")
    };
    let data = Bytes::from(vec![9; bytes]);
    files.run(Request::Write { handle, at, data, append: false })?;
    files.run(Request::Release { handle }).map(|_| ())
}

/// Makes a file longer without writing content.
pub(crate) fn lengthen(files: &mut Blocking<Ffs>, of: &str, size: u64) {
    let ino = find(files, ROOT, of).expect("durable");
    let set = SetAttr { size: Some(size), ..SetAttr::default() };
    files.run(Request::SetAttr { ino, set }).expect("that needs no write");
}

/// The content of a file of the root.
pub(crate) fn content(files: &mut Blocking<Ffs>, of: &str) -> Vec<u8> {
    let ino = find(files, ROOT, of).expect("durable");
    let opened = files.run(Request::Open { ino, truncate: false });
    let Ok(Answer::Opened(handle)) = opened else { panic!("{opened:?}") };
    let read = files.run(Request::Read { handle, at: 0, length: 1 << 20 });
    let Ok(Answer::Bytes(data)) = read else { panic!("{read:?}") };
    data.to_vec()
}

/// What a check of the image finds.
pub(crate) fn checked(medium: &CutMedium) -> Findings {
    let mut cells = medium.contents();
    check(&mut MediumDisk(&mut cells)).expect("it can be read")
}

/// Carries out changes of files on an image and lets the syncer write them. Hands over what is left
/// when the power is cut after each of its writes, or when one that was not flushed is lost, too.
pub(crate) fn each_cut(
    cells: &Cells,
    change: impl Fn(&mut Blocking<Ffs>),
    mut each: impl FnMut(String, CutMedium),
) {
    for writes in 0..100 {
        let medium = CutMedium::new(cells.clone());
        let mut files = mount_over(Ram::volatile(Box::new(medium.clone())), 1000 * SECONDS);
        medium.die_after(writes);
        change(&mut files);
        files.idle(120 * SECONDS);
        for lost in 0..=medium.pending() {
            let left = medium.cut(|number| if number == lost { Fate::Lost } else { Fate::Kept });
            each(format!("{writes} writes but the {lost}th"), CutMedium::new(left));
        }
        if files.fs().core().failed().is_none() {
            return;
        }
    }
    panic!("the changes are never written");
}
