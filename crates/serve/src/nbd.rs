//! The server side of the NBD protocol: bytes in, requests out; answers in, bytes out.
//!
//! Fixed newstyle negotiation, then requests with simple or structured replies. A [`Connection`]
//! does no I/O and keeps no clock, so it can be driven byte by byte in tests. Everything that a
//! client sends is checked here. If the protocol allows, an invalid request gets an error and the
//! connection continues. Otherwise [`Event::Failed`] gives the reason to close it.

pub mod client;
pub mod exercise;
mod negotiate;
mod output;
mod transmit;
pub mod uri;
pub mod wire;

pub use output::Output;

use bytes::{Bytes, BytesMut};
use std::sync::Arc;

/// The properties of a volume that clients learn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Name of the export; clients may also use the empty name.
    pub name: String,
    /// Description, one line.
    pub description: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// No writes.
    pub read_only: bool,
    /// Clients should order their requests.
    pub rotational: bool,
    /// A flush on one connection covers the writes answered on all connections.
    pub multi_conn: bool,
    /// Smallest request in bytes, a power of two.
    pub minimum_block: u32,
    /// Best unit of requests in bytes, a power of two.
    pub preferred_block: u32,
    /// Longest read or write in bytes.
    pub maximum_payload: u32,
}

/// Longer payload is received into its own allocation, which is freed with it. So the receive
/// buffer of a connection stays small.
pub const LARGE: usize = 512 << 10;

/// Commands of the transmission phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Read bytes.
    Read,
    /// Write bytes.
    Write,
    /// Make acknowledged writes durable.
    Flush,
    /// Trim bytes.
    Trim,
    /// Make bytes read as zeros.
    WriteZeroes,
    /// Report data and holes.
    BlockStatus,
    /// Prefetch.
    Cache,
}

/// A request whose form, range and permission have been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Chosen by the client, given back with the reply.
    pub cookie: u64,
    /// The command.
    pub command: Command,
    /// Acknowledge only when durable.
    pub fua: bool,
    /// Zeros must not become a hole.
    pub no_hole: bool,
    /// Zeros only if that is as fast as a trim. Refused together with `no_hole`, because the zeros
    /// must then be written.
    pub fast_zero: bool,
    /// The read must come in one chunk.
    pub dont_fragment: bool,
    /// One extent is enough.
    pub one: bool,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
    /// Payload; its length is `length`.
    pub data: Bytes,
}

/// The part of a request that its answer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Chosen by the client.
    pub cookie: u64,
    /// The command.
    pub command: Command,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
    /// The answer must come in one chunk.
    pub dont_fragment: bool,
}

impl Request {
    /// The part that the reply needs.
    pub fn ticket(&self) -> Ticket {
        let Request { cookie, command, offset, length, dont_fragment, .. } = *self;
        Ticket { cookie, command, offset, length, dont_fragment }
    }
}

/// Part of the result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// Bytes.
    Bytes(Bytes),
    /// That many zeros.
    Hole(u32),
}

/// Result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Success without payload.
    Done,
    /// The bytes read, in order.
    Data(Vec<Chunk>),
    /// Extents: length and the bits of `base:allocation` (1 hole, 2 reads as zeros).
    Status(Vec<(u32, u32)>),
    /// It failed.
    Error {
        /// Error number.
        errno: NbdErrno,
        /// Reason as text.
        message: String,
    },
}

/// Error numbers of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum NbdErrno {
    /// Not permitted.
    Perm = 1,
    /// The store failed.
    Io = 5,
    /// The request is invalid.
    Inval = 22,
    /// No space left.
    NoSpace = 28,
    /// Not supported.
    NotSup = 95,
    /// The server is shutting down.
    Shutdown = 108,
}

/// An event of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The client has chosen the export: requests follow.
    Negotiated,
    /// A request.
    Request(Request),
    /// The client has sent a disconnect request: answer the requests in flight, then close.
    Disconnected,
    /// The client broke the protocol: close, and log why.
    Failed(ProtocolError),
}

