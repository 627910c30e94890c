//! The log tree: which map blocks point to which, so that all live ones can be reached from the
//! youngest.
//!
//! The rule of the paper, two pointers per map block (to the previous root and past the
//! overwritten block), loses live map blocks after a few dozen overwrites (claim V31): a recycled
//! block may have been the only parent of two others. Here a new root points to the previous root
//! and to *every* live child of the block it supersedes that has no other live parent. Where these
//! are more than a map block has room for, one of them is appended anew: it moves to the chain of
//! roots, and its pointers are given out again.

use super::format::{MAX_POINTERS, Pointer, live_mark};
use smallvec::SmallVec;

/// Number of a slice of the map.
pub type SliceNr = u32;

/// The newest map block of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Device block; 0 if the slice has never been written.
    pub place: u32,
    /// Sequence number.
    pub sequence: u64,
    /// Its pointers: slice and sequence number at the time. Dead once the slice has moved on.
    pub children: SmallVec<[(SliceNr, u64); 3]>,
    /// Live map blocks that point to it.
    parents: u32,
}

/// All live map blocks of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    nodes: Vec<Node>,
    root: Option<SliceNr>,
    digest: u64,
    live: u32,
    max_pointers: usize,
}

/// A map block to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Slice.
    pub slice: SliceNr,
    /// Sequence number.
    pub sequence: u64,
    /// Where the superseded version lies; 0 if there was none.
    pub superseded: u32,
}

impl Tree {
    /// An empty tree for `slices` slices.
    pub fn new(slices: u32) -> Tree {
        Tree::with_pointers(slices, MAX_POINTERS)
    }

    /// The same with fewer pointers per map block, to test what happens when they run out.
    fn with_pointers(slices: u32, max_pointers: usize) -> Tree {
        assert!(max_pointers >= 2, "one pointer makes no tree");
        Tree {
            nodes: vec![Node::default(); slices as usize],
            root: None,
            digest: 0,
            live: 0,
            max_pointers,
        }
    }

    /// The newest map block of a slice.
    pub fn node(&self, slice: SliceNr) -> &Node {
        &self.nodes[slice as usize]
    }

