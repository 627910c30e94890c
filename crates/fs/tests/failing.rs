//! A device that fails under load: the file system becomes read-only, and no call reports success
//! for what may be lost.

use bytes::Bytes;
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::io::IoError;
use seekless_engine::units::BlockNr;
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, Errno, New, ROOT, Request};
use seekless_fs::ffs::{Ffs, FsError, MkfsOptions, MountOptions, mkfs};
use seekless_fs::system::FileSystem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Memory that can be told to fail.
#[derive(Debug)]
struct Failing {
    cells: Cells,
    writes: Arc<AtomicBool>,
    reads: Arc<AtomicBool>,
}

impl Medium for Failing {
    fn blocks(&self) -> u64 {
        self.cells.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        if self.reads.load(Ordering::Relaxed) {
            return Err(IoError::Media { block: at });
        }
        self.cells.read(at, count)
    }

    fn write(&mut self, at: BlockNr, data: &Data) -> Result<(), IoError> {
        if self.writes.load(Ordering::Relaxed) {
            return Err(IoError::Media { block: at });
        }
        self.cells.write(at, data)
    }

    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        self.cells.trim(at, count)
    }

    fn sync(&mut self) -> Result<(), IoError> {
        self.cells.sync()
    }
}

struct World {
    files: Blocking<Ffs>,
    writes: Arc<AtomicBool>,
    reads: Arc<AtomicBool>,
}

fn world() -> World {
    let (writes, reads) = (Arc::default(), Arc::default());
    let (cells, fails) = (Cells::new(4096), (Arc::clone(&writes), Arc::clone(&reads)));
    let medium = Failing { cells, writes: fails.0, reads: fails.1 };
    let mut node = Plain::node(Box::new(Ram::new(Box::new(medium))));
    mkfs(&mut NodeDisk::new(&mut node, &mut 0), &MkfsOptions::default()).expect("fits");
    let options = MountOptions::default();
    let files = Blocking::mount(node, |disk| Ffs::mount(disk, &options)).expect("just made");
    World { files, writes, reads }
}

fn make(files: &mut Blocking<Ffs>, name: &'static str) -> Result<Answer, Errno> {
    let name = Bytes::from_static(name.as_bytes());
    files.run(Request::Make { dir: ROOT, name, what: New::File, mode: 0o644, open: true })
}

#[test]
fn a_failed_write_is_reported_and_ends_all_changes() {
    let World { mut files, writes, .. } = world();
    make(&mut files, "kept").expect("it works");
    files.run(Request::Sync).expect("it works");
    make(&mut files, "lost").expect("it is in memory");
    writes.store(true, Ordering::Relaxed);
    assert_eq!(files.run(Request::Sync), Err(Errno::Io), "nothing is lost silently");
    assert!(matches!(files.fs().failed(), Some(IoError::Media { .. })));
    writes.store(false, Ordering::Relaxed);
    assert_eq!(make(&mut files, "new"), Err(Errno::Io));
    assert_eq!(files.run(Request::Sync), Err(Errno::Io), "a retry proves nothing");
    let name = Bytes::from_static(b"kept");
    assert!(files.run(Request::Lookup { dir: ROOT, name }).is_ok(), "reads go on");
    let now = files.now();
    let (node, result) = files.unmount();
    assert!(matches!(result, Err(IoError::Media { .. })));
    let options = MountOptions::default();
    let mounted = Blocking::mount_at(node, now, |disk| Ffs::mount(disk, &options));
    assert!(matches!(mounted, Err(FsError::NotClean)), "there is no clean mark");
}

#[test]
fn a_failed_write_of_the_syncer_is_not_forgotten() {
    let World { mut files, writes, .. } = world();
    make(&mut files, "lost").expect("it is in memory");
    writes.store(true, Ordering::Relaxed);
    files.idle(40 * seekless_engine::units::SECONDS);
    writes.store(false, Ordering::Relaxed);
    assert_eq!(files.run(Request::Sync), Err(Errno::Io));
    assert!(files.unmount().1.is_err());
}

#[test]
fn a_failed_read_fails_one_call_and_can_be_repeated() {
    let World { files, reads, .. } = world();
    let mut files = files;
    make(&mut files, "f").expect("it works");
    let now = files.now();
    let (node, result) = files.unmount();
    assert_eq!(result, Ok(()));
    let options = MountOptions::default();
    let mounted = Blocking::mount_at(node, now, |disk| Ffs::mount(disk, &options));
    let mut files = mounted.expect("it was unmounted");
    let name = Bytes::from_static(b"f");
    reads.store(true, Ordering::Relaxed);
    let lookup = Request::Lookup { dir: ROOT, name };
    assert_eq!(files.run(lookup.clone()), Err(Errno::Io));
    assert_eq!(files.fs().failed(), None);
    reads.store(false, Ordering::Relaxed);
    assert!(files.run(lookup).is_ok());
    assert_eq!(files.unmount().1, Ok(()));
}
