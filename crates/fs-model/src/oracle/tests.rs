use super::*;
use crate::model::Model;
use crate::script::Shape;
use seekless_fs::call::{Answer, Credentials, Errno, Ino, RenameHow, Reply, Request, SetAttr};
use std::collections::BTreeMap;

const SEEDS: [u64; 3] = [1, 2, 3];

/// What a system does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A file that is made smaller is one byte too large.
    TruncateSize,
    /// The link count stays when a name goes.
    LinkCount,
    /// A rename over an object reports success and changes nothing.
    RenameKeeps,
    /// Each seventh write is not there.
    LostWrite,
    /// Data stays in a hole that is punched.
    PunchKeeps,
    /// A list leaves out the last of five entries.
    ListForgets,
    /// A list brings an entry twice.
    ListRepeats,
    /// An inode number comes again with the same generation.
    Generation,
    /// Reads of files without names fail.
    UnlinkedGone,
    /// A call that is refused for lack of space has been done.
    FullWrites,
    /// A time is cut to seconds.
    Seconds,
    /// Set-user-id bits stay.
    SetIds,
}

/// A model with a fault.
struct Faulty {
    model: Model,
    fault: Fault,
    writes: u64,
    /// Names that an object has lost.
    lost: BTreeMap<Ino, u32>,
}

impl Faulty {
    fn new(fault: Fault) -> Faulty {
        let model = Model::numbered(Limits::default(), 1000, 7);
        Faulty { model, fault, writes: 0, lost: BTreeMap::new() }
    }

    fn ino_of(&self, dir: Ino, name: &[u8]) -> Option<Ino> {
        self.model.node(dir)?.entries()?.get(name)
    }

    fn size_of(&self, ino: Ino) -> u64 {
        self.model.node(ino).map_or(0, |node| node.size)
    }

    /// The call that the model runs instead; `None` if it runs none and success is reported.
    fn twist(&mut self, call: &Call) -> Option<Call> {
        let mut call = call.clone();
        match (self.fault, &mut call.request) {
            (Fault::TruncateSize, Request::SetAttr { ino, set }) => {
                let smaller = set.size.filter(|size| *size < self.size_of(*ino));
                set.size = smaller.map(|size| size + 1).or(set.size);
            }
            (Fault::LinkCount, Request::Unlink { dir, name }) => {
                if let Some(ino) = self.ino_of(*dir, name) {
                    *self.lost.entry(ino).or_default() += 1;
                }
            }
            (Fault::RenameKeeps, Request::Rename { dir, name, to_dir, to_name, how }) => {
                let (from, to) = ((*dir, &*name), (*to_dir, &*to_name));
                let fine = self.model.refusals_of_rename(from, to, *how).is_empty();
                if fine && *how == RenameHow::Replace && self.ino_of(*to_dir, to_name).is_some() {
                    return None;
                }
            }
            (Fault::LostWrite, Request::Write { data, .. }) => {
                self.writes += 1;
                if self.writes.is_multiple_of(7) {
                    *data = vec![0; data.len()].into();
                }
            }
            (Fault::PunchKeeps, Request::Allocate { how, .. })
                if *how == seekless_fs::call::AllocateHow::Punch =>
            {
                *how = seekless_fs::call::AllocateHow::KeepSize;
            }
            (Fault::Seconds, Request::SetAttr { set, .. }) => {
                let cut =
                    |time: Option<i64>| time.map(|time| time - time.rem_euclid(1_000_000_000));
                *set = SetAttr { mtime: cut(set.mtime), ..*set };
            }
            (Fault::SetIds, Request::Write { .. }) => call.who = Credentials::default(),
            _ => {}
        }
        Some(call)
    }

    fn spoil(&mut self, call: &Call, result: &mut Result<Answer, Errno>) {
        match (self.fault, &call.request, &mut *result) {
            (Fault::LinkCount, _, Ok(Answer::Attr(attr) | Answer::Object(attr, _))) => {
                attr.links += self.lost.get(&attr.ino).copied().unwrap_or(0);
            }
            (Fault::ListForgets, _, Ok(Answer::Entries(entries))) if entries.len() > 4 => {
                entries.remove(3);
            }
            (Fault::ListRepeats, _, Ok(Answer::Entries(entries))) => {
                if let Some(mut again) = entries.last().cloned() {
                    again.cookie += 1 << 32;
                    entries.insert(entries.len() - 1, again);
                }
            }
            (Fault::Generation, _, Ok(Answer::Attr(attr) | Answer::Object(attr, _))) => {
                attr.ino = if attr.ino > 2 { 3 + attr.ino % 70 } else { attr.ino };
            }
            (Fault::UnlinkedGone, Request::Read { handle, .. }, Ok(_)) => {
                let ino = self.model.opened(*handle);
                if ino.and_then(|ino| self.model.node(ino)).is_some_and(|node| node.links == 0) {
                    *result = Err(Errno::Io);
                }
            }
            (Fault::FullWrites, Request::Write { data, .. }, Ok(_)) => {
                self.writes += data.len() as u64;
                if self.writes > 1 << 20 {
                    *result = Err(Errno::NoSpc);
                }
            }
            _ => {}
        }
    }
}

