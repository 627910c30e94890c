//! A workload like TPC-C's: the page references of a database, before its buffer pool.
//!
//! Synthetic. Transactions in the standard's mix (New-Order 45 %, Payment 43 %, Order-Status,
//! Delivery and Stock-Level 4 % each) with its non-uniform random numbers; tables by the size of
//! their rows in pages of 4 KiB, indices of three levels. Tests compare the references with table 4
//! of the HyLog paper (claim H22): 5.66 reads for each write within 5 %, and 1.37 behind a pool of
//! 8 % of the database within 20 %. No log, no locks, no times: a user waits for a page and
//! continues with the next.

use crate::trace::{Action, Record};
use seekless_engine::rng::Rng;
use seekless_engine::units::BlockNr;
use std::collections::VecDeque;

/// Fewest blocks of a database: a page for each table and level.
pub const FEWEST_BLOCKS: u64 = 64;

/// Pages that all warehouses share: the items with their index, and the upper levels of indices.
const ITEM: u64 = 2041;
const ITEM_INDEX: u64 = 200;
const UPPER: u64 = 8;

const DISTRICTS: u64 = 10;
const CUSTOMERS: u64 = 3000;
const ITEMS: u64 = 100_000;

/// A table of a warehouse: its pages at full size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
enum Table {
    /// The warehouse and its districts.
    Head,
    Customer,
    Stock,
    Order,
    Line,
    NewOrder,
    History,
    CustomerIndex,
    NameIndex,
    StockIndex,
    OrderIndex,
    LineIndex,
}

/// Pages of the tables, in their order: rows by rows to a page (customers of 655 bytes, stock of
/// 306, orders of 24, lines of 54, history of 46), with space for appended rows.
const PAGES: [u64; 12] = [1, 5000, 7693, 300, 8500, 63, 700, 150, 300, 500, 300, 3000];

/// Appended rows in a page.
const ORDERS_PER_PAGE: u64 = 170;
const LINES_PER_PAGE: u64 = 75;
const HISTORY_PER_PAGE: u64 = 89;
const NEW_ORDERS_PER_PAGE: u64 = 512;
const INDEX_ENTRIES_PER_PAGE: u64 = 250;

/// Items of the last twenty orders that a warehouse remembers.
const RECENT_ITEMS: usize = 200;

/// The history of a warehouse.
#[derive(Clone, Debug)]
struct Progress {
    orders: u64,
    delivered: u64,
    payments: u64,
    /// Items of its last orders, the oldest first.
    recent: VecDeque<u64>,
}

/// A stream of page references.
#[derive(Clone, Debug)]
pub struct Tpcc {
    rng: Rng,
    warehouses: u64,
    /// Pages of each table, scaled down for a volume smaller than a warehouse.
    pages: [u64; 12],
    shared: [u64; 3],
    /// Constants of the non-uniform numbers.
    constants: [u64; 3],
    progress: Vec<Progress>,
    queue: VecDeque<(BlockNr, Action)>,
}

/// Size in pages of a database of so many warehouses.
fn database_pages(warehouses: u64) -> u64 {
    ITEM + ITEM_INDEX + UPPER + warehouses * PAGES.iter().sum::<u64>()
}

impl Tpcc {
    /// As many warehouses as fit `blocks` blocks (104 MB each); less than one is scaled down.
    ///
    /// # Panics
    /// If there are fewer than [`FEWEST_BLOCKS`].
    pub fn new(blocks: u64, seed: u64) -> Tpcc {
        assert!(blocks >= FEWEST_BLOCKS, "a database of {blocks} blocks");
        let whole = PAGES.iter().sum::<u64>();
        let warehouses = (blocks.saturating_sub(database_pages(0)) / whole).max(1);
        let full = database_pages(warehouses);
        // One page of each table is reserved, so that rounding up never exceeds the volume.
        let room = blocks.min(full) - PAGES.len() as u64 - 3;
        let scale = |pages: u64| {
            if blocks >= full { pages } else { 1 + pages * room / full }
        };
        let mut rng = Rng::stream(seed, "tpcc");
        let constants = [256, 1024, 8192].map(|bound| rng.below(bound));
        let begun = Progress {
            orders: 30_000,
            delivered: 21_000,
            payments: 30_000,
            recent: VecDeque::new(),
        };
        Tpcc {
            rng,
            warehouses,
            pages: PAGES.map(scale),
            shared: [ITEM, ITEM_INDEX, UPPER].map(scale),
            constants,
            progress: vec![begun; warehouses as usize],
            queue: VecDeque::new(),
        }
    }

    /// Warehouses.
    pub fn warehouses(&self) -> u64 {
        self.warehouses
    }

    /// Blocks that it references: the first ones of the volume.
    pub fn blocks(&self) -> u64 {
        self.shared.iter().sum::<u64>() + self.warehouses * self.pages.iter().sum::<u64>()
    }

