//! A server: opens what is to be served, listens, runs the driver, ends in good order.

mod signals;

use crate::device::file::{DeviceError, FileDevice, IoMode};
use crate::device::medium::FileMedium;
use crate::driver::{Driver, Listener, Parts, Served};
use crate::image::{self, ImageError};
use crate::nbd::Export;
use seekless_disk::{Disk as SimulatedDisk, Spec, SpecError};
use seekless_engine::device::Device;
use seekless_engine::device::medium::{Flat, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::IoError;
use seekless_engine::layout::{
    self, FormatOptions, Kind, LayoutError, MountOptions, MountPath, MountReport,
};
use seekless_engine::node::Node;
use seekless_engine::superblock::Superblock;
use seekless_engine::units::BLOCK_BYTES;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
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
    /// Answer at the pace of this disk.
    pub disk: Option<Spec>,
    /// Refuse writes.
    pub read_only: bool,
    /// Who carries out I/O on a file.
    pub io: IoMode,
    /// Bypass the page cache.
    pub direct: bool,
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
    device_fd: Option<OwnedFd>,
    rotational: bool,
    /// Keeps the lock of an image whose bytes a simulated disk holds.
    _image: Option<image::Image>,
}

/// Serves until SIGINT or SIGTERM. `ready` hears the URI for clients once connections are accepted.
///
/// # Errors
/// See [`ServeError`].
pub fn serve(options: &ServeOptions, ready: &mut dyn FnMut(&str)) -> Result<Served, ServeError> {
    let mounted = mount(options)?;
    let signal_fd = signals::block_and_watch()?;
    let (listener, uri) = listen(&options.listen)?;
    let Mounted { node, superblock, device_fd, rotational, _image } = mounted;
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
        device_fd,
        signal_fd,
        most_connections: options.most_connections,
    };
    ready(&uri);
    let served = Driver::new(parts)?.run();
    if let Listen::Unix(path) = &options.listen {
        let _ = std::fs::remove_file(path);
    }
    let served = served?;
    match served.latched {
        Some(reason) => Err(ServeError::Failed(reason)),
        None => Ok(served),
    }
}

fn mount(options: &ServeOptions) -> Result<Mounted, ServeError> {
    match &options.source {
        Source::Memory { kind, blocks } => memory(options, *kind, *blocks),
        Source::Image(path) => from_image(options, path),
    }
}

fn random_id() -> io::Result<u128> {
    let mut id = [0; 16];
    rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())?;
    Ok(u128::from_le_bytes(id))
}

/// A volume in memory, on a plain device or on a simulated disk.
fn memory(options: &ServeOptions, kind: Kind, blocks: u64) -> Result<Mounted, ServeError> {
    let device_blocks = match &options.disk {
        Some(spec) => spec.capacity_blocks(),
        None => kind.device_blocks(blocks),
    };
    let mut medium: Box<dyn Medium> = Box::new(Flat::new(device_blocks));
    let id = random_id()?;
    layout::format(&mut MediumDisk(medium.as_mut()), &FormatOptions { kind, blocks, id })?;
    let Some(spec) = &options.disk else {
        let mount = MountOptions { volatile: true, ..mount_options(options) };
        let (layer, superblock, _) = layout::mount(&mut MediumDisk(medium.as_mut()), &mount)?;
        let node = Node::new(layer, vec![Box::new(Ram::volatile(medium))], 1);
        return Ok(Mounted { node, superblock, device_fd: None, rotational: false, _image: None });
    };
    simulated(options, spec, medium, None)
}

/// A volume on a simulated disk whose bytes are in `medium`.
fn simulated(
    options: &ServeOptions,
    spec: &Spec,
    mut medium: Box<dyn Medium>,
    image: Option<image::Image>,
) -> Result<Mounted, ServeError> {
    // The mechanics alone; the disk itself needs the medium.
    let mechanics = seekless_disk::mechanics::Mechanics::new(spec)?;
    if medium.blocks() != spec.capacity_blocks() && medium.blocks() > spec.capacity_blocks() {
        return Err(SimulatedDisk::new(spec, medium).err().map_or_else(
            || io::Error::other("the image does not fit the disk").into(),
            ServeError::from,
        ));
    }
    let mount = MountOptions { arm: Some(&mechanics), ..mount_options(options) };
    let started = Instant::now();
    let (layer, superblock, report) = layout::mount(&mut MediumDisk(medium.as_mut()), &mount)?;
    log_mount(&report, started.elapsed());
    let disk = SimulatedDisk::new(spec, medium)?;
    let node = Node::new(layer, vec![Box::new(disk)], 1);
    Ok(Mounted { node, superblock, device_fd: None, rotational: true, _image: image })
}

fn mount_options(options: &ServeOptions) -> MountOptions<'static> {
    MountOptions { read_only: options.read_only, ..MountOptions::default() }
}

fn from_image(options: &ServeOptions, path: &Path) -> Result<Mounted, ServeError> {
    let mut image = image::open(path, options.read_only)?;
    if let Some(spec) = &options.disk {
        let blocks = image.blocks();
        // The simulated disk must have the tracks that the layout places its blocks on; what the
        // image lacks of them reads as zeros and is never used.
        let medium = Box::new(FileMedium::new(image.handle()?, blocks));
        return simulated(options, spec, medium, Some(image));
    }
    let mount = MountOptions { volatile: true, ..mount_options(options) };
    let started = Instant::now();
    let mounted = layout::mount(&mut image, &mount);
    let (layer, superblock, report) = mounted.map_err(|error| image.blame(error))?;
    log_mount(&report, started.elapsed());
    let device = FileDevice::new(image, options.io, options.direct)?;
    let device_fd = Some(device.wait_fd()?);
    let boxed: Box<dyn Device> = Box::new(device);
    let node = Node::new(layer, vec![boxed], 1);
    Ok(Mounted { node, superblock, device_fd, rotational: false, _image: None })
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

fn listen(at: &Listen) -> Result<(Listener, String), ServeError> {
    match at {
        Listen::Unix(path) => {
            let listener = bind_unix(path)?;
            listener.set_nonblocking(true)?;
            let uri = format!("nbd+unix:///?socket={}", percent_encoded(path));
            Ok((Listener::Unix(listener), uri))
        }
        Listen::Tcp(address) => {
            let failed = |source| ServeError::Listen { at: address.clone(), source };
            let listener = TcpListener::bind(address).map_err(failed)?;
            listener.set_nonblocking(true)?;
            let uri = format!("nbd://{}", listener.local_addr()?);
            Ok((Listener::Tcp(listener), uri))
        }
    }
}

/// Binds a path. A socket that nobody listens on any more is left over and is replaced.
fn bind_unix(path: &Path) -> Result<UnixListener, ServeError> {
    let failed = |source| ServeError::Listen { at: path.display().to_string(), source };
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
        other => return other.map_err(failed),
    }
    use std::os::unix::fs::FileTypeExt as _;
    if !std::fs::symlink_metadata(path).map_err(failed)?.file_type().is_socket() {
        return Err(ServeError::NotSocket(path.to_owned()));
    }
    if UnixStream::connect(path).is_ok() {
        return Err(ServeError::SocketInUse(path.to_owned()));
    }
    std::fs::remove_file(path).map_err(failed)?;
    UnixListener::bind(path).map_err(failed)
}

fn percent_encoded(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let encode = |&byte: &u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    path.as_os_str().as_bytes().iter().map(encode).collect()
}
