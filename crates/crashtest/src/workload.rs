//! Running `--setup` and `--run`: a command in a PID namespace of its own, so that processes that
//! it leaves behind are found, counted and killed.
//!
//! The command has a mount namespace of its own, and a recorded disk is mounted in it alone: the
//! process that serves a disk must not wait for it, or it could not be killed. A command that
//! unmounts the disk does so in its namespace only; [`Ran::unmounted`] tells, for what it wrote
//! after that went elsewhere.

pub mod record;

use crate::file_system::FileSystem;
use crate::own;
use crate::replay::check::{DEVICE, quoted, signal_of};
use crate::replay::stop::Stop;
use crate::sandbox::pool::{DIR, DIR2};
use crate::sandbox::process::{Asked, Isolation, Worker};
use crate::sandbox::protocol::{self, Answer, Job};
use crate::sandbox::{LoopDevice, Mounted, Mounting, UnmountError};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// The program that runs as a worker: the one that runs now, even if its file was replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// Signals by which a program dies of its own fault.
const FAULTS: [i32; 7] = [
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGSYS,
];
/// Bytes and lines of the log that are returned.
const MOST_BYTES: u64 = 16 << 10;
const LAST_LINES: usize = 20;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With an exit code.
    Exit(i32),
    /// By a signal.
    Signal(i32),
    /// It took longer than allowed and was killed.
    TimedOut,
    /// It was killed because everything is to end.
    Stopped,
    /// Process 1 of its namespace was killed, mostly for lack of memory.
    Killed,
}

/// What running a command came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// How it ended.
    pub end: End,
    /// Processes that it left behind, which were killed. Not counted unless it ended by itself.
    pub left: u32,
    /// It unmounted the disk, so that what it wrote later is not on it.
    pub unmounted: bool,
    /// The last lines of its output.
    pub tail: String,
}

impl Ran {
    /// Whether it ended with exit code 0 and left the disk mounted.
    pub fn is_good(&self) -> bool {
        self.end == End::Exit(0) && !self.unmounted
    }

    /// The fault that ended it or its last command, such as SIGSEGV: a shell tells of that by an
    /// exit code above 128. What it did before that is as good as any. Signals that come from
    /// outside, such as SIGKILL, are none.
    pub fn died_of(&self) -> Option<i32> {
        let signal = match self.end {
            _ if self.unmounted => None,
            End::Signal(signal) => Some(signal),
            End::Exit(code) => signal_of(code),
            End::TimedOut | End::Stopped | End::Killed => None,
        };
        signal.filter(|signal| FAULTS.contains(signal))
    }

    /// The last line of its output, for messages.
    fn last_line(&self) -> &str {
        self.tail.lines().next_back().unwrap_or("it printed nothing")
    }

    fn killed(end: End, tail: String) -> Ran {
        Ran { end, left: 0, unmounted: false, tail }
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end {
            End::Exit(code) => match signal_of(code) {
                Some(signal) => {
                    write!(f, "exit code {code}: killed by {}", signal_name(signal))
                }
                None => write!(f, "exit code {code}"),
            },
            End::Signal(signal) => write!(f, "killed by {}", signal_name(signal)),
            End::TimedOut => write!(f, "it took longer than allowed"),
            End::Stopped => write!(f, "it was stopped"),
            End::Killed => write!(f, "its namespace was killed; is memory short?"),
        }?;
        match self.left {
            0 => {}
            1 => write!(f, ", left 1 process")?,
            left => write!(f, ", left {left} processes")?,
        }
        if self.unmounted {
            write!(f, ", unmounted the disk")?;
        }
        Ok(())
    }
}

/// A signal in words, such as `signal 11 (SIGSEGV)`.
pub fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXFSZ => "SIGXFSZ",
        _ => return format!("signal {signal}"),
    };
    format!("signal {signal} ({name})")
}

/// Why a disk is not set up.
#[derive(Debug, thiserror::Error)]
pub enum SetUpError {
    /// The image cannot be opened or mounted, or no process started.
    #[error("{what}: {error}; see that the image is whole and this process is root")]
    System {
        /// What was tried.
        what: String,
        /// Why it failed.
        error: io::Error,
    },
    /// The command failed.
    #[error("--setup failed ({0}): {last}; run it by hand, or read its log", last = .0.last_line())]
    Command(Ran),
    /// The file system stays in use or is gone.
    #[error(transparent)]
    Unmount(#[from] UnmountError),
}

/// Runs a command and waits for its end. `{dir}` and `{device}` in it stand for `place`: the
/// mount point, or the block device of a raw disk. Its output is appended to the file `log`.
///
/// # Errors
/// If the log cannot be written, or no process started.
pub fn run_command(
    command: &str,
    place: &Path,
    variables: &[(&str, String)],
    timeout: Duration,
    stop: &Stop,
    log: &Path,
) -> io::Result<Ran> {
    let running = Running { command, place, second: None, variables, timeout, stop, log };
    running.run(Vec::new(), &mut || Ok(()), &mut || ())
}

/// A command that is to run.
#[derive(Clone, Copy)]
pub(crate) struct Running<'a> {
    pub(crate) command: &'a str,
    pub(crate) place: &'a Path,
    /// The mount point of the second disk.
    pub(crate) second: Option<&'a Path>,
    pub(crate) variables: &'a [(&'a str, String)],
    pub(crate) timeout: Duration,
    pub(crate) stop: &'a Stop,
    pub(crate) log: &'a Path,
}

