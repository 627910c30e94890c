//! Replays a trace on a node: users, a buffer pool between them and the volume, and two ways of
//! keeping time.
//!
//! *Open*: every record arrives when the trace says, whether or not the ones before are done.
//! *Closed*: a number of users without think time, each of whom takes the next record of the one
//! trace as soon as its last one is done (section 5 of the HyLog paper). Records are read as they
//! are needed, so memory does not grow with the trace.

use super::requests::{Part, Requests};
use super::{Completion, DriveError, Driver};
use crate::pool::{Pool, PoolCounts};
use crate::trace::{
    Action, Blocks, Footprint, Mapper, Mapping, NoRoom, Record, Records, TraceError, push,
};
use crate::workload::MAX_REQUEST_BLOCKS;
use seekless_engine::client::{Below, Client};
use seekless_engine::io::{Breakdown, Done, Op};
use seekless_engine::layer::Port;
use seekless_engine::units::{BlockNr, Time};

/// Most records under way at once. What arrives in an open loop while so many are waits outside;
/// its latency counts from its arrival.
pub const MAX_USERS: u32 = 4096;

/// Blocks that the background cleaner of the pool writes at a time.
const CLEANED_AT_ONCE: u64 = 64;

/// When records begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pacing {
    /// At their times, `speed` (above 0) times as fast as recorded.
    Open {
        /// How much faster than recorded.
        speed: f64,
    },
    /// As soon as one of `users` users (1 to [`MAX_USERS`]) is free.
    Closed {
        /// Users.
        users: u32,
    },
}

/// A buffer pool between users and volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// Blocks that it holds, 1 and more.
    pub blocks: u64,
    /// How often a background cleaner writes the 64 least recently used changed blocks, if at all;
    /// in nanoseconds.
    pub clean_every: Option<Time>,
}

/// How to replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayOptions {
    /// When records begin.
    pub pacing: Pacing,
    /// Where they go.
    pub mapping: Mapping,
    /// What lies between.
    pub pool: Option<PoolOptions>,
}

/// Why a replay cannot go on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReplayError {
    /// The volume.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The footprint.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
}

/// What a player did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlayCounts {
    /// Records begun.
    pub records: u64,
    /// Records of an open loop that began later than they arrived, since too many were under way.
    pub late: u64,
    /// Time between the first record and the last one, by the clock of the trace.
    pub span_ns: Time,
}

/// A record under way.
#[derive(Debug)]
struct Job {
    op: Op,
    at: BlockNr,
    count: u32,
    arrived: Time,
    /// A user waits for it.
    awaited: bool,
    /// Requests to the volume, each with its phase: those of a phase go out together, when all of
    /// the phase before are done.
    steps: Vec<(u8, Part)>,
    sent: usize,
    outstanding: u32,
    spent: Breakdown,
}

/// A trace being replayed.
pub struct Player<'a> {
    records: Records<'a>,
    options: ReplayOptions,
    mapper: Mapper,
    pool: Option<Pool>,
    next: Option<Record>,
    ended: bool,
    /// Time of the first record, and when it was begun.
    origin: Option<(Time, Time)>,
    /// When the last record arrived.
    arrived: Time,
    cleaning_at: Time,
    jobs: Vec<Job>,
    idle: Vec<u32>,
    busy: u32,
    runs: Vec<Blocks>,
    blocks: Vec<BlockNr>,
    counts: PlayCounts,
}

