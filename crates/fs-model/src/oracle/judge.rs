//! Runs calls on both sides, one after the other, and compares.

use super::lists::Lists;
use super::matches::Matches;
use super::replies;
use super::walk;
use crate::model::{Limits, Model};
use crate::script::Bindings;
use seekless_fs::call::{
    Answer, Attr, Call, Credentials, Errno, Handle, Ino, ROOT, Request, SeekWhat, Space,
};
use seekless_fs::system::Runs;

/// What a run that showed no difference did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Calls that both sides ran, with those of the walk.
    pub calls: u64,
    /// Calls that referred to one that brought nothing.
    pub skipped: u64,
    /// Calls that the system refused because it was full.
    pub full: u64,
}

/// A difference, before the script is made smaller.
#[derive(Clone, Debug)]
pub struct Wrong {
    /// Index of the call in the script; none in the final walk.
    pub call: Option<usize>,
    /// What differs.
    pub what: String,
}

/// A system beside the model.
#[derive(Debug)]
pub struct Judge<R> {
    system: R,
    pub(super) model: Model,
    pub(super) ours: Bindings,
    theirs: Bindings,
    matches: Matches,
    lists: Lists,
    may_fill: bool,
    passed: Passed,
}

impl<R: Runs> Judge<R> {
    /// A system that is empty but for its root. With `may_fill` it may refuse calls because it is
    /// full, and write less than it is given.
    pub fn new(system: R, limits: Limits, may_fill: bool) -> Judge<R> {
        let mut judge = Judge {
            system,
            model: Model::new(limits),
            ours: Bindings::default(),
            theirs: Bindings::default(),
            matches: Matches::new(),
            lists: Lists::default(),
            may_fill,
            passed: Passed::default(),
        };
        judge.adopt_root();
        judge
    }

    /// The attributes of the root are as the system was made; the model takes them over.
    fn adopt_root(&mut self) {
        let (who, request) = (Credentials::default(), Request::Attr { ino: ROOT });
        let call = Call { id: ROOT, who, now: 0, request };
        if let Ok(Answer::Attr(attr)) = self.system.run(call).result {
            self.model.adopt_root(&attr);
        }
    }

    /// Runs calls, then walks the tree.
    ///
    /// # Errors
    /// The first difference.
    pub fn run(&mut self, calls: &[Call]) -> Result<Passed, Wrong> {
        for (index, call) in calls.iter().enumerate() {
            self.step(call).map_err(|what| Wrong { call: Some(index), what })?;
        }
        self.walk().map_err(|what| Wrong { call: None, what })?;
        Ok(self.passed)
    }

    /// Compares everything that names and handles reach.
    ///
    /// # Errors
    /// What differs first.
    pub fn walk(&mut self) -> Result<(), String> {
        walk::walk(self)
    }

    /// True if the last piece of a list was its end.
    pub(super) fn list_ended(&self, handle: u64) -> bool {
        self.lists.has_ended(handle)
    }

    /// What has been run.
    pub fn passed(&self) -> Passed {
        self.passed
    }

    /// The system goes, with all handles and lookups, as by an unmount; `mount` brings it again.
    /// Afterwards the root is the only object a script can refer to.
    pub fn remount(self, mount: impl FnOnce(R) -> R) -> Judge<R> {
        let mut model = self.model;
        model.unmount();
        Judge {
            system: mount(self.system),
            model,
            ours: Bindings::default(),
            theirs: Bindings::default(),
            lists: Lists::default(),
            ..self
        }
    }

    /// Runs a call of a script on both sides and compares the replies.
    ///
    /// # Errors
    /// What differs.
    pub fn step(&mut self, call: &Call) -> Result<(), String> {
        let (Some(mut ours), Some(theirs)) = (self.ours.call(call), self.theirs.call(call)) else {
            self.passed.skipped += 1;
            return Ok(());
        };
        let reply = self.system.run(theirs);
        if reply.id != call.id {
            return Err(format!("the reply has the id {}, the call {}", reply.id, call.id));
        }
        let result = reply.result;
        if self.is_full(&ours, &result) {
            self.passed.full += 1;
            return Ok(());
        }
        self.shorten(&mut ours, &result);
        self.passed.calls += 1;
        let refusals = self.refusals(&ours);
        if let Request::List { handle, cookie, .. } = &call.request
            && let Some(dir) = self.dir_of(&ours.request)
        {
            self.lists.begin(*handle, *cookie == 0, dir, &self.model);
        }
        let expected = self.model.run(ours.clone()).result;
        self.compare(call, &ours, (&expected, &result), &refusals)
            .map_err(|what| format!("{}: {what}", replies::Show(call)))?;
        if expected.is_ok() {
            self.lists.names_change(&ours);
            if let Request::Release { handle } = &call.request {
                self.lists.end(*handle);
            }
        }
        self.ours.learn(call, &expected);
        self.theirs.learn(call, &result);
        Ok(())
    }

    /// The directory that a list is of.
    fn dir_of(&self, request: &Request) -> Option<Ino> {
        match request {
            Request::List { handle, .. } => self.model.opened(*handle),
            _ => None,
        }
    }

