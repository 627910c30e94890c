//! How a volume in a file is mounted again while it is served: after the host was full, its layout
//! refuses writes for the rest of its life, and a new one goes on from what was flushed.

use super::{ServeError, ServeOptions, log_mount, mount_options};
use crate::device::file::FileDevice;
use crate::image::Image;
use seekless_engine::layout::MountOptions;
use seekless_engine::node::Node;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// Room that the host must have before it is tried: a mount writes, and so do clients.
const LEAST_ROOM: u64 = 4 << 20;

/// A volume in a file that can be mounted again.
#[derive(Debug)]
pub struct Again {
    image: Image,
    options: ServeOptions,
}

impl Again {
    /// For a file of a file system; a block device does not fill up. Mounts go through the page
    /// cache, which direct access would share its flags with.
    pub(super) fn of(image: &Image, options: &ServeOptions) -> Option<Again> {
        let offered = !image.read_only() && !image.is_block_device() && !options.direct;
        // Without a handle to spare, writing ends as it does elsewhere.
        let image = image.again().ok().filter(|_| offered)?;
        Some(Again { image, options: options.clone() })
    }

    /// True if the host of the file has room.
    pub fn has_room(&self) -> bool {
        self.image.room().is_some_and(|room| room >= LEAST_ROOM)
    }

    /// Mounts what the volume has flushed. Nothing else may write to it.
    ///
    /// # Errors
    /// As for the first mount; the volume can be tried again then.
    pub fn mount(&self, seed: u64) -> Result<(Node, OwnedFd), ServeError> {
        let mut image = self.image.again()?;
        let mount = MountOptions { volatile: true, ..mount_options(&self.options) };
        let started = Instant::now();
        let mounted = seekless_layouts::mount(&mut image, &mount);
        let (layer, _, report) = mounted.map_err(|error| image.blame(error))?;
        log_mount(&report, started.elapsed(), self.options.messages);
        let device = FileDevice::new(image, self.options.io, false)?;
        let fd = device.wait_fd()?;
        Ok((Node::new(layer, vec![Box::new(device)], seed), fd))
    }
}
