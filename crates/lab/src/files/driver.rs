//! Runs programs over a file system in virtual time.
//!
//! Each user runs one program: it sees the reply to its call, then makes the next one, pauses or
//! ends. The clock jumps to the next event of the volume, deadline of the file system, or end of a
//! pause. Users are served in order of their numbers, so a run is a function of its programs.
//!
//! A driver may have a CPU ([`Cpu`]). Then a call reaches the file system when it has had its CPU
//! time, behind the calls that were made before it.

use super::host::{Cpu, Host};
use super::steps::Work;
use seekless_engine::client::{Below, Client, Exchange};
use seekless_engine::io::IoError;
use seekless_engine::node::Node;
use seekless_engine::units::Time;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::call::{Call, Credentials, Reply, Request, Timestamp};
use seekless_fs::node::FsClient;
use seekless_fs::system::FileSystem;
use std::slice::from_mut;

/// Turns at one instant without a reply that mean a defect: nothing asks so often.
const MOST_SPINS: u32 = 1_000_000;

/// What a program does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Makes a call and waits for the reply.
    Call(Credentials, Request),
    /// Does nothing for so many nanoseconds.
    Pause(Time),
    /// Computes, behind what the CPU has to do already.
    Compute(Work),
    /// Ends.
    End,
}

/// A program.
pub trait Program {
    /// What it does after this reply; none at the beginning and after a pause.
    fn next(&mut self, reply: Option<Reply>, now: Time) -> Next;
}

/// A call that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    /// The user.
    pub user: usize,
    /// The reply.
    pub reply: &'a Reply,
    /// What it was for.
    pub request: &'a Request,
    /// When the call was made.
    pub submitted: Time,
    /// When the reply came.
    pub answered: Time,
}

/// Why a run cannot go on: a defect of the file system or of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilesError {
    /// Calls wait and nothing is going to happen.
    #[error("at {now_ns} ns of virtual time: {waiting} calls wait and no event is to come")]
    Stalled {
        /// Calls without a reply.
        waiting: usize,
        /// When, in nanoseconds of virtual time.
        now_ns: Time,
    },
    /// Something asks again and again to be called at the same instant.
    #[error("at {now_ns} ns of virtual time: time does not advance")]
    Spinning {
        /// When, in nanoseconds of virtual time.
        now_ns: Time,
    },
    /// The write path failed.
    #[error("the file system is read-only after an error: {0}")]
    Failed(IoError),
}

/// What a user does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its program says what comes next.
    Free,
    /// It made a call then, which has its CPU time until the second time.
    Computing(Time, Time),
    /// It waits for the reply to the call that it made then.
    Calling(Time),
    /// It pauses until then.
    Pausing(Time),
    /// Its program has ended.
    Ended,
}

/// A file system in virtual time.
#[derive(Debug)]
pub struct FilesDriver<F> {
    client: FsClient<F>,
    node: Node,
    exchange: Exchange,
    now: Time,
    spins: u32,
    cpu: Option<Cpu>,
    /// Requests to the volume that the CPU was charged for.
    charged: u64,
    /// The call of each user that has one.
    calls: Vec<Option<Call>>,
}

