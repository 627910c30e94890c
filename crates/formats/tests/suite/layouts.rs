//! FFS over layouts, in process: what is written before an unmount is there after the next mount.

use bytes::Bytes;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::layout::{FormatOptions, MountOptions as VolumeMount};
use seekless_engine::node::Node;
use seekless_engine::units::SECONDS;
use seekless_formats::ffs::{self, Ffs, mkfs};
use seekless_formats::{FsError, MkfsOptions, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, Errno, Handle, Ino, New, ROOT, RenameHow, Request, SetAttr};
use seekless_fs::core::CoreOptions;
use seekless_fs::system::FileSystem;
use seekless_layouts::Kind;

const SIZES: [(u32, u32); 4] = [(8192, 4096), (8192, 1024), (4096, 1024), (4096, 4096)];

/// A volume of this layout, or none, in memory.
fn volume(kind: Option<Kind>, blocks: u64) -> Node {
    let Some(kind) = kind else {
        return Plain::node(Box::new(Ram::new(Box::new(Cells::new(blocks)))));
    };
    let mut cells = Cells::new(blocks * 2);
    let options = FormatOptions::new(kind, blocks, 1);
    seekless_layouts::format(&mut MediumDisk(&mut cells), &options).expect("fits");
    let (layer, _, _) =
        seekless_layouts::mount(&mut MediumDisk(&mut cells), &VolumeMount::default())
            .expect("just formatted");
    let medium: Box<dyn Medium> = Box::new(cells);
    Node::new(layer, vec![Box::new(Ram::new(medium))], 1)
}

fn make(node: &mut Node, (block, fragment): (u32, u32)) {
    let options = MkfsOptions { block, fragment, ..MkfsOptions::default() };
    mkfs(&mut NodeDisk::new(node, &mut 0), &options).expect("fits");
}

fn small_cache() -> MountOptions {
    let core = CoreOptions { cache_bytes: 256 << 10, ..CoreOptions::default() };
    MountOptions { core, now: 1, ..MountOptions::default() }
}

fn mount(node: Node, options: MountOptions) -> Result<Blocking<Ffs>, FsError> {
    Blocking::mount(node, |disk| ffs::mount(disk, &options))
}

/// Calls by path, as a test wants them.
struct Files(Blocking<Ffs>);

impl Files {
    fn run(&mut self, request: Request) -> Result<Answer, Errno> {
        self.0.run(request)
    }

    fn object(&mut self, request: Request) -> Result<Ino, Errno> {
        match self.run(request)? {
            Answer::Object(attr, _) => Ok(attr.ino),
            other => panic!("{other:?}"),
        }
    }

    fn lookup(&mut self, path: &str) -> Result<Ino, Errno> {
        path.split('/').filter(|name| !name.is_empty()).try_fold(ROOT, |dir, name| {
            let name = Bytes::copy_from_slice(name.as_bytes());
            let ino = self.object(Request::Lookup { dir, name })?;
            self.run(Request::Forget { ino, count: 1 })?;
            Ok(ino)
        })
    }

    fn split(&mut self, path: &str) -> (Ino, Bytes) {
        let (dir, name) = path.rsplit_once('/').expect("a path");
        (self.lookup(dir).expect("the directory"), Bytes::copy_from_slice(name.as_bytes()))
    }

    fn make(&mut self, path: &str, what: New) -> Result<Ino, Errno> {
        let (dir, name) = self.split(path);
        let ino = self.object(Request::Make { dir, name, what, mode: 0o755, open: false })?;
        self.run(Request::Forget { ino, count: 1 })?;
        Ok(ino)
    }

    fn open(&mut self, path: &str) -> Handle {
        let ino = self.lookup(path).expect("the file");
        match self.run(Request::Open { ino, truncate: false }) {
            Ok(Answer::Opened(handle)) => handle,
            other => panic!("{other:?}"),
        }
    }

    fn write(&mut self, path: &str, at: u64, data: &[u8]) {
        let handle = self.open(path);
        let data = Bytes::copy_from_slice(data);
        let expected = Answer::Written(data.len() as u32);
        let written = self.run(Request::Write { handle, at, data, append: false });
        assert_eq!(written, Ok(expected), "{path}");
        self.run(Request::Release { handle }).expect("it is open");
    }

