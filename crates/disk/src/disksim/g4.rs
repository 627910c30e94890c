//! `dm_layout_g4`: a tree of patterns.
//!
//! `TP` lists tracks: first and last sector that hold data, sectors of a turn. `IDX` lists nodes,
//! each a list of entries: first sector, first cylinder, angle; sectors, cylinders and angle from
//! one repetition to the next; sectors and cylinders of all repetitions; `TRACK` or `IDX`, the
//! number of the child, and for a track the head. The last node is the root.

use super::fields::{self, Fields};
use super::lexer::{Place, shorten};
use super::parser::{Block, Document, Node, Value};
use super::{ImportError, Mapping};
use crate::spec::geometry::{
    Pattern, PatternChild, PatternEntry, PatternNode, PatternRemap, PatternSlip, PatternTrack,
};
use crate::spec::{Spec, pattern as fitting};

/// Where the parts of a tree stand, by their numbers in it.
#[derive(Debug, Default)]
pub(super) struct Places {
    tracks: Vec<Place>,
    entries: Vec<Vec<Place>>,
    slips: Vec<Place>,
    remaps: Vec<Place>,
}

impl Places {
    /// The place of the part that a message of the specification's checks names.
    pub(super) fn of(&self, field: &str, problem: &str) -> Option<Place> {
        let number = |word: &str| -> Option<usize> {
            let behind = problem.split(word).nth(1)?;
            let digits = behind.chars().take_while(char::is_ascii_digit);
            digits.collect::<String>().parse().ok()
        };
        match field {
            "pattern.tracks" => self.tracks.get(number("track ")?).copied(),
            "pattern.slips" => self.slips.get(number("slip ")?).copied(),
            "pattern.remaps" => self.remaps.get(number("remap ")?).copied(),
            "pattern.nodes" => {
                let entry = number("entry ").unwrap_or(0);
                self.entries.get(number("node ")?)?.get(entry).copied()
            }
            _ => None,
        }
    }
}

/// Fills in the pattern.
pub(super) fn map(
    block: &Block,
    document: &Document,
    spec: &mut Spec,
    m: &mut Mapping<'_>,
) -> Result<(), ImportError> {
    let mut f = Fields::of(block, document, m);
    let tracks = f.list("TP", m)?;
    let tracks = self::tracks(f.must("TP", tracks, m)?, m)?;
    let nodes = f.list("IDX", m)?;
    let nodes = self::nodes(f.must("IDX", nodes, m)?, m)?;
    let slips = slips(f.list("Slips", m)?.unwrap_or_default(), m)?;
    let remaps = remaps(f.list("Remaps", m)?.unwrap_or_default(), m)?;
    m.source("pattern", block.place);
    f.name_the_rest(m);
    if nodes.is_empty() {
        return Err(m.error(f.place("IDX"), "no node", "the last one is the root"));
    }
    let mut pattern = Pattern { root: nodes.len() as u32 - 1, slips, remaps, tracks, nodes };
    cut_repetitions(&mut pattern, m);
    cut_reach(&mut pattern, spec, m);
    spec.pattern = Some(pattern);
    Ok(())
}

/// Cuts a last entry that repeats its child once and asks for more sectors than the child has. The
/// reference simulator never asks for these sectors, because the child does not know them.
fn cut_repetitions(pattern: &mut Pattern, m: &mut Mapping<'_>) {
    for number in 0..pattern.nodes.len() {
        let Some(&last) = pattern.nodes[number].entries.last() else { continue };
        let Some(holds) = fitting::holds(pattern, last.child) else { continue };
        if last.run > last.length || last.run <= holds || holds == 0 {
            continue;
        }
        let index = pattern.nodes[number].entries.len() - 1;
        let place = m.tree.entries[number][index];
        let gone = last.run - holds;
        m.warn(
            place,
            format!(
                "entry {index} of node {number} asks for {gone} sectors more than its child has; \
                 they were cut off"
            ),
        );
        let entry = &mut pattern.nodes[number].entries[index];
        (entry.run, entry.length) = (holds, holds);
    }
}

/// Cuts the last entry of the root where it leaves the cylinders of the disk.
fn cut_reach(pattern: &mut Pattern, spec: &mut Spec, m: &mut Mapping<'_>) {
    if spec.cylinders == 0 || !fitting::sound(spec, pattern) {
        return;
    }
    let Some(within) = fitting::within(spec, pattern) else { return };
    let (root, before) = (pattern.root as usize, pattern.sectors());
    let index = pattern.nodes[root].entries.len() - 1;
    let place = m.tree.entries[root][index];
    let entry = &mut pattern.nodes[root].entries[index];
    entry.run = within - entry.lbn;
    entry.length = entry.length.min(entry.run);
    m.warn(
        place,
        format!(
            "entry {index} of node {root}, the root, reaches beyond the {} cylinders; its last \
             {} sectors were cut off",
            spec.cylinders,
            before - pattern.sectors()
        ),
    );
}

