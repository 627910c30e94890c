//! A bad state as a story: what is on the disk, what is not, which rule the model lacks, and which
//! sync the program left out.

use super::epochs::Epoch;
use seekless_calls::model::{MissingSync, Modelled, Why};
use seekless_crash::Fate;
use std::fmt::Write as _;

/// Changes that are listed one by one at most.
const MOST_LINES: usize = 12;

/// The story of a state on which the check failed with these words.
pub(super) fn story(modelled: &Modelled, epoch: &Epoch, fates: &[Fate], said: &str) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "the power goes {}", moment(modelled, epoch));
    let (durable, pending) = (epoch.durable, epoch.pending.len());
    let _ = writeln!(out, "{durable} changes are durable, {pending} are not yet:");
    list(&mut out, modelled, epoch, fates);
    if let Some(why) = why(modelled, epoch, fates) {
        let _ = writeln!(out, "why: {why}");
    }
    let _ = writeln!(out, "check: {said}");
    out
}

fn moment(modelled: &Modelled, epoch: &Epoch) -> String {
    let place = match epoch.is_last {
        true => "at the end of the run".to_owned(),
        false => format!("before sync {} is answered", epoch.syncs + 1),
    };
    let marks = &modelled.recorded().marks[..epoch.acked];
    match marks.last() {
        None => format!("{place}; nothing was acknowledged"),
        Some(last) => format!("{place}; acknowledged: {}, last {}", marks.len(), last.value),
    }
}

fn list(out: &mut String, modelled: &Modelled, epoch: &Epoch, fates: &[Fate]) {
    let kept = fates.iter().filter(|fate| !fate.is_nothing()).count();
    let is_long = fates.len() > MOST_LINES;
    // Of a long list only what is less usual.
    let usual_is_lost = fates.len() > 2 * kept;
    let (mut shown, mut left) = (0, 0);
    for (&index, fate) in epoch.pending.iter().zip(fates) {
        if is_long && (fate.is_nothing() == usual_is_lost || shown == MOST_LINES) {
            left += 1;
            continue;
        }
        shown += 1;
        let word = if fate.is_nothing() { "LOST" } else { "kept" };
        let _ = writeln!(out, "  {word}  {}", modelled.recorded().micros[index]);
    }
    if left > 0 {
        let word = if usual_is_lost { "lost" } else { "kept" };
        let _ = writeln!(out, "  and {left} more, most of them {word}");
    }
}

/// The reason in one sentence: a broken order of two changes, or an acknowledgement that came
/// before what it rests on was durable.
fn why(modelled: &Modelled, epoch: &Epoch, fates: &[Fate]) -> Option<String> {
    let micros = &modelled.recorded().micros;
    let kept = epoch.kept(fates);
    Some(match modelled.why(epoch.cut, &epoch.pending, |index| kept.contains(index))? {
        Why::Order { there, lost, reason } => {
            let (there, gone, sync) = (&micros[there], &micros[lost], missing(modelled, lost));
            format!(
                "{there} reached the disk,\n     {gone} did not:\n     {reason};\n     {sync} \
                 between them is missing"
            )
        }
        Why::Early { value, lost } => {
            let (change, sync) = (&micros[lost], missing(modelled, lost));
            format!(
                "{value} was acknowledged when {change} was not durable:\n     {sync} before that \
                 is missing"
            )
        }
    })
}

/// The sync that would have made a change durable.
fn missing(modelled: &Modelled, index: usize) -> String {
    let from_top = |path: String| if path == "." { "/".to_owned() } else { format!("/{path}") };
    match modelled.missing_sync(index) {
        MissingSync::Directory(path) => format!("sync_all of the directory {:?}", from_top(path)),
        MissingSync::File(path) => format!("sync_all of {:?}", from_top(path)),
    }
}
