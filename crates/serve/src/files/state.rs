//! The file system, the volume below it, and the requests of the kernel that have no answer yet.
//!
//! It has no thread of its own: each thread that holds the lock ([`super::shared`]) moves it as far
//! as it goes. Invariant between turns: each request that was taken has a flight until its reply.
//! After a power cut nothing moves, and each request fails.

use super::listing::Listing;
use super::pending::{Answered, Pending};
use super::report::{is_fault, measured};
use super::unread::Unread;
use super::volume::Volume;
use crate::announce::Announcer;
use crate::control::{Asker, Reply as Told};
use crate::status::Served;
use crate::status::meter::{Measured, Meter};
use seekless_engine::client::{Below, Client, Exchange};
use seekless_engine::io::{Done, IoError};
use seekless_engine::layer::Port;
use seekless_engine::units::{SECONDS, Time};
use seekless_fs::call::{Answer, Call, CallId, Credentials, Errno, Ino, Reply, Request, Timestamp};
use seekless_fs::system::{FileSystem, FsCx};
use slab::Slab;
use std::convert::Infallible;
use std::slice::from_mut;

/// How long a signal waits for programs to close their files.
const FAREWELL_NS: Time = 5 * SECONDS;
/// The id of calls without a reply.
const NO_REPLY: CallId = CallId::MAX;

/// Whose reply it is.
#[derive(Debug)]
enum Flight {
    /// That of a question of the kernel.
    Kernel(Pending, Measured),
    /// That of a lookup for a listing: its key, and the index of the entry.
    Listing(usize, usize),
    /// That of a sync that was asked for by command.
    Sync(Asker),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Mounted.
    Serving,
    /// Detached from its directory by a signal; programs still have files open. Since when.
    Leaving(Time),
    /// The file system comes to a clean end.
    StoppingFiles,
    /// The volume does.
    StoppingVolume,
}

/// The file system as a client of the volume.
struct Exchanged<'a> {
    fs: &'a mut dyn FileSystem,
    replies: &'a mut Vec<Reply>,
    unread: &'a mut Unread,
}

impl Client for Exchanged<'_> {
    type Error = Infallible;

    fn complete(
        &mut self,
        port: Port,
        done: Done,
        below: &mut Below<'_>,
    ) -> Result<(), Infallible> {
        let error = done.outcome.as_ref().err().copied();
        self.fs.complete(port, done, &mut FsCx { below, replies: self.replies });
        // Of a failed write or flush the file system tells, and of a power cut the disk.
        let error = error.filter(|error| *error != IoError::PowerOff);
        if let (Some(error), None) = (error, self.fs.failed()) {
            self.unread.say(error);
        }
        Ok(())
    }

    fn pump(&mut self, below: &mut Below<'_>) -> Result<(), Infallible> {
        self.fs.pump(&mut FsCx { below, replies: self.replies });
        Ok(())
    }

    fn deadline(&self) -> Option<Time> {
        self.fs.deadline()
    }
}

/// What a mount did.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// Requests answered.
    pub requests: u64,
    /// Why the file system refused changes at the end, if it did.
    pub failed: Option<IoError>,
    /// The power was cut: the volume is as the cut has left it.
    pub cut: bool,
    /// Counters of the file system.
    pub stats: Vec<(&'static str, f64)>,
}

/// The file system and all it needs.
#[derive(Debug)]
pub(super) struct State {
    pub(super) fs: Box<dyn FileSystem + Send>,
    pub(super) volume: Volume,
    exchange: Exchange,
    flights: Slab<Flight>,
    listings: Slab<Listing>,
    replies: Vec<Reply>,
    /// Answers that the thread sends when it has let go of the lock.
    answered: Vec<Answered>,
    unread: Unread,
    pub(super) announcer: Announcer,
    phase: Phase,
    ended: Ended,
    pub(super) meter: Meter,
    /// What is told of what is served, and how metadata is ordered.
    pub(super) served: Served,
    pub(super) policy: String,
}

impl State {
    /// A mounted file system.
    pub(super) fn new(
        fs: Box<dyn FileSystem + Send>,
        volume: Volume,
        served: Served,
        policy: String,
    ) -> State {
        State {
            fs,
            volume,
            exchange: Exchange::new(1),
            flights: Slab::new(),
            listings: Slab::new(),
            replies: Vec::new(),
            answered: Vec::new(),
            unread: Unread::default(),
            announcer: Announcer::of_files(&served.images),
            phase: Phase::Serving,
            ended: Ended::default(),
            meter: Meter::default(),
            served,
            policy,
        }
    }

