//! What a run is recorded with, and what comes of it.

use seekless_calls::Entry;
use std::path::PathBuf;
use std::time::Duration;

/// The variable of the environment that names the file of acknowledgements.
pub const ACKS: &str = "SEEKLESS_ACKS";

/// What becomes of calls that make files durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syncs {
    /// They are carried out.
    #[default]
    Real,
    /// They are recorded and answered with 0, but not carried out.
    Skip,
}

/// What is recorded, and within which limits.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory whose files are recorded. It has to exist.
    pub directory: PathBuf,
    /// What becomes of syncs.
    pub syncs: Syncs,
    /// When a run is ended; `None`: never.
    pub time_limit: Option<Duration>,
    /// How long processes may go on when the command itself has ended.
    pub linger: Duration,
    /// The file of acknowledgements, which is made anew; `None`: one in the directory for temporary
    /// files, which is removed after the run.
    pub acks: Option<PathBuf>,
}

impl Options {
    /// Syncs are carried out, there is no time limit, and a daemon has a second.
    pub fn new(directory: impl Into<PathBuf>) -> Options {
        Options {
            directory: directory.into(),
            syncs: Syncs::Real,
            time_limit: None,
            linger: Duration::from_secs(1),
            acks: None,
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command ended with this code.
    Code(i32),
    /// This signal ended the command.
    Signal(i32),
    /// The caller stopped the run.
    Stopped,
    /// The time limit was reached.
    TimeLimit,
}

/// A run on record.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Calls and replies: the tree at the start, [`Entry::Begin`], and what the programs did.
    pub entries: Vec<Entry>,
    /// How the run ended.
    pub exit: Exit,
    /// Calls that were answered with an error because they cannot be recorded. A program that
    /// insists on one of them fails.
    pub refused: Vec<String>,
    /// Processes that outlived the command and were ended.
    pub outlived: Vec<String>,
    /// What may make the recording incomplete; the likely cause if the self-check fails.
    pub troubles: Vec<String>,
    /// Reports of threads to the recorder: two a traced call, and those of the threads themselves.
    pub stops: u64,
}
