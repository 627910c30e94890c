//! The pointers of one object: looked up, and changed for a spill.

use super::address::{ATTRIBUTE_BYTES, Child, Holder, Indirect, Within, holder_of, inode_child};
use super::address::{DIRECT, FAN_OUT, INODE_POINTERS, MOST_BLOCKS};
use super::format::{Entry, Inode, decode_indirect, encode_indirect, leads_nowhere};
use super::nodes::{Missing, Nodes};
use crate::eager::Mapped as _;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Where a block lies, by an inode.
///
/// # Errors
/// An indirect block has to be read first.
pub fn find(nodes: &Nodes, inode: &Inode, within: Within) -> Result<Entry, Missing> {
    let mut way: smallvec::SmallVec<[usize; 3]> = smallvec::SmallVec::new();
    let mut holder = holder_of(within);
    let mut entry = loop {
        match holder {
            Holder::Inode(index) => break inode.pointers[index],
            Holder::Indirect(one, index) => {
                way.push(index);
                holder = one.holder();
            }
        }
    };
    for index in way.into_iter().rev() {
        if !entry.is_mapped() {
            return Ok(Entry::UNMAPPED);
        }
        entry = Entry::decode(&nodes.get(entry)?[index * 8..]);
    }
    Ok(entry)
}

/// What the pointers of an object become.
#[derive(Clone, Debug)]
pub struct Changed {
    inode: Inode,
    /// What indirect blocks become, with all those that lead to them.
    copies: BTreeMap<Indirect, Vec<Entry>>,
    /// Blocks that nothing needs once all this is written.
    released: Vec<Entry>,
}

/// The pointers of an object while they are changed.
#[derive(Clone, Debug)]
pub struct Pointers<'n> {
    nodes: &'n Nodes,
    changed: Changed,
}

