//! A server: opens what is to be served, listens, runs the driver, ends in good order.

pub mod again;
mod array;
mod attached;
pub(crate) mod backing;
mod crashing;
pub mod joined;
pub mod listen;
pub mod members;
mod systemd;

use crate::control::{Control, registry};
use crate::crash::plan::{BadFault, Fault};
use crate::device::file::{DeviceError, FileDevice, IoMode};
use crate::device::medium::FileMedium;
use crate::driver::{Driver, OnCut, Parts, Power, Served, measure_compensation};
use crate::image::{self, Image, ImageError};
use crate::nbd::Export;
use crate::nbd::uri::Uri;
use crate::status::{self, At};
use again::Again;
use backing::Backing;
pub use backing::BackingError;
use listen::SocketFile;
use members::MemberDevices;
use seekless_disk::{Disk as SimulatedDisk, Spec, SpecError};
use seekless_engine::device::Device;
use seekless_engine::device::Mechanical as _;
use seekless_engine::device::medium::{Flat, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::IoError;
use seekless_engine::io::Rebuild;
use seekless_engine::layout::{
    Clock, FormatOptions, LayoutError, MountOptions, MountPath, MountReport,
};
use seekless_engine::node::Node;
use seekless_engine::options::Options;
use seekless_engine::superblock::Superblock;
use seekless_engine::units::{BLOCK_BYTES, Time};
use seekless_engine::upkeep::UpkeepError;
use seekless_fs::block::plain::Plain;
use seekless_layouts::{Kind, MENDED};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A volume in a file or on a block device.
    Image(PathBuf),
    /// A file or a block device as it is, without a layout.
    Raw(PathBuf),
    /// A volume on an array: its members, in any order.
    Array {
        /// Their images.
        members: Vec<PathBuf>,
        /// Go on without members that should be there.
        degraded: bool,
    },
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
    Tcp {
        /// The address.
        address: String,
        /// Other machines may connect.
        exposed: bool,
    },
    /// The socket that systemd opened.
    Systemd {
        /// Other machines may connect.
        exposed: bool,
    },
}

impl Listen {
    /// The URI for clients that are in another directory.
    fn absolute(&self, uri: &str) -> String {
        match self {
            Listen::Unix(path) => std::path::absolute(path)
                .map_or_else(|_| uri.to_owned(), |path| Uri::unix(&path).to_string()),
            Listen::Tcp { .. } | Listen::Systemd { .. } => uri.to_owned(),
        }
    }
}

/// What is said of the mount of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MountMessages {
    /// What is not usual: recovery after a crash, a mount that took long.
    Unusual,
    /// How it went, in one line.
    Line,
    /// What each step did, however quick it was.
    Steps,
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
    /// What is said of the mount.
    pub messages: MountMessages,
    /// Refuse writes.
    pub read_only: bool,
    /// How I/O on a file is carried out.
    pub io: IoMode,
    /// Bypass the page cache.
    pub direct: bool,
    /// How the layout is to work.
    pub options: Options,
    /// Most connections at once.
    pub most_connections: usize,
    /// A disk that crashes on demand.
    pub crash: Option<CrashOptions>,
    /// Answer questions of Prometheus on this HOST:PORT.
    pub metrics: Option<String>,
    /// Fill a new member of an array with at most so many bytes a second.
    pub rebuild_rate: Option<u64>,
}

