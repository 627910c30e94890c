//! From a request on paths to calls: lookups from the root on, then the call itself.

use super::names::{Name, Path};
use super::plan::{DIRECTORY_MODE, FILE_MODE};
use super::request::FileRequest as R;
use super::tags::content;
use super::tree::text;
use super::volume::{Ask, FileReply, Told};
use seekless_fs::call::{
    AllocateHow, Answer, Errno, Ino, New, ROOT, RenameHow, Request, SetAttr, by_inode,
};
use std::collections::BTreeMap;

const SECTOR: u64 = 512;

/// What a request does next.
#[derive(Debug)]
pub enum Next {
    /// Makes a call; true if the next request waits for it.
    Call(Request, bool),
    /// Nothing more.
    Done(FileReply),
}

/// A request under way.
#[derive(Debug)]
pub struct Job {
    /// What is asked.
    pub ask: Ask,
    /// Names still to be looked up, for each path.
    walks: Vec<Vec<Name>>,
    /// Where each path has led so far.
    inos: Vec<Ino>,
    /// The call itself was made.
    made: bool,
    looked_up: Vec<Ino>,
    result: Result<Told, Errno>,
}

/// The paths of a request, each to be walked to its end or to the directory above.
fn walks(request: &R) -> Vec<(Path, bool)> {
    match *request {
        R::Create(path) | R::Mkdir(path) | R::Symlink(path, _) | R::Fifo(path) => {
            vec![(path, false)]
        }
        R::Unlink(path) | R::Rmdir(path) => vec![(path, false)],
        R::Link(from, to) => vec![(from, true), (to, false)],
        R::Rename(from, to) | R::Exchange(from, to) => vec![(from, false), (to, false)],
        R::Write(path, ..) | R::Append(path, _) | R::Truncate(path, _) => vec![(path, true)],
        R::Allocate(path, ..) | R::Punch(path, ..) => vec![(path, true)],
        R::Chmod(path, _) | R::Chown(path, _) | R::Hold(path, _) => vec![(path, true)],
        R::Fsync(path) | R::Fdatasync(path) => vec![(path, true)],
        R::Sync => Vec::new(),
        R::Release(number) => vec![(Path::Held(number), true)],
    }
}

impl Job {
    /// A request that has done nothing yet.
    pub fn new(ask: Ask) -> Job {
        let names = |(path, whole): &(Path, bool)| -> Vec<Name> {
            let names = path.names();
            let count = if *whole { names.len() } else { names.len().saturating_sub(1) };
            names[..count].iter().rev().copied().collect()
        };
        let paths = walks(&ask.request);
        let walks = paths.iter().map(names).collect();
        let inos = vec![ROOT; paths.len()];
        let result = Ok(Told::default());
        Job { ask, walks, inos, made: false, looked_up: Vec::new(), result }
    }

    /// The object of the first path.
    pub fn target(&self) -> Ino {
        self.inos.first().copied().unwrap_or(ROOT)
    }

    /// Takes the answer to the last call.
    pub fn learn(&mut self, result: Result<Answer, Errno>) {
        let answer = match result {
            Ok(answer) => answer,
            Err(errno) => return self.result = Err(errno),
        };
        let Ok(told) = &mut self.result else { return };
        match answer {
            Answer::Object(attr, _) => {
                if attr.ino != ROOT {
                    self.looked_up.push(attr.ino);
                }
                told.attr = Some(attr);
                if !self.made
                    && let Some(index) = self.walks.iter().position(|walk| !walk.is_empty())
                {
                    self.walks[index].pop();
                    self.inos[index] = attr.ino;
                }
            }
            Answer::Written(bytes) => told.written = bytes,
            _ => {}
        }
    }

