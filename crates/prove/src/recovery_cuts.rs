//! A recovery that is cut off itself: after some writes, each is on its medium, torn or lost. It
//! runs once and records what a power cut at each of its writes would find.

use crate::subject::Subject;
use seekless_crash::contract::AtRisk;
use seekless_crash::fate::Fate;
use seekless_crash::moment::Moment;
use seekless_crash::pending::{BlockWrite, Pending, PendingWrites};
use seekless_crash::sample::Sampler;
use seekless_crash::tear::apply;
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::disk::Disk;
use seekless_engine::io::{IoError, Label, Labels};
use seekless_engine::layout::MountOptions;
use seekless_engine::rng::Rng;
use seekless_engine::units::BlockNr;
use std::cell::RefCell;

/// A write and its device.
#[derive(Clone, Debug)]
struct Placed {
    device: usize,
    write: BlockWrite,
}

/// What becomes of the writes that were not flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// All of them are lost.
    Nothing,
    /// All of them are on the medium.
    Everything,
    /// Each is there, lost or torn, by chance.
    Something,
    /// Each is there or lost, by chance, and none is torn.
    Whole,
}

/// What a power cut at some write finds.
#[derive(Clone, Debug)]
pub struct Cut {
    flushed: Vec<Cells>,
    pending: PendingWrites<Placed>,
}

impl Cut {
    /// A state that it may leave.
    pub fn leave(&self, leaving: Leaving, rng: &mut Rng) -> Vec<Cells> {
        let mut media = self.flushed.clone();
        let fates = match leaving {
            Leaving::Nothing => vec![Fate::Lost; self.pending.len()],
            Leaving::Everything => vec![Fate::Kept; self.pending.len()],
            Leaving::Something => Sampler::AnyFate.draw(&self.at_risk(), rng),
            Leaving::Whole => {
                let whole = |one: AtRisk| AtRisk { sectors: None, ..one };
                let at_risk: Vec<_> = self.at_risk().into_iter().map(whole).collect();
                Sampler::AnyFate.draw(&at_risk, rng)
            }
        };
        for (Pending { write: one, .. }, fate) in self.pending.iter().zip(&fates) {
            apply(&mut media[one.device], &one.write, fate);
        }
        media
    }

    fn at_risk(&self) -> Vec<AtRisk> {
        let one = |Pending { number, completed, write, .. }: &Pending<Placed>| {
            AtRisk::of_blocks(write.device, *number, *completed, write.write.blocks())
        };
        self.pending.iter().map(one).collect()
    }
}

/// What a mount finds: what reads see, and what of that a power cut would leave.
#[derive(Clone, Debug)]
pub struct Found {
    media: Vec<Cells>,
    flushed: Vec<Cells>,
    pending: PendingWrites<Placed>,
    writes: u64,
}

impl Found {
    /// After a power cut: what is there is durable.
    pub fn after_a_cut(media: Vec<Cells>) -> Found {
        let flushed = media.clone();
        Found { media, flushed, pending: PendingWrites::default(), writes: 0 }
    }

    /// After the process was killed and the power stayed on: the caches of the devices have what
    /// they had.
    pub fn after_a_kill(moment: &Moment) -> Found {
        let mut found = Found::after_a_cut(moment.durable.clone());
        for placed in &moment.pending {
            let (device, write) = (placed.device, placed.pending.write.clone());
            write.write_to(&mut found.media[device]).expect("memory does not fail");
            found.writes += 1;
            found.pending.admit(found.writes, Placed { device, write });
        }
        found
    }
}

/// Mounts media and records what a power cut at each of the first writes of the mount, `most` at
/// the most, would find. Returns that, and what the media hold after the mount.
pub fn cut_recovery<S: Subject>(
    subject: S,
    looks: &mut S::Looks,
    found: Found,
    volatile: bool,
    most: usize,
) -> (Vec<Cut>, Vec<Cells>) {
    let known = subject.recovery(&found.media, looks);
    let power = RefCell::new(Power::new(found, volatile, most));
    let mut cuts = CutDisk::all(&power);
    let mut disks: Vec<_> = cuts.iter_mut().map(|cut| Some(cut as &mut dyn Disk)).collect();
    let options = MountOptions { volatile, ..MountOptions::default() };
    // Whether it got through or not, the next mount must cope.
    let _ = match known {
        None => subject.mount(&mut disks, &options),
        Some(known) => {
            if let Some(disk) = disks[0].as_deref_mut() {
                known.apply(disk).expect("memory does not fail");
            }
            subject.mount_recovered(&mut disks, &options)
        }
    };
    let Power { cuts, media, .. } = power.into_inner();
    (cuts, media)
}

