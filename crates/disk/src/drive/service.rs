//! Service of one command: controller, cache, arm, platter and bus.

use super::bus::BusRules;
use super::shingle::Shingle;
use super::writeback::Dirty;
use super::{Completion, Destage, Request};
use crate::buffer::TrackBuffer;
use crate::cache::{Ahead, Segments};
use crate::motion::{Access, Motion, Place};
use crate::spec::{FastWrite, Overheads, Simple, Spec, SpecError, ns};
use seekless_engine::io::{Breakdown, Op};
use seekless_engine::units::{SECTOR_BYTES, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// Overheads in nanoseconds: read or write, miss or hit, after a read or a write.
type Table = [[[Time; 2]; 2]; 2];

/// Controller and mechanism of a disk, serving one command after the other.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) motion: Arc<Motion>,
    pub(super) place: Place,
    /// When the controller can take the next command.
    pub(super) controller_free: Time,
    /// When the disk can take up the next command that waits: the data of the one before has moved.
    pub(super) intake_free: Time,
    /// When the mechanism is free; reading ahead does not count.
    pub(super) mechanism_free: Time,
    pub(super) cache: Option<Segments>,
    pub(super) ahead: Option<Ahead>,
    /// The track buffer of a disk without a segmented cache.
    pub(super) buffer: Option<TrackBuffer>,
    pub(super) overhead: Time,
    table: Table,
    pub(super) completion: [Time; 2],
    pub(super) bus: BusRules,
    minimum_seek: Time,
    /// Costs of a write that is reported early: of any, and of one that continues another.
    early: Option<[Time; 2]>,
    /// Least time from a command to the first sector of a write, and for each of its sectors.
    lead: [Time; 2],
    simple: Option<(Time, f64)>,
    pub(super) last_was_write: usize,
    /// The last access to the platter was a write.
    wrote: bool,
    /// The write that is on its way to the platter after it was reported: first sector and the
    /// one behind its last.
    destaging: Option<(u64, u64)>,
    /// The parts of it: when each has passed the head, and its sectors. They fill a segment.
    reported: VecDeque<(Time, u32)>,
    partial_sectors: u32,
    /// The write-back cache.
    pub(super) dirty: Option<Dirty>,
    /// The translation of a drive-managed shingled disk.
    pub(super) shingle: Option<Shingle>,
    /// The sector of the platter behind the last write of such a disk.
    pub(super) written_until: Option<u64>,
    /// Extents that left the write-back cache for the platter, if they are recorded.
    pub(super) log: Option<VecDeque<Destage>>,
}

/// A write on its way to the platter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landing {
    /// First sector as the host names it.
    pub(super) lbn: u64,
    /// First sector on the platter; the same but on shingled disks.
    pub(super) place: u64,
    /// Number of sectors.
    pub(super) count: u32,
    /// The segment of the cache that it continues.
    pub(super) continued: Option<usize>,
    /// It begins where the write before it has ended.
    pub(super) goes_on: bool,
}

fn table(o: &Overheads) -> Table {
    let pair = |a, b| [ns(a), ns(b)];
    [
        [
            pair(o.read_miss_after_read_ms, o.read_miss_after_write_ms),
            pair(o.read_hit_after_read_ms, o.read_hit_after_write_ms),
        ],
        [
            pair(o.write_miss_after_read_ms, o.write_miss_after_write_ms),
            pair(o.write_hit_after_read_ms, o.write_hit_after_write_ms),
        ],
    ]
}

