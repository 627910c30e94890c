//! From a request to the operation of VLFS that carries it out: one step over one transaction.

use crate::steps::{found, joined, more, removed};
use crate::vlfs::inodes;
use crate::vlfs::ops::list::Listed;
use crate::vlfs::ops::make::Make;
use crate::vlfs::ops::rename::Rename;
use crate::vlfs::ops::{self, Removed};
use crate::vlfs::volume::Volume;
use bytes::Bytes;
use seekless_fs::call::{Answer, Errno, Handle, Ino, Request, SetAttr};
use seekless_fs::core::handles::Handles;
use seekless_fs::core::tx::CoreTx;
use seekless_fs::mounted::pending::{self, Durable, Good, State, Work};
use seekless_fs::tx::Stop;

type Pending = pending::Pending<()>;
type Step = pending::Step<()>;

/// Runs one step of a call.
pub(crate) fn perform(
    tx: &mut CoreTx<'_>,
    vol: &mut Volume,
    handles: &Handles,
    pending: &Pending,
) -> Result<Step, Stop> {
    let mut act = Act { tx, vol, handles, pending };
    match &pending.work {
        Work::Reap(ino) => act.reap(*ino),
        Work::Store | Work::Background | Work::Free(_) => Ok(Answer::Done.into()),
        Work::Request(request) => act.request(request),
    }
}

/// A step and what it works with.
struct Act<'a, 'c> {
    tx: &'a mut CoreTx<'c>,
    vol: &'a mut Volume,
    handles: &'a Handles,
    pending: &'a Pending,
}

impl Act<'_, '_> {
    fn request(&mut self, request: &Request) -> Result<Step, Stop> {
        match *request {
            Request::Lookup { dir, ref name } => {
                Ok(found(ops::lookup::lookup(self.tx, self.vol, dir, name)?))
            }
            Request::Attr { ino } => {
                Ok(Answer::Attr(ops::attr::get(self.tx, self.vol, ino)?).into())
            }
            Request::SetAttr { ino, ref set } => self.set_attr(ino, set),
            Request::ReadLink { ino } => {
                let text = ops::attr::read_link(self.tx, self.vol, ino)?;
                self.touch(ino)?;
                Ok(Answer::Text(text).into())
            }
            Request::Make { dir, ref name, ref what, mode, open } => {
                let make = Make { dir, name, what, mode };
                let attr = ops::make::make(self.tx, self.vol, self.pending.who, make)?;
                let opened = open.then_some(attr.ino);
                let answer = Answer::Object(attr, None);
                Ok(Step::Done(Good { looked_up: Some(attr.ino), opened, ..answer.into() }))
            }
            Request::Link { ino, dir, ref name } => {
                Ok(found(ops::link::link(self.tx, self.vol, ino, dir, name)?))
            }
            Request::Unlink { dir, ref name } => {
                Ok(lost(Some(ops::remove::unlink(self.tx, self.vol, dir, name)?)))
            }
            Request::RmDir { dir, ref name } => {
                Ok(lost(Some(ops::remove::rmdir(self.tx, self.vol, dir, name)?)))
            }
            Request::Rename { dir, ref name, to_dir, ref to_name, how } => {
                let names = Rename { dir, name, to_dir, to_name, how };
                Ok(lost(ops::rename::rename(self.tx, self.vol, names)?))
            }
            Request::Open { ino, truncate } => self.open(ino, truncate),
            Request::Read { handle, at, length } => self.read(handle, at, length),
            Request::Write { handle, at, ref data, append } => {
                self.write(handle, (at, append), data)
            }
            Request::List { handle, cookie, most_bytes } => {
                let ino = self.ino_of(handle)?;
                let from = cookie.max(self.pending.state.at);
                match ops::list::list(self.tx, self.vol, ino, from, most_bytes)? {
                    Listed::From(at) => Ok(more(State { at, ..State::default() }, ino)),
                    Listed::Entries(entries) => {
                        self.touch(ino)?;
                        Ok(Answer::Entries(entries).into())
                    }
                }
            }
            Request::Fsync { ino, .. } => self.fsync(ino),
            Request::Sync => Ok(Step::Durable(everything())),
            // The drive gives back by itself what nothing uses.
            Request::Trim { .. } => Ok(Answer::Trimmed(0).into()),
            Request::Space => Ok(Answer::Space(ops::space::space(self.tx, self.vol)).into()),
            // The drive gives space to what is written, and to nothing else.
            Request::Allocate { handle, .. } => {
                self.ino_of(handle)?;
                Err(Errno::NotSup.into())
            }
            Request::Seek { handle, at, what } => {
                let ino = self.ino_of(handle)?;
                Ok(Answer::At(ops::seek::seek(self.tx, self.vol, ino, at, what)?).into())
            }
            Request::Forget { .. } | Request::Release { .. } => Ok(Answer::Done.into()),
        }
    }

