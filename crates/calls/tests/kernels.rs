//! Models against what kernels left: random sequences of calls, and the trees after power cuts, as
//! `calibrate/sequences.py store` wrote them. No test here needs root, or a kernel.
//!
//! A file has blocks that begin with `sequence`. The lines of a block are the recording of the
//! calls behind that of the first block, `start`, and a line for each tree with the numbers of
//! acknowledgements behind which the kernel left it.

use seekless_calls::model::{Covers, Model, Modelled, Recorded, Rule};
use std::collections::BTreeSet;
use std::sync::Arc;

#[path = "../examples/trees/allows.rs"]
mod allows;
#[path = "../examples/trees/every.rs"]
mod every;
#[path = "../examples/trees/shown.rs"]
mod shown;
#[path = "../examples/trees/told.rs"]
mod told;

use allows::allows;
use every::every;

/// What each kernel left.
const STORED: [(Model, &str); 3] = [
    (Model::EXT4, include_str!("kernels/ext4.txt")),
    (Model::XFS, include_str!("kernels/xfs.txt")),
    (Model::BTRFS, include_str!("kernels/btrfs.txt")),
];

/// Rules that a model lacks although no stored tree breaks them. ext4 leaves zeros behind a rename
/// of files of many megabytes only (decision 144).
const BROKEN_ELSEWHERE: [(Model, Rule); 1] = [(Model::EXT4, Rule::ReplaceNeedsContent)];

/// Parts of calls that a sequence has at most if all of its states are tried.
const SHORT: usize = 12;

/// A sequence, and what a kernel left of it.
struct Sequence {
    text: String,
    recorded: Arc<Recorded>,
    /// Numbers of acknowledgements, each with a tree.
    trees: Vec<(usize, String)>,
}

impl Sequence {
    fn under(&self, model: Model) -> Modelled {
        Modelled::new(Arc::clone(&self.recorded), model)
    }

    /// The trees of the kernel that a model forbids.
    fn forbidden(&self, model: Model) -> Vec<&(usize, String)> {
        let modelled = self.under(model);
        let is_forbidden = |(count, tree): &&(usize, String)| {
            let wanted = shown::read(tree).unwrap_or_else(|| panic!("no tree: {tree}"));
            !allows(&modelled, *count, &wanted)
        };
        self.trees.iter().filter(is_forbidden).collect()
    }

    /// True if it has few states.
    fn is_short(&self) -> bool {
        let begin = self.recorded.begin;
        self.recorded.micros.iter().filter(|micro| micro.asked > begin).count() <= SHORT
    }
}

fn stored(text: &str) -> Vec<Sequence> {
    let (mut start, mut found) = (Vec::new(), Vec::new());
    for block in text.split("\n\n").filter(|block| !block.starts_with('#')) {
        let (head, lines) = block.split_once('\n').expect("a block has lines");
        let (trees, calls): (Vec<&str>, Vec<&str>) =
            lines.lines().partition(|line| line.starts_with("tree "));
        let Some(text) = head.strip_prefix("sequence ") else {
            assert_eq!(head, "start", "the first block");
            start = calls;
            continue;
        };
        let lines = start.iter().copied().chain(calls);
        let entries = told::read(lines.clone());
        let mut entries = entries.unwrap_or_else(|line| panic!("no call: {line}"));
        told::without_times(&mut entries);
        let again = told::write(&entries).expect("what is stored has a text");
        assert!(again.iter().map(String::as_str).eq(lines), "the text is that of the recording");
        let recorded = Recorded::read(&entries).unwrap_or_else(|error| panic!("{text}: {error}"));
        let trees = trees.into_iter().flat_map(|line| {
            let (counts, tree) = line["tree ".len()..].split_once(' ').expect("a tree");
            let number = |count: &str| count.parse().expect("a number of acknowledgements");
            counts.split(',').map(move |count| (number(count), tree.to_owned()))
        });
        let (text, trees) = (text.to_owned(), trees.collect());
        found.push(Sequence { text, recorded: Arc::new(recorded), trees });
    }
    assert!(!found.is_empty(), "nothing is stored");
    found
}

