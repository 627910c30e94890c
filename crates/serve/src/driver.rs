//! The wall-clock driver: one thread, one loop. Takes all requests and completions that are ready,
//! settles the node once, answers with one system call per connection, sleeps until the next event.

mod client;

pub use client::Stream;

use crate::edge::{Answer, Edge};
use crate::nbd::{Event, Export, Ticket};
use client::{Client, Flow};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use seekless_engine::io::{Done, Io, IoError};
use seekless_engine::node::Node;
use seekless_engine::units::{MICROS, SECONDS, Time};
use slab::Slab;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Instant;

/// What the poller calls things that are not connections.
const LISTENER: u64 = u64::MAX;
const DEVICE: u64 = u64::MAX - 1;
const SIGNAL: u64 = u64::MAX - 2;
/// The last stretch before an event of a simulated disk is not slept through: the timer of the
/// kernel is that much late at times.
const SPIN_NS: Time = 60 * MICROS;

/// Where connections come from.
#[derive(Debug)]
pub enum Listener {
    /// A socket in the file system.
    Unix(UnixListener),
    /// A port.
    Tcp(TcpListener),
}

impl Listener {
    fn accept(&self) -> io::Result<Stream> {
        let stream = match self {
            Listener::Unix(listener) => Stream::Unix(listener.accept()?.0),
            Listener::Tcp(listener) => {
                let stream = listener.accept()?.0;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
        };
        rustix::io::ioctl_fionbio(stream.as_fd(), true)?;
        Ok(stream)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }
}

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
    pub device_fd: Option<OwnedFd>,
    /// Becomes readable, and yields 128 bytes each, when somebody wants the server to end.
    pub signal_fd: OwnedFd,
    /// Most connections at once.
    pub most_connections: usize,
}

/// What a server did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Connections accepted.
    pub connections: u64,
    /// Requests answered.
    pub requests: u64,
    /// Why the volume refused writes at the end, if it did.
    pub latched: Option<IoError>,
}

/// The loop and all it owns.
pub struct Driver {
    parts: Parts,
    export: Arc<Export>,
    epoll: OwnedFd,
    edge: Edge<Who>,
    clients: Slab<(u64, Client)>,
    served: Served,
    started: Instant,
    stopping: bool,
    stop_asked: bool,
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

impl Driver {
    /// Sets the poller up.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn new(parts: Parts) -> io::Result<Driver> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &parts.listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        epoll::add(&epoll, &parts.signal_fd, EventData::new_u64(SIGNAL), EventFlags::IN)?;
        if let Some(fd) = &parts.device_fd {
            epoll::add(&epoll, fd, EventData::new_u64(DEVICE), EventFlags::IN)?;
        }
        let blocks = parts.node.layer.blocks();
        Ok(Driver {
            export: Arc::new(parts.export.clone()),
            edge: Edge::new(blocks, parts.export.read_only),
            parts,
            epoll,
            clients: Slab::new(),
            served: Served::default(),
            started: Instant::now(),
            stopping: false,
            stop_asked: false,
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
    pub fn run(mut self) -> io::Result<Served> {
        let mut events = Vec::with_capacity(256);
        while !self.parts.node.layer.stopped() {
            let timeout = self.timeout();
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                timeout.as_ref(),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let mut device_ready = false;
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    SIGNAL => {
                        if !self.signalled() {
                            return Ok(self.served);
                        }
                    }
                    DEVICE => device_ready = true,
                    key => self.client_ready(key as usize, event.flags),
                }
            }
            let _ = device_ready; // Settling collects what the device has.
            self.settle();
            self.deliver();
            self.advance_stop();
        }
        self.served.latched = self.parts.node.layer.latched();
        Ok(self.served)
    }

    fn now(&self) -> Time {
        // 584 years fit.
        self.started.elapsed().as_nanos() as Time
    }

    /// How long to sleep: until the next event, less what is spent spinning before it.
    fn timeout(&self) -> Option<Timespec> {
        let due = self.parts.node.next_event()?;
        let sleep = due.saturating_sub(self.now()).saturating_sub(SPIN_NS);
        Some(Timespec { tv_sec: (sleep / SECONDS) as i64, tv_nsec: (sleep % SECONDS) as _ })
    }

    fn accept(&mut self) {
        let stream = match self.parts.listener.accept() {
            Ok(stream) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => return eprintln!("seekless: cannot accept a connection: {error}"),
        };
        if self.stopping || self.clients.len() >= self.parts.most_connections {
            return eprintln!("seekless: connection refused: {} are open", self.clients.len());
        }
        self.served.connections += 1;
        let number = self.served.connections;
        let key = self.clients.insert((number, Client::new(stream, Arc::clone(&self.export))));
        let client = &self.clients[key].1;
        let added = epoll::add(
            &self.epoll,
            &client.stream,
            EventData::new_u64(key as u64),
            EventFlags::empty(),
        );
        if let Err(errno) = added {
            eprintln!("seekless: connection {number}: {errno}");
            self.clients.remove(key);
            return;
        }
        self.touched.push(key);
    }

