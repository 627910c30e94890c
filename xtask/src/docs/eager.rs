//! The measured part of `docs/papers/loge.md`: eager writing against update in place, Loge's
//! heuristics and their effect on free space, a workload like news, the gain from idle time, and
//! the forms of Loge's table.

use super::forms;
use super::proof::{between, put};
use crate::run::{capture, root, seekless};
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: &str = "docs/papers/loge.md";
const MARKS: [&str; 2] =
    ["<!-- `cargo xtask docs` writes the figures -->\n", "<!-- end of the figures -->"];
const DISKS: &str = "hp97560,st19101,cmr-20tb:256M";
const UTILISATIONS: &str = "0.1,0.3,0.5,0.7,0.8,0.9,0.95,0.98";
const HEURISTICS: [&str; 8] = ["soonest", "ls", "cr", "fr", "r", "pl", "soonest+sg", "pl+sg"];
/// Rows of the table of factors.
const FACTOR_ROWS: usize = 3 * 8;

/// Measures with `program`, or with a release build, and writes the figures into the page. With
/// `check`, only looks whether the page lacks some: the figures change with the layouts, and tests
/// of the layouts compare them.
///
/// # Errors
/// If the page lacks figures or marks, or a simulation fails.
pub fn eager(check: bool, program: Option<PathBuf>) -> Result<()> {
    let page = root().join(PAGE);
    let text = fs::read_to_string(&page).with_context(|| format!("cannot read {PAGE}"))?;
    if check {
        complete(&text)?;
        println!("docs: {PAGE} has all figures");
        return Ok(());
    }
    let program = program.map_or_else(seekless, Ok)?;
    let parts = [
        factors(&program)?,
        conditions(&program)?,
        heuristics(&program)?,
        news(&program)?,
        idle(&program)?,
        forms::tables(&program)?,
    ];
    let figures = parts.join("\n");
    println!("{figures}");
    fs::write(&page, put(&text, MARKS, &figures)?)?;
    println!("docs: {PAGE} is written");
    Ok(())
}

/// Compares the number of rows in the page with those that a measurement writes at least.
fn complete(text: &str) -> Result<()> {
    let rows = between(text, MARKS)?.lines().filter(|line| line.starts_with("| `")).count();
    if rows < FACTOR_ROWS + HEURISTICS.len() {
        bail!("{PAGE} lacks figures; write it with `cargo xtask docs`");
    }
    Ok(())
}

/// The report of a simulation.
pub(super) fn sim(program: &Path, args: &[&str]) -> Result<Value> {
    let mut sim = Command::new(program);
    let text = capture(sim.args(["sim", "--json"]).args(args))?;
    serde_json::from_str(&text).context("the report is not JSON")
}

pub(super) fn number(value: &Value, path: &str) -> Result<f64> {
    value.pointer(path).and_then(Value::as_f64).with_context(|| format!("no {path} in a report"))
}

/// The factor of a layout over update in place at a utilisation, with the parts of its latency.
fn factors(program: &Path) -> Result<String> {
    let base = ["--layout", "inplace,vlog,loge", "--disk", DISKS, "--requests", "5000"];
    let report = sim(program, &[base.as_slice(), &["--utilisation", UTILISATIONS]].concat())?;
    let rows = report["rows"].as_array().context("no rows in a comparison")?;
    let mut out = String::from(
        "### Random 4 KiB updates, one at a time, each durable\n\n\
         Mean latency in milliseconds; in brackets how many times as fast as update in place, and \
         of what the latency consists: overhead + seek and head switch + rotation + transfer.\n\n\
         | disk | full | `inplace` | `vlog` | `loge` |\n|---|---|---|---|---|\n",
    );
    for disk in DISKS.split(',').map(|disk| disk.split(':').next().unwrap_or(disk)) {
        for utilisation in UTILISATIONS.split(',') {
            let share: f64 = utilisation.parse()?;
            write!(out, "| `{disk}` | {:.0} % |", share * 100.0)?;
            for layout in ["inplace", "vlog", "loge"] {
                let row = rows.iter().find(|row| {
                    row["disk"] == *disk
                        && row["layout"] == *layout
                        && row["utilisation"].as_f64().is_some_and(|it| (it - share).abs() < 1e-9)
                });
                match row {
                    Some(row) => write!(out, " {} |", cell(row)?)?,
                    None => write!(out, " does not fit |")?,
                }
            }
            out.push('\n');
        }
    }
    Ok(out)
}

