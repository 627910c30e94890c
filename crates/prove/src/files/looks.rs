//! Looks at images: a check or a repair, and the tree that names lead to, without a mount.
//!
//! Each of them leaves transcripts ([`crate::memo`]): of an image that differs from an earlier one
//! only in what none of them reads, nothing is read again.

use super::contract::Rules;
use super::contract::damage::Damages;
use super::image::{Trees, objects};
use super::tree::Tree;
use crate::memo::recorder::Done;
use crate::memo::transcripts::Event;
use crate::memo::{Content, Contents, Transcripts};
use crate::rules::Rule;
use crate::subject::Recovery;
use crate::violation::{Sort, Wrong};
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::Disk;
use seekless_formats::{Finding, FsError, Kind};
use std::rc::Rc;

/// What is remembered between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// Everything.
    #[default]
    Whole,
    /// Nothing: each look reads all that it needs.
    None,
    /// Everything, but the transcripts leave out one of their steps. A test shows that this is
    /// noticed.
    #[cfg(test)]
    Without(usize),
}

/// The looks of a case, and what is remembered of them.
#[derive(Debug, Default)]
pub struct Looks {
    contents: Contents,
    /// Whether a check finds nothing at all, and the damage that it finds.
    checks: Transcripts<Option<Result<(bool, Damages), Wrong>>>,
    repairs: Transcripts<Option<Result<(), Wrong>>>,
    replays: Transcripts<Option<Result<(), Wrong>>>,
    marks: Transcripts<Option<Result<(), Wrong>>>,
    trees: Trees,
}

/// Contents that are remembered at most: 256 MiB.
const MOST_CONTENTS: usize = 1 << 16;

/// The rule that forbids a finding of a check.
pub fn rule_of(finding: &dyn Finding) -> Rule {
    let form = format!("{finding:?}");
    match form.split([' ', '{']).next().unwrap_or_default() {
        "WrongSectors" => Rule::SectorCounts,
        "WrongParent" | "BadDots" => Rule::ParentEntries,
        "BehindEnd" | "Leaked" | "Nameless" | "Noted" => Rule::NothingLeaked,
        _ => match finding.invariant() {
            Some(1) => Rule::NamesInUse,
            Some(2) => Rule::OneOwner,
            Some(3) => Rule::AddressRange,
            Some(4) => Rule::MarkedInUse,
            Some(5) => Rule::EnoughLinks,
            Some(6) => Rule::DirectoryForm,
            Some(7) => Rule::OneParent,
            _ => Rule::ImageSound,
        },
    }
}

/// The rule that an objection to a finding names: that of the finding, unless a test has silenced
/// all but that of the judge.
pub fn blamed(finding: &dyn Finding, judge: Rule) -> Rule {
    let rule = rule_of(finding);
    if rule.applies() { rule } else { judge }
}

/// True if a judge may object to a finding.
pub fn counts(finding: &dyn Finding, judge: Rule) -> bool {
    rule_of(finding).applies_by(judge)
}

/// Calls with the volume that a file system lies on: the medium, or the objects of its drive.
fn on<T>(
    kind: Kind,
    disk: &mut dyn Disk,
    with: impl FnOnce(&mut dyn Disk) -> Result<T, FsError>,
) -> Result<T, FsError> {
    if kind.needs_objects { objects(disk, with) } else { with(disk) }
}

/// What a check finds that the rules do not allow; else whether it finds nothing at all, and which
/// kinds of damage.
fn checked(kind: Kind, rules: Rules, disk: &mut dyn Disk) -> Result<(bool, Damages), Wrong> {
    let findings = on(kind, disk, |disk| (kind.check)(disk))
        .map_err(|error| format!("the image cannot be checked: {error}"))
        .map_err(|story| Rule::ImageSound.wrong(Sort::Image, story))?;
    let count = |one: &dyn Finding| counts(one, Rule::ImageSound);
    let damages = rules.damages(&findings.list, count).map_err(|bad| {
        let rule = bad.invariant().map(|rule| format!(" (I{rule})")).unwrap_or_default();
        let story = format!("before any repair a check finds: {bad}{rule}");
        blamed(bad, Rule::ImageSound).wrong(Sort::Image, story)
    })?;
    Ok((findings.is_clean(), damages))
}

