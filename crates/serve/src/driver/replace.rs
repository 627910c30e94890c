//! A new member for the array that is served.

use super::{DEVICE, Driver};
use crate::control::Reply;
use crate::server::ServeError;
use crate::server::members::NewMember;
use rustix::event::epoll::{self, EventData, EventFlags};
use seekless_engine::upkeep::UpkeepError;
use std::path::Path;

impl Driver {
    /// Has the array take an image in the place of the member that is out.
    pub(super) fn replace(&mut self, image: &Path, force: bool) -> Reply {
        // What is still under way belongs to the array as it was.
        self.turn();
        let now = self.now();
        let devices = self.parts.members.as_ref().ok_or(UpkeepError::NoArray);
        let devices = devices.map_err(ServeError::from);
        let node = &mut self.parts.node;
        let new = match devices.and_then(|devices| devices.replace(node, image, force, now)) {
            Ok(new) => new,
            Err(error) => return Reply::error(&error.to_string()),
        };
        let NewMember { member, path, wait_fd, files } = new;
        self.announcer.replaced(member, &path);
        self.new_files.extend(files);
        if let Some(place) = self.parts.served.images.get_mut(member) {
            *place = Some(path);
        }
        if let Some(fd) = wait_fd {
            let watched = epoll::add(&self.epoll, &fd, EventData::new_u64(DEVICE), EventFlags::IN);
            self.parts.device_fds.push(fd);
            if let Err(error) = watched {
                // Its answers are found whenever something else happens.
                tracing::warn!("member {member} is not watched: {error}");
            }
        }
        self.turn();
        Reply::replaced(member)
    }
}