fn cell(row: &Value) -> Result<String> {
    let part = |name: &str| number(row, &format!("/breakdown_ms/{name}"));
    let moving = part("seek")? + part("head_switch")?;
    Ok(format!(
        "{:.2} ({:.1}×: {:.1} + {moving:.2} + {:.2} + {:.2})",
        number(row, "/mean_ms")?,
        number(row, "/factor")?,
        part("overhead")?,
        part("rotation")?,
        part("transfer")?
    ))
}

/// The factors under other conditions at 80 %.
fn conditions(program: &Path) -> Result<String> {
    let mut out = String::from(
        "### At 80 %, under other conditions\n\nTimes as fast as update in place under the same \
         conditions, by throughput.\n\n| disk | condition | `vlog` | `loge` |\n|---|---|---|---|\n",
    );
    let conditions: [(&str, &[&str]); 4] = [
        ("16 in flight", &["--depth", "16"]),
        ("64 in flight", &["--depth", "64"]),
        ("after 200 s of idle time, 500 updates", &["--rest", "200s", "--requests", "500"]),
        ("without sector headers", &["--no-headers"]),
    ];
    for disk in DISKS.split(',') {
        for (name, more) in conditions {
            let mut args = vec!["--layout", "inplace,vlog,loge", "--disk", disk];
            if !more.contains(&"--requests") {
                args.extend(["--requests", "5000"]);
            }
            args.extend(more);
            let report = sim(program, &args)?;
            let rows = report["rows"].as_array().context("no rows in a comparison")?;
            let factor = |layout: &str| -> Result<String> {
                let row = rows.iter().find(|row| row["layout"] == *layout);
                let row = row.with_context(|| format!("no row for {layout}"))?;
                Ok(format!("{:.1}", number(row, "/throughput_factor")?))
            };
            let short = disk.split(':').next().unwrap_or(disk);
            writeln!(out, "| `{short}` | {name} | {} | {} |", factor("vlog")?, factor("loge")?)?;
        }
    }
    Ok(out)
}

/// Loge's heuristics under writes and under a mixed load, and the free space that they leave.
fn heuristics(program: &Path) -> Result<String> {
    let mut out = String::from(
        "### Heuristics (claim L30)\n\nUniform single-block requests on `hp97560`, 80 % full, \
         mean write in milliseconds; and the share of free space (percent) in each twentieth of \
         the disk after 20,000 writes more.\n\n\
         | heuristic | only writes | half reads | free space, first cylinder to last |\n\
         |---|---|---|---|\n",
    );
    for heuristic in HEURISTICS {
        let base = ["--layout", "loge", "--disk", "hp97560", "--heuristic", heuristic];
        let run = |share: &str| {
            let more = ["--read-share", share, "--requests", "20000"];
            sim(program, &[base.as_slice(), more.as_slice()].concat())
        };
        let (writes, mixed) = (run("0")?, run("0.5")?);
        let profile = writes["free_profile"].as_array().context("no profile of free space")?;
        let parts: Vec<String> = profile
            .iter()
            .map(|part| format!("{:.0}", part.as_f64().unwrap_or(0.0) * 100.0))
            .collect();
        writeln!(
            out,
            "| `{heuristic}` | {:.2} | {:.2} | {} |",
            number(&writes, "/writes/latency_ms/mean")?,
            number(&mixed, "/writes/latency_ms/mean")?,
            parts.join(" ")
        )?;
    }
    Ok(out)
}

