//! The order in which states are tried.
//!
//! Without a budget of time: from flush boundary to flush boundary. With one: the most telling
//! kinds of states first (see [`rank`]). Of each kind come first the boundaries that owe something
//! new: behind the one before them, something was acknowledged. Both are spread evenly over the
//! recording, so that whatever time there is covers all of it.

use super::contents::Contents;
use super::{Options, Shard};
use crate::session::{CrashImage, Ground, Session};
use crate::states::choose::{at_risk, choose};
use crate::states::history::{Epoch, Epochs};
use crate::states::names;
use crate::states::state::{Fate, State};
use seekless_crash::contract::AtRisk;
use seekless_crash::needs;
use std::collections::VecDeque;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// Passes over the recording in which a kind of states is tried: each takes every fourth boundary.
const PASSES: u64 = 4;
/// The passes in an order in which the first few are spread evenly.
const SPREAD: [u64; PASSES as usize] = [0, 2, 1, 3];
const ALL_RANKS: RangeInclusive<u8> = 0..=4;

/// A state to be tried.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) epoch: Arc<Epoch>,
    pub(super) state: State,
    pub(super) image: CrashImage,
    /// Hash of its content.
    pub(super) contents: u128,
}

/// How early a state is worth trying: 0 is first. One write that is kept counts as one, with
/// whatever it needs, and one that is lost with all that needs it.
fn rank(state: &State, writes: &[AtRisk]) -> u8 {
    let count = |fate: &Fate| state.fates.iter().filter(|one| *one == fate).count();
    let (all, kept, lost) = (state.fates.len(), count(&Fate::Kept), count(&Fate::Lost));
    let of_its_own = needs::of_its_own(writes, &state.fates);
    match all - kept - lost {
        0 if kept == all || lost == all => 0,
        0 if of_its_own.0 == 1 || of_its_own.1 == 1 => 1,
        1 if kept == all - 1 || lost == all - 1 => 2,
        0 => 3,
        _ => 4,
    }
}

/// Which states one pass over the recording takes.
#[derive(Clone, Debug)]
struct Pass {
    ranks: RangeInclusive<u8>,
    /// Only boundaries that owe something new, or only the others.
    owing: Option<bool>,
    /// Every so many boundaries of these.
    every: u64,
    from: u64,
}

fn passes(is_budgeted: bool) -> VecDeque<Pass> {
    if !is_budgeted {
        return [Pass { ranks: ALL_RANKS, owing: None, every: 1, from: 0 }].into();
    }
    let spread = |rank, owing| {
        SPREAD.map(|from| Pass { ranks: rank..=rank, owing: Some(owing), every: PASSES, from })
    };
    let of_rank = |rank| [spread(rank, true), spread(rank, false)].into_iter().flatten();
    ALL_RANKS.flat_map(of_rank).collect()
}

/// Hands out states.
pub(super) struct Walk<'s> {
    session: &'s Session,
    options: &'s Options,
    passes: VecDeque<Pass>,
    pass: Pass,
    epochs: Epochs<'s>,
    /// Boundaries seen in this pass that are of its kind.
    seen: u64,
    epoch: Arc<Epoch>,
    ground: Ground<'s>,
    contents: Contents,
    queue: VecDeque<State>,
}

/// How many states there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Space {
    /// Flush boundaries.
    pub(super) boundaries: u64,
    /// States at all of them that are chosen.
    pub(super) states: u64,
    /// Those of the shard.
    pub(super) share: u64,
}

impl Space {
    /// Counts what walks hand out, of all shards and of this one.
    pub(super) fn of(session: &Session, options: &Options) -> Space {
        let mut space = Space::default();
        for epoch in session.history().epochs().filter(|epoch| is_tried(epoch, options)) {
            space.boundaries += 1;
            let chosen = choose(session.history(), &epoch, &options.bounds);
            space.states += chosen.len() as u64;
            let is_mine = |state: &&State| options.shard.has(session, &epoch, state);
            space.share += chosen.iter().filter(is_mine).count() as u64;
        }
        space
    }
}

/// What a cut before the beginning could leave is none of the sweep's business. The state right at
/// the beginning is probed.
fn is_tried(epoch: &Epoch, options: &Options) -> bool {
    epoch.cut > options.begin
}

