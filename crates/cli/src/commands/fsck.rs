//! `seekless fsck`: checks a file system, and repairs it if that is asked for.

use crate::failure::{Exit, Failure, Outcome};
use crate::filesystem::{JournalArgs, VolumeArgs, blame, blame_device, names};
use crate::volume::json_names;
use seekless_formats::{Checked as Findings, Finding, FsError, Journal, Kind, Repaired};
use seekless_serve::files::Volume;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

/// Exit codes of `fsck`, as its manual page has them in section 8.
const CORRECTED: u8 = 1;
const LEFT: u8 = 4;
const OPERATIONAL: u8 = 8;
/// The command line is wrong.
pub const WRONG_USE: u8 = 16;

/// Arguments of `seekless fsck`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless fsck disk.img
  seekless fsck disk.img --repair
  seekless fsck disk.img --json | jq .findings
  seekless fsck disk.img --journal log.img                 # the log has a device of its own
  seekless fsck disk.img --repair --abandon-journal        # and that is lost for good

Nothing is written without --repair. A finding is harmless (space or a count is wrong), repairable
(repair loses nothing) or fatal (repair loses names or content). The file system must not be
mounted. Exit codes are those of fsck(8): 0 clean, 1 errors corrected, 4 errors left, 8 the check
could not be made, 16 wrong use. A file system that was not unmounted counts as an error, unless it
has a log: a mount applies that, and the check reads what it will make.")]
pub struct Args {
    /// The image, file or block device; of an array all members, in any order.
    #[arg(required = true, value_name = "IMAGE")]
    image: Vec<PathBuf>,
    #[command(flatten)]
    volume: VolumeArgs,
    #[command(flatten)]
    journal: JournalArgs,
    /// Repair what is found.
    #[arg(long)]
    repair: bool,
    /// Give up the log of the file system, which is lost with the device that had it.
    #[arg(long, requires = "repair", conflicts_with = "journal")]
    abandon_journal: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Checks, repairs, and prints what was found.
///
/// # Errors
/// With the exit codes of `fsck(8)`.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let checked = check(args).map_err(|failure| {
        let status = if failure.exit == Exit::Usage { WRONG_USE } else { OPERATIONAL };
        failure.status(status)
    })?;
    match args.json {
        true => writeln!(out, "{}", checked.as_json(args))?,
        false => checked.print(args, out)?,
    }
    match checked.status() {
        0 => Ok(()),
        status => Err(Failure::said(Exit::Failed).status(status)),
    }
}

/// What was found, and what repair did about it.
#[derive(Debug)]
struct Checked {
    /// The log was given up first; true if it may have held what is in no other place.
    abandoned: Option<bool>,
    /// Of the first check.
    before: Findings,
    repair: Option<Repaired>,
}

fn check(args: &Args) -> Result<Checked, Failure> {
    let options = args.volume.options(&args.image, !args.repair);
    let mut volume = args.journal.open(&options)?;
    let checked = check_volume(args, &mut volume).map_err(|error| blame(&args.image, &error));
    // Also after an error: else the volume is left as after a crash.
    let closed = volume.close().map_err(|error| blame_device(&args.image, error));
    checked.and_then(|checked| closed.map(|()| checked))
}

fn check_volume(args: &Args, volume: &mut Volume) -> Result<Checked, FsError> {
    let kind = Kind::of(volume)?;
    let mut abandoned = None;
    if args.abandon_journal {
        abandoned = Some((kind.abandon_journal)(volume)?);
    }
    let before = (kind.check)(volume)?;
    let sound = before.is_clean() && before.unmounted;
    let repair = match args.repair && !sound {
        true => Some((kind.repair)(volume)?),
        false => None,
    };
    Ok(Checked { abandoned, before, repair })
}

/// What the log holds, as JSON.
fn journal(journal: &Journal) -> Value {
    let Journal { groups, unnamed, sectors, intents, orphans, damage, lost } = journal;
    json!({
        "groups": groups,
        "unnamed": unnamed,
        "sectors": sectors,
        "intents": intents,
        "orphans": orphans,
        "damage": damage,
        "lost": lost,
    })
}

impl Checked {
    fn status(&self) -> u8 {
        match &self.repair {
            Some(_) => CORRECTED,
            None if self.abandoned.is_some() => CORRECTED,
            None if self.before.is_clean() && (self.before.unmounted || self.before.recovers) => 0,
            None => LEFT,
        }
    }

    /// What is lost, a sentence each.
    fn lost(&self) -> Vec<&str> {
        let abandoned = self.abandoned.filter(|&may_hold| may_hold);
        let abandoned = abandoned.map(|_| "operations that only the abandoned log held");
        let repaired = self.repair.iter().flat_map(|report| &report.lost).map(String::as_str);
        abandoned.into_iter().chain(repaired).collect()
    }

    /// All findings; those that appeared while others were repaired come at the end.
    fn findings(&self) -> Vec<&dyn Finding> {
        let known: BTreeSet<String> = self.before.list.iter().map(ToString::to_string).collect();
        let repaired = self.repair.iter().flat_map(|report| &report.list);
        let later = repaired.filter(|finding| !known.contains(&finding.to_string()));
        self.before.list.iter().chain(later).map(|finding| &**finding).collect()
    }

    fn print(&self, args: &Args, out: &mut dyn Write) -> Outcome {
        let findings = self.findings();
        for finding in &findings {
            writeln!(out, "{}: {finding}", finding.severity().name())?;
        }
        if self.before.cut && self.repair.is_none() {
            writeln!(out, "there are more findings than are listed")?;
        }
        if let Some(journal) = &self.before.journal {
            writeln!(out, "{journal}")?;
        }
        if !self.before.unmounted {
            writeln!(out, "the file system was not unmounted")?;
        }
        if self.abandoned == Some(false) {
            writeln!(out, "the abandoned log held nothing that is lost")?;
        }
        for lost in self.lost() {
            writeln!(out, "lost: {lost}")?;
        }
        let Findings { inodes, directories, superblocks, .. } = self.before;
        let verdict = match (self.status(), findings.len()) {
            (0, _) if self.before.recovers => "clean when a mount has applied the log".to_owned(),
            (0, _) => "clean".to_owned(),
            (CORRECTED, count) => format!("{count} findings repaired, clean now"),
            (_, count) => format!("{count} findings left; --repair repairs them"),
        };
        let names = names(&args.image);
        let copies = format!("{superblocks} superblocks");
        writeln!(out, "{names}: {inodes} inodes, {directories} directories, {copies}; {verdict}")?;
        Ok(())
    }

    fn as_json(&self, args: &Args) -> Value {
        let finding = |finding: &&dyn Finding| {
            json!({
                "severity": finding.severity().name(),
                "phase": finding.phase(),
                "text": finding.to_string(),
            })
        };
        let findings = self.findings();
        json!({
            "image": json_names(&args.image),
            "clean": self.status() <= CORRECTED,
            "unmounted": self.before.unmounted,
            "repaired": self.repair.is_some(),
            "abandoned_journal": self.abandoned.is_some(),
            "lost": self.lost(),
            "journal": self.before.journal.as_ref().map(journal),
            "findings": findings.iter().map(finding).collect::<Vec<_>>(),
            "more": self.before.cut && self.repair.is_none(),
            "inodes": self.before.inodes,
            "directories": self.before.directories,
            "fragments": self.before.fragments,
            "superblocks": self.before.superblocks,
        })
    }
}
