//! The data lookup table: which slot of the log holds a block.
//!
//! An *address* names a block of the log, or behind those a slot of a segment buffer: the unified
//! addressing of the paper (section 3.3). For each address there are the block it holds, the
//! checksum and a byte of flags, 9 bytes; the table proper is open addressing over addresses, 4
//! bytes each at most two thirds full. That makes 15 bytes per cached block at most, and nothing
//! is allocated per entry. A line of the paper is a block here, and there are no fragments: all
//! requests are whole blocks.

use seekless_engine::checksum::mix;

/// Address of a slot.
pub type Addr = u32;

/// The home of the block does not have this content yet, or not durably.
pub const DIRTY: u8 = 1;
/// The first byte is stored flipped.
pub const ESCAPED: u8 = 2;
/// It cannot be read, so it cannot go home; only a younger version gets rid of it.
pub const BAD: u8 = 4;

/// The table.
#[derive(Clone, Debug)]
pub struct Table {
    /// One more than an address; 0 is free.
    buckets: Vec<u32>,
    used: usize,
    blocks: Vec<u32>,
    sums: Vec<u32>,
    flags: Vec<u8>,
}

impl Table {
    /// An empty table for so many addresses.
    pub fn new(addresses: usize) -> Table {
        Table {
            buckets: vec![0; 64],
            used: 0,
            blocks: vec![0; addresses],
            sums: vec![0; addresses],
            flags: vec![0; addresses],
        }
    }

    /// Blocks in the table.
    pub fn len(&self) -> usize {
        self.used
    }

    /// The block that an address was last filled with.
    pub fn block(&self, addr: Addr) -> u32 {
        self.blocks[addr as usize]
    }

    /// Its checksum.
    pub fn sum(&self, addr: Addr) -> u32 {
        self.sums[addr as usize]
    }

    /// True if it has the flag.
    pub fn is(&self, addr: Addr, flag: u8) -> bool {
        self.flags[addr as usize] & flag != 0
    }

    /// Sets a flag.
    pub fn mark(&mut self, addr: Addr, flag: u8) {
        self.flags[addr as usize] |= flag;
    }

    /// Clears a flag; true if it was set.
    pub fn clear(&mut self, addr: Addr, flag: u8) -> bool {
        let was = self.is(addr, flag);
        self.flags[addr as usize] &= !flag;
        was
    }

    /// Says what an address holds from now on. The table must not point to it.
    pub fn fill(&mut self, addr: Addr, block: u32, sum: u32, flags: u8) {
        self.blocks[addr as usize] = block;
        self.sums[addr as usize] = sum;
        self.flags[addr as usize] = flags;
    }

    fn home(&self, block: u32) -> usize {
        mix(u64::from(block)) as usize & (self.buckets.len() - 1)
    }

    /// The bucket of a block, or the free one where it would go.
    fn bucket(&self, block: u32) -> usize {
        let mut at = self.home(block);
        loop {
            let addr = self.buckets[at];
            if addr == 0 || self.blocks[addr as usize - 1] == block {
                return at;
            }
            at = (at + 1) & (self.buckets.len() - 1);
        }
    }

    /// Where a block is.
    pub fn get(&self, block: u32) -> Option<Addr> {
        self.buckets[self.bucket(block)].checked_sub(1)
    }

    /// Points a block to an address that [`Table::fill`] has given to it.
    pub fn set(&mut self, block: u32, addr: Addr) {
        debug_assert_eq!(self.blocks[addr as usize], block);
        let at = self.bucket(block);
        let new = self.buckets[at] == 0;
        self.buckets[at] = addr + 1;
        if new {
            self.used += 1;
            if self.used * 3 > self.buckets.len() * 2 {
                self.grow();
            }
        }
    }

    fn grow(&mut self) {
        let larger = vec![0; self.buckets.len() * 2];
        for addr in std::mem::replace(&mut self.buckets, larger) {
            if addr > 0 {
                let at = self.bucket(self.blocks[addr as usize - 1]);
                self.buckets[at] = addr;
            }
        }
    }

    /// Forgets a block. What lies behind it in its run of buckets moves up, so that searches need
    /// no marks of what was there.
    pub fn remove(&mut self, block: u32) {
        let mask = self.buckets.len() - 1;
        let mut hole = self.bucket(block);
        if self.buckets[hole] == 0 {
            return;
        }
        debug_assert!(self.used > 0, "an empty table points somewhere");
        self.used -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let addr = self.buckets[at];
            if addr == 0 {
                break;
            }
            let home = self.home(self.blocks[addr as usize - 1]);
            // It may move up unless its home lies behind the hole.
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.buckets[hole] = addr;
                hole = at;
            }
        }
        self.buckets[hole] = 0;
    }

    /// The blocks of a range that the table has, in order.
    pub fn listed(&self, at: u64, count: u64) -> Vec<u32> {
        let range = at..at + count;
        if count <= 4 * self.used as u64 {
            let blocks = range.map(|block| block as u32);
            return blocks.filter(|&block| self.get(block).is_some()).collect();
        }
        let filled = self.buckets.iter().filter(|&&addr| addr > 0);
        let blocks = filled.map(|&addr| self.blocks[addr as usize - 1]);
        let mut found: Vec<u32> = blocks.filter(|&b| range.contains(&u64::from(b))).collect();
        found.sort_unstable();
        found
    }

    /// Bytes of memory for each address at the most.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.buckets.len() * 4 + self.blocks.len() * 9
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::rng::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn holds_what_an_ordered_map_holds() {
        let mut table = Table::new(4000);
        let mut model = BTreeMap::new();
        let mut rng = Rng::stream(1, "table");
        for round in 0..60_000_u32 {
            let block = rng.below(500) as u32 * 97;
            if rng.chance(0.4) {
                table.remove(block);
                model.remove(&block);
            } else {
                // Each address is used by one block only while the table may point to it.
                let addr = (block / 97) * 8 + round % 8;
                table.fill(addr, block, round, 0);
                table.set(block, addr);
                model.insert(block, addr);
            }
            assert_eq!(table.len(), model.len());
            let probe = rng.below(500) as u32 * 97;
            assert_eq!(table.get(probe), model.get(&probe).copied());
        }
        let all: Vec<u32> = model.keys().copied().collect();
        assert_eq!(table.listed(0, 500 * 97), all);
        assert_eq!(table.listed(0, u64::from(u32::MAX)), all);
    }

    #[test]
    fn a_cached_block_takes_sixteen_bytes() {
        let mut table = Table::new(1 << 16);
        // Just below two thirds of a power of two: the table is as small as it gets.
        for addr in 0..43_000 {
            table.fill(addr, addr * 3, 0, DIRTY);
            table.set(addr * 3, addr);
        }
        assert!(table.bytes() <= 16 << 16, "{}", table.bytes());
    }
}
