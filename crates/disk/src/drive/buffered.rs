//! Reads of a disk that has a track buffer and no segmented cache.

use super::service::Service;
use crate::motion::Place;
use seekless_engine::io::Breakdown;
use seekless_engine::units::Time;

/// When a read is complete, and the times between which its sectors passed the head.
type Read = (Time, (Time, Time));

impl Service {
    /// Serves a read from the buffer, or from the platter.
    pub(super) fn read_buffered(
        &mut self,
        start: Time,
        lbn: u64,
        sectors: u32,
        spent: &mut Breakdown,
    ) -> Read {
        let motion = self.motion.clone();
        let ready = self.buffer.as_ref().and_then(|held| held.ready(&*motion, lbn, sectors));
        let after = self.last_was_write;
        let at = start + self.command_overhead(start, false, ready.is_some());
        spent.overhead_ns = at - start;
        if let (Some(ready), Some(buffer)) = (ready, &mut self.buffer) {
            buffer.after_hit(&*motion, lbn, sectors, at);
            spent.rotation_ns += ready.saturating_sub(at + self.bus.hit_ns(sectors));
            let done = self.bus.sent(at, sectors, (ready > at).then_some((at, ready)));
            return (done + self.completion[0], (at, ready.max(at)));
        }
        let track_end = motion.geometry().track_end(lbn);
        let whole = self.buffer.as_ref().is_some_and(|held| held.reads_whole_tracks());
        let (passed, media) = match whole && lbn + u64::from(sectors) <= track_end {
            true => self.read_track(at, lbn, sectors, spent),
            false => {
                let access = self.fetch(at, lbn, lbn + u64::from(sectors), spent);
                if let Some(buffer) = &mut self.buffer {
                    buffer.after_read(&*motion, lbn, sectors, access.end);
                }
                ((access.first, access.end), (access.start, access.end))
            }
        };
        (self.bus.sent_late(at, after, sectors, passed) + self.completion[0], media)
    }

    /// The whole-track rule: reads from the first sector under the head on, so that the track is in
    /// the buffer after one turn at whatever place the request lies. Returns the times between
    /// which the sectors passed, and when the first sector of all passed.
    fn read_track(
        &mut self,
        at: Time,
        lbn: u64,
        sectors: u32,
        spent: &mut Breakdown,
    ) -> ((Time, Time), (Time, Time)) {
        let motion = self.motion.clone();
        let free = self.set_out(at, lbn, spent);
        let run = motion.geometry().run(lbn);
        let (seek, switch) = motion.travel(self.place, &run, false);
        spent.seek_ns += seek;
        spent.head_switch_ns += switch;
        let arrived = free + seek + switch;
        let mut since = arrived;
        let mut end = arrived;
        if let Some(buffer) = &mut self.buffer {
            since = buffer.start_track(&*motion, lbn, arrived);
            let ready = buffer.ready(&*motion, lbn, sectors);
            end = ready.expect("the track has just been taken into the buffer");
        }
        spent.rotation_ns += end - arrived - motion.pass_ns(&run, sectors).min(end - arrived);
        self.place = Place::from(&run);
        self.mechanism_free = end;
        ((end, end), (since, end))
    }
}
