//! Runs a page: its blocks in order, in one session.

use crate::page::{Block, Command, Page};
use crate::session::{Ran, Session};
use crate::{compare, needs, options};
use std::fs;
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// Time that a command may take; a loaded machine must not fail a page.
const PATIENCE: Duration = Duration::from_secs(120);

/// Time that jobs in the background have to print what the page shows of them.
const SETTLE: Duration = Duration::from_secs(20);

/// The same where the page is written anew: what it shows then says nothing.
const SETTLE_ANEW: Duration = Duration::from_secs(2);

/// Names the action, as in `SEEKLESS_PAGES=overwrite`.
const ACTION: &str = "SEEKLESS_PAGES";

/// Runs a page and panics if it is not true; with `SEEKLESS_PAGES=overwrite`, makes it true.
///
/// # Panics
/// With all findings, each with its line.
pub fn check(path: &Path) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let overwrite = std::env::var_os(ACTION).is_some_and(|action| action == "overwrite");
    let result = run(&name, &text, overwrite);
    for skipped in &result.skipped {
        // Past the capture of the test harness.
        let _ = writeln!(std::io::stderr(), "skipped a section of {skipped}");
    }
    if let Some(written) = result.written.filter(|written| overwrite && *written != text) {
        fs::write(path, written).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    assert!(
        result.findings.is_empty(),
        "{}\n{ACTION}=overwrite writes the output of commands anew",
        result.findings.join("\n")
    );
}

/// What running a page came to.
#[derive(Debug, Default)]
pub struct Result {
    /// What is wrong with it, each with page and line.
    pub findings: Vec<String>,
    /// Why parts of it were skipped.
    pub skipped: Vec<String>,
    /// The page as it should be, if it could be run to its end.
    pub written: Option<String>,
}

/// Runs the text of a page.
pub fn run(name: &str, text: &str, overwrite: bool) -> Result {
    let mut result = Result::default();
    let page = match Page::parse(text) {
        Ok(page) => page,
        Err(what) => {
            result.findings.push(format!("{name}:{what}"));
            return result;
        }
    };
    let mut session = match Session::start() {
        Ok(session) => session,
        Err(error) => {
            result.findings.push(format!("{name}: no shell: {error}"));
            return result;
        }
    };
    let mut replaced = Vec::new();
    let mut skipped = None;
    for block in &page.blocks {
        if block.not_run.is_some() {
            result.findings.extend(unknown_options(name, block));
            continue;
        }
        if skipped == Some(block.section) {
            continue;
        }
        if let Some(reason) = needs::missing(&block.needs) {
            skipped = Some(block.section);
            let line = block.commands.first().map_or(0, |command| command.line);
            result.skipped.push(format!("{name}:{line}: {reason}"));
            continue;
        }
        for (index, command) in block.commands.iter().enumerate() {
            let next = block.commands.get(index + 1);
            match execute(&mut session, &page, command, next, overwrite) {
                Ok(None) => {}
                Ok(Some(output)) => replaced.push((command.output.clone(), output)),
                Err(what) => {
                    // What follows builds on what has failed.
                    let place = format!("{name}:{}", command.line + 1);
                    result.findings.push(format!("{place}: `{}`: {what}", command.text));
                    return result;
                }
            }
        }
    }
    result.written = Some(rewrite(&page.lines, replaced));
    result
}

/// Runs a command. Gives the output that should replace the page's, if the page is to be written
/// anew and differs.
fn execute(
    session: &mut Session,
    page: &Page,
    command: &Command,
    next: Option<&Command>,
    overwrite: bool,
) -> std::result::Result<Option<String>, String> {
    let expected = page.expected(command);
    let settle = if overwrite { SETTLE_ANEW } else { SETTLE };
    // What a page lacks cannot be awaited by comparing: a server's first line is, by its `&`.
    let silent = overwrite && expected.is_empty() && command.text.ends_with('&');
    let complete = |output: &str| match silent {
        true => !output.is_empty(),
        false => compare::verify(&expected, output).is_ok(),
    };
    let Ran { output, status } = session.run(&command.text, PATIENCE, settle, complete)?;
    let shown = next.is_some_and(|next| next.text.contains("$?"));
    if status != 0 && !shown {
        return Err(format!(
            "exit code {status}, which the page does not show; it printed:\n{output}"
        ));
    }
    match compare::verify(&expected, &output) {
        Ok(()) => Ok(None),
        Err(_) if overwrite => Ok(Some(compare::anew(&expected, &output))),
        Err(diff) => Err(diff),
    }
}

fn unknown_options(name: &str, block: &Block) -> Vec<String> {
    let commands = block.commands.iter();
    let found = commands.filter_map(|command| {
        let option = options::unknown(&command.text)?;
        Some(format!("{name}:{}: `{}` has no {option}", command.line + 1, command.text))
    });
    found.collect()
}

/// The page with other lines in some places; the places are in order.
fn rewrite(lines: &[String], replaced: Vec<(Range<usize>, String)>) -> String {
    let mut out = Vec::new();
    let mut copied = 0;
    for (place, output) in replaced {
        out.extend(lines[copied..place.start].iter().cloned());
        out.extend(output.lines().map(str::to_owned));
        copied = place.end;
    }
    out.extend(lines[copied..].iter().cloned());
    out.join("\n") + "\n"
}
