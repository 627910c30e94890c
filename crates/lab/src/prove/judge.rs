//! Mounts a crash state, reads everything back, and asks the history whether that is allowed.

use super::ProveReport;
use super::history::History;
use super::states::FaultCounts;
use seekless_engine::data::{Data, Piece};
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::{Io, IoError, Label};
use seekless_engine::layer::Layer;
use seekless_engine::layout::{self, LayoutError, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::units::BlockNr;

/// A recovery that is cut off itself: after some writes, each is on the medium or not.
struct CutDisk<'m> {
    medium: &'m mut Cells,
    flushed: Cells,
    writes_left: u64,
    rng: &'m mut Rng,
    pending: Vec<(BlockNr, Data, Vec<Label>)>,
    cut: bool,
}

impl CutDisk<'_> {
    fn power_off(&mut self) {
        self.cut = true;
        let mut medium = self.flushed.clone();
        for (at, data, labels) in self.pending.drain(..) {
            if self.rng.chance(0.5) {
                medium.write_labelled(at, &data, &labels).expect("memory does not fail");
            }
        }
        *self.medium = medium;
    }
}

impl Disk for CutDisk<'_> {
    fn blocks(&self) -> u64 {
        self.medium.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        if self.cut { Err(IoError::PowerOff) } else { self.medium.read(at, count) }
    }

    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        let labels = vec![Label::default(); data.blocks() as usize];
        self.write_labelled(at, data, &labels)
    }

    fn has_labels(&self) -> bool {
        self.medium.has_labels()
    }

    fn labels(&mut self, at: BlockNr, count: u32) -> Result<Vec<Label>, IoError> {
        self.medium.labels(at, count)
    }

    fn write_labelled(&mut self, at: BlockNr, data: Data, labels: &[Label]) -> Result<(), IoError> {
        if self.cut {
            return Err(IoError::PowerOff);
        }
        self.medium.write_labelled(at, &data, labels)?;
        self.pending.push((at, data, labels.to_vec()));
        if self.writes_left == 0 {
            self.power_off();
            return Err(IoError::PowerOff);
        }
        self.writes_left -= 1;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), IoError> {
        if self.cut {
            return Err(IoError::PowerOff);
        }
        self.pending.clear();
        self.flushed = self.medium.clone();
        Ok(())
    }

    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        self.medium.next_data(at)
    }
}

/// Mounts and cuts the power during it. The medium is then in a state that the cut may have left.
pub fn cut_recovery(medium: &mut Cells, volatile: bool, rng: &mut Rng, faults: &mut FaultCounts) {
    let flushed = medium.clone();
    let writes_left = rng.below(4);
    let mut stream = rng.clone();
    rng.next();
    let mut disk =
        CutDisk { medium, flushed, writes_left, rng: &mut stream, pending: Vec::new(), cut: false };
    let options = MountOptions { volatile, ..MountOptions::default() };
    // Whether it got through or not, the second mount must cope.
    let _ = layout::mount(&mut disk, &options);
    if disk.cut {
        faults.second_cuts += 1;
    }
}

/// Mounts a medium.
///
/// # Errors
/// What the layout finds wrong with it.
pub fn mount(
    medium: &mut Cells,
    volatile: bool,
    report: &mut ProveReport,
) -> Result<Box<dyn Layer>, LayoutError> {
    let options = MountOptions { volatile, ..MountOptions::default() };
    let (layer, _, mounted) = layout::mount(&mut MediumDisk(medium), &options)?;
    report.most_blocks_read = report.most_blocks_read.max(mounted.blocks_read);
    Ok(layer)
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
    mut medium: Cells,
    volatile: bool,
    history: &History,
    rng: &mut Rng,
    report: &mut ProveReport,
) -> Vec<String> {
    let layer = match mount(&mut medium, volatile, report) {
        Ok(layer) => layer,
        Err(error) => return vec![format!("the volume cannot be mounted: {error}")],
    };
    let device = Box::new(medium);
    let ram = if volatile { Ram::volatile(device) } else { Ram::new(device) };
    let mut node = Node::new(layer, vec![Box::new(ram)], 0);
    let data = match read_all(&mut node) {
        Ok(data) => data,
        Err(wrong) => return vec![wrong],
    };
    let pieces: Vec<Piece> = data.pieces().to_vec();
    let mut wrong = history.judge(&pieces);
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
