//! Damage that the versions of single values do not show: of the image before its repair, and
//! operations of which a part is there.

use super::Judge;
use crate::files::contract::damage::Damage;
use crate::files::tags::Cell;
use crate::files::tree::Body;
use crate::files::versions::{Change, Versions};
use crate::files::world::{Object, World};
use crate::rules::Rule;
use std::collections::{BTreeMap, BTreeSet};

impl Judge<'_> {
    /// Damage of the image that no operation since the mount may leave.
    pub(super) fn image(&mut self) {
        let excess: Vec<Damage> = self.rules.excess(self.tree.damages).collect();
        for damage in excess {
            self.say(Rule::ImageDamage, |_| {
                let (what, word) = (damage.meaning(), damage.word());
                format!("{what} No operation since the mount may leave that ({word})")
            });
        }
    }

    /// Operations of which the contract allows no part, and a part is there.
    pub(super) fn parts(&mut self) {
        if !self.rules.may(Damage::BothNames) {
            self.both_names();
        }
        if !self.rules.may(Damage::Sectors) {
            self.sectors();
        }
    }

    /// Renames of which both names are there.
    fn both_names(&mut self) {
        let world = self.world;
        for (id, link) in world.links.iter().enumerate().filter(|(_, one)| one.places.len() > 1) {
            let places: BTreeSet<_> =
                link.places.iter().map(|&(dir, name, _)| (dir, name, link.object)).collect();
            let found = places.iter().filter(|place| self.reached.contains(place));
            let own = found.filter(|place| !is_of_another(world, id, place));
            if own.count() > 1 {
                self.say(Rule::OneName, |judge| {
                    let names = judge.link_name(id);
                    format!("{names}: more than one of them is there (both names)")
                });
            }
        }
    }

    /// Writes of which some sectors are there and others are not.
    fn sectors(&mut self) {
        let mut mixed = Vec::new();
        for (&ino, &object) in &self.objects {
            let Some(found) = self.tree.objects.get(&ino) else { continue };
            let Body::File(cells) = &found.body else { continue };
            let cells: BTreeMap<u32, Cell> = cells.iter().copied().collect();
            let (mut old, mut new) = (BTreeSet::new(), BTreeSet::new());
            for (sector, versions) in &self.world.record(object).cells {
                let from = u64::from(*sector) * 512;
                if from >= found.size {
                    continue;
                }
                let visible = (found.size - from).min(512) as u16;
                let cell = cells.get(sector).copied().unwrap_or(Cell::Zeros);
                sort(versions, (cell, visible), &mut old, &mut new);
            }
            if old.intersection(&new).next().is_some() {
                mixed.push(ino);
            }
        }
        for ino in mixed {
            self.say(Rule::WholeWrite, |judge| {
                let path = judge.path(ino);
                format!("{path} has a part of a change (mixed sectors)")
            });
        }
    }
}

/// True if another link was at this place, too.
fn is_of_another(
    world: &World,
    id: usize,
    place: &(Object, crate::files::names::Name, Object),
) -> bool {
    let mut others = world.links.iter().enumerate().filter(|(other, _)| *other != id);
    others.any(|(_, link)| {
        let mut places = link.places.iter();
        link.object == place.2 && places.any(|&(dir, name, _)| (dir, name) == (place.0, place.1))
    })
}

/// Says which changes a cell has and which it has not; says nothing if two versions look the same.
fn sort(
    versions: &Versions<Cell>,
    (cell, visible): (Cell, u16),
    old: &mut BTreeSet<Change>,
    new: &mut BTreeSet<Change>,
) {
    let is = |one: &Cell| one.cut(visible) == cell;
    let mut matching = versions.made().enumerate().filter(|(_, (_, one))| is(one));
    let (Some((at, _)), None) = (matching.next(), matching.next()) else { return };
    for (index, (change, _)) in versions.made().enumerate().skip(1) {
        match index <= at {
            true => new.insert(change),
            false => old.insert(change),
        };
    }
}
