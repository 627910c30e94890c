//! A sweep from its first question to its exit code.

use super::args::SweepArgs;
use super::output;
use super::trees::{self, Runs, cannot};
use crate::failure::{Exit, Failure, Outcome};
use crate::term::Progress as Line;
use seekless_crashtest::replay::workers::Bench;
use seekless_crashtest::report::{Group, Kind, Probe, Report};
use seekless_crashtest::session::Session;
use seekless_crashtest::states::history::Epoch;
use seekless_crashtest::states::names::KeptNames;
use seekless_crashtest::states::state::State;
use seekless_crashtest::sweep::example::{Effort, Found, groups};
use seekless_crashtest::sweep::probes::{Answer, Question};
use seekless_crashtest::sweep::results::{Results, Subject, files_of};
use seekless_crashtest::sweep::tell::{Told, states};
use seekless_crashtest::sweep::{Options, Progress, Sweep, Swept};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// States tried for one example at most.
const TRIES: usize = 300;
/// Groups whose examples are made small.
const MOST_SHRUNK: usize = 12;
/// Time for all examples.
const SHRINKING: Duration = Duration::from_secs(60);
/// Groups whose example is compared with a whole tree.
const MOST_COMPARED: usize = 4;
/// Groups whose writes are told in terms of files.
const MOST_PLACED: usize = 12;

/// What is swept, and what reports say of it.
pub struct Conduct<'c> {
    /// The arguments.
    pub args: &'c SweepArgs,
    /// The recording.
    pub session: &'c Session,
    /// Its path.
    pub recording: &'c Path,
    /// Where states are checked.
    pub bench: Bench<'c>,
    /// What is tried.
    pub options: Options,
    /// The check.
    pub check: &'c str,
    /// What is tested, in words.
    pub title: String,
    /// The file system, if there is one.
    pub file_system: Option<String>,
    /// Runs a command on the tree of a state; `None` without a file system.
    pub runs: Option<&'c Runs<'c>>,
    /// The command that checks a state again.
    pub again: &'c dyn Fn(&str) -> String,
    /// How the workload died, if it did.
    pub workload_died: Option<String>,
    /// The result of a control: whether the check failed on any of its states, as it must.
    pub control: Option<Probe>,
}

/// What a sweep came to.
pub struct Examined {
    /// What was found.
    pub report: Report,
    /// Why the check cannot be trusted, if so.
    pub distrust: Option<Failure>,
}

