//! Described workloads: what the simulated clients ask for, as a function of the seed alone.

use crate::distribution::{Distribution, Sampler};
use seekless_engine::rng::Rng;
use seekless_engine::units::{BLOCK_BYTES, BlockNr, Time};
use serde::Serialize;
use std::collections::VecDeque;

/// Longest request a workload may issue, in blocks of 4 KiB (4 MiB).
pub const MAX_REQUEST_BLOCKS: u32 = 1024;

/// Deepest queue a workload may keep.
pub const MAX_DEPTH: u32 = 4096;

/// Most requests in one phase of a run: versions are numbered with 32 bits.
pub const MAX_REQUESTS: u64 = 1_000_000_000;

/// Where requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Random places, aligned to the request size, as [`Workload::distribution`] says.
    Random,
    /// One request after the other, starting over at the end of the range.
    Sequential,
}

/// Requests in groups with a pause after each: the pause is when background work can run unseen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bursts {
    /// Requests in each group, at least 1.
    pub requests: u64,
    /// Length of the pause, counted from the last answer, in nanoseconds of virtual time.
    pub idle_ns: Time,
}

/// A described workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Workload {
    /// Where requests go.
    pub pattern: Pattern,
    /// How often which of the random places is asked for.
    pub distribution: Distribution,
    /// Share of requests that read, from 0 (all write) to 1 (all read).
    pub read_share: f64,
    /// Length of a request in blocks of 4 KiB, 1 to [`MAX_REQUEST_BLOCKS`].
    pub request_blocks: u32,
    /// Requests kept in flight: each answer lets the next one go. 1 to [`MAX_DEPTH`].
    pub depth: u32,
    /// Writes ask to be durable before they are answered (forced unit access).
    pub fua: bool,
    /// A flush after this many writes, if any.
    pub flush_every: Option<u64>,
    /// Pause of each client between an answer and its next request, in nanoseconds.
    pub think_ns: Time,
    /// Requests in groups with a pause after each.
    pub bursts: Option<Bursts>,
    /// Share of the live data, from its start, that the requests go to: above 0, at most 1.
    pub range: f64,
    /// Requests to measure, 1 to [`MAX_REQUESTS`]. Flushes come on top.
    pub requests: u64,
    /// Requests of the same kind before the measured ones, at most [`MAX_REQUESTS`].
    pub warm_up: u64,
}

impl Default for Workload {
    /// Random updates of one block, one at a time: what the papers measure.
    fn default() -> Workload {
        Workload {
            pattern: Pattern::Random,
            distribution: Distribution::Uniform,
            read_share: 0.0,
            request_blocks: 1,
            depth: 1,
            fua: false,
            flush_every: None,
            think_ns: 0,
            bursts: None,
            range: 1.0,
            requests: 20_000,
            warm_up: 0,
        }
    }
}

/// Why a described workload cannot be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    /// The read share is not a share.
    #[error("read share {0}: must lie between 0 (only writes) and 1 (only reads)")]
    ReadShare(f64),
    /// The request size is out of range.
    #[error("requests of {0} blocks of 4 KiB: must be 1 to {MAX_REQUEST_BLOCKS} blocks")]
    RequestBlocks(u32),
    /// The request size is not a whole number of blocks.
    #[error("requests of {0} bytes: must be a multiple of 4096 bytes, at least one")]
    RequestBytes(u64),
    /// The queue depth is out of range.
    #[error("queue depth {0}: must be 1 to {MAX_DEPTH}")]
    Depth(u32),
    /// More requests than a run can have.
    #[error("{0} requests: at most {MAX_REQUESTS} in one run")]
    Requests(u64),
    /// The same before the measured ones.
    #[error("{0} requests to warm up (--warm-up): at most {MAX_REQUESTS} in one run")]
    WarmUp(u64),
    /// A count that must not be zero is zero.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// The range is not a share.
    #[error("range {0}: must be a share of the live data, above 0 and at most 1")]
    Range(f64),
    /// The range is shorter than one request.
    #[error(
        "the range has {range} blocks of 4 KiB but a request needs {request}; \
         use smaller requests or a larger range"
    )]
    RangeTooShort {
        /// Blocks in the range.
        range: u64,
        /// Blocks in a request.
        request: u32,
    },
}

/// The length of requests of `bytes` bytes, in blocks.
///
/// # Errors
/// Sizes that are not a whole number of blocks, or too large.
pub fn request_blocks(bytes: u64) -> Result<u32, WorkloadError> {
    if bytes == 0 || !bytes.is_multiple_of(BLOCK_BYTES as u64) {
        return Err(WorkloadError::RequestBytes(bytes));
    }
    let blocks = u32::try_from(bytes / BLOCK_BYTES as u64).unwrap_or(u32::MAX);
    if blocks > MAX_REQUEST_BLOCKS {
        return Err(WorkloadError::RequestBlocks(blocks));
    }
    Ok(blocks)
}

