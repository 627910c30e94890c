//! Mounts a crash state, reads everything back, and asks the history whether that is allowed.

use super::ProveReport;
use super::cut::{CutDisk, Power};
use super::history::History;
use super::states::FaultCounts;
use super::subject::{Mounted, Subject};
use seekless_engine::data::{Data, Piece};
use seekless_engine::device::Device;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::{Io, IoError};
use seekless_engine::layout::{LayoutError, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use std::cell::RefCell;

/// Mounts and cuts the power during it. The media are then in a state that the cut may have left.
pub fn cut_recovery(
    subject: Subject,
    media: &mut Vec<Cells>,
    volatile: bool,
    rng: &mut Rng,
    faults: &mut FaultCounts,
) {
    let writes_left = rng.below(4);
    let stream = rng.clone();
    rng.next();
    let power = RefCell::new(Power::new(std::mem::take(media), writes_left, stream));
    let mut cuts: Vec<_> = (0..power.borrow().devices()).map(|n| CutDisk::new(&power, n)).collect();
    let mut disks: Vec<_> = cuts.iter_mut().map(|cut| Some(cut as &mut dyn Disk)).collect();
    let options = MountOptions { volatile, ..MountOptions::default() };
    // Whether it got through or not, the second mount must cope.
    let _ = subject.mount(&mut disks, &options);
    let (left, cut) = power.into_inner().leave();
    *media = left;
    faults.second_cuts += u64::from(cut);
}

/// Mounts media; the device `lost` is gone.
///
/// # Errors
/// What the volume finds wrong with them.
pub fn mount(
    subject: Subject,
    media: &mut [Cells],
    lost: Option<usize>,
    volatile: bool,
    report: &mut ProveReport,
) -> Result<Mounted, LayoutError> {
    let options = MountOptions { volatile, ..MountOptions::default() };
    let mounted = mount_with(subject, media, lost, &options)?;
    report.most_blocks_read = report.most_blocks_read.max(mounted.blocks_read);
    Ok(mounted)
}

/// As [`mount`], with other options.
///
/// # Errors
/// What the volume finds wrong with them.
pub fn mount_with(
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
    use seekless_engine::device::medium::Medium as _;
    let ram = |(index, medium): (usize, Cells)| -> Box<dyn Device> {
        let medium = if lost == Some(index) { Cells::new(medium.blocks()) } else { medium };
        let medium = Box::new(medium);
        Box::new(if volatile { Ram::volatile(medium) } else { Ram::new(medium) })
    };
    mounted.node(media.into_iter().enumerate().map(ram).collect(), 0)
}

/// Carries out one request alone.
pub fn one(node: &mut Node, io: Io) -> Result<Data, IoError> {
    node.run(&mut 0, io)
}

/// Everything a volume reads as, or why it cannot be read.
pub fn read_all(node: &mut Node) -> Result<Data, String> {
    let blocks = node.layer.blocks();
    match one(node, Io::read(0, 0, blocks as u32)) {
        Ok(data) => Ok(data),
        Err(error) => Err(format!("the volume cannot be read after the crash: {error}")),
    }
}

/// Mounts a crash state and compares it with the history. Returns what is wrong.
pub fn judge(
    subject: Subject,
    mut media: Vec<Cells>,
    volatile: bool,
    history: &History,
    rng: &mut Rng,
    report: &mut ProveReport,
) -> Vec<String> {
    let lose = subject.spare_devices() > 0 && rng.chance(0.5);
    let lost = lose.then(|| rng.below(media.len() as u64) as usize);
    report.faults.lost_devices += u64::from(lose);
    let mut wrong = compare(subject, &mut media, lost, volatile, history, rng, report);
    if let Some(lost) = lost
        && !wrong.is_empty()
    {
        wrong.insert(0, format!("device {lost} is lost with the power"));
    }
    wrong
}

fn compare(
    subject: Subject,
    media: &mut Vec<Cells>,
    lost: Option<usize>,
    volatile: bool,
    history: &History,
    rng: &mut Rng,
    report: &mut ProveReport,
) -> Vec<String> {
    let mounted = match mount(subject, media, lost, volatile, report) {
        Ok(mounted) => mounted,
        Err(error) => return vec![format!("the volume cannot be mounted: {error}")],
    };
    let mut node = node(mounted, std::mem::take(media), lost, volatile);
    let data = match read_all(&mut node) {
        Ok(data) => data,
        Err(wrong) => return vec![wrong],
    };
    let pieces: Vec<Piece> = data.pieces().to_vec();
    let mut wrong = history.judge(&pieces, lost.is_some());
    if wrong.is_empty() && rng.below(8) == 0 {
        wrong = works_on(&mut node, rng);
    }
    wrong
}

/// A recovered volume must work: write, flush, read back.
fn works_on(node: &mut Node, rng: &mut Rng) -> Vec<String> {
    let blocks = node.layer.blocks();
    for round in 0..3 {
        let at = rng.below(blocks);
        let data = Data::stamp(1, u64::MAX / 2 + at, round + 1);
        let written = one(node, Io::write(1, at, data.clone()));
        let flushed = one(node, Io::flush(2));
        let read = one(node, Io::read(3, at, 1));
        if written.is_err() || flushed.is_err() || read != Ok(data) {
            return vec![format!(
                "the recovered volume does not work at block {at}: write {written:?}, \
                 flush {flushed:?}, read {read:?}"
            )];
        }
    }
    Vec::new()
}
