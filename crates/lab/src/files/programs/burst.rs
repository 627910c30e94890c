//! `burst`: bursts of durable updates of random blocks of one file, with pauses between them
//! (paper 000, section 5.5; claims V45 and V47 to V49). Bursts before the measured ones bring the
//! volume to its steady state.

use super::update::{BYTES, UNIT, fill};
use super::{Amount, Phase, steps};
use crate::files::steps::Step;
use seekless_engine::rng::Rng;
use seekless_engine::units::MILLIS;

const BURST_BYTES: u64 = 512 << 10;
const UPDATES: u32 = 4000;
/// The name of the measured phase.
pub const NAME: &str = "burst";

/// The phases.
pub fn phases(amount: &Amount) -> Vec<Phase> {
    let units = amount.file_bytes.unwrap_or(BYTES).max(UNIT.into()) / u64::from(UNIT);
    let burst = amount.burst_bytes.unwrap_or(BURST_BYTES).max(UNIT.into()) / u64::from(UNIT);
    let measured = u64::from(amount.updates.unwrap_or(UPDATES));
    let warm_up = amount.warm_up.map_or(units * 2, u64::from);
    let idle = u64::from(amount.idle_ms.unwrap_or(0)) * MILLIS;
    let (users, seed) = (amount.users, amount.seed);
    let bursts = move |user: usize, name: &'static str, updates: u64| {
        let mut rng = Rng::stream(seed.wrapping_add(user as u64), name);
        (0..updates.div_ceil(burst)).flat_map(move |number| {
            let count = burst.min(updates - number * burst);
            let places: Vec<u64> = (0..count).map(|_| rng.below(units) * u64::from(UNIT)).collect();
            let update = |at| {
                let write = Step::Write { file: 1, at, length: UNIT };
                [write, Step::Fsync { file: 1, data_only: true }]
            };
            places.into_iter().flat_map(update).chain((idle > 0).then_some(Step::Pause(idle)))
        })
    };
    vec![
        Phase::prepares(users, |user| {
            steps(fill(units).chain(bursts(user, "burst: before", warm_up)))
        }),
        Phase::warm(NAME, users, |user| steps(bursts(user, NAME, measured))),
    ]
}
