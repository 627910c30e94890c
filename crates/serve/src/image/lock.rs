//! The lock that keeps two processes from writing one image.

use super::ImageError;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{DirEntry, File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Steps of waiting for the lock of a process that has ended or is ending. I/O in flight of a
/// killed server keeps its image locked until the kernel has finished it, which takes long on a
/// busy machine.
const STEP: Duration = Duration::from_millis(10);
const STEPS: u32 = 3000;
/// The same where the system does not name the process: it may be alive.
const STEPS_UNKNOWN: u32 = 100;

/// Most loop devices on top of each other.
const MOST_LOOPS: usize = 8;

/// Locks `file` for writing alone or for reading among readers and, if it is a loop device, the
/// file that it stands for: two processes could write to the same bytes by two names. The returned
/// files hold those locks while they are open.
pub(super) fn take(file: &File, path: &Path, shared: bool) -> Result<Vec<File>, ImageError> {
    lock(file, path, shared)?;
    let mut below: Vec<File> = Vec::new();
    while below.len() < MOST_LOOPS
        && let Some((path, file)) = backing(below.last().unwrap_or(file))
    {
        lock(&file, &path, shared)?;
        below.push(file);
    }
    Ok(below)
}

/// The file behind a loop device, or behind a partition of one. `None` for other files, and if the
/// file cannot be opened by the name that the kernel reports.
fn backing(file: &File) -> Option<(PathBuf, File)> {
    let found = file.metadata().ok().filter(|found| found.file_type().is_block_device())?;
    let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    let device = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let mut names = ["loop", "../loop"].map(|at| device.join(at).join("backing_file")).into_iter();
    let name = names.find_map(|name| std::fs::read(name).ok())?;
    let path = PathBuf::from(OsStr::from_bytes(name.strip_suffix(b"\n").unwrap_or(&name)));
    let file = File::open(&path).ok()?;
    Some((path, file))
}

/// Do not wait for a process that is alive.
fn lock(file: &File, path: &Path, shared: bool) -> Result<(), ImageError> {
    let operation = match shared {
        true => FlockOperation::NonBlockingLockShared,
        false => FlockOperation::NonBlockingLockExclusive,
    };
    let mut patience = Patience::default();
    loop {
        match rustix::fs::flock(file, operation) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) => {
                if is_held_here(&file.metadata().ok(), 1) {
                    return Err(ImageError::Twice(path.to_owned()));
                }
                patience.wait(path, holder(file))?;
            }
            Err(errno) => return Err(ImageError::os("lock", path, errno)),
        }
    }
}

/// How long a lock, or a device, was waited for.
#[derive(Debug, Default)]
pub(super) struct Patience {
    steps: u32,
}

impl Patience {
    /// Waits a little for a process that is not alive, or that the system does not name.
    fn wait(&mut self, path: &Path, pid: Option<u32>) -> Result<(), ImageError> {
        let most = if pid.is_some() { STEPS } else { STEPS_UNKNOWN };
        if self.steps >= most || pid.is_some_and(is_alive) {
            return Err(ImageError::InUse { path: path.to_owned(), pid });
        }
        self.steps += 1;
        std::thread::sleep(STEP);
        Ok(())
    }
}

/// The kernel refuses a block device that another has opened for itself alone: waits a little if
/// that is a process at its end. A server gives up its lock before the kernel closes its files, so
/// the device may be in use though no process holds its lock.
pub(super) fn wait_for_device(
    found: &Metadata,
    path: &Path,
    patience: &mut Patience,
) -> Result<(), ImageError> {
    if is_held_here(&Some(found.clone()), 0) {
        return Err(ImageError::Twice(path.to_owned()));
    }
    // Opened without a claim of its own, it says who holds its lock.
    let by_lock = File::open(path).ok().and_then(|file| holder(&file));
    let pid = by_lock.or_else(|| user(found));
    if pid.is_none() && is_used_by_kernel(found) {
        return Err(ImageError::InUse { path: path.to_owned(), pid });
    }
    patience.wait(path, pid)
}

