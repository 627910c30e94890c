//! Questions and commands to a process that serves: a Unix socket, an object of JSON in each line.
//!
//! `{"command":"status"}` asks how it is; a disk that crashes on demand takes `cut`, `restart`,
//! `log`, `clear`, and `{"command":"arm","faults":["slow=5","cut-at-write=100"]}`; an array takes
//! `{"command":"scrub","rate":1048576}` (bytes a second), `stop-scrub`, `rebuild-rate` and
//! `{"command":"replace","image":"/d.img","force":false}`; a mounted file system takes
//! `{"command":"sync"}` and answers when all of it is durable. Each line is answered by one:
//! `{"ok":true,…}` or `{"ok":false,"error":"…"}`. `GET /metrics` over HTTP, on the same socket or
//! on a TCP port of its own, is answered in the text format of Prometheus; the port takes no
//! commands.

mod http;
pub mod registry;

use crate::crash::disk::Hub;
use crate::crash::plan::{BadFault, Fault};
use crate::driver::Listener;
use crate::server::listen::{SocketFile, listen};
use crate::server::{Listen, ServeError};
use crate::status::Report;
use rustix::event::{EventfdFlags, eventfd};
use seekless_engine::node::Node;
use seekless_engine::units::Time;
use seekless_engine::upkeep::{Upkeep, UpkeepError};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// Longest line that is read.
const MOST_BYTES: u64 = 64 << 10;
/// How long a client of HTTP may take over its request, and a question over its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Cut the power.
    Cut,
    /// Put it on again and mount what is left.
    Restart,
    /// Tell what is and was.
    Status,
    /// Tell what the last power cut did to each unflushed write.
    Log,
    /// Arm faults.
    Arm(Vec<Fault>),
    /// Disarm all.
    Clear,
    /// Work on the array below.
    Upkeep(Upkeep),
    /// Put an image in the place of the member of the array that is out.
    Replace {
        /// The image: a file that is made, or a block device.
        image: PathBuf,
        /// Overwrite what is there.
        force: bool,
    },
    /// Make a mounted file system durable, all of it. The answer comes when it is.
    Sync,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    command: String,
    #[serde(default)]
    faults: Vec<String>,
    /// Bytes a second.
    rate: Option<u64>,
    /// A new member.
    image: Option<PathBuf>,
    /// It may be overwritten.
    #[serde(default)]
    force: bool,
}

