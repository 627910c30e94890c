//! A disk caching disk whose log is apart: two images, each as it is or at the pace of a disk.

use super::backing;
use super::{Mounted, ServeError, ServeOptions, fits, log_mount, mount_options, outer};
use crate::device::file::FileDevice;
use crate::device::medium::FileMedium;
use crate::image::{self, Image, blame_half};
use seekless_disk::{Disk as SimulatedDisk, Spec};
use seekless_engine::device::Device;
use seekless_engine::device::Mechanical as _;
use seekless_engine::device::medium::Flat;
use seekless_engine::disk::Disk as _;
use seekless_engine::layout::MountOptions;
use seekless_engine::node::Node;
use seekless_layouts::{Kind, dcd};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

/// Mounts an origin with its log.
///
/// # Errors
/// See [`ServeError`].
pub(super) fn mount(
    options: &ServeOptions,
    origin: &Path,
    log: &Path,
) -> Result<Mounted, ServeError> {
    let mut images =
        [image::open(origin, options.read_only)?, image::open_log(log, options.read_only)?];
    let fitting = |image: &Image, spec: Option<&Spec>| {
        spec.map(|spec| fits(image, spec).map(|blocks| outer(spec, blocks))).transpose()
    };
    let specs = [
        fitting(&images[0], options.disk.as_ref())?,
        fitting(&images[1], options.log_disk.as_ref())?,
    ];
    for spec in specs.iter().flatten().filter(|spec| spec.zoned.is_some()) {
        Kind::DCD.check_in_order(&spec.name)?;
    }
    for (image, spec) in images.iter().zip(&specs) {
        if spec.is_none() {
            FileDevice::try_out(image, options.io, options.direct)?;
        }
    }
    let locks = images.iter().map(|image| backing::of(image, None));
    let locks = locks.collect::<Result<Vec<_>, _>>()?;
    let files = locks.into_iter().flatten().collect();
    // Mounting needs the mechanics before there is a device; these have next to nothing on them.
    let lender = |spec: &Option<Spec>| {
        spec.as_ref().map(|spec| SimulatedDisk::new(spec, Box::new(Flat::new(1)))).transpose()
    };
    let lenders = [lender(&specs[0])?, lender(&specs[1])?];
    let volatile = lenders.iter().any(|one| one.as_ref().is_none_or(|disk| disk.volatile()));
    let arm = lenders[1].as_ref().and_then(|disk| disk.arm());
    let mount = MountOptions { arm, volatile, ..mount_options(options) };
    let started = Instant::now();
    let [first, second] = &mut images;
    let mounted = dcd::mount(first, second, &mount);
    let blame = |error| blame_half(&images[0], Some(&images[1]), error);
    let (layer, superblock, report) = mounted.map_err(blame)?;
    log_mount(&report, started.elapsed(), options.messages);
    let mut devices = Vec::new();
    let mut device_fds = Vec::new();
    for (image, spec) in images.into_iter().zip(&specs) {
        let (device, fd) = device(options, image, spec.as_ref())?;
        devices.push(device);
        device_fds.extend(fd);
    }
    let rotational = options.disk.is_some();
    let node = Node::new(Box::new(layer), devices, 1);
    let images = vec![Some(origin.to_owned()), Some(log.to_owned())];
    Ok(Mounted { device_fds, rotational, files, images, ..Mounted::of_layout(node, &superblock) })
}

/// The device of an image, and what to wait on for it.
pub(super) fn device(
    options: &ServeOptions,
    image: Image,
    spec: Option<&Spec>,
) -> Result<(Box<dyn Device>, Option<OwnedFd>), ServeError> {
    let Some(spec) = spec else {
        let device = FileDevice::new(image, options.io, options.direct)?;
        let fd = device.wait_fd()?;
        return Ok((Box::new(device), Some(fd)));
    };
    let medium = FileMedium::new(image.handle()?, image.blocks());
    Ok((Box::new(SimulatedDisk::new(spec, Box::new(medium))?), None))
}
