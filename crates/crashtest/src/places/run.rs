//! Running a tool: commands on its standard input, what it prints as text, and a time limit.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes of a tool's output that are read.
const MOST_OUTPUT: u64 = 64 << 20;

/// When a question must be answered.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// A deadline this long from now.
    pub fn after(time: Duration) -> Deadline {
        Deadline(Instant::now() + time)
    }

    fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

/// What a tool prints. `None` if it is missing, fails to start or takes too long. Its exit code
/// does not count: the tools report damage by it and go on.
///
/// The directories of system tools are tried after `PATH`, which often lacks them for a user.
pub fn run(
    program: &str,
    args: &[&str],
    image: &Path,
    input: &str,
    by: Deadline,
) -> Option<String> {
    if by.left().is_zero() {
        return None;
    }
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    // Files instead of pipes: neither side can block the other.
    let mut commands = File::from(rustix::fs::memfd_create("commands", flags).ok()?);
    commands.write_all(input.as_bytes()).ok()?;
    commands.rewind().ok()?;
    let mut output = File::from(rustix::fs::memfd_create("output", flags).ok()?);
    let program = ["", "/usr/sbin/", "/sbin/"].iter().find_map(|directory| {
        let mut command = Command::new(format!("{directory}{program}"));
        command.args(args).arg(image).env("LC_ALL", "C").stdin(commands.try_clone().ok()?);
        command.stdout(output.try_clone().ok()?).stderr(Stdio::null()).spawn().ok()
    });
    let mut child = program?;
    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
    let ended = pidfd.is_ok_and(|pidfd| ends(&pidfd, by));
    if !ended {
        // It may have ended in the meantime.
        let _ = child.kill();
    }
    child.wait().ok()?;
    if !ended {
        return None;
    }
    output.rewind().ok()?;
    let mut bytes = Vec::new();
    output.take(MOST_OUTPUT).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Waits for the end of a process until the deadline.
fn ends(pidfd: &impl std::os::fd::AsFd, by: Deadline) -> bool {
    loop {
        let left = by.left();
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&timeout)) {
            Ok(count) => return count > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_reads_its_commands_and_is_heard() {
        let by = Deadline::after(PATIENT);
        let said =
            run("sh", &["-c", "cat; echo $0; echo no >&2; exit 3"], "/x".as_ref(), "in\n", by);
        assert_eq!(said.as_deref(), Some("in\n/x\n"));
        assert_eq!(run("no-such-tool-anywhere", &[], "/x".as_ref(), "", by), None);
    }

    #[test]
    fn a_tool_that_takes_too_long_is_killed() {
        let began = Instant::now();
        let by = Deadline::after(Duration::from_millis(200));
        assert_eq!(run("sh", &["-c", "exec sleep 60"], "/x".as_ref(), "", by), None);
        assert!(began.elapsed() < PATIENT, "{:?}", began.elapsed());
        // The deadline is for all tools of a question.
        assert_eq!(run("sh", &["-c", "echo late"], "/x".as_ref(), "", by), None);
    }

    const PATIENT: Duration = Duration::from_secs(30);
}
