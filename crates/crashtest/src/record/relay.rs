//! One connection of a recording proxy: two threads, one for each direction.
//!
//! Bytes are passed on unchanged. A request is on the tape before the server receives it, and its
//! answer before the client does. So a write is on the tape as answered before any flush that a
//! client sends after that answer.

use super::negotiate::{Agreed, negotiate};
use super::recorder::Recorder;
use super::tape::Request;
use seekless_serve::nbd::uri::{Socket, Uri};
use seekless_serve::nbd::wire::{
    REQUEST, SIMPLE_REPLY, STRUCTURED_REPLY, be16, be32, be64, chunk, command, command_flag,
};
use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes received or sent at once.
const BUFFER: usize = 256 << 10;
/// Longest write that is accepted, in bytes. Most servers accept at most 32 MiB.
const MOST_PAYLOAD: u32 = 256 << 20;

/// Why a connection ended before its client disconnected.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The client's side.
    #[error("the client: {0}")]
    Client(io::Error),
    /// The server's side.
    #[error("the server: {0}")]
    Server(io::Error),
    /// The client has closed the connection without a disconnect request.
    #[error("it ended without a disconnect request")]
    NoGoodbye,
    /// The server has closed it before the client disconnected.
    #[error("the server closed the connection with {open} requests unanswered ({source})")]
    Gone {
        /// Requests in flight.
        open: usize,
        /// The error that was reported.
        source: io::Error,
    },
    /// The recording.
    #[error("the recording: {0}")]
    Tape(io::Error),
    /// A message is malformed.
    #[error("{0} breaks the protocol")]
    Protocol(&'static str),
    /// The export has another size than at the start.
    #[error("the export has {now} bytes now, the recording began with {before}")]
    Size {
        /// At the start.
        before: u64,
        /// For this connection.
        now: u64,
    },
}

impl RelayError {
    /// True if the client lost its connection because of the server.
    fn is_the_servers(&self) -> bool {
        matches!(self, RelayError::Server(_) | RelayError::Gone { .. } | RelayError::Size { .. })
    }
}

/// What all connections share.
#[derive(Debug)]
pub struct Shared {
    upstream: Uri,
    size: u64,
    recorder: Arc<Recorder>,
    /// Connections that the server has ended.
    lost: AtomicU64,
}

impl Shared {
    /// For a recording of `upstream`, whose export has `size` bytes.
    pub(super) fn new(upstream: Uri, size: u64, recorder: Arc<Recorder>) -> Shared {
        Shared { upstream, size, recorder, lost: AtomicU64::new(0) }
    }

    pub(super) fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Records a request. An unrecorded message must not be passed on.
    fn request(&self, connection: u32, request: Request<'_>) -> Result<u64, RelayError> {
        self.recorder.request(connection, request).map_err(RelayError::Tape)
    }

    fn answer(&self, connection: u32, number: u64, errno: u32) -> Result<(), RelayError> {
        self.recorder.answer(connection, number, errno).map_err(RelayError::Tape)
    }
}

/// A request that the server has not answered.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Number on the tape, if the request is recorded.
    number: Option<u64>,
    /// Bytes that a simple reply brings.
    brings: u32,
    /// First error that a chunk of the reply has reported.
    errno: u32,
}

type Opens = Mutex<HashMap<u64, Open>>;

fn lock(opens: &Opens) -> MutexGuard<'_, HashMap<u64, Open>> {
    opens.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Relays a connection to its end.
///
/// # Errors
/// Why it ended, unless the client disconnected.
pub fn relay(shared: &Shared, client: Socket, number: u32) -> Result<(), RelayError> {
    relay_to_end(shared, client, number).inspect_err(|error| {
        shared.lost.fetch_add(error.is_the_servers().into(), Ordering::Relaxed);
    })
}