    /// The next call.
    pub fn next(&mut self, held: &BTreeMap<u8, Ino>) -> Next {
        let reply = |result| Next::Done(FileReply { operation: self.ask.operation, result });
        if self.made || self.result.is_err() {
            return reply(self.result);
        }
        if let Some(index) = self.walks.iter().position(|walk| !walk.is_empty()) {
            let name = self.walks[index].last().map(|name| name.bytes()).unwrap_or_default();
            return Next::Call(Request::Lookup { dir: self.inos[index], name }, true);
        }
        for (index, (path, _)) in walks(&self.ask.request).into_iter().enumerate() {
            if let Path::Held(number) = path {
                match held.get(&number) {
                    Some(&ino) => self.inos[index] = ino,
                    None => return reply(Err(Errno::BadF)),
                }
            }
        }
        self.made = true;
        match self.request() {
            Some(request) => Next::Call(request, !self.ask.request.is_sync()),
            None => Next::Done(FileReply { operation: self.ask.operation, result: self.result }),
        }
    }

    /// The call itself; none if the request is done with its walks.
    fn request(&self) -> Option<Request> {
        let name = |path: &Path| path.split().map(|(_, name)| name.bytes()).unwrap_or_default();
        let ino = self.target();
        let make = |path: &Path, what, mode| Request::Make {
            dir: ino,
            name: name(path),
            what,
            mode,
            open: false,
        };
        let set = |set| Request::SetAttr { ino, set };
        let (object, first, version) = self.ask.stamp;
        let write = |count: u32| Request::Write {
            handle: by_inode(ino),
            at: u64::from(first) * SECTOR,
            data: content(object, first, count, version),
            append: false,
        };
        let allocate = |at: u32, count: u32, how| Request::Allocate {
            handle: by_inode(ino),
            at: u64::from(at) * SECTOR,
            length: u64::from(count) * SECTOR,
            how,
        };
        let rename = |from: &Path, to: &Path, how| Request::Rename {
            dir: self.inos[0],
            name: name(from),
            to_dir: self.inos[1],
            to_name: name(to),
            how,
        };
        Some(match &self.ask.request {
            R::Create(path) => make(path, New::File, FILE_MODE),
            R::Mkdir(path) => make(path, New::Directory, DIRECTORY_MODE),
            R::Symlink(path, number) => make(path, New::Symlink(text(*number).into()), FILE_MODE),
            R::Fifo(path) => make(path, New::Fifo, FILE_MODE),
            R::Link(_, to) => Request::Link { ino, dir: self.inos[1], name: name(to) },
            R::Unlink(path) => Request::Unlink { dir: ino, name: name(path) },
            R::Rmdir(path) => Request::RmDir { dir: ino, name: name(path) },
            R::Rename(from, to) => rename(from, to, RenameHow::Replace),
            R::Exchange(one, other) => rename(one, other, RenameHow::Exchange),
            R::Write(_, _, count) | R::Append(_, count) => write(*count),
            R::Truncate(_, size) => {
                set(SetAttr { size: Some(u64::from(*size)), ..SetAttr::default() })
            }
            R::Allocate(_, at, count) => allocate(*at, *count, AllocateHow::Extend),
            R::Punch(_, at, count) => allocate(*at, *count, AllocateHow::Punch),
            R::Chmod(_, mode) => set(SetAttr { mode: Some(*mode), ..SetAttr::default() }),
            R::Chown(_, uid) => set(SetAttr { uid: Some(*uid), ..SetAttr::default() }),
            R::Fsync(_) => Request::Fsync { ino, data_only: false },
            R::Fdatasync(_) => Request::Fsync { ino, data_only: true },
            R::Sync => Request::Sync,
            R::Hold(..) | R::Release(_) => return None,
        })
    }

    /// Objects whose lookups end with the request. An object that is held open keeps one.
    pub fn to_forget(&self) -> Vec<Ino> {
        let mut all = self.looked_up.clone();
        if matches!(self.ask.request, R::Hold(..)) && self.result.is_ok() {
            all.pop();
        }
        all
    }
}
