//! Recording: a proxy between NBD clients and any NBD server. It records every write, flush and
//! trim with its answer, so that every crash can be replayed later.
//!
//! Start with [`tape`] (the recording) and [`recorder`] (which threads share), then [`relay`] (one
//! connection).
//!
//! Without NBD, a [`disk::RecordedDisk`] and a [`marks::MarkFile`] are files of one
//! [`DiskDirectory`](seekless_serve::fuse::disks::DiskDirectory) over the same recorder:
//!
//! ```text
//! let recorder = Recorder::create(&tape, size, force)?;
//! let directory = DiskDirectory::mount_at(&point)?;
//! let disk = RecordedDisk::new(Arc::clone(&recorder), copy_of_the_base, size)?;
//! let (_, disk) = directory.insert_named("disk", Arc::new(Node::Disk(disk)))?;
//! let acks = MarkFile::new(Arc::clone(&recorder));
//! let (_, acks) = directory.insert_named("acks", Arc::new(Node::Acks(acks)))?;
//! ```

pub mod acks;
pub mod disk;
pub mod marks;
mod negotiate;
pub mod recorder;
pub mod relay;
pub mod tape;

use recorder::Recorder;
use relay::Shared;
use rustix::event::{PollFd, PollFlags, poll};
use seekless_serve::driver::{Listener, Stream};
use seekless_serve::nbd::client::Client;
use seekless_serve::nbd::uri::{Socket, Uri};
use seekless_serve::nbd::wire::export_flag;
use seekless_serve::server::listen::{SocketFile, listen};
use seekless_serve::server::{Listen, ServeError};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// What to record, and where.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The server whose export is recorded.
    pub upstream: Uri,
    /// Where clients connect.
    pub socket: PathBuf,
    /// Where programs send acknowledgements.
    pub acks: Option<PathBuf>,
    /// The recording.
    pub output: PathBuf,
    /// Replace an existing file.
    pub force: bool,
}

/// The result of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Connections accepted.
    pub connections: u64,
    /// Connections for which the server could not be reached, or that it closed before the client
    /// disconnected. The last requests of their clients have failed.
    pub lost: u64,
    /// Requests in the recording.
    pub requests: u64,
    /// Acknowledgements in the recording.
    pub marks: u64,
    /// Bytes of the recording.
    pub bytes: u64,
}

