//! `seekless replay-crashes`: checks every crash state of a recorded device.

use crate::failure::{Exit, Failure, Outcome, worth_going_on};
use crate::sweeping::args::SweepArgs;
use crate::sweeping::conduct::Conduct;
use crate::sweeping::trees::{self, Runs};
use clap::ArgGroup;
use seekless_crashtest::file_system::FileSystem;
use seekless_crashtest::own;
use seekless_crashtest::own::check::Shown;
use seekless_crashtest::replay::check::{Check, Checker, DEVICE, quoted};
use seekless_crashtest::replay::image::Image;
use seekless_crashtest::replay::mount::{Place, Way};
use seekless_crashtest::replay::stop::Stop;
use seekless_crashtest::replay::workers::Bench;
use seekless_crashtest::report::{Kind, Report};
use seekless_crashtest::sandbox::SandboxOptions;
use seekless_crashtest::sandbox::process::Isolation;
use seekless_crashtest::session::{CrashImage, Load, LoadError, Session};
use seekless_crashtest::states::history::Epoch;
use seekless_crashtest::states::names::{KeptNames, StateRef};
use seekless_crashtest::states::state::{BadState, SectorSize, State};
use seekless_crashtest::states::story::story;
use seekless_serve::server::{Listen, serve_state};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `seekless replay-crashes`.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("purpose").required(true).multiple(true)
    .args(["check", "open", "keep"]))]
#[command(after_help = "\
Examples:
  seekless replay-crashes run.tape --base before.raw --check 'e2fsck -fy {device}'
  seekless replay-crashes run.tape --fs ext4 --base before.raw --check './my-check {dir}' --json
  seekless replay-crashes run.tape --check './my-check {device}' --budget 60s --junit report.xml
  seekless replay-crashes run.tape --state 812:keep,45=lost --check './my-check {device}'
  seekless replay-crashes run.tape --state 812:keep,45=lost --keep bad.raw
  seekless replay-crashes run.tape --open 812:keep,45=lost --socket /tmp/state.sock

The check runs in a shell; {device} becomes the path of a file that holds a state, and with --fs
{dir} the directory where it is mounted. It may write there: every check has a state of its own.
Exit code 0 says that the state is good; 126, 127, a death by a signal (as shells tell it: 129 to
192) and a check that takes too long are its own failures, reported apart; all other exit codes say
that the state is bad. It finds in its environment SEEKLESS_ACKED (the last value that was
acknowledged before the power went, or nothing), SEEKLESS_ACKED_COUNT (how many were),
SEEKLESS_ACKED_FILE (a file with all of them, a line each, in order) and SEEKLESS_STATE (the name of
the state).

