//! One session: a connected socket, its side of the protocol, what it still has to be sent.

use super::budget::{self, SHORT, Stall};
use crate::adapter::{Answer, Fault, Request, Verb};
use crate::nbd::{Chunk, Command, Connection, Export, LARGE, NbdErrno, Reply, Ticket};
use crate::status::meter::{Measured, Sort};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown};
use seekless_engine::io::Extent;
use seekless_engine::units::{MILLIS, Time};
use std::io::IoSlice;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Requests of one connection in flight beyond which no more is taken from it.
const MOST_REQUESTS: usize = 1024;
/// Bytes received at once: little until a connection shows that it sends much.
const RECEIVE_LEAST: usize = 16 << 10;
const RECEIVE_MOST: usize = LARGE;
/// How long a client that has its last answers may go on sending before its connection is closed.
/// Closed before it has read everything, the socket would end with an error at its side.
pub const PARTING_NS: Time = 250 * MILLIS;
/// Pieces sent at once; the kernel takes at most 1,024.
const SEND_PIECES: usize = 128;

/// A connected socket.
#[derive(Debug)]
pub enum Stream {
    /// Of the same machine.
    Unix(UnixStream),
    /// Of the network.
    Tcp(TcpStream),
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// What became of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It has no more for now.
    Blocked,
    /// The other side has closed it or it failed.
    Closed(Option<Errno>),
}

/// One session.
#[derive(Debug)]
pub struct Session {
    /// Tells it from others that had or will have its key.
    pub number: u64,
    /// The other end, for messages.
    pub peer: String,
    /// When it was accepted.
    pub since: Time,
    pub stream: Stream,
    pub connection: Connection,
    /// It has chosen the export.
    pub negotiated: bool,
    /// Requests that have not been answered.
    pub in_flight: usize,
    /// Bytes of payload that they carry or will bring.
    pub bytes_in_flight: usize,
    /// Bytes of a request that has been admitted and is still being received, or 0.
    pub promised: usize,
    /// Bytes in its buffers when they were last counted.
    pub counted: usize,
    /// Nothing more is read: close once everything is answered and sent.
    pub leaving: bool,
    /// Since when it has been told that nothing more comes.
    pub parting: Option<Time>,
    /// What it wrote and did not flush is lost, and it has not heard of it.
    pub lost_writes: bool,
    /// It was full when there may have been more requests in its input.
    pub paused: bool,
    /// What the poller watches for.
    pub interest: EventFlags,
    receive: usize,
    /// Transfers in either direction.
    transfers: u64,
    stall: Stall,
}

impl Session {
    pub fn new(
        number: u64,
        (stream, peer): (Stream, String),
        export: Arc<Export>,
        since: Time,
    ) -> Session {
        Session {
            number,
            peer,
            since,
            stream,
            connection: Connection::new(export),
            negotiated: false,
            in_flight: 0,
            bytes_in_flight: 0,
            promised: 0,
            counted: 0,
            leaving: false,
            parting: None,
            paused: false,
            interest: EventFlags::empty(),
            receive: RECEIVE_LEAST,
            transfers: 0,
            stall: Stall::default(),
            lost_writes: false,
        }
    }

    /// True if the client must wait for answers before more of its requests are taken on.
    pub fn is_full(&self) -> bool {
        self.in_flight >= MOST_REQUESTS
    }

    /// Bytes that are held for the client; not 0 if it has a request in flight.
    pub fn held(&mut self) -> usize {
        self.in_flight + self.bytes_in_flight + self.connection.output().held()
    }

    /// Bytes in its buffers, those that are promised included.
    pub fn buffered(&mut self) -> usize {
        // A buffer that has grown is kept.
        let kept = if self.receive > RECEIVE_LEAST { self.receive } else { 0 };
        let input = self.connection.input().len().max(self.promised).max(kept);
        self.connection.output().held() + input
    }

    /// True if the client has not moved for long although it has much to fetch or to finish.
    pub fn is_stalled(&mut self, now: Time) -> bool {
        let owes = self.connection.output().held().max(self.promised) > SHORT;
        self.stall.look(owes, self.transfers, now)
    }

    /// What to watch for now.
    pub fn wants(&mut self) -> EventFlags {
        let mut flags = EventFlags::empty();
        if self.parting.is_some() || !self.leaving && !self.paused {
            flags |= EventFlags::IN;
        }
        if !self.connection.output().is_empty() {
            flags |= EventFlags::OUT;
        }
        flags
    }

    /// Receives once.
    ///
    /// # Errors
    /// Why there is nothing more.
    pub fn receive(&mut self) -> Result<(), Flow> {
        let wanted = self.connection.wanted();
        // What follows large payload must not share its memory.
        let budget = if self.promised > LARGE { wanted } else { wanted.max(self.receive) };
        let input = self.connection.input();
        input.reserve(budget);
        let before = input.len();
        match rustix::io::read(self.stream.as_fd(), &mut input.spare_capacity_mut()[..budget]) {
            Ok(([], _)) => Err(Flow::Closed(None)),
            Ok((received, _)) => {
                let count = received.len();
                // SAFETY: the system call has initialised `received`, the bytes right behind the
                // old end of the buffer.
                unsafe { input.set_len(before + count) };
                self.transfers += 1;
                if count >= self.receive {
                    self.receive = (self.receive * 2).min(RECEIVE_MOST);
                }
                Ok(())
            }
            Err(Errno::AGAIN | Errno::INTR) => Err(Flow::Blocked),
            Err(errno) => Err(Flow::Closed(Some(errno))),
        }
    }

