//! Where reports go: the terminal or a program, and files for build servers and browsers.

use crate::failure::{Failure, Outcome};
use crate::sweeping::args::SweepArgs;
use crate::term::Style;
use seekless_crashtest::report::models::{self, ModelReport};
use seekless_crashtest::report::policies::{self, PolicyReport};
use seekless_crashtest::report::{Report, html, json, junit, text};
use std::io::Write;
use std::path::{Path, PathBuf};

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

/// Prints the reports of several policies. A file that is asked for is written for each of them,
/// with the policy before the extension.
///
/// # Errors
/// If one of them cannot be written.
pub fn print_policies(reports: &[PolicyReport], args: &SweepArgs, out: &mut dyn Write) -> Outcome {
    let text = match args.json {
        true => policies::write_json(reports).map_err(std::io::Error::from)?,
        false => policies::write(reports, Style::of_stdout().is_coloured()),
    };
    print_all(&text, reports.iter().map(|one| (&*one.policy, &one.report)), args, out)
}

/// The same for models of file systems.
///
/// # Errors
/// As for [`print_policies`].
pub fn print_models(reports: &[ModelReport], args: &SweepArgs, out: &mut dyn Write) -> Outcome {
    let text = match args.json {
        true => models::write_json(reports).map_err(std::io::Error::from)?,
        false => models::write(reports, Style::of_stdout().is_coloured()),
    };
    print_all(&text, reports.iter().map(|one| (&*one.model, &one.report)), args, out)
}

/// Prints what is said of several reports, and writes the files of each.
fn print_all<'r>(
    text: &str,
    reports: impl Iterator<Item = (&'r str, &'r Report)>,
    args: &SweepArgs,
    out: &mut dyn Write,
) -> Outcome {
    write!(out, "{text}")?;
    out.flush()?;
    for (name, report) in reports {
        if let Some(path) = &args.junit {
            save(&named(path, name), &junit::write(report)?)?;
        }
        if let Some(path) = &args.html {
            save(&named(path, name), &html::write(report))?;
        }
    }
    Ok(())
}

/// `report.xml` as `report.soft.xml`.
fn named(path: &Path, policy: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{policy}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

fn save(path: &Path, content: &str) -> Outcome {
    let cannot = |error| Failure::failed(format!("cannot write {}: {error}", path.display()));
    std::fs::write(path, content).map_err(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_for_each_policy() {
        assert_eq!(named(Path::new("a/report.xml"), "soft"), Path::new("a/report.soft.xml"));
        assert_eq!(named(Path::new("report"), "async"), Path::new("report.async"));
    }
}
