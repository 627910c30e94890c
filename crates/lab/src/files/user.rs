//! A user: carries out the steps of a program as calls, as a kernel would.
//!
//! A kernel looks each name up once after a mount and knows it from then on. So a user looks up
//! what it has not seen since the mount, calls, and forgets what it removes. What it reads is
//! compared with what was written, and each reply must be a success.

use super::driver::{Next, Program};
use super::steps::{Nr, Step, Steps, content};
use bytes::Bytes;
use seekless_engine::units::Time;
use seekless_fs::call::{Answer, Credentials, Errno, Handle, Ino, New, ROOT, Reply, Request};
use std::collections::{BTreeMap, VecDeque};

/// Bytes of a listing that a program asks for at once.
const LIST_BYTES: u32 = 8192;

/// Bytes that have a version of their own, so that a lost overwrite is found.
const UNIT: u64 = 4096;

/// What a program found wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// A call failed.
    #[error("user {user}: {step:?} failed: {errno}")]
    Failed {
        /// The user.
        user: usize,
        /// What it did.
        step: Step,
        /// Why.
        errno: Errno,
    },
    /// A read brought other bytes than were written.
    #[error("user {user}: {step:?} brought wrong bytes")]
    Content {
        /// The user.
        user: usize,
        /// What it did.
        step: Step,
    },
    /// A reply of another kind: a defect.
    #[error("user {user}: {step:?} was answered with {answer}")]
    Answer {
        /// The user.
        user: usize,
        /// What it did.
        step: Step,
        /// With what.
        answer: String,
    },
}

/// A directory or file that a user has made.
#[derive(Clone, Debug)]
struct Object {
    ino: Ino,
    parent: Nr,
    name: Bytes,
    lookups: u64,
    handle: Option<Handle>,
}

/// What a call of a step is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    LookUpDir(Nr),
    LookUpFile(Nr),
    Main,
    ListFrom(Handle, u64),
    CloseList(Handle),
    Forget(Ino, u64),
}

/// A user with its program.
pub struct User {
    number: usize,
    steps: Steps,
    step: Step,
    parts: VecDeque<Part>,
    now: Option<Part>,
    dirs: BTreeMap<Nr, Object>,
    files: BTreeMap<Nr, Object>,
    /// How often each unit of a file was written as a whole.
    versions: BTreeMap<(Nr, u64), u32>,
    /// The first thing that went wrong. The program ends there.
    pub wrong: Option<Wrong>,
    /// Bytes read and written.
    pub bytes: u64,
    /// Steps done.
    pub done: u64,
}

impl User {
    /// A user without a program.
    pub fn new(number: usize) -> User {
        User {
            number,
            steps: Box::new(std::iter::empty()),
            step: Step::Sync,
            parts: VecDeque::new(),
            now: None,
            dirs: BTreeMap::new(),
            files: BTreeMap::new(),
            versions: BTreeMap::new(),
            wrong: None,
            bytes: 0,
            done: 0,
        }
    }

    /// Begins another program with what there is.
    pub fn begin(&mut self, steps: Steps) {
        (self.steps, self.bytes, self.done) = (steps, 0, 0);
    }

    /// The file system was mounted anew: nothing is known of names, and nothing is open.
    pub fn remounted(&mut self) {
        for object in self.dirs.values_mut().chain(self.files.values_mut()) {
            (object.lookups, object.handle) = (0, None);
        }
    }

    fn name(&self, kind: char, nr: Nr) -> Bytes {
        Bytes::from(format!("{kind}{}.{nr}", self.number))
    }

    fn dir_ino(&self, dir: Nr) -> Ino {
        if dir == 0 { ROOT } else { self.dirs[&dir].ino }
    }

    /// Directories on the way that were not looked up since the mount, top down.
    fn look_up_dirs(&mut self, mut dir: Nr) {
        let at = self.parts.len();
        while dir != 0 && self.dirs[&dir].lookups == 0 {
            self.parts.insert(at, Part::LookUpDir(dir));
            dir = self.dirs[&dir].parent;
        }
    }

    fn look_up_file(&mut self, file: Nr) {
        let object = &self.files[&file];
        if object.lookups == 0 {
            self.look_up_dirs(object.parent);
            self.parts.push_back(Part::LookUpFile(file));
        }
    }

