//! What is proved: the seam between the run loop and the thing on the devices.
//!
//! A subject makes media and scripts, mounts them and says what may be lost. Its
//! [volume](crate::volume) takes requests and answers them; its [`Oracle`] plays the client and
//! judges. Block volumes are in [`crate::block`]; a file system is proved by the same three
//! implementations beside it.

use crate::machine::DeviceKind;
use crate::oracle::Oracle;
use crate::script::Operation;
use crate::violation::Wrong;
use crate::volume::Mounted;
use seekless_crash::pending::BlockWrite;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::Disk;
use seekless_engine::io::IoError;
use seekless_engine::layout::MountOptions;
use seekless_engine::options::Options;
use seekless_engine::rng::Rng;
use seekless_engine::units::BlockNr;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt::Debug;

/// The devices of a mount, blocking; `None` for one that is lost.
pub type Disks<'d> = [Option<&'d mut dyn Disk>];

/// The volume of a subject.
pub type VolumeOf<S> = <<S as Subject>::Mounted as Mounted>::Volume;
/// What a client of a subject asks.
pub type RequestOf<S> = <<S as Subject>::Oracle as Oracle>::Request;
/// What a volume of a subject holds.
pub type ContentOf<S> = <<S as Subject>::Oracle as Oracle>::Content;

/// What is proved. Everything else in the prover is the same for all.
pub trait Subject: Copy + Debug {
    /// A mounted volume that has no devices yet.
    type Mounted: Mounted;
    /// The client of a volume, and the judge of what a crash has left of it.
    type Oracle: Oracle<Volume = VolumeOf<Self>>;
    /// What is remembered of the media of a case that were looked at; see [`Subject::inspect`].
    type Looks: Default + Debug;
    /// What it is, in reports.
    const NOUN: &'static str = "layout";
    /// Kinds of workload: each round of so many cases has every one once.
    const WORKLOADS: u64;

    /// Its name in reports.
    fn name(self) -> String;

    /// The arguments of `seekless prove` that choose it.
    fn flags(self) -> String;

    /// An empty volume on new media and everything that is to happen to it. The number of the case
    /// chooses the kind of workload; all else is drawn.
    fn draw(self, case: u64, rng: &mut Rng) -> Case<Self>;

    /// How the volume is mounted in one epoch. What is drawn from `rng` moves all draws after it;
    /// an option that came later draws from streams of `seed` of its own.
    fn mount_options(self, seed: u64, rng: &mut Rng) -> Options;

    /// Mounts the volume, by way of recovery where there is something to recover.
    ///
    /// # Errors
    /// What is wrong with the media.
    fn mount(
        self,
        disks: &mut Disks<'_>,
        options: &MountOptions<'_>,
    ) -> Result<Self::Mounted, String>;

    /// What a mount of media would write before it mounts them, where that can be told; then
    /// [`Subject::mount_recovered`] does the rest.
    fn recovery(self, _media: &[Cells], _looks: &mut Self::Looks) -> Option<Recovery> {
        None
    }

    /// Mounts the volume on disks to which [`Subject::recovery`] was applied.
    ///
    /// # Errors
    /// What is wrong with the media.
    fn mount_recovered(
        self,
        disks: &mut Disks<'_>,
        options: &MountOptions<'_>,
    ) -> Result<Self::Mounted, String> {
        self.mount(disks, options)
    }

    /// True if wrong bytes on its devices are noticed.
    fn checks(self) -> bool;

    /// True if damage may end writing.
    fn stops_at_damage(self) -> bool;

    /// Number of cases, if it is bounded: then all of them are run.
    fn cases(self) -> Option<u64> {
        None
    }

    /// True if its devices are damaged, by rot and unreadable blocks.
    fn damages(self) -> bool {
        true
    }

    /// What a recovery of media would come to, found without mounting them: most states are looked
    /// at like that, where it is possible. Those that are mounted too must show the same. `again`
    /// is true if a recovery before was cut off.
    fn inspect(
        self,
        _media: &[Cells],
        _looks: &mut Self::Looks,
        _again: bool,
    ) -> Option<Result<ContentOf<Self>, Wrong>> {
        None
    }

    /// What a write of these media is about, for a story.
    fn area(self, _media: &[Cells], _write: &BlockWrite) -> Option<String> {
        None
    }

    /// Devices that it can do without.
    fn spare(self) -> usize {
        0
    }

    /// True if it makes up for the loss of a block by itself: then nothing may come of it. Some
    /// blocks follow from others only `at_rest`, after a clean shutdown.
    fn makes_up(self, _media: &[Cells], _place: (usize, BlockNr), _at_rest: bool) -> bool {
        false
    }

    /// True if its devices hold copies of each other.
    fn has_copies(self) -> bool {
        false
    }

    /// True if its devices are brought into step before the volume on them is mounted: after that
    /// copies that differed are equal, whichever device is pulled out later.
    fn is_assembled(self) -> bool {
        false
    }

    /// Devices that do not have what they should have.
    fn absent(self, _media: &[Cells]) -> BTreeSet<usize> {
        BTreeSet::new()
    }

    /// What happens to the devices while the power is off: one may be pulled out for the epoch to
    /// come, and one that was may be replaced. Returns the device that is pulled out.
    fn tinker(self, _media: &mut [Cells], _rng: &mut Rng) -> Option<usize> {
        None
    }

    /// Puts an empty device in the place of one that is damaged, which others make up for.
    fn replace(self, _media: &mut [Cells], device: usize) {
        unreachable!("{self:?} cannot do without device {device}");
    }

    /// What recovered devices do not agree about: it could come back wrong at any time later.
    fn disagreement(self, _media: &mut [Cells]) -> Option<String> {
        None
    }

    /// Puts right what one device holds wrong and others know better.
    ///
    /// # Errors
    /// Why it cannot be done.
    fn repair(self, _media: &mut [Cells]) -> Result<(), String> {
        Ok(())
    }

    /// Devices of which any one may be lost together with the power without a loss of data, if
    /// those in `failing` have failed since the power came on.
    fn dispensable(self, media: &[Cells], failing: &BTreeSet<usize>) -> Vec<usize> {
        if self.spare() == 0 {
            return Vec::new();
        }
        let mut out = self.absent(media);
        out.extend(failing);
        match out.len().cmp(&self.spare()) {
            Ordering::Less => (0..media.len()).collect(),
            // It is missed already, though not all devices may have heard of it.
            Ordering::Equal => failing.iter().copied().collect(),
            Ordering::Greater => Vec::new(),
        }
    }
}

/// What a recovery does with the only device of a volume.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// Its writes in order, and flushes between them.
    pub writes: Vec<Option<(BlockNr, Data)>>,
    /// Blocks that it reads.
    pub blocks_read: u64,
}

impl Recovery {
    /// Carries it out.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn apply(&self, disk: &mut dyn Disk) -> Result<(), IoError> {
        for write in &self.writes {
            match write {
                Some((at, data)) => disk.write(*at, data.clone())?,
                None => disk.flush()?,
            }
        }
        Ok(())
    }
}

/// A volume that was just made, with nothing in it, and what happens to it.
#[derive(Debug)]
pub struct Case<S: Subject> {
    /// Kind of workload.
    pub workload: &'static str,
    /// The devices.
    pub media: Vec<Cells>,
    /// What they are like.
    pub devices: DeviceKind,
    /// Everything that is to happen.
    pub script: Vec<Operation<RequestOf<S>>>,
    /// The client, who has done nothing yet.
    pub oracle: S::Oracle,
}
