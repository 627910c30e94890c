//! What the recorder asks about a thread that stands still: its memory, its descriptors, and the
//! paths that it names.
//!
//! Descriptors are asked for at each call. A copy of one (`pidfd_getfd`) tells all with three cheap
//! calls; where it is refused, as Docker does, `/proc/TID/fd` and `fdinfo` tell the same.

use crate::arch::At;
use crate::stat::Stat;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Longest path in bytes, with its zero byte.
const MOST_PATH: usize = 4096;
const PAGE: usize = 4096;
/// Asks for the descriptor of a thread that leads no process; kernels from 6.9 on.
const PIDFD_THREAD: libc::c_uint = libc::O_EXCL as libc::c_uint;

/// How the descriptors of a thread are reached.
#[derive(Debug)]
enum Reach {
    Unknown,
    Copies(OwnedFd),
    Proc,
}

/// A thread of the program.
#[derive(Debug)]
pub(crate) struct Tracee {
    pub(crate) tid: i32,
    reach: Reach,
}

/// An open file of a thread.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) stat: Stat,
    tid: i32,
    fd: RawFd,
    /// The same open file, in the recorder.
    copy: Option<OwnedFd>,
}

impl Tracee {
    pub(crate) fn new(tid: i32) -> Tracee {
        Tracee { tid, reach: Reach::Unknown }
    }

    /// Reads memory; fewer bytes than asked for if the rest is not readable.
    pub(crate) fn memory(&self, at: u64, buffer: &mut [u8]) -> usize {
        let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let remote = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: buffer.len() };
        // SAFETY: the kernel writes at most the length of `buffer` to it. The remote address is of
        // another process, and is checked by the kernel.
        let got = unsafe { libc::process_vm_readv(self.tid, &local, 1, &remote, 1, 0) };
        usize::try_from(got).unwrap_or(0)
    }

    /// Reads a word; 0 if it is not readable.
    pub(crate) fn word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.memory(at, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Reads text up to its zero byte, page by page, so that no page behind it is touched.
    pub(crate) fn text(&self, at: u64) -> Vec<u8> {
        let mut text = Vec::new();
        while at != 0 && text.len() < MOST_PATH {
            let from = at + text.len() as u64;
            let mut piece = [0; PAGE];
            let length = PAGE - (from as usize & (PAGE - 1));
            let got = self.memory(from, &mut piece[..length]);
            if let Some(end) = piece[..got].iter().position(|&byte| byte == 0) {
                text.extend_from_slice(&piece[..end]);
                break;
            }
            text.extend_from_slice(&piece[..got]);
            if got == 0 {
                break;
            }
        }
        text
    }

    /// The path of something of this thread below `/proc`.
    pub(crate) fn proc(&self, what: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{what}", self.tid))
    }

    /// An open file.
    ///
    /// # Errors
    /// If there is none, or it is out of reach.
    pub(crate) fn opened(&mut self, fd: u64) -> io::Result<Opened> {
        let fd = fd as RawFd;
        let copy = self.copy(fd)?;
        let stat = match &copy {
            Some(copy) => Stat::of_fd(copy.as_raw_fd())?,
            None => Stat::of_path(&self.proc(&format!("fd/{fd}")), true)?,
        };
        Ok(Opened { stat, tid: self.tid, fd, copy })
    }

    /// A copy of a descriptor; `None` if copies are refused.
    fn copy(&mut self, fd: RawFd) -> io::Result<Option<OwnedFd>> {
        if matches!(self.reach, Reach::Unknown) {
            self.reach = pidfd(self.tid).map_or(Reach::Proc, Reach::Copies);
        }
        let Reach::Copies(process) = &self.reach else { return Ok(None) };
        // SAFETY: the call takes no pointer; the descriptor that it returns has no other owner.
        let copy = unsafe {
            match libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) {
                copy @ 0.. => Ok(OwnedFd::from_raw_fd(copy as RawFd)),
                _ => Err(io::Error::last_os_error()),
            }
        };
        match copy {
            Ok(copy) => Ok(Some(copy)),
            Err(error) if error.raw_os_error() == Some(libc::EBADF) => Err(error),
            Err(_) => {
                self.reach = Reach::Proc;
                Ok(None)
            }
        }
    }

    /// A path of this thread as one that the recorder can use.
    pub(crate) fn path(&self, dir: Option<u64>, text: &[u8]) -> PathBuf {
        let begins = |with: &str| text.strip_prefix(with.as_bytes());
        if let Some(rest) = begins("/proc/self/").or_else(|| begins("/proc/thread-self/")) {
            return self.proc("").join(OsStr::from_bytes(rest));
        }
        if let Some(rest) = begins("/dev/fd/") {
            return self.proc("fd").join(OsStr::from_bytes(rest));
        }
        if let Some(number) = ["stdin", "stdout", "stderr"]
            .iter()
            .position(|name| begins("/dev/") == Some(name.as_bytes()))
        {
            return self.proc(&format!("fd/{number}"));
        }
        let base = match dir.map(|fd| fd as RawFd) {
            _ if text.first() == Some(&b'/') => self.proc("root"),
            None | Some(libc::AT_FDCWD) => self.proc("cwd"),
            Some(fd) => self.proc(&format!("fd/{fd}")),
        };
        if text.is_empty() {
            return base;
        }
        let mut path = base.into_os_string();
        path.push("/");
        path.push(OsStr::from_bytes(text));
        PathBuf::from(path)
    }

    /// The path in the arguments of a call.
    pub(crate) fn path_of(&self, at: At, args: &[u64; 6]) -> PathBuf {
        let (dir, text) = match at {
            At::Cwd(text) => (None, args[text]),
            At::Dir(dir) => (Some(args[dir]), args[dir + 1]),
        };
        self.path(dir, &self.text(text))
    }
}

