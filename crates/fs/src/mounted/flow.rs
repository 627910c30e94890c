//! The way of a call through a file system: it runs, stops and waits, runs again, and is answered.
//!
//! A call runs over one transaction per step. What it changes in memory outside the cache is in
//! [`Good`] and takes effect after the commit, so a step that stops leaves no trace. A call of
//! several steps holds its inode in between; others that name the inode wait.

use super::Mounted;
use super::pending::{Durable, Good, Pending, Step, Work};
use super::personality::Personality;
use crate::call::{Answer, Call, Errno, Ino, Reply, Request};
use crate::core::tx::CoreTx;
use crate::core::waiting::MOST_RUNS;
use crate::policy::Settle;
use crate::system::FsCx;
use crate::tx::Stop;
use seekless_engine::io::IoError;

impl<P: Personality> Mounted<P> {
    /// Takes a call. Calls that need no block are done at once.
    pub(crate) fn take(&mut self, call: Call, cx: &mut FsCx<'_, '_>) {
        let reply = |result| Reply { id: call.id, result };
        match call.request {
            Request::Forget { ino, count } => {
                if self.handles.forget(ino, count) {
                    self.queue.push_back(Pending::own(Work::Reap(ino), call.now));
                }
            }
            Request::Release { handle } => {
                let Some((ino, gone)) = self.handles.release(handle) else {
                    cx.replies.push(reply(Err(Errno::BadF)));
                    return;
                };
                if gone {
                    self.queue.push_back(Pending::own(Work::Reap(ino), call.now));
                }
                cx.replies.push(reply(Ok(Answer::Done)));
            }
            _ => self.queue.push_back(Pending::of(call)),
        }
    }

    /// Runs everything that can run.
    pub(crate) fn run_ready(&mut self, cx: &mut FsCx<'_, '_>) {
        loop {
            self.run_queue(cx);
            if !self.end_settled(cx) {
                return;
            }
        }
    }

    fn run_queue(&mut self, cx: &mut FsCx<'_, '_>) {
        loop {
            self.take_frees();
            self.core.relieve();
            if self.core.relieve_nvram(cx.now()) {
                self.core.push_output(cx.below);
            }
            if self.core.is_congested() {
                break;
            }
            let Some(pending) = self.next_pending(cx) else { break };
            self.run(pending, cx);
        }
    }

    /// Ends calls that are durable. True if one of them runs again.
    fn end_settled(&mut self, cx: &mut FsCx<'_, '_>) -> bool {
        let mut again = false;
        while let Some((key, result)) = self.core.take_settled() {
            if !self.parked.contains(key) {
                self.stop_settled();
            } else if !self.goes_on(key, result, cx) {
                let mut pending = self.parked.remove(key);
                self.no_longer_waits(pending.durable.as_deref());
                let mark = pending.durable.as_ref().and_then(|durable| durable.mark.as_ref());
                if let (Some(mark), Ok(())) = (mark, result) {
                    self.format.is_durable(mark);
                }
                if std::mem::take(&mut pending.again) && result.is_ok() {
                    pending.durable = None;
                    self.queue.push_front(pending);
                    again = true;
                    continue;
                }
                let answer = pending.answer.take().unwrap_or(Answer::Done);
                // Others may have waited for a trim that has failed.
                again |= matches!(pending.work, Work::Request(Request::Trim { .. }));
                self.end(pending, result.map(|()| answer).map_err(|_| Errno::Io), cx);
            }
        }
        again
    }

    /// The next call that can run: those that have waited before those that have not run yet.
    fn next_pending(&mut self, cx: &mut FsCx<'_, '_>) -> Option<Pending<P::Mark>> {
        if self.core.lacks_log_room() {
            return self.next_reader(cx);
        }
        if self.core.owes_much() {
            return self.next_free(cx);
        }
        while let Some(key) = self.core.take_ready() {
            let pending = self.parked.remove(key);
            if self.core.ready.take_error(key).is_none() {
                return Some(pending);
            }
            self.end(pending, Err(Errno::Io), cx);
        }
        let begins = |pending: &Pending<P::Mark>| self.may_begin(pending);
        if !self.core.is_policy_full() {
            let index = self.queue.iter().position(begins)?;
            return self.queue.remove(index);
        }
        let goes_on = |pending: &Pending<P::Mark>| match &pending.work {
            Work::Request(request) => !request.is_change(),
            Work::Reap(_) | Work::Store | Work::Free(_) | Work::Background => true,
        };
        let index = self.queue.iter().position(|one| goes_on(one) && begins(one))?;
        self.queue.remove(index)
    }

