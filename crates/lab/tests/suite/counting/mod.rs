//! A log with a cleaner that only counts: segments, pages, and moved pages. It shares no code with
//! the engine or the simulator, so that the two can be compared, as TinySim and the layouts are in
//! section 5.1 of the HyLog paper.

/// Parameters of a count.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Segments of the disk, and pages in each.
    pub segments: usize,
    pub slots: usize,
    /// Live pages.
    pub pages: usize,
    /// A segment is cleaned whenever fewer than this are free; so many are chosen at once.
    pub low: usize,
    pub pass: usize,
    /// One page in ten gets nine tenths of the writes.
    pub skewed: bool,
    /// Moved pages fill segments of their own; else they share those of new pages.
    pub apart: bool,
}

/// Pages that were written and read after the counts were last taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// By clients, in all.
    pub asked: usize,
    /// New pages, and moved ones.
    pub logged: usize,
    pub moved: usize,
    /// Slots of segments that were cleaned.
    pub read: usize,
}

impl Counts {
    /// Pages that the disk transfers for each one that a client writes.
    pub fn cost(&self) -> f64 {
        (self.logged + self.moved + self.read) as f64 / self.asked as f64
    }
}

const NONE: usize = usize::MAX;

#[derive(Clone, Debug, Default)]
struct Segment {
    /// Page in each slot, whether or not it still lies there.
    pages: Vec<usize>,
    live: usize,
    youngest: u64,
    full: bool,
}

/// The disk.
#[derive(Debug)]
pub struct Counting {
    setup: Setup,
    /// Segment and slot of each page; none for one that waits.
    places: Vec<(usize, usize)>,
    segments: Vec<Segment>,
    free: Vec<usize>,
    /// New pages that wait for a segment, and moved ones with their ages.
    new: Vec<usize>,
    moved: Vec<(usize, u64)>,
    /// Segments that were chosen to be cleaned.
    victims: Vec<usize>,
    clock: u64,
    random: u64,
    counts: Counts,
}

impl Counting {
    /// All pages have been written once, in order.
    pub fn new(setup: Setup) -> Counting {
        let mut all = Counting {
            setup,
            places: vec![(NONE, 0); setup.pages],
            segments: vec![Segment::default(); setup.segments],
            free: (0..setup.segments).rev().collect(),
            new: Vec::new(),
            moved: Vec::new(),
            victims: Vec::new(),
            clock: 0,
            random: 1,
            counts: Counts::default(),
        };
        for first in (0..setup.pages).step_by(setup.slots) {
            let last = (first + setup.slots).min(setup.pages);
            all.fill((first..last).map(|page| (page, 0)).collect());
        }
        all
    }

    /// Lets a client write so many pages.
    pub fn write(&mut self, count: usize) -> Counts {
        self.counts = Counts::default();
        for _ in 0..count {
            let page = self.draw();
            self.clock += 1;
            self.counts.asked += 1;
            self.update(page);
            while self.free.len() < self.setup.low {
                self.clean();
            }
        }
        self.counts
    }

    /// Splitmix64.
    fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn draw(&mut self) -> usize {
        let pages = self.setup.pages;
        if !self.setup.skewed {
            return self.below(pages);
        }
        // Every tenth page is hot.
        let group = self.below(pages / 10) * 10;
        if self.below(10) < 9 { group } else { group + 1 + self.below(9) }
    }

    fn update(&mut self, page: usize) {
        let (segment, _) = self.places[page];
        if segment == NONE {
            // The page waits in a buffer: replace its content. A page that was being moved counts
            // as new from here on.
            let Some(index) = self.moved.iter().position(|one| one.0 == page) else { return };
            self.moved.swap_remove(index);
        } else {
            self.leave(page);
        }
        self.new.push(page);
        self.fill_segments();
    }

    fn leave(&mut self, page: usize) {
        let (segment, _) = std::mem::replace(&mut self.places[page], (NONE, 0));
        let one = &mut self.segments[segment];
        one.live -= 1;
        if one.live == 0 && one.full {
            self.release(segment);
        }
    }

    fn release(&mut self, segment: usize) {
        self.segments[segment] = Segment::default();
        self.free.insert(0, segment);
    }

    /// Writes out a full segment.
    fn fill_segments(&mut self) {
        let (slots, now) = (self.setup.slots, self.clock);
        if self.setup.apart {
            if self.new.len() >= slots {
                let pages: Vec<_> = self.new.drain(..).map(|page| (page, now)).collect();
                self.counts.logged += pages.len();
                self.fill(pages);
            }
            if self.moved.len() >= slots {
                let pages: Vec<_> = self.moved.drain(..).collect();
                self.counts.moved += pages.len();
                self.fill(pages);
            }
        } else if self.new.len() + self.moved.len() >= slots {
            self.counts.logged += self.new.len();
            self.counts.moved += self.moved.len();
            let pages = self.new.drain(..).map(|page| (page, now)).chain(self.moved.drain(..));
            let pages = pages.collect();
            self.fill(pages);
        }
    }

    fn fill(&mut self, pages: Vec<(usize, u64)>) {
        let segment = self.free.pop().expect("the cleaner keeps segments free");
        for (slot, &(page, age)) in pages.iter().enumerate() {
            self.places[page] = (segment, slot);
            let one = &mut self.segments[segment];
            one.pages.push(page);
            one.live += 1;
            one.youngest = one.youngest.max(age);
        }
        self.segments[segment].full = true;
    }

    /// The segments with the most benefit for their cost, the best one last.
    fn choose(&mut self) {
        let slots = self.setup.slots as f64;
        let worth = |one: &Segment| {
            let used = one.live as f64 / slots;
            (1.0 - used) * (self.clock + 1 - one.youngest) as f64 / (1.0 + used)
        };
        let full = self.segments.iter().enumerate().filter(|one| one.1.full);
        let mut all: Vec<_> = full.map(|(index, one)| (worth(one), index)).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let chosen = all.split_off(all.len().saturating_sub(self.setup.pass));
        self.victims = chosen.into_iter().map(|one| one.1).collect();
    }

    /// Cleans the next segment.
    fn clean(&mut self) {
        let victim = loop {
            match self.victims.pop() {
                None => self.choose(),
                Some(victim) if self.segments[victim].full => break victim,
                Some(_) => {}
            }
        };
        self.counts.read += self.setup.slots;
        // It is free when its last page has been moved.
        let Segment { pages, youngest, .. } = self.segments[victim].clone();
        for (slot, page) in pages.into_iter().enumerate() {
            if self.places[page] == (victim, slot) {
                self.leave(page);
                self.moved.push((page, youngest));
                self.fill_segments();
            }
        }
    }
}
