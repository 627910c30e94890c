//! What runs while the power is cut: rounds in which files are made, renamed and removed.
//!
//! Every second round ends with a sync. Only files that a sync has covered are renamed, so that a
//! renamed file must have a name in each state that the policy orders.

use crate::files::driver::{Next, Program};
use crate::files::steps::content;
use bytes::Bytes;
use seekless_engine::rng::Rng;
use seekless_engine::units::{SECONDS, Time};
use seekless_fs::call::{Answer, Credentials, Handle, Ino, New, ROOT, RenameHow, Reply, Request};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A name: the numbers of a directory and of a file.
pub(super) type Name = (u32, u32);

/// Files that a round makes, renames and removes.
const FILES: u32 = 10;
const RENAMED: u32 = 3;
const REMOVED: u32 = 5;
/// Bytes of a file at most; every fifth one is larger and has an indirect block.
const SMALL: u64 = 24 << 10;
const LARGE: u64 = 120 << 10;
/// Idleness after a round.
const PAUSE: Time = 11 * SECONDS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    MakeDir(u32),
    Make(Name, u32),
    Close(u32),
    Forget(u32),
    Rename(Name, u32),
    Unlink(Name),
    Sync,
    Pause,
}

/// An act with the times of its call and of its answer.
#[derive(Clone, Copy, Debug)]
struct Acted {
    act: Act,
    begun: Time,
    answered: Time,
}

/// All that was done, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    acts: Vec<Acted>,
    /// Bytes of each file.
    pub sizes: BTreeMap<u32, u32>,
}

/// What a crash at a time must leave if every answered call is durable.
#[derive(Debug, Default)]
pub(super) struct Expected {
    pub there: BTreeSet<Name>,
    pub gone: BTreeSet<Name>,
    /// All names of files whose renaming has begun, and whose removal has not.
    pub renamed: BTreeMap<u32, BTreeSet<Name>>,
}

impl History {
    /// What a crash at `now` must leave.
    pub fn at(&self, now: Time) -> Expected {
        let mut expected = Expected::default();
        for acted in self.acts.iter().filter(|acted| acted.begun <= now) {
            let is_answered = acted.answered <= now;
            let Expected { there, gone, renamed } = &mut expected;
            let mut turn = |name: Name, is_there: bool| {
                there.remove(&name);
                gone.remove(&name);
                if is_answered {
                    if is_there {
                        there.insert(name)
                    } else {
                        gone.insert(name)
                    };
                }
            };
            match acted.act {
                Act::Make(name, _) => turn(name, true),
                Act::Rename(old, dir) => {
                    let new = (dir, old.1);
                    turn(old, false);
                    turn(new, true);
                    renamed.entry(old.1).or_default().extend([old, new]);
                }
                Act::Unlink(name) => {
                    turn(name, false);
                    renamed.remove(&name.1);
                }
                _ => {}
            }
        }
        expected
    }

    /// All names that there ever were.
    pub fn names(&self) -> BTreeSet<Name> {
        let names = self.acts.iter().filter_map(|acted| match acted.act {
            Act::Make(name, _) => Some(name),
            Act::Rename((_, file), dir) => Some((dir, file)),
            _ => None,
        });
        names.collect()
    }

    /// All directories.
    pub fn dirs(&self) -> BTreeSet<u32> {
        self.names().into_iter().map(|name| name.0).collect()
    }
}

/// The name of a directory.
pub(super) fn dir_name(dir: u32) -> Bytes {
    Bytes::from(format!("dir{dir}"))
}

/// The name of a file.
pub(super) fn file_name(file: u32) -> Bytes {
    Bytes::from(format!("file{file}"))
}

/// What a file holds.
pub(super) fn bytes_of(file: u32, length: u32) -> Bytes {
    content(0, file, 0, 0, length)
}

/// The program.
#[derive(Debug)]
pub(super) struct Actor {
    acts: VecDeque<Act>,
    /// The call that is not answered; a write is a second call of the act that makes the file.
    open: Option<(Act, Time)>,
    writes: Option<u32>,
    dirs: BTreeMap<u32, Ino>,
    files: BTreeMap<u32, (Ino, Handle)>,
    history: History,
}

impl Actor {
    /// A program of so many rounds.
    pub fn new(rounds: u32, seed: u64) -> Actor {
        let mut rng = Rng::stream(seed, "crashes");
        let (mut acts, mut sizes) = (VecDeque::new(), BTreeMap::new());
        // Files that the last sync has covered, and those that were made since.
        let (mut synced, mut fresh): (Vec<Name>, Vec<Name>) = (Vec::new(), Vec::new());
        for round in 1..=rounds {
            acts.push_back(Act::MakeDir(round));
            for n in 0..FILES {
                let file = round * FILES + n;
                let size = if n == FILES - 1 { LARGE } else { 1 + rng.below(SMALL) };
                sizes.insert(file, size as u32);
                let make = Act::Make((round, file), size as u32);
                acts.extend([make, Act::Close(file), Act::Forget(file)]);
                fresh.push((round, file));
            }
            for n in 0..(RENAMED + REMOVED).min(synced.len() as u32) {
                let name = synced.swap_remove(rng.below(synced.len() as u64) as usize);
                if n < RENAMED {
                    acts.push_back(Act::Rename(name, round));
                    fresh.push((round, name.1));
                } else {
                    acts.push_back(Act::Unlink(name));
                }
            }
            acts.push_back(Act::Pause);
            if round % 2 == 0 {
                acts.push_back(Act::Sync);
                synced.append(&mut fresh);
            }
        }
        let history = History { acts: Vec::new(), sizes };
        let (dirs, files) = (BTreeMap::new(), BTreeMap::new());
        Actor { acts, open: None, writes: None, dirs, files, history }
    }

