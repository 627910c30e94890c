//! Edges that a test of a part shows: the test passes, and fails where the edge is cut.
//!
//! The variable `SEEKLESS_CUT` cuts an edge in all of a test program, so that a test need not know
//! of edges. The ledger names the crate, the test program and the test; each commit runs them all.

use super::Entry;
use crate::run::{cargo, output};
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Names the edge that is cut (`seekless_engine::edge::VARIABLE`).
const VARIABLE: &str = "SEEKLESS_CUT";

/// A test program.
#[derive(Clone, Debug)]
struct Program {
    path: PathBuf,
    /// The folder of its crate, in which it runs.
    folder: PathBuf,
}

/// The test programs, by the name of the folder of the crate and `lib` or the name of the file.
type Programs = BTreeMap<String, Program>;

/// Runs the tests of these entries, each with its edge cut, and each test once without a cut.
///
/// # Errors
/// A test that is not there or fails without a cut, and one that passes with it.
pub fn verify(entries: &[&Entry]) -> Result<()> {
    let programs = programs()?;
    let whole: BTreeSet<_> = entries.iter().map(|one| (&one.subject, &one.remark)).collect();
    let whole = whole.into_iter().map(|(program, test)| (program, test, None));
    let cut = entries.iter().map(|one| (&one.subject, &one.remark, Some(one.edge.as_str())));
    let all: Vec<_> = whole.chain(cut).collect();
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let worker = || {
            while let Some(&(program, test, edge)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = one(&programs, program, test, edge) {
                    let mut wrong = wrong.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    wrong.push(format!("{error:#}"));
                }
            }
        };
        for _ in 0..processors {
            scope.spawn(worker);
        }
    });
    let wrong = wrong.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    ensure!(wrong.is_empty(), "{} of {} tests: {}", wrong.len(), all.len(), wrong.join("; "));
    println!("mutants: {} edges are shown by a test that fails without them", entries.len());
    Ok(())
}

/// Runs one test, with an edge cut or without.
fn one(programs: &Programs, program: &str, test: &str, edge: Option<&str>) -> Result<()> {
    let found = programs.get(program).with_context(|| format!("no test program `{program}`"))?;
    let mut command = Command::new(&found.path);
    command.args(["--exact", test]).current_dir(&found.folder);
    command.env(VARIABLE, edge.unwrap_or_default());
    let said = output(&mut command)?;
    let text = String::from_utf8_lossy(&said.stdout);
    match (edge, outcome(&text)) {
        (None, Some(true)) | (Some(_), Some(false)) => Ok(()),
        (None, Some(false)) => bail!("{test} fails"),
        (Some(edge), Some(true)) => bail!("{test} passes without {edge}"),
        // A panic on another thread, or while one is handled, ends all of the program.
        (Some(_), None) if !said.status.success() && text.contains("running 1 test") => Ok(()),
        (_, None) => bail!("`{program}` has no test {test}"),
    }
}

/// Whether the only test that ran has passed, by what the program printed.
fn outcome(text: &str) -> Option<bool> {
    let result = text.lines().find_map(|line| line.strip_prefix("test result: "))?;
    match result {
        _ if result.contains(" 1 passed; 0 failed") => Some(true),
        _ if result.contains(" 0 passed; 1 failed") => Some(false),
        _ => None,
    }
}

/// Builds the test programs, with all features that the workspace asks for.
fn programs() -> Result<Programs> {
    let mut build = cargo();
    build.args(["test", "--quiet", "--workspace", "--no-run", "--message-format", "json"]);
    let built = output(&mut build)?;
    ensure!(built.status.success(), "the tests do not build");
    let text = String::from_utf8_lossy(&built.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(messages.filter_map(|message| program(&message)).collect())
}

/// The test program that a message of cargo tells of.
fn program(message: &Value) -> Option<(String, Program)> {
    let path = message["executable"].as_str()?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let target = match message["target"]["kind"][0].as_str()? {
        "lib" => "lib",
        "test" => message["target"]["name"].as_str()?,
        _ => return None,
    };
    let name = format!("{} {target}", folder.file_name()?.to_str()?);
    Some((name, Program { path: path.into(), folder: folder.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_program_is_named_by_crate_and_target() {
        let message = |kind: &str, test: bool| {
            serde_json::json!({
                "executable": "/t/suite-12", "manifest_path": "/s/crates/prove/Cargo.toml",
                "profile": { "test": test }, "target": { "kind": [kind], "name": "suite" },
            })
        };
        let name = |message: Value| program(&message).map(|(name, _)| name);
        assert_eq!(name(message("test", true)).as_deref(), Some("prove suite"));
        assert_eq!(name(message("lib", true)).as_deref(), Some("prove lib"));
        assert_eq!(name(message("bin", true)), None);
        assert_eq!(name(message("lib", false)), None);
    }

    #[test]
    fn only_one_test_that_ran_has_an_outcome() {
        let of = |counts: &str| outcome(&format!("running\ntest result: ok. {counts}; 0 ignored"));
        assert_eq!(of("1 passed; 0 failed"), Some(true));
        assert_eq!(of("0 passed; 1 failed"), Some(false));
        assert_eq!(of("0 passed; 0 failed"), None);
        assert_eq!(of("11 passed; 0 failed"), None);
    }
}
