//! A process that leaves its terminal: it starts again as a child in a session of its own, and the
//! parent waits until the child has said that it is ready.
//!
//! The child writes to pipes of the parent. When it is ready it gives them up, so that the parent
//! sees the end of both and ends, too. Messages after that go to a file, or to the log of the
//! kernel, as those of its own file systems do.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::process::{Command, ExitStatus, Stdio};

/// How a child began.
#[derive(Debug)]
pub enum Begun {
    /// It is ready and goes on alone; what it said on standard output.
    Ready(Vec<u8>),
    /// It has ended before it was ready; it has said why on standard error.
    Ended(ExitStatus),
}

/// Starts this program again with `arguments`, and waits until it calls [`leave`] or ends.
/// Standard error is passed on meanwhile.
///
/// # Errors
/// If the program cannot be started, or the pipes fail.
pub fn start(arguments: impl IntoIterator<Item = OsString>) -> io::Result<Begun> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let relay = std::thread::spawn(move || {
        let Some(mut err) = err else { return Ok(0) };
        io::copy(&mut err, &mut io::stderr())
    });
    let mut said = Vec::new();
    if let Some(mut out) = out {
        out.read_to_end(&mut said)?;
    }
    // A reader of standard error that is gone has missed the rest.
    let _ = relay.join();
    if said.is_empty() { Ok(Begun::Ended(child.wait()?)) } else { Ok(Begun::Ready(said)) }
}

/// Begins a session without a terminal. To be called by the child before anything else.
///
/// # Errors
/// If the process leads a group already.
pub fn begin() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// The log of the kernel: each write is a record. Only root may write there.
const KERNEL_LOG: &str = "/dev/kmsg";

/// Lets the parent go: says `line` and gives up the pipes and the working directory. Messages go to
/// `messages` from now on; without it to the log of the kernel, or nowhere if that is closed.
///
/// # Errors
/// If there is no `/dev/null`.
pub fn leave(out: &mut dyn Write, line: &str, messages: Option<&File>) -> io::Result<()> {
    // A parent that is gone hears nothing; the child is ready all the same.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    let log = match messages {
        Some(_) => None,
        None => File::options().append(true).open(KERNEL_LOG).ok(),
    };
    rustix::stdio::dup2_stderr(messages.or(log.as_ref()).unwrap_or(&null))?;
    std::env::set_current_dir("/")
}