/// Why a recording could not begin, or failed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The server that is to be recorded.
    #[error("cannot record {uri}: {source}")]
    Upstream {
        /// Path of the recording.
        uri: String,
        /// Why.
        source: io::Error,
    },
    /// The recording exists.
    #[error("{} exists; --force replaces it", .0.display())]
    Exists(PathBuf),
    /// The recording cannot be written.
    #[error(
        "cannot write the recording {}: {source}; what was written before is usable",
        .path.display()
    )]
    Output {
        /// The recording.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The socket.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The system refuses a resource that every proxy needs.
    #[error("cannot record: {0}")]
    Os(#[from] io::Error),
}

/// Records until SIGINT, SIGTERM or SIGHUP. `ready` gets the URI for clients once connections are
/// accepted, and may stop the recording.
///
/// # Errors
/// See [`RecordError`].
pub fn record(
    options: &RecordOptions,
    ready: &mut dyn FnMut(&str) -> ControlFlow<()>,
) -> Result<Recorded, RecordError> {
    let upstream = |source| RecordError::Upstream { uri: options.upstream.to_string(), source };
    let probe = Client::open(&options.upstream).map_err(upstream)?;
    let (size, flags) = (probe.size_bytes(), probe.flags());
    // Close it: some servers accept one connection only, and the client's is next.
    drop(probe.disconnect());
    let multi_conn = flags & export_flag::CAN_MULTI_CONN != 0;
    let header = tape::Header { size_bytes: size, multi_conn, second: None };
    let output = |source| RecordError::Output { path: options.output.clone(), source };
    // Threads that are started later inherit the blocked signals.
    let stop_fd = seekless_serve::signals::block_and_watch()?;
    // Listen before the output is opened: opening may overwrite an earlier recording.
    let (clients, uri) = Door::at(&options.socket)?;
    let acks = options.acks.as_deref().map(Door::at).transpose()?.map(|(door, _)| door);
    let recorder = Recorder::with_header(&options.output, header, options.force)?;
    let shared = Arc::new(Shared::new(options.upstream.clone(), size, Arc::clone(&recorder)));
    let connections = match ready(&uri) {
        ControlFlow::Continue(()) => accept_all(&shared, clients, acks, &stop_fd)?,
        ControlFlow::Break(()) => 0,
    };
    let written = recorder.finish().map_err(output)?;
    Ok(Recorded { connections, lost: shared.lost(), ..written })
}

/// A socket that listens.
struct Door {
    listener: Listener,
    /// Removes the socket from the file system in the end.
    _file: Option<SocketFile>,
}

impl Door {
    /// The door at a path, and the URI of it.
    fn at(path: &Path) -> Result<(Door, String), ServeError> {
        let (listener, file, uri) = listen(&Listen::Unix(path.to_owned()))?;
        Ok((Door { listener, _file: file }, uri))
    }
}

/// A connection: its thread, and a handle that ends it.
struct Running(JoinHandle<()>, Socket);

impl Running {
    fn end(self) {
        self.1.hang_up();
        if self.0.join().is_err() {
            eprintln!("seekless: the thread of a connection panicked");
        }
    }
}

/// Accepts until a signal arrives or the recording fails, then ends every connection. Gives the
/// number of clients.
fn accept_all(
    shared: &Arc<Shared>,
    clients: Door,
    acks: Option<Door>,
    stop_fd: &OwnedFd,
) -> Result<u64, RecordError> {
    let mut running: Vec<Running> = Vec::new();
    let mut count = 0;
    loop {
        let watch = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let broken = shared.recorder().broken();
        let mut fds = vec![watch(stop_fd.as_fd()), watch(broken), watch(clients.listener.as_fd())];
        fds.extend(acks.as_ref().map(|door| watch(door.listener.as_fd())));
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(io::Error::from(errno).into()),
        }
        if !fds[0].revents().is_empty() || !fds[1].revents().is_empty() {
            break;
        }
        running.retain(|one| !one.0.is_finished());
        // Neither listener blocks.
        if let Some((stream, peer)) = acks.as_ref().and_then(|door| door.listener.accept().ok()) {
            match start_acks(shared.recorder(), stream) {
                Ok(one) => running.push(one),
                Err(error) => eprintln!("seekless: acknowledgements of {peer}: {error}"),
            }
        }
        let Ok((stream, peer)) = clients.listener.accept() else { continue };
        count += 1;
        match start(shared, stream, count) {
            Ok(one) => running.push(one),
            Err(error) => eprintln!("seekless: connection {count} of {peer}: {error}"),
        }
    }
    drop((clients, acks));
    running.into_iter().for_each(Running::end);
    Ok(count)
}

/// A socket of a connection that blocks.
fn blocking(stream: Stream) -> io::Result<Socket> {
    rustix::io::ioctl_fionbio(stream.as_fd(), false)?;
    Ok(match stream {
        Stream::Unix(stream) => Socket::Unix(stream),
        Stream::Tcp(stream) => Socket::Tcp(stream),
    })
}

/// Starts the thread that takes the acknowledgements of a program.
fn start_acks(recorder: &Arc<Recorder>, stream: Stream) -> io::Result<Running> {
    let program = blocking(stream)?;
    let (handle, recorder) = (program.try_clone()?, Arc::clone(recorder));
    let body = move || {
        if let Err(error) = acks::take(&recorder, &program) {
            eprintln!("seekless: acknowledgements ended: {error}");
        }
        program.hang_up();
    };
    let thread = std::thread::Builder::new().name("acknowledgements".to_owned()).spawn(body)?;
    Ok(Running(thread, handle))
}

fn start(shared: &Arc<Shared>, stream: Stream, number: u64) -> io::Result<Running> {
    let client = blocking(stream)?;
    let (handle, closing) = (client.try_clone()?, client.try_clone()?);
    let shared = Arc::clone(shared);
    // A connection has a 32-bit number in the recording.
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let body = move || {
        let result = relay::relay(&shared, client, number);
        // Else the handle keeps the socket open, and a client whose thread did not start would
        // wait.
        closing.hang_up();
        match result {
            Ok(()) => eprintln!("seekless: connection {number} closed"),
            Err(error) => eprintln!("seekless: connection {number} closed: {error}"),
        }
    };
    let thread = std::thread::Builder::new().name(format!("connection {number}")).spawn(body)?;
    Ok(Running(thread, handle))
}
