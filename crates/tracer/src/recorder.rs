//! Records runs: the file of acknowledgements, and the thread that traces.

use crate::error::Error;
use crate::options::{ACKS, Options, Recording};
use crate::session::{Acks, Session};
use crate::stat::Stat;
use crate::subreaper::Subreaper;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Records runs.
#[derive(Clone, Debug)]
pub struct Recorder {
    options: Options,
}

impl Recorder {
    /// A recorder with these options.
    pub fn new(options: Options) -> Recorder {
        Recorder { options }
    }

    /// Runs a command and records what it and all that it starts do to the files below the
    /// directory. A true `stop` ends the run and its programs within about 10 ms.
    ///
    /// The command runs without the rights of set-user-id programs. It may not be traced by
    /// another program at the same time. Other threads of this process must not wait for any
    /// child (`waitpid(-1)`) meanwhile.
    ///
    /// # Errors
    /// See [`Error`]. No process is left in any case.
    pub fn run(&self, mut command: Command, stop: &AtomicBool) -> Result<Recording, Error> {
        if !crate::arch::IS_OFFERED {
            return Err(Error::Unsupported);
        }
        let mut options = self.options.clone();
        let unreadable =
            |source| Error::Unreadable { path: self.options.directory.clone(), source };
        options.directory = std::fs::canonicalize(&options.directory).map_err(unreadable)?;
        let path = options.acks.clone().unwrap_or_else(temporary);
        let failed = |source| Error::Acks { path: path.clone(), source };
        let acks = acks(&path).map_err(failed)?;
        command.env(ACKS, &path);
        let _removal = options.acks.is_none().then_some(Removal(&path));
        let _subreaper = Subreaper::new();
        // The thread that traces waits for its own children only.
        let run = || Session::new(&options, stop, acks).run(command);
        std::thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|_| {
            let source = io::Error::other("its thread panicked");
            Err(Error::Machine { what: "go on", source })
        })
    }
}

/// A path that no other run uses.
fn temporary() -> PathBuf {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("seekless-acks-{}-{run}", std::process::id()))
}

/// Makes the file of acknowledgements, which programs of all users may append to.
fn acks(path: &Path) -> io::Result<Acks> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).mode(0o666).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o666))?;
    let key = Stat::of_fd(file.as_raw_fd())?.key;
    Ok(Acks { key, file, begun: HashMap::new() })
}

/// Removes a file when it goes.
struct Removal<'a>(&'a Path);

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        // A run that removed it itself has done the same.
        let _ = std::fs::remove_file(self.0);
    }
}
