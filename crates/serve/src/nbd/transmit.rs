//! The transmission phase: requests, and replies in both forms.

use super::wire::{
    REQUEST, SIMPLE_REPLY, STRUCTURED_REPLY, be16, be32, be64, chunk, command, command_flag,
};
use super::{
    Chunk, Command, Connection, Event, LARGE, NbdErrno, ProtocolError, Reply, Request, Ticket,
};
use bytes::{Buf, Bytes, BytesMut};
use smallvec::{SmallVec, smallvec};

const HEADER: usize = 28;
/// Longest error message.
const MESSAGE_LIMIT: usize = 4096;

/// Length of the request that the input begins with, as far as it is known.
pub(super) fn wanted(input: &[u8], limit: u32) -> usize {
    if input.len() < HEADER {
        return HEADER;
    }
    match be16(input, 6) {
        command::WRITE => HEADER + be32(input, 24).min(limit) as usize,
        _ => HEADER,
    }
}

/// The fixed part of a request.
#[derive(Clone, Copy, Debug)]
struct Header {
    flags: u16,
    number: u16,
    cookie: u64,
    offset: u64,
    length: u32,
}

impl Connection {
    pub(super) fn next_request(
        &mut self,
        mut admits: impl FnMut(Command, u32) -> bool,
    ) -> Option<Event> {
        loop {
            if self.skip > 0 {
                let now = self.skip.min(self.input.len() as u64);
                self.input.advance(now as usize);
                self.skip -= now;
            }
            if self.skip > 0 || self.input.len() < HEADER {
                return None;
            }
            let magic = be32(&self.input, 0);
            if magic != REQUEST {
                return Some(Event::Failed(ProtocolError::Magic {
                    place: "request",
                    found: u64::from(magic),
                    expected: u64::from(REQUEST),
                }));
            }
            let header = Header {
                flags: be16(&self.input, 4),
                number: be16(&self.input, 6),
                cookie: be64(&self.input, 8),
                offset: be64(&self.input, 16),
                length: be32(&self.input, 24),
            };
            if let Some(outcome) = self.request(header, &mut admits)? {
                return Some(outcome);
            }
        }
    }

    /// Takes one request off the input: `None` if its payload is not complete or it is not
    /// admitted, `Some(None)` if it was refused.
    fn request(
        &mut self,
        header: Header,
        admits: &mut impl FnMut(Command, u32) -> bool,
    ) -> Option<Option<Event>> {
        let Header { number, cookie, offset, length, .. } = header;
        let mut data = Bytes::new();
        if number == command::WRITE {
            let limit = self.export.maximum_payload;
            if length > limit {
                let error = ProtocolError::PayloadTooLong { length, limit };
                return Some(Some(Event::Failed(error)));
            }
            if let Err((errno, why)) = self.check(header) {
                self.input.advance(HEADER);
                self.skip = u64::from(length);
                self.fail(cookie, errno, why);
                return Some(None);
            }
            let complete = self.input.len() >= HEADER + length as usize;
            if !admits(Command::Write, length) || !complete {
                return None;
            }
            self.input.advance(HEADER);
            data = self.payload(length as usize);
        } else {
            if number == command::DISC {
                self.input.advance(HEADER);
                return Some(Some(Event::Disconnected));
            }
            if let Err((errno, why)) = self.check(header) {
                self.input.advance(HEADER);
                self.fail(cookie, errno, why);
                return Some(None);
            }
            if !admits(command_of(number)?, length) {
                return None;
            }
            self.input.advance(HEADER);
        }
        let has = |flag: u16| header.flags & flag != 0;
        Some(Some(Event::Request(Request {
            cookie,
            command: command_of(number)?,
            fua: has(command_flag::FUA),
            no_hole: has(command_flag::NO_HOLE),
            fast_zero: has(command_flag::FAST_ZERO),
            dont_fragment: has(command_flag::DF),
            one: has(command_flag::REQ_ONE),
            offset,
            length,
            data,
        })))
    }

    /// Takes payload off the input.
    fn payload(&mut self, length: usize) -> Bytes {
        let data = self.input.split_to(length).freeze();
        if length > LARGE {
            // Both share their memory, so the connection would keep it. Few bytes behind such a
            // payload are received with it, so copying them is cheap.
            self.input = BytesMut::from(&self.input[..]);
        }
        data
    }

