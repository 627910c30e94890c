//! Runs as files: `--save` writes them, `--replay` reads them.
//!
//! A file names its subject and holds the whole run ([`Recorded`]), so that it shows the same when
//! the generators of runs change.

use super::{Apart, Chosen, files, subject};
use crate::failure::{Failure, Outcome};
use seekless_arrays::Level;
use seekless_formats::registry::UnknownKind;
use seekless_fs::policy::journal::DataMode;
use seekless_layouts::Kind;
use seekless_prove::Order;
use seekless_prove::files::{CLASSES, Rules};
use seekless_prove::oracle::Oracle;
use seekless_prove::script::Request;
use seekless_prove::{
    BlockSubject, FileSubject, Keep, LogSubject, ProveOptions, Recorded, Subject, Violation,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Longest file that is read, in bytes. Real ones have a few thousand.
const MOST_SAVED: u64 = 1 << 20;

/// A run as a file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Saved {
    pub layout: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<(u32, u16)>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sparse: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub objects: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ace: Option<u8>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trust_completions: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The planted bug with which the run breaks a promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plant: Option<String>,
    /// The operations in words, and what they have led to.
    #[serde(default)]
    pub story: Vec<String>,
    /// A [`Recorded`] run of the subject.
    pub run: Value,
}

/// A subject whose runs can be files.
pub trait Saveable:
    Subject<Oracle: Oracle<Request: Request + Serialize + DeserializeOwned>> + Send + Sync + 'static
{
    /// The part of the file that names it.
    fn saved(self) -> Saved;
}

impl Saveable for BlockSubject {
    fn saved(self) -> Saved {
        let raid = match self {
            BlockSubject::Layout(_)
            | BlockSubject::Attached
            | BlockSubject::Sparse
            | BlockSubject::Objects => None,
            BlockSubject::Array { level, members, .. } => Some((level.number(), members as u16)),
        };
        Saved {
            layout: self.kind().name().to_owned(),
            raid,
            log: self == BlockSubject::Attached,
            sparse: self == BlockSubject::Sparse,
            objects: self == BlockSubject::Objects,
            ..Saved::default()
        }
    }
}

impl Saveable for FileSubject {
    fn saved(self) -> Saved {
        saved_files(self)
    }
}

impl Saveable for LogSubject {
    fn saved(self) -> Saved {
        Saved {
            layout: files::LOG.to_owned(),
            device: self.device.and_then(class).map(|(name, _)| name.to_owned()),
            ..Saved::default()
        }
    }
}

/// A class of devices and its name.
fn class(order: Order) -> Option<(&'static str, Order)> {
    CLASSES.into_iter().find(|(_, one)| *one == order)
}

impl Saved {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(file: &Path) -> Result<Saved, Failure> {
        let shown = file.display();
        let mut text = String::new();
        let read =
            File::open(file).and_then(|file| file.take(MOST_SAVED + 1).read_to_string(&mut text));
        read.map_err(|error| Failure::failed(format!("cannot read {shown}: {error}")))?;
        if text.len() as u64 > MOST_SAVED {
            return Err(bad(file, &format!("it is longer than {MOST_SAVED} bytes")));
        }
        serde_json::from_str(&text).map_err(|error| bad(file, &error.to_string()))
    }

    /// What was proved.
    ///
    /// # Errors
    /// A name or a number that is unknown.
    pub fn chosen(&self, file: &Path) -> Result<Chosen, Failure> {
        if let Some(subject) = files_of(self).map_err(|error| bad(file, &error))? {
            return Ok(Chosen::Files(subject));
        }
        if self.layout == files::LOG {
            let device = self.device.as_deref().map(files::device).transpose();
            let device = device.map_err(|error| bad(file, &error))?;
            return Ok(Chosen::Log(LogSubject { device }));
        }
        let layout: Kind = self.layout.parse().map_err(|error| bad(file, &format!("{error}")))?;
        let level = |(number, members)| {
            let level = Level::from_number(number);
            let unknown = || bad(file, &format!("level {number}"));
            level.ok_or_else(unknown).map(|level| (level, members))
        };
        let (level, members) = self.raid.map(level).transpose()?.unzip();
        let Saved { log, sparse, objects, .. } = *self;
        let apart = Apart { log, sparse, objects };
        Ok(Chosen::Block(subject(layout, apart, level, members)?))
    }

    /// The run itself.
    ///
    /// # Errors
    /// If the file holds none of this subject.
    pub fn run<R: DeserializeOwned>(&self, file: &Path) -> Result<Recorded<R>, Failure> {
        serde_json::from_value(self.run.clone()).map_err(|error| bad(file, &error.to_string()))
    }
}

fn bad(file: &Path, what: &str) -> Failure {
    Failure::failed(format!("{} holds no saved run: {what}", file.display()))
}

