//! `seekless crash-test`: makes a disk, records a workload on it, and checks every crash.

mod choice;
mod models;
mod policies;
mod work_dir;

use crate::failure::{Exit, Failure, Outcome};
use crate::sweeping::args::{SweepArgs, duration};
use crate::sweeping::conduct::{self, Conduct, Examined};
use crate::sweeping::output;
use crate::sweeping::trees::{self, Runs};
use crate::term::say;
use choice::Means;
use seekless_calls::model::Model;
use seekless_crashtest::file_system::{BLOCK, Choice, FileSystem};
use seekless_crashtest::own;
use seekless_crashtest::own::check::Shown;
use seekless_crashtest::preflight;
use seekless_crashtest::record::Recorded;
use seekless_crashtest::replay::check::{Checker, DEVICE, quoted};
use seekless_crashtest::replay::mount::{Place, Way};
use seekless_crashtest::replay::stop::Stop;
use seekless_crashtest::replay::workers::Bench;
use seekless_crashtest::report::{Probe, Report};
use seekless_crashtest::sandbox::point::Point;
use seekless_crashtest::sandbox::pool::{DIR, DIR2};
use seekless_crashtest::sandbox::process::Isolation;
use seekless_crashtest::sandbox::{self, SandboxOptions};
use seekless_crashtest::session::{Load, Session};
use seekless_crashtest::states::names::StateRef;
use seekless_crashtest::states::state::SectorSize;
use seekless_crashtest::sweep::{Options, Sweep};
use seekless_crashtest::workload::record::{Run, RunError, Tested, record};
use seekless_crashtest::workload::{End, Ran, SetUp, SetUpError, set_up};
use seekless_engine::size::Size;
use std::io::Write;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use work_dir::WorkDir;

/// Arguments of `seekless crash-test`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless crash-test --setup './make-db {dir}' --run './insert {dir}' --check './verify {dir}'
  seekless crash-test --fs xfs --run './insert {dir}' --check './verify {dir}' --html report.html
  seekless crash-test --fs seekless:ffs:all --run './insert {dir}' --check './verify {dir}'
  seekless crash-test --model ext4,xfs --run './insert {dir}' --check './verify {dir}'
  seekless crash-test --fs raw --size 16M --run './write {device}' --check './verify {device}'
  seekless crash-test --dir2 --run './insert {dir} --log {dir2}' --check './verify {dir} {dir2}'
  seekless crash-test --run './insert {dir}' --control './insert --no-fsync {dir}' \\
      --check './verify {dir}' --budget 60s

The commands run in a shell. {dir} becomes the directory where the disk is mounted, {device} with
--fs raw the disk. --setup makes what the workload needs; it is not part of the test. What --run
writes is recorded. Whenever your software acknowledges something, such as a committed row, let
the workload say so: `seekless ack VALUE`, or append a line to the file $SEEKLESS_ACKS. --check is
run on every state in which a power cut could have left the disk. It finds in SEEKLESS_ACKED the
last value that was acknowledged before the cut (or nothing), in SEEKLESS_ACKED_COUNT how many
were, in the file SEEKLESS_ACKED_FILE all of them: what they promise must be there. With several
writers only the file tells what each was promised (see `seekless ack --as`). Exit code 0 says that
the state is good; 126, 127 and a death by a signal (129 to 192) are failures of the check itself;
all others say that the state is bad.

With --fs this needs root and FUSE, with a file system of the kernel also loop devices. Nothing is
seen outside: mounts are in a namespace of their own. --model needs neither: it records the system
calls of --run in a plain directory, and tries what they may leave on ext4 and XFS. Without --fs and
--model, a disk with ext4 is used where that is possible, else models.

