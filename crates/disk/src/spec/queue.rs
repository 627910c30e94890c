//! The order in which waiting commands are served.

use super::is_default;
use serde::{Deserialize, Serialize};

/// A queue of commands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Commands that it holds; 0 is without limit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub depth: u32,
    /// The rule for the next one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub discipline: Discipline,
    /// For [`Discipline::AgedSptf`]: milliseconds of positioning that a millisecond of waiting is
    /// worth.
    #[serde(default, skip_serializing_if = "is_default")]
    pub age_weight: f64,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue { depth: 0, discipline: Discipline::Fcfs, age_weight: 0.0 }
    }
}

/// The rule by which the next command is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// First come, first served.
    #[default]
    Fcfs,
    /// The nearest in the direction of the last move; turns round if there is none. Studies call it
    /// SCAN (HyLog's does), so `scan` is read as well.
    #[serde(alias = "scan")]
    Look,
    /// The nearest in ascending order; starts again from the lowest.
    CLook,
    /// The shortest seek.
    Sstf,
    /// The shortest positioning time: seek and rotation together.
    Sptf,
    /// Positioning time less a share of the time waited.
    AgedSptf,
}
