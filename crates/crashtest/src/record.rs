//! Recording: a proxy between NBD clients and any NBD server. It records every write, flush and
//! trim with its answer, so that every crash can be replayed later.
//!
//! Start with [`tape`] (the recording), then [`relay`] (one connection).

mod negotiate;
pub mod relay;
pub mod tape;

use relay::Shared;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use seekless_serve::driver::{Listener, Stream};
use seekless_serve::nbd::client::Client;
use seekless_serve::nbd::uri::{Socket, Uri};
use seekless_serve::nbd::wire::export_flag;
use seekless_serve::server::listen::{SocketFile, listen};
use seekless_serve::server::{Listen, ServeError};
use std::fs::{File, OpenOptions};
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
    let header =
        tape::Header { size_bytes: size, multi_conn: flags & export_flag::CAN_MULTI_CONN != 0 };
    let output = |source| RecordError::Output { path: options.output.clone(), source };
    // Threads that are started later inherit the blocked signals.
    let stop_fd = seekless_serve::signals::block_and_watch()?;
    // Listen before the output is opened: opening may overwrite an earlier recording.
    let (listener, socket, uri) = listen(&Listen::Unix(options.socket.clone()))?;
    let file = create(&options.output, options.force)?;
    let writer = tape::Writer::new(file, header).map_err(output)?;
    let broken = eventfd(0, EventfdFlags::CLOEXEC).map_err(io::Error::from)?;
    let shared = Arc::new(Shared::new(options.upstream.clone(), size, writer, broken));
    let connections = match ready(&uri) {
        ControlFlow::Continue(()) => accept_all(&shared, &listener, socket, &stop_fd)?,
        ControlFlow::Break(()) => 0,
    };
    let written = shared.finish().map_err(output)?;
    Ok(Recorded { connections, ..written })
}

fn create(path: &Path, force: bool) -> Result<File, RecordError> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(force).create_new(!force);
    options.open(path).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => RecordError::Exists(path.to_owned()),
        _ => RecordError::Output { path: path.to_owned(), source },
    })
}

/// A connection being relayed: its thread, and a handle that ends it.
struct Running(JoinHandle<()>, Socket);

/// Accepts until a signal arrives or the recording fails, then ends every connection.
fn accept_all(
    shared: &Arc<Shared>,
    listener: &Listener,
    socket: Option<SocketFile>,
    stop_fd: &OwnedFd,
) -> Result<u64, RecordError> {
    let mut running: Vec<Running> = Vec::new();
    let mut count = 0;
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stop_fd.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(shared.broken(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(io::Error::from(errno).into()),
        }
        if !fds[1].revents().is_empty() || !fds[2].revents().is_empty() {
            break;
        }
        let Ok((stream, peer)) = listener.accept() else { continue };
        count += 1;
        running.retain(|one| !one.0.is_finished());
        match start(shared, stream, count) {
            Ok(one) => running.push(one),
            Err(error) => eprintln!("seekless: connection {count} of {peer}: {error}"),
        }
    }
    drop(socket);
    for Running(thread, stream) in running {
        stream.hang_up();
        if thread.join().is_err() {
            eprintln!("seekless: the thread of a connection panicked");
        }
    }
    Ok(count)
}

fn start(shared: &Arc<Shared>, stream: Stream, number: u64) -> io::Result<Running> {
    rustix::io::ioctl_fionbio(stream.as_fd(), false)?;
    let client = match stream {
        Stream::Unix(stream) => Socket::Unix(stream),
        Stream::Tcp(stream) => Socket::Tcp(stream),
    };
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