    /// Splits the next step into calls; false at the end.
    fn take_step(&mut self) -> bool {
        let Some(step) = self.steps.next() else { return false };
        self.step = step;
        self.done += 1;
        match step {
            Step::MakeDir { parent, .. } => self.look_up_dirs(parent),
            Step::RemoveDir { dir } | Step::List { dir } | Step::Create { dir, .. } => {
                self.look_up_dirs(dir);
            }
            Step::Open { file } | Step::Unlink { file } => self.look_up_file(file),
            Step::Write { file, at, length } => self.renew(file, at, length),
            _ => {}
        }
        self.parts.push_back(Part::Main);
        let gone = match step {
            Step::Unlink { file } => self.files.get(&file),
            Step::RemoveDir { dir } => self.dirs.get(&dir),
            _ => None,
        };
        if let Some(object) = gone {
            // The lookup of this step, if there is one, is forgotten, too.
            self.parts.push_back(Part::Forget(object.ino, object.lookups.max(1)));
        }
        true
    }

    fn look_up(&self, object: &Object) -> Request {
        Request::Lookup { dir: self.dir_ino(object.parent), name: object.name.clone() }
    }

    /// What a file holds in a range: the last version of each unit.
    fn held(&self, file: Nr, at: u64, length: u32) -> Bytes {
        let end = at + u64::from(length);
        let version = |unit| self.versions.get(&(file, unit)).copied().unwrap_or(0);
        let (first, last) = (at / UNIT, (end.max(at + 1) - 1) / UNIT);
        if (first..last).all(|unit| version(unit) == version(last)) {
            return content(self.number, file, version(last), at, length);
        }
        let piece = |unit: u64| {
            let (from, to) = (at.max(unit * UNIT), end.min((unit + 1) * UNIT));
            content(self.number, file, version(unit), from, (to - from) as u32)
        };
        (first..=last).flat_map(piece).collect()
    }

    /// The units that a write covers as a whole get a new version.
    fn renew(&mut self, file: Nr, at: u64, length: u32) {
        for unit in at.div_ceil(UNIT)..(at + u64::from(length)) / UNIT {
            *self.versions.entry((file, unit)).or_default() += 1;
        }
    }

    fn handle(&self, file: Nr) -> Handle {
        // A program that has not opened its file gets an error for the handle.
        self.files.get(&file).and_then(|file| file.handle).unwrap_or(Handle::MAX)
    }

    fn request(&self, part: Part) -> Next {
        let request = match part {
            Part::LookUpDir(dir) => self.look_up(&self.dirs[&dir]),
            Part::LookUpFile(file) => self.look_up(&self.files[&file]),
            Part::ListFrom(handle, cookie) => {
                Request::List { handle, cookie, most_bytes: LIST_BYTES }
            }
            Part::CloseList(handle) => Request::Release { handle },
            Part::Forget(ino, count) => Request::Forget { ino, count },
            Part::Main => return self.main(),
        };
        Next::Call(Credentials::default(), request)
    }

    /// The step itself, when all its names are looked up.
    fn main(&self) -> Next {
        let make = |dir: Nr, name, what, mode, open| Request::Make {
            dir: self.dir_ino(dir),
            name,
            what,
            mode,
            open,
        };
        let request = match self.step {
            Step::MakeDir { dir, parent } => {
                make(parent, self.name('d', dir), New::Directory, 0o755, false)
            }
            Step::Create { file, dir } => make(dir, self.name('f', file), New::File, 0o644, true),
            Step::RemoveDir { dir } => {
                let object = &self.dirs[&dir];
                Request::RmDir { dir: self.dir_ino(object.parent), name: object.name.clone() }
            }
            Step::Unlink { file } => {
                let object = &self.files[&file];
                Request::Unlink { dir: self.dir_ino(object.parent), name: object.name.clone() }
            }
            Step::List { dir } => Request::Open { ino: self.dir_ino(dir), truncate: false },
            Step::Open { file } => Request::Open { ino: self.files[&file].ino, truncate: false },
            Step::Write { file, at, length } => {
                let data = self.held(file, at, length);
                Request::Write { handle: self.handle(file), at, data, append: false }
            }
            Step::Read { file, at, length } => {
                Request::Read { handle: self.handle(file), at, length }
            }
            Step::Fsync { file, data_only } => {
                Request::Fsync { ino: self.files[&file].ino, data_only }
            }
            Step::Close { file } => Request::Release { handle: self.handle(file) },
            Step::Sync => Request::Sync,
            Step::Pause(span) => return Next::Pause(span),
            Step::Compute(work) => return Next::Compute(work),
        };
        Next::Call(Credentials::default(), request)
    }

