//! Spilling a slice: its patches go into inodes, indirect blocks and edited blocks, which are
//! written anew. Its map block has room again, and what the patches made void is free.
//!
//! A spill is planned from what is in memory, and carried out in one commit. The plan of a slice
//! needs blocks that may have to be read first. What would need too many of them at once is left
//! for the next spill: the beginning of a long cut, and blocks below it.

use super::address::{
    ATTRIBUTE_BYTES, ATTRIBUTES, BLOCK_INODES, DIRECT, FAN_OUT, ObjectNr, SLICE_GROUPS, Within,
};
use super::format::{Entry, INODE_BYTES, Inode};
use super::objects::{Objects, Unknown, apply};
use super::patch::Changes;
use super::pointers::{Changed, Pointers};
use crate::eager::Mapped as _;
use bytes::Bytes;
use seekless_engine::checksum::Identity;
use seekless_engine::units::BLOCK_BYTES;
use std::collections::BTreeSet;

/// Indirect blocks that one spill of an object frees, or changes for blocks that were placed.
const MOST_INDIRECT: u32 = 64;

/// What a spill of a slice does.
#[derive(Debug)]
pub struct Plan {
    slice: u32,
    groups: Vec<Group>,
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

/// Plans the spill of a slice.
///
/// # Errors
/// A block has to be read first, or an inode is damaged.
pub fn plan(objects: &Objects, slice: u32) -> Result<Plan, Unknown> {
    let mut plan = Plan { slice, groups: Vec::new() };
    let Some(content) = objects.slice(slice).map(|slice| &slice.content) else { return Ok(plan) };
    for (member, changes) in content.patches.objects() {
        let index = (u32::from(member) / BLOCK_INODES) as usize;
        if plan.groups.last().is_none_or(|group| group.index != index) {
            let old = content.groups[index];
            let bytes = match old.is_mapped() {
                true => objects.nodes.get(old)?.to_vec(),
                false => vec![0; BLOCK_BYTES],
            };
            plan.groups.push(Group { index, old, bytes, objects: Vec::new() });
        }
        let object = Objects::first_of(slice) + u32::from(member);
        let planned = plan_object(objects, object, changes.clone())?;
        if let Some(group) = plan.groups.last_mut() {
            group.objects.push(planned);
        }
    }
    Ok(plan)
}

fn plan_object(
    objects: &Objects,
    object: ObjectNr,
    mut changes: Changes,
) -> Result<Object, Unknown> {
    let mut inode = objects.inode(object)?;
    if changes.is_cut(ATTRIBUTES) {
        inode.attributes = [0; ATTRIBUTE_BYTES];
    }
    for edit in changes.edits.remove(&ATTRIBUTES).iter().flatten() {
        apply(edit, &mut inode.attributes);
    }
    let mut pointers = Pointers::new(&objects.nodes, inode);
    let later = leave_for_later(&pointers, &mut changes)?;
    for &(from, to) in &changes.cuts {
        pointers.cut(from, to)?;
    }
    for (&within, one) in &changes.placed {
        pointers.place(within, one.entry)?;
    }
    let mut edited = Vec::new();
    for (&within, edits) in &changes.edits {
        let bytes = objects.edited(pointers.find(within)?, edits)?;
        // The indirect blocks that lead to it change as well: none is missing later.
        pointers.reserve(within)?;
        edited.push((within, bytes.into()));
    }
    let fresh = changes.placed.values().filter(|one| one.fresh).map(|one| one.entry).collect();
    Ok(Object { object, pointers: pointers.changed(), fresh, edited, later })
}

/// Takes out of the changes what would need too many indirect blocks at once.
fn leave_for_later(pointers: &Pointers<'_>, changes: &mut Changes) -> Result<Changes, Unknown> {
    let mut later = Changes::default();
    let mut cuts = std::mem::take(&mut changes.cuts);
    // The last cut only, from its end: other cuts wait if it is long.
    while let Some((from, to)) = cuts.pop() {
        let Some(last) = pointers.last(from, to)? else {
            changes.cuts.insert(0, (from, to));
            continue;
        };
        let begin = last.saturating_sub(MOST_INDIRECT * FAN_OUT);
        let begin = begin.max(DIRECT) - begin.max(DIRECT).saturating_sub(DIRECT) % FAN_OUT;
        if from >= begin || last < MOST_INDIRECT * FAN_OUT {
            changes.cuts.insert(0, (from, to));
            continue;
        }
        changes.cuts.insert(0, (begin, to));
        later.cuts = cuts;
        later.cuts.push((from, begin));
        break;
    }
    let ends = later.cuts.last().map_or(0, |&(_, end)| end);
    let waits = |within: &Within| *within < ends;
    let mut seen = BTreeSet::new();
    let placed = std::mem::take(&mut changes.placed);
    for (within, one) in placed {
        let number = within.checked_sub(DIRECT).map(|rest| rest / FAN_OUT);
        let is_new = number.is_some_and(|number| !seen.contains(&number));
        if waits(&within) || is_new && seen.len() as u32 == MOST_INDIRECT {
            later.placed.insert(within, one);
        } else {
            seen.extend(number);
            changes.placed.insert(within, one);
        }
    }
    let edits = std::mem::take(&mut changes.edits);
    for (within, edits) in edits {
        let to = if waits(&within) || later.placed.contains_key(&within) {
            &mut later
        } else {
            &mut *changes
        };
        to.edits.insert(within, edits);
    }
    Ok(later)
}

impl Plan {
    /// Blocks that it writes, at most.
    pub fn blocks(&self) -> usize {
        let of = |group: &Group| {
            let objects = group.objects.iter();
            1 + objects.map(|one| one.pointers.to_write() + one.edited.len()).sum::<usize>()
        };
        self.groups.iter().map(of).sum()
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
