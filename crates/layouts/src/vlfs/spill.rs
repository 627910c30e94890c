//! Spilling a slice: its patches go into inodes, indirect blocks and edited blocks, which are
//! written anew. Its map block has room again, and what the patches made void is free.
//!
//! A spill is planned from what is in memory, and carried out in one commit. The plan of a slice
//! needs blocks that may have to be read first. The map block lists what its commit has written, so
//! a plan has a budget: bytes of the map block, blocks, and indirect blocks. What exceeds it stays
//! in patches for the next spill. An object whose blocks cannot be read stays as it is.

use super::address::{
    ATTRIBUTE_BYTES, ATTRIBUTES, BLOCK_INODES, DIRECT, FAN_OUT, Holder, Indirect, MOST_BLOCKS,
    ObjectNr, SLICE_GROUPS, Within, address, holder_of,
};
use super::format::{Content, Entry, INODE_BYTES, Inode, PATCH_ROOM};
use super::nodes::Missing;
use super::objects::{Objects, Unknown, apply};
use super::patch::{
    CUT_BYTES, Changes, Edit, Placed, RUN_HEAD, SUM_BYTES, WRITTEN_HEAD, edit_bytes, runs,
};
use super::pointers::{Changed, Pointers};
use crate::eager::Mapped as _;
use bytes::Bytes;
use seekless_engine::checksum::Identity;
use seekless_engine::io::IoError;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::BLOCK_BYTES;
use std::collections::{BTreeMap, BTreeSet};

/// Indirect blocks that one spill of a slice frees or changes.
const MOST_INDIRECT: usize = 64;
/// Of those, the ones on the ways to both ends of a cut.
const BOTH_ENDS: usize = 6;
/// Bytes in a map block that lists one more block as written.
const LISTED: usize = WRITTEN_HEAD + SUM_BYTES;
/// Bytes of a map block that patches leave to what a spill lists as written. Each spill carries
/// out at least one change of an object: a cut lists the most, two ways of three indirect blocks.
pub const SPILL_ROOM: usize = 192;

const _: () = assert!(SPILL_ROOM >= BOTH_ENDS * LISTED);

/// What a spill may still use.
#[derive(Clone, Copy, Debug)]
struct Budget {
    /// Bytes of the map block.
    bytes: usize,
    /// Blocks that may be written.
    blocks: usize,
    /// Indirect blocks that may be changed or freed.
    indirect: usize,
}

impl Budget {
    /// Takes `cost` out, if there is as much.
    fn pay(&mut self, cost: Budget) -> bool {
        let left = |have: usize, cost: usize| have.checked_sub(cost);
        let (bytes, blocks) = (left(self.bytes, cost.bytes), left(self.blocks, cost.blocks));
        let (Some(bytes), Some(blocks), Some(indirect)) =
            (bytes, blocks, left(self.indirect, cost.indirect))
        else {
            return false;
        };
        *self = Budget { bytes, blocks, indirect };
        true
    }
}

/// What a spill of a slice does.
#[derive(Debug)]
pub struct Plan {
    slice: u32,
    groups: Vec<Group>,
    blocks: usize,
    /// Objects that cannot be spilled, with the reason.
    pub lost: Vec<(ObjectNr, IoError)>,
}

/// An inode block that is written anew.
#[derive(Debug)]
struct Group {
    index: usize,
    old: Entry,
    bytes: Vec<u8>,
    objects: Vec<Object>,
}

#[derive(Debug)]
struct Object {
    object: ObjectNr,
    pointers: Changed,
    /// Blocks that the open commit wrote, of which patches do not tell then.
    fresh: Vec<Entry>,
    /// Blocks whose edits are carried out.
    edited: Vec<(Within, Bytes)>,
    /// What is left for the next spill.
    later: Changes,
}

/// What became of a slice.
#[derive(Debug, Default)]
pub struct Spilled {
    /// Its inode blocks that were written, and where; unmapped if no inode of one holds anything.
    pub groups: Vec<(usize, Entry)>,
    /// What is left of the patches, by object.
    pub later: Vec<(ObjectNr, Changes)>,
    /// What nothing needs, once this is durable.
    pub released: Vec<Entry>,
    /// Blocks that were written and that no patch and no map block names.
    pub written: Vec<Entry>,
}

