//! What systemd and a service say to each other: the socket that systemd opened, and the news that
//! the server is ready.
//!
//! Both are environment variables and one datagram (`sd_listen_fds(3)`, `sd_notify(3)`), so no
//! library is needed. A process that systemd has not started has none of the variables: it finds no
//! socket, and its news go nowhere.

use super::ServeError;
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::sockopt::socket_acceptconn;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The first descriptor that systemd passes.
const FIRST: RawFd = 3;
/// The manager may start clients.
pub(super) const READY: &str = "READY=1";
/// A clean shutdown has begun.
pub(super) const STOPPING: &str = "STOPPING=1";

/// The one socket that systemd passed to this process.
///
/// # Errors
/// If it passed none, several, or one that does not listen.
pub(super) fn socket() -> Result<OwnedFd, ServeError> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    // A child inherits the variables, but they name its parent.
    let ours = number("LISTEN_PID") == Some(std::process::id());
    match number("LISTEN_FDS").filter(|_| ours) {
        Some(1) => {}
        passed => return Err(ServeError::NotActivated(passed.unwrap_or(0))),
    }
    // SAFETY: systemd opened this descriptor before it started the process, and nothing closes it.
    let passed = unsafe { BorrowedFd::borrow_raw(FIRST) };
    if !socket_acceptconn(passed).map_err(io::Error::from)? {
        return Err(ServeError::NotActivated(0));
    }
    // Programs that this process starts must not keep the socket open.
    fcntl_setfd(passed, FdFlags::CLOEXEC).map_err(io::Error::from)?;
    Ok(fcntl_dupfd_cloexec(passed, 0).map_err(io::Error::from)?)
}

/// Tells the service manager, if there is one. A manager that does not listen is no reason to stop:
/// clients are served all the same.
pub(super) fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&path, state) {
        tracing::warn!("cannot tell the service manager {state}: {error}");
    }
}

/// Sends one datagram. A path that begins with `@` is a name in the abstract namespace.
fn send(path: &OsStr, state: &str) -> io::Result<()> {
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(path)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(manager: &UnixDatagram) -> String {
        let mut state = [0; 64];
        let length = manager.recv(&mut state).expect("a datagram");
        String::from_utf8_lossy(&state[..length]).into_owned()
    }

    #[test]
    fn the_manager_hears_of_paths_and_of_abstract_names() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("binds");
        send(path.as_os_str(), READY).expect("sends");
        assert_eq!(heard(&manager), READY);
        let name = format!("seekless-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let manager = UnixDatagram::bind_addr(&address).expect("binds");
        send(OsStr::new(&format!("@{name}")), STOPPING).expect("sends");
        assert_eq!(heard(&manager), STOPPING);
        assert!(send(dir.path().join("gone").as_os_str(), READY).is_err());
    }

    #[test]
    fn a_process_that_systemd_has_not_started_has_no_socket() {
        assert!(matches!(socket(), Err(ServeError::NotActivated(0))));
    }
}
