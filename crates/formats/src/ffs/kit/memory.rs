//! A transaction over pages in memory, for tests of operations.
//!
//! It keeps the contract of [`seekless_fs::tx`]: edits are undone when an operation stops, and
//! pages may be missing at random, so that a test proves that each operation can be stopped
//! anywhere. It also checks its user: no seal is touched, nothing is set that was not given before,
//! no freed or foreign sector is read, and a step touches a bounded number of buffers.

use seekless_engine::units::SECTOR_BYTES;
use seekless_fs::call::{Errno, Timestamp};
use seekless_fs::tx::{BlockNo, PageKind, SECTOR_CONTENT, Stop, Tx};
use smallvec::smallvec;
use std::collections::{BTreeMap, BTreeSet};

/// Buffers that one step may change; the design says 64 with those that it reads.
const MOST_BUFFERS: usize = 64;

/// A block in memory.
#[derive(Clone, Debug)]
struct Page {
    bytes: Vec<u8>,
    /// What each sector was last used as; freed ones are unknown.
    kinds: Vec<Option<PageKind>>,
}

/// Pages in memory, and the transaction that is under way.
#[derive(Clone, Debug)]
pub struct MemTx {
    block_bytes: usize,
    pages: BTreeMap<BlockNo, Page>,
    /// Blocks as they were before the operation.
    before: BTreeMap<BlockNo, Page>,
    /// Blocks of which the operation has changed something, but for those it has freed.
    touched: BTreeSet<BlockNo>,
    /// Sectors that may be set, by block and number.
    given: BTreeSet<(BlockNo, usize)>,
    /// Blocks of which no write has begun since they were free.
    unwritten: BTreeSet<BlockNo>,
    /// Those of them that the operation has allocated.
    began: Vec<BlockNo>,
    /// Blocks that are not missing; `None` if none ever is.
    cached: Option<BTreeSet<BlockNo>>,
    seed: u64,
    /// Content was damaged on purpose: a sector of another kind is an error, as a bad seal is.
    is_damaged: bool,
    /// The time of the operation.
    pub now: Timestamp,
    /// Runs that stopped at a missing page.
    pub misses: u64,
}

impl MemTx {
    /// No pages; those that are read are zeros.
    pub fn new(block_bytes: usize) -> MemTx {
        MemTx {
            block_bytes,
            pages: BTreeMap::new(),
            before: BTreeMap::new(),
            touched: BTreeSet::new(),
            given: BTreeSet::new(),
            unwritten: BTreeSet::new(),
            began: Vec::new(),
            cached: None,
            seed: 1,
            is_damaged: false,
            now: 1_000,
            misses: 0,
        }
    }

    /// From now on pages are missing at random.
    pub fn miss_at_random(&mut self, seed: u64) {
        self.cached = Some(BTreeSet::new());
        self.seed = seed | 1;
    }

    /// Puts content in place, outside of any operation.
    pub fn load(&mut self, block: BlockNo, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.block_bytes);
        self.page_mut(block).bytes.copy_from_slice(bytes);
    }

    /// All pages, with the kinds of their sectors.
    pub fn pages(&self) -> impl Iterator<Item = (BlockNo, &[u8], &[Option<PageKind>])> {
        self.pages.iter().map(|(&block, p)| (block, p.bytes.as_slice(), p.kinds.as_slice()))
    }

    /// Changes a byte of some sealed sector, as if it had been written so.
    pub fn damage(&mut self, seed: u64) {
        self.seed = seed | 1;
        self.is_damaged = true;
        let mut places = Vec::new();
        for (&block, page) in &self.pages {
            for (sector, kind) in page.kinds.iter().enumerate() {
                if kind.is_some_and(PageKind::is_sealed) {
                    places.push((block, sector * SECTOR_BYTES));
                }
            }
        }
        let (block, at) = places[self.random(places.len() as u64) as usize];
        // Many sectors hold only zeros behind their first bytes.
        let within = [SECTOR_CONTENT as u64, 40][self.random(2) as usize];
        let at = at + self.random(within) as usize;
        let value = [0, 1, 0x7f, 0xff, self.random(256) as u8][self.random(5) as usize];
        self.page_mut(block).bytes[at] = value;
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % below
    }

    /// Undoes everything since the last end of an operation.
    pub fn roll_back(&mut self) {
        self.pages.append(&mut self.before);
        for block in self.began.drain(..) {
            self.unwritten.remove(&block);
        }
        self.touched.clear();
        self.given.clear();
    }

    /// Makes everything since the last end of an operation stand.
    pub fn commit(&mut self) {
        let touched = self.touched.len();
        assert!(touched <= MOST_BUFFERS, "a step changes {touched} buffers");
        self.before.clear();
        self.touched.clear();
        self.given.clear();
        self.began.clear();
        if self.random(64) == 0 {
            // The syncer was here.
            self.unwritten.clear();
        }
        if let Some(mut cached) = self.cached.take() {
            cached.retain(|_| self.random(8) != 0);
            self.cached = Some(cached);
        }
    }

    /// After a stop: reads what was missing.
    pub fn fetch(&mut self, missing: &[(BlockNo, PageKind)]) {
        self.misses += 1;
        if let Some(cached) = &mut self.cached {
            cached.extend(missing.iter().map(|m| m.0));
        }
    }

    fn page_mut(&mut self, block: BlockNo) -> &mut Page {
        let bytes = self.block_bytes;
        let new = || Page { bytes: vec![0; bytes], kinds: vec![None; bytes / SECTOR_BYTES] };
        self.pages.entry(block).or_insert_with(new)
    }

    /// The page, to be changed by the operation.
    fn change(&mut self, block: BlockNo) -> &mut Page {
        if !self.before.contains_key(&block) {
            let old = self.page_mut(block).clone();
            self.before.insert(block, old);
        }
        self.page_mut(block)
    }
}