    /// A call that changes nothing, where the log takes no change.
    fn next_reader(&mut self, cx: &mut FsCx<'_, '_>) -> Option<Pending<P::Mark>> {
        let reads = |pending: &Pending<P::Mark>| match &pending.work {
            Work::Request(request) => !request.is_change() && !pending.notes,
            Work::Reap(_) | Work::Store | Work::Free(_) | Work::Background => false,
        };
        if let Some(pending) = self.next_ready(reads, cx) {
            return Some(pending);
        }
        let index = self.queue.iter().position(|one| reads(one) && self.may_begin(one))?;
        self.queue.remove(index)
    }

    /// A call that can go on, of those that are asked for.
    fn next_ready(
        &mut self,
        wanted: impl Fn(&Pending<P::Mark>) -> bool,
        cx: &mut FsCx<'_, '_>,
    ) -> Option<Pending<P::Mark>> {
        for _ in 0..self.core.ready.len() {
            let key = self.core.take_ready()?;
            if !wanted(&self.parked[key]) {
                self.core.make_ready(key);
                continue;
            }
            let pending = self.parked.remove(key);
            if self.core.ready.take_error(key).is_none() {
                return Some(pending);
            }
            self.end(pending, Err(Errno::Io), cx);
        }
        None
    }

    /// Work that frees space which was given up, where so much is owed that nothing else may give
    /// up more. None if the log must come further first.
    fn next_free(&mut self, cx: &mut FsCx<'_, '_>) -> Option<Pending<P::Mark>> {
        let is_free = |pending: &Pending<P::Mark>| matches!(pending.work, Work::Free(_));
        if let Some(pending) = self.next_ready(is_free, cx) {
            return Some(pending);
        }
        let index = self.queue.iter().position(is_free);
        if index.is_none() {
            self.core.force_log(self.core.policy.log_end());
            self.core.push_output(cx.below);
        }
        self.queue.remove(index?)
    }

    /// Runs one step of a call.
    fn run(&mut self, mut pending: Pending<P::Mark>, cx: &mut FsCx<'_, '_>) {
        if self.core.is_read_only() && pending.work.changes() {
            let errno = if self.core.failed().is_some() { Errno::Io } else { Errno::RoFs };
            return self.end(pending, Err(errno), cx);
        }
        if pending.held.is_none()
            && let Some(ino) = self.blocked_by(&pending.work)
        {
            let key = self.parked.insert(pending);
            self.locks.wait(ino, key);
            return;
        }
        if matches!(pending.work, Work::Request(Request::Sync)) && pending.runs == 0 {
            let Some(sync) = self.after_deletions(pending) else { return };
            pending = sync;
        }
        if matches!(pending.work, Work::Request(Request::Trim { .. })) {
            let Some(trim) = self.stand_still(pending) else { return };
            pending = trim;
            if let Some(error) = self.core.take_trim_error() {
                let errno = if error == IoError::NoSpace { Errno::NoSpc } else { Errno::Io };
                return self.end(pending, Err(errno), cx);
            }
        }
        pending.runs += 1;
        assert!(pending.runs < MOST_RUNS, "{:?} stops again and again", pending.work);
        let mut tx = CoreTx::new(&mut self.core, pending.now);
        let outcome = self.format.perform(&mut tx, &self.handles, &pending);
        if pending.work.notes_access() && outcome.is_ok() && tx.lacks_log_room() {
            tx.undo();
            self.format.roll_back();
            (pending.runs, pending.notes) = (0, true);
            self.core.unpin(&mut pending.pins);
            let key = self.parked.insert(pending);
            return self.core.make_ready(key);
        }
        match outcome {
            Ok(step) => {
                let settle = tx.commit(cx.now());
                self.format.commit();
                self.close_wrong_map();
                self.succeed(pending, step, settle, cx);
            }
            Err(mut stop) => {
                tx.add_expected(&mut stop);
                tx.undo();
                self.format.roll_back();
                if self.close_wrong_map() {
                    // Space elsewhere may do; what is freed there stays marked.
                    pending.runs = 0;
                    let key = self.parked.insert(pending);
                    self.core.make_ready(key);
                    return;
                }
                self.stopped_by(pending, stop, cx);
            }
        }
    }

