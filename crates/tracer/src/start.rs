//! Starting a command so that it is traced, and its filter installed, before its first instruction.
//!
//! The child reports its number and waits. The recorder attaches and lets it go; then the child
//! installs the filter and runs the command.

use crate::error::Error;
use crate::filter::Filter;
use crate::ptrace;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread::JoinHandle;

/// A command that is traced.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) pid: i32,
    program: String,
    /// Has a byte behind the number if the filter could not be installed.
    report: OwnedFd,
    /// Ends when the command runs, or could not be run.
    spawn: JoinHandle<io::Result<Child>>,
}

impl Started {
    /// Why the command did not run, once its process is gone.
    pub(crate) fn outcome(self) -> Result<(), Error> {
        // It takes the status of a child that could not run its command.
        let result = self.spawn.join();
        ptrace::reap(self.pid);
        let source = match result {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => error,
            Err(_) => io::Error::other("the thread that starts it panicked"),
        };
        // All other ends of the pipe are closed by now.
        match read(self.report.as_raw_fd(), &mut [0]) {
            0 => Err(Error::Start { program: self.program, source }),
            _ => Err(Error::Filter(source)),
        }
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors to `ends`, which have no other owner.
    unsafe {
        match libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) {
            0 => Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Reads once; 0 at the end, or if that fails. Ticks of the recorder interrupt it.
fn read(fd: RawFd, buffer: &mut [u8]) -> usize {
    loop {
        // SAFETY: the kernel writes at most the length of `buffer` to it.
        let got = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
        match usize::try_from(got) {
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            got => return got.unwrap_or(0),
        }
    }
}

/// Writes a few bytes, which a pipe takes at once.
fn write(fd: RawFd, buffer: &[u8]) -> bool {
    // SAFETY: the kernel reads at most the length of `buffer` from it.
    let put = unsafe { libc::write(fd, buffer.as_ptr().cast(), buffer.len()) };
    usize::try_from(put) == Ok(buffer.len())
}

/// Starts a command on this thread's account: the calling thread is the one that traces.
///
/// # Errors
/// If it cannot be started or traced.
pub(crate) fn start(mut command: Command) -> Result<Started, Error> {
    let machine = |source| Error::Machine { what: "make a pipe", source };
    let (report, reporting) = pipe().map_err(machine)?;
    let (going, go) = pipe().map_err(machine)?;
    let program = command.get_program().to_string_lossy().into_owned();
    let filter = Filter::new();
    let go_end = go.as_raw_fd();
    // Owned by the closure, which goes with the command: then the pipes close.
    let prepare = move || {
        // Only calls that are safe between `fork` and `exec`: no memory is allocated here.
        let pid = std::process::id().to_le_bytes();
        // SAFETY: this is the child's copy of the other end, which has no owner in the child.
        unsafe { libc::close(go_end) };
        if !write(reporting.as_raw_fd(), &pid) || read(going.as_raw_fd(), &mut [0]) != 1 {
            return Err(io::Error::from_raw_os_error(libc::ECANCELED));
        }
        filter.install().inspect_err(|_| {
            write(reporting.as_raw_fd(), b"f");
        })?;
        // A call that stops and changes nothing: the probe of the preflight counts it.
        // SAFETY: the call takes no pointer.
        unsafe { libc::fsync(-1) };
        Ok(())
    };
    // SAFETY: `prepare` keeps to what is allowed between `fork` and `exec`.
    unsafe { command.pre_exec(prepare) };
    // `spawn` comes back once the command runs, which needs the recorder. Dropping the command
    // closes the pipe of a child that could not be forked.
    let spawn = std::thread::spawn(move || command.spawn());
    let mut pid = [0; 4];
    if read(report.as_raw_fd(), &mut pid) != 4 {
        drop(go);
        let source = match spawn.join() {
            Ok(Err(error)) => error,
            _ => io::Error::other("it did not report"),
        };
        return Err(Error::Start { program, source });
    }
    let pid = i32::from_le_bytes(pid);
    if let Err(source) = ptrace::seize(pid) {
        drop(go);
        let _ = spawn.join();
        return Err(Error::denied(source));
    }
    // A child that has been killed meanwhile is reported as gone.
    write(go.as_raw_fd(), b"g");
    Ok(Started { pid, program, report, spawn })
}
