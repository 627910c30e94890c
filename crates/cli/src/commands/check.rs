//! `seekless check`: reads and verifies everything.

use crate::failure::{Exit, Failure, Outcome};
use crate::term::{Progress, Style};
use crate::volume::Volume;
use seekless_arrays::AssembleOptions;
use seekless_arrays::scrub::Scrubbed;
use seekless_engine::disk::Disk;
use seekless_engine::layout::{CheckReport, MountPath, MountReport};
use seekless_engine::superblock::Superblock;
use seekless_layouts::Kind;
use seekless_serve::image::array::open_members;
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
  seekless check --scrub a.img b.img c.img            # an array: copies and parity, too

Nothing is written, unless --repair asks for it. The exit code is 0 if all is well, 1 if damage was
found, 3 if the image cannot be mounted at all. An array that lacks a member is said to be degraded;
that alone is no damage.

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
    /// First compare copies and parity on all members of an array.
    #[arg(long)]
    scrub: bool,
    /// Repair what --scrub finds, by the checksums of the layout.
    #[arg(long, requires = "scrub")]
    repair: bool,
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
    let scrubbed = if args.scrub { Some(scrub(args)?) } else { None };
    let mut volume = Volume::open(&args.image, args.degraded, args.log.as_deref())?;
    let (superblock, mount, mut found) = volume.check()?;
    if let Some(scrubbed) = scrubbed {
        found.facts.push(("stripes compared", scrubbed.stripes.to_string()));
        found.facts.push(("repaired", scrubbed.repaired.to_string()));
        let unreadable = |&(member, block): &(usize, u64)| {
            format!("member {member} cannot read its stripe at block {block}")
        };
        let problems = scrubbed.unreadable.iter().map(unreadable);
        let differs = |stripe: &u64| format!("the members disagree about stripe {stripe}");
        let problems = problems.chain(scrubbed.mismatched.iter().map(differs));
        let left = |stripe: &u64| {
            format!(
                "the members disagree about stripe {stripe}, and none has all of its content; it \
                 is unchanged: write or restore the blocks named as damaged"
            )
        };
        if args.repair {
            let left = scrubbed.left.iter().map(left).take(MOST_NAMED);
            found.problems.splice(0..0, left);
            found.facts.push(("mismatched stripes", scrubbed.mismatched.len().to_string()));
        } else {
            found.problems.splice(0..0, problems.take(MOST_NAMED));
        }
    }
    if !args.json {
        volume.print_array(out)?;
    }
    if args.json {
        let mut report = as_json(args, &superblock, &mount, &found);
        let (lacking, missing) = volume.lacking();
        report["degraded"] = lacking.is_some().into();
        report["missing_members"] = missing.into();
        writeln!(out, "{report}")?;
    } else {
        print(args, &superblock, &mount, &found, volume.lacking().0, out)?;
    }
    if found.problems.is_empty() { Ok(()) } else { Err(Failure::said(Exit::Failed)) }
}

/// A report names at most so many stripes.
const MOST_NAMED: usize = 100;

/// Compares the members of an array.
fn scrub(args: &Args) -> Result<Scrubbed, Failure> {
    let mut members = open_members(&args.image, !args.repair, false)?;
    // Assembly repairs the stripes that a crash interrupted first. Else the scrub would report each
    // of them.
    let read_only = !args.repair;
    let options = AssembleOptions { read_only, ..AssembleOptions::default() };
    let mut found = members.assemble(&options)?;
    let superblock = found.array.superblock().clone();
    let mut progress = Progress::new();
    let stripes = superblock.geometry.stripes;
    let mut shown = |done: u64| progress.show(|| format!("{done} of {stripes} stripes compared"));
    let scrubbed = members.with_disks(|disks| {
        let mut here: Vec<&mut dyn Disk> = Vec::new();
        for disk in disks.iter_mut() {
            here.extend(disk.as_mut().map(|disk| &mut **disk as &mut dyn Disk));
        }
        seekless_arrays::scrub::scrub(
            &mut here,
            &superblock,
            args.repair.then_some(seekless_layouts::check),
            &mut shown,
        )
    });
    let scrubbed = scrubbed.map_err(|error| members.blame(error.into()))?;
    if args.repair {
        let ended = members.end(&mut found);
        ended.map_err(|error| members.blame(error.into()))?;
    }
    Ok(scrubbed)
}

/// How a mount found its state, in one word.
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
