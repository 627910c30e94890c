//! A shell that runs the commands of a page one after the other.
//!
//! Commands go to the shell through its standard input, each ended by a zero byte; what they print
//! comes back through one pipe, in order. Behind the output of each command the shell prints a
//! record: the exit status and how many jobs run in the background. Such jobs print into the same
//! pipe, so their output may follow the record.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// The loop that the shell runs. `(exit N)` gives each command the `$?` of the one before.
const LOOP: &str = r#"
__status=0
while IFS= read -r -d '' __command; do
    (exit "$__status")
    eval "$__command" </dev/null
    __status=$?
    printf '\036%d %d\036' "$__status" "$(jobs -rp | wc -l)"
done
"#;

/// Frames the record behind the output of a command.
const MARK: u8 = 0o36;

/// The directories of the system's programs, administrators' included.
const SYSTEM: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// A shell, its directory, and what it has printed that no command has taken.
#[derive(Debug)]
pub struct Session {
    shell: Child,
    commands: ChildStdin,
    printed: Receiver<Vec<u8>>,
    pending: Vec<u8>,
    dir: tempfile::TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub struct Ran {
    pub output: String,
    pub status: i32,
}

impl Session {
    /// Starts a shell in a new temporary directory, with `recordings` linked to the recordings of
    /// drives where there are some.
    ///
    /// # Errors
    /// If the directory cannot be made or bash not be started.
    pub fn start() -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("seekless-page-").tempdir()?;
        if let Some(recordings) = crate::needs::recordings() {
            std::os::unix::fs::symlink(recordings, dir.path().join("recordings"))?;
        }
        let (mut reader, writer) = io::pipe()?;
        let mut shell = Command::new("bash")
            .args(["--noprofile", "--norc", "-c", LOOP])
            .current_dir(dir.path())
            .env("PATH", search_path())
            .env("LC_ALL", "C")
            .env("TERM", "dumb")
            .stdin(Stdio::piped())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            // Jobs that a page leaves behind are ended with the group.
            .process_group(0)
            .spawn()?;
        let commands = shell.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let (sender, printed) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Ok(Self { shell, commands, printed, pending: Vec::new(), dir })
    }

    /// Runs a command. While jobs run in the background and `complete` does not hold for what was
    /// printed, more of it is awaited for as long as `settle`.
    ///
    /// # Errors
    /// If the shell ends or the command takes longer than `patience`; with what it has printed.
    pub fn run(
        &mut self,
        command: &str,
        patience: Duration,
        settle: Duration,
        complete: impl Fn(&str) -> bool,
    ) -> Result<Ran, String> {
        let sent = self.commands.write_all(command.as_bytes());
        sent.and_then(|()| self.commands.write_all(&[0])).map_err(|error| error.to_string())?;
        let deadline = Instant::now() + patience;
        let (status, jobs) = loop {
            if let Some(record) = take_record(&mut self.pending) {
                break record;
            }
            if !self.more(deadline) {
                let text = String::from_utf8_lossy(&self.pending).into_owned();
                return Err(format!("it does not end; so far it printed:\n{text}"));
            }
        };
        let settled = Instant::now() + settle;
        while jobs > 0 && !complete(&String::from_utf8_lossy(&self.pending)) {
            if !self.more(settled) {
                break;
            }
        }
        let output = String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned();
        Ok(Ran { output, status })
    }

    /// Waits for output until `deadline`; false if none came.
    fn more(&mut self, deadline: Instant) -> bool {
        match self.printed.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(bytes) => {
                self.pending.extend(bytes);
                true
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => false,
        }
    }
}

impl Drop for Session {
    /// Undoes what a page that failed has left: its mounts, then its jobs.
    fn drop(&mut self) {
        for mount in mounts_below(self.dir.path()) {
            let _ = Command::new("umount").arg("--lazy").arg(mount).stderr(Stdio::null()).status();
        }
        if let Some(group) =
            i32::try_from(self.shell.id()).ok().and_then(rustix::process::Pid::from_raw)
        {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.shell.wait();
    }
}

/// What is mounted below a directory, the last mount first.
fn mounts_below(dir: &Path) -> Vec<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
    let mut below: Vec<PathBuf> = places.filter(|place| place.starts_with(dir)).collect();
    below.reverse();
    below
}

/// Takes the record of a command, exit status and number of jobs, out of what was printed.
fn take_record(printed: &mut Vec<u8>) -> Option<(i32, usize)> {
    let begin = printed.iter().position(|&byte| byte == MARK)?;
    let end = begin + 1 + printed[begin + 1..].iter().position(|&byte| byte == MARK)?;
    let record = String::from_utf8_lossy(&printed[begin + 1..end]).into_owned();
    printed.drain(begin..=end);
    let (status, jobs) = record.split_once(' ')?;
    Some((status.parse().ok()?, jobs.trim().parse().ok()?))
}

/// The program under test, the project's examples, then the system.
fn search_path() -> OsString {
    let program = Path::new(env!("CARGO_BIN_EXE_seekless"));
    let built = program.parent().unwrap_or(Path::new("."));
    let first = [built.to_owned(), built.join("examples")];
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let dirs = first.into_iter().chain(SYSTEM.iter().map(PathBuf::from));
    let dirs = dirs.chain(std::env::split_paths(&inherited));
    std::env::join_paths(dirs).unwrap_or(inherited)
}

/// True if the search path has a program of this name.
pub fn installed(program: &str) -> bool {
    std::env::split_paths(&search_path()).any(|dir| dir.join(program).is_file())
}
