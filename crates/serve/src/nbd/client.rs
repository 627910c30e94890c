//! A small NBD client for the demonstration, the tests and `record`, without a dependency on
//! another one.
//!
//! It speaks the fixed newstyle handshake with `NBD_OPT_GO` and simple replies, one request at a
//! time, or several reads ([`Client::send_read`]). The protocol is described at
//! <https://github.com/NetworkBlockDevice/nbd>.

use super::uri::{Socket, Uri};
use super::wire::{
    IHAVEOPT, NBDMAGIC, OPTION_REPLY, REQUEST, SIMPLE_REPLY, command, command_flag, info, option,
    option_reply,
};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

/// Timeout for a server that does not answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection in transmission phase.
#[derive(Debug)]
pub struct Client {
    stream: Socket,
    size_bytes: u64,
    flags: u16,
    next_handle: u64,
}

/// The error of a request that the server refused: the value of `errno` in its answer.
fn refused(errno: u32) -> io::Error {
    io::Error::from_raw_os_error(i32::try_from(errno).unwrap_or(i32::MAX))
}

fn protocol(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the server breaks the protocol: {what}"))
}

impl Client {
    /// Connects to the default export behind a Unix socket.
    ///
    /// # Errors
    /// If no server listens there, or the handshake fails.
    pub fn connect(socket: &Path) -> io::Result<Client> {
        Client::open(&Uri::unix(socket))
    }

    /// Connects to an export.
    ///
    /// # Errors
    /// If no server listens there, or the handshake fails.
    pub fn open(uri: &Uri) -> io::Result<Client> {
        let stream = uri.connect()?;
        stream.set_patience(Some(PATIENCE))?;
        let mut client = Client { stream, size_bytes: 0, flags: 0, next_handle: 1 };
        client.handshake(&uri.export)?;
        Ok(client)
    }

    /// Waits for answers however long they take.
    ///
    /// # Errors
    /// What the socket reports.
    pub fn wait_forever(&self) -> io::Result<()> {
        self.stream.set_patience(None)
    }

    /// Size of the export.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Transmission flags of the export.
    pub fn flags(&self) -> u16 {
        self.flags
    }