Exit codes: 0 all states are good; 1 data is lost or broken; 3 the recording cannot be used, or is
good as far as it goes but was cut short (see --cut-short); 6 the check fails on an undamaged disk,
cannot fail, or failed for its own reasons; 8 no state is bad, but --budget ended before all were
tried; 129, 130 and 143 it was ended by SIGHUP, SIGINT or SIGTERM, and told what it had found.")]
pub struct Args {
    /// The recording, made by `seekless record` or `seekless crash-test`.
    recording: PathBuf,
    /// Content of the export at the start of the recording [default: zeros].
    #[arg(long, value_name = "IMAGE")]
    base: Option<PathBuf>,
    /// Command that checks a state; must contain {device}, or {dir} with --fs. {device2} and {dir2}
    /// are the second disk of a recording made with --dir2.
    #[arg(long, value_name = "COMMAND")]
    check: Option<String>,
    /// Mount each state: ext4, xfs, btrfs, f2fs or seekless:ffs:POLICY. Needs root rights.
    #[arg(long, value_name = "KIND")]
    fs: Option<FileSystem>,
    /// The options of the sweep.
    #[command(flatten)]
    sweep: SweepArgs,
    /// Try only this state, named as in a report.
    #[arg(long, value_name = "STATE")]
    state: Option<StateRef>,
    /// Write a state to this new file: the one named by --state, or the worst example. With --check
    /// and --fs its files are copied to FILE.tree, as the check found them. A second disk goes to
    /// FILE.2.
    #[arg(long, value_name = "FILE", conflicts_with = "open")]
    keep: Option<PathBuf>,
    /// Serve this state as a network block device. Writes to it are discarded at the end.
    #[arg(long, value_name = "STATE", requires = "socket", conflicts_with_all = ["check", "state"])]
    open: Option<StateRef>,
    /// Listen on this Unix socket, for --open.
    #[arg(long, value_name = "PATH", requires = "open")]
    socket: Option<PathBuf>,
    /// Use a recording that was cut short, is damaged or has bytes after its end: as far as it
    /// goes.
    #[arg(long)]
    cut_short: bool,
    /// How to present states as files: auto, fuse or copy.
    #[arg(long, value_name = "WAY", default_value = "auto")]
    via: Way,
    /// Directory for copies and mount points.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Replays and prints what was found.
///
/// # Errors
/// If a state is bad, the recording is unusable, or the check cannot run.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    args.sweep.validate()?;
    if let Some(path) = &args.keep {
        refuse_occupied(path)?;
        refuse_occupied(&tree_of(path))?;
    }
    let fs = args.fs.filter(|fs| *fs != FileSystem::Raw);
    args.sweep.refuse_mount_options(fs)?;
    if let Some(check) = &args.check {
        names_a_state(check, fs)?;
    }
    if fs.is_some() {
        // Before anything makes a thread.
        super::crash_test::isolate()?;
    }
    let load = Load { recording: &args.recording, base: args.base.as_deref() };
    let session = load.session()?;
    let has_two = session.history().second().is_some();
    if let Some(path) = args.keep.as_deref().filter(|_| has_two) {
        refuse_occupied(&second_of(path))?;
    }
    if args.open.is_some() && has_two {
        return Err(Failure::usage("--open serves one disk, this recording has two")
            .hint("give --state STATE and --keep FILE: each disk becomes a file"));
    }
    if let Some(flaw) = session.flaw() {
        crate::term::say(&format!("seekless: {}", flaw.said));
    }
    let replay = Replay { args, session: &session, fs };
    if let (Some(name), Some(socket)) = (&args.open, &args.socket) {
        return replay.open(name, socket, out);
    }
    let stop = Stop::on_signals()?;
    match &args.check {
        Some(check) => replay.check(check, &stop, out),
        None => replay.keep_only(&stop, out),
    }
}

/// Refuses a check that would look at no state.
pub fn names_a_state(check: &str, fs: Option<FileSystem>) -> Outcome {
    let (wanted, names): (_, &[&str]) = match fs {
        // No device is below a file system that this process serves.
        Some(fs) if fs.policy().is_some() => ("{dir}", &["{dir}"]),
        Some(_) => ("{dir}", &["{dir}", DEVICE]),
        None => (DEVICE, &[DEVICE]),
    };
    match names.iter().any(|name| check.contains(name)) {
        true => Ok(()),
        false => Err(Failure::usage(format!("--check does not contain {wanted}"))
            .hint(format!("write {wanted} where the path of the state belongs"))),
    }
}

struct Replay<'r> {
    args: &'r Args,
    session: &'r Session,
    fs: Option<FileSystem>,
}

