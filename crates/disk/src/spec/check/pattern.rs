//! Checks of a layout that is a tree of patterns: every sector of the host lies in one place, and
//! that place is on the disk.
//!
//! Tracks, nodes, entries, slips and remaps are numbered from zero, as they are in the tree.

use super::{Checked, wrong};
use crate::spec::Spec;
use crate::spec::geometry::{Pattern, PatternChild, PatternEntry, PatternNode};

/// More sectors than any disk has, 128 PiB: sums of so many do not overflow.
const MOST_SECTORS: u64 = 1 << 48;
/// More cylinders than any disk has.
const MOST_CYLINDERS: u64 = 1 << 32;
/// More turns than any offset or skew needs.
const MOST_TURNS: f64 = 1e6;

/// The whole tree.
pub(super) fn check(spec: &Spec, pattern: &Pattern) -> Checked {
    let nodes = pattern.nodes.len();
    if pattern.root as usize >= nodes {
        return wrong("pattern.root", format!("node {} does not exist", pattern.root));
    }
    for (number, track) in pattern.tracks.iter().enumerate() {
        let fits = track.first <= track.last && track.last < track.sectors;
        if !fits || track.sectors > 1 << 16 {
            let problem = format!(
                "sectors {} to {} of {} in track {number} do not fit in one turn of up to 65536",
                track.first, track.last, track.sectors
            );
            return wrong("pattern.tracks", problem);
        }
    }
    for (number, node) in pattern.nodes.iter().enumerate() {
        self::node(spec, pattern, number, node)?;
    }
    depth(pattern, pattern.root, 0, &mut vec![0; nodes])?;
    children(pattern)?;
    let covered = covered(&pattern.nodes[pattern.root as usize]);
    reach(spec, pattern, covered)?;
    slips(pattern, covered)?;
    remaps(spec, pattern)
}

/// Sectors that a node holds; its entries follow one another.
fn covered(node: &PatternNode) -> u64 {
    node.entries.last().map_or(0, |last| last.lbn + last.run)
}

/// The entries of a node by themselves, and that they follow one another without a gap.
fn node(spec: &Spec, pattern: &Pattern, number: usize, node: &PatternNode) -> Checked {
    if node.entries.is_empty() {
        return wrong("pattern.nodes", format!("node {number} has no entries"));
    }
    let mut next = 0;
    for (index, entry) in node.entries.iter().enumerate() {
        let problem = match entry.lbn {
            lbn if lbn > next && index == 0 => Some(format!(
                "begins at sector {lbn}: the sectors before the first entry of node {number} \
                 lie nowhere"
            )),
            lbn if lbn != next => Some(format!(
                "begins at sector {lbn}, but the one before it ends at {next}; entries follow \
                 one another without a gap"
            )),
            _ => self::entry(spec, pattern, number, entry),
        };
        if let Some(problem) = problem {
            let problem = format!("entry {index} of node {number} {problem}");
            return wrong("pattern.nodes", problem);
        }
        // Below 2⁴⁹, because both were checked.
        next = entry.lbn + entry.run;
    }
    Ok(())
}

/// Error of an entry by itself.
fn entry(spec: &Spec, pattern: &Pattern, node: usize, entry: &PatternEntry) -> Option<String> {
    let child = match entry.child {
        PatternChild::Track(track) if track as usize >= pattern.tracks.len() => {
            Some(format!("repeats track {track}, which does not exist"))
        }
        PatternChild::Node(child) if child as usize >= pattern.nodes.len() => {
            Some(format!("repeats node {child}, which does not exist"))
        }
        PatternChild::Node(child) if child as usize == node => Some("repeats itself".into()),
        _ => None,
    };
    if child.is_some() {
        return child;
    }
    if entry.length == 0 || entry.run == 0 {
        return Some("has no sectors; a repetition and all of them have at least one".into());
    }
    if entry.lbn >= MOST_SECTORS || entry.run >= MOST_SECTORS || entry.length >= MOST_SECTORS {
        return Some(format!("has more than the {MOST_SECTORS} sectors that a disk may have"));
    }
    if entry.cylinder_length == 0 {
        return Some(
            "repeats without a distance in cylinders; write 1 for what is there once".into(),
        );
    }
    for cylinders in [entry.cylinder, entry.cylinder_length] {
        if cylinders.unsigned_abs() >= MOST_CYLINDERS {
            return Some(format!("moves by {cylinders} cylinders, more than any disk has"));
        }
    }
    for turns in [entry.offset, entry.skew] {
        // Also true for NaN.
        if !(-MOST_TURNS..=MOST_TURNS).contains(&turns) {
            return Some(format!("has an offset or a skew of {turns} turns"));
        }
    }
    if entry.head >= spec.heads {
        return Some(format!("lies under head {}, but the disk has {}", entry.head, spec.heads));
    }
    None
}

