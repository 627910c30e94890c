//! How the loop waits: asleep, except where an event is so close that waking would come too late.

use super::session::PARTING_NS;
use super::{Driver, FAREWELL_NS, NEGOTIATION_NS, Phase};
use rustix::event::Timespec;
use rustix::event::epoll;
use rustix::io::Errno;
use seekless_engine::client::Client as _;
use seekless_engine::units::{SECONDS, Time};
use std::io;

impl Driver {
    /// Waits for something to do and says what it is.
    pub(super) fn wait(&mut self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        events.clear();
        let now = self.now();
        // What carries out the requests in flight, mostly a thread of the kernel, needs the
        // processor more than a look for further requests does.
        let awake = self.adapter.in_flight() == 0 && self.busy_poll.lingers(now);
        if awake {
            self.poll(events, Some(0))?;
            if events.is_empty() {
                // Nothing yet: the caller takes a turn, which costs little, and comes back.
                return Ok(());
            }
        } else {
            let due = self.due(now);
            let sleep = due.map(|due| due.saturating_sub(now));
            if sleep != Some(0) {
                self.busy_poll.sleeps();
            }
            self.poll(events, sleep)?;
            if let Some(due) = due.filter(|&due| due > now && events.is_empty()) {
                // A sleep that a signal ended was not too long.
                let late = self.now().saturating_sub(due);
                self.wake_margin.overslept(late);
            }
        }
        let now = self.now();
        if !events.is_empty() {
            self.busy_poll.found(now, awake);
        }
        if self.accept_at.is_some_and(|at| now >= at) {
            self.resume_accepting();
        }
        Ok(())
    }

    fn poll(&self, events: &mut Vec<epoll::Event>, sleep: Option<Time>) -> io::Result<()> {
        let timeout = sleep.map(|sleep| Timespec {
            tv_sec: (sleep / SECONDS) as i64,
            tv_nsec: (sleep % SECONDS) as _,
        });
        let spare = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// When to wake though no descriptor becomes ready.
    fn due(&self, now: Time) -> Option<Time> {
        let node = &self.parts.node;
        let devices = node.devices.iter().filter_map(|device| device.next_event()).min();
        // Spinning is a sleep of no time, over and over.
        let devices =
            devices.map(|due| self.clock.ahead_of(due).saturating_sub(self.wake_margin.ns()));
        let negotiating = match self.negotiating {
            0 => None,
            _ => self.sessions.iter().filter(|one| !one.1.negotiated).map(|one| one.1.since).min(),
        };
        let negotiating = negotiating.map(|since| since + NEGOTIATION_NS);
        let farewell = match self.phase {
            Phase::Serving => None,
            Phase::Draining(since) | Phase::Stopping(since) => Some(since + FAREWELL_NS),
        };
        // Once the farewell is over only the volume is waited for.
        let farewell = farewell.filter(|&due| due > now);
        let parting =
            farewell.and_then(|_| self.sessions.iter().filter_map(|one| one.1.parting).min());
        let parting = parting.map(|since| since + PARTING_NS);
        let stalled = self.budget.due();
        let delayed = self.parts.power.as_ref().and_then(|power| power.hub.next_due());
        let (layer, adapter) = (node.layer.deadline(), self.adapter.deadline());
        let volume = [devices, layer, adapter, delayed];
        let announced = self.announcer.due();
        let room = self.waiting_for_room.due();
        let connections =
            [negotiating, stalled, farewell, parting, self.accept_at, announced, room];
        volume.into_iter().chain(connections).flatten().min()
    }
}
