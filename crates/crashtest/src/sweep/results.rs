//! Verdicts on disk: a directory that the shards of a sweep share, so that a sweep can be stopped,
//! resumed, and put together from several machines.
//!
//! Each process appends to a file of its own, a JSON object a line: first what was swept, then one
//! verdict each. Verdicts go by the content of a state, so a line serves whatever the state was
//! called. A last line that was cut off is ignored.
//!
//! A check that failed or hung says nothing about its state: its machine was to blame. Such a
//! verdict is written down, but a later process checks the state again.

use super::Tried;
use crate::report::Kind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::hash::Hasher as _;
use std::io::{self, BufReader, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

/// Bytes of the largest file that is looked at.
const MOST_HASHED: u64 = 64 << 20;

/// What a sweep is about: verdicts of another one mean nothing to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// Bytes of the recording, and a hash of them and the base.
    pub tape: String,
    /// The check.
    pub check: String,
    /// A hash of the files that the check names: see [`files_of`].
    pub files: String,
    /// The file system that is mounted for a check.
    pub file_system: Option<String>,
    /// False if only consistency is checked.
    pub acknowledgements: bool,
}

/// A hash of the files that are words of a command: a script that was changed is another check.
/// What those files use in turn is not looked at.
pub fn files_of(command: &str) -> String {
    let mut hash = XxHash3_64::new();
    let is_apart = |c: char| c.is_whitespace() || "'\"`;|&<>()=".contains(c);
    for word in command.split(is_apart).filter(|word| !word.is_empty()) {
        let path = Path::new(word);
        let is_small = |data: &std::fs::Metadata| data.is_file() && data.len() <= MOST_HASHED;
        if std::fs::metadata(path).is_ok_and(|data| is_small(&data))
            && let Ok(bytes) = std::fs::read(path)
        {
            hash.write(word.as_bytes());
            hash.write(&bytes);
        }
    }
    format!("{:016x}", hash.finish())
}

/// Why verdicts cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The directory, or a file in it.
    #[error("cannot keep verdicts in {}: {source}", .path.display())]
    Os {
        /// The directory or file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The verdicts are of another sweep.
    #[error("{} has verdicts of another recording or check; give another directory", .0.display())]
    Other(PathBuf),
}

/// Tells states apart: the hash of the content, and the number of acknowledgements.
pub(super) type Key = (u128, u64);

/// A verdict in the file.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    contents: String,
    acked: u64,
    #[serde(flatten)]
    tried: Tried,
}

/// The verdicts of earlier processes, and a file for new ones.
#[derive(Debug)]
pub struct Results {
    known: BTreeMap<Key, Tried>,
    path: PathBuf,
    file: File,
}

impl Results {
    /// Reads the verdicts in `dir`, which is made if it does not exist, and opens the file `name`
    /// for more.
    ///
    /// # Errors
    /// If a file cannot be read or written, or is about another sweep.
    pub fn open(dir: &Path, name: &str, subject: &Subject) -> Result<Results, ResultsError> {
        let os = |path: &Path| {
            let path = path.to_owned();
            move |source| ResultsError::Os { path, source }
        };
        std::fs::create_dir_all(dir).map_err(os(dir))?;
        let mut known = BTreeMap::new();
        let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
            .map_err(os(dir))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
            .collect();
        files.sort();
        for path in &files {
            let file = File::open(path).map_err(os(path))?;
            read(BufReader::new(file), subject, &mut known)
                .map_err(os(path))?
                .then_some(())
                .ok_or_else(|| ResultsError::Other(path.clone()))?;
        }
        let path = dir.join(format!("{name}.jsonl"));
        let file = begin(&path, subject).map_err(os(&path))?;
        Ok(Results { known, path, file })
    }

    /// The verdict on a state, if some process has it.
    pub(super) fn get(&self, key: Key) -> Option<&Tried> {
        self.known.get(&key)
    }

    /// Keeps a verdict.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn put(&mut self, key: Key, tried: &Tried) -> Result<(), ResultsError> {
        let line = Line { contents: format!("{:032x}", key.0), acked: key.1, tried: tried.clone() };
        let mut text = serde_json::to_string(&line).map_err(io::Error::from);
        if let Ok(text) = &mut text {
            text.push('\n');
        }
        text.and_then(|text| self.file.write_all(text.as_bytes()))
            .map_err(|source| ResultsError::Os { path: self.path.clone(), source })
    }
}

/// Opens a file for appending. A line that was cut off is ended, a new file is given its first one.
fn begin(path: &Path, subject: &Subject) -> io::Result<File> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let length = file.metadata()?.len();
    if length == 0 {
        let mut line = serde_json::to_string(subject).map_err(io::Error::from)?;
        line.push('\n');
        file.write_all(line.as_bytes())?;
        return Ok(file);
    }
    let mut last = [0];
    file.seek(io::SeekFrom::Start(length - 1))?;
    file.read_exact(&mut last)?;
    if last != *b"\n" {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

/// Adds the verdicts of a file; false if it is about something else.
fn read(
    file: impl io::BufRead,
    subject: &Subject,
    known: &mut BTreeMap<Key, Tried>,
) -> io::Result<bool> {
    let mut lines = file.lines();
    let Some(first) = lines.next().transpose()? else { return Ok(true) };
    if serde_json::from_str::<Subject>(&first).ok().as_ref() != Some(subject) {
        return Ok(false);
    }
    for line in lines {
        let Ok(line) = serde_json::from_str::<Line>(&line?) else { continue };
        let Ok(contents) = u128::from_str_radix(&line.contents, 16) else { continue };
        if says_something(line.tried.kind) {
            known.insert((contents, line.acked), line.tried);
        }
    }
    Ok(true)
}

/// Whether a verdict is about the state, not about the machine of the check.
fn says_something(kind: Kind) -> bool {
    match kind {
        Kind::Good | Kind::Lost | Kind::Broken => true,
        Kind::Wavers | Kind::Failed | Kind::Hung => false,
    }
}
