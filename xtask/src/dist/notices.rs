//! The licences of the libraries that the program contains. Most of them ask for that.

use crate::run::{capture, cargo};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// How the names of files with licences begin, in lower case.
const NAMES: [&str; 4] = ["license", "licence", "copying", "notice"];
const TARGET: &str = "x86_64-unknown-linux-musl";

/// Each library with its licence, then the texts, each once.
pub(super) fn notices() -> Result<String> {
    let mut metadata = cargo();
    metadata.args(["metadata", "--locked", "--format-version=1", "--filter-platform", TARGET]);
    let metadata: Value = serde_json::from_str(&capture(&mut metadata)?)?;
    let linked = linked(&metadata).context("cargo metadata has another form than expected")?;
    let mut list = String::from("Seekless contains these libraries:\n\n");
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let id = package["id"].as_str().unwrap_or_default();
        // Packages of the workspace have no source, and the licence of Seekless.
        if !linked.contains(id) || package["source"].is_null() {
            continue;
        }
        let text = |key: &str| package[key].as_str().unwrap_or("?").to_owned();
        let name = format!("{} {}", text("name"), text("version"));
        // Writing to a string cannot fail.
        let _ = writeln!(list, "{name}: {}", text("license"));
        let manifest = text("manifest_path");
        for text in licences(Path::new(&manifest).parent().context("a directory")?)? {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    ensure!(!texts.is_empty(), "no library has a licence");
    let rule = "-".repeat(78);
    for (text, names) in texts {
        let _ = write!(list, "\n{rule}\n{}:\n\n{}\n", names.join(", "), text.trim_end());
    }
    Ok(list)
}

/// The packages that the program is linked with: what it depends on, but for builds and tests.
fn linked(metadata: &Value) -> Option<BTreeSet<String>> {
    let nodes = metadata["resolve"]["nodes"].as_array()?;
    let mut found = BTreeSet::new();
    let is_program = |package: &&Value| package["name"] == "seekless";
    let program = metadata["packages"].as_array()?.iter().find(is_program)?;
    let mut left = vec![program["id"].as_str()?.to_owned()];
    while let Some(id) = left.pop() {
        if !found.insert(id.clone()) {
            continue;
        }
        let node = nodes.iter().find(|node| node["id"] == id.as_str())?;
        for dependency in node["deps"].as_array()? {
            let kinds = dependency["dep_kinds"].as_array()?;
            if kinds.iter().any(|kind| kind["kind"].is_null()) {
                left.push(dependency["pkg"].as_str()?.to_owned());
            }
        }
    }
    Some(found)
}

/// The texts of the licences in a directory.
fn licences(dir: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if path.is_file() && NAMES.iter().any(|begin| name.starts_with(begin)) {
            paths.push(path);
        }
    }
    paths.sort();
    paths.iter().map(|path| Ok(std::fs::read_to_string(path)?)).collect()
}
