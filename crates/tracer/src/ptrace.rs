//! The requests of `ptrace` that the recorder makes, and how it waits.
//!
//! All of them belong to the thread that attached: a recorder runs on a thread of its own, and
//! waits for the children of that thread only. So other children of the process are left alone.

use std::io;

/// What is known of a call at its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entered {
    pub(crate) number: i64,
    pub(crate) args: [u64; 6],
    /// What the filter says of it.
    pub(crate) data: u32,
}

/// Why a thread reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It is gone, with this status of `waitpid`.
    Gone(i32),
    /// It stands at the entry of a call that the filter names.
    Call,
    /// It stands at the exit of a call.
    Exit,
    /// It runs another program.
    Exec,
    /// It is stopped as job control stops it.
    Stopped,
    /// Another event; it goes on with this signal, or none if it is 0.
    Signal(i32),
}

/// `struct ptrace_syscall_info`, whose last part is one of three.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct SyscallInfo {
    op: u8,
    pad: [u8; 3],
    arch: u32,
    instruction: u64,
    stack: u64,
    words: [u64; 8],
}

/// What the C library takes for a request.
#[cfg(target_env = "musl")]
type Number = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Number = libc::c_uint;

const GET_SYSCALL_INFO: Number = 0x420e;
const INFO_EXIT: u8 = 2;
const INFO_SECCOMP: u8 = 3;
const EVENT_STOP: i32 = 128;
/// `__WNOTHREAD`: children of other threads of this process are theirs.
const OWN_CHILDREN: i32 = libc::__WALL | libc::__WNOTHREAD;

fn request(request: Number, tid: i32, data: usize) -> io::Result<()> {
    // SAFETY: requests that come here take no pointer.
    match unsafe { libc::ptrace(request, tid, 0, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Attaches to a process and all it will start. They end with this thread.
pub(crate) fn seize(pid: i32) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACESECCOMP
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_EXITKILL;
    request(libc::PTRACE_SEIZE, pid, options as usize)
}

// A thread that another one killed answers these with ESRCH; its end is reported later.

/// Lets a thread run on, with a signal or 0.
pub(crate) fn resume(tid: i32, signal: i32) {
    let _ = request(libc::PTRACE_CONT, tid, signal as usize);
}

/// The same, up to the exit of the call that it is in.
pub(crate) fn resume_to_exit(tid: i32, signal: i32) {
    let _ = request(libc::PTRACE_SYSCALL, tid, signal as usize);
}

/// Leaves a thread stopped as job control wants it.
pub(crate) fn listen(tid: i32) {
    let _ = request(libc::PTRACE_LISTEN, tid, 0);
}

fn info(tid: i32) -> Option<SyscallInfo> {
    let mut info = SyscallInfo::default();
    let size = size_of::<SyscallInfo>();
    // SAFETY: the kernel writes at most `size` bytes to `info`, and all bytes are valid.
    let got = unsafe { libc::ptrace(GET_SYSCALL_INFO, tid, size, &raw mut info) };
    (got > 0).then_some(info)
}

/// The call at whose entry a thread stands.
pub(crate) fn entered(tid: i32) -> Option<Entered> {
    let info = info(tid).filter(|info| info.op == INFO_SECCOMP)?;
    let args = std::array::from_fn(|index| info.words[1 + index]);
    Some(Entered { number: info.words[0].cast_signed(), args, data: info.words[7] as u32 })
}

/// The result of the call at whose exit a thread stands; a failure is minus the error number.
pub(crate) fn result(tid: i32) -> Option<i64> {
    let info = info(tid).filter(|info| info.op == INFO_EXIT)?;
    Some(info.words[0].cast_signed())
}

/// The number that comes with an event: for [`Event::Exec`], the former id of the thread.
pub(crate) fn message(tid: i32) -> Option<u64> {
    let mut message: libc::c_ulong = 0;
    // SAFETY: the kernel writes one word to `message`.
    let got = unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, tid, 0, &raw mut message) };
    (got == 0).then_some(message)
}

/// What a process that has not begun its program reports next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peek {
    /// It stopped: [`wait`] says why.
    Stop,
    /// It is gone; its status is left for the one who started it.
    Gone,
    /// A tick of the timer came first.
    Tick,
}

/// Waits for a process without taking its report.
///
/// # Errors
/// What the kernel says.
pub(crate) fn peek(pid: i32) -> io::Result<Peek> {
    let options = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | OWN_CHILDREN;
    // SAFETY: all zeros are valid, and the kernel fills the structure.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes to `info`, which lives through the call.
    match unsafe { libc::waitid(libc::P_PID, pid.cast_unsigned(), &raw mut info, options) } {
        0 if matches!(info.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED) => {
            Ok(Peek::Gone)
        }
        0 => Ok(Peek::Stop),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(Peek::Tick),
            // The one who started it was faster.
            error if error.raw_os_error() == Some(libc::ECHILD) => Ok(Peek::Gone),
            error => Err(error),
        },
    }
}

/// Takes the status of a process that is gone, if it is still to be had.
pub(crate) fn reap(pid: i32) {
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL | libc::WNOHANG) };
}

/// The next report of a thread. `None` if a tick of the timer came first.
///
/// # Errors
/// `ECHILD` if no child is left.
pub(crate) fn wait() -> io::Result<Option<(i32, Event)>> {
    let mut status = 0;
    // SAFETY: the kernel writes the status to an integer.
    let tid = unsafe { libc::waitpid(-1, &raw mut status, OWN_CHILDREN) };
    if tid < 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::EINTR) { Ok(None) } else { Err(error) };
    }
    if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
        return Ok(Some((tid, Event::Gone(status))));
    }
    let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
    let is_job = matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU);
    let event = match event {
        libc::PTRACE_EVENT_SECCOMP => Event::Call,
        libc::PTRACE_EVENT_EXEC => Event::Exec,
        EVENT_STOP if is_job => Event::Stopped,
        0 if signal == libc::SIGTRAP | 0x80 => Event::Exit,
        0 => Event::Signal(signal),
        _ => Event::Signal(0),
    };
    Ok(Some((tid, event)))
}
