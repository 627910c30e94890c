//! Recording the system calls of a workload in a plain directory: no mount, no device, no root.

use crate::record::Recorded;
use crate::replay::check::quoted;
use crate::replay::stop::Stop;
use crate::sandbox::pool::DIR;
use crate::workload::record::Tested;
use crate::workload::{End, Ran, last_lines};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use seekless_calls::Entry;
use seekless_calls::model::{self, Unmodelled};
use seekless_tracer::selfcheck::{self, Difference};
use seekless_tracer::{Exit, Options, Recorder, Syncs};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How soon a stop reaches the recorder.
const STOP: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// A workload whose calls are recorded.
#[derive(Clone, Copy, Debug)]
pub struct TracedRun<'a> {
    /// The directory whose files are recorded.
    pub place: &'a Path,
    /// The command, with [`DIR`] for the directory.
    pub command: &'a str,
    /// Syncs are answered without being carried out.
    pub skips_syncs: bool,
    /// Time limit of the command.
    pub timeout: Duration,
    /// Ends the command.
    pub stop: &'a Stop,
    /// Where its output goes.
    pub log: &'a Path,
}

/// What recording came to.
#[derive(Clone, Debug)]
pub struct Traced {
    /// The calls: the tree at the start, and what the workload did.
    pub entries: Vec<Entry>,
    /// The same as parts that a power cut may take.
    pub recorded: Arc<model::Recorded>,
    /// How the command ended, and how many parts of calls it caused.
    pub tested: Tested,
    /// Calls that were refused, and processes that were ended: what may have changed the run.
    pub notes: Vec<String>,
}

/// Why calls were not recorded.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The recorder.
    #[error(transparent)]
    Tracer(#[from] seekless_tracer::Error),
    /// A file of the test.
    #[error("{}: {source}", .path.display())]
    Os {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The recording is not what is in the directory: no state of it would be one of the program.
    #[error(
        "the recording does not give the final directory: {difference} ({}){}",
        .difference.likely_cause(), listed(.troubles)
    )]
    Incomplete {
        /// Where they differ first.
        difference: Box<Difference>,
        /// What the recorder met.
        troubles: Vec<String>,
    },
    /// No model knows one of the calls.
    #[error(transparent)]
    Unmodelled(#[from] Unmodelled),
}

impl TraceError {
    /// True if this machine, or this user, cannot record system calls.
    pub fn is_of_machine(&self) -> bool {
        use seekless_tracer::Error::{Denied, Filter, Unsupported};
        matches!(self, TraceError::Tracer(Denied { .. } | Filter(_) | Unsupported))
    }
}

/// Finds out whether system calls can be recorded here, by a child that does nothing.
///
/// # Errors
/// With what would help.
pub fn preflight() -> Result<(), TraceError> {
    Ok(seekless_tracer::preflight()?)
}

fn listed(troubles: &[String]) -> String {
    troubles.iter().map(|trouble| format!("\n  {trouble}")).collect()
}

impl TracedRun<'_> {
    /// Runs the command and records its calls. The recording is compared with the directory at the
    /// end, unless the command was stopped.
    ///
    /// # Errors
    /// [`TraceError`]. How the command ended is no error of this function.
    pub fn record(&self) -> Result<Traced, TraceError> {
        let os = |path: &Path| {
            let path = path.to_owned();
            move |source| TraceError::Os { path, source }
        };
        let mut log = File::options()
            .create(true)
            .append(true)
            .read(true)
            .open(self.log)
            .map_err(os(self.log))?;
        let from = log.metadata().map_err(os(self.log))?.len();
        let options = Options {
            syncs: if self.skips_syncs { Syncs::Skip } else { Syncs::Real },
            time_limit: Some(self.timeout),
            ..Options::new(self.place)
        };
        let command = self.shell(&log).map_err(os(self.log))?;
        let recording = self.stoppable(|stop| Recorder::new(options).run(command, stop))?;
        let end = match recording.exit {
            Exit::Code(code) => End::Exit(code),
            Exit::Signal(signal) => End::Signal(signal),
            Exit::TimeLimit => End::TimedOut,
            Exit::Stopped => End::Stopped,
        };
        let left = u32::try_from(recording.outlived.len()).unwrap_or(u32::MAX);
        let tail = last_lines(&mut log, from).map_err(os(self.log))?;
        let ran = Ran { end, left, unmounted: false, tail };
        if end != End::Stopped {
            selfcheck::compare(&recording.entries, self.place).map_err(|difference| {
                TraceError::Incomplete {
                    difference: Box::new(difference),
                    troubles: recording.troubles.clone(),
                }
            })?;
        }
        let refused = recording.refused.iter();
        let refused =
            refused.map(|call| format!("--run: {call} was refused, as it cannot be recorded"));
        let outlived = recording.outlived.iter();
        let outlived = outlived.map(|one| format!("--run left {one}, which was ended"));
        let notes = refused.chain(outlived).collect();
        let traced = Traced::new(recording.entries, ran)?;
        Ok(Traced { notes, ..traced })
    }

    fn shell(&self, log: &File) -> io::Result<Command> {
        let line = self.command.replace(DIR, &quoted(&self.place.to_string_lossy()));
        let mut command = Command::new("/bin/sh");
        // Signals from a terminal are for this process.
        command.arg("-c").arg(line).stdin(Stdio::null()).process_group(0);
        command.stdout(log.try_clone()?).stderr(log.try_clone()?);
        Ok(command)
    }

    /// Lets the stop end what a flag ends.
    fn stoppable<T>(&self, work: impl FnOnce(&AtomicBool) -> T) -> T {
        let (stop, done) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    if self.stop.asked().is_some() {
                        stop.store(true, Ordering::Release);
                        return;
                    }
                    let _ = poll(&mut [PollFd::new(&self.stop.fd(), PollFlags::IN)], Some(&STOP));
                }
            });
            let result = work(&stop);
            done.store(true, Ordering::Release);
            result
        })
    }
}

impl Traced {
    /// What the calls of a command are that ended like this.
    ///
    /// # Errors
    /// If no model knows one of the calls.
    pub fn new(entries: Vec<Entry>, ran: Ran) -> Result<Traced, Unmodelled> {
        let recorded = model::Recorded::read(&entries)?;
        let count =
            |is: fn(&Entry) -> bool| entries.iter().filter(|entry| is(entry)).count() as u64;
        let changes = recorded.micros.iter().filter(|micro| micro.asked >= recorded.begin).count();
        let tested = Tested {
            recorded: Recorded {
                requests: count(|entry| {
                    matches!(entry, Entry::Call { .. } | Entry::Foreign { .. })
                }),
                marks: count(|entry| matches!(entry, Entry::Mark(_))),
                ..Recorded::default()
            },
            ran,
            writes: changes as u64,
        };
        Ok(Traced { entries, recorded: Arc::new(recorded), tested, notes: Vec::new() })
    }
}
