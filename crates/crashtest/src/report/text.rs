//! The report for a terminal: the verdict in the first line, then what it rests on, then each group
//! of bad states with one example and the command that checks it again.

use super::clean::{command, last_lines, one_line};
use super::example::{by_fate, fate_word, moment, place, request, size, story};
use super::units::many;
use super::{Example, Fate, Group, Kind, Probe, Report, Verdict, enough};
use std::fmt::Write as _;

/// Groups that are shown in full.
const MOST_GROUPS: usize = 20;
/// Writes of an example that are listed.
const MOST_WRITES: usize = 12;
/// Lines of a check's output, and characters of each.
const MOST_LINES: usize = 12;
const MOST_CHARS: usize = 200;
/// Characters of the reason for a state.
const MOST_WHY: usize = 500;
/// Calls that would have prevented a state.
const MOST_REMEDIES: usize = 3;
/// Characters of a title or a warning.
const MOST_TITLE: usize = 400;
/// Characters of a command: a person copies it, so only an absurd one is cut.
const MOST_COMMAND: usize = 4000;

/// Terminal styles, or nothing.
#[derive(Clone, Copy)]
struct Style {
    colour: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        match self.colour {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }

    fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn kind(self, kind: Kind) -> String {
        let word = kind.word().to_uppercase();
        match kind {
            Kind::Broken | Kind::Lost => self.paint("1;31", &word),
            Kind::Wavers | Kind::Hung | Kind::Failed => self.paint("1;33", &word),
            Kind::Good => self.paint("1;32", &word),
        }
    }

    /// Padded before it is painted: escape sequences have no width.
    fn fate(self, fate: Fate) -> String {
        let word = fate_word(fate);
        match fate {
            Fate::Lost => self.paint("31", word),
            Fate::Torn => self.paint("33", word),
            Fate::Kept => self.paint("32", word),
        }
    }
}

/// The report as text, with or without terminal colours.
pub fn write(report: &Report, colour: bool) -> String {
    let mut out = body(report, colour);
    if let Some(answer) = enough::of_report(report) {
        line(&mut out, &format!("\n{}", answer.line()));
    }
    out
}

/// The report without what closes it.
pub(super) fn body(report: &Report, colour: bool) -> String {
    let style = Style { colour };
    let mut out = String::new();
    headline(&mut out, report, style);
    for (name, value) in report.facts() {
        line(&mut out, &format!("  {:<9} {value}", format!("{name}:")));
    }
    for warning in &report.warnings {
        let warning = one_line(warning, MOST_TITLE);
        line(&mut out, &format!("{} {warning}", style.paint("33", "warning:")));
    }
    for probe in report.probes.iter().filter(|probe| probe.passed != probe.expected) {
        bad_probe(&mut out, probe, style);
    }
    for (index, shown) in report.groups.iter().take(MOST_GROUPS).enumerate() {
        group(&mut out, index, report.groups.len(), shown, style);
    }
    let more = report.groups.len().saturating_sub(MOST_GROUPS);
    if more > 0 {
        line(&mut out, &format!("\n{} in the JSON report", many(more as u64, "more group")));
    }
    out
}

/// Appends a line.
fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

fn headline(out: &mut String, report: &Report, style: Style) {
    let code = match report.verdict() {
        Verdict::Red => "1;31",
        Verdict::Green => "1;32",
        Verdict::GreenSoFar | Verdict::NoVerdict => "1;33",
    };
    line(out, &style.paint(code, &report.headline()));
    line(out, &format!("  {:<9} {}", "test:", one_line(&report.title, MOST_TITLE)));
    if let (Some(cause), Verdict::Red) = (&report.ended_by, report.verdict()) {
        let cause = one_line(cause, MOST_TITLE);
        line(out, &format!("{} {cause} ended the test early", style.paint("33", "warning:")));
    }
}

fn bad_probe(out: &mut String, probe: &Probe, style: Style) {
    let done = if probe.passed { "passes" } else { "fails" };
    let name = one_line(&probe.name, 40);
    line(out, &format!("\n{}", style.bold(&format!("The check of the {name} {done}."))));
    said(out, &probe.output, style);
}

fn group(out: &mut String, index: usize, count: usize, group: &Group, style: Style) {
    let states = many(group.states, "state");
    let head = format!("group {} of {count}:", index + 1);
    let title = format!("{states}, {}", group.kind.meaning());
    line(out, &format!("\n{} {} - {title}", style.bold(&head), style.kind(group.kind)));
    line(out, &format!("  {}", one_line(&group.signature, MOST_CHARS)));
    example(out, &group.example, style);
}

fn example(out: &mut String, example: &Example, style: Style) {
    let id = style.bold(&one_line(&example.id, 60));
    line(out, &format!("  example: state {id}, {}", size(example)));
    line(out, &format!("    {}", moment(example)));
    line(out, &format!("    {}", story(example)));
    let writes = by_fate(example);
    for write in writes.iter().take(MOST_WRITES) {
        let request = style.dim(&request(write));
        line(out, &format!("      {} {}  {request}", style.fate(write.fate), place(write)));
    }
    let more = writes.len().saturating_sub(MOST_WRITES);
    if more > 0 {
        line(out, &format!("      and {}", rest(&writes[MOST_WRITES..])));
    }
    missing(out, example, style);
    if let Some(why) = &example.why {
        line(out, &format!("    {}", one_line(why, MOST_WHY)));
    }
    said(out, &example.output, style);
    line(out, &format!("  again:   {}", command(&example.again, MOST_COMMAND)));
}

/// What the tree of the example lacks, and what would have prevented it.
fn missing(out: &mut String, example: &Example, style: Style) {
    let Some(missing) = &example.missing else { return };
    let against = one_line(&missing.against, MOST_CHARS);
    line(out, &format!("    beside the disk {against}:"));
    for name in missing.lines.iter().take(MOST_LINES) {
        line(out, &format!("      {}", one_line(name, MOST_CHARS)));
    }
    let more = missing.more + missing.lines.len().saturating_sub(MOST_LINES) as u64;
    if more > 0 {
        line(out, &format!("      and {}", many(more, "more difference")));
    }
    for remedy in missing.remedies.iter().take(MOST_REMEDIES) {
        let remedy = style.bold(&one_line(remedy, MOST_CHARS));
        line(out, &format!("    would have prevented it: {remedy}"));
    }
}

/// How many writes of each fate are not listed.
fn rest(writes: &[&super::WriteLine]) -> String {
    let count = |fate| writes.iter().filter(|write| write.fate == fate).count();
    let fates = [Fate::Lost, Fate::Torn, Fate::Kept];
    let shown = fates.iter().filter(|fate| count(**fate) > 0);
    let shown: Vec<String> =
        shown.map(|fate| format!("{} more {}", count(*fate), fate_word(*fate))).collect();
    shown.join(", ")
}

fn said(out: &mut String, output: &str, style: Style) {
    let (lines, more) = last_lines(output, MOST_LINES, MOST_CHARS);
    if lines.is_empty() {
        return line(out, "    the check printed nothing");
    }
    line(out, if more { "    the check said, at its end:" } else { "    the check said:" });
    for said in lines {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "    {} {said}", style.dim("|"));
    }
}
