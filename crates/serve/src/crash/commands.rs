//! Commands to a disk that crashes on demand, as far as the disk alone can carry them out.

use super::cut::Cut;
use super::disk::Hub;
use crate::control::{Command, Reply};
use seekless_crash::fate::{Fate, Tally};
use seekless_engine::units::BLOCK_BYTES;
use serde_json::{Value, json};

/// Fates of one cut that are told at most.
const MOST_FATES: usize = 10_000;

impl Reply {
    /// Carries out a command for which the disk is enough, and answers it. A restart needs what is
    /// mounted on the disk: it is refused.
    pub fn to(command: &Command, hub: &Hub) -> Reply {
        match command {
            Command::Status => Reply::status(hub),
            Command::Log => Reply::last_cut(hub),
            Command::Clear => {
                hub.clear();
                Reply::status(hub)
            }
            Command::Arm(faults) => match hub.arm(faults) {
                Ok(()) => Reply::status(hub),
                Err(error) => Reply::error(&error.to_string()),
            },
            Command::Cut if !hub.has_power() => Reply::error("the power is off already"),
            Command::Cut => {
                hub.cut("on command");
                Reply::last_cut(hub)
            }
            Command::Restart => Reply::error("this disk cannot restart while it is in use"),
            Command::Sync => Reply::error("no file system is mounted here"),
            Command::Upkeep(_) | Command::Replace { .. } => {
                Reply::error("the volume is not on an array")
            }
        }
    }

    /// What is and was.
    pub fn status(hub: &Hub) -> Reply {
        let counts = hub.counts();
        let armed: Vec<String> = hub.armed().iter().map(ToString::to_string).collect();
        Reply::ok(json!({
            "power": if hub.has_power() { "on" } else { "off" },
            "armed": armed,
            "unflushed": hub.unflushed(),
            "reads": counts.reads,
            "writes": counts.writes,
            "flushes": counts.flushes,
            "fired": {
                "cuts": counts.cuts,
                "eio": counts.eio,
                "enospc": counts.enospc,
                "lies": counts.lies,
                "rotten": counts.rotten,
                "slow": counts.slow,
                "stuck": counts.stuck,
            },
        }))
    }

    /// What the last power cut did.
    pub fn last_cut(hub: &Hub) -> Reply {
        match hub.last_cut() {
            Some(cut) => Reply::ok(json!({ "cut": as_json(&cut) })),
            None => Reply::error("the power has not been cut yet"),
        }
    }
}

fn as_json(cut: &Cut) -> Value {
    let Tally { kept, lost, torn } = cut.tally();
    let unit = BLOCK_BYTES as u64;
    let fates: Vec<Value> = cut
        .outcomes
        .iter()
        .take(MOST_FATES)
        .map(|one| {
            let fate = match &one.fate {
                Fate::Kept => json!("kept"),
                Fate::Lost => json!("lost"),
                Fate::Torn(marks) => {
                    let sectors: String =
                        marks.iter().map(|mark| if *mark { '+' } else { '-' }).collect();
                    json!({ "torn": sectors })
                }
            };
            json!({ "offset": one.at * unit, "length": u64::from(one.count) * unit, "fate": fate })
        })
        .collect();
    json!({
        "number": cut.number,
        "cause": cut.cause,
        "seed": cut.seed,
        "write": cut.writes,
        "flush": cut.flushes,
        "unflushed": cut.outcomes.len(),
        "kept": kept,
        "lost": lost,
        "torn": torn,
        "fates": fates,
    })
}
