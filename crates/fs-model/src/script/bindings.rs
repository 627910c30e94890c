//! What the ids in a script stand for on one system.

use seekless_fs::call::{Answer, Call, Errno, Handle, Ino, ROOT, Request};
use std::collections::BTreeMap;

/// Inode numbers, handles and cookies of one system, by the ids of the calls that brought them.
#[derive(Clone, Debug)]
pub struct Bindings {
    inos: BTreeMap<u64, Ino>,
    handles: BTreeMap<u64, Handle>,
    cookies: BTreeMap<u64, u64>,
}

impl Default for Bindings {
    fn default() -> Bindings {
        Bindings {
            inos: BTreeMap::from([(ROOT, ROOT)]),
            handles: BTreeMap::new(),
            cookies: BTreeMap::new(),
        }
    }
}

impl Bindings {
    /// The inode number that an id stands for.
    pub fn ino(&self, id: u64) -> Option<Ino> {
        self.inos.get(&id).copied()
    }

    /// The handle that an id stands for.
    pub fn handle(&self, id: u64) -> Option<Handle> {
        self.handles.get(&id).copied()
    }

    /// Ids that stand for objects, in order; the first is the root.
    pub fn objects(&self) -> impl Iterator<Item = u64> + '_ {
        self.inos.keys().copied()
    }

    /// Ids that stand for handles, in order.
    pub fn handles(&self) -> impl Iterator<Item = u64> + '_ {
        self.handles.keys().copied()
    }

    /// The call for this system; `None` if it refers to a call that brought nothing.
    pub fn call(&self, call: &Call) -> Option<Call> {
        let mut real = call.clone();
        self.translate(&mut real.request)?;
        Some(real)
    }

    fn translate(&self, request: &mut Request) -> Option<()> {
        match request {
            Request::Lookup { dir, .. }
            | Request::Make { dir, .. }
            | Request::Unlink { dir, .. }
            | Request::RmDir { dir, .. } => *dir = self.ino(*dir)?,
            Request::Forget { ino, .. }
            | Request::Attr { ino }
            | Request::ReadLink { ino }
            | Request::Open { ino, .. }
            | Request::Fsync { ino, .. } => *ino = self.ino(*ino)?,
            Request::SetAttr { ino, set } => {
                *ino = self.ino(*ino)?;
                if let Some(handle) = &mut set.handle {
                    *handle = self.handle(*handle)?;
                }
            }
            Request::Link { ino, dir, .. } => {
                (*ino, *dir) = (self.ino(*ino)?, self.ino(*dir)?);
            }
            Request::Rename { dir, to_dir, .. } => {
                (*dir, *to_dir) = (self.ino(*dir)?, self.ino(*to_dir)?);
            }
            Request::List { handle, cookie, .. } => {
                if *cookie != 0 {
                    *cookie = self.cookies.get(handle).copied().unwrap_or(0);
                }
                *handle = self.handle(*handle)?;
            }
            Request::Release { handle }
            | Request::Read { handle, .. }
            | Request::Write { handle, .. }
            | Request::Allocate { handle, .. }
            | Request::Seek { handle, .. } => *handle = self.handle(*handle)?,
            Request::Sync | Request::Space | Request::Trim { .. } => {}
        }
        Some(())
    }

    /// Takes over what the reply to a call of a script brings or ends. Each id of an object stands
    /// for one lookup, so that it goes with the call that forgets it.
    pub fn learn(&mut self, call: &Call, result: &Result<Answer, Errno>) {
        let Ok(answer) = result else { return };
        match (&call.request, answer) {
            (_, Answer::Object(attr, handle)) => {
                self.inos.insert(call.id, attr.ino);
                self.handles.extend(handle.map(|handle| (call.id, handle)));
            }
            (_, Answer::Opened(handle)) => {
                self.handles.insert(call.id, *handle);
            }
            (Request::List { handle, cookie, .. }, Answer::Entries(entries)) => {
                let last = entries.last().map(|entry| entry.cookie);
                if let Some(last) = last.or((*cookie == 0).then_some(0)) {
                    self.cookies.insert(*handle, last);
                }
            }
            (Request::Release { handle }, Answer::Done) => {
                self.handles.remove(handle);
                self.cookies.remove(handle);
            }
            (Request::Forget { ino, .. }, _) if *ino != ROOT => {
                self.inos.remove(ino);
            }
            _ => {}
        }
    }
}
