//! The example of a group in words, shared by the text, JUnit and HTML writers.

use super::clean::one_line;
use super::units::{bytes, many};
use super::{Example, Fate, WriteKind, WriteLine};

/// Places of one fate in a story.
const MOST_PLACES: usize = 4;
/// Kept ranges of a torn write that are listed.
const MOST_RANGES: usize = 4;
/// Characters of a place.
const PLACE_CHARS: usize = 120;

/// The fate as a word: what a reader looks for first is in capitals.
pub fn fate_word(fate: Fate) -> &'static str {
    match fate {
        Fate::Kept => "kept",
        Fate::Lost => "LOST",
        Fate::Torn => "TORN",
    }
}

/// The place of a write in file terms, else in bytes of the disk.
pub fn place(write: &WriteLine) -> String {
    match &write.place {
        Some(place) => one_line(place, PLACE_CHARS),
        None => {
            let end = write.offset.saturating_add(write.length);
            format!("{} bytes {}-{end}", disk(write), write.offset)
        }
    }
}

/// The disk of a write; the first one is the only one of most tests.
fn disk(write: &WriteLine) -> &'static str {
    if write.disk > 1 { "second disk" } else { "disk" }
}

/// The request behind a write: number, kind, length, offset, answer and what a torn write kept.
pub fn request(write: &WriteLine) -> String {
    let answered = if write.answered { "answered" } else { "not answered" };
    let what = match write.kind {
        WriteKind::Call => return format!("part {}, {answered}", write.number),
        WriteKind::Write => "write",
        WriteKind::Zeros => "zeros",
        WriteKind::Trim => "trim",
    };
    let fua = if write.fua { ", FUA" } else { "" };
    let mut out = format!(
        "request {}: {what} of {} at {}{}, {answered}{fua}",
        write.number,
        bytes(write.length),
        write.offset,
        if write.disk > 1 { " of the second disk" } else { "" }
    );
    if write.fate == Fate::Torn {
        out.push_str(", ");
        out.push_str(&kept(write));
    }
    out
}

/// Which bytes of a torn write reached the medium, counted from the beginning of the write.
fn kept(write: &WriteLine) -> String {
    let relative = |&(from, to): &(u64, u64)| {
        format!("{}-{}", from.saturating_sub(write.offset), to.saturating_sub(write.offset))
    };
    let shown: Vec<String> = write.kept_ranges.iter().take(MOST_RANGES).map(relative).collect();
    match (shown.is_empty(), write.kept_ranges.len().saturating_sub(MOST_RANGES)) {
        (true, _) => "no byte kept".to_owned(),
        (_, 0) => format!("only its bytes {} kept", shown.join(", ")),
        (_, more) => format!("only its bytes {} and {more} more ranges kept", shown.join(", ")),
    }
}

/// What was lost, torn and kept in one line, such as
/// `lost: d.db bytes 12288-16384; kept: ext4 journal (commit block)`.
pub fn story(example: &Example) -> String {
    let parts = [(Fate::Lost, "lost"), (Fate::Torn, "torn"), (Fate::Kept, "kept")];
    let told: Vec<String> = parts
        .iter()
        .filter_map(|(fate, word)| places(example, *fate).map(|places| format!("{word}: {places}")))
        .collect();
    match told.is_empty() {
        true => "every write was durable".to_owned(),
        false => told.join("; "),
    }
}

/// The different places of the writes of one fate.
fn places(example: &Example, fate: Fate) -> Option<String> {
    let mut out: Vec<String> = Vec::new();
    let mut more = 0;
    for write in example.writes.iter().filter(|write| write.fate == fate) {
        let place = place(write);
        match out.len() {
            _ if out.contains(&place) => {}
            MOST_PLACES => more += 1,
            _ => out.push(place),
        }
    }
    if more > 0 {
        out.push(many(more, "more write"));
    }
    (!out.is_empty()).then(|| out.join(", "))
}

/// When the power went: the cut, and what was acknowledged and durable.
pub fn moment(example: &Example) -> String {
    let acked = match (&example.last_acked, example.acked) {
        (_, 0) => "before any acknowledgement".to_owned(),
        (Some(value), count) => {
            format!("after {} (last: {})", many(count, "acknowledgement"), one_line(value, 60))
        }
        (None, count) => format!("after {}", many(count, "acknowledgement")),
    };
    format!(
        "the power goes at event {}, {acked}; {} durable, {} not",
        example.cut,
        many(example.durable, "write"),
        example.writes.len()
    )
}

/// How the example relates to the states that were tried.
pub fn size(example: &Example) -> &'static str {
    match (example.minimised, example.allowed) {
        (true, true) => "minimised",
        (false, true) => "not minimised",
        (true, false) => "minimised; a power cut cannot leave it",
        (false, false) => "a power cut cannot leave it",
    }
}

/// The writes in the order of a story: lost, torn, kept; then as they were asked.
pub fn by_fate(example: &Example) -> Vec<&WriteLine> {
    let mut out: Vec<&WriteLine> = example.writes.iter().collect();
    out.sort_by_key(|write| match write.fate {
        Fate::Lost => 0,
        Fate::Torn => 1,
        Fate::Kept => 2,
    });
    out
}