    /// Takes out of use what the maps describe that an operation has found damaged or wrong.
    fn close_wrong_map(&mut self) -> bool {
        self.core.take_wrong_map().is_some_and(|map| self.format.close(map))
    }

    fn succeed(
        &mut self,
        mut pending: Pending<P::Mark>,
        step: Step<P::Mark>,
        settle: Settle,
        cx: &mut FsCx<'_, '_>,
    ) {
        match settle {
            Settle::Now => {}
            Settle::Written(fields) => pending.writes.extend(fields),
            Settle::Logged(end) => pending.logged = end,
        }
        match step {
            Step::Done(good) => {
                self.read_further(&pending, cx);
                let reaps = self.reaps(&good);
                let answer = self.take_effect(good);
                let answer = pending.answer.take().unwrap_or(answer);
                match reaps {
                    // The call ends with the deletion.
                    Some(ino) if !pending.writes.is_empty() => {
                        self.core.unpin(&mut pending.pins);
                        let work = Work::Reap(ino);
                        let answer = Some(answer);
                        self.queue.push_front(Pending { work, answer, runs: 0, ..pending });
                    }
                    _ => {
                        if let Some(ino) = reaps {
                            self.queue.push_front(Pending::own(Work::Reap(ino), pending.now));
                        }
                        if pending.logged > self.core.policy.log_durable() {
                            pending.answer = Some(answer);
                            return self.make_logged(pending, cx);
                        }
                        if pending.writes.is_empty() {
                            return self.end(pending, Ok(answer), cx);
                        }
                        pending.answer = Some(answer);
                        let fields = std::mem::take(&mut pending.writes);
                        let durable = Durable::fields(fields);
                        self.make_durable(pending, durable, cx);
                    }
                }
            }
            Step::More { state, holds } => {
                if pending.held.is_none()
                    && let Some(ino) = holds
                {
                    self.locks.hold(ino);
                    pending.held = Some(ino);
                }
                pending.state = state;
                pending.runs = 0;
                self.core.unpin(&mut pending.pins);
                let key = self.parked.insert(pending);
                self.core.make_ready(key);
            }
            Step::Durable(durable) => {
                if matches!(pending.work, Work::Request(Request::Trim { .. })) {
                    // Behind that it looks for free space.
                    (pending.again, pending.runs, pending.state.at) = (true, 0, 1);
                }
                self.make_durable(pending, durable, cx);
            }
            Step::Trim { ranges, state } => {
                debug_assert!(self.is_still(), "free space may be in use on the disk");
                (pending.state, pending.runs) = (state, 0);
                self.core.unpin(&mut pending.pins);
                let key = self.parked.insert(pending);
                self.core.trim(key, &ranges, cx.below);
            }
        }
    }

    /// The inode that is to be deleted at once because its last name has gone.
    fn reaps(&mut self, good: &Good) -> Option<Ino> {
        if let Some(ino) = good.unnamed {
            self.format.lost_last_name(ino);
        }
        good.unnamed.filter(|&ino| self.handles.unnamed(ino))
    }

    fn take_effect(&mut self, good: Good) -> Answer {
        if let Some(ino) = good.looked_up {
            self.handles.looked_up(ino);
        }
        match (good.opened, good.answer) {
            (Some(ino), Answer::Object(attr, _)) => {
                Answer::Object(attr, Some(self.handles.open(ino)))
            }
            (Some(ino), _) => Answer::Opened(self.handles.open(ino)),
            (None, answer) => answer,
        }
    }

