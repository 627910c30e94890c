//! A tree in one line, as `calibrate/sequences.py` prints it: paths in order with sizes, runs of
//! equal bytes, modes that are not the usual ones, and extended attributes.

use bytes::Bytes;
use seekless_calls::model::{ObjectId, Tree};
use seekless_fs::call::New;
use std::collections::BTreeMap;

/// Modes that are not shown: those of new files and new directories.
const USUAL_MODES: [u16; 2] = [0o644, 0o755];

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A regular file.
    File { bytes: Vec<u8>, mode: u16, extended: BTreeMap<Bytes, Bytes> },
    /// A directory.
    Directory { mode: u16, extended: BTreeMap<Bytes, Bytes> },
    /// A symbolic link with its text.
    Symlink(Bytes),
    /// Another name of the object whose first path in order is this one.
    Link(String),
}

/// What a program finds, by path.
pub type Shown = BTreeMap<String, Part>;

/// The parts of a tree.
pub fn shown(tree: &Tree) -> Shown {
    let mut found = tree.found();
    found.sort_by(|one, two| one.path.cmp(&two.path));
    let mut first = BTreeMap::new();
    let part = |path: &str, object: ObjectId, first: &mut BTreeMap<ObjectId, String>| {
        if let Some(other) = first.get(&object) {
            return Part::Link(other.clone());
        }
        first.insert(object, path.to_owned());
        let mode = tree.attributes(object).mode;
        let of = |is_directory: bool| {
            let extended = tree.extended(object);
            let extended = extended.map(|(name, value)| (name.clone(), value.clone())).collect();
            (mode.unwrap_or(USUAL_MODES[usize::from(is_directory)]), extended)
        };
        match &tree.object(object).what {
            New::Symlink(text) => Part::Symlink(text.clone()),
            New::Directory => {
                let (mode, extended) = of(true);
                Part::Directory { mode, extended }
            }
            _ => {
                let (mode, extended) = of(false);
                Part::File { bytes: tree.bytes(object), mode, extended }
            }
        }
    };
    let parts = found.into_iter().map(|found| {
        let path = String::from_utf8_lossy(&found.path).into_owned();
        let part = part(&path, found.object, &mut first);
        (path, part)
    });
    parts.collect()
}

/// The line.
pub fn line(shown: &Shown) -> String {
    let more = |mode: u16, is_directory: bool, extended: &BTreeMap<Bytes, Bytes>| {
        let is_usual = mode == USUAL_MODES[usize::from(is_directory)];
        let mode = if is_usual { String::new() } else { format!("|m{mode:o}") };
        let extended = extended.iter().map(|(name, value)| {
            format!("|{}={}", String::from_utf8_lossy(name), runs(value, " "))
        });
        mode + &extended.collect::<String>()
    };
    let parts = shown.iter().map(|(path, part)| match part {
        Part::Link(other) => format!("{path}@{other}"),
        Part::Symlink(text) => format!("{path}>{}", String::from_utf8_lossy(text)),
        Part::Directory { mode, extended } => format!("{path}/{}", more(*mode, true, extended)),
        Part::File { bytes, mode, extended } => {
            let more = more(*mode, false, extended);
            format!("{path}={}:{}{more}", bytes.len(), runs(bytes, " "))
        }
    });
    parts.collect::<Vec<_>>().join("; ")
}

/// The parts of a line; `None` if it is no tree.
pub fn read(line: &str) -> Option<Shown> {
    line.split("; ").filter(|part| !part.is_empty()).map(part).collect()
}

fn part(text: &str) -> Option<(String, Part)> {
    let mut fields = text.split('|');
    let head = fields.next()?;
    let (mut mode, mut extended) = (None, BTreeMap::new());
    for field in fields {
        match (field.split_once('='), field.strip_prefix('m')) {
            (Some((name, value)), _) => {
                let value = bytes_of(value, ' ')?.into();
                extended.insert(Bytes::copy_from_slice(name.as_bytes()), value);
            }
            (None, Some(octal)) => mode = Some(u16::from_str_radix(octal, 8).ok()?),
            (None, None) => return None,
        }
    }
    let end = head.find(['=', '@', '>']).unwrap_or(head.len());
    let (path, rest) = head.split_at(end);
    let mode = |is_directory: bool| mode.unwrap_or(USUAL_MODES[usize::from(is_directory)]);
    let part = match rest.split_at_checked(1) {
        Some(("@", other)) => Part::Link(other.to_owned()),
        Some((">", text)) => Part::Symlink(Bytes::copy_from_slice(text.as_bytes())),
        Some(("=", content)) => {
            let (size, runs) = content.split_once(':')?;
            let bytes = bytes_of(runs, ' ')?;
            (bytes.len().to_string() == size).then_some(())?;
            Part::File { bytes, mode: mode(false), extended }
        }
        _ => {
            let path = path.strip_suffix('/')?;
            return Some((path.to_owned(), Part::Directory { mode: mode(true), extended }));
        }
    };
    Some((path.to_owned(), part))
}

/// Bytes as runs of letters; a dot is a zero.
pub fn runs(bytes: &[u8], between: &str) -> String {
    let run = |run: &[u8]| {
        let byte = if run[0] == 0 { '.' } else { char::from(run[0]) };
        format!("{byte}{}", run.len())
    };
    bytes.chunk_by(|one, two| one == two).map(run).collect::<Vec<_>>().join(between)
}

/// The bytes of runs.
pub fn bytes_of(runs: &str, between: char) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for run in runs.split(between).filter(|run| !run.is_empty()) {
        let (letter, count) = run.split_at_checked(1)?;
        let byte = if letter == "." { 0 } else { letter.bytes().next()? };
        bytes.resize(bytes.len() + count.parse::<usize>().ok()?, byte);
    }
    Some(bytes)
}
