//! What the format cannot hold is refused by name, and nothing is changed.

use super::{findings, image, mount, node_of, options};
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::MediumDisk;
use seekless_formats::minix::{self, Minix};
use seekless_formats::{FsError, MkfsOptions, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::call::{
    AllocateHow, Answer, Call, Credentials, Errno, Ino, New, ROOT, Request, SetAttr, by_inode,
};
use seekless_fs::policy::PolicyKind;

struct Volume(Blocking<Minix>);

impl Volume {
    fn new(block: u32) -> Volume {
        Volume(mount(node_of(image(1024, &options(block)), true), PolicyKind::Async))
    }

    fn make_by(&mut self, uid: u32, name: &[u8], what: New) -> Result<Ino, Errno> {
        let name = name.to_vec().into();
        let request = Request::Make { dir: ROOT, name, what, mode: 0o644, open: false };
        let call = Call { id: 1 << 40, who: Credentials { uid, gid: 0 }, now: 9, request };
        match self.0.run_call(call).result? {
            Answer::Object(attr, _) => Ok(attr.ino),
            other => panic!("{other:?}"),
        }
    }

    fn make(&mut self, name: &[u8], what: New) -> Result<Ino, Errno> {
        self.make_by(0, name, what)
    }

    fn set(&mut self, ino: Ino, set: SetAttr) -> Result<Answer, Errno> {
        self.0.run(Request::SetAttr { ino, set })
    }

    fn assert_sound(self) {
        let (mut node, stopped) = self.0.unmount();
        assert_eq!(stopped, Ok(()));
        assert_eq!(findings(&mut node), [""; 0]);
    }
}

#[test]
fn names_of_sixty_bytes_work_and_longer_ones_do_not() {
    let mut volume = Volume::new(1024);
    let (long, too_long) = ([b'x'; 60], [b'x'; 61]);
    let ino = volume.make(&long, New::File).expect("it fits");
    assert_eq!(volume.make(&too_long, New::File), Err(Errno::NameTooLong));
    for request in [
        Request::Lookup { dir: ROOT, name: too_long.to_vec().into() },
        Request::Link { ino, dir: ROOT, name: too_long.to_vec().into() },
        Request::Unlink { dir: ROOT, name: too_long.to_vec().into() },
    ] {
        assert_eq!(volume.0.run(request), Err(Errno::NameTooLong));
    }
    let found = volume.0.run(Request::Lookup { dir: ROOT, name: long.to_vec().into() });
    assert!(matches!(found, Ok(Answer::Object(attr, _)) if attr.ino == ino));
    volume.assert_sound();
}

#[test]
fn owners_of_more_than_sixteen_bits_are_refused() {
    let mut volume = Volume::new(4096);
    let file = volume.make_by(65_535, b"file", New::File).expect("it fits");
    assert_eq!(volume.make_by(65_536, b"other", New::File), Err(Errno::Inval));
    let set = SetAttr { uid: Some(65_536), size: Some(9), ..SetAttr::default() };
    assert_eq!(volume.set(file, set), Err(Errno::Inval));
    match volume.0.run(Request::Attr { ino: file }) {
        Ok(Answer::Attr(attr)) => assert_eq!((attr.uid, attr.size), (65_535, 0)),
        other => panic!("{other:?}"),
    }
    volume.assert_sound();
}

#[test]
fn a_file_ends_below_two_gibibytes() {
    let most = 0x7fff_ffff;
    let mut volume = Volume::new(1024);
    let file = volume.make(b"file", New::File).expect("it fits");
    let size = |size| SetAttr { size: Some(size), ..SetAttr::default() };
    assert_eq!(volume.set(file, size(most + 1)), Err(Errno::FBig));
    assert!(volume.set(file, size(most)).is_ok());
    let write = |at| Request::Write { handle: by_inode(file), at, data: "x".into(), append: false };
    assert_eq!(volume.0.run(write(most - 1)), Ok(Answer::Written(1)));
    assert_eq!(volume.0.run(write(most)), Err(Errno::FBig));
    volume.assert_sound();
}

#[test]
fn what_is_not_written_cannot_be_allocated() {
    let mut volume = Volume::new(2048);
    let file = volume.make(b"file", New::File).expect("it fits");
    let (handle, how) = (by_inode(file), AllocateHow::Extend);
    let allocate = Request::Allocate { handle, at: 0, length: 4096, how };
    assert_eq!(volume.0.run(allocate), Err(Errno::NotSup));
    volume.assert_sound();
}

#[test]
fn a_text_fills_a_block_but_for_a_byte() {
    let mut volume = Volume::new(1024);
    let text = |length: usize| New::Symlink("t".repeat(length).into());
    assert!(volume.make(b"short", text(1023)).is_ok());
    assert_eq!(volume.make(b"long", text(1024)), Err(Errno::NameTooLong));
    assert_eq!(volume.make(b"disk", New::BlockDevice(0x1_0000)), Err(Errno::Inval));
    volume.assert_sound();
}

#[test]
fn inodes_run_out_and_come_back() {
    let options = MkfsOptions { inodes: Some(16), ..options(1024) };
    let mut volume = Volume(mount(node_of(image(256, &options), true), PolicyKind::Async));
    for number in 2..=16_u8 {
        volume.make(&[b'a' + number], New::File).expect("it fits");
    }
    assert_eq!(volume.make(b"one more", New::File), Err(Errno::NoSpc));
    let name = vec![b'a' + 9].into();
    assert!(volume.0.run(Request::Unlink { dir: ROOT, name }).is_ok());
    // The client has looked it up when it was made.
    volume.0.run(Request::Forget { ino: 9, count: 1 }).expect("it has no reply");
    assert_eq!(volume.make(b"one more", New::File), Ok(9), "the number on the disk");
    volume.assert_sound();
}

#[test]
fn other_policies_are_refused_with_those_there_are() {
    for policy in PolicyKind::ALL {
        let mut cells: Cells = image(256, &options(4096));
        let options = MountOptions { policy, ..MountOptions::default() };
        let refused = minix::mount(&mut MediumDisk(&mut cells), &options).err();
        match policy {
            PolicyKind::Async => assert_eq!(refused, None),
            PolicyKind::Atomic | PolicyKind::Unit => {
                let needed = if policy == PolicyKind::Unit { 128 } else { 64 };
                let lacks = FsError::NeedsTransactions { policy, needed, found: 0 };
                assert_eq!(refused, Some(lacks));
            }
            _ => {
                let said = refused.expect("it has none").to_string();
                assert!(said.ends_with("it has async, atomic, unit"), "{said}");
            }
        }
    }
}
