//! Every tree that a power cut may leave of a short recording.

use super::shown::{line, shown};
use seekless_calls::model::{Kept, Modelled, Trees};
use std::collections::{BTreeSet, HashSet};

/// States of a power cut that are tried at most.
const MOST: usize = 400_000;

/// Each cut that can leave trees that no later cut with as many acknowledgements leaves: the number
/// of acknowledgements before it, and what it may take.
pub fn cuts(modelled: &Modelled) -> Vec<(usize, Trees<'_>)> {
    let recorded = modelled.recorded();
    let (mut found, mut trees) = (Vec::new(), modelled.trees());
    let acked = |cut: u64| recorded.marks.iter().filter(|mark| mark.at < cut).count();
    for cut in recorded.begin + 1..=recorded.entries {
        let before = (trees.durable().len(), acked(cut - 1));
        let mut next = trees.clone();
        next.advance(cut);
        // Within a segment the last cut has the most pending changes, so it has all states.
        if before != (next.durable().len(), acked(cut)) && cut > recorded.begin + 1 {
            found.push((before.1, trees));
        }
        trees = next;
    }
    found.push((recorded.marks.len(), trees));
    found
}

/// Each tree in a line, with the number of acknowledgements before the cut; `None` if a cut has too
/// many.
pub fn every(modelled: &Modelled) -> Option<BTreeSet<(usize, String)>> {
    let mut found = BTreeSet::new();
    for (count, trees) in cuts(modelled) {
        add(modelled, &trees, count, &mut found)?;
    }
    Some(found)
}

/// Adds the trees of one cut.
fn add(
    modelled: &Modelled,
    trees: &Trees<'_>,
    count: usize,
    found: &mut BTreeSet<(usize, String)>,
) -> Option<()> {
    let (mut prints, mut tried) = (HashSet::new(), 0);
    let mut left = vec![(trees.durable().clone(), 0)];
    while let Some((set, at)) = left.pop() {
        let Some(&micro) = trees.pending().get(at) else {
            tried += 1;
            let tree = trees.tree(|index| set.contains(index));
            if prints.insert(tree.print()) {
                found.insert((count, line(&shown(&tree))));
            }
            continue;
        };
        if tried > MOST {
            return None;
        }
        if modelled.missing(micro, &set).is_none() {
            let mut with: Kept = set.clone();
            with.insert(micro);
            left.push((with, at + 1));
        }
        left.push((set, at + 1));
    }
    Some(())
}
