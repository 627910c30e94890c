//! The forms of Loge's table, for `docs/papers/loge.md`: memory, cost and gain.

use super::eager::{number, sim};
use anyhow::Result;
use std::fmt::Write as _;
use std::path::Path;

const FORMS: [&str; 6] =
    ["plain", "sorted:1", "sorted:2", "sorted:4", "compressed:5", "compressed:20"];

/// Memory and latency of each form on the two disks of the virtual log paper.
pub(super) fn tables(program: &Path) -> Result<String> {
    let mut out = String::from(
        "### Sorted and Compressed Loge (section 8.2 of its paper, claim L29)\n\nAt 80 %. Bits for \
         each block that say where it lies, exceptions included, and their share of the 32 of a \
         plain table; the most exceptions that there were, of how many there are to be. Random \
         4 KiB writes, one at a time, in milliseconds, and of that the time to get to the place: \
         without idle time, and in bursts of 64 with 5 s of idle time between them. Reads of \
         64 KiB in sequence after random writes and 200 s of idle time.\n\n\
         | disk | table | bits | share | exceptions | writes | locate | after idle time | locate | \
         reads, MiB/s |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for disk in ["hp97560", "st19101"] {
        for form in FORMS {
            writeln!(out, "{}", row(program, disk, form)?)?;
        }
    }
    Ok(out)
}

fn row(program: &Path, disk: &str, form: &str) -> Result<String> {
    let run = |more: &[&str]| {
        let base = ["--layout", "loge", "--disk", disk, "--table", form];
        sim(program, &[base.as_slice(), more].concat())
    };
    let busy = run(&["--requests", "10000"])?;
    let idle = run(&["--requests", "3200", "--burst", "64", "--idle", "5s"])?;
    let scan = ["--pattern", "sequential", "--read-share", "1", "--size", "64k"];
    let scan = run(&[scan.as_slice(), &["--requests", "300", "--rest", "200s"]].concat())?;
    let stat = |name: &str| number(&busy, &format!("/layout_stats/{name}"));
    let bits = stat("address_bits")?;
    let exceptions = match form {
        "plain" => String::new(),
        _ => format!("{:.0} of {:.0}", stat("exceptions_peak")?, stat("exceptions_most")?),
    };
    let mut times = String::new();
    for report in [&busy, &idle] {
        let part = |name: &str| number(report, &format!("/breakdown_ms/{name}"));
        let mean = number(report, "/latency_ms/mean")?;
        let locate = mean - part("overhead")? - part("transfer")?;
        write!(times, " {mean:.2} | {locate:.2} |")?;
    }
    Ok(format!(
        "| `{disk}` | {form} | {bits:.1} | {:.0} % | {exceptions} |{times} {:.2} |",
        bits / 32.0 * 100.0,
        number(&scan, "/throughput/mebibytes_per_second")?
    ))
}
