//! The ledger of edges: each edge that can be cut has a line, and each that is caught has the run
//! that shows it. `cargo xtask mutants` writes it.
#![cfg(debug_assertions)]
#![allow(missing_docs)]

use crate::{planted_bugs, planted_files, planted_log};
use seekless_engine::edge::Edge;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// What may have come of cutting an edge.
const STATES: [&str; 7] =
    ["caught", "tested", "asserted", "redundant", "outside", "open", "unreached"];
/// Of a hundred edges, so many are caught at least, by the run that is stored for each or by a
/// test, or have a reason to be redundant.
const LEAST_CAUGHT: usize = 85;

fn tests() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests"].iter().collect()
}

fn ledger() -> Vec<[String; 4]> {
    let text = std::fs::read_to_string(tests().join("edges.tsv")).expect("the ledger is there");
    let fields = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
    text.lines().map(|line| fields(line).try_into().expect("four fields")).collect()
}

#[test]
fn each_edge_has_one_line() {
    let listed: Vec<String> = ledger().into_iter().map(|[edge, ..]| edge).collect();
    let known: BTreeSet<String> = Edge::ALL.iter().map(|edge| format!("{edge:?}")).collect();
    assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), known);
    assert_eq!(listed.len(), known.len(), "an edge has two lines");
}

#[test]
fn each_line_says_what_came_of_it() {
    for [edge, state, subject, remark] in ledger() {
        assert!(STATES.contains(&&*state), "{edge}: `{state}` is none of {STATES:?}");
        let names = subject.starts_with("--") != (state == "tested");
        assert!(names, "{edge}: `{subject}` chooses no subject and no test program");
        assert!(!remark.is_empty(), "{edge}: nothing says why it is {state}");
    }
}

/// What the stored runs with names that begin so have cut or planted. It is the last word of each
/// name.
fn stored(prefix: &str) -> BTreeSet<String> {
    let found = std::fs::read_dir(tests().join("found")).expect("the saved runs");
    let mut stored = BTreeSet::new();
    for file in found.map(|file| file.expect("a file").path()) {
        let name = file.file_stem().and_then(|name| name.to_str()).expect("a name");
        let Some(name) = name.strip_prefix(prefix) else { continue };
        let planted = name.rsplit('-').next().expect("there is a last word");
        let run = std::fs::read_to_string(&file).expect("it can be read");
        let says = format!("\"plant\": \"{planted}\"");
        assert!(run.contains(&says), "{name} is the run of something else");
        stored.insert(planted.to_owned());
    }
    stored
}

#[test]
fn each_planted_bug_has_a_run() {
    let stored = stored("planted-");
    let blocks = planted_bugs::planted().into_iter().map(|one| one.1);
    let bugs = blocks.chain(planted_files::planted().into_iter().map(|one| one.1));
    let bugs = bugs.chain(planted_log::planted().map(|one| one.1));
    let missing: BTreeSet<String> =
        bugs.map(|bug| format!("{bug:?}")).filter(|bug| !stored.contains(bug)).collect();
    assert!(missing.is_empty(), "no run is stored of {missing:?}");
}

/// The stored runs are replayed with all others: without the cut they pass, with it they fail.
#[test]
fn what_is_caught_has_its_run() {
    let stored = stored("edge-");
    let ledger = ledger();
    let caught = ledger.iter().filter(|[_, state, ..]| state == "caught");
    let caught: BTreeSet<String> = caught.map(|[edge, ..]| edge.clone()).collect();
    assert_eq!(stored, caught);
    let others = |[_, state, ..]: &&[String; 4]| matches!(&**state, "tested" | "redundant");
    let others = ledger.iter().filter(others).count();
    let share = 100 * (caught.len() + others) / ledger.len();
    assert!(share >= LEAST_CAUGHT, "{share} of 100 edges are caught for each commit");
}