/// How a client broke the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A number that marks the beginning of a message is wrong.
    #[error("{place}: magic number {found:#x} where {expected:#x} belongs")]
    Magic {
        /// Which message.
        place: &'static str,
        /// The received number.
        found: u64,
        /// The expected number.
        expected: u64,
    },
    /// The client's flags are none that this server offered.
    #[error("client flags {0:#x} contain bits that were not offered")]
    ClientFlags(u32),
    /// An option is too long.
    #[error("option {option} carries {length} bytes, the limit is {limit}")]
    OptionTooLong {
        /// Its number.
        option: u32,
        /// Its length.
        length: u32,
        /// Longest one accepted.
        limit: u32,
    },
    /// Too many options without choosing an export.
    #[error("more than {0} options without choosing an export")]
    TooManyOptions(u32),
    /// There is no export of that name, and the option cannot be refused.
    #[error("unknown export `{0}`")]
    UnknownExport(String),
    /// A write longer than the announced limit.
    #[error("a write of {length} bytes, the limit is {limit}")]
    PayloadTooLong {
        /// Its length.
        length: u32,
        /// Longest one accepted.
        limit: u32,
    },
}

/// The next message that the connection expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    ClientFlags,
    Options,
    Transmission,
    Over,
}

/// The server side of one connection.
#[derive(Debug)]
pub struct Connection {
    export: Arc<Export>,
    phase: Phase,
    input: BytesMut,
    output: Output,
    no_zeroes: bool,
    structured: bool,
    /// The client asked for `base:allocation`.
    allocation: bool,
    options_seen: u32,
    /// Bytes of a refused write that still have to be skipped.
    skip: u64,
}

impl Connection {
    /// A new connection; the greeting is in its output.
    pub fn new(export: Arc<Export>) -> Connection {
        let mut connection = Connection {
            export,
            phase: Phase::ClientFlags,
            input: BytesMut::new(),
            output: Output::default(),
            no_zeroes: false,
            structured: false,
            allocation: false,
            options_seen: 0,
            skip: 0,
        };
        connection.greet();
        connection
    }

    /// Where the transport puts the bytes it receives: it appends.
    pub fn input(&mut self) -> &mut BytesMut {
        &mut self.input
    }

    /// Bytes for the transport to send.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// How many bytes are missing until the present message is complete, at least 1: a hint for
    /// how much to receive.
    pub fn wanted(&self) -> usize {
        let header = match self.phase {
            Phase::ClientFlags => 4,
            Phase::Options => negotiate::wanted(&self.input),
            Phase::Transmission => transmit::wanted(&self.input, self.export.maximum_payload),
            Phase::Over => 1,
        };
        header.saturating_sub(self.input.len()).max(1)
    }

    /// True once the export is chosen.
    pub fn is_transmitting(&self) -> bool {
        self.phase == Phase::Transmission
    }

    /// The next event in the bytes received so far; `None` if more are needed.
    pub fn poll(&mut self) -> Option<Event> {
        self.poll_admitting(|_, _| true)
    }

    /// The same with admission control. `admits` is called with the kind and length of a request
    /// before it is taken, and before the payload of a write is complete. If it returns false, the
    /// result is `None`, and the request stays in the input.
    pub fn poll_admitting(&mut self, admits: impl FnMut(Command, u32) -> bool) -> Option<Event> {
        let event = match self.phase {
            Phase::ClientFlags => self.client_flags(),
            Phase::Options => self.next_option(),
            Phase::Transmission => self.next_request(admits),
            Phase::Over => {
                self.input.clear();
                None
            }
        };
        if matches!(event, Some(Event::Disconnected | Event::Failed(_))) {
            self.phase = Phase::Over;
        }
        event
    }
}

#[cfg(test)]
mod tests;
