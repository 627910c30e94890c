//! Serving a volume on an array: its members as files, block devices or simulated disks.

use super::{Mounted, ServeError, ServeOptions, log_mount, mount_options};
use crate::device::file::FileDevice;
use crate::device::medium::FileMedium;
use crate::image::array::open_members;
use seekless_arrays::{AssembleOptions, Assembled};
use seekless_disk::Disk as SimulatedDisk;
use seekless_engine::device::Device;
use seekless_engine::device::medium::Flat;
use seekless_engine::device::ram::Ram;
use seekless_engine::layout::MountOptions;
use seekless_engine::nested::Nested;
use seekless_engine::node::Node;
use std::path::PathBuf;
use std::time::Instant;

/// Assembles the array, mounts the volume on it and puts both over the members.
pub(super) fn mount(
    options: &ServeOptions,
    paths: &[PathBuf],
    degraded: bool,
) -> Result<Mounted, ServeError> {
    let started = Instant::now();
    let mut members = open_members(paths, options.read_only, degraded)?;
    for (path, reason) in members.rejected() {
        eprintln!("seekless: {} is left out: {reason}", path.display());
    }
    for image in members.images().iter().flatten() {
        // What refuses to be served does so before anything is written.
        match &options.disk {
            Some(spec) => drop(super::fits(image, spec)?),
            None => FileDevice::try_out(image, options.io, options.direct)?,
        }
    }
    let volatile = match &options.disk {
        None => true,
        Some(spec) => SimulatedDisk::new(spec, Box::new(Flat::new(1)))?.volatile(),
    };
    let below = AssembleOptions { volatile, read_only: options.read_only, degraded };
    let mut found = members.assemble(&below)?;
    log_assembled(&found, started);
    let mount = MountOptions { volatile, ..mount_options(options) };
    let mounted = members.with_disk(&mut found, |disk| seekless_layouts::mount(disk, &mount));
    let (layer, superblock, report) = mounted.map_err(|error| members.blame(error))?;
    log_mount(&report, started.elapsed(), options.messages);
    let mut files = Vec::new();
    let mut device_fds = Vec::new();
    let mut devices: Vec<Box<dyn Device>> = Vec::new();
    for image in members.into_images() {
        let Some(image) = image else {
            // The array never asks a member that is missing.
            devices.push(Box::new(Ram::volatile(Box::new(Flat::new(1)))));
            continue;
        };
        files.extend(image.locks()?);
        if let Some(spec) = &options.disk {
            let blocks = super::fits(&image, spec)?;
            let medium = FileMedium::new(image.handle()?, blocks);
            devices.push(Box::new(SimulatedDisk::new(spec, Box::new(medium))?));
            continue;
        }
        let device = FileDevice::new(image, options.io, options.direct)?;
        device_fds.push(device.wait_fd()?);
        devices.push(Box::new(device));
    }
    let array = Node::new(Box::new(found.array), devices, 2);
    let node = Node::new(layer, vec![Box::new(Nested::new(array))], 1);
    let rotational = options.disk.is_some();
    let description = super::describe(&superblock);
    Ok(Mounted { device_fds, rotational, files, ..Mounted::new(node, description) })
}

fn log_assembled(found: &Assembled, started: Instant) {
    let level = found.array.superblock().geometry.level;
    if !found.clean {
        eprintln!(
            "seekless: {level} assembled after a crash: {} blocks replayed, {} stripes brought \
             into step in {:.1} ms",
            found.replayed,
            found.resynced,
            started.elapsed().as_secs_f64() * 1e3
        );
    }
    for member in &found.missing {
        eprintln!("seekless: {level} runs without member {member}; `seekless replace` adds one");
    }
    if let Some((done, stripes)) = found.array.rebuilding() {
        eprintln!("seekless: {level} rebuilds a member, {done} of {stripes} stripes are done");
    }
}
