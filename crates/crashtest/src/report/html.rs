//! The report for a browser: one file without scripts and without links to other files.
//!
//! The page stays under [`MOST_BYTES`], however large the sweep: a part that does not fit is left
//! out, and the page says how much is missing. `maud` escapes every value that is spliced in.
//! `group` has the section of a group with its timeline.

mod group;

use super::clean::{one_line, tail};
use super::units::many;
use super::{Group, Kind, Probe, Report, StateRow, Verdict};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Size of the page in bytes at most.
pub const MOST_BYTES: usize = 300_000;
/// Bytes up to which sections of groups are added; the rest is for the table of states.
const GROUP_BYTES: usize = 230_000;
/// Bytes for the closing tags and notes.
const RESERVE_BYTES: usize = 2_000;
/// Rows of the overview of groups.
const MOST_OVERVIEW: usize = 50;
const MOST_WARNINGS: usize = 10;
/// Characters of a title, a warning or a signature.
const MOST_CHARS: usize = 160;
/// Characters of the full name of a state.
const NAME_CHARS: usize = 60;
/// Bytes of the output of a probe.
const PROBE_BYTES: usize = 1 << 10;

const CSS: &str = include_str!("html/style.css");

/// The report as an HTML page.
pub fn write(report: &Report) -> String {
    let mut page = top(report).into_string();
    let shown = add_sections(&mut page, report);
    let hidden = report.groups.len() - shown;
    if hidden > 0 {
        let note =
            format!("{} not shown here. The JSON report has all.", many(hidden as u64, "group"));
        page.push_str(&html! { p.note { (note) } }.into_string());
    }
    add_states(&mut page, &report.states);
    page.push_str("</main></body></html>\n");
    page
}

/// Everything before the first group.
fn top(report: &Report) -> Markup {
    let title = one_line(&report.title, MOST_CHARS);
    let class = class(report.verdict());
    PreEscaped(
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (report.verdict().word()) " - " (title) }
                    style { (PreEscaped(CSS)) }
                }
                body {
                    main {
                        header.verdict.(class) {
                            h1 { (report.headline()) }
                            p { code { (title) } }
                        }
                        (bar(report))
                        (facts(report))
                        (warnings(report))
                        @for probe in report.probes.iter().filter(|one| is_bad(one)) {
                            (bad_probe(probe))
                        }
                        @if report.groups.len() > 1 { (overview(&report.groups)) }
                    }
                }
            }
        }
        .into_string()
        // The sections go inside.
        .trim_end_matches("</main></body></html>")
        .to_owned(),
    )
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Red => "red",
        Verdict::Green => "green",
        Verdict::GreenSoFar => "none",
        Verdict::NoVerdict => "none",
    }
}

/// States by kind as one bar and its legend.
fn bar(report: &Report) -> Markup {
    let coverage = &report.coverage;
    let parts = [
        (Kind::Broken, coverage.broken),
        (Kind::Lost, coverage.lost),
        (Kind::Wavers, coverage.wavers),
        (Kind::Hung, coverage.hung),
        (Kind::Failed, coverage.failed),
        (Kind::Good, coverage.good),
    ];
    let parts = parts.into_iter().filter(|(_, count)| *count > 0);
    html! {
        @if coverage.judged() > 0 {
            div.bar role="img" aria-label="states by outcome" {
                @for (kind, count) in parts.clone() {
                    span class=(kind.word()) style={ "flex-grow:" (count) } {}
                }
            }
            ul.legend {
                @for (kind, count) in parts {
                    li { i class=(kind.word()) {} b { (count) } " " (kind.word()) }
                }
            }
        }
    }
}

fn facts(report: &Report) -> Markup {
    html! {
        dl.facts {
            @for (name, value) in report.facts() {
                @if name != "states" { dt { (name) } dd { (value) } }
            }
        }
    }
}