impl Runs for Faulty {
    fn run(&mut self, call: Call) -> Reply {
        let id = call.id;
        let mut result = match self.twist(&call) {
            Some(call) => self.model.run(call).result,
            None => Ok(Answer::Done),
        };
        self.spoil(&call, &mut result);
        Reply { id, result }
    }
}

/// Every fault is found from each of three seeds, and a few calls show it.
fn found(kind: Kind, fault: Fault, most_calls: usize, says: &str) {
    for seed in SEEDS {
        let script = Script::random(kind, seed, 2000, Shape::default());
        let result = check(&mut || Faulty::new(fault), &script, Limits::default());
        let difference = result.expect_err(&format!("{fault:?} is found from seed {seed}"));
        let shown = difference.to_string();
        assert!(difference.what.contains(says), "{shown}");
        assert!(difference.calls.len() <= most_calls, "{shown}");
        assert!(shown.contains(&format!("seed {seed}")), "{shown}");
    }
}

#[test]
fn the_model_agrees_with_itself_under_other_numbers() {
    for kind in Kind::ALL {
        for seed in SEEDS {
            let script = Script::random(kind, seed, 1500, Shape::default());
            let mut make = || Model::numbered(Limits::default(), 1000, 7);
            match check(&mut make, &script, Limits::default()) {
                Ok(passed) => {
                    assert!(passed.calls > 1500 && passed.skipped == 0, "{kind:?}: {passed:?}");
                }
                Err(difference) => panic!("{difference}"),
            }
        }
    }
}

#[test]
fn a_wrong_size_after_truncation_is_found() {
    found(Kind::Sizes, Fault::TruncateSize, 4, "the size is");
}

#[test]
fn a_link_count_that_stays_is_found() {
    found(Kind::HardLinks, Fault::LinkCount, 5, "the link count is");
}

#[test]
fn a_rename_that_replaces_nothing_is_found() {
    found(Kind::Renames, Fault::RenameKeeps, 15, "");
}

#[test]
fn a_lost_write_is_found() {
    found(Kind::Sizes, Fault::LostWrite, 20, "of what it reads is 0x00");
}

#[test]
fn a_hole_that_keeps_its_data_is_found() {
    found(Kind::Holes, Fault::PunchKeeps, 4, "");
}

#[test]
fn lists_that_forget_or_repeat_are_found() {
    found(Kind::Lists, Fault::ListForgets, 8, "the list ends without");
    found(Kind::Lists, Fault::ListRepeats, 4, "twice");
}

#[test]
fn an_inode_number_that_comes_again_is_found() {
    found(Kind::HotDirectory, Fault::Generation, 40, "");
}

#[test]
fn files_without_names_must_stay_readable() {
    found(Kind::Unlinked, Fault::UnlinkedGone, 4, "expected");
}

#[test]
fn a_refused_call_must_change_nothing() {
    found(Kind::FullDisk, Fault::FullWrites, 30, "");
}

#[test]
fn times_have_nanoseconds() {
    found(Kind::Times, Fault::Seconds, 2, "mtime is");
}

#[test]
fn set_id_bits_end_with_a_write() {
    found(Kind::Users, Fault::SetIds, 9, "the mode is");
}

#[test]
fn what_is_there_after_a_remount_is_compared() {
    let script = Script::random(Kind::Mixed, 5, 1000, Shape::default());
    let run = |spoil: bool| {
        let mut judge = Judge::new(Model::new(Limits::default()), Limits::default(), false);
        judge.run(&script.calls).expect("the model agrees with itself");
        let mut judge = judge.remount(|mut model| {
            model.unmount();
            if spoil {
                let request = Request::Unlink { dir: 2, name: last_name(&model) };
                let call = Call { id: 1, who: Credentials::default(), now: 9, request };
                assert_eq!(model.run(call).result, Ok(Answer::Done));
            }
            model
        });
        judge.walk()
    };
    assert_eq!(run(false), Ok(()));
    assert!(run(true).is_err());
}

/// A name of a file in the root.
fn last_name(model: &Model) -> bytes::Bytes {
    let entries = model.node(2).and_then(|root| root.entries()).expect("the root exists");
    let is_file = |ino: Ino| model.node(ino).is_some_and(|node| node.entries().is_none());
    let files = entries.iter().filter(|(_, ino)| is_file(*ino));
    files.map(|(name, _)| name.clone()).last().expect("the script leaves a file in the root")
}
