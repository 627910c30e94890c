//! The reports of one workload under models of several file systems.
//!
//! Named file systems decide. What POSIX promises, and no more, is a row that informs: many
//! programs rely on more, and say so nowhere.

use super::policies::together;
use super::{Report, Verdict, json};
use serde::Serialize;

/// The model that informs and does not decide, unless it is the only one.
pub const INFORMS: &str = "posix";

/// The report of a workload under one model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelReport {
    /// The name of the model.
    pub model: String,
    /// What was found.
    pub report: Report,
}

/// The reports that decide.
fn deciding(reports: &[ModelReport]) -> Vec<&ModelReport> {
    let named: Vec<&ModelReport> = reports.iter().filter(|one| one.model != INFORMS).collect();
    if named.is_empty() { reports.iter().collect() } else { named }
}

/// True if a report decides.
pub fn decides(one: &ModelReport, reports: &[ModelReport]) -> bool {
    deciding(reports).contains(&one)
}

/// The verdict on all models that decide: red if one is red, green if all are green.
pub fn verdict(reports: &[ModelReport]) -> Verdict {
    let verdicts: Vec<Verdict> = deciding(reports).iter().map(|one| one.report.verdict()).collect();
    super::policies::of_all(&verdicts)
}

/// The names of the models with this verdict.
fn names(reports: &[&ModelReport], wanted: Verdict) -> String {
    let those = reports.iter().filter(|one| one.report.verdict() == wanted);
    those.map(|one| one.model.as_str()).collect::<Vec<_>>().join(", ")
}

/// The verdict in one sentence.
pub fn headline(reports: &[ModelReport]) -> String {
    let (verdict, of) = (verdict(reports), deciding(reports));
    let reason = match verdict {
        Verdict::Red => format!("bad states on {}", names(&of, Verdict::Red)),
        Verdict::Green => format!("no bad state on {}", names(&of, Verdict::Green)),
        Verdict::GreenSoFar => {
            format!("not all states were tried on {}", names(&of, Verdict::GreenSoFar))
        }
        Verdict::NoVerdict => match names(&of, Verdict::NoVerdict).as_str() {
            "" => "no model was tried".to_owned(),
            names => format!("no verdict on {names}"),
        },
    };
    format!("{}: {reason}", verdict.word())
}

/// What the models say together, in one sentence.
pub fn sentence(reports: &[ModelReport]) -> String {
    let all: Vec<&ModelReport> = reports.iter().collect();
    let (bad, good) = (names(&all, Verdict::Red), names(&all, Verdict::Green));
    match (bad.as_str(), good.as_str()) {
        ("", "") => "no model has a verdict".to_owned(),
        ("", good) => format!("good on {good}"),
        (INFORMS, good) if !good.is_empty() => {
            format!("good on {good}; the program relies on more than POSIX promises")
        }
        (bad, "") => format!("bad on {bad}: look for a sync that is missing"),
        (bad, good) => format!("bad on {bad}; good on {good}"),
    }
}

/// The table and the reports as text, with or without terminal colours.
pub fn write(reports: &[ModelReport], colour: bool) -> String {
    let rows = reports.iter().map(|one| (one.model.as_str(), &one.report));
    let rows: Vec<(&str, &Report)> = rows.collect();
    let last = format!("Models: {}.", sentence(reports));
    together("model", &headline(reports), &rows, &last, colour)
}

#[derive(Serialize)]
struct Form<'r> {
    format: u32,
    verdict: Verdict,
    headline: String,
    sentence: String,
    models: Vec<One<'r>>,
}

#[derive(Serialize)]
struct One<'r> {
    model: &'r str,
    decides: bool,
    #[serde(flatten)]
    form: json::Form<'r>,
}

/// The reports as indented JSON with a newline at its end.
///
/// # Errors
/// If the serializer fails; the model gives it no cause to.
pub fn write_json(reports: &[ModelReport]) -> Result<String, serde_json::Error> {
    let models = reports.iter().map(|one| One {
        model: &one.model,
        decides: decides(one, reports),
        form: json::form(&one.report),
    });
    let form = Form {
        format: json::FORMAT,
        verdict: verdict(reports),
        headline: headline(reports),
        sentence: sentence(reports),
        models: models.collect(),
    };
    let mut out = serde_json::to_string_pretty(&form)?;
    out.push('\n');
    Ok(out)
}
