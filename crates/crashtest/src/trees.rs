//! What a state lacks, in terms of names and files: its tree beside one that holds everything that
//! was acknowledged. From the difference follows the call that would have prevented it.
//!
//! Both trees are directories of this machine, copied from mounted states.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Bytes that are read at once.
const PIECE: usize = 128 << 10;

/// How two trees differ at a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The state does not have it.
    Missing,
    /// Only the state has it.
    Extra,
    /// One is a file, the other something else.
    OtherKind,
    /// A file with other content.
    Content {
        /// Its size in the state, in bytes.
        size: u64,
        /// Its size in the other tree.
        wanted: u64,
        /// The first byte that differs, or the end of the shorter one.
        at: u64,
    },
}

/// A name at which two trees differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The path below the root of the disk.
    pub path: PathBuf,
    /// How.
    pub change: Change,
    /// If the name or content is missing: the name under which the state has the same content, and
    /// the other tree has another one or none.
    pub found_as: Option<PathBuf>,
}

/// What the state in `found` lacks of the tree in `wanted`, in the order of names.
///
/// # Errors
/// If a directory or file cannot be read.
pub fn compare(found: &Path, wanted: &Path) -> io::Result<Vec<Difference>> {
    let (state, other) = (names(found)?, names(wanted)?);
    let mut all: Vec<&PathBuf> = state.keys().chain(other.keys()).collect();
    all.sort();
    all.dedup();
    let mut differences = Vec::new();
    for path in all {
        let change = match (state.get(path), other.get(path)) {
            (None, _) => Some(Change::Missing),
            (_, None) => Some(Change::Extra),
            (Some(one), Some(two)) => changed(one, two, [&found.join(path), &wanted.join(path)])?,
        };
        let Some(change) = change else { continue };
        differences.push(Difference { path: path.clone(), change, found_as: None });
    }
    // Under a name that the other tree lacks, or has with other content.
    let is_old =
        |one: &&Difference| !matches!(one.change, Change::Missing) && !is_of_repair(&one.path);
    let old: Vec<PathBuf> = differences.iter().filter(is_old).map(|one| one.path.clone()).collect();
    for one in &mut differences {
        let is_file = other.get(&one.path).is_some_and(Metadata::is_file);
        if one.change == Change::Extra || !is_file {
            continue;
        }
        for name in old.iter().filter(|name| **name != one.path && state[*name].is_file()) {
            if first_difference(&found.join(name), &wanted.join(&one.path))?.is_none() {
                one.found_as = Some(name.clone());
            }
        }
    }
    Ok(differences)
}

/// Whether a repair has put the file there, for its owner to look at.
fn is_of_repair(path: &Path) -> bool {
    path.starts_with("lost+found")
}

/// Everything below a directory, without its root. Links are not followed.
fn names(root: &Path) -> io::Result<BTreeMap<PathBuf, Metadata>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(dir) = directories.pop() {
        for entry in std::fs::read_dir(root.join(&dir))? {
            let path = dir.join(entry?.file_name());
            let metadata = std::fs::symlink_metadata(root.join(&path))?;
            if metadata.is_dir() {
                directories.push(path.clone());
            }
            found.insert(path, metadata);
        }
    }
    Ok(found)
}

fn changed(one: &Metadata, two: &Metadata, paths: [&Path; 2]) -> io::Result<Option<Change>> {
    if one.file_type() != two.file_type() {
        return Ok(Some(Change::OtherKind));
    }
    if one.file_type().is_symlink() {
        let same = std::fs::read_link(paths[0])? == std::fs::read_link(paths[1])?;
        return Ok((!same).then_some(Change::OtherKind));
    }
    if !one.is_file() {
        return Ok(None);
    }
    let at = first_difference(paths[0], paths[1])?;
    Ok(at.map(|at| Change::Content { size: one.size(), wanted: two.size(), at }))
}

/// The first byte at which two files differ, or the end of the shorter one; `None` if they are
/// equal.
fn first_difference(one: &Path, two: &Path) -> io::Result<Option<u64>> {
    let open = |path| File::open(path).map(|file| BufReader::with_capacity(PIECE, file));
    let (mut one, mut two) = (open(one)?, open(two)?);
    let mut at = 0;
    loop {
        let (left, right) = (one.fill_buf()?, two.fill_buf()?);
        let length = left.len().min(right.len());
        if length == 0 {
            return Ok((left.len() != right.len()).then_some(at));
        }
        if let Some(differs) = left.iter().zip(right).position(|(left, right)| left != right) {
            return Ok(Some(at + differs as u64));
        }
        at += length as u64;
        one.consume(length);
        two.consume(length);
    }
}

impl Difference {
    /// In words, such as `log has 8 bytes instead of 16, and differs from byte 8 on`.
    pub fn line(&self) -> String {
        let name = self.path.display();
        match &self.change {
            Change::Missing => format!("{name} is missing"),
            Change::Extra => format!("{name} is there, but not on that disk"),
            Change::OtherKind => format!("{name} is something else"),
            Change::Content { size, wanted, at } if size == wanted => {
                format!("{name} ({size} bytes) differs from byte {at} on")
            }
            Change::Content { size, wanted, at } => {
                format!(
                    "{name} has {size} bytes instead of {wanted}, and differs from byte {at} on"
                )
            }
        }
    }

