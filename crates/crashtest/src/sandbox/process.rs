//! Starting, asking and ending a worker: the side of the parent.
//!
//! A worker is the same program, run as the hidden command [`COMMAND`]. It starts in a PID and a
//! mount namespace of its own, and finds its socket at descriptor [`SOCKET`] and a handle of its
//! parent at [`PARENT`]. It ends when the socket closes and its parent is gone, so also when its
//! parent is killed. `PR_SET_PDEATHSIG` would end it with the thread that started it, and checks
//! start workers from threads that come and go.

use super::protocol::{Answer, Go, Job, receive, send};
use super::rootless;
use crate::replay::stop::Stop;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{
    PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, pidfd_open, pidfd_send_signal, waitid,
};
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The hidden command of the program that is a worker.
pub const COMMAND: &str = "crash-worker";
/// The descriptor at which a worker finds its socket.
pub const SOCKET: RawFd = 3;
/// The descriptor at which a worker finds a handle of its parent, which is readable at its end.
pub const PARENT: RawFd = 4;
/// Descriptors from here on are none that a worker finds something at.
const ASIDE: RawFd = 10;
/// How far the process numbers of one worker begin from those of the worker before it.
const NUMBERS_APART: u32 = 7919;
/// Workers started by this process.
static STARTED: AtomicU32 = AtomicU32::new(0);
/// How long a worker may take to start.
const START: Duration = Duration::from_secs(30);

/// A running worker. It ends, with all that its namespaces hold, when this is dropped.
#[derive(Debug)]
pub struct Worker {
    handle: OwnedFd,
    socket: OwnedFd,
    shared: Vec<String>,
}

/// What a worker has to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Processes and mounts.
    Processes,
    /// Also network, IPC, temporary files and the boot id.
    Machine,
}

/// The argument that asks for [`Isolation::Machine`].
pub(super) const APART: &str = "apart";
/// The argument in front of the directory with copies of trees.
pub(super) const COPIES: &str = "copies";

/// What waiting for an answer came to.
#[derive(Debug)]
pub enum Asked {
    /// An answer.
    Answered(Answer),
    /// The worker ended without one.
    Died,
    /// It takes longer than allowed.
    TooLong,
    /// Everything is to end.
    Stopped,
}

impl Worker {
    /// Starts `program` as a worker and waits until it is ready. It can mount the directories in
    /// `copies` as states. Without root, it gets its namespaces in a user namespace.
    ///
    /// # Errors
    /// Without the right to make namespaces, or if the program is none that can be a worker.
    pub fn start(
        program: &Path,
        isolation: Isolation,
        copies: Option<&Path>,
    ) -> io::Result<Worker> {
        let flags = SocketFlags::CLOEXEC;
        let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let parent = pidfd_open(getpid(), PidfdFlags::empty())?;
        let given = [theirs.as_raw_fd(), parent.as_raw_fd()];
        let handle = launch(program, isolation, copies, given)?;
        drop(theirs);
        let mut worker = Worker { handle, socket, shared: Vec::new() };
        match worker.answer(START, None)? {
            Asked::Answered(Answer::Ready { shared }) => {
                worker.shared = shared;
                Ok(worker)
            }
            Asked::Answered(Answer::Failed(why)) => Err(io::Error::other(why)),
            other => Err(io::Error::other(format!(
                "{} is no worker ({other:?}); it must have the command `{COMMAND}`",
                program.display()
            ))),
        }
    }

    /// What it shares with the machine although it should not, and why.
    pub fn shared(&self) -> &[String] {
        &self.shared
    }

    /// Gives the worker a job and waits for its answer.
    ///
    /// # Errors
    /// If the system refuses to send, wait or receive.
    pub fn ask(
        &self,
        job: &Job,
        fds: &[BorrowedFd<'_>],
        timeout: Duration,
        stop: &Stop,
    ) -> io::Result<Asked> {
        match self.tell(job, fds)? {
            true => self.answer(timeout, Some(stop)),
            false => Ok(Asked::Died),
        }
    }

    /// Gives the worker a job; false if it is gone.
    ///
    /// # Errors
    /// If the system refuses to send.
    pub(super) fn tell(&self, job: &Job, fds: &[BorrowedFd<'_>]) -> io::Result<bool> {
        match send(self.socket.as_fd(), job, fds) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            sent => sent.map(|()| true),
        }
    }

    /// Lets the worker go on, without its command if `is_known`, and waits for its next answer.
    ///
    /// # Errors
    /// As for [`Worker::ask`].
    pub fn go_on(&self, is_known: bool, timeout: Duration, stop: &Stop) -> io::Result<Asked> {
        match send(self.socket.as_fd(), &Go { is_known }, &[]) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Asked::Died),
            sent => sent?,
        }
        self.answer(timeout, Some(stop))
    }

    /// Waits for an answer.
    ///
    /// # Errors
    /// If the system refuses to wait or receive.
    pub(super) fn answer(&self, timeout: Duration, stop: Option<&Stop>) -> io::Result<Asked> {
        let end = Instant::now().checked_add(timeout);
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let left = left.map(|left| Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            });
            // Where no stop can be requested, the socket is looked at twice.
            let stop = stop.map_or(self.socket.as_fd(), Stop::fd);
            let mut fds =
                [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&stop, PollFlags::IN)];
            match poll(&mut fds, left.as_ref()) {
                Ok(0) => return Ok(Asked::TooLong),
                Ok(_) if fds[0].revents().is_empty() => return Ok(Asked::Stopped),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            let answer = receive::<Answer>(self.socket.as_fd())?;
            return Ok(answer.map_or(Asked::Died, |(answer, _)| Asked::Answered(answer)));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Process 1 of a namespace takes every other process of it along, and those the mounts.
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
        // The kernel reports its end after all of them are gone.
        let wait = || waitid(WaitId::PidFd(self.handle.as_fd()), WaitIdOptions::EXITED);
        while matches!(wait(), Err(rustix::io::Errno::INTR)) {}
    }
}

