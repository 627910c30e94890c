//! `seekless replay-crashes`: every crash that a recorded device could have had, and a check.

mod report;
mod session;
mod sweep;

use crate::failure::{Exit, Failure, Outcome};
use crate::term::Progress;
use clap::ArgGroup;
use report::Report;
use seekless_lab::replay::choose::Bounds;
use seekless_lab::replay::state::Name;
use seekless_serve::replay::check::{Check, DEVICE};
use seekless_serve::replay::mount::{Place, Way};
use seekless_serve::server::{Listen, serve_state};
use session::{Load, Session};
use std::io::Write;
use std::path::PathBuf;
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
there: every check has a state of its own. Exit code 0 says that the state is good, 1 to 125 that it
is bad; 126, 127, a death by a signal and a check that takes too long are its own failures, reported
apart. It finds SEEKLESS_STATE (the name of the state) and SEEKLESS_FLUSHES (how many flushes had
been answered) in its environment.

Exit codes: 0 all states are good; 1 a bad one was found; 3 the recording cannot be used, or is good
as far as it goes but was cut short (see --cut-short); 6 the check failed for its own reasons.")]
pub struct Args {
    /// The recording, made by `seekless record`.
    recording: PathBuf,
    /// What the export held when the recording began; zeros if it is not given.
    #[arg(long, value_name = "IMAGE")]
    base: Option<PathBuf>,
    /// The command that tells a good state from a bad one; must contain {device}.
    #[arg(long, value_name = "COMMAND")]
    check: Option<String>,
    /// How long a check may take, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    timeout: f64,
    /// Checks at once; as many as there are processors by default.
    #[arg(long, short = 'j', value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=512))]
    workers: Option<u16>,
    /// Try every combination of kept and lost for so many unflushed writes.
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=16))]
    exhaustive: u32,
    /// States to try at each flush boundary beyond those; in all where there are more writes.
    #[arg(long, value_name = "N", default_value_t = 24)]
    samples: u32,
    /// Writes are kept or lost in whole, never torn between two sectors of 512 bytes.
    #[arg(long)]
    no_tearing: bool,
    /// Seed of the samples.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Go on after the first bad state.
    #[arg(long)]
    keep_going: bool,
    /// Try only this state, as a report named it.
    #[arg(long, value_name = "STATE")]
    state: Option<Name>,
    /// Write the state, or the smallest bad one that was found, to this new file.
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Serve this state as a network block device; what is written to it is forgotten at the end.
    #[arg(long, value_name = "STATE", requires = "socket", conflicts_with_all = ["check", "state"])]
    open: Option<Name>,
    /// Listen on this Unix socket, for --open.
    #[arg(long, short, value_name = "PATH", requires = "open")]
    socket: Option<PathBuf>,
    /// A recording that was cut short is as good as any.
    #[arg(long)]
    cut_short: bool,
    /// How states become files: auto, fuse or copy.
    #[arg(long, value_name = "WAY", default_value = "auto")]
    via: Way,
    /// Directory for copies and mount points.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Most states that making a finding small may take.
const MINIMISE: usize = 300;

/// Replays and prints what was found.
///
/// # Errors
/// If a state is bad, the recording is unusable, or the check fails for its own reasons.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let load = Load { recording: &args.recording, base: args.base.as_deref() };
    let session = load.session()?;
    if let Some(said) = session.cut_short() {
        crate::term::say(&format!("seekless: {said}"));
    }
    match (&args.open, &args.socket) {
        (Some(name), Some(socket)) => return open(&session, name, socket, out),
        _ if args.check.is_none() => return keep_only(args, &session, out),
        _ => {}
    }
    let sweep = sweep(args, &session)?;
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
    if let (Some(path), Some(finding)) = (&args.keep, &result.finding) {
        session.image(&finding.epoch, &finding.state).save(path).map_err(|error| {
            Failure::failed(format!("cannot write {}: {error}", path.display()))
        })?;
    }
    let report = Report { args, session: &session, result: &result, way: sweep.place.name() };
    if args.json {
        writeln!(out, "{}", report.to_json())?;
    } else {
        report.print(out)?;
    }
    outcome(args, &session, &result)
}

fn outcome(args: &Args, session: &Session, result: &sweep::Swept) -> Outcome {
    if result.bad > 0 {
        return Err(Failure::said(Exit::Failed));
    }
    if result.failed > 0 || result.hung > 0 {
        return Err(Failure::said(Exit::Check));
    }
    if session.cut_short().is_some() && !args.cut_short {
        return Err(Failure::new(
            Exit::Image,
            "no state is bad, but the recording was cut short: what came later is not known",
        )
        .hint("record again, or give --cut-short if that is how it had to end"));
    }
    Ok(())
}

fn sweep<'s>(args: &Args, session: &'s Session) -> Result<Sweep<'s>, Failure> {
    let command = args.check.clone().unwrap_or_default();
    if !command.contains(DEVICE) {
        return Err(Failure::usage(format!("--check `{command}` does not contain {DEVICE}"))
            .hint(format!("write {DEVICE} where the path of the state belongs")));
    }
    let patience = Duration::try_from_secs_f64(args.timeout).ok().filter(|time| !time.is_zero());
    let patience = patience.ok_or_else(|| {
        Failure::usage(format!("--timeout: {} is no number of seconds above 0", args.timeout))
    })?;
    let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let place = Place::new(args.via, &dir)
        .map_err(|error| Failure::failed(format!("cannot make states files: {error}")))?;
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Sweep {
        session,
        place,
        check: Check { command, patience },
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

/// Writes a state to a file, and that is all.
fn keep_only(args: &Args, session: &Session, out: &mut dyn Write) -> Outcome {
    let (Some(path), Some(name)) = (&args.keep, &args.state) else {
        return Err(Failure::usage("nothing to do: neither --check nor --state is given")
            .hint("give --check COMMAND, or --state STATE and --keep FILE"));
    };
    let (epoch, state) = session.resolve(name)?;
    session
        .image(&epoch, &state)
        .save(path)
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?;
    writeln!(out, "{}: state {name}", path.display())?;
    Ok(())
}

/// Serves a state.
fn open(session: &Session, name: &Name, socket: &std::path::Path, out: &mut dyn Write) -> Outcome {
    let (epoch, state) = session.resolve(name)?;
    let story = seekless_lab::replay::story::story(session.history(), &epoch, &state);
    crate::term::say(story.trim_end());
    let image = session.image(&epoch, &state);
    let size = image.size();
    let listen = Listen::Unix(socket.to_owned());
    let mut printed = Ok(());
    let mut ready = |uri: &str| printed = writeln!(out, "{uri}").and_then(|()| out.flush());
    serve_state(Box::new(image), size, &listen, &mut ready)?;
    printed?;
    Ok(())
}
