//! A trace in place of a described workload.

use super::{SimError, Target};
use crate::driver::{Driver, Pacing, Player, ReplayError, ReplayOptions};
use crate::pool::PoolCounts;
use crate::trace::{Footprint, Mapping, Records, TraceError};
use crate::workload::MAX_REQUESTS;
use seekless_engine::units::{BlockNr, SECONDS};
use serde::Serialize;

/// Opens a trace for a volume of so many blocks: once for each run.
pub type Open<'a> = dyn Fn(BlockNr) -> Result<Records<'a>, TraceError> + 'a;

/// A trace and how to replay it.
pub struct Load<'a> {
    /// Its name in reports.
    pub name: String,
    /// The source of its records.
    pub open: Box<Open<'a>>,
    /// How it is replayed.
    pub replay: ReplayOptions,
    /// Most records to measure; all of the trace by default.
    pub requests: Option<u64>,
    /// Records before the measured ones.
    pub warm_up: u64,
}

impl std::fmt::Debug for Load<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Load")
            .field("name", &self.name)
            .field("replay", &self.replay)
            .field("requests", &self.requests)
            .field("warm_up", &self.warm_up)
            .finish_non_exhaustive()
    }
}

/// Result of a replayed trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceReport {
    /// Its name.
    pub name: String,
    /// `open`: at the times of the trace. `closed`: users one after the other.
    #[serde(rename = "loop")]
    pub kind: &'static str,
    /// How much faster than recorded, in an open loop.
    pub speed: Option<f64>,
    /// Users of a closed loop.
    pub users: Option<u32>,
    /// How its addresses map to the volume.
    pub mapping: Mapping,
    /// Counters of that mapping, including the warm-up.
    pub footprint: Footprint,
    /// Records measured, and before.
    pub records: u64,
    /// Records before the measured ones.
    pub warm_up: u64,
    /// Records of an open loop that had to wait because 4096 were in flight.
    pub late: u64,
    /// Time between its first and its last record, in seconds of its own clock; warm-up included.
    pub span_seconds: f64,
    /// The buffer pool, if there was one.
    pub pool: Option<PoolReport>,
}

/// Figures of a buffer pool in the measured phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PoolReport {
    /// Its size in blocks.
    pub blocks: u64,
    /// Hits over requested blocks.
    pub hit_ratio: f64,
    /// Its counters.
    #[serde(flatten)]
    pub counts: PoolCounts,
}

impl From<ReplayError> for SimError {
    fn from(error: ReplayError) -> SimError {
        match error {
            ReplayError::Drive(error) => SimError::Drive(error),
            ReplayError::Trace(error) => SimError::Trace(error),
            ReplayError::NoRoom(error) => SimError::NoRoom(error),
        }
    }
}

impl Load<'_> {
    /// A player of the trace on a volume, warmed up.
    pub(super) fn begin(&self, driver: &mut Driver, volume: u64) -> Result<Player<'_>, SimError> {
        let mut player = Player::new((self.open)(volume)?, self.replay, volume);
        let warm = player.play(driver, self.warm_up, |_| {})?;
        if warm < self.warm_up {
            return Err(TraceError::Empty(self.name.clone()).into());
        }
        player.take_pool_counts();
        Ok(player)
    }

    /// Most records to measure.
    pub(super) fn most(&self) -> u64 {
        self.requests.unwrap_or(MAX_REQUESTS)
    }

    /// The result of the replay.
    pub(super) fn report(&self, player: &mut Player<'_>) -> TraceReport {
        let counts = player.counts();
        let (kind, speed, users) = match self.replay.pacing {
            Pacing::Open { speed } => ("open", Some(speed), None),
            Pacing::Closed { users } => ("closed", None, Some(users)),
        };
        let pool = self.replay.pool.zip(player.take_pool_counts()).map(|(options, counts)| {
            let asked = (counts.hits + counts.misses).max(1) as f64;
            PoolReport { blocks: options.blocks, hit_ratio: counts.hits as f64 / asked, counts }
        });
        TraceReport {
            name: self.name.clone(),
            kind,
            speed,
            users,
            mapping: self.replay.mapping,
            footprint: player.footprint(),
            records: counts.records - self.warm_up,
            warm_up: self.warm_up,
            late: counts.late,
            span_seconds: counts.span_ns as f64 / SECONDS as f64,
            pool,
        }
    }
}

/// A pool must be smaller than the volume.
pub(super) fn check(load: &Load<'_>, target: &Target) -> Result<(), SimError> {
    let Some(pool) = load.replay.pool else { return Ok(()) };
    let device = target.blocks();
    if pool.blocks < device { Ok(()) } else { Err(SimError::Pool { pool: pool.blocks, device }) }
}
