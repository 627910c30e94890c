//! Writes scripts: runs each call on a model, so that it knows what exists.

use super::bindings::Bindings;
use super::sizes::Shape;
use crate::model::{Limits, Model, Node};
use bytes::Bytes;
use seekless_engine::rng::Rng;
use seekless_fs::call::{
    Call, Credentials, FileKind, Handle, New, ROOT, Request, SetAttr, Timestamp,
};
use seekless_fs::system::Runs as _;

/// Objects that a script holds at most, before it forgets some.
const MOST_OBJECTS: usize = 120;
/// Handles at most.
const MOST_HANDLES: usize = 24;
/// The time at which scripts begin: some day in 2001.
const BEGIN: Timestamp = 1_000_000_000_000_000_000;

/// A script that is being written.
#[derive(Debug)]
pub struct Writer {
    pub rng: Rng,
    pub shape: Shape,
    pub model: Model,
    pub bindings: Bindings,
    pub calls: Vec<Call>,
    now: Timestamp,
    next_id: u64,
}

/// What became of a call: the id that stands for what it brought, and whether it succeeded.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub id: u64,
    pub is_ok: bool,
}

impl Writer {
    pub fn new(seed: u64, stream: &str, shape: Shape) -> Writer {
        let limits = Limits { most_bytes: shape.most_bytes, ..Limits::default() };
        Writer {
            rng: Rng::stream(seed, stream),
            shape,
            model: Model::new(limits),
            bindings: Bindings::default(),
            calls: Vec::new(),
            now: BEGIN,
            next_id: ROOT + 1,
        }
    }

    /// Adds a call of root's and runs it.
    pub fn call(&mut self, request: Request) -> Outcome {
        self.call_by(Credentials::default(), request)
    }

    /// Adds a call and runs it.
    pub fn call_by(&mut self, who: Credentials, request: Request) -> Outcome {
        self.now += 1 + self.rng.below(2_000_000_000) as Timestamp;
        let call = Call { id: self.next_id, who, now: self.now, request };
        self.next_id += 1;
        let real = self.bindings.call(&call).expect("scripts refer to what they hold");
        let result = self.model.run(real).result;
        self.bindings.learn(&call, &result);
        let id = call.id;
        self.calls.push(call);
        Outcome { id, is_ok: result.is_ok() }
    }

    /// The object that an id stands for.
    pub fn node(&self, object: u64) -> &Node {
        let ino = self.bindings.ino(object).expect("the script holds it");
        self.model.node(ino).expect("an object with lookups exists")
    }

    /// True with a probability in percent.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    pub fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.rng.below(choices.len() as u64) as usize].clone()
    }

    /// An object of a kind that the script holds.
    pub fn object(&mut self, kind: FileKind) -> Option<u64> {
        let of_kind = |object: &u64| self.node(*object).kind() == kind;
        let found: Vec<u64> = self.bindings.objects().filter(of_kind).collect();
        (!found.is_empty()).then(|| self.one_of(&found))
    }

    /// A directory; the root at least.
    pub fn directory(&mut self) -> u64 {
        self.object(FileKind::Directory).unwrap_or(ROOT)
    }

    /// A handle of a kind of object.
    pub fn handle(&mut self, kind: FileKind) -> Option<Handle> {
        let of_kind = |id: &u64| {
            let ino = self.bindings.handle(*id).and_then(|handle| self.model.opened(handle));
            ino.and_then(|ino| self.model.node(ino)).is_some_and(|node| node.kind() == kind)
        };
        let found: Vec<u64> = self.bindings.handles().filter(of_kind).collect();
        (!found.is_empty()).then(|| self.one_of(&found))
    }

    /// A handle of a file; one is made if there is none.
    pub fn file_handle(&mut self) -> Handle {
        if self.percent(85)
            && let Some(handle) = self.handle(FileKind::File)
        {
            return handle;
        }
        let file = self.object(FileKind::File);
        if let Some(file) = file.filter(|_| self.percent(60)) {
            return self.call(Request::Open { ino: file, truncate: false }).id;
        }
        let (dir, name) = (self.usable_directory(), self.fresh_name());
        self.make_open(dir, name)
    }

    /// A directory that has not been removed.
    pub fn usable_directory(&mut self) -> u64 {
        let dir = self.directory();
        if self.node(dir).links == 0 { ROOT } else { dir }
    }

    pub fn make_open(&mut self, dir: u64, name: Bytes) -> Handle {
        let (what, mode) = (New::File, self.mode());
        self.call(Request::Make { dir, name, what, mode, open: true }).id
    }

    pub fn make(&mut self, dir: u64, name: Bytes, what: New) -> Outcome {
        let mode = self.mode();
        self.call(Request::Make { dir, name, what, mode, open: false })
    }

    pub fn mode(&mut self) -> u16 {
        self.one_of(&[0o644, 0o600, 0o755, 0o700, 0o664, 0, 0o777])
    }

    /// A name out of a few, so that names meet.
    pub fn name(&mut self, of: u64) -> Bytes {
        format!("n{}", self.rng.below(of)).into()
    }

    /// A name that no call has used.
    pub fn fresh_name(&mut self) -> Bytes {
        format!("f{}", self.next_id).into()
    }

    /// A name in a directory that exists there, if it has one; else any.
    pub fn name_in(&mut self, dir: u64) -> Bytes {
        let names: Vec<Bytes> = match self.node(dir).entries() {
            Some(entries) => entries.iter().map(|(name, _)| name.clone()).collect(),
            None => Vec::new(),
        };
        if names.is_empty() || self.percent(3) { self.name(8) } else { self.one_of(&names) }
    }

    /// A directory, mostly one with names.
    pub fn full_directory(&mut self) -> u64 {
        for _ in 0..4 {
            let dir = self.directory();
            if self.node(dir).entries().is_some_and(|entries| !entries.is_empty()) {
                return dir;
            }
        }
        ROOT
    }

    /// Bytes that differ by call, place and length.
    pub fn data(&mut self, length: u64) -> Bytes {
        let salt = self.rng.next() | 1;
        let word = |n: u64| (n + 1).wrapping_mul(salt).to_le_bytes();
        let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(word).collect();
        bytes.truncate(length as usize);
        bytes.into()
    }

    pub fn write(&mut self, handle: Handle, at: u64, length: u64) {
        let data = self.data(length);
        self.call(Request::Write { handle, at, data, append: false });
    }

    pub fn set(&mut self, ino: u64, set: SetAttr) {
        self.call(Request::SetAttr { ino, set });
    }

    pub fn user(&mut self) -> Credentials {
        let uid = self.one_of(&[0, 1000, 1001, 65_534]);
        Credentials { uid, gid: self.one_of(&[0, 100, uid]) }
    }

    /// Closes and forgets what is too much.
    pub fn forget_some(&mut self) {
        while self.bindings.handles().count() > MOST_HANDLES {
            let handles: Vec<u64> = self.bindings.handles().collect();
            let handle = self.one_of(&handles);
            self.call(Request::Release { handle });
        }
        while self.bindings.objects().count() > MOST_OBJECTS {
            let objects: Vec<u64> = self.bindings.objects().skip(1).collect();
            let ino = self.one_of(&objects);
            self.call(Request::Forget { ino, count: 1 });
        }
    }
}
