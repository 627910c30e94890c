//! Kinds of workload, and the runs they run in. The number of a case chooses the kind; what the
//! kind leaves open is drawn, so that no two runs are alike (Groce et al., "Swarm testing",
//! ISSTA 2012: leaving features out finds more than mixing them all).

use super::operation::{Content, Fault, Operation, Place};
use super::subject::Subject;
use seekless_engine::rng::Rng;

/// How large the devices are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Hardly larger than what a layout needs.
    Tiny,
    /// Most blocks are written more than once.
    Small,
    /// Room for old versions to lie around.
    Middle,
    /// Room for more than one map block of the virtual log.
    Large,
}

/// What is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    None,
    Writes,
    Flushes,
    Full,
    Reads,
    Rot,
}

/// How a client behaves, and in which run.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// Devices lose completed writes; drawn if not given.
    pub volatile: Option<bool>,
    /// Devices have heads; drawn if not given.
    pub headed: Option<bool>,
    /// Their flushes take long.
    pub slow_flushes: bool,
    /// How large they are.
    pub size: Size,
    /// Weights of the operations.
    writes: u64,
    reads: u64,
    trims: u64,
    flushes: u64,
    /// Transactions of several requests.
    groups: u64,
    /// Shares of writes, in percent.
    fua: u64,
    zeros: u64,
    copies: u64,
    /// Share of requests of one block, in percent, and most blocks of the others.
    single: u64,
    most: u64,
    /// Blocks that most requests go to, and how many do, in percent.
    hot: u64,
    hot_share: u64,
    /// Share of requests that go on where the one before ended, in percent.
    sequential: u64,
    /// Requests that are sent together, at most.
    burst: u64,
    /// Bursts after which all answers are waited for, in percent; after others some are.
    patience: u64,
    /// Bursts after which the volume is left alone, in percent.
    rests: u64,
    /// Device events of background work in such a pause, at most.
    rest: u64,
    epochs: u64,
    bursts: u64,
    /// Lives that end in order, in percent.
    orderly: u64,
    /// The volume is written full first.
    fill: bool,
    trouble: Trouble,
}

const MIXED: Profile = Profile {
    name: "mixed",
    volatile: None,
    headed: None,
    slow_flushes: false,
    size: Size::Small,
    writes: 8,
    reads: 2,
    trims: 1,
    flushes: 1,
    groups: 0,
    fua: 12,
    zeros: 4,
    copies: 4,
    single: 50,
    most: 12,
    hot: 24,
    hot_share: 70,
    sequential: 0,
    burst: 4,
    patience: 17,
    rests: 12,
    rest: 60,
    epochs: 3,
    bursts: 26,
    orderly: 50,
    fill: false,
    trouble: Trouble::None,
};

/// Lives that are short, since each ends with an error, and many.
const BROKEN: Profile =
    Profile { volatile: Some(true), epochs: 8, bursts: 9, single: 80, reads: 1, ..MIXED };

/// Much is written while a flush is under way, and there is hardly any room.
const SLOW: Profile = Profile {
    size: Size::Large,
    volatile: Some(true),
    slow_flushes: true,
    fill: true,
    epochs: 1,
    burst: 12,
    flushes: 2,
    fua: 4,
    reads: 0,
    patience: 5,
    ..MIXED
};

