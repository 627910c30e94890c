//! A pool of workers: checks of several threads at once, each in a worker of its own.
//!
//! A worker is started when a check first needs it, and again after it was killed. Between checks
//! each worker is in the pool, so there are never more than the pool was made for.

use super::mounts::Mounting;
use super::point::Point;
use super::process::{Asked, Isolation, Worker};
use super::protocol::{Answer, Job, Ran};
use super::worker::{ACKED_PATH, STATE};

use crate::replay::check::{
    ACKED_FILE, Checked, Checker, DEVICE, Verdict, acknowledged, quoted, tail, verdict,
};
use crate::replay::stop::Stop;
use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What stands for the mount point in a command.
pub const DIR: &str = "{dir}";
/// What stands for the mount point of the second disk.
pub const DIR2: &str = "{dir2}";
/// The exit code that a state gets which the kernel does not mount.
const NOT_MOUNTED: i32 = 1;

/// What checks are and where they run.
#[derive(Clone, Debug)]
pub struct SandboxOptions {
    /// The program to run as a worker, with the command `crash-worker`.
    pub program: PathBuf,
    /// The check: for the shell, with [`DIR`] and [`DEVICE`] in it.
    pub command: String,
    /// How states are mounted; `None` for checks that use the file itself.
    pub mount: Option<Mounting>,
    /// What each check has to itself.
    pub isolation: Isolation,
    /// Time limit of a check, with its mount and unmount.
    pub timeout: Duration,
    /// Once a stop is requested here, checks are ended and no others begun.
    pub stop: Arc<Stop>,
    /// A directory for the mount point `mnt` and the link `device`. Pools can share it.
    pub dir: PathBuf,
    /// The directory with the copies that [`Workers::check_copy`] names.
    pub copies: Option<PathBuf>,
}

/// The fingerprint of a tree, and what a check of it is told.
type Key = (String, Vec<String>);

/// Workers that check states.
#[derive(Debug)]
pub struct Workers {
    options: SandboxOptions,
    point: Point,
    line: String,
    /// Trees that the check accepts, with what it was told.
    good: Mutex<BTreeSet<Key>>,
    /// What checks share with the machine although they should not, and why.
    shared: Vec<String>,
    /// A place for each worker; empty until it is needed and after it was killed.
    idle: Mutex<Vec<Option<Worker>>>,
    returned: Condvar,
}

/// A place of the pool that one check has.
struct Taken<'w> {
    workers: &'w Workers,
    worker: Option<Worker>,
}

impl Workers {
    /// A pool of `count` workers; the first one is started, to see that it can be.
    ///
    /// # Errors
    /// If the directory cannot be used, or no worker can be started.
    pub fn new(options: SandboxOptions, count: usize) -> io::Result<Workers> {
        let point = Point::new(&options.dir)?;
        let line = options.command.replace(DEVICE, &quoted(&point.link().to_string_lossy()));
        let line = line.replace(DIR, &quoted(&point.path().to_string_lossy()));
        let line = line.replace(DIR2, &quoted(&point.second().to_string_lossy()));
        let first = start(&options)?;
        let shared = first.shared().to_vec();
        let mut idle: Vec<Option<Worker>> = std::iter::repeat_with(|| None).take(count).collect();
        idle.pop();
        idle.push(Some(first));
        let (idle, returned) = (Mutex::new(idle), Condvar::new());
        let good = Mutex::default();
        Ok(Workers { options, point, line, good, shared, idle, returned })
    }

    /// The mount point of states, the same in every worker.
    pub fn point(&self) -> &Path {
        self.point.path()
    }

    /// What ends checks.
    pub fn stop(&self) -> &Arc<Stop> {
        &self.options.stop
    }

    fn take(&self) -> Taken<'_> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(worker) = idle.pop() {
                return Taken { workers: self, worker };
            }
            idle = self.returned.wait(idle).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Checker for Workers {
    /// Runs the check on the state in the file `device`, with more variables in its environment.
    /// Waits for an idle worker. A state that the kernel does not mount is bad.
    ///
    /// # Errors
    /// If the file cannot be opened, or a worker cannot be started.
    fn check(&self, device: &Path, variables: &[(&str, String)]) -> io::Result<Checked> {
        let mut taken = self.take();
        if self.options.stop.asked().is_some() {
            return Ok(Checked::stopped());
        }
        self.run(&mut taken, vec![opened(device)?], variables)
    }

    fn check_two(&self, disks: [&Path; 2], variables: &[(&str, String)]) -> io::Result<Checked> {
        let mut taken = self.take();
        if self.options.stop.asked().is_some() {
            return Ok(Checked::stopped());
        }
        let disks: io::Result<Vec<File>> = disks.into_iter().map(opened).collect();
        self.run(&mut taken, disks?, variables)
    }

    fn shared(&self) -> &[String] {
        &self.shared
    }
}

fn start(options: &SandboxOptions) -> io::Result<Worker> {
    Worker::start(&options.program, options.isolation, options.copies.as_deref())
}

/// The file of a state, as its check may use it.
fn opened(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}

impl Workers {
    /// Runs the check on file systems that this process serves, given a mount of each that is in no
    /// tree of directories.
    ///
    /// # Errors
    /// If a worker cannot be started.
    pub fn check_mounts(
        &self,
        mounts: Vec<File>,
        variables: &[(&str, String)],
    ) -> io::Result<Checked> {
        let mut taken = self.take();
        if self.options.stop.asked().is_some() {
            return Ok(Checked::stopped());
        }
        self.run(&mut taken, mounts, variables)
    }

