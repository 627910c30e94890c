//! A mounted file system as the prover drives it: the file system, the node below it, and a client
//! that walks paths.
//!
//! Requests are carried out one after the other: each walks its paths with lookups, makes its call
//! and forgets what it has looked up. A call for durability is left alone once it is made, so that
//! others go on while it is under way.
//!
//! Time: a dirty block waits half a minute for its write. So the clock of the file system runs
//! faster than that of the run, by a fixed factor, and each request moves it on.

use super::calls::{Job, Next};
use super::request::FileRequest;
use crate::volume::Volume;
use seekless_engine::client::{Below, Client as _, Exchange};
use seekless_engine::node::Node;
use seekless_engine::units::{MILLIS, Time};
use seekless_formats::{Kind, MountedFs};
use seekless_fs::call::{Answer, Attr, Call, CallId, Credentials, Errno, Ino, Request};
use seekless_fs::node::FsClient;
use seekless_fs::system::FileSystem as _;
use std::collections::{BTreeMap, VecDeque};
use std::slice::from_mut;

/// How much faster the clock of the file system runs: a quarter of a second is half a minute.
const SCALE: Time = 128;
/// What a request moves the clock on.
const STEP: Time = 700 * MILLIS;
/// Turns without an end that mean a defect.
const MOST_TURNS: u32 = 100_000;

/// A request with what the client knows about it.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Number of the operation.
    pub operation: u32,
    /// What is asked.
    pub request: FileRequest,
    /// What is written: object, first sector and version.
    pub stamp: (u32, u32, u32),
}

/// What a request came to.
#[derive(Clone, Debug)]
pub struct FileReply {
    /// Number of the operation.
    pub operation: u32,
    /// The attributes of what was made or opened and the bytes written, or the error.
    pub result: Result<Told, Errno>,
}

/// What a reply tells.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    /// The object that was made or looked up.
    pub attr: Option<Attr>,
    /// Bytes written.
    pub written: u32,
}

/// The mounted file system.
#[derive(Debug)]
pub struct FileVolume {
    client: FsClient<Box<dyn MountedFs>>,
    kind: Kind,
    node: Node,
    exchange: Exchange,
    /// Time of the file system.
    clock: Time,
    /// What requests have moved the clock on.
    moved: Time,
    next_id: CallId,
    queue: VecDeque<Ask>,
    /// The request under way, and the call it waits for.
    job: Option<(CallId, Job)>,
    /// Calls for durability under way.
    syncs: BTreeMap<CallId, Job>,
    /// Open objects by number.
    held: BTreeMap<u8, Ino>,
}

