//! A buffer pool: pages that a client keeps in memory, the least recently used leaving first.
//!
//! Section 5 of the HyLog paper: write-back, and a page that was changed is written when its frame
//! is taken. The pool holds numbers, no content; what reaches the disk is the caller's business.

use seekless_engine::units::BlockNr;
use serde::Serialize;

const NONE: u32 = u32::MAX;
const PAGE: usize = 512;

#[derive(Clone, Copy, Debug)]
struct Frame {
    block: BlockNr,
    /// Towards the more recently used.
    newer: u32,
    /// Towards the less recently used.
    older: u32,
    dirty: bool,
}

/// How a pool did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PoolCounts {
    /// Blocks asked for that were there.
    pub hits: u64,
    /// Blocks that were not.
    pub misses: u64,
    /// Changed blocks written because their frame was needed.
    pub evicted: u64,
    /// Changed blocks written ahead of that, by the background cleaner or a flush.
    pub cleaned: u64,
}

/// What asking for a block came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// It was there.
    pub hit: bool,
    /// This changed block had to leave and must be written.
    pub victim: Option<BlockNr>,
}

/// Frames in order of use.
#[derive(Clone, Debug)]
pub struct Pool {
    frames: Vec<Frame>,
    most: usize,
    /// Frames that hold nothing.
    free: Vec<u32>,
    /// Frame of each block, sparse.
    index: Vec<Option<Box<[u32; PAGE]>>>,
    newest: u32,
    oldest: u32,
    dirty: u64,
    counts: PoolCounts,
}

impl Pool {
    /// An empty pool of `frames` blocks (1 and more, below 2³²) over a volume of `blocks` blocks.
    ///
    /// # Panics
    /// If there are no frames, or too many.
    pub fn new(frames: u64, blocks: u64) -> Pool {
        assert!(frames > 0 && frames < u64::from(NONE), "a pool of {frames} blocks");
        let pages = usize::try_from(blocks.div_ceil(PAGE as u64)).expect("pages fit memory");
        Pool {
            frames: Vec::new(),
            most: frames as usize,
            free: Vec::new(),
            index: vec![None; pages],
            newest: NONE,
            oldest: NONE,
            dirty: 0,
            counts: PoolCounts::default(),
        }
    }

    /// How it did since it was last asked.
    pub fn take_counts(&mut self) -> PoolCounts {
        std::mem::take(&mut self.counts)
    }

    /// Changed blocks in it.
    pub fn dirty(&self) -> u64 {
        self.dirty
    }

    /// Asks for a block, which becomes the most recently used one. `change` marks it changed.
    pub fn touch(&mut self, block: BlockNr, change: bool) -> Touch {
        let mut frame = self.find(block);
        let hit = frame != NONE;
        let mut victim = None;
        if hit {
            self.counts.hits += 1;
            self.unlink(frame);
        } else {
            self.counts.misses += 1;
            (frame, victim) = self.frame();
            self.frames[frame as usize].block = block;
            self.enter(block, frame);
        }
        self.link(frame);
        let dirty = &mut self.frames[frame as usize].dirty;
        if change && !*dirty {
            *dirty = true;
            self.dirty += 1;
        }
        Touch { hit, victim }
    }

    /// The block is written out: it is clean.
    pub fn clean(&mut self, block: BlockNr) {
        let frame = self.find(block);
        if frame != NONE && std::mem::replace(&mut self.frames[frame as usize].dirty, false) {
            self.dirty -= 1;
        }
    }

    /// The block is gone, whatever it held.
    pub fn forget(&mut self, block: BlockNr) {
        let frame = self.find(block);
        if frame != NONE {
            self.clean(block);
            self.unlink(frame);
            self.enter(block, NONE);
            self.free.push(frame);
        }
    }

    /// Takes up to `most` changed blocks for writing, the least recently used first: they count as
    /// written from now on.
    pub fn take_dirty(&mut self, most: u64, blocks: &mut Vec<BlockNr>) {
        let mut left = most.min(self.dirty);
        let mut frame = self.oldest;
        while left > 0 && frame != NONE {
            let Frame { block, newer, dirty, .. } = self.frames[frame as usize];
            if dirty {
                self.frames[frame as usize].dirty = false;
                self.dirty -= 1;
                self.counts.cleaned += 1;
                blocks.push(block);
                left -= 1;
            }
            frame = newer;
        }
    }

