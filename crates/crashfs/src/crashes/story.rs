//! A bad state as a story: what is on the disk, what is not, which rule the model lacks, and which
//! sync the program left out.

use super::epochs::Epoch;
use seekless_calls::model::{Change, Micro, Modelled, NameChange, ObjectId, Rule, TOP};
use seekless_crash::Fate;
use std::fmt::Write as _;
use std::sync::Arc;

/// Changes that are listed one by one at most.
const MOST_LINES: usize = 12;

/// Parts of a path that a story shows at most.
const MOST_PARTS: usize = 64;

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

/// A later change that is on the disk, and an earlier one that is not.
#[derive(Clone, Copy, Debug)]
struct Pair {
    there: usize,
    lost: usize,
}

/// From this rank on the changes of a pair have little to do with one another.
const UNRELATED: u8 = 3;

/// The reason in one sentence: a broken order of two changes, or an acknowledgement that came
/// before what it rests on was durable.
fn why(modelled: &Modelled, epoch: &Epoch, fates: &[Fate]) -> Option<String> {
    let micros = &modelled.recorded().micros;
    let kept = epoch.kept(fates);
    let (there, lost): (Vec<usize>, Vec<usize>) =
        epoch.pending.iter().partition(|&&index| kept.contains(index));
    let found = by_rule(modelled, &there, &lost).or_else(|| by_kind(modelled, &there, &lost));
    let is_close = matches!(found, Some((_, rank, _)) if rank < UNRELATED);
    let early = if is_close { None } else { too_early(modelled, epoch, &lost) };
    if let Some((value, index)) = early {
        let (change, sync) = (&micros[index], missing(modelled, index));
        return Some(format!(
            "{value} was acknowledged when {change} was not durable:\n     {sync} before that is \
             missing"
        ));
    }
    let (Pair { there, lost }, _, reason) = found?;
    let (there, gone, sync) = (&micros[there], &micros[lost], missing(modelled, lost));
    let model = modelled.model().name;
    Some(format!(
        "{there} reached the disk,\n     {gone} did not:\n     {model} {reason};\n     {sync} \
         between them is missing"
    ))
}

/// A pair that a rule forbids which the model lacks.
fn by_rule(modelled: &Modelled, there: &[usize], lost: &[usize]) -> Option<(Pair, u8, String)> {
    let model = modelled.model();
    Rule::OPTIONAL.into_iter().filter(|&rule| !model.has(rule)).find_map(|rule| {
        let stronger = Modelled::new(Arc::clone(modelled.recorded()), model.with(rule));
        there.iter().find_map(|&there| {
            let is_lost = |micro: u32| lost.binary_search(&(micro as usize)).is_ok();
            let mut needs = stronger.needs(there).iter();
            let need = needs.find(|need| need.rule == rule && is_lost(need.micro))?;
            let pair = Pair { there, lost: need.micro as usize };
            Some((pair, 0, format!("does not {rule}")))
        })
    })
}

/// The pair whose changes have most to do with one another.
fn by_kind(modelled: &Modelled, there: &[usize], lost: &[usize]) -> Option<(Pair, u8, String)> {
    let micros = &modelled.recorded().micros;
    let pairs = there.iter().flat_map(|&there| {
        lost.iter().take_while(move |&&lost| lost < there).map(move |&lost| Pair { there, lost })
    });
    let ranked = pairs.map(|pair| (relation(&micros[pair.there], &micros[pair.lost]), pair));
    let ((rank, reason), pair) = ranked.min_by_key(|((rank, _), _)| *rank)?;
    Some((pair, rank, reason.to_owned()))
}

/// How a later change and an earlier one are related, the most telling first.
fn relation(there: &Micro, lost: &Micro) -> (u8, &'static str) {
    let object = lost.change.object();
    match &there.change {
        Change::Names { sets, .. }
            if object.is_some() && sets.iter().any(|set| set.object == object) =>
        {
            (0, "writes a new name without waiting for the content of the file")
        }
        Change::SetSize { object: of, .. } if object == Some(*of) => {
            (1, "writes a set size without waiting for the bytes of the file")
        }
        change if object.is_some() && change.object() == object => {
            (2, "writes the pages of a file in any order")
        }
        _ => (UNRELATED, "writes different files and names in any order"),
    }
}

/// The last acknowledgement before the cut, and the last change that is lost of those that were
/// complete then.
fn too_early(modelled: &Modelled, epoch: &Epoch, lost: &[usize]) -> Option<(Arc<str>, usize)> {
    let recorded = modelled.recorded();
    let mark = recorded.marks[..epoch.acked].last()?;
    let is_owed = |&&index: &&usize| recorded.micros[index].is_complete_at(mark.at);
    lost.iter().rfind(is_owed).map(|&index| (Arc::clone(&mark.value), index))
}

/// The sync that would have made a change durable.
fn missing(modelled: &Modelled, index: usize) -> String {
    let micros = &modelled.recorded().micros[..=index];
    match &micros[index].change {
        Change::Names { sets, .. } => {
            let directory = sets.last().map_or(TOP, |set| set.directory);
            format!("sync_all of the directory {:?}", path(micros, directory))
        }
        change => format!("sync_all of {:?}", path(micros, change.object().unwrap_or(TOP))),
    }
}

/// The path of an object after these changes.
fn path(micros: &[Micro], object: ObjectId) -> String {
    let named = |at: ObjectId| -> Option<&NameChange> {
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
    format!("/{}", parts.join("/"))
}