impl Conduct<'_> {
    fn sweep(&self) -> Sweep<'_> {
        Sweep { session: self.session, bench: self.bench, options: &self.options }
    }

    /// Asks whether the check can be trusted, tries all states and prints what was found.
    ///
    /// # Errors
    /// If the check cannot be trusted or cannot run.
    pub fn all(&self, out: &mut dyn Write) -> Result<Report, Failure> {
        let Examined { report, distrust } = self.examine()?;
        output::print(&report, self.args, out)?;
        distrust.map_or(Ok(report), Err)
    }

    /// The same without printing.
    ///
    /// # Errors
    /// If the recording has no write, or the check cannot run.
    pub fn examine(&self) -> Result<Examined, Failure> {
        if self.session.history().writes().is_empty() {
            return Err(Failure::new(
                Exit::Image,
                "the recording has no write: nothing can be lost",
            )
            .hint("did the workload write to the recorded disk?"));
        }
        let answers = self.sweep().probe().map_err(cannot)?;
        self.stopped(&answers)?;
        let wrong = answers.iter().find(|answer| !answer.is_right());
        if let Some(wrong) = wrong {
            return Ok(self.distrust(&answers, wrong));
        }
        let swept = self.sweep_all()?;
        let report = self.tell(&swept, &answers)?;
        Ok(Examined { report, distrust: None })
    }

    /// Checks one state and prints what was found.
    ///
    /// # Errors
    /// If it is bad, or the check cannot run.
    pub fn one(
        &self,
        epoch: &Epoch,
        state: &State,
        out: &mut dyn Write,
    ) -> Result<Report, Failure> {
        let report = self.examine_one(epoch, state)?.report;
        output::print(&report, self.args, out)?;
        Ok(report)
    }

    /// The same without printing.
    ///
    /// # Errors
    /// If the check cannot run.
    pub fn examine_one(&self, epoch: &Epoch, state: &State) -> Result<Examined, Failure> {
        let began = Instant::now();
        let row = self.sweep().only(epoch, state).map_err(cannot)?;
        let is_complete = row.tried.is_some();
        let rows = if is_complete { vec![row] } else { Vec::new() };
        let took = began.elapsed();
        let swept = Swept { rows, boundaries: 1, space: 1, share: 1, is_complete, took };
        let report = self.tell_of(&swept, &[], false)?;
        Ok(Examined { report, distrust: None })
    }

    /// A check that cannot be trusted: no state is tried.
    fn distrust(&self, answers: &[Answer], wrong: &Answer) -> Examined {
        let mut report = self.sweep().report(&Swept::default(), answers);
        self.label(&mut report);
        report.exit_code = Exit::Check as u8;
        let failure = Failure::from_message(Exit::Check, &wrong.complaint());
        Examined { report, distrust: Some(failure) }
    }

    fn sweep_all(&self) -> Result<Swept, Failure> {
        let mut results = self.results()?;
        let began = Instant::now();
        let mut line = Line::of_long_work();
        let mut shown = |progress: Progress| line.show(|| said(progress, began, self.args.budget));
        self.sweep().run(results.as_mut(), &mut shown).map_err(cannot)
    }

    /// The verdicts of earlier processes.
    fn results(&self) -> Result<Option<Results>, Failure> {
        let Some(dir) = &self.args.results else { return Ok(None) };
        let subject = Subject {
            tape: self.session.fingerprint().map_err(|error| cannot(error.into()))?,
            check: self.check.to_owned(),
            files: files_of(self.check),
            file_system: self.file_system.clone(),
            acknowledgements: self.options.acknowledgements,
        };
        let shard = self.options.shard;
        let name = format!("shard-{}-of-{}", shard.index, shard.count);
        let results = Results::open(dir, &name, &subject);
        results.map(Some).map_err(|error| cannot(error.into()))
    }

    fn tell(&self, swept: &Swept, answers: &[Answer]) -> Result<Report, Failure> {
        self.tell_of(swept, answers, true)
    }

    fn tell_of(
        &self,
        swept: &Swept,
        answers: &[Answer],
        is_shrunk: bool,
    ) -> Result<Report, Failure> {
        let sweep = self.sweep();
        let (mut found, of_rows) = groups(&swept.rows);
        if is_shrunk {
            self.shrink(&sweep, &mut found)?;
        }
        let places = self.places(&sweep, &found);
        let mut report = sweep.report(swept, answers);
        report.groups = found.iter().map(|one| sweep.group(one, &places, self.again)).collect();
        self.compare(&sweep, &found, &mut report.groups)?;
        report.states = states(&swept.rows, &of_rows);
        report.sort_groups();
        self.label(&mut report);
        self.keep_names(&report.groups)?;
        report.exit_code = exit_code(&report).map_or(0, |exit| exit as u8);
        Ok(report)
    }

    /// Makes examples small, those of the worst kinds first.
    fn shrink(&self, sweep: &Sweep<'_>, found: &mut [Found]) -> Outcome {
        let mut order: Vec<usize> = (0..found.len()).collect();
        order.sort_by_key(|&at| (found[at].tried.kind, std::cmp::Reverse(found[at].states)));
        let until = Instant::now() + SHRINKING;
        let mut line = Line::of_long_work();
        for (done, at) in order.into_iter().take(MOST_SHRUNK).enumerate() {
            let count = found.len().min(MOST_SHRUNK);
            line.show(|| format!("seekless: making example {} of {count} small", done + 1));
            sweep.shrink(&mut found[at], Effort { tries: TRIES, until }).map_err(cannot)?;
        }
        Ok(())
    }

    /// What the file system has at the places that the examples wrote. The end of the recording
    /// has the names that a reader knows.
    fn places(&self, sweep: &Sweep<'_>, found: &[Found]) -> Told {
        let told = &found[..found.len().min(MOST_PLACED)];
        if self.file_system.is_none() || told.is_empty() {
            return Told::new();
        }
        let put = |disk| self.bench.place.put(Arc::new(disk), self.bench.stop);
        let placed: io::Result<Vec<_>> = sweep.end_state().disks().into_iter().map(put).collect();
        let Ok(placed) = placed else { return Told::new() };
        let paths: Vec<&Path> = placed.iter().map(|one| one.path()).collect();
        sweep.places(told, self.file_system.as_deref(), &paths)
    }

    /// Says of the worst examples what their trees lack.
    fn compare(&self, sweep: &Sweep<'_>, found: &[Found], groups: &mut [Group]) -> Outcome {
        let Some(runs) = self.runs else { return Ok(()) };
        let is_bad = |kind: Kind| matches!(kind, Kind::Broken | Kind::Lost);
        let mut order: Vec<usize> =
            (0..found.len()).filter(|&at| is_bad(found[at].tried.kind)).collect();
        order.sort_by_key(|&at| (found[at].tried.kind, std::cmp::Reverse(found[at].states)));
        for at in order.into_iter().take(MOST_COMPARED) {
            if self.bench.stop.asked().is_none() {
                groups[at].example.missing = trees::missing(sweep, &found[at], runs)?;
            }
        }
        Ok(())
    }

    /// What only the command knows.
    fn label(&self, report: &mut Report) {
        report.title.clone_from(&self.title);
        report.file_system.clone_from(&self.file_system);
        report.probes.extend(self.control.clone());
        let shared = self.bench.checker.shared().iter();
        report.warnings.extend(shared.map(|what| {
            format!(
                "checks share this with the machine, and could disturb each other by it: {what}"
            )
        }));
        report.workload_died.clone_from(&self.workload_died);
        if let Some(death) = &self.workload_died {
            report.warnings.push(format!(
                "--run died: {death}; what it wrote and acknowledged before that was tried"
            ));
        }
        report.ended_by = self.bench.stop.asked().map(|signal| match signal {
            1 => "SIGHUP".to_owned(),
            2 => "SIGINT".to_owned(),
            15 => "SIGTERM".to_owned(),
            other => format!("signal {other}"),
        });
        let is_asked = |answer: &Probe| answer.name == Question::MissingData.name();
        let is_tested = report.probes.iter().any(|one| is_asked(one) || one.name == "control");
        if !is_tested && !report.states.is_empty() {
            report.warnings.push(
                "nothing shows that the check can fail; acknowledgements or a control would"
                    .to_owned(),
            );
        }
    }

    /// Lets later commands find the examples by their short names.
    fn keep_names(&self, groups: &[Group]) -> Outcome {
        let kept = KeptNames::of(self.recording);
        for name in groups.iter().filter_map(|group| group.example.name.parse().ok()) {
            kept.keep(&name)?;
        }
        Ok(())
    }

    fn stopped(&self, answers: &[Answer]) -> Outcome {
        match (answers.iter().any(Answer::is_stopped), self.bench.stop.asked()) {
            (true, Some(signal)) => {
                let cause = format!("ended by signal {signal} before the first state");
                Err(Failure::new(Exit::by_signal(signal), cause))
            }
            _ => Ok(()),
        }
    }
}