impl Service {
    pub(super) fn new(spec: &Spec) -> Result<Service, SpecError> {
        Ok(Service {
            motion: Arc::new(Motion::new(spec)?),
            place: Place::default(),
            controller_free: 0,
            intake_free: 0,
            mechanism_free: 0,
            cache: spec.cache.map(Segments::new),
            ahead: None,
            buffer: spec
                .cache
                .is_none()
                .then(|| TrackBuffer::new(spec.buffer.read_ahead, spec.buffer.fence_sectors)),
            overhead: spec.overhead_ns(),
            table: table(&spec.overheads),
            completion: [
                ns(spec.overheads.read_completion_ms),
                ns(spec.overheads.write_completion_ms),
            ],
            bus: BusRules::new(spec),
            minimum_seek: ns(spec.overheads.minimum_seek_delay_ms),
            early: spec.overheads.early_write_ms.map(|any| {
                let contiguous = spec.overheads.early_contiguous_write_ms.unwrap_or(any);
                [ns(any), ns(contiguous)]
            }),
            lead: [ns(spec.overheads.write_lead_ms), ns(spec.overheads.write_lead_sector_ms)],
            simple: spec.simple.map(|Simple { positioning_ms, mb_per_s }| {
                (ns(positioning_ms), SECTOR_BYTES as f64 * 1e3 / mb_per_s)
            }),
            last_was_write: 0,
            wrote: false,
            destaging: None,
            reported: VecDeque::new(),
            partial_sectors: spec.sector_size.physical / 512,
            dirty: spec.cache.and_then(|cache| {
                cache.write_back.map(|rules| Dirty::new(rules, cache.combine_writes))
            }),
            shingle: spec.shingled.map(|rules| Shingle::new(spec, rules)),
            written_until: None,
            log: None,
        })
    }

    /// Where and when the arm could start, at `at` or later, for a read or a write that arrived at
    /// `arrived`. It may lie before `at`: a command that waited is decoded.
    pub(super) fn ready(&self, arrived: Time, at: Time, write: bool) -> (Place, Time) {
        let place = self.ahead.as_ref().map_or(self.place, Ahead::place);
        let overhead = self.table[usize::from(write)][0][self.last_was_write] + self.overhead;
        let begin = self.taken_up(arrived, at);
        (place, (begin + overhead).max(self.mechanism_free))
    }

    /// When the disk takes up a command that arrived at `arrived` and has the controller from
    /// `start` on. Disks with a segmented cache decode commands that wait, and fetch the data of
    /// writes, while the platter is busy.
    fn taken_up(&self, arrived: Time, start: Time) -> Time {
        match self.cache {
            Some(_) => arrived.max(self.intake_free).min(start),
            None => start,
        }
    }

    /// Serves a command that arrived at `arrived`, from `now` on or when the controller is free.
    pub(super) fn serve(&mut self, arrived: Time, now: Time, request: &Request) -> Completion {
        let start = now.max(self.controller_free);
        self.catch_up(start);
        let mut spent = Breakdown { queue_ns: start - arrived, ..Breakdown::default() };
        let (end, media) = match request.op {
            // Writes are durable when they are reported, and cleaning loses nothing.
            Op::Flush if self.shingle.is_some() => (start, (start, start)),
            Op::Flush => {
                self.write_out(start);
                let end = start.max(self.mechanism_free);
                spent.queue_ns += end - start;
                (end, (end, end))
            }
            Op::Trim => {
                if let Some(dirty) = &mut self.dirty {
                    dirty.remove(request.lbn, request.lbn + u64::from(request.sectors));
                }
                spent.overhead_ns = self.overhead;
                let end = start + self.overhead;
                (end, (end, end))
            }
            _ if self.simple.is_some() => self.formula(start, request, &mut spent),
            Op::Read if self.buffer.is_some() => {
                self.read_buffered(start, request.lbn, request.sectors, &mut spent)
            }
            Op::Read => self.read(arrived, start, request, &mut spent),
            Op::Write if self.absorbs(request) => {
                self.keep(start, request.lbn, request.lbn + u64::from(request.sectors), &mut spent)
            }
            Op::Write if self.shingle.is_some() => {
                let begin = self.taken_up(arrived, start);
                spent.queue_ns = begin - arrived;
                self.write_shingled(begin, request, &mut spent)
            }
            Op::Write => {
                let begin = self.taken_up(arrived, start);
                spent.queue_ns = begin - arrived;
                self.write(begin, request, &mut spent)
            }
        };
        let end = end.max(start);
        // Time that the mechanics do not explain is the bus.
        spent.transfer_ns = 0;
        spent.transfer_ns = (end - arrived) - spent.total_ns();
        self.controller_free = end;
        if request.op != Op::Write {
            self.intake_free = end;
        }
        Completion { tag: request.tag, at: end, media_start: media.0, media_end: media.1, spent }
    }

