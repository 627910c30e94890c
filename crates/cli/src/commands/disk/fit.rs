//! `seekless disk fit`: the parameters of a drive from measurements or a recording.

use super::drives;
use super::files;
use super::files::wrong_recording;
use super::gap::{self, Gap};
use super::validate::figures;
use crate::failure::{Exit, Failure, Outcome};
use crate::spec;
use crate::term::{Progress, Style};
use seekless_disk::fit::recorded::{RecordedFit, recorded};
use seekless_disk::fit::{
    Estimate, Fit, FitError, Options, Reach, SeekPoint, Step, ZoneFit, measure,
};
use seekless_disk::recording::{self, ReplayError};
use seekless_engine::span::Span;
use seekless_engine::units::SECONDS;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Default limit for measuring a real drive.
pub(super) const BUDGET: Span = Span { ns: 900 * SECONDS };

/// Arguments of `seekless disk fit`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless disk fit --device /dev/sdb --output mine.toml       # reads only; a drive that is idle
  seekless disk fit --device /dev/sdb --budget 2m --json
  seekless disk fit --recording drive.trace --gap before --output rough.toml
  seekless disk fit --disk st19101                             # a model as a black box

A device is only ever read, past the page cache (O_DIRECT). Its parameters are found from when
reads complete: rotation, zones, skews, seeks, head switch, overhead and cache. Other load on the
drive or the machine makes the estimates worse; they come with their standard errors.

A recording tells much less: hits, the bus, rough seek times, whether writes are reported early,
sometimes the rotation. What cannot be estimated is named.")]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// Whether the gap on a line is the pause before its request or after it.
    #[arg(long, value_enum, default_value_t = Gap::After,
          conflicts_with_all = ["disk", "device"])]
    gap: Gap,
    /// Use only the requests to this device of the recording.
    #[arg(long = "of", value_name = "N", conflicts_with_all = ["disk", "device"])]
    of: Option<u32>,
    /// Stop measuring after so long and report what is known by then [default for devices: 15m].
    #[arg(long, value_name = "TIME", conflicts_with = "recording")]
    budget: Option<Span>,
    /// Most distances of the seek curve.
    #[arg(long, value_name = "N", default_value_t = 48, conflicts_with = "recording",
          value_parser = clap::value_parser!(u16).range(2..=1000))]
    seeks: u16,
    /// Seed that decides which sectors are read.
    #[arg(long, default_value_t = 1, conflicts_with = "recording")]
    seed: u64,
    /// Write the specification to this file; an existing file is replaced.
    #[arg(long, short, value_name = "SPEC.toml")]
    output: Option<PathBuf>,
    /// Name of the disk in the specification.
    #[arg(long, default_value = "fitted")]
    name: String,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The drive to fit: exactly one source.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Source {
    /// The recording of a drive.
    #[arg(long, short, value_name = "FILE")]
    recording: Option<PathBuf>,
    /// A block device; it is read, never written.
    #[arg(long, value_name = "PATH")]
    device: Option<PathBuf>,
    /// A built-in disk or the path of a TOML file, measured as if its specification were unknown.
    #[arg(long, short, value_name = "SPEC")]
    disk: Option<String>,
}

/// Estimates, prints and writes.
///
/// # Errors
/// If the source cannot be read or holds too little, or the specification cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let Source { recording, device, disk } = &args.source;
    let disk = disk.as_deref().map(spec::file_of);
    let inputs = [recording.as_deref(), device.as_deref(), disk].into_iter().flatten();
    files::spare("--output", args.output.as_deref(), &inputs.collect::<Vec<_>>())?;
    if let Some(path) = &args.source.recording {
        let fit = from_recording(path, args.gap, args.of)?;
        let summary = format!("estimated from {}", path.display());
        write_spec(args, &fit.to_toml(&args.name, &summary).map_err(failure)?)?;
        return tell_recorded(args, &fit, out);
    }
    let (fit, origin) = measured(args)?;
    let toml = fit.to_toml(&args.name, &format!("measured on {origin}")).map_err(failure)?;
    write_spec(args, &toml)?;
    tell(args, &fit, &origin, out)
}

pub(super) fn failure(error: FitError) -> Failure {
    let exit = match &error {
        FitError::Probe(_) => Exit::Backing,
        FitError::TimeUp(_) | FitError::TooLong(_) => Exit::Usage,
        FitError::NotMechanical(_) | FitError::Lost { .. } | FitError::Specification(_) => {
            Exit::Failed
        }
    };
    Failure::from_message(exit, &error.to_string())
}