    /// The call that would have made it durable before the acknowledgement.
    pub fn remedy(&self) -> String {
        let name = self.path.display();
        let dir = match self.path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            Some(dir) => format!("directory `{}`", dir.display()),
            None => "the top directory".to_owned(),
        };
        match (&self.found_as, &self.change) {
            (Some(old), _) => {
                let old = old.display();
                format!("`fsync` of {dir} after `rename` or `link` of `{old}` to `{name}`")
            }
            (None, Change::Missing) => format!("`fsync` of {dir} after `{name}` was made"),
            (None, Change::Extra) => format!("`fsync` of {dir} after `{name}` was removed"),
            (None, Change::OtherKind) => format!("`fsync` of {dir} after `{name}` was replaced"),
            (None, Change::Content { .. }) => format!("`fsync` of `{name}` after it was written"),
        }
    }
}

/// The remedies of all differences, without repeating what a rename explains.
pub fn remedies(differences: &[Difference]) -> Vec<String> {
    let renamed: Vec<&PathBuf> =
        differences.iter().filter_map(|one| one.found_as.as_ref()).collect();
    let mut all: Vec<String> = Vec::new();
    let is_told = |one: &&Difference| !renamed.contains(&&one.path) && !is_of_repair(&one.path);
    for one in differences.iter().filter(is_told) {
        let remedy = one.remedy();
        if !all.contains(&remedy) {
            all.push(remedy);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two trees in one directory, with files of this content.
    fn trees(found: &[(&str, &str)], wanted: &[(&str, &str)]) -> Vec<Difference> {
        let dir = tempfile::tempdir().expect("a directory");
        for (root, files) in [("found", found), ("wanted", wanted)] {
            for (name, content) in files {
                let path = dir.path().join(root).join(name);
                std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
                std::fs::write(path, content).expect("written");
            }
            std::fs::create_dir_all(dir.path().join(root)).expect("made");
        }
        compare(&dir.path().join("found"), &dir.path().join("wanted")).expect("it is read")
    }

    fn lines(differences: &[Difference]) -> Vec<String> {
        differences.iter().map(Difference::line).collect()
    }

    #[test]
    fn equal_trees_have_no_difference() {
        assert_eq!(trees(&[("a", "1"), ("d/b", "2")], &[("a", "1"), ("d/b", "2")]), []);
    }

    #[test]
    fn a_short_file_is_told_with_its_first_missing_byte() {
        let found = trees(&[("d/log", "row 1\n")], &[("d/log", "row 1\nrow 2\n")]);
        assert_eq!(lines(&found), ["d/log has 6 bytes instead of 12, and differs from byte 6 on"]);
        assert_eq!(remedies(&found), ["`fsync` of `d/log` after it was written"]);
        let found = trees(&[("s", "abcd")], &[("s", "abXd")]);
        assert_eq!(lines(&found), ["s (4 bytes) differs from byte 2 on"]);
    }

    #[test]
    fn a_rename_that_was_not_made_durable_is_recognised() {
        let found =
            trees(&[("d/cur", "version 1"), ("d/new", "version 2")], &[("d/cur", "version 2")]);
        assert_eq!(
            remedies(&found),
            ["`fsync` of directory `d` after `rename` or `link` of `d/new` to `d/cur`"]
        );
        // Where the name is used again later.
        let found = trees(&[("tmp", "1")], &[("cur", "1"), ("tmp", "2")]);
        assert_eq!(remedies(&found).len(), 1);
        assert!(remedies(&found)[0].ends_with("of `tmp` to `cur`"), "{found:?}");
        // What a repair has found says nothing of names.
        let found = trees(&[("lost+found/#5", "1")], &[("cur", "1")]);
        assert_eq!(remedies(&found), ["`fsync` of the top directory after `cur` was made"]);
        // Where there was no file of that name before.
        let found = trees(&[("new", "version 1")], &[("cur", "version 1")]);
        assert_eq!(lines(&found), ["cur is missing", "new is there, but not on that disk"]);
        assert_eq!(
            remedies(&found),
            ["`fsync` of the top directory after `rename` or `link` of `new` to `cur`"]
        );
    }

    #[test]
    fn names_that_are_missing_or_came_back_are_told() {
        let found = trees(&[("old", "1")], &[("d/f", "2")]);
        assert_eq!(
            lines(&found),
            ["d is missing", "d/f is missing", "old is there, but not on that disk"]
        );
        let remedies = remedies(&found);
        assert!(remedies.contains(&"`fsync` of directory `d` after `d/f` was made".to_owned()));
        assert!(
            remedies.contains(&"`fsync` of the top directory after `old` was removed".to_owned())
        );
    }
}
