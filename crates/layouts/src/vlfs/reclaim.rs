//! Finding blocks that count as used and are not, after a mount that has begun at a checkpoint: a
//! walk of all inodes in small steps, while no client waits.
//!
//! Suspects are all blocks in use when the walk begins, without map blocks and those that wait to
//! be free. The walk takes out what something leads to, and so does each commit with what it
//! supersedes. Within a slice patches are looked at first: blocks go from patches to inodes, never
//! back. What is a suspect in the end is free.

use super::Vlfs;
use super::address::{BLOCK_INODES, Child, INODE_POINTERS, SLICE_OBJECTS, Within, inode_child};
use super::format::{Entry, Inode, decode_indirect};
use super::nodes::{Missing, Nodes};
use super::objects::{Objects, Unknown};
use crate::bits::Bits;
use crate::eager::Mapped as _;
use seekless_engine::layer::Cx;
use seekless_engine::units::{MILLIS, SECONDS, Time};

/// Objects that are looked at in one step, and indirect blocks of one of them.
const OBJECTS: u32 = 512;
const STEP: u32 = 64;
/// How long no client must have waited, and what lies between two steps.
const REST: Time = SECONDS;
const PAUSE: Time = 10 * MILLIS;

/// What the walk comes to next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    slice: u32,
    /// Member of the slice; `None` for its patches.
    member: Option<u32>,
    within: Within,
}

/// The walk.
#[derive(Clone, Debug, Default)]
pub struct Reclaim {
    /// Blocks may count as used that are not.
    wanted: bool,
    suspects: Option<Bits>,
    at: Place,
    /// Not before.
    due: Time,
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    More,
    /// A block is on its way to memory.
    Waits,
    Ended,
}

impl Reclaim {
    /// Blocks may be lost.
    pub fn want(&mut self) {
        self.wanted = true;
    }

    /// True if blocks may be lost.
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// A block is superseded: it becomes free by itself.
    pub fn superseded(&mut self, place: u32) {
        if let Some(suspects) = &mut self.suspects {
            suspects.remove(place);
        }
    }
}

/// Takes out of the suspects what the pointers of an inode lead to, from a block on. Returns the
/// block to go on from, if that is not all.
fn walk(
    nodes: &Nodes,
    inode: &Inode,
    from: Within,
    suspects: &mut Bits,
) -> Result<Option<Within>, Missing> {
    let mut left = STEP;
    for index in 0..INODE_POINTERS {
        let (child, entry) = (inode_child(index), inode.pointers[index]);
        let stop = below(nodes, (child, entry), from, &mut left, suspects)?;
        if stop.is_some() {
            return Ok(stop);
        }
    }
    Ok(None)
}

fn below(
    nodes: &Nodes,
    (child, entry): (Child, Entry),
    from: Within,
    left: &mut u32,
    suspects: &mut Bits,
) -> Result<Option<Within>, Missing> {
    if !entry.is_mapped() {
        return Ok(None);
    }
    let Child::Indirect(one) = child else {
        suspects.remove(entry.place());
        return Ok(None);
    };
    let reach = one.reach();
    if reach.end <= from {
        return Ok(None);
    }
    if *left == 0 {
        return Ok(Some(reach.start.max(from)));
    }
    *left -= 1;
    suspects.remove(entry.place());
    for (index, entry) in decode_indirect(nodes.get(entry)?).enumerate() {
        let stop = below(nodes, (one.child(index), entry), from, left, suspects)?;
        if stop.is_some() {
            return Ok(stop);
        }
    }
    Ok(None)
}

impl Vlfs {
    /// When the walk goes on though nothing happens.
    pub(super) fn reclaim_due(&self) -> Option<Time> {
        let may = self.requests.is_running() && self.requests.failed().is_none();
        let waits = self.commits.is_busy() || !self.loads.is_empty() || !self.may_reclaim();
        let since = self.requests.idle_since().filter(|_| may && !waits)?;
        Some((since + REST).max(self.reclaim.due))
    }

    fn may_reclaim(&self) -> bool {
        let begins = self.writes.is_empty() && !self.punching.is_busy();
        let wanted = self.reclaim.wanted && !self.requests.is_read_only();
        wanted && (self.reclaim.suspects.is_some() || begins)
    }