    fn stopped_by(&mut self, mut pending: Pending<P::Mark>, stop: Stop, cx: &mut FsCx<'_, '_>) {
        match stop {
            Stop::Miss(wanted) => {
                let Some(mut pending) = self.put_off(pending, cx.now()) else { return };
                let mut pins = std::mem::take(&mut pending.pins);
                let key = self.parked.insert(pending);
                self.core.fetch(key, &wanted, &mut pins, cx.below);
                self.parked[key].pins = pins;
            }
            Stop::Busy(ino) => {
                let key = self.parked.insert(pending);
                if self.locks.is_held(ino) {
                    self.locks.wait(ino, key);
                } else {
                    self.core.make_ready(key);
                }
            }
            Stop::NoRoom if self.frees_are_pending(&pending) => {
                // Each of the frees wakes it, and there may be many.
                pending.runs = 0;
                self.core.unpin(&mut pending.pins);
                // It may have to wait for many frees.
                pending.runs = 0;
                let key = self.parked.insert(pending);
                self.no_room.push(key);
            }
            Stop::Guarded(field) => {
                (pending.again, pending.runs) = (true, 0);
                let durable = Durable::fields(vec![field]);
                self.make_durable(pending, durable, cx);
            }
            Stop::Crowded => {
                pending.runs = 0;
                self.core.unpin(&mut pending.pins);
                let key = self.parked.insert(pending);
                self.core.make_ready(key);
                self.core.policy.make_place();
                self.core.push_output(cx.below);
            }
            Stop::NoRoom => self.fail_call(pending, Errno::NoSpc, cx),
            Stop::Refused(errno) => self.fail_call(pending, errno, cx),
        }
    }

    /// Ends a call that fails. A write of several steps reports what it has written.
    fn fail_call(&mut self, pending: Pending<P::Mark>, errno: Errno, cx: &mut FsCx<'_, '_>) {
        let is_write = matches!(pending.work, Work::Request(Request::Write { .. }));
        let result = match u32::try_from(pending.state.done) {
            Ok(written) if is_write && written > 0 => Ok(Answer::Written(written)),
            _ => Err(errno),
        };
        self.end(pending, result, cx);
    }

    /// A call has come to its end: it lets go of everything and is answered.
    pub(crate) fn end(
        &mut self,
        mut pending: Pending<P::Mark>,
        result: Result<Answer, Errno>,
        cx: &mut FsCx<'_, '_>,
    ) {
        let failed = result.is_err();
        self.core.unpin(&mut pending.pins);
        if let Some(ino) = pending.held {
            for key in self.locks.release(ino) {
                self.core.make_ready(key);
            }
        }
        if let Some(id) = pending.id {
            cx.replies.push(Reply { id, result });
        }
        self.no_longer_still(&pending.work);
        match pending.work {
            Work::Reap(ino) => {
                self.format.was_deleted(ino);
                if pending.late {
                    self.deleted_late();
                }
                self.space_came();
            }
            Work::Free(_) => self.space_came(),
            Work::Background => self.background_stepped(failed),
            Work::Store => self.storing = false,
            Work::Request(_) => {}
        }
    }

    /// An inode that this work names and that another call holds.
    fn blocked_by(&self, work: &Work) -> Option<Ino> {
        if self.locks.is_empty() {
            return None;
        }
        let of = |handle| self.handles.get(handle).map(|open| open.ino);
        let named = match *work {
            Work::Reap(ino) => [Some(ino), None],
            Work::Store | Work::Free(_) | Work::Background => [None, None],
            Work::Request(ref request) => match *request {
                Request::Attr { ino }
                | Request::SetAttr { ino, .. }
                | Request::ReadLink { ino }
                | Request::Open { ino, .. }
                | Request::Fsync { ino, .. } => [Some(ino), None],
                Request::Lookup { dir, .. }
                | Request::Make { dir, .. }
                | Request::Unlink { dir, .. }
                | Request::RmDir { dir, .. } => [Some(dir), None],
                Request::Link { ino, dir, .. } => [Some(ino), Some(dir)],
                Request::Rename { dir, to_dir, .. } => [Some(dir), Some(to_dir)],
                Request::Read { handle, .. }
                | Request::Write { handle, .. }
                | Request::List { handle, .. }
                | Request::Allocate { handle, .. }
                | Request::Seek { handle, .. } => [of(handle), None],
                Request::Forget { .. }
                | Request::Release { .. }
                | Request::Sync
                | Request::Space
                | Request::Trim { .. } => [None, None],
            },
        };
        named.into_iter().flatten().find(|&ino| self.locks.is_held(ino))
    }
}
