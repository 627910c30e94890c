//! A run that is recorded: the loop over the reports of its threads.
//!
//! Changes are carried out one at a time, so that the order of the record is the order in the
//! files: at most one thread, the *holder*, is between entry and exit of a change. Threads that
//! reach a change meanwhile stand at its entry, in the order in which they came. Syncs overlap
//! with everything.

use crate::arch::{self, Op};
use crate::error::Error;
use crate::filter::OF_FOREIGN;
use crate::options::{Exit, Options, Recording, Syncs};
use crate::pending::{
    InCall, State, Subject, Thread, has_path, is_sync, may_block, moves_too_much,
};
use crate::ptrace::{self, Entered, Event, Peek};
use crate::record::Record;
use crate::start::{Started, start};
use crate::stat::Key;
use crate::tick::Ticks;
use crate::tracee::Tracee;
use bytes::Bytes;
use seekless_fs::call::{FileKind, Ino};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a change may sleep before the changes of others overlap with it.
const PATIENCE: Duration = Duration::from_millis(30);
/// How long ended programs may take to go.
const GRACE: Duration = Duration::from_secs(10);
/// Troubles that are kept.
const MOST_TROUBLES: usize = 100;

/// The file of acknowledgements.
#[derive(Debug)]
pub(crate) struct Acks {
    pub(crate) key: Key,
    pub(crate) file: File,
    /// What each thread wrote behind its last newline.
    pub(crate) begun: HashMap<i32, Vec<u8>>,
}

/// Why the programs of a run are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Stopped,
    TimeLimit,
    Outlived,
}

