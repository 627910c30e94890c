//! The power of the disk below a mount: commands, and what a power cut means here.
//!
//! A mounted file system does not survive a power cut: what programs have open refers to a state
//! that is gone. So the mount stays dead until it is unmounted, and a restart is refused.

use super::volume::Volume;
use crate::crash::control::{Command, Control, Reply};
use crate::crash::disk::Hub;
use seekless_engine::io::IoError;
use std::io;
use std::os::fd::OwnedFd;

impl Volume {
    fn hub(&self) -> Option<&Hub> {
        self.mounted.power.as_ref().map(|power| &power.hub)
    }

    /// Starts to take commands, if there is a disk that takes some. The caller has blocked signals.
    ///
    /// # Errors
    /// When the process has no descriptor or thread left.
    pub(super) fn start_control(&mut self) -> io::Result<Option<Control>> {
        let control = self.mounted.power.as_mut().and_then(|power| power.control.take());
        if let Some(control) = &control {
            control.start()?;
        }
        Ok(control)
    }

    /// The descriptors that say when a device has answers.
    pub(super) fn take_device_fds(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.mounted.device_fds)
    }

    /// Carries out a command.
    pub(super) fn command(&mut self, command: &Command) -> Reply {
        match (command, self.hub()) {
            (_, None) => Reply::error("no disk crashes here"),
            (Command::Restart, _) => Reply::error(
                "a mounted file system does not survive a power cut; unmount it, run \
                 `seekless fsck` and mount it again",
            ),
            (command, Some(hub)) => Reply::to(command, hub),
        }
    }

    /// True once after a power cut.
    pub(super) fn notice_cut(&self) -> bool {
        self.hub().is_some_and(Hub::notice_cut)
    }

    /// Lets requests go on that a fault holds back: the end waits for them.
    pub(super) fn release_held_requests(&self) {
        if let Some(hub) = self.hub() {
            hub.hurry();
        }
    }

    /// Writes out what the disk that crashes has in its cache.
    ///
    /// # Errors
    /// What the medium reports.
    pub(super) fn write_out(&self) -> Result<(), IoError> {
        self.hub().map_or(Ok(()), Hub::write_out)
    }
}
