//! A directory of disks: files of fixed size that can be read and written, and little else.
//!
//! Like a block device, a disk ignores that it is truncated, and refuses what lies beyond its end.
//! Pages that the kernel keeps of a disk stay good between two openings, for nothing changes behind
//! its back; they are dropped when the disk is removed. A disk may refuse such pages ([`Kind`]).
//!
//! A directory is in no tree of directories ([`DiskDirectory::mount`]), or stays mounted for all
//! users of its mount namespace ([`DiskDirectory::mount_at`]). `served` has the side of the kernel.

mod served;
#[cfg(test)]
mod tests;

use super::mount::{self, MountPoint, Right, Traits};
use fuser::{Config, Errno, INodeNo, Notifier, Session, SessionACL};
use served::Served;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What holes read as.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// How the kernel treats a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A disk whose pages the kernel may keep.
    #[default]
    Cached,
    /// A disk that gets every read and every write of its users at once, several side by side. The
    /// kernel keeps no page of it.
    Direct,
    /// A log: what is written is appended, at whatever offset. It reads as an empty file.
    Log,
}

/// What a disk is made of. Several threads use it at once.
pub trait Bytes: Debug + Send + Sync + 'static {
    /// Size in bytes; it never changes.
    fn size(&self) -> u64;

    /// How the kernel treats it; it never changes.
    fn kind(&self) -> Kind {
        Kind::Cached
    }

    /// Reads bytes that lie inside.
    ///
    /// # Errors
    /// What the reader is told: its operating system error, or `EIO`.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes bytes that lie inside.
    ///
    /// # Errors
    /// As for [`Bytes::read`].
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes durable what was written, for `fsync`.
    ///
    /// # Errors
    /// As for [`Bytes::read`].
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    /// Makes bytes that lie inside read as zeros. With `zero` they keep their space; without, they
    /// are trimmed.
    ///
    /// # Errors
    /// As for [`Bytes::read`].
    fn discard(&self, offset: u64, length: u64, zero: bool) -> io::Result<()> {
        let _ = zero;
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let count = (end - at).min(ZEROS.len() as u64);
            self.write(at, &ZEROS[..count as usize])?;
            at += count;
        }
        Ok(())
    }

    /// Appends to a log ([`Kind::Log`]). `opened` tells one opening of the file from another.
    ///
    /// # Errors
    /// As for [`Bytes::read`].
    fn append(&self, opened: u64, bytes: &[u8]) -> io::Result<()> {
        let _ = (opened, bytes);
        Err(io::Error::from_raw_os_error(libc::EINVAL))
    }

    /// A descriptor of this opening was closed; others may share the opening.
    ///
    /// # Errors
    /// As for [`Bytes::read`]: `close` reports it.
    fn closed(&self, opened: u64) -> io::Result<()> {
        let _ = opened;
        Ok(())
    }
}

/// Threads that answer the kernel: two serve one client at its best, the third answers while they
/// wait for the medium.
const THREADS: usize = 3;
/// Disks are numbered from here; the directory has the number before.
const FIRST: u64 = 2;

/// The disks by their number, and the names of some.
#[derive(Debug)]
struct Entries<B> {
    disks: HashMap<u64, Arc<B>>,
    names: BTreeMap<String, u64>,
    next: u64,
}

impl<B> Entries<B> {
    fn insert(&mut self, disk: Arc<B>) -> u64 {
        let number = self.next;
        self.next += 1;
        let before = self.disks.insert(number, disk);
        debug_assert!(before.is_none(), "numbers are used once");
        number
    }
}

#[derive(Debug)]
struct Disks<B>(Mutex<Entries<B>>);

impl<B> Disks<B> {
    fn new() -> Disks<B> {
        let (disks, names) = (HashMap::new(), BTreeMap::new());
        Disks(Mutex::new(Entries { disks, names, next: FIRST }))
    }

    fn lock(&self) -> MutexGuard<'_, Entries<B>> {
        // A panic while the lock is held leaves the maps as they were or with one disk more or
        // less.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, number: u64) -> Result<Arc<B>, Errno> {
        self.lock().disks.get(&number).cloned().ok_or(Errno::ENOENT)
    }

    /// The number of the disk with this file name.
    fn find(&self, name: &str) -> Option<u64> {
        let by_number = || name.strip_suffix(".img")?.parse().ok();
        self.lock().names.get(name).copied().or_else(by_number)
    }
}