impl std::fmt::Debug for Player<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Player").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<'a> Player<'a> {
    /// Replays `records` on a volume of `volume` blocks.
    ///
    /// # Panics
    /// If there are no users, or too many, or a pool without blocks.
    pub fn new(records: Records<'a>, options: ReplayOptions, volume: u64) -> Player<'a> {
        if let Pacing::Closed { users } = options.pacing {
            assert!((1..=MAX_USERS).contains(&users), "{users} users");
        }
        Player {
            records,
            options,
            mapper: Mapper::new(options.mapping, volume),
            pool: options.pool.map(|pool| Pool::new(pool.blocks, volume)),
            next: None,
            ended: false,
            origin: None,
            arrived: 0,
            cleaning_at: 0,
            jobs: Vec::new(),
            idle: Vec::new(),
            busy: 0,
            runs: Vec::new(),
            blocks: Vec::new(),
            counts: PlayCounts::default(),
        }
    }

    /// What it did so far.
    pub fn counts(&self) -> PlayCounts {
        self.counts
    }

    /// What the mapping did so far.
    pub fn footprint(&self) -> Footprint {
        self.mapper.footprint()
    }

    /// How the pool did since this was last asked.
    pub fn take_pool_counts(&mut self) -> Option<PoolCounts> {
        self.pool.as_mut().map(Pool::take_counts)
    }

    /// Replays up to `most` records, until all of them are done; `observe` sees each. Changed
    /// blocks stay in the pool. Gives the number of records, less than `most` at the end.
    ///
    /// # Errors
    /// Wrong content, failed requests, halts, records that cannot be read or have no room. After
    /// an error the player and its driver must not be used again.
    pub fn play(
        &mut self,
        driver: &mut Driver,
        most: u64,
        observe: impl FnMut(&Completion),
    ) -> Result<u64, ReplayError> {
        let Driver { time, written } = driver;
        debug_assert_eq!(time.node.in_flight(), 0, "an earlier run was left unfinished");
        self.cleaning_at = time.now + self.cleaning_interval().unwrap_or(0);
        let requests = Requests::new(written, 0, MAX_REQUEST_BLOCKS);
        let turn = Turn { at: time.now, news: true };
        let mut phase = Phase { player: self, requests, left: most, turn, news: true, observe };
        time.drive(&mut phase)?;
        Ok(most - phase.left)
    }

    fn cleaning_interval(&self) -> Option<Time> {
        self.options.pool.and_then(|pool| pool.clean_every)
    }

    fn peek(&mut self) -> Result<Option<Record>, TraceError> {
        if self.next.is_none() && !self.ended {
            self.next = self.records.next().transpose()?;
            self.ended = self.next.is_none();
        }
        Ok(self.next)
    }

    /// When a record arrives by the clock of the driver.
    fn arrival(&self, record: &Record, now: Time) -> Time {
        let Pacing::Open { speed } = self.options.pacing else { return now };
        let Some((first, began)) = self.origin else { return now };
        let span = record.at_ns.saturating_sub(first) as f64 / speed;
        // Records are in order of time, up to what the recorder let slip.
        (began + span.round() as Time).max(self.arrived)
    }

    /// When the next record arrives, if nothing else keeps it back.
    fn next_arrival(&self, left: u64) -> Option<Time> {
        let open = matches!(self.options.pacing, Pacing::Open { .. });
        let waits = open && left > 0 && self.busy < MAX_USERS;
        self.next.as_ref().filter(|_| waits).map(|record| self.arrival(record, 0))
    }

    /// The next record that may begin at `now`, as a job; none if it has not arrived or too many
    /// are under way.
    fn next_job(&mut self, now: Time) -> Result<Option<u32>, ReplayError> {
        let most = match self.options.pacing {
            Pacing::Open { .. } => MAX_USERS,
            Pacing::Closed { users } => users,
        };
        debug_assert!(self.busy <= most, "{} of {most} users are busy", self.busy);
        if self.busy >= most {
            return Ok(None);
        }
        let Some(record) = self.peek()? else { return Ok(None) };
        let (first, _) = *self.origin.get_or_insert((record.at_ns, now));
        let arrived = self.arrival(&record, now);
        if arrived > now {
            return Ok(None);
        }
        self.next = None;
        self.counts.records += 1;
        self.counts.late += u64::from(arrived < now);
        self.counts.span_ns = self.counts.span_ns.max(record.at_ns.saturating_sub(first));
        self.arrived = arrived;
        self.runs.clear();
        self.mapper.map(&record, &mut self.runs)?;
        Ok(Some(self.job(&record, arrived)))
    }

    /// A record as a list of requests to the volume.
    fn job(&mut self, record: &Record, arrived: Time) -> u32 {
        let op = match record.action {
            Action::Read => Op::Read,
            Action::Write => Op::Write,
            Action::Trim => Op::Trim,
            Action::Flush => Op::Flush,
        };
        let index = self.new_job(op, arrived, true);
        let mut steps = std::mem::take(&mut self.jobs[index as usize].steps);
        if record.flush_first || op == Op::Flush {
            self.flush_pool(&mut steps);
            steps.push((1, Part::FLUSH));
        }
        if self.pool.is_some() {
            self.through_pool(op, record.fua, &mut steps);
        } else {
            let fua = record.fua;
            steps.extend(self.runs.iter().map(|&(at, count)| (3, Part { op, at, count, fua })));
        }
        let job = &mut self.jobs[index as usize];
        job.steps = steps;
        job.at = self.runs.first().map_or(0, |run| run.0);
        job.count = self.runs.iter().map(|run| run.1).sum();
        index
    }

    fn new_job(&mut self, op: Op, arrived: Time, awaited: bool) -> u32 {
        let index = self.idle.pop().unwrap_or_else(|| {
            self.jobs.push(Job {
                op,
                at: 0,
                count: 0,
                arrived,
                awaited,
                steps: Vec::new(),
                sent: 0,
                outstanding: 0,
                spent: Breakdown::default(),
            });
            // Jobs under way are few: see `MAX_USERS`.
            self.jobs.len() as u32 - 1
        });
        let job = &mut self.jobs[index as usize];
        (job.op, job.arrived, job.awaited, job.sent) = (op, arrived, awaited, 0);
        (job.at, job.count, job.outstanding, job.spent) = (0, 0, 0, Breakdown::default());
        job.steps.clear();
        self.busy += u32::from(awaited);
        index
    }

    /// What the pool holds back has to be written before a flush means anything.
    fn flush_pool(&mut self, steps: &mut Vec<(u8, Part)>) {
        let Some(pool) = &mut self.pool else { return };
        self.blocks.clear();
        pool.take_dirty(u64::MAX, &mut self.blocks);
        write_back(&mut self.blocks, 0, steps);
    }

    /// Reads of what is not in the pool, writes of what has to leave it, and what goes past it.
    fn through_pool(&mut self, op: Op, fua: bool, steps: &mut Vec<(u8, Part)>) {
        let Some(pool) = &mut self.pool else { return };
        let mut missing: Vec<Blocks> = Vec::new();
        self.blocks.clear();
        for &(at, count) in &self.runs {
            for block in at..at + u64::from(count) {
                if op == Op::Trim {
                    pool.forget(block);
                    continue;
                }
                let touch = pool.touch(block, op == Op::Write && !fua);
                self.blocks.extend(touch.victim);
                if op == Op::Read && !touch.hit {
                    push(&mut missing, block, 1);
                } else if op == Op::Write && fua {
                    pool.clean(block);
                }
            }
        }
        write_back(&mut self.blocks, 2, steps);
        let past = op == Op::Trim || fua && op == Op::Write;
        let runs = if past { &self.runs } else { &missing };
        steps.extend(runs.iter().map(|&(at, count)| (3, Part { op, at, count, fua })));
    }

    /// What the background cleaner of the pool writes at `now`, as a job, if it is time and there
    /// is something.
    fn cleaning_job(&mut self, now: Time) -> Option<u32> {
        let (Some(interval), Some(pool)) = (self.cleaning_interval(), &mut self.pool) else {
            return None;
        };
        if now < self.cleaning_at {
            return None;
        }
        self.cleaning_at = now + interval.max(1);
        self.blocks.clear();
        pool.take_dirty(CLEANED_AT_ONCE, &mut self.blocks);
        if self.blocks.is_empty() {
            return None;
        }
        let index = self.new_job(Op::Write, now, false);
        let mut blocks = std::mem::take(&mut self.blocks);
        write_back(&mut blocks, 0, &mut self.jobs[index as usize].steps);
        self.blocks = blocks;
        Some(index)
    }
}

