//! `large`: one file of 10 MB in units of 4 KB: written, read, written at random, read, and read at
//! random; then random writes that are durable one by one (paper 000, section 5.2).

use super::{Amount, Phase, steps};
use crate::files::steps::{Step, read_all, write_all};
use seekless_engine::rng::Rng;

const BYTES: u64 = 10_000_000 / UNIT as u64 * UNIT as u64;
const UNIT: u32 = 4096;

/// The phases.
pub fn phases(amount: &Amount) -> Vec<Phase> {
    let (users, seed) = (amount.users, amount.seed);
    let open = || [Step::Open { file: 1 }].into_iter();
    let close = || [Step::Close { file: 1 }].into_iter();
    let random = move |user: usize, name: &'static str| {
        let mut rng = Rng::stream(seed.wrapping_add(user as u64), name);
        let units = BYTES / u64::from(UNIT);
        (0..units).map(move |_| rng.below(units) * u64::from(UNIT))
    };
    let write = |at| Step::Write { file: 1, at, length: UNIT };
    vec![
        Phase::cold("sequential write", users, |_| {
            let make = [Step::Create { file: 1, dir: 0 }].into_iter();
            steps(make.chain(write_all(1, BYTES, UNIT)).chain(close()))
        }),
        Phase::cold("sequential read", users, |_| {
            steps(open().chain(read_all(1, BYTES, UNIT)).chain(close()))
        }),
        Phase::cold("random write", users, |user| {
            steps(open().chain(random(user, "large: writes").map(write)).chain(close()))
        }),
        Phase::cold("sequential read again", users, |_| {
            steps(open().chain(read_all(1, BYTES, UNIT)).chain(close()))
        }),
        Phase::cold("random read", users, |user| {
            let read = |at| Step::Read { file: 1, at, length: UNIT };
            steps(open().chain(random(user, "large: reads").map(read)).chain(close()))
        }),
        Phase::cold("random write, synced", users, |user| {
            let synced = move |at| [write(at), Step::Fsync { file: 1, data_only: false }];
            steps(open().chain(random(user, "large: synced").flat_map(synced)).chain(close()))
        }),
    ]
}