/// No path of a tree is longer than 16 nodes, hence none is endless. `seen` holds how many nodes
/// were above each at most: a node that was valid at that depth need not be checked again.
fn depth(pattern: &Pattern, node: u32, above: u32, seen: &mut [u32]) -> Checked {
    if above >= 16 {
        return wrong(
            "pattern.nodes",
            format!("node {node} lies more than 16 nodes deep, or the tree contains itself"),
        );
    }
    let most = &mut seen[node as usize];
    if *most > above {
        return Ok(());
    }
    *most = above + 1;
    for entry in &pattern.nodes[node as usize].entries {
        if let PatternChild::Node(child) = entry.child {
            depth(pattern, child, above + 1, seen)?;
        }
    }
    Ok(())
}

/// A repeated child has all the sectors of a repetition.
fn children(pattern: &Pattern) -> Checked {
    for (number, node) in pattern.nodes.iter().enumerate() {
        for (index, entry) in node.entries.iter().enumerate() {
            let (holds, child) = match entry.child {
                PatternChild::Track(track) => {
                    let found = pattern.tracks[track as usize];
                    (u64::from(found.last - found.first) + 1, format!("track {track}"))
                }
                PatternChild::Node(child) => {
                    (covered(&pattern.nodes[child as usize]), format!("node {child}"))
                }
            };
            let wanted = entry.length.min(entry.run);
            if wanted > holds {
                let problem = format!(
                    "entry {index} of node {number} repeats {wanted} sectors, but {child} has \
                     {holds}"
                );
                return wrong("pattern.nodes", problem);
            }
        }
    }
    Ok(())
}

/// Sectors that a child has.
pub(crate) fn holds(pattern: &Pattern, child: PatternChild) -> Option<u64> {
    match child {
        PatternChild::Track(track) => {
            let found = pattern.tracks.get(track as usize)?;
            Some(u64::from(found.last.checked_sub(found.first)?) + 1)
        }
        PatternChild::Node(node) => pattern.nodes.get(node as usize).map(covered),
    }
}

/// How many sectors of the root lie on the cylinders of the disk, if the first one that does not
/// belongs to the last entry. The tree has passed all checks but that of its reach.
pub(crate) fn within(spec: &Spec, pattern: &Pattern) -> Option<u64> {
    let root = pattern.nodes.get(pattern.root as usize)?;
    let last = root.entries.last()?;
    let mut spans: Spans = vec![None; pattern.nodes.len()];
    let mut fits = |sectors: u64| {
        let (low, high) = span(pattern, PatternChild::Node(pattern.root), sectors, &mut spans);
        low >= 0 && high < i128::from(spec.cylinders)
    };
    let (mut low, mut high) = (last.lbn, covered(root));
    if fits(high) || (low > 0 && !fits(low)) {
        return None;
    }
    // All that is below `low` fits, and `high` sectors do not.
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    (low > last.lbn).then_some(low)
}

/// True if nothing is wrong with the tree apart from how far it reaches.
pub(crate) fn sound(spec: &Spec, pattern: &Pattern) -> bool {
    let whole = Spec { cylinders: u32::MAX, ..spec.clone() };
    check(&whole, pattern).is_ok()
}

/// The lowest and the highest cylinder, relative to the begin.
type Span = (i128, i128);

/// The cylinders that the first entries of each node take, for each number of entries; for the
/// nodes asked for.
type Spans = Vec<Option<Vec<Span>>>;

/// No sector lies before the first cylinder or behind the last.
fn reach(spec: &Spec, pattern: &Pattern, covered: u64) -> Checked {
    let mut spans: Spans = vec![None; pattern.nodes.len()];
    let (low, high) = span(pattern, PatternChild::Node(pattern.root), covered, &mut spans);
    if low >= 0 && high < i128::from(spec.cylinders) {
        return Ok(());
    }
    // The first entry that leads there, by way of the top of the tree.
    let root = pattern.root as usize;
    let outside = |&(low, high): &Span| low < 0 || high >= i128::from(spec.cylinders);
    let index = spans[root].iter().flatten().position(outside).unwrap_or(0);
    let problem = format!(
        "entry {index} of node {root}, the root, reaches from cylinder {low} to {high}, but the \
         disk has 0 to {}",
        spec.cylinders - 1
    );
    wrong("pattern.nodes", problem)
}