    /// Takes what a call has brought.
    fn take(&mut self, part: Part, answer: Answer) -> Result<(), Wrong> {
        match (part, answer) {
            (Part::LookUpDir(dir), Answer::Object(..)) => self.looked_up(true, dir),
            (Part::LookUpFile(file), Answer::Object(..)) => self.looked_up(false, file),
            (Part::ListFrom(handle, _), Answer::Entries(entries)) => {
                let part = match entries.last() {
                    Some(last) => Part::ListFrom(handle, last.cookie),
                    None => Part::CloseList(handle),
                };
                self.parts.push_front(part);
            }
            (Part::CloseList(_), Answer::Done) => {}
            (Part::Main, answer) => return self.take_main(answer),
            (_, answer) => return Err(self.strange(&answer)),
        }
        Ok(())
    }

    fn looked_up(&mut self, is_dir: bool, nr: Nr) {
        let objects = if is_dir { &mut self.dirs } else { &mut self.files };
        if let Some(object) = objects.get_mut(&nr) {
            object.lookups += 1;
        }
    }

    fn take_main(&mut self, answer: Answer) -> Result<(), Wrong> {
        match (self.step, answer) {
            (Step::MakeDir { dir, parent }, Answer::Object(attr, _)) => {
                let name = self.name('d', dir);
                let object = Object { ino: attr.ino, parent, name, lookups: 1, handle: None };
                self.dirs.insert(dir, object);
            }
            (Step::Create { file, dir }, Answer::Object(attr, handle)) => {
                let name = self.name('f', file);
                let object = Object { ino: attr.ino, parent: dir, name, lookups: 1, handle };
                self.files.insert(file, object);
            }
            (Step::Open { file }, Answer::Opened(handle)) => self.set_handle(file, Some(handle)),
            (Step::Close { file }, Answer::Done) => self.set_handle(file, None),
            (Step::List { .. }, Answer::Opened(handle)) => {
                self.parts.push_front(Part::ListFrom(handle, 0));
            }
            (Step::Write { length, .. }, Answer::Written(written)) if written == length => {
                self.bytes += u64::from(length);
            }
            (Step::Read { file, at, length }, Answer::Bytes(bytes)) => {
                if bytes != self.held(file, at, length) {
                    return Err(Wrong::Content { user: self.number, step: self.step });
                }
                self.bytes += u64::from(length);
            }
            (Step::Unlink { file }, Answer::Done) => {
                self.files.remove(&file);
                while let Some((&unit, _)) =
                    self.versions.range((file, 0)..=(file, u64::MAX)).next()
                {
                    self.versions.remove(&unit);
                }
            }
            (Step::RemoveDir { dir }, Answer::Done) => {
                self.dirs.remove(&dir);
            }
            (Step::Fsync { .. } | Step::Sync, Answer::Done) => {}
            (_, answer) => return Err(self.strange(&answer)),
        }
        Ok(())
    }

    fn set_handle(&mut self, file: Nr, handle: Option<Handle>) {
        if let Some(object) = self.files.get_mut(&file) {
            object.handle = handle;
        }
    }

    fn strange(&self, answer: &Answer) -> Wrong {
        let answer = format!("{answer:?}").chars().take(80).collect();
        Wrong::Answer { user: self.number, step: self.step, answer }
    }
}

