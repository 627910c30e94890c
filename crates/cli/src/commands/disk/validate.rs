//! `seekless disk validate`: a recording of a real drive against a model.

use super::files::{self, wrong_recording};
use super::gap::{self, Gap};
use crate::failure::{Failure, Outcome};
use crate::spec;
use crate::term::{Progress, Style};
use seekless_disk::recording::plot::{Ink, distributions};
use seekless_disk::recording::{
    self, Figures, Format, Op, Pace, Recording, Replay, ReplayError, Report, Statistics,
};
use seekless_disk::{Drive, Spec, SpecError};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

/// Size of the plot in characters.
const PLOT: (usize, usize) = (60, 16);

/// Arguments of `seekless disk validate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless disk validate --disk atlas10k.toml --recording atlas10k.trace --gap before
  seekless disk validate --disk hp97560 --recording mine.csv --json
  seekless disk validate --disk rz26.toml --recording rz26.trace --per-request off.csv

A recording has one request a line: `R label lbn sectors response gap`, or comma-separated values
under a header that names `op`, `lbn`, `sectors`, `response_us` and one of `gap_us` and `time_us`
(or `_ms`, `_ns`); HP Labs' binary SRT files are read as well. Sectors have 512 bytes, times without
a unit are in microseconds.

Requests are replayed one at a time. RMS is the root mean square of the horizontal distance between
the two distributions of response times (the demerit figure of Ruemmler and Wilkes); it does not
see whether the right requests are fast, MAE and correlation do.")]
pub struct Args {
    /// A built-in disk (`seekless disks` lists them) or the path of a TOML file.
    #[arg(long, short, value_name = "SPEC")]
    disk: String,
    /// The recording.
    #[arg(long, short, value_name = "FILE")]
    recording: PathBuf,
    /// Whether the gap on a line is the pause before its request or after it.
    #[arg(long, value_enum, default_value_t = Gap::After)]
    gap: Gap,
    /// Replay only the requests to this device of the recording.
    #[arg(long, value_name = "N")]
    device: Option<u32>,
    /// Write each request with its measured and simulated time, as comma-separated values.
    #[arg(long, value_name = "FILE")]
    per_request: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The result of a replay.
struct Replayed {
    report: Report,
    format: Format,
    /// The recording has issue times, so that gaps were not used.
    timed: bool,
    /// How gaps were read.
    gap: recording::Gap,
    drives: usize,
    /// Requests to other devices than the one asked for.
    elsewhere: u64,
    /// Records that are not requests.
    passed_over: u64,
    /// Requests that stand after one with a later issue time.
    belated: u64,
    /// Requests for sectors beyond the capacity in the specification, and the number of such
    /// sectors.
    beyond: u64,
    offered: u64,
}

/// Replays and prints the figures.
///
/// # Errors
/// If the recording or the disk is invalid.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let replayed = replay(args)?;
    if args.json {
        writeln!(out, "{}", to_json(&replayed))?;
        return Ok(());
    }
    text(args, &replayed, out)
}

