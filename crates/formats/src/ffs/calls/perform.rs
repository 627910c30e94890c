//! From a request to the operation of FFS that carries it out: one step over one transaction.

use crate::ffs::calls::durable;
use crate::ffs::names::paths::Mark;
use crate::ffs::ops::allocate::Reached;
use crate::ffs::ops::make::Make;
use crate::ffs::ops::rename::Rename;
use crate::ffs::ops::seek::Sought;
use crate::ffs::ops::{self, Progress, Removed};
use crate::ffs::reclaim;
use crate::ffs::space::alloc::group;
use crate::ffs::space::trim;
use crate::ffs::volume::Volume;
use crate::steps::{found, joined, more, removed};
use bytes::Bytes;
use seekless_engine::units::BLOCK_BYTES;
use seekless_fs::call::{Answer, Errno, Handle, Ino, Request, SetAttr};
use seekless_fs::core::handles::Handles;
use seekless_fs::core::tx::CoreTx;
use seekless_fs::mounted::pending::{self, Good, State, Work};
use seekless_fs::tx::Stop;

type Pending = pending::Pending<Mark>;
type Step = pending::Step<Mark>;

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
        Work::Store => Ok(act.store()?.unwrap_or(Answer::Done.into())),
        Work::Free(pieces) => {
            ops::remove::release(act.tx, act.vol, pieces)?;
            Ok(Answer::Done.into())
        }
        Work::Background => {
            let unnamed = reclaim::step(act.tx, act.vol)?;
            Ok(Step::Done(Good { unnamed, ..Answer::Done.into() }))
        }
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
        let who = self.pending.who;
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
                let attr = ops::make::make(self.tx, self.vol, who, make)?;
                let opened = open.then_some(attr.ino);
                let answer = Answer::Object(attr, None);
                Ok(Step::Done(Good { looked_up: Some(attr.ino), opened, ..answer.into() }))
            }
            Request::Link { ino, dir, ref name } => {
                Ok(found(ops::link::link(self.tx, self.vol, who, ino, dir, name)?))
            }
            Request::Unlink { dir, ref name } => {
                Ok(lost(Some(ops::remove::unlink(self.tx, self.vol, dir, name)?)))
            }
            Request::RmDir { dir, ref name } => {
                Ok(lost(Some(ops::remove::rmdir(self.tx, self.vol, dir, name)?)))
            }
            Request::Rename { dir, ref name, to_dir, ref to_name, how } => {
                let names = Rename { dir, name, to_dir, to_name, how };
                Ok(lost(ops::rename::rename(self.tx, self.vol, who, names)?))
            }
            Request::Open { ino, truncate } => self.open(ino, truncate),
            Request::Read { handle, at, length } => self.read(handle, at, length),
            Request::Write { handle, at, ref data, append } => {
                self.write(handle, (at, append), data)
            }
            Request::List { handle, cookie, most_bytes } => {
                let ino = self.ino_of(handle)?;
                let entries = ops::list::list(self.tx, self.vol, ino, cookie, most_bytes)?;
                self.touch(ino)?;
                Ok(Answer::Entries(entries).into())
            }
            Request::Fsync { ino, data_only } => {
                Ok(Step::Durable(durable::file(self.tx, self.vol, ino, data_only)?))
            }
            Request::Sync => self.sync(),
            Request::Trim { from, to, least } => self.trim((from, to), least),
            Request::Space => Ok(Answer::Space(ops::space::space(self.vol)).into()),
            Request::Allocate { handle, at, length, how } => {
                let ino = self.ino_of(handle)?;
                let end = at.checked_add(length).ok_or(Errno::FBig)?;
                let from = at.max(self.pending.state.at);
                let range = (from, end);
                match ops::allocate::allocate(self.tx, self.vol, who, ino, range, how)? {
                    Reached::End => Ok(Answer::Done.into()),
                    Reached::At(at) => Ok(more(State { at, ..State::default() }, ino)),
                }
            }
            Request::Seek { handle, at, what } => {
                let ino = self.ino_of(handle)?;
                let from = at.max(self.pending.state.at);
                match ops::seek::seek(self.tx, self.vol, ino, from, what)? {
                    Sought::At(at) => Ok(Answer::At(at).into()),
                    Sought::From(at) => Ok(more(State { at, ..State::default() }, ino)),
                }
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
            let who = self.pending.who;
            let progress = ops::truncate::truncate(self.tx, self.vol, who, ino, size)?;
            if progress == Progress::More {
                return Ok(more(State::default(), ino));
            }
        }
        Ok(Answer::Attr(ops::attr::set(self.tx, self.vol, ino, set)?).into())
    }

    fn open(&mut self, ino: Ino, truncate: bool) -> Result<Step, Stop> {
        if truncate {
            let who = self.pending.who;
            let progress = ops::truncate::truncate(self.tx, self.vol, who, ino, 0)?;
            if progress == Progress::More {
                return Ok(more(State::default(), ino));
            }
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
        let rest = &data[done..];
        let written = ops::write::write(self.tx, self.vol, who, ino, place, rest)?;
        let done = done + written.bytes;
        if written.bytes > 0 && done < data.len() {
            let at = written.at + written.bytes as u64;
            return Ok(more(State { done: done as u64, at, read: Vec::new() }, ino));
        }
        Ok(Answer::Written(u32::try_from(done).map_err(|_| Errno::Inval)?).into())
    }

    fn reap(&mut self, ino: Ino) -> Result<Step, Stop> {
        match ops::remove::reap(self.tx, self.vol, ino)? {
            Progress::Done => Ok(Answer::Done.into()),
            Progress::More => Ok(more(State::default(), ino)),
        }
    }

    /// Stores the headers that are behind, then makes everything durable.
    fn sync(&mut self) -> Result<Step, Stop> {
        let stored = self.store()?;
        Ok(stored.unwrap_or_else(|| Step::Durable(durable::all(self.vol))))
    }

    /// Makes everything durable first; then a step for each group.
    fn trim(&mut self, range: (u64, u64), least: u64) -> Result<Step, Stop> {
        let State { at, done, .. } = self.pending.state;
        let Some(group) = at.checked_sub(1) else { return self.sync() };
        if group >= self.vol.groups().len() as u64 {
            return Ok(Answer::Trimmed(done).into());
        }
        let ranges = trim::free_space(self.tx, self.vol, group as u32, range, least)?;
        let blocks: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let done = done + blocks * BLOCK_BYTES as u64;
        Ok(Step::Trim { ranges, state: State { at: at + 1, done, ..State::default() } })
    }

    /// Stores the header of one group that is behind; `None` if there is none.
    fn store(&mut self) -> Result<Option<Step>, Stop> {
        let number = self.vol.stale_group().filter(|_| !self.tx.is_read_only());
        let Some(number) = number else { return Ok(None) };
        group::store(self.tx, self.vol, number)?;
        Ok(Some(Step::More { state: State::default(), holds: None }))
    }
}

fn lost(object: Option<Removed>) -> Step {
    removed(object.filter(|removed| removed.last).map(|removed| removed.ino))
}
