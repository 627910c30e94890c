//! The loop: it owns the file system, the volume below it and the clock.
//!
//! One turn takes what the kernel has asked, exchanges it with the file system and the volume until
//! nothing moves, and answers. Then it sleeps until a request, an answer of a device, a deadline or
//! a signal. Invariant between turns: each request that was taken has a flight until its reply.

use super::listing::Listing;
use super::pending::Pending;
use super::queue::{Asked, Queue};
use super::volume::Volume;
use crate::fuse::mount::MountPoint;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno as OsErrno;
use seekless_engine::client::{Below, Client, Exchange, next_event};
use seekless_engine::io::{Done, IoError};
use seekless_engine::layer::Port;
use seekless_engine::units::{SECONDS, Time};
use seekless_fs::call::{Answer, Call, CallId, Errno, Ino, Reply, Request};
use seekless_fs::system::{FileSystem, FsCx};
use slab::Slab;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::slice::from_mut;

/// What the poller calls its descriptors.
const CALLS: u64 = 0;
const DEVICE: u64 = 1;
const STOP: u64 = 2;

/// How long a signal waits for programs to close their files.
const FAREWELL_NS: Time = 5 * SECONDS;
/// The id of calls without a reply.
const NO_REPLY: CallId = CallId::MAX;

/// Whose reply it is.
#[derive(Debug)]
enum Flight {
    /// That of a question of the kernel.
    Kernel(Pending),
    /// That of a lookup for a listing: its key, and the index of the entry.
    Listing(usize, usize),
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
}