/// All kinds; a case has the one at its number, round and round: the rarest events come first.
const KINDS: [Profile; 33] = [
    MIXED,
    Profile { name: "failing writes", trouble: Trouble::Writes, ..BROKEN },
    Profile {
        name: "failing flushes, forced writes",
        trouble: Trouble::Flushes,
        fua: 80,
        burst: 6,
        ..BROKEN
    },
    Profile { name: "failing flushes", trouble: Trouble::Flushes, flushes: 3, ..BROKEN },
    Profile {
        name: "two slices",
        size: Size::Large,
        hot_share: 0,
        bursts: 14,
        flushes: 3,
        ..MIXED
    },
    Profile {
        name: "compaction",
        headed: Some(true),
        rests: 60,
        rest: 120,
        single: 90,
        hot_share: 0,
        bursts: 20,
        size: Size::Middle,
        ..MIXED
    },
    Profile { name: "unreadable blocks", trouble: Trouble::Reads, reads: 6, ..MIXED },
    Profile { name: "no room", trouble: Trouble::Full, ..BROKEN },
    Profile { name: "one block at a time", single: 100, burst: 1, patience: 100, ..MIXED },
    Profile { name: "one hot block", hot: 1, hot_share: 90, single: 95, ..MIXED },
    Profile { name: "hot set", hot: 8, hot_share: 95, single: 70, ..MIXED },
    Profile { name: "uniform", hot_share: 0, single: 80, ..MIXED },
    Profile { name: "sequential", sequential: 90, most: 8, single: 20, ..MIXED },
    Profile { name: "large requests", single: 10, most: 64, burst: 2, bursts: 20, ..MIXED },
    Profile { name: "deep queue", burst: 16, patience: 5, bursts: 10, single: 80, ..MIXED },
    Profile { name: "overlapping", hot: 6, hot_share: 100, single: 0, most: 6, burst: 6, ..MIXED },
    Profile { name: "flush after each", writes: 4, flushes: 4, burst: 2, reads: 1, ..MIXED },
    Profile { name: "forced writes", fua: 100, flushes: 0, burst: 3, ..MIXED },
    Profile { name: "no flush", flushes: 0, fua: 0, bursts: 20, ..MIXED },
    Profile { name: "trims", trims: 8, hot: 16, ..MIXED },
    Profile { name: "large trims", trims: 3, single: 5, most: 200, burst: 2, ..MIXED },
    Profile { name: "zeros", zeros: 60, ..MIXED },
    Profile { name: "copies of the device", copies: 50, flushes: 2, ..MIXED },
    Profile { name: "full volume", fill: true, epochs: 2, size: Size::Tiny, trims: 0, ..MIXED },
    Profile { name: "filled and trimmed", fill: true, epochs: 2, trims: 5, most: 40, ..MIXED },
    Profile {
        name: "long rests",
        headed: Some(true),
        volatile: Some(false),
        rests: 30,
        rest: 600,
        single: 90,
        bursts: 20,
        size: Size::Middle,
        ..MIXED
    },
    Profile { name: "reads", reads: 12, copies: 0, ..MIXED },
    Profile { name: "many short epochs", epochs: 10, bursts: 5, ..MIXED },
    Profile { name: "rotting blocks", trouble: Trouble::Rot, reads: 6, ..MIXED },
    Profile { name: "transactions", groups: 12, writes: 4, most: 9, burst: 3, ..MIXED },
    Profile { name: "small transactions", groups: 20, most: 3, single: 0, hot: 8, ..MIXED },
    Profile { name: "full volume, slow flushes", trims: 0, hot_share: 0, bursts: 40, ..SLOW },
    Profile { name: "overwritten while flushes last", most: 64, single: 0, burst: 2, ..SLOW },
];

/// Number of kinds of workload.
pub const WORKLOADS: u64 = KINDS.len() as u64;

impl Profile {
    /// The profile of a case. Now and then a feature is left out altogether or a kind meets the
    /// faults of another.
    pub fn draw(case: u64, rng: &mut Rng) -> Profile {
        let mut profile = KINDS[(case % WORKLOADS) as usize].clone();
        for weight in
            [&mut profile.reads, &mut profile.trims, &mut profile.zeros, &mut profile.copies]
        {
            if rng.chance(0.2) && *weight < 5 {
                *weight = 0;
            }
        }
        if profile.trouble == Trouble::None && rng.chance(0.15) {
            let kinds =
                [Trouble::Writes, Trouble::Flushes, Trouble::Full, Trouble::Reads, Trouble::Rot];
            profile.trouble = kinds[rng.below(kinds.len() as u64) as usize];
        }
        if rng.chance(0.3) {
            profile.burst = 1 + rng.below(8);
        }
        if rng.chance(0.3) {
            profile.orderly = [0, 100][rng.below(2) as usize];
        }
        if rng.chance(0.15) {
            profile.size = [Size::Tiny, Size::Small, Size::Middle][rng.below(3) as usize];
        }
        profile
    }

