//! Where processes that serve can be found: each has a socket in one directory of its user.
//!
//! The directory is `$SEEKLESS_RUNTIME_DIR`, else `seekless` below `$XDG_RUNTIME_DIR`, else
//! `/run/seekless` for root and `/tmp/seekless-UID` for others. Only its owner may enter it.

use super::{Control, ask, ask_within};
use crate::status::Report;
use serde_json::{Value, json};
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Servers of one process that are registered at most.
const MOST_OF_ONE: u32 = 16;

/// The directory, whether it is there or not.
pub fn directory() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(dir) = set("SEEKLESS_RUNTIME_DIR") {
        return dir.into();
    }
    if let Some(dir) = set("XDG_RUNTIME_DIR") {
        return Path::new(&dir).join("seekless");
    }
    match rustix::process::geteuid().as_raw() {
        0 => PathBuf::from("/run/seekless"),
        user => PathBuf::from(format!("/tmp/seekless-{user}")),
    }
}

/// Makes the directory if it is not there.
///
/// # Errors
/// If it cannot be made, or another user may change what is in it.
fn make(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = std::fs::symlink_metadata(dir)?;
    if !found.is_dir() || !is_private(&found) {
        let why = "it is not a directory that only its owner may write to";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

fn is_private(found: &Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0
}

/// Has this process found: `control` listens on a socket in the directory.
///
/// # Errors
/// If the directory or the socket cannot be made.
pub fn register(control: &mut Control) -> io::Result<()> {
    let dir = directory();
    make(&dir)?;
    let pid = std::process::id();
    for number in 1..=MOST_OF_ONE {
        let name = if number == 1 { format!("{pid}") } else { format!("{pid}-{number}") };
        match control.listen(&dir.join(name).with_extension("sock")) {
            Ok(()) => return Ok(()),
            Err(crate::server::ServeError::SocketInUse(_)) => {}
            Err(error) => return Err(io::Error::other(error.to_string())),
        }
    }
    Err(io::Error::other("this process serves too many volumes"))
}

/// A place for a socket of this process that is not asked how it is.
///
/// # Errors
/// If the directory cannot be made.
pub fn private_socket() -> io::Result<PathBuf> {
    let dir = directory();
    make(&dir)?;
    Ok(dir.join(format!("{}.nbd", std::process::id())))
}

/// A process that serves.
#[derive(Clone, Debug)]
pub struct Found {
    /// Where it is asked.
    pub socket: PathBuf,
    /// What it said.
    pub report: Report,
}

/// All processes of this user that serve, by number. Sockets that nothing listens on any longer
/// are removed.
pub fn all() -> Vec<Found> {
    let dir = directory();
    let private = std::fs::symlink_metadata(&dir).is_ok_and(|found| is_private(&found));
    let Ok(entries) = std::fs::read_dir(&dir) else { return Vec::new() };
    if !private {
        return Vec::new();
    }
    let mut found = Vec::new();
    for entry in entries.flatten().filter(|entry| is_socket_name(&entry.path())) {
        let socket = entry.path();
        match report(&socket) {
            Ok(report) => found.push(Found { socket, report }),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = std::fs::remove_file(&socket);
                let _ = std::fs::remove_file(socket.with_extension("nbd"));
            }
            Err(_) => {}
        }
    }
    found.sort_by_key(|one| one.report.pid);
    found
}

fn is_socket_name(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sock")
}

/// Asks a process how it is.
///
/// # Errors
/// If none listens there, or the answer is none.
pub fn report(socket: &Path) -> io::Result<Report> {
    as_report(ask(socket, &json!({ "command": "status" }))?)
}

/// Asks the process of this number, which may be too busy to answer in that time.
///
/// # Errors
/// As for [`report`].
pub(crate) fn report_of(pid: u32, patience: Duration) -> io::Result<Report> {
    let socket = directory().join(format!("{pid}.sock"));
    as_report(ask_within(&socket, &json!({ "command": "status" }), Some(patience))?)
}

fn as_report(answer: Value) -> io::Result<Report> {
    serde_json::from_value(answer).map_err(|error| {
        io::Error::new(io::ErrorKind::InvalidData, format!("this is no status: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_directory_that_others_may_change_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let inner = dir.path().join("inner");
        assert!(make(&inner).is_ok(), "it is made");
        assert!(make(&inner).is_ok(), "it is there");
        std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o777)).expect("changes");
        assert!(make(&inner).is_err(), "others may put sockets there");
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("writes");
        assert!(make(&file).is_err(), "a file");
        let missing = dir.path().join("not/there");
        assert!(make(&missing).is_err(), "without its parent");
    }
}