/// The next value of a flat list.
fn take<'n>(
    items: &mut std::slice::Iter<'n, Node>,
    near: &Node,
    m: &Mapping<'_>,
) -> Result<&'n Node, ImportError> {
    items.next().ok_or_else(|| {
        m.error(near.place, "the list ends within an entry", "is a number or a comma missing?")
    })
}

fn tracks(list: &[Node], m: &mut Mapping<'_>) -> Result<Vec<PatternTrack>, ImportError> {
    let mut tracks = Vec::new();
    let mut items = list.iter();
    while let Some(node) = items.next() {
        let first = fields::count(node, "TP", m)?;
        let last = fields::count(take(&mut items, node, m)?, "TP", m)?;
        let sectors = fields::count(take(&mut items, node, m)?, "TP", m)?;
        if first > last || last >= sectors {
            let problem = format!("sectors {first} to {last} of a track with {sectors}");
            let remedy = "TP holds: first sector, last sector, sectors of the track";
            return Err(m.error(node.place, problem, remedy));
        }
        m.tree.tracks.push(node.place);
        tracks.push(PatternTrack { first, last, sectors });
    }
    Ok(tracks)
}

fn nodes(list: &[Node], m: &mut Mapping<'_>) -> Result<Vec<PatternNode>, ImportError> {
    let mut nodes = Vec::new();
    for node in list {
        let Value::List(values) = &node.value else {
            return Err(m.error(node.place, "a node that is not a list", "IDX is a list of lists"));
        };
        let mut entries = Vec::new();
        let mut items = values.iter();
        while let Some(first) = items.next() {
            entries.push((entry(first, &mut items, m)?, first.place));
        }
        // Sectors are looked up by their place, so the order in the file does not matter.
        entries.sort_by_key(|(entry, _)| entry.lbn);
        let (entries, mut places): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
        if places.is_empty() {
            places.push(node.place);
        }
        m.tree.entries.push(places);
        nodes.push(PatternNode { entries });
    }
    Ok(nodes)
}

fn entry(
    first: &Node,
    items: &mut std::slice::Iter<'_, Node>,
    m: &Mapping<'_>,
) -> Result<PatternEntry, ImportError> {
    let key = "IDX";
    let mut next = || take(items, first, m);
    let lbn = fields::size(first, key, m)?;
    let cylinder = fields::int(next()?, key, m)?;
    let offset = fields::number(next()?, key, m)?;
    let length = fields::size(next()?, key, m)?;
    let cylinder_length = fields::int(next()?, key, m)?;
    let skew = fields::number(next()?, key, m)?;
    let run = fields::size(next()?, key, m)?;
    let cylinder_run = fields::int(next()?, key, m)?;
    let kind = next()?;
    let number = fields::count(next()?, key, m)?;
    let (child, head) = match &kind.value {
        Value::Word(word) if word == "TRACK" => {
            (PatternChild::Track(number), fields::count(next()?, key, m)?)
        }
        Value::Word(word) if word == "IDX" => (PatternChild::Node(number), 0),
        other => {
            let found = match other {
                Value::Word(word) => shorten(word),
                _ => "a number".to_owned(),
            };
            let problem = format!("{found} where the kind of a child is expected");
            return Err(m.error(kind.place, problem, "write TRACK or IDX"));
        }
    };
    // A part without repetitions has no distance to the next one.
    let once = run <= length && cylinder_length == 0;
    let cylinder_length = if once { 1 } else { cylinder_length };
    Ok(PatternEntry {
        lbn,
        length,
        run,
        cylinder,
        cylinder_length,
        cylinder_run,
        offset,
        skew,
        head,
        child,
    })
}

fn slips(list: &[Node], m: &mut Mapping<'_>) -> Result<Vec<PatternSlip>, ImportError> {
    let mut slips = Vec::new();
    let mut total = 0u64;
    let mut items = list.iter();
    while let Some(node) = items.next() {
        let at = fields::size(node, "Slips", m)?;
        let count = fields::size(take(&mut items, node, m)?, "Slips", m)?;
        total = total.saturating_add(count);
        m.tree.slips.push(node.place);
        slips.push(PatternSlip { at, total });
    }
    Ok(slips)
}

fn remaps(list: &[Node], m: &mut Mapping<'_>) -> Result<Vec<PatternRemap>, ImportError> {
    let mut remaps = Vec::new();
    let key = "Remaps";
    let mut items = list.iter();
    while let Some(node) = items.next() {
        m.tree.remaps.push(node.place);
        let mut next = || take(&mut items, node, m);
        remaps.push(PatternRemap {
            lbn: fields::size(node, key, m)?,
            count: fields::count(next()?, key, m)?,
            cylinder: fields::count(next()?, key, m)?,
            head: fields::count(next()?, key, m)?,
            sector: fields::count(next()?, key, m)?,
            track_sectors: fields::count(next()?, key, m)?,
        });
    }
    Ok(remaps)
}