/// Plans the spill of a slice that writes at most so many blocks.
///
/// # Errors
/// A block has to be read first.
pub fn plan(objects: &Objects, slice: u32, blocks: usize) -> Result<Plan, Missing> {
    let mut plan = Plan { slice, groups: Vec::new(), blocks: 0, lost: Vec::new() };
    let Some(content) = objects.slice(slice).map(|slice| &slice.content) else { return Ok(plan) };
    let bytes = PATCH_ROOM.saturating_sub(content.patches.encoded_bytes());
    let mut left = Budget { bytes, blocks, indirect: MOST_INDIRECT };
    for index in 0..SLICE_GROUPS {
        plan.add_group(objects, content, index, &mut left)?;
    }
    plan.blocks = blocks - left.blocks;
    Ok(plan)
}

/// An object while its spill is planned.
struct Draft<'n, 'b> {
    pointers: Pointers<'n>,
    budget: &'b mut Budget,
    /// Indirect blocks that are paid for.
    paid: BTreeSet<Indirect>,
    fresh: Vec<Entry>,
    edited: Vec<(Within, Bytes)>,
    later: Changes,
    /// Something of it is carried out.
    takes: bool,
}

/// The changes of one object that the budget allows; `None` if that is nothing.
fn plan_object(
    objects: &Objects,
    object: ObjectNr,
    mut changes: Changes,
    budget: &mut Budget,
) -> Result<Option<Object>, Unknown> {
    let mut inode = objects.inode(object)?;
    let takes = take_attributes(&mut inode, &mut changes, budget);
    let mut draft = Draft {
        pointers: Pointers::new(&objects.nodes, inode),
        budget,
        paid: BTreeSet::new(),
        fresh: Vec::new(),
        edited: Vec::new(),
        later: Changes::default(),
        takes,
    };
    let twice = planted(PlantedBug::PatchTwice) && !changes.placed.is_empty();
    let cuts = if twice { changes.cuts.clone() } else { Vec::new() };
    draft.cut(changes.cuts)?;
    draft.place(changes.placed)?;
    draft.edit(objects, changes.edits)?;
    if twice && draft.later.cuts.is_empty() {
        draft.later.cuts = cuts;
    }
    let Draft { pointers, fresh, edited, later, takes, .. } = draft;
    let pointers = pointers.changed();
    Ok(takes.then_some(Object { object, pointers, fresh, edited, later }))
}

/// Carries out what changes in attributes. True if anything does.
fn take_attributes(inode: &mut Inode, changes: &mut Changes, budget: &mut Budget) -> bool {
    let is_cut = changes.is_cut(ATTRIBUTES);
    if let Some((from, to)) = changes.cuts.pop_if(|(_, to)| *to > MOST_BLOCKS) {
        // No pointer reaches the rest.
        match from < MOST_BLOCKS {
            true => changes.cuts.push((from, to.min(MOST_BLOCKS))),
            false => budget.bytes += CUT_BYTES,
        }
    }
    if is_cut {
        inode.attributes = [0; ATTRIBUTE_BYTES];
    }
    let edits = changes.edits.remove(&ATTRIBUTES);
    for edit in edits.iter().flatten() {
        apply(edit, &mut inode.attributes);
    }
    budget.bytes += edits.as_deref().map_or(0, edit_bytes);
    is_cut || edits.is_some()
}

/// The indirect blocks that lead to a block, the nearest first.
fn way(within: Within) -> impl Iterator<Item = Indirect> {
    let above = |holder: Holder| match holder {
        Holder::Inode(_) => None,
        Holder::Indirect(one, _) => Some(one),
    };
    std::iter::successors(above(holder_of(within)), move |one| above(one.holder()))
}

