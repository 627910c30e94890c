//! The write log of RAID-5: what a partial write of a stripe is going to put where.
//!
//! Data and parity of a stripe lie on different devices, so a power cut may leave one without the
//! other; if a member is lost with the power, what it held of *other* blocks could then not be
//! computed (the write hole). So before a stripe is written in part, the new blocks and
//! the new parity are written to a ring on the member that holds the parity, and made durable.
//! Assembly writes the blocks of all live records once more, of each block the
//! youngest. If the member with the log is the one that is lost, its parity is lost too, and
//! nothing is computed from it. `SPEC.md`, section "Array members", has the format to the byte.

use super::member::LOG_BLOCK;
use seekless_engine::checksum::{Sums, crc32c};
use seekless_engine::data::is_zero;
use seekless_engine::data::sealed::{CHECKED, Sealed};
use seekless_engine::data::{Body, Data};
use seekless_engine::edge::Edge;
use seekless_engine::superblock::{le32, le64};
use seekless_engine::units::BlockNr;
use std::collections::{BTreeMap, VecDeque};

/// The magic of batches, and how their blocks are summed: of format version 3 of arrays, which is
/// what is written, then of versions 2 and 1.
const MAGICS: [([u8; 8], Sums); 3] =
    [(*b"SEEKRLG3", Sums::Xxh3), (*b"SEEKRLG2", Sums::TurnedCrc), (*b"SEEKRLOG", Sums::Crc)];
const RUNS_AT: usize = 64;
const RUN_BYTES: usize = 16;
/// Runs that a header has room for.
const MOST_RUNS: usize = (CHECKED - RUNS_AT) / RUN_BYTES;
const _: () = assert!(MOST_RUNS == 251);

/// Blocks that are going to be written to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The member.
    pub member: usize,
    /// First block there.
    pub at: BlockNr,
    /// What will stand there.
    pub data: Data,
}

/// What one stripe operation is going to write.
#[derive(Clone, Debug)]
struct Record {
    op: usize,
    stripe: u64,
    runs: Vec<Run>,
}

/// A batch of records in the ring.
#[derive(Clone, Debug)]
struct Entry {
    seq: u64,
    /// Blocks of the ring that it takes, those skipped before it included.
    span: u32,
    /// Operations whose writes in place are under way.
    open: u32,
    /// Count of operations when the last one ended.
    ended: u64,
    stripes: Vec<u64>,
}

/// A batch on its way to the medium.
#[derive(Clone, Debug)]
struct Writing {
    entry: Entry,
    tail: u64,
    ops: Vec<usize>,
}

/// The log of one member.
#[derive(Clone, Debug)]
pub struct Log {
    id: u128,
    member: usize,
    blocks: u32,
    head: u32,
    next_seq: u64,
    /// Batches that a recovery would replay: those the last durable header does not call dead.
    entries: VecDeque<Entry>,
    queue: VecDeque<Record>,
    writing: Option<Writing>,
    /// Stripes with a record among the entries, and with how many.
    covered: BTreeMap<u64, u32>,
    starved: bool,
}

impl Log {
    /// The log of a member of array `id`, after the batch `last` that ended before block `head`.
    pub fn new(id: u128, member: usize, blocks: u32, last: u64, head: u32) -> Log {
        Log {
            id,
            member,
            blocks,
            head: if head >= blocks { 0 } else { head },
            next_seq: last + 1,
            entries: VecDeque::new(),
            queue: VecDeque::new(),
            writing: None,
            covered: BTreeMap::new(),
            starved: false,
        }
    }

    /// A header that declares everything before it dead; it counts as written. `events` is what
    /// the superblocks say by now: no batch of an earlier assembly has a number as great as those
    /// that follow, though this one may not have seen all of them. One that was cut off and lies
    /// elsewhere would else share its number with one of ours; if the ring could not be read, its
    /// batches would even count as younger.
    pub fn open(&mut self, events: u64) -> (BlockNr, Data) {
        debug_assert!(self.entries.is_empty() && self.queue.is_empty(), "it is opened once");
        if Edge::LogNumbers.stands() {
            self.next_seq = self.next_seq.max(events.min(u32::MAX.into()) << 32);
        }
        let batch = self.batch(Vec::new(), self.next_seq, 0, 1);
        self.written();
        batch
    }