/// What a worker mounts for a command.
#[derive(Debug)]
pub(crate) struct Disk {
    /// The disk, or a mount that is in no tree of directories.
    pub(crate) file: File,
    /// How it is mounted.
    pub(crate) mounting: Mounting,
}

impl Running<'_> {
    /// Runs it. With disks, the worker mounts the first one at `place` and the other one at
    /// `second`, and the mounts end with the worker.
    /// `begin` is called between the mount and the command, `written` when all that the command
    /// wrote is on the disk.
    pub(crate) fn run(
        self,
        disks: Vec<Disk>,
        begin: &mut dyn FnMut() -> io::Result<()>,
        written: &mut dyn FnMut(),
    ) -> io::Result<Ran> {
        let Running { place, timeout, stop, .. } = self;
        let mut output = File::options().create(true).append(true).read(true).open(self.log)?;
        let from = output.metadata()?.len();
        if stop.asked().is_some() {
            return Ok(Ran::killed(End::Stopped, String::new()));
        }
        let worker = Worker::start(Path::new(OWN_PROGRAM), Isolation::Processes, None)?;
        // The worker has a raw disk open as well. Its last user writes the page cache back, which
        // must not be this process when it is killed: it may be the one that serves the disk.
        let raw = (disks.is_empty() && !place.is_dir()).then(|| File::open(place)).transpose()?;
        // A job has what was acknowledged in front of a second disk. This one is told nothing.
        let told_nothing = File::open("/dev/null")?;
        let first = disks.first().map(|disk| &disk.file).or(raw.as_ref());
        let second = disks.get(1).map(|disk| &disk.file);
        let files = [Some(&output), first, second.map(|_| &told_nothing), second];
        let fds: Vec<BorrowedFd<'_>> = files.into_iter().flatten().map(File::as_fd).collect();
        let job = self.job(&disks);
        let mut asked = worker.ask(&job, &fds, timeout, stop)?;
        // The command may unmount them.
        drop((raw, disks));
        if matches!(asked, Asked::Answered(Answer::Mounted)) {
            begin()?;
            asked = worker.go_on(false, timeout, stop)?;
        }
        written();
        // The namespace goes, and with it its mounts.
        drop(worker);
        ran(asked, last_lines(&mut output, from)?)
    }

    fn job(&self, disks: &[Disk]) -> Job {
        let word = |path: &Path| quoted(&path.to_string_lossy());
        let place = word(self.place);
        let line = self.command.replace(DIR, &place).replace(DEVICE, &place);
        let line = match self.second {
            Some(second) => line.replace(DIR2, &word(second)),
            None => line,
        };
        let mut mountings = disks.iter().map(|disk| disk.mounting.clone());
        let variables = self.variables.iter().map(|(name, v)| ((*name).to_owned(), v.clone()));
        Job {
            line,
            variables: variables.collect(),
            tells_tree: false,
            in_steps: !disks.is_empty(),
            mount: mountings.next().map(|how| (self.place.to_owned(), how)),
            second: self.second.zip(mountings.next()).map(|(at, how)| (at.to_owned(), how)),
            watch: [Some(self.place), self.second]
                .into_iter()
                .flatten()
                .map(Path::to_owned)
                .collect(),
        }
    }
}

fn ran(asked: Asked, tail: String) -> io::Result<Ran> {
    let end = match asked {
        Asked::Answered(Answer::Ran(ran)) => return Ok(ended(ran, tail)),
        Asked::TooLong => End::TimedOut,
        Asked::Stopped => End::Stopped,
        Asked::Died => End::Killed,
        Asked::Answered(Answer::Failed(why)) => return Err(io::Error::other(why)),
        Asked::Answered(Answer::NotMounted(errno)) => {
            return Err(io::Error::from_raw_os_error(errno));
        }
        Asked::Answered(Answer::Ready { .. } | Answer::Mounted | Answer::Tree(_)) => {
            return Err(io::Error::other("an answer that does not fit the job"));
        }
    };
    Ok(Ran::killed(end, tail))
}

