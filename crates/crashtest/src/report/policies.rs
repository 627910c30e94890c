//! The reports of one workload under several policies: which of them it is safe on, and the report
//! of each.
//!
//! A table compares the policies; the reports follow in the same order. The last line says which
//! policy is enough for the program.

use super::units::many;
use super::{Report, Verdict, enough, json, text};
use serde::Serialize;
use std::fmt::Write as _;

/// What follows the name of a policy if time passed between the calls.
pub const PAUSED: &str = "-paused";

/// The report of a workload under one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyReport {
    /// The name of the policy.
    pub policy: String,
    /// What was found.
    pub report: Report,
}

/// The verdict on all policies together: red if one is red, green if all are green.
/// States that were not tried under one policy make it green so far.
pub fn verdict(reports: &[PolicyReport]) -> Verdict {
    of_all(&reports.iter().map(|one| one.report.verdict()).collect::<Vec<_>>())
}

/// The verdict on several reports together.
pub(super) fn of_all(verdicts: &[Verdict]) -> Verdict {
    let is = |wanted| verdicts.iter().filter(|one| **one == wanted).count();
    let (green, so_far) = (is(Verdict::Green), is(Verdict::GreenSoFar));
    match () {
        () if is(Verdict::Red) > 0 => Verdict::Red,
        () if verdicts.is_empty() || green + so_far < verdicts.len() => Verdict::NoVerdict,
        () if so_far > 0 => Verdict::GreenSoFar,
        () => Verdict::Green,
    }
}

/// The verdict in one sentence.
pub fn headline(reports: &[PolicyReport]) -> String {
    let verdict = verdict(reports);
    let names = |wanted| {
        let those = reports.iter().filter(|one| one.report.verdict() == wanted);
        those.map(|one| one.policy.as_str()).collect::<Vec<_>>().join(", ")
    };
    let reason = match verdict {
        Verdict::Red => format!("bad states under {}", names(Verdict::Red)),
        Verdict::Green => format!("no bad state under {}", names(Verdict::Green)),
        Verdict::GreenSoFar => {
            format!("not all states were tried under {}", names(Verdict::GreenSoFar))
        }
        Verdict::NoVerdict => match names(Verdict::NoVerdict).as_str() {
            "" => "no policy was tried".to_owned(),
            names => format!("no verdict under {names}"),
        },
    };
    format!("{}: {reason}", verdict.word())
}

/// The table and the reports as text, with or without terminal colours.
pub fn write(reports: &[PolicyReport], colour: bool) -> String {
    let rows = reports.iter().map(|one| (one.policy.as_str(), &one.report));
    let rows: Vec<(&str, &Report)> = rows.collect();
    let last = enough::of_policies(reports).line();
    together("policy", &headline(reports), &rows, &last, colour)
}

/// Reports as one text: a headline, a table with a row for each, each report, and a last line.
/// `noun` is what their names are names of.
pub(super) fn together(
    noun: &str,
    headline: &str,
    reports: &[(&str, &Report)],
    last: &str,
    colour: bool,
) -> String {
    let mut out = format!("{headline}\n\n{}", counts(noun, reports));
    for (name, report) in reports {
        // Writing to a string does not fail.
        let _ = write!(out, "\n{noun} {name}\n{}", text::body(report, colour));
    }
    let undecided = reports.iter().map(|(_, one)| one.coverage.hung + one.coverage.failed);
    match undecided.sum::<u64>() {
        0 => {}
        count => {
            let _ = writeln!(out, "\n{} without a verdict of the check", many(count, "state"));
        }
    }
    let _ = writeln!(out, "\n{last}");
    out
}

/// The table that compares reports: a row for each, with its name.
fn counts(head: &str, reports: &[(&str, &Report)]) -> String {
    let mut out = String::new();
    let width = reports.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max(head.len());
    let mut row = |cells: [&str; 6]| {
        let [name, states, lost, broken, good, verdict] = cells;
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "  {name:<width$}  {states:>6}  {lost:>6}  {broken:>6}  {good:>6}  {verdict}"
        );
    };
    row([head, "states", "LOST", "BROKEN", "ok", "verdict"]);
    for (name, report) in reports {
        let coverage = &report.coverage;
        let counts = [coverage.judged(), coverage.lost, coverage.broken, coverage.good]
            .map(|n| n.to_string());
        let [states, lost, broken, good] = &counts;
        row([name, states, lost, broken, good, report.verdict().word()]);
    }
    out
}

#[derive(Serialize)]
struct Form<'r> {
    format: u32,
    verdict: Verdict,
    headline: String,
    enough_policy: enough::Answer,
    policies: Vec<One<'r>>,
}

#[derive(Serialize)]
struct One<'r> {
    policy: &'r str,
    #[serde(flatten)]
    form: json::Form<'r>,
}

/// The reports as indented JSON with a newline at its end.
///
/// # Errors
/// If the serializer fails; the model gives it no cause to.
pub fn write_json(reports: &[PolicyReport]) -> Result<String, serde_json::Error> {
    let one = reports.iter();
    let policies = one.map(|one| One { policy: &one.policy, form: json::form(&one.report) });
    let form = Form {
        format: json::FORMAT,
        verdict: verdict(reports),
        headline: headline(reports),
        enough_policy: enough::of_policies(reports),
        policies: policies.collect(),
    };
    let mut out = serde_json::to_string_pretty(&form)?;
    out.push('\n');
    Ok(out)
}
