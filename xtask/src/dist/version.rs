//! One version: that of Cargo.toml, of the change log, of the packages and of the tag, if the
//! commit has one.

use crate::run::{capture, root};
use anyhow::{Context as _, Result, ensure};
use std::process::Command;

/// Files that name the version, each with the text before it and behind it.
const PLACES: [(&str, &str, &str); 4] = [
    ("packages/python/pyproject.toml", "\nversion = \"", "\""),
    ("packages/pytest/pyproject.toml", "\nversion = \"", "\""),
    (
        "packages/github/action.yml",
        "The version of Seekless\n    required: false\n    default: \"",
        "\"",
    ),
    ("packages/gitlab/crash-test.gitlab-ci.yml", "SEEKLESS_VERSION: \"", "\""),
];

/// The version that all places name.
///
/// # Errors
/// If two of them differ.
pub(super) fn agreed() -> Result<String> {
    let read = |name: &str| {
        std::fs::read_to_string(root().join(name)).with_context(|| format!("cannot read {name}"))
    };
    let manifest = read("Cargo.toml")?;
    let version = between(&manifest, "\nversion = \"", "\"").context("Cargo.toml: no version")?;
    for (name, before, behind) in PLACES {
        let text = read(name)?;
        let found =
            between(&text, before, behind).with_context(|| format!("{name}: no version"))?;
        ensure!(found == version, "{name} has version {found}, Cargo.toml has {version}");
    }
    let mut describe = Command::new("git");
    let tags = capture(describe.current_dir(root()).args(["tag", "--points-at", "HEAD"]))?;
    logged(&read("CHANGELOG.md")?, version, &tags)?;
    Ok(version.to_owned())
}

/// Checks that the first section of the change log is that of the version, and that a tag, which
/// is `v` and a version, agrees.
fn logged(log: &str, version: &str, tags: &str) -> Result<()> {
    let section = between(log, "\n## ", "\n").context("CHANGELOG.md has no section")?;
    let (logged, state) = section.split_once(' ').unwrap_or((section, ""));
    ensure!(logged == version, "CHANGELOG.md begins with {logged}, Cargo.toml has {version}");
    for tag in tags.lines().filter_map(|tag| tag.strip_prefix('v')) {
        ensure!(tag == version, "the commit has the tag v{tag}, Cargo.toml has {version}");
        ensure!(!state.contains("unreleased"), "CHANGELOG.md calls {version} unreleased: date it");
    }
    Ok(())
}

/// The first text between two others.
fn between<'a>(text: &'a str, before: &str, behind: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(behind).map(|(found, _)| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_names_one_version() {
        agreed().expect("they agree");
    }

    #[test]
    fn a_version_that_differs_is_refused() {
        let log = "# Changelog\n\n## 0.2.0 (unreleased)\n\n## 0.1.0 (2026-01-01)\n";
        assert!(logged(log, "0.2.0", "").is_ok());
        assert!(logged(log, "0.1.0", "").is_err(), "the log is ahead");
        assert!(logged(log, "0.2.0", "v0.2.0\n").is_err(), "a release has a date");
        let dated = log.replace("unreleased", "2026-12-01");
        assert!(logged(&dated, "0.2.0", "v0.2.0\nother\n").is_ok());
        assert!(logged(&dated, "0.2.0", "v0.3.0\n").is_err(), "the tag is another");
    }
}