impl<'n> Pointers<'n> {
    /// Those of an inode.
    pub fn new(nodes: &'n Nodes, inode: Inode) -> Pointers<'n> {
        let changed = Changed { inode, copies: BTreeMap::new(), released: Vec::new() };
        Pointers { nodes, changed }
    }

    /// What they become.
    pub fn changed(self) -> Changed {
        self.changed
    }

    fn get(&self, holder: Holder) -> Result<Entry, Missing> {
        match holder {
            Holder::Inode(index) => Ok(self.changed.inode.pointers[index]),
            Holder::Indirect(one, index) => match self.changed.copies.get(&one) {
                Some(copy) => Ok(copy[index]),
                None => match self.get(one.holder())? {
                    entry if entry.is_mapped() => {
                        Ok(Entry::decode(&self.nodes.get(entry)?[index * 8..]))
                    }
                    _ => Ok(Entry::UNMAPPED),
                },
            },
        }
    }

    /// Where a block lies.
    ///
    /// # Errors
    /// An indirect block has to be read first; so for all that follow.
    pub fn find(&self, within: Within) -> Result<Entry, Missing> {
        self.get(holder_of(within))
    }

    /// Puts a copy of an indirect block down, and of those that lead to it: they change with it.
    fn copy(&mut self, one: Indirect) -> Result<&mut Vec<Entry>, Missing> {
        if !self.changed.copies.contains_key(&one) {
            let entry = self.get(one.holder())?;
            let copy = match entry.is_mapped() {
                true => decode_indirect(self.nodes.get(entry)?).collect(),
                false => vec![Entry::UNMAPPED; FAN_OUT as usize],
            };
            if let Holder::Indirect(above, _) = one.holder() {
                self.copy(above)?;
            }
            self.changed.copies.insert(one, copy);
        }
        Ok(self.changed.copies.entry(one).or_default())
    }

    fn set(&mut self, holder: Holder, entry: Entry) -> Result<(), Missing> {
        match holder {
            Holder::Inode(index) => self.changed.inode.pointers[index] = entry,
            Holder::Indirect(one, index) => self.copy(one)?[index] = entry,
        }
        Ok(())
    }

    /// A block lies elsewhere now.
    pub fn place(&mut self, within: Within, entry: Entry) -> Result<(), Missing> {
        let holder = holder_of(within);
        let old = self.get(holder)?;
        self.set(holder, entry)?;
        self.changed.release(old);
        Ok(())
    }

    /// Makes sure that a block can be placed without anything being read.
    pub fn reserve(&mut self, within: Within) -> Result<(), Missing> {
        if let Holder::Indirect(one, _) = holder_of(within) {
            self.copy(one)?;
        }
        Ok(())
    }

    /// Blocks `from..to` hold nothing from now on.
    pub fn cut(&mut self, from: Within, to: Within) -> Result<(), Missing> {
        let to = to.min(MOST_BLOCKS);
        for index in 0..INODE_POINTERS {
            match inode_child(index) {
                Child::Block(block) if (from..to).contains(&block) => {
                    let pointer = &mut self.changed.inode.pointers[index];
                    let old = std::mem::replace(pointer, Entry::UNMAPPED);
                    self.changed.release(old);
                }
                Child::Block(_) => {}
                Child::Indirect(one) => self.cut_below(one, from, to)?,
            }
        }
        Ok(())
    }

    fn cut_below(&mut self, one: Indirect, from: Within, to: Within) -> Result<(), Missing> {
        let reach = one.reach();
        let entry = self.get(one.holder())?;
        if !entry.is_mapped() && !self.changed.copies.contains_key(&one)
            || to <= reach.start
            || reach.end <= from
        {
            return Ok(());
        }
        for index in 0..FAN_OUT as usize {
            match one.child(index) {
                Child::Block(block) if (from..to).contains(&block) => {
                    let old = self.get(Holder::Indirect(one, index))?;
                    if old.is_mapped() {
                        self.set(Holder::Indirect(one, index), Entry::UNMAPPED)?;
                        self.changed.release(old);
                    }
                }
                Child::Block(_) => {}
                Child::Indirect(below) => self.cut_below(below, from, to)?,
            }
        }
        Ok(())
    }

    /// The last of the blocks `from..to` that holds something.
    pub fn last(&self, from: Within, to: Within) -> Result<Option<Within>, Missing> {
        let to = to.min(MOST_BLOCKS);
        for index in (0..INODE_POINTERS).rev() {
            let entry = self.changed.inode.pointers[index];
            let found = match inode_child(index) {
                Child::Block(block) => {
                    (entry.is_mapped() && (from..to).contains(&block)).then_some(block)
                }
                Child::Indirect(one) => self.last_below(one, entry, from, to)?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn last_below(
        &self,
        one: Indirect,
        entry: Entry,
        from: Within,
        to: Within,
    ) -> Result<Option<Within>, Missing> {
        let reach = one.reach();
        if !entry.is_mapped() || to <= reach.start || reach.end <= from {
            return Ok(None);
        }
        let entries: Vec<Entry> = decode_indirect(self.nodes.get(entry)?).collect();
        for (index, &entry) in entries.iter().enumerate().rev() {
            let found = match one.child(index) {
                Child::Block(block) => {
                    (entry.is_mapped() && (from..to).contains(&block)).then_some(block)
                }
                Child::Indirect(below) => self.last_below(below, entry, from, to)?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

impl Changed {
    fn release(&mut self, old: Entry) {
        if old.is_mapped() {
            self.released.push(old);
        }
    }

    /// Places a block that was [reserved](Pointers::reserve).
    ///
    /// # Panics
    /// If it was not.
    pub fn place(&mut self, within: Within, entry: Entry) {
        let pointer = match holder_of(within) {
            Holder::Inode(index) => Some(&mut self.inode.pointers[index]),
            Holder::Indirect(one, index) => self.copies.get_mut(&one).map(|copy| &mut copy[index]),
        };
        let pointer = pointer.expect("a block is reserved before it is placed");
        let old = std::mem::replace(pointer, entry);
        self.release(old);
    }

    /// Writes the indirect blocks that have changed, those further down first, and gives up those
    /// that lead nowhere. `put` writes one. Returns the inode, and what nothing needs then.
    pub fn write(mut self, mut put: impl FnMut(Bytes) -> Entry) -> (Inode, Vec<Entry>) {
        // In ascending order of heights: each is complete when its turn comes.
        while let Some((one, copy)) = self.copies.pop_first() {
            let entry = match leads_nowhere(&copy) {
                true => Entry::UNMAPPED,
                false => put(encode_indirect(&copy)),
            };
            let old = match one.holder() {
                Holder::Inode(index) => std::mem::replace(&mut self.inode.pointers[index], entry),
                // A copy of each that leads to a copy is there.
                Holder::Indirect(above, index) => match self.copies.get_mut(&above) {
                    Some(above) => std::mem::replace(&mut above[index], entry),
                    None => unreachable!("{above:?} leads to {one:?}, and has no copy"),
                },
            };
            self.release(old);
        }
        (self.inode, self.released)
    }
}

const _: () = assert!(DIRECT as usize + 3 == INODE_POINTERS && ATTRIBUTE_BYTES < 4096);

#[cfg(test)]
mod tests;