    /// The same for arrays. Their every request is many device events, so epochs are shorter: more
    /// runs find more than longer ones. And members that fail are what arrays are for.
    pub fn of_arrays(self, rng: &mut Rng) -> Profile {
        let fails =
            [Trouble::Writes, Trouble::Flushes, Trouble::Flushes, Trouble::Full, Trouble::Reads];
        let trouble = match self.trouble {
            Trouble::None if rng.chance(0.5) => fails[rng.below(fails.len() as u64) as usize],
            trouble => trouble,
        };
        Profile { bursts: self.bursts.div_ceil(3), epochs: self.epochs.min(4), trouble, ..self }
    }

    /// Everything that happens in a run with a volume of `blocks` blocks.
    pub fn script(&self, subject: Subject, blocks: u64, rng: &mut Rng) -> Vec<Operation> {
        let mut operations = Vec::new();
        let mut next = 0;
        if self.fill {
            fill(blocks, &mut operations);
        }
        for epoch in 0..self.epochs {
            let damage = matches!(self.trouble, Trouble::Reads | Trouble::Rot);
            // What is damaged stays so: that is for the last epoch, unless others make up for it.
            let covered = self.trouble == Trouble::Reads && subject.spare() > 0;
            let last = damage && !covered;
            let struck = if last { epoch + 1 == self.epochs } else { rng.chance(0.8) };
            let breaks = rng.below(self.bursts);
            let heals = breaks + 1 + rng.below(self.bursts);
            for burst in 0..self.bursts {
                if struck && burst == breaks {
                    self.go_wrong(subject, rng, &mut operations);
                }
                if struck && burst == heals {
                    operations.push(Operation::Heal);
                }
                for _ in 0..=rng.below(self.burst) {
                    let operation = self.request(blocks, &mut next, rng);
                    operations.push(operation);
                }
                operations.push(Operation::Pass(self.pause(rng)));
                if rng.below(100) < self.rests {
                    operations.push(Operation::Rest(rng.below(self.rest) as u32));
                }
            }
            operations.push(Operation::End(rng.below(100) < self.orderly));
        }
        // Drawn apart: what follows in the run does not depend on whether there is one.
        let mut rng = rng.clone();
        if rng.chance(0.5) {
            coda(blocks, &mut rng, &mut operations);
        }
        operations
    }

    fn pause(&self, rng: &mut Rng) -> u32 {
        if rng.below(100) < self.patience { u32::MAX } else { rng.below(6) as u32 }
    }

    fn go_wrong(&self, subject: Subject, rng: &mut Rng, operations: &mut Vec<Operation>) {
        let after = rng.below(8);
        let times = 1 + rng.below(3);
        match self.trouble {
            Trouble::None => {}
            Trouble::Writes => operations.push(Operation::Break(Fault::Write(after))),
            Trouble::Flushes => operations.push(Operation::Break(Fault::Flush(after / 4))),
            Trouble::Full => operations.push(Operation::Break(Fault::Full(after))),
            Trouble::Rot if subject.checks() => {
                for _ in 0..times {
                    operations.push(Operation::Break(Fault::Rot(place(rng), rng.next())));
                }
            }
            // Whoever keeps no checksums promises nothing about rot.
            Trouble::Reads | Trouble::Rot => {
                for _ in 0..times {
                    operations.push(Operation::Break(Fault::Unreadable(place(rng))));
                }
            }
        }
    }