/// Where the directory is reached.
#[derive(Debug)]
enum Reach {
    /// Through this descriptor of the root, which alone keeps the file system alive.
    Process(OwnedFd),
    /// At a path of the mount namespace.
    Path(MountPoint),
}

/// A mounted directory of disks.
#[derive(Debug)]
pub struct DiskDirectory<B> {
    disks: Arc<Disks<B>>,
    notifier: Notifier,
    reach: Reach,
}

impl<B: Bytes> DiskDirectory<B> {
    /// An empty directory that is in no tree of directories and reached through this process. So
    /// nothing is left behind however the process ends. It is mounted at `point`, an empty
    /// directory, for a moment.
    ///
    /// # Errors
    /// If there is no FUSE here or the process may not mount.
    pub fn mount(point: &Path) -> io::Result<DiskDirectory<B>> {
        let (disks, right) = (Arc::new(Disks::new()), Right::of_this_process());
        let served = Served::new(Arc::clone(&disks));
        let (notifier, root) =
            mount::detached(right, point, |device| serve(right, served, device))?;
        Ok(DiskDirectory { disks, notifier, reach: Reach::Process(root) })
    }

    /// An empty directory that stays mounted at `point`, an empty directory, until it is dropped.
    /// As root every user may use it. If the process is killed, the mount point stays and gives
    /// errors, unless the mount namespace ends with the process.
    ///
    /// # Errors
    /// If there is no FUSE here or the process may not mount.
    pub fn mount_at(point: &Path) -> io::Result<DiskDirectory<B>> {
        let (disks, right) = (Arc::new(Disks::new()), Right::of_this_process());
        let served = Served::new(Arc::clone(&disks));
        let traits = Traits::default();
        let (notifier, at) =
            mount::attached(right, point, &traits, |device| serve(right, served, device))?;
        Ok(DiskDirectory { disks, notifier, reach: Reach::Path(at) })
    }

    /// Makes a disk a file; gives its number and its path.
    pub fn insert(&self, disk: Arc<B>) -> (u64, PathBuf) {
        let number = self.disks.lock().insert(disk);
        (number, self.path(&format!("{number}.img")))
    }

    /// Makes a disk a file of this name, which no other has, not `NUMBER.img`, and without a
    /// slash; gives its number and its path.
    ///
    /// # Errors
    /// If the name is in use, or is none.
    pub fn insert_named(&self, name: &str, disk: Arc<B>) -> io::Result<(u64, PathBuf)> {
        if name.is_empty() || name.starts_with('.') || name.ends_with(".img") || name.contains('/')
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut entries = self.disks.lock();
        if entries.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let number = entries.insert(disk);
        entries.names.insert(name.to_owned(), number);
        Ok((number, self.path(name)))
    }

    /// The file is gone; what has it open gets errors.
    pub fn remove(&self, number: u64) {
        let mut entries = self.disks.lock();
        entries.disks.remove(&number);
        entries.names.retain(|_, named| *named != number);
        drop(entries);
        // Pages that stay are only memory that the kernel takes back when it wants it.
        let _ = self.notifier.inval_inode(INodeNo(number), 0, 0);
    }

    fn path(&self, name: &str) -> PathBuf {
        match &self.reach {
            Reach::Process(root) => {
                let (process, root) = (std::process::id(), root.as_raw_fd());
                format!("/proc/{process}/fd/{root}/{name}").into()
            }
            Reach::Path(point) => point.path().join(name),
        }
    }
}

/// Serves the device by threads of this process.
fn serve<B: Bytes>(right: Right, served: Served<B>, device: OwnedFd) -> io::Result<Notifier> {
    let acl = match right {
        Right::Root => SessionACL::All,
        Right::Helper => SessionACL::Owner,
    };
    let mut config = Config::default();
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    config.acl = acl;
    let session = Session::from_fd(served, device, acl, config)?;
    let notifier = session.notifier();
    // Its threads end by themselves when the file system does.
    session.spawn()?;
    Ok(notifier)
}