fn write_spec(args: &Args, toml: &str) -> Outcome {
    let Some(path) = &args.output else { return Ok(()) };
    fs::write(path, toml)
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
}

fn from_recording(path: &Path, gap: Gap, device: Option<u32>) -> Result<RecordedFit, Failure> {
    let requests = gap::requests(path, device, usize::MAX)?;
    let fit = |before| recorded(requests.iter().copied(), before);
    let found = match gap.fixed() {
        Some(gap) => fit(gap == recording::Gap::Before),
        None => match (fit(true), fit(false)) {
            (Ok(before), Ok(after)) => return better(path, before, after),
            (before, after) => before.or(after),
        },
    };
    found.map_err(|error| match error {
        FitError::TooLong(place) => wrong_recording(path, &ReplayError::TooLong { place }),
        other => failure(other),
    })
}

/// The estimate whose reading of gaps shows a rotation, or shows it more precisely.
fn better(path: &Path, before: RecordedFit, after: RecordedFit) -> Result<RecordedFit, Failure> {
    let error = |fit: &RecordedFit| fit.revolution.map(|one| one.error);
    match (error(&before), error(&after)) {
        (Some(a), Some(b)) if a < 0.5 * b => Ok(before),
        (Some(a), Some(b)) if b < 0.5 * a => Ok(after),
        (Some(_), None) => Ok(before),
        (None, Some(_)) => Ok(after),
        _ => {
            let cause = format!("{} does not show how gaps are read", path.display());
            Err(Failure::failed(cause).hint("give --gap before or --gap after"))
        }
    }
}

fn measured(args: &Args) -> Result<(Fit, String), Failure> {
    let seek_points = usize::from(args.seeks);
    let mut options = Options { seek_points, seed: args.seed, budget: None };
    let budget = args.budget.map(|span| span.ns);
    let mut progress = Progress::new();
    let mut show = |step: Step| {
        let seconds = step.took / SECONDS;
        progress.show(|| format!("{} ({} reads, {seconds} s)", step.what, step.reads));
    };
    let Source { device, disk, .. } = &args.source;
    let (mut probe, origin) = drives::open(device.as_deref(), disk.as_deref())?;
    // A model takes no real time.
    options.budget = budget.or(device.is_some().then_some(BUDGET.ns));
    let fit = measure(probe.as_mut(), &options, &mut show).map_err(failure)?;
    Ok((fit, origin))
}

fn estimate(one: Estimate, unit: f64) -> Value {
    json!({ "value": one.value * unit, "error": one.error * unit })
}

fn perhaps(one: Option<Estimate>, unit: f64) -> Value {
    one.map_or(Value::Null, |one| estimate(one, unit))
}

/// Nanoseconds as milliseconds.
const MS: f64 = 1e-6;

fn zone_json(zone: &ZoneFit) -> Value {
    json!({
        "first_sector": zone.first,
        "end_sector": zone.end,
        "cylinders": zone.cylinders,
        "track_sectors": zone.track_sectors,
        "turn_sectors": zone.turn_sectors,
        "track_skew": perhaps(zone.track_skew, 1.0),
        "cylinder_skew": estimate(zone.cylinder_skew, 1.0),
        "offset": zone.offset,
        "mb_per_s": estimate(zone.mb_per_s, 1.0),
    })
}

fn cache_json(fit: &Fit) -> Value {
    let cache = &fit.cache;
    let (ahead, sectors) = match cache.ahead {
        None => (Value::Null, None),
        Some(Reach::None) => ("none".into(), None),
        Some(Reach::Track) => ("track".into(), None),
        Some(Reach::Cylinder) => ("cylinder".into(), None),
        Some(Reach::Sectors(sectors)) => ("sectors".into(), Some(sectors)),
    };
    json!({
        "keeps": cache.keeps,
        "segments": cache.segments,
        "segments_or_more": cache.segments_or_more(),
        "segment_sectors": cache.segment_sectors,
        "read_ahead": ahead,
        "read_ahead_sectors": sectors,
        "keeps_before": cache.keeps_before,
        "zero_latency_reads": cache.zero_latency,
        "hit_ms": perhaps(cache.hit, MS),
        "bus_mb_per_s": cache.bus_sector.map(|bus| 512e3 / bus.value),
    })
}