impl<F: FileSystem> FilesDriver<F> {
    /// Mounts a file system over a node at time zero. The time that the mount takes passes.
    ///
    /// # Errors
    /// Those of `mount`.
    pub fn mount<E>(
        node: Node,
        mount: impl FnOnce(&mut NodeDisk<'_>) -> Result<F, E>,
    ) -> Result<FilesDriver<F>, E> {
        FilesDriver::mount_at(node, 0, mount)
    }

    /// Mounts a file system over a node whose time has come to `now`.
    ///
    /// # Errors
    /// Those of `mount`.
    pub fn mount_at<E>(
        mut node: Node,
        mut now: Time,
        mount: impl FnOnce(&mut NodeDisk<'_>) -> Result<F, E>,
    ) -> Result<FilesDriver<F>, E> {
        let fs = mount(&mut NodeDisk::new(&mut node, &mut now))?;
        let (client, exchange) = (FsClient::new(fs), Exchange::new(1));
        let (spins, cpu, charged, calls) = (0, None, 0, Vec::new());
        Ok(FilesDriver { client, node, exchange, now, spins, cpu, charged, calls })
    }

    /// Lets calls wait for the CPU of a host; one that takes no time has none.
    pub fn set_host(&mut self, host: &Host) {
        self.cpu = host.takes_time().then(|| Cpu::new(host.clone()));
        self.charged = self.client.fs.requests();
    }

    /// CPU time so far, in nanoseconds.
    pub fn cpu_ns(&self) -> Time {
        self.cpu.as_ref().map_or(0, |cpu| cpu.busy_ns)
    }

    /// Virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The file system.
    pub fn fs(&self) -> &F {
        &self.client.fs
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Runs programs until all have ended; `observe` sees each reply.
    ///
    /// # Errors
    /// A file system or volume that comes to a halt.
    pub fn run(
        &mut self,
        users: &mut [&mut dyn Program],
        mut observe: impl FnMut(Answered<'_>),
    ) -> Result<(), FilesError> {
        let mut states = vec![State::Free; users.len()];
        self.calls = vec![None; users.len()];
        loop {
            let mut moved = self.deliver(users, &mut states, &mut observe);
            moved |= self.start(users, &mut states);
            if states.iter().all(|state| *state == State::Ended) {
                return Ok(());
            }
            moved |= self.computed(&mut states);
            self.turn();
            self.charge();
            if moved || !self.client.replies.is_empty() {
                self.spins = 0;
                continue;
            }
            let pause = states.iter().filter_map(|state| match state {
                State::Pausing(until) | State::Computing(_, until) => Some(*until),
                _ => None,
            });
            let waiting = states.iter().filter(|s| matches!(s, State::Calling(_))).count();
            self.advance(pause.min(), waiting)?;
        }
    }

    /// Lets time pass without calls, for the syncer and the volume.
    ///
    /// # Errors
    /// As for [`FilesDriver::run`].
    pub fn idle(&mut self, span: Time) -> Result<(), FilesError> {
        let end = self.now + span;
        loop {
            self.turn();
            if self.now >= end {
                return Ok(());
            }
            self.advance(Some(end), 0)?;
        }
    }

    /// Unmounts; gives the node back.
    ///
    /// # Errors
    /// As for [`FilesDriver::run`]; [`FilesError::Failed`] if not everything could be written.
    pub fn unmount(self) -> Result<Node, FilesError> {
        self.unmount_at().map(|(node, _)| node)
    }

    /// Takes the node away as a power cut does while nothing is on its way: what is in memory only
    /// is lost. Gives the time to which the node has come, too.
    pub fn crash_at(self) -> (Node, Time) {
        (self.node, self.now)
    }

    /// Unmounts; gives the node back, and the time to which it has come.
    ///
    /// # Errors
    /// As for [`FilesDriver::unmount`].
    pub fn unmount_at(mut self) -> Result<(Node, Time), FilesError> {
        self.client.stop(&mut Below::new(self.now, from_mut(&mut self.node)));
        loop {
            self.turn();
            if self.client.fs.stopped() {
                return match self.client.fs.failed() {
                    None => Ok((self.node, self.now)),
                    Some(error) => Err(FilesError::Failed(error)),
                };
            }
            self.advance(None, 1)?;
        }
    }

    /// Hands replies to their users. The id of a call is the number of its user.
    fn deliver(
        &mut self,
        users: &mut [&mut dyn Program],
        states: &mut [State],
        observe: &mut impl FnMut(Answered<'_>),
    ) -> bool {
        let replies = std::mem::take(&mut self.client.replies);
        let any = !replies.is_empty();
        for reply in replies {
            let user = usize::try_from(reply.id).expect("ids are numbers of users");
            let call = self.calls[user].take();
            if let (State::Calling(submitted), Some(call)) = (states[user], call) {
                let (request, answered) = (&call.request, self.now);
                observe(Answered { user, reply: &reply, request, submitted, answered });
                if let (Some(cpu), Ok(_)) = (&mut self.cpu, &reply.result) {
                    cpu.succeeded(request);
                }
            }
            let next = users[user].next(Some(reply), self.now);
            states[user] = self.follow(user, next);
        }
        any
    }

    /// Asks the programs of free users what comes next.
    fn start(&mut self, users: &mut [&mut dyn Program], states: &mut [State]) -> bool {
        let mut any = false;
        for (user, program) in users.iter_mut().enumerate() {
            let is_free = match states[user] {
                State::Free => true,
                State::Pausing(until) => until <= self.now,
                State::Computing(..) | State::Calling(_) | State::Ended => false,
            };
            if is_free {
                any = true;
                let next = program.next(None, self.now);
                states[user] = self.follow(user, next);
            }
        }
        any
    }

    fn follow(&mut self, user: usize, next: Next) -> State {
        match next {
            Next::Pause(span) => State::Pausing(self.now + span),
            Next::Compute(work) => {
                let cpu = self.cpu.as_mut();
                State::Pausing(cpu.map_or(self.now, |cpu| cpu.compute(self.now, work)))
            }
            Next::End => State::Ended,
            Next::Call(who, request) => {
                let is_silent = matches!(request, Request::Forget { .. });
                let now = Timestamp::try_from(self.now).unwrap_or(Timestamp::MAX);
                let call = Call { id: user as u64, who, now, request };
                let until = self.cpu.as_mut().map(|cpu| cpu.run(self.now, &call.request));
                if is_silent {
                    self.submit(call);
                    return State::Free;
                }
                self.calls[user] = Some(call.clone());
                if let Some(until) = until.filter(|until| *until > self.now) {
                    return State::Computing(self.now, until);
                }
                self.submit(call);
                State::Calling(self.now)
            }
        }
    }

    fn submit(&mut self, call: Call) {
        self.client.submit(call, &mut Below::new(self.now, from_mut(&mut self.node)));
    }

    /// Hands in the calls that have had their CPU time.
    fn computed(&mut self, states: &mut [State]) -> bool {
        let mut any = false;
        for (user, state) in states.iter_mut().enumerate() {
            let State::Computing(made, until) = *state else { continue };
            if until > self.now {
                continue;
            }
            let call = self.calls[user].clone().expect("a computing user has a call");
            *state = State::Calling(made);
            self.submit(call);
            any = true;
        }
        any
    }

    /// Charges the CPU for requests that were started.
    fn charge(&mut self) {
        let Some(cpu) = &mut self.cpu else { return };
        let requests = self.client.fs.requests();
        let new = requests - std::mem::replace(&mut self.charged, requests);
        if new > 0 {
            cpu.started(self.now, new);
        }
    }

    fn turn(&mut self) {
        let moved = self.exchange.move_all(&mut self.client, from_mut(&mut self.node), self.now);
        match moved {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }

    /// Jumps to the next event.
    fn advance(&mut self, until: Option<Time>, waiting: usize) -> Result<(), FilesError> {
        let now_ns = self.now;
        let events = [self.node.next_event(), self.client.deadline(), until];
        let Some(next) = events.into_iter().flatten().min() else {
            return Err(FilesError::Stalled { waiting, now_ns });
        };
        if next > now_ns {
            self.spins = 0;
            self.now = next;
            return Ok(());
        }
        self.spins += 1;
        if self.spins > MOST_SPINS { Err(FilesError::Spinning { now_ns }) } else { Ok(()) }
    }
}