    /// Number of slices.
    pub fn slices(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// Slices that have a map block.
    pub fn live(&self) -> u32 {
        self.live
    }

    /// Exclusive or of the marks of all live map blocks.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The youngest map block: its slice.
    pub fn root(&self) -> Option<SliceNr> {
        self.root
    }

    /// Where the youngest map block lies; place 0 if there is none.
    pub fn root_pointer(&self) -> Pointer {
        let node = self.root.map(|slice| self.node(slice));
        node.map_or(Pointer { place: 0, sequence: 0 }, |node| Pointer {
            place: node.place,
            sequence: node.sequence,
        })
    }

    /// The pointers to write into the newest map block of a slice. Valid from [`Tree::append`]
    /// until the next append: children of a new root are live then.
    #[inline(always)]
    pub fn pointers(&self, slice: SliceNr) -> SmallVec<[Pointer; 4]> {
        let children = self.node(slice).children.iter();
        children
            .map(|&(child, sequence)| Pointer { place: self.node(child).place, sequence })
            .collect()
    }

    /// The newest map block of a slice goes elsewhere before anything on the device names it.
    pub fn relocate(&mut self, slice: SliceNr, place: u32) {
        debug_assert_ne!(place, 0, "block 0 is the superblock");
        self.nodes[slice as usize].place = place;
    }

    /// Puts a recovered map block into the tree. [`Tree::recount`] completes the recovery.
    pub fn restore(&mut self, slice: SliceNr, pointer: Pointer) {
        let node = &mut self.nodes[slice as usize];
        assert!(node.place == 0, "slice {slice} is restored twice");
        node.place = pointer.place;
        node.sequence = pointer.sequence;
        self.digest ^= live_mark(slice, pointer.sequence);
        self.live += 1;
    }

    /// Sets the children of a recovered map block: those of its pointers that are live.
    pub fn restore_children(&mut self, slice: SliceNr, children: &[(SliceNr, u64)]) {
        for &(child, sequence) in children {
            if self.node(child).place != 0 && self.node(child).sequence == sequence {
                self.nodes[child as usize].parents += 1;
                self.nodes[slice as usize].children.push((child, sequence));
            }
        }
    }

    /// Sets the root of a recovered tree.
    pub fn restore_root(&mut self, slice: SliceNr) {
        debug_assert_ne!(self.node(slice).place, 0, "the root has no map block");
        self.root = Some(slice);
    }

    /// Appends a new map block for `slice` at `place`, and map blocks of other slices where the
    /// pointers of one do not suffice. `place` is asked for one place per map block. Returns what
    /// was appended, oldest first.
    pub fn append(
        &mut self,
        slice: SliceNr,
        next_sequence: &mut u64,
        mut place: impl FnMut() -> u32,
        appended: &mut SmallVec<[Appended; 2]>,
    ) {
        let mut orphans: SmallVec<[SliceNr; 8]> = SmallVec::new();
        let mut next = Some(slice);
        while let Some(slice) = next {
            let sequence = *next_sequence;
            *next_sequence += 1;
            let superseded = self.supersede(slice, sequence, place(), &mut orphans);
            appended.push(Appended { slice, sequence, superseded });
            next = orphans.pop();
        }
    }

    /// Makes a new map block of `slice` the root. Takes as many orphans as it has pointers for.
    fn supersede(
        &mut self,
        slice: SliceNr,
        sequence: u64,
        place: u32,
        orphans: &mut SmallVec<[SliceNr; 8]>,
    ) -> u32 {
        debug_assert!(sequence > self.nodes[slice as usize].sequence, "versions grow");
        let old = std::mem::take(&mut self.nodes[slice as usize]);
        for &(child, expected) in &old.children {
            let node = &mut self.nodes[child as usize];
            if child == slice || node.place == 0 || node.sequence != expected {
                continue;
            }
            debug_assert!(node.parents > 0, "slice {child} has no parent");
            node.parents -= 1;
            if node.parents == 0 && self.root != Some(child) {
                orphans.push(child);
            }
        }
        orphans.retain(|orphan| *orphan != slice);
        let mut children = SmallVec::new();
        if let Some(root) = self.root.filter(|&root| root != slice) {
            self.adopt(root, &mut children);
        }
        while children.len() < self.max_pointers {
            let Some(orphan) = orphans.pop() else { break };
            self.adopt(orphan, &mut children);
        }
        if old.place == 0 {
            self.live += 1;
        } else {
            self.digest ^= live_mark(slice, old.sequence);
        }
        self.digest ^= live_mark(slice, sequence);
        debug_assert!(children.len() <= self.max_pointers, "more children than pointers");
        self.nodes[slice as usize] = Node { place, sequence, children, parents: 0 };
        self.root = Some(slice);
        old.place
    }

    fn adopt(&mut self, child: SliceNr, children: &mut SmallVec<[(SliceNr, u64); 3]>) {
        let node = &mut self.nodes[child as usize];
        debug_assert!(node.parents == 0 && node.place != 0);
        node.parents += 1;
        children.push((child, node.sequence));
    }

    /// Slices whose newest map block cannot be reached from the root.
    pub fn unreachable(&self) -> Vec<SliceNr> {
        let mut seen = vec![false; self.nodes.len()];
        let mut todo: Vec<SliceNr> = self.root.into_iter().collect();
        while let Some(slice) = todo.pop() {
            if std::mem::replace(&mut seen[slice as usize], true) {
                continue;
            }
            for &(child, sequence) in &self.node(slice).children {
                if self.node(child).sequence == sequence {
                    todo.push(child);
                }
            }
        }
        let slices = 0..self.nodes.len() as SliceNr;
        slices.filter(|&slice| self.node(slice).place != 0 && !seen[slice as usize]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::rng::Rng;

    /// Overwrites slices at random and checks after each that nothing is lost. Returns the number
    /// of appends beyond one per overwrite and the most pointers seen.
    fn overwrite(slices: u32, pointers: usize, skewed: bool, seed: u64) -> (usize, usize) {
        let mut tree = Tree::with_pointers(slices, pointers);
        let mut rng = Rng::stream(seed, "tree");
        let (mut sequence, mut places) = (1, 10);
        let (mut extra, mut most) = (0, 0);
        for step in 0..2000 {
            let slice = if step < slices {
                step
            } else if skewed {
                ((1.0 / (1.0 - rng.unit())).powf(1.4) as u32 - 1).min(slices - 1)
            } else {
                rng.below(u64::from(slices)) as u32
            };
            let mut appended = SmallVec::new();
            let mut place = || {
                places += 1;
                places
            };
            tree.append(slice, &mut sequence, &mut place, &mut appended);
            assert_eq!(appended[0].slice, slice);
            extra += appended.len() - 1;
            for one in &appended {
                most = most.max(tree.node(one.slice).children.len());
            }
            assert_eq!(tree.unreachable(), Vec::<SliceNr>::new(), "step {step}");
            let digest = (0..slices)
                .filter(|&slice| tree.node(slice).place != 0)
                .fold(0, |sum, slice| sum ^ live_mark(slice, tree.node(slice).sequence));
            assert_eq!(tree.digest(), digest);
        }
        (extra, most)
    }

    #[test]
    fn nothing_is_ever_lost() {
        for slices in [1, 2, 4, 6, 16, 48] {
            for skewed in [false, true] {
                for seed in 0..3 {
                    let (extra, most) = overwrite(slices, MAX_POINTERS, skewed, seed);
                    assert!(most <= MAX_POINTERS);
                    assert_eq!(extra, 0, "24 pointers suffice for {slices} slices");
                }
            }
        }
    }

    #[test]
    fn overflow_appends_again_and_loses_nothing() {
        let mut extra = 0;
        for slices in [4, 16, 48] {
            for pointers in [2, 3] {
                for seed in 0..3 {
                    let (more, most) = overwrite(slices, pointers, true, seed);
                    assert!(most <= pointers);
                    extra += more;
                }
            }
        }
        assert!(extra > 0, "the test never reached the overflow");
    }
}