impl Replay<'_> {
    fn sector(&self) -> SectorSize {
        match self.fs {
            Some(_) => SectorSize::B4096,
            None => SectorSize::B512,
        }
    }

    fn resolve(&self, name: &StateRef) -> Result<(Epoch, State), Failure> {
        let bounds = self.args.sweep.bounds(self.sector());
        let kept = KeptNames::of(&self.args.recording);
        Ok(name.resolve(self.session.history(), &bounds, &kept)?)
    }

    fn check(&self, command: &str, stop: &Arc<Stop>, out: &mut dyn Write) -> Outcome {
        let args = self.args;
        let options = args.sweep.options(self.session, self.session.begin(), self.sector())?;
        let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
        let place = Place::new(args.via, &dir)
            .map_err(|error| Failure::failed(format!("cannot present states as files: {error}")))?;
        let isolation = args.sweep.isolation();
        let checker = self.checker(command, stop, isolation, options.workers)?;
        let runs = |line: String| self.checker(&line, stop, Isolation::Processes, 1);
        let bench = Bench { place: &place, checker: &*checker, stop };
        let conduct = Conduct {
            args: &args.sweep,
            session: self.session,
            recording: &args.recording,
            bench,
            options,
            check: command,
            title: args.recording.display().to_string(),
            file_system: self.fs.map(|fs| fs.to_string()),
            runs: self.fs.map(|_| &runs as &Runs<'_>),
            again: &|state| self.again(command, state),
            workload_died: None,
            control: None,
        };
        let report = match &args.state {
            Some(name) => {
                let (epoch, state) = self.resolve(name)?;
                conduct.one(&epoch, &state, out)?
            }
            None => conduct.all(out)?,
        };
        ended(stop, &report)?;
        self.keep(&report, &conduct, &runs, out)?;
        self.outcome(&report)
    }

    fn checker(
        &self,
        command: &str,
        stop: &Arc<Stop>,
        isolation: Isolation,
        count: usize,
    ) -> Result<Box<dyn Checker>, Failure> {
        let (stop, timeout) = (Arc::clone(stop), self.args.sweep.timeout);
        let command = command.to_owned();
        let Some(fs) = self.fs else {
            return Ok(Box::new(Check { command, patience: timeout, stop }));
        };
        let beside = self.args.recording.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = self.args.dir.as_deref().or(beside).unwrap_or(Path::new("."));
        let dir = std::fs::canonicalize(dir)
            .map_err(|error| Failure::failed(format!("{}: {error}", dir.display())))?;
        // Even if the file of the program is replaced meanwhile.
        let program = PathBuf::from("/proc/self/exe");
        let mount = self.args.sweep.mounting(fs.for_checks());
        let options =
            SandboxOptions { program, command, mount, isolation, timeout, stop, dir, copies: None };
        own::check::checker(fs, options, count, Shown::Mounted)
            .map_err(|error| Failure::failed(format!("cannot isolate checks: {error}")))
    }

    /// The command that checks a state again.
    fn again(&self, check: &str, state: &str) -> String {
        let path = |path: &Path| quoted(&path.display().to_string());
        let mut out = format!("seekless replay-crashes {}", path(&self.args.recording));
        if let Some(base) = &self.args.base {
            out.push_str(&format!(" --base {}", path(base)));
        }
        if let Some(fs) = self.fs {
            out.push_str(&format!(" --fs {fs}"));
        }
        out.push_str(&self.args.sweep.again());
        out + &format!(" --state {} --check {}", quoted(state), quoted(check))
    }

    /// Writes the state to a file, if that is asked for: the one that was named, or the worst
    /// example.
    fn keep(
        &self,
        report: &Report,
        conduct: &Conduct<'_>,
        runs: &Runs<'_>,
        out: &mut dyn Write,
    ) -> Outcome {
        let Some(path) = &self.args.keep else { return Ok(()) };
        let is_bad = |kind: Kind| matches!(kind, Kind::Broken | Kind::Lost);
        let worst = report.groups.iter().find(|group| is_bad(group.kind));
        let name = match (&self.args.state, worst) {
            (Some(name), _) => name.clone(),
            (None, Some(group)) => group.example.name.parse()?,
            (None, None) => {
                let shown = path.display();
                crate::term::say(&format!("seekless: {shown} is not written: no state is bad"));
                return Ok(());
            }
        };
        let (epoch, state) = self.resolve(&name)?;
        let image = self.session.image(&epoch, &state);
        let mut kept = save(&image, path, conduct.bench.stop)?;
        if self.fs.is_some() {
            let tree = tree_of(path);
            if trees::copy(CrashImage::Disk(image), &tree, None, conduct.bench, runs)? {
                kept = format!("{kept}, its tree as {}", tree.display());
            } else {
                let _ = std::fs::remove_dir(&tree);
                crate::term::say("seekless: the state has no tree: it cannot be mounted");
            }
        }
        match self.args.sweep.json {
            true => crate::term::say(&format!("seekless: kept as {kept}")),
            false => writeln!(out, "kept as {kept}")?,
        }
        Ok(())
    }

    fn outcome(&self, report: &Report) -> Outcome {
        if let Some(exit) = crate::sweeping::conduct::exit_code(report) {
            return Err(Failure::said(exit));
        }
        match self.session.flaw().filter(|_| !self.args.cut_short) {
            Some(flaw) => {
                let cause = format!("no state is bad, but {}", flaw.doubt);
                Err(Failure::new(Exit::Image, cause).hint(flaw.remedy))
            }
            None => Ok(()),
        }
    }

    /// Writes a state to a file, without a check.
    fn keep_only(&self, stop: &Stop, out: &mut dyn Write) -> Outcome {
        let (Some(path), Some(name)) = (&self.args.keep, &self.args.state) else {
            return Err(Failure::usage("nothing to do: neither --check nor --state is given")
                .hint("give --check COMMAND, or --state STATE and --keep FILE"));
        };
        let (epoch, state) = self.resolve(name)?;
        let kept = save(&self.session.image(&epoch, &state), path, stop)?;
        writeln!(out, "{kept}: state {name}")?;
        Ok(())
    }

    /// Serves a state.
    fn open(&self, name: &StateRef, socket: &Path, out: &mut dyn Write) -> Outcome {
        let (epoch, state) = self.resolve(name)?;
        crate::term::say(story(self.session.history(), &epoch, &state).trim_end());
        let image = self.session.image(&epoch, &state);
        let size = image.size();
        let listen = Listen::Unix(socket.to_owned());
        let mut printed = Ok(());
        let mut ready = |uri: &str| {
            printed = writeln!(out, "{uri}").and_then(|()| out.flush());
            worth_going_on(&printed)
        };
        serve_state(Box::new(image), size, &listen, &mut ready)?;
        printed?;
        Ok(())
    }
}

