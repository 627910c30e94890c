//! The file systems that are compared: how each is made, mounted and taken away.

use super::super::fio::Server;
use super::{Scratch, Setup};
use crate::run::capture;
use anyhow::{Context as _, Result, bail};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A directory in memory, where there is one.
const MEMORY: &str = "/dev/shm";
/// The longest wait for a mount or its end.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is missing for mounts, if anything is.
pub(super) fn lacking() -> Option<&'static str> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let user = status.lines().find(|line| line.starts_with("Uid:"));
    if user.is_none_or(|line| line.split_whitespace().nth(2) != Some("0")) {
        return Some("root rights");
    }
    (!Path::new("/dev/fuse").exists()).then_some("/dev/fuse")
}

/// A directory for images, in memory if possible.
pub(super) fn scratch(name: &str) -> Result<Scratch> {
    if !Path::new(MEMORY).is_dir() {
        return Scratch::new(name);
    }
    let dir = Path::new(MEMORY).join(format!("seekless-{name}-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    Ok(Scratch(dir))
}

/// A file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// FFS on an image in place, with this policy.
    Ours(&'static str),
    /// ext4 by `fuse2fs`, on a file.
    Fuse2fs,
    /// ext4 of the kernel on a loop device, on `nbdfuse`, on our server, on an image in place.
    Served,
}

impl Peer {
    /// Makes the file system in a directory.
    pub(super) fn make(self, setup: &Setup, dir: &Path, size: &str) -> Result<()> {
        let image = dir.join("disk.img");
        fs::create_dir_all(dir.join("mnt"))?;
        match self {
            Peer::Ours(policy) => {
                let mut mkfs = Command::new(&setup.program);
                mkfs.arg("mkfs").arg(&image).args(["--fs", "ffs", "--layout", "inplace"]);
                mkfs.args(["--policy", policy, "--bytes-per-inode", "8k", "--size", size]);
                capture(&mut mkfs)?;
            }
            Peer::Fuse2fs => {
                capture(Command::new("truncate").args(["-s", size]).arg(&image))?;
                make_ext4(&image)?;
            }
            Peer::Served => {
                let mut create = Command::new(&setup.program);
                create.arg("create").arg(&image).args(["--layout", "inplace", "--size", size]);
                capture(&mut create)?;
                let below = Below::start(setup, dir)?;
                make_ext4(&below.device)?;
                below.stop()?;
            }
        }
        Ok(())
    }

    /// Mounts it.
    pub(super) fn mount(self, setup: &Setup, dir: &Path) -> Result<Mounted> {
        let (image, point) = (dir.join("disk.img"), dir.join("mnt"));
        let mut daemon = match self {
            Peer::Ours(_) => Command::new(&setup.program),
            Peer::Fuse2fs => Command::new("fuse2fs"),
            Peer::Served => {
                let below = Below::start(setup, dir)?;
                capture(Command::new("mount").arg(&below.device).arg(&point))?;
                return Ok(Mounted { point, serves: Serves::Below(below) });
            }
        };
        match self {
            Peer::Ours(policy) => {
                daemon.args(["mount", "--foreground", "--policy", policy]).arg(&image).arg(&point)
            }
            _ => daemon.arg(&image).arg(&point).arg("-f"),
        };
        let daemon = daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = daemon.spawn().with_context(|| format!("cannot start {daemon:?}"))?;
        let mut mounted = Mounted { point, serves: Serves::Daemon(child) };
        mounted.wait()?;
        Ok(mounted)
    }
}

fn make_ext4(device: &Path) -> Result<()> {
    capture(Command::new("mkfs.ext4").args(["-q", "-F", "-i", "8192"]).arg(device))?;
    Ok(())
}

/// What serves a mount.
#[derive(Debug)]
enum Serves {
    Daemon(Child),
    Below(Below),
}

/// A mounted file system; unmounted and ended when dropped.
#[derive(Debug)]
pub(super) struct Mounted {
    point: PathBuf,
    serves: Serves,
}

impl Mounted {
    /// Where.
    pub(super) fn point(&self) -> &Path {
        &self.point
    }

    fn wait(&mut self) -> Result<()> {
        let Serves::Daemon(child) = &mut self.serves else { return Ok(()) };
        let begin = Instant::now();
        while !is_mounted(&self.point) {
            if begin.elapsed() > PATIENCE || child.try_wait()?.is_some() {
                bail!("{} is not mounted", self.point.display());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Unmounts, and waits for the process that serves.
    pub(super) fn unmount(mut self) -> Result<()> {
        capture(Command::new("umount").arg(&self.point))?;
        match &mut self.serves {
            Serves::Daemon(child) => {
                let status = child.wait()?;
                if !status.success() {
                    bail!("the process of {} ended: {status}", self.point.display());
                }
            }
            Serves::Below(below) => below.end()?,
        }
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if is_mounted(&self.point) {
            let _ = Command::new("umount").arg("-l").arg(&self.point).status();
        }
        if let Serves::Daemon(child) = &mut self.serves {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn is_mounted(point: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    point.parent().is_some_and(|parent| device(point) != device(parent))
}

/// A loop device over a file of `nbdfuse` over our server.
#[derive(Debug)]
struct Below {
    device: PathBuf,
    /// Where `nbdfuse` is mounted.
    point: PathBuf,
    nbdfuse: Child,
    server: Option<Server>,
}

impl Below {
    fn start(setup: &Setup, dir: &Path) -> Result<Below> {
        let (socket, point) = (dir.join("disk.sock"), dir.join("nbd"));
        fs::create_dir_all(&point)?;
        let image = dir.join("disk.img");
        let args = [image.as_os_str(), OsStr::new("--socket"), socket.as_os_str()];
        let server = Server::seekless(&setup.program, &args)?;
        let nbdfuse = Command::new("nbdfuse")
            .args([&point, Path::new(&server.uri)])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start nbdfuse")?;
        let (device, server) = (PathBuf::new(), Some(server));
        let mut below = Below { device, point, nbdfuse, server };
        let file = below.point.join("nbd");
        let begin = Instant::now();
        while !file.exists() {
            if begin.elapsed() > PATIENCE || below.nbdfuse.try_wait()?.is_some() {
                bail!("nbdfuse does not come up");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let device = capture(Command::new("losetup").args(["--find", "--show"]).arg(&file))?;
        below.device = PathBuf::from(device.trim());
        Ok(below)
    }

    fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let Some(server) = self.server.take() else { return Ok(()) };
        if !self.device.as_os_str().is_empty() {
            capture(Command::new("losetup").arg("--detach").arg(&self.device))?;
        }
        // The loop device lets go of the file some time later.
        let begin = Instant::now();
        while capture(Command::new("umount").arg(&self.point)).is_err() {
            if begin.elapsed() > PATIENCE {
                bail!("{} stays in use", self.point.display());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.nbdfuse.wait()?;
        server.stop()?;
        Ok(())
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        let _ = self.end();
        let _ = self.nbdfuse.kill();
        let _ = self.nbdfuse.wait();
    }
}
