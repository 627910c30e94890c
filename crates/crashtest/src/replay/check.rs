//! The check of a user: a shell command in a process group of its own, with a time limit.

use super::image::Image;
use super::stop::Stop;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use seekless_calls::model::Tree;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What stands for the path of the state in a command.
pub const DEVICE: &str = "{device}";
/// What stands for the path of the second disk of a state.
pub const DEVICE2: &str = "{device2}";
/// Bytes of the command's output that are kept.
const MOST_OUTPUT: u64 = 16 << 10;
/// How long a check has to clean up when everything is to end.
const GRACE: Duration = Duration::from_secs(2);
/// Exit codes by which a shell tells of a signal: this plus its number, of which there are 64.
const SHELL_SIGNAL: i32 = 128;
const MOST_SIGNAL: i32 = 64;

/// What a check says of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Exit code 0.
    Good,
    /// Any other exit code: the state is bad.
    Bad(i32),
    /// It could not be started (126, 127) or was killed, which shells tell by exit codes from 129
    /// to 192: that says nothing about the state.
    Failed(String),
    /// It took longer than allowed.
    Hung,
    /// It rejects the state, and accepts the same state when it is asked again.
    Wavers(i32),
    /// It was ended, or never begun, because everything is to end.
    Stopped,
}

/// What a checker may answer from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Whatever it knows of an equal state.
    Known,
    /// Only what was found when an equal state was checked anew: this state was rejected before.
    Anew,
}

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// What it says.
    pub verdict: Verdict,
    /// The end of what it printed.
    pub output: String,
}

impl Checked {
    /// A check that said nothing because everything is to end.
    pub(crate) fn stopped() -> Checked {
        Checked { verdict: Verdict::Stopped, output: String::new() }
    }
}

/// The variable that names a file with everything that was acknowledged before the power went, a
/// line each, in order. To a [`Checker`] its value is the content of that file.
pub const ACKED_FILE: &str = "SEEKLESS_ACKED_FILE";

/// A file with what was acknowledged, and the other variables. The file is in memory, and nothing
/// can be written to it.
pub(crate) fn acknowledged(variables: &[(&str, String)]) -> io::Result<(File, Variables)> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create("acknowledged", flags)?);
    let content = variables.iter().find(|(name, _)| *name == ACKED_FILE);
    file.write_all(content.map_or("", |(_, content)| content).as_bytes())?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK)?;
    let others = variables.iter().filter(|(name, _)| *name != ACKED_FILE);
    let others = others.map(|(name, value)| ((*name).to_owned(), value.clone()));
    Ok((file, others.collect()))
}

/// Variables of an environment.
pub(crate) type Variables = Vec<(String, String)>;

/// Something that checks states.
pub trait Checker: Sync {
    /// Checks the state in the file at `device`, with more variables in the environment.
    ///
    /// # Errors
    /// If the system has no process or file left.
    fn check(&self, device: &Path, variables: &[(&str, String)]) -> io::Result<Checked>;

    /// Checks a state of two disks, each in a file of its own.
    ///
    /// # Errors
    /// As for [`Checker::check`], and if this checker knows one disk only.
    fn check_two(&self, _: [&Path; 2], _: &[(&str, String)]) -> io::Result<Checked> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this check knows one disk only"))
    }

    /// Checks a state in memory, disk by disk; `None` if this checker needs it in files.
    fn check_images(
        &self,
        _disks: &[Arc<Image>],
        _variables: &[(&str, String)],
        _ask: Ask,
    ) -> Option<io::Result<Checked>> {
        None
    }

    /// Checks a directory.
    ///
    /// # Errors
    /// As for [`Checker::check`], and if this checker knows disks only.
    fn check_tree(&self, _: &Tree, _: &[(&str, String)]) -> io::Result<Checked> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this check knows disks only"))
    }

    /// What checks share with the machine although they should not, and why.
    fn shared(&self) -> &[String] {
        &[]
    }
}

