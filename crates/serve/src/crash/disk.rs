//! The device, and the handle by which it is commanded.
//!
//! Writes rest in a volatile cache until a flush writes them out to the medium, or until the cache
//! is full and the oldest are. A power cut decides about what is in the cache; from then on every
//! request fails until the power is back. Everything is a function of the requests and the seed.
//!
//! What is in the cache is in fact on the medium already, and what it has replaced is kept: see
//! [`super::store`].

use super::cut::{Cached, Cut, Outcome as Fated, apply, draw, turn};
use super::plan::{BadFault, Fault, Unflushed};
use super::store::{Content, Store};
use seekless_crash::fate::Tally;
use seekless_crash::faults::{Injector, Plan};
use seekless_crash::pending::PendingWrites;
use seekless_engine::data::Data;
use seekless_engine::device::{Device, DeviceStatus};
use seekless_engine::disk::Disk;
use seekless_engine::io::{Done, Io, IoError, Op, Outcome, Tag};
use seekless_engine::rng::Rng;
use seekless_engine::shared::Shared;
use seekless_engine::units::{BlockNr, Time};

/// Blocks that the cache holds unless told otherwise: 8 MiB, little enough to stay in the caches
/// of the processor.
const CACHE_BLOCKS: u64 = 2048;
/// A longer trim is carried out at once. A cache that held it block by block would be larger than
/// what it is a cache for.
const LONGEST_TRIM: u32 = 1024;

/// How often each fault has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads seen.
    pub reads: u64,
    /// Writes and trims seen.
    pub writes: u64,
    /// Flushes seen.
    pub flushes: u64,
    /// Requests failed with EIO.
    pub eio: u64,
    /// Writes failed with ENOSPC.
    pub enospc: u64,
    /// Flushes and forced writes that meant nothing.
    pub lies: u64,
    /// Reads that brought wrong bits.
    pub rotten: u64,
    /// Requests that were delayed.
    pub slow: u64,
    /// Requests that were never answered.
    pub stuck: u64,
    /// Power cuts.
    pub cuts: u64,
}

/// What is armed. Points are absolute here.
#[derive(Clone, Debug, Default)]
struct Armed {
    cut_at_write: Option<(u64, Fault)>,
    cut_at_flush: Option<(u64, Fault)>,
    unflushed: Unflushed,
    slow: Time,
    stuck_at: Option<(u64, Fault)>,
    /// As they were given.
    faults: Vec<Fault>,
}

#[derive(Debug)]
struct State {
    store: Store,
    armed: Armed,
    /// What storage does wrong.
    faults: Injector,
    seed: u64,
    cache_blocks: u64,
    power: bool,
    /// The cache, oldest first, and the blocks in it.
    pending: PendingWrites<Cached>,
    held: u64,
    reads: u64,
    slowed: u64,
    stopped: u64,
    requests: u64,
    ready: Vec<Done>,
    ready_at: Time,
    delayed: Vec<(Time, Done)>,
    stuck: Vec<Done>,
    cuts: Vec<Cut>,
    /// Cuts that the server of the device has noticed.
    noticed: usize,
}

/// The device, as its server and its commands see it.
#[derive(Clone, Debug)]
pub struct Hub(Shared<State>);

/// The device, as the layer above sees it.
#[derive(Debug)]
struct CrashDisk(Hub);

impl Hub {
    /// A device over a store, with the power on and nothing armed.
    pub fn new(store: Store) -> Hub {
        Hub(Shared::new(State {
            store,
            armed: Armed::default(),
            faults: Injector::default(),
            seed: 1,
            cache_blocks: CACHE_BLOCKS,
            power: true,
            pending: PendingWrites::default(),
            held: 0,
            reads: 0,
            slowed: 0,
            stopped: 0,
            requests: 0,
            ready: Vec::new(),
            ready_at: 0,
            delayed: Vec::new(),
            stuck: Vec::new(),
            cuts: Vec::new(),
            noticed: 0,
        }))
    }

    /// The device for a node.
    pub fn device(&self) -> Box<dyn Device> {
        Box::new(CrashDisk(self.clone()))
    }

    /// Arms faults; points count from now. Of those that exclude each other the last one counts,
    /// else their order means nothing.
    ///
    /// # Errors
    /// If one names blocks that the device does not have; then none is armed.
    pub fn arm(&self, faults: &[Fault]) -> Result<(), BadFault> {
        let mut state = self.0.lend();
        let blocks = state.store.blocks();
        faults.iter().try_for_each(|fault| fault.fits(blocks))?;
        // What is drawn when it is armed is drawn by the seed that is armed with it.
        let (seeds, others): (Vec<Fault>, Vec<Fault>) =
            faults.iter().partition(|one| matches!(one, Fault::Seed(_)));
        for fault in seeds.into_iter().chain(others) {
            state.arm(fault);
        }
        Ok(())
    }