/// A turn of the client.
#[derive(Clone, Copy, Debug)]
struct Turn {
    at: Time,
    /// It is the first one, or brought answers: the volume has to settle after it.
    news: bool,
}

/// A player while it replays a number of records: the client of the volume.
struct Phase<'p, 'a, F> {
    player: &'p mut Player<'a>,
    /// Each with its job.
    requests: Requests<'p, u32>,
    /// Records still to begin.
    left: u64,
    turn: Turn,
    /// Answers have come since the last turn.
    news: bool,
    observe: F,
}

impl<F: FnMut(&Completion)> Phase<'_, '_, F> {
    /// Sends the next requests of a job, those of one phase of it together, or ends it.
    fn go_on(&mut self, index: u32, below: &mut Below<'_>) {
        let job = &mut self.player.jobs[index as usize];
        debug_assert_eq!(job.outstanding, 0, "one phase after the other");
        if let Some(&(phase, _)) = job.steps.get(job.sent) {
            while let Some((_, part)) = job.steps.get(job.sent).filter(|step| step.0 == phase) {
                self.requests.send(*part, index, below);
                job.sent += 1;
                job.outstanding += 1;
            }
            return;
        }
        if job.awaited {
            let spent = job.spent.within(below.now() - job.arrived);
            let Job { op, at, count, arrived, .. } = *job;
            (self.observe)(&Completion { op, at, count, submitted: arrived, spent });
            self.player.busy -= 1;
        }
        self.player.idle.push(index);
    }
}