fn replay(args: &Args) -> Result<Replayed, Failure> {
    let path = args.recording.as_path();
    let inputs = [path, spec::file_of(&args.disk)];
    files::spare("--per-request", args.per_request.as_deref(), &inputs)?;
    let spec = spec::find(&args.disk)?.as_recorded();
    // Report defects of the specification before the first request.
    Drive::new(&spec).map_err(|error| wrong_disk(&args.disk, &error))?;
    // The real drive served all these sectors, so lift the capacity of the specification; except
    // where the disk is valid only with it.
    let whole = Spec { capacity_sectors: None, ..spec.clone() };
    let whole = if Drive::new(&whole).is_ok() { whole } else { spec.clone() };
    let make = || Drive::new(&whole).expect("the specification was tried above");
    let offered = spec.capacity_sectors();
    let file = files::open(path)?;
    let blame = |error: ReplayError| wrong_recording(path, &error);
    // The format shows in the first bytes, the header of an SRT file included.
    let bytes = BufReader::with_capacity(1 << 16, file);
    let mut recording = Recording::open(bytes).map_err(|error| blame(error.into()))?;
    files::name_unknown(path, &recording);
    let mut each = args.per_request.as_deref().map(PerRequest::create).transpose()?;
    let gap = gap::decide(args.gap, &spec, path, args.device)?;
    let mut replay = Replay::new(gap, make);
    let mut statistics = Statistics::new();
    let mut progress = Progress::new();
    let (mut timed, mut elsewhere, mut beyond, mut count) = (false, 0, 0, 0u64);
    for request in recording.by_ref() {
        let request = request.map_err(|error| blame(error.into()))?;
        if args.device.is_some_and(|device| device != request.device) {
            elsewhere += 1;
            continue;
        }
        timed |= matches!(request.pace, Pace::At(_));
        beyond += u64::from(request.lbn.saturating_add(u64::from(request.sectors)) > offered);
        let outcome = replay.step(request).map_err(blame)?;
        statistics.add(&outcome);
        if let Some(each) = &mut each {
            each.add(&outcome)?;
        }
        count += 1;
        progress.show(|| format!("{count} requests"));
    }
    drop(progress);
    if let Some(each) = each {
        each.finish()?;
    }
    if count == 0 {
        let cause = format!("{}: no request went to that device", path.display());
        return Err(Failure::usage(cause).hint(format!("{elsewhere} went to others")));
    }
    Ok(Replayed {
        report: statistics.report(),
        format: recording.format(),
        timed,
        gap,
        drives: replay.drives(),
        elsewhere,
        passed_over: recording.passed_over(),
        belated: recording.belated(),
        beyond,
        offered,
    })
}

fn wrong_disk(disk: &str, error: &SpecError) -> Failure {
    Failure::from_message(crate::failure::Exit::Usage, &format!("{disk}: {error}"))
}

/// The file with a line for each request.
struct PerRequest {
    out: BufWriter<File>,
    path: PathBuf,
}

impl PerRequest {
    fn create(path: &Path) -> Result<PerRequest, Failure> {
        let failed = |error: io::Error| cannot_write(path, &error);
        let mut out = BufWriter::new(File::create(path).map_err(failed)?);
        writeln!(out, "issued_us,op,lbn,sectors,measured_us,simulated_us,device")
            .map_err(failed)?;
        Ok(PerRequest { out, path: path.to_owned() })
    }

    fn add(&mut self, outcome: &recording::Outcome) -> Outcome {
        let us = |ns: u64| ns as f64 / 1e3;
        let request = &outcome.request;
        writeln!(
            self.out,
            "{:.3},{},{},{},{:.3},{:.3},{}",
            us(outcome.issued),
            if request.op == Op::Read { 'R' } else { 'W' },
            request.lbn,
            request.sectors,
            us(request.response_ns),
            us(outcome.simulated_ns),
            request.device
        )
        .map_err(|error| cannot_write(&self.path, &error))
    }

    fn finish(mut self) -> Outcome {
        self.out.flush().map_err(|error| cannot_write(&self.path, &error))
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {error}", path.display()))
}

/// Where the pauses of the replay come from.
fn gap_used(replayed: &Replayed) -> &'static str {
    match (replayed.timed, replayed.gap) {
        (true, _) => "times",
        (false, recording::Gap::Before) => "before",
        (false, recording::Gap::After) => "after",
    }
}

fn to_json(replayed: &Replayed) -> Value {
    let report = &replayed.report;
    let mut json = figures(&report.all);
    json["reads"] = figures(&report.reads);
    json["writes"] = figures(&report.writes);
    json["gap"] = gap_used(replayed).into();
    json["format"] = format_name(replayed.format).into();
    json["drives"] = replayed.drives.into();
    json["other_devices"] = replayed.elsewhere.into();
    json["passed_over"] = replayed.passed_over.into();
    json["belated"] = replayed.belated.into();
    json["beyond_capacity"] = replayed.beyond.into();
    json
}

