//! Tests of all writers: golden files of one report, and reports with hostile content.
//!
//! `SNAPSHOTS=overwrite cargo test -p seekless-crashtest report` writes the golden files anew.

mod any;
mod hostile;
mod sample;
mod verdicts;

use super::{Kind, Report, html, json, junit, text};
use sample::sample;
use snapbox::{assert_data_eq, file};

#[test]
fn the_text_is_as_the_golden_file_has_it() {
    assert_data_eq!(text::write(&sample(), false), file!["tests/golden/report.txt"].raw());
}

#[test]
fn colours_change_nothing_but_escape_sequences() {
    let (plain, mut coloured) = (text::write(&sample(), false), text::write(&sample(), true));
    assert!(coloured.contains("\x1b[1;31mRED: "), "{coloured}");
    while let Some(from) = coloured.find("\x1b[") {
        let to = from + coloured[from..].find('m').expect("a style ends");
        coloured.replace_range(from..=to, "");
    }
    assert_eq!(coloured, plain);
}

#[test]
fn the_xml_is_as_the_golden_file_has_it() {
    let xml = junit::write(&sample()).expect("memory");
    assert_data_eq!(xml, file!["tests/golden/report.xml"].raw());
}

#[test]
fn the_page_is_as_the_golden_file_has_it() {
    // A line a tag, so that a difference shows where it is.
    let page = html::write(&sample()).replace("><", ">\n<");
    assert_data_eq!(page, file!["tests/golden/report.html.txt"].raw());
}

#[test]
fn the_json_has_the_whole_model() {
    let report = sample();
    let text = json::write(&report).expect("serializes");
    let value: serde_json::Value = serde_json::from_str(&text).expect("valid");
    assert_eq!(value["format"], json::FORMAT);
    assert_eq!(value["verdict"], "red");
    assert_eq!(value["headline"], report.headline());
    assert_eq!(value["states"].as_array().map(Vec::len), Some(report.states.len()));
    assert_eq!(value["groups"][0]["kind"], "broken");
    let back: Report = serde_json::from_str(&text).expect("the model");
    assert_eq!(back, report);
}

#[test]
fn groups_are_sorted_by_kind_and_size_and_rows_follow() {
    let mut report = sample();
    let signature = |report: &Report, row: usize| {
        report.states[row].group.map(|group| report.groups[group].signature.clone())
    };
    let before: Vec<_> = (0..report.states.len()).map(|row| signature(&report, row)).collect();
    report.groups.reverse();
    let last = report.groups.len() - 1;
    for row in &mut report.states {
        row.group = row.group.map(|group| last - group);
    }
    report.sort_groups();
    let kinds: Vec<Kind> = report.groups.iter().map(|group| group.kind).collect();
    assert_eq!(kinds, [Kind::Broken, Kind::Lost, Kind::Lost, Kind::Hung, Kind::Failed]);
    assert!(report.groups[1].states > report.groups[2].states);
    let after: Vec<_> = (0..report.states.len()).map(|row| signature(&report, row)).collect();
    assert_eq!(after, before);
}
