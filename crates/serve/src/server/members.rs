//! The members of an array that is served as devices, and new ones that it takes meanwhile.

use super::backing::{self, Backing};
use super::{ServeError, ServeOptions};
use crate::device::file::{FileDevice, IoMode};
use crate::device::medium::FileMedium;
use crate::image::Image;
use crate::image::array::new_member;
use seekless_disk::{Disk as SimulatedDisk, Spec};
use seekless_engine::device::Device;
use seekless_engine::nested::Nested;
use seekless_engine::node::Node;
use seekless_engine::units::Time;
use seekless_engine::upkeep::UpkeepError;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// How images become devices.
#[derive(Clone, Debug)]
pub struct MemberDevices {
    io: IoMode,
    direct: bool,
    disk: Option<Spec>,
}

/// A device, and what becomes readable when it has answers.
type Opened = (Box<dyn Device>, Option<OwnedFd>);

/// A new member of an array.
#[derive(Debug)]
pub(crate) struct NewMember {
    /// Its place.
    pub(crate) member: usize,
    pub(crate) path: PathBuf,
    pub(crate) wait_fd: Option<OwnedFd>,
    pub(crate) files: Vec<Backing>,
}

impl MemberDevices {
    /// As a server is told.
    pub(super) fn of(options: &ServeOptions) -> MemberDevices {
        MemberDevices { io: options.io, direct: options.direct, disk: options.disk.clone() }
    }

    /// Refuses an image that could not be served, before anything is written to it.
    ///
    /// # Errors
    /// Why it could not.
    pub(super) fn try_out(&self, image: &Image) -> Result<(), ServeError> {
        match &self.disk {
            Some(spec) => super::fits(image, spec).map(drop),
            None => Ok(FileDevice::try_out(image, self.io, self.direct)?),
        }
    }

    /// The device of an image.
    ///
    /// # Errors
    /// An image that is larger than the disk to simulate, and what the system says.
    pub(super) fn open(&self, image: Image) -> Result<Opened, ServeError> {
        if let Some(spec) = &self.disk {
            let blocks = super::fits(&image, spec)?;
            let medium = FileMedium::new(image.handle()?, blocks);
            return Ok((Box::new(SimulatedDisk::new(spec, Box::new(medium))?), None));
        }
        let device = FileDevice::new(image, self.io, self.direct)?;
        let wait_fd = device.wait_fd()?;
        Ok((Box::new(device), Some(wait_fd)))
    }

    /// Puts an image in the place of the member of an array below a volume that is out. A file that
    /// does not exist is made.
    ///
    /// # Errors
    /// Why it cannot be taken; the array goes on as before.
    pub(crate) fn replace(
        &self,
        node: &mut Node,
        path: &Path,
        force: bool,
        now: Time,
    ) -> Result<NewMember, ServeError> {
        let array = array(node).ok_or(UpkeepError::NoArray)?;
        let place = array.vacancy()?;
        let mut prospect = new_member(path, place.blocks, force)?;
        self.try_out(prospect.image())?;
        prospect.blank()?;
        array.prepare_member(prospect.image())?;
        let image = prospect.keep();
        let files = backing::of(&image, Some(place.member))?;
        let (device, wait_fd) = self.open(image)?;
        array.admit_member(place, device, now);
        Ok(NewMember { member: place.member, path: path.to_owned(), wait_fd, files })
    }
}

/// The array below a volume.
fn array(node: &mut Node) -> Option<&mut Nested> {
    node.devices.iter_mut().find_map(|device| device.as_any()?.downcast_mut::<Nested>()?.array())
}
