//! What a power cut leaves behind: a state that a real drive could have.

use super::plan::Unflushed;
use super::store::{Content, Store};
use seekless_crash::contract::AtRisk;
use seekless_crash::fate::{Fate, Tally, tally};
use seekless_crash::pending::{Pending, PendingWrites};
use seekless_crash::sample::{Chances, KEEP};
use seekless_crash::tear::overlay;
use seekless_engine::data::Data;
use seekless_engine::io::IoError;
use seekless_engine::rng::Rng;
use seekless_engine::units::BlockNr;

/// A write that no flush has covered.
#[derive(Debug)]
pub(super) struct Cached {
    pub at: BlockNr,
    pub count: u32,
    /// It is a trim.
    pub trim: bool,
    /// Forced unit access: no power cut takes it. It stays in the list, since taking back an older
    /// write below it would take it back, too.
    pub forced: bool,
    /// What it has replaced on the medium; once it has been taken back, what it had written. None
    /// if taking it back has failed.
    pub other: Option<Content>,
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
    pub fn tally(&self) -> Tally {
        tally(self.outcomes.iter().map(|one| &one.fate))
    }
}

/// How likely a write is to be torn, if any are.
const TEAR: f64 = 0.3;

/// Draws what becomes of each write. All that is drawn for an outcome comes first, also what its
/// kind does not use: a seed means the same writes under each kind.
pub(super) fn draw(pending: &PendingWrites<Cached>, how: Unflushed, rng: &mut Rng) -> Vec<Fate> {
    let keep = KEEP.draw(rng);
    let prefix = rng.below(pending.len() as u64 + 1) as usize;
    let fate = |(index, one): (usize, &Pending<Cached>)| {
        let one = at_risk(one);
        match how {
            _ if one.forced => Fate::Kept,
            Unflushed::Keep => Fate::Kept,
            Unflushed::Order if index < prefix => Fate::Kept,
            Unflushed::Lose | Unflushed::Order => Fate::Lost,
            Unflushed::Reorder => Chances { keep, tear: None }.draw(&one, rng),
            Unflushed::Tear => Chances { keep, tear: Some(TEAR) }.draw(&one, rng),
        }
    };
    pending.iter().enumerate().map(fate).collect()
}

/// A write of the cache as the kernel sees it. A trim is never torn.
fn at_risk(one: &Pending<Cached>) -> AtRisk {
    let Cached { count, trim, forced, .. } = one.write;
    let write = AtRisk::of_blocks(0, one.number, one.completed, count);
    AtRisk { forced, sectors: write.sectors.filter(|_| !trim), ..write }
}

/// Exchanges what a write has replaced for what it had written, or the other way round.
pub(super) fn turn(store: &mut Store, one: &mut Cached) -> Result<(), IoError> {
    if let Some(other) = one.other.take() {
        one.other = Some(store.exchange(one.at, one.count, other)?);
    }
    Ok(())
}

/// Puts what survived of a write that was taken back on the medium.
pub(super) fn apply(store: &mut Store, mut one: Cached, fate: &Fate) -> Result<(), IoError> {
    match (fate, &one.other) {
        (Fate::Lost, _) | (_, None) => {}
        (Fate::Kept, _) => turn(store, &mut one)?,
        (Fate::Torn(marks), Some(new)) => {
            let mut mixed = store.medium().read(one.at, one.count)?.to_bytes().to_vec();
            let new = new.data().to_bytes();
            overlay(&mut mixed, &new, marks);
            store.medium().write(one.at, &Data::bytes(mixed.into()))?;
        }
    }
    if let Some(other) = one.other {
        store.discard(other);
    }
    Ok(())
}
