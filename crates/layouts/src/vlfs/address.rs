//! Addresses of the drive: objects, each a sparse row of blocks, and the tree of pointers that
//! leads to the blocks of one.
//!
//! An object has 2³¹ block addresses. The last one holds its attributes, 96 bytes that lie in its
//! inode. The others count from the beginning, and reach as far as triple indirect pointers do.

use seekless_engine::units::BlockNr;

pub use seekless_engine::objects::{
    ATTRIBUTE_BYTES, ATTRIBUTES, MOST_BLOCKS, ObjectNr, SLICE_OBJECTS, WITHIN_BITS, Within,
    address, bytes_of, member_of, slice_of, split,
};

/// Inodes in a block.
pub const BLOCK_INODES: u32 = 16;
/// Inode blocks of a slice.
pub const SLICE_GROUPS: usize = (SLICE_OBJECTS / BLOCK_INODES) as usize;
/// Pointers in an inode that lead to blocks.
pub const DIRECT: u32 = 12;
/// Pointers in an inode: the direct ones, and one to a tree of each height up to 3.
pub const INODE_POINTERS: usize = DIRECT as usize + 3;
/// Pointers in an indirect block.
pub const FAN_OUT: u32 = 512;

const _: () = assert!(MOST_BLOCKS == DIRECT + FAN_OUT + FAN_OUT.pow(2) + FAN_OUT.pow(3));

/// True if each of these blocks can be read. They may go from the attributes of an object to the
/// first block of the next one.
pub fn are_blocks(at: BlockNr, count: u64) -> bool {
    (at..at + count).all(|at| bytes_of(split(at).1).is_some())
}

/// True if all these blocks are of one object, and pointers reach them.
pub fn is_within(at: BlockNr, count: u64) -> bool {
    let (_, within) = split(at);
    let end = u64::from(within) + count;
    end <= u64::from(MOST_BLOCKS)
        || end <= u64::from(ATTRIBUTES) + 1 && count == 1 && within == ATTRIBUTES
}

/// An indirect block of an object. Those of height 1 are numbered by the blocks that they lead to,
/// those of height 2 by those of height 1, from the first that no inode points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Indirect {
    /// 1 to 3.
    pub height: u8,
    /// Number among those of its height.
    pub number: u32,
}

/// Where a pointer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// In the inode: which of its pointers.
    Inode(usize),
    /// In an indirect block: which of its pointers.
    Indirect(Indirect, usize),
}

/// Where the pointer to a block lies.
///
/// # Panics
/// In debug builds, beyond what pointers reach.
pub fn holder_of(within: Within) -> Holder {
    debug_assert!(within < MOST_BLOCKS, "block {within} has no pointer");
    match within.checked_sub(DIRECT) {
        None => Holder::Inode(within as usize),
        Some(rest) => {
            let number = rest / FAN_OUT;
            Holder::Indirect(Indirect { height: 1, number }, (rest % FAN_OUT) as usize)
        }
    }
}

impl Indirect {
    /// Where the pointer to it lies.
    pub fn holder(self) -> Holder {
        let height = self.height;
        match self.number.checked_sub(1) {
            None => Holder::Inode(DIRECT as usize + usize::from(height) - 1),
            Some(rest) => {
                let above = Indirect { height: height + 1, number: rest / FAN_OUT };
                Holder::Indirect(above, (rest % FAN_OUT) as usize)
            }
        }
    }

    /// The blocks that it leads to, directly or through others.
    pub fn reach(self) -> std::ops::Range<Within> {
        let first = |mut height: u8, mut number: u32| {
            while height > 1 {
                number = 1 + number * FAN_OUT;
                height -= 1;
            }
            DIRECT + number * FAN_OUT
        };
        first(self.height, self.number)..first(self.height, self.number + 1)
    }

    /// What its pointer `index` leads to.
    pub fn child(self, index: usize) -> Child {
        match self.height {
            1 => Child::Block(DIRECT + self.number * FAN_OUT + index as u32),
            height => Child::Indirect(Indirect {
                height: height - 1,
                number: 1 + self.number * FAN_OUT + index as u32,
            }),
        }
    }
}

/// What a pointer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Child {
    /// A block of the object.
    Block(Within),
    /// An indirect block.
    Indirect(Indirect),
}

/// What pointer `index` of an inode leads to.
pub fn inode_child(index: usize) -> Child {
    match (index as u32).checked_sub(DIRECT) {
        None => Child::Block(index as Within),
        Some(height) => Child::Indirect(Indirect { height: height as u8 + 1, number: 0 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        for (object, within) in [(0, 0), (5, 7), (1 << 29, ATTRIBUTES), (127, MOST_BLOCKS - 1)] {
            assert_eq!(split(address(object, within)), (object, within));
        }
    }

    /// From a block up to the inode, then down again by the same pointers.
    #[test]
    fn each_block_is_reached_by_its_pointers() {
        let last = [0, 11, 12, 523, 524, 524 + 512 * 512 - 1, 524 + 512 * 512, MOST_BLOCKS - 1];
        let some = (0..).map(|n: u32| n * 1_000_003).take_while(|&n| n < MOST_BLOCKS);
        for within in last.into_iter().chain(some) {
            let (mut at, mut below) = (holder_of(within), Child::Block(within));
            let mut steps = 0;
            while let Holder::Indirect(one, index) = at {
                assert_eq!(one.child(index), below, "block {within}");
                assert!(one.reach().contains(&within), "{one:?} reaches {within}");
                (at, below) = (one.holder(), Child::Indirect(one));
                steps += 1;
            }
            let Holder::Inode(index) = at else { unreachable!() };
            assert_eq!(inode_child(index), below, "block {within}");
            assert!(steps <= 3);
        }
    }

    #[test]
    fn indirect_blocks_reach_everything_once() {
        let reach = |height, number| Indirect { height, number }.reach();
        assert_eq!(reach(1, 0), 12..524);
        assert_eq!(reach(2, 0), 524..524 + 512 * 512);
        assert_eq!(reach(3, 0), 524 + 512 * 512..MOST_BLOCKS);
        assert_eq!(reach(1, 1).start, 524);
        assert_eq!(reach(2, 1).start, reach(3, 0).start);
        assert_eq!(reach(2, 512).end, reach(3, 0).end);
    }
}
