//! The specification as text, each value with the place it comes from, and the last check.

use super::lexer::Place;
use super::{ImportError, Imported, Mapping};
use crate::spec::{Spec, SpecError};
use std::fmt::Write as _;

/// Longest line of the text, if it can be broken.
const COLUMNS: usize = 96;

/// Checks the specification and writes it as text.
pub(super) fn finish(mut spec: Spec, m: Mapping<'_>, main: &str) -> Result<Imported, ImportError> {
    let main = printable(main);
    spec.summary = format!("from DiskSim's parameters in {main}");
    spec.validate().map_err(|error| blame(error, &m))?;
    let plain = spec.to_toml().map_err(|error| ImportError::Spec { error })?;
    let mut toml = format!("# Imported from {main}, a parameter file of DiskSim 4.\n");
    for warning in &m.warnings {
        wrap_comment(&mut toml, warning);
    }
    toml.push('\n');
    let mut table = String::new();
    let mut count = 0;
    for line in plain.lines() {
        let mut key = None;
        if let Some(name) = line.strip_prefix("[[").and_then(|rest| rest.strip_suffix("]]")) {
            count = if name == table { count + 1 } else { 0 };
            table = name.to_owned();
            key = Some(format!("{name}[{count}]"));
        } else if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = name.to_owned();
            key = Some(table.clone());
        } else if let Some((name, _)) = line.split_once(" = ") {
            key = Some(if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") });
        }
        let source = m.sources.iter().rev().find(|(of, _)| Some(of) == key.as_ref());
        write_line(&mut toml, line, source.map(|&(_, place)| printable(&m.files.show(place))));
    }
    Ok(Imported { spec, toml, warnings: m.warnings })
}

/// The place that an inconsistent value comes from.
fn blame(error: SpecError, m: &Mapping<'_>) -> ImportError {
    let SpecError::Field { field, problem } = &error else { return ImportError::Spec { error } };
    let place = source_of(field, problem, m);
    let Some(place) = place else { return ImportError::Spec { error } };
    ImportError::At {
        file: m.files.name(place).to_owned(),
        line: place.line,
        problem: format!("`{field}` of the specification: {problem}").replace("; ", ", "),
        remedy: "correct this parameter".to_owned(),
    }
}

fn source_of(field: &str, problem: &str, m: &Mapping<'_>) -> Option<Place> {
    let find = |key: &str| m.sources.iter().find(|(of, _)| of == key).map(|&(_, place)| place);
    let zone = zone_in(problem).filter(|_| field.starts_with("zones"));
    if let Some(place) = zone.and_then(|index| find(&format!("zones[{index}]"))) {
        return Some(place);
    }
    if let Some(place) = m.tree.of(field, problem) {
        return Some(place);
    }
    find(field).or_else(|| find(field.split('.').next()?)).or_else(|| find(super::DISK))
}

/// The index of the zone that a problem names; in messages zones are counted from one.
pub(super) fn zone_in(problem: &str) -> Option<usize> {
    let number = problem.split("zone ").nth(1)?;
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    digits.parse::<usize>().ok()?.checked_sub(1)
}

/// The text without control characters, which neither a comment nor a name may hold.
fn printable(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

fn write_line(toml: &mut String, line: &str, source: Option<String>) {
    // Writing to a string cannot fail.
    let is_list = line.split_once(" = ").is_some_and(|(_, value)| value.starts_with('['));
    if line.len() > COLUMNS && is_list {
        if let Some(source) = source {
            let _ = writeln!(toml, "# {source}");
        }
        wrap_list(toml, line);
        return;
    }
    let _ = match source {
        Some(source) if !line.starts_with("[[") && !line.starts_with('[') => {
            writeln!(toml, "{line:<40} # {source}")
        }
        Some(source) => writeln!(toml, "# {source}\n{line}"),
        None => writeln!(toml, "{line}"),
    };
}

/// Breaks a list after its items.
fn wrap_list(toml: &mut String, line: &str) {
    let Some((key, list)) = line.split_once(" = [") else {
        toml.push_str(line);
        return toml.push('\n');
    };
    let list = list.strip_suffix(']').unwrap_or(list);
    let _ = writeln!(toml, "{key} = [");
    let mut depth = 0;
    let mut item = String::new();
    let mut row = String::from("   ");
    let mut put = |row: &mut String, item: &str| {
        if row.len() + item.len() + 2 > COLUMNS {
            let _ = writeln!(toml, "{}", row.trim_end());
            *row = String::from("   ");
        }
        let _ = write!(row, " {item},");
    };
    for c in list.chars() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                put(&mut row, item.trim());
                item.clear();
                continue;
            }
            _ => {}
        }
        item.push(c);
    }
    if !item.trim().is_empty() {
        put(&mut row, item.trim());
    }
    let _ = writeln!(toml, "{}\n]", row.trim_end());
}

fn wrap_comment(toml: &mut String, text: &str) {
    let mut row = String::from("#");
    for word in text.split_whitespace().map(printable) {
        if row.len() + word.len() + 1 > COLUMNS {
            let _ = writeln!(toml, "{row}");
            row = String::from("#  ");
        }
        let _ = write!(row, " {word}");
    }
    let _ = writeln!(toml, "{row}");
}
