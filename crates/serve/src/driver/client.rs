//! One connection: its socket, its side of the protocol, what it still has to be sent.

use crate::edge::{Answer, Fault, Request, Verb};
use crate::nbd::{Chunk, Command, Connection, Export, NbdErrno, Reply, Ticket};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use seekless_engine::layer::Extent;
use std::io::IoSlice;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Requests of one connection in flight, and bytes waiting for it, beyond which no more is read
/// from it.
const MOST_REQUESTS: usize = 1024;
const MOST_OUTPUT: usize = 64 << 20;
/// Bytes received at once.
const RECEIVE: usize = 256 << 10;

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

/// One connection.
#[derive(Debug)]
pub struct Client {
    pub stream: Stream,
    pub connection: Connection,
    /// Requests that have not been answered.
    pub in_flight: usize,
    /// Nothing more is read: close once everything is answered and sent.
    pub leaving: bool,
    /// What the poller watches for.
    pub interest: EventFlags,
}

impl Client {
    pub fn new(stream: Stream, export: Arc<Export>) -> Client {
        Client {
            stream,
            connection: Connection::new(export),
            in_flight: 0,
            leaving: false,
            interest: EventFlags::empty(),
        }
    }

    /// True if the client must wait before it may send more.
    pub fn is_full(&mut self) -> bool {
        self.in_flight >= MOST_REQUESTS || self.connection.output().len() >= MOST_OUTPUT
    }

    /// What to watch for now.
    pub fn wants(&mut self) -> EventFlags {
        let mut flags = EventFlags::empty();
        if !self.leaving && !self.is_full() {
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
        let wanted = self.connection.wanted().max(RECEIVE);
        let input = self.connection.input();
        input.reserve(wanted);
        let before = input.len();
        match rustix::io::read(self.stream.as_fd(), input.spare_capacity_mut()) {
            Ok(([], _)) => Err(Flow::Closed(None)),
            Ok((received, _)) => {
                let length = before + received.len();
                // SAFETY: the system call has initialised `received`, the bytes right behind the
                // old end of the buffer.
                unsafe { input.set_len(length) };
                Ok(())
            }
            Err(Errno::AGAIN | Errno::INTR) => Err(Flow::Blocked),
            Err(errno) => Err(Flow::Closed(Some(errno))),
        }
    }

    /// Sends as much as the socket takes.
    ///
    /// # Errors
    /// If the socket is closed.
    pub fn send(&mut self) -> Result<(), Flow> {
        while !self.connection.output().is_empty() {
            let sent = {
                let mut slices = [IoSlice::new(&[]); 64];
                let output = self.connection.output();
                let count = output.chunks_vectored(&mut slices);
                rustix::io::writev(self.stream.as_fd(), &slices[..count])
            };
            match sent {
                Ok(sent) => self.connection.output().advance(sent),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Flow::Closed(Some(errno))),
            }
        }
        Ok(())
    }

    /// Sends the answer to a request on its way.
    pub fn answer(&mut self, ticket: Ticket, answer: Answer) {
        self.in_flight -= 1;
        self.connection.reply(ticket, reply(answer));
    }
}

/// A request of the protocol as one of the edge.
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
