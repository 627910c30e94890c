//! The report for programs: the whole model with every state, as JSON.
//!
//! Verdict and headline come first, so that a script need not derive them. `format` is the version
//! of the form: a field may be added under the same version, but none is removed or changed.

use super::{Report, Verdict};
use serde::Serialize;

/// Version of the form.
pub const FORMAT: u32 = 1;

#[derive(Serialize)]
pub(super) struct Form<'r> {
    format: u32,
    verdict: Verdict,
    headline: String,
    #[serde(flatten)]
    report: &'r Report,
}

/// The report with what a script need not derive.
pub(super) fn form(report: &Report) -> Form<'_> {
    Form { format: FORMAT, verdict: report.verdict(), headline: report.headline(), report }
}

/// The report as indented JSON with a newline at its end.
///
/// # Errors
/// If the serializer fails; the model gives it no cause to.
pub fn write(report: &Report) -> Result<String, serde_json::Error> {
    let mut out = serde_json::to_string_pretty(&form(report))?;
    out.push('\n');
    Ok(out)
}
