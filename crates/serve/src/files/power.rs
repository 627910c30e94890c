//! The power of the disk below a mount: commands, and what a power cut means here.
//!
//! A mounted file system does not survive a power cut: what programs have open refers to a state
//! that is gone. So the mount stays dead until it is unmounted, and a restart is refused.

use super::volume::Volume;
use crate::control::{Command, Control, Reply};
use crate::crash::disk::Hub;
use crate::server::{Mounted, ServeError, backing};
use seekless_engine::io::IoError;
use seekless_engine::units::Time;
use seekless_engine::upkeep::UpkeepError;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

impl Volume {
    pub(super) fn hub(&self) -> Option<&Hub> {
        self.mounted.power.as_ref().map(|power| &power.hub)
    }

    /// Where commands to the disk and questions come from.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub(super) fn take_control(&mut self) -> io::Result<Control> {
        self.control.take().map_or_else(Control::new, Ok)
    }

    /// The descriptors that say when a device has answers.
    pub(super) fn take_device_fds(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.mounted.device_fds)
    }

    /// Has the array below take an image in the place of the member that is out, and says which
    /// that is.
    ///
    /// # Errors
    /// Why it cannot be taken.
    pub(super) fn replace_member(
        &mut self,
        image: &Path,
        force: bool,
        now: Time,
    ) -> Result<usize, ServeError> {
        let Mounted { members, node, files, device_fds, .. } = &mut self.mounted;
        let members = members.as_ref().ok_or(UpkeepError::NoArray)?;
        let new = members.replace(node, image, force, now)?;
        backing::replace(files, new.files);
        device_fds.extend(new.wait_fd);
        Ok(new.member)
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
