//! Section 5.2 of the Loge paper: the cost of writing on a disk whose controller puts each block
//! where the head arrives first.
//!
//! A track holds `positions` segments of one block each, so a segment passes in one *period*. While
//! the arm moves or the head switches, periods pass unused. *Write cost* is the time of a request
//! over the time of its transfer (section 3); costs are pure numbers. `free` is the share of
//! segments that are free, above 0 and at most 1.

use super::{ModelError, Params};
use seekless_disk::spec::{Seek, SeekPiece};
use seekless_engine::units::{MILLIS, SECTOR_BYTES};

/// More periods than any seek takes. A disk that needs more never gets from track to track.
const MANY_PERIODS: u32 = 1 << 16;

/// A disk as section 5.2 sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Drive {
    name: String,
    turn_ms: f64,
    surfaces: u32,
    cylinders: u32,
    positions: u32,
    segment_bytes: u64,
    settle_ms: f64,
    seek: Seek,
}

impl Drive {
    /// The idealised disk of section 5.2 (claims L1 and L2): 3600 turns a minute, 19 surfaces, 2000
    /// cylinders, tracks of 32 KB, the seek curve of the HP97560, blocks of 8 KB. A head switch
    /// takes the fixed part of a seek, 3.24 ms.
    pub fn ideal() -> Drive {
        let near = SeekPiece { below: Some(383), constant_ms: 3.24, root_ms: 0.4, linear_ms: 0.0 };
        let far = SeekPiece { below: None, constant_ms: 8.0, root_ms: 0.0, linear_ms: 0.008 };
        Drive {
            name: "ideal".into(),
            turn_ms: 60_000.0 / 3600.0,
            surfaces: 19,
            cylinders: 2000,
            positions: 4,
            segment_bytes: 8192,
            settle_ms: 3.24,
            seek: Seek::Pieces(vec![near, far]),
        }
    }

