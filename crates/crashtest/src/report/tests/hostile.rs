//! Reports whose every text comes from an enemy.

use super::super::*;
use super::sample::sample;
use quick_xml::Reader;
use quick_xml::events::Event;

const NASTY: &str =
    "<script>alert(1)</script>\"'&]]>\0\x1b[2J\x1b]0;x\x07\u{202e}\u{fffe}\r\n{dir}";

/// The sample with a text in every place that comes from outside.
pub fn hostile(nasty: &str) -> Report {
    let mut report = sample();
    report.title = nasty.into();
    report.file_system = Some(nasty.into());
    report.ended_by = Some(nasty.into());
    report.warnings = vec![nasty.into(); 100];
    for probe in &mut report.probes {
        (probe.name, probe.output, probe.passed) = (nasty.into(), nasty.into(), !probe.expected);
    }
    for group in &mut report.groups {
        group.signature = nasty.into();
        let example = &mut group.example;
        (example.id, example.name, example.again) = (nasty.into(), nasty.into(), nasty.into());
        (example.output, example.last_acked) = (nasty.into(), Some(nasty.into()));
        if let Some(missing) = &mut example.missing {
            missing.against = nasty.into();
            (missing.lines, missing.remedies) = (vec![nasty.into()], vec![nasty.into()]);
        }
        example.writes.iter_mut().for_each(|write| write.place = Some(nasty.into()));
        example.timeline.iter_mut().for_each(|moment| moment.text = nasty.into());
    }
    for row in &mut report.states {
        (row.id, row.name, row.same_as) = (nasty.into(), nasty.into(), Some(nasty.into()));
    }
    report
}

/// Reads an XML document to its end. Names and counts of its elements, and its text.
pub fn parse(xml: &str) -> (Vec<String>, String) {
    let mut reader = Reader::from_str(xml);
    let (mut names, mut text) = (Vec::new(), String::new());
    loop {
        match reader.read_event().expect("well-formed") {
            Event::Eof => return (names, text),
            Event::Start(tag) | Event::Empty(tag) => {
                names.push(tag.name().as_ref().to_owned());
                for attribute in tag.attributes() {
                    attribute.expect("an attribute");
                }
            }
            Event::Text(part) => text.push_str(&part),
            _ => {}
        }
    }
}

pub fn is_clean(text: &str) -> bool {
    let bad =
        |c: char| (c.is_control() && c != '\n' && c != '\t') || "\u{202e}\u{fffe}".contains(c);
    !text.contains(bad)
}

#[test]
fn no_writer_passes_control_characters_on() {
    let report = hostile(NASTY);
    let text = text::write(&report, false);
    assert!(is_clean(&text), "{text:?}");
    assert!(text.contains("\\x1b[2J"), "{text}");
    let page = html::write(&report);
    assert!(is_clean(&page));
    assert!(!page.contains("<script"), "{page}");
    assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
    let xml = junit::write(&report).expect("memory");
    assert!(is_clean(&xml));
    let (names, _) = parse(&xml);
    assert!(!names.iter().any(|name| name == "script"), "{names:?}");
    assert_eq!(names.iter().filter(|name| *name == "testcase").count(), 3 + 1 + 5);
    let back: Report =
        serde_json::from_str(&json::write(&report).expect("serializes")).expect("valid");
    assert_eq!(back, report);
}

#[test]
fn a_text_of_a_megabyte_is_cut() {
    for unit in ["\"", "&", "\0", "ä", "\u{202e}", "x\n"] {
        let report = hostile(&unit.repeat((1 << 20) / unit.len()));
        let text = text::write(&report, true);
        assert!(text.len() < 300_000, "{unit:?}: {} bytes of text", text.len());
        let page = html::write(&report);
        assert!(page.len() < html::MOST_BYTES, "{unit:?}: {} bytes of HTML", page.len());
        assert!(page.contains("id=\"group-1\""), "{unit:?}: the worst group is shown");
        let xml = junit::write(&report).expect("memory");
        assert!(xml.len() < 2_000_000, "{unit:?}: {} bytes of XML", xml.len());
        parse(&xml);
    }
}

#[test]
fn a_page_of_a_large_sweep_stays_small_and_shows_the_worst() {
    let mut report = sample();
    let good = report.states[0].clone();
    let bad = report.states[2].clone();
    let name = |index: usize| format!("{index}:keep,{}", "1=0-3.6,".repeat(200));
    report.states = (0..20_000).map(|at| StateRow { name: name(at), ..good.clone() }).collect();
    report.states.push(StateRow { id: "the-bad-one".into(), ..bad });
    let group = report.groups[0].clone();
    report.groups = vec![group; 500];
    let moment = report.groups[0].example.timeline[0].clone();
    let write = report.groups[0].example.writes[0].clone();
    let example = &mut report.groups[0].example;
    example.timeline.splice(0..0, vec![moment; 5000]);
    example.writes.extend(vec![write; 5000]);
    let page = html::write(&report);
    assert!(page.len() < html::MOST_BYTES, "{} bytes", page.len());
    assert!(page.contains("the-bad-one"));
    assert!(page.contains("4948 earlier events"), "the timeline ends at the cut");
    assert!(page.contains("4964 more writes"));
    assert!(page.contains("not shown here. The JSON report has all."));
    assert!(page.ends_with("</main></body></html>\n"));
    let text = text::write(&report, false);
    assert!(text.contains("480 more groups in the JSON report"), "{}", text.len());
}

#[test]
fn odd_numbers_break_no_writer() {
    let mut report = sample();
    report.elapsed_s = f64::NAN;
    report.coverage.budget_s = Some(f64::INFINITY);
    let write = &mut report.groups[0].example.writes[2];
    (write.offset, write.length) = (u64::MAX, u64::MAX);
    write.kept_ranges = vec![(0, 5), (u64::MAX, 0)];
    report.groups[0].example.writes[1].length = 0;
    text::write(&report, true);
    html::write(&report);
    assert!(junit::write(&report).expect("memory").contains("time=\"0.000\""));
    let mut empty = sample();
    empty.groups.clear();
    empty.states.clear();
    empty.probes.clear();
    empty.coverage = Coverage::default();
    assert!(html::write(&empty).contains("NO VERDICT: no state was checked"));
}
