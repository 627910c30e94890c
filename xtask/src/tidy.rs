//! House rules that neither the compiler nor clippy knows.

mod circles;
mod flushes;
mod words;

use crate::docs::contract;
use crate::run::{capture, root};
use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;

const LINE_CHARS: usize = 100;
const WARN_LINES: usize = 900;
const FAIL_LINES: usize = 1500;
const BLOB_BYTES: u64 = 1 << 20;
/// The page in which each promise links the tests behind it.
const CONTRACT: &str = "CONTRACT.md";

/// Checks every file that git knows or would add, and names each offence with its place.
///
/// # Errors
/// If there are offences, or git cannot list the files.
pub fn tidy() -> Result<()> {
    let mut git = Command::new("git");
    git.current_dir(root()).args(["ls-files", "-z", "-co", "--exclude-standard"]);
    let listing = capture(&mut git)?;
    let mut found = Findings::default();
    let mut files = 0;
    for name in listing.split('\0').filter(|name| !name.is_empty()) {
        let path = root().join(name);
        // Listed but deleted in the working tree.
        let Ok(metadata) = path.metadata() else { continue };
        if !metadata.is_file() {
            continue;
        }
        files += 1;
        check_size(name, metadata.len(), &mut found);
        if let Ok(text) = std::fs::read_to_string(&path) {
            check_file(name, &path, &text, &mut found);
        }
    }
    words::check_commits(&mut found)?;
    circles::check(root(), &mut found);
    for warning in &found.warnings {
        eprintln!("tidy: warning: {warning}");
    }
    for error in &found.errors {
        eprintln!("tidy: error: {error}");
    }
    if !found.errors.is_empty() {
        bail!("{} offences against the house rules", found.errors.len());
    }
    println!("tidy: {files} files in order");
    Ok(())
}

#[derive(Debug, Default)]
struct Findings {
    errors: Vec<String>,
    warnings: Vec<String>,
}

impl Findings {
    fn error(&mut self, name: &str, line: usize, what: impl AsRef<str>) {
        self.errors.push(place(name, line, what.as_ref()));
    }

    fn warn(&mut self, name: &str, line: usize, what: impl AsRef<str>) {
        self.warnings.push(place(name, line, what.as_ref()));
    }
}

fn place(name: &str, line: usize, what: &str) -> String {
    if line == 0 { format!("{name}: {what}") } else { format!("{name}:{line}: {what}") }
}

fn check_size(name: &str, bytes: u64, found: &mut Findings) {
    if bytes > BLOB_BYTES {
        found.error(name, 0, format!("{bytes} bytes: too large for git"));
    }
}

/// Every rule for the text of one file.
fn check_file(name: &str, path: &Path, text: &str, found: &mut Findings) {
    check_text(name, text, found);
    words::check_words(name, text, found);
    for line in flushes::nameless(name, text) {
        found.error(name, line, "a flush without a name: `flush_for(Edge::…)`, `Edge::….flush(…)`");
    }
    if name.ends_with(".md") {
        check_links(name, path, text, found);
    }
    if name == CONTRACT {
        check_tests(name, root(), text, found);
        if let Some(offence) = contract::offence(text) {
            found.error(name, 0, offence);
        }
    }
}

/// The rules for lines. The forbidden words are concatenated, so that this file does not break
/// its own rules.
fn check_text(name: &str, text: &str, found: &mut Findings) {
    let markers =
        [concat!("FIX", "ME"), concat!("XX", "X:"), concat!("todo", "!("), concat!("TO", "DO")];
    let homes = [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];
    let bare_ignore = concat!("#[ign", "ore]");
    let rust = name.ends_with(".rs");
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if rust && line.chars().count() > LINE_CHARS {
            found.error(name, number, format!("longer than {LINE_CHARS} characters"));
        }
        if let Some(marker) = markers.iter().find(|marker| line.contains(**marker)) {
            found.error(name, number, format!("`{marker}`: do it or drop it"));
        }
        if homes.iter().any(|home| line.contains(home)) {
            found.error(name, number, "a path of one person's machine");
        }
        if rust && line.contains(bare_ignore) {
            found.error(name, number, "an ignored test must say why: #[ignore = \"…\"]");
        }
        if line.ends_with([' ', '\t']) && !name.ends_with(".md") {
            found.error(name, number, "trailing space");
        }
    }
    let lines = text.lines().count();
    if rust && lines > FAIL_LINES {
        found.error(name, 0, format!("{lines} lines: split it"));
    } else if rust && lines > WARN_LINES {
        found.warn(name, 0, format!("{lines} lines: consider splitting it"));
    }
}

/// Links to files of the checkout must lead somewhere.
fn check_links(name: &str, path: &Path, text: &str, found: &mut Findings) {
    let dir = path.parent().unwrap_or(root());
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for target in links(line) {
            let file = target.split('#').next().unwrap_or_default();
            let elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !elsewhere && !file.is_empty() && !dir.join(file).exists() {
                found.error(name, index + 1, format!("the link to `{target}` leads nowhere"));
            }
        }
    }
}

/// The targets of `[text](target)` in a line.
fn links(line: &str) -> Vec<&str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link).collect()
}

