//! `seekless disk calibrate`: a specification learns from a recording of its drive.

use super::files;
use super::gap::{Gap, failure, requests};
use super::validate::figures;
use crate::failure::{Failure, Outcome};
use crate::spec;
use crate::term::Style;
use seekless_disk::calibrate::{Calibration, Judged, Options, calibrate};
use seekless_disk::recording;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

/// Requests of a recording that are used at most.
const MOST: usize = 200_000;

/// Arguments of `seekless disk calibrate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless disk calibrate --disk drive.toml --recording drive.trace --output better.toml
  seekless disk calibrate --disk drive.toml --recording drive.trace --gap before --json

The rotation, the angles of tracks, the costs of commands and what the cache does are learnt from
the first part of the recording. The rest is kept apart: what does not improve the model there is
given up. 500 to 2,000 requests are enough for most drives. A recording that teaches nothing ends
the command with exit code 1, and no file is written.")]
pub struct Args {
    /// A built-in disk or the path of a TOML file, such as `disk import` writes.
    #[arg(long, short, value_name = "SPEC")]
    disk: String,
    /// The recording of a drive.
    #[arg(long, short, value_name = "FILE")]
    recording: PathBuf,
    /// Whether the gap on a line is the pause before its request or after it.
    #[arg(long, value_enum, default_value_t = Gap::Auto)]
    gap: Gap,
    /// Use only the requests to this device of the recording.
    #[arg(long, value_name = "N")]
    device: Option<u32>,
    /// Write the specification to this file; an existing file is replaced.
    #[arg(long, short, value_name = "SPEC.toml")]
    output: Option<PathBuf>,
    /// Part of the recording, in percent, that is kept apart.
    #[arg(long, value_name = "PERCENT", default_value_t = 25,
          value_parser = clap::value_parser!(u8).range(5..=90))]
    apart: u8,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Calibrates, prints and writes.
///
/// # Errors
/// If the recording or the disk is invalid, or nothing could be learnt.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let inputs = [args.recording.as_path(), spec::file_of(&args.disk)];
    files::spare("--output", args.output.as_deref(), &inputs)?;
    let spec = spec::find(&args.disk)?;
    let requests = requests(&args.recording, args.device, MOST)?;
    let options = Options { gap: args.gap.fixed(), apart: f64::from(args.apart) / 100.0 };
    let found = calibrate(&spec, &requests, options)
        .map_err(|error| failure(&args.disk, &args.recording, error))?;
    if args.json {
        writeln!(out, "{}", to_json(&found))?;
    } else {
        text(args, &found, out)?;
    }
    if found.learnt.is_empty() {
        let cause = format!("{} teaches nothing about {}", args.recording.display(), args.disk);
        let hint = match found.missing.first() {
            Some(first) => first.clone(),
            None => "the specification is as good as the recording".into(),
        };
        return Err(Failure::failed(cause).hint(hint));
    }
    let Some(path) = &args.output else { return Ok(()) };
    let toml = to_toml(args, &found)?;
    fs::write(path, toml)
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?;
    if !args.json {
        writeln!(out, "The specification is in {}.", path.display())?;
    }
    Ok(())
}

fn to_toml(args: &Args, found: &Calibration) -> Result<String, Failure> {
    let plain = found.spec.to_toml().map_err(|error| Failure::failed(error.to_string()))?;
    let mut toml = format!(
        "# Calibrated by `seekless disk calibrate` from {} and {} requests of {}.\n",
        printable(&args.disk),
        found.requests.0,
        printable(&args.recording.display().to_string())
    );
    for line in &found.learnt {
        let _ = writeln!(toml, "# Learnt: {line}");
    }
    for line in &found.missing {
        let _ = writeln!(toml, "# Not learnt: {line}");
    }
    toml.push_str(&plain);
    Ok(toml)
}

/// Names of files may hold anything; a comment ends with its line.
fn printable(name: &str) -> String {
    name.replace(char::is_control, "\u{fffd}")
}

fn judged(judged: &Judged) -> Value {
    let mut json = figures(&judged.figures);
    json["phase_error_ms"] = judged.phase_ms.into();
    json
}

fn gap_name(gap: recording::Gap) -> &'static str {
    match gap {
        recording::Gap::Before => "before",
        recording::Gap::After => "after",
    }
}

fn to_json(found: &Calibration) -> Value {
    json!({
        "gap": gap_name(found.gap),
        "agreement": {
            "before": found.readings.before,
            "after": found.readings.after,
            "pairs": found.readings.pairs,
        },
        "requests": { "learnt_from": found.requests.0, "kept_apart": found.requests.1 },
        "before": judged(&found.before),
        "after": judged(&found.after),
        "learnt": found.learnt,
        "not_learnt": found.missing,
    })
}

fn text(args: &Args, found: &Calibration, out: &mut dyn Write) -> Outcome {
    let (learnt, apart) = found.requests;
    writeln!(
        out,
        "{}: {learnt} requests to learn from, {apart} kept apart, gaps read as the pause {} each",
        args.recording.display(),
        gap_name(found.gap)
    )?;
    let head = format!("\n{:<32}{:>12}{:>12}", "on the part kept apart", "before", "calibrated");
    writeln!(out, "{}", Style::of_stdout().bold(&head))?;
    type Row = (&'static str, fn(&Judged) -> Option<f64>);
    let rows: [Row; 3] = [
        ("RMS of distributions, ms", |one| one.figures.rms_ms),
        ("MAE per request, ms", |one| one.figures.mae_ms),
        ("rotational position off by, ms", |one| one.phase_ms),
    ];
    for (label, value) in rows {
        let cell = |one: &Judged| value(one).map_or("-".into(), |ms| format!("{ms:.3}"));
        writeln!(out, "{label:<32}{:>12}{:>12}", cell(&found.before), cell(&found.after))?;
    }
    writeln!(out)?;
    for line in &found.learnt {
        writeln!(out, "learnt: {line}")?;
    }
    for line in &found.missing {
        writeln!(out, "not learnt: {line}")?;
    }
    Ok(())
}