impl FileVolume {
    /// A file system over a node.
    pub fn new(kind: Kind, fs: Box<dyn MountedFs>, node: Node) -> FileVolume {
        FileVolume {
            client: FsClient::new(fs),
            kind,
            node,
            exchange: Exchange::new(1),
            clock: 0,
            moved: 0,
            next_id: 1,
            queue: VecDeque::new(),
            job: None,
            syncs: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }

    /// The file system.
    pub fn fs(&self) -> &dyn MountedFs {
        &*self.client.fs
    }

    /// Its format.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The node.
    pub fn node_mut(&mut self) -> (&mut Node, &mut Time) {
        (&mut self.node, &mut self.clock)
    }

    /// Takes a request.
    pub fn ask(&mut self, now: Time, ask: Ask) {
        self.moved += STEP;
        self.clock = self.clock.max(now * SCALE + self.moved);
        self.queue.push_back(ask);
    }

    fn call(&mut self, request: Request) -> CallId {
        let id = self.next_id;
        self.next_id += 1;
        let now = self.clock.try_into().unwrap_or(i64::MAX);
        let call = Call { id, who: Credentials::default(), now, request };
        self.client.submit(call, &mut Below::new(self.clock, from_mut(&mut self.node)));
        id
    }

    /// Moves requests on until each waits for an answer.
    fn go_on(&mut self, replies: &mut Vec<FileReply>) {
        loop {
            let Ok(()) =
                self.exchange.move_all(&mut self.client, from_mut(&mut self.node), self.clock);
            let answered = std::mem::take(&mut self.client.replies);
            let mut moved = !answered.is_empty();
            for reply in answered {
                self.answered(reply.id, reply.result, replies);
            }
            while self.job.is_none()
                && let Some(ask) = self.queue.pop_front()
            {
                moved = true;
                let job = Job::new(ask);
                self.advance(job, replies);
            }
            if !moved {
                return;
            }
        }
    }

    fn answered(
        &mut self,
        id: CallId,
        result: Result<Answer, Errno>,
        replies: &mut Vec<FileReply>,
    ) {
        let is_job = self.job.as_ref().is_some_and(|(call, _)| *call == id);
        let job = match is_job {
            true => self.job.take().map(|(_, job)| job),
            false => self.syncs.remove(&id),
        };
        if let Some(mut job) = job {
            job.learn(result);
            self.advance(job, replies);
        }
    }

    /// Makes the next call of a request, or ends it.
    fn advance(&mut self, mut job: Job, replies: &mut Vec<FileReply>) {
        match job.next(&self.held) {
            Next::Call(request, stays) => {
                let id = self.call(request);
                if stays {
                    self.job = Some((id, job));
                } else {
                    self.syncs.insert(id, job);
                }
            }
            Next::Done(reply) => {
                if reply.result.is_ok() {
                    self.hold(&job);
                }
                for ino in job.to_forget() {
                    self.forget(ino);
                }
                replies.push(reply);
            }
        }
    }

    fn hold(&mut self, job: &Job) {
        match job.ask.request {
            FileRequest::Hold(_, number) => {
                let before = self.held.insert(number, job.target());
                if let Some(ino) = before {
                    self.call(Request::Forget { ino, count: 1 });
                }
            }
            FileRequest::Release(number) => {
                if let Some(ino) = self.held.remove(&number) {
                    self.call(Request::Forget { ino, count: 1 });
                }
            }
            _ => {}
        }
    }

    /// When something happens next, in the time of the file system.
    fn next_inner(&self) -> Option<Time> {
        [self.node.next_event(), self.client.deadline()].into_iter().flatten().min()
    }

    /// Runs a call to its reply, with nothing else under way.
    ///
    /// # Errors
    /// What the file system answers; `None` if it never does.
    pub fn run(&mut self, request: Request) -> Result<Answer, Option<Errno>> {
        let id = self.call(request);
        for _ in 0..MOST_TURNS {
            let Ok(()) =
                self.exchange.move_all(&mut self.client, from_mut(&mut self.node), self.clock);
            if let Some(reply) = self.client.replies.drain(..).find(|reply| reply.id == id) {
                return reply.result.map_err(Some);
            }
            match self.next_inner() {
                Some(due) => self.clock = self.clock.max(due),
                None => return Err(None),
            }
        }
        Err(None)
    }

    /// Lets time pass without a call.
    pub fn pass(&mut self, span: Time) {
        let end = self.clock + span;
        loop {
            let Ok(()) =
                self.exchange.move_all(&mut self.client, from_mut(&mut self.node), self.clock);
            match self.next_inner().filter(|&due| due <= end) {
                Some(due) => self.clock = self.clock.max(due),
                None => break,
            }
        }
        self.clock = end;
    }

    /// Ends one lookup of an object.
    pub fn forget(&mut self, ino: Ino) {
        self.call(Request::Forget { ino, count: 1 });
    }

    /// Unmounts; false if that never comes to an end.
    pub fn unmount(&mut self) -> bool {
        self.client.stop(&mut Below::new(self.clock, from_mut(&mut self.node)));
        for _ in 0..MOST_TURNS {
            let Ok(()) =
                self.exchange.move_all(&mut self.client, from_mut(&mut self.node), self.clock);
            if self.client.fs.stopped() {
                return true;
            }
            match self.next_inner() {
                Some(due) => self.clock = self.clock.max(due),
                None => return false,
            }
        }
        false
    }
}

impl Volume for FileVolume {
    type Reply = FileReply;

    fn describe(&self) -> String {
        self.client.fs.describe()
    }

    fn next_event(&self) -> Option<Time> {
        if self.job.is_none() && !self.queue.is_empty() {
            return Some(0);
        }
        let due = self.next_inner()?;
        Some(due.saturating_sub(self.moved).div_ceil(SCALE))
    }

    /// Time goes from event to event, and stands still once there is a reply: the client hears it
    /// before anything else happens.
    fn settle(&mut self, now: Time, replies: &mut Vec<FileReply>) {
        let until = (now * SCALE + self.moved).max(self.clock);
        loop {
            self.go_on(replies);
            match self.next_inner() {
                Some(due) if due <= until && replies.is_empty() => {
                    self.clock = self.clock.max(due);
                }
                _ => break,
            }
        }
        if replies.is_empty() {
            self.clock = until;
            self.go_on(replies);
        }
    }

    fn stop(&mut self, now: Time) {
        self.clock = self.clock.max(now * SCALE + self.moved);
        self.client.stop(&mut Below::new(self.clock, from_mut(&mut self.node)));
    }

    fn stopped(&self) -> bool {
        self.client.fs.stopped()
    }

    fn has_failed(&self) -> bool {
        self.client.fs.failed().is_some()
    }
}
