//! The measured part of `docs/proof.md`: which planted bugs are found after how many states, and
//! how often faults happen in a sweep.

use crate::prover::subjects;
use crate::run::{capture, cargo, root, seekless};
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: &str = "docs/proof.md";
const BUGS: [&str; 2] =
    ["<!-- `cargo xtask docs` writes the bugs -->\n", "<!-- end of the bugs -->"];
const FILE_BUGS: [&str; 2] = [
    "<!-- `cargo xtask docs` writes the bugs of file systems -->\n",
    "<!-- end of the bugs of file systems -->",
];
const LOG_BUGS: [&str; 2] = [
    "<!-- `cargo xtask docs` writes the bugs of the log -->\n",
    "<!-- end of the bugs of the log -->",
];
const FAULTS: [&str; 2] =
    ["<!-- `cargo xtask docs` writes the faults -->\n", "<!-- end of the faults -->"];
/// Crash states for each subject whose faults are counted.
const STATES: &str = "60000";
/// Where all bugs are declared.
const LIST: &str = "crates/engine/src/planted.rs";

/// Writes the page. With `check`, only compares the names of the bugs: the figures change
/// with every layout, and no test compares them.
///
/// # Errors
/// If the page is out of date, or a sweep or the test of the bugs fails.
pub fn proof(check: bool) -> Result<()> {
    let page = root().join(PAGE);
    let text = fs::read_to_string(&page).with_context(|| format!("cannot read {PAGE}"))?;
    if check {
        complete(&text, &fs::read_to_string(root().join(LIST))?)?;
        println!("docs: {PAGE} lists all planted bugs");
        return Ok(());
    }
    table(Table::Bugs, None)?;
    table(Table::FileBugs, None)?;
    table(Table::LogBugs, None)?;
    table(Table::Faults, None)
}

/// Fails if the list has no bug, or one that the page does not name.
fn complete(text: &str, list: &str) -> Result<()> {
    let known = planted(list);
    let lacks = known.iter().find(|bug| !text.contains(&format!("`{bug}`")));
    if known.is_empty() {
        bail!("{LIST} declares no bug");
    }
    if let Some(bug) = lacks {
        bail!("{PAGE} lacks the planted bug {bug}; write it with `cargo xtask docs`");
    }
    Ok(())
}

/// A table of the page.
#[derive(Clone, Copy, Debug)]
pub enum Table {
    /// The bugs planted in layouts and arrays, and the states until each is found.
    Bugs,
    /// The same of file systems.
    FileBugs,
    /// The same of the log as a service.
    LogBugs,
    /// Frequency of faults in a sweep, and its speed.
    Faults,
}

/// Measures one of the tables and writes it into the page. Sweeps are those of `program`, or of the
/// release build.
///
/// # Errors
/// If a sweep or the test of the bugs fails, or the page lacks its marks.
pub fn table(which: Table, program: Option<PathBuf>) -> Result<()> {
    let (marks, part) = match which {
        Table::Bugs => (BUGS, bugs("planted_bugs", "layout")?),
        Table::FileBugs => (FILE_BUGS, bugs("planted_files", "policy")?),
        Table::LogBugs => (LOG_BUGS, bugs("planted_log", "subject")?),
        Table::Faults => (FAULTS, faults(&program.map_or_else(seekless, Ok)?)?),
    };
    let page = root().join(PAGE);
    let text = fs::read_to_string(&page).with_context(|| format!("cannot read {PAGE}"))?;
    fs::write(&page, put(&text, marks, &part)?).with_context(|| format!("cannot write {PAGE}"))?;
    println!("docs: the table of {} in {PAGE} is written", format!("{which:?}").to_lowercase());
    Ok(())
}

/// The names of all bugs: the lines of the list that begin with a name and a colon.
fn planted(list: &str) -> Vec<&str> {
    let declared = list.split("\nplanted_bugs! {").nth(1).and_then(|rest| rest.split("\n}").next());
    let name = |line: &'_ str| -> bool { line.starts_with(char::is_uppercase) };
    let lines = declared.unwrap_or_default().lines().map(str::trim).filter(|line| name(line));
    lines.filter_map(|line| line.split_once(':')).map(|(name, _)| name).collect()
}

