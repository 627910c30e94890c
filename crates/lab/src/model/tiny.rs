//! The smallest simulator of a log with a cleaner: page numbers and counters, no time, no content.
//!
//! It checks the cost model as the random simulations check the other models. It shares no code
//! with the layouts of the engine, so that they can be compared too (as TinySim in section 5.1 of
//! the HyLog paper, claim H18). All space of the disk is segments, and the map is in memory. Reads
//! and writes of the cleaner are counted, and their cost follows from *η* alone.

mod cleaner;
#[cfg(test)]
mod tests;

use super::{ModelError, below_one};
use crate::distribution::{Distribution, Sampler};
use seekless_engine::rng::Rng;

/// No page, no slot.
const NONE: u32 = u32::MAX;

/// Most pages of a simulated disk.
const MOST_PAGES: u64 = 1 << 28;

/// How pages are written and space is reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// In place: nothing is ever cleaned.
    Overwrite,
    /// A log; the oldest segment is cleaned, whatever its utilisation.
    Fifo,
    /// A log; the segment with the fewest live pages is cleaned.
    Greedy,
    /// A log; segments are cleaned by benefit over cost, *(1−u)·age/(1+u)*, the age being the time
    /// since the youngest page of the segment was written (Rosenblum and Ousterhout).
    CostAge,
    /// A log; the live pages of the emptiest segments go to the holes of the fullest ones.
    Plugging,
    /// A log; each pass does the cheaper one of [`Policy::CostAge`] and [`Policy::Plugging`].
    Adaptive,
}

/// What to simulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// Segments of the disk.
    pub segments: u32,
    /// Pages in a segment, the *S* of the model.
    pub pages_per_segment: u32,
    /// Share of all pages that are live, above 0 and below 1.
    pub utilisation: f64,
    /// How often each page is written.
    pub distribution: Distribution,
    /// The policy.
    pub policy: Policy,
    /// *η*, by which the adaptive cleaner compares, at least 1.
    pub efficiency: f64,
    /// Segments that are collected in memory before they are written, sorted so that pages that
    /// were written often lie together. 0 is a log without buffer: every page gets its slot at
    /// once. With 1, pages that are rewritten before the segment is full cost nothing. From 2 on it
    /// is the reordering buffer of WOLF (Wang and Hu, FAST 2002).
    pub buffered: u32,
    /// The cleaner starts when fewer segments than this are free.
    pub free_segments: u32,
    /// Segments that a pass of the cleaner takes; 1 for [`Policy::Fifo`] and [`Policy::Greedy`].
    pub pass_segments: u32,
    /// Seed of all randomness.
    pub seed: u64,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            segments: 1000,
            pages_per_segment: 64,
            utilisation: 0.8,
            distribution: Distribution::Uniform,
            policy: Policy::Greedy,
            efficiency: 1.0,
            buffered: 0,
            free_segments: 3,
            pass_segments: 1,
            seed: 1,
        }
    }
}

/// Result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Pages that the client wrote.
    pub client_pages: u64,
    /// Pages written in place.
    pub in_place_pages: u64,
    /// Pages of the client written to the log: fewer than it wrote if the buffer absorbed some.
    pub logged_pages: u64,
    /// Segments that the cleaner read.
    pub cleaner_segments: u64,
    /// Live pages that it wrote to new segments.
    pub copied_pages: u64,
    /// Live pages that it wrote to holes, one by one.
    pub plugged_pages: u64,
    /// Passes of the cleaner that copied, and that plugged.
    pub passes: (u64, u64),
    /// Pages in a segment.
    pub pages_per_segment: u32,
}

impl Counts {
    /// Mean share of live pages in the segments that were cleaned, the *u* of the model; 0 if none
    /// was.
    pub fn cleaning_utilisation(&self) -> f64 {
        let read = self.cleaner_segments * u64::from(self.pages_per_segment);
        if read == 0 {
            return 0.0;
        }
        (self.copied_pages + self.plugged_pages) as f64 / read as f64
    }

    /// Time of all reads and writes over the time that the pages of the client take in segments:
    /// the scaled cost of the model. 0 if nothing was written.
    pub fn scaled_cost(&self, eta: f64) -> f64 {
        if self.client_pages == 0 {
            return 0.0;
        }
        let read = self.cleaner_segments * u64::from(self.pages_per_segment);
        let in_segments = self.logged_pages + read + self.copied_pages;
        let alone = self.in_place_pages + self.plugged_pages;
        (in_segments as f64 + eta * alone as f64) / self.client_pages as f64
    }
}

/// State of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Empty.
    Free,
    /// Being filled.
    Open,
    /// Full, except for the holes of rewritten pages.
    Closed,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    state: State,
    live: u32,
    /// When it was closed: numbers that count up.
    closed: u64,
    /// When its youngest page was written by the client.
    youngest: u64,
}

/// Where pages are appended.
#[derive(Clone, Copy, Debug)]
struct Head {
    segment: u32,
    used: u32,
}

/// A disk of segments.
#[derive(Debug)]
pub struct Tiny {
    setup: Setup,
    pages: u32,
    sampler: Sampler,
    rng: Rng,
    /// Slot of each page.
    slots: Vec<u32>,
    /// Page in each slot.
    owners: Vec<u32>,
    /// When each page was last written by the client.
    written: Vec<u64>,
    segments: Vec<Segment>,
    free: Vec<u32>,
    client: Option<Head>,
    cleaner: Option<Head>,
    /// Pages in memory, and how often each was written lately.
    buffer: Vec<u32>,
    popularity: Vec<u32>,
    clock: u64,
    closings: u64,
    counts: Counts,
}