    fn read(&mut self, path: &str) -> Vec<u8> {
        let handle = self.open(path);
        let answer = self.run(Request::Read { handle, at: 0, length: 16 << 20 });
        self.run(Request::Release { handle }).expect("it is open");
        match answer {
            Ok(Answer::Bytes(bytes)) => bytes.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    fn unlink(&mut self, path: &str) -> Result<Answer, Errno> {
        let (dir, name) = self.split(path);
        self.run(Request::Unlink { dir, name })
    }

    fn free(&mut self) -> u64 {
        match self.run(Request::Space) {
            Ok(Answer::Space(space)) => space.free,
            other => panic!("{other:?}"),
        }
    }
}

fn content(file: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at * 7 + file * 13 + at / 251) as u8).collect()
}

/// Lengths around fragments, blocks, clusters and the first indirect block.
const LENGTHS: [usize; 9] = [0, 1, 1023, 4097, 8192, 13_000, 65_536, 110_000, 1_500_000];

fn fill(files: &mut Files) {
    files.make("/d", New::Directory).expect("new");
    files.make("/d/e", New::Directory).expect("new");
    for (file, &length) in (0..).zip(&LENGTHS) {
        let path = format!("/d/e/f{file}");
        files.make(&path, New::File).expect("new");
        files.write(&path, 0, &content(file, length));
    }
    let (dir, name) = files.split("/d/e/f3");
    let (to_dir, to_name) = files.split("/moved");
    let how = RenameHow::Replace;
    files.run(Request::Rename { dir, name, to_dir, to_name, how }).expect("renamed");
    files.unlink("/d/e/f7").expect("it is there");
    files.make("/link", New::Symlink(Bytes::from_static(b"d/e"))).expect("new");
}

fn look(files: &mut Files) {
    for (file, &length) in (0..).zip(&LENGTHS) {
        let path = if file == 3 { "/moved".to_string() } else { format!("/d/e/f{file}") };
        if file == 7 {
            assert_eq!(files.lookup(&path), Err(Errno::NoEnt));
        } else {
            assert!(files.read(&path) == content(file, length), "{path}");
        }
    }
    let ino = files.lookup("/link").expect("it is there");
    let text = Answer::Text(Bytes::from_static(b"d/e"));
    assert_eq!(files.run(Request::ReadLink { ino }), Ok(text));
}

#[test]
fn files_come_back_after_a_remount_on_each_layout() {
    for kind in [None, Some(Kind::INPLACE), Some(Kind::VLOG), Some(Kind::LFS)] {
        for sizes in SIZES {
            let mut node = volume(kind, 4096);
            make(&mut node, sizes);
            let mut files = Files(mount(node, small_cache()).expect("clean"));
            fill(&mut files);
            look(&mut files);
            let (node, result) = files.0.unmount();
            assert_eq!(result, Ok(()));
            let mut files = Files(mount(node, small_cache()).expect("unmounted"));
            look(&mut files);
            let (_, result) = files.0.unmount();
            assert_eq!(result, Ok(()));
        }
    }
}

#[test]
fn a_file_system_in_use_is_refused_but_for_reading() {
    let mut node = volume(None, 4096);
    make(&mut node, SIZES[0]);
    let mut files = Files(mount(node, small_cache()).expect("clean"));
    fill(&mut files);
    files.run(Request::Sync).expect("memory does not fail");
    let refused = mount(files.0.abandon(), small_cache());
    assert!(matches!(refused, Err(FsError::NotClean)));
}

#[test]
fn what_was_synced_is_there_after_a_crash() {
    let mut node = volume(None, 4096);
    make(&mut node, SIZES[1]);
    let mut files = Files(mount(node, small_cache()).expect("clean"));
    fill(&mut files);
    files.run(Request::Sync).expect("memory does not fail");
    let core = CoreOptions { read_only: true, ..CoreOptions::default() };
    let mut files = Files(
        mount(files.0.abandon(), MountOptions { core, now: 2, ..MountOptions::default() })
            .expect("reads"),
    );
    look(&mut files);
    let refused = files.make("/new", New::File);
    assert_eq!(refused, Err(Errno::RoFs));
    let (_, result) = files.0.unmount();
    assert_eq!(result, Ok(()));
}

