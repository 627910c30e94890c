//! Servers to compare, and fio as the client of all of them.

use crate::run::{capture, installed};
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where clients connect.
    pub uri: String,
    /// Time from start until it accepted connections.
    pub ready_after: Duration,
}

impl Server {
    /// Starts our server; it prints its URI when it is ready.
    ///
    /// # Errors
    /// If it does not.
    pub fn seekless(program: &Path, args: &[&OsStr]) -> Result<Server> {
        let begin = Instant::now();
        let mut command = pinned(0, program.as_os_str());
        command.arg("serve").args(args).stdin(Stdio::null()).stdout(Stdio::piped());
        // It prints a few lines, which the pipe holds until they are read.
        let mut child = command.stderr(Stdio::piped()).spawn().context("cannot start seekless")?;
        let mut line = String::new();
        let out = child.stdout.take().context("no pipe")?;
        BufReader::new(out).read_line(&mut line)?;
        let server = Server { child, uri: line.trim().to_owned(), ready_after: begin.elapsed() };
        if !server.uri.starts_with("nbd") {
            bail!("`seekless serve` with {args:?} does not come up");
        }
        Ok(server)
    }

    /// Starts nbdkit on a Unix socket.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn nbdkit(socket: &Path, plugin: &[&OsStr]) -> Result<Server> {
        let mut command = pinned(0, OsStr::new("nbdkit"));
        command.arg("--foreground").arg("--unix").arg(socket).args(plugin);
        Server::peer(command, socket)
    }

    /// Starts qemu-nbd on a Unix socket, on a file that it opens with `O_DIRECT`.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn qemu_nbd(socket: &Path, file: &Path) -> Result<Server> {
        let mut command = pinned(0, OsStr::new("qemu-nbd"));
        command.args(["--format=raw", "--cache=none", "--aio=native", "--persistent", "--socket"]);
        command.arg(socket).arg(file);
        Server::peer(command, socket)
    }

    /// A server that listens on a socket some time after it was started.
    fn peer(mut command: Command, socket: &Path) -> Result<Server> {
        let begin = Instant::now();
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let uri = format!("nbd+unix:///?socket={}", socket.display());
        let mut server = Server { child, uri, ready_after: Duration::ZERO };
        while std::os::unix::net::UnixStream::connect(socket).is_err() {
            if begin.elapsed() > Duration::from_secs(10) || server.child.try_wait()?.is_some() {
                bail!("{command:?} does not come up");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        server.ready_after = begin.elapsed();
        Ok(server)
    }

    /// Asks for a clean shutdown and waits for it. Returns the output of the server meanwhile.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn stop(mut self) -> Result<String> {
        let pid = self.child.id().to_string();
        capture(Command::new("kill").args(["-TERM", &pid]))?;
        let mut said = String::new();
        if let Some(mut err) = self.child.stderr.take() {
            err.read_to_string(&mut said)?;
        }
        self.child.wait()?;
        Ok(said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command on one processor, if `taskset` is available. Servers get the first, clients the
/// second: at queue depth 1 placement decides more than anything a server does.
fn pinned(processor: usize, program: &OsStr) -> Command {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors < 2 || !installed("taskset") {
        return Command::new(program);
    }
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &processor.to_string()]).arg(program);
    command
}

/// A fio job.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// fio's name of the pattern: `randwrite`, `randread`, `write`.
    pub rw: &'static str,
    /// Bytes in a request, as fio writes them.
    pub bs: &'static str,
    /// Requests in flight.
    pub depth: u32,
    /// Flush after this many writes; 0 for never.
    pub fsync: u32,
    /// Range it works on.
    pub size_mib: u64,
    /// Stop after this many seconds; 0 means when all is done once.
    pub seconds: u64,
}

/// Runs a job against a server and returns requests per second without flushes.
///
/// # Errors
/// If fio fails or its report cannot be read.
pub fn fio(server: &Server, dir: &Path, job: &Job) -> Result<f64> {
    let mut command = pinned(1, OsStr::new("fio"));
    command.current_dir(dir);
    command.args(["--name=bench", "--ioengine=nbd", "--thread", "--output-format=json"]);
    command.args(["--randrepeat=1", "--norandommap"]);
    command.arg(format!("--uri={}", server.uri)).arg(format!("--rw={}", job.rw));
    command.arg(format!("--bs={}", job.bs)).arg(format!("--iodepth={}", job.depth));
    command.arg(format!("--size={}m", job.size_mib));
    if job.fsync > 0 {
        command.arg(format!("--fsync={}", job.fsync));
    }
    if job.seconds > 0 {
        command.arg("--time_based").arg(format!("--runtime={}", job.seconds));
    }
    let text = capture(&mut command)?;
    let json = text.find('{').map_or("", |start| &text[start..]);
    let report: Value = serde_json::from_str(json).context("fio printed no JSON")?;
    let side = if job.rw.contains("read") { "read" } else { "write" };
    report["jobs"][0][side]["iops"].as_f64().context("fio reports no iops")
}

/// The programs that these comparisons need.
pub fn clients_installed() -> bool {
    for program in ["fio", "nbdkit"] {
        if !installed(program) {
            println!("skipped: {program} is not installed (`make setup`)");
            return false;
        }
    }
    true
}