impl Tiny {
    /// A disk on which every page has been written once, in order.
    ///
    /// # Errors
    /// Numbers that leave the cleaner no free space, or that do not fit memory.
    pub fn new(setup: Setup) -> Result<Tiny, ModelError> {
        let utilisation = below_one("utilisation", setup.utilisation)?;
        let room = u64::from(setup.segments) * u64::from(setup.pages_per_segment);
        if room == 0 || room > MOST_PAGES {
            let (what, range) = ("pages of a simulated disk", "1 to 2^28");
            return Err(ModelError::Range { what, value: room as f64, range });
        }
        let pages = ((room as f64 * utilisation) as u32).max(1);
        let full = pages.div_ceil(setup.pages_per_segment);
        let spare = setup.segments.saturating_sub(full);
        // The cleaner runs while so many are free. It needs one segment itself, the client needs
        // another, and there must be holes elsewhere.
        let needed = setup.free_segments + setup.buffered + 3;
        if spare < needed || setup.pass_segments == 0 || setup.free_segments == 0 {
            let (what, range) = ("spare segments", "enough for the cleaner: take more segments");
            return Err(ModelError::Range { what, value: f64::from(spare), range });
        }
        let empty = Segment { state: State::Free, live: 0, closed: 0, youngest: 0 };
        let mut tiny = Tiny {
            setup,
            pages,
            sampler: Sampler::new(setup.distribution, u64::from(pages), setup.seed),
            rng: Rng::stream(setup.seed, "tiny"),
            slots: vec![NONE; pages as usize],
            owners: vec![NONE; room as usize],
            written: vec![0; pages as usize],
            segments: vec![empty; setup.segments as usize],
            free: (0..setup.segments).rev().collect(),
            client: None,
            cleaner: None,
            buffer: Vec::new(),
            popularity: vec![0; if setup.buffered > 0 { pages as usize } else { 0 }],
            clock: 0,
            closings: 0,
            counts: Counts::default(),
        };
        if setup.policy != Policy::Overwrite {
            (0..pages).for_each(|page| tiny.append(page, false));
        }
        Ok(tiny)
    }

    /// Pages that the client can write.
    pub fn pages(&self) -> u64 {
        u64::from(self.pages)
    }

    /// Writes so many pages for the client, and returns the result.
    pub fn run(&mut self, writes: u64) -> Counts {
        let pages_per_segment = self.setup.pages_per_segment;
        self.counts = Counts { client_pages: writes, pages_per_segment, ..Counts::default() };
        for _ in 0..writes {
            let page = self.sampler.draw(&mut self.rng) as u32;
            self.clock += 1;
            self.written[page as usize] = self.clock;
            if self.setup.policy == Policy::Overwrite {
                self.counts.in_place_pages += 1;
            } else if self.setup.buffered > 0 {
                self.collect(page);
            } else {
                self.log(page);
            }
        }
        self.counts
    }

    /// Puts a page of the client into the log.
    fn log(&mut self, page: u32) {
        self.counts.logged_pages += 1;
        self.invalidate(page);
        self.append(page, false);
        while self.free.len() < self.setup.free_segments as usize {
            self.clean();
        }
    }

    /// Takes a page into the buffer, and writes the buffer out once it is full.
    fn collect(&mut self, page: u32) {
        self.popularity[page as usize] += 1;
        if self.slots[page as usize] == NONE {
            return;
        }
        // Its copy on the disk is out of date.
        self.invalidate(page);
        self.buffer.push(page);
        let room = self.setup.buffered * self.setup.pages_per_segment;
        if self.buffer.len() < room as usize {
            return;
        }
        let mut pages = std::mem::take(&mut self.buffer);
        let popularity = &self.popularity;
        pages.sort_by_key(|&page| (std::cmp::Reverse(popularity[page as usize]), page));
        for page in pages.drain(..) {
            self.log(page);
        }
        self.buffer = pages;
        // Popularity decays: each flush halves it.
        self.popularity.iter_mut().for_each(|count| *count /= 2);
    }

    fn segment_of(&self, slot: u32) -> usize {
        (slot / self.setup.pages_per_segment) as usize
    }

    /// Leaves a hole where a page lies.
    fn invalidate(&mut self, page: u32) {
        let slot = std::mem::replace(&mut self.slots[page as usize], NONE);
        if slot == NONE {
            return;
        }
        self.owners[slot as usize] = NONE;
        let segment = self.segment_of(slot);
        self.segments[segment].live -= 1;
    }

    fn occupy(&mut self, page: u32, slot: u32) {
        self.slots[page as usize] = slot;
        self.owners[slot as usize] = page;
        let written = self.written[page as usize];
        let index = self.segment_of(slot);
        let segment = &mut self.segments[index];
        segment.live += 1;
        segment.youngest = segment.youngest.max(written);
    }

    /// Appends a page to the log of the client or to that of the cleaner.
    fn append(&mut self, page: u32, by_cleaner: bool) {
        let head = if by_cleaner { self.cleaner } else { self.client };
        let mut head = head.unwrap_or_else(|| self.open());
        self.occupy(page, head.segment * self.setup.pages_per_segment + head.used);
        head.used += 1;
        let full = head.used == self.setup.pages_per_segment;
        if full {
            self.closings += 1;
            let segment = &mut self.segments[head.segment as usize];
            segment.state = State::Closed;
            segment.closed = self.closings;
        }
        let next = (!full).then_some(head);
        if by_cleaner {
            self.cleaner = next;
        } else {
            self.client = next;
        }
    }

    fn open(&mut self) -> Head {
        let segment = self.free.pop().expect("the cleaner keeps segments free");
        let state = &mut self.segments[segment as usize];
        debug_assert_eq!((state.state, state.live), (State::Free, 0));
        state.state = State::Open;
        state.youngest = 0;
        Head { segment, used: 0 }
    }
}
