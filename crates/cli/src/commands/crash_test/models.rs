//! System calls in place of blocks: one run of the workload in a plain directory, its calls
//! recorded, and their crash states under models of file systems. No root is needed.

use super::choice::Syncs;
use super::{Subject, Test, by_signal};
use crate::failure::{Exit, Failure, Outcome};
use crate::sweeping::conduct::{self, Conduct, Examined};
use crate::sweeping::output;
use crate::term::say;
use seekless_calls::model::{Model, Modelled, Recorded};
use seekless_crashtest::calls::store::{self, CallsError};
use seekless_crashtest::calls::trace::{TraceError, Traced, TracedRun};
use seekless_crashtest::directory::DirectoryChecker;
use seekless_crashtest::directory::steps::empty;
use seekless_crashtest::replay::check::{Check, Verdict, quoted};
use seekless_crashtest::replay::mount::{Place, Way};
use seekless_crashtest::replay::workers::Bench;
use seekless_crashtest::report::models::{ModelReport, decides};
use seekless_crashtest::sandbox::SandboxOptions;
use seekless_crashtest::sandbox::pool::DIR;
use seekless_crashtest::session::Session;
use seekless_crashtest::states::names::KeptNames;
use seekless_crashtest::states::state::SectorSize;
use seekless_crashtest::workload::{End, Ran, mount_point};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// A command on record.
struct Calls {
    recorded: Arc<Recorded>,
    /// How it died, if it did.
    died: Option<String>,
    /// What the recorder has to say.
    notes: Vec<String>,
}

/// What was recorded.
struct Workload {
    run: Calls,
    control: Option<Calls>,
}