    /// The three-parameter model.
    fn formula(
        &mut self,
        start: Time,
        request: &Request,
        spent: &mut Breakdown,
    ) -> (Time, (Time, Time)) {
        let (positioning, sector) = self.simple.unwrap_or((0, 0.0));
        spent.overhead_ns = self.overhead;
        spent.seek_ns = positioning;
        let from = start + self.overhead + positioning;
        let end = from + (f64::from(request.sectors) * sector).round() as Time;
        self.mechanism_free = end;
        (end, (from, end))
    }

    /// Time that the controller needs before the arm moves or data flows.
    pub(super) fn command_overhead(&mut self, start: Time, write: bool, hit: bool) -> Time {
        let mut after = std::mem::replace(&mut self.last_was_write, usize::from(write));
        if start > self.controller_free && (write || !hit) {
            after = usize::from(!write);
        }
        self.overhead + self.table[usize::from(write)][usize::from(hit)][after]
    }

    /// Stops reading ahead at `at` and returns when and from where the arm can start.
    pub(super) fn stop_ahead(&mut self, at: Time) -> Time {
        let Some(mut ahead) = self.ahead.take() else { return at.max(self.mechanism_free) };
        let Some(cache) = &mut self.cache else { return at };
        ahead.advance(&self.motion, at);
        let pointer = ahead.pointer(&self.motion, at);
        cache.extend(ahead.segment, pointer);
        self.place = ahead.place();
        let free = at.max(self.mechanism_free);
        if cache.rules.min_read_ahead > 0 {
            // The head stays until it has read so many sectors.
            let least = (ahead.begun + u64::from(cache.rules.min_read_ahead)).min(ahead.limit);
            if pointer < least {
                let free = free.max(ahead.reach(&self.motion, least));
                ahead.advance(&self.motion, free);
                cache.extend(ahead.segment, least);
                self.place = ahead.place();
                return free;
            }
        }
        if cache.rules.stops_at_sector && pointer < ahead.limit {
            let end = ahead.reach(&self.motion, pointer + 1);
            // Between two tracks there is no sector to wait for.
            let sector = self.motion.rev_ns() / 16;
            return if end < free + sector { free.max(end) } else { free };
        }
        free
    }

    fn read(
        &mut self,
        arrived: Time,
        start: Time,
        request: &Request,
        spent: &mut Breakdown,
    ) -> (Time, (Time, Time)) {
        let (lbn, sectors) = (request.lbn, request.sectors);
        let begin = self.taken_up(arrived, start);
        let end = lbn + u64::from(sectors);
        if let (Some(ahead), Some(cache)) = (&mut self.ahead, &mut self.cache) {
            ahead.advance(&self.motion, start);
            cache.extend(ahead.segment, ahead.pointer(&self.motion, start));
        }
        let hit = self.cache.as_ref().and_then(|cache| {
            cache.find(lbn).or_else(|| {
                // About to be read: the head is on its way there.
                let ahead = self.ahead.as_ref()?;
                let segment = cache.get(ahead.segment);
                (segment.end == lbn && lbn < ahead.limit).then_some(ahead.segment)
            })
        });
        let written =
            hit.is_none() && self.dirty.as_ref().is_some_and(|dirty| dirty.covers(lbn, end, start));
        let after = self.last_was_write;
        let overhead = self.command_overhead(start, false, hit.is_some() || written);
        spent.overhead_ns = overhead;
        // The arm does not wait for the data of the read before to reach the host.
        let misses = hit.is_none() && !written;
        let at = overhead + if misses { begin } else { start };
        if misses {
            spent.queue_ns = begin - arrived;
        }
        let media = match hit {
            // Sectors that wait for the platter are in memory.
            _ if written => None,
            Some(segment) => self.read_hit(segment, at, lbn, end, spent),
            None => Some(self.read_miss(at, lbn, end, spent)),
        };
        let done = match media {
            Some(passed) if hit.is_none() => {
                let sent = self.bus.sent_late(at, after, sectors, passed);
                // The bus is busy with the read before.
                if start > begin { sent.max(start + self.bus.hit_ns(sectors)) } else { sent }
            }
            media => self.bus.sent(at, sectors, media),
        };
        let (first, last) = media.unwrap_or((at, at));
        (done + self.completion[0], (first, last))
    }

