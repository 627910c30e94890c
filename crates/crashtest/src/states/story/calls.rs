//! Why a state of calls is there: which rule the model lacks, and which call the program left out.

use crate::states::history::Epoch;
use crate::states::state::State;
use seekless_calls::model::{Change, Kept, Micro, Modelled, ObjectId, Rule};
use std::sync::Arc;

/// Parts of a path that a story shows at most.
const MOST_PARTS: usize = 64;

/// A part of a call in one line.
pub(super) fn describe(calls: &Modelled, micro: usize, cut: u64) -> String {
    let one = &calls.recorded().micros[micro];
    let answered = if one.is_complete_at(cut) { "" } else { ", not answered" };
    format!("{micro}: {one}, {}{answered}", call(one))
}

fn call(micro: &Micro) -> String {
    match micro.call {
        Some(call) => format!("call {call}"),
        None => format!("entry {}", micro.asked),
    }
}

/// A pair that shows why: a later part of a call is on the disk, an earlier one is not.
#[derive(Clone, Copy, Debug)]
struct Pair {
    there: usize,
    lost: usize,
}

/// The reason for a state in two sentences; `None` if nothing that is on the disk came after what
/// is lost, and nothing was acknowledged.
pub(super) fn why(calls: &Arc<Modelled>, epoch: &Epoch, state: &State) -> Option<String> {
    let recorded = calls.recorded();
    let fates = || epoch.unsettled.iter().zip(&state.fates);
    let there: Vec<usize> =
        fates().filter(|(_, fate)| !fate.is_nothing()).map(|(one, _)| one.write).collect();
    let lost: Vec<usize> =
        fates().filter(|(_, fate)| fate.is_nothing()).map(|(one, _)| one.write).collect();
    let named = |at: usize| {
        let micro = &recorded.micros[at];
        format!("{micro} ({})", call(micro))
    };
    let found = explain(calls, &there, &lost);
    // Files that have nothing to do with one another say less than an acknowledgement does.
    let early = match &found {
        Some((_, rank, _)) if *rank < UNRELATED => None,
        _ => too_early(calls, &lost, epoch.cut),
    };
    if let Some((value, micro)) = early {
        let (what, sync) = (named(micro), missing(calls, micro));
        return Some(format!(
            "why: {value:?} was acknowledged when {what} was not durable: {sync} before that is \
             missing"
        ));
    }
    let (pair, _, reason) = found?;
    let sync = missing(calls, pair.lost);
    Some(format!(
        "why: {} reached the disk, {} did not: {reason}; {sync} between them is missing",
        named(pair.there),
        named(pair.lost)
    ))
}

/// The last acknowledgement before the cut, and the last that is lost of what was complete then.
fn too_early(calls: &Modelled, lost: &[usize], cut: u64) -> Option<(Arc<str>, usize)> {
    let recorded = calls.recorded();
    let mark = recorded.marks.iter().rfind(|mark| mark.at < cut)?;
    let owed = |&&micro: &&usize| recorded.micros[micro].is_complete_at(mark.at);
    let micro = lost.iter().rfind(owed)?;
    Some((Arc::clone(&mark.value), *micro))
}

/// The first pair that a rule forbids which the model lacks, or that no file system orders.
fn explain(calls: &Arc<Modelled>, there: &[usize], lost: &[usize]) -> Option<(Pair, u8, String)> {
    let (recorded, model) = (calls.recorded(), calls.model());
    let all_lost: Kept = lost.iter().copied().collect();
    let first_lost = *lost.first()?;
    for rule in Rule::OPTIONAL.into_iter().filter(|&rule| !model.has(rule)) {
        let stronger = Modelled::new(Arc::clone(recorded), model.with(rule));
        for &there in there.iter().filter(|&&there| there > first_lost) {
            let broken = |need: &&seekless_calls::model::Need| {
                need.rule == rule && all_lost.contains(need.micro as usize)
            };
            if let Some(need) = stronger.needs(there).iter().find(broken) {
                let lost = need.micro as usize;
                let reason = format!("{} does not {rule}", model.name);
                return Some((Pair { there, lost }, 0, reason));
            }
        }
    }
    let pairs = there.iter().flat_map(|&there| {
        lost.iter().take_while(move |&&lost| lost < there).map(move |&lost| Pair { there, lost })
    });
    // The most telling relation that some pair has.
    let ranked = pairs.filter_map(|pair| {
        let related = related(&recorded.micros[pair.there], &recorded.micros[pair.lost]);
        related.map(|(rank, reason)| (rank, pair, reason))
    });
    let (rank, pair, reason) = ranked.min_by_key(|(rank, ..)| *rank)?;
    Some((pair, rank, format!("{} {reason}", model.name)))
}

/// From this rank on, the two parts of a pair are about different files.
const UNRELATED: u8 = 3;

/// How a later part of a call and an earlier one are related, the most telling first.
fn related(there: &Micro, lost: &Micro) -> Option<(u8, &'static str)> {
    let same = there.change.object().is_some() && there.change.object() == lost.change.object();
    match (&there.change, lost.change.object()) {
        (Change::Names { sets, .. }, Some(object))
            if sets.iter().any(|set| set.object == Some(object)) =>
        {
            Some((0, "writes a new name without waiting for the content of the file"))
        }
        (Change::SetSize { .. }, _) if same => {
            Some((1, "writes a set size without waiting for the bytes of the file"))
        }
        _ if same => Some((2, "writes the pages of a file in any order")),
        (_, None) => Some((UNRELATED + 1, "writes bytes without waiting for earlier names")),
        (Change::Names { .. }, Some(_)) => {
            Some((UNRELATED + 1, "writes names without waiting for the content of other files"))
        }
        _ => Some((UNRELATED, "writes different files in any order")),
    }
}

/// The call that would have made a part of a call durable.
fn missing(calls: &Modelled, micro: usize) -> String {
    let micros = &calls.recorded().micros;
    match &micros[micro].change {
        Change::Names { sets, .. } => match sets.last() {
            Some(set) => format!("fsync of the directory {:?}", path(calls, set.directory, micro)),
            None => "sync".to_owned(),
        },
        change => match change.object() {
            Some(object) => format!("fsync of {:?}", path(calls, object, micro)),
            None => "sync".to_owned(),
        },
    }
}

/// The path of an object as the program knew it before a micro-operation.
fn path(calls: &Modelled, object: ObjectId, before: usize) -> String {
    let micros = &calls.recorded().micros[..=before];
    let named = |at: ObjectId| {
        micros.iter().rev().find_map(|micro| match &micro.change {
            Change::Names { sets, .. } => sets.iter().find(|set| set.object == Some(at)),
            _ => None,
        })
    };
    let mut parts: Vec<String> = Vec::new();
    let mut at = object;
    while let (Some(set), true) = (named(at), parts.len() < MOST_PARTS) {
        parts.push(String::from_utf8_lossy(&set.name).into_owned());
        at = set.directory;
    }
    parts.reverse();
    match (parts.is_empty(), object) {
        (true, 0) => ".".to_owned(),
        (true, _) => "a file without a name".to_owned(),
        (false, _) => parts.join("/"),
    }
}