/// How a disk is to crash.
#[derive(Clone, Debug, Default)]
pub struct CrashOptions {
    /// What is to go wrong from the start.
    pub faults: Vec<Fault>,
    /// Commands are taken on this Unix socket.
    pub control: Option<PathBuf>,
    /// What clients notice of a power cut.
    pub on_cut: OnCut,
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
    /// The volume holds objects, and clients want blocks.
    #[error("{} is the drive of a VLFS, which has no blocks to serve; mount it", .0.display())]
    Objects(PathBuf),
    /// The image has labels in the headers of its sectors, the device has no headers.
    #[error(
        "{} keeps labels in sector headers, which only simulated disks have, and of those \
         only such as report no write early; serve it with --disk hp97560, st19101, desktop7200 \
         or the like",
        .0.display()
    )]
    NoHeaders(PathBuf),
    /// A server answers at that socket.
    #[error("a server listens on {} already; choose another path or end that one", .0.display())]
    SocketInUse(PathBuf),
    /// There is something else at that path.
    #[error("{} exists and is not a socket; choose another path", .0.display())]
    NotSocket(PathBuf),
    /// This is no address at all.
    #[error("`{0}` is no address to listen on; give HOST:PORT, as in 127.0.0.1:10809")]
    BadAddress(String),
    /// Other machines could connect.
    #[error(
        "{0}: every machine that can connect there may read and write the volume: there \
         is no encryption and no password; listen on 127.0.0.1 or on a --socket, or accept it \
         with --insecure"
    )]
    Exposed(String),
    /// The process was not started for a socket.
    #[error(
        "--systemd: systemd passed {0} sockets that listen, and a server takes one; start it by a \
         socket unit with one ListenStream, or give --socket or --listen"
    )]
    NotActivated(u32),
    /// The address cannot be listened on.
    #[error("cannot listen on {at}: {source}{}", listen_remedy(.source))]
    Listen {
        /// The address.
        at: String,
        /// Why.
        source: io::Error,
    },
    /// The kernel has no room for such a path.
    #[error(
        "cannot listen on {}: the path has {} bytes, that of a socket at most {MOST_PATH_BYTES}; \
         choose a shorter one",
        .0.display(),
        .0.as_os_str().len()
    )]
    LongPath(PathBuf),
    /// A fault that cannot strike.
    #[error("--faults: {0}")]
    Fault(#[from] BadFault),
    /// An array does not take a new member.
    #[error(transparent)]
    Upkeep(#[from] UpkeepError),
    /// Faults are injected below one disk.
    #[error("faults and power cuts are for a volume on one disk, not for an array")]
    ManyDisks,
    /// A log apart is one disk more.
    #[error("faults and power cuts are for a volume on one disk, not for one with its log apart")]
    LogApart,
    /// The system refuses something that every server needs.
    #[error("cannot serve: {0}")]
    Os(#[from] io::Error),
    /// The backing store failed while serving.
    #[error("{images}: the backing store failed while serving: {error}")]
    Failed {
        /// What was served.
        images: String,
        /// What the store said.
        error: IoError,
    },
    /// What was served is not durable.
    #[error("the backing store failed when it was made durable at the end: {0}")]
    NotDurable(#[from] BackingError),
}

/// Bytes of the path of a Unix socket, without the zero at its end.
pub(crate) const MOST_PATH_BYTES: usize = 107;

/// What helps against what the system says when one listens.
fn listen_remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => {
            "; end the server that listens there or choose another port (0 finds a free one)"
        }
        io::ErrorKind::AddrNotAvailable => "; give an address of this machine, such as 127.0.0.1",
        io::ErrorKind::NotFound => "; make the directory of the socket first",
        io::ErrorKind::PermissionDenied => {
            "; choose a directory that you may write to, or a port from 1024 on"
        }
        // Not from the system, but from the resolver of names.
        _ if source.raw_os_error().is_none() => "; give a name that is known here, or an address",
        _ => "",
    }
}

/// Images in one word, for messages.
pub(crate) fn names(images: &[Option<PathBuf>]) -> String {
    let names: Vec<_> = images.iter().flatten().map(|path| path.display().to_string()).collect();
    if names.is_empty() { "the volume".to_owned() } else { names.join(" ") }
}

/// A volume over its device, ready to be served.
#[derive(Debug)]
pub(crate) struct Mounted {
    pub(crate) node: Node,
    /// For clients: what the volume is.
    pub(crate) description: String,
    pub(crate) device_fds: Vec<OwnedFd>,
    rotational: bool,
    /// The images, if there are some: handles that keep their locks.
    pub(crate) files: Vec<Backing>,
    /// Their names; of an array those of its members in order.
    pub(crate) images: Vec<Option<PathBuf>>,
    /// The layout, if there is one.
    pub(crate) layout: Option<&'static str>,
    pub(crate) power: Option<Power>,
    /// How an array below takes new members.
    pub(crate) members: Option<MemberDevices>,
    again: Option<Again>,
}

impl Mounted {
    pub(crate) fn new(node: Node, description: String) -> Mounted {
        let (device_fds, rotational, files, power) = (Vec::new(), false, Vec::new(), None);
        let (images, layout, members) = (Vec::new(), None, None);
        Mounted {
            node,
            description,
            device_fds,
            rotational,
            files,
            images,
            layout,
            power,
            members,
            again: None,
        }
    }

    /// A volume with a layout.
    fn of_layout(node: Node, superblock: &Superblock) -> Mounted {
        let layout = Some(Kind::of(superblock).name());
        Mounted { layout, ..Mounted::new(node, describe(superblock)) }
    }

    /// What is told of it.
    pub(crate) fn served(&self, at: &str, read_only: bool) -> status::Served {
        let absolute = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        status::Served {
            images: self.images.iter().map(|one| one.as_ref().map(absolute)).collect(),
            at: At::new(at),
            description: self.description.clone(),
            layout: self.layout,
            read_only,
        }
    }
}

/// Serves until SIGINT, SIGTERM or SIGHUP. `ready` hears the URI for clients once connections are
/// accepted, and may say that the end has come already; `watch` hears how far the rebuild of an
/// array has come.
///
/// # Errors
/// See [`ServeError`].
pub fn serve(
    options: &ServeOptions,
    ready: &mut dyn FnMut(&str) -> ControlFlow<()>,
    watch: &mut dyn FnMut(Rebuild),
) -> Result<Served, ServeError> {
    let opened = Opened::new(options, crate::signals::block_and_watch)?;
    let uri = opened.uri.clone();
    opened.run(&mut || ready(&uri), watch)
}

/// A volume that is mounted, and all that serves it, before the loop runs.
pub(crate) struct Opened {
    pub(crate) parts: Parts,
    /// Where clients connect.
    pub(crate) uri: String,
    socket: Option<SocketFile>,
    files: Vec<Backing>,
}

impl Opened {
    /// Listens, then mounts. `stop_fd` is called when a signal must not end the process at once
    /// any longer, and gives what becomes readable when the server is to end.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub(crate) fn new(
        options: &ServeOptions,
        stop_fd: impl FnOnce() -> io::Result<OwnedFd>,
    ) -> Result<Opened, ServeError> {
        // First of all: a mount takes the mark of a clean shutdown away, and only a driver puts it
        // back. A client that connects meanwhile waits until there is something to serve.
        let (listener, socket, uri) = listen::listen(&options.listen)?;
        let path = options.crash.as_ref().and_then(|crash| crash.control.as_deref());
        let mut control = control(path, options.metrics.as_deref())?;
        register(&mut control);
        // Before it is handled a signal that only asks would end the process.
        let usr1_fd = crate::signals::watch_usr1()?;
        refuse_objects(options)?;
        let mounted = mount(options)?;
        let served = mounted.served(&options.listen.absolute(&uri), options.read_only);
        let Mounted {
            node, description, device_fds, rotational, files, power, members, again, ..
        } = mounted;
        // Only now: however long the mount takes, a signal ends it. The device starts its threads
        // when it first needs them, so they leave signals alone, too.
        let stop_fd = stop_fd()?;
        control.start()?;
        let export = Export {
            description,
            size_bytes: node.layer.blocks() * BLOCK_BYTES as u64,
            ..export(options.read_only, rotational)
        };
        let simulated = options.disk.is_some();
        let parts = Parts {
            node,
            export,
            listener,
            simulated,
            compensation_ns: if simulated { measure_compensation() } else { 0 },
            device_fds,
            stop_fd,
            most_connections: options.most_connections,
            power,
            control: Some(control),
            served,
            usr1_fd: Some(usr1_fd),
            members,
            again,
        };
        Ok(Opened { parts, uri, socket, files })
    }

    /// Serves to the end.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub(crate) fn run(
        self,
        ready: &mut dyn FnMut() -> ControlFlow<()>,
        watch: &mut dyn FnMut(Rebuild),
    ) -> Result<Served, ServeError> {
        let Opened { parts, socket, mut files, .. } = self;
        let images = names(&parts.served.images);
        let failed = |error| ServeError::Failed { images: images.clone(), error };
        let hub = parts.power.as_ref().map(|power| power.hub.clone());
        let read_only = parts.export.read_only;
        let mut driver = Driver::new(parts)?;
        match ready() {
            ControlFlow::Break(()) => driver.stop(),
            ControlFlow::Continue(()) => systemd::notify(systemd::READY),
        }
        let served = driver.run_watched(watch);
        systemd::notify(systemd::STOPPING);
        backing::replace(&mut files, driver.take_new_files());
        drop((driver, socket));
        let served = served?;
        if let Some(hub) = hub {
            hub.write_out().map_err(failed)?;
        }
        if let Some(reason) = served.failed {
            return Err(failed(reason));
        }
        if !read_only {
            // No client was promised this, but a clean shutdown leaves nothing to chance.
            backing::sync(&files, &served.members_out)?;
        }
        backing::release(&files);
        Ok(served)
    }
}