fn tell(args: &Args, fit: &Fit, origin: &str, out: &mut dyn Write) -> Outcome {
    if args.json {
        let seek =
            |point: &SeekPoint| json!({ "distance": point.distance, "ms": estimate(point.ns, MS) });
        let json = json!({
            "source": origin,
            "sectors": fit.sectors,
            "rpm": estimate(fit.rpm(), 1.0),
            "heads": fit.heads,
            "cylinders": fit.cylinders(),
            "zones": fit.zones.iter().map(zone_json).collect::<Vec<_>>(),
            "overhead_ms": perhaps(fit.overhead, MS),
            "head_switch_ms": perhaps(fit.head_switch, MS),
            "seek": fit.seek.iter().map(seek).collect::<Vec<_>>(),
            "cache": cache_json(fit),
            "noise_ms": fit.noise * MS,
            "reads": fit.reads,
            "took_s": fit.took as f64 / SECONDS as f64,
            "not_estimated": fit.missing,
        });
        writeln!(out, "{json}")?;
        return Ok(());
    }
    let style = Style::of_stdout();
    let seconds = fit.took / SECONDS;
    let head = format!("{origin}: {} reads in {seconds} s", fit.reads);
    writeln!(out, "{}", style.bold(&head))?;
    for line in fit.lines() {
        writeln!(out, "  {line}")?;
    }
    let head = format!(
        "\n{:>4} {:>12} {:>10} {:>8} {:>16} {:>16} {:>10}",
        "zone", "sector", "cylinders", "sectors", "track skew", "cylinder skew", "MB/s"
    );
    writeln!(out, "{}", style.bold(&head))?;
    let skew = |one: Estimate| format!("{:.2} ± {:.2}", one.value, one.error);
    for (number, zone) in fit.zones.iter().enumerate() {
        writeln!(
            out,
            "{:>4} {:>12} {:>10} {:>8} {:>16} {:>16} {:>10.2}",
            number + 1,
            zone.first,
            zone.cylinders,
            zone.turn_sectors,
            zone.track_skew.map_or("-".into(), skew),
            skew(zone.cylinder_skew),
            zone.mb_per_s.value
        )?;
    }
    if !fit.seek.is_empty() {
        writeln!(out, "\n{}", style.bold("seek (cylinders, ms)"))?;
    }
    for point in &fit.seek {
        let ms = point.ns.scaled(MS);
        writeln!(out, "{:>8} {:>9.3} ± {:.3}", point.distance, ms.value, ms.error)?;
    }
    remarks(args, &fit.missing, out)
}

fn tell_recorded(args: &Args, fit: &RecordedFit, out: &mut dyn Write) -> Outcome {
    if args.json {
        let rpm = fit.revolution.map(|turn| {
            let rpm = 60e9 / turn.value;
            Estimate { value: rpm, error: rpm * turn.error / turn.value }
        });
        let seek = fit.seek.iter().map(|point| {
            let ms = estimate(point.ns, MS);
            json!({ "sectors": point.sectors, "ms": ms, "reads": point.reads })
        });
        let json = json!({
            "requests": fit.requests,
            "sectors": fit.sectors,
            "rpm": perhaps(rpm, 1.0),
            "hit_share": fit.hit_share,
            "hit_ms": perhaps(fit.hit, MS),
            "bus_mb_per_s": fit.bus_sector.map(|bus| 512e3 / bus.value),
            "early_writes": fit.early_writes,
            "early_write_ms": perhaps(fit.early, MS),
            "positioning": seek.collect::<Vec<_>>(),
            "model": fit.model.as_ref().map(|[all, reads, writes]| {
                let mut json = figures(all);
                json["reads"] = figures(reads);
                json["writes"] = figures(writes);
                json
            }),
            "not_estimated": fit.missing,
        });
        writeln!(out, "{json}")?;
        return Ok(());
    }
    for line in fit.lines() {
        writeln!(out, "{line}")?;
    }
    remarks(args, &fit.missing, out)
}

fn remarks(args: &Args, missing: &[String], out: &mut dyn Write) -> Outcome {
    if !missing.is_empty() {
        writeln!(out, "\n{}", Style::of_stdout().bold("not estimated"))?;
    }
    for line in missing {
        writeln!(out, "  {line}")?;
    }
    match &args.output {
        Some(path) => writeln!(out, "\nThe specification is in {}.", path.display())?,
        None => writeln!(out, "\n--output FILE writes the specification.")?,
    }
    Ok(())
}