    /// Checks a request for errors that leave the connection usable.
    fn check(&self, header: Header) -> Result<(), (NbdErrno, &'static str)> {
        let Header { flags, number, offset, length, .. } = header;
        let Some(command) = command_of(number) else {
            return Err((NbdErrno::Inval, "unknown command"));
        };
        let writes = matches!(command, Command::Write | Command::Trim | Command::WriteZeroes);
        let allowed = match command {
            Command::Write | Command::Trim => command_flag::FUA,
            Command::WriteZeroes => {
                command_flag::FUA | command_flag::NO_HOLE | command_flag::FAST_ZERO
            }
            Command::Read if self.structured => command_flag::DF | command_flag::FUA,
            Command::BlockStatus => command_flag::REQ_ONE | command_flag::FUA,
            // The server must ignore FUA where it has no effect.
            Command::Read | Command::Flush | Command::Cache => command_flag::FUA,
        };
        if flags & !allowed != 0 {
            return Err((NbdErrno::Inval, "the command does not allow a flag"));
        }
        if writes && self.export.read_only {
            return Err((NbdErrno::Perm, "the export is read-only"));
        }
        if command == Command::Flush {
            return match (offset, length) {
                (0, 0) => Ok(()),
                _ => Err((NbdErrno::Inval, "a flush takes no range")),
            };
        }
        if command == Command::BlockStatus && (!self.allocation || length == 0) {
            return Err((NbdErrno::Inval, "no context was negotiated, or the range is empty"));
        }
        let limit = self.export.maximum_payload;
        if matches!(command, Command::Read | Command::Cache) && length > limit {
            return Err((NbdErrno::Inval, "the request is longer than the largest block size"));
        }
        match offset.checked_add(u64::from(length)) {
            Some(end) if end <= self.export.size_bytes => {}
            // A trim needs no space, so this error does not apply to it.
            _ if writes && command != Command::Trim => {
                return Err((NbdErrno::NoSpace, "the range lies past the end"));
            }
            _ => return Err((NbdErrno::Inval, "the range lies past the end")),
        }
        let unit = u64::from(self.export.minimum_block.max(1));
        if !offset.is_multiple_of(unit) || !u64::from(length).is_multiple_of(unit) {
            return Err((NbdErrno::Inval, "the range is not a multiple of the minimum block size"));
        }
        let reserves = command_flag::FAST_ZERO | command_flag::NO_HOLE;
        if flags & reserves == reserves {
            return Err((NbdErrno::NotSup, "zeros that keep their space are no faster than data"));
        }
        Ok(())
    }

    fn fail(&mut self, cookie: u64, errno: NbdErrno, why: &str) {
        match self.structured {
            true => self.structured_error(cookie, errno, why),
            false => self.simple(cookie, errno as u32),
        }
    }

    /// Sends the answer to a request.
    ///
    /// # Panics
    /// If the answer does not fit the request: data of another length, data for anything but a
    /// read, extents for anything but a status. The client could not tell where the next reply
    /// begins.
    pub fn reply(&mut self, ticket: Ticket, reply: Reply) {
        let cookie = ticket.cookie;
        let fits = match &reply {
            Reply::Done => ticket.command != Command::BlockStatus,
            Reply::Data(_) => ticket.command == Command::Read,
            Reply::Status(extents) => ticket.command == Command::BlockStatus && !extents.is_empty(),
            Reply::Error { .. } => true,
        };
        assert!(fits, "{reply:?} answers no {:?}", ticket.command);
        match reply {
            Reply::Data(chunks) => self.data(ticket, chunks),
            Reply::Done if ticket.command == Command::Read => self.data(ticket, Vec::new()),
            Reply::Done => self.simple(cookie, 0),
            Reply::Status(extents) => self.status(cookie, &extents),
            Reply::Error { errno, message } => self.fail(cookie, errno, &message),
        }
    }

    fn data(&mut self, ticket: Ticket, mut chunks: Vec<Chunk>) {
        let length: u64 = chunks.iter().map(|chunk| u64::from(chunk_length(chunk))).sum();
        assert_eq!(length, u64::from(ticket.length), "a read of another length was answered");
        if self.structured {
            // Chunks of no bytes are forbidden.
            chunks.retain(|chunk| chunk_length(chunk) > 0);
            return self.structured_data(ticket, chunks);
        }
        self.simple(ticket.cookie, 0);
        for chunk in chunks {
            self.put_chunk(chunk);
        }
    }