/// Where questions and commands are taken that were asked for: on the Unix socket `path`, and those
/// of Prometheus at HOST:PORT.
pub(crate) fn control(path: Option<&Path>, metrics: Option<&str>) -> Result<Control, ServeError> {
    let mut control = Control::new()?;
    if let Some(path) = path {
        control.listen(path)?;
    }
    if let Some(address) = metrics {
        let found = control.listen_metrics(address)?;
        tracing::info!("metrics at http://{found}/metrics");
    }
    Ok(control)
}

/// Has this process found by `seekless status`; it serves all the same if that cannot be.
pub(crate) fn register(control: &mut Control) {
    if let Err(error) = registry::register(control) {
        let dir = registry::directory();
        tracing::warn!("`seekless status` will not find this: {}: {error}", dir.display());
    }
}

/// Serves a medium of `size_bytes` bytes as it is until a signal, as [`serve`] does.
///
/// # Errors
/// See [`ServeError`].
pub fn serve_state(
    medium: Box<dyn Medium>,
    size_bytes: u64,
    at: &Listen,
    ready: &mut dyn FnMut(&str) -> ControlFlow<()>,
) -> Result<Served, ServeError> {
    let stop_fd = crate::signals::block_and_watch()?;
    let (listener, socket, uri) = listen::listen(at)?;
    let layer = Box::new(Plain::new(medium.blocks()));
    let parts = Parts {
        node: Node::new(layer, vec![Box::new(Ram::volatile(medium))], 1),
        export: Export {
            description: "a crash state".to_owned(),
            size_bytes,
            ..export(false, false)
        },
        listener,
        simulated: false,
        compensation_ns: 0,
        device_fds: Vec::new(),
        stop_fd,
        most_connections: 64,
        power: None,
        control: None,
        served: status::Served::default(),
        usr1_fd: None,
        members: None,
        again: None,
    };
    let mut driver = Driver::new(parts)?;
    if ready(&uri).is_break() {
        driver.stop();
    }
    let served = driver.run();
    drop(socket);
    Ok(served?)
}

