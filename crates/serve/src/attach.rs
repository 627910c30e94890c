//! A volume as a block device of this machine, through what every kernel has: a file of FUSE that
//! this process serves, and a loop device over it.
//!
//! The file hands requests on to the server of this process ([`blocks`]), so a block device and NBD
//! clients may share a volume. `crash-test` makes its devices from the same two parts. The device
//! is there until a signal comes and nothing uses it any longer; only then does the server end.

mod blocks;
pub mod loop_device;

use crate::control::registry;
use crate::driver::Served;
use crate::files::VolumeOptions;
use crate::fuse::disks::DiskDirectory;
use crate::server::{Listen, Opened, ServeError};
use blocks::ServedBlocks;
use loop_device::LoopDevice;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use seekless_engine::units::BLOCK_BYTES;
use seekless_layouts::Kind;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Connections between the file and the server: one for each thread that answers the kernel.
const CONNECTIONS: usize = 8;
/// How often it is looked whether the device is still in use.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Why a volume cannot be attached, or ended badly.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The volume.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The kernel has no FUSE.
    #[error("this machine has no /dev/fuse; load the kernel module: modprobe fuse")]
    NoFuse,
    /// The kernel has no loop devices.
    #[error("this machine has no /dev/loop-control; load the kernel module: modprobe loop")]
    NoLoop,
    /// Only root may.
    #[error("a block device takes root rights; use sudo")]
    NotRoot,
    /// The file or the device cannot be made.
    #[error("cannot make a block device: {0}")]
    Device(io::Error),
}

/// What is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The block device.
    pub device: PathBuf,
    /// Its size.
    pub size_bytes: u64,
}

/// Attaches a volume and serves it until SIGINT, SIGTERM or SIGHUP has come and nothing uses the
/// device. Its sectors have so many bytes, or as many as suit the layout. `ready` hears of the
/// device when it is there.
///
/// # Errors
/// See [`AttachError`].
pub fn attach(
    options: &VolumeOptions,
    sector_bytes: Option<u32>,
    ready: impl FnOnce(&Attached) + Send + 'static,
) -> Result<Served, AttachError> {
    look()?;
    let socket = registry::private_socket().map_err(AttachError::Device)?;
    let mut serve = options.serve_options()?;
    serve.listen = Listen::Unix(socket.clone());
    serve.most_connections = CONNECTIONS * 2;
    let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    let stop = stop.map_err(|errno| AttachError::Device(errno.into()))?;
    let stop_fd = stop.try_clone().map_err(AttachError::Device)?;
    let mut signals = None;
    let opened = Opened::new(&serve, || {
        signals = Some(crate::signals::block_and_watch()?);
        Ok(stop_fd)
    })?;
    let signals = signals.expect("a server that is open has asked for it");
    let size_bytes = opened.parts.export.size_bytes;
    let blocks = ServedBlocks::new(socket, size_bytes);
    let (read_only, at) = (options.read_only, opened.parts.served.at.clone());
    let sector_bytes = sector_bytes.or_else(|| suitable_sector(opened.parts.served.layout));
    // The kernel asks for bytes while it makes the device, so the server must run by then.
    let body = move || {
        let made = BlockDevice::make(blocks, read_only, sector_bytes);
        let made = made.map(|device| {
            let path = device.device.path().to_owned();
            at.set(path.display().to_string());
            ready(&Attached { device: path, size_bytes });
            device.end_on(&signals);
        });
        let _ = rustix::io::write(&stop, &1_u64.to_le_bytes());
        made
    };
    let device = std::thread::Builder::new().name("device".into()).spawn(body);
    let device = device.map_err(AttachError::Device)?;
    let served = opened.run(&mut || ControlFlow::Continue(()), &mut |_| {});
    let made = device.join().unwrap_or_else(|_| Err(io::Error::other("its thread panicked")));
    made.map_err(AttachError::Device)?;
    Ok(served?)
}

/// The sectors that suit a layout. A layout that gives each block a new place must read a block of
/// which a sector is written; so it announces sectors as large as its blocks. Elsewhere the sectors
/// are those that content from other disks expects.
fn suitable_sector(layout: Option<&str>) -> Option<u32> {
    let kind = layout?.parse::<Kind>().ok()?;
    (kind != Kind::INPLACE).then_some(BLOCK_BYTES as u32)
}

/// Whether a volume can be attached here.
fn look() -> Result<(), AttachError> {
    let there = |path: &str| Path::new(path).exists();
    match () {
        () if !there("/dev/fuse") => Err(AttachError::NoFuse),
        () if !there("/dev/loop-control") => Err(AttachError::NoLoop),
        () if !rustix::process::geteuid().is_root() => Err(AttachError::NotRoot),
        () => Ok(()),
    }
}

/// The file and the loop device over it.
struct BlockDevice {
    /// The file is gone when nothing has it open.
    directory: DiskDirectory<ServedBlocks>,
    device: LoopDevice,
    read_only: bool,
}

impl BlockDevice {
    fn make(
        blocks: ServedBlocks,
        read_only: bool,
        sector_bytes: Option<u32>,
    ) -> io::Result<BlockDevice> {
        let point = tempdir()?;
        let directory = DiskDirectory::mount(&point);
        let _ = std::fs::remove_dir(&point);
        let directory = directory?;
        let (_, path) = directory.insert(Arc::new(blocks));
        let file = File::options().read(true).write(!read_only).open(path)?;
        let device = LoopDevice::with_sectors(&file, read_only, sector_bytes)?;
        Ok(BlockDevice { directory, device, read_only })
    }

    /// Waits for a signal, then until nothing uses the device, and takes it away.
    fn end_on(self, signals: &OwnedFd) {
        let mut watched = [PollFd::new(signals, PollFlags::IN)];
        while poll(&mut watched, None).is_err() {}
        // A signal stays pending until it is read: released, it would end the process at once.
        let _ = rustix::io::read(signals, &mut [0_u8; 128]);
        let _ = crate::signals::release();
        let BlockDevice { directory, device, read_only } = self;
        if !read_only && let Err(error) = device.file().sync_all() {
            tracing::error!(
                "{}: not all that was written is kept: {error}",
                device.path().display()
            );
        }
        let in_use = device.in_use();
        let path = device.path().to_owned();
        // With the last descriptor of it the kernel takes the device away.
        drop(device);
        let mut told = false;
        while in_use.lasts() {
            if !told {
                tracing::warn!(
                    "{} is still in use; it ends when it is unmounted and closed, another signal \
                     ends at once",
                    path.display()
                );
                told = true;
            }
            let _ = poll(&mut [], Some(&LOOK));
        }
        drop(directory);
    }
}

/// An empty directory for a moment.
fn tempdir() -> io::Result<PathBuf> {
    let point = std::env::temp_dir().join(format!("seekless-attach-{}", std::process::id()));
    std::fs::create_dir(&point)?;
    Ok(point)
}
