//! `seekless merge`: adds up the reports that the shards of a `seekless prove` have printed.

use crate::failure::{Exit, Failure, Outcome};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Arguments of `seekless merge`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  for i in 1 2 3 4; do
    seekless prove --layout vlog --runs 1000 --shard $i/4 --json >reports/$i.json &
  done; wait
  seekless merge reports
  seekless merge 1.json 2.json 3.json --json | jq .missing

Reports may come in any order, from any machine, and twice. The sum is what one process would have
reported for all runs. The exit code is 1 if a promise was broken, and 8 if no shard found that but
runs are missing.")]
pub struct Args {
    /// Reports, or directories with reports in files named *.json.
    #[arg(value_name = "REPORT", required = true)]
    reports: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// A counter of which the largest counts. Lists are put together, all other numbers added up.
const LARGEST: &str = "most_blocks_read";
/// What all shards must agree in.
const SAME: [&str; 2] = ["layout", "seed"];
/// A speed is not one of the sum: shards ran at any time.
const SPEED: &str = "states_per_second";
/// The runs of a report.
const RUNS: &str = "runs";

/// The report of a shard.
#[derive(Clone, Debug)]
struct Report {
    path: PathBuf,
    /// Its runs, and those of all shards.
    own: Range<u64>,
    all: Range<u64>,
    counts: Map<String, Value>,
}

/// Adds up reports and prints the sum.
///
/// # Errors
/// If a file is no report of a shard, if reports are not of one sweep, if a promise was broken or
/// runs are missing.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let mut reports = Vec::new();
    for path in &args.reports {
        for file in files(path)? {
            reports.push(read(&file)?);
        }
    }
    let (all, by_start) = distinct(reports)?;
    let missing = missing(&all, by_start.values().map(|report| report.own.clone()));
    let sum = sum(by_start.values());
    let broken = sum.get("violations").and_then(Value::as_u64).unwrap_or(0);
    print(args.json, &sum, (&all, &missing), out)?;
    match (broken, missing.is_empty()) {
        (0, true) => Ok(()),
        (0, false) => Err(Failure::said(Exit::Partial)),
        _ => Err(Failure::said(Exit::Failed)),
    }
}

/// The reports that a path stands for, in order of their names.
fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let blame = |error: std::io::Error| Failure::failed(format!("{}: {error}", path.display()));
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(blame)? {
        let file = entry.map_err(blame)?.path();
        found.extend(file.extension().is_some_and(|end| end == "json").then_some(file));
    }
    found.sort();
    match found.is_empty() {
        true => Err(Failure::usage(format!("{}: no report is there", path.display()))
            .hint("reports end with .json")),
        false => Ok(found),
    }
}

fn read(path: &Path) -> Result<Report, Failure> {
    let blame = |why: &str| {
        Failure::new(Exit::Image, format!("{}: {why}", path.display()))
            .hint("`seekless prove --runs N --shard I/N --json` prints a report")
    };
    let text = fs::read_to_string(path).map_err(|error| blame(&error.to_string()))?;
    let value: Value = serde_json::from_str(&text)
        .map_err(|error| blame(&format!("it is no JSON, or the shard has not ended: {error}")))?;
    let Value::Object(mut counts) = value else { return Err(blame("it is no report")) };
    let runs = counts.remove(RUNS).unwrap_or_default();
    let range = |from: &str, to: &str| -> Option<Range<u64>> {
        let (from, to) = (runs[from].as_u64()?, runs[to].as_u64()?);
        (from <= to).then_some(from..to)
    };
    let (own, all) = (range("from", "to"), range("all_from", "all_to"));
    let (Some(own), Some(all)) = (own, all) else {
        return Err(blame("it does not say which runs it is of"));
    };
    let is_whole = SAME.iter().all(|name| counts.contains_key(*name))
        && counts.get("violations").is_some_and(Value::is_u64)
        && all.start <= own.start
        && own.end <= all.end;
    match is_whole {
        true => Ok(Report { path: path.to_owned(), own, all, counts }),
        false => Err(blame("it is no report of a sweep")),
    }
}

/// The reports by their first runs, without those that come twice, and all runs of the sweep.
fn distinct(reports: Vec<Report>) -> Result<(Range<u64>, BTreeMap<u64, Report>), Failure> {
    let Some(first) = reports.first().cloned() else {
        return Err(Failure::usage("there is no report"));
    };
    let clash = |one: &Report, other: &Report, what: String| {
        let (one, other) = (one.path.display(), other.path.display());
        Failure::usage(format!("{one} and {other}: {what}"))
            .hint("merge the shards of one sweep, all of the same division")
    };
    let mut by_start: BTreeMap<u64, Report> = BTreeMap::new();
    for report in reports {
        if let Some(name) = SAME.iter().find(|name| report.counts[**name] != first.counts[**name]) {
            return Err(clash(&first, &report, format!("they have another {name}")));
        }
        if report.all != first.all {
            return Err(clash(&first, &report, "they are of other runs".to_owned()));
        }
        if report.own.is_empty() {
            continue;
        }
        match by_start.get(&report.own.start) {
            Some(other) if other.own == report.own && same(&other.counts, &report.counts) => {}
            Some(other) if other.own == report.own => {
                return Err(clash(other, &report, "the same runs came to something else".into()));
            }
            _ => {
                let overlaps = |other: &&Report| {
                    other.own.start < report.own.end && report.own.start < other.own.end
                };
                if let Some(other) = by_start.values().find(overlaps) {
                    return Err(clash(other, &report, "some runs are in both".to_owned()));
                }
                by_start.insert(report.own.start, report);
            }
        }
    }
    Ok((first.all, by_start))
}

