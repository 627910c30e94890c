//! `seekless disk probe`: a benchmark that only reads, and the recording that it leaves.

use super::fit::{BUDGET, failure};
use super::{drives, files};
use crate::failure::{Failure, Outcome};
use crate::spec;
use crate::term::{Progress, Style};
use seekless_disk::fit::Step;
use seekless_disk::fit::sample::{Sample, SampleOptions, sample};
use seekless_engine::span::Span;
use seekless_engine::units::SECONDS;
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

/// Nanoseconds as milliseconds.
const MS: f64 = 1e-6;

/// Arguments of `seekless disk probe`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless disk probe /dev/sdb --output mine.csv         # reads only; a drive that is idle
  seekless disk calibrate --disk mine.toml --recording mine.csv --output better.toml
  seekless disk probe --disk st19101                     # a model as a black box

A device is only ever read, past the page cache (O_DIRECT). The report has the rotation, the sectors
of a turn from rim to hub, the skew from track to track, and the time of moves by distance. Each
read goes to the recording with the time it was sent. A device that shows no rotation, such as an
SSD, ends the command with exit code 1, and no file is written.")]
pub struct Args {
    /// A block device or a file; it is read, never written.
    #[arg(value_name = "DEVICE", required_unless_present = "disk", conflicts_with = "disk")]
    device: Option<PathBuf>,
    /// A built-in disk or the path of a TOML file, measured as if its specification were unknown.
    #[arg(long, short, value_name = "SPEC")]
    disk: Option<String>,
    /// Write the recording to this file; an existing file is replaced.
    #[arg(long, short, value_name = "FILE.csv")]
    output: Option<PathBuf>,
    /// Random reads.
    #[arg(long, value_name = "N", default_value_t = 2500,
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    requests: u32,
    /// Stop measuring after so long and report what is known by then [default for devices: 15m].
    #[arg(long, value_name = "TIME")]
    budget: Option<Span>,
    /// Seed that decides which sectors are read.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Measures, prints and writes.
///
/// # Errors
/// If the drive cannot be read or shows no rotation, or the recording cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let disk = args.disk.as_deref().map(spec::file_of);
    let inputs: Vec<_> = [args.device.as_deref(), disk].into_iter().flatten().collect();
    files::spare("--output", args.output.as_deref(), &inputs)?;
    let (mut probe, origin) = drives::open(args.device.as_deref(), args.disk.as_deref())?;
    let options = SampleOptions {
        // A model takes no real time.
        budget: args.budget.map(|span| span.ns).or(args.device.is_some().then_some(BUDGET.ns)),
        random: args.requests,
        seed: args.seed,
        ..SampleOptions::default()
    };
    let mut progress = Progress::new();
    let mut show = |step: Step| {
        let seconds = step.took / SECONDS;
        progress.show(|| format!("{} ({} reads, {seconds} s)", step.what, step.reads));
    };
    let found = sample(probe.as_mut(), &options, &mut show).map_err(failure)?;
    if let Some(path) = &args.output {
        fs::write(path, found.to_csv()).map_err(|error| {
            Failure::failed(format!("cannot write {}: {error}", path.display()))
        })?;
    }
    if args.json {
        writeln!(out, "{}", to_json(&found, &origin))?;
        return Ok(());
    }
    text(args, &found, &origin, out)
}

fn to_json(found: &Sample, origin: &str) -> serde_json::Value {
    let tracks = found.tracks.iter().map(|tracks| {
        json!({
            "sector": tracks.lbn,
            "turn_sectors": tracks.turn_sectors.value,
            "mb_per_s": found.mb_per_s(tracks).value,
        })
    });
    let moves = found.moves.iter().map(|one| {
        json!({
            "sectors": one.distance,
            "ms": { "value": one.ns.value * MS, "error": one.ns.error * MS },
            "reads": one.reads,
        })
    });
    let turn = found.revolution;
    json!({
        "source": origin,
        "sectors": found.sectors,
        "rpm": { "value": 60e9 / turn.value, "error": 60e9 / turn.value * turn.error / turn.value },
        "noise_ms": found.noise * MS,
        "tracks": tracks.collect::<Vec<_>>(),
        "skews_turns": found.skews,
        "moves": moves.collect::<Vec<_>>(),
        "reads": found.reads.len(),
        "took_s": found.took as f64 / SECONDS as f64,
        "not_found": found.missing,
    })
}

fn text(args: &Args, found: &Sample, origin: &str, out: &mut dyn Write) -> Outcome {
    let style = Style::of_stdout();
    let seconds = found.took / SECONDS;
    let head = format!("{origin}: {} reads in {seconds} s", found.reads.len());
    writeln!(out, "{}", style.bold(&head))?;
    let turn = found.revolution;
    let rpm = 60e9 / turn.value;
    writeln!(out, "  rotation  {rpm:.3} ± {:.3} rpm", rpm * turn.error / turn.value)?;
    writeln!(out, "  noise     {:.1} us", found.noise / 1e3)?;
    if let (Some(least), Some(most)) = (found.skews.first(), found.skews.last()) {
        let middle = found.skews[found.skews.len() / 2];
        let count = found.skews.len();
        writeln!(out, "  skew      {middle:.3} turns, {least:.3} to {most:.3} at {count} tracks")?;
    }
    let head = format!("\n{:>14} {:>16} {:>8}", "sector", "sectors a turn", "MB/s");
    writeln!(out, "{}", style.bold(&head))?;
    for tracks in &found.tracks {
        let rate = found.mb_per_s(tracks).value;
        let turn = tracks.turn_sectors.value;
        writeln!(out, "{:>14} {turn:>16.0} {rate:>8.1}", tracks.lbn)?;
    }
    let head = format!("\n{:>14} {:>16} {:>8}", "sectors away", "ms but half a turn", "reads");
    writeln!(out, "{}", style.bold(&head))?;
    for one in &found.moves {
        let (ms, error) = (one.ns.value * MS, one.ns.error * MS);
        writeln!(
            out,
            "{:>14} {:>18} {:>8}",
            one.distance,
            format!("{ms:.2} ± {error:.2}"),
            one.reads
        )?;
    }
    if !found.missing.is_empty() {
        writeln!(out, "\n{}", style.bold("not found"))?;
    }
    for line in &found.missing {
        writeln!(out, "  {line}")?;
    }
    match &args.output {
        Some(path) => writeln!(out, "\nThe recording is in {}.", path.display())?,
        None => writeln!(out, "\n--output FILE writes the recording.")?,
    }
    Ok(())
}