    /// Tells the other side that nothing more comes; false if it is gone.
    pub fn part(&mut self, now: Time) -> bool {
        self.parting = Some(now);
        rustix::net::shutdown(self.stream.as_fd(), Shutdown::Write).is_ok()
    }

    /// True if the other side has had its time to hear that.
    pub fn has_parted(&self, now: Time) -> bool {
        self.parting.is_some_and(|since| now >= since + PARTING_NS)
    }

    /// Takes what comes after that, and says how it ended.
    pub fn discard(&mut self) -> Flow {
        let mut nowhere = [0; RECEIVE_LEAST];
        match rustix::io::read(self.stream.as_fd(), &mut nowhere[..]) {
            // Whether there is more, the poller knows.
            Ok(1..) | Err(Errno::AGAIN | Errno::INTR) => Flow::Blocked,
            Ok(0) => Flow::Closed(None),
            Err(errno) => Flow::Closed(Some(errno)),
        }
    }

    /// Sends as much as the socket takes.
    ///
    /// # Errors
    /// If the socket is closed.
    pub fn send(&mut self) -> Result<(), Flow> {
        while !self.connection.output().is_empty() {
            let sent = {
                let mut slices = [IoSlice::new(&[]); SEND_PIECES];
                let output = self.connection.output();
                let count = output.chunks_vectored(&mut slices);
                // A closed socket is an error here, not a signal to the process.
                let mut control = SendAncillaryBuffer::default();
                let flags = SendFlags::NOSIGNAL;
                rustix::net::sendmsg(self.stream.as_fd(), &slices[..count], &mut control, flags)
            };
            match sent {
                Ok(sent) => {
                    self.connection.output().advance(sent);
                    self.transfers += 1;
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Flow::Closed(Some(errno))),
            }
        }
        Ok(())
    }

    /// Counts a request in.
    pub fn begin(&mut self, ticket: &Ticket) {
        self.in_flight += 1;
        self.bytes_in_flight += weight(ticket);
    }

    /// Sends the answer to a request on its way.
    pub fn answer(&mut self, ticket: Ticket, answer: Answer) {
        self.in_flight -= 1;
        self.bytes_in_flight -= weight(&ticket);
        self.connection.reply(ticket, reply(answer));
    }
}

/// Bytes that a request holds in memory until it is answered.
pub fn weight(ticket: &Ticket) -> usize {
    budget::weight(ticket.command, ticket.length)
}

/// What is measured of a request that has come now.
pub fn measured(ticket: &Ticket, now: Time) -> Measured {
    let sort = match ticket.command {
        Command::Read => Sort::Read,
        Command::Write | Command::WriteZeroes => Sort::Write,
        Command::Flush => Sort::Flush,
        Command::Trim => Sort::Trim,
        _ => Sort::Other,
    };
    Measured { sort, bytes: ticket.length, since: now }
}

/// A request of the protocol as one of the byte-to-block adapter.
pub fn request<W>(request: crate::nbd::Request, who: W) -> Request<W> {
    let verb = match request.command {
        Command::Read => Verb::Read,
        Command::Write => Verb::Write(request.data),
        Command::Flush => Verb::Flush,
        Command::Trim => Verb::Trim,
        Command::WriteZeroes => Verb::Zero { keep_space: request.no_hole },
        Command::BlockStatus => Verb::Status { one: request.one },
        Command::Cache => Verb::Cache,
    };
    Request { who, verb, fua: request.fua, offset: request.offset, length: request.length }
}

fn reply(answer: Answer) -> Reply {
    match answer {
        Answer::Done => Reply::Done,
        Answer::Data(rope) => {
            let mut chunks = Vec::new();
            rope.runs(|length, bytes| {
                chunks.push(match bytes {
                    Some(bytes) => Chunk::Bytes(bytes),
                    // A read is never longer than the protocol's 32 bits.
                    None => Chunk::Hole(length as u32),
                });
            });
            Reply::Data(chunks)
        }
        Answer::Status(extents) => {
            let bits = |extent| if extent == Extent::Hole { 3 } else { 0 };
            Reply::Status(extents.into_iter().map(|(length, e)| (length, bits(e))).collect())
        }
        Answer::Error(fault, message) => {
            let errno = match fault {
                Fault::ReadOnly => NbdErrno::Perm,
                Fault::Invalid => NbdErrno::Inval,
                Fault::NoSpace => NbdErrno::NoSpace,
                Fault::Io => NbdErrno::Io,
                Fault::ShuttingDown => NbdErrno::Shutdown,
            };
            Reply::Error { errno, message }
        }
    }
}