    fn put_chunk(&mut self, chunk: Chunk) {
        match chunk {
            Chunk::Bytes(bytes) => self.output.payload(bytes),
            Chunk::Hole(count) => self.output.zeros(count as usize),
        }
    }

    fn simple(&mut self, cookie: u64, errno: u32) {
        let mut header = [0; 16];
        header[0..4].copy_from_slice(&SIMPLE_REPLY.to_be_bytes());
        header[4..8].copy_from_slice(&errno.to_be_bytes());
        header[8..16].copy_from_slice(&cookie.to_be_bytes());
        self.output.put(&header);
    }

    fn chunk_header(&mut self, cookie: u64, flags: u16, kind: u16, length: u32) {
        let mut header = [0; 20];
        header[0..4].copy_from_slice(&STRUCTURED_REPLY.to_be_bytes());
        header[4..6].copy_from_slice(&flags.to_be_bytes());
        header[6..8].copy_from_slice(&kind.to_be_bytes());
        header[8..16].copy_from_slice(&cookie.to_be_bytes());
        header[16..20].copy_from_slice(&length.to_be_bytes());
        self.output.put(&header);
    }

    /// Neighbouring bytes go in one chunk; holes in chunks of their own, unless the client wants
    /// all in one.
    fn structured_data(&mut self, ticket: Ticket, chunks: Vec<Chunk>) {
        let mut at = ticket.offset;
        let mut chunks = chunks.into_iter().peekable();
        if chunks.peek().is_none() {
            self.chunk_header(ticket.cookie, chunk::FLAG_DONE, chunk::NONE, 0);
        }
        while let Some(first) = chunks.next() {
            let mut group: SmallVec<[Chunk; 2]> = smallvec![first];
            let joins = |next: &Chunk, group: &[Chunk]| {
                let bytes = |one: &Chunk| matches!(one, Chunk::Bytes(_));
                ticket.dont_fragment || (bytes(next) && group.iter().all(bytes))
            };
            while let Some(next) = chunks.next_if(|next| joins(next, &group)) {
                group.push(next);
            }
            let flags = if chunks.peek().is_none() { chunk::FLAG_DONE } else { 0 };
            let length: u32 = group.iter().map(chunk_length).sum();
            match group.as_slice() {
                [Chunk::Hole(count)] if !ticket.dont_fragment => {
                    self.chunk_header(ticket.cookie, flags, chunk::OFFSET_HOLE, 12);
                    self.output.put(&at.to_be_bytes());
                    self.output.put(&count.to_be_bytes());
                }
                _ => {
                    self.chunk_header(ticket.cookie, flags, chunk::OFFSET_DATA, length + 8);
                    self.output.put(&at.to_be_bytes());
                    for one in group {
                        self.put_chunk(one);
                    }
                }
            }
            at += u64::from(length);
        }
    }

    fn status(&mut self, cookie: u64, extents: &[(u32, u32)]) {
        let length = 4 + 8 * extents.len() as u32;
        self.chunk_header(cookie, chunk::FLAG_DONE, chunk::BLOCK_STATUS, length);
        self.output.put(&Connection::allocation_id().to_be_bytes());
        for (length, flags) in extents {
            self.output.put(&length.to_be_bytes());
            self.output.put(&flags.to_be_bytes());
        }
    }

    fn structured_error(&mut self, cookie: u64, errno: NbdErrno, message: &str) {
        let mut end = message.len().min(MESSAGE_LIMIT);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        let message = &message.as_bytes()[..end];
        self.chunk_header(cookie, chunk::FLAG_DONE, chunk::ERROR, 6 + message.len() as u32);
        self.output.put(&(errno as u32).to_be_bytes());
        self.output.put(&(message.len() as u16).to_be_bytes());
        self.output.put(message);
    }
}

fn chunk_length(chunk: &Chunk) -> u32 {
    match chunk {
        Chunk::Bytes(bytes) => bytes.len() as u32,
        Chunk::Hole(count) => *count,
    }
}

fn command_of(number: u16) -> Option<Command> {
    Some(match number {
        command::READ => Command::Read,
        command::WRITE => Command::Write,
        command::FLUSH => Command::Flush,
        command::TRIM => Command::Trim,
        command::CACHE => Command::Cache,
        command::WRITE_ZEROES => Command::WriteZeroes,
        command::BLOCK_STATUS => Command::BlockStatus,
        _ => return None,
    })
}
