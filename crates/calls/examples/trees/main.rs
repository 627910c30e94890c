//! Prints every tree that a power cut may leave of a recording, under a model.
//!
//! `trees RUN.CALLS MODEL [WITHOUT-RULE]` prints a line for each: the number of acknowledgements
//! before the cut, a tab, the tree. Nothing is sampled, so recordings must be short.
//! `calibrate/sequences.py` compares the lines with what kernels leave.
// The rest of the crate does no I/O, and is handed its configuration.
#![allow(clippy::disallowed_methods)]

use seekless_calls::file;
use seekless_calls::model::{Kept, Model, Modelled, Recorded, Rule, Tree, Trees};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::error::Error;
use std::sync::Arc;

/// States of a power cut that are tried at most.
const MOST: usize = 400_000;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, model, rest @ ..] = args.as_slice() else {
        return Err("usage: trees RUN.CALLS MODEL [WITHOUT-RULE]".into());
    };
    let mut model = Model::named(model).ok_or("the model is none of posix, xfs, ext4")?;
    if let [rule] = rest {
        let known = Rule::OPTIONAL.into_iter().find(|known| format!("{known:?}") == *rule);
        model = model.without(known.ok_or("no such rule")?);
    }
    let (_, entries) = file::read(std::fs::read(path)?.into())?;
    let modelled = Modelled::new(Arc::new(Recorded::read(&entries)?), model);
    for (count, tree) in all(&modelled)? {
        println!("{count}\t{tree}");
    }
    Ok(())
}

/// Each tree with the number of acknowledgements before the cut.
fn all(modelled: &Modelled) -> Result<BTreeSet<(usize, String)>, Box<dyn Error>> {
    let recorded = modelled.recorded();
    let (mut found, mut trees) = (BTreeSet::new(), modelled.trees());
    let acked = |cut: u64| recorded.marks.iter().filter(|mark| mark.at < cut).count();
    for cut in recorded.begin + 1..=recorded.entries {
        let before = (trees.durable().len(), acked(cut - 1));
        let mut next = trees.clone();
        next.advance(cut);
        // Within a segment the last cut has the most pending changes, so it has all states.
        if before != (next.durable().len(), acked(cut)) && cut > recorded.begin + 1 {
            add(modelled, &trees, before.1, &mut found)?;
        }
        trees = next;
    }
    add(modelled, &trees, recorded.marks.len(), &mut found)?;
    Ok(found)
}

/// Adds the trees of one cut.
fn add(
    modelled: &Modelled,
    trees: &Trees<'_>,
    count: usize,
    found: &mut BTreeSet<(usize, String)>,
) -> Result<(), Box<dyn Error>> {
    let (mut prints, mut tried) = (HashSet::new(), 0);
    let mut left = vec![(trees.durable().clone(), 0)];
    while let Some((set, at)) = left.pop() {
        let Some(&micro) = trees.pending().get(at) else {
            tried += 1;
            let tree = trees.tree(|index| set.contains(index));
            if prints.insert(tree.print()) {
                found.insert((count, words(&tree)));
            }
            continue;
        };
        if tried > MOST {
            return Err(format!("more than {MOST} states of one cut; record a shorter run").into());
        }
        if modelled.missing(micro, &set).is_none() {
            let mut with: Kept = set.clone();
            with.insert(micro);
            left.push((with, at + 1));
        }
        left.push((set, at + 1));
    }
    Ok(())
}

/// A tree as `calibrate/sequences.py` prints it: paths in order, sizes, and runs of equal bytes.
fn words(tree: &Tree) -> String {
    let mut found = tree.found();
    found.sort_by(|one, two| one.path.cmp(&two.path));
    let mut first = BTreeMap::new();
    let parts = found.iter().map(|found| {
        let path = String::from_utf8_lossy(&found.path).into_owned();
        if tree.object(found.object).is_directory() {
            return format!("{path}/");
        }
        match first.get(&found.object) {
            Some(other) => format!("{path}@{other}"),
            None => {
                first.insert(found.object, path.clone());
                let bytes = tree.bytes(found.object);
                format!("{path}={}:{}", bytes.len(), runs(&bytes))
            }
        }
    });
    parts.collect::<Vec<_>>().join("; ")
}

fn runs(bytes: &[u8]) -> String {
    let runs = bytes.chunk_by(|one, two| one == two);
    let run = |run: &[u8]| {
        let byte = if run[0] == 0 { '.' } else { char::from(run[0]) };
        format!("{byte}{}", run.len())
    };
    runs.map(run).collect::<Vec<_>>().join(" ")
}
