//! The writes of a device in the order in which it completed them.

use seekless_crash::fate::Fate;
use seekless_crash::pending::BlockWrite;
use seekless_engine::io::{Io, Op, Part, Tag};
use seekless_engine::middleware::record::Event;
use seekless_engine::units::{BLOCK_SECTORS, BlockNr, Time};
use std::collections::BTreeMap;

/// A write that the device has completed.
#[derive(Clone, Debug)]
pub(super) struct Wrote {
    pub write: BlockWrite,
    /// When it was complete.
    pub completed: Time,
}

/// The completed writes of a recording of a device that begins at this block of the volume.
pub(super) fn completed_writes(log: &[Event], first: BlockNr) -> Vec<Wrote> {
    let mut in_flight: BTreeMap<Tag, BlockWrite> = BTreeMap::new();
    let mut wrote = Vec::new();
    for event in log {
        match event {
            Event::Submitted { io, .. } if io.op == Op::Write => {
                in_flight.insert(io.tag, write_of(io, first));
            }
            Event::Completed { at_ns, tag, outcome: Ok(_) } => {
                let done = in_flight.remove(tag);
                wrote.extend(done.map(|write| Wrote { write, completed: *at_ns }));
            }
            _ => {}
        }
    }
    wrote
}

fn write_of(io: &Io, first: BlockNr) -> BlockWrite {
    BlockWrite {
        at: first + io.at,
        data: io.data.clone(),
        labels: None,
        part: io.part,
        places: None,
    }
}

impl Wrote {
    /// What is left of it when the power goes half-way: the first half of its sectors, if it has
    /// several.
    pub fn half(&self) -> Option<Fate> {
        let sectors = self.write.blocks() * BLOCK_SECTORS as u32;
        let all = self.write.part.unwrap_or(Part { first: 0, sectors });
        let end = all.first + all.sectors / 2;
        let kept = |sector| (all.first..end).contains(&sector);
        (all.sectors > 1).then(|| Fate::Torn((0..sectors).map(kept).collect()))
    }
}
