//! What the models allow and forbid, from scripts of calls.

use super::{Kept, Model, Modelled, Recorded, Rule, Unmodelled};
use crate::{Entry, Foreign, Told};
use bytes::Bytes;
use seekless_fs::call::{Call, Credentials, Ino, New, ROOT, RenameHow, Request, SetAttr, by_inode};
use std::sync::Arc;

mod any;
mod kernel;
mod rules;
mod trees;

/// A recording that is being told, each call with its reply.
#[derive(Default)]
pub(super) struct Script {
    pub(super) entries: Vec<Entry>,
    calls: u64,
    inos: Ino,
}

impl Script {
    pub(super) fn call(&mut self, request: Request, told: Told) -> &mut Script {
        let id = self.ask(request);
        self.entries.push(Entry::Reply { number: id, told });
        self
    }

    /// A call without a reply.
    pub(super) fn ask(&mut self, request: Request) -> u64 {
        let id = self.calls;
        self.calls += 1;
        let call = Call { id, who: Credentials::default(), now: 0, request };
        self.entries.push(Entry::Call { call, at: 0 });
        id
    }

    pub(super) fn make(&mut self, dir: Ino, name: &str, what: New) -> Ino {
        self.inos += 1;
        let (ino, name) = (100 + self.inos, Bytes::copy_from_slice(name.as_bytes()));
        let request = Request::Make { dir, name, what, mode: 0o644, open: false };
        self.call(request, Told::Object(ino, 0, None));
        ino
    }

    pub(super) fn file(&mut self, name: &str) -> Ino {
        self.make(ROOT, name, New::File)
    }

    pub(super) fn write(&mut self, ino: Ino, at: u64, data: &[u8]) -> &mut Script {
        let (handle, count) = (by_inode(ino), data.len() as u32);
        let data = Bytes::copy_from_slice(data);
        let request = Request::Write { handle, at, data, append: false };
        self.call(request, Told::Written(count))
    }

    pub(super) fn truncate(&mut self, ino: Ino, size: u64) -> &mut Script {
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        self.call(Request::SetAttr { ino, set }, Told::Attr(0))
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> &mut Script {
        let name = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let (name, to_name, how) = (name(from), name(to), RenameHow::Replace);
        self.call(Request::Rename { dir: ROOT, name, to_dir: ROOT, to_name, how }, Told::Done)
    }

    pub(super) fn unlink(&mut self, name: &str) -> &mut Script {
        let name = Bytes::copy_from_slice(name.as_bytes());
        self.call(Request::Unlink { dir: ROOT, name }, Told::Done)
    }

    pub(super) fn fsync(&mut self, ino: Ino) -> &mut Script {
        self.call(Request::Fsync { ino, data_only: false }, Told::Done)
    }

    pub(super) fn begin(&mut self) -> &mut Script {
        self.entries.push(Entry::Begin);
        self
    }

    pub(super) fn under(&self, model: Model) -> Modelled {
        let recorded = Recorded::read(&self.entries).expect("the script is modelled");
        Modelled::new(Arc::new(recorded), model)
    }
}

/// The indices of micro-operations that say this.
pub(super) fn saying(modelled: &Modelled, text: &str) -> Vec<usize> {
    let micros = modelled.recorded().micros.iter().enumerate();
    let found = micros.filter(|(_, micro)| micro.to_string().contains(text));
    found.map(|(index, _)| index).collect()
}

/// All states at the end of a recording: durable ones with every closed choice of the rest.
pub(super) fn states(modelled: &Modelled) -> Vec<Kept> {
    let durable = modelled.durable(modelled.recorded().entries);
    let all = 0..modelled.recorded().micros.len();
    let pending: Vec<usize> = all.filter(|&index| !durable.contains(index)).collect();
    assert!(pending.len() < 16, "{} are pending", pending.len());
    let choice = |bits: u32| {
        let mut set = durable.clone();
        set.extend(
            pending.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, &p)| p),
        );
        set
    };
    (0..1 << pending.len()).map(choice).filter(|set| modelled.is_closed(set)).collect()
}

/// True if some state has the first without the second.
pub(super) fn allows(modelled: &Modelled, there: &str, lost: &str) -> bool {
    let (there, lost) = (saying(modelled, there), saying(modelled, lost));
    assert!(!there.is_empty() && !lost.is_empty(), "{there:?} {lost:?}");
    states(modelled).iter().any(|set| {
        there.iter().all(|&one| set.contains(one)) && lost.iter().all(|&one| !set.contains(one))
    })
}

