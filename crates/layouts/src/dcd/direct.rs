//! Writes and trims that go straight home, past the log (section 3.5.1 of the paper): large ones,
//! and those of long streams.
//!
//! Until such a write is complete, reads get what the log has of its blocks; then what its home
//! has. What the log had stays dirty until the home is durable.

use super::{DIRECT, Dcd, Report};
use seekless_engine::data::Data;
use seekless_engine::edge::Edge;
use seekless_engine::io::{Done, Io, Op, Tag};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::BlockNr;
use slab::Slab;
use smallvec::SmallVec;

#[derive(Clone, Debug)]
struct Direct {
    request: usize,
    at: BlockNr,
    count: u32,
    commands_left: u32,
}

/// Those in flight.
#[derive(Clone, Debug, Default)]
pub struct Directs(Slab<Direct>);

impl Directs {
    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if one of them touches a range.
    pub fn overlap(&self, at: BlockNr, count: u32) -> bool {
        let end = at + u64::from(count);
        self.0.iter().any(|(_, one)| one.at < end && at < one.at + u64::from(one.count))
    }
}

impl Dcd {
    /// True if nothing that is on its way home touches a range.
    pub(super) fn may_go_home(&mut self, at: BlockNr, count: u32) -> bool {
        !self.directs.overlap(at, count) && !self.destage.holds_up(at, count)
    }

    /// Sends a write home, or a trim, which has no data.
    pub(super) fn begin_direct(
        &mut self,
        request: usize,
        at: BlockNr,
        count: u32,
        data: Data,
        cx: &mut Cx<'_>,
    ) {
        let homes: SmallVec<[_; 2]> = self.homes(at, count).collect();
        let commands_left = homes.len() as u32;
        let direct = self.directs.0.insert(Direct { request, at, count, commands_left });
        let tag = DIRECT | direct as Tag;
        self.counters.direct_blocks += u64::from(count);
        let mut from = 0;
        for (port, home, count) in homes {
            let io = match data.is_empty() {
                true => Io { op: Op::Trim, ..Io::read(tag, home, count) },
                false => Io::write(tag, home, data.slice(from, count)),
            };
            from += count;
            self.send(port, io, cx);
        }
    }

    /// A command of a direct write has been answered.
    pub(super) fn direct_done(&mut self, index: usize, done: Done, cx: &mut Cx<'_>) {
        let direct = &mut self.directs.0[index];
        debug_assert!(direct.commands_left > 0, "a write home is done before its last command");
        direct.commands_left -= 1;
        let last = direct.commands_left == 0;
        let request = direct.request;
        self.requests.spend(request, &done.spent);
        if let Err(error) = done.outcome {
            self.requests.fail(request, error);
            self.fail_volume(error, cx);
        }
        if !last {
            return;
        }
        let Direct { at, count, .. } = self.directs.0.remove(index);
        let failed = self.requests.has_failed(request) || self.requests.failed().is_some();
        let listed = if failed { Vec::new() } else { self.log.table.listed(at, count.into()) };
        // What the log has of these blocks may already have been cancelled by a tombstone that is
        // not durable yet: then this write is not durable either.
        let buried = self.log.killed.is_empty()
            && self.log.graves.is_empty()
            && self.log.last_seq() <= self.log.durable;
        let lasting = self.caching.report == Report::Logged
            && Edge::DcdDirectLasting.blocks(!(listed.is_empty() && buried));
        let homes: SmallVec<[_; 2]> = self.homes(at, count).collect();
        for &block in &listed {
            let stamp = self.home_writes.done()[self.home_port(block.into())] + 1;
            if let Some(addr) = self.log.table.get(block) {
                self.log.kill(block, addr, stamp);
            }
        }
        for (port, _, _) in homes {
            self.home_written(port);
        }
        if planted(PlantedBug::TombstoneEarly) {
            self.bury_killed();
        }
        if let Some(error) = self.requests.failed() {
            self.requests.fail(request, error);
        }
        self.part_done(request, lasting && !self.volatile, cx);
    }
}
