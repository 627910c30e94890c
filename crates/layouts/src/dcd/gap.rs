//! How far behind the last record the next one goes on a disk whose head position is unknown.
//!
//! Right behind it a record costs a turn of the platter whenever its command comes too late, and
//! the next one of a client that waits for each always does. How far the platter gets meanwhile is
//! up to the drive, to what is in between and to the client, so it is found out: now and then a
//! record leaves another gap, and the one after which records have been durable soonest lately is
//! kept as long as it pays. (Track-based logging, Chiueh and Huang, DSN 2002, predicts it from a
//! model of the drive.) Devices on which nothing costs a turn are left alone.

use seekless_engine::units::{MICROS, MILLIS, Time};

/// Gaps that are tried, in blocks.
const GAPS: [u32; 10] = [0, 1, 2, 4, 6, 8, 12, 16, 24, 32];
/// A record that begins later after the last one finds the platter anywhere.
const CLOSE: Time = 2 * MILLIS;
/// A record that takes less right behind the last one than this costs no turn.
const QUICK: f64 = (1500 * MICROS) as f64;
/// Longer than this is not a turn, either: something else was in the way.
const STRANGE: Time = 50 * MILLIS;
/// A gap has to be so much faster than none.
const PAYS: f64 = 0.8;
/// Of so many records one tries a gap that is not known, or another one than the best.
const UNKNOWN: u32 = 4;
const KNOWN: u32 = 32;
/// Weight of the last record in a mean.
const WEIGHT: f64 = 0.125;

/// What is known of gaps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gaps {
    /// How long a record takes until it is durable, in nanoseconds.
    mean_ns: [Option<f64>; GAPS.len()],
    best: usize,
    /// Records close to the one before, and the gap that is tried next.
    close: u32,
    next: usize,
    /// The record on its way: its gap, and when it began.
    under_way: Option<(usize, Time)>,
    ended: Option<Time>,
}

impl Gaps {
    /// A record begins: blocks to leave free before it.
    pub fn begin(&mut self, now: Time) -> u32 {
        self.under_way = None;
        if self.ended.is_none_or(|ended| now > ended + CLOSE) {
            return 0;
        }
        self.close = self.close.wrapping_add(1);
        let index = match self.mean_ns[0] {
            Some(dense) if dense > QUICK => self.choose(),
            _ => 0,
        };
        self.under_way = Some((index, now));
        GAPS[index]
    }

    fn choose(&mut self) -> usize {
        let unknown = self.mean_ns.iter().position(Option::is_none);
        match unknown {
            Some(unknown) if self.close.is_multiple_of(UNKNOWN) => unknown,
            None if self.close.is_multiple_of(KNOWN) => {
                self.next = (self.next + 1) % GAPS.len();
                self.next
            }
            _ => self.best,
        }
    }

    /// The record on its way is durable.
    pub fn durable(&mut self, now: Time) {
        self.ended = Some(now);
        let Some((index, began)) = self.under_way.take() else { return };
        let took = now - began;
        if took > STRANGE {
            return;
        }
        let mean = self.mean_ns[index].get_or_insert(took as f64);
        *mean += (took as f64 - *mean) * WEIGHT;
        let known = |index: usize| self.mean_ns[index].unwrap_or(f64::INFINITY);
        let best = (0..GAPS.len()).min_by(|&a, &b| known(a).total_cmp(&known(b)));
        self.best = best.filter(|&best| known(best) < PAYS * known(0)).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A platter that turns in 8 ms, 64 blocks to the turn; each command takes `way` until it is
    /// there. Blocks passed over for a record of one block, and its mean time.
    fn run(way: Time, turn: Time, records: u32) -> (f64, f64) {
        let (mut gaps, mut now, mut at) = (Gaps::default(), 0, 0);
        let (mut passed, mut spent) = (0, 0);
        for _ in 0..records {
            let gap = gaps.begin(now);
            at += u64::from(gap);
            let there = now + way;
            let position = (at % 64) * turn / 64;
            let wait = if turn == 0 { 0 } else { (position + turn - there % turn) % turn };
            let done = there + wait + turn / 64;
            (passed, spent) = (passed + u64::from(gap), spent + done - now);
            (at, now) = (at + 1, done);
            gaps.durable(now);
        }
        (passed as f64 / f64::from(records), spent as f64 / f64::from(records))
    }

    #[test]
    fn the_gap_that_a_command_needs_is_found() {
        let turn = 8 * MILLIS;
        for (way, needed) in [(100, 1.0), (500, 4.0), (900, 8.0), (1800, 16.0)] {
            let (gap, mean) = run(way * MICROS, turn, 5000);
            assert!((0.9 * needed..1.5 * needed + 1.0).contains(&gap), "{way} µs: {gap} blocks");
            assert!(mean < 0.5 * turn as f64, "{way} µs: {mean} ns");
        }
    }

    #[test]
    fn no_space_is_spent_where_nothing_turns() {
        assert_eq!(run(100 * MICROS, 0, 5000).0, 0.0);
    }

    #[test]
    fn a_client_that_takes_its_time_leaves_no_gaps() {
        let mut gaps = Gaps::default();
        for round in 0..1000 {
            assert_eq!(gaps.begin(round * 20 * MILLIS), 0);
            gaps.durable(round * 20 * MILLIS + 8 * MILLIS);
        }
    }
}
