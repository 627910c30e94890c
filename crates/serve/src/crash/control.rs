//! Commands to a disk while it is served: a Unix socket, an object of JSON in each line.
//!
//! `{"command":"cut"}`, `restart`, `status`, `log`, `clear`, and
//! `{"command":"arm","faults":["slow=5","cut-at-write=100"]}`. Each line is answered by one:
//! `{"ok":true,…}` or `{"ok":false,"error":"…"}`.

use super::cut::Cut;
use super::disk::Hub;
use super::plan::Fault;
use crate::driver::Listener;
use crate::server::listen::{SocketFile, listen};
use crate::server::{Listen, ServeError};
use rustix::event::{EventfdFlags, eventfd};
use seekless_crash::fate::{Fate, Tally};
use seekless_engine::units::BLOCK_BYTES;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc;

/// Longest line that is read.
const MOST_BYTES: u64 = 64 << 10;
/// Fates of one cut that are told at most.
const MOST_FATES: usize = 10_000;

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
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    command: String,
    #[serde(default)]
    faults: Vec<String>,
}

/// Reads a command from a line.
///
/// # Errors
/// What is wrong with it.
pub fn parse(line: impl AsRef<[u8]>) -> Result<Command, String> {
    let known = "known are cut, restart, status, log, arm, clear";
    let line: Line = serde_json::from_slice(line.as_ref())
        .map_err(|error| format!("this is not a command: {error}; {known}"))?;
    let faults: Vec<Fault> = line
        .faults
        .iter()
        .map(|fault| fault.parse())
        .collect::<Result<_, _>>()
        .map_err(|error: super::plan::BadFault| error.to_string())?;
    match (line.command.as_str(), faults.is_empty()) {
        ("arm", true) => Err("arm needs faults, as in \"faults\":[\"slow=5\"]".to_owned()),
        ("arm", false) => Ok(Command::Arm(faults)),
        (_, false) => Err("only arm takes faults".to_owned()),
        ("cut", true) => Ok(Command::Cut),
        ("restart", true) => Ok(Command::Restart),
        ("status", true) => Ok(Command::Status),
        ("log", true) => Ok(Command::Log),
        ("clear", true) => Ok(Command::Clear),
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

    /// Carries out a command for which the disk is enough, and answers it. A restart needs what is
    /// mounted on the disk: it is refused.
    pub fn to(command: &Command, hub: &Hub) -> Reply {
        match command {
            Command::Status => Reply::status(hub),
            Command::Log => Reply::last_cut(hub),
            Command::Clear => {
                hub.clear();
                Reply::status(hub)
            }
            Command::Arm(faults) => match hub.arm(faults) {
                Ok(()) => Reply::status(hub),
                Err(error) => Reply::error(&error.to_string()),
            },
            Command::Cut if !hub.has_power() => Reply::error("the power is off already"),
            Command::Cut => {
                hub.cut("on command");
                Reply::last_cut(hub)
            }
            Command::Restart => Reply::error("this disk cannot restart while it is in use"),
        }
    }

    /// What is and was.
    pub fn status(hub: &Hub) -> Reply {
        let counts = hub.counts();
        let armed: Vec<String> = hub.armed().iter().map(ToString::to_string).collect();
        Reply::ok(json!({
            "power": if hub.has_power() { "on" } else { "off" },
            "armed": armed,
            "unflushed": hub.unflushed(),
            "reads": counts.reads,
            "writes": counts.writes,
            "flushes": counts.flushes,
            "fired": {
                "cuts": counts.cuts,
                "eio": counts.eio,
                "enospc": counts.enospc,
                "lies": counts.lies,
                "rotten": counts.rotten,
                "slow": counts.slow,
                "stuck": counts.stuck,
            },
        }))
    }

    /// What the last power cut did.
    pub fn last_cut(hub: &Hub) -> Reply {
        match hub.last_cut() {
            Some(cut) => Reply::ok(json!({ "cut": as_json(&cut) })),
            None => Reply::error("the power has not been cut yet"),
        }
    }
}

fn as_json(cut: &Cut) -> Value {
    let Tally { kept, lost, torn } = cut.tally();
    let unit = BLOCK_BYTES as u64;
    let fates: Vec<Value> = cut
        .outcomes
        .iter()
        .take(MOST_FATES)
        .map(|one| {
            let fate = match &one.fate {
                Fate::Kept => json!("kept"),
                Fate::Lost => json!("lost"),
                Fate::Torn(marks) => {
                    let sectors: String =
                        marks.iter().map(|mark| if *mark { '+' } else { '-' }).collect();
                    json!({ "torn": sectors })
                }
            };
            json!({ "offset": one.at * unit, "length": u64::from(one.count) * unit, "fate": fate })
        })
        .collect();
    json!({
        "number": cut.number,
        "cause": cut.cause,
        "seed": cut.seed,
        "write": cut.writes,
        "flush": cut.flushes,
        "unflushed": cut.outcomes.len(),
        "kept": kept,
        "lost": lost,
        "torn": torn,
        "fates": fates,
    })
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

/// The commands that come in. Threads of their own take them in and wait for the answers, so that
/// a client that writes half a line does not keep the disk waiting.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    incoming: mpsc::Receiver<(Command, Asker)>,
    sender: mpsc::Sender<(Command, Asker)>,
    wake: OwnedFd,
    /// Removes the socket in the end.
    _socket: Option<SocketFile>,
}

impl Control {
    /// Listens; no command is answered before [`Control::start`].
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub fn listen(path: &Path) -> Result<Control, ServeError> {
        let (listener, socket, _) = listen(&Listen::Unix(path.to_owned()))?;
        let Listener::Unix(listener) = listener else {
            return Err(ServeError::NotSocket(path.to_owned()));
        };
        listener.set_nonblocking(false)?;
        let wake =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(io::Error::from)?;
        let (sender, incoming) = mpsc::channel();
        Ok(Control { listener, incoming, sender, wake, _socket: socket })
    }

    /// Starts to take commands in. The caller has blocked the signals that it waits for: a thread
    /// that had not would take them with their default action.
    ///
    /// # Errors
    /// When the process has no descriptor or thread left.
    pub fn start(&self) -> io::Result<()> {
        let (listener, wake) = (self.listener.try_clone()?, self.wake.try_clone()?);
        let sender = self.sender.clone();
        std::thread::Builder::new()
            .name("control".into())
            .spawn(move || accept_all(&listener, &sender, &wake))?;
        Ok(())
    }

    /// Becomes readable when [`Control::take`] has something.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The next command.
    pub fn take(&self) -> Option<(Command, Asker)> {
        // The counter says no more than that there is something.
        let _ = rustix::io::read(&self.wake, &mut [0_u8; 8]);
        self.incoming.try_recv().ok()
    }
}

fn accept_all(listener: &UnixListener, sender: &mpsc::Sender<(Command, Asker)>, wake: &OwnedFd) {
    for stream in listener.incoming() {
        let (Ok(stream), Ok(wake)) = (stream, wake.try_clone()) else { continue };
        let sender = sender.clone();
        let body = move || converse(&stream, &sender, &wake);
        // Without a thread the connection closes, which says enough.
        let _ = std::thread::Builder::new().name("command".into()).spawn(body);
    }
}

/// Answers line by line. How a connection ends is of no interest.
fn converse(
    stream: &UnixStream,
    sender: &mpsc::Sender<(Command, Asker)>,
    wake: &OwnedFd,
) -> Option<()> {
    let mut lines = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        if (&mut lines).take(MOST_BYTES).read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        let reply = match parse(&line) {
            Err(why) => Reply::error(&why),
            Ok(command) => {
                let (asker, reply) = mpsc::channel();
                sender.send((command, Asker(asker))).ok()?;
                rustix::io::write(wake, &1_u64.to_le_bytes()).ok()?;
                reply.recv().ok()?
            }
        };
        writeln!(&*stream, "{}", reply.0).ok()?;
        if !line.ends_with(b"\n") {
            return None;
        }
    }
}

/// Sends a command to a disk and gives its answer.
///
/// # Errors
/// If no disk listens there, or the answer is none.
pub fn ask(socket: &Path, command: &Value) -> io::Result<Value> {
    let stream = UnixStream::connect(socket)?;
    writeln!(&stream, "{command}")?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&line)?)
}