/// The failure that reports that a signal ended the work.
pub fn ended(stop: &Stop, report: &Report) -> Outcome {
    let Some(signal) = stop.asked() else { return Ok(()) };
    let states = report.states.len();
    let cause = format!("ended by signal {signal} after {states} states: not all were tried");
    Err(Failure::new(Exit::by_signal(signal), cause))
}

/// The directory beside a kept image that has its tree.
fn tree_of(image: &Path) -> PathBuf {
    let mut path = image.as_os_str().to_owned();
    path.push(".tree");
    path.into()
}

/// Refuses a path that cannot be written to. The alternative is to find out after hours of work.
fn refuse_occupied(path: &Path) -> Outcome {
    let shown = path.display();
    if path.symlink_metadata().is_ok() {
        return Err(Failure::usage(format!("--keep {shown}: there is such a file already"))
            .hint("nothing is overwritten: remove it, or give the path of a new file"));
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let allowed = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    let possible = match dir.is_dir() {
        true => rustix::fs::access(dir, allowed),
        false => Err(rustix::io::Errno::NOTDIR),
    };
    possible.map_err(|errno| {
        let why = std::io::Error::from(errno);
        Failure::usage(format!("--keep {shown}: no file can be made in {}: {why}", dir.display()))
    })
}

/// The file for the second disk of a state whose first one is in this file.
fn second_of(path: &Path) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(".2");
    path.into()
}

/// Writes each disk of a state to a file. Tells the files.
fn save(image: &Image, path: &Path, stop: &Stop) -> Result<String, Failure> {
    let paths = [path.to_owned(), second_of(path)];
    let mut saved = Vec::new();
    for (disk, path) in image.disks().iter().zip(&paths) {
        disk.save(path, stop).map_err(|error| {
            let exit = stop.asked().map_or(Exit::Failed, Exit::by_signal);
            Failure::new(exit, format!("cannot write {}: {error}", path.display()))
        })?;
        saved.push(path.display().to_string());
    }
    Ok(saved.join(" and "))
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Failure {
        Failure::from_message(Exit::Image, &error.to_string())
    }
}

impl From<BadState> for Failure {
    fn from(error: BadState) -> Failure {
        Failure::from_message(Exit::Usage, &error.to_string())
    }
}
