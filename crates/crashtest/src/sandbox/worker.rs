//! The worker: process 1 of its namespaces, which does one job after the other.
//!
//! A job is: attach a loop device, mount, run the command, kill and reap all that it left,
//! unmount, answer. The worker compares its mounts with those it began with, and looks for what the
//! command left in the namespaces. If there is anything, the worker says so and ends, and its
//! parent starts another.

use super::LoopDevice;
use super::apart::Apart;
use super::mounts::{Mounted, Mounting};
use super::process::{APART, COPIES, PARENT, SOCKET};
use super::protocol::{Answer, Go, Job, Ran, receive, send};
use super::tree::fingerprint;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The descriptor at which a worker has the file of the state. Commands reach it by
/// [`DEVICE_PATH`].
const DEVICE: RawFd = 100;
/// The file of the state, for all processes in the namespace of a worker.
pub const DEVICE_PATH: &str = "/proc/1/fd/100";
/// The descriptor at which a worker has what was acknowledged.
const ACKED: RawFd = 101;
/// What was acknowledged, for all processes in the namespace of a worker.
pub const ACKED_PATH: &str = "/proc/1/fd/101";
/// The variable that has the name of the state.
pub const STATE: &str = "SEEKLESS_STATE";
/// How often orphans that ended are reaped while a command runs.
const REAP: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Where a disk of a job is mounted and how, and its file.
type DiskOfJob<'j> = (&'j Option<(PathBuf, Mounting)>, Option<&'j File>);

/// What a worker is between its jobs.
struct Worker {
    socket: OwnedFd,
    /// A handle of the parent.
    parent: OwnedFd,
    /// `/proc/self/mountinfo` as it is between jobs.
    mounts: String,
    /// The mount points that are covered.
    covered: Vec<PathBuf>,
    /// The directory with copies of trees, by a path that no later mount covers.
    copies: Option<OwnedFd>,
    /// What it has to itself besides processes and mounts, if that was asked for.
    apart: Option<Apart>,
}

/// Does jobs until the parent closes the socket, and ends the process.
pub fn run() -> ! {
    let code = match begin() {
        Ok(mut worker) => match worker.serve() {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("crash-worker: {error}");
                1
            }
        },
        Err(error) => {
            eprintln!("crash-worker: {error}");
            2
        }
    };
    std::process::exit(code)
}

/// Takes the socket over and makes `/proc` show this namespace only.
fn begin() -> io::Result<Worker> {
    // SAFETY: this only looks at whether there are descriptors.
    let is_given = |fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0;
    if ![SOCKET, PARENT].into_iter().all(is_given) || std::process::id() != 1 {
        let text = "this command is a part of crash-test; run `seekless crash-test`";
        return Err(io::Error::other(text));
    }
    // SAFETY: the parent has put them there for this process, which has no other owner of them.
    let [socket, parent] = [SOCKET, PARENT].map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::fcntl_setfd(&parent, rustix::io::FdFlags::CLOEXEC)?;
    let hidden = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let ready = super::make_private()
        .and_then(|()| Ok(rustix::mount::mount("proc", "/proc", "proc", hidden, None)?));
    if let Err(error) = ready {
        let text = format!("no /proc of its own: {error}; run the container with --privileged");
        send(socket.as_fd(), &Answer::Failed(text), &[])?;
        return Err(error);
    }
    number_apart();
    let arguments = || std::env::args_os().skip(3);
    let copies = arguments().skip_while(|one| one != COPIES).nth(1).map(|path| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty())
    });
    let copies = copies.transpose()?;
    let apart = arguments().any(|one| one == APART).then(Apart::enter);
    let shared = apart.as_ref().map(|apart| apart.shared.clone()).unwrap_or_default();
    send(socket.as_fd(), &Answer::Ready { shared }, &[])?;
    Ok(Worker { socket, parent, mounts: mounts()?, covered: Vec::new(), copies, apart })
}

/// Begins the process numbers of this namespace elsewhere than those of other workers. Else checks
/// at the same time would have equal numbers, and those that make `/tmp/name.$$` would share it.
fn number_apart() {
    const SYSTEM: u32 = 300;
    let read = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u32>().ok();
    let Some(wanted) = std::env::args().nth(2).and_then(|text| text.parse::<u32>().ok()) else {
        return;
    };
    let most = read("/proc/sys/kernel/pid_max").unwrap_or(32_768).max(2 * SYSTEM);
    let last = SYSTEM + wanted % (most - SYSTEM);
    // A container may keep this file from being written; then the numbers begin at 1.
    let _ = std::fs::write("/proc/sys/kernel/ns_last_pid", last.to_string());
}