    /// What it has done.
    pub fn history(self) -> History {
        self.history
    }

    fn request(&self, act: Act) -> Request {
        let make = |dir, name, what, mode, open| Request::Make { dir, name, what, mode, open };
        match act {
            Act::MakeDir(dir) => make(ROOT, dir_name(dir), New::Directory, 0o755, false),
            Act::Make((dir, file), _) => {
                make(self.dirs[&dir], file_name(file), New::File, 0o644, true)
            }
            Act::Close(file) => Request::Release { handle: self.files[&file].1 },
            Act::Forget(file) => Request::Forget { ino: self.files[&file].0, count: 1 },
            Act::Rename((dir, file), to) => Request::Rename {
                dir: self.dirs[&dir],
                name: file_name(file),
                to_dir: self.dirs[&to],
                to_name: file_name(file),
                how: RenameHow::Replace,
            },
            Act::Unlink((dir, file)) => {
                Request::Unlink { dir: self.dirs[&dir], name: file_name(file) }
            }
            Act::Sync | Act::Pause => Request::Sync,
        }
    }

    /// Takes the answer to a call; what it was for has been noted.
    fn take(&mut self, act: Act, answer: Answer) {
        match (act, answer) {
            (Act::MakeDir(dir), Answer::Object(attr, _)) => {
                self.dirs.insert(dir, attr.ino);
            }
            (Act::Make((_, file), size), Answer::Object(attr, Some(handle))) => {
                self.files.insert(file, (attr.ino, handle));
                self.writes = Some(size);
            }
            _ => {}
        }
    }
}

impl Program for Actor {
    fn next(&mut self, reply: Option<Reply>, now: Time) -> Next {
        let who = Credentials::default();
        if let (Some(reply), Some((act, begun))) = (reply, self.open.take()) {
            let Ok(answer) = reply.result else { return Next::End };
            if matches!(answer, Answer::Written(_)) {
                self.writes = None;
            } else {
                self.history.acts.push(Acted { act, begun, answered: now });
                self.take(act, answer);
            }
            if let (Act::Make((_, file), _), Some(size)) = (act, self.writes) {
                self.open = Some((act, begun));
                let (handle, data) = (self.files[&file].1, bytes_of(file, size));
                return Next::Call(who, Request::Write { handle, at: 0, data, append: false });
            }
        }
        match self.acts.pop_front() {
            None => Next::End,
            Some(Act::Pause) => Next::Pause(PAUSE),
            Some(act) => {
                let is_silent = matches!(act, Act::Forget(_));
                self.open = (!is_silent).then_some((act, now));
                Next::Call(who, self.request(act))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(acts: &[(Act, Time, Time)]) -> History {
        let acts = acts.iter().map(|&(act, begun, answered)| Acted { act, begun, answered });
        History { acts: acts.collect(), sizes: BTreeMap::new() }
    }

    #[test]
    fn only_what_was_answered_must_be_there() {
        let history = history(&[
            (Act::Make((1, 7), 5), 10, 20),
            (Act::Rename((1, 7), 2), 30, 40),
            (Act::Unlink((2, 7)), 50, 60),
        ]);
        let (old, new) = ((1, 7), (2, 7));
        let names = |set: &BTreeSet<Name>| set.iter().copied().collect::<Vec<_>>();
        for (now, there, gone, renamed) in [
            (5, vec![], vec![], vec![]),
            (15, vec![], vec![], vec![]),
            (25, vec![old], vec![], vec![]),
            (35, vec![], vec![], vec![old, new]),
            (45, vec![new], vec![old], vec![old, new]),
            (55, vec![], vec![old], vec![]),
            (65, vec![], vec![old, new], vec![]),
        ] {
            let expected = history.at(now);
            assert_eq!(names(&expected.there), there, "at {now}");
            assert_eq!(names(&expected.gone), gone, "at {now}");
            let all: Vec<Name> = expected.renamed.into_values().flatten().collect();
            assert_eq!(all, renamed, "at {now}");
        }
    }

    #[test]
    fn renamed_files_were_synced_before() {
        let acts = Actor::new(6, 1).acts;
        let mut synced = BTreeSet::new();
        let mut made = BTreeSet::new();
        let mut renamed = 0;
        for act in acts {
            match act {
                Act::Make((_, file), _) => {
                    made.insert(file);
                }
                Act::Sync => synced.append(&mut made),
                Act::Rename((_, file), _) => {
                    assert!(synced.contains(&file));
                    renamed += 1;
                }
                _ => {}
            }
        }
        assert!(renamed >= 9, "{renamed}");
    }
}