    /// A non-uniform number in `0..count` (section 2.1.6 of the standard) with `a` of 255, 1023 or
    /// 8191.
    fn non_uniform(&mut self, a: u64, count: u64) -> u64 {
        let constant = match a {
            255 => self.constants[0],
            1023 => self.constants[1],
            _ => self.constants[2],
        };
        ((self.rng.below(a + 1) | self.rng.below(count)) + constant) % count
    }

    fn read(&mut self, page: BlockNr) {
        self.queue.push_back((page, Action::Read));
    }

    fn update(&mut self, page: BlockNr) {
        self.read(page);
        self.queue.push_back((page, Action::Write));
    }

    /// The page of `row` of `rows` in a table of warehouse `home`.
    fn page(&self, home: u64, table: Table, row: u64, rows: u64) -> BlockNr {
        let before: u64 = self.pages[..table as usize].iter().sum();
        let whole: u64 = self.pages.iter().sum();
        let base = self.shared.iter().sum::<u64>() + home * whole + before;
        base + row % rows * self.pages[table as usize] / rows
    }

    /// The page of an appended row: the table is a ring.
    fn appended(&self, home: u64, table: Table, row: u64, per_page: u64) -> BlockNr {
        let pages = self.pages[table as usize];
        self.page(home, table, row / per_page % pages, pages)
    }

    /// Reads the two upper levels of an index.
    fn descend(&mut self, kind: u64) {
        let first = self.shared[0] + self.shared[1];
        let upper = self.shared[2];
        self.read(first);
        self.read(first + 1.min(upper - 1) + kind % upper.saturating_sub(1).max(1));
    }

    fn head(&self, home: u64) -> BlockNr {
        self.page(home, Table::Head, 0, 1)
    }

    /// Sometimes a warehouse other than `home`.
    fn remote(&mut self, home: u64, chance: f64) -> u64 {
        if self.warehouses > 1 && self.rng.chance(chance) {
            (home + 1 + self.rng.below(self.warehouses - 1)) % self.warehouses
        } else {
            home
        }
    }

    /// Finds a customer: three of five by name, which reads those of the same name.
    fn customer(&mut self, home: u64) -> BlockNr {
        if self.rng.chance(0.6) {
            let rows = DISTRICTS * CUSTOMERS;
            let district = self.rng.below(DISTRICTS) * CUSTOMERS;
            let name = self.non_uniform(255, 1000);
            self.descend(1);
            let leaf = self.page(home, Table::NameIndex, district + name * 3, rows);
            self.read(leaf);
            // Three share a name. Of the two beside the wanted one, one lies on another page.
            let other = self.page(home, Table::Customer, district + name + 2000, rows);
            self.read(other);
            return self.page(home, Table::Customer, district + name + 1000, rows);
        }
        self.numbered(home)
    }

    /// Finds a customer by number.
    fn numbered(&mut self, home: u64) -> BlockNr {
        let rows = DISTRICTS * CUSTOMERS;
        let number = self.rng.below(DISTRICTS) * CUSTOMERS + self.non_uniform(1023, CUSTOMERS);
        self.descend(2);
        let leaf = self.page(home, Table::CustomerIndex, number, rows);
        self.read(leaf);
        self.page(home, Table::Customer, number, rows)
    }

    /// Reads the index pages to the stock of an item, and returns its page.
    fn stock(&mut self, home: u64, item: u64) -> BlockNr {
        self.descend(3);
        let leaf = self.page(home, Table::StockIndex, item, ITEMS);
        self.read(leaf);
        self.page(home, Table::Stock, item, ITEMS)
    }

    /// The pages of an order: itself, and the first and last of its lines.
    fn order(&self, home: u64, order: u64) -> [BlockNr; 3] {
        let line = |line| self.appended(home, Table::Line, order * 10 + line, LINES_PER_PAGE);
        [self.appended(home, Table::Order, order, ORDERS_PER_PAGE), line(0), line(9)]
    }

    fn new_order(&mut self, home: u64) {
        let head = self.head(home);
        self.read(head);
        self.update(head);
        let customer = self.numbered(home);
        self.read(customer);
        let order = self.progress[home as usize].orders;
        self.progress[home as usize].orders += 1;
        for table in [Table::OrderIndex, Table::LineIndex] {
            let leaf = self.appended(home, table, order, INDEX_ENTRIES_PER_PAGE);
            self.update(leaf);
        }
        let [page, ..] = self.order(home, order);
        self.update(page);
        let waiting = self.appended(home, Table::NewOrder, order, NEW_ORDERS_PER_PAGE);
        self.update(waiting);
        for line in 0..5 + self.rng.below(11) {
            let item = self.non_uniform(8191, ITEMS);
            self.descend(4);
            let shared = self.shared;
            self.read(shared[0] + item * shared[1] / ITEMS);
            self.read(item * shared[0] / ITEMS);
            let supplier = self.remote(home, 0.01);
            let stock = self.stock(supplier, item);
            self.update(stock);
            let recent = &mut self.progress[home as usize].recent;
            recent.push_back(item);
            if recent.len() > RECENT_ITEMS {
                recent.pop_front();
            }
            let page = self.appended(home, Table::Line, order * 10 + line, LINES_PER_PAGE);
            self.update(page);
        }
    }

