//! Where connections come from.

use super::session::Stream;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// In the file system.
    Unix(UnixListener),
    /// A port.
    Tcp(TcpListener),
}

impl Listener {
    /// Accepts a connection: the socket, non-blocking, and the name of its other end for messages.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if no connection waits, and what the operating system says.
    pub fn accept(&self) -> io::Result<(Stream, String)> {
        let (stream, peer) = match self {
            Listener::Unix(listener) => {
                let stream = listener.accept()?.0;
                let peer = rustix::net::sockopt::socket_peercred(&stream)
                    .map(|found| format!("pid {}", found.pid.as_raw_nonzero()))
                    .unwrap_or_else(|_| "a process".to_owned());
                (Stream::Unix(stream), peer)
            }
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                stream.set_nodelay(true)?;
                (Stream::Tcp(stream), peer.to_string())
            }
        };
        rustix::io::ioctl_fionbio(stream.as_fd(), true)?;
        Ok((stream, peer))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }
}