#[test]
fn what_a_recording_does_not_show_is_an_error_that_names_the_call() {
    let mut script = Script::default();
    script.write(99, 0, b"x");
    let error = Recorded::read(&script.entries).expect_err("inode 99 is not known");
    assert_eq!(error, Unmodelled::Object { entry: 0, word: "write", ino: 99 });
    assert!(error.to_string().contains("inode 99"), "{error}");

    let mut script = Script::default();
    script.unlink("a");
    let error = Recorded::read(&script.entries).expect_err("there is no such name");
    assert!(error.to_string().contains("\"a\" is not there"), "{error}");

    let mut script = Script::default();
    let request = Request::Write { handle: 7, at: 0, data: Bytes::new(), append: true };
    script.call(request, Told::Written(0));
    let error = Recorded::read(&script.entries).expect_err("handle 7 is not known");
    assert_eq!(error, Unmodelled::Handle { entry: 0, word: "write", handle: 7 });

    let mut script = Script::default();
    let file = script.file("a");
    script.call(Request::Fsync { ino: file, data_only: false }, Told::Failed(5));
    let error = Recorded::read(&script.entries).expect_err("the disk is broken");
    assert_eq!(error, Unmodelled::FailedSync { call: 1, word: "fsync", errno: 5 });

    let mut script = Script::default();
    script.write(ROOT, 0, b"x");
    let error = Recorded::read(&script.entries).expect_err("a directory has no bytes");
    assert!(matches!(error, Unmodelled::Kind { ino: ROOT, .. }), "{error}");

    let mut script = Script::default();
    let file = script.file("a");
    script.write(file, u64::MAX, b"x");
    let error = Recorded::read(&script.entries).expect_err("no file is so long");
    assert!(matches!(error, Unmodelled::Range { .. }), "{error}");
}

#[test]
fn a_call_that_failed_changes_nothing_and_a_short_write_little() {
    let mut script = Script::default();
    let file = script.file("a");
    let data = || Bytes::from_static(b"abcd");
    let write = || Request::Write { handle: by_inode(file), at: 0, data: data(), append: true };
    script.call(write(), Told::Failed(28)).call(write(), Told::Written(2));
    let recorded = Recorded::read(&script.entries).expect("modelled");
    let said: Vec<String> = recorded.micros.iter().map(ToString::to_string).collect();
    let write = "write(\"a\", 2 bytes at 0)";
    let wanted = [
        "create(\"a\")".to_owned(),
        format!("bytes 0 to 2 of {write}"),
        format!("the size 2 after {write}"),
    ];
    assert_eq!(said, wanted);
}

#[test]
fn a_handle_and_an_inode_count_from_the_reply_that_gives_them() {
    let mut script = Script::default();
    let name = Bytes::from_static(b"b");
    let make = Request::Make { dir: ROOT, name, what: New::File, mode: 0, open: true };
    let old = script.file("a");
    script.call(Request::Open { ino: old, truncate: false }, Told::Opened(3));
    // The handle of `a` is closed and given again while a write to it is on its way.
    let making = script.ask(make);
    let data = Bytes::from_static(b"x");
    let write = || Request::Write { handle: 3, at: 0, data: data.clone(), append: false };
    script.call(write(), Told::Written(1));
    script.entries.push(Entry::Reply { number: making, told: Told::Object(9, 0, Some(3)) });
    script.call(write(), Told::Written(1));
    let recorded = Recorded::read(&script.entries).expect("modelled");
    let said: Vec<String> = recorded.micros.iter().map(ToString::to_string).collect();
    assert!(said[2].contains("\"a\"") && said[4].contains("\"b\""), "{said:?}");
}

#[test]
fn a_file_without_a_name_gets_one_by_a_link() {
    let mut script = Script::default();
    let change = Foreign::Unnamed { ino: 7, mode: 0o600, uid: 0, gid: 0 };
    script.entries.push(Entry::Foreign { change, at: 0 });
    script.write(7, 0, b"x");
    let link = Request::Link { ino: 7, dir: ROOT, name: Bytes::from_static(b"a") };
    script.call(link, Told::Object(7, 0, None));
    let modelled = script.under(Model::EXT4);
    // No rule ties a new name to the bytes of its file.
    assert!(allows(&modelled, "link(", "bytes 0 to 1"));
    assert_eq!(saying(&modelled, "(file 7 without a name)").len(), 3);
}
