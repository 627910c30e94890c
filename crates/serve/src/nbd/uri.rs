//! The address of an NBD server: its URI, and a blocking socket to it.
//!
//! The form is that of <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/uri.md>, without
//! encryption: `nbd+unix:///EXPORT?socket=PATH` and `nbd://HOST[:PORT]/EXPORT`.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The port that IANA has given to NBD.
const PORT: u16 = 10809;

/// An NBD server and one of its exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    /// Where the server listens.
    pub place: Place,
    /// Name of the export; empty for the default one.
    pub export: String,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A Unix socket at this path.
    Unix(PathBuf),
    /// HOST:PORT.
    Tcp(String),
}

/// Why a text is not such a URI; the message says what is expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` {why}; write nbd+unix:///EXPORT?socket=PATH or nbd://HOST:PORT/EXPORT (EXPORT may \
     be empty)"
)]
pub struct BadUri {
    text: String,
    why: &'static str,
}

impl FromStr for Uri {
    type Err = BadUri;

    fn from_str(text: &str) -> Result<Uri, BadUri> {
        let bad = |why| BadUri { text: text.to_owned(), why };
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(bad("is not a URI"));
        };
        let (front, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = front.split_once('/').unwrap_or((front, ""));
        let export = decoded(path).ok_or_else(|| bad("has an invalid % escape"))?;
        let export = String::from_utf8(export).map_err(|_| bad("names no export in UTF-8"))?;
        match scheme {
            "nbd+unix" => {
                let socket = query.split('&').find_map(|part| part.strip_prefix("socket="));
                let socket = socket.filter(|socket| !socket.is_empty());
                let socket = socket.ok_or_else(|| bad("names no socket"))?;
                let path = decoded(socket).ok_or_else(|| bad("has an invalid % escape"))?;
                Ok(Uri { place: Place::Unix(OsString::from_vec(path).into()), export })
            }
            "nbd" | "nbd+tcp" if !authority.is_empty() => {
                let bare = authority.rsplit(']').next().unwrap_or(authority);
                let host = match bare.contains(':') {
                    true => authority.to_owned(),
                    false => format!("{authority}:{PORT}"),
                };
                Ok(Uri { place: Place::Tcp(host), export })
            }
            "nbd" | "nbd+tcp" => Err(bad("names no host")),
            "nbds" | "nbds+unix" | "nbds+tcp" => {
                Err(bad("asks for encryption, which is not supported"))
            }
            _ => Err(bad("is no NBD URI")),
        }
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let export = encoded(self.export.as_bytes());
        match &self.place {
            Place::Unix(path) => {
                write!(f, "nbd+unix:///{export}?socket={}", encoded(path.as_os_str().as_bytes()))
            }
            Place::Tcp(host) if export.is_empty() => write!(f, "nbd://{host}"),
            Place::Tcp(host) => write!(f, "nbd://{host}/{export}"),
        }
    }
}

impl Uri {
    /// The default export behind a Unix socket.
    pub fn unix(socket: &Path) -> Uri {
        Uri { place: Place::Unix(socket.to_owned()), export: String::new() }
    }

    /// Connects, without a handshake.
    ///
    /// # Errors
    /// If no server listens there.
    pub fn connect(&self) -> io::Result<Socket> {
        match &self.place {
            Place::Unix(path) => Ok(Socket::Unix(UnixStream::connect(path)?)),
            Place::Tcp(host) => {
                let stream = TcpStream::connect(host)?;
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }
        }
    }
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let value = digit()? << 4 | digit()?;
        out.push(value as u8);
    }
    Some(out)
}

/// Bytes as they may stand in a URI.
pub(crate) fn encoded(bytes: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let encode = |&byte: &u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    bytes.iter().map(encode).collect()
}

/// A connected socket in blocking style.
#[derive(Debug)]
pub enum Socket {
    /// Of the same machine.
    Unix(UnixStream),
    /// Of the network.
    Tcp(TcpStream),
}

impl Socket {
    /// Another handle to the same connection.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn try_clone(&self) -> io::Result<Socket> {
        Ok(match self {
            Socket::Unix(stream) => Socket::Unix(stream.try_clone()?),
            Socket::Tcp(stream) => Socket::Tcp(stream.try_clone()?),
        })
    }

    /// Ends the connection in both directions, for all handles. A thread that waits on a handle
    /// wakes up.
    pub fn hang_up(&self) {
        // It may have ended by itself.
        let _ = match self {
            Socket::Unix(stream) => stream.shutdown(Shutdown::Both),
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    /// How long a read or write may take; `None` is forever.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn set_patience(&self, patience: Option<std::time::Duration>) -> io::Result<()> {
        match self {
            Socket::Unix(stream) => {
                stream.set_read_timeout(patience)?;
                stream.set_write_timeout(patience)
            }
            Socket::Tcp(stream) => {
                stream.set_read_timeout(patience)?;
                stream.set_write_timeout(patience)
            }
        }
    }
}

impl Read for Socket {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => stream.read(out),
            Socket::Tcp(stream) => stream.read(out),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => stream.write(bytes),
            Socket::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_read_and_written() {
        let unix: Uri = "nbd+unix:///a%20b?socket=/tmp/x%26y.sock".parse().expect("it works");
        assert_eq!(unix.export, "a b");
        assert_eq!(unix.place, Place::Unix("/tmp/x&y.sock".into()));
        assert_eq!(unix.to_string(), "nbd+unix:///a%20b?socket=/tmp/x%26y.sock");
        for (text, host, export) in [
            ("nbd://localhost", "localhost:10809", ""),
            ("nbd://10.0.0.1:99/disk", "10.0.0.1:99", "disk"),
            ("nbd://[::1]/d", "[::1]:10809", "d"),
            ("nbd://[::1]:7", "[::1]:7", ""),
        ] {
            let uri: Uri = text.parse().expect("it works");
            assert_eq!((uri.place, &*uri.export), (Place::Tcp(host.into()), export), "{text}");
        }
    }

    #[test]
    fn senseless_uris_say_what_is_wrong() {
        for (text, why) in [
            ("/tmp/sock", "is not a URI"),
            ("http://x/", "is no NBD URI"),
            ("nbds://host", "encryption"),
            ("nbd+unix:///x", "no socket"),
            ("nbd:///x", "no host"),
            ("nbd+unix:///%zz?socket=a", "% escape"),
        ] {
            let error = text.parse::<Uri>().expect_err("it is refused").to_string();
            assert!(error.contains(why) && error.contains("; write nbd+unix"), "{error}");
        }
    }
}