Exit codes: 0 all states are good; 1 data is lost or broken; 3 nothing was written or acknowledged;
6 --setup, --run or --check failed for its own reasons, or the check cannot be trusted (if --run
died by a signal, what it did before is tried, and bad states count); 7 the
machine lacks something; 8 no state is bad, but --budget ended before all were tried; 129, 130 and
143 it was ended by SIGHUP, SIGINT or SIGTERM.")]
pub struct Args {
    /// The file system: ext4, xfs, btrfs, f2fs, raw for none, or seekless:ffs:POLICY for one of
    /// Seekless; with `all` as POLICY, one run is tried under every policy.
    /// [default: ext4; without root the system calls of --run are recorded, see --model]
    #[arg(long, value_name = "KIND")]
    fs: Option<Choice>,
    /// Record the system calls of --run in a plain directory, and try what a power cut may leave on
    /// these file systems by models of them: ext4, xfs, btrfs, posix. Named file systems decide;
    /// posix says whether --run relies on more than POSIX promises. Needs no root.
    #[arg(long, value_name = "MODELS", value_delimiter = ',', value_parser = choice::models())]
    #[arg(conflicts_with_all = ["fs", "size", "mkfs_options", "dir2", "pause"])]
    model: Vec<Model>,
    /// How --run is recorded: block (a disk, needs root), fuse (calls to seekless:ffs:all, needs
    /// root) or ptrace (system calls) [default: what --fs or --model needs].
    #[arg(long, value_name = "RECORDER")]
    recorder: Option<choice::Recorder>,
    /// With --model: skip answers the syncs of --run without carrying them out. They are recorded
    /// all the same, so no state differs, and a slow disk does not slow --run.
    #[arg(long, value_name = "real|skip", default_value = "real")]
    syncs: choice::Syncs,
    /// With seekless:ffs:all: replay the run a second time, with so much virtual time behind each
    /// change. 31s lets the file system write everything back between two calls.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pause: Duration,
    /// Size of the disk [default: 256M, or the least that the file system takes].
    #[arg(long, value_name = "SIZE")]
    size: Option<Size>,
    /// With a file system of the kernel: more arguments of its `mkfs`, separated by spaces.
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    mkfs_options: Option<String>,
    /// A second disk with the same file system and size, such as for a log: {dir2} in commands.
    /// Each disk loses what its own flushes do not cover.
    #[arg(long, conflicts_with = "calls")]
    dir2: bool,
    /// Command that prepares the disk, before anything is recorded.
    #[arg(long, value_name = "COMMAND", default_value = "")]
    setup: String,
    /// Command that is recorded.
    #[arg(long, value_name = "COMMAND", required_unless_present = "calls")]
    run: Option<String>,
    /// With seekless:ffs:all or --model: the calls that an earlier test left in this directory, in
    /// place of --setup, --run and --control.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["run", "setup", "control", "size"])]
    calls: Option<PathBuf>,
    /// With --model and --calls: try only this state, named as in a report.
    #[arg(long, value_name = "STATE", requires = "calls", requires = "model")]
    state: Option<StateRef>,
    /// Command that checks a state; must contain {dir}, or {device} with --fs raw.
    #[arg(long, value_name = "COMMAND")]
    check: String,
    /// The workload with its flushes left out: the check must find a bad state of it.
    #[arg(long, value_name = "COMMAND")]
    control: Option<String>,
    /// Time limit of --setup, --run and --control each.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    workload_timeout: Duration,
    /// The options of the sweep.
    #[command(flatten)]
    sweep: SweepArgs,
    /// Keep the recording and the logs in this new directory [default: a temporary one, which stays
    /// if a state is not good].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Args {
    /// The file system of the disk.
    fn fs(&self) -> Choice {
        self.fs.unwrap_or_default()
    }

    /// What stands for the disk in commands.
    fn place(&self) -> &'static str {
        if self.fs().for_workload() == FileSystem::Raw { DEVICE } else { DIR }
    }

    /// What is tested, in words.
    fn title(&self) -> String {
        match (&self.run, &self.calls) {
            (Some(command), _) => command.clone(),
            (None, Some(dir)) => format!("calls of {}", dir.display()),
            (None, None) => String::new(),
        }
    }

    /// The options of a run, which the file system is one of.
    fn refuse_impossible(&self) -> Outcome {
        self.sweep.validate()?;
        if self.sweep.shard.is_some() || self.sweep.results.is_some() {
            return Err(Failure::usage(
                "--shard and --results share one recording, this makes a new one",
            )
            .hint(
                "keep it with --dir DIR, then give them to `seekless replay-crashes DIR/run.tape`",
            ));
        }
        if !self.pause.is_zero() && !matches!(self.fs(), Choice::EveryPolicy(_)) {
            return Err(Failure::usage(
                "--pause passes virtual time, which this file system has not",
            )
            .hint("give --fs seekless:ffs:all"));
        }
        self.refuse_second()?;
        let fs = Some(self.fs().for_workload()).filter(|fs| *fs != FileSystem::Raw);
        self.sweep.refuse_mount_options(fs)?;
        if self.mkfs_options.is_some() && fs.is_none_or(|fs| fs.policy().is_some()) {
            return Err(Failure::usage("--mkfs-options: no mkfs runs for this file system")
                .hint("give --fs ext4, xfs, btrfs or f2fs"));
        }
        super::replay_crashes::names_a_state(&self.check, fs)
    }
}

