//! The wall-clock driver: one thread, one loop. Takes all requests and completions that are ready,
//! settles the node once, answers with one system call per connection, sleeps until the next event.

mod budget;
mod client;
mod compensation;
mod late;
mod listener;
mod power;
mod wait;

pub use client::Stream;
pub use compensation::{echoes, measure as measure_compensation, pin};
pub use late::Lateness;
pub use listener::Listener;
pub use power::{OnCut, Power};

use crate::adapter::{Adapter, Answer};
use crate::nbd::{Event, Export, Ticket};
use budget::MemoryBudget;
use client::{Client, Flow, weight};
use compensation::Clock;
use rustix::event::epoll::{self, EventData, EventFlags};
use seekless_engine::account::Account;
use seekless_engine::io::{Done, Io, IoError};
use seekless_engine::layer::Rebuild;
use seekless_engine::node::Node;
use seekless_engine::units::{SECONDS, Time};
use slab::Slab;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;
use wait::{Margin, Patience};

/// What the poller calls things that are not connections.
const LISTENER: u64 = u64::MAX;
const DEVICE: u64 = u64::MAX - 1;
const STOP: u64 = u64::MAX - 2;
const CONTROL: u64 = u64::MAX - 3;

/// A client that has not chosen an export by then is sent away.
const NEGOTIATION_NS: Time = 10 * SECONDS;
/// How long the end waits for clients to take their last answers.
const FAREWELL_NS: Time = 5 * SECONDS;
/// How long no connection is accepted after the system had no resources for one.
const ACCEPT_PAUSE_NS: Time = SECONDS;

/// Who sent a request: the connection, its number (slots are used again), and how to answer.
type Who = (usize, u64, Ticket);

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
    /// How long before that they set out, for the way that they have to go; see [`measure_compensation`].
    pub compensation_ns: Time,
    /// Becomes readable when somebody wants the server to end.
    pub stop_fd: OwnedFd,
    /// Most connections at once.
    pub most_connections: usize,
    /// For a disk that crashes on demand.
    pub power: Option<Power>,
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
    clients: Slab<Client>,
    served: Served,
    started: Instant,
    phase: Phase,
    /// What was last said of a member that is filled.
    rebuild: Option<Rebuild>,
    /// How many failed members of an array have been told of.
    failed_members: usize,
    /// When to watch the listener again, if it is not watched.
    accept_at: Option<Time>,
    /// Connections that have not chosen an export yet.
    strangers: usize,
    /// Connections whose requests wait until others are answered.
    paused: usize,
    budget: MemoryBudget,
    patience: Patience,
    margin: Margin,
    clock: Clock,
    ios: Vec<Io>,
    answers: Vec<(Who, Answer)>,
    dones: Vec<Done>,
    touched: Vec<usize>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Driver of {} connections", self.clients.len())
    }
}