    /// True if the system has refused a call that takes space, as it may. It has changed nothing,
    /// so the model does not run it.
    fn is_full(&self, call: &Call, result: &Result<Answer, Errno>) -> bool {
        let takes = matches!(
            call.request,
            Request::Make { .. }
                | Request::Link { .. }
                | Request::Rename { .. }
                | Request::Write { .. }
                | Request::SetAttr { .. }
                | Request::Allocate { .. }
        );
        self.may_fill && takes && *result == Err(Errno::NoSpc)
    }

    /// A full system may write less than it is given, but not nothing: the model does the same.
    fn shorten(&self, call: &mut Call, result: &Result<Answer, Errno>) {
        if let (true, Request::Write { data, .. }, Ok(Answer::Written(written))) =
            (self.may_fill, &mut call.request, result)
            && *written > 0
        {
            data.truncate(*written as usize);
        }
    }

    /// Errors that are as right as the model's.
    fn refusals(&self, call: &Call) -> Vec<Errno> {
        match &call.request {
            Request::Rename { dir, name, to_dir, to_name, how } => {
                self.model.refusals_of_rename((*dir, name), (*to_dir, to_name), *how)
            }
            _ => Vec::new(),
        }
    }

    fn compare(
        &mut self,
        call: &Call,
        ours: &Call,
        (expected, result): (&Result<Answer, Errno>, &Result<Answer, Errno>),
        refusals: &[Errno],
    ) -> Result<(), String> {
        if let Request::Seek { handle, at, what } = ours.request {
            return self.seek(handle, (at, what), result);
        }
        match (expected, result) {
            (Err(_), Err(errno)) if refusals.contains(errno) => Ok(()),
            (Err(ours), Err(theirs)) if ours == theirs => Ok(()),
            (Ok(Answer::Object(ours, open)), Ok(Answer::Object(theirs, opened)))
                if open.is_some() == opened.is_some() =>
            {
                self.object(ours.ino, theirs)?;
                opened.map_or(Ok(()), |handle| self.new_handle(handle))
            }
            (Ok(Answer::Attr(ours)), Ok(Answer::Attr(theirs))) => self.object(ours.ino, theirs),
            (Ok(Answer::Opened(_)), Ok(Answer::Opened(handle))) => self.new_handle(*handle),
            (Ok(Answer::Bytes(ours)), Ok(Answer::Bytes(theirs))) => replies::bytes(ours, theirs),
            (Ok(Answer::Entries(_)), Ok(Answer::Entries(entries))) => {
                let Request::List { handle, .. } = call.request else { return Ok(()) };
                self.lists.check(handle, entries, &self.model, &self.matches)
            }
            (Ok(Answer::Space(_)), Ok(Answer::Space(space))) => sane(space),
            (Ok(Answer::Trimmed(_)), Ok(Answer::Trimmed(_))) => Ok(()),
            (Ok(ours), Ok(theirs)) if ours == theirs => Ok(()),
            _ => Err(format!(
                "it answers {}; expected {}",
                replies::brief(result),
                replies::brief(expected)
            )),
        }
    }

    fn object(&mut self, ours: Ino, theirs: &Attr) -> Result<(), String> {
        let Some(node) = self.model.node(ours) else { return Ok(()) };
        replies::attr(node, theirs)?;
        self.matches.check(&node.attr(), theirs, &self.model)
    }

    /// A new handle is none that is open.
    fn new_handle(&self, handle: Handle) -> Result<(), String> {
        let mut open = self.theirs.handles().filter_map(|id| self.theirs.handle(id));
        match open.find(|open| *open == handle) {
            Some(_) => Err(format!("it gives the handle {handle}, which is open")),
            None => Ok(()),
        }
    }

    /// Holes may be as coarse as the system likes, as long as they read as zeros: data may not hide
    /// before the place where data begins, nor stand where a hole is said to begin.
    fn seek(
        &self,
        handle: Handle,
        (at, what): (u64, SeekWhat),
        result: &Result<Answer, Errno>,
    ) -> Result<(), String> {
        let node = self.model.opened(handle).and_then(|ino| self.model.node(ino));
        let Some((node, content)) = node.and_then(|node| Some((node, node.content()?))) else {
            return if result.is_err() { Ok(()) } else { Err("it seeks in no file".to_owned()) };
        };
        let data = content.next_nonzero(at).filter(|next| *next < node.size);
        let fine = match (what, result) {
            (_, Err(Errno::NxIo)) if at >= node.size => true,
            (SeekWhat::Data, Err(Errno::NxIo)) => data.is_none(),
            (SeekWhat::Data, Ok(Answer::At(found))) => {
                (at..node.size).contains(found) && data.is_none_or(|data| *found <= data)
            }
            (SeekWhat::Hole, Ok(Answer::At(found))) if at < node.size => {
                *found == node.size
                    || ((at..node.size).contains(found) && content.read(*found, 1) == [0])
            }
            _ => false,
        };
        if fine {
            return Ok(());
        }
        let (size, result) = (node.size, replies::brief(result));
        Err(format!("it answers {result}; of {size} bytes the next that is not 0 is {data:?}"))
    }
}

/// Counts that contain each other.
fn sane(space: &Space) -> Result<(), String> {
    let Space { fragments, free, available, inodes, free_inodes, .. } = *space;
    if free <= fragments && available <= free && free_inodes <= inodes {
        return Ok(());
    }
    Err(format!("the counts of space contradict each other: {space:?}"))
}