impl<F: FnMut(&Completion)> Client for Phase<'_, '_, F> {
    type Error = ReplayError;

    fn complete(
        &mut self,
        _port: Port,
        done: Done,
        below: &mut Below<'_>,
    ) -> Result<(), ReplayError> {
        self.news = true;
        let (part, index) = self.requests.finish(done, below.now())?;
        let job = &mut self.player.jobs[index as usize];
        debug_assert!(job.outstanding > 0, "an answer to a request of its job");
        job.outstanding -= 1;
        if job.outstanding == 0 {
            // The parts of a phase went out together: the last one took as long as the phase.
            job.spent.add(&part.spent);
            self.go_on(index, below);
        }
        Ok(())
    }

    fn pump(&mut self, below: &mut Below<'_>) -> Result<(), ReplayError> {
        self.turn = Turn { at: below.now(), news: std::mem::take(&mut self.news) };
        while self.left > 0
            && let Some(job) = self.player.next_job(below.now())?
        {
            self.left -= 1;
            self.go_on(job, below);
        }
        if let Some(job) = self.player.cleaning_job(below.now()) {
            self.go_on(job, below);
        }
        Ok(())
    }

    fn deadline(&self) -> Option<Time> {
        let over = self.left == 0 || self.player.ended;
        if over && self.requests.is_empty() {
            // The phase ends when the volume has settled after its last answer.
            return Some(self.turn.at).filter(|_| self.turn.news);
        }
        let cleaning = self.player.cleaning_interval().map(|_| self.player.cleaning_at);
        [self.player.next_arrival(self.left), cleaning].into_iter().flatten().min()
    }
}

/// Writes of single blocks, those side by side in one.
fn write_back(blocks: &mut [BlockNr], phase: u8, steps: &mut Vec<(u8, Part)>) {
    blocks.sort_unstable();
    let mut runs: Vec<Blocks> = Vec::new();
    for &block in &*blocks {
        push(&mut runs, block, 1);
    }
    let part = |&(at, count): &Blocks| (phase, Part { op: Op::Write, at, count, fua: false });
    steps.extend(runs.iter().map(part));
}

#[cfg(test)]
mod tests;