/// What an array below a volume fills.
fn rebuild_below(node: &Node) -> Option<Rebuild> {
    node.devices.iter().find_map(|device| device.status().rebuild())
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
        if let Some(fd) = parts.power.as_ref().and_then(Power::control_fd) {
            epoll::add(&epoll, fd, EventData::new_u64(CONTROL), EventFlags::IN)?;
        }
        let blocks = parts.node.layer.blocks();
        Ok(Driver {
            export: Arc::new(parts.export.clone()),
            adapter: Adapter::new(blocks, parts.export.read_only),
            clock: Clock::new(parts.compensation_ns),
            rebuild: rebuild_below(&parts.node),
            failed_members: 0,
            parts,
            epoll,
            clients: Slab::new(),
            served: Served::default(),
            started: Instant::now(),
            phase: Phase::Serving,
            accept_at: None,
            strangers: 0,
            paused: 0,
            budget: MemoryBudget::default(),
            patience: Patience::new(),
            margin: Margin::new(),
            ios: Vec::new(),
            answers: Vec::new(),
            dones: Vec::new(),
            touched: Vec::new(),
        })
    }

    /// Serves until somebody asks for the end.
    ///
    /// # Errors
    /// Only what makes going on impossible: the poller fails.
    pub fn run(self) -> io::Result<Served> {
        self.run_watched(&mut |_| {})
    }

    /// The same; `watch` hears how a member is filled that was put into the array below.
    ///
    /// # Errors
    /// As for [`Driver::run`].
    pub fn run_watched(mut self, watch: &mut dyn FnMut(Rebuild)) -> io::Result<Served> {
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
                    // Settling collects what the device has.
                    DEVICE => {}
                    CONTROL => self.obey(),
                    key => self.client_ready(key as usize, event.flags),
                }
            }
            self.turn();
            if self.strangers > 0 {
                self.send_strangers_away();
            }
            if self.budget.is_watched() {
                self.send_stalled_away();
            }
            if self.phase != Phase::Serving {
                self.advance_end();
            }
            self.tell_failed_members();
            self.tell(watch);
        }
        if !self.is_dark() {
            self.served.failed = self.parts.node.layer.failed();
        }
        if self.parts.simulated {
            self.served.accounts = self.parts.node.accounts();
        }
        self.served.elapsed_ns = self.now();
        Ok(self.served)
    }

    /// Says which members of an array have failed, once each.
    fn tell_failed_members(&mut self) {
        let failed_members =
            self.parts.node.devices.iter().flat_map(|device| device.status().failed_members());
        for (member, error) in failed_members.skip(self.failed_members) {
            self.failed_members += 1;
            eprintln!(
                "seekless: member {member} has failed ({error}) and is out of the array; \
                 `seekless replace` puts another one in its place"
            );
        }
    }

    /// Says how far a rebuild has come if that is news. None begins while an array is served.
    fn tell(&mut self, watch: &mut dyn FnMut(Rebuild)) {
        if !matches!(self.rebuild, Some(Rebuild::Running { .. })) {
            return;
        }
        let found = rebuild_below(&self.parts.node);
        if let Some(news) = found.filter(|_| found != self.rebuild) {
            self.rebuild = found;
            watch(news);
        }
    }

    fn now(&self) -> Time {
        // 584 years fit.
        self.started.elapsed().as_nanos() as Time
    }

    fn accept(&mut self) {
        if self.phase != Phase::Serving {
            return;
        }
        let now = self.now();
        let accepted = match self.parts.listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                let kind = error.kind();
                let passing = [
                    io::ErrorKind::WouldBlock,
                    io::ErrorKind::Interrupted,
                    io::ErrorKind::ConnectionAborted,
                ];
                if !passing.contains(&kind) {
                    // Most likely no descriptor is left: trying again at once would only spin.
                    eprintln!("seekless: cannot accept a connection: {error}");
                    let _ = epoll::delete(&self.epoll, &self.parts.listener);
                    self.accept_at = Some(now + ACCEPT_PAUSE_NS);
                }
                return;
            }
        };
        if self.turns_away() {
            return eprintln!("seekless: {} turned away: the power is off", accepted.1);
        }
        if self.clients.len() >= self.parts.most_connections {
            let open = self.clients.len();
            return eprintln!("seekless: {} turned away: {open} connections are open", accepted.1);
        }
        self.served.connections += 1;
        let number = self.served.connections;
        let client = Client::new(number, accepted, Arc::clone(&self.export), now);
        let entry = self.clients.vacant_entry();
        let (key, data) = (entry.key(), EventData::new_u64(entry.key() as u64));
        if let Err(errno) = epoll::add(&self.epoll, &client.stream, data, EventFlags::empty()) {
            return eprintln!("seekless: connection {number}: {errno}");
        }
        entry.insert(client);
        self.strangers += 1;
        self.touched.push(key);
    }

    /// Watches the listener again after a pause.
    fn resume_accepting(&mut self) {
        self.accept_at = None;
        let data = EventData::new_u64(LISTENER);
        if let Err(errno) = epoll::add(&self.epoll, &self.parts.listener, data, EventFlags::IN) {
            eprintln!("seekless: cannot accept connections: {errno}");
            self.accept_at = Some(self.now() + ACCEPT_PAUSE_NS);
        }
    }

    fn client_ready(&mut self, key: usize, flags: EventFlags) {
        let Some(client) = self.clients.get_mut(key) else { return };
        if client.parting.is_some() {
            if client.discard() != Flow::Blocked {
                self.drop_client(key, None);
            }
            return;
        }
        self.touched.push(key);
        let gone = flags.intersects(EventFlags::HUP | EventFlags::ERR);
        if gone && (client.paused || client.leaving) {
            // Nobody is left to take the answers.
            return self.drop_client(key, None);
        }
        if !(gone || flags.contains(EventFlags::IN)) {
            return;
        }
        match client.receive() {
            Ok(()) => self.take_requests(key),
            Err(Flow::Blocked) => {}
            Err(Flow::Closed(why)) => self.drop_client(key, why.map(|errno| errno.to_string())),
        }
    }

    /// Takes on what a client has sent, as far as its limits allow.
    fn take_requests(&mut self, key: usize) {
        let client = &mut self.clients[key];
        if std::mem::take(&mut client.paused) {
            self.paused -= 1;
        }
        loop {
            if self.clients[key].leaving {
                return;
            }
            let Some(event) = self.next_event(key) else { return };
            let client = &mut self.clients[key];
            match event {
                Event::Negotiated => {
                    client.negotiated = true;
                    self.strangers -= 1;
                    eprintln!("seekless: connection {} opened by {}", client.number, client.peer);
                }
                Event::Request(request) => {
                    let ticket = request.ticket();
                    client.begin(&ticket);
                    self.budget.begin(weight(&ticket));
                    let request = client::request(request, (key, client.number, ticket));
                    if self.is_dark() {
                        self.answers.push((request.who, power::off()));
                        continue;
                    }
                    let mut extent = |at, limit| self.parts.node.extent(at, limit);
                    self.adapter.request(request, &mut extent, &mut self.ios, &mut self.answers);
                }
                Event::Disconnected => client.leaving = true,
                Event::Failed(error) => {
                    // The reason may have been put into words for the client.
                    let _ = client.send();
                    return self.drop_client(key, Some(error.to_string()));
                }
            }
        }
    }

    /// Closes a connection. What it has in flight goes on; the answers are forgotten.
    fn drop_client(&mut self, key: usize, why: Option<String>) {
        // Closing the socket removes it from the poller as well.
        let client = self.clients.remove(key);
        self.paused -= usize::from(client.paused);
        self.strangers -= usize::from(!client.negotiated);
        self.budget.recount(client.counted, 0);
        self.budget.dequeue(key);
        let Client { number, peer, negotiated, .. } = &client;
        match why {
            Some(why) => eprintln!("seekless: connection {number} of {peer} closed: {why}"),
            None if *negotiated => eprintln!("seekless: connection {number} closed"),
            None => {}
        }
    }

    fn send_strangers_away(&mut self) {
        let now = self.now();
        let late = |client: &Client| !client.negotiated && now >= client.since + NEGOTIATION_NS;
        let keys: Vec<usize> =
            self.clients.iter().filter(|(_, client)| late(client)).map(|(key, _)| key).collect();
        for key in keys {
            self.drop_client(key, Some("it did not choose an export in time".to_owned()));
        }
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
            if self.ios.is_empty() && self.answers.is_empty() {
                break;
            }
        }
    }

    /// Moves requests and answers between clients, volume and device.
    fn settle(&mut self) {
        loop {
            let wall = self.now();
            let (arrival, now) = self.clock.read(wall);
            if self.parts.simulated {
                let events = self.parts.node.devices.iter().filter_map(|one| one.next_event());
                for due in events.filter(|&due| due <= now) {
                    self.served.lateness.record(due, now);
                }
            }
            // The device has them before time goes on, if it does.
            let ahead = arrival < now && !self.ios.is_empty();
            for io in self.ios.drain(..) {
                self.parts.node.submit(arrival, io);
            }
            if ahead {
                self.parts.node.settle(arrival, &mut self.dones);
            }
            self.parts.node.settle(now, &mut self.dones);
            if self.dones.is_empty() {
                break;
            }
            for done in self.dones.drain(..) {
                self.adapter.done(done, &mut self.ios, &mut self.answers);
            }
        }
        if let Some(reason) = self.parts.node.layer.failed()
            && self.served.failed.is_none()
            && !self.is_dark()
        {
            eprintln!("seekless: a write failed, the volume is read-only from now on: {reason}");
            self.served.failed = Some(reason);
            self.adapter.fail_volume(reason);
        }
    }

    /// Hands answers to their connections and sends.
    fn deliver(&mut self) {
        if self.parts.power.is_some() {
            self.notice_cut();
        }
        if !self.answers.is_empty() {
            let now = self.now();
            self.patience.answered(now);
        }
        for ((key, number, ticket), answer) in self.answers.drain(..) {
            self.served.requests += 1;
            self.budget.end(weight(&ticket));
            // The connection may be gone, and its slot another's.
            if let Some(client) = self.clients.get_mut(key).filter(|c| c.number == number) {
                client.answer(ticket, answer);
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

    /// Gives those another chance who were full when they may have had more requests.
    fn resume_paused(&mut self) {
        let paused = |client: &Client| client.paused && !client.leaving;
        let others = self.clients.iter().filter(|(_, client)| paused(client)).map(|(key, _)| key);
        // Those who wait for room come in their order; one that is there twice does no harm.
        let keys: Vec<usize> = self.budget.queue().chain(others).collect();
        for key in keys {
            if !self.clients.get(key).is_some_and(paused) {
                continue;
            }
            self.take_requests(key);
            // It may be gone, or want to be watched differently.
            self.touched.push(key);
        }
        if self.ios.is_empty() && self.answers.is_empty() {
            self.deliver();
        }
    }

    /// Sends what a connection has, and watches it for what it needs next.
    fn serve_socket(&mut self, key: usize) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let sent = client.send();
        self.recount(key);
        if let Err(Flow::Closed(why)) = sent {
            return self.drop_client(key, why.map(|errno| errno.to_string()));
        }
        let client = &mut self.clients[key];
        let idle = client.in_flight == 0 && client.connection.output().is_empty();
        if client.leaving && idle && client.parting.is_none() {
            let (now, shutdown) = (self.now(), self.phase != Phase::Serving);
            if !shutdown || !self.clients[key].part(now) {
                return self.drop_client(key, None);
            }
        }
        let client = &mut self.clients[key];
        let wants = client.wants();
        if wants != client.interest {
            client.interest = wants;
            let data = EventData::new_u64(key as u64);
            if let Err(errno) = epoll::modify(&self.epoll, &client.stream, data, wants) {
                self.drop_client(key, Some(errno.to_string()));
            }
        }
    }

    /// Begins the end: nothing new is taken on. A signal after that ends the process at once, by
    /// its default action.
    pub fn stop(&mut self) {
        let _ = epoll::delete(&self.epoll, &self.parts.stop_fd);
        // A signal stays pending until it is read: released, it would end the process at once.
        let _ = rustix::io::read(&self.parts.stop_fd, &mut [0_u8; 128]);
        if let Err(error) = crate::signals::release() {
            eprintln!("seekless: a second signal will not end the server at once: {error}");
        }
        eprintln!(
            "seekless: shutdown: answering {} requests in flight; another signal ends at once",
            self.adapter.in_flight()
        );
        self.let_go();
        self.phase = Phase::Draining(self.now());
        if self.accept_at.take().is_none() {
            let _ = epoll::delete(&self.epoll, &self.parts.listener);
        }
        for (key, client) in &mut self.clients {
            client.leaving = true;
            self.touched.push(key);
        }
    }

    fn advance_end(&mut self) {
        let now = self.now();
        let late = self.clients.iter().filter(|(_, client)| client.has_parted(now));
        let late = late.map(|(key, _)| key);
        for key in late.collect::<Vec<_>>() {
            self.drop_client(key, None);
        }
        if let Phase::Draining(since) = self.phase
            && self.adapter.in_flight() == 0
        {
            self.phase = Phase::Stopping(since);
            let wall = self.now();
            let (now, _) = self.clock.read(wall);
            self.parts.node.stop(now);
            self.turn();
        }
    }

    /// True once the volume is at rest and the clients have their last answers, or had the time.
    fn is_over(&self) -> bool {
        let Phase::Stopping(since) = self.phase else { return false };
        let alone = self.clients.is_empty() || self.now() >= since + FAREWELL_NS;
        // Without power a volume cannot come to rest.
        (self.parts.node.stopped() || self.is_dark()) && alone
    }
}
