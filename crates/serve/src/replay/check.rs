//! Somebody's check: a shell command in a process group of its own, with a time limit.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What stands for the path of the state in a command.
pub const DEVICE: &str = "{device}";
/// Bytes of the command's output that are kept.
const MOST_OUTPUT: u64 = 16 << 10;

/// What a check says of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Exit code 0.
    Good,
    /// An exit code from 1 to 125: the state is bad.
    Bad(i32),
    /// It could not be started (126, 127) or was killed: that says nothing about the state.
    Failed(String),
    /// It took longer than allowed.
    Hung,
}

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// What it says.
    pub verdict: Verdict,
    /// The end of what it printed.
    pub output: String,
}

/// A command and how long it may take.
#[derive(Clone, Debug)]
pub struct Check {
    /// For the shell, with [`DEVICE`] in it.
    pub command: String,
    /// Time limit.
    pub patience: Duration,
}

impl Check {
    /// Runs the check on the state at `path`, with more variables in its environment. Whatever the
    /// command leaves running is killed.
    ///
    /// # Errors
    /// If the system has no process or file left.
    pub fn run(&self, path: &Path, variables: &[(&str, String)]) -> io::Result<Checked> {
        let output =
            File::from(rustix::fs::memfd_create("check", rustix::fs::MemfdFlags::CLOEXEC)?);
        let line = self.command.replace(DEVICE, &quoted(&path.to_string_lossy()));
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(line).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output.try_clone()?);
        command.envs(variables.iter().map(|(name, value)| (name, value))).process_group(0);
        let mut child = command.spawn()?;
        let ended = ends(&child, self.patience)?;
        // What it left behind would go on using the state. The process itself has not been waited
        // for, so the number of its group cannot have become another's.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let status = child.wait()?;
        let verdict = if ended { verdict(status) } else { Verdict::Hung };
        Ok(Checked { verdict, output: tail(output)? })
    }
}

/// Waits for the end of a process; false if that takes too long.
fn ends(child: &Child, patience: Duration) -> io::Result<bool> {
    let handle = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let end = Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&timeout)) {
            Ok(count) => return Ok(count > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn verdict(status: ExitStatus) -> Verdict {
    match (status.code(), status.signal()) {
        (Some(0), _) => Verdict::Good,
        (Some(126), _) => Verdict::Failed("exit code 126: it cannot be executed".to_owned()),
        (Some(127), _) => Verdict::Failed("exit code 127: it was not found".to_owned()),
        // A shell reports the death of its last command like this.
        (Some(code), _) if code > 128 => {
            Verdict::Failed(format!("exit code {code}: killed by signal {}", code - 128))
        }
        (Some(code), _) => Verdict::Bad(code),
        (None, signal) => {
            let signal = signal.map_or_else(String::new, |signal| format!(" {signal}"));
            Verdict::Failed(format!("killed by signal{signal}"))
        }
    }
}

/// The end of what was printed.
fn tail(mut output: File) -> io::Result<String> {
    let length = output.seek(io::SeekFrom::End(0))?;
    output.seek(io::SeekFrom::Start(length.saturating_sub(MOST_OUTPUT)))?;
    let mut bytes = Vec::new();
    output.take(MOST_OUTPUT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A word that the shell takes as it is.
fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._".contains(&byte);
    match text.bytes().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str) -> Checked {
        let check = Check { command: command.into(), patience: Duration::from_millis(400) };
        check.run(Path::new("/a b/c'd"), &[("SEEKLESS_FLUSHES", "7".into())]).expect("runs")
    }

    #[test]
    fn verdicts_are_told_apart() {
        assert_eq!(run("true {device}").verdict, Verdict::Good);
        assert_eq!(run("exit 3").verdict, Verdict::Bad(3));
        assert!(matches!(run("no-such-program-anywhere").verdict, Verdict::Failed(_)));
        assert!(matches!(run("kill -9 $$").verdict, Verdict::Failed(_)));
        assert!(matches!(run("sh -c 'kill -9 $$'").verdict, Verdict::Failed(_)));
        assert_eq!(run("sleep 60").verdict, Verdict::Hung);
        // What stays behind in the background is no reason to wait.
        assert_eq!(run("sleep 60 & exit 0").verdict, Verdict::Good);
    }

    #[test]
    fn the_command_gets_its_path_and_variables_and_is_heard() {
        let checked = run("echo {device} $SEEKLESS_FLUSHES; echo bad >&2; exit 1");
        assert_eq!(checked.output, "/a b/c'd 7\nbad\n");
    }
}
