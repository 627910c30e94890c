//! The report for build servers: JUnit XML as Jenkins and Surefire read it.
//!
//! One suite holds a case for each probe, one for the sweep, and one for each group of states. A
//! group of bad states is a failure. A check that hung or failed by itself is an error.

use super::clean::{command, one_line, printable, tail};
use super::example::{by_fate, fate_word, moment, place, request, story};
use super::{Group, Kind, Probe, Report, Verdict};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use std::io;

/// Bytes of a check's output in a case.
const MOST_OUTPUT: usize = 16 << 10;
/// Writes of an example that are listed.
const MOST_WRITES: usize = 40;
/// Characters of a command.
const MOST_COMMAND: usize = 4000;
/// Characters of a name or message.
const MOST_CHARS: usize = 300;

/// One case of the suite.
struct Case {
    name: String,
    outcome: Option<Outcome>,
    output: String,
    /// Seconds; those of probes and groups are part of the sweep.
    time: f64,
}

/// Why a case is not passed.
struct Outcome {
    /// `failure` or `error`.
    element: &'static str,
    /// Short and stable, such as `lost`.
    kind: &'static str,
    message: String,
    detail: String,
}

/// The report as JUnit XML.
///
/// # Errors
/// If writing to memory fails.
pub fn write(report: &Report) -> io::Result<String> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let cases = cases(report);
    let count = |element| {
        let is = |case: &&Case| case.outcome.as_ref().is_some_and(|out| out.element == element);
        cases.iter().filter(is).count().to_string()
    };
    let (tests, failures, errors) = (cases.len().to_string(), count("failure"), count("error"));
    let time = seconds(report.elapsed_s);
    let totals = [
        ("name", "seekless crash-test"),
        ("tests", tests.as_str()),
        ("failures", failures.as_str()),
        ("errors", errors.as_str()),
        ("time", time.as_str()),
    ];
    let title = one_line(&report.title, MOST_CHARS);
    let suite = [("name", title.as_str()), ("skipped", "0")];
    writer.create_element("testsuites").with_attributes(totals).write_inner_content(|writer| {
        let attributes = suite.into_iter().chain(totals.into_iter().skip(1));
        let element = writer.create_element("testsuite").with_attributes(attributes);
        element.write_inner_content(|writer| {
            properties(writer, report)?;
            cases.iter().try_for_each(|case| write_case(writer, case))
        })?;
        Ok(())
    })?;
    let mut out = String::from_utf8(writer.into_inner()).map_err(io::Error::other)?;
    out.push('\n');
    Ok(out)
}

/// Seconds as the schema wants them; it knows no infinity.
fn seconds(time: f64) -> String {
    format!("{:.3}", if time.is_finite() { time.max(0.0) } else { 0.0 })
}

fn properties(writer: &mut Writer<Vec<u8>>, report: &Report) -> io::Result<()> {
    let coverage = &report.coverage;
    let counts = [
        ("boundaries", coverage.boundaries),
        ("space", coverage.space),
        ("tried", coverage.tried),
        ("identical", coverage.identical),
        ("good", coverage.good),
        ("lost", coverage.lost),
        ("broken", coverage.broken),
        ("wavers", coverage.wavers),
        ("failed", coverage.failed),
        ("hung", coverage.hung),
    ];
    let mut all = vec![("verdict", report.headline())];
    all.extend(counts.map(|(name, count)| (name, count.to_string())));
    all.extend(report.warnings.iter().map(|text| ("warning", one_line(text, MOST_CHARS))));
    writer.create_element("properties").write_inner_content(|writer| {
        for (name, value) in &all {
            let attributes = [("name", *name), ("value", value.as_str())];
            writer.create_element("property").with_attributes(attributes).write_empty()?;
        }
        Ok(())
    })?;
    Ok(())
}

fn cases(report: &Report) -> Vec<Case> {
    let mut out: Vec<Case> = report.probes.iter().map(probe_case).collect();
    out.push(sweep_case(report));
    out.extend(report.groups.iter().map(group_case));
    out
}

fn probe_case(probe: &Probe) -> Case {
    let done = if probe.passed { "passes" } else { "fails" };
    let outcome = (probe.passed != probe.expected).then(|| Outcome {
        element: "failure",
        kind: "probe",
        message: format!("the check of the {} {done}", one_line(&probe.name, MOST_CHARS)),
        detail: String::new(),
    });
    let name = format!("probe: {}", one_line(&probe.name, MOST_CHARS));
    Case { name, outcome, output: tail(&probe.output, MOST_OUTPUT), time: 0.0 }
}

/// The sweep as a whole. It passes with a verdict: bad states have cases of their own.
fn sweep_case(report: &Report) -> Case {
    let is_decided = match report.verdict() {
        Verdict::Red | Verdict::Green => true,
        Verdict::GreenSoFar => report.coverage.is_enough(),
        Verdict::NoVerdict => false,
    };
    let outcome = (!is_decided).then(|| Outcome {
        element: "error",
        kind: "no-verdict",
        message: report.headline(),
        detail: String::new(),
    });
    let facts: Vec<String> =
        report.facts().iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let output = printable(&facts.join("\n"));
    Case { name: "sweep".to_owned(), outcome, output, time: report.elapsed_s }
}

fn group_case(group: &Group) -> Case {
    let example = &group.example;
    let mut detail = format!("{}\n{}\n", moment(example), story(example));
    for write in by_fate(example).into_iter().take(MOST_WRITES) {
        let (fate, place, request) = (fate_word(write.fate), place(write), request(write));
        detail.push_str(&format!("{fate} {place} ({request})\n"));
    }
    if let Some(missing) = &example.missing {
        detail.push_str(&format!("beside the disk {}:\n", one_line(&missing.against, MOST_CHARS)));
        for name in missing.lines.iter().take(MOST_WRITES) {
            detail.push_str(&format!("{}\n", one_line(name, MOST_CHARS)));
        }
        for remedy in missing.remedies.iter().take(MOST_WRITES) {
            let remedy = one_line(remedy, MOST_CHARS);
            detail.push_str(&format!("would have prevented it: {remedy}\n"));
        }
    }
    detail.push_str(&format!("again: {}\n", command(&example.again, MOST_COMMAND)));
    let outcome = Outcome {
        element: match group.kind {
            Kind::Broken | Kind::Lost | Kind::Good => "failure",
            Kind::Wavers | Kind::Hung | Kind::Failed => "error",
        },
        kind: group.kind.word(),
        message: format!("{} states: {}", group.states, group.kind.meaning()),
        detail,
    };
    let signature = one_line(&group.signature, MOST_CHARS);
    let name = format!("{}: {signature}", group.kind.word());
    Case { name, outcome: Some(outcome), output: tail(&example.output, MOST_OUTPUT), time: 0.0 }
}

fn write_case(writer: &mut Writer<Vec<u8>>, case: &Case) -> io::Result<()> {
    let time = seconds(case.time);
    let attributes = [
        ("classname", "seekless.crash-test"),
        ("name", case.name.as_str()),
        ("time", time.as_str()),
    ];
    let element = writer.create_element("testcase").with_attributes(attributes);
    element.write_inner_content(|writer| {
        if let Some(outcome) = &case.outcome {
            let attributes = [("type", outcome.kind), ("message", outcome.message.as_str())];
            let element = writer.create_element(outcome.element).with_attributes(attributes);
            element.write_text_content(BytesText::new(&outcome.detail))?;
        }
        if !case.output.is_empty() {
            let element = writer.create_element("system-out");
            element.write_text_content(BytesText::new(&case.output))?;
        }
        Ok(())
    })?;
    Ok(())
}