    /// An operation wants its writes recorded.
    pub fn push(&mut self, op: usize, stripe: u64, runs: Vec<Run>) {
        debug_assert!(!runs.is_empty(), "a record of no writes protects none");
        self.queue.push_back(Record { op, stripe, runs });
    }

    /// True if a recovery would replay a record of the stripe: then it must not be written
    /// without another one.
    pub fn covers(&self, stripe: u64) -> bool {
        self.covered.contains_key(&stripe)
    }

    /// True if records wait for room that only a flush of all members can make.
    pub fn is_starved(&self) -> bool {
        self.starved
    }

    /// The writes in place of an operation of batch `seq` have ended, as the `clock`-th.
    pub fn ended(&mut self, seq: u64, clock: u64) {
        let entry = self.entries.iter_mut().find(|entry| entry.seq == seq);
        let entry = entry.expect("a batch stays until its operations have ended");
        debug_assert!(entry.open > 0, "more operations of batch {seq} end than it has");
        debug_assert!(entry.ended <= clock, "the count of operations goes up");
        entry.open -= 1;
        entry.ended = clock;
    }

    /// The next batch to write, if there is one and room for it; everything that ended up to
    /// `flushed` is durable in its place. [`Log::written`] must follow before the next one.
    pub fn next_batch(&mut self, flushed: u64) -> Option<(BlockNr, Data)> {
        if self.writing.is_some() || self.queue.is_empty() {
            return None;
        }
        let live =
            |entry: &&Entry| entry.open > 0 || Edge::LogRecordEnded.blocks(entry.ended > flushed);
        let tail = self.entries.iter().find(live).map_or(self.next_seq, |entry| entry.seq);
        let count = self.batch_records();
        let payload =
            |record: &Record| record.runs.iter().map(|run| run.data.blocks()).sum::<u32>();
        let need = 1 + self.queue.iter().take(count).map(payload).sum::<u32>();
        let used: u32 = self.entries.iter().map(|entry| entry.span).sum();
        let skip = if self.head + need > self.blocks { self.blocks - self.head } else { 0 };
        // One block stays free for a header that says what is dead.
        if used + skip + need < self.blocks {
            self.starved = false;
            let records = self.queue.drain(..count).collect();
            return Some(self.batch(records, tail, skip, need));
        }
        let dead = self.entries.front().is_some_and(|entry| entry.seq < tail);
        self.starved = !dead;
        dead.then(|| self.batch(Vec::new(), tail, 0, 1))
    }

    /// How many of the records that wait fit one batch.
    fn batch_records(&self) -> usize {
        let most_blocks = (self.blocks - 2) / 2;
        let (mut runs, mut blocks) = (0, 1);
        let fits = |record: &&Record| {
            runs += record.runs.len();
            blocks += record.runs.iter().map(|run| run.data.blocks()).sum::<u32>();
            runs <= MOST_RUNS && blocks <= most_blocks
        };
        let count = self.queue.iter().take_while(fits).count();
        assert!(count > 0, "the log is made so large that every record fits");
        count
    }

    fn batch(&mut self, records: Vec<Record>, tail: u64, skip: u32, need: u32) -> (BlockNr, Data) {
        debug_assert!(self.writing.is_none(), "one batch at a time");
        let start = if skip > 0 { 0 } else { self.head };
        debug_assert!(start + need <= self.blocks, "a batch goes round the end of the ring");
        let (seq, ops) =
            (self.next_seq, records.iter().map(|record| record.op).collect::<Vec<_>>());
        self.next_seq += 1;
        self.head = (start + need) % self.blocks;
        let stripes = records.iter().map(|record| record.stripe).collect();
        let entry = Entry { seq, span: skip + need, open: ops.len() as u32, ended: 0, stripes };
        self.writing = Some(Writing { entry, tail, ops });
        let runs: Vec<Run> = records.into_iter().flat_map(|record| record.runs).collect();
        let mut data = Data::none();
        data.append(Data::block_of(self.encode(&runs, seq, tail, start)));
        runs.into_iter().for_each(|run| data.append(run.data));
        debug_assert_eq!(data.blocks(), need, "a batch has another length than its records");
        (LOG_BLOCK + u64::from(start), data)
    }

