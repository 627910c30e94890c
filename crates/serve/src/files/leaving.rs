//! Processes that write the last of a file system that was just unmounted.
//!
//! The kernel does not wait for them: `umount` returns as soon as no path leads to the file system.
//! A command that comes next finds the image in use and waits.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// True if this process serves a mount of this image that has left the tree of directories, or if
/// it ends: then its locks end with it.
pub(super) fn is_leaving(pid: u32, image: &Path) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    // Mounts first: if the command line is there after that, the process had mounts to list.
    let mounts = std::fs::read(process.join("mounts"));
    match std::fs::read(process.join("cmdline")) {
        Ok(command) if has_no_memory(&command) => true,
        Ok(command) => is_mount(&command) && mounts.is_ok_and(|all| !has_mount(&all, image)),
        Err(_) => !process.exists(),
    }
}

/// True for the command line of a process that ends. The kernel takes its memory, which holds the
/// command line, before it closes its files and so releases its locks.
fn has_no_memory(command: &[u8]) -> bool {
    command.is_empty()
}

fn is_mount(command: &[u8]) -> bool {
    command.split(|&byte| byte == 0).nth(1) == Some(b"mount")
}

/// True if a file system on this image is mounted. The source of a mount is its images, with
/// [`super::BETWEEN`] between them.
fn has_mount(mounts: &[u8], image: &Path) -> bool {
    let image = image.canonicalize().unwrap_or_else(|_| image.to_owned());
    mounts.split(|&byte| byte == b'\n').any(|line| {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let [source, _, b"fuse.seekless", ..] = fields[..] else { return false };
        let source = unescaped(source);
        source
            .split(|&byte| byte == super::BETWEEN as u8)
            .any(|one| one == image.as_os_str().as_bytes())
    })
}

/// The kernel writes spaces and the like in octal.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        let octal = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(|_| byte == b'\\') {
            Some(code) => {
                out.push(code);
                rest = &behind[3..];
            }
            None => {
                out.push(byte);
                rest = behind;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &[u8] = b"/dev/sda1 / ext4 rw 0 0\n\
        /a/my\\040disk+/a/b /mnt fuse.seekless rw 0 0\n\
        /other /b fuse.other rw 0 0\n";

    #[test]
    fn a_mount_that_is_there_is_not_leaving() {
        let at = |image: &str| has_mount(MOUNTS, Path::new(image));
        assert!(at("/a/my disk") && at("/a/b"));
        assert!(!at("/other") && !at("/a/my"));
    }

    #[test]
    fn only_mounts_leave() {
        assert!(is_mount(b"/usr/bin/seekless\0mount\0a.img\0/mnt\0"));
        assert!(!is_mount(b"seekless\0serve\0mount\0"));
        assert!(!is_leaving(std::process::id(), Path::new("/a/b")));
    }

    #[test]
    fn who_ends_leaves_whatever_it_was() {
        let mut child = std::process::Command::new("true").spawn().expect("`true` starts");
        let pid = child.id();
        // Until `wait` the process stays in the table, without memory.
        let ended = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            is_leaving(pid, Path::new("/a/b"))
        });
        assert!(ended, "a process that has ended still counts as one that runs");
        assert!(Path::new(&format!("/proc/{pid}")).exists());
        child.wait().expect("the child has ended");
        assert!(is_leaving(pid, Path::new("/a/b")));
    }
}
