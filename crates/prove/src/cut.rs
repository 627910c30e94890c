//! A recovery that is cut off itself: after some writes, each is on its medium, torn or lost. It
//! runs once, and what a power cut at each of its writes would find is taken down.

use super::states::random_fate;
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::volatile::{Fate, Pending, apply};
use seekless_engine::disk::Disk;
use seekless_engine::io::{IoError, Label, Labels};
use seekless_engine::rng::Rng;
use seekless_engine::units::BlockNr;
use std::cell::RefCell;

/// A write that its device has not been asked to flush yet.
#[derive(Clone, Debug)]
struct Unflushed {
    device: usize,
    write: Pending,
}

/// What becomes of the writes that were not flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// All of them are lost.
    Nothing,
    /// All of them are on the medium.
    Everything,
    /// Each is there, lost or torn, as the dice have it.
    Something,
}

/// What a power cut at some write finds.
#[derive(Clone, Debug)]
pub struct Cut {
    flushed: Vec<Cells>,
    pending: Vec<Unflushed>,
}

impl Cut {
    /// A state that it may leave.
    pub fn leave(&self, leaving: Leaving, rng: &mut Rng) -> Vec<Cells> {
        let mut media = self.flushed.clone();
        for Unflushed { device, write } in &self.pending {
            let fate = match leaving {
                Leaving::Nothing => Fate::Lost,
                Leaving::Everything => Fate::Whole,
                Leaving::Something => random_fate(write, rng),
            };
            apply(&mut media[*device], write, &fate);
        }
        media
    }
}

/// The media of a recovery and the power supply they share.
#[derive(Debug)]
pub struct Power {
    media: Vec<Cells>,
    flushed: Vec<Cells>,
    pending: Vec<Unflushed>,
    /// What a device has completed may be lost until it is flushed.
    volatile: bool,
    /// What a cut would find at each of the first writes, and how many of these are looked at.
    cuts: Vec<Cut>,
    most: usize,
}

impl Power {
    /// Power for these media; what a cut would find is taken down for so many writes.
    pub fn new(media: Vec<Cells>, volatile: bool, most: usize) -> Power {
        let flushed = media.clone();
        Power { media, flushed, pending: Vec::new(), volatile, cuts: Vec::new(), most }
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.media.len()
    }

    /// What a cut would have found at each of the first writes, and what is there in the end.
    pub fn end(self) -> (Vec<Cut>, Vec<Cells>) {
        (self.cuts, self.media)
    }
}

/// One of the devices.
#[derive(Debug)]
pub struct CutDisk<'p> {
    power: &'p RefCell<Power>,
    device: usize,
}

impl<'p> CutDisk<'p> {
    /// The device with that number.
    pub fn new(power: &'p RefCell<Power>, device: usize) -> CutDisk<'p> {
        CutDisk { power, device }
    }

    fn has_labels_of(&self, power: &Power) -> bool {
        power.media[self.device].has_labels()
    }
}

impl Disk for CutDisk<'_> {
    fn blocks(&self) -> u64 {
        self.power.borrow().media[self.device].blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.power.borrow_mut().media[self.device].read(at, count)
    }

    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        let labels = vec![Label::default(); data.blocks() as usize];
        self.write_labelled(at, data, &labels)
    }

    fn has_labels(&self) -> bool {
        self.power.borrow().media[self.device].has_labels()
    }

    fn labels(&mut self, at: BlockNr, count: u32) -> Result<Vec<Label>, IoError> {
        self.power.borrow_mut().media[self.device].labels(at, count)
    }

    fn write_labelled(&mut self, at: BlockNr, data: Data, labels: &[Label]) -> Result<(), IoError> {
        let mut power = self.power.borrow_mut();
        if !power.volatile {
            // All writes but the one that is under way when the power goes are safe.
            power.flushed = power.media.clone();
            power.pending.clear();
        }
        power.media[self.device].write_labelled(at, &data, labels)?;
        let labels = self.has_labels_of(&power).then(|| Labels::new(labels.into()));
        power
            .pending
            .push(Unflushed { device: self.device, write: Pending::new(at, data, labels) });
        if power.cuts.len() < power.most {
            let cut = Cut { flushed: power.flushed.clone(), pending: power.pending.clone() };
            power.cuts.push(cut);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), IoError> {
        let mut power = self.power.borrow_mut();
        let device = self.device;
        power.pending.retain(|one| one.device != device);
        power.flushed[device] = power.media[device].clone();
        Ok(())
    }

    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        self.power.borrow_mut().media[self.device].next_data(at)
    }
}