/// A link like ``[`name`](tests/file.rs)`` names a test: the file must have one of that name, or
/// the promise has no test.
fn check_tests(name: &str, dir: &Path, text: &str, found: &mut Findings) {
    let mut known = 0;
    for (index, line) in text.lines().enumerate() {
        for (test, file) in named_tests(line) {
            known += 1;
            // `check_links` reports a missing file.
            let source = std::fs::read_to_string(dir.join(file)).unwrap_or_default();
            if !has_test(&source, test) {
                found.error(name, index + 1, format!("{file} has no test `{test}`"));
            }
        }
    }
    if known == 0 {
        found.error(name, 0, "names no test");
    }
}

/// True if a file has a function of this name that is run as a test: one with `#[test]` that is not
/// ignored, or one in `each_layout!`.
fn has_test(source: &str, name: &str) -> bool {
    let head = format!("fn {name}(");
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let Some(at) = lines.iter().position(|line| line.starts_with(&head)) else { return false };
    let above = || lines[..at].iter().rev().take_while(|line| line.starts_with(['#', '/']));
    let marked = above().any(|line| *line == "#[test]");
    let ignored = above().any(|line| line.starts_with("#[ignore"));
    let listed = source.split_once("each_layout!(").and_then(|(_, list)| list.split_once(");"));
    marked && !ignored
        || listed.is_some_and(|(list, _)| list.split([',', ' ', '\n']).any(|one| one == name))
}

/// Name and file of each test that a line links to.
fn named_tests(line: &str) -> Vec<(&str, &str)> {
    line.match_indices("`](")
        .filter_map(|(end, _)| {
            let begin = line[..end].rfind("[`")? + 2;
            let (file, _) = line[end + 3..].split_once(')')?;
            file.ends_with(".rs").then_some((&line[begin..end], file))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(name: &str, text: &str) -> Vec<String> {
        let mut found = Findings::default();
        check_text(name, text, &mut found);
        found.errors
    }

    #[test]
    fn offences_are_found() {
        for text in [
            "x".repeat(LINE_CHARS + 1),
            format!("// FIX{} later", "ME"),
            format!("todo{}()", "!"),
            format!("    #[ign{}]", "ore]"),
            format!("open(\"/ho{}/x\")", "me"),
            "let x = 1; ".to_owned(),
            "\n".repeat(FAIL_LINES + 1),
        ] {
            assert_eq!(errors("a.rs", &text).len(), 1, "{text}");
        }
        assert!(errors("a.rs", "fn main() {}\n").is_empty());
        assert!(errors("notes.md", &"x".repeat(300)).is_empty());
    }

    #[test]
    fn a_large_file_is_found() {
        let mut found = Findings::default();
        check_size("a.bin", BLOB_BYTES, &mut found);
        assert_eq!(found.errors, Vec::<String>::new());
        check_size("a.bin", BLOB_BYTES + 1, &mut found);
        assert_eq!(found.errors.len(), 1);
    }

    #[test]
    fn every_rule_for_pages_is_applied() {
        let page = root().join(CONTRACT);
        let text = std::fs::read_to_string(&page).expect("the page is there");
        let errors = |text: &str| {
            let mut found = Findings::default();
            check_file(CONTRACT, &page, text, &mut found);
            found.errors.len()
        };
        assert_eq!(errors(&text), 0);
        let cell = text.replacen("| write, append | no |", "| write, append | yes |", 1);
        assert_eq!(errors(&cell), 1);
        for bad in [
            "[x](no-such-file)".to_owned(),
            "[`no_such_test`](xtask/src/tidy.rs)".to_owned(),
            format!("The {} it.", concat!("no", "body says")),
            format!("FIX{}", "ME"),
        ] {
            assert_eq!(errors(&format!("{text}\n{bad}\n")), 1, "{bad}");
        }
    }

    #[test]
    fn tests_that_do_not_exist_are_found() {
        let line = "| 1 | [`a`](x/y.rs), [`b`](z.rs) and [`c`](d.md), `e` [f](g.rs) |";
        assert_eq!(named_tests(line), [("a", "x/y.rs"), ("b", "z.rs")]);
        let mut found = Findings::default();
        let here = "xtask/src/tidy.rs";
        let good = format!("[`tests_that_do_not_exist_are_found`]({here})");
        check_tests("c.md", root(), &good, &mut found);
        assert_eq!(found.errors, Vec::<String>::new());
        // A part of a name is no name, a function without `#[test]` is no test, and a page must
        // link tests.
        let bad = ["[`tests_that_do_not`]", "[`check_tests`]", "no test"];
        for bad in bad.map(|link| format!("{link}({here})")) {
            check_tests("c.md", root(), &bad, &mut found);
        }
        assert_eq!(found.errors.len(), bad.len(), "{found:?}");
    }

    #[test]
    fn links_are_taken_apart() {
        assert_eq!(links("see [a](b.md) and [c](d#e), (f)"), ["b.md", "d#e"]);
        let mut found = Findings::default();
        let here = root().join("README.md");
        check_links("README.md", &here, "[x](no-such-file) [y](https://e.org) [z](#a)", &mut found);
        assert_eq!(found.errors.len(), 1);
    }
}
