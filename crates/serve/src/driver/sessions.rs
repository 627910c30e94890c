//! Open connections: what they send is taken on as far as their limits allow, and they are watched
//! for what they need next.

use super::session::{self, Flow, Session, weight};
use super::{Driver, Phase, Who, again, power};
use crate::nbd::Event;
use rustix::event::epoll::{self, EventData, EventFlags};

impl Driver {
    /// Handles what the poller says of a connection.
    pub(super) fn session_ready(&mut self, key: usize, flags: EventFlags) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        if session.parting.is_some() {
            if session.discard() != Flow::Blocked {
                self.drop_session(key, None);
            }
            return;
        }
        self.touched.push(key);
        let gone = flags.intersects(EventFlags::HUP | EventFlags::ERR);
        if gone && (session.paused || session.leaving) {
            // The client is gone: its answers cannot be sent.
            return self.drop_session(key, None);
        }
        if !(gone || flags.contains(EventFlags::IN)) {
            return;
        }
        match session.receive() {
            Ok(()) => self.take_requests(key),
            Err(Flow::Blocked) => {}
            Err(Flow::Closed(why)) => self.drop_session(key, why.map(|errno| errno.to_string())),
        }
    }

    /// Takes on what a client has sent, as far as its limits allow.
    fn take_requests(&mut self, key: usize) {
        let now = self.now();
        let session = &mut self.sessions[key];
        if std::mem::take(&mut session.paused) {
            self.paused -= 1;
        }
        loop {
            if self.sessions[key].leaving {
                return;
            }
            let Some(event) = self.next_event(key) else { return };
            let session = &mut self.sessions[key];
            match event {
                Event::Negotiated => {
                    session.negotiated = true;
                    self.negotiating -= 1;
                    let Session { number, peer, .. } = session;
                    match is_own(peer) {
                        true => tracing::debug!("connection {number} opened by this process"),
                        false => tracing::info!("connection {number} opened by {peer}"),
                    }
                }
                Event::Request(request) => {
                    let ticket = request.ticket();
                    session.begin(&ticket);
                    self.budget.begin(weight(&ticket));
                    let told = again::told_of_loss(session, &ticket, request.fua);
                    let measured = session::measured(&ticket, now);
                    let who = Who { key, number: session.number, ticket, measured };
                    let request = session::request(request, who);
                    if self.is_dark() {
                        self.adapter.refuse(request.who, power::off());
                        continue;
                    }
                    if let Some(answer) = told {
                        self.adapter.refuse(request.who, answer);
                        continue;
                    }
                    let mut extent = |at, limit| self.parts.node.extent(at, limit);
                    self.adapter.request(request, &mut extent);
                }
                Event::Disconnected => session.leaving = true,
                Event::Failed(error) => {
                    // The reason may have been put into words for the client.
                    let _ = session.send();
                    return self.drop_session(key, Some(error.to_string()));
                }
            }
        }
    }

    /// Closes a connection. What it has in flight goes on; the answers are forgotten.
    pub(super) fn drop_session(&mut self, key: usize, why: Option<String>) {
        // Closing the socket removes it from the poller as well.
        let session = self.sessions.remove(key);
        self.paused -= usize::from(session.paused);
        self.negotiating -= usize::from(!session.negotiated);
        self.budget.recount(session.counted, 0);
        self.budget.dequeue(key);
        let Session { number, peer, negotiated, .. } = &session;
        match why {
            Some(why) => {
                tracing::warn!("connection {number} of {peer} closed: {why}");
            }
            None if *negotiated && !is_own(peer) => {
                tracing::info!("connection {number} closed");
            }
            None => {}
        }
    }

    /// Takes on requests of sessions that were full when they may have had more.
    pub(super) fn resume_paused(&mut self) {
        let paused = |session: &Session| session.paused && !session.leaving;
        let others =
            self.sessions.iter().filter(|(_, session)| paused(session)).map(|(key, _)| key);
        // Those that wait for memory come first, in order; one that is there twice does no harm.
        let keys: Vec<usize> = self.budget.queue().chain(others).collect();
        for key in keys {
            if !self.sessions.get(key).is_some_and(paused) {
                continue;
            }
            self.take_requests(key);
            // It may be gone, or want to be watched differently.
            self.touched.push(key);
        }
        if !self.adapter.has_news() {
            self.deliver();
        }
    }

    /// Sends what a connection has, and watches it for what it needs next.
    pub(super) fn serve_socket(&mut self, key: usize) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let sent = session.send();
        self.recount(key);
        if let Err(Flow::Closed(why)) = sent {
            return self.drop_session(key, why.map(|errno| errno.to_string()));
        }
        let session = &mut self.sessions[key];
        let idle = session.in_flight == 0 && session.connection.output().is_empty();
        if session.leaving && idle && session.parting.is_none() {
            let (now, shutdown) = (self.now(), self.phase != Phase::Serving);
            if !shutdown || !self.sessions[key].part(now) {
                return self.drop_session(key, None);
            }
        }
        let session = &mut self.sessions[key];
        let wants = session.wants();
        if wants != session.interest {
            session.interest = wants;
            let data = EventData::new_u64(key as u64);
            if let Err(errno) = epoll::modify(&self.epoll, &session.stream, data, wants) {
                self.drop_session(key, Some(errno.to_string()));
            }
        }
    }
}

/// True if the client is in this process: a block device that was made of the volume.
fn is_own(peer: &str) -> bool {
    peer.strip_prefix("pid ").is_some_and(|pid| pid.parse() == Ok(std::process::id()))
}
