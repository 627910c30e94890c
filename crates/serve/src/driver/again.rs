//! A volume that refuses writes because the host was full is mounted again when there is room.
//!
//! What was written and not flushed is lost, as in a crash. So each client that was connected
//! hears of it: its next flush or forced write fails.

use super::{DEVICE, Driver, Phase, Session};
use crate::adapter::{Adapter, Answer, Fault};
use crate::nbd::Ticket;
use crate::server::again::Again;
use rustix::event::epoll::{self, EventData, EventFlags};
use seekless_engine::io::IoError;
use seekless_engine::units::{SECONDS, Time};

/// How often the host is asked for room.
const PATIENCE: Time = SECONDS;

/// What a flush is answered with that covers writes which are lost.
const LOST: &str =
    "the host was full; what was written and not flushed before it had room again is lost";

/// When the next look for room is due.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    due: Option<Time>,
}

impl Waiting {
    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }
}

/// The answer to a request of a client that has not heard of what is lost.
pub(super) fn told_of_loss(session: &mut Session, ticket: &Ticket, forced: bool) -> Option<Answer> {
    let asks = forced || ticket.command == crate::nbd::Command::Flush;
    let tells = asks && std::mem::take(&mut session.lost_writes);
    tells.then(|| Answer::Error(Fault::NoSpace, LOST.to_owned()))
}

impl Driver {
    /// Mounts the volume again if that is wanted and it is time.
    pub(super) fn go_on_when_there_is_room(&mut self) {
        let full = self.served.failed == Some(IoError::NoSpace);
        let can = self.parts.again.is_some() && self.phase == Phase::Serving;
        if !full || !can {
            self.waiting_for_room.due = None;
            return;
        }
        let now = self.now();
        let due = *self.waiting_for_room.due.get_or_insert(now + PATIENCE);
        if now < due {
            return;
        }
        let has_room = self.parts.again.as_ref().is_some_and(Again::has_room);
        let quiet = self.adapter.in_flight() == 0 && self.parts.node.is_quiet();
        // Reads under way are over soon.
        let pause = if has_room && !quiet { SECONDS / 100 } else { PATIENCE };
        self.waiting_for_room.due = Some(now + pause);
        if quiet && has_room {
            self.mount_again();
        }
    }

    fn mount_again(&mut self) {
        let Some(again) = &self.parts.again else { return };
        let (node, fd) = match again.mount(self.served.requests) {
            Ok(mounted) => mounted,
            Err(error) => return tracing::warn!("the host has room, but a mount fails: {error}"),
        };
        let watched = epoll::add(&self.epoll, &fd, EventData::new_u64(DEVICE), EventFlags::IN);
        if let Err(error) = watched {
            return tracing::warn!("the host has room, but its answers cannot be watched: {error}");
        }
        self.parts.device_fds = vec![fd];
        self.adapter = Adapter::new(node.layer.blocks(), self.parts.export.read_only);
        self.parts.node = node;
        self.exchange.forget_answers();
        self.served.failed = None;
        self.waiting_for_room.due = None;
        for (_, session) in &mut self.sessions {
            session.lost_writes = true;
        }
        tracing::warn!("the host has room again: the volume goes on from what was flushed");
    }
}