impl Tx for MemTx {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    fn page(&mut self, block: BlockNo, kind: PageKind) -> Result<&[u8], Stop> {
        self.part(block, 0, self.block_bytes, kind)
    }

    fn part(
        &mut self,
        block: BlockNo,
        at: usize,
        length: usize,
        kind: PageKind,
    ) -> Result<&[u8], Stop> {
        if let Some(cached) = &self.cached
            && !cached.contains(&block)
        {
            return Err(Stop::Miss(smallvec![(block, kind)]));
        }
        assert!((at | length).is_multiple_of(SECTOR_BYTES), "whole sectors");
        for sector in at / SECTOR_BYTES..(at + length) / SECTOR_BYTES {
            self.given.insert((block, sector));
            let was = *self.page_mut(block).kinds[sector].get_or_insert(kind);
            if was != kind && self.is_damaged {
                return Err(Errno::Io.into());
            }
            assert_eq!(was, kind, "sector {sector} of block {block} is read as another kind");
        }
        Ok(&self.pages[&block].bytes[at..at + length])
    }

    fn set(&mut self, block: BlockNo, at: usize, bytes: &[u8]) {
        assert!(!bytes.is_empty() && at + bytes.len() <= self.block_bytes);
        let sectors = at / SECTOR_BYTES..=(at + bytes.len() - 1) / SECTOR_BYTES;
        for sector in sectors.clone() {
            assert!(self.given.contains(&(block, sector)), "set without page");
            let kind = self.pages[&block].kinds[sector].expect("given with a kind");
            if kind.is_sealed() {
                let last = (at + bytes.len() - 1) % SECTOR_BYTES;
                let is_one = sectors.start() == sectors.end();
                assert!(is_one && last < SECTOR_CONTENT, "a change touches a seal");
            }
        }
        self.touched.insert(block);
        self.change(block).bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn fresh(&mut self, block: BlockNo, kind: PageKind, at: usize, length: usize) {
        if length == self.block_bytes
            && let Some(cached) = &mut self.cached
        {
            cached.insert(block);
        }
        self.touched.insert(block);
        let page = self.change(block);
        page.bytes[at..at + length].fill(0);
        let sectors = at / SECTOR_BYTES..(at + length) / SECTOR_BYTES;
        page.kinds[sectors.clone()].fill(Some(kind));
        self.given.extend(sectors.map(|sector| (block, sector)));
    }

    fn unused(&mut self, block: BlockNo) {
        self.began(block);
    }

    fn began(&mut self, block: BlockNo) {
        if self.unwritten.insert(block) {
            self.began.push(block);
        }
    }

    fn is_unwritten(&self, block: BlockNo) -> bool {
        let is_data = |page: &Page| page.kinds.iter().all(|kind| *kind == Some(PageKind::Data));
        self.unwritten.contains(&block) && self.pages.get(&block).is_some_and(is_data)
    }

    fn expect(&mut self, _block: BlockNo, _kind: PageKind) {}

    fn forget(&mut self, block: BlockNo, at: usize, length: usize) {
        // What is freed holds garbage, so that a test sees an operation that still reads it.
        let page = self.change(block);
        page.bytes[at..at + length].fill(0xdd);
        for sector in at / SECTOR_BYTES..(at + length) / SECTOR_BYTES {
            page.kinds[sector] = None;
        }
    }
}