    /// A read whose first sector is in a segment. Returns when the first sector that is still
    /// missing has come, and the last, if any is.
    fn read_hit(
        &mut self,
        segment: usize,
        at: Time,
        lbn: u64,
        end: u64,
        spent: &mut Breakdown,
    ) -> Option<(Time, Time)> {
        let cache = self.cache.as_mut()?;
        cache.touch(segment);
        let have = cache.get(segment).end;
        let begin = cache.get(segment).start;
        let active = self.ahead.as_mut().filter(|ahead| ahead.segment == segment);
        if let Some(ahead) = active {
            let running = ahead.pointer(&self.motion, at) < ahead.limit;
            if running || end <= ahead.limit {
                // The head keeps reading; the request only moves the limit.
                if running {
                    let limit = cache.limit(&self.motion, begin, lbn, end);
                    let limit = match &self.shingle {
                        Some(shingle) => shingle.home_until(ahead.limit, limit.max(ahead.limit)),
                        None => limit,
                    };
                    ahead.limit = ahead.limit.max(limit);
                }
                if end <= have {
                    if !running {
                        self.resume(segment, at, lbn, end);
                    }
                    return None;
                }
                let ready = ahead.reach(&self.motion, end);
                let whole = at + self.bus.sector[0] * (end - lbn);
                if ready <= at {
                    return None;
                }
                spent.rotation_ns = ready.saturating_sub(whole);
                return Some((at, ready));
            }
        }
        if end <= have {
            self.resume(segment, at, lbn, end);
            return None;
        }
        // Read the rest from the platter.
        let access = self.fetch(at, have.max(lbn), end, spent);
        let cache = self.cache.as_mut()?;
        cache.extend(segment, end);
        let limit = cache.limit(&self.motion, begin, lbn, end);
        self.go_on(segment, end, limit, &access);
        Some((at, access.end))
    }

    /// A hit on data that is complete: some disks take up reading ahead again.
    fn resume(&mut self, segment: usize, at: Time, lbn: u64, end: u64) {
        let Some(cache) = &self.cache else { return };
        if !cache.rules.read_ahead_on_idle_hit || self.mechanism_free > at {
            return;
        }
        let idle = self.ahead.as_ref().is_none_or(|ahead| {
            ahead.segment == segment && ahead.pointer(&self.motion, at) >= ahead.limit
        });
        let held = *cache.get(segment);
        if !idle || held.written {
            return;
        }
        let limit = cache.limit(&self.motion, held.start, lbn, end);
        let limit = match &self.shingle {
            Some(shingle) => shingle.home_until(held.end, limit.max(held.end)),
            None => limit,
        };
        if limit > held.end {
            let place = self.ahead.as_ref().map_or(self.place, Ahead::place);
            let begun = Ahead::begin(&self.motion, segment, held.end, limit, place, at);
            self.ahead = Some(begun);
        }
    }

    fn read_miss(&mut self, at: Time, lbn: u64, end: u64, spent: &mut Breakdown) -> (Time, Time) {
        let access = self.fetch(at, lbn, end, spent);
        if let Some(cache) = &mut self.cache {
            let mut begin = lbn;
            if cache.rules.reads_free_sectors {
                // Sectors of the track that passed while the head waited.
                let run = self.motion.geometry().run(lbn);
                let before = (access.start - access.arrived.min(access.start))
                    * u64::from(run.track_sectors)
                    / self.motion.rev_ns();
                let same = |begin: u64| {
                    let other = self.motion.geometry().run(begin);
                    (other.cylinder, other.head) == (run.cylinder, run.head)
                };
                let sector = u64::from(self.motion.geometry().physical(lbn).sector);
                let whole = lbn - before.min(sector).min(lbn);
                let (mut low, mut high) = (lbn.saturating_sub(before), lbn);
                if same(whole) {
                    (low, high) = (whole, whole);
                }
                // The first sector of this track, if the head waited for longer.
                while low < high {
                    let middle = low + (high - low) / 2;
                    if same(middle) { high = middle } else { low = middle + 1 }
                }
                begin = low;
            }
            let reads = cache.in_sequence(lbn);
            let segment = cache.take(false);
            cache.set(segment, begin, end, false);
            cache.continue_sequence(segment, reads);
            let limit = match reads >= cache.rules.read_ahead_from {
                true => cache.limit(&self.motion, begin, lbn, end),
                false => end,
            };
            self.go_on(segment, end, limit, &access);
        }
        (access.first, access.end)
    }