    /// Disarms everything; what was slow or stuck is answered. Seed and size of the cache stay.
    pub fn clear(&self) {
        let mut state = self.0.lend();
        state.armed = Armed::default();
        *state.faults.plan_mut() = Plan::default();
        state.let_go();
    }

    /// Disarms what keeps requests waiting, and answers those that wait; the other faults stay.
    /// What waits has been carried out, so its answer is true.
    pub fn hurry(&self) {
        let mut state = self.0.lend();
        state.armed.hurry();
        state.let_go();
    }

    /// The faults that are armed, as they were given. Those that have struck for the only time or
    /// were replaced are not among them.
    pub fn armed(&self) -> Vec<Fault> {
        self.0.lend().armed.faults.clone()
    }

    /// Cuts the power; without effect if it is off.
    pub fn cut(&self, cause: &str) {
        self.0.lend().cut(cause);
    }

    /// Puts the power back on: the device is as the cut has left it.
    pub fn power_on(&self) {
        let mut state = self.0.lend();
        state.power = true;
        state.ready.clear();
    }

    /// True unless the power has been cut.
    pub fn has_power(&self) -> bool {
        self.0.lend().power
    }

    /// True once after each cut.
    pub fn notice_cut(&self) -> bool {
        let mut state = self.0.lend();
        let news = state.noticed < state.cuts.len();
        state.noticed = state.cuts.len();
        news
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        self.0.lend().counts()
    }

    /// Writes in the cache.
    pub fn unflushed(&self) -> usize {
        self.0.lend().pending.len()
    }

    /// The last power cut.
    pub fn last_cut(&self) -> Option<Cut> {
        self.0.lend().cuts.last().cloned()
    }

    /// When the next delayed answer is due.
    pub fn next_due(&self) -> Option<Time> {
        self.0.lend().delayed.iter().map(|(due, _)| *due).min()
    }

    /// Writes everything out that is in the cache, for a clean shutdown.
    ///
    /// # Errors
    /// What the medium reports.
    pub fn write_out(&self) -> Result<(), IoError> {
        let mut state = self.0.lend();
        state.write_out();
        state.store.medium().sync()
    }
}

impl Armed {
    /// Takes note of a fault that is armed now. True if it was not.
    fn note(&mut self, fault: Fault) -> bool {
        let known = self.faults.contains(&fault);
        self.faults.retain(|one| !fault.replaces(one));
        self.faults.push(fault);
        !known
    }

    fn forget(&mut self, fault: Fault) {
        self.faults.retain(|one| *one != fault);
    }

    fn hurry(&mut self) {
        (self.slow, self.stuck_at) = (0, None);
        self.faults.retain(|one| !matches!(one, Fault::Slow(_) | Fault::Stuck(_)));
    }
}

impl State {
    fn arm(&mut self, fault: Fault) {
        let (writes, flushes) = (self.faults.writes(), self.faults.flushes());
        let armed = &mut self.armed;
        let is_new = armed.note(fault);
        let plan = self.faults.plan_mut();
        // A point beyond all counting is never reached.
        match fault {
            Fault::CutAtWrite(n) => armed.cut_at_write = Some((writes.saturating_add(n), fault)),
            Fault::CutAtRandom(n) => {
                let at = 1 + Rng::stream(self.seed ^ writes, "cut").below(n);
                armed.cut_at_write = Some((writes.saturating_add(at), fault));
            }
            Fault::CutOnFlush(n) => armed.cut_at_flush = Some((flushes.saturating_add(n), fault)),
            Fault::Unflushed(how) => armed.unflushed = how,
            Fault::LyingFlush => plan.lying_flush = true,
            Fault::EioRead(_) | Fault::EioWrite(_) | Fault::Eio(_) | Fault::Rot(_) if !is_new => {}
            Fault::EioRead(blocks) => plan.unreadable.push(blocks),
            Fault::EioWrite(blocks) => plan.unwritable.push(blocks),
            Fault::Eio(blocks) => {
                plan.unreadable.push(blocks);
                plan.unwritable.push(blocks);
            }
            Fault::Enospc(n) => plan.full_from_write = Some(writes.saturating_add(n)),
            Fault::Slow(span) => armed.slow = span,
            Fault::Stuck(n) => armed.stuck_at = Some((self.requests.saturating_add(n), fault)),
            Fault::Rot(blocks) => plan.rotten.push(blocks),
            Fault::Cache(blocks) => self.cache_blocks = blocks,
            Fault::Seed(seed) => self.seed = seed,
        }
    }

