//! `seekless check`: reads and verifies everything.

mod copies;
mod given_up;

use crate::failure::{Exit, Failure, Outcome};
use crate::term::Style;
use crate::volume::Volume;
use copies::Request;
use seekless_engine::layout::{CheckReport, MountPath, MountReport};
use seekless_engine::superblock::Superblock;
use seekless_layouts::Kind;
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
  seekless check --repair disk.img                    # make a damaged volume mountable
  seekless check a.img b.img c.img                    # an array: copies and parity, too
  seekless check --scrub --repair a.img b.img c.img

Of an array copies and parity are compared as well, if all members are there and it was ended in
order; the report says if not, and why. --scrub insists: it is an error if they cannot be compared.

Nothing is written, unless --repair asks for it. The exit code is 0 if all is well, 1 if damage was
found, 3 if the image cannot be mounted at all. An array that lacks a member is said to be degraded;
that alone is no damage.

Without --scrub, --repair makes a volume in one image mountable that is not. It lists the blocks
that are lost. Reading one of them is an error until it is written. With --give-up they become
zeros; some damage can be repaired in that way only. Copy the volume first: seekless salvage.

Where members of an array disagree, --repair believes what the layout finds whole by its checksums;
where it keeps none, the data on RAID-5 and the first member on RAID-1. It overwrites nothing where
no member holds what should be there, and nothing at all if the volume cannot be mounted whichever
member is believed.")]
pub struct Args {
    /// The image; of an array all members, in any order.
    #[arg(required = true, value_name = "IMAGE")]
    image: Vec<PathBuf>,
    /// Go on without members of an array that should be there.
    #[arg(long)]
    degraded: bool,
    /// Insist that copies and parity on all members of an array are compared.
    #[arg(long)]
    scrub: bool,
    /// Make a volume mountable that is not; with --scrub, repair what that finds, by the checksums
    /// of the layout.
    #[arg(long, conflicts_with = "log")]
    repair: bool,
    /// Let blocks that are lost read as zeros after the repair.
    #[arg(long, requires = "repair", conflicts_with = "scrub")]
    give_up: bool,
    /// The log of a disk caching disk, if it is on a device of its own.
    #[arg(long, value_name = "LOG", conflicts_with_all = ["degraded", "scrub"])]
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
    let repaired = if args.repair && !args.scrub { given_up::repair(args)? } else { None };
    let compared = copies::compare(&Request::of(args))?;
    let mut volume = Volume::open(&args.image, args.degraded, args.log.as_deref())?;
    let (superblock, mount, mut found) = volume.check()?;
    compared.add_to(&mut found, args.repair);
    if let Some(repaired) = &repaired {
        found.facts.push(("blocks given up", repaired.lost.len().to_string()));
        if !args.json {
            given_up::print(args, repaired, out)?;
        }
    }
    if !args.json {
        volume.print_array(out)?;
    }
    if args.json {
        let mut report = as_json(args, &superblock, &mount, &found);
        let (lacking, missing) = volume.lacking();
        if let Some(repaired) = &repaired {
            report["given_up"] = json!(given_up::runs(&repaired.lost));
        }
        report["degraded"] = lacking.is_some().into();
        report["missing_members"] = missing.into();
        report["copies"] = compared.as_json();
        writeln!(out, "{report}")?;
    } else {
        print(args, &superblock, &mount, &found, volume.lacking().0, out)?;
    }
    if found.problems.is_empty() { Ok(()) } else { Err(Failure::said(Exit::Failed)) }
}

/// How a mount found its state, in one word.
fn path_name(path: MountPath) -> &'static str {
    match path {
        MountPath::Stateless => "stateless",
        MountPath::Tail => "tail",
        MountPath::Scan => "scan",
    }
}

/// What may be damage, or no more than the end of what a crash has left.
fn doubts(mount: &MountReport) -> Vec<String> {
    let commits = match mount.commits_dropped {
        0 => return Vec::new(),
        1 => "1 commit is".to_owned(),
        count => format!("{count} commits are"),
    };
    vec![format!(
        "{commits} not whole and left out: a crash cut the writing off, or it was damaged since. \
         If nothing was being written when the server ended, it is damage"
    )]
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
        "image": crate::volume::json_names(&args.image),
        "layout": Kind::of(superblock).name(),
        "ok": found.problems.is_empty(),
        "problems": found.problems,
        "mount": {
            "path": path_name(mount.path),
            "blocks_read": mount.blocks_read,
            "commits_accepted": mount.commits_accepted,
            "commits_dropped": mount.commits_dropped,
        },
        "doubts": doubts(mount),
        "recovery": crate::volume::json_recovery(mount),
        "facts": facts,
    })
}

fn print(
    args: &Args,
    superblock: &Superblock,
    mount: &MountReport,
    found: &CheckReport,
    lacking: Option<String>,
    out: &mut dyn Write,
) -> Outcome {
    let style = Style::of_stdout();
    writeln!(out, "{}", superblock.to_text(Kind::of(superblock).name()))?;
    match mount.path {
        MountPath::Stateless => writeln!(out, "mount: the layout keeps no state to recover")?,
        MountPath::Tail => {
            writeln!(out, "mount: after a clean shutdown, {} blocks read", mount.blocks_read)?
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
    for doubt in doubts(mount) {
        writeln!(out, "{} {doubt}", style.red("doubt:"))?;
    }
    if let Some(lacking) = lacking {
        writeln!(
            out,
            "{} {lacking}: less redundancy is left, or none; `seekless replace` puts a new \
             member in, which is filled while the array is served",
            style.red("degraded:")
        )?;
    }
    let verdict = match found.problems.len() {
        0 => style.green("no damage found"),
        1 => style.red("1 problem found"),
        count => style.red(&format!("{count} problems found")),
    };
    let names: Vec<_> = args.image.iter().map(|image| image.display().to_string()).collect();
    writeln!(out, "{}: {verdict}", names.join(", "))?;
    Ok(())
}