    fn request(&self, blocks: u64, next: &mut u64, rng: &mut Rng) -> Operation {
        let count =
            if rng.below(100) < self.single { 1 } else { 1 + rng.below(self.most.min(blocks)) };
        let range = if rng.below(100) < self.hot_share { self.hot.min(blocks) } else { blocks };
        let at = if rng.below(100) < self.sequential { *next % blocks } else { rng.below(range) };
        let count = count.min(blocks - at) as u32;
        *next = at + u64::from(count);
        let kinds = [self.writes, self.reads, self.trims, self.flushes, self.groups];
        let mut choice = rng.below(kinds.iter().sum());
        let kind = kinds.iter().position(|&weight| {
            let here = choice < weight;
            choice = choice.wrapping_sub(weight);
            here
        });
        match kind {
            Some(1) => Operation::Read { at, count },
            Some(2) => Operation::Trim { at, count },
            Some(3) => Operation::Flush,
            Some(4) => {
                let count = 2 + rng.below(self.most) as u32;
                let step = 1 + rng.below(7.min(blocks));
                let (trims, fua) = (rng.chance(0.3), rng.below(100) < self.fua);
                Operation::Group { at, count, step, trims, fua }
            }
            _ => {
                let share = rng.below(100);
                let content = match share {
                    _ if share < self.zeros => Content::Zeros,
                    _ if share < self.zeros + self.copies => Content::Copies(rng.next()),
                    _ => Content::Fresh,
                };
                Operation::Write { at, count, content, fua: rng.below(100) < self.fua }
            }
        }
    }
}

/// A short epoch: mounted in order, cut off in the middle of a large write. What the next mount
/// drops is all that lies beside what was there, when the volume is then stopped and damaged.
fn coda(blocks: u64, rng: &mut Rng, operations: &mut Vec<Operation>) {
    let count = (2 + rng.below(5)).min(blocks);
    let at = rng.below(blocks - count + 1);
    operations.push(Operation::End(true));
    operations.push(Operation::Write {
        at,
        count: count as u32,
        content: Content::Fresh,
        fua: true,
    });
    operations.push(Operation::Pass(rng.below(5) as u32));
    operations.push(Operation::End(false));
}

/// Writes the whole volume, a good part of it in each request.
fn fill(blocks: u64, operations: &mut Vec<Operation>) {
    let each = blocks.div_ceil(6).max(16);
    let mut at = 0;
    while at < blocks {
        let count = each.min(blocks - at) as u32;
        operations.push(Operation::Write { at, count, content: Content::Fresh, fua: false });
        operations.push(Operation::Pass(u32::MAX));
        at += u64::from(count);
    }
    operations.push(Operation::Flush);
    operations.push(Operation::Pass(u32::MAX));
}

fn place(rng: &mut Rng) -> Place {
    match rng.below(8) {
        0..3 => Place::Anywhere(rng.next()),
        3..5 => Place::Metadata(rng.next()),
        5 => Place::First,
        6 => Place::Last,
        _ => Place::Tail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_layouts::Kind;

    #[test]
    fn there_are_twenty_kinds_and_more_each_with_a_name() {
        let names: std::collections::BTreeSet<&str> = KINDS.iter().map(|one| one.name).collect();
        assert_eq!(names.len() as u64, WORKLOADS);
        const { assert!(WORKLOADS >= 20) };
    }

    #[test]
    fn scripts_stay_within_the_volume() {
        let subject = Subject::Layout(Kind::VLOG);
        for case in 0..4 * WORKLOADS {
            let mut rng = Rng::stream(case, "script");
            let blocks = 1 + rng.below(200);
            let profile = Profile::draw(case, &mut rng);
            let script = profile.script(subject, blocks, &mut rng);
            assert!(script.iter().any(|operation| matches!(operation, Operation::End(_))));
            for operation in script {
                if let Operation::Write { at, count, .. }
                | Operation::Trim { at, count }
                | Operation::Read { at, count } = operation
                {
                    assert!(count > 0 && at + u64::from(count) <= blocks, "{operation}");
                }
            }
        }
    }
}
