//! The copies and the parity of an array, compared on all members before its volume is checked.

use super::Args;
use crate::failure::Failure;
use crate::term::Progress;
use seekless_arrays::scrub::Scrubbed;
use seekless_arrays::{AssembleOptions, Assembled, Level};
use seekless_engine::disk::Disk;
use seekless_engine::layout::CheckReport;
use seekless_serve::image::array::{Members, is_member, open_members};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A report names at most so many stripes.
const MOST_NAMED: usize = 100;

/// What is to be compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    images: &'a [PathBuf],
    degraded: bool,
    /// It is an error if nothing can be compared.
    insists: bool,
    repair: bool,
}

impl<'a> Request<'a> {
    /// What the arguments ask for.
    pub(super) fn of(args: &'a Args) -> Request<'a> {
        let Args { image, degraded, scrub, repair, log, .. } = args;
        let images = if log.is_some() { &[][..] } else { image.as_slice() };
        Request { images, degraded: *degraded, insists: *scrub, repair: *repair }
    }
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Copies {
    /// There is one of each block.
    None,
    /// They were compared.
    Compared(Scrubbed),
    /// They were not, and why.
    NotCompared(&'static str),
}

/// Compares the members of an array, if that is one.
///
/// # Errors
/// If the members do not belong together, or cannot be compared though that was insisted on.
pub(super) fn compare(request: &Request<'_>) -> Result<Copies, Failure> {
    let &Request { images, degraded, insists, repair } = request;
    let is_array = match images {
        [] => false,
        [image] => degraded || is_member(image)?,
        _ => true,
    };
    if !is_array && !insists {
        return Ok(Copies::None);
    }
    let mut members = open_members(images, !repair, degraded && !insists)?;
    // Assembly repairs the stripes that a crash interrupted first. Else the scrub would report each
    // of them.
    let volume = Some(seekless_layouts::check as _);
    let degraded = degraded && !insists;
    let options = AssembleOptions { read_only: !repair, degraded, volume, volatile: false };
    let mut found = members.assemble(&options)?;
    if !insists && let Some(why) = obstacle(&found) {
        return Ok(why);
    }
    let scrubbed = scrub(&mut members, &found, repair)?;
    if repair {
        let ended = members.end(&mut found);
        ended.map_err(|error| members.blame(error.into()))?;
    }
    Ok(Copies::Compared(scrubbed))
}

/// What keeps the members from being compared.
fn obstacle(found: &Assembled) -> Option<Copies> {
    let superblock = found.array.superblock();
    if superblock.geometry.level == Level::Raid0 {
        return Some(Copies::None);
    }
    if !found.missing.is_empty() || superblock.replacement().is_some() {
        return Some(Copies::NotCompared("a member is missing or being filled"));
    }
    if !found.clean {
        return Some(Copies::NotCompared(
            "a crash has left them out of step; serve the array once, or add --scrub --repair",
        ));
    }
    None
}

fn scrub(members: &mut Members, found: &Assembled, repair: bool) -> Result<Scrubbed, Failure> {
    let superblock = found.array.superblock().clone();
    let mut progress = Progress::new();
    let stripes = superblock.geometry.stripes;
    let mut shown = |done: u64| progress.show(|| format!("{done} of {stripes} stripes compared"));
    let check = repair.then_some(seekless_layouts::check as _);
    let scrubbed = members.with_disks(|disks| {
        let mut here: Vec<&mut dyn Disk> = Vec::new();
        for disk in disks.iter_mut() {
            here.extend(disk.as_mut().map(|disk| &mut **disk as &mut dyn Disk));
        }
        seekless_arrays::scrub::scrub(&mut here, &superblock, check, &mut shown)
    });
    Ok(scrubbed.map_err(|error| members.blame(error.into()))?)
}

impl Copies {
    /// For the report in JSON.
    pub(super) fn as_json(&self) -> Value {
        match self {
            Copies::None => Value::Null,
            Copies::Compared(found) => json!({
                "compared": true,
                "stripes": found.stripes,
                "mismatched_stripes": found.mismatched.len(),
                "unreadable_runs": found.unreadable.len(),
                "repaired": found.repaired,
                "left": found.left.len(),
            }),
            Copies::NotCompared(why) => json!({ "compared": false, "why": why }),
        }
    }

    /// Adds it to what was found of the volume.
    pub(super) fn add_to(&self, report: &mut CheckReport, repair: bool) {
        let scrubbed = match self {
            Copies::None => return,
            Copies::NotCompared(why) => {
                return report.facts.push(("copies and parity", format!("not compared: {why}")));
            }
            Copies::Compared(scrubbed) => scrubbed,
        };
        report.facts.push(("stripes compared", scrubbed.stripes.to_string()));
        report.facts.push(("repaired", scrubbed.repaired.to_string()));
        let mut problems = if repair {
            report.facts.push(("mismatched stripes", scrubbed.mismatched.len().to_string()));
            left(scrubbed)
        } else {
            differences(scrubbed)
        };
        problems.truncate(MOST_NAMED);
        report.problems.splice(0..0, problems);
    }
}

/// What a scrub that repairs nothing has found.
fn differences(scrubbed: &Scrubbed) -> Vec<String> {
    let unreadable = |&(member, block): &(usize, u64)| {
        format!("member {member} cannot read its stripe at block {block}")
    };
    let differs = |stripe: &u64| format!("the members disagree about stripe {stripe}");
    let unreadable = scrubbed.unreadable.iter().map(unreadable);
    unreadable.chain(scrubbed.mismatched.iter().map(differs)).collect()
}

/// What a repair has left.
fn left(scrubbed: &Scrubbed) -> Vec<String> {
    let left = |stripe: &u64| {
        format!(
            "the members disagree about stripe {stripe}, and none has all of its content; it \
             is unchanged: write or restore the blocks named as damaged"
        )
    };
    scrubbed.left.iter().map(left).collect()
}