/// A run that is recorded.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    options: &'a Options,
    stop: &'a AtomicBool,
    pub(crate) record: Record,
    pub(crate) acks: Acks,
    /// The device that the directory is on.
    pub(crate) device: u64,
    threads: HashMap<i32, Thread>,
    queue: VecDeque<i32>,
    /// Threads that are gone.
    gone: HashSet<i32>,
    holder: Option<(i32, Instant)>,
    refused: BTreeSet<String>,
    troubles: Vec<String>,
    outlived: Vec<String>,
    stops: u64,
    /// Why the programs are ended, and since when.
    ending: Option<(Ending, Instant)>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(options: &'a Options, stop: &'a AtomicBool, acks: Acks) -> Session<'a> {
        Session {
            options,
            stop,
            record: Record::new(),
            acks,
            device: 0,
            threads: HashMap::new(),
            queue: VecDeque::new(),
            gone: HashSet::new(),
            holder: None,
            refused: BTreeSet::new(),
            troubles: Vec::new(),
            outlived: Vec::new(),
            stops: 0,
            ending: None,
        }
    }

    /// Records the directory, then the command and all that it starts.
    pub(crate) fn run(mut self, command: Command) -> Result<Recording, Error> {
        let directory = self.options.directory.clone();
        self.record
            .root(&directory, self.stop)
            .map_err(|(path, source)| Error::Unreadable { path, source })?;
        let stat = crate::stat::Stat::of_path(&directory, true);
        self.device = stat.map_err(|source| Error::Unreadable { path: directory, source })?.key.0;
        self.record.begin();
        if self.stop.load(Ordering::Relaxed) {
            return Ok(self.into_recording(Exit::Stopped));
        }
        let machine = |source| Error::Machine { what: "start a timer", source };
        let _ticks = Ticks::start().map_err(machine)?;
        let started = start(command)?;
        let exit = self.follow(&started)?;
        started.outcome()?;
        self.finish();
        Ok(self.into_recording(exit))
    }

    fn into_recording(self, exit: Exit) -> Recording {
        Recording {
            entries: self.record.into_entries(),
            exit,
            refused: self.refused.into_iter().collect(),
            outlived: self.outlived,
            troubles: self.troubles,
            stops: self.stops,
        }
    }

    /// What is left when all programs are gone.
    fn finish(&mut self) {
        self.all_stores();
        let begun = std::mem::take(&mut self.acks.begun);
        let mut begun: Vec<(i32, Vec<u8>)> = begun.into_iter().collect();
        begun.sort();
        begun.iter().for_each(|(_, line)| self.mark(line));
    }

    /// Follows a command and all that it starts to their end.
    fn follow(&mut self, started: &Started) -> Result<Exit, Error> {
        let begun = Instant::now();
        let mut main = None;
        if !self.follow_start(started.pid, begun)? {
            return Ok(self.exit_of(None));
        }
        loop {
            let report = match ptrace::wait() {
                Ok(report) => report,
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => break,
                Err(source) => return Err(Error::Machine { what: "wait for a program", source }),
            };
            if let Some((tid, event)) = report {
                self.stops += 1;
                if let Event::Gone(status) = event {
                    if tid == started.pid {
                        main = Some((status, Instant::now()));
                    }
                    self.gone(tid);
                } else {
                    self.event(tid, event);
                }
            }
            if report.is_none() || self.stops.is_multiple_of(64) {
                self.tick(begun, main.map(|(_, at)| at));
                let is_stuck =
                    |(_, since): (Ending, Instant)| since.elapsed() > GRACE && report.is_none();
                if self.ending.is_some_and(is_stuck) {
                    self.trouble("a program does not end although it was killed".to_owned());
                    break;
                }
            }
        }
        // A process whose parent was killed before it took the status is a zombie, and a child of
        // the subreaper: of this process, but of another thread.
        self.gone.iter().for_each(|&tid| ptrace::reap(tid));
        Ok(self.exit_of(main.map(|(status, _)| status)))
    }

    /// How a run ended, by the status of its command.
    fn exit_of(&self, status: Option<i32>) -> Exit {
        match (self.ending, status) {
            (Some((Ending::Stopped, _)), _) => Exit::Stopped,
            (Some((Ending::TimeLimit, _)), _) => Exit::TimeLimit,
            (_, Some(status)) if libc::WIFSIGNALED(status) => Exit::Signal(libc::WTERMSIG(status)),
            (_, Some(status)) => Exit::Code(libc::WEXITSTATUS(status)),
            // It did not run, or its status was taken by another part of this process.
            (_, None) => Exit::Code(0),
        }
    }

    /// Follows a process up to its program; false if it is gone before. The status of such a
    /// process belongs to the thread that started it, which learns from it why.
    fn follow_start(&mut self, pid: i32, begun: Instant) -> Result<bool, Error> {
        let machine = |source| Error::Machine { what: "wait for a program", source };
        self.thread(pid);
        loop {
            match ptrace::peek(pid).map_err(machine)? {
                Peek::Gone => {
                    self.gone(pid);
                    return Ok(false);
                }
                Peek::Tick => self.tick(begun, None),
                Peek::Stop => {
                    let Some((tid, event)) = ptrace::wait().map_err(machine)? else { continue };
                    self.stops += 1;
                    self.event(tid, event);
                    if event == Event::Exec {
                        return Ok(true);
                    }
                }
            }
        }
    }

    fn event(&mut self, tid: i32, event: Event) {
        if self.ending.is_some() {
            kill(tid);
        }
        match event {
            Event::Call => self.begin(tid),
            Event::Exit => self.end(tid),
            Event::Exec => self.exec(tid),
            Event::Stopped => ptrace::listen(tid),
            Event::Signal(signal) => {
                self.thread(tid);
                self.resume(tid, signal);
            }
            Event::Gone(_) => self.gone(tid),
        }
    }

    fn thread(&mut self, tid: i32) -> &mut Thread {
        let new = || Thread { tracee: Tracee::new(tid), state: State::Runs };
        self.threads.entry(tid).or_insert_with(new)
    }

    /// Lets a thread run on, to the exit of its call if it is in one.
    fn resume(&mut self, tid: i32, signal: i32) {
        match self.thread(tid).state {
            State::InCall(_) => ptrace::resume_to_exit(tid, signal),
            State::Runs | State::Waits => ptrace::resume(tid, signal),
        }
    }

    /// A thread stands at the entry of a call.
    fn begin(&mut self, tid: i32) {
        self.thread(tid).state = State::Runs;
        let Some(entered) = ptrace::entered(tid) else { return ptrace::resume(tid, 0) };
        if entered.data == OF_FOREIGN {
            self.refuse(tid, "a system call of a 32-bit or x32 program", libc::ENOSYS);
            return;
        }
        let Some(op) = arch::op(entered.number) else { return ptrace::resume(tid, 0) };
        if let Op::Refused(name, errno) = op {
            return self.refuse(tid, name, errno);
        }
        let Some(mut thread) = self.threads.remove(&tid) else { return };
        let is_busy = self.holder.is_some() && !is_sync(op) && !may_block(&entered);
        if self.holder.is_some() && self.has_to_wait(&mut thread.tracee, &entered, op) {
            thread.state = State::Waits;
            self.queue.push_back(tid);
            self.threads.insert(tid, thread);
            return;
        }
        let subject = self.enter(&mut thread.tracee, &entered, op);
        let subject = subject.or_else(|| has_path(op).then_some(Subject::Elsewhere));
        match subject {
            None => ptrace::resume(tid, 0),
            Some(_) if is_busy => {
                thread.state = State::Waits;
                self.queue.push_back(tid);
            }
            Some(Subject::Syncs(numbers)) if self.options.syncs == Syncs::Skip => {
                arch::skip(tid, 0);
                numbers.into_iter().for_each(|number| self.record.sync_answered(number, 0));
                ptrace::resume(tid, 0);
            }
            Some(subject) if moves_too_much(op, &entered.args, &subject) => {
                self.refuse(tid, "fallocate that moves more than 64 MiB", libc::EOPNOTSUPP);
            }
            Some(subject) => {
                if !is_sync(op) && !may_block(&entered) {
                    self.holder = Some((tid, Instant::now()));
                }
                thread.state = State::InCall(InCall { entered, op, subject });
                ptrace::resume_to_exit(tid, 0);
            }
        }
        self.threads.insert(tid, thread);
    }

    /// True if a call has to wait for the change that goes on. A file that the change makes is not
    /// known before its exit, but others may have opened it already.
    fn has_to_wait(&mut self, t: &mut Tracee, entered: &Entered, op: Op) -> bool {
        let fd = match op {
            Op::Write(_) | Op::Send(_) | Op::SyncFile(_) => entered.args[0],
            Op::Copy => entered.args[2],
            Op::Protect => return false,
            _ => return !is_sync(op),
        };
        let Some(stat) = self.opened(t, fd).map(|opened| opened.stat) else { return false };
        let has_content = matches!(stat.kind, FileKind::File | FileKind::Directory);
        let is_near = has_content && stat.key.0 == self.device || stat.key == self.acks.key;
        let is_known = self.record.objects.of(&stat).is_some();
        let overlaps = is_sync(op) || may_block(entered);
        if overlaps { is_near && !is_known } else { is_near || is_known }
    }

    /// Answers a call with an error, and notes it.
    fn refuse(&mut self, tid: i32, name: &str, errno: i32) {
        self.refused.insert(name.to_owned());
        arch::skip(tid, -i64::from(errno));
        ptrace::resume(tid, 0);
    }

    /// A thread stands at the exit of a call.
    fn end(&mut self, tid: i32) {
        if let Some(mut thread) = self.threads.remove(&tid) {
            let state = std::mem::replace(&mut thread.state, State::Runs);
            if let State::InCall(call) = state {
                self.ended(&mut thread.tracee, call, ptrace::result(tid));
            }
            self.threads.insert(tid, thread);
        }
        ptrace::resume(tid, 0);
        self.release(tid);
    }

    /// A call has ended; without a result, its thread was killed at once.
    fn ended(&mut self, tracee: &mut Tracee, call: InCall, result: Option<i64>) {
        let op = call.op;
        let outcome = match (result.map(u64::try_from), &call.subject) {
            (None, _) => Ok(()),
            (Some(Ok(result)), _) => self.leave(tracee, &call, result),
            // A failed change has changed nothing.
            (Some(Err(_)), Subject::Syncs(numbers)) => {
                let errno = result.map_or(libc::EIO, |result| -result as i32);
                // Numbers from 512 on say that the kernel begins the call again after a signal.
                let errno = if errno >= 512 { libc::EINTR } else { errno };
                numbers.iter().for_each(|&number| self.record.sync_answered(number, errno));
                return;
            }
            (Some(Err(_)), _) => return,
        };
        // What `/proc` said of a thread that is being killed was not all of it.
        if ptrace::message(tracee.tid).is_none() {
            self.killed(call);
        } else if let Err(error) = outcome {
            self.trouble(format!("what {op:?} changed cannot be read: {error}"));
        }
    }

    /// The change of a thread has ended: the next one may begin.
    fn release(&mut self, tid: i32) {
        if self.holder.is_some_and(|(holder, _)| holder == tid) {
            self.holder = None;
            self.next();
        }
    }

    fn next(&mut self) {
        while self.holder.is_none() {
            let Some(tid) = self.queue.pop_front() else { return };
            let waits = |thread: &Thread| matches!(thread.state, State::Waits);
            if self.threads.get(&tid).is_some_and(waits) {
                self.begin(tid);
            }
        }
    }

    /// A thread runs another program; all other threads of its process are gone.
    fn exec(&mut self, tid: i32) {
        if let Some(former) = ptrace::message(tid).and_then(|former| i32::try_from(former).ok()) {
            self.threads.remove(&former);
            self.release(former);
        }
        // The former leader of the process, if another thread runs the program.
        self.vanished(tid);
        self.thread(tid);
        ptrace::resume(tid, 0);
        self.release(tid);
    }

    /// A thread is gone, maybe in the middle of a call.
    fn vanished(&mut self, tid: i32) {
        if let Some(Thread { state: State::InCall(call), .. }) = self.threads.remove(&tid) {
            self.killed(call);
        }
    }

    /// The directory of the run.
    pub(crate) fn directory(&self) -> &Path {
        &self.options.directory
    }

    fn gone(&mut self, tid: i32) {
        self.vanished(tid);
        self.gone.insert(tid);
        if let Some(line) = self.acks.begun.remove(&tid) {
            self.mark(&line);
        }
        self.all_stores();
        self.release(tid);
    }

    /// Looks whether a limit of time is reached.
    fn tick(&mut self, begun: Instant, main_gone: Option<Instant>) {
        if self.ending.is_some() {
            self.kill_all();
        } else if self.stop.load(Ordering::Relaxed) {
            self.end_all(Ending::Stopped);
        } else if self.options.time_limit.is_some_and(|limit| begun.elapsed() >= limit) {
            self.end_all(Ending::TimeLimit);
        } else if main_gone.is_some_and(|at| at.elapsed() >= self.options.linger) {
            self.outlived = self.threads.keys().filter_map(|&tid| name_of(tid)).collect();
            self.outlived.sort();
            self.end_all(Ending::Outlived);
        }
        if let Some((tid, since)) = self.holder
            && since.elapsed() > PATIENCE
            && !self.queue.is_empty()
            && is_asleep(tid)
        {
            self.holder = None;
            self.next();
        }
    }

    fn end_all(&mut self, why: Ending) {
        self.ending = Some((why, Instant::now()));
        self.kill_all();
    }

    fn kill_all(&self) {
        self.threads.keys().for_each(|&tid| kill(tid));
    }

    /// Notes what may make the record incomplete.
    pub(crate) fn trouble(&mut self, text: String) {
        if self.troubles.len() < MOST_TROUBLES && !self.troubles.contains(&text) {
            self.troubles.push(text);
        }
    }

    /// Records stores into mappings of one file.
    pub(crate) fn stores(&mut self, ino: Ino) {
        self.stores_within(ino, 0..u64::MAX);
    }

    /// The same for a range of the file.
    pub(crate) fn stores_within(&mut self, ino: Ino, within: std::ops::Range<u64>) {
        if let Err(error) = self.record.stores(ino, within) {
            self.trouble(format!("stores into a mapping cannot be read: {error}"));
        }
    }

    pub(crate) fn all_stores(&mut self) {
        for ino in self.record.objects.mapped() {
            self.stores(ino);
        }
    }

    /// Records what has come to be at a name.
    pub(crate) fn arrived(&mut self, dir: Ino, name: Bytes, path: &Path) -> io::Result<()> {
        self.record.arrival(dir, name, path).map_err(|(path, error)| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })
    }
}