/// Has `work` write to media and records what a power cut at each of its writes would find.
/// Returns that, and what the media hold afterwards, flushed or not.
pub fn cut_work(
    media: Vec<Cells>,
    volatile: bool,
    work: impl FnOnce(&mut [&mut dyn Disk]),
) -> (Vec<Cut>, Cut) {
    let power = RefCell::new(Power::new(Found::after_a_cut(media), volatile, usize::MAX));
    let mut cuts = CutDisk::all(&power);
    let mut disks: Vec<_> = cuts.iter_mut().map(|cut| cut as &mut dyn Disk).collect();
    work(&mut disks);
    let Power { cuts, flushed, pending, .. } = power.into_inner();
    (cuts, Cut { flushed, pending })
}

/// What a mount leaves of one device.
#[derive(Debug)]
pub struct Left {
    /// What is durable.
    pub flushed: Cells,
    /// What was written after the last flush, in order.
    pub unflushed: Vec<BlockWrite>,
    /// Both together.
    pub whole: Cells,
}

/// Mounts media, without the device `lost`, and tells what it leaves on each of them.
///
/// # Errors
/// What the volume finds wrong with them.
pub fn mount_and_tell<S: Subject>(
    subject: S,
    media: Vec<Cells>,
    lost: Option<usize>,
    options: &MountOptions<'_>,
) -> Result<(S::Mounted, Vec<Left>), String> {
    let power = RefCell::new(Power::new(Found::after_a_cut(media), options.volatile, 0));
    let mut cuts = CutDisk::all(&power);
    let here = |(index, cut)| (lost != Some(index)).then_some(cut as &mut dyn Disk);
    let mut disks: Vec<_> = cuts.iter_mut().enumerate().map(here).collect();
    let mounted = subject.mount(&mut disks, options)?;
    drop(disks);
    let Power { media, flushed, pending, .. } = power.into_inner();
    let left = media.into_iter().zip(flushed).enumerate().map(|(device, (whole, flushed))| {
        let own = pending.iter().filter(|one| one.write.device == device);
        let unflushed = own.map(|one| one.write.write.clone()).collect();
        Left { flushed, unflushed, whole }
    });
    Ok((mounted, left.collect()))
}

/// The media of a recovery and the power supply they share.
#[derive(Debug)]
struct Power {
    media: Vec<Cells>,
    flushed: Vec<Cells>,
    pending: PendingWrites<Placed>,
    /// Writes so far.
    writes: u64,
    /// What a device has completed may be lost until it is flushed.
    volatile: bool,
    /// What a cut would find at each of the first writes, `most` at the most.
    cuts: Vec<Cut>,
    most: usize,
}

impl Power {
    fn new(found: Found, volatile: bool, most: usize) -> Power {
        let Found { media, flushed, pending, writes } = found;
        Power { media, flushed, pending, writes, volatile, cuts: Vec::new(), most }
    }
}

/// One of the devices.
#[derive(Debug)]
struct CutDisk<'p> {
    power: &'p RefCell<Power>,
    device: usize,
}

impl<'p> CutDisk<'p> {
    fn all(power: &'p RefCell<Power>) -> Vec<CutDisk<'p>> {
        let devices = power.borrow().media.len();
        (0..devices).map(|device| CutDisk { power, device }).collect()
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
            power.pending.take();
        }
        power.media[self.device].write_labelled(at, &data, labels)?;
        let labelled = power.media[self.device].has_labels();
        let labels = labelled.then(|| Labels::new(labels.into()));
        power.writes += 1;
        let (number, device) = (power.writes, self.device);
        let write = BlockWrite { at, data, labels, part: None, places: None };
        power.pending.admit(number, Placed { device, write });
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
