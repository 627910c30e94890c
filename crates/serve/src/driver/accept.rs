//! New connections: accepting them, turning them away, and dropping those that never negotiate.

use super::session::Session;
use super::{Driver, LISTENER, NEGOTIATION_NS, Phase};
use rustix::event::epoll::{self, EventData, EventFlags};
use seekless_engine::units::{SECONDS, Time};
use std::io;
use std::sync::Arc;

/// How long no connection is accepted after the system had no resources for one.
const ACCEPT_PAUSE_NS: Time = SECONDS;

impl Driver {
    /// Accepts one connection. The listener is level-triggered: others wake the loop again.
    pub(super) fn accept(&mut self) {
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
                    tracing::warn!("cannot accept a connection: {error}");
                    let _ = epoll::delete(&self.epoll, &self.parts.listener);
                    self.accept_at = Some(now + ACCEPT_PAUSE_NS);
                }
                return;
            }
        };
        if self.turns_away() {
            let peer = accepted.1;
            return tracing::info!("{peer} turned away: the power is off");
        }
        if self.sessions.len() >= self.parts.most_connections {
            let (open, peer) = (self.sessions.len(), accepted.1);
            return tracing::warn!("{peer} turned away: {open} connections are open");
        }
        self.served.connections += 1;
        let number = self.served.connections;
        let session = Session::new(number, accepted, Arc::clone(&self.export), now);
        let entry = self.sessions.vacant_entry();
        let (key, data) = (entry.key(), EventData::new_u64(entry.key() as u64));
        if let Err(errno) = epoll::add(&self.epoll, &session.stream, data, EventFlags::empty()) {
            return tracing::warn!("connection {number}: {errno}");
        }
        entry.insert(session);
        self.negotiating += 1;
        self.touched.push(key);
    }

    /// Watches the listener again after a pause.
    pub(super) fn resume_accepting(&mut self) {
        self.accept_at = None;
        let data = EventData::new_u64(LISTENER);
        if let Err(errno) = epoll::add(&self.epoll, &self.parts.listener, data, EventFlags::IN) {
            tracing::warn!("cannot accept connections: {errno}");
            self.accept_at = Some(self.now() + ACCEPT_PAUSE_NS);
        }
    }

    /// Drops connections that have not chosen an export in time.
    pub(super) fn drop_slow_negotiations(&mut self) {
        let now = self.now();
        let late = |session: &Session| !session.negotiated && now >= session.since + NEGOTIATION_NS;
        let keys: Vec<usize> =
            self.sessions.iter().filter(|(_, session)| late(session)).map(|(key, _)| key).collect();
        for key in keys {
            self.drop_session(key, Some("it did not choose an export in time".to_owned()));
        }
    }
}
