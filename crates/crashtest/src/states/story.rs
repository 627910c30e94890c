//! A failing state as a short story for people.

mod calls;

use super::history::{Epoch, History, Kind, Write};
use super::state::{Fate, SECTOR, State};
use std::fmt::Write as _;

/// Writes that are listed one by one at most.
const MOST_LINES: usize = 12;

/// What a state is: where the power went, what was durable, what became of the rest.
///
/// # Panics
/// If the state belongs to another epoch.
pub fn story(history: &History, epoch: &Epoch, state: &State) -> String {
    assert_eq!(state.fates.len(), epoch.unsettled.len(), "a state of another epoch");
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "the power goes {}", moment(history, epoch));
    let (durable, unsettled) = (epoch.durable, epoch.unsettled.len());
    let things = if history.calls().is_some() { "parts of calls" } else { "writes" };
    let _ = writeln!(out, "{durable} {things} are durable, {unsettled} are not yet:");
    let kept = state.fates.iter().filter(|fate| **fate == Fate::Kept).count();
    let lost = state.fates.iter().filter(|fate| **fate == Fate::Lost).count();
    let usual = if kept >= lost { Fate::Kept } else { Fate::Lost };
    let word = if usual == Fate::Kept { "kept" } else { "lost" };
    let mut lines = 0;
    for (one, fate) in epoch.unsettled.iter().zip(&state.fates) {
        if *fate == usual && epoch.unsettled.len() > MOST_LINES {
            continue;
        }
        lines += 1;
        if lines <= MOST_LINES {
            let write = &history.writes()[one.write];
            let what = match history.calls() {
                Some(calls) => calls::describe(calls, one.write, epoch.cut),
                None => describe(history, write, epoch.cut),
            };
            let _ = writeln!(out, "  {:<5} {what}", outcome(fate));
        }
    }
    if lines > MOST_LINES {
        let _ = writeln!(out, "  and {} more like these", lines - MOST_LINES);
    }
    if epoch.unsettled.len() > MOST_LINES {
        let rest = kept.max(lost);
        let _ = writeln!(out, "  {word}  the other {rest}");
    }
    if let Some(why) = why(history, epoch, state) {
        let _ = writeln!(out, "{why}");
    }
    out
}

/// Why a state of calls is there: what the model does not order, and the call that is missing.
pub fn why(history: &History, epoch: &Epoch, state: &State) -> Option<String> {
    history.calls().and_then(|calls| calls::why(calls, epoch, state))
}

/// Between which events the power goes.
fn moment(history: &History, epoch: &Epoch) -> String {
    let flush = if history.calls().is_some() { "sync" } else { "flush" };
    let before = match epoch.flushes {
        0 => format!("before any {flush} was answered"),
        n => format!("after {flush} {n} was answered"),
    };
    match epoch.cut == history.events() {
        true => format!("at the end of the recording, {before}"),
        false => format!("at event {}, {before} and before more becomes durable", epoch.cut),
    }
}

fn outcome(fate: &Fate) -> &'static str {
    match fate {
        Fate::Kept => "kept",
        Fate::Lost => "LOST",
        Fate::Torn(_) => "TORN",
    }
}

/// A write in one line.
pub fn describe(history: &History, write: &Write, cut: u64) -> String {
    let (disk, offset) = history.on_disk(write.offset);
    let of_disk = match (history.second(), disk) {
        (None, _) => "",
        (Some(_), 0) => " of the first disk",
        (Some(_), _) => " of the second disk",
    };
    let what = match write.kind {
        Kind::Data => "write",
        Kind::Zeros => "write of zeros",
        Kind::Trim => "trim",
    };
    let answered = match (write.answered.is_some_and(|at| at < cut), write.failed) {
        (true, true) => "failed",
        (true, false) => "answered",
        (false, _) => "not answered",
    };
    format!(
        "request {}: {what} of {} bytes at {offset}{of_disk} (sector {}), {answered}{}",
        write.number,
        write.length,
        offset / SECTOR,
        if write.fua { ", with FUA" } else { "" }
    )
}
