//! The end: nothing new is taken on, the volume comes to a clean shutdown, clients get their last
//! answers.

use super::{Driver, FAREWELL_NS, Phase};
use rustix::event::epoll;

impl Driver {
    /// Begins the end: nothing new is taken on. A signal after that ends the process at once, by
    /// its default action.
    pub fn stop(&mut self) {
        let _ = epoll::delete(&self.epoll, &self.parts.stop_fd);
        // A signal stays pending until it is read: released, it would end the process at once.
        let _ = rustix::io::read(&self.parts.stop_fd, &mut [0_u8; 128]);
        if let Err(error) = crate::signals::release() {
            tracing::warn!("a second signal will not end the server at once: {error}");
        }
        tracing::info!(
            "shutdown: answering {} requests in flight; another signal ends at once",
            self.adapter.in_flight()
        );
        self.release_held_requests();
        debug_assert_eq!(self.phase, Phase::Serving, "the end begins once");
        self.phase = Phase::Draining(self.now());
        if self.accept_at.take().is_none() {
            let _ = epoll::delete(&self.epoll, &self.parts.listener);
        }
        for (key, session) in &mut self.sessions {
            session.leaving = true;
            self.touched.push(key);
        }
    }

    /// Goes on with the end as far as that is possible now.
    pub(super) fn advance_end(&mut self) {
        let now = self.now();
        let late = self.sessions.iter().filter(|(_, session)| session.has_parted(now));
        let late = late.map(|(key, _)| key);
        for key in late.collect::<Vec<_>>() {
            self.drop_session(key, None);
        }
        if let Phase::Draining(since) = self.phase
            && self.adapter.in_flight() == 0
        {
            debug_assert_eq!(self.parts.node.in_flight(), 0, "the adapter has its answers");
            self.phase = Phase::Stopping(since);
            let wall = self.now();
            let (now, _) = self.clock.read(wall);
            self.parts.node.stop(now);
            self.turn();
        }
    }

    /// True once the volume is at rest and the clients have their last answers, or had the time.
    pub(super) fn is_over(&self) -> bool {
        let Phase::Stopping(since) = self.phase else { return false };
        let alone = self.sessions.is_empty() || self.now() >= since + FAREWELL_NS;
        // Without power a volume cannot come to rest.
        (self.parts.node.stopped() || self.is_dark()) && alone
    }
}
