//! Serving a volume on an array: its members as files, block devices or simulated disks.

use super::backing;
use super::members::MemberDevices;
use super::{Mounted, ServeError, ServeOptions, log_mount, mount_options};
use crate::image::array::open_members;
use seekless_arrays::{AssembleOptions, Assembled};
use seekless_disk::Disk as SimulatedDisk;
use seekless_engine::device::Device;
use seekless_engine::device::medium::Flat;
use seekless_engine::device::ram::Ram;
use seekless_engine::layout::{LayoutError, MountOptions};
use seekless_engine::nested::Nested;
use seekless_engine::node::Node;
use seekless_engine::upkeep::Upkeep;
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
        tracing::warn!("{} is left out: {reason}", path.display());
    }
    let opening = MemberDevices::of(options);
    if let Some(spec) = options.disk.as_ref().filter(|spec| spec.zoned.is_some()) {
        let (disk, writer) = (spec.name.clone(), "an array".to_owned());
        return Err(LayoutError::InOrder { disk, writer }.into());
    }
    for image in members.images().iter().flatten() {
        // What refuses to be served does so before anything is written.
        opening.try_out(image)?;
    }
    let volatile = match &options.disk {
        None => true,
        Some(spec) => SimulatedDisk::new(spec, Box::new(Flat::new(1)))?.volatile(),
    };
    let volume = Some(seekless_layouts::check as _);
    let below = AssembleOptions { volatile, read_only: options.read_only, degraded, volume };
    let mut found = members.assemble(&below)?;
    log_assembled(&found, options.read_only, started);
    let mount = MountOptions { volatile, ..mount_options(options) };
    let mounted = members.with_disk(&mut found, |disk| seekless_layouts::mount(disk, &mount));
    let (layer, superblock, report) = mounted.map_err(|error| members.blame(error))?;
    log_mount(&report, started.elapsed(), options.messages);
    let mut files = Vec::new();
    let mut images = Vec::new();
    let mut device_fds = Vec::new();
    let mut devices: Vec<Box<dyn Device>> = Vec::new();
    for image in members.into_images() {
        images.push(image.as_ref().map(|image| image.path().to_owned()));
        let Some(image) = image else {
            // The array never asks a member that is missing.
            devices.push(Box::new(Ram::volatile(Box::new(Flat::new(1)))));
            continue;
        };
        files.extend(backing::of(&image, Some(images.len() - 1))?);
        let (device, wait_fd) = opening.open(image)?;
        device_fds.extend(wait_fd);
        devices.push(device);
    }
    let array = Node::new(Box::new(found.array), devices, 2);
    let mut array = Nested::new(array);
    let pace = Upkeep::RebuildRate { bytes_per_second: options.rebuild_rate };
    array.upkeep(pace, 0).expect("an array takes the pace of its rebuild");
    let node = Node::new(layer, vec![Box::new(array)], 1);
    let rotational = options.disk.is_some();
    let members = Some(opening);
    let mounted = Mounted::of_layout(node, &superblock);
    Ok(Mounted { device_fds, rotational, files, images, members, ..mounted })
}

fn log_assembled(found: &Assembled, read_only: bool, started: Instant) {
    let place = if read_only { ", in memory only" } else { "" };
    let level = found.array.superblock().geometry.level;
    if !found.clean {
        tracing::warn!(
            "{level} assembled after a crash: {} blocks replayed, {} stripes brought \
             into step in {:.1} ms{place}",
            found.replayed,
            found.resynced,
            started.elapsed().as_secs_f64() * 1e3
        );
    }
    for (member, blocks) in found.healed.iter().enumerate().filter(|(_, blocks)| **blocks > 0) {
        tracing::warn!(
            "{level}: member {member} held wrong bytes in {blocks} blocks that a crash had left \
             unsynchronised; put right from the others by the checksums of the volume{place}"
        );
    }
    for member in &found.missing {
        tracing::warn!("{level} runs without member {member}; `seekless replace` adds one");
    }
    if let Some((done, stripes)) = found.array.rebuilding() {
        tracing::info!("{level} rebuilds a member, {done} of {stripes} stripes are done");
    }
}
