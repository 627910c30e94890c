//! Patches: what has changed in the objects of a slice since their inodes, indirect blocks and
//! edited blocks were last written. The map block of the slice has all of them, so that a small
//! change needs no block but that one.
//!
//! A patch says where a block lies now, that blocks hold nothing, or that bytes of a block
//! are others. Of what a later patch makes void nothing is kept. What is not in a patch is as the
//! inode says.

use super::address::{ATTRIBUTES, MOST_BLOCKS, SLICE_OBJECTS, Within, bytes_of as editable_bytes};
use super::format::Entry;
use crate::eager::Mapped;
use seekless_engine::superblock::le32;
use std::collections::BTreeMap;

/// Blocks that one run of patches names at most.
const MOST_IN_RUN: usize = 255;
/// Kinds, as they are on disk.
const RUN: u8 = 1;
const CUT: u8 = 2;
const EDIT: u8 = 3;
const WRITTEN: u8 = 4;
/// A run that this commit has written: a recovery looks whether it is there.
const FRESH: u8 = 0x80;
/// Bytes before the checksums of a run.
pub const RUN_HEAD: usize = 11;
/// Bytes before those of a run that no object names here.
pub const WRITTEN_HEAD: usize = 6;
/// Bytes of a cut.
pub const CUT_BYTES: usize = 10;
/// Bytes before those of an edit.
pub const EDIT_HEAD: usize = 10;
/// Bytes of a checksum.
pub const SUM_BYTES: usize = 4;

/// A block that was written, and whether by the open commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Where, and its checksum.
    pub entry: Entry,
    /// It was written by the open commit.
    pub fresh: bool,
}

/// Bytes that a block has from an offset on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Offset in the block.
    pub at: u16,
    /// What is there.
    pub bytes: Vec<u8>,
}

impl Edit {
    fn end(&self) -> usize {
        usize::from(self.at) + self.bytes.len()
    }
}

/// The patches of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Blocks that hold nothing, unless one of `placed` does: from, and the one behind the last.
    /// In order, with gaps between.
    pub cuts: Vec<(Within, Within)>,
    /// Where blocks lie.
    pub placed: BTreeMap<Within, Placed>,
    /// What to change in a block once it was read, in order and with gaps between.
    pub edits: BTreeMap<Within, Vec<Edit>>,
}

/// What patches say of the place of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// It lies there.
    At(Entry),
    /// It holds nothing.
    Hole,
    /// What the inode says.
    Inode,
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.cuts.is_empty() && self.placed.is_empty() && self.edits.is_empty()
    }

    /// True if blocks hold nothing, unless one of `placed` says otherwise.
    pub fn is_cut(&self, within: Within) -> bool {
        let behind = self.cuts.partition_point(|&(from, _)| from <= within);
        behind > 0 && within < self.cuts[behind - 1].1
    }

    fn look(&self, within: Within) -> Look {
        match self.placed.get(&within) {
            Some(placed) => Look::At(placed.entry),
            None if self.is_cut(within) => Look::Hole,
            None => Look::Inode,
        }
    }

    /// Joins a range to the cuts.
    fn add_cut(&mut self, from: Within, to: Within) {
        let first = self.cuts.partition_point(|&(_, end)| end < from);
        let last = self.cuts.partition_point(|&(begin, _)| begin <= to);
        let joined = self.cuts[first..last]
            .iter()
            .fold((from, to), |(from, to), &(begin, end)| (from.min(begin), to.max(end)));
        self.cuts.splice(first..last, [joined]);
    }
}

/// Puts an edit among others of the same block: what touches it becomes one with it.
fn merge(edits: &mut Vec<Edit>, new: Edit) {
    let first = edits.partition_point(|one| one.end() < usize::from(new.at));
    let last = edits.partition_point(|one| usize::from(one.at) <= new.end());
    let (mut at, mut end) = (new.at, new.end());
    for one in &edits[first..last] {
        (at, end) = (at.min(one.at), end.max(one.end()));
    }
    let mut bytes = vec![0; end - usize::from(at)];
    for one in edits[first..last].iter().chain([&new]) {
        let from = usize::from(one.at - at);
        bytes[from..from + one.bytes.len()].copy_from_slice(&one.bytes);
    }
    edits.splice(first..last, [Edit { at, bytes }]);
}

/// The patches of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patches {
    objects: BTreeMap<u8, Changes>,
    /// Blocks that the open commit has written and that no patch names: indirect blocks, and what
    /// they lead to. A recovery looks whether they are there.
    written: Vec<Entry>,
}

