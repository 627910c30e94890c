//! The drive of VLFS as a row of blocks: objects of 16 blocks, one behind the other.
//!
//! Three objects or four share a slice of its map. Some have their blocks where the inode points to
//! them, some where a tree of height 1 or 2 does, or at the border between two trees.
//!
//! A request within an object goes to the drive as it is. A change that crosses objects is a
//! transaction, as long as one may be; reads, and longer changes, are cut at the borders.

use seekless_engine::data::Data;
use seekless_engine::io::{Breakdown, Done, Extent, Io, IoError, Op, Tag};
use seekless_engine::layer::{Cx, Layer, Limits, Port, Status, Transactions};
use seekless_engine::options::Options;
use seekless_engine::rng::Rng;
use seekless_engine::transaction::Transaction;
use seekless_engine::units::{BlockNr, Time};
use seekless_layouts::vlfs::address::{SLICE_OBJECTS, address};
use seekless_layouts::vlfs::{Vlfs, WALK_BELOW};
use std::collections::BTreeMap;

/// Blocks of an object.
const EACH: u64 = 16;
/// From one object to the next.
const STRIDE: u32 = 40;
/// Where the blocks of objects begin, in turn.
const FIRST: [u32; 4] = [0, 5, 515, 12 + 512 + 512 * 512 - 9];
/// Blocks of a row at most.
const MOST_BLOCKS: u64 = 40 * EACH;
/// Parts of a request at most.
const PARTS: u64 = 1 << 16;

/// A request on its way.
#[derive(Debug)]
struct Whole {
    tag: Tag,
    left: usize,
    parts: Vec<Data>,
    failed: Option<IoError>,
    spent: Breakdown,
}

/// The drive as a row of blocks.
#[derive(Debug)]
pub struct Rows {
    drive: Vlfs,
    blocks: u64,
    wholes: BTreeMap<u64, Whole>,
    next: u64,
}

fn place(block: BlockNr) -> BlockNr {
    let object = (block / EACH) as u32;
    address(object * STRIDE, FIRST[object as usize % FIRST.len()] + (block % EACH) as u32)
}

/// Addresses of a drive that has room for such a row: whole slices.
pub fn addresses() -> u64 {
    let objects = (MOST_BLOCKS / EACH) as u32 * STRIDE;
    address(objects.next_multiple_of(SLICE_OBJECTS), 0)
}

/// Blocks of a row on a device of so many: few enough that it never fills.
pub fn blocks_on(device: u64) -> u64 {
    (device / 3).min(MOST_BLOCKS)
}

/// Whether a mount of an epoch has checkpoints or walks all inodes. Both come in turn on the same
/// volume. Of a stream of its own.
pub fn walk_below(seed: u64) -> u64 {
    if Rng::stream(seed, "checkpoints").chance(0.7) { 0 } else { u64::MAX }
}

/// The options of a mount. That of a crash state comes without: whether it has checkpoints is then
/// a matter of the volume.
pub fn options(options: &Options, id: u128) -> Options {
    match options.names().any(|name| name == WALK_BELOW.name) {
        true => options.clone(),
        false => options.clone().with(&WALK_BELOW, walk_below(id as u64)),
    }
}

impl Rows {
    /// So many blocks of a drive.
    pub fn new(drive: Vlfs, blocks: u64) -> Rows {
        Rows { drive, blocks, wholes: BTreeMap::new(), next: 0 }
    }

    /// Calls the drive, and joins what it answers.
    fn with(&mut self, cx: &mut Cx<'_>, call: impl FnOnce(&mut Vlfs, &mut Cx<'_>)) {
        let mut answers = Vec::new();
        let mut inner = Cx {
            now: cx.now,
            rng: &mut *cx.rng,
            idle_since: cx.idle_since,
            below: &mut *cx.below,
            above: &mut answers,
            devices: cx.devices,
        };
        call(&mut self.drive, &mut inner);
        for done in answers {
            self.answered(done, cx);
        }
    }

    fn answered(&mut self, done: Done, cx: &mut Cx<'_>) {
        let (number, part) = (done.tag / PARTS, (done.tag % PARTS) as usize);
        let whole = self.wholes.get_mut(&number).expect("it is on its way");
        whole.spent.add(&done.spent);
        match done.outcome {
            Ok(data) => whole.parts[part] = data,
            Err(error) => _ = whole.failed.get_or_insert(error),
        }
        whole.left -= 1;
        if whole.left > 0 {
            return;
        }
        let Some(whole) = self.wholes.remove(&number) else { return };
        let mut data = Data::none();
        whole.parts.into_iter().for_each(|part| data.append(part));
        let outcome = whole.failed.map_or(Ok(data), Err);
        cx.answer(Done { tag: whole.tag, outcome, spent: whole.spent });
    }

    fn begin(&mut self, tag: Tag, parts: usize) -> u64 {
        let number = self.next;
        self.next += 1;
        let (left, failed, spent) = (parts, None, Breakdown::default());
        let parts = vec![Data::none(); parts];
        self.wholes.insert(number, Whole { tag, left, parts, failed, spent });
        number * PARTS
    }
}

