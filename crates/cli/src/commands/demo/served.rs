//! A server as a process of its own, as a user would start it.

use crate::failure::Failure;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running server; killed when dropped, as a crash would.
#[derive(Debug)]
pub struct Served {
    child: Child,
    /// Where clients connect.
    pub uri: String,
}

impl Served {
    /// Starts this program with `args` and waits until it accepts connections.
    ///
    /// # Errors
    /// If the server ends before that.
    pub fn start(own: &Path, args: &[&str]) -> Result<Served, Failure> {
        let mut child = Command::new(own)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| Failure::failed(format!("cannot start the server: {error}")))?;
        let mut uri = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut uri)?;
        }
        let mut served = Served { child, uri: uri.trim().to_owned() };
        if served.uri.is_empty() {
            let mut said = String::new();
            if let Some(mut err) = served.child.stderr.take() {
                err.read_to_string(&mut said)?;
            }
            return Err(Failure::failed(format!("the server does not start: {}", said.trim())));
        }
        Ok(served)
    }

    /// Asks for a clean shutdown and waits for it.
    ///
    /// # Errors
    /// If the server reports a failure.
    pub fn stop(mut self) -> Result<(), Failure> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)
            .map_err(std::io::Error::from)?;
        let status = self.child.wait()?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::failed(format!("the server ended badly: {status}")))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