#[test]
fn the_syncer_writes_everything_within_half_a_minute() {
    let mut node = volume(None, 4096);
    make(&mut node, SIZES[0]);
    let mut files = Files(mount(node, MountOptions::default()).expect("clean"));
    fill(&mut files);
    files.0.idle(62 * SECONDS);
    assert!(files.0.fs().core().is_quiet());
    assert_eq!(files.0.fs().deadline(), None, "an idle file system has nothing to do");
    let core = CoreOptions { read_only: true, ..CoreOptions::default() };
    let (now, options) = (files.0.now(), MountOptions { core, now: 2, ..MountOptions::default() });
    let mounted = Blocking::mount_at(files.0.abandon(), now, |disk| ffs::mount(disk, &options));
    look(&mut Files(mounted.expect("reads")));
}

#[test]
fn an_open_file_without_names_goes_when_it_is_closed() {
    let mut node = volume(None, 4096);
    make(&mut node, SIZES[0]);
    let mut files = Files(mount(node, MountOptions::default()).expect("clean"));
    let before = files.free();
    files.make("/f", New::File).expect("new");
    files.write("/f", 0, &content(1, 300_000));
    let handle = files.open("/f");
    files.unlink("/f").expect("it is there");
    assert!(files.free() < before);
    match files.run(Request::Read { handle, at: 0, length: 300_000 }) {
        Ok(Answer::Bytes(bytes)) => assert!(bytes == content(1, 300_000)),
        other => panic!("{other:?}"),
    }
    files.run(Request::Release { handle }).expect("it is open");
    files.run(Request::Sync).expect("memory does not fail");
    assert_eq!(files.free(), before);
}

#[test]
fn an_unmount_deletes_what_is_open_and_has_no_names() {
    let mut node = volume(None, 4096);
    make(&mut node, SIZES[0]);
    let mut files = Files(mount(node, MountOptions::default()).expect("clean"));
    let before = files.free();
    files.make("/f", New::File).expect("new");
    files.write("/f", 0, &content(1, 3_000_000));
    files.open("/f");
    files.unlink("/f").expect("it is there");
    let (node, result) = files.0.unmount();
    assert_eq!(result, Ok(()));
    let mut files = Files(mount(node, MountOptions::default()).expect("clean"));
    assert_eq!(files.free(), before);
}

#[test]
fn a_large_file_shrinks_in_steps_and_a_full_disk_is_an_error() {
    let mut node = volume(None, 4096);
    make(&mut node, SIZES[0]);
    let mut files = Files(mount(node, small_cache()).expect("clean"));
    let before = files.free();
    let ino = files.make("/f", New::File).expect("new");
    let handle = files.open("/f");
    let mut written = 0;
    let data = Bytes::from(content(2, 1 << 20));
    loop {
        let request = Request::Write { handle, at: written, data: data.clone(), append: false };
        match files.run(request) {
            Ok(Answer::Written(bytes)) => written += u64::from(bytes),
            Err(errno) => {
                assert_eq!(errno, Errno::NoSpc);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(written > 10 << 20, "{written} of 16 MiB");
    let set = SetAttr { size: Some(5), ..SetAttr::default() };
    files.run(Request::SetAttr { ino, set }).expect("it shrinks");
    files.run(Request::Release { handle }).expect("it is open");
    assert_eq!(files.read("/f"), content(2, 5));
    files.unlink("/f").expect("it is there");
    assert_eq!(files.free(), before);
}

#[test]
fn sequential_reads_are_read_ahead_in_large_requests() {
    let mut node = volume(None, 4096);
    make(&mut node, SIZES[0]);
    let mut files = Files(mount(node, MountOptions::default()).expect("clean"));
    files.make("/f", New::File).expect("new");
    files.write("/f", 0, &content(1, 4 << 20));
    let (node, result) = files.0.unmount();
    assert_eq!(result, Ok(()));
    let mut files = Files(mount(node, MountOptions::default()).expect("clean"));
    let handle = files.open("/f");
    let before = files.0.fs().core().stats().reads;
    for at in (0..4 << 20).step_by(8192) {
        let read = files.run(Request::Read { handle, at, length: 8192 });
        assert!(matches!(read, Ok(Answer::Bytes(bytes)) if bytes.len() == 8192));
    }
    let stats = files.0.fs().core().stats();
    assert!(stats.read_ahead > 450, "{} of 512 blocks", stats.read_ahead);
    assert!(stats.reads - before < 128, "{} requests", stats.reads - before);
}