    /// A frame for another block: a free one, or that of the least recently used block.
    fn frame(&mut self) -> (u32, Option<BlockNr>) {
        if let Some(frame) = self.free.pop() {
            return (frame, None);
        }
        if self.frames.len() < self.most {
            let empty = Frame { block: 0, newer: NONE, older: NONE, dirty: false };
            self.frames.push(empty);
            return (self.frames.len() as u32 - 1, None);
        }
        let frame = self.oldest;
        let Frame { block, dirty, .. } = self.frames[frame as usize];
        self.unlink(frame);
        self.enter(block, NONE);
        self.frames[frame as usize].dirty = false;
        if dirty {
            self.dirty -= 1;
            self.counts.evicted += 1;
        }
        (frame, dirty.then_some(block))
    }

    fn find(&self, block: BlockNr) -> u32 {
        let page = &self.index[block as usize / PAGE];
        page.as_ref().map_or(NONE, |page| page[block as usize % PAGE])
    }

    fn enter(&mut self, block: BlockNr, frame: u32) {
        let page = self.index[block as usize / PAGE].get_or_insert_with(|| Box::new([NONE; PAGE]));
        page[block as usize % PAGE] = frame;
    }

    fn link(&mut self, frame: u32) {
        let newest = std::mem::replace(&mut self.newest, frame);
        let one = &mut self.frames[frame as usize];
        (one.newer, one.older) = (NONE, newest);
        match newest {
            NONE => self.oldest = frame,
            newest => self.frames[newest as usize].newer = frame,
        }
    }

    fn unlink(&mut self, frame: u32) {
        let Frame { newer, older, .. } = self.frames[frame as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.frames[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.frames[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The plainest pool: a list, the most recently used last.
    #[derive(Default)]
    struct Plain(Vec<(BlockNr, bool)>);

    impl Plain {
        fn touch(&mut self, block: BlockNr, change: bool, most: usize) -> Touch {
            let at = self.0.iter().position(|one| one.0 == block);
            let before = at.map(|at| self.0.remove(at));
            let full = before.is_none() && self.0.len() == most;
            let left = full.then(|| self.0.remove(0));
            self.0.push((block, change || before.is_some_and(|one| one.1)));
            let victim = left.filter(|one| one.1).map(|one| one.0);
            Touch { hit: before.is_some(), victim }
        }
    }

    proptest! {
        #[test]
        fn it_is_a_list_in_order_of_use(
            frames in 1_u64..12,
            steps in prop::collection::vec((0_u64..24, 0_u8..10), 1..300),
        ) {
            let mut pool = Pool::new(frames, 24);
            let mut plain = Plain::default();
            for (block, what) in steps {
                match what {
                    0 => {
                        pool.forget(block);
                        plain.0.retain(|one| one.0 != block);
                    }
                    1 => {
                        let mut taken = Vec::new();
                        pool.take_dirty(2, &mut taken);
                        let mut expected = Vec::new();
                        for one in plain.0.iter_mut().filter(|one| one.1).take(2) {
                            one.1 = false;
                            expected.push(one.0);
                        }
                        prop_assert_eq!(taken, expected);
                    }
                    2 => {
                        pool.clean(block);
                        let found = plain.0.iter_mut().filter(|one| one.0 == block);
                        found.for_each(|one| one.1 = false);
                    }
                    what => {
                        let change = what % 2 == 0;
                        let expected = plain.touch(block, change, frames as usize);
                        prop_assert_eq!(pool.touch(block, change), expected);
                    }
                }
                let dirty = plain.0.iter().filter(|one| one.1).count() as u64;
                prop_assert_eq!(pool.dirty(), dirty);
            }
        }
    }

    #[test]
    fn counts_add_up() {
        let mut pool = Pool::new(2, 100);
        for (block, change) in [(1, true), (2, false), (1, false), (3, false), (4, true)] {
            pool.touch(block, change);
        }
        let mut taken = Vec::new();
        pool.take_dirty(10, &mut taken);
        assert_eq!(taken, [4]);
        let counts = pool.take_counts();
        assert_eq!(counts, PoolCounts { hits: 1, misses: 4, evicted: 1, cleaned: 1 });
        assert_eq!(pool.take_counts(), PoolCounts::default());
    }
}
