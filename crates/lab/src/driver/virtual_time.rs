//! Virtual time: a node, and a clock that jumps to the next thing that happens.

use super::DriveError;
use seekless_engine::client::{Client, Exchange};
use seekless_engine::node::Node;
use seekless_engine::units::Time;
use std::slice::from_mut;

/// Settling this often at one instant without an answer means that the node asks to be called
/// again for ever: no layout has that many chunks of background work due at once.
const MAX_SPINS: u32 = 1_000_000;

/// A node and its clock.
#[derive(Debug)]
pub(super) struct VirtualTime {
    pub(super) node: Node,
    /// Nanoseconds since the beginning.
    pub(super) now: Time,
    exchange: Exchange,
}

impl VirtualTime {
    /// The beginning of time.
    pub(super) fn new(node: Node) -> VirtualTime {
        VirtualTime { node, now: 0, exchange: Exchange::new(1) }
    }

    /// Runs a client to its end: nothing is in flight and it has no deadline.
    ///
    /// # Errors
    /// What the client says, and nodes that come to a halt.
    pub(super) fn drive<C>(&mut self, client: &mut C) -> Result<(), C::Error>
    where
        C: Client,
        C::Error: From<DriveError>,
    {
        let mut spins = 0;
        loop {
            self.exchange.turn(client, from_mut(&mut self.node), self.now)?;
            // Before the node settles: what it does by itself after the last answer belongs to
            // the next phase, whose first request may come at this very instant.
            if self.node.in_flight() == 0 && client.deadline().is_none() {
                return Ok(());
            }
            if self.exchange.settle(from_mut(&mut self.node), self.now) {
                spins = 0;
            } else {
                self.advance(client.deadline(), &mut spins)?;
            }
        }
    }

    /// Lets `span_ns` pass without client requests.
    pub(super) fn idle(&mut self, span_ns: Time) -> Result<(), DriveError> {
        let end = self.now + span_ns;
        let mut spins = 0;
        loop {
            self.exchange.settle(from_mut(&mut self.node), self.now);
            if self.now == end {
                return Ok(());
            }
            self.advance(Some(end), &mut spins)?;
        }
    }

    /// Brings the node to a clean shutdown.
    pub(super) fn stop(&mut self) -> Result<(), DriveError> {
        self.node.stop(self.now);
        let mut spins = 0;
        loop {
            self.exchange.settle(from_mut(&mut self.node), self.now);
            if self.node.stopped() {
                return Ok(());
            }
            self.advance(None, &mut spins)?;
        }
    }

    /// Jumps to the next event of the node or to `deadline`. One that has passed is due now.
    fn advance(&mut self, deadline: Option<Time>, spins: &mut u32) -> Result<(), DriveError> {
        let now_ns = self.now;
        let next = match (self.node.next_event(), deadline) {
            (Some(a), Some(b)) => a.min(b),
            (Some(at), None) | (None, Some(at)) => at,
            (None, None) => {
                return Err(DriveError::Stalled { in_flight: self.node.in_flight(), now_ns });
            }
        };
        if next > now_ns {
            *spins = 0;
            self.now = next;
            return Ok(());
        }
        *spins += 1;
        if *spins > MAX_SPINS { Err(DriveError::Spinning { now_ns }) } else { Ok(()) }
    }
}
