//! States of recordings of calls: the same epochs, names, choice and minimiser as of a device.

use super::*;
use crate::states::choose::at_risk;
use crate::states::minimise::minimise_in;
use bytes::Bytes;
use seekless_calls::model::{Model, Modelled, Recorded, Rule, Tree};
use seekless_calls::{Entry, Told};
use seekless_crash::needs;
use seekless_fs::call::{Call, Credentials, Ino, New, ROOT, RenameHow, Request, by_inode};
use std::sync::Arc;

/// Calls that are told, each with its reply.
#[derive(Default)]
struct Calls {
    entries: Vec<Entry>,
    calls: u64,
}

impl Calls {
    fn call(&mut self, request: Request, told: Told) -> &mut Calls {
        let (id, who) = (self.calls, Credentials::default());
        self.calls += 1;
        self.entries.push(Entry::Call { call: Call { id, who, now: 0, request }, at: 0 });
        self.entries.push(Entry::Reply { number: id, told });
        self
    }

    fn file(&mut self, name: &'static str) -> Ino {
        let (ino, name) = (100 + self.calls, Bytes::from_static(name.as_bytes()));
        let request = Request::Make { dir: ROOT, name, what: New::File, mode: 0o644, open: false };
        self.call(request, Told::Object(ino, 0, None));
        ino
    }

    fn write(&mut self, ino: Ino, at: u64, data: &'static [u8]) -> &mut Calls {
        let (handle, data) = (by_inode(ino), Bytes::from_static(data));
        let count = data.len() as u32;
        self.call(Request::Write { handle, at, data, append: false }, Told::Written(count))
    }

    fn rename(&mut self, from: &'static str, to: &'static str) -> &mut Calls {
        let name = |text: &'static str| Bytes::from_static(text.as_bytes());
        let (name, to_name, how) = (name(from), name(to), RenameHow::Replace);
        self.call(Request::Rename { dir: ROOT, name, to_dir: ROOT, to_name, how }, Told::Done)
    }

    fn fsync(&mut self, ino: Ino) -> &mut Calls {
        self.call(Request::Fsync { ino, data_only: false }, Told::Done)
    }

    fn mark(&mut self, value: &str) -> &mut Calls {
        self.entries.push(Entry::Mark(value.to_owned()));
        self
    }

    fn under(&self, model: Model) -> History {
        let recorded = Recorded::read(&self.entries).unwrap();
        History::of_calls(Arc::new(Modelled::new(Arc::new(recorded), model)))
    }
}

/// `a` holds `old` and is replaced by a rename of `a.tmp`, which is synced if asked.
fn replace(synced: bool) -> Calls {
    let mut calls = Calls::default();
    let old = calls.file("a");
    calls.write(old, 0, b"old").entries.push(Entry::Begin);
    let new = calls.file("a.tmp");
    calls.write(new, 0, b"new");
    if synced {
        calls.fsync(new);
    }
    calls.rename("a.tmp", "a").mark("new");
    calls
}

/// Each chosen state with its tree, epoch by epoch.
fn trees(history: &History) -> Vec<(Epoch, State, Tree)> {
    let mut trees = history.trees().unwrap();
    let mut all = Vec::new();
    for epoch in history.epochs() {
        for state in choose(history, &epoch, &BOUNDS) {
            let tree = trees.tree(&epoch, &state);
            all.push((epoch.clone(), state, tree));
        }
    }
    all
}

/// What the file `a` holds; `None` if there is none.
fn content(tree: &Tree) -> Option<Vec<u8>> {
    tree.find(b"a").map(|object| tree.bytes(object))
}

fn bad(tree: &Tree) -> bool {
    !matches!(content(tree).as_deref(), Some(b"old" | b"new"))
}