/// Starts the program in new namespaces, with what it is `given` at [`SOCKET`] and [`PARENT`];
/// returns a descriptor of the process.
fn launch(
    program: &Path,
    isolation: Isolation,
    copies: Option<&Path>,
    given: [RawFd; 2],
) -> io::Result<OwnedFd> {
    // All memory is taken before the process is cloned: its copy may not allocate.
    let path = CString::new(program.as_os_str().as_bytes())?;
    let first = STARTED.fetch_add(1, Ordering::Relaxed).wrapping_mul(NUMBERS_APART);
    let mut arguments =
        vec![path.clone(), CString::new(COMMAND)?, CString::new(first.to_string())?];
    if isolation == Isolation::Machine {
        arguments.push(CString::new(APART)?);
    }
    if let Some(copies) = copies {
        arguments.push(CString::new(COPIES)?);
        arguments.push(CString::new(copies.as_os_str().as_bytes())?);
    }
    let variables: Vec<CString> = std::env::vars_os().filter_map(variable).collect();
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|one| one.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (arguments, variables) = (pointers(&arguments), pointers(&variables));
    let mut handle: RawFd = -1;
    let maps = (!rootless::has_rights()).then(rootless::Maps::of_this_process).transpose()?;
    let user = if maps.is_some() { libc::CLONE_NEWUSER } else { 0 };
    let flags = user | libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: without CLONE_VM this is a fork. The copy calls only functions that are
    // async-signal-safe, on memory that was made before, and then becomes another program. The
    // third argument is where the kernel puts the descriptor; the others are not used.
    let process = unsafe {
        let process = libc::syscall(
            libc::SYS_clone,
            libc::c_long::from(flags),
            0_usize,
            &raw mut handle,
            0_usize,
            0_usize,
        );
        if process == 0 {
            if maps.as_ref().is_some_and(|maps| !maps.write()) {
                libc::_exit(127);
            }
            become_worker(&path, &arguments, &variables, given);
        }
        process
    };
    if process < 0 {
        let error = io::Error::last_os_error();
        let text = format!("no new namespaces: {error}; run as root or add CAP_SYS_ADMIN");
        return Err(io::Error::new(error.kind(), text));
    }
    // SAFETY: the kernel has just made the descriptor for this process.
    Ok(unsafe { OwnedFd::from_raw_fd(handle) })
}

/// The way from the copy of this process to the program of the worker.
///
/// # Safety
/// The pointers end in null and point to strings. Only for a process with one thread.
unsafe fn become_worker(
    path: &CString,
    arguments: &[*const libc::c_char],
    variables: &[*const libc::c_char],
    given: [RawFd; 2],
) -> ! {
    // SAFETY: these are system calls on memory that lives; a descriptor that is replaced belongs
    // to this process alone.
    unsafe {
        // Signals from a terminal are for the parent.
        libc::setsid();
        // Out of the way first: one may be where the other belongs.
        let aside = given.map(|fd| libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, ASIDE));
        let placed = [libc::dup2(aside[0], SOCKET), libc::dup2(aside[1], PARENT)];
        if placed == [SOCKET, PARENT] {
            libc::execve(path.as_ptr(), arguments.as_ptr(), variables.as_ptr());
        }
        libc::_exit(127)
    }
}

/// A variable as `execve` takes it. One that has a zero byte cannot exist.
fn variable((name, value): (std::ffi::OsString, std::ffi::OsString)) -> Option<CString> {
    let mut text = name.into_vec();
    text.extend_from_slice(OsStr::new("=").as_bytes());
    text.extend(value.into_vec());
    CString::new(text).ok()
}