    /// Answers what was slow or stuck.
    fn let_go(&mut self) {
        let slow = std::mem::take(&mut self.delayed).into_iter().map(|(_, done)| done);
        self.ready.extend(slow.chain(std::mem::take(&mut self.stuck)));
    }

    fn submit(&mut self, now: Time, io: Io) {
        self.ready_at = now;
        if !self.power {
            self.ready.push(Done::new(io.tag, Err(IoError::PowerOff)));
            return;
        }
        self.requests += 1;
        let tag = io.tag;
        let outcome = match io.op {
            Op::Read => self.read_request(io.at, io.count),
            Op::Write | Op::Trim => self.write_request(io),
            Op::Flush => self.flush_request(),
        };
        // The power may have gone while the request was under way.
        let outcome = if self.power { outcome } else { Err(IoError::PowerOff) };
        self.answer(now, tag, outcome);
    }

    fn answer(&mut self, now: Time, tag: Tag, outcome: Outcome) {
        let done = Done::new(tag, outcome);
        let stuck = self.armed.stuck_at.take_if(|(number, _)| *number == self.requests);
        if let Some((_, fault)) = stuck {
            self.armed.forget(fault);
        }
        if !self.power {
            self.ready.push(done);
        } else if stuck.is_some() {
            self.stopped += 1;
            self.stuck.push(done);
        } else if self.armed.slow > 0 {
            self.slowed += 1;
            self.delayed.push((now + self.armed.slow, done));
        } else {
            self.ready.push(done);
        }
    }

    fn read_request(&mut self, at: BlockNr, count: u32) -> Outcome {
        self.reads += 1;
        self.read(at, count)
    }

    /// What a read brings, spoilt where that is armed.
    fn read(&mut self, at: BlockNr, count: u32) -> Outcome {
        self.faults.read(at, count)?;
        let data = self.store.medium().read(at, count)?;
        Ok(self.faults.spoil(self.seed, at, data))
    }

    fn write_request(&mut self, io: Io) -> Outcome {
        let refused = self.faults.write(io.at, io.count);
        let number = self.faults.writes();
        let due = self.armed.cut_at_write.take_if(|(at, _)| *at == number);
        let outcome = match refused {
            None => self.take_write(number, io, due.is_some()),
            Some(answer) => answer,
        };
        let Some((_, fault)) = due else { return outcome };
        self.armed.forget(fault);
        self.cut(&fault.to_string());
        Err(IoError::PowerOff)
    }

    /// Takes a write into the cache. If it is the `last` one before the power goes it stays there,
    /// and so does all that was there before.
    fn take_write(&mut self, number: u64, io: Io, last: bool) -> Outcome {
        let Io { at, count, .. } = io;
        let trim = io.op == Op::Trim;
        if trim && count > LONGEST_TRIM && !last {
            self.write_out();
            return self.store.medium().trim(at, count).map(|()| Data::none());
        }
        let forced = io.fua && !self.faults.lies() && !last;
        let new = if trim { Content::Zeros(count) } else { self.store.take_in(io.data) };
        let other = Some(self.store.exchange(at, count, new)?);
        self.held += u64::from(count);
        self.pending.admit(number, Cached { at, count, trim, forced, other });
        if !last {
            while self.held > self.cache_blocks {
                self.write_out_oldest();
            }
            self.store.warm_up();
        }
        Ok(Data::none())
    }

    /// From now on no power cut takes it back.
    fn write_out_oldest(&mut self) {
        if let Some(one) = self.pending.pop_oldest() {
            let one = one.write;
            self.held -= u64::from(one.count);
            if let Some(other) = one.other {
                self.store.discard(other);
            }
        }
    }

    fn write_out(&mut self) {
        while !self.pending.is_empty() {
            self.write_out_oldest();
        }
    }

    fn flush_request(&mut self) -> Outcome {
        let number = self.faults.flushes() + 1;
        let due = self.armed.cut_at_flush.take_if(|(at, _)| *at == number);
        if let Some((_, fault)) = due {
            self.armed.forget(fault);
            self.faults.pass_flush();
            self.cut(&fault.to_string());
            return Err(IoError::PowerOff);
        }
        self.faults.flush().unwrap_or_else(|| {
            self.write_out();
            Ok(Data::none())
        })
    }

