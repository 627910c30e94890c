//! `seekless check`: reads and verifies everything.

use crate::failure::{Exit, Failure, Outcome};
use crate::term::Style;
use seekless_engine::layout::{self, CheckReport, MountPath, MountReport, dcd};
use seekless_engine::superblock::Superblock;
use seekless_serve::image;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `seekless check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless check disk.img
  seekless check origin.img --log log.img
  seekless check disk.img --json | jq .problems

Nothing is written. The exit code is 0 if all is well, 1 if damage was found, 3 if the image cannot
be mounted at all.")]
pub struct Args {
    /// The image.
    image: PathBuf,
    /// The log of a disk caching disk, if it is apart.
    #[arg(long, value_name = "LOG")]
    log: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Checks the image and prints what was found.
///
/// # Errors
/// If there is damage, or the image is unusable or in use.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let mut image = image::open(&args.image, true)?;
    let checked = match &args.log {
        None => layout::check(&mut image),
        Some(log) => dcd::check(&mut image, &mut image::open(log, true)?),
    };
    let (superblock, mount, found) = checked.map_err(|error| image.blame(error))?;
    if args.json {
        writeln!(out, "{}", as_json(args, &superblock, &mount, &found))?;
    } else {
        print(args, &superblock, &mount, &found, out)?;
    }
    if found.problems.is_empty() { Ok(()) } else { Err(Failure::said(Exit::Failed)) }
}

/// One word for how a mount found its state.
fn path_name(path: MountPath) -> &'static str {
    match path {
        MountPath::Stateless => "stateless",
        MountPath::Tail => "tail",
        MountPath::Scan => "scan",
    }
}

fn as_json(
    args: &Args,
    superblock: &Superblock,
    mount: &MountReport,
    found: &CheckReport,
) -> Value {
    let facts: Map<String, Value> =
        found.facts.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    json!({
        "image": args.image,
        "layout": superblock.kind.name(),
        "ok": found.problems.is_empty(),
        "problems": found.problems,
        "mount": {
            "path": path_name(mount.path),
            "blocks_read": mount.blocks_read,
            "commits_accepted": mount.commits_accepted,
            "commits_dropped": mount.commits_dropped,
        },
        "facts": facts,
    })
}

fn print(
    args: &Args,
    superblock: &Superblock,
    mount: &MountReport,
    found: &CheckReport,
    out: &mut dyn Write,
) -> Outcome {
    let style = Style::of_stdout();
    writeln!(out, "{superblock}")?;
    match mount.path {
        MountPath::Stateless => writeln!(out, "mount: the layout keeps no state to recover")?,
        MountPath::Tail => {
            writeln!(out, "mount: after an orderly end, {} blocks read", mount.blocks_read)?
        }
        MountPath::Scan => writeln!(
            out,
            "mount: recovered by a scan, {} blocks read; {} commits accepted, \
             {} unfinished dropped",
            mount.blocks_read, mount.commits_accepted, mount.commits_dropped
        )?,
    }
    for (name, value) in &found.facts {
        writeln!(out, "{name}: {value}")?;
    }
    for problem in &found.problems {
        writeln!(out, "{} {problem}", style.red("damage:"))?;
    }
    let verdict = match found.problems.len() {
        0 => style.green("no damage found"),
        1 => style.red("1 problem found"),
        count => style.red(&format!("{count} problems found")),
    };
    writeln!(out, "{}: {verdict}", args.image.display())?;
    Ok(())
}