fn warnings(report: &Report) -> Markup {
    let more = report.warnings.len().saturating_sub(MOST_WARNINGS);
    let red = report.verdict() == Verdict::Red;
    html! {
        @if let Some(cause) = report.ended_by.as_ref().filter(|_| red) {
            p.warning { (one_line(cause, MOST_CHARS)) " ended the test early" }
        }
        @for warning in report.warnings.iter().take(MOST_WARNINGS) {
            p.warning { (one_line(warning, MOST_CHARS)) }
        }
        @if more > 0 { p.warning { (many(more as u64, "more warning")) } }
    }
}

fn is_bad(probe: &Probe) -> bool {
    probe.passed != probe.expected
}

fn bad_probe(probe: &Probe) -> Markup {
    let done = if probe.passed { "passes" } else { "fails" };
    html! {
        section.group {
            h2 { "The check of the " (one_line(&probe.name, 40)) " " (done) }
            pre { (tail(&probe.output, PROBE_BYTES)) }
        }
    }
}

/// One row a group, with a link to its section.
fn overview(groups: &[Group]) -> Markup {
    html! {
        table.overview {
            thead { tr { th { "group" } th { "kind" } th.number { "states" } th { "signature" } } }
            tbody {
                @for (index, group) in groups.iter().enumerate().take(MOST_OVERVIEW) {
                    tr {
                        td { a href={ "#group-" (index + 1) } { (index + 1) } }
                        td { (badge(group.kind)) }
                        td.number { (group.states) }
                        td { code { (one_line(&group.signature, MOST_CHARS)) } }
                    }
                }
            }
        }
    }
}

fn badge(kind: Kind) -> Markup {
    html! { span.badge.(kind.word()) { (kind.word()) } }
}

/// Adds the sections that fit, worst first. Returns how many did.
fn add_sections(page: &mut String, report: &Report) -> usize {
    for (index, group) in report.groups.iter().enumerate() {
        let section = group::section(index, group).into_string();
        if page.len() + section.len() > GROUP_BYTES {
            return index;
        }
        page.push_str(&section);
    }
    report.groups.len()
}

/// Adds the folded table of states: the bad ones first, as many as fit.
fn add_states(page: &mut String, states: &[StateRow]) {
    if states.is_empty() {
        return;
    }
    let mut rows: Vec<&StateRow> = states.iter().collect();
    rows.sort_by_key(|row| row.kind);
    page.push_str("<details class=\"states\"><summary>");
    page.push_str(&format!("All {}", many(states.len() as u64, "state")));
    page.push_str("</summary><table><thead><tr><th>state</th><th>outcome</th>");
    page.push_str("<th class=\"number\">exit</th><th class=\"number\">cut</th>");
    page.push_str("<th class=\"number\">acks</th><th>group</th><th>name</th></tr></thead><tbody>");
    let mut shown = 0;
    for row in &rows {
        let row = state(row).into_string();
        if page.len() + row.len() + RESERVE_BYTES > MOST_BYTES {
            break;
        }
        page.push_str(&row);
        shown += 1;
    }
    page.push_str("</tbody></table>");
    let more = (rows.len() - shown) as u64;
    if more > 0 {
        let note = format!("{} not shown here. The JSON report has all.", many(more, "state"));
        page.push_str(&html! { p.note { (note) } }.into_string());
    }
    page.push_str("</details>");
}

fn state(row: &StateRow) -> Markup {
    html! {
        tr {
            td { code { (one_line(&row.id, NAME_CHARS)) } }
            td {
                (badge(row.kind))
                @if let Some(same) = &row.same_as {
                    " same as " code { (one_line(same, NAME_CHARS)) }
                }
            }
            td.number { @if let Some(exit) = row.exit { (exit) } }
            td.number { (row.cut) }
            td.number { (row.acked) }
            td {
                @if let Some(group) = row.group {
                    a href={ "#group-" (group + 1) } { (group + 1) }
                }
            }
            td { code { (one_line(&row.name, NAME_CHARS)) } }
        }
    }
}