    fn counts(&self) -> Counts {
        let fired = self.faults.counts();
        Counts {
            reads: self.reads,
            writes: self.faults.writes(),
            flushes: self.faults.flushes(),
            eio: fired.unreadable + fired.failed_writes + fired.failed_flushes,
            enospc: fired.full,
            lies: fired.lying_flushes,
            rotten: fired.rotten,
            slow: self.slowed,
            stuck: self.stopped,
            cuts: self.cuts.len() as u64,
        }
    }

    fn cut(&mut self, cause: &str) {
        if !self.power {
            return;
        }
        self.power = false;
        let number = self.cuts.len() as u64 + 1;
        let mut rng = Rng::stream(self.seed ^ number.rotate_left(32), "power cut");
        let fates = draw(&self.pending, self.armed.unflushed, &mut rng);
        let mut pending: Vec<Cached> =
            self.pending.take().into_iter().map(|one| one.write).collect();
        debug_assert_eq!(fates.len(), pending.len(), "a fate for each write of the cache");
        self.held = 0;
        // The newest first, so that each one uncovers what it has replaced.
        for one in pending.iter_mut().rev() {
            if let Err(error) = turn(&mut self.store, one) {
                tracing::error!("block {}: what was there is not put back: {error}", one.at);
            }
        }
        let mut outcomes = Vec::with_capacity(pending.len());
        for (one, fate) in pending.into_iter().zip(fates) {
            let (at, count) = (one.at, one.count);
            if let Err(error) = apply(&mut self.store, one, &fate) {
                tracing::error!("block {at}: what survived cannot be stored: {error}");
            }
            outcomes.push(Fated { at, count, fate });
        }
        let (writes, flushes) = (self.faults.writes(), self.faults.flushes());
        let (cause, seed) = (cause.to_owned(), self.seed);
        let cut = Cut { number, cause, writes, flushes, seed, outcomes };
        let Tally { kept, lost, torn } = cut.tally();
        tracing::warn!(
            "power cut {number} ({}) at write {writes}, flush {flushes}: of {} unflushed \
             writes {kept} kept, {lost} lost, {torn} torn (seed {seed})",
            cut.cause,
            cut.outcomes.len()
        );
        self.cuts.push(cut);
        // What was under way is answered without the power.
        let late = std::mem::take(&mut self.delayed).into_iter().map(|(_, done)| done);
        let late: Vec<Done> = late.chain(std::mem::take(&mut self.stuck)).collect();
        self.ready.extend(late.into_iter().map(|done| Done::new(done.tag, Err(IoError::PowerOff))));
    }
}

fn check_range(blocks: u64, at: BlockNr, count: u32) -> Result<(), IoError> {
    let inside = at.checked_add(u64::from(count)).is_some_and(|end| end <= blocks);
    if inside { Ok(()) } else { Err(IoError::OutOfRange { at, count }) }
}

impl Device for CrashDisk {
    fn blocks(&self) -> u64 {
        self.0.0.lend().store.blocks()
    }

    fn submit(&mut self, now: Time, io: Io) {
        let mut state = self.0.0.lend();
        match check_range(state.store.blocks(), io.at, io.count) {
            Ok(()) => state.submit(now, io),
            Err(error) => state.answer(now, io.tag, Err(error)),
        }
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        let mut state = self.0.0.lend();
        done.append(&mut state.ready);
        if !state.delayed.is_empty() {
            let mut due: Vec<(Time, Done)> =
                state.delayed.extract_if(.., |(due, _)| *due <= now).collect();
            due.sort_by_key(|(due, _)| *due);
            done.extend(due.into_iter().map(|(_, one)| one));
        }
    }

    /// Delayed answers are not told of: who waits for them asks [`Hub::next_due`], so that others
    /// are not kept waiting.
    fn next_event(&self) -> Option<Time> {
        let state = self.0.0.lend();
        (!state.ready.is_empty()).then_some(state.ready_at)
    }

    fn volatile(&self) -> bool {
        true
    }

    fn status(&self) -> &dyn DeviceStatus {
        self
    }
}

impl DeviceStatus for CrashDisk {}

/// Blocking access for the code that runs alone: a mount sees the same failing blocks.
impl Disk for Hub {
    fn blocks(&self) -> u64 {
        self.0.lend().store.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        let mut state = self.0.lend();
        check_range(state.store.blocks(), at, count)?;
        state.read(at, count)
    }

    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        let mut state = self.0.lend();
        check_range(state.store.blocks(), at, data.blocks())?;
        state.store.medium().write(at, &data)
    }

    fn flush(&mut self) -> Result<(), IoError> {
        Ok(())
    }

    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        self.0.lend().store.medium().next_data(at)
    }
}