    fn client_ready(&mut self, key: usize, flags: EventFlags) {
        if !self.clients.contains(key) {
            return;
        }
        self.touched.push(key);
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            self.receive(key, flags.contains(EventFlags::HUP));
        }
    }

    /// Takes in what a client has sent.
    fn receive(&mut self, key: usize, hung_up: bool) {
        let (number, client) = &mut self.clients[key];
        let number = *number;
        if client.leaving && !hung_up {
            return;
        }
        match client.receive() {
            Ok(()) => {}
            Err(Flow::Blocked) => return,
            Err(Flow::Closed(why)) => {
                if let Some(why) = why {
                    eprintln!("seekless: connection {number}: {why}");
                }
                return self.drop_client(key);
            }
        }
        while let Some(event) = self.clients[key].1.connection.poll() {
            match event {
                Event::Negotiated => {}
                Event::Request(request) => {
                    self.clients[key].1.in_flight += 1;
                    let who = (key, number, request.ticket());
                    let layer = self.parts.node.layer.as_ref();
                    let request = client::request(request, who);
                    self.edge.request(request, layer, &mut self.ios, &mut self.answers);
                }
                Event::Disconnected => self.clients[key].1.leaving = true,
                Event::Failed(error) => {
                    eprintln!("seekless: connection {number} closed: {error}");
                    return self.drop_client(key);
                }
            }
        }
    }

    fn drop_client(&mut self, key: usize) {
        let (_, client) = self.clients.remove(key);
        // Closing the socket removes it from the poller as well.
        drop(client);
    }

    /// Moves requests and answers until nothing more can happen now.
    fn settle(&mut self) {
        loop {
            let now = self.now();
            for io in self.ios.drain(..) {
                self.parts.node.submit(now, io);
            }
            self.parts.node.settle(now, &mut self.dones);
            if self.dones.is_empty() {
                break;
            }
            for done in self.dones.drain(..) {
                self.edge.done(done, &mut self.ios, &mut self.answers);
            }
        }
        if let Some(reason) = self.parts.node.layer.latched()
            && self.served.latched.is_none()
        {
            eprintln!("seekless: a write failed, the volume is read-only from now on: {reason}");
            self.served.latched = Some(reason);
            self.edge.latch(reason);
        }
    }

    /// Hands answers to their connections and sends.
    fn deliver(&mut self) {
        for ((key, number, ticket), answer) in self.answers.drain(..) {
            self.served.requests += 1;
            // The connection may be gone, and its slot another's.
            if let Some((_, client)) = self.clients.get_mut(key).filter(|(n, _)| *n == number) {
                client.answer(ticket, answer);
                if self.touched.last() != Some(&key) {
                    self.touched.push(key);
                }
            }
        }
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for key in touched.drain(..) {
            self.serve_socket(key);
        }
        self.touched = touched;
    }

    /// Sends what a connection has, and watches it for what it needs next.
    fn serve_socket(&mut self, key: usize) {
        let Some((number, client)) = self.clients.get_mut(key) else { return };
        if let Err(Flow::Closed(why)) = client.send() {
            if let Some(why) = why {
                eprintln!("seekless: connection {number}: {why}");
            }
            return self.drop_client(key);
        }
        let idle = client.in_flight == 0 && client.connection.output().is_empty();
        if client.leaving && idle {
            return self.drop_client(key);
        }
        let wants = client.wants();
        if wants != client.interest {
            client.interest = wants;
            let data = EventData::new_u64(key as u64);
            if let Err(errno) = epoll::modify(&self.epoll, &client.stream, data, wants) {
                eprintln!("seekless: connection {number}: {errno}");
                self.drop_client(key);
            }
        }
    }

    /// Somebody wants the end. False if for the second time.
    fn signalled(&mut self) -> bool {
        let mut info = [0; 128];
        let _ = rustix::io::read(&self.parts.signal_fd, &mut info);
        if self.stopping {
            eprintln!("seekless: ending at once; the volume will recover when it is next mounted");
            return false;
        }
        eprintln!("seekless: ending: answering what is in flight");
        self.stopping = true;
        let _ = epoll::delete(&self.epoll, &self.parts.listener);
        for (key, (_, client)) in &mut self.clients {
            client.leaving = true;
            self.touched.push(key);
        }
        self.deliver();
        true
    }

    fn advance_stop(&mut self) {
        if self.stopping && !self.stop_asked && self.edge.in_flight() == 0 {
            self.stop_asked = true;
            let now = self.now();
            self.parts.node.stop(now);
            self.settle();
        }
    }
}