    fn payment(&mut self, home: u64) {
        let head = self.head(home);
        // The warehouse and one of its districts.
        self.update(head);
        self.update(head);
        let from = self.remote(home, 0.15);
        let customer = self.customer(from);
        self.update(customer);
        let row = self.progress[home as usize].payments;
        self.progress[home as usize].payments += 1;
        let history = self.appended(home, Table::History, row, HISTORY_PER_PAGE);
        self.update(history);
    }

    fn order_status(&mut self, home: u64) {
        let customer = self.customer(home);
        self.read(customer);
        let back = 1 + self.rng.below(DISTRICTS * CUSTOMERS);
        let order = self.progress[home as usize].orders.saturating_sub(back);
        self.descend(5);
        let leaf = self.appended(home, Table::OrderIndex, order, INDEX_ENTRIES_PER_PAGE);
        self.read(leaf);
        for page in self.order(home, order) {
            self.read(page);
        }
    }

    fn delivery(&mut self, home: u64) {
        for _ in 0..DISTRICTS {
            let &Progress { orders, delivered, .. } = &self.progress[home as usize];
            if delivered >= orders {
                return;
            }
            self.progress[home as usize].delivered += 1;
            let waiting = self.appended(home, Table::NewOrder, delivered, NEW_ORDERS_PER_PAGE);
            self.update(waiting);
            self.descend(5);
            let leaf = self.appended(home, Table::OrderIndex, delivered, INDEX_ENTRIES_PER_PAGE);
            self.read(leaf);
            for page in self.order(home, delivered) {
                self.update(page);
            }
            let number = self.rng.below(DISTRICTS * CUSTOMERS);
            let customer = self.page(home, Table::Customer, number, DISTRICTS * CUSTOMERS);
            self.update(customer);
        }
    }

    fn stock_level(&mut self, home: u64) {
        let head = self.head(home);
        self.read(head);
        let last = self.progress[home as usize].orders;
        for back in 1..=20 {
            let [_, first, end] = self.order(home, last.saturating_sub(back));
            self.read(first);
            self.read(end);
        }
        // Items of recent orders. Their stock was changed then, so the pool has most of it.
        let recent: Vec<u64> = self.progress[home as usize].recent.iter().copied().collect();
        for item in recent {
            let stock = self.stock(home, item);
            self.read(stock);
        }
    }

    fn transaction(&mut self) {
        let home = self.rng.below(self.warehouses);
        match self.rng.below(100) {
            0..45 => self.new_order(home),
            45..88 => self.payment(home),
            88..92 => self.order_status(home),
            92..96 => self.delivery(home),
            _ => self.stock_level(home),
        }
    }
}

impl Iterator for Tpcc {
    type Item = Record;

    /// The next reference; there is always one.
    fn next(&mut self) -> Option<Record> {
        loop {
            if let Some((block, action)) = self.queue.pop_front() {
                return Some(Record::of_blocks(action, block, 1));
            }
            self.transaction();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;

    fn ratio(reads: u64, writes: u64) -> f64 {
        reads as f64 / writes as f64
    }

    #[test]
    fn h22_reads_and_writes_before_and_behind_the_pool() {
        let blocks = database_pages(5);
        let mut tpcc = Tpcc::new(blocks, 1);
        assert_eq!((tpcc.warehouses(), tpcc.blocks()), (5, blocks));
        // 400 MB of 5088 MB.
        let mut pool = Pool::new(blocks * 400 / 5088, blocks);
        let (mut reads, mut writes, mut physical_reads, mut physical_writes) = (0, 0, 0, 0);
        for index in 0..3_000_000 {
            let record = tpcc.next().expect("there is always one");
            let write = record.action == Action::Write;
            let touch = pool.touch(record.sector / 8, write);
            if index >= 1_000_000 {
                writes += u64::from(write);
                reads += u64::from(!write);
                physical_writes += u64::from(touch.victim.is_some());
                physical_reads += u64::from(!touch.hit && !write);
            }
        }
        let (logical, physical) = (ratio(reads, writes), ratio(physical_reads, physical_writes));
        assert!((logical - 5.66).abs() < 0.05 * 5.66, "logical {logical}");
        assert!((physical - 1.37).abs() < 0.2 * 1.37, "physical {physical}");
    }

    #[test]
    fn small_volumes_are_not_left() {
        for blocks in [FEWEST_BLOCKS, 100, 1000, 5000, 30_000, database_pages(1), 60_000] {
            let tpcc = Tpcc::new(blocks, 3);
            assert!(tpcc.blocks() <= blocks, "{} of {blocks}", tpcc.blocks());
            let asked = tpcc.blocks();
            for record in tpcc.take(20_000) {
                assert!(record.sector / 8 < asked && record.sectors == 8, "{record:?}");
            }
        }
    }

    #[test]
    fn the_same_seed_asks_for_the_same() {
        let stream = |seed| Tpcc::new(40_000, seed).take(500).collect::<Vec<_>>();
        assert_eq!(stream(1), stream(1));
        assert_ne!(stream(1), stream(2));
    }
}
