//! Short names of states: at most [`MOST_NAME`] characters, whatever the state.
//!
//! A state with few exceptions has its whole name (`812:keep,45=lost`). Of any other the name is
//! the event of the cut and a hash of the whole name: `812:#0f3a5c7e9b1d`. A hash is resolved by a
//! file beside the recording that keeps the whole names, or by enumerating the states of that cut.

use super::choose::{Bounds, choose};
use super::history::{Epoch, History};
use super::state::{BadState, Name, State};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use twox_hash::XxHash3_64;

/// Characters of a short name at most.
pub const MOST_NAME: usize = 60;
/// Bits of a hash that a name shows.
const BITS: u32 = 48;

/// A state as a command takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateRef {
    /// Its whole name.
    Name(Name),
    /// The event of the cut, and a hash.
    Hash {
        /// The power goes right before this event.
        cut: u64,
        /// Hash of the whole name.
        hash: u64,
    },
}

/// The short name of a state.
pub fn short(name: &Name) -> String {
    let whole = name.to_string();
    match whole.len() <= MOST_NAME {
        true => whole,
        false => StateRef::Hash { cut: name.cut, hash: hash(&whole) }.to_string(),
    }
}

fn hash(whole: &str) -> u64 {
    XxHash3_64::oneshot(whole.as_bytes()) >> (u64::BITS - BITS)
}

impl fmt::Display for StateRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateRef::Name(name) => name.fmt(f),
            StateRef::Hash { cut, hash } => write!(f, "{cut}:#{hash:012x}"),
        }
    }
}

impl FromStr for StateRef {
    type Err = BadState;

    fn from_str(text: &str) -> Result<StateRef, BadState> {
        let Some((cut, digits)) = text.split_once(":#") else {
            return text.parse().map(StateRef::Name);
        };
        let bad = || BadState::Form(text.to_owned());
        let cut = cut.parse().map_err(|_| bad())?;
        let hash = u64::from_str_radix(digits, 16).map_err(|_| bad())?;
        match digits.len() == BITS as usize / 4 {
            true => Ok(StateRef::Hash { cut, hash }),
            false => Err(bad()),
        }
    }
}

impl StateRef {
    /// The state that is meant: by its name, by `kept`, or among the states that the bounds choose.
    ///
    /// # Errors
    /// If the recording has no such state.
    pub fn resolve(
        &self,
        history: &History,
        bounds: &Bounds,
        kept: &KeptNames,
    ) -> Result<(Epoch, State), BadState> {
        let (cut, wanted) = match self {
            StateRef::Name(name) => return name.resolve(history),
            StateRef::Hash { cut, hash } => (*cut, *hash),
        };
        if let Some(name) = kept.find(self) {
            return name.resolve(history);
        }
        // Reports a cut that is none, with those near it.
        let all_kept = Name { cut, keep: true, exceptions: Default::default() };
        let (epoch, _) = all_kept.resolve(history)?;
        let is_it = |state: &State| hash(&state.name(history, &epoch).to_string()) == wanted;
        let found = choose(history, &epoch, bounds).into_iter().find(is_it);
        found.map(|state| (epoch, state)).ok_or_else(|| BadState::Unknown(self.to_string()))
    }
}

/// The file beside a recording that keeps the whole names of the states that reports name by hash.
#[derive(Clone, Debug)]
pub struct KeptNames {
    path: PathBuf,
}

impl KeptNames {
    /// Of this recording. The file need not exist.
    pub fn of(recording: &Path) -> KeptNames {
        let mut path = recording.as_os_str().to_owned();
        path.push(".states");
        KeptNames { path: path.into() }
    }

    /// Keeps a name, if its short form is a hash that is not there yet.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn keep(&self, name: &Name) -> io::Result<()> {
        let short = short(name);
        let Ok(hashed @ StateRef::Hash { .. }) = short.parse::<StateRef>() else { return Ok(()) };
        if self.find(&hashed).is_some() {
            return Ok(());
        }
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        file.write_all(format!("{short} {name}\n").as_bytes())
    }

    /// The whole name for a hash. A line that is damaged is no name.
    fn find(&self, wanted: &StateRef) -> Option<Name> {
        let StateRef::Hash { cut, hash: bits } = wanted else { return None };
        let lines = BufReader::new(File::open(&self.path).ok()?).lines().map_while(Result::ok);
        lines
            .filter_map(|line| line.split_once(' ').map(|(_, whole)| whole.to_owned()))
            .filter(|whole| hash(whole) == *bits)
            .filter_map(|whole| whole.parse::<Name>().ok())
            .find(|name| name.cut == *cut)
    }
}
