//! The bytes of a served volume as a file: each request goes to the server of this process over one
//! of some connections, which are made when they are first needed.

use crate::fuse::disks::{Bytes, Kind};
use crate::nbd::client::Client;
use seekless_engine::units::BLOCK_BYTES;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Longest request in bytes.
const MOST_BYTES: u64 = 1 << 30;

/// A served volume.
#[derive(Debug)]
pub(super) struct ServedBlocks {
    socket: PathBuf,
    size: u64,
    /// Connections that no request uses now.
    idle: Mutex<Vec<Client>>,
}

impl ServedBlocks {
    pub(super) fn new(socket: PathBuf, size: u64) -> ServedBlocks {
        ServedBlocks { socket, size, idle: Mutex::default() }
    }

    /// Has a request carried out. A connection on which it fails is given up, unless the server has
    /// answered.
    fn ask<T>(&self, request: impl FnOnce(&mut Client) -> io::Result<T>) -> io::Result<T> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let free = idle().pop();
        let mut client = match free {
            Some(client) => client,
            None => {
                let client = Client::connect(&self.socket)?;
                client.wait_forever()?;
                client
            }
        };
        let outcome = request(&mut client);
        let answered = outcome.as_ref().err().is_none_or(|error| error.raw_os_error().is_some());
        if answered {
            idle().push(client);
        }
        outcome
    }
}

impl Bytes for ServedBlocks {
    fn size(&self) -> u64 {
        self.size
    }

    fn kind(&self) -> Kind {
        Kind::Direct
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.ask(|client| client.read(offset, out))
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.ask(|client| client.write(offset, bytes, false))
    }

    fn flush(&self) -> io::Result<()> {
        self.ask(Client::flush)
    }

    fn discard(&self, offset: u64, length: u64, zero: bool) -> io::Result<()> {
        let whole = whole_blocks(offset, length).filter(|_| !zero);
        let (first, end) = whole.unwrap_or((offset + length, offset + length));
        self.write_zeros(offset, first)?;
        let mut at = first;
        while at < end {
            let count = (end - at).min(MOST_BYTES);
            // It fits: it is at most 2³⁰.
            self.ask(|client| client.trim(at, count as u32))?;
            at += count;
        }
        self.write_zeros(end, offset + length)
    }
}

impl ServedBlocks {
    fn write_zeros(&self, from: u64, to: u64) -> io::Result<()> {
        let zeros = vec![0; (to - from).min(1 << 20) as usize];
        let mut at = from;
        while at < to {
            let count = (to - at).min(zeros.len() as u64);
            self.write(at, &zeros[..count as usize])?;
            at += count;
        }
        Ok(())
    }
}

/// The whole blocks of a range, from their first byte to the end, if there are some.
fn whole_blocks(offset: u64, length: u64) -> Option<(u64, u64)> {
    let unit = BLOCK_BYTES as u64;
    let (first, end) = (offset.next_multiple_of(unit), (offset + length) / unit * unit);
    (first < end).then_some((first, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_blocks_are_trimmed() {
        assert_eq!(whole_blocks(0, 8192), Some((0, 8192)));
        assert_eq!(whole_blocks(512, 8192), Some((4096, 8192)));
        assert_eq!(whole_blocks(512, 4096), None);
        assert_eq!(whole_blocks(4096, 0), None);
    }
}