    /// A disk whose segments are the slots of `params`. A head switch takes `settle_ms`, or what
    /// the disk says about the way from one track to the next.
    ///
    /// # Errors
    /// A settle time outside 0 to 1000 ms.
    pub fn new(params: &Params, settle_ms: Option<f64>) -> Result<Drive, ModelError> {
        let settle_ms = settle_ms.unwrap_or_else(|| params.track_switch_ms());
        if !(0.0..=1000.0).contains(&settle_ms) {
            let range = "0 to 1000 ms";
            return Err(ModelError::Range { what: "settle time", value: settle_ms, range });
        }
        Ok(Drive {
            name: params.name().to_owned(),
            turn_ms: params.turn_ms(),
            surfaces: params.tracks(),
            cylinders: params.cylinders(),
            positions: params.slots(),
            segment_bytes: u64::from(params.slot_sectors()) * SECTOR_BYTES as u64,
            settle_ms,
            seek: params.seek().clone(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Time of a turn, in milliseconds.
    pub fn turn_ms(&self) -> f64 {
        self.turn_ms
    }

    /// Tracks in a cylinder.
    pub fn surfaces(&self) -> u32 {
        self.surfaces
    }

    /// Cylinders.
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// Segments on a track, the *rotational positions* of the paper.
    pub fn positions(&self) -> u32 {
        self.positions
    }

    /// Capacity in bytes (claim L2: 1.245·10⁹).
    pub fn capacity_bytes(&self) -> u64 {
        let segments =
            u64::from(self.cylinders) * u64::from(self.surfaces) * u64::from(self.positions);
        segments * self.segment_bytes
    }

    /// Time in which a segment passes, the *rotational period*, in milliseconds (claim L1: 4.167;
    /// claim L20: 1.666 for the HP97560 with blocks of 4 KB).
    pub fn period_ms(&self) -> f64 {
        self.turn_ms / f64::from(self.positions)
    }

    /// Time to another cylinder (or, at distance 0, another surface), in milliseconds.
    pub fn move_ms(&self, distance: u32) -> f64 {
        match distance {
            0 => self.settle_ms,
            _ => self.seek.ns(distance, self.cylinders.max(distance)) as f64 / MILLIS as f64,
        }
    }

    /// Cylinders to either side that the arm reaches within so many periods; `None` if the time is
    /// too short even for another surface (claim L4: 5, since seek(5) = 4.134 < 4.167 < seek(6);
    /// claim L20: 0 in two periods of the HP97560, which exceed the settle time by 0.092 ms).
    pub fn reach(&self, periods: u32) -> Option<u32> {
        let time = f64::from(periods) * self.period_ms();
        if self.settle_ms > time {
            return None;
        }
        let reached = (1..self.cylinders).take_while(|&distance| self.move_ms(distance) <= time);
        Some(reached.last().unwrap_or(0))
    }

    /// Segments that pass under some head within reach in the period after so many (claim L11:
    /// 11 cylinders of 19 surfaces, 209). The edges of the disk are left out of account.
    pub fn candidates(&self, periods: u32) -> u32 {
        self.reach(periods).map_or(0, |reach| (2 * reach + 1) * self.surfaces)
    }

    /// Periods that pass during a head switch: 1 on the idealised disk, 2 on the HP97560 with
    /// blocks of 4 KB (section 7.1.1).
    pub fn switch_periods(&self) -> u32 {
        self.periods_for(self.settle_ms)
    }

    /// Periods that pass until at least the next cylinder is in reach: 1, and 3 on the HP97560 with
    /// blocks of 4 KB, which is why its average rotational miss rises by half (claim L21).
    pub fn cylinder_periods(&self) -> u32 {
        self.periods_for(self.settle_ms.max(self.move_ms(1)))
    }

    fn periods_for(&self, ms: f64) -> u32 {
        ((ms / self.period_ms()).ceil().max(1.0) as u32).min(MANY_PERIODS)
    }

    /// Probability that a run of `run` free segments (1 and more) begins within reach after the
    /// least time in which anything is, on a disk whose free segments lie at random: `1 - (1 -
    /// free^run)^candidates`, section 5.2.2.
    ///
    /// Claims L12 (0.878 at 1 % free), L13 (0.985 at 2 %), L16 (0.878 for pairs at 10 %) and L17
    /// (0.958 for runs of four at 35 %; the paper cuts it to 95 %).
    pub fn found(&self, free: f64, run: u32) -> f64 {
        let candidates = f64::from(self.candidates(self.switch_periods()));
        1.0 - (1.0 - free.powf(f64::from(run))).powf(candidates)
    }

    /// Ratio of seeking and waiting to transfer in a long write to isolated segments (claim L14:
    /// 1.11 at 1 % free, 0.99 at 2 %): the next segment is free, or one of those within reach, or
    /// one of the many a period later, which is taken for certain.
    pub fn wait_per_transfer(&self, free: f64) -> f64 {
        let moved = f64::from(self.switch_periods());
        (1.0 - free) * (moved + 1.0 - self.found(free, 1))
    }

    /// Write cost of a long write to isolated segments (claim L14: 2.1 and 2; L22: a disk that is
    /// nearly full writes at half of its peak, with two periods for a move at a third).
    pub fn long_cost(&self, free: f64) -> f64 {
        1.0 + self.wait_per_transfer(free)
    }

    /// Write cost of a long write to runs of `run` free segments, each found after one move (claim
    /// L16: 1.5 for pairs; claim L3: 1.25 for whole tracks of the idealised disk, the cost of
    /// writing in sequence).
    pub fn run_cost(&self, run: u32) -> f64 {
        1.0 + f64::from(self.switch_periods()) / f64::from(run)
    }

    /// Write cost of one block requested at the end of another transfer elsewhere (claim L5: 2, in
    /// 8.3 ms): a move and the transfer.
    pub fn cost_after_read(&self) -> f64 {
        f64::from(self.switch_periods()) + 1.0
    }

    /// Write cost of one block requested at any time (claims L5 and L15: 2.5, in 10.4 ms): half a
    /// period on top.
    ///
    /// An upper bound. It assumes that the arm waits until the period ends. An arm that starts at
    /// once has moved after 3.63 ms on average on the idealised disk, and a simulation of the
    /// well-ordered disk finds 9.9 ms, a cost of 2.37.
    pub fn cost_at_random(&self) -> f64 {
        self.cost_after_read() + 0.5
    }

    /// Write cost of one block if the arm always moves to the next free segment in advance, section
    /// 5.2.4 (claim L19): 1.5.
    pub fn cost_in_transit(&self) -> f64 {
        1.5
    }

    /// Write cost of a whole track requested at any time (claim L6: 1.375, in 22.9 ms).
    pub fn track_cost(&self) -> f64 {
        1.0 + (0.5 + f64::from(self.switch_periods())) / f64::from(self.positions)
    }

    /// Rate of writing in sequence, in bytes per second (claim L3: 1.573·10⁶, which is 192 blocks a
    /// second; the paper's 200 do not agree with its own write cost of 1.25).
    pub fn sequential_rate(&self) -> f64 {
        let track = u64::from(self.positions) * self.segment_bytes;
        let cost = self.run_cost(self.positions);
        track as f64 / (self.turn_ms * cost / 1e3)
    }

    /// Share of the disk that the well-ordered state of section 5.2.1 keeps free: an empty track
    /// in each `reach` cylinders (claim L7: 1/95).
    pub fn reserved(&self) -> f64 {
        1.0 / (self.spacing() * f64::from(self.surfaces))
    }

    /// Seconds that it takes to bring a random disk into that state (claim L8: 15.0, the paper says
    /// "less than 15"): a track read, moved to and written for each empty one.
    pub fn restore_seconds(&self) -> f64 {
        let tracks = f64::from(self.cylinders) / self.spacing();
        let moved = f64::from(self.switch_periods()) * self.period_ms();
        tracks * (2.0 * self.turn_ms + moved) / 1e3
    }

    /// Cylinders for each empty track in the well-ordered state: as many as one move reaches, at
    /// least one.
    fn spacing(&self) -> f64 {
        f64::from(self.reach(self.switch_periods()).unwrap_or(0).max(1))
    }

    /// Minutes that a recovery takes which reads all of the disk at so many bytes a second (claim
    /// L9: 10.8 for 1.3 GB at 2 MB/s, section 4.1).
    pub fn scan_minutes(capacity_bytes: f64, bytes_per_second: f64) -> f64 {
        capacity_bytes / bytes_per_second / 60.0
    }
}
