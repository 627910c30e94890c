//! Which process serves something: an image, a socket or a directory names it.

use crate::failure::{Exit, Failure};
use seekless_serve::control::registry::{self, Found};
use seekless_serve::nbd::uri::{Place, Uri};
use seekless_serve::status::Report;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// The process that serves `what`; none if it is there and not served.
///
/// # Errors
/// If there is no such thing, or it is a socket on which none of ours listens.
pub fn find(what: &Path) -> Result<Option<Found>, Failure> {
    let at = std::fs::metadata(what).map_err(|error| {
        let failure = Failure::failed(format!("{}: {error}", what.display()));
        failure.hint("name an image, the socket of a server, or the directory of a mount")
    })?;
    let found = registry::all().into_iter().find(|one| is_meant(&one.report, what, &at));
    if found.is_some() {
        return Ok(found);
    }
    if at.file_type().is_socket() {
        let report = registry::report(what).map_err(|error| no_answer(what, &error))?;
        return Ok(Some(Found { socket: what.to_owned(), report }));
    }
    if at.is_dir() {
        let problem = format!("{}: no file system of yours is mounted there", what.display());
        return Err(Failure::from_message(Exit::Failed, &problem)
            .hint("`seekless status` lists what you have mounted"));
    }
    Ok(None)
}

fn no_answer(what: &Path, error: &io::Error) -> Failure {
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "nothing listens there".to_owned(),
        // A server of NBD waits for the client to begin, or says what no status is.
        _ => format!("what listens there does not say how it is ({error})"),
    };
    Failure::failed(format!("{}: {why}", what.display()))
        .hint("`seekless status` lists what you serve")
}

/// True if a process serves an image, listens on a socket, or is mounted at a directory.
fn is_meant(report: &Report, what: &Path, at: &Metadata) -> bool {
    let same = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|other| {
            let devices = at.file_type().is_block_device() && other.file_type().is_block_device();
            match devices {
                true => at.rdev() == other.rdev(),
                false => (at.dev(), at.ino()) == (other.dev(), other.ino()),
            }
        })
    };
    if report.images.iter().any(|image| same(image)) {
        return true;
    }
    if at.is_dir() {
        // A look below a mount point asks the process that serves it.
        return what.canonicalize().is_ok_and(|what| what == Path::new(&report.at));
    }
    let place = report.at.parse::<Uri>().map(|uri| uri.place);
    if at.file_type().is_block_device() {
        return same(Path::new(&report.at));
    }
    at.file_type().is_socket() && matches!(place, Ok(Place::Unix(path)) if same(&path))
}
