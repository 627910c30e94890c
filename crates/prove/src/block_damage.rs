//! Damage: blocks that cannot be read or read back wrong, at random and where it hurts most.

use crate::oracle::Allowance;
use crate::report::FaultCounts;
use crate::script::Place;
use seekless_crash::faults::flip_bit;
use seekless_engine::data::Body;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::medium::Medium as _;
use seekless_engine::io::Label;
use seekless_engine::rng::Rng;
use std::fmt;

/// What was damaged, and whether other devices make up for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Nothing.
    None,
    /// Blocks of this device cannot be read, and the others have what it takes to compute them:
    /// the client must not notice.
    Covered(usize),
    /// Errors are no surprise.
    Open,
}

impl Damage {
    /// What it allows after a power cut.
    pub fn allowance(self) -> Allowance {
        match self {
            Damage::None => Allowance::None,
            // As if the whole device were lost.
            Damage::Covered(_) => Allowance::Lost,
            Damage::Open => Allowance::Damaged,
        }
    }
}

/// How a block is struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Unreadable,
    Rotten(u64),
    /// A bit of its label is wrong.
    Mislabelled(u64),
}

/// A block and how it is struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strike {
    device: usize,
    at: u64,
    how: How,
}

impl Strike {
    /// Strikes a block in some way that a subject has an answer to, which `checks` what it reads.
    pub fn draw(
        checks: bool,
        (device, at): (usize, u64),
        media: &[Cells],
        rng: &mut Rng,
    ) -> Strike {
        let labelled = media[device].label(at) != Label::default();
        let how = match rng.below(3) {
            // A subject without checksums promises nothing about rot.
            _ if !checks => How::Unreadable,
            0 => How::Unreadable,
            1 if labelled => How::Mislabelled(rng.next()),
            _ => How::Rotten(rng.next()),
        };
        Strike { device, at, how }
    }

    /// The place that it strikes.
    pub fn place(&self) -> (usize, u64) {
        (self.device, self.at)
    }

    /// What it comes to, if an unreadable block is `covered` by other devices, or if the volume
    /// `makes_up` for the block by itself. No device makes up for wrong bytes: an array does not
    /// notice them.
    pub fn damage(&self, covered: bool, makes_up: bool) -> Damage {
        match self.how {
            _ if makes_up => Damage::None,
            How::Unreadable if covered => Damage::Covered(self.device),
            _ => Damage::Open,
        }
    }

    /// True if what is there reads back wrong without an error.
    pub fn is_rot(&self) -> bool {
        self.how != How::Unreadable
    }

    /// Carries it out.
    pub fn hit(&self, media: &mut [Cells], faults: &mut FaultCounts) {
        let medium = &mut media[self.device];
        match self.how {
            How::Unreadable => {
                medium.lose(self.at);
                faults.unreadable += 1;
            }
            How::Rotten(bit) => {
                medium.set(self.at, flip_bit(&medium.get(self.at), bit));
                faults.rotten += 1;
            }
            How::Mislabelled(bit) => {
                let mut label = medium.label(self.at);
                let bit = bit % (8 * label.len() as u64);
                label[(bit / 8) as usize] ^= 1 << (bit % 8);
                medium.set_label(self.at, label);
                faults.rotten += 1;
            }
        }
    }
}

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Strike { device, at, how } = self;
        let what = match how {
            How::Unreadable => "cannot be read",
            How::Rotten(_) => "reads back with a wrong bit",
            How::Mislabelled(_) => "has a label with a wrong bit",
        };
        write!(f, "block {at} of device {device} {what}")
    }
}

/// True if a block holds what a layout wrote for itself.
fn is_metadata(medium: &Cells, at: u64) -> bool {
    matches!(medium.get(at), Body::Bytes(_) | Body::Sectors(_) | Body::Lazy(_))
        || medium.label(at) != Label::default()
}

/// Blocks to strike one after the other: the ends of each device, all metadata or so many blocks of
/// it, and a few others.
pub fn all_places(media: &[Cells], most: usize, rng: &mut Rng) -> Vec<(usize, u64)> {
    let mut places = Vec::new();
    for (device, medium) in media.iter().enumerate() {
        let ends = [Place::First, Place::Tail, Place::Last];
        places.extend(ends.map(|place| (device, find(place, medium))));
        let metadata: Vec<u64> =
            (0..medium.blocks()).filter(|&at| is_metadata(medium, at)).collect();
        let (skip, every) = match metadata.len().div_ceil(most.max(1)) {
            0 | 1 => (0, 1),
            every => (rng.below(every as u64) as usize, every),
        };
        places.extend(metadata.iter().skip(skip).step_by(every).map(|&at| (device, at)));
        places.extend((0..most / 8).map(|_| (device, rng.below(medium.blocks()))));
    }
    places
}

/// A block to strike: often an end of a device or metadata.
pub fn any_place(media: &[Cells], rng: &mut Rng) -> (usize, u64) {
    let device = rng.below(media.len() as u64) as usize;
    let place = match rng.below(6) {
        0 => [Place::First, Place::Last, Place::Tail][rng.below(3) as usize],
        1..4 => Place::Metadata(rng.next()),
        _ => Place::Anywhere(rng.next()),
    };
    (device, find(place, &media[device]))
}

/// The block that a place means on a medium.
pub fn find(place: Place, medium: &Cells) -> u64 {
    let blocks = medium.blocks();
    match place {
        Place::First => 0,
        Place::Tail => 1.min(blocks - 1),
        Place::Last => blocks - 1,
        Place::Anywhere(choice) => choice % blocks,
        Place::Metadata(choice) => {
            let all: Vec<u64> = (0..blocks).filter(|&at| is_metadata(medium, at)).collect();
            if all.is_empty() { choice % blocks } else { all[(choice % all.len() as u64) as usize] }
        }
    }
}
