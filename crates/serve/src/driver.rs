//! The wall-clock driver: one thread, one loop. Takes all requests and completions that are ready,
//! moves them between the byte-to-block adapter (the client) and the node until nothing moves,
//! answers with one system call per connection, sleeps until the next event.
//!
//! One turn of the loop: [`poll`] waits, [`accept`] and [`sessions`] take in what has come,
//! `Driver::settle` exchanges it with the node, `Driver::deliver` sends the answers. [`budget`]
//! bounds the memory of all sessions, [`power`] cuts the power, [`shutdown`] ends the server.
//!
//! Invariant between turns: the adapter has no news, and each session is watched for what it needs.

mod accept;
mod again;
mod announce;
mod budget;
mod busy_poll;
mod compensation;
mod lateness;
mod listener;
mod poll;
mod power;
mod replace;
mod report;
mod session;
mod sessions;
mod shutdown;
mod wake_margin;

pub use compensation::{echoes, measure as measure_compensation, pin};
pub use lateness::Lateness;
pub use listener::Listener;
pub use power::{OnCut, Power};
pub use session::Stream;

use crate::adapter::{Adapter, Answer};
use crate::announce::Announcer;
use crate::control::Control;
use crate::nbd::{Export, Ticket};
use crate::server::again::Again;
use crate::server::backing::{Backing, members_out};
use crate::server::members::MemberDevices;
use crate::status;
use crate::status::meter::{Measured, Meter};
use announce::rebuild_below;
use budget::MemoryBudget;
use busy_poll::BusyPoll;
use compensation::Clock;
use rustix::event::epoll::{self, EventData, EventFlags};
use seekless_engine::account::Account;
use seekless_engine::client::Exchange;
use seekless_engine::io::IoError;
use seekless_engine::io::Rebuild;
use seekless_engine::node::Node;
use seekless_engine::units::{SECONDS, Time};
use session::{Session, weight};
use slab::Slab;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::slice::from_mut;
use std::sync::Arc;
use std::time::Instant;
use wake_margin::WakeMargin;

/// What the poller calls things that are not connections.
const LISTENER: u64 = u64::MAX;
const DEVICE: u64 = u64::MAX - 1;
const STOP: u64 = u64::MAX - 2;
const CONTROL: u64 = u64::MAX - 3;
const USR1: u64 = u64::MAX - 4;

/// A connection that has not chosen an export by then is closed.
const NEGOTIATION_NS: Time = 10 * SECONDS;
/// How long the end waits for clients to take their last answers.
const FAREWELL_NS: Time = 5 * SECONDS;

/// Who sent a request, how to answer it, and what is measured of it.
#[derive(Clone, Debug)]
struct Who {
    /// Key of the session; keys are used again.
    key: usize,
    /// Number of the session.
    number: u64,
    ticket: Ticket,
    measured: Measured,
}

/// What the driver needs to begin.
#[derive(Debug)]
pub struct Parts {
    /// The volume over its device.
    pub node: Node,
    /// What clients learn of it.
    pub export: Export,
    /// Where connections come from; non-blocking.
    pub listener: Listener,
    /// Becomes readable when a real device has answers.
    pub device_fds: Vec<OwnedFd>,
    /// The device is a simulated disk: its answers have a time at which they are due.
    pub simulated: bool,
    /// How long before that they are sent, for the time of delivery; see [`measure_compensation`].
    pub compensation_ns: Time,
    /// Becomes readable when the server is to end.
    pub stop_fd: OwnedFd,
    /// Most connections at once.
    pub most_connections: usize,
    /// For a disk that crashes on demand.
    pub power: Option<Power>,
    /// Where questions and commands come from.
    pub control: Option<Control>,
    /// What is told of what is served.
    pub served: status::Served,
    /// Becomes readable when a line about the state is asked for.
    pub usr1_fd: Option<OwnedFd>,
    /// How an array below takes new members.
    pub members: Option<MemberDevices>,
    /// How the volume is mounted again after the host was full.
    pub again: Option<Again>,
}