    fn encode(&self, runs: &[Run], seq: u64, tail: u64, start: u32) -> Body {
        let mut out = vec![0; RUNS_AT + runs.len() * RUN_BYTES];
        let (magic, sums) = MAGICS[0];
        out[0..8].copy_from_slice(&magic);
        out[8..24].copy_from_slice(&self.id.to_le_bytes());
        out[24..28].copy_from_slice(&(self.member as u32).to_le_bytes());
        out[28..32].copy_from_slice(&(runs.len() as u32).to_le_bytes());
        out[32..40].copy_from_slice(&seq.to_le_bytes());
        out[40..48].copy_from_slice(&tail.to_le_bytes());
        out[48..52].copy_from_slice(&start.to_le_bytes());
        for (slot, run) in out[RUNS_AT..].chunks_exact_mut(RUN_BYTES).zip(runs) {
            slot[0..2].copy_from_slice(&(run.member as u16).to_le_bytes());
            slot[2..4].copy_from_slice(&(run.data.blocks() as u16).to_le_bytes());
            let sum = checksum(&run.data, sums);
            slot[4..8].copy_from_slice(&sum.to_le_bytes());
            slot[8..16].copy_from_slice(&run.at.to_le_bytes());
        }
        Sealed::new(out).into_body()
    }

    /// The batch is durable. Returns its number and the operations that may write in place now.
    pub fn written(&mut self) -> (u64, Vec<usize>) {
        let Writing { entry, tail, ops } = self.writing.take().expect("a batch is being written");
        while let Some(dead) = self.entries.pop_front_if(|entry| entry.seq < tail) {
            for stripe in dead.stripes {
                let count = self.covered.get_mut(&stripe).expect("it was counted");
                *count -= 1;
                if *count == 0 {
                    self.covered.remove(&stripe);
                }
            }
        }
        for &stripe in &entry.stripes {
            *self.covered.entry(stripe).or_default() += 1;
        }
        let seq = entry.seq;
        debug_assert!(tail <= seq, "a batch calls itself dead");
        debug_assert!(self.entries.back().is_none_or(|last| last.seq < seq), "numbers go up");
        self.entries.push_back(entry);
        (seq, ops)
    }

    /// The member is out of the array: forgets everything and returns the operations that waited.
    pub fn abandon(&mut self) -> Vec<usize> {
        let waiting = self.queue.drain(..).map(|record| record.op);
        let ops = self.writing.take().map(|writing| writing.ops).unwrap_or_default();
        let ops = ops.into_iter().chain(waiting).collect();
        // Its records are of no use: without the member there is no parity to be wrong.
        self.entries.clear();
        self.covered.clear();
        ops
    }

    /// True if a batch is on its way.
    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }
}

/// A checksum of some blocks that is the same for zeros however they are kept.
fn checksum(data: &Data, sums: Sums) -> u32 {
    let mut all = Vec::with_capacity(4 * data.blocks() as usize);
    for piece in data.each() {
        let sum = if is_zero(&piece) { 0 } else { sums.of(&piece) };
        all.extend_from_slice(&sum.to_le_bytes());
    }
    crc32c(&all)
}

/// The header of a batch found in a ring.
#[derive(Clone, Debug)]
struct Found {
    seq: u64,
    tail: u64,
    /// Where its first run lies in the ring.
    at: u32,
    /// How its blocks are summed.
    sums: Sums,
    runs: Vec<Noted>,
}

/// What a header says of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Noted {
    member: usize,
    at: BlockNr,
    blocks: u32,
    sum: u32,
}

impl Found {
    /// Where the next batch would begin.
    fn end(&self) -> u32 {
        self.at + self.runs.iter().map(|run| run.blocks).sum::<u32>()
    }