impl Worker {
    fn serve(&mut self) -> io::Result<()> {
        while let Some((job, fds)) = receive::<Job>(self.socket.as_fd())? {
            let answer = self.job(&job, fds).unwrap_or_else(|e| Answer::Failed(e.to_string()));
            send(self.socket.as_fd(), &answer, &[])?;
            if matches!(answer, Answer::Ran(Ran { clean: false, .. })) && !job.in_steps {
                break;
            }
        }
        Ok(())
    }

    fn job(&mut self, job: &Job, fds: Vec<OwnedFd>) -> io::Result<Answer> {
        let mut fds = fds.into_iter();
        let output = fds.next().ok_or_else(|| io::Error::other("a job without output"))?;
        // Commands find the state at a descriptor whose number never changes.
        let device = fds.next().map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, DEVICE));
        let mut device = device.transpose()?.map(File::from);
        let acked = fds.next().map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, ACKED));
        // Open until the job is done.
        let _acked = acked.transpose()?;
        // A job that is not told what was acknowledged has the second disk in its place.
        let second = fds.next().map(File::from);
        let disks = [(&job.mount, device.as_ref()), (&job.second, second.as_ref())];
        let mounted = match self.mount_all(disks)? {
            Ok(mounted) => mounted,
            Err(errno) => return Ok(Answer::NotMounted(errno)),
        };
        // A mount that is open could not be unmounted.
        device.take_if(|_| job.mount.as_ref().is_some_and(|(_, how)| how.is_attached()));
        drop(second);
        let watched: Vec<u64> = job.watch.iter().map(|place| device_number(place)).collect();
        if job.in_steps {
            send(self.socket.as_fd(), &Answer::Mounted, &[])?;
            if receive::<Go>(self.socket.as_fd())?.is_none() {
                self.outlive_parent();
            }
        }
        let mut is_known = false;
        if job.tells_tree {
            let trees = mounted.iter().map(|mounted| fingerprint(mounted.point()));
            let trees: Option<Vec<u128>> = trees.collect();
            let tree = trees
                .filter(|trees| !trees.is_empty())
                .map(|trees| trees.iter().map(|tree| format!("{tree:032x}")).collect::<String>());
            send(self.socket.as_fd(), &Answer::Tree(tree), &[])?;
            let Some((go, _)) = receive::<Go>(self.socket.as_fd())? else { self.outlive_parent() };
            is_known = go.is_known;
        }
        if let Some(apart) = &mut self.apart {
            let state = job.variables.iter().find(|(name, _)| name == STATE);
            apart.boot(state.map_or("", |(_, state)| state))?;
        }
        let status = if is_known { 0 } else { self.run(job, output)? };
        let left = end_others()?;
        job.watch.iter().try_for_each(|place| write_back(place))?;
        let unmounted =
            job.watch.iter().zip(&watched).any(|(place, before)| device_number(place) != *before);
        if job.in_steps {
            // It is unmounted when this process ends, after the parent has looked at it.
            std::mem::forget(mounted);
            return Ok(Answer::Ran(Ran { status, left, clean: false, unmounted }));
        }
        // Both are unmounted, whatever becomes of the first.
        let unmounts: Vec<bool> =
            mounted.into_iter().map(|mounted| mounted.unmount().is_ok()).collect();
        let clean = unmounts.into_iter().all(|is_done| is_done)
            && mounts().is_ok_and(|mounts| mounts == self.mounts)
            && self.apart.as_ref().is_none_or(Apart::is_untouched);
        Ok(Answer::Ran(Ran { status, left, clean, unmounted }))
    }

    /// Mounts the disks of a job. The inner error is what the kernel says of a file system.
    fn mount_all(&mut self, disks: [DiskOfJob<'_>; 2]) -> io::Result<Result<Vec<Mounted>, i32>> {
        let points = disks.iter().filter_map(|(mount, _)| mount.as_ref()).map(|one| &one.0);
        for point in points.cloned().collect::<Vec<_>>() {
            if !self.covered.contains(&point) {
                cover(&point)?;
                self.covered.push(point);
                self.mounts = mounts()?;
            }
        }
        let mut mounted = Vec::new();
        for (mount, file) in disks {
            let Some((point, how)) = mount else { continue };
            let file = file.ok_or_else(|| io::Error::other("a mount without a file"))?;
            match self.mount(file, point, how)? {
                Ok(one) => mounted.push(one),
                Err(errno) => return Ok(Err(errno)),
            }
        }
        Ok(Ok(mounted))
    }

    fn mount(&self, file: &File, point: &Path, how: &Mounting) -> io::Result<Result<Mounted, i32>> {
        if how.is_bound() {
            let copies = self.copies.as_ref();
            let copies = copies.ok_or_else(|| io::Error::other("a worker without copies"))?;
            let copy = format!("/proc/self/fd/{}/{}", copies.as_raw_fd(), how.options);
            return Mounted::bind(Path::new(&copy), point).map(Ok);
        }
        if how.is_attached() {
            return Mounted::attach(file, point).map(Ok);
        }
        let device = LoopDevice::attach(file, false)?;
        match Mounted::device(device.path(), point, how) {
            Ok(mounted) => Ok(Ok(mounted)),
            Err(error) => error.raw_os_error().map(Err).ok_or(error),
        }
    }

    /// Runs the command of a job to its end. If the parent goes away meanwhile, so does this
    /// process, with all others here.
    fn run(&self, job: &Job, output: OwnedFd) -> io::Result<i32> {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(&job.line).stdin(Stdio::null()).process_group(0);
        command.stdout(output.try_clone()?).stderr(output);
        command.envs(job.variables.iter().map(|(name, value)| (name, value)));
        if job.mount.as_ref().is_some_and(|(_, how)| how.is_bound()) {
            // SAFETY: system calls only between the fork and the new program.
            unsafe { command.pre_exec(super::no_syncs::install) };
        }
        if !rustix::process::geteuid().is_root() {
            // SAFETY: one system call between the fork and the new program.
            unsafe { command.pre_exec(super::rootless::give_up) };
        }
        let child = Pid::from_child(&command.spawn()?);
        drop(command);
        let handle = pidfd_open(child, PidfdFlags::empty())?;
        loop {
            let socket: BorrowedFd<'_> = self.socket.as_fd();
            let mut fds =
                [PollFd::new(&handle, PollFlags::IN), PollFd::new(&socket, PollFlags::IN)];
            match poll(&mut fds, Some(&REAP)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if !fds[1].revents().is_empty() {
                self.outlive_parent();
            }
            while let Some((process, status)) = wait(WaitOptions::NOHANG)? {
                if process == child {
                    return Ok(status);
                }
            }
        }
    }
}

impl Worker {
    /// Ends this process after its parent, which has closed the socket, so was killed or is about
    /// to end. The parent may be the server of the disk of this job. If it were the last user of
    /// the disk, the kernel would write back through the server as the server ends, for ever.
    fn outlive_parent(&self) -> ! {
        let mut ended = [PollFd::new(&self.parent, PollFlags::IN)];
        while matches!(poll(&mut ended, None), Err(Errno::INTR)) {}
        std::process::exit(1)
    }
}

/// Reaps a child: its number and how it ended. `None` if none has ended, or there is none.
fn wait(how: WaitOptions) -> io::Result<Option<(Pid, i32)>> {
    loop {
        match rustix::process::wait(how) {
            Ok(Some((process, status))) => return Ok(Some((process, status.as_raw()))),
            Ok(None) | Err(Errno::CHILD) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Kills and reaps every other process of the namespace; counts those that would have gone on.
fn end_others() -> io::Result<u32> {
    let mut left = 0;
    loop {
        // SAFETY: process 1 of a namespace reaches by this all others of the namespace, and none
        // elsewhere.
        unsafe { libc::kill(-1, libc::SIGKILL) };
        match wait(WaitOptions::empty())? {
            Some((_, status)) => {
                left += u32::from(libc::WTERMSIG(status) == Signal::KILL.as_raw());
            }
            // Orphans have this process as their parent: without a child it is alone.
            None => return Ok(left),
        }
    }
}

/// Mounts an empty read-only directory at the mount point. A command that unmounts the state then
/// writes nothing to the directory of the machine below.
fn cover(point: &Path) -> io::Result<()> {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    Ok(rustix::mount::mount("none", point, "tmpfs", flags, None)?)
}

fn mounts() -> io::Result<String> {
    std::fs::read_to_string("/proc/self/mountinfo")
}

/// Writes back what the machine has in memory of a disk: a mounted directory or a block device. If
/// the parent serves the disk and is killed meanwhile, this process waits, and the parent ends.
fn write_back(place: &Path) -> io::Result<()> {
    let file = File::open(place)?;
    let done = match file.metadata()?.is_dir() {
        true => rustix::fs::syncfs(&file),
        false => rustix::fs::fsync(&file),
    };
    match done {
        // A full disk: the command was told, or did not ask.
        Ok(()) | Err(Errno::NOSPC) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// The device that holds a directory; 0 if it cannot be told, as of a broken file system.
fn device_number(path: &Path) -> u64 {
    let open = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let metadata = open.map_err(io::Error::from).and_then(|fd| File::from(fd).metadata());
    metadata.map_or(0, |metadata| metadata.dev())
}