/// A command, how long it may take, and what ends it before.
#[derive(Clone, Debug)]
pub struct Check {
    /// For the shell, with [`DEVICE`] in it.
    pub command: String,
    /// Time limit.
    pub patience: Duration,
    /// Once a stop is requested here, checks are ended and no others begun.
    pub stop: Arc<Stop>,
}

impl Checker for Check {
    fn check(&self, device: &Path, variables: &[(&str, String)]) -> io::Result<Checked> {
        self.run(device, variables)
    }

    fn check_two(
        &self,
        [first, second]: [&Path; 2],
        variables: &[(&str, String)],
    ) -> io::Result<Checked> {
        let second = quoted(&second.to_string_lossy());
        let command = self.command.replace(DEVICE2, &second);
        Check { command, ..self.clone() }.run(first, variables)
    }
}

/// How waiting for a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waited {
    /// With its end.
    Ended,
    /// It takes too long.
    TooLong,
    /// Everything is to end.
    Stopped,
}

impl Check {
    /// Runs the check on the state at `path`, with more variables in its environment. Whatever the
    /// command leaves running is killed.
    ///
    /// # Errors
    /// If the system has no process or file left.
    pub fn run(&self, path: &Path, variables: &[(&str, String)]) -> io::Result<Checked> {
        if self.stop.asked().is_some() {
            return Ok(Checked::stopped());
        }
        let output =
            File::from(rustix::fs::memfd_create("check", rustix::fs::MemfdFlags::CLOEXEC)?);
        let line = self.command.replace(DEVICE, &quoted(&path.to_string_lossy()));
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(line).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output.try_clone()?);
        // The descriptor is this process's, which outlives the command.
        let (acked, variables) = acknowledged(variables)?;
        let acked_path = format!("/proc/{}/fd/{}", std::process::id(), acked.as_raw_fd());
        command.envs(variables).env(ACKED_FILE, acked_path).process_group(0);
        let mut child = command.spawn()?;
        let group = Pid::from_child(&child);
        let waited = wait(&child, self.patience, Some(&self.stop))?;
        if waited == Waited::Stopped {
            // It may have something mounted.
            let _ = kill_process_group(group, Signal::TERM);
            wait(&child, GRACE, None)?;
        }
        // What it left behind would go on using the state. The process itself has not been waited
        // for, so the number of its group cannot have become another's.
        let _ = kill_process_group(group, Signal::KILL);
        let status = child.wait()?;
        let verdict = match waited {
            Waited::Ended => verdict(status),
            Waited::TooLong => Verdict::Hung,
            Waited::Stopped => Verdict::Stopped,
        };
        Ok(Checked { verdict, output: tail(output)? })
    }
}