    /// The time.
    pub(super) fn now(&self) -> Time {
        self.volume.now()
    }

    /// Takes a request of the kernel.
    pub(super) fn take(
        &mut self,
        (who, now): (Credentials, Timestamp),
        request: Request,
        pending: Pending,
    ) {
        if self.is_stopping() || self.ended.cut {
            // After a power cut, or a request to a file system that a signal ended.
            return pending.fail(Errno::Io);
        }
        let id = match pending {
            Pending::None => NO_REPLY,
            pending => {
                let measured = measured(&request, self.now());
                self.flights.insert(Flight::Kernel(pending, measured)) as CallId
            }
        };
        self.submit(Call { id, who, now, request });
    }

    /// Makes everything durable, and answers when it is.
    pub(super) fn sync(&mut self, asker: Asker) {
        if self.is_stopping() || self.ended.cut {
            return asker.send(not_synced("it is at its end"));
        }
        let id = self.flights.insert(Flight::Sync(asker)) as CallId;
        self.submit(own_call(id, Request::Sync));
    }

    /// Requests that are not answered yet.
    pub(super) fn in_flight(&self) -> u64 {
        self.flights.len() as u64
    }

    /// Takes the answers to be sent.
    pub(super) fn take_answered(&mut self) -> Vec<Answered> {
        std::mem::take(&mut self.answered)
    }

    /// When something is to happen though nothing comes from outside.
    pub(super) fn due(&self) -> Option<Time> {
        let farewell = match self.phase {
            Phase::Leaving(since) => Some(since + FAREWELL_NS),
            // The loop goes on with the end.
            _ if self.is_stopping() && self.end_can_advance() => Some(0),
            _ => None,
        };
        if self.ended.cut {
            return farewell;
        }
        let node = self.volume.mounted.node.next_event();
        [farewell, node, self.fs.deadline(), self.announcer.due()].into_iter().flatten().min()
    }

    /// Moves requests and answers until nothing more can happen now.
    pub(super) fn turn(&mut self) {
        while !self.ended.cut {
            let now = self.volume.now();
            let (fs, replies) = (self.fs.as_mut(), &mut self.replies);
            let mut client = Exchanged { fs, replies, unread: &mut self.unread };
            let nodes = from_mut(self.volume.node());
            let Ok(()) = self.exchange.move_all(&mut client, nodes, now);
            if self.volume.notice_cut() {
                return self.lose_power();
            }
            if !self.deliver() {
                break;
            }
        }
        let now = self.volume.now();
        self.announcer.tell(&self.volume.mounted.node, now);
        if self.ended.failed.is_none()
            && let Some(reason) = self.fs.failed()
        {
            let failure = self.fs.failure().unwrap_or_else(|| reason.to_string());
            tracing::error!("a write failed, the file system is read-only from now on: {failure}");
            self.ended.failed = Some(reason);
        }
    }

    /// All requests under way fail, and all that come.
    fn lose_power(&mut self) {
        self.ended.cut = true;
        self.replies.clear();
        self.exchange.forget_answers();
        for flight in self.flights.drain() {
            match flight {
                Flight::Kernel(pending, _) => {
                    self.answered.push(Answered { pending, result: Err(Errno::Io) });
                }
                Flight::Sync(asker) => asker.send(not_synced("the power was cut")),
                Flight::Listing(..) => {}
            }
        }
        self.listings.drain().for_each(|listing| listing.fail(Errno::Io));
        tracing::warn!(
            "the power is off, all requests fail; unmount the file system, run `seekless fsck` \
             and mount it again",
        );
    }

    fn submit(&mut self, call: Call) {
        let now = self.volume.now();
        let below = &mut Below::new(now, from_mut(self.volume.node()));
        self.fs.submit(call, &mut FsCx { below, replies: &mut self.replies });
    }

    fn is_stopping(&self) -> bool {
        matches!(self.phase, Phase::StoppingFiles | Phase::StoppingVolume)
    }