impl Draft<'_, '_> {
    /// Pays for the indirect blocks on the ways to these blocks, and for `more` beside. False if
    /// the budget does not allow that.
    fn pay(&mut self, ways: &[Within], more: Budget) -> bool {
        let mut new: Vec<Indirect> = ways.iter().flat_map(|&within| way(within)).collect();
        new.sort_unstable();
        new.dedup();
        new.retain(|one| !self.paid.contains(one));
        let may = self.budget.pay(Budget {
            bytes: more.bytes + new.len() * LISTED,
            blocks: more.blocks + new.len(),
            indirect: more.indirect + new.len(),
        });
        if may {
            self.takes = true;
            self.paid.extend(new);
        }
        may
    }

    /// Carries out the last cuts, each from its end, until one has to wait; then those before it
    /// wait as well.
    fn cut(&mut self, mut cuts: Vec<(Within, Within)>) -> Result<(), Missing> {
        while let Some((from, to)) = cuts.pop() {
            let begin = match self.pointers.last(from, to)? {
                None => {
                    self.takes = true;
                    from
                }
                Some(last) => match self.begin_of_cut(from, last) {
                    Some(begin) => {
                        self.pointers.cut(begin, to)?;
                        begin
                    }
                    None => to,
                },
            };
            if begin > from {
                cuts.push((from, begin));
                self.later.cuts = cuts;
                return Ok(());
            }
            self.budget.bytes += CUT_BYTES;
        }
        Ok(())
    }

    /// Pays for a cut that ends at block `last`. Returns where it begins: at `from`, or so that few
    /// enough indirect blocks are freed. `None` if it has to wait.
    fn begin_of_cut(&mut self, from: Within, last: Within) -> Option<Within> {
        let number =
            |within: Within| within.checked_sub(DIRECT).map_or(0, |rest| 1 + rest / FAN_OUT);
        let most = self.budget.indirect.saturating_sub(BOTH_ENDS) as u32;
        let first = number(last).saturating_sub(most);
        // The last level that is not touched is the one of this number.
        let begin = if first == 0 { from } else { from.max(DIRECT + first * FAN_OUT) };
        if begin > last {
            return None;
        }
        let indirect = (number(last) - number(begin)) as usize;
        // Those on the ways to both ends may stay, and are written then.
        self.pay(&[begin, last], Budget { bytes: 0, blocks: 0, indirect }).then_some(begin)
    }

    /// True if a cut that has to wait comes before what is said of a block.
    fn waits(&self, within: Within) -> bool {
        self.later.cuts.last().is_some_and(|&(_, end)| within < end)
    }

    fn place(&mut self, placed: BTreeMap<Within, Placed>) -> Result<(), Missing> {
        let placed: Vec<(Within, Placed)> = placed.into_iter().collect();
        let mut may = true;
        for run in runs(&placed) {
            let mut taken = 0;
            for &(within, one) in run {
                let listed = match (one.fresh, taken) {
                    (false, _) => 0,
                    (true, 0) => LISTED,
                    (true, _) => SUM_BYTES,
                };
                let cost = Budget { bytes: listed, blocks: 0, indirect: 0 };
                may = may && (self.waits(within) || self.pay(&[within], cost));
                if !may || self.waits(within) {
                    self.later.placed.insert(within, one);
                    continue;
                }
                if taken > 0 || !planted(PlantedBug::PatchForgotten) {
                    self.pointers.place(within, one.entry)?;
                }
                self.fresh.extend(one.fresh.then_some(one.entry));
                taken += 1;
                self.budget.bytes += SUM_BYTES;
            }
            if taken == run.len() {
                self.budget.bytes += RUN_HEAD;
            }
        }
        Ok(())
    }

    fn edit(
        &mut self,
        objects: &Objects,
        edits: BTreeMap<Within, Vec<Edit>>,
    ) -> Result<(), Missing> {
        for (within, edits) in edits {
            let waits = self.waits(within) || self.later.placed.contains_key(&within);
            let cost = Budget { bytes: LISTED, blocks: 1, indirect: 0 };
            if waits || !self.pay(&[within], cost) {
                self.later.edits.insert(within, edits);
                continue;
            }
            let bytes = objects.edited(self.pointers.find(within)?, &edits)?;
            // The indirect blocks that lead to it change as well: none is missing later.
            self.pointers.reserve(within)?;
            self.edited.push((within, bytes.into()));
            self.budget.bytes += edit_bytes(&edits);
        }
        Ok(())
    }
}