/// Waits for the end of a process, but not for ever.
fn wait(child: &Child, patience: Duration, stop: Option<&Stop>) -> io::Result<Waited> {
    let handle = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let end = Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        // Where no stop can be requested, the process is looked at twice.
        let stop = stop.map_or(handle.as_fd(), Stop::fd);
        let mut fds = [PollFd::new(&handle, PollFlags::IN), PollFd::new(&stop, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => return Ok(Waited::TooLong),
            Ok(_) if fds[0].revents().is_empty() => return Ok(Waited::Stopped),
            Ok(_) => return Ok(Waited::Ended),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// What the end of the shell says of a state.
pub(crate) fn verdict(status: ExitStatus) -> Verdict {
    match (status.code(), status.signal()) {
        (Some(0), _) => Verdict::Good,
        (Some(126), _) => Verdict::Failed("exit code 126: it cannot be executed".to_owned()),
        (Some(127), _) => Verdict::Failed("exit code 127: it was not found".to_owned()),
        (Some(code), _) => match signal_of(code) {
            Some(signal) => Verdict::Failed(format!("exit code {code}: killed by signal {signal}")),
            None => Verdict::Bad(code),
        },
        (None, signal) => {
            let signal = signal.map_or_else(String::new, |signal| format!(" {signal}"));
            Verdict::Failed(format!("killed by signal{signal}"))
        }
    }
}

/// The signal of which a shell tells by an exit code: the death of its last command. A greater code
/// is none: 255 is the -1 of many languages.
pub(crate) fn signal_of(code: i32) -> Option<i32> {
    let signal = code - SHELL_SIGNAL;
    (1..=MOST_SIGNAL).contains(&signal).then_some(signal)
}

/// The end of what was printed.
pub(crate) fn tail(mut output: File) -> io::Result<String> {
    let length = output.seek(io::SeekFrom::End(0))?;
    output.seek(io::SeekFrom::Start(length.saturating_sub(MOST_OUTPUT)))?;
    let mut bytes = Vec::new();
    output.take(MOST_OUTPUT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A word that the shell takes as it is.
pub fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._+:=@%".contains(&byte);
    match !text.is_empty() && text.bytes().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str, patience: Duration) -> Check {
        let stop = Arc::new(Stop::new().expect("a descriptor"));
        Check { command: command.into(), patience, stop }
    }

    fn run(command: &str) -> Checked {
        let check = check(command, Duration::from_millis(400));
        check.run(Path::new("/a b/c'd"), &[("SEEKLESS_ACKED", "7".into())]).expect("runs")
    }

    #[test]
    fn only_what_a_shell_tells_of_signals_is_one() {
        for code in [1, 125, 128, 193, 254, 255] {
            assert_eq!(run(&format!("exit {code}")).verdict, Verdict::Bad(code));
        }
        for code in [126, 127, 129, 137, 192] {
            let verdict = run(&format!("exit {code}")).verdict;
            assert!(matches!(verdict, Verdict::Failed(_)), "{code}: {verdict:?}");
        }
    }

    #[test]
    fn a_check_that_is_to_end_may_clean_up_and_leaves_nothing_running() {
        let dir = tempfile::tempdir().expect("a directory");
        let shown = dir.path().display();
        let line = format!(
            "trap 'echo clean > {shown}/trap; exit' TERM; (trap '' TERM; sleep 60) & \
             echo $! > {shown}/pid; wait"
        );
        let check = check(&line, Duration::from_secs(60));
        let began = Instant::now();
        let checked = std::thread::scope(|scope| {
            let running = scope.spawn(|| check.run(Path::new("/"), &[]).expect("runs"));
            while !std::fs::read_to_string(dir.path().join("pid")).is_ok_and(|pid| pid.len() > 1) {
                std::thread::sleep(Duration::from_millis(5));
            }
            check.stop.ask(15);
            running.join().expect("no panic")
        });
        assert_eq!(checked.verdict, Verdict::Stopped);
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        assert_eq!(std::fs::read_to_string(dir.path().join("trap")).expect("a file"), "clean\n");
        let left = std::fs::read_to_string(dir.path().join("pid")).expect("a file");
        // Until its parent has waited for it, it is there but runs no more.
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", left.trim()));
        while state().is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(began.elapsed() < Duration::from_secs(30), "{:?}", state());
            std::thread::sleep(Duration::from_millis(5));
        }
        // Nothing new is begun.
        assert_eq!(check.run(Path::new("/"), &[]).expect("runs").verdict, Verdict::Stopped);
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
    fn words_survive_the_shell() {
        assert_eq!(quoted("a/b-c.tape"), "a/b-c.tape");
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn the_command_gets_its_path_and_variables_and_is_heard() {
        let checked = run("echo {device} $SEEKLESS_ACKED; echo bad >&2; exit 1");
        assert_eq!(checked.output, "/a b/c'd 7\nbad\n");
        let check = check("cat $SEEKLESS_ACKED_FILE", Duration::from_secs(60));
        let lines = "a\t1\nb\t1\na\t2\n";
        let checked = check.run(Path::new("/"), &[(ACKED_FILE, lines.to_owned())]).expect("runs");
        assert_eq!((checked.verdict, checked.output.as_str()), (Verdict::Good, lines));
        assert_eq!(check.run(Path::new("/"), &[]).expect("runs").output, "", "it is there");
    }
}
