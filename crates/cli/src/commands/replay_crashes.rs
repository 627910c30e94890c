//! `seekless replay-crashes`: checks every crash state of a recorded device.

mod report;
mod session;
mod sweep;

use crate::failure::{Exit, Failure, Outcome, worth_going_on};
use crate::term::Progress;
use clap::ArgGroup;
use report::Report;
use seekless_crashtest::replay::check::{Check, DEVICE};
use seekless_crashtest::replay::image::Image;
use seekless_crashtest::replay::mount::{Place, Way};
use seekless_crashtest::replay::stop::Stop;
use seekless_crashtest::states::choose::Bounds;
use seekless_crashtest::states::state::Name;
use seekless_serve::server::{Listen, serve_state};
use session::{Load, Session};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use sweep::Sweep;

/// Arguments of `seekless replay-crashes`.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("purpose").required(true).multiple(true)
    .args(["check", "open", "keep"]))]
#[command(after_help = "\
Examples:
  seekless replay-crashes run.tape --base before.raw --check 'e2fsck -fy {device}'
  seekless replay-crashes run.tape --check './my-recovery-test {device}' --samples 200 --json
  seekless replay-crashes run.tape --state 812:keep,45=lost --check './my-recovery-test {device}'
  seekless replay-crashes run.tape --state 812:keep,45=lost --keep bad.raw
  seekless replay-crashes run.tape --open 812:keep,45=lost --socket /tmp/state.sock

The check runs in a shell; {device} becomes the path of a file that holds a state. It may write
there: every check has a state of its own. Exit code 0 says that the state is good; 126, 127, a
death by a signal (as shells tell it: 129 to 192) and a check that takes too long are its own
failures, reported apart; all other exit codes say that the state is bad. It finds SEEKLESS_STATE
(the name of the state) and SEEKLESS_FLUSHES (how many flushes had been answered) in its
environment.

Exit codes: 0 all states are good; 1 a bad one was found; 3 the recording cannot be used, or is good
as far as it goes but was cut short (see --cut-short); 6 the check failed for its own reasons; 129,
130 and 143 it was ended by SIGHUP, SIGINT or SIGTERM, and told what it had found.")]
pub struct Args {
    /// The recording, made by `seekless record`.
    recording: PathBuf,
    /// Content of the export at the start of the recording [default: zeros].
    #[arg(long, value_name = "IMAGE")]
    base: Option<PathBuf>,
    /// Command that checks a state; must contain {device}.
    #[arg(long, value_name = "COMMAND")]
    check: Option<String>,
    /// Time limit of a check, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    timeout: f64,
    /// Checks to run at once [default: the number of processors].
    #[arg(long, short = 'j', value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=512))]
    workers: Option<u16>,
    /// Try every combination of kept and lost for up to so many unflushed writes.
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=16))]
    exhaustive: u32,
    /// More states to try at each flush boundary; with more unflushed writes than that, the total.
    #[arg(long, value_name = "N", default_value_t = 24)]
    samples: u32,
    /// Keep or lose writes as a whole: never tear one between two sectors of 512 bytes.
    #[arg(long)]
    no_tearing: bool,
    /// Seed of the samples.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Go on after the first bad state.
    #[arg(long)]
    keep_going: bool,
    /// Try only this state, named as in a report.
    #[arg(long, value_name = "STATE")]
    state: Option<Name>,
    /// Write the state to this new file: the one named by --state, or the smallest bad one found.
    #[arg(long, value_name = "FILE", conflicts_with = "open")]
    keep: Option<PathBuf>,
    /// Serve this state as a network block device. Writes to it are discarded at the end.
    #[arg(long, value_name = "STATE", requires = "socket", conflicts_with_all = ["check", "state"])]
    open: Option<Name>,
    /// Listen on this Unix socket, for --open.
    #[arg(long, short, value_name = "PATH", requires = "open")]
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
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Most states that shrinking a finding may try.
const MINIMISE: usize = 300;

/// Replays and prints what was found.
///
/// # Errors
/// If a state is bad, the recording is unusable, or the check cannot run.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    if let Some(path) = &args.keep {
        refuse_occupied(path)?;
    }
    let load = Load { recording: &args.recording, base: args.base.as_deref() };
    let session = load.session()?;
    if let Some(flaw) = session.flaw() {
        crate::term::say(&format!("seekless: {}", flaw.said));
    }
    if let (Some(name), Some(socket)) = (&args.open, &args.socket) {
        return open(&session, name, socket, out);
    }
    let stop = Stop::on_signals()?;
    if args.check.is_none() {
        return keep_only(args, &session, &stop, out);
    }
    let sweep = sweep(args, &session, &stop)?;
    let mut progress = Progress::new();
    let mut shown = |tried: u64| progress.show(|| format!("{tried} crash states"));
    let mut result = match &args.state {
        Some(name) => sweep.only(name)?,
        None => sweep.run(&mut shown)?,
    };
    drop(progress);
    if args.state.is_none() {
        sweep.minimise(&mut result, MINIMISE)?;
    }
    let way = sweep.place.name();
    let report = Report { args, session: &session, result: &result, way, ended_by: stop.asked() };
    if args.json {
        writeln!(out, "{}", report.to_json())?;
    } else {
        report.print(out)?;
    }
    out.flush()?;
    ended(&stop, &result)?;
    keep(args, &session, &result, &stop, out)?;
    outcome(args, &session, &result)
}

