//! `update`: blocks of one file are overwritten at random, each durable before the next (paper 000,
//! section 5.3). Once with the inode, whose time changes, and once without: the paper does not say
//! which. Updates before the measured ones bring the volume to its steady state.

use super::{Amount, Phase, steps};
use crate::files::steps::{Step, write_all};
use seekless_engine::rng::Rng;

pub(super) const BYTES: u64 = 8 << 20;
const UPDATES: u32 = 1000;
/// Bytes of an update, and of a write that fills the file.
pub(super) const UNIT: u32 = 4096;
const FILL_UNIT: u32 = 64 << 10;

/// Makes the file durably.
pub(super) fn fill(units: u64) -> impl Iterator<Item = Step> {
    let make = [Step::Create { file: 1, dir: 0 }].into_iter();
    make.chain(write_all(1, units * u64::from(UNIT), FILL_UNIT)).chain([Step::Sync])
}

/// The phases.
pub fn phases(amount: &Amount) -> Vec<Phase> {
    let bytes = amount.file_bytes.unwrap_or(BYTES).max(u64::from(UNIT));
    let units = bytes / u64::from(UNIT);
    let twice = u32::try_from(units * 2).unwrap_or(u32::MAX);
    let warm_up = amount.warm_up.unwrap_or(twice);
    let measured = amount.updates.unwrap_or(UPDATES);
    let (users, seed) = (amount.users, amount.seed);
    let updates = move |user: usize, name: &'static str, count: u32, data_only: bool| {
        let mut rng = Rng::stream(seed.wrapping_add(user as u64), name);
        (0..count).flat_map(move |_| {
            let at = rng.below(units) * u64::from(UNIT);
            let write = Step::Write { file: 1, at, length: UNIT };
            [write, Step::Fsync { file: 1, data_only }]
        })
    };
    let mut phases = vec![Phase::prepares(users, |user| {
        steps(fill(units).chain(updates(user, "update: before", warm_up, true)))
    })];
    for (name, data_only) in [("update", false), ("update, data only", true)] {
        let rest = amount.rest();
        phases.extend(rest.map(|pause| Phase {
            measured: false,
            ..Phase::rests(format!("rest before {name}"), users, pause)
        }));
        phases
            .push(Phase::warm(name, users, |user| steps(updates(user, name, measured, data_only))));
    }
    phases
}