impl Patches {
    /// True if nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.written.is_empty()
    }

    /// Members of the slice with patches, with what has changed of each.
    pub fn objects(&self) -> impl Iterator<Item = (u8, &Changes)> {
        self.objects.iter().map(|(&member, changes)| (member, changes))
    }

    /// What has changed of a member of the slice.
    pub fn of(&self, member: u8) -> Option<&Changes> {
        self.objects.get(&member)
    }

    /// Takes out what has changed of a member.
    pub fn take(&mut self, member: u8) -> Changes {
        self.objects.remove(&member).unwrap_or_default()
    }

    /// Puts back what is left of the changes of a member.
    pub fn put(&mut self, member: u8, changes: Changes) {
        if !changes.is_empty() {
            self.objects.insert(member, changes);
        }
    }

    /// Where a block lies.
    pub fn look(&self, member: u8, within: Within) -> Look {
        self.objects.get(&member).map_or(Look::Inode, |changes| changes.look(within))
    }

    /// What is to be changed in a block.
    pub fn edits(&self, member: u8, within: Within) -> &[Edit] {
        let edits = self.objects.get(&member).and_then(|changes| changes.edits.get(&within));
        edits.map_or(&[], Vec::as_slice)
    }

    /// The open commit writes a block there. Returns where a patch said that it lies.
    pub fn place(&mut self, member: u8, within: Within, entry: Entry) -> Option<Entry> {
        debug_assert!(entry.is_mapped() && within != ATTRIBUTES);
        let changes = self.objects.entry(member).or_default();
        changes.edits.remove(&within);
        let old = changes.placed.insert(within, Placed { entry, fresh: true });
        old.map(|old| old.entry)
    }

    /// Blocks `from..to` hold nothing from now on. Returns where patches said that some of them
    /// lie.
    pub fn cut(&mut self, member: u8, from: Within, to: Within) -> Vec<Entry> {
        debug_assert!(from < to);
        let changes = self.objects.entry(member).or_default();
        let mut behind = changes.placed.split_off(&from);
        let mut kept = behind.split_off(&to);
        changes.placed.append(&mut kept);
        let mut edits = changes.edits.split_off(&from);
        changes.edits.append(&mut edits.split_off(&to));
        changes.add_cut(from, to);
        behind.into_values().map(|one| one.entry).collect()
    }

    /// Some bytes of a block change.
    pub fn edit(&mut self, member: u8, within: Within, at: u16, bytes: &[u8]) {
        debug_assert!(!bytes.is_empty());
        let edits = self.objects.entry(member).or_default().edits.entry(within).or_default();
        merge(edits, Edit { at, bytes: bytes.into() });
    }

    /// The open commit writes a block that no patch names.
    pub fn written(&mut self, entry: Entry) {
        self.written.push(entry);
    }

    /// Where the open commit has written, by this slice.
    pub fn fresh(&self) -> impl Iterator<Item = Entry> + '_ {
        let placed = self.objects.values().flat_map(|changes| changes.placed.values());
        let placed = placed.filter(|one| one.fresh).map(|one| one.entry);
        placed.chain(self.written.iter().copied())
    }

    /// A commit with all this was begun: nothing is fresh for the next one.
    pub fn settle(&mut self) {
        self.written.clear();
        for changes in self.objects.values_mut() {
            changes.placed.values_mut().for_each(|one| one.fresh = false);
        }
    }

    /// Bytes that they take in a map block.
    pub fn encoded_bytes(&self) -> usize {
        let mut count = Count(0);
        self.write_to(&mut count);
        count.0
    }

    /// As they lie in a map block, in ascending order of objects and blocks.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_to(&mut out);
        out
    }

    fn write_to(&self, out: &mut impl Sink) {
        for (&member, changes) in &self.objects {
            for &(from, to) in &changes.cuts {
                out.put(&[CUT, member]);
                out.put(&from.to_le_bytes());
                out.put(&to.to_le_bytes());
            }
            let placed: Vec<(Within, Placed)> =
                changes.placed.iter().map(|(&within, &one)| (within, one)).collect();
            for run in runs(&placed) {
                let (within, first) = run[0];
                let fresh = if first.fresh { FRESH } else { 0 };
                out.put(&[RUN | fresh, member, run.len() as u8]);
                out.put(&within.to_le_bytes());
                put_entries(run.iter().map(|(_, one)| one.entry), out);
            }
            for (within, edits) in &changes.edits {
                for edit in edits {
                    out.put(&[EDIT, member]);
                    out.put(&within.to_le_bytes());
                    out.put(&edit.at.to_le_bytes());
                    out.put(&(edit.bytes.len() as u16).to_le_bytes());
                    out.put(&edit.bytes);
                }
            }
        }
        let mut rest = &self.written[..];
        while !rest.is_empty() {
            let length = run_of((0..).zip(rest.iter().copied()));
            out.put(&[WRITTEN, length as u8]);
            put_entries(rest[..length].iter().copied(), out);
            rest = &rest[length..];
        }
    }

    /// From a map block; `None` if they make no sense.
    pub fn decode(mut bytes: &[u8]) -> Option<Patches> {
        let mut all = Patches::default();
        while !bytes.is_empty() {
            let length = all.decode_one(bytes)?;
            bytes = &bytes[length..];
        }
        Some(all)
    }

    /// Takes the first of these patches. Returns the bytes that it takes.
    fn decode_one(&mut self, bytes: &[u8]) -> Option<usize> {
        let kind = bytes[0] & !FRESH;
        let head = match kind {
            RUN => RUN_HEAD,
            CUT => CUT_BYTES,
            EDIT => EDIT_HEAD,
            WRITTEN => WRITTEN_HEAD,
            _ => return None,
        };
        if bytes.len() < head || bytes[0] & FRESH != 0 && kind != RUN {
            return None;
        }
        let member = bytes[1];
        if kind != WRITTEN && u32::from(member) >= SLICE_OBJECTS {
            return None;
        }
        match kind {
            RUN => {
                let within = le32(bytes, 3);
                let entries = entries(bytes[2], &bytes[RUN_HEAD - 4..])?;
                let end = within.checked_add(entries.len() as u32)?;
                let changes = self.objects.entry(member).or_default();
                if end > MOST_BLOCKS || changes.placed.range(within..).next().is_some() {
                    return None;
                }
                let fresh = bytes[0] & FRESH != 0;
                let placed = entries.iter().map(|&entry| Placed { entry, fresh });
                changes.placed.extend((within..).zip(placed));
                Some(RUN_HEAD + entries.len() * SUM_BYTES)
            }
            WRITTEN => {
                let entries = entries(bytes[1], &bytes[WRITTEN_HEAD - 4..])?;
                self.written.extend(&entries);
                Some(WRITTEN_HEAD + entries.len() * SUM_BYTES)
            }
            CUT => {
                let (from, to) = (le32(bytes, 2), le32(bytes, 6));
                let changes = self.objects.entry(member).or_default();
                let behind = changes.cuts.last().is_none_or(|&(_, end)| end < from);
                if from >= to || to > ATTRIBUTES + 1 || !behind {
                    return None;
                }
                changes.cuts.push((from, to));
                Some(CUT_BYTES)
            }
            _ => self.decode_edit(member, bytes),
        }
    }

    fn decode_edit(&mut self, member: u8, bytes: &[u8]) -> Option<usize> {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let (within, at) = (le32(bytes, 2), half(6));
        let length = usize::from(half(8));
        let end = usize::from(at) + length;
        let most = editable_bytes(within)?;
        if length == 0 || end > most || bytes.len() < EDIT_HEAD + length {
            return None;
        }
        let changes = self.objects.entry(member).or_default();
        if changes.edits.range(within + 1..).next().is_some() {
            return None;
        }
        let edits = changes.edits.entry(within).or_default();
        if edits.last().is_some_and(|last| last.end() >= usize::from(at)) {
            return None;
        }
        edits.push(Edit { at, bytes: bytes[EDIT_HEAD..EDIT_HEAD + length].into() });
        Some(EDIT_HEAD + length)
    }
}