fn kill(tid: i32) {
    // SAFETY: the call takes no pointer. The thread is traced, so its number is not used again.
    unsafe { libc::kill(tid, libc::SIGKILL) };
}

/// The name of the program of a thread that leads a process.
fn name_of(tid: i32) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
    };
    let leads = field("Tgid:")? == tid.to_string();
    field("Name:").filter(|_| leads).map(|name| format!("{name} (process {tid})"))
}

/// True if a thread waits for something that a signal would end.
fn is_asleep(tid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('S'))
}

/// Traces a child that runs nothing.
pub(crate) fn probe() -> Result<(), Error> {
    let (options, stop) = (Options::new("/"), AtomicBool::new(false));
    let trace = || {
        let file = File::open("/dev/null")
            .map_err(|source| Error::Acks { path: "/dev/null".into(), source })?;
        let acks = Acks { key: (0, 0), file, begun: HashMap::new() };
        let mut session = Session::new(&options, &stop, acks);
        // Such a path is never a program. Before it is tried, the child makes a call that stops.
        let started = start(Command::new("/dev/null/probe"))?;
        session.follow(&started)?;
        match started.outcome() {
            Err(Error::Start { .. }) if session.stops > 0 => Ok(()),
            Err(Error::Start { .. }) | Ok(()) => {
                Err(Error::Filter(io::Error::other("the probe did not stop")))
            }
            Err(error) => Err(error),
        }
    };
    std::thread::scope(|scope| scope.spawn(trace).join())
        .unwrap_or_else(|_| Err(Error::Filter(io::Error::other("the probe panicked"))))
}