    /// The time to change elements if the head stays where it is.
    pub(super) fn jog(&mut self, lbn: u64, write: bool) -> Time {
        if std::mem::replace(&mut self.wrote, write) == write || self.motion.jog_ns() == 0 {
            return 0;
        }
        let run = self.motion.geometry().run(lbn);
        match self.place.cylinder == run.cylinder {
            true => self.motion.jog_ns(),
            false => 0,
        }
    }

    /// Cost of a write that comes at `now` before the arm moves, beyond the least cost.
    pub(super) fn before_write(&self, now: Time) -> Time {
        let jog = if self.wrote { 0 } else { self.motion.jog_ns() };
        let [after_read, after_write] = self.table[1][0];
        let rested = now > self.controller_free || self.last_was_write == 0;
        let here = if rested { after_read } else { after_write };
        jog + here - after_read.min(after_write)
    }

    /// When the arm can start for a read.
    pub(super) fn set_out(&mut self, at: Time, lbn: u64, spent: &mut Breakdown) -> Time {
        let free = self.stop_ahead(at);
        spent.queue_ns += free - at;
        let jog = self.jog(lbn, false);
        spent.seek_ns += jog;
        free + jog
    }

    /// Positions the head over sectors and reads them.
    pub(super) fn fetch(&mut self, at: Time, lbn: u64, end: u64, spent: &mut Breakdown) -> Access {
        let free = self.set_out(at, lbn, spent);
        let zero = self.cache.as_ref().is_some_and(|cache| cache.rules.zero_latency_reads);
        let count = (end - lbn) as u32;
        let access = self.fetch_parts(free, lbn, end).unwrap_or_else(|| {
            self.motion.access_from(lbn, count, false, self.place, free, 0, zero)
        });
        spent.seek_ns += access.parts.seek;
        spent.head_switch_ns += access.parts.switch;
        spent.rotation_ns += access.parts.wait;
        self.place = access.place;
        self.mechanism_free = access.end;
        self.destaging = None;
        access
    }

    /// Reads ahead after an access.
    fn go_on(&mut self, segment: usize, end: u64, limit: u64, access: &Access) {
        self.ahead = None;
        // What the log holds is not read ahead.
        let limit = match &self.shingle {
            Some(shingle) => shingle.home_until(end, limit),
            None => limit,
        };
        if limit > end {
            let place = access.place;
            let ahead = Ahead::begin(&self.motion, segment, end, limit, place, access.end);
            self.ahead = Some(ahead);
        }
    }

    fn write(
        &mut self,
        start: Time,
        request: &Request,
        spent: &mut Breakdown,
    ) -> (Time, (Time, Time)) {
        let (lbn, count) = (request.lbn, request.sectors);
        let end = lbn + u64::from(count);
        if let Some(dirty) = &mut self.dirty {
            dirty.remove(lbn, end);
        }
        let continued = self.cache.as_ref().and_then(|cache| cache.continued(lbn));
        let extra = self.bus.has_extra() && self.last_was_write == 1 && continued.is_none();
        let fast = match self.cache.as_ref().map(|cache| cache.rules.fast_write) {
            None | Some(FastWrite::None) => false,
            Some(FastWrite::Any) => !request.fua,
        };
        let command = self.command_overhead(start, true, continued.is_some()) - self.overhead;
        let command = match self.early.filter(|_| fast) {
            Some(early) => early[usize::from(continued.is_some())],
            None => command,
        };
        let mut taking = self.bus.taking(self.overhead, command, count, extra);
        spent.overhead_ns = taking.arm;
        let joins = self.cache.as_ref().is_some_and(|cache| cache.rules.combine_writes)
            && self.destaging.is_some_and(|(_, last)| last == lbn);
        if fast && self.mechanism_free > start + taking.arm && !joins {
            // The write before is not on the platter: its segment must become free first.
            let behind = self.destaging.is_some();
            if behind {
                let wait = self.mechanism_free - start - taking.arm;
                spent.queue_ns += wait;
                taking = taking.later(wait);
            }
        }
        if fast && joins {
            let wait = self.room_in_segment(start + taking.data, count);
            spent.queue_ns += wait;
            taking = taking.later(wait);
        }
        let (at, data) = (start + taking.arm, start + taking.data);
        self.intake_free = data;
        let lead = start + self.lead[0] + self.lead[1] * Time::from(count);
        let goes_on = continued.is_some();
        let landing = Landing { lbn, place: lbn, count, continued, goes_on };
        let (access, free) = self.put(at, data, lead, landing);
        if fast {
            self.destaging = match self.destaging {
                Some((first, last)) if last == lbn => Some((first, end)),
                _ => {
                    self.reported.clear();
                    Some((lbn, end))
                }
            };
            self.reported.push_back((access.end, count));
            return (data + self.completion[1], (access.start, access.end));
        }
        self.destaging = None;
        spent.queue_ns += free - at;
        spent.seek_ns += access.parts.seek;
        spent.head_switch_ns += access.parts.switch;
        spent.rotation_ns += access.parts.wait;
        let done = access.end.max(start + taking.left) + taking.regain + self.completion[1];
        (done, (access.start, access.end))
    }

