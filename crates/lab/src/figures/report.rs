//! The report of a figure as text and as JSON.

use super::chart::Chart;
use super::claim::{Claim, Verdict, number};
use super::table::Table;
use serde::Serialize;
use std::fmt::Write as _;

/// Columns of text.
const WIDTH: usize = 100;

/// Whether a system of a paper was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SystemState {
    /// Its name in the paper.
    pub name: &'static str,
    /// The policy that is the same.
    pub policy: &'static str,
    /// `run`, `not built` or `not asked for`.
    pub state: &'static str,
}

/// The report of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureReport {
    /// Its name.
    pub figure: &'static str,
    /// Paper and figures.
    pub source: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Seed of all randomness.
    pub seed: u64,
    /// Small amounts.
    pub quick: bool,
    /// Number of runs.
    pub runs: usize,
    /// The systems of the paper.
    pub systems: Vec<SystemState>,
    /// Its tables.
    pub tables: Vec<Table>,
    /// The verdicts.
    pub claims: Vec<Claim>,
    /// Its picture.
    #[serde(skip)]
    pub chart: Chart,
}

/// Appends text in lines of at most [`WIDTH`], each with an indent.
fn wrapped(out: &mut String, indent: usize, text: &str) {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > WIDTH {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{:indent$}{line}", "");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(out, "{:indent$}{line}", "");
}

fn claim(out: &mut String, claim: &Claim) {
    let Claim { id, says, found, verdict, because, .. } = claim;
    let _ = writeln!(out, "  {id:<26}{}", verdict.name());
    wrapped(out, 6, says);
    if !found.is_empty() {
        let range = spread(claim, " with half to double free costs");
        wrapped(out, 6, &format!("measured: {found}{range}"));
    }
    if let Some(because) = because {
        wrapped(out, 6, &format!("because {because}"));
    }
}

/// The values with half and with double the free costs of the host, if they are worth a word.
fn spread(claim: &Claim, with: &str) -> String {
    match (claim.sensitivity, claim.measured) {
        (Some([half, double]), Some(value)) if moved(value, half) || moved(value, double) => {
            format!(" ({} to {}{with})", number(half), number(double))
        }
        _ => String::new(),
    }
}

/// True if a value with other costs is worth a word: it is 1 % away.
fn moved(value: f64, other: f64) -> bool {
    (value - other).abs() > value.abs() * 0.01
}

impl FigureReport {
    /// Number of claims with a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.claims.iter().filter(|claim| claim.verdict == verdict).count()
    }

    /// As JSON, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report has only strings as keys")
    }

    /// The claims as a table of Markdown. Calibrations verify nothing and are left out.
    pub fn to_markdown(&self) -> String {
        let mut out = format!("## `{}`\n\n", self.figure);
        out.push_str(
            "| claim | what it says | verdict | measured, or why not |\n|---|---|---|---|\n",
        );
        for one in self.claims.iter().filter(|one| one.verdict != Verdict::Calibration) {
            let Claim { id, says, found, verdict, because, .. } = one;
            let measured = format!("{found}{}", spread(one, ""));
            let because = because.iter().filter(|because| !because.is_empty());
            let because = because.map(|because| match verdict {
                Verdict::Differs => format!("because {because}"),
                _ => because.clone(),
            });
            let parts: Vec<String> =
                [measured].into_iter().filter(|part| !part.is_empty()).chain(because).collect();
            let cell = |text: &str| text.replace('|', "\\|");
            let (says, told) = (cell(says), cell(&parts.join("; ")));
            let _ = writeln!(out, "| {id} | {says} | {} | {told} |", verdict.name());
        }
        out
    }

    /// As text.
    pub fn to_text(&self) -> String {
        let FigureReport { figure, source, title, seed, runs, .. } = self;
        let mut out = format!("{figure}: {title} ({source})\n");
        let quick =
            if self.quick { ", small amounts: rates are not those of the paper" } else { "" };
        let _ = writeln!(out, "{runs} runs, seed {seed}{quick}");
        for state in ["not built", "not asked for"] {
            let names = self.systems.iter().filter(|system| system.state == state);
            let names: Vec<String> =
                names.map(|system| format!("{} ({})", system.name, system.policy)).collect();
            if !names.is_empty() {
                wrapped(&mut out, 0, &format!("{state}: {}", names.join(", ")));
            }
        }
        for table in &self.tables {
            let _ = write!(out, "\n{}", table.to_text());
        }
        let _ = writeln!(out, "\nclaims");
        self.claims.iter().for_each(|one| claim(&mut out, one));
        let verdicts =
            [Verdict::Holds, Verdict::Differs, Verdict::CannotBeTold, Verdict::Calibration];
        let counts = verdicts.map(|verdict| format!("{} {}", self.count(verdict), verdict.name()));
        let _ = writeln!(out, "\n{}", counts.join(", "));
        out
    }
}