    fn ino_of(&self, handle: Handle) -> Result<Ino, Stop> {
        Ok(self.handles.get(handle).ok_or(Errno::BadF)?.ino)
    }

    /// Notes a read in the time of access.
    fn touch(&mut self, ino: Ino) -> Result<(), Stop> {
        if self.tx.is_read_only() { Ok(()) } else { ops::attr::touch(self.tx, self.vol, ino) }
    }

    fn set_attr(&mut self, ino: Ino, set: &SetAttr) -> Result<Step, Stop> {
        if *set == (SetAttr { handle: set.handle, ..SetAttr::default() }) {
            return Ok(Answer::Attr(ops::attr::get(self.tx, self.vol, ino)?).into());
        }
        if let Some(size) = set.size {
            ops::truncate::truncate(self.tx, self.vol, self.pending.who, ino, size)?;
        }
        Ok(Answer::Attr(ops::attr::set(self.tx, self.vol, ino, set)?).into())
    }

    fn open(&mut self, ino: Ino, truncate: bool) -> Result<Step, Stop> {
        if truncate {
            ops::truncate::truncate(self.tx, self.vol, self.pending.who, ino, 0)?;
        } else {
            ops::attr::get(self.tx, self.vol, ino)?;
        }
        Ok(Step::Done(Good { opened: Some(ino), ..Answer::Done.into() }))
    }

    fn read(&mut self, handle: Handle, at: u64, length: u32) -> Result<Step, Stop> {
        let ino = self.ino_of(handle)?;
        let state = &self.pending.state;
        let (at, left) = (at + state.done, length as usize - state.done as usize);
        let bytes = ops::read::read(self.tx, self.vol, ino, at, left)?;
        if bytes.len() < left && !bytes.is_empty() {
            let done = state.done + bytes.len() as u64;
            let mut read = state.read.clone();
            read.push(bytes);
            // The file may end here; the next step finds out and holds nothing up.
            return Ok(more(State { done, read, at: 0 }, ino));
        }
        self.touch(ino)?;
        Ok(Answer::Bytes(joined(&state.read, bytes)).into())
    }

    fn write(
        &mut self,
        handle: Handle,
        (at, append): (u64, bool),
        data: &Bytes,
    ) -> Result<Step, Stop> {
        let ino = self.ino_of(handle)?;
        let (who, state) = (self.pending.who, &self.pending.state);
        let done = state.done as usize;
        let place = if done == 0 { (at, append) } else { (state.at, false) };
        let written = ops::write::write(self.tx, self.vol, who, ino, place, &data[done..])?;
        let done = done + written.bytes;
        if written.bytes > 0 && done < data.len() {
            let at = written.at + written.bytes as u64;
            return Ok(more(State { done: done as u64, at, read: Vec::new() }, ino));
        }
        Ok(Answer::Written(u32::try_from(done).map_err(|_| Errno::Inval)?).into())
    }

    /// What the transactions of the volume carry is all there is.
    fn fsync(&mut self, ino: Ino) -> Result<Step, Stop> {
        inodes::number(self.vol, ino)?;
        Ok(Step::Durable(everything()))
    }

    fn reap(&mut self, ino: Ino) -> Result<Step, Stop> {
        ops::remove::reap(self.tx, self.vol, ino)?;
        Ok(Answer::Done.into())
    }
}

fn everything() -> Durable<()> {
    Durable::new(Some(Vec::new()), Vec::new(), Some(()))
}

fn lost(object: Option<Removed>) -> Step {
    removed(object.filter(|removed| removed.last).map(|removed| removed.ino))
}