impl Workload {
    /// Checks the description against `live` blocks of live data.
    ///
    /// # Errors
    /// The first number that is out of its range.
    pub fn check(&self, live: u64) -> Result<(), WorkloadError> {
        if !(0.0..=1.0).contains(&self.read_share) {
            return Err(WorkloadError::ReadShare(self.read_share));
        }
        if !(1..=MAX_REQUEST_BLOCKS).contains(&self.request_blocks) {
            return Err(WorkloadError::RequestBlocks(self.request_blocks));
        }
        if !(1..=MAX_DEPTH).contains(&self.depth) {
            return Err(WorkloadError::Depth(self.depth));
        }
        if self.requests == 0 {
            return Err(WorkloadError::Zero("the number of requests"));
        }
        if self.requests > MAX_REQUESTS {
            return Err(WorkloadError::Requests(self.requests));
        }
        if self.warm_up > MAX_REQUESTS {
            return Err(WorkloadError::WarmUp(self.warm_up));
        }
        if self.flush_every == Some(0) {
            return Err(WorkloadError::Zero("the number of writes between flushes"));
        }
        if self.bursts.is_some_and(|bursts| bursts.requests == 0) {
            return Err(WorkloadError::Zero("the number of requests in a burst"));
        }
        if !(self.range > 0.0 && self.range <= 1.0) {
            return Err(WorkloadError::Range(self.range));
        }
        let range = self.range_blocks(live);
        if range < u64::from(self.request_blocks) {
            return Err(WorkloadError::RangeTooShort { range, request: self.request_blocks });
        }
        Ok(())
    }

    /// Blocks that the requests go to, out of `live` blocks of live data.
    pub fn range_blocks(&self, live: u64) -> u64 {
        (live as f64 * self.range).round() as u64
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Read these blocks.
    Read {
        /// First block.
        at: BlockNr,
    },
    /// Write these blocks.
    Write {
        /// First block.
        at: BlockNr,
    },
    /// Flush.
    Flush,
}

/// Turns a description into requests. Kinds and places are drawn from streams of their own, so
/// that another read share leaves the places as they are.
#[derive(Clone, Debug)]
pub struct Generator {
    pattern: Pattern,
    read_share: f64,
    request_blocks: u64,
    places: u64,
    sampler: Sampler,
    cursor: u64,
    flush_every: u64,
    writes_left: u64,
    kinds: Rng,
    addresses: Rng,
}

impl Generator {
    /// The requests of `workload` over blocks `0..range`. `phase` names the streams of randomness.
    ///
    /// # Panics
    /// If the range is shorter than one request; [`Workload::check`] reports that properly.
    pub fn new(workload: &Workload, range: u64, seed: u64, phase: &str) -> Generator {
        let request_blocks = u64::from(workload.request_blocks);
        assert!(range >= request_blocks, "a range of {range} blocks");
        let flush_every = workload.flush_every.unwrap_or(u64::MAX);
        let places = range / request_blocks;
        Generator {
            pattern: workload.pattern,
            read_share: workload.read_share,
            request_blocks,
            places,
            // All phases have the same popular places.
            sampler: Sampler::new(workload.distribution, places, seed),
            cursor: 0,
            flush_every,
            writes_left: flush_every,
            kinds: Rng::stream(seed, &format!("{phase} kinds")),
            addresses: Rng::stream(seed, &format!("{phase} addresses")),
        }
    }

    /// A sequential pass over blocks `0..range` that begins at block `at`.
    ///
    /// # Panics
    /// If `at` lies outside the range or between two requests.
    pub fn starting_at(workload: &Workload, range: u64, at: BlockNr) -> Generator {
        let mut generator = Generator::new(workload, range, 0, "sequential");
        assert_eq!(generator.pattern, Pattern::Sequential, "random requests start nowhere");
        assert_eq!(at % generator.request_blocks, 0, "block {at} begins no request");
        generator.cursor = at / generator.request_blocks;
        assert!(generator.cursor < generator.places, "block {at} of {range}");
        generator
    }

    /// The next request.
    pub fn next_request(&mut self) -> Request {
        if self.writes_left == 0 {
            self.writes_left = self.flush_every;
            return Request::Flush;
        }
        let place = match self.pattern {
            Pattern::Random => self.sampler.draw(&mut self.addresses),
            Pattern::Sequential => {
                let place = self.cursor;
                self.cursor = if place + 1 == self.places { 0 } else { place + 1 };
                place
            }
        };
        let at = place * self.request_blocks;
        let reads =
            self.read_share >= 1.0 || self.read_share > 0.0 && self.kinds.chance(self.read_share);
        if reads {
            return Request::Read { at };
        }
        self.writes_left -= 1;
        Request::Write { at }
    }
}

/// Requests that are drawn together, ahead: what is known of their blocks lies all over the memory,
/// and is fetched side by side that way.
const AHEAD: usize = 32;

/// A number of requests of a generator, and the flushes between them.
#[derive(Debug)]
pub struct Upcoming<'g> {
    generator: &'g mut Generator,
    /// Requests still to be drawn, flushes not counted.
    left: u64,
    drawn: VecDeque<Request>,
}