    /// Runs the check on a directory, one of the copies that the pool was made with.
    ///
    /// # Errors
    /// If a worker cannot be started.
    pub fn check_copy(&self, name: &Path, variables: &[(&str, String)]) -> io::Result<Checked> {
        let mut taken = self.take();
        if self.options.stop.asked().is_some() {
            return Ok(Checked::stopped());
        }
        // A job has a disk in front of what was acknowledged.
        let no_disk = vec![File::open("/dev/null")?];
        self.run_on(&mut taken, no_disk, Some(Mounting::bound(name)), variables)
    }

    /// Runs the check with a worker that was taken. Only the worker has the state from then on.
    fn run(
        &self,
        taken: &mut Taken<'_>,
        disks: Vec<File>,
        variables: &[(&str, String)],
    ) -> io::Result<Checked> {
        self.run_on(taken, disks, self.options.mount.clone(), variables)
    }

    fn run_on(
        &self,
        taken: &mut Taken<'_>,
        disks: Vec<File>,
        mount: Option<Mounting>,
        variables: &[(&str, String)],
    ) -> io::Result<Checked> {
        let output = File::from(memfd_create("check", MemfdFlags::CLOEXEC)?);
        let (acked, mut variables) = acknowledged(variables)?;
        variables.push((ACKED_FILE.to_owned(), ACKED_PATH.to_owned()));
        let job = Job {
            line: self.line.clone(),
            variables,
            mount: mount.clone().map(|how| (self.point.path().to_owned(), how)),
            second: mount
                .filter(|_| disks.len() > 1)
                .map(|how| (self.point.second().to_owned(), how)),
            watch: Vec::new(),
            tells_tree: self.sees_trees_only(),
            in_steps: false,
        };
        let told: Vec<String> = job
            .variables
            .iter()
            .filter(|(name, _)| name != STATE)
            .map(|one| one.1.clone())
            .collect();
        let worker = match taken.worker.take() {
            Some(worker) => worker,
            None => start(&self.options)?,
        };
        let (first, second) = (disks.first(), disks.get(1));
        let fds = [Some(&output), first, Some(&acked), second];
        let fds: Vec<_> = fds.into_iter().flatten().map(File::as_fd).collect();
        let is_told = worker.tell(&job, &fds)?;
        // A mount that this process still has could not be unmounted.
        drop(disks);
        let (timeout, stop) = (self.options.timeout, &*self.options.stop);
        let mut asked = match is_told {
            true => worker.answer(timeout, Some(stop))?,
            false => Asked::Died,
        };
        let mut key = None;
        if let Asked::Answered(Answer::Tree(tree)) = asked {
            key = tree.map(|tree| (tree, told));
            let is_known = key.as_ref().is_some_and(|key| self.good().contains(key));
            asked = worker.go_on(is_known, timeout, stop)?;
        }
        if let Asked::Answered(answer) = &asked
            && !matches!(answer, Answer::Ran(Ran { clean: false, .. }))
        {
            taken.worker = Some(worker);
        } else {
            // Before the verdict is known, nothing uses the state.
            drop(worker);
        }
        let checked = checked(asked, output)?;
        if let Some(key) = key.filter(|_| checked.verdict == Verdict::Good) {
            self.good().insert(key);
        }
        Ok(checked)
    }

    /// Whether the check looks at files, not at the device, of a file system of the kernel. The
    /// others are known by their trees before they get here, or have none.
    fn sees_trees_only(&self) -> bool {
        let is_of_kernel = self.options.mount.as_ref().is_some_and(|how| !how.is_attached());
        is_of_kernel && !self.options.command.contains(DEVICE)
    }

    fn good(&self) -> MutexGuard<'_, BTreeSet<Key>> {
        self.good.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut idle = self.workers.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(self.worker.take());
        self.workers.returned.notify_one();
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // Before the mount point goes.
        self.idle.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn checked(asked: Asked, output: File) -> io::Result<Checked> {
    let verdict = match asked {
        Asked::Answered(Answer::Ran(ran)) => verdict(ExitStatus::from_raw(ran.status)),
        Asked::Answered(Answer::NotMounted(errno)) => return Ok(not_mounted(errno)),
        Asked::Answered(Answer::Failed(why)) => Verdict::Failed(why),
        Asked::Answered(Answer::Ready { .. } | Answer::Mounted | Answer::Tree(_)) => {
            Verdict::Failed("the worker began anew".to_owned())
        }
        Asked::Died => Verdict::Failed("its worker was killed; is memory short?".to_owned()),
        Asked::TooLong => Verdict::Hung,
        Asked::Stopped => Verdict::Stopped,
    };
    Ok(Checked { verdict, output: tail(output)? })
}

/// The recovery of the file system failed, so the state is bad, unless the machine is to blame.
fn not_mounted(errno: i32) -> Checked {
    let output = format!("mount: {}\n", io::Error::from_raw_os_error(errno));
    let machine = [
        libc::EPERM,
        libc::EACCES,
        libc::ENODEV,
        libc::ENOMEM,
        libc::EMFILE,
        libc::ENFILE,
        libc::ENOENT,
        libc::ENOTDIR,
        libc::ENOTBLK,
        libc::ENXIO,
        libc::EBUSY,
        libc::EEXIST,
        libc::EINTR,
    ];
    let verdict = match machine.contains(&errno) {
        true => Verdict::Failed(output.trim_end().to_owned()),
        false => Verdict::Bad(NOT_MOUNTED),
    };
    Checked { verdict, output }
}