/// How a report ends the command; `None` for success.
pub fn exit_code(report: &Report) -> Option<Exit> {
    let coverage = &report.coverage;
    let is_wrong = |probe: &Probe| probe.passed != probe.expected;
    match () {
        () if coverage.lost + coverage.broken > 0 => Some(Exit::Failed),
        () if report.probes.iter().any(is_wrong) => Some(Exit::Check),
        () if coverage.wavers + coverage.failed + coverage.hung > 0 => Some(Exit::Check),
        () if report.workload_died.is_some() => Some(Exit::Check),
        () if !coverage.is_enough() => Some(Exit::Partial),
        () => None,
    }
}

/// The counts of a kind, for a control: true if a state was not good.
pub fn is_red(swept: &Swept) -> bool {
    swept.count(Kind::Lost) + swept.count(Kind::Broken) > 0
}

/// A progress line.
fn said(progress: Progress, began: Instant, budget: Option<Duration>) -> String {
    let Progress { done, space, bad } = progress;
    let elapsed = began.elapsed().as_secs_f64();
    let rest = elapsed / done.max(1) as f64 * space.saturating_sub(done) as f64;
    let left = budget.map_or(rest, |budget| rest.min(budget.as_secs_f64() - elapsed)).max(0.0);
    format!("seekless: {done} of {space} states, {bad} bad, {left:.0} s left")
}