/// Reads a command from a line.
///
/// # Errors
/// What is wrong with it.
pub fn parse(line: impl AsRef<[u8]>) -> Result<Command, String> {
    let known = "known are cut, restart, status, log, arm, clear, scrub, stop-scrub, rebuild-rate, \
                 replace, sync";
    let line: Line = serde_json::from_slice(line.as_ref())
        .map_err(|error| format!("this is not a command: {error}; {known}"))?;
    let faults: Vec<Fault> = line
        .faults
        .iter()
        .map(|fault| fault.parse())
        .collect::<Result<_, _>>()
        .map_err(|error: BadFault| error.to_string())?;
    match (line.command.as_str(), faults.is_empty()) {
        ("arm", true) => Err("arm needs faults, as in \"faults\":[\"slow=5\"]".to_owned()),
        ("arm", false) => Ok(Command::Arm(faults)),
        (_, false) => Err("only arm takes faults".to_owned()),
        ("cut", true) => Ok(Command::Cut),
        ("restart", true) => Ok(Command::Restart),
        ("status", true) => Ok(Command::Status),
        ("log", true) => Ok(Command::Log),
        ("clear", true) => Ok(Command::Clear),
        ("sync", true) => Ok(Command::Sync),
        ("scrub", true) => Ok(Command::Upkeep(Upkeep::Scrub { bytes_per_second: line.rate })),
        ("stop-scrub", true) => Ok(Command::Upkeep(Upkeep::StopScrub)),
        ("rebuild-rate", true) => {
            Ok(Command::Upkeep(Upkeep::RebuildRate { bytes_per_second: line.rate }))
        }
        ("replace", true) => {
            let image = line.image.filter(|image| image.is_absolute());
            let image =
                image.ok_or("replace needs the absolute path of a new member, \"image\"")?;
            Ok(Command::Replace { image, force: line.force })
        }
        (other, true) => Err(format!("unknown command `{other}`; {known}")),
    }
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply(Value);

impl Reply {
    /// It is done.
    pub fn ok(mut value: Value) -> Reply {
        value["ok"] = true.into();
        Reply(value)
    }

    /// It cannot be done.
    pub fn error(why: &str) -> Reply {
        Reply(json!({ "ok": false, "error": why }))
    }

    /// How the process is, and the disk that crashes on demand if there is one.
    pub fn report(report: &Report, hub: Option<&Hub>) -> Reply {
        let report = serde_json::to_value(report).map_err(|error| error.to_string());
        let (Value::Object(mut all), Ok(Value::Object(report))) =
            (hub.map_or_else(|| json!({ "ok": true }), |hub| Reply::status(hub).0), report)
        else {
            return Reply::error("the status cannot be told");
        };
        all.extend(report);
        Reply(Value::Object(all))
    }

    /// Has the array below a volume take work on.
    pub(crate) fn to_upkeep(node: &mut Node, order: Upkeep, now: Time) -> Reply {
        let mut answers = node.devices.iter_mut().map(|device| device.upkeep(order, now));
        match answers.next().unwrap_or(Err(UpkeepError::NoArray)) {
            Ok(()) => Reply::ok(json!({})),
            Err(error) => Reply::error(&error.to_string()),
        }
    }

    /// The array fills a new member.
    pub(crate) fn replaced(member: usize) -> Reply {
        Reply::ok(json!({ "member": member }))
    }

    /// What it says.
    pub fn value(&self) -> &Value {
        &self.0
    }
}

/// Where to send the answer to a command.
#[derive(Debug)]
pub struct Asker(mpsc::Sender<Reply>);

impl Asker {
    /// Sends it. The client that asked may have gone away.
    pub fn send(self, reply: Reply) {
        let _ = self.0.send(reply);
    }
}

/// Where commands and questions come from.
#[derive(Debug)]
enum Door {
    /// Lines of JSON, or HTTP.
    Commands(UnixListener),
    /// HTTP alone.
    Metrics(TcpListener),
}

/// The commands that come in. Threads of their own take them in and wait for the answers, so that
/// a client that writes half a line does not keep the disk waiting.
#[derive(Debug)]
pub struct Control {
    doors: Vec<Door>,
    /// Removes the sockets in the end.
    sockets: Vec<SocketFile>,
    incoming: mpsc::Receiver<(Command, Asker)>,
    commands: CommandSender,
}

/// Sends commands to the thread that owns the volume, and wakes it.
#[derive(Debug)]
struct CommandSender {
    sender: mpsc::Sender<(Command, Asker)>,
    wake: OwnedFd,
}

impl CommandSender {
    fn try_clone(&self) -> io::Result<CommandSender> {
        Ok(CommandSender { sender: self.sender.clone(), wake: self.wake.try_clone()? })
    }

    /// Has a command carried out. `None` if the process has come to its end.
    fn ask(&self, command: Command) -> Option<Reply> {
        let (asker, reply) = mpsc::channel();
        self.sender.send((command, Asker(asker))).ok()?;
        rustix::io::write(&self.wake, &1_u64.to_le_bytes()).ok()?;
        reply.recv().ok()
    }
}

impl Control {
    /// Nothing is listened on yet.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> io::Result<Control> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (sender, incoming) = mpsc::channel();
        let commands = CommandSender { sender, wake };
        Ok(Control { doors: Vec::new(), sockets: Vec::new(), incoming, commands })
    }

    /// Listens on a Unix socket; nothing is answered before [`Control::start`].
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub fn listen(&mut self, path: &Path) -> Result<(), ServeError> {
        let (listener, socket, _) = listen(&Listen::Unix(path.to_owned()))?;
        let Listener::Unix(listener) = listener else {
            return Err(ServeError::NotSocket(path.to_owned()));
        };
        listener.set_nonblocking(false)?;
        self.doors.push(Door::Commands(listener));
        self.sockets.extend(socket);
        Ok(())
    }

    /// Listens on HOST:PORT for questions of Prometheus, and gives the address.
    ///
    /// # Errors
    /// If that is no address, or it is in use.
    pub fn listen_metrics(&mut self, address: &str) -> Result<SocketAddr, ServeError> {
        let (listener, _, _) = listen(&Listen::Tcp { address: address.to_owned(), exposed: true })?;
        let Listener::Tcp(listener) = listener else {
            return Err(ServeError::BadAddress(address.to_owned()));
        };
        listener.set_nonblocking(false)?;
        let found = listener.local_addr()?;
        self.doors.push(Door::Metrics(listener));
        Ok(found)
    }

    /// Starts to take commands in. The caller has blocked the signals that it waits for: a thread
    /// that had not would take them with their default action.
    ///
    /// # Errors
    /// When the process has no descriptor or thread left.
    pub fn start(&mut self) -> io::Result<()> {
        for door in std::mem::take(&mut self.doors) {
            let commands = self.commands.try_clone()?;
            std::thread::Builder::new()
                .name("control".into())
                .spawn(move || accept_all(&door, &commands))?;
        }
        Ok(())
    }

    /// Becomes readable when [`Control::take`] has something.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.commands.wake.as_fd()
    }

    /// The next command.
    pub fn take(&self) -> Option<(Command, Asker)> {
        // The counter says no more than that there is something.
        let _ = rustix::io::read(&self.commands.wake, &mut [0_u8; 8]);
        self.incoming.try_recv().ok()
    }
}