/// The cylinders that the first `sectors` of a child take, at least one of them.
fn span(pattern: &Pattern, child: PatternChild, sectors: u64, spans: &mut Spans) -> Span {
    let PatternChild::Node(node) = child else { return (0, 0) };
    let entries = &pattern.nodes[node as usize].entries;
    if spans[node as usize].is_none() {
        let mut all: Vec<Span> = Vec::with_capacity(entries.len());
        for entry in entries {
            let here = repeated(pattern, entry, entry.run, spans);
            all.push(all.last().map_or(here, |&before| both(before, here)));
        }
        spans[node as usize] = Some(all);
    }
    let last = entries.partition_point(|entry| entry.lbn < sectors).max(1) - 1;
    let known = |index: usize, spans: &Spans| {
        spans[node as usize].as_ref().map_or((0, 0), |all| all[index])
    };
    let rest = sectors - entries[last].lbn;
    if rest >= entries[last].run {
        return known(last, spans);
    }
    let here = repeated(pattern, &entries[last], rest, spans);
    last.checked_sub(1).map_or(here, |before| both(known(before, spans), here))
}

/// The same of an entry; the last repetition may be cut short.
fn repeated(pattern: &Pattern, entry: &PatternEntry, sectors: u64, spans: &mut Spans) -> Span {
    let (whole, rest) = (sectors / entry.length, sectors % entry.length);
    let start = |turn: u64| {
        let way = i128::from(turn) * i128::from(entry.cylinder_length);
        i128::from(entry.cylinder) + if entry.cylinder_run < 0 { -way } else { way }
    };
    let at = |start: i128, (low, high): Span| (start + low, start + high);
    let mut found = None;
    if whole > 0 {
        let child = span(pattern, entry.child, entry.length, spans);
        found = Some(both(at(start(0), child), at(start(whole - 1), child)));
    }
    if rest > 0 {
        let cut = at(start(whole), span(pattern, entry.child, rest, spans));
        found = Some(found.map_or(cut, |before| both(before, cut)));
    }
    found.unwrap_or((0, 0))
}

fn both(a: Span, b: Span) -> Span {
    (a.0.min(b.0), a.1.max(b.1))
}

/// Slips follow one another, and all of them lie in the tree.
fn slips(pattern: &Pattern, covered: u64) -> Checked {
    let (mut next, mut before) = (0, 0);
    for (number, slip) in pattern.slips.iter().enumerate() {
        let problem = if slip.at < next {
            format!("begins at {}, but the one before it ends at {next}; they ascend", slip.at)
        } else if slip.total <= before {
            format!("has {} skipped up to it, and there were {before}; they ascend", slip.total)
        } else if slip.at >= covered || slip.total - before > covered - slip.at {
            format!("lies beyond the {covered} sectors of the tree")
        } else {
            (next, before) = (slip.at + slip.total - before, slip.total);
            continue;
        };
        return wrong("pattern.slips", format!("slip {number} {problem}"));
    }
    Ok(())
}

/// Remapped sectors and their replacements are on the disk, each once.
fn remaps(spec: &Spec, pattern: &Pattern) -> Checked {
    let sectors = pattern.sectors();
    let mut order: Vec<usize> = (0..pattern.remaps.len()).collect();
    order.sort_by_key(|&number| pattern.remaps[number].lbn);
    let mut next = 0;
    for number in order {
        let remap = &pattern.remaps[number];
        let (count, last) =
            (u64::from(remap.count), u64::from(remap.sector) + u64::from(remap.count));
        let problem = if remap.count == 0 {
            "has no sectors".to_owned()
        } else if remap.lbn >= sectors || count > sectors - remap.lbn {
            format!(
                "moves sector {}, but the disk has {sectors}",
                remap.lbn.saturating_add(count - 1)
            )
        } else if remap.lbn < next {
            format!("moves sector {}, which another one moves as well", remap.lbn)
        } else if remap.cylinder >= spec.cylinders || remap.head >= spec.heads {
            format!(
                "leads to cylinder {} and head {}, but the disk has {} and {} of them",
                remap.cylinder, remap.head, spec.cylinders, spec.heads
            )
        } else if remap.track_sectors > 1 << 16 || last > u64::from(remap.track_sectors) {
            format!(
                "leads to sector {} of a track of {}; a track has 1 to 65536",
                last - 1,
                remap.track_sectors
            )
        } else {
            next = remap.lbn + count;
            continue;
        };
        return wrong("pattern.remaps", format!("remap {number} {problem}"));
    }
    Ok(())
}
