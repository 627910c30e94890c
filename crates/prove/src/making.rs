//! Volumes whose making is cut off: `create`, `mkfs`, and the assembly of an array.
//!
//! In each state there is no volume, or the new one, whole and empty. Where a volume was there
//! before, it may still be there as a whole; no part of it may show in the new one.

use crate::recovery_cuts::{Cut, Leaving, cut_work};
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::Disk;
use seekless_engine::rng::Rng;
use std::fmt::Debug;

/// States drawn at each write in which some of the pending writes are lost or torn.
const SAMPLES: u32 = 3;
/// The same of a task, which has fewer writes.
const TASK_SAMPLES: u32 = 16;

/// What is found on media.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look<C> {
    /// An error says that there is no volume, or no superblock.
    NoVolume,
    /// A volume, and what it holds.
    Volume(C),
    /// Anything else.
    Broken(String),
}

/// What a test of a making came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// States looked at.
    pub states: u64,
    /// Those in which there was no volume.
    pub none: u64,
    /// Those in which the volume from before was whole.
    pub old: u64,
    /// Those in which the new volume was whole.
    pub new: u64,
}

/// Cuts the making of a volume on media at each write, and looks at what is left.
///
/// # Errors
/// The first state that holds something else than no volume, the old one or the new one.
pub fn cut_making<C: Clone + PartialEq + Debug>(
    media: &[Cells],
    volatile: bool,
    rng: &mut Rng,
    make: impl FnOnce(&mut [&mut dyn Disk]),
    look: impl Fn(Vec<Cells>) -> Look<C>,
) -> Result<Made, String> {
    let before = look(media.to_vec());
    let (cuts, end) = cut_work(media.to_vec(), volatile, make);
    let after = look(end.leave(Leaving::Everything, rng));
    if !matches!(after, Look::Volume(_)) {
        return Err(format!("what was made is no volume: {after:?}"));
    }
    let mut made = Made::default();
    judge_cuts((&cuts, &end), &leavings(Leaving::Something, SAMPLES), rng, |left, ended, what| {
        let found = look(left);
        made.states += 1;
        match &found {
            // What is acknowledged is durable.
            found if *found == after => made.new += 1,
            Look::NoVolume if !ended => made.none += 1,
            found if *found == before && !ended => made.old += 1,
            found => return Err(format!("{what} leaves {found:?}")),
        }
        Ok(())
    })?;
    Ok(made)
}

/// Cuts work on media at each of its writes, and after its end, and judges what is left: media,
/// whether the work has ended, and where the cut was. Writes are torn only if the task `tears`.
/// Returns the number of states.
///
/// # Errors
/// The first one of the judge.
pub fn cut_task(
    media: &[Cells],
    tears: bool,
    rng: &mut Rng,
    task: impl FnOnce(&mut [&mut dyn Disk]),
    judge: impl FnMut(Vec<Cells>, bool, &str) -> Result<(), String>,
) -> Result<u64, String> {
    let (cuts, end) = cut_work(media.to_vec(), true, task);
    let some = if tears { Leaving::Something } else { Leaving::Whole };
    judge_cuts((&cuts, &end), &leavings(some, TASK_SAMPLES), rng, judge)
}

fn judge_cuts(
    (cuts, end): (&[Cut], &Cut),
    leavings: &[Leaving],
    rng: &mut Rng,
    mut judge: impl FnMut(Vec<Cells>, bool, &str) -> Result<(), String>,
) -> Result<u64, String> {
    let mut states = 0;
    for (number, cut) in (1..).zip(cuts) {
        for &leaving in leavings {
            let what = format!("a power cut at write {number} of {}", cuts.len());
            judge(cut.leave(leaving, rng), false, &what)?;
            states += 1;
        }
    }
    for &leaving in leavings {
        judge(end.leave(leaving, rng), true, "a power cut after the end")?;
        states += 1;
    }
    Ok(states)
}

/// Nothing, everything, and so many times some of it.
fn leavings(some: Leaving, samples: u32) -> Vec<Leaving> {
    let some = (0..samples).map(|_| some);
    [Leaving::Nothing, Leaving::Everything].into_iter().chain(some).collect()
}