fn ended(ran: protocol::Ran, tail: String) -> Ran {
    let status = ExitStatus::from_raw(ran.status);
    let end = match (status.code(), status.signal()) {
        (Some(code), _) => End::Exit(code),
        (None, Some(signal)) => End::Signal(signal),
        (None, None) => End::Killed,
    };
    Ran { end, left: ran.left, unmounted: ran.unmounted, tail }
}

/// The end of what was written behind `from`, in whole lines where possible.
pub(crate) fn last_lines(log: &mut File, from: u64) -> io::Result<String> {
    let length = log.metadata()?.len();
    log.seek(io::SeekFrom::Start(from.max(length.saturating_sub(MOST_BYTES))))?;
    let mut bytes = Vec::new();
    log.take(MOST_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(LAST_LINES)..].join("\n"))
}

/// What [`set_up`] needs to know.
#[derive(Clone, Copy, Debug)]
pub struct SetUp<'a> {
    /// The file system of the image, made before.
    pub fs: FileSystem,
    /// The image: a file of the size of the disk.
    pub image: &'a Path,
    /// The image of a second disk with the same file system.
    pub second: Option<&'a Path>,
    /// A directory; the disk is mounted at `mnt` in it, a second one at `mnt2`.
    pub dir: &'a Path,
    /// More options of the mount.
    pub mount_options: &'a str,
    /// The command; empty for none.
    pub command: &'a str,
    /// More variables of its environment.
    pub variables: &'a [(&'a str, String)],
    /// Time limit of the command.
    pub timeout: Duration,
    /// Ends the command.
    pub stop: &'a Stop,
    /// Where its output goes.
    pub log: &'a Path,
}

/// Mounts the image, runs the command, syncs and unmounts. No mount and no loop device is left.
/// The command is not run when it is empty.
///
/// # Errors
/// If the command fails, or unmounts the disk, or what it left keeps it busy.
pub fn set_up(how: SetUp<'_>) -> Result<Option<Ran>, SetUpError> {
    if how.command.trim().is_empty() {
        return Ok(None);
    }
    if let Some(policy) = how.fs.policy() {
        return own::run::set_up(how, policy);
    }
    let told = |what: &Path| {
        let what = what.display().to_string();
        move |error| SetUpError::System { what, error }
    };
    let open = |path: &Path| File::options().read(true).write(true).open(path).map_err(told(path));
    let (image, second) = (open(how.image)?, how.second.map(open).transpose()?);
    let run = |place: &Path, second: Option<&Path>| {
        let SetUp { command, variables, timeout, stop, log, .. } = how;
        let running = Running { command, place, second, variables, timeout, stop, log };
        let ran = running.run(Vec::new(), &mut || Ok(()), &mut || ());
        ran.map_err(told(Path::new("--setup")))
    };
    let ran = match how.fs.for_workload().map(|one| one.with_options(how.mount_options)) {
        Some(mounting) => {
            let point = mount_point(how.dir).map_err(told(how.dir))?;
            let mounted = Mounted::file(&image, &point, &mounting).map_err(told(how.image))?;
            let point2 = second_mount_point(how.dir).map_err(told(how.dir))?;
            let mounted2 = second.as_ref().map(|file| Mounted::file(file, &point2, &mounting));
            let mounted2 = mounted2.transpose().map_err(told(how.image))?;
            let ran = run(&point, mounted2.as_ref().map(|_| &*point2))?;
            mounted2.map_or(Ok(()), Mounted::unmount)?;
            mounted.unmount()?;
            ran
        }
        None => {
            let device = LoopDevice::attach(&image, false).map_err(told(how.image))?;
            let ran = run(device.path(), None)?;
            device.file().sync_all().map_err(told(device.path()))?;
            ran
        }
    };
    for file in [Some(&image), second.as_ref()].into_iter().flatten() {
        file.sync_all().map_err(told(how.image))?;
    }
    if ran.is_good() { Ok(Some(ran)) } else { Err(SetUpError::Command(ran)) }
}

/// The directory `mnt` under `dir`, as an absolute path.
///
/// # Errors
/// If it is not there and cannot be made.
pub fn mount_point(dir: &Path) -> io::Result<PathBuf> {
    made(dir, "mnt")
}

/// The directory `mnt2` under `dir`, for a second disk.
///
/// # Errors
/// As for [`mount_point`].
pub fn second_mount_point(dir: &Path) -> io::Result<PathBuf> {
    made(dir, "mnt2")
}

fn made(dir: &Path, name: &str) -> io::Result<PathBuf> {
    let point = std::path::absolute(dir)?.join(name);
    match std::fs::create_dir(&point) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(point),
    }
}