/// What a server did.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Connections accepted.
    pub connections: u64,
    /// Requests answered.
    pub requests: u64,
    /// Why the volume refused writes at the end, if it did.
    pub failed: Option<IoError>,
    /// Members of an array that were not part of it at the end.
    pub members_out: Vec<usize>,
    /// How well the time of a simulated disk was kept.
    pub lateness: Lateness,
    /// What simulated disks were busy with, each for [`Served::elapsed_ns`].
    pub accounts: Vec<Account>,
    /// How long it served.
    pub elapsed_ns: Time,
}

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    /// Nothing new is taken on; since when.
    Draining(Time),
    /// The volume is leaving a state that the next mount recognises as clean.
    Stopping(Time),
}

/// The loop and all it owns.
pub struct Driver {
    parts: Parts,
    export: Arc<Export>,
    epoll: OwnedFd,
    adapter: Adapter<Who>,
    /// Between the adapter and the node; empty between turns.
    exchange: Exchange,
    sessions: Slab<Session>,
    served: Served,
    started: Instant,
    phase: Phase,
    /// What was last announced of a rebuild.
    rebuild: Option<Rebuild>,
    /// What was said of the members of an array.
    announcer: Announcer,
    /// The files of members that have come since.
    new_files: Vec<Backing>,
    /// When to watch the listener again, if it is not watched.
    accept_at: Option<Time>,
    waiting_for_room: again::Waiting,
    /// Sessions that have not chosen an export yet.
    negotiating: usize,
    /// Sessions whose requests wait until others are answered.
    paused: usize,
    budget: MemoryBudget,
    busy_poll: BusyPoll,
    wake_margin: WakeMargin,
    meter: Meter,
    clock: Clock,
    /// Keys of sessions that may have something to send or want to be watched differently.
    touched: Vec<usize>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Driver of {} connections", self.sessions.len())
    }
}