    /// How long a write that joins others waits from `at` on until their segment has space for it.
    fn room_in_segment(&mut self, at: Time, count: u32) -> Time {
        let size = self.cache.as_ref().map_or(0, |cache| cache.rules.segment_sectors);
        let mut free = at;
        while self.reported.front().is_some_and(|part| part.0 <= free) {
            self.reported.pop_front();
        }
        let mut held: u64 = self.reported.iter().map(|part| u64::from(part.1)).sum();
        while held > 0 && held + u64::from(count) > u64::from(size) {
            let Some((passed, sectors)) = self.reported.pop_front() else { break };
            free = free.max(passed);
            held -= u64::from(sectors);
        }
        free - at
    }

    /// Writes data that is complete at `data` to the platter, not before `lead`. Also returns when
    /// the arm was free.
    pub(super) fn put(
        &mut self,
        at: Time,
        data: Time,
        lead: Time,
        landing: Landing,
    ) -> (Access, Time) {
        let Landing { lbn, place, count, continued, goes_on } = landing;
        let end = lbn + u64::from(count);
        let mut zero = false;
        let free = self.stop_ahead(at);
        let jog = self.jog(place, true);
        if let Some(buffer) = &mut self.buffer {
            buffer.clear();
        }
        if let Some(cache) = &mut self.cache {
            zero = cache.rules.zero_latency_writes;
            let segment = continued.unwrap_or_else(|| cache.take(true));
            let begin = continued.map_or(lbn, |segment| cache.get(segment).start);
            cache.drop_range(lbn, end, Some(segment));
            cache.set(segment, begin, end, true);
        }
        // The head must not run out of data, so a bus slower than the platter starts earlier.
        let run = self.motion.geometry().run(place);
        let others = u64::from(count.saturating_sub(1));
        let pass = self.motion.pass_ns(&run, count.min(run.count));
        let ahead = (pass / u64::from(count.max(1))) * others;
        let first = data.saturating_sub(self.bus.sector[1] * others);
        let mut earliest = first.max(data.saturating_sub(ahead));
        // A write that was there before the head has left the one that it continues goes on.
        if !goes_on || at > self.mechanism_free || jog > 0 {
            earliest = earliest.max(free + self.minimum_seek).max(lead);
        }
        let mut access = self.over(place, count, free + jog, earliest, zero);
        access.parts.seek += jog;
        (access, free)
    }

    /// Moves the head over sectors that are written, from `at` on and not before `earliest`.
    pub(super) fn over(
        &mut self,
        lbn: u64,
        count: u32,
        at: Time,
        earliest: Time,
        zero: bool,
    ) -> Access {
        let mut access = self.motion.access_from(lbn, count, true, self.place, at, earliest, zero);
        if !self.whole(lbn, count) {
            // A physical sector that is written in part is read first and written a turn later.
            access.end += self.motion.rev_ns();
            access.start += self.motion.rev_ns();
            access.parts.wait += self.motion.rev_ns();
        }
        self.place = access.place;
        self.mechanism_free = access.end;
        access
    }

    /// True if a write covers only whole physical sectors.
    fn whole(&self, lbn: u64, count: u32) -> bool {
        let sectors = u64::from(self.partial_sectors);
        lbn.is_multiple_of(sectors) && u64::from(count).is_multiple_of(sectors)
    }
}