#[test]
fn a_file_that_is_replaced_without_a_sync_comes_out_without_content() {
    for model in Model::ALL {
        let history = replace(false).under(model);
        let found = trees(&history).into_iter().find(|(_, _, tree)| bad(tree));
        // Empty on XFS; on ext4 with its size, and zeros.
        assert!(found.is_some(), "{}", model.name);
        let history = replace(true).under(model);
        let all = trees(&history);
        assert!(all.iter().all(|(_, _, tree)| !bad(tree)), "{}: synced", model.name);
        let contents: BTreeSet<_> = all.iter().map(|(_, _, tree)| content(tree)).collect();
        assert_eq!(contents.len(), 2, "{}: the old content and the new one", model.name);
    }
}

#[test]
fn a_story_names_the_missing_call_and_the_rule() {
    let history = replace(false).under(Model::XFS);
    let (epoch, state, _) = trees(&history).into_iter().find(|(.., tree)| bad(tree)).unwrap();
    let mut shown = history.trees().unwrap();
    let mut fails = |state: &State| bad(&shown.tree(&epoch, state));
    let (small, _) = minimise_in(&history, &epoch, &state, 100, &mut fails);
    let text = story(&history, &epoch, &small);
    let why = text.lines().last().unwrap();
    assert_eq!(
        why,
        "why: rename(\"a.tmp\", \"a\") (call 4) reached the disk, the size 3 after \
         write(\"a.tmp\", 3 bytes at 0) (call 3) did not: xfs does not write the content of a \
         file before a rename over another; fsync of \"a.tmp\" between them is missing",
        "{text}"
    );
    assert!(text.contains("LOST  5: the size 3 after write"), "{text}");
    assert!(text.starts_with("the power goes at the end of the recording, before any sync"));
}

#[test]
fn a_story_of_an_acknowledgement_that_came_too_early_names_the_sync() {
    let mut calls = Calls::default();
    calls.entries.push(Entry::Begin);
    let file = calls.file("a");
    calls.write(file, 0, b"1").mark("1");
    let history = calls.under(Model::EXT4);
    let epoch = history.epochs().last().unwrap();
    let state = State { cut: epoch.cut, fates: vec![Fate::Lost; epoch.unsettled.len()] };
    let text = story(&history, &epoch, &state);
    let wanted = "why: \"1\" was acknowledged when the size 1 after write(\"a\", 1 bytes at 0) \
                  (call 1) was not durable: fsync of \"a\" before that is missing";
    assert_eq!(text.lines().last().unwrap(), wanted, "{text}");
}

#[test]
fn an_epoch_ends_at_each_sync_that_makes_something_durable() {
    let mut calls = Calls::default();
    calls.entries.push(Entry::Begin);
    let file = calls.file("a");
    calls.write(file, 0, b"1").mark("1").fsync(file).fsync(file);
    calls.write(file, 0, b"2").mark("2").fsync(file).mark("3");
    let history = calls.under(Model::EXT4);
    let epochs: Vec<Epoch> = history.epochs().collect();
    let numbers = |list: &[crate::states::history::Unsettled]| -> Vec<usize> {
        list.iter().map(|one| one.write).collect()
    };
    let shape: Vec<_> = epochs
        .iter()
        .map(|epoch| (numbers(&epoch.settled), numbers(&epoch.unsettled), epoch.acked))
        .collect();
    // The second sync makes nothing durable, so no epoch ends there.
    let wanted = [(vec![], vec![0, 1, 2], 1), (vec![0, 1, 2], vec![3], 2), (vec![3], vec![], 3)];
    assert_eq!(shape, wanted);
    assert_eq!(epochs.iter().map(|epoch| epoch.flushes).collect::<Vec<_>>(), [0, 2, 3]);
    assert_eq!(history.flushed().count(), 3);
    assert_eq!((history.acked(u64::MAX).count, history.begin()), (3, 0));
}

