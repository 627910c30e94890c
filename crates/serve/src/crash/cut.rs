//! What a power cut leaves behind: a state that a real drive could have.

use super::plan::Unflushed;
use super::store::{Content, Store};
use seekless_engine::data::Data;
use seekless_engine::io::IoError;
use seekless_engine::rng::Rng;
use seekless_engine::units::{BLOCK_SECTORS, BlockNr, SECTOR_BYTES};

/// A write that no flush has covered.
#[derive(Debug)]
pub(super) struct Pending {
    pub at: BlockNr,
    pub count: u32,
    /// It is a trim.
    pub trim: bool,
    /// Forced unit access: it is on the medium as far as a power cut is concerned.
    pub forced: bool,
    /// What it has replaced on the medium; once it has been taken back, what it had written. None
    /// if taking it back has failed.
    pub other: Option<Content>,
}

/// What became of an unflushed write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is on the medium.
    Kept,
    /// It is not.
    Lost,
    /// Those sectors of 512 bytes are, counted from its beginning, that are marked.
    Torn(Vec<bool>),
}

/// An unflushed write and its fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// First block on the device.
    pub at: BlockNr,
    /// Number of blocks.
    pub count: u32,
    /// What became of it.
    pub fate: Fate,
}

/// What a power cut did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number of the cut, from 1.
    pub number: u64,
    /// Why the power went.
    pub cause: String,
    /// Writes before it, this one included if it was under way.
    pub writes: u64,
    /// Flushes before it.
    pub flushes: u64,
    /// Seed of the draw; with the number of the cut and the same writes it repeats.
    pub seed: u64,
    /// The unflushed writes in the order of their arrival.
    pub outcomes: Vec<Outcome>,
}

impl Cut {
    /// Kept, lost and torn writes.
    pub fn tally(&self) -> (usize, usize, usize) {
        let count = |wanted: fn(&Fate) -> bool| {
            self.outcomes.iter().filter(|one| wanted(&one.fate)).count()
        };
        (
            count(|fate| *fate == Fate::Kept),
            count(|fate| *fate == Fate::Lost),
            count(|fate| matches!(fate, Fate::Torn(_))),
        )
    }
}

/// Draws what becomes of each write.
pub(super) fn draw(pending: &[Pending], how: Unflushed, rng: &mut Rng) -> Vec<Fate> {
    let keep = [0.1, 0.5, 0.9][rng.below(3) as usize];
    let prefix = rng.below(pending.len() as u64 + 1) as usize;
    let fate = |(index, one): (usize, &Pending)| {
        let kept = match how {
            _ if one.forced => true,
            Unflushed::Lose => false,
            Unflushed::Keep => true,
            Unflushed::Order => index < prefix,
            Unflushed::Reorder => rng.chance(keep),
            Unflushed::Tear => {
                if !one.trim && rng.chance(0.3) {
                    return torn(one.count, rng);
                }
                rng.chance(keep)
            }
        };
        if kept { Fate::Kept } else { Fate::Lost }
    };
    pending.iter().enumerate().map(fate).collect()
}

fn torn(blocks: u32, rng: &mut Rng) -> Fate {
    let sectors = u64::from(blocks) * BLOCK_SECTORS;
    let at = 1 + rng.below(sectors - 1);
    let how = rng.below(3);
    let mut mark = |sector: u64| match how {
        0 => sector < at,
        1 => sector >= at,
        _ => rng.below(2) == 1,
    };
    let marks: Vec<bool> = (0..sectors).map(&mut mark).collect();
    match (marks.contains(&true), marks.contains(&false)) {
        (true, true) => Fate::Torn(marks),
        (true, false) => Fate::Kept,
        _ => Fate::Lost,
    }
}

/// Exchanges what a write has replaced for what it had written, or the other way round.
pub(super) fn turn(store: &mut Store, one: &mut Pending) -> Result<(), IoError> {
    if let Some(other) = one.other.take() {
        one.other = Some(store.exchange(one.at, one.count, other)?);
    }
    Ok(())
}

/// Puts what survived of a write that was taken back on the medium.
pub(super) fn apply(store: &mut Store, mut one: Pending, fate: &Fate) -> Result<(), IoError> {
    match (fate, &one.other) {
        (Fate::Lost, _) | (_, None) => {}
        (Fate::Kept, _) => turn(store, &mut one)?,
        (Fate::Torn(marks), Some(new)) => {
            let mut mixed = store.medium().read(one.at, one.count)?.to_bytes().to_vec();
            let new = new.data().to_bytes();
            for (sector, _) in marks.iter().enumerate().filter(|(_, mark)| **mark) {
                let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
                mixed[range.clone()].copy_from_slice(&new[range]);
            }
            store.medium().write(one.at, &Data::bytes(mixed.into()))?;
        }
    }
    if let Some(other) = one.other {
        store.discard(other);
    }
    Ok(())
}