impl Test<'_> {
    /// Everything from the empty directory to the verdict.
    pub(super) fn under_models(&self, models: &[Model], out: &mut dyn Write) -> Outcome {
        let workload = match &self.args.calls {
            Some(dir) => earlier(dir)?,
            None => self.recorded_calls()?,
        };
        let Workload { run, control } = &workload;
        self.refuse_silence(run.recorded.marks.len(), run.died.as_deref())?;
        let (mut reports, mut distrust) = (Vec::new(), None);
        for &model in models {
            let Examined { mut report, distrust: found } = self.under_model(model, &workload)?;
            let notes = [Some(run), control.as_ref()].into_iter().flatten();
            report.warnings.extend(notes.flat_map(|one| one.notes.iter().cloned()));
            reports.push(ModelReport { model: model.name.to_owned(), report });
            distrust = distrust.or(found);
            if self.stop.asked().is_some() {
                break;
            }
        }
        output::print_models(&reports, &self.args.sweep, out)?;
        if let Some(signal) = self.stop.asked() {
            return Err(by_signal(signal));
        }
        distrust.map_or(Ok(()), Err)?;
        let deciding = reports.iter().filter(|one| decides(one, &reports));
        let exits = deciding.filter_map(|one| conduct::exit_code(&one.report));
        match exits.min_by_key(|exit| *exit as u8) {
            Some(exit) => Err(Failure::said(exit)),
            None => Ok(()),
        }
    }

    /// Records the calls of --run and --control, each from what --setup has made.
    fn recorded_calls(&self) -> Result<Workload, Failure> {
        let calls = |name: &str, command: &str| {
            let (traced, died) = self.traced(name, command)?;
            Ok::<_, Failure>(Calls { recorded: traced.recorded, died, notes: traced.notes })
        };
        let run = calls("run", &self.args.title())?;
        let control = self.args.control.as_deref();
        let control = control.map(|command| calls("control", command)).transpose()?;
        Ok(Workload { run, control })
    }

    /// Runs --setup and records a command, in the directory of the test.
    pub(super) fn traced(
        &self,
        name: &str,
        command: &str,
    ) -> Result<(Traced, Option<String>), Failure> {
        let place = mount_point(&self.dir)?;
        empty(&place)?;
        self.set_up_directory(&place)?;
        let began = Instant::now();
        let log = self.path(&format!("{name}.log"));
        let run = TracedRun {
            place: &place,
            command,
            skips_syncs: self.args.syncs == Syncs::Skip,
            timeout: self.args.workload_timeout,
            stop: self.stop,
            log: &log,
        };
        let traced = run.record().map_err(untraced)?;
        let died = self.accept(name, &traced.tested, began)?;
        let path = self.path(&format!("{name}.calls"));
        // Calls of a file system of Seekless go with the disk that they are replayed on.
        let size = std::fs::metadata(self.path("base.img")).map_or(0, |base| base.len());
        store::write(&path, size, &traced.entries)
            .map_err(|error| Failure::from_message(Exit::Failed, &error.to_string()))?;
        Ok((traced, died))
    }

    /// Runs --setup in the directory.
    fn set_up_directory(&self, place: &Path) -> Outcome {
        if self.args.setup.trim().is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        let command = self.args.setup.replace(DIR, &quoted(&place.to_string_lossy()));
        let (patience, stop) = (self.args.workload_timeout, Arc::clone(self.stop));
        let checked = Check { command, patience, stop }.run(place, &[])?;
        let log = self.path("setup.log");
        std::fs::write(&log, &checked.output)?;
        let end = match checked.verdict {
            Verdict::Good => End::Exit(0),
            Verdict::Bad(code) | Verdict::Wavers(code) => End::Exit(code),
            Verdict::Hung => End::TimedOut,
            Verdict::Stopped => End::Stopped,
            Verdict::Failed(_) => End::Killed,
        };
        let ran = Ran { end, left: 0, unmounted: false, tail: checked.output };
        self.not_stopped()?;
        if !ran.is_good() {
            return Err(self.failed("--setup", &ran, &log));
        }
        self.note("--setup", &ran, began);
        Ok(())
    }

    /// Tries a model.
    fn under_model(&self, model: Model, workload: &Workload) -> Result<Examined, Failure> {
        let of = |calls: &Calls| {
            Session::of_calls(Arc::new(Modelled::new(Arc::clone(&calls.recorded), model)))
        };
        let session = of(&workload.run);
        let control = workload.control.as_ref().map(of);
        let subject = Subject {
            name: model.name,
            session: &session,
            died: workload.run.died.clone(),
            control: control.as_ref(),
        };
        self.examine_trees(&subject)
    }

    /// Sweeps a recording of calls.
    fn examine_trees(&self, subject: &Subject<'_>) -> Result<Examined, Failure> {
        let place = Place::new(Way::Copy, &self.dir)
            .map_err(|error| Failure::failed(format!("cannot present states: {error}")))?;
        let session = subject.session;
        let options = self.args.sweep.options(session, session.begin(), SectorSize::B4096)?;
        let checker = self.directories(session, options.workers)?;
        let bench = Bench { place: &place, checker: &checker, stop: self.stop };
        let control = match subject.control {
            Some(control) => {
                let checker = self.directories(control, options.workers)?;
                let bench = Bench { checker: &checker, ..bench };
                Some(self.control(control, bench, &options)?)
            }
            None => None,
        };
        let recording = self.path(&format!("{}.model", subject.name));
        let no_runs = |_: String| Err(Failure::failed("a tree needs no command to be copied"));
        let conduct = Conduct {
            args: &self.args.sweep,
            session,
            recording: &recording,
            bench,
            options,
            check: &self.args.check,
            title: self.args.title(),
            file_system: Some(format!("model of {}", subject.name)),
            runs: Some(&no_runs),
            again: &|state| self.again_under(subject.name, state),
            workload_died: subject.died.clone(),
            control,
        };
        match &self.args.state {
            None => conduct.examine(),
            Some(name) => {
                let bounds = self.args.sweep.bounds(SectorSize::B4096);
                let kept = KeptNames::of(&recording);
                let (epoch, state) = name.resolve(session.history(), &bounds, &kept)?;
                conduct.examine_one(&epoch, &state)
            }
        }
    }

    fn directories(&self, session: &Session, count: usize) -> Result<DirectoryChecker, Failure> {
        let options = SandboxOptions {
            // Even if the file of the program is replaced meanwhile.
            program: PathBuf::from("/proc/self/exe"),
            command: self.args.check.clone(),
            mount: None,
            isolation: self.args.sweep.isolation(),
            timeout: self.args.sweep.timeout,
            stop: Arc::clone(self.stop),
            dir: self.shown_in(),
            copies: None,
        };
        let calls = session.history().calls();
        let empty = calls.map(|calls| calls.whole().without_entries());
        let empty = empty.ok_or_else(|| Failure::failed("a recording of a disk has no trees"))?;
        DirectoryChecker::new(options, &self.path("copies"), count, &empty)
            .map_err(|error| Failure::failed(format!("cannot show states: {error}")))
    }

    /// The directory below which states are shown: that of the run, since software keeps absolute
    /// paths in its files. One that this user may not write is left alone.
    fn shown_in(&self) -> PathBuf {
        use rustix::fs::{Access, access};
        let earlier = self.args.calls.as_ref();
        let earlier = earlier.filter(|dir| access(dir.as_path(), Access::WRITE_OK).is_ok());
        earlier.unwrap_or(&self.dir).clone()
    }

    /// The command that checks a state again.
    fn again_under(&self, model: &str, state: &str) -> String {
        let dir = self.args.calls.as_ref().unwrap_or(&self.dir);
        format!(
            "seekless crash-test --calls {} --model {model}{} --state {} --check {}",
            quoted(&dir.display().to_string()),
            self.args.sweep.again(),
            quoted(state),
            quoted(&self.args.check)
        )
    }
}

/// Reads the calls that an earlier test has left in its directory.
fn earlier(dir: &Path) -> Result<Workload, Failure> {
    let read = |name: &str| {
        let path = dir.join(name);
        let unusable = |error: CallsError| Failure::from_message(Exit::Image, &error.to_string());
        let (_, entries) = store::read(&path).map_err(unusable)?;
        let recorded = Recorded::read(&entries).map_err(|error| {
            Failure::new(Exit::Image, format!("{}: {error}", path.display()))
                .hint("models judge recordings that crash-test --model has made")
        })?;
        Ok::<_, Failure>(Calls { recorded: Arc::new(recorded), died: None, notes: Vec::new() })
    };
    let has_control = dir.join("control.calls").exists();
    let control = has_control.then(|| read("control.calls")).transpose()?;
    Ok(Workload { run: read("run.calls")?, control })
}

/// A recording that cannot be trusted gives no verdict.
fn untraced(error: TraceError) -> Failure {
    let exit = match error {
        _ if error.is_of_machine() => Exit::Lacking,
        TraceError::Incomplete { .. } | TraceError::Unmodelled(_) => Exit::Check,
        TraceError::Tracer(_) | TraceError::Os { .. } => Exit::Failed,
    };
    let failure = Failure::from_message(exit, &error.to_string());
    if exit != Exit::Check {
        return failure;
    }
    say("seekless: there is no verdict on a recording that is not whole");
    failure
}