#[test]
fn names_of_states_come_back_and_those_that_the_model_forbids_are_refused() {
    let history = replace(false).under(Model::EXT4);
    for (epoch, state, tree) in trees(&history) {
        let name = state.name(&history, &epoch).to_string();
        let (epoch, again) = name.parse::<Name>().unwrap().resolve(&history).unwrap();
        assert_eq!(again, state, "{name}");
        let print = history.trees().unwrap().tree(&epoch, &again).print();
        assert_eq!(print, tree.print(), "{name}");
    }
    let cut = history.events();
    let rename = history.writes().last().unwrap().number;
    let name: Name = format!("{cut}:keep,5=lost").parse().unwrap();
    let error = name.resolve(&history).unwrap_err();
    let BadState::Needs { number, need: 5, model: "ext4", rule } = error else { panic!("{error}") };
    // The rename needs the size of the new file; its bytes may come later.
    assert_eq!((number, rule), (rename, Rule::ReplaceNeedsSize));
    let xfs = replace(false).under(Model::XFS);
    let name: Name = format!("{cut}:keep,4=lost,5=lost").parse().unwrap();
    assert!(name.resolve(&xfs).is_ok(), "XFS allows it");
    assert!(name.resolve(&history).unwrap_err().to_string().contains("write 6"));
}

#[test]
fn every_chosen_and_minimised_state_is_one_of_the_model() {
    let mut calls = Calls::default();
    calls.entries.push(Entry::Begin);
    let log = calls.file("log");
    for (at, name) in (0_u64..).zip(["b", "c", "d", "e", "f", "g"]) {
        let file = calls.file(name);
        calls.write(file, 0, b"xx").write(log, 2 * at, b"yy").rename(name, "a");
    }
    for model in Model::ALL {
        let history = calls.under(model);
        let (mut states, mut minimised) = (0, 0);
        for (epoch, state, tree) in trees(&history) {
            let writes = at_risk(&history, &epoch, SectorSize::default());
            assert!(needs::is_closed(&writes, &state.fates), "{}", model.name);
            states += 1;
            if !bad_log(&tree) {
                continue;
            }
            let mut shown = history.trees().unwrap();
            let mut fails = |state: &State| {
                assert!(needs::is_closed(&writes, &state.fates), "{}", model.name);
                bad_log(&shown.tree(&epoch, state))
            };
            let (small, _) = minimise_in(&history, &epoch, &state, 200, &mut fails);
            assert!(fails(&small));
            minimised += 1;
        }
        assert!(states >= 60 && minimised > 0, "{}: {states}, {minimised}", model.name);
    }
}

/// The log has fewer entries than it should: not more than two while `a` is there.
fn bad_log(tree: &Tree) -> bool {
    let log = tree.find(b"log").map_or(0, |object| tree.size(object));
    tree.find(b"a").is_some() && log <= 4
}

/// A file that is written again and again without a sync does not crowd out the others: of each
/// epoch some state lacks exactly the write that this epoch has brought.
#[test]
fn old_writes_leave_room_for_new_ones() {
    let mut calls = Calls::default();
    calls.entries.push(Entry::Begin);
    let (log, shared) = (calls.file("log"), calls.file("shared"));
    calls.write(log, 0, &[b'l'; 8192]).fsync(log).fsync(ROOT);
    for at in 0..40 {
        for page in 0..2 {
            calls.write(shared, 4096 * ((at + page) % 7), b"stored");
        }
        calls.write(log, 4096 * (at % 2), b"log").fsync(log);
    }
    let history = calls.under(Model::EXT4);
    let epochs: Vec<Epoch> = history.epochs().collect();
    for epoch in &epochs[2..epochs.len() - 1] {
        let of_log = |one: &crate::states::history::Unsettled| {
            let change = &history.calls().unwrap().recorded().micros[one.write].change;
            change.object() == Some(1)
        };
        let place = epoch.unsettled.iter().position(of_log).unwrap();
        let only = |state: &State| {
            state.fates[place] == Fate::Lost
                && state.fates.iter().filter(|fate| **fate == Fate::Lost).count() == 1
        };
        let states = choose(&history, epoch, &BOUNDS);
        assert!(states.iter().any(only), "{} are unsettled", epoch.unsettled.len());
    }
    let last = epochs.last().unwrap();
    assert!(last.unsettled.len() > 80, "{}", last.unsettled.len());
}
