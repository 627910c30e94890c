//! The seam above a node: what makes requests of volumes, without a clock, a thread or a socket.
//!
//! A [`Client`] is to volumes what a [`crate::layer::Layer`] is to devices: answers come in,
//! requests go out, and a deadline says when it wants to act though nothing happens. The
//! byte-to-block adapter of the server, described workloads and traces are clients. A driver owns a
//! clock, the nodes, one client and an [`Exchange`] between them; drivers differ only in where the
//! time comes from:
//!
//! ```text
//! loop {
//!     exchange.move_all(&mut client, &mut nodes, now)?;   // until nothing moves at `now`
//!     now = the earliest of next_event(&nodes), client.deadline() and what comes from outside;
//! }
//! ```
//!
//! Invariant between calls: every request in flight belongs to one port of one client, and its
//! answer reaches that client exactly once.

mod slots;

pub use slots::Slots;

use crate::io::Extent;
use crate::io::{Done, Io, Tag};
use crate::layer::Port;
use crate::node::Node;
use crate::transaction::{Transaction, TransactionError};
use crate::units::{BlockNr, Time};

/// What makes requests of volumes.
///
/// An exchange calls [`Client::complete`] for each answer and then [`Client::pump`] once, never
/// re-entrantly. A pump too many sends nothing. How a client itself is asked for something, by a
/// connection or a user, is its own business and happens between two turns.
pub trait Client {
    /// Why it cannot go on; [`std::convert::Infallible`] for a client that always can.
    type Error;

    /// Takes the answer to one of its requests to the volume `port`.
    ///
    /// # Errors
    /// What ends the client. The exchange must not be used with it after that.
    fn complete(
        &mut self,
        port: Port,
        done: Done,
        below: &mut Below<'_>,
    ) -> Result<(), Self::Error>;

    /// Sends what it wants to send now.
    ///
    /// # Errors
    /// As for [`Client::complete`].
    fn pump(&mut self, below: &mut Below<'_>) -> Result<(), Self::Error>;

    /// When it wants to be pumped though no answer comes. A client with nothing in flight and no
    /// deadline has come to its end, or waits for what is above it.
    fn deadline(&self) -> Option<Time>;
}

/// The volumes below a client, as one turn of it sees them. A port is the index of a node.
#[derive(Debug)]
pub struct Below<'n> {
    now: Time,
    nodes: &'n mut [Node],
    sent: u64,
}

impl<'n> Below<'n> {
    /// The volumes at `now`.
    pub fn new(now: Time, nodes: &'n mut [Node]) -> Below<'n> {
        Below { now, nodes, sent: 0 }
    }

    /// The time.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Number of ports.
    pub fn ports(&self) -> usize {
        self.nodes.len()
    }

    /// A volume, for what it promises and how it is: size, limits, transactions, failure, and the
    /// arms of its devices.
    #[inline]
    pub fn node(&self, port: Port) -> &Node {
        &self.nodes[port]
    }

    /// What lies at `at` of a volume; see [`Node::extent`].
    pub fn extent(&mut self, port: Port, at: BlockNr, limit: u64) -> (Extent, u64) {
        self.nodes[port].extent(at, limit)
    }

    /// Requests in flight on all ports.
    #[inline]
    pub fn in_flight(&self) -> usize {
        in_flight(self.nodes)
    }

    /// Sends a request to a volume. The answer comes in a later turn, never from inside this call.
    ///
    /// # Panics
    /// As [`Node::submit`].
    #[inline]
    pub fn submit(&mut self, port: Port, io: Io) {
        self.sent += 1;
        self.nodes[port].submit(self.now, io);
    }

    /// Sends a transaction to a volume; it is answered once, under `tag`.
    ///
    /// # Errors
    /// As [`Node::submit_transaction`]. Nothing was sent then, and no answer comes.
    pub fn submit_transaction(
        &mut self,
        port: Port,
        tag: Tag,
        all: Transaction,
        fua: bool,
    ) -> Result<(), TransactionError> {
        self.nodes[port].submit_transaction(self.now, tag, all, fua)?;
        self.sent += 1;
        Ok(())
    }
}

/// Moves requests and answers between a client and the nodes below it.
///
/// It holds the answers that the client has not heard. A driver that needs to look in between takes
/// the two halves apart: [`Exchange::turn`] is the client's, [`Exchange::settle`] that of the
/// nodes.
#[derive(Debug)]
pub struct Exchange {
    /// Answers for each port, in the order in which the nodes gave them.
    answers: Vec<Vec<Done>>,
}

impl Exchange {
    /// Between a client and `ports` nodes.
    pub fn new(ports: usize) -> Exchange {
        Exchange { answers: (0..ports).map(|_| Vec::new()).collect() }
    }

    /// Hands the client its answers, port by port, and lets it send at `now`. True if it has sent
    /// something.
    ///
    /// # Errors
    /// What the client says; answers that it has not heard are lost.
    #[inline]
    pub fn turn<C: Client>(
        &mut self,
        client: &mut C,
        nodes: &mut [Node],
        now: Time,
    ) -> Result<bool, C::Error> {
        debug_assert_eq!(self.answers.len(), nodes.len(), "an exchange has as many ports as nodes");
        // The number of nodes is mostly known to the compiler, that of our ports never.
        let ports = nodes.len();
        let mut below = Below::new(now, nodes);
        for port in 0..ports {
            for done in self.answers[port].drain(..) {
                client.complete(port, done, &mut below)?;
            }
        }
        client.pump(&mut below)?;
        Ok(below.sent > 0)
    }

    /// Settles all nodes at `now`. True if the client has answers to hear.
    #[inline]
    pub fn settle(&mut self, nodes: &mut [Node], now: Time) -> bool {
        debug_assert_eq!(self.answers.len(), nodes.len(), "an exchange has as many ports as nodes");
        let mut any = false;
        for (port, node) in nodes.iter_mut().enumerate() {
            node.settle(now, &mut self.answers[port]);
            any |= !self.answers[port].is_empty();
        }
        any
    }

    /// Gives client and nodes their turns until nothing moves at `now`.
    ///
    /// # Errors
    /// What the client says.
    pub fn move_all<C: Client>(
        &mut self,
        client: &mut C,
        nodes: &mut [Node],
        now: Time,
    ) -> Result<(), C::Error> {
        loop {
            self.turn(client, nodes, now)?;
            if !self.settle(nodes, now) {
                return Ok(());
            }
        }
    }

    /// Forgets the answers that the client has not heard: after a power cut it hears none.
    pub fn forget_answers(&mut self) {
        self.answers.iter_mut().for_each(Vec::clear);
    }
}

/// When nodes want to be settled though nothing is asked of them: the earliest device event or
/// deadline of a layer.
#[inline]
pub fn next_event(nodes: &[Node]) -> Option<Time> {
    nodes.iter().filter_map(Node::next_event).min()
}

/// Requests in flight on all nodes.
#[inline]
pub fn in_flight(nodes: &[Node]) -> usize {
    nodes.iter().map(Node::in_flight).sum()
}
