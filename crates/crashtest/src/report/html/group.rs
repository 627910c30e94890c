//! The section of a group: its example as a timeline, what became of each write, what the check
//! said, and the command that checks the state again.

use super::super::clean::{command, one_line, tail};
use super::super::example::{by_fate, moment, place, request, size, story};
use super::super::units::many;
use super::super::{Example, Fate, Group, Moment, MomentKind, WriteLine};
use super::{MOST_CHARS, badge};
use maud::{Markup, html};

/// Events of a timeline that are shown; those nearest to the cut stay.
const MOST_MOMENTS: usize = 60;
const MOST_WRITES: usize = 40;
const OUTPUT_BYTES: usize = 6 << 10;
const COMMAND_CHARS: usize = 2000;
/// Segments of the picture of a torn write.
const MOST_SEGMENTS: usize = 32;

/// The section of the group with this index.
pub(super) fn section(index: usize, group: &Group) -> Markup {
    let example = &group.example;
    html! {
        section.group id={ "group-" (index + 1) } {
            h2 {
                (badge(group.kind)) " Group " (index + 1) ": " (many(group.states, "state"))
                ", " (group.kind.meaning())
            }
            p { code { (one_line(&group.signature, MOST_CHARS)) } }
            h3 { "Example: state " code { (one_line(&example.id, 60)) } " (" (size(example)) ")" }
            p { (moment(example)) "." }
            p.story { (story(example)) }
            (timeline(&example.timeline))
            (writes(example))
            (missing(example))
            (why(example))
            (said(&example.output))
            h4 { "Again" }
            pre.command { (command(&example.again, COMMAND_CHARS)) }
        }
    }
}

fn timeline(moments: &[Moment]) -> Markup {
    let cut = moments.iter().rposition(|one| one.kind == MomentKind::Cut);
    let end = cut.map_or(moments.len(), |cut| cut + 1);
    let from = end.saturating_sub(MOST_MOMENTS);
    html! {
        @if !moments.is_empty() {
            h4 { "Timeline" }
            ol.timeline {
                @if from > 0 { li.gap { (many(from as u64, "earlier event")) } }
                @for one in &moments[from..end] { (event(one)) }
            }
        }
    }
}

fn event(one: &Moment) -> Markup {
    let (class, label) = match (one.kind, one.fate) {
        (MomentKind::Request, Some(Fate::Kept)) => ("request kept", "kept"),
        (MomentKind::Request, Some(Fate::Lost)) => ("request lost", "lost"),
        (MomentKind::Request, Some(Fate::Torn)) => ("request torn", "torn"),
        (MomentKind::Request, None) => ("request durable", "durable"),
        (MomentKind::Mark, _) => ("mark", "ack"),
        (MomentKind::Flush, _) => ("flush", "flush"),
        (MomentKind::Cut, _) => ("cut", "power cut"),
    };
    html! {
        li class=(class) {
            span.event { (one.event) }
            span.label { (label) }
            span.what { (one_line(&one.text, MOST_CHARS)) }
        }
    }
}

fn writes(example: &Example) -> Markup {
    let rows = by_fate(example);
    let more = rows.len().saturating_sub(MOST_WRITES);
    html! {
        @if !rows.is_empty() {
            h4 { "Writes that were not durable" }
            table {
                thead { tr { th { "fate" } th { "place" } th { "request" } } }
                tbody { @for write in rows.iter().take(MOST_WRITES) { (row(write)) } }
            }
            @if more > 0 { p.note { (many(more as u64, "more write")) } }
        }
    }
}

/// What the tree of the example lacks, and what would have prevented it.
fn missing(example: &Example) -> Markup {
    html! {
        @if let Some(missing) = &example.missing {
            h4 { "Beside the disk " (one_line(&missing.against, MOST_CHARS)) }
            ul {
                @for name in missing.lines.iter().take(MOST_WRITES) {
                    li { (one_line(name, MOST_CHARS)) }
                }
                @if missing.more > 0 { li { (many(missing.more, "more difference")) } }
            }
            @for remedy in missing.remedies.iter().take(MOST_WRITES) {
                p { "Would have prevented it: " (one_line(remedy, MOST_CHARS)) }
            }
        }
    }
}

/// Why a model allows the state.
fn why(example: &Example) -> Markup {
    html! { @if let Some(why) = &example.why { p { (one_line(why, MOST_CHARS)) } } }
}

fn row(write: &WriteLine) -> Markup {
    let (class, word) = match write.fate {
        Fate::Kept => ("kept", "kept"),
        Fate::Lost => ("lost", "lost"),
        Fate::Torn => ("torn", "torn"),
    };
    html! {
        tr {
            td { span.badge.(class) { (word) } }
            td { (place(write)) @if write.fate == Fate::Torn { (picture(write)) } }
            td { (request(write)) }
        }
    }
}

/// Which parts of a torn write the medium has, from its first byte to its last.
fn picture(write: &WriteLine) -> Markup {
    let share = |bytes: u64| bytes as f64 * 100.0 / write.length.max(1) as f64;
    let parts: Vec<(f64, f64)> = write
        .kept_ranges
        .iter()
        .take(MOST_SEGMENTS)
        .map(|&(from, to)| {
            let from = from.saturating_sub(write.offset).min(write.length);
            let to = to.saturating_sub(write.offset).min(write.length);
            (share(from), share(to.saturating_sub(from)))
        })
        .collect();
    html! {
        svg.torn viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="kept parts" {
            @for (from, width) in parts {
                rect x=(format!("{from:.2}")) y="0" width=(format!("{width:.2}")) height="6" {}
            }
        }
    }
}

fn said(output: &str) -> Markup {
    let shown = tail(output.trim_end(), OUTPUT_BYTES);
    html! {
        h4 { "The check said" }
        @if shown.is_empty() { p.note { "Nothing." } } @else { pre { (shown) } }
    }
}