fn relay_to_end(shared: &Shared, client: Socket, number: u32) -> Result<(), RelayError> {
    let server = shared.upstream.connect().map_err(RelayError::Server)?;
    let (mut client, mut server) = (client, server);
    match negotiate(&mut client, &mut server, &shared.upstream.export)? {
        Agreed::Over => return Ok(()),
        Agreed::Transmission { size } if size != shared.size => {
            return Err(RelayError::Size { before: shared.size, now: size });
        }
        Agreed::Transmission { .. } => {}
    }
    let opens = Opens::default();
    let (to_client, to_server) = (
        client.try_clone().map_err(RelayError::Client)?,
        server.try_clone().map_err(RelayError::Server)?,
    );
    // One direction has ended.
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let back = scope.spawn(|| {
            let result = answers(shared, &server, to_client, number, &opens);
            let first = !over.swap(true, Ordering::SeqCst);
            // Whichever direction ends first ends the other one.
            client.hang_up();
            (result, first)
        });
        let there = requests(shared, &client, to_server, number, &opens);
        over.store(true, Ordering::SeqCst);
        match there {
            // The server answers what is in flight and then hangs up by itself.
            Ok(()) => {}
            Err(_) => server.hang_up(),
        }
        let (back, first) = back.join().unwrap_or((Err(RelayError::Protocol("a panic")), true));
        match (there, back) {
            // Usually the client disconnects first, and then the server closes.
            (Ok(()), _) => Ok(()),
            // The direction that failed first closed the other one.
            (Err(RelayError::Client(error)), Err(other)) if is_end(&error) => match other {
                RelayError::Server(source) if first => {
                    Err(RelayError::Gone { open: lock(&opens).len(), source })
                }
                RelayError::Server(_) => Err(RelayError::NoGoodbye),
                other => Err(other),
            },
            (Err(RelayError::Server(source)), _) => {
                Err(RelayError::Gone { open: lock(&opens).len(), source })
            }
            (Err(error), _) => Err(error),
        }
    })
}

fn is_end(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}