impl<'s> Walk<'s> {
    pub(super) fn new(session: &'s Session, options: &'s Options) -> Walk<'s> {
        let mut passes = passes(options.budget.is_some());
        let pass = passes.pop_front().expect("there is at least one pass");
        let epoch = Epoch {
            index: 0,
            cut: 0,
            settled: Vec::new(),
            unsettled: Vec::new(),
            flushes: 0,
            durable: 0,
            acked: 0,
        };
        Walk {
            session,
            options,
            passes,
            pass,
            epochs: session.history().epochs(),
            seen: 0,
            epoch: Arc::new(epoch),
            ground: session.ground(),
            contents: Contents::default(),
            queue: VecDeque::new(),
        }
    }

    /// The next state of this shard.
    ///
    /// # Errors
    /// What the base or the recording reports.
    pub(super) fn next(&mut self) -> io::Result<Option<Candidate>> {
        loop {
            while let Some(state) = self.queue.pop_front() {
                let epoch = Arc::clone(&self.epoch);
                if !self.options.shard.has(self.session, &epoch, &state) {
                    continue;
                }
                let image = self.ground.state(self.session, &epoch, &state);
                let of = (&*epoch, &state);
                let contents = self.contents.of_state(self.session, &self.ground, of, &image)?;
                return Ok(Some(Candidate { epoch, state, image, contents }));
            }
            if !self.next_epoch()? && !self.next_pass() {
                return Ok(None);
            }
        }
    }

    /// Goes on to the next boundary of this pass; false behind the last one.
    fn next_epoch(&mut self) -> io::Result<bool> {
        let Some(epoch) = self.epochs.next() else { return Ok(false) };
        self.ground.settle(self.session, &epoch);
        self.contents.settle(self.session, &self.ground, &epoch)?;
        let owes = epoch.acked > self.epoch.acked;
        let is_of_pass = self.pass.owing.is_none_or(|wanted| wanted == owes);
        if is_tried(&epoch, self.options) && is_of_pass {
            if self.seen % self.pass.every == self.pass.from {
                let chosen = choose(self.session.history(), &epoch, &self.options.bounds);
                let ranks = &self.pass.ranks;
                self.queue = match *ranks == ALL_RANKS {
                    true => chosen.into(),
                    false => {
                        let writes =
                            at_risk(self.session.history(), &epoch, self.options.bounds.sector);
                        let is_of_rank = |state: &State| ranks.contains(&rank(state, &writes));
                        chosen.into_iter().filter(is_of_rank).collect()
                    }
                };
            }
            self.seen += 1;
        }
        self.epoch = Arc::new(epoch);
        Ok(true)
    }

    fn next_pass(&mut self) -> bool {
        let Some(pass) = self.passes.pop_front() else { return false };
        let passes = std::mem::take(&mut self.passes);
        *self = Walk { passes, pass, ..Walk::new(self.session, self.options) };
        true
    }
}

impl Shard {
    /// Shards share states by a hash of their names, so that each has some of every boundary.
    fn has(self, session: &Session, epoch: &Epoch, state: &State) -> bool {
        let Shard { index, count } = self;
        if count == 1 {
            return true;
        }
        let name = names::short(&state.name(session.history(), epoch));
        XxHash3_64::oneshot(name.as_bytes()) % u64::from(count) == u64::from(index - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_counts_as_one_with_what_it_needs() {
        let write =
            |needs: &[usize]| AtRisk { needs: needs.to_vec(), ..AtRisk::of_blocks(0, 0, None, 1) };
        // 1 needs 0, 2 needs 1; 3 needs nothing, and 4 needs 3.
        let chained = [write(&[]), write(&[0]), write(&[1]), write(&[]), write(&[3])];
        let free = [write(&[]), write(&[]), write(&[]), write(&[]), write(&[])];
        let rank = |kept: [u8; 5], writes: &[AtRisk]| {
            let fate = |kept: u8| if kept == 1 { Fate::Kept } else { Fate::Lost };
            rank(&State { cut: 0, fates: kept.map(fate).to_vec() }, writes)
        };
        assert_eq!(rank([1, 1, 1, 0, 0], &chained), 1, "2 is kept with what it needs");
        assert_eq!(rank([1, 1, 1, 0, 0], &free), 3, "three are kept");
        assert_eq!(rank([0, 0, 0, 1, 1], &chained), 1, "0 is lost with what needs it");
        assert_eq!(rank([1, 0, 0, 1, 0], &chained), 3, "two are kept, two are lost");
        for writes in [&chained, &free] {
            assert_eq!([rank([1; 5], writes), rank([0; 5], writes)], [0, 0]);
            assert_eq!(rank([1, 1, 1, 1, 0], writes), 1);
        }
    }
}