/// True if two reports say the same, but for their speed.
fn same(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    let without = |counts: &Map<String, Value>| {
        let mut counts = counts.clone();
        counts.remove(SPEED);
        counts
    };
    without(one) == without(other)
}

/// Runs that no report is of.
fn missing(all: &Range<u64>, own: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let (mut missing, mut at) = (Vec::new(), all.start);
    for runs in own.chain(std::iter::once(all.end..all.end)) {
        if at < runs.start {
            missing.push(at..runs.start);
        }
        at = at.max(runs.end);
    }
    missing
}

fn sum<'r>(reports: impl Iterator<Item = &'r Report>) -> Map<String, Value> {
    let mut sum = Map::new();
    for report in reports {
        for (name, value) in report.counts.iter().filter(|(name, _)| *name != SPEED) {
            add(&mut sum, name, value);
        }
    }
    // Kinds of workload, of which shards have the same ones.
    let kinds = sum.get("profiles").and_then(Value::as_object).map_or(0, Map::len);
    if let Some(count) = sum.get_mut("workloads").filter(|count| **count != json!(0)) {
        *count = json!(kinds);
    }
    sum
}

/// Adds a value to that of this name.
fn add(sum: &mut Map<String, Value>, name: &str, value: &Value) {
    let Some(have) = sum.get_mut(name) else {
        sum.insert(name.to_owned(), value.clone());
        return;
    };
    match (have, value) {
        _ if SAME.contains(&name) => {}
        (Value::Object(have), Value::Object(more)) => {
            more.iter().for_each(|(name, value)| add(have, name, value));
        }
        (Value::Array(have), Value::Array(more)) => have.extend(more.iter().cloned()),
        (have, more) => {
            let numbers = (have.as_u64().unwrap_or(0), more.as_u64().unwrap_or(0));
            *have = match name == LARGEST {
                true => json!(numbers.0.max(numbers.1)),
                false => json!(numbers.0 + numbers.1),
            };
        }
    }
}

fn print(
    as_json: bool,
    sum: &Map<String, Value>,
    (all, missing): (&Range<u64>, &[Range<u64>]),
    out: &mut dyn Write,
) -> Outcome {
    if as_json {
        let mut sum = sum.clone();
        let ranges = missing.iter().map(|runs| json!({ "from": runs.start, "to": runs.end }));
        sum.insert("missing".to_owned(), Value::Array(ranges.collect()));
        sum.insert(RUNS.to_owned(), json!({ "all_from": all.start, "all_to": all.end }));
        return Ok(writeln!(out, "{}", Value::Object(sum))?);
    }
    let number = |name: &str| sum.get(name).and_then(Value::as_u64).unwrap_or(0);
    let text = |name: &str| sum.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
    let (layout, seed, states) = (text("layout"), number("seed"), number("states"));
    writeln!(out, "{layout}, seed {seed}: {states} crash states")?;
    let rows = [
        ("runs", "cases"),
        ("client requests", "requests"),
        ("power cuts at", "events"),
        ("distinct states", "recovered"),
        ("longest recovery", "most_blocks_read"),
        ("violations", "violations"),
    ];
    for (told, name) in rows {
        writeln!(out, "  {told:<17} {:>10}", number(name))?;
    }
    let stories = sum.get("stories").and_then(Value::as_array).into_iter().flatten();
    for story in stories {
        let field = |name: &str| story[name].as_str().unwrap_or("").to_owned();
        writeln!(out, "\ncase {}: {}", story["case"], field("sort"))?;
        writeln!(out, "  replay: {}", field("replay"))?;
    }
    for runs in missing {
        writeln!(out, "missing: runs {} to {}", runs.start, runs.end - 1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(own: Range<u64>, states: u64) -> Report {
        let counts = json!({
            "layout": "vlog", "seed": 1, "states": states, "violations": 0, "workloads": 1,
            "most_blocks_read": states, "states_per_second": 7.5, "faults": { "lost": 2 },
            "profiles": { "a": 1 }, "stories": [],
        });
        let Value::Object(counts) = counts else { unreachable!("it is an object") };
        Report { path: PathBuf::from("one"), own, all: 0..10, counts }
    }

    #[test]
    fn what_is_twice_counts_once_and_what_is_missing_is_named() {
        let (all, found) =
            distinct(vec![report(6..8, 5), report(0..3, 4), report(0..3, 4), report(3..3, 0)])
                .expect("they are of one sweep");
        let own = found.values().map(|report| report.own.clone());
        assert_eq!(missing(&all, own), [3..6, 8..10]);
        let sum = sum(found.values());
        assert_eq!((sum["states"].as_u64(), sum["most_blocks_read"].as_u64()), (Some(9), Some(5)));
        assert_eq!(sum["faults"], json!({ "lost": 4 }));
        assert_eq!((&sum["profiles"], &sum["seed"]), (&json!({ "a": 2 }), &json!(1)));
        assert!(!sum.contains_key(SPEED));
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let refused = |other: Report| distinct(vec![report(0..3, 4), other]).is_err();
        assert!(refused(report(0..3, 5)), "the same runs, another result");
        assert!(refused(report(2..5, 5)), "overlapping runs");
        assert!(refused(Report { all: 0..11, ..report(3..5, 1) }), "other runs in all");
        let mut seeded = report(3..5, 1);
        seeded.counts.insert("seed".to_owned(), json!(2));
        assert!(refused(seeded), "another seed");
        assert!(distinct(Vec::new()).is_err());
        assert!(!refused(report(3..5, 1)));
    }
}
