//! How the server is, for those who ask.

use super::Driver;
use crate::status::{Report, line};

impl Driver {
    /// How it is.
    pub(super) fn report(&self) -> Report {
        let now = self.now();
        Report {
            connections: self.sessions.len() as u64,
            in_flight: self.adapter.in_flight() as u64,
            requests: self.meter.requests(),
            partial_writes: self.adapter.partial_writes(),
            ..Report::of_node(&self.parts.node, &self.parts.served, now)
        }
    }

    /// SIGUSR1: a line about it goes to the log.
    pub(super) fn say_status(&self) {
        let Some(fd) = &self.parts.usr1_fd else { return };
        // A signal stays pending until it is read.
        let _ = rustix::io::read(fd, &mut [0_u8; 128]);
        tracing::info!("{}", line(&self.report()));
    }
}