/// Writes the run of a violation.
///
/// # Errors
/// If the file cannot be written.
pub fn save<S: Saveable>(
    options: &ProveOptions<S>,
    violation: &Violation,
    plant: Option<String>,
    file: &Path,
) -> Outcome {
    let keep = violation.keep.as_ref().and_then(|keep| keep.parse::<Keep>().ok());
    let story = violation.story.clone();
    write(options, violation.case, keep.as_ref(), Saved { plant, story, ..Saved::default() }, file)
}

/// Writes a run that breaks no promise.
///
/// # Errors
/// If the file cannot be written.
pub fn save_passing<S: Saveable>(
    options: &ProveOptions<S>,
    case: u64,
    plant: Option<String>,
    file: &Path,
) -> Outcome {
    let saved = Saved { plant, ..Saved::default() };
    write(options, case, options.keep.as_ref(), saved, file)
}

fn write<S: Saveable>(
    options: &ProveOptions<S>,
    case: u64,
    keep: Option<&Keep>,
    told: Saved,
    file: &Path,
) -> Outcome {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::failed(format!("cannot write {}: {error}", file.display()))
    };
    let run = Recorded::of(options, case, keep);
    let run = serde_json::to_value(&run).map_err(|error| failed(&error))?;
    let saved = Saved { plant: told.plant, story: told.story, run, ..options.subject.saved() };
    let saved = serde_json::to_value(&saved).map_err(|error| failed(&error))?;
    let mut text = String::new();
    lines(&mut text, &saved, 0);
    std::fs::write(file, text + "\n").map_err(|error| failed(&error))
}

/// Depth from which on a value stands in one line: an operation, a sentence.
const ONE_LINE: usize = 3;

/// JSON with one line for each field, each sentence and each operation.
fn lines(out: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    let part = |out: &mut String, index: usize, key: Option<&str>, value: &Value| {
        let comma = if index == 0 { "" } else { "," };
        let key = key.map(|key| format!("{}: ", Value::from(key))).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = write!(out, "{comma}\n{indent}  {key}");
        lines(out, value, depth + 1);
    };
    match value {
        Value::Object(fields) if depth < ONE_LINE - 1 && !fields.is_empty() => {
            out.push('{');
            for (index, (key, value)) in fields.iter().enumerate() {
                part(out, index, Some(key), value);
            }
            let _ = write!(out, "\n{indent}}}");
        }
        Value::Array(items) if depth < ONE_LINE && items.iter().any(|one| !one.is_number()) => {
            out.push('[');
            for (index, value) in items.iter().enumerate() {
                part(out, index, None, value);
            }
            let _ = write!(out, "\n{indent}]");
        }
        value => {
            let _ = write!(out, "{value}");
        }
    }
}

/// The subject that a saved run names; none if it names a layout.
///
/// # Errors
/// A name that is not known.
fn files_of(saved: &Saved) -> Result<Option<FileSubject>, String> {
    let Some(name) = &saved.policy else { return Ok(None) };
    let variant = files::Variant {
        data: saved.data.as_deref().map(files::data).transpose()?,
        judge: saved.judge.as_deref().map(files::rules).transpose()?,
        ace: saved.ace,
        trusts: saved.trust_completions,
        device: saved.device.as_deref().map(files::device).transpose()?,
    };
    let kind = saved.layout.parse().map_err(|error: UnknownKind| error.to_string())?;
    let found = files::subject(kind, files::policy(name)?, variant);
    found.map(Some).map_err(|_| format!("the policy {name} has no contract"))
}

/// The part of a saved run that names a file system.
fn saved_files(subject: FileSubject) -> Saved {
    let FileSubject { kind, policy, data, rules, ace, trusts, device, .. } = subject;
    Saved {
        layout: kind.name.to_owned(),
        policy: Some(policy.name().to_owned()),
        data: (data != DataMode::default()).then(|| data.name().to_owned()),
        judge: (Rules::of_kind(kind, policy, data) != Some(rules)).then(|| rules.name().to_owned()),
        ace: ace.map(|ace| ace.length() as u8),
        trust_completions: trusts,
        device: device.and_then(class).map(|(name, _)| name.to_owned()),
        ..Saved::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_line_for_each_operation() {
        let value = serde_json::json!({
            "run": { "operations": [[1, { "End": true }], [2, "Heal"]], "sizes": [1, 2] },
            "story": ["it \"was\"", "so"],
        });
        let mut text = String::new();
        lines(&mut text, &value, 0);
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value);
        assert!(text.contains("\n      [1,{\"End\":true}],\n"), "{text}");
        assert!(text.contains("\n    \"sizes\": [1,2]\n"), "{text}");
    }
}
