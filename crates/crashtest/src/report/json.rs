//! The report for programs: the whole model with every state, as JSON.
//!
//! Verdict and headline come first, so that a script need not derive them. `format` is the version
//! of the form: a field may be added under the same version, but none is removed or changed.

use super::{Report, Verdict, enough};
use serde::Serialize;

/// Version of the form.
pub const FORMAT: u32 = 1;

#[derive(Serialize)]
pub(super) struct Form<'r> {
    format: u32,
    verdict: Verdict,
    headline: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    enough_policy: Option<enough::Answer>,
    #[serde(flatten)]
    report: &'r Report,
}

/// The report with what a script need not derive.
pub(super) fn form(report: &Report) -> Form<'_> {
    Form {
        format: FORMAT,
        verdict: report.verdict(),
        headline: report.headline(),
        enough_policy: None,
        report,
    }
}

/// The report as indented JSON with a newline at its end.
///
/// # Errors
/// If the serializer fails; the model gives it no cause to.
pub fn write(report: &Report) -> Result<String, serde_json::Error> {
    let answer = enough::of_report(report);
    let form = Form { enough_policy: answer, ..form(report) };
    let mut out = serde_json::to_string_pretty(&form)?;
    out.push('\n');
    Ok(out)
}