fn accept_all(door: &Door, commands: &CommandSender) {
    loop {
        let Ok(commands) = commands.try_clone() else { return };
        let spawned = match door {
            Door::Commands(listener) => {
                let Ok((stream, _)) = listener.accept() else { continue };
                spawn(move || converse(&stream, &commands))
            }
            Door::Metrics(listener) => {
                let Ok((stream, _)) = listener.accept() else { continue };
                spawn(move || {
                    stream.set_read_timeout(Some(PATIENCE)).ok()?;
                    http::answer(&mut BufReader::new(&stream), &mut &stream, &commands)
                })
            }
        };
        // Without a thread the connection closes, which says enough.
        let _ = spawned;
    }
}

/// Runs a conversation; how it ends is of no interest.
fn spawn(body: impl FnOnce() -> Option<()> + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name("command".into()).spawn(body).map(|_| ())
}

/// Answers line by line.
fn converse(stream: &UnixStream, commands: &CommandSender) -> Option<()> {
    let mut lines = BufReader::new(stream);
    if lines.fill_buf().ok()?.starts_with(b"GET ") {
        return http::answer(&mut lines, &mut &*stream, commands);
    }
    loop {
        let mut line = Vec::new();
        if (&mut lines).take(MOST_BYTES).read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        let reply = match parse(&line) {
            Err(why) => Reply::error(&why),
            Ok(command) => commands.ask(command)?,
        };
        writeln!(&*stream, "{}", reply.0).ok()?;
        if !line.ends_with(b"\n") {
            return None;
        }
    }
}

/// Sends a command to a process that serves and gives its answer.
///
/// # Errors
/// If none listens there, or the answer is none.
pub fn ask(socket: &Path, command: &Value) -> io::Result<Value> {
    ask_within(socket, command, Some(PATIENCE))
}

/// The same of a command that may take longer; without a limit it waits until the process ends.
///
/// # Errors
/// As for [`ask`].
pub fn ask_within(socket: &Path, command: &Value, patience: Option<Duration>) -> io::Result<Value> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(patience)?;
    writeln!(&stream, "{command}")?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&line)?)
}
