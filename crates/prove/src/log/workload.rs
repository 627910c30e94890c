//! Workloads: what a client of a log does in a case.

use super::request::LogRequest as R;
use crate::script::{Fault, Operation};
use seekless_engine::rng::Rng;

/// What a kind of client does.
#[derive(Debug)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// Longest record, in bytes.
    pub most: u64,
    /// One request in so many is a sync.
    sync: u64,
    /// One in so many trims; 0: none does.
    trim: u64,
    /// One in so many ends the epoch.
    end: u64,
    /// One in so many breaks something; 0: none does.
    fault: u64,
    steps: u64,
}

const USUAL: Profile =
    Profile { name: "small records", most: 300, sync: 4, trim: 30, end: 25, fault: 0, steps: 60 };

/// All kinds.
pub const PROFILES: [Profile; 10] = [
    USUAL,
    Profile { name: "a sync for each record", sync: 2, ..USUAL },
    Profile { name: "many records for each sync", most: 1500, sync: 15, end: 40, ..USUAL },
    Profile { name: "no sync", most: 2500, sync: 1000, trim: 0, end: 30, ..USUAL },
    Profile { name: "long records", most: 30_000, sync: 5, trim: 6, end: 20, ..USUAL },
    Profile { name: "records without bytes", most: 1, sync: 6, ..USUAL },
    Profile { name: "many epochs", most: 3000, sync: 6, trim: 20, end: 5, ..USUAL },
    Profile { name: "a full log", most: 9000, sync: 8, trim: 14, end: 40, steps: 90, ..USUAL },
    Profile { name: "many trims", most: 5000, sync: 4, trim: 4, end: 30, ..USUAL },
    Profile { name: "errors", most: 2000, sync: 5, trim: 10, end: 12, fault: 12, ..USUAL },
];

/// A length: mostly short, now and then as long as it can be.
fn length(most: u64, rng: &mut Rng) -> u32 {
    let most = if rng.chance(0.2) { most } else { most.div_ceil(4) };
    rng.below(most + 1) as u32
}

fn one_in(number: u64, rng: &mut Rng) -> bool {
    number > 0 && rng.below(number) == 0
}

fn fault(rng: &mut Rng) -> Fault {
    match rng.below(4) {
        0 => Fault::Write(rng.below(6)),
        1 => Fault::BadPlace(rng.below(6)),
        2 => Fault::Full(rng.below(12)),
        _ => Fault::Flush(rng.below(4)),
    }
}

/// The script of a case.
pub fn script(profile: &Profile, rng: &mut Rng) -> Vec<Operation<R>> {
    let mut script = Vec::new();
    for _ in 0..profile.steps {
        script.push(if one_in(profile.end, rng) {
            Operation::End(rng.chance(0.3))
        } else if one_in(profile.fault, rng) {
            Operation::Break(fault(rng))
        } else if one_in(profile.trim, rng) {
            Operation::Request(R::Trim([100, 50, 90, 30][rng.below(4) as usize]))
        } else if one_in(profile.sync, rng) {
            Operation::Request(R::Sync)
        } else if rng.below(12) == 0 {
            Operation::Request(R::Read(rng.below(100) as u8))
        } else {
            Operation::Request(R::Append(length(profile.most, rng)))
        });
        if script.last() == Some(&Operation::End(false)) && profile.fault > 0 {
            script.push(Operation::Heal);
        }
    }
    script.push(Operation::Pass(u32::MAX));
    script
}