impl Plan {
    /// Adds the changes of the objects of an inode block.
    fn add_group(
        &mut self,
        objects: &Objects,
        content: &Content,
        index: usize,
        left: &mut Budget,
    ) -> Result<(), Missing> {
        let is_of = |member: u8| (u32::from(member) / BLOCK_INODES) as usize == index;
        let mut members = content.patches.objects().filter(|(member, _)| is_of(*member)).peekable();
        let before = *left;
        let pays =
            members.peek().is_some() && left.pay(Budget { bytes: 0, blocks: 1, indirect: 0 });
        if !pays {
            return Ok(());
        }
        let old = content.groups[index];
        let mut group = Group { index, old, bytes: vec![0; BLOCK_BYTES], objects: Vec::new() };
        for (member, changes) in members {
            let object = Objects::first_of(self.slice) + u32::from(member);
            let mut rest = *left;
            match plan_object(objects, object, changes.clone(), &mut rest) {
                Ok(Some(planned)) => {
                    *left = rest;
                    group.objects.push(planned);
                }
                Ok(None) => {}
                Err(unknown) => self.leave_out(objects, object, unknown)?,
            }
        }
        if group.objects.is_empty() {
            *left = before;
            return Ok(());
        }
        if old.is_mapped() {
            group.bytes.copy_from_slice(objects.nodes.get(old)?);
        }
        self.groups.push(group);
        Ok(())
    }

    /// An object stays as it is if what leads to its blocks cannot be read.
    fn leave_out(
        &mut self,
        objects: &Objects,
        object: ObjectNr,
        unknown: Unknown,
    ) -> Result<(), Missing> {
        let error = match unknown {
            Unknown::Missing(entry) => objects.nodes.failure(entry).ok_or(Missing(entry))?,
            Unknown::Damaged(object) => IoError::Checksum { block: address(object, 0) },
        };
        self.lost.push((object, error));
        Ok(())
    }

    /// True if it does nothing.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Blocks that it writes, at most.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Writes everything; `put` chooses a place for a block and writes it there.
    pub fn carry_out(self, id: Identity, mut put: impl FnMut(Bytes) -> Entry) -> Spilled {
        debug_assert!(self.groups.len() <= SLICE_GROUPS, "slice {}", self.slice);
        let mut spilled = Spilled::default();
        for mut group in self.groups {
            for one in group.objects {
                let inode = one.carry_out(&mut spilled, &mut put);
                let at = (inode.0 % BLOCK_INODES) as usize * INODE_BYTES;
                inode.1.encode(id, inode.0, &mut group.bytes[at..at + INODE_BYTES]);
            }
            let entry = match group.bytes.iter().all(|&byte| byte == 0) {
                true => Entry::UNMAPPED,
                false => put(group.bytes.into()),
            };
            spilled.groups.push((group.index, entry));
            if group.old.is_mapped() {
                spilled.released.push(group.old);
            }
        }
        spilled
    }
}

impl Object {
    fn carry_out(
        mut self,
        spilled: &mut Spilled,
        mut put: impl FnMut(Bytes) -> Entry,
    ) -> (ObjectNr, Inode) {
        spilled.written.append(&mut self.fresh);
        for (within, bytes) in self.edited {
            let entry = match bytes.iter().all(|&byte| byte == 0) {
                true => Entry::UNMAPPED,
                false => put(bytes),
            };
            spilled.written.extend(entry.is_mapped().then_some(entry));
            self.pointers.place(within, entry);
        }
        let written = &mut spilled.written;
        let (inode, released) = self.pointers.write(|bytes| {
            let entry = put(bytes);
            written.push(entry);
            entry
        });
        spilled.released.extend(released);
        spilled.later.push((self.object, self.later));
        (self.object, inode)
    }
}

#[cfg(test)]
mod tests;
