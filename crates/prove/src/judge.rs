//! Mounting what a power cut left, and reading everything back.

use super::cut::{Cut, CutDisk, Power};
use super::subject::{Mounted, Subject};
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::medium::Medium as _;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::{Io, IoError};
use seekless_engine::layout::{LayoutError, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use std::cell::RefCell;

/// Mounts, and takes down what a power cut at each of the first writes of the mount, `most` at the
/// most, would find; and what the media hold after it.
pub fn cut_recovery(
    subject: Subject,
    media: Vec<Cells>,
    volatile: bool,
    most: usize,
) -> (Vec<Cut>, Vec<Cells>) {
    let power = RefCell::new(Power::new(media, volatile, most));
    let mut cuts: Vec<_> = (0..power.borrow().devices()).map(|n| CutDisk::new(&power, n)).collect();
    let mut disks: Vec<_> = cuts.iter_mut().map(|cut| Some(cut as &mut dyn Disk)).collect();
    let options = MountOptions { volatile, ..MountOptions::default() };
    // Whether it got through or not, the next mount must cope.
    let _ = subject.mount(&mut disks, &options);
    power.into_inner().end()
}

/// Mounts media; the device `lost` is gone.
///
/// # Errors
/// What the volume finds wrong with them.
pub fn mount(
    subject: Subject,
    media: &mut [Cells],
    lost: Option<usize>,
    options: &MountOptions<'_>,
) -> Result<Mounted, LayoutError> {
    let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
    let here = |(index, disk)| (lost != Some(index)).then_some(disk as &mut dyn Disk);
    let mut disks: Vec<_> = plain.iter_mut().enumerate().map(here).collect();
    subject.mount(&mut disks, options)
}

/// The volume over memory that answers at once. In the place of a lost device stands an empty
/// one, so that whoever still uses it finds nothing there.
pub fn node(mounted: Mounted, media: Vec<Cells>, lost: Option<usize>, volatile: bool) -> Node {
    let ram = |(index, medium): (usize, Cells)| -> Box<dyn Device> {
        let medium = if lost == Some(index) { Cells::new(medium.blocks()) } else { medium };
        let medium = Box::new(medium);
        Box::new(if volatile { Ram::volatile(medium) } else { Ram::new(medium) })
    };
    mounted.node(media.into_iter().enumerate().map(ram).collect(), 0)
}

/// Carries out one request alone.
///
/// # Errors
/// What the volume answers.
pub fn one(node: &mut Node, io: Io) -> Result<Data, IoError> {
    node.run(&mut 0, io)
}

/// Everything a volume reads as.
///
/// # Errors
/// Why it cannot be read.
pub fn read_all(node: &mut Node) -> Result<Data, IoError> {
    let blocks = node.layer.blocks();
    one(node, Io::read(0, 0, blocks as u32))
}

/// Everything a damaged volume reads as, with the ranges that are errors: `None`.
pub fn read_what_can_be(node: &mut Node) -> Vec<(u32, Option<Data>)> {
    let mut found = Vec::new();
    let blocks = node.layer.blocks() as u32;
    let mut todo = vec![(0, blocks)];
    while let Some((at, count)) = todo.pop() {
        match one(node, Io::read(0, u64::from(at), count)) {
            Ok(data) => found.push((count, Some(data))),
            Err(_) if count == 1 => found.push((1, None)),
            Err(_) => {
                let half = count / 2;
                todo.push((at + half, count - half));
                todo.push((at, half));
            }
        }
    }
    found
}

/// A recovered volume must work: write, flush, read back.
pub fn works_on(node: &mut Node, rng: &mut Rng) -> Vec<String> {
    let blocks = node.layer.blocks();
    for round in 0..3 {
        let at = rng.below(blocks);
        let data = Data::stamp(1, u64::MAX / 2 + at, round + 1);
        let written = one(node, Io::write(1, at, data.clone()));
        let flushed = one(node, Io::flush(2));
        let read = one(node, Io::read(3, at, 1));
        if written == Err(IoError::NoSpace) && node.layer.status().limits().may_be_full {
            continue;
        }
        if written.is_err() || flushed.is_err() || read != Ok(data) {
            return vec![format!(
                "the recovered volume does not work at block {at}: write {written:?}, \
                 flush {flushed:?}, read {read:?}"
            )];
        }
    }
    Vec::new()
}
