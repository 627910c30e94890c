//! Works on the files of a file system that is not mounted.
//!
//! [`Files`] turns paths into calls of [`Runs`], whatever answers them: a file system over an
//! opened image, or a model in tests. It keeps the lookups of what it has found until
//! [`Files::forget_to`], so a tool that goes through a tree holds one path at a time.

pub mod copy_in;
pub mod copy_out;
pub mod error;
pub mod list;
pub mod path;
pub mod remove;
pub mod stream;
pub mod tally;
pub mod tar_in;
pub mod tar_out;
#[cfg(test)]
mod tests;

pub use error::ToolError;
use seekless_fs::call::{
    Answer, Attr, Call, Credentials, Errno, FileKind, Handle, Ino, New, ROOT, Request, SetAttr,
    Timestamp,
};
use seekless_fs::system::Runs;

/// Bytes of the entries that one call lists.
const LIST_BYTES: u32 = 64 << 10;

/// The files of a file system.
#[derive(Debug)]
pub struct Files<R> {
    system: R,
    now: Timestamp,
    calls: u64,
    /// What was looked up and not yet forgotten.
    held: Vec<Ino>,
}

/// An entry of a directory.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// Its attributes.
    pub attr: Attr,
}

type Outcome<T> = Result<T, ToolError>;

impl<R: Runs> Files<R> {
    /// Files of a system; calls are made at this time.
    pub fn new(system: R, now: Timestamp) -> Files<R> {
        Files { system, now, calls: 0, held: Vec::new() }
    }

    /// The system, without lookups of this tool.
    pub fn into_system(mut self) -> R {
        self.forget_to(0);
        self.system
    }

    /// How many lookups are held.
    pub fn mark(&self) -> usize {
        self.held.len()
    }

    /// Forgets what was looked up behind a mark.
    pub fn forget_to(&mut self, mark: usize) {
        while self.held.len() > mark {
            if let Some(ino) = self.held.pop() {
                // There is no answer that could be wrong.
                let _ = self.ask(Request::Forget { ino, count: 1 });
            }
        }
    }

    /// Runs a request; permissions are those of root.
    fn ask(&mut self, request: Request) -> Result<Answer, Errno> {
        self.calls += 1;
        let who = Credentials::default();
        let reply = self.system.run(Call { id: self.calls, who, now: self.now, request });
        if let Ok(Answer::Object(attr, _)) = &reply.result {
            self.held.push(attr.ino);
        }
        reply.result
    }

    /// Runs a request; an error names the path.
    fn call(&mut self, path: &[u8], request: Request) -> Outcome<Answer> {
        self.ask(request).map_err(|errno| ToolError::of(path, errno))
    }

    /// The object of a name, if there is one.
    fn lookup(&mut self, path: &[u8], dir: Ino, name: &[u8]) -> Outcome<Option<Attr>> {
        let request = Request::Lookup { dir, name: name.to_vec().into() };
        match self.ask(request) {
            Ok(Answer::Object(attr, _)) => Ok(Some(attr)),
            Err(Errno::NoEnt) => Ok(None),
            other => Err(ToolError::unexpected(path, other)),
        }
    }

    /// Attributes of an object.
    fn attr(&mut self, path: &[u8], ino: Ino) -> Outcome<Attr> {
        match self.ask(Request::Attr { ino }) {
            Ok(Answer::Attr(attr)) => Ok(attr),
            other => Err(ToolError::unexpected(path, other)),
        }
    }

    fn set(&mut self, path: &[u8], ino: Ino, set: SetAttr) -> Outcome<()> {
        self.call(path, Request::SetAttr { ino, set }).map(drop)
    }

    fn read_link(&mut self, path: &[u8], ino: Ino) -> Outcome<Vec<u8>> {
        match self.ask(Request::ReadLink { ino }) {
            Ok(Answer::Text(text)) => Ok(text.to_vec()),
            other => Err(ToolError::unexpected(path, other)),
        }
    }

    fn make(&mut self, path: &[u8], (dir, name): (Ino, &[u8]), what: New) -> Outcome<Attr> {
        let mode = if what.kind() == FileKind::Symlink { 0o777 } else { 0o755 };
        let name = name.to_vec().into();
        match self.ask(Request::Make { dir, name, what, mode, open: false }) {
            Ok(Answer::Object(attr, _)) => Ok(attr),
            other => Err(ToolError::unexpected(path, other)),
        }
    }

    fn open(&mut self, path: &[u8], ino: Ino, truncate: bool) -> Outcome<Handle> {
        match self.ask(Request::Open { ino, truncate }) {
            Ok(Answer::Opened(handle)) => Ok(handle),
            other => Err(ToolError::unexpected(path, other)),
        }
    }

    fn release(&mut self, path: &[u8], handle: Handle) -> Outcome<()> {
        self.call(path, Request::Release { handle }).map(drop)
    }

    /// Names of a directory, in their order as bytes, without `.` and `..`.
    fn names(&mut self, path: &[u8], dir: Ino) -> Outcome<Vec<Vec<u8>>> {
        let handle = self.open(path, dir, false)?;
        let (mut names, mut cookie) = (Vec::new(), 0);
        let listed = loop {
            match self.ask(Request::List { handle, cookie, most_bytes: LIST_BYTES }) {
                Ok(Answer::Entries(entries)) => {
                    let Some(last) = entries.last() else { break Ok(()) };
                    cookie = last.cookie;
                    names.extend(entries.iter().map(|entry| entry.name.to_vec()));
                }
                other => break Err(ToolError::unexpected(path, other)),
            }
        };
        self.release(path, handle)?;
        names.retain(|name| name != b"." && name != b"..");
        names.sort_unstable();
        listed.map(|()| names)
    }

    /// A directory below another one, made if it is missing.
    fn directory(&mut self, path: &[u8], (dir, name): (Ino, &[u8])) -> Outcome<Attr> {
        match self.lookup(path, dir, name)? {
            Some(attr) if attr.kind == FileKind::Directory => Ok(attr),
            Some(_) => Err(ToolError::of(path, Errno::NotDir)),
            None => self.make(path, (dir, name), New::Directory),
        }
    }

    fn root(&mut self) -> Outcome<Attr> {
        self.attr(b"/", ROOT)
    }
}
