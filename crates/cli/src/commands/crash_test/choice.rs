//! What of the machine a crash test uses: a disk with a file system, which needs root, or system
//! calls in a plain directory.

use super::Args;
use crate::failure::{Exit, Failure, Outcome};
use crate::term::say;
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use seekless_calls::model::Model;
use seekless_crashtest::calls::trace;
use seekless_crashtest::file_system::{Choice, FileSystem};
use seekless_crashtest::preflight;
use seekless_formats::Kind;

/// The models that are tried where none is named: file systems decide, POSIX informs.
const MODELS: [Model; 3] = [Model::EXT4, Model::XFS, Model::POSIX];

/// How a workload is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Recorder {
    /// The requests to a disk.
    Block,
    /// The calls to a file system that this process serves.
    Fuse,
    /// The system calls of the program.
    Ptrace,
}

/// What becomes of the syncs of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Syncs {
    /// They are carried out.
    Real,
    /// They are recorded, and answered at once.
    Skip,
}

/// What a crash test uses.
#[derive(Clone, Debug)]
pub enum Means {
    /// A disk with the file system of the arguments.
    Disk,
    /// System calls, replayed under each policy of a file system of Seekless.
    Policies(Kind),
    /// System calls, judged by these models.
    Models(Vec<Model>),
}

/// The models by name.
pub fn models() -> impl TypedValueParser<Value = Model> {
    let named = |name: String| Model::named(&name).ok_or("no such model");
    PossibleValuesParser::new(Model::ALL.map(|model| PossibleValue::new(model.name))).try_map(named)
}

/// Chooses, and says so in a line if nothing was asked for.
///
/// # Errors
/// If options contradict each other, or the machine has nothing for what was asked.
pub fn choose(args: &Args) -> Result<Means, Failure> {
    let means = by_arguments(args)?;
    match (&means, args.syncs) {
        (Means::Disk, Syncs::Skip) => {
            Err(Failure::usage("--syncs skip: a disk shows what was written back, so syncs count")
                .hint("give --model"))
        }
        _ => Ok(means),
    }
}

fn by_arguments(args: &Args) -> Result<Means, Failure> {
    use Recorder::{Block, Fuse, Ptrace};
    match (args.recorder, args.fs) {
        _ if !args.model.is_empty() => {
            fits(args.recorder, Ptrace, "--model judges system calls")?;
            Ok(Means::Models(args.model.clone()))
        }
        (Some(Ptrace), Some(Choice::EveryPolicy(kind))) => Ok(Means::Policies(kind)),
        (Some(Ptrace), Some(_)) => {
            Err(Failure::usage("--fs names a disk, --recorder ptrace has none")
                .hint("give --model, such as --model ext4,xfs,posix, in place of --fs"))
        }
        (Some(Ptrace), None) => Ok(Means::Models(MODELS.to_vec())),
        (None, Some(fs @ Choice::EveryPolicy(kind)))
            if preflight::look(fs.for_workload()).is_err() && trace::preflight().is_ok() =>
        {
            say("seekless: system calls are recorded: this machine mounts nothing for this user");
            Ok(Means::Policies(kind))
        }
        (recorder, Some(fs)) => {
            match fs {
                Choice::One(_) => fits(recorder, Block, "this --fs is recorded below")?,
                Choice::EveryPolicy(_) => {
                    fits(recorder, Fuse, "--fs seekless:ffs:all is recorded above")?
                }
            }
            Ok(Means::Disk)
        }
        (Some(Fuse), None) => {
            Err(Failure::usage("--recorder fuse records calls to file systems of Seekless")
                .hint("give --fs seekless:ffs:all"))
        }
        (Some(Block), None) => Ok(Means::Disk),
        (None, None) => by_machine(args),
    }
}

fn fits(recorder: Option<Recorder>, wanted: Recorder, why: &str) -> Outcome {
    match recorder.is_none_or(|recorder| recorder == wanted) {
        true => Ok(()),
        false => {
            let name = format!("{wanted:?}").to_lowercase();
            Err(Failure::usage(format!("--recorder: {why}"))
                .hint(format!("give --recorder {name}")))
        }
    }
}

/// A disk where this process may have one, else system calls. Options that only a disk has are a
/// choice.
fn by_machine(args: &Args) -> Result<Means, Failure> {
    let fs = Choice::default();
    let of_disk = args.size.is_some()
        || args.mkfs_options.is_some()
        || args.dir2
        || args.sweep.mount_options.is_some();
    let missing = match preflight::look(fs.for_workload()) {
        Ok(_) => return Ok(Means::Disk),
        Err(_) if of_disk => return Ok(Means::Disk),
        Err(missing) => missing,
    };
    if let Err(denied) = trace::preflight() {
        let both = format!("{}\n  {denied}", preflight::message(&missing));
        return Err(Failure::new(Exit::Lacking, both));
    }
    let names = MODELS.map(|model| model.name).join(", ");
    let why = missing.first().map_or("no disk", |one| one.what.as_str());
    say(&format!("seekless: system calls are recorded and judged by models of {names}: {why}"));
    Ok(Means::Models(MODELS.to_vec()))
}

/// The failure for what a named file system lacks.
pub fn lacking(fs: FileSystem, missing: &[preflight::Missing]) -> Failure {
    let failure = Failure::new(Exit::Lacking, preflight::message(missing));
    match Model::named(fs.name()) {
        Some(model) => failure.hint(format!(
            "--model {} in place of --fs needs no root: it records system calls",
            model.name
        )),
        None => failure,
    }
}