    fn handshake(&mut self, export: &str) -> io::Result<()> {
        if self.u64()? != NBDMAGIC || self.u64()? != IHAVEOPT {
            return Err(protocol("greeting"));
        }
        let server_flags = self.u16()?;
        // Fixed newstyle without the 124 zeros, if the server supports that.
        let client_flags = u32::from(server_flags & 3);
        let mut hello = client_flags.to_be_bytes().to_vec();
        hello.extend(IHAVEOPT.to_be_bytes());
        hello.extend(option::GO.to_be_bytes());
        let name = u32::try_from(export.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        // No information requests.
        hello.extend((name + 6).to_be_bytes());
        hello.extend(name.to_be_bytes());
        hello.extend(export.as_bytes());
        hello.extend([0; 2]);
        self.stream.write_all(&hello)?;
        loop {
            if self.u64()? != OPTION_REPLY || self.u32()? != option::GO {
                return Err(protocol("reply to an option"));
            }
            let (kind, length) = (self.u32()?, self.u32()?);
            if length > 1 << 16 {
                return Err(protocol("length of a reply"));
            }
            let mut body = vec![0; length as usize];
            self.stream.read_exact(&mut body)?;
            match kind {
                option_reply::ACK => return Ok(()),
                option_reply::INFO => self.learn(&body)?,
                _ => {
                    let said = String::from_utf8_lossy(&body).into_owned();
                    return Err(io::Error::other(format!("the server refuses: {said}")));
                }
            }
        }
    }

    fn learn(&mut self, body: &[u8]) -> io::Result<()> {
        let number = |from: usize, count: usize| -> io::Result<u64> {
            let bytes = body.get(from..from + count).ok_or_else(|| protocol("short reply"))?;
            Ok(bytes.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
        };
        if number(0, 2)? == u64::from(info::EXPORT) {
            self.size_bytes = number(2, 8)?;
            self.flags = number(10, 2)? as u16;
        }
        Ok(())
    }

    fn u16(&mut self) -> io::Result<u16> {
        let mut bytes = [0; 2];
        self.stream.read_exact(&mut bytes)?;
        Ok(u16::from_be_bytes(bytes))
    }

    fn u32(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.stream.read_exact(&mut bytes)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn u64(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.stream.read_exact(&mut bytes)?;
        Ok(u64::from_be_bytes(bytes))
    }

    /// Sends a request and returns the number that its answer carries.
    fn send(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        length: u32,
        payload: &[u8],
    ) -> io::Result<u64> {
        let handle = self.next_handle;
        self.next_handle += 1;
        let mut message = Vec::with_capacity(28 + payload.len());
        message.extend(REQUEST.to_be_bytes());
        message.extend(flags.to_be_bytes());
        message.extend(command.to_be_bytes());
        message.extend(handle.to_be_bytes());
        message.extend(offset.to_be_bytes());
        message.extend(length.to_be_bytes());
        message.extend(payload);
        self.stream.write_all(&message)?;
        Ok(handle)
    }

    /// Waits for the head of an answer: the request that it is for.
    fn answered(&mut self) -> io::Result<u64> {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head)?;
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        if number(&head[..4]) != u64::from(SIMPLE_REPLY) {
            return Err(protocol("reply"));
        }
        match number(&head[4..8]) {
            0 => Ok(number(&head[8..])),
            errno => Err(refused(errno as u32)),
        }
    }

    /// Sends a request and waits for its answer, whose payload fills `answer`.
    fn request(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        length: u32,
        payload: &[u8],
        answer: &mut [u8],
    ) -> io::Result<()> {
        let handle = self.send(command, flags, offset, length, payload)?;
        if self.answered()? != handle {
            return Err(protocol("reply to another request"));
        }
        self.stream.read_exact(answer)
    }

    /// Requests `length` bytes from `offset` without waiting. [`Client::receive_read`] takes the
    /// answer. Until it has taken all answers, only reads may be sent.
    ///
    /// # Errors
    /// Broken connections.
    pub fn send_read(&mut self, offset: u64, length: u32) -> io::Result<u64> {
        self.send(command::READ, 0, offset, length, &[])
    }

    /// Waits for the next answer to [`Client::send_read`], which fills `out`, and returns its
    /// number. All reads in flight must have this length.
    ///
    /// # Errors
    /// An error answer of the server; broken connections.
    pub fn receive_read(&mut self, out: &mut [u8]) -> io::Result<u64> {
        let handle = self.answered()?;
        self.stream.read_exact(out)?;
        Ok(handle)
    }

    /// Fills `out` from `offset`.
    ///
    /// # Errors
    /// An error answer of the server; broken connections.
    pub fn read(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let length = u32::try_from(out.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.request(command::READ, 0, offset, length, &[], out)
    }

    /// Writes `bytes` at `offset`; with `fua` they are durable when this returns.
    ///
    /// # Errors
    /// An error answer of the server; broken connections.
    pub fn write(&mut self, offset: u64, bytes: &[u8], fua: bool) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let flags = if fua { command_flag::FUA } else { 0 };
        self.request(command::WRITE, flags, offset, length, bytes, &mut [])
    }

    /// Makes all answered writes durable.
    ///
    /// # Errors
    /// An error answer of the server; broken connections.
    pub fn flush(&mut self) -> io::Result<()> {
        self.request(command::FLUSH, 0, 0, 0, &[], &mut [])
    }

    /// Trims a range; it reads as zeros afterwards.
    ///
    /// # Errors
    /// An error answer of the server; broken connections.
    pub fn trim(&mut self, offset: u64, length: u32) -> io::Result<()> {
        self.request(command::TRIM, 0, offset, length, &[], &mut [])
    }

    /// Sends a disconnect request and closes the connection.
    ///
    /// # Errors
    /// Broken connections.
    pub fn disconnect(mut self) -> io::Result<()> {
        let mut message = Vec::with_capacity(28);
        message.extend(REQUEST.to_be_bytes());
        message.extend([0, 0, 0, 2]);
        message.extend([0; 20]);
        self.stream.write_all(&message)
    }
}