/// What exports have in common.
fn export(read_only: bool, rotational: bool) -> Export {
    Export {
        name: String::new(),
        description: String::new(),
        size_bytes: 0,
        read_only,
        rotational,
        multi_conn: true,
        minimum_block: 1,
        preferred_block: BLOCK_BYTES as u32,
        maximum_payload: 32 << 20,
    }
}

/// Refuses a volume without blocks. What cannot be read here the mount reports.
fn refuse_objects(options: &ServeOptions) -> Result<(), ServeError> {
    let Source::Image(path) = &options.source else { return Ok(()) };
    let Ok(mut image) = image::open(path, true) else { return Ok(()) };
    match seekless_layouts::read_superblock(&mut image) {
        Ok(found) if seekless_layouts::Kind::of(&found).has_objects() => {
            Err(ServeError::Objects(path.clone()))
        }
        _ => Ok(()),
    }
}

/// Opens and mounts what is to be served.
///
/// # Errors
/// See [`ServeError`].
pub(crate) fn mount(options: &ServeOptions) -> Result<Mounted, ServeError> {
    if let Some(crash) = &options.crash {
        return crashing::mount(options, crash);
    }
    match &options.source {
        Source::Memory { kind, blocks } => memory(options, *kind, *blocks),
        Source::Image(path) => match &options.log {
            Some(log) => attached::mount(options, path, log),
            None => from_image(options, path),
        },
        Source::Raw(path) => raw_file(options, path),
        Source::Array { members, degraded } => array::mount(options, members, *degraded),
    }
}