/// How many blocks from the first on follow each other, also where they lie, so that one patch
/// names them.
fn run_of(blocks: impl Iterator<Item = (Within, Entry)>) -> usize {
    let mut first = None;
    let follows = |&(within, entry): &(Within, Entry)| {
        let &mut (begin, at) = first.get_or_insert((within, entry));
        let index = within - begin;
        index == 0 || entry.place() == at.place() + index && !entry.escaped() && !at.escaped()
    };
    let mut before = None;
    let in_order = |&(within, _): &(Within, Entry)| {
        let next = before.is_none_or(|before| within == before + 1);
        before = Some(within);
        next
    };
    blocks.take_while(in_order).take_while(follows).take(MOST_IN_RUN).count()
}

/// Blocks of an object, in ascending order, in the runs that one patch each names. None is empty.
pub fn runs(placed: &[(Within, Placed)]) -> impl Iterator<Item = &[(Within, Placed)]> {
    let mut rest = placed;
    std::iter::from_fn(move || {
        let (_, first) = rest.first()?;
        let length = run_of(rest.iter().map(|&(within, one)| (within, one.entry)))
            .min(rest.iter().take_while(|(_, one)| one.fresh == first.fresh).count());
        let run;
        (run, rest) = rest.split_at(length);
        Some(run)
    })
}

/// Bytes that edits of a block take.
pub fn edit_bytes(edits: &[Edit]) -> usize {
    edits.iter().map(|edit| EDIT_HEAD + edit.bytes.len()).sum()
}

/// Puts down where the first one lies, and the checksum of each.
fn put_entries(mut entries: impl Iterator<Item = Entry>, out: &mut impl Sink) {
    if let Some(first) = entries.next() {
        out.put(&first.encode());
        entries.for_each(|one| out.put(&one.checksum().to_le_bytes()));
    }
}

/// The entries of a run of so many blocks.
fn entries(count: u8, bytes: &[u8]) -> Option<Vec<Entry>> {
    let count = usize::from(count);
    if count == 0 || bytes.len() < SUM_BYTES * (count + 1) {
        return None;
    }
    let first = Entry::decode(bytes);
    let last = first.place().checked_add(count as u32 - 1)?;
    if !first.is_mapped() || last >= 1 << 31 || first.escaped() && count > 1 {
        return None;
    }
    let sums = bytes[SUM_BYTES..].chunks_exact(SUM_BYTES).take(count).map(|sum| le32(sum, 0));
    let entry = |(place, sum)| Entry::new(place, first.escaped(), sum);
    Some((first.place()..).zip(sums).map(entry).collect())
}

/// Where patches are written to.
trait Sink {
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Only counts.
struct Count(usize);

impl Sink for Count {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

#[cfg(test)]
mod tests;