/// Passes requests on until the client disconnects.
fn requests(
    shared: &Shared,
    client: &Socket,
    server: Socket,
    connection: u32,
    opens: &Opens,
) -> Result<(), RelayError> {
    let client = client.try_clone().map_err(RelayError::Client)?;
    let mut client = BufReader::with_capacity(BUFFER, client);
    let mut server = BufWriter::with_capacity(BUFFER, server);
    let mut payload = Vec::new();
    loop {
        if client.buffer().is_empty() {
            server.flush().map_err(RelayError::Server)?;
        }
        let mut header = [0; 28];
        client.read_exact(&mut header).map_err(RelayError::Client)?;
        if be32(&header, 0) != REQUEST {
            return Err(RelayError::Protocol("the client's request"));
        }
        let (flags, kind) = (be16(&header, 4), be16(&header, 6));
        let (cookie, length) = (be64(&header, 8), be32(&header, 24));
        payload.clear();
        if kind == command::WRITE {
            if length > MOST_PAYLOAD {
                return Err(RelayError::Protocol("the length of a write"));
            }
            let taken = client.by_ref().take(u64::from(length)).read_to_end(&mut payload);
            let taken = taken.map_err(RelayError::Client)?;
            if taken < length as usize {
                return Err(RelayError::Client(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        if kind == command::DISC {
            server.write_all(&header).map_err(RelayError::Server)?;
            return server.flush().map_err(RelayError::Server);
        }
        let offset = be64(&header, 16);
        let request = request(kind, flags, offset, length, &payload);
        // The server refuses requests outside the export. They are no events of the disk.
        let inside = offset.checked_add(u64::from(length)).is_some_and(|end| end <= shared.size);
        let number = match request.filter(|_| inside) {
            Some(request) => Some(shared.request(connection, request)?),
            None => None,
        };
        let brings = if kind == command::READ { length } else { 0 };
        let open = Open { number, brings, errno: 0 };
        if lock(opens).insert(cookie, open).is_some() {
            return Err(RelayError::Protocol("the client's cookie, which is in use,"));
        }
        server.write_all(&header).map_err(RelayError::Server)?;
        server.write_all(&payload).map_err(RelayError::Server)?;
    }
}

/// The request in the form of the tape; `None` if it is not recorded.
fn request(kind: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> Option<Request<'_>> {
    let fua = flags & command_flag::FUA != 0;
    Some(match kind {
        command::WRITE => Request::Write { offset, data, fua },
        command::WRITE_ZEROES => {
            let no_hole = flags & command_flag::NO_HOLE != 0;
            Request::Zeros { offset, length, fua, no_hole }
        }
        command::TRIM => Request::Trim { offset, length, fua },
        command::FLUSH => Request::Flush,
        _ => return None,
    })
}

/// Passes answers on until the server hangs up.
fn answers(
    shared: &Shared,
    server: &Socket,
    client: Socket,
    connection: u32,
    opens: &Opens,
) -> Result<(), RelayError> {
    let server = server.try_clone().map_err(RelayError::Server)?;
    let mut server = BufReader::with_capacity(BUFFER, server);
    let mut client = BufWriter::with_capacity(BUFFER, client);
    loop {
        if server.buffer().is_empty() {
            client.flush().map_err(RelayError::Client)?;
        }
        let mut magic = [0; 4];
        server.read_exact(&mut magic).map_err(RelayError::Server)?;
        let (header, length) = match be32(&magic, 0) {
            SIMPLE_REPLY => simple(shared, &mut server, connection, opens)?,
            STRUCTURED_REPLY => structured(shared, &mut server, connection, opens)?,
            _ => return Err(RelayError::Protocol("the server's reply")),
        };
        client.write_all(&magic).map_err(RelayError::Client)?;
        client.write_all(&header).map_err(RelayError::Client)?;
        pass(&mut server, &mut client, length)?;
    }
}

/// Records a simple reply: the rest of its header, and the length of the payload.
fn simple(
    shared: &Shared,
    server: &mut impl Read,
    connection: u32,
    opens: &Opens,
) -> Result<(Vec<u8>, u64), RelayError> {
    let mut header = vec![0; 12];
    server.read_exact(&mut header).map_err(RelayError::Server)?;
    let (errno, cookie) = (be32(&header, 0), be64(&header, 4));
    let open = lock(opens).remove(&cookie);
    let open = open.ok_or(RelayError::Protocol("the server's reply to no request"))?;
    if let Some(number) = open.number {
        shared.answer(connection, number, errno)?;
    }
    Ok((header, if errno == 0 { u64::from(open.brings) } else { 0 }))
}

/// Records a chunk of a structured reply: the rest of its header, its error if there is one, and
/// the length of the payload.
fn structured(
    shared: &Shared,
    server: &mut impl Read,
    connection: u32,
    opens: &Opens,
) -> Result<(Vec<u8>, u64), RelayError> {
    let mut header = vec![0; 16];
    server.read_exact(&mut header).map_err(RelayError::Server)?;
    let (flags, kind, cookie) = (be16(&header, 0), be16(&header, 2), be64(&header, 4));
    let mut length = u64::from(be32(&header, 12));
    let mut errno = 0;
    if kind >> 15 == 1 && length >= 4 {
        let mut bytes = [0; 4];
        server.read_exact(&mut bytes).map_err(RelayError::Server)?;
        errno = be32(&bytes, 0);
        header.extend(bytes);
        length -= 4;
    }
    let unknown = RelayError::Protocol("the server's reply to no request");
    let mut opens = lock(opens);
    let Some(open) = opens.get_mut(&cookie) else { return Err(unknown) };
    open.errno = if open.errno == 0 { errno } else { open.errno };
    if flags & chunk::FLAG_DONE != 0 {
        let open = *open;
        opens.remove(&cookie);
        drop(opens);
        if let Some(number) = open.number {
            shared.answer(connection, number, open.errno)?;
        }
    }
    Ok((header, length))
}

/// Passes so many bytes on.
fn pass(
    from: &mut BufReader<Socket>,
    to: &mut BufWriter<Socket>,
    length: u64,
) -> Result<(), RelayError> {
    let mut left = length;
    while left > 0 {
        let part = from.fill_buf().map_err(RelayError::Server)?;
        if part.is_empty() {
            return Err(RelayError::Server(io::ErrorKind::UnexpectedEof.into()));
        }
        let count = part.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        to.write_all(&part[..count]).map_err(RelayError::Client)?;
        from.consume(count);
        left -= count as u64;
    }
    Ok(())
}

pub(super) fn read_u32(from: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

pub(super) fn read_u64(from: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}
