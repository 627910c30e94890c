//! Content at one point in time, where the policy promises it.
//!
//! Each sector of a file is a value that held from the change that made it to the next. A call that
//! writes much takes several operations, so a crash may leave a part of it: from its first sector
//! on, with nothing missing.

use super::Judge;
use super::point::{Moment, Spans, spans};
use crate::files::tags::Cell;
use crate::files::tree::{Body, Found};
use crate::files::versions::{Change, Versions};
use crate::files::world::{Object, Record};
use crate::rules::Rule;
use std::collections::BTreeMap;

/// Bytes of a sector by which it can be told from others.
const TOLD: u16 = 16;

/// A sector of a file that a crash has left, beside its versions.
struct Sector<'j> {
    number: u32,
    versions: &'j Versions<Cell>,
    cell: Cell,
    visible: u16,
}

impl Sector<'_> {
    fn is(&self, one: &Cell) -> bool {
        let is_hole = *one == Cell::Absent && self.cell == Cell::Zeros;
        is_hole || one.cut(self.visible) == self.cell
    }

    /// True if it has what a change has made, and nothing else that it may have looks like it.
    fn is_of(&self, change: Change) -> bool {
        let mut alike = self.versions.made().filter(|(_, one)| self.is(one));
        alike.next().is_some_and(|(made, _)| made == change) && alike.next().is_none()
    }

    /// True if it surely has not what a change has made.
    fn lacks(&self, change: Change) -> bool {
        let mut alike = self.versions.made().filter(|(_, one)| self.is(one)).peekable();
        alike.peek().is_some() && alike.all(|(made, _)| made < change)
    }
}

/// The sectors of a file that can be told, in order.
fn sectors<'j>(record: &'j Record, found: &Found) -> Vec<Sector<'j>> {
    let Body::File(cells) = &found.body else { return Vec::new() };
    let cells: BTreeMap<u32, Cell> = cells.iter().copied().collect();
    let mut all = Vec::new();
    for (&number, versions) in &record.cells {
        let from = u64::from(number) * 512;
        let visible = found.size.saturating_sub(from).min(512) as u16;
        // What a crash has left behind the end may show when the file grows.
        if visible >= TOLD && !record.tail.contains(&number) {
            let cell = cells.get(&number).copied().unwrap_or(Cell::Zeros);
            all.push(Sector { number, versions, cell, visible });
        }
    }
    all
}

impl Judge<'_> {
    /// When the sectors of a file held, those of equal spans as one value.
    pub(super) fn content_values(&self, object: Object, found: &Found) -> Vec<(u32, Spans)> {
        let mut values: BTreeMap<Vec<(Moment, Moment)>, u32> = BTreeMap::new();
        for sector in sectors(self.world.record(object), found) {
            let held = spans(sector.versions, |one| sector.is(one), |_, to| sector.is(to));
            values.entry(held).or_insert(sector.number);
        }
        values.into_iter().map(|(held, number)| (number, held)).collect()
    }

    /// Writes of which a part is there that does not begin at their first sector.
    pub(super) fn whole_from_start(&mut self) {
        let mut torn = Vec::new();
        for (&ino, &object) in &self.objects {
            let Some(found) = self.tree.objects.get(&ino) else { continue };
            let all = sectors(self.world.record(object), found);
            let mut ended: BTreeMap<Change, u32> = BTreeMap::new();
            for sector in &all {
                let written = sector.versions.made().skip(1);
                let written = written.filter(|(_, one)| matches!(one, Cell::Tagged(..)));
                for (change, _) in written {
                    if sector.lacks(change) {
                        ended.entry(change).or_insert(sector.number);
                    } else if let Some(&first) = ended.get(&change)
                        && sector.is_of(change)
                    {
                        torn.push((ino, first, sector.number));
                    }
                }
            }
        }
        if let Some(&(ino, old, new)) = torn.first() {
            self.say(Rule::WholeWrite, |judge| {
                let path = judge.path(ino);
                format!("{path} has sector {new} of a change, and not its sector {old} before it")
            });
        }
    }
}