fn repaired(kind: Kind, disk: &mut dyn Disk) -> Result<(), Wrong> {
    let failed = |error| {
        Rule::Repairable.wrong(Sort::Dead, format!("the image cannot be repaired: {error}"))
    };
    (kind.repair)(disk).map(|_| ()).map_err(failed)
}

/// What the log of an image holds is brought in place.
fn replayed(kind: Kind, disk: &mut dyn Disk) -> Result<(), Wrong> {
    let failed =
        |error| Rule::Repairable.wrong(Sort::Dead, format!("the log cannot be recovered: {error}"));
    (kind.recover)(disk).map_err(failed)
}

/// An image that says it was unmounted cleanly is sound, under every policy: the next mount does
/// not check it.
fn marked(kind: Kind, disk: &mut dyn Disk) -> Result<(), Wrong> {
    // What cannot be checked is not mounted either.
    let Ok(found) = (kind.check)(disk) else { return Ok(()) };
    let mut all = found.list.iter().map(|one| &**one);
    let first = all.find(|one| counts(*one, Rule::MarkedClean));
    match first.filter(|_| found.unmounted) {
        None => Ok(()),
        Some(first) => {
            let story = format!("the image says that it was unmounted, and a check finds: {first}");
            Err(blamed(first, Rule::MarkedClean).wrong(Sort::Image, story))
        }
    }
}

impl Looks {
    /// What a recovery of an image comes to under these rules; `again` if one before was cut off.
    /// A repair that was cut off need not leave a sound image.
    ///
    /// # Errors
    /// What is wrong with the image.
    pub fn look(
        &mut self,
        (kind, rules): (Kind, Rules),
        memory: Memory,
        cells: &Cells,
        again: bool,
    ) -> Result<Rc<Tree>, Wrong> {
        self.forget(memory);
        let mut image = self.contents.image_of(cells);
        self.recovered((kind, rules), &mut image, again)
    }

    /// What the repair before a mount does with an image; none if it fails.
    pub fn recovery(&mut self, kind: Kind, memory: Memory, cells: &Cells) -> Option<Recovery> {
        if memory == Memory::None {
            return None;
        }
        self.forget(memory);
        let mut image = self.contents.image_of(cells);
        let Looks { contents, repairs, .. } = self;
        let Done { said, events, blocks_read } =
            repairs.play_all(contents, &mut image, |disk| repaired(kind, disk));
        said.ok()?;
        let writes = events.into_iter().map(|event| match event {
            Event::Write(at, written) => Some((at, contents.data(&written))),
            Event::Flush => None,
        });
        Some(Recovery { writes: writes.collect(), blocks_read })
    }

    fn forget(&mut self, memory: Memory) {
        match memory {
            Memory::None => *self = Looks::default(),
            Memory::Whole => {}
            #[cfg(test)]
            Memory::Without(step) => {
                self.checks.leave_out(step);
                self.repairs.leave_out(step);
                self.marks.leave_out(step);
                self.replays.leave_out(step);
            }
        }
        if self.contents.count() > MOST_CONTENTS {
            *self = Looks::default();
        }
    }

    fn recovered(
        &mut self,
        (kind, rules): (Kind, Rules),
        image: &mut [Content],
        again: bool,
    ) -> Result<Rc<Tree>, Wrong> {
        let Looks { contents, checks, repairs, replays, marks, trees } = self;
        if rules.contract().one_point && !kind.needs_objects {
            replays.play(contents, image, |disk| replayed(kind, disk))?;
        }
        if kind.limits.marks_unmounts {
            marks.play(contents, image, |disk| marked(kind, disk))?;
        }
        let (mut sound, mut damages) = (false, Damages::NONE);
        // Without a mark the judge decides whether the image was unmounted, and must be sound.
        let is_loose = rules.is_loose() && kind.limits.marks_unmounts;
        let is_unsound = is_loose || again && rules.repairs();
        if !is_unsound {
            (sound, damages) = checks.play(contents, image, |disk| checked(kind, rules, disk))?;
        }
        if rules.repairs() && !sound {
            repairs.play(contents, image, |disk| repaired(kind, disk))?;
        }
        let unreadable = |error| {
            Rule::Repairable.wrong(Sort::Dead, format!("the image cannot be read: {error}"))
        };
        let tree = trees.read(kind, contents, image).map_err(unreadable)?;
        Ok(Rc::new(Tree { damages, ..tree }))
    }
}

#[cfg(test)]
#[path = "looks/tests.rs"]
mod tests;