/// A table of bugs, which the test in `module` prints.
fn bugs(module: &str, where_planted: &str) -> Result<String> {
    let name = format!("{module}::every_planted_bug_is_found");
    let mut test = cargo();
    test.args(["test", "--quiet", "--package", "seekless-prove"]).env("SEEKLESS_SEEDS", "3");
    test.args(["--test", "suite", &name, "--", "--nocapture"]);
    let printed = capture(&mut test)?;
    let rows: Vec<&str> = printed.lines().filter(|line| line.starts_with("| `")).collect();
    let head = "bug | what it does | states until caught, seeds 1, 2, 3 |\n|---|---|---|---|\n";
    Ok(format!("| {where_planted} | {head}{}\n", rows.join("\n")))
}

/// The table of faults, a column for each layout and each array.
fn faults(program: &Path) -> Result<String> {
    let subjects = subjects(program)?;
    let mut reports = Vec::new();
    for subject in &subjects {
        let mut prove = Command::new(program);
        prove.args(["prove", "--json", "--states", STATES]).args(subject.split(' '));
        reports.push(serde_json::from_str::<Value>(&capture(&mut prove)?)?);
    }
    let row = |name: &str, value: &dyn Fn(&Value) -> u64| {
        let cells: Vec<String> = reports.iter().map(|one| format!(" {} |", value(one))).collect();
        format!("| {name} |{}\n", cells.concat())
    };
    let name = |report: &Value| format!(" {} |", report["layout"].as_str().unwrap_or_default());
    let names: Vec<String> = reports.iter().map(name).collect();
    let mut out = format!("| |{}\n|---|{}\n", names.concat(), "---:|".repeat(names.len()));
    for field in ["cases", "workloads", "requests", "events", "states", "recovered"] {
        out += &row(field, &|report| report[field].as_u64().unwrap_or(0));
    }
    // Two digits are what can be repeated.
    let speed = |report: &Value| {
        let exact = report["states_per_second"].as_f64().unwrap_or(0.0);
        let unit = 10_f64.powf((exact.max(1.0).log10() - 1.0).floor().max(0.0));
        ((exact / unit).round() * unit) as u64
    };
    out += &row("states per second", &speed);
    let known = reports.first().and_then(|one| one["faults"].as_object());
    for name in known.context("a report without faults")?.keys() {
        out += &row(&name.replace('_', " "), &|one| one["faults"][name].as_u64().unwrap_or(0));
    }
    Ok(out)
}

pub(super) fn between<'t>(text: &'t str, [begin, end]: [&str; 2]) -> Result<&'t str> {
    let lacks = |mark: &str| format!("the page lacks `{}`", mark.trim());
    let from = text.find(begin).with_context(|| lacks(begin))? + begin.len();
    let length = text[from..].find(end).with_context(|| lacks(end))?;
    Ok(&text[from..from + length])
}

pub(super) fn put(text: &str, marks: [&str; 2], part: &str) -> Result<String> {
    let old = between(text, marks)?;
    let [begin, end] = marks;
    Ok(text.replace(&format!("{begin}{old}{end}"), &format!("{begin}\n{part}\n{end}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_that_the_page_lacks_is_noticed() {
        let table =
            |marks: [&str; 2], bug| format!("{}| x | `{bug}` | 1 |\n{}", marks[0], marks[1]);
        let page = table(BUGS, "Aa") + &table(FILE_BUGS, "Bb");
        let list = |bugs: &str| format!("macro\n\nplanted_bugs! {{\n{bugs}}}\n");
        assert!(complete(&page, &list("    Aa: \"x\",\n    Bb:\n        \"y: Z\",\n")).is_ok());
        assert!(complete(&page, &list("    Aa: \"x\",\n    Cc: \"z\",\n")).is_err());
        assert!(complete(&page, &list("")).is_err(), "no bug at all");
        assert!(complete(&page, "").is_err());
    }

    #[test]
    fn the_page_has_its_marks_and_the_list_its_bugs() {
        let page = fs::read_to_string(root().join(PAGE)).expect("the page is there");
        let new = put(&page, BUGS, "x").expect("marks");
        assert_eq!(between(&new, BUGS).expect("still there").trim(), "x");
        assert!(between(&page, FAULTS).is_ok());
        let list = fs::read_to_string(root().join(LIST)).expect("the list is there");
        assert!(planted(&list).len() > 60, "{:?}", planted(&list));
    }
}