impl Args {
    /// A second disk needs a file system, and a recording of blocks. Its directory must be used.
    fn refuse_second(&self) -> Outcome {
        if !self.dir2 {
            let names_it = |command: &String| command.contains(DIR2);
            let run = self.run.iter().chain(&self.control);
            return match run.chain([&self.setup, &self.check]).any(names_it) {
                true => Err(Failure::usage(format!("{DIR2} is no directory: there is one disk"))
                    .hint("give --dir2")),
                false => Ok(()),
            };
        }
        match self.fs() {
            Choice::EveryPolicy(_) => {
                Err(Failure::usage("--dir2: calls are replayed on one disk only")
                    .hint("name one policy, as in --fs seekless:ffs:soft"))
            }
            Choice::One(FileSystem::Raw) => {
                Err(Failure::usage("--dir2 needs a file system").hint("leave out --fs raw"))
            }
            Choice::One(_) if !self.check.contains(DIR2) => {
                Err(Failure::usage(format!("--check does not contain {DIR2}"))
                    .hint("it would not see the second disk"))
            }
            Choice::One(_) => Ok(()),
        }
    }
}

/// Size of the disk unless the file system needs more.
const SIZE_BYTES: u64 = 256 << 20;

/// Runs a crash test.
///
/// # Errors
/// If a state is bad, or there is no verdict.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    args.refuse_impossible()?;
    let means = choice::choose(args)?;
    if let Means::Models(models) = &means {
        return traced(args, out, |test, out| test.under_models(models, out));
    }
    if let Means::Policies(kind) = means {
        let size = args.size.map_or(SIZE_BYTES, |size| size.bytes());
        return traced(args, out, |test, out| test.every_policy(kind, size, out));
    }
    let fs = args.fs().for_workload();
    // Those of an earlier test have the size of its disk.
    let size = args.size.map_or(SIZE_BYTES.max(fs.smallest()), |size| size.bytes());
    fs.fits(size).map_err(|error| Failure::from_message(Exit::Usage, &error.to_string()))?;
    let ready = preflight::look(fs).map_err(|missing| choice::lacking(fs, &missing))?;
    isolate()?;
    let stop = Stop::on_signals()?;
    let mut dir = WorkDir::new(args.dir.as_deref())?;
    let test = Test { args, fs, dir: dir.path().to_owned(), stop: &stop, is_traced: false };
    say(&format!("seekless: {} on {}: {}", args.fs(), Size::from_blocks(size / BLOCK), ready.way));
    let outcome = match args.fs() {
        Choice::One(_) => test.whole(size, out),
        Choice::EveryPolicy(kind) => test.every_policy(kind, size, out),
    };
    let outcome = outcome.map_err(|failure| test.or_by_signal(failure));
    test.tidy();
    test.leave(&mut dir, outcome)
}

/// The same with system calls in place of a disk.
fn traced(
    args: &Args,
    out: &mut dyn Write,
    work: impl FnOnce(&Test<'_>, &mut dyn Write) -> Outcome,
) -> Outcome {
    let stop = Stop::on_signals()?;
    let mut dir = WorkDir::new(args.dir.as_deref())?;
    let fs = args.fs().for_workload();
    let test = Test { args, fs, dir: dir.path().to_owned(), stop: &stop, is_traced: true };
    let outcome = work(&test, out).map_err(|failure| test.or_by_signal(failure));
    test.tidy_copies();
    test.leave(&mut dir, outcome)
}

/// Gives this process mounts of its own. To be called before it has threads.
///
/// # Errors
/// Without root rights.
pub fn isolate() -> Outcome {
    sandbox::enter_private_namespace().map_err(|error| {
        Failure::new(Exit::Lacking, format!("no mount namespace of its own: {error}"))
            .hint("run it as root; in a container with --privileged")
    })
}

/// What is swept.
struct Subject<'s> {
    /// The name of its recording.
    name: &'s str,
    /// The recording.
    session: &'s Session,
    /// How the workload died, if it did.
    died: Option<String>,
    /// That of the control.
    control: Option<&'s Session>,
}

#[derive(Clone)]
struct Test<'t> {
    args: &'t Args,
    /// The file system.
    fs: FileSystem,
    dir: PathBuf,
    stop: &'t Arc<Stop>,
    /// System calls are recorded, there is no disk.
    is_traced: bool,
}

