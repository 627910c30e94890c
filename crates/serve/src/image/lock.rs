//! The lock that keeps two processes from writing one image.

use super::ImageError;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Locks `file` for writing alone or for reading among readers, without waiting.
pub(super) fn take(file: &File, path: &Path, shared: bool) -> Result<(), ImageError> {
    let operation = match shared {
        true => FlockOperation::NonBlockingLockShared,
        false => FlockOperation::NonBlockingLockExclusive,
    };
    match rustix::fs::flock(file, operation) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => {
            Err(ImageError::InUse { path: path.to_owned(), pid: holder(file) })
        }
        Err(errno) => Err(ImageError::os("lock", path, errno)),
    }
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
    fn finds_the_holder_and_skips_waiters() {
        let locks = "1: POSIX  ADVISORY  WRITE 10 fe:00:7 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 11 fe:00:8 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 12 fe:00:7 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 13 fe:00:7 0 EOF\n";
        assert_eq!(find_holder(locks, "fe:00:7"), Some(13));
        assert_eq!(find_holder(locks, "fe:00:9"), None);
    }
}
