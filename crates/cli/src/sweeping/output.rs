//! Where reports go: the terminal or a program, and files for build servers and browsers.

use crate::failure::{Failure, Outcome};
use crate::sweeping::args::SweepArgs;
use crate::term::Style;
use seekless_crashtest::report::{Report, html, json, junit, text};
use std::io::Write;
use std::path::Path;

/// Prints the report, and writes the files that are asked for.
///
/// # Errors
/// If one of them cannot be written.
pub fn print(report: &Report, args: &SweepArgs, out: &mut dyn Write) -> Outcome {
    match args.json {
        true => {
            let text = json::write(report).map_err(std::io::Error::from)?;
            writeln!(out, "{}", text.trim_end())?;
        }
        false => write!(out, "{}", text::write(report, Style::of_stdout().is_coloured()))?,
    }
    out.flush()?;
    if let Some(path) = &args.junit {
        save(path, &junit::write(report)?)?;
    }
    if let Some(path) = &args.html {
        save(path, &html::write(report))?;
    }
    Ok(())
}

fn save(path: &Path, content: &str) -> Outcome {
    let cannot = |error| Failure::failed(format!("cannot write {}: {error}", path.display()));
    std::fs::write(path, content).map_err(cannot)
}