impl Test<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Everything from the empty disk to the verdict.
    fn whole(&self, size: u64, out: &mut dyn Write) -> Outcome {
        self.make(size)?;
        let (session, died) = self.recorded("run", &self.args.title())?;
        self.refuse_silence(session.history().marks().len(), died.as_deref())?;
        let control = self.args.control.as_deref();
        let control = control.map(|command| self.recorded("control", command)).transpose()?;
        let control = control.as_ref().map(|(session, _)| session);
        let subject = Subject { name: "run", session: &session, died, control };
        let Examined { report, distrust } = self.examine(&subject)?;
        output::print(&report, &self.args.sweep, out)?;
        distrust.map_or(Ok(()), Err)?;
        verdict(self.stop, &report)
    }

    /// Refuses a workload that has acknowledged nothing.
    fn refuse_silence(&self, marks: usize, died: Option<&str>) -> Outcome {
        if self.args.sweep.consistency_only || marks > 0 {
            return Ok(());
        }
        if let Some(death) = died {
            let cause = format!("--run died before it acknowledged anything: {death}");
            return Err(Failure::new(Exit::Check, cause)
                .hint(format!("its whole output is in {}", self.path("run.log").display())));
        }
        let cause = "the workload acknowledged nothing: no check would know what must be there";
        Err(Failure::new(Exit::Image, cause)
            .hint("let it append lines to the file $SEEKLESS_ACKS, or give --consistency-only"))
    }

    /// Sweeps a recording.
    fn examine(&self, subject: &Subject<'_>) -> Result<Examined, Failure> {
        let way = if self.is_traced { Way::Copy } else { Way::Fuse };
        let place = Place::new(way, &self.dir)
            .map_err(|error| Failure::failed(format!("cannot present states as files: {error}")))?;
        let session = subject.session;
        let options = self.args.sweep.options(session, session.begin(), self.sector())?;
        let isolation = self.args.sweep.isolation();
        let checker = self.checker(self.args.check.clone(), isolation, options.workers)?;
        // Copies of trees go to directories of the machine.
        let runs = |command| self.checker(command, Isolation::Processes, 1);
        let bench = Bench { place: &place, checker: &*checker, stop: self.stop };
        let control = subject.control.map(|control| self.control(control, bench, &options));
        let control = control.transpose()?;
        let name = format!("{}.tape", subject.name);
        let recording = self.path(&name);
        let conduct = Conduct {
            args: &self.args.sweep,
            session,
            recording: &recording,
            bench,
            options,
            check: &self.args.check,
            title: self.args.title(),
            file_system: Some(self.fs).filter(|fs| *fs != FileSystem::Raw).map(|fs| fs.to_string()),
            runs: Some(&runs).filter(|_| self.fs != FileSystem::Raw).map(|runs| runs as &Runs<'_>),
            again: &|state| self.again(&name, state),
            workload_died: subject.died.clone(),
            control,
        };
        conduct.examine()
    }

    /// The disk with its file system and what --setup does.
    fn make(&self, size: u64) -> Outcome {
        let began = Instant::now();
        let (base, log) = (self.path("base.img"), self.path("setup.log"));
        let second = self.args.dir2.then(|| self.path("base2.img"));
        let more = self.args.mkfs_options.as_deref().unwrap_or_default();
        let more: Vec<&str> = more.split_whitespace().collect();
        for image in [Some(&base), second.as_ref()].into_iter().flatten() {
            std::fs::File::create_new(image)
                .and_then(|file| file.set_len(size))
                .map_err(|error| Failure::failed(format!("{}: {error}", image.display())))?;
            self.args
                .fs()
                .to_make()
                .make_with(image, &more)
                .map_err(|error| Failure::from_message(Exit::Failed, &error.to_string()))?;
        }
        if self.is_traced {
            // It runs in the directory that is recorded.
            return Ok(());
        }
        let how = SetUp {
            fs: self.fs,
            image: &base,
            second: second.as_deref(),
            dir: &self.dir,
            mount_options: self.mount_options(),
            command: &self.args.setup,
            variables: &[],
            timeout: self.args.workload_timeout,
            stop: self.stop,
            log: &log,
        };
        match set_up(how) {
            Ok(Some(ran)) => self.note("--setup", &ran, began),
            Ok(None) => {}
            Err(SetUpError::Command(ran)) => return Err(self.failed("--setup", &ran, &log)),
            Err(other) => return Err(Failure::from_message(Exit::Failed, &other.to_string())),
        }
        if let Some(second) = second {
            // A recording of two disks has one base: what both held, one behind the other.
            append(&second, &base)
                .and_then(|()| std::fs::remove_file(&second))
                .map_err(|error| Failure::failed(format!("{}: {error}", base.display())))?;
        }
        self.not_stopped()
    }

    /// Where the second disk begins in the base.
    fn second(&self, base: &Path) -> Option<u64> {
        let size = self.args.dir2.then(|| std::fs::metadata(base)).and_then(Result::ok);
        size.map(|both| both.len() / 2)
    }

    /// A command that is recorded from a base to a tape.
    fn run_of<'a>(&'a self, command: &'a str, [base, tape, log]: [&'a Path; 3]) -> Run<'a> {
        Run {
            fs: self.fs,
            base,
            second: self.second(base),
            tape,
            dir: &self.dir,
            mount_options: self.mount_options(),
            command,
            timeout: self.args.workload_timeout,
            stop: self.stop,
            log,
        }
    }

    /// Records a workload and reads the recording; tells how the workload died, if it did.
    fn recorded(&self, name: &str, command: &str) -> Result<(Session, Option<String>), Failure> {
        let began = Instant::now();
        let (base, tape) = (self.path("base.img"), self.path(&format!("{name}.tape")));
        let log = self.path(&format!("{name}.log"));
        let run = self.run_of(command, [&base, &tape, &log]);
        let tested = record(run)
            .map_err(|error: RunError| Failure::from_message(Exit::Failed, &error.to_string()))?;
        let died = self.accept(name, &tested, began)?;
        Ok((Load { recording: &tape, base: Some(&base) }.session()?, died))
    }

    /// Tells how a workload went; refuses one that failed or wrote nothing. One that died by a
    /// signal may have shown a loss before: how it died is returned.
    fn accept(
        &self,
        name: &str,
        tested: &Tested,
        began: Instant,
    ) -> Result<Option<String>, Failure> {
        let (ran, log) = (&tested.ran, self.path(&format!("{name}.log")));
        self.not_stopped()?;
        let died = ran.died_of().filter(|_| tested.writes > 0).map(|_| ran.to_string());
        if !ran.is_good() && died.is_none() {
            return Err(self.failed(&format!("--{name}"), ran, &log));
        }
        self.note(&format!("--{name}"), ran, began);
        if died.is_some() {
            say(&format!(
                "seekless: --{name} died; what it wrote until then is tried. It said:\n  {}",
                ran.tail.trim_end().replace('\n', "\n  ")
            ));
        }
        if tested.writes == 0 {
            let cause = format!("--{name} wrote nothing to the disk: nothing can be lost");
            return Err(Failure::new(Exit::Image, cause).hint(format!(
                "did it write to {}? its output is in {}",
                self.args.place(),
                log.display()
            )));
        }
        let Recorded { requests, marks, .. } = tested.recorded;
        let noun = match self.args.fs() {
            Choice::One(_) if !self.is_traced => "requests",
            Choice::One(_) | Choice::EveryPolicy(_) => "calls",
        };
        say(&format!("seekless: {requests} {noun} and {marks} acknowledgements recorded"));
        Ok(died)
    }

    /// Whether the check finds a bad state of the workload without flushes.
    fn control(
        &self,
        session: &Session,
        bench: Bench<'_>,
        options: &Options,
    ) -> Result<Probe, Failure> {
        let options = Options {
            begin: session.begin(),
            fail_fast: true,
            shard: seekless_crashtest::sweep::Shard::WHOLE,
            // Telling states first.
            budget: Some(options.budget.unwrap_or(Duration::from_secs(600))),
            ..options.clone()
        };
        let sweep = Sweep { session, bench, options: &options };
        let swept = sweep.run(None, &mut |_| {}).map_err(trees::cannot)?;
        self.not_stopped()?;
        let output = format!("{} states of the control were tried\n", swept.rows.len());
        let (name, passed) = ("control".to_owned(), !conduct::is_red(&swept));
        Ok(Probe { name, passed, expected: false, output })
    }

    fn checker(
        &self,
        command: String,
        isolation: Isolation,
        count: usize,
    ) -> Result<Box<dyn Checker>, Failure> {
        let options = SandboxOptions {
            // Even if the file of the program is replaced meanwhile.
            program: PathBuf::from("/proc/self/exe"),
            command,
            mount: self.args.sweep.mounting(self.fs.for_checks()),
            isolation,
            timeout: self.args.sweep.timeout,
            stop: Arc::clone(self.stop),
            dir: self.dir.clone(),
            copies: None,
        };
        let shown = if self.is_traced { Shown::Copied } else { Shown::Mounted };
        own::check::checker(self.fs, options, count, shown).map_err(|error| {
            Failure::from_message(Exit::Lacking, &format!("cannot isolate checks: {error}"))
        })
    }

    fn mount_options(&self) -> &str {
        self.args.sweep.mount_options.as_deref().unwrap_or_default()
    }

    fn sector(&self) -> SectorSize {
        match self.fs {
            FileSystem::Raw => SectorSize::B512,
            _ => SectorSize::B4096,
        }
    }

    /// The command that checks a state again.
    fn again(&self, recording: &str, state: &str) -> String {
        let path = |name: &str| quoted(&self.path(name).display().to_string());
        let fs = match self.fs {
            FileSystem::Raw => String::new(),
            fs => format!(" --fs {fs}"),
        };
        format!(
            "seekless replay-crashes {} --base {}{fs}{} --state {} --check {}",
            path(recording),
            path("base.img"),
            self.args.sweep.again(),
            quoted(state),
            quoted(&self.args.check)
        )
    }

    /// Removes mount points: what stays is for people.
    fn tidy(&self) {
        // Unless another process replays the recording already.
        let _ = Point::new(&self.dir);
        let _ = std::fs::remove_dir(self.path("disks"));
        let _ = std::fs::remove_file(self.path("disk.img"));
    }

    /// Removes the copies of states, and the mount points.
    fn tidy_copies(&self) {
        let _ = seekless_crashtest::directory::steps::empty(&self.path("copies"));
        let _ = std::fs::remove_dir(self.path("copies"));
        self.tidy();
    }

    /// Leaves the directory of the test if someone may want to look at it.
    fn leave(&self, dir: &mut WorkDir, outcome: Outcome) -> Outcome {
        // A signal before the recording leaves nothing that anyone would look at.
        let is_of_no_use =
            outcome.is_ok() || (self.stop.asked().is_some() && !self.has_recording());
        if is_of_no_use && self.args.dir.is_none() {
            dir.remove();
        } else {
            say(&format!("seekless: the recording and the logs are in {}", dir.path().display()));
        }
        outcome
    }

    fn note(&self, what: &str, ran: &Ran, began: Instant) {
        let took = began.elapsed().as_secs_f64();
        say(&format!("seekless: {what} took {took:.1} s: {ran}"));
    }

    fn has_recording(&self) -> bool {
        ["run.tape", "run.calls"].into_iter().any(|name| self.path(name).exists())
    }

    /// The failure, unless it is a consequence of the signal that ended the test: programs such as
    /// `mkfs` get the signals of a terminal, too.
    fn or_by_signal(&self, failure: Failure) -> Failure {
        match self.stop.asked() {
            Some(signal) if failure.exit != Exit::by_signal(signal) => by_signal(signal),
            _ => failure,
        }
    }

    fn failed(&self, what: &str, ran: &Ran, log: &Path) -> Failure {
        let said = match ran.tail.trim_end() {
            "" => String::new(),
            tail => format!("; it said:\n  {}", tail.replace('\n', "\n  ")),
        };
        let remedy = match ran.end {
            End::TimedOut => "--workload-timeout allows more; ",
            _ => "",
        };
        Failure::new(Exit::Check, format!("{what} failed: {ran}{said}"))
            .hint(format!("{remedy}its whole output is in {}", log.display()))
    }

    fn not_stopped(&self) -> Outcome {
        self.stop.asked().map_or(Ok(()), |signal| Err(by_signal(signal)))
    }
}

/// Writes an image behind the end of another one, sparse where it is zero.
fn append(from: &Path, to: &Path) -> std::io::Result<()> {
    let image = own::run::image_of(from)?;
    let file = std::fs::File::options().write(true).open(to)?;
    let begin = file.metadata()?.len();
    file.set_len(begin + image.size())?;
    let mut done = Ok(());
    image.each_chunk(&mut |at, bytes| {
        if done.is_ok() {
            done = file.write_all_at(bytes, begin + at);
        }
    })?;
    done
}

fn by_signal(signal: i32) -> Failure {
    let cause = format!("ended by signal {signal} before the first state");
    Failure::new(Exit::by_signal(signal), cause)
}

fn verdict(stop: &Stop, report: &Report) -> Outcome {
    super::replay_crashes::ended(stop, report)?;
    match conduct::exit_code(report) {
        Some(exit) => Err(Failure::said(exit)),
        None => Ok(()),
    }
}
