//! The tables of `CONTRACT.md` that the prover reads when it judges file systems.

use super::proof::{between, put};
use crate::run::root;
use anyhow::{Context as _, Result, bail};
use seekless_prove::files::contract::page;
use std::fs;

/// The page.
pub const PAGE: &str = "CONTRACT.md";
const MARKS: [&str; 2] =
    ["<!-- `cargo xtask docs --contract` writes the tables -->\n", "<!-- end of the tables -->"];
/// What writes them.
const COMMAND: &str = "cargo xtask docs --contract";

/// Writes the tables; with `check`, only compares.
///
/// # Errors
/// If the page cannot be read or written, or lacks its marks; with `check`, if it is out of date.
pub fn contract(check: bool) -> Result<()> {
    let path = root().join(PAGE);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {PAGE}"))?;
    let written = put(&text, MARKS, page::page().trim())?;
    if written == text {
        println!("docs: the tables of {PAGE} are up to date");
    } else if check {
        bail!("the tables of {PAGE} are out of date; write them with `{COMMAND}`");
    } else {
        fs::write(&path, written).with_context(|| format!("cannot write {PAGE}"))?;
        println!("docs: the tables of {PAGE} are written");
    }
    Ok(())
}

/// What is wrong with the tables in a text of the page.
pub fn offence(text: &str) -> Option<String> {
    match between(text, MARKS) {
        Err(error) => Some(error.to_string()),
        Ok(found) if found.trim() != page::page().trim() => {
            Some(format!("the tables are not those of the prover; write them with `{COMMAND}`"))
        }
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_was_edited_is_noticed() {
        let text = fs::read_to_string(root().join(PAGE)).expect("the page is there");
        assert_eq!(offence(&text), None);
        let edited = text.replacen("| write, append | no |", "| write, append | yes |", 1);
        assert_ne!(edited, text);
        assert!(offence(&edited).is_some_and(|what| what.contains(COMMAND)));
        assert!(offence(&text.replace(MARKS[1], "")).is_some(), "a mark is missing");
    }
}
