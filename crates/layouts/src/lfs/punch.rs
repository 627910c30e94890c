//! Giving free segments back to the host of a device; see [`crate::punch`]. A segment that is on
//! its way is not free for the log: it counts as open.

use super::segments::{SegmentNr, State};
use super::{Lfs, PUNCH};
use crate::punch::Puncher;
use seekless_engine::disk::Disk;
use seekless_engine::io::{Done, Io, Purpose};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::{BlockNr, Time};

/// Blocks of a step: 32 MiB. Of the free segments a step takes one in so many at most.
const STEP_BLOCKS: u32 = 8192;
const SHARE: u64 = 4;
/// Segments that wait to be free, at least, for a checkpoint that only frees them.
const LEAST_WAITING: u64 = 4;

/// What is given back, and what is on its way.
#[derive(Clone, Debug)]
pub(super) struct Punching {
    pub puncher: Puncher,
    held: Vec<SegmentNr>,
    /// What went too early, where that is planted.
    early: Option<SegmentNr>,
}

impl Punching {
    /// For so many segments.
    pub fn new(segments: u64, wanted: bool) -> Punching {
        Punching { puncher: Puncher::new(segments as u32, wanted), held: Vec::new(), early: None }
    }
}

impl Lfs {
    fn punch_step(&self) -> u32 {
        (STEP_BLOCKS / self.geometry.segment).max(1)
    }

    /// After a mount: free segments that may still take space below go when it is time.
    pub(super) fn look_for_stale(&mut self, disk: &mut dyn Disk) {
        let (geometry, segments) = (&self.geometry, &self.segments);
        let blocks = |segment| {
            let start = BlockNr::from(geometry.start_of(segment));
            (segment, start..start + u64::from(geometry.segment))
        };
        let all = (0..geometry.segments() as SegmentNr).map(blocks);
        let is_free = |segment| segments.get(segment).state == State::Free;
        self.punching.puncher.look(disk, all, is_free);
    }

    /// When to look again though nothing happens.
    pub(super) fn punch_due(&self) -> Option<Time> {
        self.punching.puncher.due()
    }

    /// True if a flush and a checkpoint are worth it only to free what waits for them.
    pub(super) fn hastens_space(&mut self, cx: &Cx<'_>) -> bool {
        let enough = self.segments.waiting() >= LEAST_WAITING;
        self.punching.puncher.hastens(enough, cx.idle_since, cx.now)
    }

    /// Sends what is to be given back now.
    pub(super) fn advance_punching(&mut self, cx: &mut Cx<'_>) {
        for segment in self.segments.take_released() {
            self.punching.puncher.freed(segment);
        }
        if !self.requests.is_running() || self.requests.failed().is_some() {
            return self.punching.puncher.rest();
        }
        let early = planted(PlantedBug::PunchedEarly) && cx.punches(0);
        let waiting = self.segments.last_waiting();
        if early && !self.punching.puncher.is_busy() && waiting != self.punching.early {
            self.punching.early = waiting;
            return waiting.into_iter().for_each(|segment| self.punch(segment, 1, cx));
        }
        let spare = self.segments.free().saturating_sub(self.low());
        let most = (spare / SHARE).min(u64::from(self.punch_step())) as u32;
        let (segments, can) = (&self.segments, cx.punches(0));
        let is_free = |segment| segments.get(segment).state == State::Free;
        let chosen = self.punching.puncher.take(can, cx.now, most, is_free);
        for &segment in &chosen {
            self.segments.hold(segment);
        }
        for run in chosen.chunk_by(|one, next| one + 1 == *next) {
            self.punch(run[0], run.len() as u32, cx);
        }
        self.punching.held.extend(chosen);
    }

    fn punch(&mut self, segment: SegmentNr, count: u32, cx: &mut Cx<'_>) {
        let blocks = count * self.geometry.segment;
        self.punching.puncher.sent();
        let trim = Io::trim(PUNCH, BlockNr::from(self.geometry.start_of(segment)), blocks);
        cx.send(0, trim.for_purpose(Purpose::Cleaning));
    }

    /// The device has answered.
    pub(super) fn punched(&mut self, done: &Done, cx: &Cx<'_>) {
        let (worked, idle) = (done.outcome.is_ok(), cx.idle_since.is_some());
        let step = self.punch_step();
        if self.punching.puncher.answered(worked, idle, step, cx.now) {
            for segment in std::mem::take(&mut self.punching.held) {
                self.segments.give_back(segment);
            }
        }
    }
}