/// The failure that reports that a signal ended the work.
fn ended(stop: &Stop, result: &sweep::Swept) -> Outcome {
    let Some(signal) = stop.asked() else { return Ok(()) };
    let states = result.states;
    let cause = format!("ended by signal {signal} after {states} states: not all were tried");
    Err(Failure::new(Exit::by_signal(signal), cause))
}

fn outcome(args: &Args, session: &Session, result: &sweep::Swept) -> Outcome {
    if result.bad > 0 {
        return Err(Failure::said(Exit::Failed));
    }
    if result.failed > 0 || result.hung > 0 {
        return Err(Failure::said(Exit::Check));
    }
    match session.flaw().filter(|_| !args.cut_short) {
        Some(flaw) => {
            let cause = format!("no state is bad, but {}", flaw.doubt);
            Err(Failure::new(Exit::Image, cause).hint(flaw.remedy))
        }
        None => Ok(()),
    }
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

/// Writes the requested state, or the one that was found, to a file. The report is printed before
/// this, so that an error here does not hide it.
fn keep(
    args: &Args,
    session: &Session,
    result: &sweep::Swept,
    stop: &Stop,
    out: &mut dyn Write,
) -> Outcome {
    let Some(path) = &args.keep else { return Ok(()) };
    let shown = path.display();
    let image = match (&args.state, &result.finding) {
        (Some(name), _) => {
            let (epoch, state) = session.resolve(name)?;
            session.image(&epoch, &state)
        }
        (None, Some(finding)) => session.image(&finding.epoch, &finding.state),
        (None, None) => {
            crate::term::say(&format!("seekless: {shown} is not written: no state is bad"));
            return Ok(());
        }
    };
    save(&image, path, stop)?;
    match args.json {
        true => crate::term::say(&format!("seekless: kept as {shown}")),
        false => writeln!(out, "kept as {shown}")?,
    }
    Ok(())
}

fn save(image: &Image, path: &Path, stop: &Stop) -> Outcome {
    image.save(path, stop).map_err(|error| {
        let exit = stop.asked().map_or(Exit::Failed, Exit::by_signal);
        Failure::new(exit, format!("cannot write {}: {error}", path.display()))
    })
}

fn sweep<'s>(args: &Args, session: &'s Session, stop: &Arc<Stop>) -> Result<Sweep<'s>, Failure> {
    let command = args.check.clone().unwrap_or_default();
    if !command.contains(DEVICE) {
        return Err(Failure::usage(format!("--check `{command}` does not contain {DEVICE}"))
            .hint(format!("write {DEVICE} where the path of the state belongs")));
    }
    let patience = Duration::try_from_secs_f64(args.timeout).ok().filter(|time| !time.is_zero());
    let patience = patience.ok_or_else(|| {
        Failure::usage(format!("--timeout: {} is not a number of seconds above 0", args.timeout))
    })?;
    let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let place = Place::new(args.via, &dir)
        .map_err(|error| Failure::failed(format!("cannot present states as files: {error}")))?;
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Sweep {
        session,
        place,
        check: Check { command, patience, stop: Arc::clone(stop) },
        workers: args.workers.map_or_else(processors, usize::from),
        bounds: Bounds {
            exhaustive: args.exhaustive,
            samples: args.samples,
            tear: !args.no_tearing,
            seed: args.seed,
        },
        keep_going: args.keep_going,
    })
}

/// Writes a state to a file, without a check.
fn keep_only(args: &Args, session: &Session, stop: &Stop, out: &mut dyn Write) -> Outcome {
    let (Some(path), Some(name)) = (&args.keep, &args.state) else {
        return Err(Failure::usage("nothing to do: neither --check nor --state is given")
            .hint("give --check COMMAND, or --state STATE and --keep FILE"));
    };
    let (epoch, state) = session.resolve(name)?;
    save(&session.image(&epoch, &state), path, stop)?;
    writeln!(out, "{}: state {name}", path.display())?;
    Ok(())
}

/// Serves a state.
fn open(session: &Session, name: &Name, socket: &std::path::Path, out: &mut dyn Write) -> Outcome {
    let (epoch, state) = session.resolve(name)?;
    let story = seekless_crashtest::states::story::story(session.history(), &epoch, &state);
    crate::term::say(story.trim_end());
    let image = session.image(&epoch, &state);
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