    /// Hands on what the file system has replied. True if that has made calls.
    fn deliver(&mut self) -> bool {
        let mut replies = std::mem::take(&mut self.replies);
        let mut called = false;
        for Reply { id, result } in replies.drain(..) {
            let flight = self.flights.try_remove(id as usize);
            debug_assert!(flight.is_some(), "a reply to call {id}, which is not in flight");
            match flight {
                Some(Flight::Kernel(pending, measured)) => {
                    self.ended.requests += 1;
                    self.meter.answered(measured, self.volume.now(), is_fault(&result));
                    called |= self.answer(pending, result);
                }
                Some(Flight::Listing(key, index)) => {
                    self.listings[key].looked_up(index, result);
                    called |= self.finish_listing(key);
                }
                Some(Flight::Sync(asker)) => asker.send(match result {
                    Ok(_) => Told::ok(serde_json::json!({})),
                    Err(errno) => {
                        not_synced(&self.fs.failure().unwrap_or_else(|| errno.to_string()))
                    }
                }),
                None => {}
            }
        }
        // Calls that were made meanwhile may have replies already.
        replies.append(&mut self.replies);
        self.replies = replies;
        called || !self.replies.is_empty()
    }

    /// Answers one question. True if that takes further calls.
    fn answer(&mut self, pending: Pending, result: Result<Answer, Errno>) -> bool {
        match (pending, result) {
            (Pending::ListPlus { reply, dir }, Ok(Answer::Entries(entries))) => {
                let key = self.listings.insert(Listing::new(reply, dir, entries));
                let lookups: Vec<(usize, Request)> = self.listings[key].lookups().collect();
                for (index, request) in lookups {
                    let id = self.flights.insert(Flight::Listing(key, index)) as CallId;
                    self.submit(own_call(id, request));
                }
                self.finish_listing(key);
                true
            }
            (pending, result) => {
                self.answered.push(Answered { pending, result });
                false
            }
        }
    }

    /// Answers a listing if all of it is there. True if that has made calls.
    fn finish_listing(&mut self, key: usize) -> bool {
        if !self.listings[key].is_complete() {
            return false;
        }
        let unheard: Vec<Ino> = self.listings.remove(key).answer();
        for ino in &unheard {
            self.submit(own_call(NO_REPLY, Request::Forget { ino: *ino, count: 1 }));
        }
        !unheard.is_empty()
    }

    /// The file system has left its directory: it ends when programs have closed their files.
    pub(super) fn leave(&mut self) {
        if self.phase == Phase::Serving {
            self.phase = Phase::Leaving(self.volume.now());
        }
    }

    /// Begins the clean end of the file system.
    pub(super) fn stop_files(&mut self) {
        if self.is_stopping() {
            return;
        }
        self.phase = Phase::StoppingFiles;
        if self.ended.cut {
            return;
        }
        self.volume.release_held_requests();
        let now = self.volume.now();
        let below = &mut Below::new(now, from_mut(self.volume.node()));
        self.fs.stop(&mut FsCx { below, replies: &mut self.replies });
    }

    /// Goes on with the end as far as that is possible now.
    pub(super) fn advance_end(&mut self) {
        if let Phase::Leaving(since) = self.phase
            && self.volume.now() >= since + FAREWELL_NS
        {
            tracing::warn!("files are still open; programs that use them get errors from now on");
            self.stop_files();
            self.turn();
        }
        if self.phase == Phase::StoppingFiles && self.end_can_advance() && !self.ended.cut {
            debug_assert_eq!(self.volume.node().in_flight(), 0, "a stopped file system waits");
            self.phase = Phase::StoppingVolume;
            let now = self.volume.now();
            self.volume.node().stop(now);
            self.turn();
        }
    }

    /// True if the current step of the end is done.
    fn end_can_advance(&self) -> bool {
        match self.phase {
            _ if self.ended.cut => self.is_stopping(),
            Phase::StoppingFiles => self.fs.stopped(),
            Phase::StoppingVolume => self.volume.mounted.node.stopped(),
            Phase::Serving | Phase::Leaving(_) => false,
        }
    }

    /// True when nothing is left to do.
    pub(super) fn is_over(&self) -> bool {
        match self.phase {
            Phase::StoppingFiles => self.ended.cut,
            Phase::StoppingVolume => self.end_can_advance(),
            Phase::Serving | Phase::Leaving(_) => false,
        }
    }

    /// The volume, and what was done with it.
    pub(super) fn into_parts(mut self) -> (Volume, Ended) {
        self.ended.failed = if self.ended.cut { None } else { self.fs.failed() };
        self.ended.stats = self.fs.stats();
        self.announcer.end(&self.volume.mounted.node);
        (self.volume, self.ended)
    }
}

/// Why a sync by command failed.
fn not_synced(why: &str) -> Told {
    Told::error(&format!("the file system is not durable: {why}"))
}

/// A call that the kernel has not asked for.
fn own_call(id: CallId, request: Request) -> Call {
    let (who, now) = Default::default();
    Call { id, who, now, request }
}