impl Client for Exchanged<'_> {
    type Error = Infallible;

    fn complete(
        &mut self,
        port: Port,
        done: Done,
        below: &mut Below<'_>,
    ) -> Result<(), Infallible> {
        self.fs.complete(port, done, &mut FsCx { below, replies: self.replies });
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
    /// Counters of the file system.
    pub stats: Vec<(&'static str, f64)>,
}

/// The loop and all it owns.
#[derive(Debug)]
pub(super) struct Driver {
    fs: Box<dyn FileSystem>,
    volume: Volume,
    queue: Queue,
    epoll: OwnedFd,
    stop_fd: OwnedFd,
    /// Until a signal takes it.
    point: Option<MountPoint>,
    exchange: Exchange,
    flights: Slab<Flight>,
    listings: Slab<Listing>,
    asked: VecDeque<Asked>,
    replies: Vec<Reply>,
    phase: Phase,
    ended: Ended,
}

impl Driver {
    /// Sets the poller up.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub(super) fn new(
        fs: Box<dyn FileSystem>,
        volume: Volume,
        queue: Queue,
        stop_fd: OwnedFd,
        point: Option<MountPoint>,
    ) -> io::Result<Driver> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, queue.wake_fd(), EventData::new_u64(CALLS), EventFlags::IN)?;
        epoll::add(&epoll, &stop_fd, EventData::new_u64(STOP), EventFlags::IN)?;
        for fd in volume.device_fds() {
            epoll::add(&epoll, fd, EventData::new_u64(DEVICE), EventFlags::IN)?;
        }
        Ok(Driver {
            fs,
            volume,
            queue,
            epoll,
            stop_fd,
            point,
            exchange: Exchange::new(1),
            flights: Slab::new(),
            listings: Slab::new(),
            asked: VecDeque::new(),
            replies: Vec::new(),
            phase: Phase::Serving,
            ended: Ended::default(),
        })
    }

    /// Serves until the file system is unmounted or a signal ends it, and gives the volume back.
    ///
    /// # Errors
    /// Only what makes going on impossible: the poller fails.
    pub(super) fn run(mut self) -> io::Result<(Volume, Ended)> {
        let mut events = Vec::with_capacity(16);
        loop {
            self.turn();
            self.advance_end();
            if self.phase == Phase::StoppingVolume && self.volume.node().stopped() {
                break;
            }
            self.wait(&mut events)?;
            for event in &events {
                match event.data.u64() {
                    STOP => self.leave(),
                    CALLS => self.queue.clear(),
                    // The next turn collects what the device has.
                    _ => {}
                }
            }
        }
        self.ended.failed = self.fs.failed();
        self.ended.stats = self.fs.stats();
        Ok((self.volume, self.ended))
    }

    /// Moves requests and answers until nothing more can happen now.
    fn turn(&mut self) {
        loop {
            self.take_calls();
            let now = self.volume.now();
            let mut client = Exchanged { fs: self.fs.as_mut(), replies: &mut self.replies };
            let nodes = from_mut(self.volume.node());
            let Ok(()) = self.exchange.move_all(&mut client, nodes, now);
            if !self.deliver() {
                break;
            }
        }
        if self.ended.failed.is_none()
            && let Some(reason) = self.fs.failed()
        {
            super::say(&format!(
                "a write failed, the file system is read-only from now on: {reason}"
            ));
            self.ended.failed = Some(reason);
        }
    }

    /// Hands what the kernel has asked to the file system.
    fn take_calls(&mut self) {
        let mut asked = std::mem::take(&mut self.asked);
        self.queue.take(&mut asked);
        for one in asked.drain(..) {
            match one {
                Asked::Ended => self.stop_files(),
                Asked::Call { who, now, request, pending } => {
                    if self.is_stopping() {
                        // Only a request to a file system that a signal ended.
                        pending.fail(Errno::Io);
                        continue;
                    }
                    let id = match pending {
                        Pending::None => NO_REPLY,
                        pending => self.flights.insert(Flight::Kernel(pending)) as CallId,
                    };
                    self.submit(Call { id, who, now, request });
                }
            }
        }
        self.asked = asked;
    }

    fn submit(&mut self, call: Call) {
        let now = self.volume.now();
        let below = &mut Below::new(now, from_mut(self.volume.node()));
        self.fs.submit(call, &mut FsCx { below, replies: &mut self.replies });
    }

    fn is_stopping(&self) -> bool {
        matches!(self.phase, Phase::StoppingFiles | Phase::StoppingVolume)
    }

    /// Answers the kernel. True if that has made calls.
    fn deliver(&mut self) -> bool {
        let mut replies = std::mem::take(&mut self.replies);
        let mut called = false;
        for Reply { id, result } in replies.drain(..) {
            let flight = self.flights.try_remove(id as usize);
            debug_assert!(flight.is_some(), "a reply to call {id}, which is not in flight");
            match flight {
                Some(Flight::Kernel(pending)) => {
                    self.ended.requests += 1;
                    called |= self.answer(pending, result);
                }
                Some(Flight::Listing(key, index)) => {
                    self.listings[key].looked_up(index, result);
                    called |= self.finish_listing(key);
                }
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
                pending.answer(result);
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

    /// A signal: the file system leaves its directory, and ends when programs have closed their
    /// files. The next signal ends the process at once, by its default action.
    fn leave(&mut self) {
        let _ = epoll::delete(&self.epoll, &self.stop_fd);
        // A signal stays pending until it is read: released, it would end the process at once.
        let _ = rustix::io::read(&self.stop_fd, &mut [0_u8; 128]);
        let _ = crate::signals::release();
        drop(self.point.take());
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
        let now = self.volume.now();
        let below = &mut Below::new(now, from_mut(self.volume.node()));
        self.fs.stop(&mut FsCx { below, replies: &mut self.replies });
    }

    /// Goes on with the end as far as that is possible now.
    fn advance_end(&mut self) {
        let now = self.volume.now();
        if let Phase::Leaving(since) = self.phase
            && now >= since + FAREWELL_NS
        {
            super::say("files are still open; programs that use them get errors from now on");
            self.stop_files();
            self.turn();
        }
        if self.phase == Phase::StoppingFiles && self.fs.stopped() {
            debug_assert_eq!(self.volume.node().in_flight(), 0, "a stopped file system waits");
            self.phase = Phase::StoppingVolume;
            self.volume.node().stop(now);
            self.turn();
        }
    }

    /// Sleeps until there is something to do, and says what it is.
    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        events.clear();
        let now = self.volume.now();
        let farewell = match self.phase {
            Phase::Leaving(since) => Some(since + FAREWELL_NS),
            _ => None,
        };
        let node = next_event(from_mut(self.volume.node()));
        let due = [farewell, node, self.fs.deadline()].into_iter().flatten().min();
        let sleep = due.map(|due| due.saturating_sub(now));
        if sleep == Some(0) || !self.queue.may_sleep() {
            return self.poll(events, Some(0));
        }
        let polled = self.poll(events, sleep);
        self.queue.awake();
        polled
    }

    fn poll(&self, events: &mut Vec<epoll::Event>, sleep: Option<Time>) -> io::Result<()> {
        let timeout = sleep.map(|sleep| Timespec {
            tv_sec: (sleep / SECONDS) as i64,
            tv_nsec: (sleep % SECONDS) as _,
        });
        let spare = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
            Ok(_) | Err(OsErrno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// A call that the kernel has not asked for.
fn own_call(id: CallId, request: Request) -> Call {
    let (who, now) = Default::default();
    Call { id, who, now, request }
}