pub(super) fn figures(figures: &Figures) -> Value {
    json!({
        "requests": figures.requests,
        "rms_ms": figures.rms_ms,
        "mean_error_ms": figures.mean_error_ms,
        "mae_ms": figures.mae_ms,
        "rmse_ms": figures.rmse_ms,
        "correlation": figures.correlation,
        "within_1_ms": figures.within_1_ms,
        "measured_mean_ms": figures.measured_mean_ms,
        "simulated_mean_ms": figures.simulated_mean_ms,
    })
}

fn format_name(format: Format) -> &'static str {
    match format {
        Format::Columns => "columns",
        Format::Csv => "csv",
        Format::Srt => "srt",
        Format::Blkparse => "blkparse",
    }
}

fn text(args: &Args, replayed: &Replayed, out: &mut dyn Write) -> Outcome {
    let report = &replayed.report;
    let pauses = match gap_used(replayed) {
        "times" => "sent after the pauses that their times leave",
        "before" => "each gap read as the pause before its request",
        _ => "each gap read as the pause after its request",
    };
    let name = args.recording.display();
    writeln!(out, "{} requests of {name} on {}, {pauses}", report.all.requests, args.disk)?;
    if replayed.drives > 1 {
        let drives = replayed.drives;
        writeln!(
            out,
            "The recording has {drives} drives; each was replayed on a disk of its own."
        )?;
    }
    if replayed.elsewhere > 0 {
        writeln!(out, "{} requests to other devices were left out.", replayed.elsewhere)?;
    }
    if replayed.passed_over > 0 {
        writeln!(out, "{} records are marked suspect and were left out.", replayed.passed_over)?;
    }
    if replayed.belated > 0 {
        let belated = replayed.belated;
        writeln!(
            out,
            "{belated} requests stand behind later ones; they were sent in the order of the file."
        )?;
    }
    if replayed.beyond > 0 {
        writeln!(
            out,
            "{} requests lie beyond the {} sectors of `capacity_sectors`, but within the zones.",
            replayed.beyond, replayed.offered
        )?;
    }
    let head = format!("{:<26}{:>12}{:>12}{:>12}", "", "all", "reads", "writes");
    writeln!(out, "\n{}", Style::of_stdout().bold(&head))?;
    let sets = [&report.all, &report.reads, &report.writes];
    let requests = sets.map(|set| format!("{:>12}", set.requests)).concat();
    writeln!(out, "{:<26}{requests}", "requests")?;
    type Row = (&'static str, fn(&Figures) -> Option<f64>, usize);
    let rows: [Row; 8] = [
        ("mean measured, ms", |set| set.measured_mean_ms, 3),
        ("mean simulated, ms", |set| set.simulated_mean_ms, 3),
        ("mean error, ms", |set| set.mean_error_ms, 3),
        ("RMS of distributions, ms", |set| set.rms_ms, 3),
        ("MAE per request, ms", |set| set.mae_ms, 3),
        ("RMSE per request, ms", |set| set.rmse_ms, 3),
        ("correlation", |set| set.correlation, 3),
        ("within 1 ms, %", |set| set.within_1_ms.map(|share| 100.0 * share), 1),
    ];
    for (label, value, digits) in rows {
        let cell = |set: &Figures| match value(set) {
            Some(value) => format!("{value:>12.digits$}"),
            None => format!("{:>12}", "-"),
        };
        writeln!(out, "{label:<26}{}", sets.map(cell).concat())?;
    }
    let ink = if io::stdout().is_terminal() { Ink::Unicode } else { Ink::Ascii };
    let plot = distributions(&report.measured, &report.simulated, PLOT.0, PLOT.1, ink);
    writeln!(out, "\nShare of requests that took at most so long:\n\n{}", plot.trim_end())?;
    Ok(())
}
