//! Listening, and the URI that clients connect to.

use super::{Listen, MOST_PATH_BYTES, ServeError, systemd};
use crate::driver::Listener;
use crate::nbd::uri::Uri;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Removes the socket from the file system when dropped, unless another has taken its place.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: Identity,
}

impl SocketFile {
    fn new(path: &Path) -> io::Result<SocketFile> {
        Ok(SocketFile { path: path.to_owned(), identity: identity(path)? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            // A leftover is replaced by the next server.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Device, inode and time of creation: numbers of inodes are used again, and permissions may have
/// been changed since.
type Identity = (u64, u64, i64, i64);

fn identity(path: &Path) -> io::Result<Identity> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino(), found.mtime(), found.mtime_nsec()))
}

/// Listens, without accepting yet: the socket, its file if it has one, and the URI for clients.
pub fn listen(at: &Listen) -> Result<(Listener, Option<SocketFile>, String), ServeError> {
    match at {
        Listen::Unix(path) => {
            let failed = |source| ServeError::Listen { at: path.display().to_string(), source };
            let listener = bind_unix(path)?;
            let socket = SocketFile::new(path).map_err(failed)?;
            listener.set_nonblocking(true)?;
            let uri = Uri::unix(path).to_string();
            Ok((Listener::Unix(listener), Some(socket), uri))
        }
        Listen::Tcp { address, exposed } => {
            let failed = |source| ServeError::Listen { at: address.clone(), source };
            if !is_address(address) {
                return Err(ServeError::BadAddress(address.clone()));
            }
            let found = resolve(address).map_err(failed)?;
            if !exposed && !found.iter().all(is_loopback) {
                return Err(ServeError::Exposed(format!("--listen {address}")));
            }
            let listener = TcpListener::bind(&found[..]).map_err(failed)?;
            listener.set_nonblocking(true)?;
            let uri = format!("nbd://{}", listener.local_addr()?);
            Ok((Listener::Tcp(listener), None, uri))
        }
        Listen::Systemd { exposed } => {
            let (listener, uri) = passed(systemd::socket()?, *exposed)?;
            Ok((listener, None, uri))
        }
    }
}

/// A socket that listens already, and its URI. Its file, if it has one, belongs to the process that
/// made it.
fn passed(socket: OwnedFd, exposed: bool) -> Result<(Listener, String), ServeError> {
    let listener = UnixListener::from(socket);
    // The standard library refuses an address of another family.
    if let Ok(address) = listener.local_addr() {
        listener.set_nonblocking(true)?;
        let path = address.as_pathname().ok_or(ServeError::NotActivated(0))?;
        let uri = Uri::unix(path).to_string();
        return Ok((Listener::Unix(listener), uri));
    }
    let listener = TcpListener::from(OwnedFd::from(listener));
    let address = listener.local_addr()?;
    if !exposed && !is_loopback(&address) {
        return Err(ServeError::Exposed(format!("--systemd: {address}")));
    }
    listener.set_nonblocking(true)?;
    Ok((Listener::Tcp(listener), format!("nbd://{address}")))
}

/// The addresses of HOST:PORT.
fn resolve(address: &str) -> io::Result<Vec<SocketAddr>> {
    match localhost(address) {
        Some(found) => Ok(found),
        None => Ok(address.to_socket_addrs()?.collect()),
    }
}

/// The addresses of `localhost:PORT`, which RFC 6761 reserves. No resolver is asked: where no
/// /etc/hosts names it, as in an empty container, one asks the network, waits and fails.
fn localhost(address: &str) -> Option<Vec<SocketAddr>> {
    let (host, port) = address.rsplit_once(':')?;
    let port = port.parse().ok()?;
    let loopback = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let named = host.eq_ignore_ascii_case("localhost");
    named.then(|| loopback.map(|ip: IpAddr| SocketAddr::new(ip, port)).to_vec())
}

/// True for HOST:PORT, whether or not the host can be found.
fn is_address(text: &str) -> bool {
    let named = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
    text.parse::<SocketAddr>().is_ok() || text.rsplit_once(':').is_some_and(named)
}

/// True if only processes of this machine can connect.
fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Binds a path. A socket without a listener is left over and is replaced.
fn bind_unix(path: &Path) -> Result<UnixListener, ServeError> {
    let failed = |source| ServeError::Listen { at: path.display().to_string(), source };
    if path.as_os_str().len() > MOST_PATH_BYTES {
        return Err(ServeError::LongPath(path.to_owned()));
    }
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
        other => return other.map_err(failed),
    }
    if !std::fs::symlink_metadata(path).map_err(failed)?.file_type().is_socket() {
        return Err(ServeError::NotSocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        // A server listens, even if only with a full queue.
        Ok(_) => return Err(ServeError::SocketInUse(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Err(ServeError::SocketInUse(path.to_owned()));
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        Err(error) => return Err(failed(error)),
    }
    std::fs::remove_file(path).map_err(failed)?;
    UnixListener::bind(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_in_use_are_refused_and_stale_ones_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a b&c.sock");
        let at = Listen::Unix(path.clone());
        let (first, file, uri) = listen(&at).expect("listens");
        assert!(uri.ends_with("/a%20b%26c.sock"), "{uri}");
        assert!(matches!(listen(&at), Err(ServeError::SocketInUse(_))));
        // The process is gone, its socket file is not.
        drop(first);
        let (_second, second_file, _) = listen(&at).expect("replaces the stale one");
        // The first server's end must not take the second one's socket away.
        drop(file);
        assert!(path.exists());
        drop(second_file);
        assert!(!path.exists());
        std::fs::write(&path, b"precious").expect("writes");
        assert!(matches!(listen(&at), Err(ServeError::NotSocket(_))));
        assert_eq!(std::fs::read(&path).expect("still there"), b"precious");
    }

    #[test]
    fn addresses_in_use_and_senseless_ones_are_errors() {
        let tcp = |address: &str| Listen::Tcp { address: address.to_owned(), exposed: false };
        let (first, _, uri) = listen(&tcp("127.0.0.1:0")).expect("listens");
        let address = uri.strip_prefix("nbd://").expect("a URI");
        assert!(matches!(listen(&tcp(address)), Err(ServeError::Listen { .. })));
        for senseless in ["nowhere", ":10809", "127.0.0.1:", "127.0.0.1:65536", "[::1]"] {
            let refused = listen(&tcp(senseless));
            assert!(matches!(refused, Err(ServeError::BadAddress(_))), "{senseless}: {refused:?}");
        }
        drop(first);
    }

    #[test]
    fn other_machines_connect_only_if_they_may() {
        let tcp = |address: &str, exposed| {
            listen(&Listen::Tcp { address: address.to_owned(), exposed }).map(|(.., uri)| uri)
        };
        for open in ["0.0.0.0:0", "[::]:0", "192.0.2.7:0", "[::ffff:192.0.2.7]:0"] {
            let refused = tcp(open, false);
            assert!(matches!(refused, Err(ServeError::Exposed(_))), "{open}: {refused:?}");
        }
        assert!(tcp("0.0.0.0:0", true).is_ok());
        for own in ["127.0.0.1:0", "127.8.9.1:0", "localhost:0"] {
            assert!(tcp(own, false).is_ok(), "{own}");
        }
    }

    #[test]
    fn localhost_needs_no_table_of_hosts() {
        let shown = |address: &str| localhost(address).map(|found| format!("{found:?}"));
        for name in ["localhost:10809", "LocalHost:10809"] {
            assert_eq!(shown(name).as_deref(), Some("[127.0.0.1:10809, [::1]:10809]"), "{name}");
        }
        for other in ["example.org:10809", "localhost:65536", "localhost", "xlocalhost:1"] {
            assert_eq!(shown(other), None, "{other}");
        }
    }

    #[test]
    fn a_socket_that_listens_already_is_taken_over() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("passed.sock");
        let unix = UnixListener::bind(&path).expect("binds");
        let (_, uri) = passed(unix.into(), false).expect("a Unix socket");
        assert!(uri.ends_with("/passed.sock"), "{uri}");
        let tcp = |address: &str, exposed| {
            passed(TcpListener::bind(address).expect("binds").into(), exposed).map(|(_, uri)| uri)
        };
        assert!(tcp("127.0.0.1:0", false).expect("loopback").starts_with("nbd://127.0.0.1:"));
        assert!(matches!(tcp("0.0.0.0:0", false), Err(ServeError::Exposed(_))));
        assert!(tcp("0.0.0.0:0", true).is_ok());
    }
}