/// A descriptor of a thread. `None` if the kernel is too old.
fn pidfd(tid: i32) -> Option<OwnedFd> {
    [PIDFD_THREAD, 0].into_iter().find_map(|flags| {
        // SAFETY: the call takes no pointer; the descriptor that it returns has no other owner.
        unsafe {
            match libc::syscall(libc::SYS_pidfd_open, tid, flags) {
                fd @ 0.. => Some(OwnedFd::from_raw_fd(fd as RawFd)),
                _ => None,
            }
        }
    })
}

impl Opened {
    /// A path that opens the same file again.
    pub(crate) fn path(&self) -> PathBuf {
        match &self.copy {
            Some(copy) => PathBuf::from(format!("/proc/self/fd/{}", copy.as_raw_fd())),
            None => PathBuf::from(format!("/proc/{}/fd/{}", self.tid, self.fd)),
        }
    }

    /// Where the file was when it was opened.
    pub(crate) fn link(&self) -> io::Result<PathBuf> {
        std::fs::read_link(self.path())
    }

    /// The descriptor of the recorder, if it can be read through. With `O_DIRECT`, many devices
    /// want buffers that begin a sector.
    pub(crate) fn readable(&self, flags: i32) -> Option<RawFd> {
        let reads = matches!(flags & libc::O_ACCMODE, libc::O_RDONLY | libc::O_RDWR);
        let is_usable = reads && flags & (libc::O_PATH | libc::O_DIRECT) == 0;
        self.copy.as_ref().filter(|_| is_usable).map(|fd| fd.as_raw_fd())
    }

    /// Position and flags of the open file.
    ///
    /// # Errors
    /// If it is out of reach.
    pub(crate) fn position(&self) -> io::Result<(u64, i32)> {
        let Some(copy) = &self.copy else { return self.fdinfo() };
        // SAFETY: both calls take no pointer. A position is asked for, not changed.
        let (at, flags) = unsafe {
            let fd = copy.as_raw_fd();
            (libc::lseek(fd, 0, libc::SEEK_CUR), libc::fcntl(fd, libc::F_GETFL))
        };
        if flags < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((u64::try_from(at).unwrap_or(0), flags))
    }

    fn fdinfo(&self) -> io::Result<(u64, i32)> {
        let text = std::fs::read_to_string(format!("/proc/{}/fdinfo/{}", self.tid, self.fd))?;
        let field =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let at = field("pos:").and_then(|at| at.parse().ok());
        let flags = field("flags:").and_then(|flags| i32::from_str_radix(flags, 8).ok());
        at.zip(flags).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The attributes as they are now.
    pub(crate) fn again(&self) -> io::Result<Stat> {
        match &self.copy {
            Some(copy) => Stat::of_fd(copy.as_raw_fd()),
            None => Stat::of_path(&self.path(), true),
        }
    }
}

/// A path without slashes at its end, taken apart into its directory and its last name.
pub(crate) fn split(path: &Path) -> Option<(&Path, &OsStr)> {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/')? + 1;
    let slash = bytes[..end].iter().rposition(|&byte| byte == b'/')?;
    let dir = if slash == 0 { &bytes[..1] } else { &bytes[..slash] };
    let name = OsStr::from_bytes(&bytes[slash + 1..end]);
    Some((Path::new(OsStr::from_bytes(dir)), name))
}