    fn makes_sense(&self, bounds: &Bounds) -> bool {
        let lies = |run: &Noted| {
            let end = run.at.checked_add(u64::from(run.blocks));
            run.member < bounds.members
                && bounds.blocks.start <= run.at
                && end.is_some_and(|end| end <= bounds.blocks.end)
        };
        self.tail <= self.seq && self.seq < NUMBER_LIMIT && self.runs.iter().all(lies)
    }

    /// The runs as they lie in the ring, if all are whole.
    fn content(&self, ring: &Data) -> Option<Vec<Run>> {
        let mut from = self.at;
        let mut runs = Vec::with_capacity(self.runs.len());
        for &Noted { member, at, blocks, sum } in &self.runs {
            let data = ring.slice(from, blocks);
            if !Edge::LogBatchSum.allows(checksum(&data, self.sums) == sum) {
                return None;
            }
            runs.push(Run { member, at, data });
            from += blocks;
        }
        Some(runs)
    }
}

/// Numbers of batches lie below this: the first of an assembly is the count of events, shifted (see
/// [`Log::open`]), and no array lives to count the rest.
const NUMBER_LIMIT: u64 = 3 << 62;

/// What a batch may speak of.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Members of the array.
    pub members: usize,
    /// Blocks of a member that chunks lie in.
    pub blocks: std::ops::Range<BlockNr>,
}

/// What a ring holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// What is to be written once more, in this order.
    pub runs: Vec<Run>,
    /// Number of the youngest batch; 0 if there is none.
    pub last: u64,
    /// Block of the ring behind it.
    pub head: u32,
    /// A batch that should be there is not, or one speaks of what the array does not have.
    pub damaged: bool,
}

/// Reads a ring: the whole of it, in `ring`.
pub fn scan(ring: &Data, id: u128, member: usize, bounds: &Bounds) -> Contents {
    let mut found: Vec<Found> = Vec::new();
    for (at, piece) in ring.each().enumerate() {
        if !MAGICS.iter().any(|&(magic, _)| piece.begins_with(magic)) {
            continue;
        }
        let block = piece.to_bytes();
        if let Some(one) = decode(&block, ring.blocks(), at as u32, id, member) {
            found.push(one);
        }
    }
    // A whole checksum over nonsense can only come from a forged image.
    let all = found.len();
    found.retain(|one| one.makes_sense(bounds));
    let forged = found.len() < all;
    found.sort_by_key(|one| one.seq);
    // Of what lies there only the youngest batch that is whole and those up to its tail matter.
    let Some(youngest) = found.iter().rposition(|one| one.content(ring).is_some()) else {
        return Contents { damaged: forged, ..Contents::default() };
    };
    let Found { seq: last, tail, .. } = found[youngest];
    let head = found[youngest].end();
    let needed = found[..=youngest].iter().filter(|one| one.seq >= tail);
    let live: Vec<Vec<Run>> = needed.filter_map(|one| one.content(ring)).collect();
    let damaged = forged || live.len() as u64 != last + 1 - tail;
    Contents { runs: live.into_iter().flatten().collect(), last, head, damaged }
}