impl Program for User {
    fn next(&mut self, reply: Option<Reply>, _now: Time) -> Next {
        if let Some(reply) = reply
            && let Some(part) = self.now.take()
        {
            let outcome = match reply.result {
                Ok(answer) => self.take(part, answer),
                Err(errno) => Err(Wrong::Failed { user: self.number, step: self.step, errno }),
            };
            if let Err(wrong) = outcome {
                self.wrong = Some(wrong);
                return Next::End;
            }
        }
        if self.parts.is_empty() && !self.take_step() {
            return Next::End;
        }
        let Some(part) = self.parts.pop_front() else { return Next::End };
        self.now = Some(part);
        self.request(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_fs::call::{Attr, FileKind};

    fn reply(result: Result<Answer, Errno>) -> Option<Reply> {
        Some(Reply { id: 0, result })
    }

    /// A user that has just asked for 8 bytes of file 1.
    fn reader() -> User {
        let mut user = User::new(0);
        let object = Object {
            ino: 9,
            parent: 0,
            name: Bytes::from_static(b"f"),
            lookups: 1,
            handle: Some(3),
        };
        user.files.insert(1, object);
        user.begin(Box::new([Step::Read { file: 1, at: 4, length: 8 }].into_iter()));
        let Next::Call(_, Request::Read { handle: 3, at: 4, length: 8 }) = user.next(None, 0)
        else {
            panic!("it reads");
        };
        user
    }

    #[test]
    fn wrong_bytes_and_errors_end_the_program() {
        let mut user = reader();
        let right = content(0, 1, 0, 4, 8);
        assert_eq!(user.next(reply(Ok(Answer::Bytes(right.clone()))), 0), Next::End);
        assert_eq!((user.wrong, user.bytes), (None, 8));

        let mut wrong = right.to_vec();
        wrong[7] ^= 1;
        for bytes in [Bytes::from(wrong), right.slice(..7)] {
            let mut user = reader();
            assert_eq!(user.next(reply(Ok(Answer::Bytes(bytes))), 0), Next::End);
            assert!(matches!(user.wrong, Some(Wrong::Content { .. })), "{:?}", user.wrong);
        }
        let mut user = reader();
        assert_eq!(user.next(reply(Err(Errno::Io)), 0), Next::End);
        assert!(matches!(user.wrong, Some(Wrong::Failed { .. })));
        let mut user = reader();
        assert_eq!(user.next(reply(Ok(Answer::Done)), 0), Next::End);
        assert!(matches!(user.wrong, Some(Wrong::Answer { .. })));
    }

    #[test]
    fn an_overwrite_has_other_bytes_in_the_units_that_it_covers() {
        let mut user = User::new(3);
        user.renew(1, 0, 8192);
        let old = user.held(1, 0, 8192);
        user.renew(1, 100, 8000);
        let new = user.held(1, 0, 8192);
        assert_eq!(new, old, "it covers no unit");
        user.renew(1, 4096, 4097);
        let new = user.held(1, 0, 8192);
        assert_eq!(new[..4096], old[..4096]);
        assert_ne!(new[4096..], old[4096..]);
        assert_eq!(user.held(1, 4000, 200), new.slice(4000..4200));
    }

    #[test]
    fn names_are_looked_up_once_after_a_mount_and_forgotten_when_they_go() {
        let mut user = reader();
        user.next(reply(Ok(Answer::Bytes(content(0, 1, 0, 4, 8)))), 0);
        user.remounted();
        user.begin(Box::new([Step::Unlink { file: 1 }].into_iter()));
        let Next::Call(_, Request::Lookup { .. }) = user.next(None, 0) else {
            panic!("it looks the name up");
        };
        let attr = Attr {
            ino: 9,
            generation: 1,
            kind: FileKind::File,
            mode: 0o644,
            links: 1,
            uid: 0,
            gid: 0,
            size: 12,
            sectors: 8,
            device: 0,
            atime: 0,
            mtime: 0,
            ctime: 0,
            btime: 0,
        };
        let next = user.next(reply(Ok(Answer::Object(attr, None))), 0);
        assert!(matches!(next, Next::Call(_, Request::Unlink { .. })), "{next:?}");
        let next = user.next(reply(Ok(Answer::Done)), 0);
        assert!(matches!(next, Next::Call(_, Request::Forget { ino: 9, count: 1 })), "{next:?}");
        assert_eq!(user.next(None, 0), Next::End);
    }
}
