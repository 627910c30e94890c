//! Reads that need no arm: their first sector is in memory, or the head is about to read it.

use super::Request;
use super::service::Service;
use crate::cache::Ahead;
use seekless_engine::io::Op;
use seekless_engine::units::Time;

/// The content of the disk's memory at a moment.
pub(super) struct Memory<'s> {
    service: &'s Service,
    at: Time,
    /// The reading ahead, and the sector it has reached.
    ahead: Option<(Ahead, u64)>,
    /// A bit for each group of sectors, set if a segment may hold one of them. This rules out most
    /// reads of a long queue cheaply.
    groups: [u64; 4],
    shift: u32,
}

/// The word and the bit of a group.
fn bit(group: u64) -> (usize, u64) {
    (group as usize / 64 % 4, 1 << (group % 64))
}

impl<'s> Memory<'s> {
    pub(super) fn new(service: &'s Service, at: Time) -> Memory<'s> {
        let ahead = service.ahead.map(|mut ahead| {
            ahead.advance(&service.motion, at);
            (ahead, ahead.pointer(&service.motion, at))
        });
        let mut memory = Memory { service, at, ahead, groups: [0; 4], shift: 0 };
        if let Some(cache) = &service.cache {
            memory.shift = cache.rules.segment_sectors.max(1).ilog2();
            let reads_on = ahead.map(|(ahead, pointer)| {
                (cache.get(ahead.segment).start, pointer.max(ahead.limit.saturating_sub(1)))
            });
            for (start, end) in cache.spans().chain(reads_on) {
                for group in start >> memory.shift..=end >> memory.shift {
                    let (word, bit) = bit(group);
                    memory.groups[word] |= bit;
                }
            }
        }
        memory
    }

    /// True if this is a read whose first sector is in memory, or where the head reads ahead.
    pub(super) fn has(&self, request: &Request) -> bool {
        if request.op != Op::Read {
            return false;
        }
        let (lbn, end) = (request.lbn, request.lbn + u64::from(request.sectors));
        if let Some(buffer) = &self.service.buffer {
            return buffer.ready(&*self.service.motion, lbn, request.sectors).is_some();
        }
        let Some(cache) = &self.service.cache else { return false };
        if self.service.dirty.as_ref().is_some_and(|dirty| dirty.covers(lbn, end, self.at)) {
            return true;
        }
        let (word, bit) = bit(lbn >> self.shift);
        if self.groups[word] & bit == 0 {
            return false;
        }
        let reads_on = self.ahead.is_some_and(|(ahead, pointer)| {
            // At the head, and not beyond the last sector that it reads.
            let begin = cache.get(ahead.segment).start;
            (begin..=pointer).contains(&lbn) && lbn < ahead.limit
        });
        reads_on || cache.find(lbn).is_some()
    }
}