/// The batch whose header is `block`, which lies at `at` in a ring of `blocks` blocks.
fn decode(block: &[u8], blocks: u32, at: u32, id: u128, member: usize) -> Option<Found> {
    let &(_, sums) = MAGICS.iter().find(|(magic, _)| block[..8] == *magic)?;
    let ours = block[8..24] == id.to_le_bytes()
        && le32(block, 24) as usize == member
        && le32(block, 48) == at
        && crc32c(&block[..CHECKED]) == le32(block, CHECKED);
    let count = le32(block, 28) as usize;
    if !ours || count > MOST_RUNS {
        return None;
    }
    let noted = |slot: &[u8]| Noted {
        member: usize::from(u16::from_le_bytes([slot[0], slot[1]])),
        at: le64(slot, 8),
        blocks: u32::from(u16::from_le_bytes([slot[2], slot[3]])),
        sum: le32(slot, 4),
    };
    let slots = block[RUNS_AT..CHECKED].chunks_exact(RUN_BYTES).take(count);
    let runs: Vec<Noted> = slots.map(noted).collect();
    let (seq, tail) = (le64(block, 32), le64(block, 40));
    let found = Found { seq, tail, at: at + 1, sums, runs };
    let fits = found.runs.iter().all(|run| run.blocks > 0) && found.end() <= blocks;
    fits.then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    const BLOCKS: u32 = 22;

    fn bounds() -> Bounds {
        Bounds { members: 4, blocks: 0..1 << 40 }
    }

    fn runs(stripe: u64, version: u64) -> Vec<Run> {
        let run = |member, at| Run { member, at, data: Data::stamp(2, at, version) };
        vec![run(0, 100 + stripe), run(1, 200 + stripe)]
    }

    fn put(ring: &mut [Data], batch: (BlockNr, Data)) {
        for index in 0..batch.1.blocks() {
            let at = (batch.0 - LOG_BLOCK) as usize + index as usize;
            ring[at] = batch.1.slice(index, 1);
        }
    }

    fn whole(ring: &[Data]) -> Data {
        let mut data = Data::none();
        ring.iter().for_each(|block| data.append(block.clone()));
        data
    }

    #[test]
    fn what_is_live_is_found_in_order_round_after_round() {
        let mut log = Log::new(9, 3, BLOCKS, 0, 0);
        let mut ring = vec![Data::zeros(1); BLOCKS as usize];
        let mut clock = 0;
        for round in 1..100_u64 {
            log.push(7, round, runs(round, round));
            let batch = log.next_batch(clock).expect("room");
            put(&mut ring, batch);
            let (seq, ops) = log.written();
            if ops.is_empty() {
                // It only said what is dead; now there is room.
                put(&mut ring, log.next_batch(clock).expect("room"));
                assert_eq!(log.written().1, [7]);
            } else {
                assert_eq!(ops, [7]);
            }
            assert!(log.covers(round));
            let contents = scan(&whole(&ring), 9, 3, &bounds());
            assert!(!contents.damaged, "round {round}");
            assert_eq!(contents.runs.last(), runs(round, round).last());
            assert!(contents.last >= seq && contents.runs.len() <= 6);
            assert_eq!(
                scan(&whole(&ring), 8, 3, &bounds()),
                Contents::default(),
                "another array's"
            );
            clock += 1;
            log.ended(contents.last, clock);
        }
    }

    #[test]
    fn what_is_not_durable_in_place_is_not_overwritten() {
        let mut log = Log::new(9, 3, BLOCKS, 0, 0);
        let mut batches = 0;
        for op in 0..10 {
            log.push(op, op as u64, runs(0, 1));
        }
        while log.next_batch(0).is_some() {
            let (seq, ops) = log.written();
            ops.iter().for_each(|_| log.ended(seq, 5));
            batches += 1;
        }
        assert!(batches < 5 && log.is_starved(), "{batches} batches");
        assert!(log.next_batch(5).is_some(), "a flush makes room");
    }

    #[test]
    fn a_torn_batch_is_none_and_a_missing_one_is_noticed() {
        let mut log = Log::new(9, 3, BLOCKS, 0, 0);
        let mut ring = vec![Data::zeros(1); BLOCKS as usize];
        for stripe in 0..3 {
            log.push(stripe, 0, runs(stripe as u64, 1));
            put(&mut ring, log.next_batch(0).expect("room"));
            log.written();
        }
        let mut torn = ring.clone();
        torn[12] = Data::zeros(1);
        let contents = scan(&whole(&torn), 9, 3, &bounds());
        assert_eq!((contents.last, contents.damaged, contents.runs.len()), (2, false, 4));
        let mut rotten = ring.clone();
        rotten[6] = Data::zeros(1);
        assert!(scan(&whole(&rotten), 9, 3, &bounds()).damaged);
    }

    /// What a log with one batch of an earlier assembly finds after the next one has opened it.
    fn reopened(earlier: Option<&Contents>, ring: &mut [Data]) -> Contents {
        let nothing = Contents::default();
        let Contents { last, head, .. } = earlier.unwrap_or(&nothing);
        let mut log = Log::new(9, 3, BLOCKS, *last, *head);
        put(ring, log.open(2));
        scan(&whole(ring), 9, 3, &bounds())
    }

    #[test]
    fn batches_of_an_earlier_assembly_are_dead_whatever_turns_up_of_them() {
        let mut log = Log::new(9, 3, BLOCKS, 0, 0);
        let mut ring = vec![Data::zeros(1); BLOCKS as usize];
        put(&mut ring, log.open(1));
        for stripe in 0..4 {
            log.push(stripe, stripe as u64, runs(stripe as u64, 1));
            put(&mut ring, log.next_batch(1).expect("room"));
            let (seq, _) = log.written();
            log.ended(seq, 1);
        }
        let seen = scan(&whole(&ring), 9, 3, &bounds());
        assert_eq!((seen.damaged, seen.runs.len(), seen.head), (false, 2, BLOCKS - 1));
        // Its last batch finds no room before the end of the ring, and the power goes meanwhile.
        log.push(4, 4, runs(4, 1));
        let late = log.next_batch(1).expect("room");
        assert_eq!(late.0, LOG_BLOCK);
        let mut cut_off = ring.clone();
        assert_eq!(reopened(Some(&seen), &mut cut_off).runs, []);
        put(&mut cut_off, late);
        let found = scan(&whole(&cut_off), 9, 3, &bounds());
        assert_eq!((found.damaged, found.runs), (false, Vec::new()), "a number twice");
        // Nothing of the ring could be read: what the assembly writes is younger all the same.
        let found = reopened(None, &mut ring);
        assert_eq!((found.damaged, found.runs, found.head), (false, Vec::new(), 1));
    }

    /// Bytes that end with their CRC.
    fn sealed(fill: u8) -> Data {
        let mut block = vec![fill; CHECKED];
        block.extend(crc32c(&block).to_le_bytes());
        Data::bytes(Bytes::from(block))
    }

    #[test]
    fn batches_of_older_versions_are_read() {
        for (magic, sums) in MAGICS {
            let mut log = Log::new(9, 3, BLOCKS, 0, 0);
            let run = Run { member: 1, at: 200, data: sealed(1) };
            log.push(7, 0, vec![run.clone()]);
            let (_, batch) = log.next_batch(0).expect("room");
            let mut header = batch.slice(0, 1).to_bytes().to_vec();
            header[..8].copy_from_slice(&magic);
            let sum = checksum(&run.data, sums).to_le_bytes();
            header[RUNS_AT + 4..RUNS_AT + 8].copy_from_slice(&sum);
            let sum = crc32c(&header[..CHECKED]).to_le_bytes();
            header[CHECKED..].copy_from_slice(&sum);
            let mut ring = Data::bytes(Bytes::from(header));
            ring.append(run.data.clone());
            ring.append(Data::zeros(BLOCKS - 2));
            assert_eq!(scan(&ring, 9, 3, &bounds()).runs, [run]);
        }
    }

    #[test]
    fn what_speaks_of_more_than_the_array_has_is_damage() {
        let forge = |at, seq: u64, tail| {
            let log = Log::new(9, 3, BLOCKS, 0, 0);
            let run = Run { member: 1, at, data: Data::stamp(2, 7, 7) };
            let mut ring = vec![Data::zeros(1); BLOCKS as usize];
            let mut batch = Data::block_of(log.encode(std::slice::from_ref(&run), seq, tail, 0));
            batch.append(run.data);
            put(&mut ring, (LOG_BLOCK, batch));
            let few = Bounds { members: 2, blocks: 100..200 };
            scan(&whole(&ring), 9, 3, &few)
        };
        assert!(!forge(100, 5, 5).damaged && forge(198, 5, 5).runs.len() == 1);
        for (at, seq, tail) in [
            (99, 5, 5),
            (199, 5, 5),
            (u64::MAX, 5, 5),
            (1 << 63, 5, 5),
            (100, u64::MAX, u64::MAX),
            (100, NUMBER_LIMIT, 5),
            (100, 5, 6),
        ] {
            let damage = Contents { damaged: true, ..Contents::default() };
            assert_eq!(forge(at, seq, tail), damage, "{at} {seq} {tail}");
        }
    }
}