    /// Goes on with the walk, once no client has waited for a while.
    pub(super) fn advance_reclaim(&mut self, cx: &mut Cx<'_>) {
        let is_due = self.reclaim_due().is_some_and(|due| due <= cx.now);
        if is_due && self.reclaim_step(cx) == Step::More {
            self.reclaim.due = cx.now + PAUSE;
        }
    }

    /// The same for want of space, until a block has to be read or the walk has ended. False if
    /// there is none.
    pub(super) fn reclaim_now(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.may_reclaim() {
            return false;
        }
        let step = loop {
            match self.reclaim_step(cx) {
                Step::More => {}
                other => break other,
            }
        };
        self.freed = step == Step::Ended;
        true
    }

    fn reclaim_step(&mut self, cx: &mut Cx<'_>) -> Step {
        let mut suspects = match self.reclaim.suspects.take() {
            Some(suspects) => suspects,
            None => self.suspects(),
        };
        let looked = (1..OBJECTS).try_fold(true, |more, _| match more {
            true => self.look_at_next(&mut suspects),
            false => Ok(false),
        });
        let step = match looked {
            Ok(true) => Step::More,
            Ok(false) => {
                self.free_lost(&suspects);
                Step::Ended
            }
            Err(unknown) => match self.need(unknown, cx) {
                None => Step::Waits,
                // What it leads to may be any of the suspects.
                Some(_) => Step::Ended,
            },
        };
        match step {
            Step::Ended => self.reclaim = Reclaim::default(),
            _ => self.reclaim.suspects = Some(suspects),
        }
        step
    }

    /// Blocks in use that are no map blocks and do not wait to be free.
    fn suspects(&self) -> Bits {
        let mut suspects = Bits::none(self.device_blocks as u32);
        let pool = self.pool();
        self.free.each_used(|at| {
            if pool.contains(&u64::from(at)) {
                suspects.insert(at);
            }
        });
        let maps = (0..self.tree.slices()).map(|slice| self.tree.node(slice).place);
        for place in maps.chain(self.checkpoints.kept()).chain(self.commits.waiting_places()) {
            suspects.remove(place);
        }
        suspects
    }

    /// Looks at what comes next. False if nothing is left.
    fn look_at_next(&mut self, suspects: &mut Bits) -> Result<bool, Unknown> {
        let Place { slice, member, within } = self.reclaim.at;
        if slice >= self.tree.slices() {
            return Ok(false);
        }
        let next_slice = Place { slice: slice + 1, member: None, within: 0 };
        let Some(content) = self.objects.slice(slice).map(|own| &own.content) else {
            self.reclaim.at = next_slice;
            return Ok(true);
        };
        let Some(member) = member else {
            for (_, changes) in content.patches.objects() {
                let placed = changes.placed.values();
                placed.for_each(|one| _ = suspects.remove(one.entry.place()));
            }
            let groups = content.groups.iter().filter(|entry| entry.is_mapped());
            groups.for_each(|entry| _ = suspects.remove(entry.place()));
            self.reclaim.at = Place { member: Some(0), ..self.reclaim.at };
            return Ok(true);
        };
        let is_there = content.groups[(member / BLOCK_INODES) as usize].is_mapped();
        let stop = match is_there {
            true => {
                let inode = self.objects.inode(Objects::first_of(slice) + member)?;
                walk(&self.objects.nodes, &inode, within, suspects)?
            }
            false => None,
        };
        self.reclaim.at = match stop {
            Some(within) => Place { within, ..self.reclaim.at },
            None if member + 1 < SLICE_OBJECTS => {
                Place { slice, member: Some(member + 1), within: 0 }
            }
            None => next_slice,
        };
        Ok(true)
    }

    fn free_lost(&mut self, suspects: &Bits) {
        let mut from = 0;
        while let Some(place) = suspects.next(from) {
            debug_assert!(!self.free.is_free(place.into()), "block {place} was freed meanwhile");
            self.free.release(place);
            self.punching.freed(place);
            from = place + 1;
        }
        self.counters.reclaimed += suspects.len();
    }
}
