//! A server: opens what is to be served, listens, runs the driver, ends in good order.

mod attached;
mod listen;

use crate::device::file::{DeviceError, FileDevice, IoMode};
use crate::device::medium::FileMedium;
use crate::device::raw;
use crate::driver::{Driver, Parts, Served};
use crate::image::{self, ImageError};
use crate::nbd::Export;
use seekless_disk::{Disk as SimulatedDisk, Spec, SpecError};
use seekless_engine::device::Device;
use seekless_engine::device::medium::{Flat, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::IoError;
use seekless_engine::layout::{
    self, FormatOptions, Kind, LayoutError, MountOptions, MountPath, MountReport, Tuning,
};
use seekless_engine::node::Node;
use seekless_engine::superblock::Superblock;
use seekless_engine::units::BLOCK_BYTES;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A volume in a file or on a block device.
    Image(PathBuf),
    /// A fresh volume in memory, gone when the server ends.
    Memory {
        /// Its layout.
        kind: Kind,
        /// Its size in blocks.
        blocks: u64,
    },
}

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A Unix socket at this path.
    Unix(PathBuf),
    /// HOST:PORT.
    Tcp(String),
}

/// What to serve, and how.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// What is served.
    pub source: Source,
    /// Where clients connect.
    pub listen: Listen,
    /// Where the log of a disk caching disk is, if it is apart from the image.
    pub log: Option<PathBuf>,
    /// Answer at the pace of this disk.
    pub disk: Option<Spec>,
    /// And the log at the pace of this one; as fast as it is if not given.
    pub log_disk: Option<Spec>,
    /// Refuse writes.
    pub read_only: bool,
    /// Who carries out I/O on a file.
    pub io: IoMode,
    /// Bypass the page cache.
    pub direct: bool,
    /// How the layout is to work.
    pub tuning: Tuning,
    /// Most connections at once.
    pub most_connections: usize,
}

/// Why a server could not begin, or ended badly.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The image.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The volume.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The simulated disk.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The image is larger than the disk it is to be served at the pace of.
    #[error(
        "{} has {blocks} blocks of 4 KiB, the disk {disk} only {capacity}; choose a larger one",
        .path.display()
    )]
    DiskTooSmall {
        /// The image.
        path: PathBuf,
        /// Its blocks.
        blocks: u64,
        /// The disk.
        disk: String,
        /// Its blocks.
        capacity: u64,
    },
    /// A server answers at that socket.
    #[error("a server listens on {} already; choose another path or end that one", .0.display())]
    SocketInUse(PathBuf),
    /// There is something else at that path.
    #[error("{} exists and is no socket; choose another path", .0.display())]
    NotSocket(PathBuf),
    /// The address cannot be listened on.
    #[error("cannot listen on {at}: {source}")]
    Listen {
        /// The address.
        at: String,
        /// Why.
        source: io::Error,
    },
    /// The system refuses something that every server needs.
    #[error("cannot serve: {0}")]
    Os(#[from] io::Error),
    /// The backing store failed while serving.
    #[error("the backing store failed while serving: {0}")]
    Failed(IoError),
}

/// A volume over its device, ready to be served.
#[derive(Debug)]
struct Mounted {
    node: Node,
    superblock: Superblock,
    device_fds: Vec<OwnedFd>,
    rotational: bool,
    /// The images, if there are some: handles that keep their locks.
    files: Vec<File>,
}

/// Serves until SIGINT or SIGTERM. `ready` hears the URI for clients once connections are accepted.
///
/// # Errors
/// See [`ServeError`].
pub fn serve(options: &ServeOptions, ready: &mut dyn FnMut(&str)) -> Result<Served, ServeError> {
    let Mounted { node, superblock, device_fds, rotational, files } = mount(options)?;
    // Only now: however long the mount takes, a signal ends it. The device starts its threads when
    // it first needs them, so they leave signals alone, too.
    let stop_fd = crate::signals::block_and_watch()?;
    let (listener, socket, uri) = listen::listen(&options.listen)?;
    let export = Export {
        name: String::new(),
        description: format!("Seekless volume, layout {}", superblock.kind),
        size_bytes: superblock.blocks * BLOCK_BYTES as u64,
        read_only: options.read_only,
        rotational,
        multi_conn: true,
        minimum_block: 1,
        preferred_block: BLOCK_BYTES as u32,
        maximum_payload: 32 << 20,
    };
    let parts = Parts {
        node,
        export,
        listener,
        simulated: options.disk.is_some(),
        device_fds,
        stop_fd,
        most_connections: options.most_connections,
    };
    let driver = Driver::new(parts)?;
    ready(&uri);
    let served = driver.run();
    drop(socket);
    let served = served?;
    if let Some(reason) = served.latched {
        return Err(ServeError::Failed(reason));
    }
    for file in files.iter().filter(|_| !options.read_only) {
        // Nobody was promised this, but an orderly end leaves nothing to chance.
        raw::sync(file).map_err(|errno| ServeError::Failed(raw::io_error(errno, 0)))?;
    }
    Ok(served)
}

