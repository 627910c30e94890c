//! Shared by all end-to-end tests: the program, a server that dies with its test, clients with a
//! time limit, and a way to skip a test visibly.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time that a client or a command may take. Generous: a loaded machine must not fail a test.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Makes a test of each function for each layout.
#[macro_export]
macro_rules! each_layout {
    ($($name:ident),+ $(,)?) => {
        mod inplace { $(#[test] fn $name() { super::$name("inplace"); })+ }
        mod vlog { $(#[test] fn $name() { super::$name("vlog"); })+ }
        mod dcd { $(#[test] fn $name() { super::$name("dcd"); })+ }
        mod loge { $(#[test] fn $name() { super::$name("loge"); })+ }
        mod lfs { $(#[test] fn $name() { super::$name("lfs"); })+ }
        mod wolf { $(#[test] fn $name() { super::$name("wolf"); })+ }
        mod hylog { $(#[test] fn $name() { super::$name("hylog"); })+ }
        mod lld { $(#[test] fn $name() { super::$name("lld"); })+ }
    };
}

/// Skips the test, visibly, if a program that it needs is missing.
#[macro_export]
macro_rules! require {
    ($($program:expr),+ $(,)?) => {
        $(if !$crate::harness::installed($program) {
            return $crate::harness::skip(&format!("{} is not installed", $program));
        })+
    };
}

/// Prints why a test is skipped, past the capture of the test harness.
pub fn skip(reason: &str) {
    let name = thread::current().name().unwrap_or("a test").to_owned();
    let _ = writeln!(std::io::stderr(), "skipped {name}: {reason}");
}

/// The system's directories, administrators' programs included. They come before those of `PATH`:
/// clients written in Python need the Python that their package was made for.
const SYSTEM: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

fn search_path() -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = SYSTEM.iter().map(PathBuf::from).chain(std::env::split_paths(&path));
    std::env::join_paths(dirs).expect("search path")
}

/// True if a program of this name can be started.
pub fn installed(program: &str) -> bool {
    std::env::split_paths(&search_path()).any(|dir| dir.join(program).is_file())
}

/// A command that finds administrators' programs.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", search_path()).env("LC_ALL", "C").stdin(Stdio::null());
    command.env("SEEKLESS_RUNTIME_DIR", registry());
    command
}

/// Where the servers of this run of tests can be found: away from those of the user.
fn registry() -> PathBuf {
    std::env::temp_dir().join(format!("seekless-tests-{}", std::process::id()))
}

/// The program under test.
pub fn seekless() -> Command {
    command(env!("CARGO_BIN_EXE_seekless"))
}

/// The program under test with the signals of a terminal. A background job of a shell, as a run of
/// all tests may be, ignores SIGINT; one under `nohup` ignores SIGHUP. Its children inherit that.
pub fn seekless_of_terminal() -> Command {
    let mut command = command("env");
    command.args(["--default-signal=HUP,INT", env!("CARGO_BIN_EXE_seekless")]);
    command
}

/// Output and exit status of a command.
#[derive(Debug)]
pub struct Ended {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ended {
    /// The exit code; -1 after a signal.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }
}

/// Runs a command and returns its result, success or not.
///
/// # Panics
/// If it cannot be started or takes longer than [`PATIENCE`].
pub fn run(command: &mut Command) -> Ended {
    let shown = format!("{command:?}");
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {shown}: {error}"));
    let out = drain(child.stdout.take().expect("piped"));
    let err = drain(child.stderr.take().expect("piped"));
    let Some(status) = wait(&mut child, PATIENCE) else {
        let _ = child.kill();
        let _ = child.wait();
        panic!("{shown} takes too long; it said: {}", err.recv().unwrap_or_default());
    };
    let text = |pipe: mpsc::Receiver<String>| pipe.recv().unwrap_or_default();
    Ended { status, out: text(out), err: text(err) }
}

/// Runs a command that must succeed and gives its standard output.
///
/// # Panics
/// If it does not.
pub fn succeed(command: &mut Command) -> String {
    let shown = format!("{command:?}");
    let ended = run(command);
    assert!(
        ended.status.success(),
        "{shown}: {}\n--- output\n{}\n--- errors\n{}",
        ended.status,
        ended.out,
        ended.err
    );
    ended.out
}

fn drain(mut pipe: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// Waits for the end of a process, but not forever.
pub fn wait(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let begin = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait().expect("waitpid") {
            return Some(status);
        }
        if begin.elapsed() > patience {
            return None;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Waits until `ready` says so.
///
/// # Panics
/// If it does not within ten seconds.
pub fn eventually(what: &str, mut ready: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !ready() {
        assert!(begin.elapsed() < Duration::from_secs(10), "{what} does not happen");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A directory that is removed with its test.
pub fn temp_dir() -> TempDir {
    tempfile::Builder::new().prefix("seekless-").tempdir().expect("temporary directory")
}

/// Copies the program to a place that other users reach. Another process writes the copy: a child
/// that a test beside this one is starting would hold it open, and what is open for writing cannot
/// be executed.
pub fn copy_program(to: &Path) {
    succeed(command("cp").arg(env!("CARGO_BIN_EXE_seekless")).arg(to));
}

/// Makes an image.
pub fn create(dir: &Path, layout: &str, size: &str) -> PathBuf {
    let image = dir.join(format!("{layout}.img"));
    succeed(seekless().arg("create").arg(&image).args(["--layout", layout, "--size", size]));
    image
}

/// All layouts.
pub fn layouts() -> Vec<String> {
    let listed = succeed(seekless().args(["layouts", "--json"]));
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    let all = listed["layouts"].as_array().expect("a list");
    all.iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
}

/// A server that is killed when its test is over.
#[derive(Debug)]
pub struct Server {
    child: Child,
    uri: String,
    socket: PathBuf,
    err: Option<mpsc::Receiver<String>>,
}

impl Server {
    /// Serves an image on a socket beside it.
    pub fn image(image: &Path) -> Server {
        Server::with(image, &[])
    }

    /// Serves an image with more arguments.
    pub fn with(image: &Path, more: &[&str]) -> Server {
        Server::at(image, &image.with_extension("sock"), more)
    }

    /// Serves an image or a device on a socket somewhere else.
    pub fn at(image: &Path, socket: &Path, more: &[&str]) -> Server {
        let mut command = seekless();
        command.arg("serve").arg(image).arg("--socket").arg(socket).args(more);
        Server::start(command, socket.to_owned())
    }

    /// Starts a server whose command is complete, and waits until it accepts connections.
    ///
    /// # Panics
    /// If it prints no URI.
    pub fn start(mut command: Command, socket: PathBuf) -> Server {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let err = drain(child.stderr.take().expect("piped"));
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let _ = out.read_line(&mut line);
            let _ = sender.send(line.trim().to_owned());
            // Drain the rest, so that the pipe neither fills up nor breaks.
            let _ = out.read_to_end(&mut Vec::new());
        });
        let uri = receiver.recv_timeout(Duration::from_secs(30)).unwrap_or_default();
        if !uri.starts_with("nbd") {
            let _ = child.kill();
            let _ = child.wait();
            let said = err.recv().unwrap_or_default();
            panic!("{command:?} printed `{uri}` in place of a URI; it said: {said}");
        }
        Server { child, uri, socket, err: Some(err) }
    }

    /// Where clients connect.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The Unix socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it as a crash would.
    pub fn kill(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    /// Asks for a clean shutdown and gives exit status and standard error.
    pub fn stop(mut self) -> Ended {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("signal");
        self.ended()
    }

    /// Waits until it ends by itself.
    pub fn ended(&mut self) -> Ended {
        let status = wait(&mut self.child, PATIENCE).expect("the server does not end");
        let err = self.err.take().map(|err| err.recv().unwrap_or_default()).unwrap_or_default();
        Ended { status, out: String::new(), err }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A child process that is killed when its test is over.
#[derive(Debug)]
pub struct Helper(pub Child);

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Bytes that depend on a seed and repeat nowhere.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = seekless_engine::rng::Rng::stream(seed, "pattern");
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend(rng.next().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Checks an image with the program under test.
pub fn check_is_clean(image: &Path) {
    succeed(seekless().arg("check").arg(image));
}