/// The first stored sequence with a tree that the model forbids.
fn refuted(sequences: &[Sequence], model: Model) -> Option<&Sequence> {
    sequences.iter().find(|sequence| !sequence.forbidden(model).is_empty())
}

#[test]
fn each_tree_that_a_kernel_left_is_allowed() {
    for (model, text) in STORED {
        for sequence in stored(text) {
            let forbidden = sequence.forbidden(model);
            assert!(forbidden.is_empty(), "{}: {}: {forbidden:?}", model.name, sequence.text);
            let forbidden = sequence.forbidden(Model::POSIX);
            assert!(forbidden.is_empty(), "posix: {}: {forbidden:?}", sequence.text);
        }
    }
}

#[test]
fn each_rule_that_a_model_lacks_is_broken_by_its_kernel() {
    for (model, text) in STORED {
        let sequences = stored(text);
        // All metadata in order implies the order of what is not synced.
        let lacks = |rule: &Rule| !model.has(*rule);
        let implied = |rule: &Rule| *rule == Rule::UnsyncedInOrder && model.metadata_in_order;
        for rule in Rule::OPTIONAL.into_iter().filter(|rule| lacks(rule) && !implied(rule)) {
            let is_broken = refuted(&sequences, model.with(rule)).is_some();
            let is_known = BROKEN_ELSEWHERE.contains(&(model, rule));
            assert_eq!(is_broken, !is_known, "{}: {rule:?}", model.name);
        }
    }
}

/// A sequence of which a weaker model allows trees that the model forbids, and the kernel left
/// none.
fn shows_a_need(sequences: &[Sequence], model: Model, weaker: Model) -> bool {
    let trees = |sequence: &Sequence, model| every(&sequence.under(model)).expect("few states");
    sequences.iter().filter(|sequence| sequence.is_short()).any(|sequence| {
        let more: BTreeSet<_> =
            trees(sequence, weaker).difference(&trees(sequence, model)).cloned().collect();
        !more.is_empty() && sequence.trees.iter().all(|tree| !more.contains(tree))
    })
}

#[test]
fn each_rule_of_a_model_is_needed() {
    for (model, text) in STORED {
        let sequences = stored(text);
        for rule in Rule::OPTIONAL.into_iter().filter(|&rule| model.has(rule)) {
            let is_needed = shows_a_need(&sequences, model, model.without(rule));
            assert!(is_needed, "{}: {rule:?} forbids nothing", model.name);
        }
        // Metadata in order brings the rest of what a sync covers.
        let loose = model.without(Rule::MetadataInOrder);
        let weaker = [
            Model { file_sync: Covers::Object, ..loose },
            Model { directory_sync: Covers::Object, ..loose },
        ];
        for weaker in weaker.into_iter().filter(|weaker| *weaker != loose) {
            assert!(shows_a_need(&sequences, loose, weaker), "{}: {weaker:?}", model.name);
        }
    }
}

#[test]
fn the_search_finds_what_the_states_of_short_sequences_show() {
    let (mut found, mut missed) = (0, 0);
    for (model, text) in STORED {
        for sequence in stored(text).into_iter().filter(Sequence::is_short).take(40) {
            let modelled = sequence.under(model);
            let all = every(&modelled).expect("few states");
            let weak = every(&sequence.under(Model::POSIX)).expect("few states");
            for (count, tree) in weak.iter().step_by(weak.len() / 100 + 1).chain(&all) {
                let wanted = shown::read(tree).expect("a tree");
                let is_allowed = all.contains(&(*count, tree.clone()));
                let said = allows(&modelled, *count, &wanted);
                assert_eq!(said, is_allowed, "{}: {}: {tree}", model.name, sequence.text);
                assert_eq!(shown::line(&wanted), *tree, "the text gives the tree");
                *if said { &mut found } else { &mut missed } += 1;
            }
        }
    }
    assert!(found > 100 && missed > 100, "{found} allowed, {missed} not");
}
