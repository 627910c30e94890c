//! The findings of a replay, as text and as JSON.

use super::Args;
use super::session::Session;
use super::sweep::{Finding, Swept};
use seekless_crashtest::replay::check::Verdict;
use seekless_crashtest::states::story::story;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Lines of a check's output that are shown.
const MOST_LINES: usize = 12;

/// A report.
#[derive(Debug)]
pub struct Report<'r> {
    /// The arguments of the replay.
    pub args: &'r Args,
    /// The recording.
    pub session: &'r Session,
    /// The findings.
    pub result: &'r Swept,
    /// How states were presented as files.
    pub way: &'r str,
    /// The signal that ended the work early.
    pub ended_by: Option<i32>,
}

impl Report<'_> {
    /// Prints the report.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Swept { states, epochs, bad, failed, hung, took, .. } = *self.result;
        let writes = self.session.history().writes().len();
        writeln!(
            out,
            "{}: {writes} writes, {} events",
            self.args.recording.display(),
            self.session.history().events()
        )?;
        write!(
            out,
            "{states} states at {epochs} flush boundaries checked in {:.1} s ({:.0} a second, \
             through {}): {} good, {bad} bad",
            took.as_secs_f64(),
            self.per_second(),
            self.way,
            states - bad - failed - hung
        )?;
        if failed + hung > 0 {
            write!(out, "; {failed} checks failed for their own reasons, {hung} took too long")?;
        }
        writeln!(out)?;
        if let Some(finding) = &self.result.finding {
            self.finding(out, finding)?;
        } else if let Some(trouble) = &self.result.trouble {
            self.trouble(out, trouble)?;
        }
        Ok(())
    }

    fn per_second(&self) -> f64 {
        self.result.states as f64 / self.result.took.as_secs_f64().max(1e-9)
    }

    fn name(&self, finding: &Finding) -> String {
        finding.state.name(self.session.history(), &finding.epoch).to_string()
    }

    fn finding(&self, out: &mut dyn Write, finding: &Finding) -> io::Result<()> {
        let Verdict::Bad(code) = finding.checked.verdict else { return Ok(()) };
        let name = self.name(finding);
        writeln!(out)?;
        match self.result.minimised_in {
            0 => writeln!(out, "bad state {name}: the check ended with exit code {code}")?,
            n => writeln!(
                out,
                "bad state {name}, made as small as {n} more states allowed: the check ended with \
                 exit code {code}"
            )?,
        }
        let story = story(self.session.history(), &finding.epoch, &finding.state);
        story.lines().try_for_each(|line| writeln!(out, "  {line}"))?;
        said(out, &finding.checked.output)?;
        let base = self.base();
        let (recording, check) = (self.args.recording.display(), self.args.check.as_deref());
        writeln!(out, "again:   seekless replay-crashes {recording}{base} --state '{name}' \\")?;
        writeln!(out, "             --check '{}'", check.unwrap_or_default())?;
        writeln!(out, "look:    seekless replay-crashes {recording}{base} --open '{name}' \\")?;
        writeln!(out, "             --socket /tmp/state.sock")
    }

    fn base(&self) -> String {
        let base = self.args.base.as_ref();
        base.map(|path| format!(" --base {}", path.display())).unwrap_or_default()
    }

    fn trouble(&self, out: &mut dyn Write, trouble: &Finding) -> io::Result<()> {
        let name = self.name(trouble);
        match &trouble.checked.verdict {
            Verdict::Hung => writeln!(
                out,
                "the check took longer than {} s on state {name}; this says nothing yet about the \
                 state (--timeout allows more)",
                self.args.timeout
            )?,
            Verdict::Failed(why) => writeln!(
                out,
                "the check failed for its own reasons on state {name}, which says nothing about \
                 the state: {why}"
            )?,
            Verdict::Good | Verdict::Bad(_) | Verdict::Stopped => {}
        }
        said(out, &trouble.checked.output)
    }

    /// The report as one object.
    pub fn to_json(&self) -> Value {
        let Swept { states, epochs, bad, failed, hung, took, minimised_in, .. } = *self.result;
        json!({
            "recording": self.args.recording.display().to_string(),
            "events": self.session.history().events(),
            "writes": self.session.history().writes().len(),
            "cut_short": self.session.flaw().map(|flaw| flaw.said),
            "seed": self.args.seed,
            "boundaries": epochs,
            "states": states,
            "good": states - bad - failed - hung,
            "bad": bad,
            "checks_failed": failed,
            "checks_hung": hung,
            "seconds": took.as_secs_f64(),
            "states_per_second": self.per_second(),
            "way": self.way,
            "ended_by_signal": self.ended_by,
            "minimised_in": minimised_in,
            "finding": self.result.finding.as_ref().map(|finding| self.as_json(finding)),
            "trouble": self.result.trouble.as_ref().map(|finding| self.as_json(finding)),
        })
    }

    fn as_json(&self, finding: &Finding) -> Value {
        let mut verdict = String::new();
        let code = match &finding.checked.verdict {
            Verdict::Bad(code) => Some(*code),
            Verdict::Failed(why) => {
                // Writing to a string cannot fail.
                let _ = write!(verdict, "{why}");
                None
            }
            Verdict::Hung => {
                verdict.push_str("it took too long");
                None
            }
            Verdict::Stopped => {
                verdict.push_str("it was ended");
                None
            }
            Verdict::Good => Some(0),
        };
        json!({
            "state": self.name(finding),
            "exit_code": code,
            "why": verdict,
            "flushes": finding.epoch.flushes,
            "unsettled": finding.epoch.unsettled.len(),
            "story": story(self.session.history(), &finding.epoch, &finding.state),
            "output": finding.checked.output,
        })
    }
}

/// The last lines of a check's output.
fn said(out: &mut dyn Write, output: &str) -> io::Result<()> {
    let lines: Vec<&str> = output.lines().collect();
    let shown = &lines[lines.len().saturating_sub(MOST_LINES)..];
    if !shown.is_empty() {
        writeln!(out, "the check said:")?;
    }
    shown.iter().try_for_each(|line| writeln!(out, "  | {line}"))
}
