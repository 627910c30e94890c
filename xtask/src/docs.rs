//! The generated part of the documentation: the errors of disk models against recordings, the bugs
//! that the prover finds, the gains of eager writing, and the contract of file systems. It stands
//! between marks in the pages, and one command writes it.

mod calibrated;
pub mod contract;
mod eager;
mod forms;
mod proof;
mod table;

use crate::run::{asserting, capture, root, seekless};
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The page, and the marks in it.
const PAGE: &str = "docs/papers/disk-models.md";
const BEGIN: &str = "<!-- `cargo xtask docs` writes what follows -->\n";
const END: &str = "<!-- end of what it writes -->";

/// A recorded drive: name of its files, description, and whether a gap is before or after its
/// request.
struct Drive {
    file: &'static str,
    title: &'static str,
    gap: &'static str,
}

const DRIVES: [Drive; 4] = [
    Drive { file: "atlas10k", title: "Quantum Atlas 10K (1999)", gap: "before" },
    Drive { file: "barracuda", title: "Seagate Barracuda ST32171W (1997)", gap: "before" },
    Drive { file: "hp_c2490a", title: "HP C2490A (1993)", gap: "after" },
    Drive { file: "dec_rz26", title: "DEC RZ26 (1991)", gap: "after" },
];

/// The result of a replay.
struct Replayed {
    figures: Value,
    plot: String,
}

/// Measures and writes both pages, or with `--check` says whether one is out of date. Without
/// recordings, it reports that and leaves the page about disk models unchanged.
///
/// # Errors
/// If the page is out of date, a replay fails or the command line is wrong.
pub fn docs(args: &[&str]) -> Result<()> {
    let (mut check, mut dir, mut eager, mut prover) = (false, None, false, None);
    let (mut program, mut tables, mut disks) = (None, false, false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "--check" => check = true,
            "--recordings" => {
                dir = Some(PathBuf::from(args.next().context("--recordings wants a directory")?));
            }
            "--disks" => disks = true,
            "--eager" => eager = true,
            "--contract" => tables = true,
            "--bugs" => prover = Some(proof::Table::Bugs),
            "--file-bugs" => prover = Some(proof::Table::FileBugs),
            "--log-bugs" => prover = Some(proof::Table::LogBugs),
            "--faults" => prover = Some(proof::Table::Faults),
            "--program" => {
                program = Some(PathBuf::from(args.next().context("--program wants a path")?));
            }
            other => bail!(
                "`{other}` is unknown: --check, --recordings DIR, --disks, --contract, --eager, \
                 --bugs, --faults and --program PATH are known"
            ),
        }
    }
    if tables {
        return contract::contract(check);
    }
    if eager {
        return eager::eager(check, program);
    }
    if let Some(table) = prover {
        return proof::table(table, program);
    }
    if check {
        check_pages()?;
    } else if !disks {
        contract::contract(false)?;
        proof::proof(false)?;
        eager::eager(false, program.clone())?;
    }
    let dir = dir.unwrap_or_else(recordings);
    if !DRIVES.iter().all(|drive| dir.join(drive.file).with_extension("parv").is_file()) {
        println!("docs skipped: no recordings of drives; SEEKLESS_RECORDINGS can name their place");
        return Ok(());
    }
    // Time is virtual: a build with assertions measures the same and needs no build of its own.
    let program = match program {
        Some(program) => program,
        None if check => asserting()?,
        None => seekless()?,
    };
    let replayed: Vec<Replayed> =
        DRIVES.iter().map(|drive| replay(&program, &dir, drive)).collect::<Result<_>>()?;
    let page = root().join(PAGE);
    let text = fs::read_to_string(&page).with_context(|| format!("cannot read {PAGE}"))?;
    let learnt = calibrated::table(&program, &dir)?;
    let written = put(&text, &(part(&replayed)? + &learnt))?;
    if written == text {
        println!("docs: {PAGE} is up to date");
    } else if check {
        bail!("{PAGE} is out of date; write it with `cargo xtask docs`");
    } else {
        fs::write(&page, written).with_context(|| format!("cannot write {PAGE}"))?;
        println!("docs: {PAGE} is written");
    }
    Ok(())
}

/// Checks what can be checked without a build of the product.
///
/// # Errors
/// If a page is out of date.
pub fn check_pages() -> Result<()> {
    contract::contract(true)?;
    proof::proof(true)?;
    eager::eager(true, None)
}

/// Default directory of the recordings, which are not part of the repository.
fn recordings() -> PathBuf {
    std::env::var_os("SEEKLESS_RECORDINGS")
        .map_or_else(|| root().join("../shared/data/drive-recordings"), PathBuf::from)
}

fn replay(program: &Path, dir: &Path, drive: &Drive) -> Result<Replayed> {
    let scratch = crate::bench::Scratch::new("docs")?;
    let spec = scratch.0.join(drive.file).with_extension("toml");
    let from = dir.join(drive.file);
    let mut import = Command::new(program);
    import.args(["disk", "import"]).arg(from.with_extension("parv"));
    capture(import.arg("--output").arg(&spec))?;
    let validate = || {
        let mut validate = Command::new(program);
        validate.args(["disk", "validate", "--gap", drive.gap, "--disk"]).arg(&spec);
        validate.arg("--recording").arg(from.with_extension("trace"));
        validate
    };
    let figures = serde_json::from_str(&capture(validate().arg("--json"))?)?;
    let text = capture(&mut validate())?;
    let plot = text.split_once("took at most so long:\n\n").context("validate drew no plot")?.1;
    Ok(Replayed { figures, plot: plot.trim_end().to_owned() })
}

/// What stands between the marks.
fn part(replayed: &[Replayed]) -> Result<String> {
    let figures: Vec<&Value> = replayed.iter().map(|replayed| &replayed.figures).collect();
    let mut out = table::tables(&figures)?;
    for (drive, replayed) in DRIVES.iter().zip(replayed) {
        let Drive { file, title, gap } = drive;
        out += &format!(
            "\n### {title}\n\n`{file}`, gap {gap}: share of requests that took at most so long.\n\n\
             ```\n{}\n```\n",
            replayed.plot
        );
    }
    Ok(out)
}

/// The page with another part between the marks.
fn put(page: &str, part: &str) -> Result<String> {
    let begin = page.find(BEGIN).with_context(|| format!("{PAGE} lacks `{}`", BEGIN.trim()))?;
    let begin = begin + BEGIN.len();
    let length = page[begin..].find(END).with_context(|| format!("{PAGE} lacks `{END}`"))?;
    Ok(format!("{}\n{}\n{}", &page[..begin], part.trim(), &page[begin + length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let page = format!("# A\n\n{BEGIN}old\n{END}\nB\n");
        let new = put(&page, "new\n").expect("both marks are there");
        assert_eq!(new, format!("# A\n\n{BEGIN}\nnew\n{END}\nB\n"));
        assert_eq!(put(&new, "new").expect("still there"), new);
        assert!(put(&page.replace(END, ""), "new").is_err());
        assert!(put(&page.replace(BEGIN, ""), "new").is_err());
    }

    #[test]
    fn the_page_has_its_marks() {
        let page = fs::read_to_string(root().join(PAGE)).expect("the page is there");
        assert!(put(&page, "x").is_ok());
    }
}