fn mount(options: &ServeOptions) -> Result<Mounted, ServeError> {
    match &options.source {
        Source::Memory { kind, blocks } => memory(options, *kind, *blocks),
        Source::Image(path) => match &options.log {
            Some(log) => attached::mount(options, path, log),
            None => from_image(options, path),
        },
    }
}

/// A volume in memory, on a plain device or on a simulated disk.
fn memory(options: &ServeOptions, kind: Kind, blocks: u64) -> Result<Mounted, ServeError> {
    let device_blocks = match &options.disk {
        Some(spec) => spec.capacity_blocks(),
        None => kind.device_blocks(blocks),
    };
    let mut medium: Box<dyn Medium> = Box::new(Flat::new(device_blocks));
    let id = image::fresh_id().map_err(io::Error::from)?;
    layout::format(&mut MediumDisk(medium.as_mut()), &FormatOptions::new(kind, blocks, id))?;
    let Some(spec) = &options.disk else {
        let mount = MountOptions { volatile: true, ..mount_options(options) };
        let (layer, superblock, _) = layout::mount(&mut MediumDisk(medium.as_mut()), &mount)?;
        let node = Node::new(layer, vec![Box::new(Ram::volatile(medium))], 1);
        return Ok(Mounted {
            node,
            superblock,
            device_fds: Vec::new(),
            rotational: false,
            files: Vec::new(),
        });
    };
    simulated(options, spec, medium, None)
}

/// A volume on a simulated disk whose bytes are in `medium`. What its flushes wait for is the
/// simulated time and the medium's own sync, nothing else.
fn simulated(
    options: &ServeOptions,
    spec: &Spec,
    mut medium: Box<dyn Medium>,
    file: Option<File>,
) -> Result<Mounted, ServeError> {
    // Mounting needs the mechanics and the medium at once; the disk that lends its mechanics here
    // has next to nothing on it.
    let lender = SimulatedDisk::new(spec, Box::new(Flat::new(1)))?;
    let (arm, volatile) = (lender.arm(), lender.volatile());
    let mount = MountOptions { arm, volatile, ..mount_options(options) };
    let started = Instant::now();
    let (layer, superblock, report) = layout::mount(&mut MediumDisk(medium.as_mut()), &mount)?;
    log_mount(&report, started.elapsed());
    let disk = SimulatedDisk::new(spec, medium)?;
    let node = Node::new(layer, vec![Box::new(disk)], 1);
    Ok(Mounted {
        node,
        superblock,
        device_fds: Vec::new(),
        rotational: true,
        files: file.into_iter().collect(),
    })
}

fn mount_options(options: &ServeOptions) -> MountOptions<'static> {
    let ServeOptions { read_only, tuning, .. } = *options;
    MountOptions { read_only, tuning, ..MountOptions::default() }
}

fn from_image(options: &ServeOptions, path: &Path) -> Result<Mounted, ServeError> {
    let mut image = image::open(path, options.read_only)?;
    let file = image.handle()?;
    if let Some(spec) = &options.disk {
        fits(spec, path, image.blocks())?;
        let blocks = image.blocks();
        let medium = Box::new(FileMedium::new(image.handle()?, blocks));
        return simulated(options, spec, medium, Some(file));
    }
    let mount = MountOptions { volatile: true, ..mount_options(options) };
    let started = Instant::now();
    let mounted = layout::mount(&mut image, &mount);
    let (layer, superblock, report) = mounted.map_err(|error| image.blame(error))?;
    log_mount(&report, started.elapsed());
    let device = FileDevice::new(image, options.io, options.direct)?;
    let device_fds = vec![device.wait_fd()?];
    let node = Node::new(layer, vec![Box::new(device)], 1);
    Ok(Mounted { node, superblock, device_fds, rotational: false, files: vec![file] })
}

/// Refuses an image that is larger than the disk at whose pace it is to be served.
fn fits(spec: &Spec, path: &Path, blocks: u64) -> Result<(), ServeError> {
    let capacity = spec.capacity_blocks();
    if blocks > capacity {
        let (path, disk) = (path.to_owned(), spec.name.clone());
        return Err(ServeError::DiskTooSmall { path, blocks, disk, capacity });
    }
    Ok(())
}

fn log_mount(report: &MountReport, took: Duration) {
    let how = match report.path {
        MountPath::Stateless => return,
        MountPath::Tail => "after an orderly end",
        MountPath::Scan => "after a crash",
    };
    let dropped = match report.commits_dropped {
        0 => String::new(),
        n => format!(", {n} unfinished commits dropped"),
    };
    eprintln!(
        "seekless: mounted {how}: {} blocks read in {:.1} ms{dropped}",
        report.blocks_read,
        took.as_secs_f64() * 1e3
    );
}
