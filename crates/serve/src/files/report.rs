//! How a mount is, for those who ask.

use super::state::State;
use crate::control::{Command, Reply};
use crate::status::meter::{Measured, Sort};
use crate::status::{FileSystemReport, Report, named};
use seekless_engine::units::Time;
use seekless_fs::call::{Answer, Errno, Request};
use std::os::fd::OwnedFd;
use std::path::Path;

impl State {
    /// How it is.
    pub(super) fn report(&mut self) -> Report {
        let now = self.now();
        let requests = self.meter.requests();
        let in_flight = self.in_flight();
        let report = Report::of_node(&self.volume.mounted.node, &self.served, now);
        let (policy, counters) = (self.policy.clone(), named(self.fs.stats()));
        let unwritten_bytes = self.fs.unwritten_bytes();
        Report {
            connections: 1,
            in_flight,
            requests,
            failed: self.fs.failure().or(report.failed),
            file_system: Some(FileSystemReport { policy, counters, unwritten_bytes }),
            ..report
        }
    }

    /// What becomes readable when devices that have come since have answers.
    pub(super) fn new_fds(&mut self) -> Vec<OwnedFd> {
        self.volume.take_device_fds()
    }

    /// Has the array below take an image in the place of the member that is out. The loop watches
    /// the new device from then on.
    fn replace(&mut self, image: &Path, force: bool) -> Reply {
        let now = self.now();
        let new = match self.volume.replace_member(image, force, now) {
            Ok(new) => new,
            Err(error) => return Reply::error(&error.to_string()),
        };
        self.announcer.replaced(new, image);
        if let Some(place) = self.served.images.get_mut(new) {
            *place = Some(image.to_owned());
        }
        Reply::replaced(new)
    }

    /// Answers a question, or has the disk carry a command out.
    pub(super) fn command(&mut self, command: &Command) -> Reply {
        match command {
            Command::Status => Reply::report(&self.report(), self.volume.hub()),
            Command::Upkeep(order) => {
                let now = self.now();
                Reply::to_upkeep(self.volume.node(), *order, now)
            }
            Command::Replace { image, force } => self.replace(image, *force),
            command => self.volume.command(command),
        }
    }
}

/// What is measured of a call that has come now.
pub(super) fn measured(request: &Request, now: Time) -> Measured {
    let (sort, bytes) = match request {
        Request::Read { length, .. } => (Sort::Read, *length),
        Request::Write { data, .. } => (Sort::Write, data.len() as u32),
        Request::Fsync { .. } | Request::Sync | Request::Trim { .. } => (Sort::Flush, 0),
        _ => (Sort::Other, 0),
    };
    Measured { sort, bytes, since: now }
}

/// True if a call could not be carried out through no fault of the program that made it.
pub(super) fn is_fault(result: &Result<Answer, Errno>) -> bool {
    matches!(result, Err(Errno::Io | Errno::NoSpc | Errno::RoFs))
}
