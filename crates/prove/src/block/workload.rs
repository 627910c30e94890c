//! Kinds of workload, and the runs they run in. The number of a case chooses the kind; what the
//! kind leaves open is drawn, so that no two runs are alike (Groce et al., "Swarm testing",
//! ISSTA 2012: leaving features out finds more than mixing them all).

use super::request::{BlockRequest, Content};
use super::stack::BlockSubject;
use crate::script::{Fault, Operation, Place};
use crate::subject::Subject as _;
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
    Places,
}

/// How a client behaves, and on which devices.
#[derive(Clone, Debug)]
pub struct Workload {
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
    /// Epochs that end in a clean shutdown, in percent.
    clean_ends: u64,
    /// The volume is written full first.
    fill: bool,
    trouble: Trouble,
}

const MIXED: Workload = Workload {
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
    clean_ends: 50,
    fill: false,
    trouble: Trouble::None,
};

/// Epochs that are short, since each ends with an error, and many.
const BROKEN: Workload =
    Workload { volatile: Some(true), epochs: 8, bursts: 9, single: 80, reads: 1, ..MIXED };

/// Much is written while a flush is under way, and there is hardly any room.
const SLOW: Workload = Workload {
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

/// All kinds; [`crate::kinds`] says which one a case has.
const KINDS: [Workload; 34] = [
    MIXED,
    Workload { name: "failing writes", trouble: Trouble::Writes, ..BROKEN },
    Workload {
        name: "failing flushes, forced writes",
        trouble: Trouble::Flushes,
        fua: 80,
        burst: 6,
        ..BROKEN
    },
    Workload { name: "failing flushes", trouble: Trouble::Flushes, flushes: 3, ..BROKEN },
    Workload {
        name: "two slices",
        size: Size::Large,
        hot_share: 0,
        bursts: 14,
        flushes: 3,
        ..MIXED
    },
    Workload {
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
    Workload { name: "unreadable blocks", trouble: Trouble::Reads, reads: 6, ..MIXED },
    Workload { name: "no room", trouble: Trouble::Full, ..BROKEN },
    Workload { name: "one block at a time", single: 100, burst: 1, patience: 100, ..MIXED },
    Workload { name: "one hot block", hot: 1, hot_share: 90, single: 95, ..MIXED },
    Workload { name: "hot set", hot: 8, hot_share: 95, single: 70, ..MIXED },
    Workload { name: "uniform", hot_share: 0, single: 80, ..MIXED },
    Workload { name: "sequential", sequential: 90, most: 8, single: 20, ..MIXED },
    Workload { name: "large requests", single: 10, most: 64, burst: 2, bursts: 20, ..MIXED },
    Workload { name: "deep queue", burst: 16, patience: 5, bursts: 10, single: 80, ..MIXED },
    Workload { name: "overlapping", hot: 6, hot_share: 100, single: 0, most: 6, burst: 6, ..MIXED },
    Workload { name: "flush after each", writes: 4, flushes: 4, burst: 2, reads: 1, ..MIXED },
    Workload { name: "forced writes", fua: 100, flushes: 0, burst: 3, ..MIXED },
    Workload { name: "no flush", flushes: 0, fua: 0, bursts: 20, ..MIXED },
    Workload { name: "trims", trims: 8, hot: 16, ..MIXED },
    Workload { name: "large trims", trims: 3, single: 5, most: 200, burst: 2, ..MIXED },
    Workload { name: "zeros", zeros: 60, ..MIXED },
    Workload { name: "copies of the device", copies: 50, flushes: 2, ..MIXED },
    Workload {
        name: "full volume",
        fill: true,
        epochs: 2,
        size: Size::Tiny,
        trims: 0,
        single: 40,
        most: 40,
        ..MIXED
    },
    Workload { name: "filled and trimmed", fill: true, epochs: 2, trims: 5, most: 40, ..MIXED },
    Workload {
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
    Workload { name: "reads", reads: 12, copies: 0, ..MIXED },
    Workload { name: "many short epochs", epochs: 10, bursts: 5, ..MIXED },
    Workload { name: "rotting blocks", trouble: Trouble::Rot, reads: 6, ..MIXED },
    Workload { name: "transactions", groups: 12, writes: 4, most: 9, burst: 3, ..MIXED },
    Workload { name: "small transactions", groups: 20, most: 3, single: 0, hot: 8, ..MIXED },
    Workload { name: "full volume, slow flushes", trims: 0, hot_share: 0, bursts: 40, ..SLOW },
    Workload { name: "overwritten while flushes last", most: 64, single: 0, burst: 2, ..SLOW },
    Workload { name: "bad places", trouble: Trouble::Places, reads: 6, ..BROKEN },
];

/// Number of kinds of workload.
pub const WORKLOADS: u64 = KINDS.len() as u64;

impl Workload {
    /// A workload of a kind. Now and then a feature is left out altogether or a kind meets the
    /// faults of another.
    pub fn draw(kind: u64, rng: &mut Rng) -> Workload {
        let mut workload = KINDS[(kind % WORKLOADS) as usize].clone();
        for weight in
            [&mut workload.reads, &mut workload.trims, &mut workload.zeros, &mut workload.copies]
        {
            if rng.chance(0.2) && *weight < 5 {
                *weight = 0;
            }
        }
        if workload.trouble == Trouble::None && rng.chance(0.15) {
            let kinds =
                [Trouble::Writes, Trouble::Flushes, Trouble::Full, Trouble::Reads, Trouble::Rot];
            workload.trouble = kinds[rng.below(kinds.len() as u64) as usize];
        }
        if rng.chance(0.3) {
            workload.burst = 1 + rng.below(8);
        }
        if rng.chance(0.3) {
            workload.clean_ends = [0, 100][rng.below(2) as usize];
        }
        if rng.chance(0.15) {
            workload.size = [Size::Tiny, Size::Small, Size::Middle][rng.below(3) as usize];
        }
        workload
    }

    /// The same for arrays. Their every request is many device events, so epochs are shorter: more
    /// runs find more than longer ones. And members that fail are what arrays are for.
    pub fn of_arrays(self, rng: &mut Rng) -> Workload {
        let fails =
            [Trouble::Writes, Trouble::Flushes, Trouble::Flushes, Trouble::Full, Trouble::Reads];
        let trouble = match self.trouble {
            Trouble::None if rng.chance(0.5) => fails[rng.below(fails.len() as u64) as usize],
            trouble => trouble,
        };
        Workload { bursts: self.bursts.div_ceil(3), epochs: self.epochs.min(4), trouble, ..self }
    }

    /// Everything that happens in a run with a volume of `blocks` blocks.
    pub fn script(
        &self,
        subject: BlockSubject,
        blocks: u64,
        rng: &mut Rng,
    ) -> Vec<Operation<BlockRequest>> {
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
                if self.trouble == Trouble::Places && rng.chance(0.5) {
                    let fault = Fault::BadPlace(rng.below(4));
                    operations.push(Operation::Break(fault));
                } else if struck && burst == breaks {
                    self.go_wrong(subject, rng, &mut operations);
                }
                if struck && burst == heals {
                    operations.push(Operation::Heal);
                }
                for _ in 0..=rng.below(self.burst) {
                    operations.push(Operation::Request(self.request(blocks, &mut next, rng)));
                }
                operations.push(Operation::Pass(self.pause(rng)));
                if rng.below(100) < self.rests {
                    operations.push(Operation::Rest(rng.below(self.rest) as u32));
                }
            }
            operations.push(Operation::End(rng.below(100) < self.clean_ends));
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

    fn go_wrong(
        &self,
        subject: BlockSubject,
        rng: &mut Rng,
        operations: &mut Vec<Operation<BlockRequest>>,
    ) {
        let after = rng.below(8);
        let times = 1 + rng.below(3);
        match self.trouble {
            Trouble::None | Trouble::Places => {}
            Trouble::Writes => operations.push(Operation::Break(Fault::Write(after))),
            Trouble::Flushes => operations.push(Operation::Break(Fault::Flush(after / 4))),
            Trouble::Full => operations.push(Operation::Break(Fault::Full(after))),
            Trouble::Rot if subject.checks() => {
                for _ in 0..times {
                    operations.push(Operation::Break(Fault::Rot(place(rng), rng.next())));
                }
            }
            // A layout without checksums promises nothing about rot.
            Trouble::Reads | Trouble::Rot => {
                for _ in 0..times {
                    operations.push(Operation::Break(Fault::Unreadable(place(rng))));
                }
            }
        }
    }

    fn request(&self, blocks: u64, next: &mut u64, rng: &mut Rng) -> BlockRequest {
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
            Some(1) => BlockRequest::Read { at, count },
            // Looked at ahead: what follows is drawn as it was without forced trims.
            Some(2) => BlockRequest::Trim { at, count, fua: rng.clone().below(100) < self.fua },
            Some(3) => BlockRequest::Flush,
            Some(4) => {
                let count = 2 + rng.below(self.most) as u32;
                let step = 1 + rng.below(7.min(blocks));
                let (trims, fua) = (rng.chance(0.3), rng.below(100) < self.fua);
                BlockRequest::Group { at, count, step, trims, fua }
            }
            _ => {
                let share = rng.below(100);
                let content = match share {
                    _ if share < self.zeros => Content::Zeros,
                    _ if share < self.zeros + self.copies => Content::Copies(rng.next()),
                    _ => Content::Fresh,
                };
                BlockRequest::Write { at, count, content, fua: rng.below(100) < self.fua }
            }
        }
    }
}

/// A short epoch: mounted after a clean shutdown, cut off in the middle of a large write. What the
/// next mount drops of it is all that lies beside the old content when the volume is then stopped
/// and damaged.
fn coda(blocks: u64, rng: &mut Rng, operations: &mut Vec<Operation<BlockRequest>>) {
    let count = (2 + rng.below(5)).min(blocks);
    let at = rng.below(blocks - count + 1);
    operations.push(Operation::End(true));
    let content = Content::Fresh;
    let write = BlockRequest::Write { at, count: count as u32, content, fua: true };
    operations.push(Operation::Request(write));
    operations.push(Operation::Pass(rng.below(5) as u32));
    operations.push(Operation::End(false));
}

/// Writes the whole volume, a good part of it in each request.
fn fill(blocks: u64, operations: &mut Vec<Operation<BlockRequest>>) {
    let each = blocks.div_ceil(6).max(16);
    let mut at = 0;
    while at < blocks {
        let count = each.min(blocks - at) as u32;
        let write = BlockRequest::Write { at, count, content: Content::Fresh, fua: false };
        operations.push(Operation::Request(write));
        operations.push(Operation::Pass(u32::MAX));
        at += u64::from(count);
    }
    operations.push(Operation::Request(BlockRequest::Flush));
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
        let subject = BlockSubject::Layout(Kind::VLOG);
        for case in 0..4 * WORKLOADS {
            let mut rng = Rng::stream(case, "script");
            let blocks = 1 + rng.below(200);
            let workload = Workload::draw(case, &mut rng);
            let script = workload.script(subject, blocks, &mut rng);
            assert!(script.iter().any(|operation| matches!(operation, Operation::End(_))));
            for operation in script {
                if let Operation::Request(
                    BlockRequest::Write { at, count, .. }
                    | BlockRequest::Trim { at, count, .. }
                    | BlockRequest::Read { at, count },
                ) = operation
                {
                    assert!(count > 0 && at + u64::from(count) <= blocks, "{operation}");
                }
            }
        }
    }
}