/// The workload like news, against update in place.
fn news(program: &Path) -> Result<String> {
    let mut out = String::from(
        "### News (claims L23 and L24)\n\nA synthetic stand-in for `/usr/spool/news`: 30,000 \
         requests, half of them writes, on `hp97560-full`, 90 % full. Faster is positive.\n\n\
         | layout | reads, ms | writes, ms | reads | writes | all |\n|---|---|---|---|---|---|\n",
    );
    let base = ["--disk", "hp97560-full", "--generate", "news", "--utilisation", "0.9", "--age"];
    let run = |layout: &str, heuristic: &str| {
        let mut args = base.to_vec();
        args.extend(["0", "--requests", "30000", "--layout", layout]);
        if layout == "loge" {
            args.extend(["--heuristic", heuristic]);
        }
        let report = sim(program, &args)?;
        let mean = |path: &str| number(&report, path);
        anyhow::Ok([
            mean("/reads/latency_ms/mean")?,
            mean("/writes/latency_ms/mean")?,
            mean("/latency_ms/mean")?,
        ])
    };
    let standard = run("inplace", "soonest")?;
    writeln!(out, "| `inplace` | {:.2} | {:.2} | | | |", standard[0], standard[1])?;
    for heuristic in ["soonest", "ls", "pl", "pl+sg"] {
        let found = run("loge", heuristic)?;
        let gains: Vec<String> = standard
            .iter()
            .zip(found)
            .map(|(old, new)| format!("{:+.0} %", (old / new - 1.0) * 100.0))
            .collect();
        let (reads, writes) = (found[0], found[1]);
        writeln!(
            out,
            "| `loge`, {heuristic} | {reads:.2} | {writes:.2} | {} |",
            gains.join(" | ")
        )?;
    }
    out.push_str(
        "\nWith blocks of a kilobyte (claim L26; `l26_blocks_of_a_kilobyte_gain_as_larger_ones_do` \
         in `crates/lab/tests/suite/loge_figures.rs`), root and swap, `pl+sg`: writes +140 %, \
         reads -28 %, all +22 % (paper: +164, +8 and +36 %, of a trace that is not to be had).\n",
    );
    Ok(out)
}

/// The gain from idle time: the arm in transit, and block sorting.
fn idle(program: &Path) -> Result<String> {
    let mut out =
        String::from("### Idle time\n\n| what | disk | without | with |\n|---|---|---|---|\n");
    for disk in ["hp97560", "st19101"] {
        let base = ["--layout", "loge", "--disk", disk];
        let run = |more: &[&str]| sim(program, &[base.as_slice(), more].concat());
        let alone = ["--idle", "177ms", "--burst", "1", "--requests", "3000"];
        let ahead = [alone.as_slice(), &["--anticipate"]].concat();
        writeln!(
            out,
            "| single write after a pause, arm in transit (L19), ms | `{disk}` | {:.2} | {:.2} |",
            number(&run(&alone)?, "/writes/latency_ms/mean")?,
            number(&run(&ahead)?, "/writes/latency_ms/mean")?
        )?;
        let scan = ["--pattern", "sequential", "--read-share", "1", "--size", "64k"];
        let scan = [scan.as_slice(), &["--requests", "300"]].concat();
        let sorted = [scan.as_slice(), &["--sort", "--rest", "200s"]].concat();
        writeln!(
            out,
            "| sequential reads after random writes, sorted, MiB/s | `{disk}` | {:.2} | {:.2} |",
            number(&run(&scan)?, "/throughput/mebibytes_per_second")?,
            number(&run(&sorted)?, "/throughput/mebibytes_per_second")?
        )?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_the_page_lacks_is_noticed() {
        let page = |rows| format!("{}{}{}", MARKS[0], "| `a` | 1 |\n".repeat(rows), MARKS[1]);
        let rows = FACTOR_ROWS + HEURISTICS.len();
        assert!(complete(&page(rows)).is_ok());
        assert!(complete(&page(rows - 1)).is_err());
        assert!(complete(&page(rows).replace(MARKS[1], "")).is_err());
    }
}