/// A process that has a device open, as far as this one may look.
fn user(found: &Metadata) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_open = |pid: &u32| {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut devices = open.filter_map(|entry| std::fs::metadata(entry.path()).ok());
        devices.any(|other| is_same(&other, found))
    };
    numbers.filter(|pid| *pid != std::process::id()).find(has_open)
}

/// True if a device is mounted, or part of another device.
fn is_used_by_kernel(found: &Metadata) -> bool {
    let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    let number = format!("{major}:{minor}");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let holders = std::fs::read_dir(format!("/sys/dev/block/{number}/holders"));
    mounts.lines().any(|line| line.split(' ').nth(2) == Some(&number))
        || holders.is_ok_and(|mut holders| holders.next().is_some())
}

/// True if this process has more open files of the same file or device than the `own` that the
/// caller knows of: then this process holds the lock.
pub(super) fn is_held_here(found: &Option<Metadata>, own: usize) -> bool {
    let (Some(found), Ok(open)) = (found, std::fs::read_dir("/proc/self/fd")) else { return false };
    let same = |entry: &DirEntry| {
        std::fs::metadata(entry.path()).is_ok_and(|other| is_same(&other, found))
    };
    open.flatten().filter(same).count() > own
}

/// True if both are one file, or two names of one block device.
pub(super) fn is_same(one: &Metadata, other: &Metadata) -> bool {
    if one.file_type().is_block_device() && other.file_type().is_block_device() {
        return one.rdev() == other.rdev();
    }
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// The flag of a process that the kernel is taking down (`PF_EXITING`): it runs no code of ours,
/// and has not closed its files yet.
const EXITING: u64 = 0x4;

/// True if a process runs, as far as `/proc` tells.
fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| runs(&stat))
}

/// The same, from the line that describes the process.
fn runs(stat: &str) -> bool {
    // The state follows the name, which is in parentheses and may contain any bytes.
    let mut fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ');
    let ended = fields.next().is_none_or(|state| state.starts_with(['Z', 'X']));
    // Parent, group, session, terminal and its group come before the flags.
    let flags = fields.nth(5).and_then(|flags| flags.parse::<u64>().ok());
    !ended && flags.is_none_or(|flags| flags & EXITING == 0)
}

/// The process that holds the lock, from the kernel's list. Within containers the list may be
/// empty; the answer only serves the message.
fn holder(file: &File) -> Option<u32> {
    let found = file.metadata().ok()?;
    let (major, minor) = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    let inode = format!("{major:02x}:{minor:02x}:{}", found.ino());
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    find_holder(&locks, &inode)
}

/// Lines look like `1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`.
fn find_holder(locks: &str, inode: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, at, ..] = fields[..] else { return None };
        if at == inode { pid.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_runs_is_alive() {
        assert!(is_alive(std::process::id()));
        assert!(!is_alive(u32::MAX));
    }

    #[test]
    fn who_is_ending_is_not_alive() {
        let stat = |state, flags| format!("7 (a) b) {state} 1 7 7 0 -1 {flags} 0 0 0\n");
        assert!(runs(&stat("S", 0x0040_0000)) && runs(&stat("R", 0)));
        assert!(!runs(&stat("R", 0x0040_0004)), "it closes its files");
        assert!(!runs(&stat("Z", 0)) && !runs(&stat("X", 0)));
    }

    #[test]
    fn finds_the_holder_and_skips_waiters() {
        let locks = "1: POSIX  ADVISORY  WRITE 10 fe:00:7 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 11 fe:00:8 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 12 fe:00:7 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 13 fe:00:7 0 EOF\n";
        assert_eq!(find_holder(locks, "fe:00:7"), Some(13));
        assert_eq!(find_holder(locks, "fe:00:9"), None);
    }
}