/// A volume in memory, on a plain device or on a simulated disk.
fn memory(options: &ServeOptions, kind: Kind, blocks: u64) -> Result<Mounted, ServeError> {
    let device_blocks = match &options.disk {
        Some(spec) if spec.is_plain() => spec.capacity_blocks(),
        // Of a large disk its outer tracks are enough.
        Some(spec) => kind.device_blocks(blocks).min(spec.capacity_blocks()),
        None => kind.device_blocks(blocks),
    };
    let flat = Flat::new(device_blocks);
    let headers = kind == Kind::LOGE && has_headers(options);
    let mut medium: Box<dyn Medium> = Box::new(if headers { flat.with_labels() } else { flat });
    let id = image::fresh_id().map_err(io::Error::from)?;
    seekless_layouts::format(
        &mut MediumDisk(medium.as_mut()),
        &FormatOptions::new(kind, blocks, id),
    )?;
    let Some(spec) = &options.disk else {
        let mount = MountOptions { volatile: true, ..mount_options(options) };
        let (layer, superblock, _) =
            seekless_layouts::mount(&mut MediumDisk(medium.as_mut()), &mount)?;
        let node = Node::new(layer, vec![Box::new(Ram::volatile(medium))], 1);
        return Ok(Mounted::of_layout(node, &superblock));
    };
    simulated(options, spec, medium)
}

/// A volume on a simulated disk whose bytes are in `medium`. What its flushes wait for is the
/// simulated time and the medium's own sync, nothing else.
fn simulated(
    options: &ServeOptions,
    spec: &Spec,
    mut medium: Box<dyn Medium>,
) -> Result<Mounted, ServeError> {
    refuse_or_warn(options, spec, medium.as_mut())?;
    // Mounting needs the mechanics and the medium at once; the disk that lends its mechanics here
    // has next to nothing on it.
    let spec = outer(spec, medium.blocks());
    let lender = SimulatedDisk::new(&spec, Box::new(Flat::new(1)))?;
    let (arm, volatile) = (lender.arm(), lender.volatile());
    let mount = MountOptions { arm, volatile, ..mount_options(options) };
    let started = Instant::now();
    let (layer, superblock, report) =
        seekless_layouts::mount(&mut MediumDisk(medium.as_mut()), &mount)?;
    log_mount(&report, started.elapsed(), options.messages);
    let disk = SimulatedDisk::new(&spec, medium)?;
    let node = Node::new(layer, vec![Box::new(disk)], 1);
    Ok(Mounted { rotational: true, ..Mounted::of_layout(node, &superblock) })
}

/// Refuses a volume that the disk would fail, and says where one is slower than it could be. It
/// does so before the mount, which may write.
fn refuse_or_warn(
    options: &ServeOptions,
    spec: &Spec,
    medium: &mut dyn Medium,
) -> Result<(), ServeError> {
    let has_labels = medium.has_labels();
    let superblock = seekless_layouts::read_superblock(&mut MediumDisk(medium))?;
    let kind = Kind::of(&superblock);
    if spec.zoned.is_some() {
        kind.check_in_order(&spec.name)?;
    }
    if kind == Kind::LOGE && !has_labels && has_headers(options) {
        tracing::warn!(
            "the labels of this loge volume lie between its blocks, where each write of them takes \
             time of the disk: it is slower than a volume in place; `seekless create --headers` \
             makes one whose labels cost no time"
        );
    }
    Ok(())
}

/// Of a disk no more than `blocks` blocks need, so that its arm knows of no others.
fn outer(spec: &Spec, blocks: u64) -> Spec {
    if spec.is_plain() { spec.clone() } else { spec.outer(blocks) }
}

/// True if the volume is on a disk whose sector headers layouts may use.
fn has_headers(options: &ServeOptions) -> bool {
    options.disk.as_ref().is_some_and(|spec| !spec.reports_early())
}

fn mount_options(options: &ServeOptions) -> MountOptions<'static> {
    let ServeOptions { read_only, ref options, .. } = *options;
    let clock: Option<Clock> = Some(host_clock);
    MountOptions { read_only, options: options.clone(), clock, ..MountOptions::default() }
}