/// The parts of a range, object by object: from, and how many blocks.
fn parts(at: BlockNr, count: u64) -> Vec<(BlockNr, u32)> {
    let (mut from, end, mut all) = (at, at + count, Vec::new());
    while from < end {
        let until = ((from / EACH + 1) * EACH).min(end);
        all.push((from, (until - from) as u32));
        from = until;
    }
    all
}

impl Layer for Rows {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn submit(&mut self, io: Io, cx: &mut Cx<'_>) {
        let parts = parts(io.at, u64::from(io.count));
        let crosses = parts.len() > 1;
        let together = u64::from(io.count) <= self.drive.transaction_blocks();
        if crosses && together && io.op != Op::Read {
            let mut all = Transaction::new();
            for (block, index) in (io.at..).zip(0..io.count) {
                match io.op {
                    Op::Write => all.write(place(block), &Data::from(io.data.block(index))),
                    _ => all.trim(place(block), 1),
                }
            }
            let tag = self.begin(io.tag, 1);
            return self.with(cx, |drive, cx| Transactions::submit(drive, tag, all, io.fua, cx));
        }
        let tag = self.begin(io.tag, parts.len().max(1));
        if io.op == Op::Flush {
            return self.with(cx, |drive, cx| Layer::submit(drive, Io { tag, ..io }, cx));
        }
        for (index, (from, count)) in (0..).zip(parts) {
            let data = match io.op {
                Op::Write => io.data.slice((from - io.at) as u32, count),
                _ => Data::none(),
            };
            let part = Io { tag: tag + index, at: place(from), count, data, ..io.clone() };
            self.with(cx, |drive, cx| Layer::submit(drive, part, cx));
        }
    }

    fn complete(&mut self, port: Port, done: Done, cx: &mut Cx<'_>) {
        self.with(cx, |drive, cx| drive.complete(port, done, cx));
    }

    fn pump(&mut self, cx: &mut Cx<'_>) {
        self.with(cx, |drive, cx| drive.pump(cx));
    }

    fn deadline(&self) -> Option<Time> {
        self.drive.deadline()
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.with(cx, |drive, cx| drive.stop(cx));
    }

    fn stopped(&self) -> bool {
        self.drive.stopped()
    }

    fn failed(&self) -> Option<IoError> {
        self.drive.failed()
    }

    fn status(&self) -> &dyn Status {
        self
    }

    fn transactions(&mut self) -> Option<&mut dyn Transactions> {
        Some(self)
    }
}

impl Transactions for Rows {
    fn submit(&mut self, tag: Tag, all: Transaction, fua: bool, cx: &mut Cx<'_>) {
        let mut moved = Transaction::new();
        for (block, piece) in all.changes() {
            match piece {
                Some(piece) => moved.write(place(block), &Data::from(piece.clone())),
                None => moved.trim(place(block), 1),
            }
        }
        let tag = self.begin(tag, 1);
        self.with(cx, |drive, cx| Transactions::submit(drive, tag, moved, fua, cx));
    }
}

impl Status for Rows {
    fn extent(&self, at: BlockNr, limit: u64) -> (Extent, u64) {
        let within = EACH - at % EACH;
        self.drive.status().extent(place(at), limit.min(within))
    }

    fn transaction_blocks(&self) -> u64 {
        self.drive.transaction_blocks()
    }

    fn limits(&self) -> Limits {
        self.drive.limits()
    }

    fn check(&self) {
        Status::check(&self.drive);
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        self.drive.stats()
    }
}
