//! Parts of calls in words, and why a state of calls is there.

use crate::states::history::Epoch;
use crate::states::state::State;
use seekless_calls::model::{Kept, Micro, MissingSync, Modelled, Why};

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

/// The reason for a state in a sentence; `None` if nothing that is on the disk came after what is
/// lost, and nothing was acknowledged.
pub(super) fn why(calls: &Modelled, epoch: &Epoch, state: &State) -> Option<String> {
    let pending: Vec<usize> = epoch.unsettled.iter().map(|one| one.write).collect();
    let fates = pending.iter().zip(&state.fates);
    let kept: Kept = fates.filter(|(_, fate)| !fate.is_nothing()).map(|(&at, _)| at).collect();
    let named = |at: usize| {
        let micro = &calls.recorded().micros[at];
        format!("{micro} ({})", call(micro))
    };
    let sync = |at: usize| match calls.missing_sync(at) {
        MissingSync::File(path) => format!("fsync of {path:?}"),
        MissingSync::Directory(path) => format!("fsync of the directory {path:?}"),
    };
    Some(match calls.why(epoch.cut, &pending, |at| kept.contains(at))? {
        Why::Order { there, lost, reason } => format!(
            "why: {} reached the disk, {} did not: {reason}; {} between them is missing",
            named(there),
            named(lost),
            sync(lost)
        ),
        Why::Early { value, lost } => format!(
            "why: {value:?} was acknowledged when {} was not durable: {} before that is missing",
            named(lost),
            sync(lost)
        ),
    })
}