impl Driver {
    /// Sets the poller up.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn new(parts: Parts) -> io::Result<Driver> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &parts.listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        epoll::add(&epoll, &parts.stop_fd, EventData::new_u64(STOP), EventFlags::IN)?;
        for fd in &parts.device_fds {
            epoll::add(&epoll, fd, EventData::new_u64(DEVICE), EventFlags::IN)?;
        }
        if let Some(control) = &parts.control {
            epoll::add(&epoll, control.fd(), EventData::new_u64(CONTROL), EventFlags::IN)?;
        }
        if let Some(fd) = &parts.usr1_fd {
            epoll::add(&epoll, fd, EventData::new_u64(USR1), EventFlags::IN)?;
        }
        let blocks = parts.node.layer.blocks();
        Ok(Driver {
            export: Arc::new(parts.export.clone()),
            adapter: Adapter::new(blocks, parts.export.read_only),
            clock: Clock::new(parts.compensation_ns),
            rebuild: rebuild_below(&parts.node),
            announcer: Announcer::new(&parts.served.images),
            parts,
            epoll,
            exchange: Exchange::new(1),
            sessions: Slab::new(),
            served: Served::default(),
            started: Instant::now(),
            phase: Phase::Serving,
            new_files: Vec::new(),
            accept_at: None,
            waiting_for_room: again::Waiting::default(),
            negotiating: 0,
            paused: 0,
            budget: MemoryBudget::default(),
            busy_poll: BusyPoll::new(),
            wake_margin: WakeMargin::new(),
            meter: Meter::default(),
            touched: Vec::new(),
        })
    }

    /// Serves until the end is asked for.
    ///
    /// # Errors
    /// Only what makes going on impossible: the poller fails.
    pub fn run(mut self) -> io::Result<Served> {
        self.run_watched(&mut |_| {})
    }

    /// The same; `watch` hears how far the rebuild of an array below has come.
    ///
    /// # Errors
    /// As for [`Driver::run`].
    pub fn run_watched(&mut self, watch: &mut dyn FnMut(Rebuild)) -> io::Result<Served> {
        if self.parts.simulated {
            // The system may wake a thread 50 µs later than asked, to save power. If it cannot be
            // told otherwise the time is kept less well, no more.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        }
        let mut events = Vec::with_capacity(256);
        // What the volume does by itself begins now, not when the first client comes.
        self.turn();
        if self.phase != Phase::Serving {
            self.advance_end();
        }
        while !self.is_over() {
            self.wait(&mut events)?;
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    STOP => self.stop(),
                    // The turn below collects what the device has.
                    DEVICE => {}
                    CONTROL => self.obey(),
                    USR1 => self.say_status(),
                    key => self.session_ready(key as usize, event.flags),
                }
            }
            self.turn();
            self.go_on_when_there_is_room();
            if self.negotiating > 0 {
                self.drop_slow_negotiations();
            }
            if self.budget.is_watched() {
                self.drop_stalled_sessions();
            }
            if self.phase != Phase::Serving {
                self.advance_end();
            }
            let now = self.now();
            self.announcer.tell(&self.parts.node, now);
            self.announce_rebuild(watch);
        }
        if !self.is_dark() {
            self.served.failed = self.parts.node.layer.failed();
        }
        if self.parts.simulated {
            self.served.accounts = self.parts.node.accounts();
        }
        self.served.members_out = members_out(&self.parts.node);
        self.announcer.end(&self.parts.node);
        self.served.elapsed_ns = self.now();
        Ok(std::mem::take(&mut self.served))
    }

    /// The files of members that the array has taken, which keep their locks.
    pub(crate) fn take_new_files(&mut self) -> Vec<Backing> {
        std::mem::take(&mut self.new_files)
    }

    fn now(&self) -> Time {
        // 584 years fit.
        self.started.elapsed().as_nanos() as Time
    }

    /// Moves requests, answers and bytes until nothing more can happen now.
    fn turn(&mut self) {
        loop {
            self.settle();
            self.deliver();
            if self.paused > 0 {
                self.budget.released = false;
                self.resume_paused();
                if self.budget.released && self.paused > 0 {
                    continue;
                }
            }
            if !self.adapter.has_news() {
                break;
            }
        }
        debug_assert!(self.counts_are_right(), "{self:?} has lost count");
    }

    /// True if the counters agree with what they count.
    fn counts_are_right(&self) -> bool {
        let count = |is: fn(&Session) -> bool| self.sessions.iter().filter(|one| is(one.1)).count();
        count(|one| one.paused) == self.paused
            && count(|one| !one.negotiated) == self.negotiating
            && self.sessions.iter().map(|one| one.1.counted).sum::<usize>()
                == self.budget.buffered()
    }

    /// Moves requests and answers between the adapter and the node until nothing moves.
    fn settle(&mut self) {
        loop {
            let wall = self.now();
            let (arrival, now) = self.clock.read(wall);
            debug_assert!(arrival <= now, "answers are looked for ahead of the clock, not behind");
            if self.parts.simulated {
                self.record_lateness(now);
            }
            let nodes = from_mut(&mut self.parts.node);
            let Ok(sent) = self.exchange.turn(&mut self.adapter, nodes, arrival);
            // Requests reach the device when they came, not when answers are looked for.
            if sent && arrival < now {
                self.exchange.settle(nodes, arrival);
            }
            if !self.exchange.settle(nodes, now) {
                break;
            }
        }
        if let Some(reason) = self.parts.node.layer.failed()
            && self.served.failed.is_none()
            && !self.is_dark()
        {
            tracing::error!("a write failed, the volume is read-only from now on: {reason}");
            self.served.failed = Some(reason);
            self.adapter.fail_volume(reason);
        }
    }

    /// Counts how late the answers of simulated disks are found that are due by `now`.
    fn record_lateness(&mut self, now: Time) {
        let events = self.parts.node.devices.iter().filter_map(|one| one.next_event());
        for due in events.filter(|&due| due <= now) {
            self.served.lateness.record(due, now);
        }
    }

    /// Hands answers to their sessions and sends.
    fn deliver(&mut self) {
        if self.parts.power.is_some() {
            self.notice_cut();
        }
        let mut now = 0;
        if !self.adapter.answers().is_empty() {
            now = self.now();
            self.busy_poll.answered(now);
        }
        for (Who { key, number, ticket, measured }, answer) in self.adapter.answers().drain(..) {
            self.served.requests += 1;
            self.meter.answered(measured, now, matches!(answer, Answer::Error(..)));
            self.budget.end(weight(&ticket));
            // The session may be gone, and its key another's.
            if let Some(session) = self.sessions.get_mut(key).filter(|one| one.number == number) {
                session.answer(ticket, answer);
                if self.touched.last() != Some(&key) {
                    self.touched.push(key);
                }
            }
        }
        let mut touched = std::mem::take(&mut self.touched);
        if touched.len() > 1 {
            touched.sort_unstable();
            touched.dedup();
        }
        for key in touched.drain(..) {
            self.serve_socket(key);
        }
        self.touched = touched;
    }
}