fn from_image(options: &ServeOptions, path: &Path) -> Result<Mounted, ServeError> {
    let mut image = image::open(path, options.read_only)?;
    let (files, images) = (backing::of(&image, None)?, vec![Some(path.to_owned())]);
    if image.headers().is_some() && !has_headers(options) {
        return Err(ServeError::NoHeaders(path.to_owned()));
    }
    if let Some(spec) = &options.disk {
        let blocks = fits(&image, spec)?;
        let medium = FileMedium::new(image.handle()?, blocks).with_headers(image.headers());
        let mounted = simulated(options, spec, Box::new(medium))?;
        return Ok(Mounted { files, images, ..mounted });
    }
    FileDevice::try_out(&image, options.io, options.direct)?;
    let mount = MountOptions { volatile: true, ..mount_options(options) };
    let started = Instant::now();
    let mounted = seekless_layouts::mount(&mut image, &mount);
    let (layer, superblock, report) = mounted.map_err(|error| image.blame(error))?;
    log_mount(&report, started.elapsed(), options.messages);
    let again = Again::of(&image, options);
    let device = FileDevice::new(image, options.io, options.direct)?;
    let device_fds = vec![device.wait_fd()?];
    let node = Node::new(layer, vec![Box::new(device)], 1);
    Ok(Mounted { device_fds, files, images, again, ..Mounted::of_layout(node, &superblock) })
}

/// A file as it is.
fn raw_file(options: &ServeOptions, path: &Path) -> Result<Mounted, ServeError> {
    let image = open_raw(path, options.read_only)?;
    let files = backing::of(&image, None)?;
    let layer = Box::new(Plain::new(image.blocks()));
    let device = FileDevice::new(image, options.io, options.direct)?;
    let device_fds = vec![device.wait_fd()?];
    let node = Node::new(layer, vec![Box::new(device)], 1);
    let images = vec![Some(path.to_owned())];
    Ok(Mounted { device_fds, files, images, ..Mounted::new(node, RAW.to_owned()) })
}

/// Opens a file that holds no volume.
fn open_raw(path: &Path, read_only: bool) -> Result<Image, ServeError> {
    let image = image::open(path, read_only).map_err(|error| match error {
        ImageError::NotFound(path) => ImageError::NoRaw(path),
        other => other,
    })?;
    if image.headers().is_some() {
        return Err(ServeError::NoHeaders(path.to_owned()));
    }
    image.check_whole()?;
    Ok(image)
}

const RAW: &str = "a raw disk";

fn describe(superblock: &Superblock) -> String {
    format!("Seekless volume, layout {}", Kind::of(superblock))
}

/// The size of an image that is to be served at the pace of a disk.
fn fits(image: &Image, spec: &Spec) -> Result<u64, ServeError> {
    let (blocks, capacity) = (image.blocks(), spec.capacity_blocks());
    if blocks > capacity {
        let (path, disk) = (image.path().to_owned(), spec.name.clone());
        return Err(ServeError::DiskTooSmall { path, blocks, disk, capacity });
    }
    Ok(blocks)
}

/// Nanoseconds of host time after the first call.
fn host_clock() -> Time {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    Time::try_from(elapsed.as_nanos()).unwrap_or(Time::MAX)
}

/// A mount that takes longer says what each of its steps did.
const LONG_MOUNT: Duration = Duration::from_secs(1);

/// Says how a mount went.
fn log_mount(report: &MountReport, took: Duration, messages: MountMessages) {
    let is_long = took > LONG_MOUNT;
    if is_long || report.path == MountPath::Scan || messages > MountMessages::Unusual {
        log_mount_path(report, took);
    }
    if report.steps.iter().any(|step| step.name == MENDED) {
        tracing::warn!("a copy of the superblock was damaged; it is written anew from the other");
    }
    if is_long || messages == MountMessages::Steps {
        for step in &report.steps {
            tracing::info!("  {step}");
        }
    }
}

fn log_mount_path(report: &MountReport, took: Duration) {
    let how = match report.path {
        MountPath::Stateless => return,
        MountPath::Tail => "after a clean shutdown",
        MountPath::Scan => "after a crash",
    };
    let dropped = match report.commits_dropped {
        0 => String::new(),
        n => format!(", {n} unfinished commits dropped"),
    };
    tracing::info!(
        "mounted {how}: {} blocks read in {:.1} ms{dropped}",
        report.blocks_read,
        took.as_secs_f64() * 1e3
    );
}