impl Upcoming<'_> {
    /// The next `requests` requests.
    pub fn new(generator: &mut Generator, requests: u64) -> Upcoming<'_> {
        Upcoming { generator, left: requests, drawn: VecDeque::with_capacity(AHEAD) }
    }

    /// The next one, if there is another. `expect` is told of the blocks of those to come.
    pub fn next(&mut self, expect: impl Fn(BlockNr)) -> Option<Request> {
        let more = self.drawn.is_empty();
        while self.left > 0 && more && self.drawn.len() < AHEAD {
            let request = self.generator.next_request();
            if let Request::Read { at } | Request::Write { at } = request {
                self.left -= 1;
                expect(at);
            }
            self.drawn.push_back(request);
        }
        self.drawn.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn workload() -> Workload {
        Workload { request_blocks: 4, read_share: 0.5, ..Workload::default() }
    }

    #[test]
    fn a_flush_follows_every_third_write() {
        let workload = Workload { flush_every: Some(3), ..Workload::default() };
        let mut generator = Generator::new(&workload, 100, 1, "test");
        for index in 1..=40 {
            let flush = generator.next_request() == Request::Flush;
            assert_eq!(flush, index % 4 == 0, "request {index}");
        }
    }

    #[test]
    fn sequential_requests_wrap_at_the_end() {
        let workload = Workload { pattern: Pattern::Sequential, read_share: 1.0, ..workload() };
        let mut generator = Generator::new(&workload, 11, 1, "test");
        let places: Vec<_> = (0..5).map(|_| generator.next_request()).collect();
        let expected = [0, 4, 0, 4, 0].map(|at| Request::Read { at });
        assert_eq!(places, expected);
    }

    #[test]
    fn the_read_share_leaves_the_places_alone() {
        let place = |request| match request {
            Request::Read { at } | Request::Write { at } => at,
            Request::Flush => panic!("no flush was asked for"),
        };
        let mut half = Generator::new(&workload(), 4000, 3, "test");
        let none = Workload { read_share: 0.0, ..workload() };
        let mut none = Generator::new(&none, 4000, 3, "test");
        for _ in 0..200 {
            assert_eq!(place(half.next_request()), place(none.next_request()));
        }
    }

    #[test]
    fn senseless_numbers_are_named() {
        let base = workload();
        let bad = [
            Workload { read_share: 1.5, ..base.clone() },
            Workload { read_share: f64::NAN, ..base.clone() },
            Workload { request_blocks: 0, ..base.clone() },
            Workload { request_blocks: MAX_REQUEST_BLOCKS + 1, ..base.clone() },
            Workload { depth: 0, ..base.clone() },
            Workload { depth: MAX_DEPTH + 1, ..base.clone() },
            Workload { requests: 0, ..base.clone() },
            Workload { requests: MAX_REQUESTS + 1, ..base.clone() },
            Workload { warm_up: MAX_REQUESTS + 1, ..base.clone() },
            Workload { flush_every: Some(0), ..base.clone() },
            Workload { bursts: Some(Bursts { requests: 0, idle_ns: 1 }), ..base.clone() },
            Workload { range: 0.0, ..base.clone() },
            Workload { range: f64::NAN, ..base.clone() },
            Workload { range: 0.001, ..base.clone() },
        ];
        for workload in bad {
            assert!(workload.check(1000).is_err(), "{workload:?}");
        }
        assert_eq!(base.check(1000), Ok(()));
        assert_eq!(request_blocks(8192), Ok(2));
        for bytes in [0, 1, 4097, u64::MAX - 4095, 8 << 20] {
            assert!(request_blocks(bytes).is_err(), "{bytes}");
        }
    }

    #[test]
    fn popular_places_are_the_same_in_all_phases() {
        let distribution = Distribution::HotCold { references: 0.95, pages: 0.01 };
        let skewed = Workload { distribution, request_blocks: 1, read_share: 0.0, ..workload() };
        let popular = |phase| {
            let mut hits = vec![0_u32; 1000];
            let mut generator = Generator::new(&skewed, 1000, 5, phase);
            for _ in 0..5000 {
                if let Request::Write { at } = generator.next_request() {
                    hits[at as usize] += 1;
                }
            }
            (0..1000).filter(|&place| hits[place] > 100).collect::<Vec<_>>()
        };
        assert_eq!(popular("one").len(), 10);
        assert_eq!(popular("one"), popular("other"));
    }

    proptest! {
        #[test]
        fn every_request_stays_in_its_range(
            range in 1_u64..5000,
            blocks in 1_u32..64,
            sequential: bool,
            seed: u64,
        ) {
            let pattern = if sequential { Pattern::Sequential } else { Pattern::Random };
            let workload = Workload { pattern, request_blocks: blocks, ..workload() };
            prop_assume!(range >= u64::from(blocks));
            let mut generator = Generator::new(&workload, range, seed, "test");
            for _ in 0..100 {
                let (Request::Read { at } | Request::Write { at }) = generator.next_request()
                else {
                    panic!("no flush was asked for");
                };
                prop_assert!(at + u64::from(blocks) <= range);
                prop_assert_eq!(at % u64::from(blocks), 0);
            }
        }
    }
}
