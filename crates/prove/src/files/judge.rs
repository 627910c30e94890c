//! What is wrong with the tree that a crash has left.
//!
//! Names, attributes, sizes and sectors must each be a version that is not past; a policy that
//! promises less is held to what is durable and unchanged ([`Rules`]). Bonds must hold: I10, what
//! an fsync promised about paths, and I11, an object that always had a name has one.

use super::contract::damage::Damage;
use super::contract::{Rules, Terms};
use super::names::Name;
use super::tags::Cell;
use super::tree::{Body, Found, Tree};
use super::versions::{Change, Versions};
use super::world::{Bond, LinkId, Object, ROOT, World};
use crate::rules::{Complaint, Rule, complain};
use seekless_fs::call::{FileKind, ROOT as ROOT_INO};
use std::collections::{BTreeMap, BTreeSet};

/// Sentences of one verdict at most.
const MOST: usize = 6;
/// Choices of objects that are tried at most.
const MOST_TRIALS: u32 = 256;
/// By inode, which of its candidates is taken, and all of them, the likeliest one first.
type Choices = BTreeMap<u32, (usize, Vec<Object>)>;
/// A file that shrinks by more does so in steps, at block boundaries.
const STEP: u64 = 128 << 10;

/// Everything that is wrong with a tree, a sentence each.
pub fn judge(world: &World, tree: &Tree, rules: Rules) -> Vec<Complaint> {
    explained(world, tree, rules).wrong
}

/// The objects of a tree that are known, by inode, and those that a change under way has made.
pub fn known_objects(world: &World, tree: &Tree, rules: Rules) -> BTreeMap<u32, Object> {
    explained(world, tree, rules).objects
}

/// A verdict. Where nothing on the disk tells which of several objects an inode is, the first
/// choice that explains the whole tree counts; if none does, the likeliest one.
fn explained<'j>(world: &'j World, tree: &'j Tree, rules: Rules) -> Judge<'j> {
    let first = Judge::of(world, tree, rules, BTreeMap::new());
    if first.wrong.is_empty() {
        return first;
    }
    let mut choices = first.next_choices();
    let mut trials = 0;
    while let Some(next) = choices.filter(|_| trials < MOST_TRIALS) {
        trials += 1;
        let judge = Judge::of(world, tree, rules, next);
        if judge.wrong.is_empty() {
            return judge;
        }
        choices = judge.next_choices();
    }
    first
}

struct Judge<'j> {
    world: &'j World,
    tree: &'j Tree,
    rules: Terms,
    /// What inodes with several candidates are taken for.
    choices: Choices,
    /// Known objects by inode.
    objects: BTreeMap<u32, Object>,
    /// Names that were found: directory, name, object.
    reached: BTreeSet<(Object, Name, Object)>,
    /// A name of each object that was found, and the directory that has it.
    above: BTreeMap<u32, (u32, Name)>,
    wrong: Vec<Complaint>,
}

impl<'j> Judge<'j> {
    /// The verdict with some choices; inodes without one are taken for the first candidate.
    fn of(world: &'j World, tree: &'j Tree, rules: Rules, choices: Choices) -> Judge<'j> {
        let mut judge = Judge {
            world,
            tree,
            rules: rules.terms(world.done),
            choices,
            objects: BTreeMap::new(),
            reached: BTreeSet::new(),
            above: BTreeMap::new(),
            wrong: Vec::new(),
        };
        judge.names();
        judge.contents();
        judge.bonds();
        judge.image();
        judge.parts();
        judge.point();
        if judge.rules.has_content_at_point() {
            judge.whole_from_start();
        }
        judge
    }

    /// The choices that come next, counted up like digits; none behind the last ones.
    fn next_choices(&self) -> Option<Choices> {
        let mut next = self.choices.clone();
        for (choice, all) in next.values_mut() {
            *choice = (*choice + 1) % all.len();
            if *choice > 0 {
                return Some(next);
            }
        }
        None
    }
}

impl Judge<'_> {
    /// Most trees are good: a sentence is put together only where something is wrong.
    fn say(&mut self, rule: Rule, sentence: impl FnOnce(&Self) -> String) {
        if self.wrong.len() < MOST && rule.applies() {
            let sentence = sentence(self);
            complain(&mut self.wrong, rule, || sentence);
        }
    }

    /// A path of an object; that of the root is empty.
    fn path(&self, ino: u32) -> String {
        let (mut names, mut at) = (Vec::new(), ino);
        while at != ROOT_INO as u32 {
            match self.above.get(&at).filter(|_| names.len() <= self.above.len()) {
                Some(&(above, name)) => {
                    names.push(name.to_string());
                    at = above;
                }
                None => return "?".to_owned(),
            }
        }
        names.reverse();
        names.join("/")
    }

    /// The path of a name in a directory.
    fn path_in(&self, dir: u32, name: Name) -> String {
        match &self.path(dir)[..] {
            "" => name.to_string(),
            above => format!("{above}/{name}"),
        }
    }

    /// Names from the root on.
    fn names(&mut self) {
        let root = ROOT_INO as u32;
        self.objects.insert(root, ROOT);
        let mut todo = vec![root];
        let mut done = BTreeSet::new();
        while let Some(ino) = todo.pop() {
            let Some(found) = self.tree.objects.get(&ino).filter(|_| done.insert(ino)) else {
                continue;
            };
            let Body::Directory(names, strange) = &found.body else { continue };
            if *strange > 0 && !self.rules.repairs() {
                self.say(Rule::KnownName, |judge| {
                    format!("{}/ has a name that no client gave", judge.path(ino))
                });
            }
            for (&name, &child) in names {
                self.name(ino, name, child);
                self.above.entry(child).or_insert((ino, name));
                todo.push(child);
            }
            self.missing(ino, names);
        }
        if !self.tree.objects.contains_key(&root) {
            self.say(Rule::RootThere, |_| "the root directory is missing".to_owned());
        }
    }

    /// A name that was found, and what it leads to.
    fn name(&mut self, above: u32, name: Name, ino: u32) {
        let Some(found) = self.tree.objects.get(&ino) else {
            if self.rules.is_strict() {
                self.say(Rule::NameLeads, |judge| {
                    let path = judge.path_in(above, name);
                    format!("{path} leads to inode {ino}, which is free")
                });
            }
            return;
        };
        let Some(&dir) = self.objects.get(&above) else { return };
        let versions = self.world.record(dir).entries.get(&name);
        let known = self.choose(ino, found, versions);
        let object = known.or_else(|| {
            let mut possible = versions?.possible().flatten().copied();
            possible.find(|&one| self.is_new(one, found))
        });
        let Some(object) = object else {
            if self.rules.is_strict() {
                let generation = found.generation;
                self.say(Rule::NameLeads, |judge| {
                    let path = judge.path_in(above, name);
                    format!(
                        "{path} leads to inode {ino}, generation {generation}, which no client \
                         knows"
                    )
                });
            }
            return;
        };
        self.objects.insert(ino, object);
        self.reached.insert((dir, name, object));
        let allowed = versions.is_some_and(|versions| versions.allows(&Some(object)));
        if self.rules.is_strict() && !allowed {
            self.say(Rule::NameLeads, |judge| {
                let path = judge.path_in(above, name);
                format!("{path} leads to an object that it cannot lead to (inode {ino})")
            });
        }
    }

    /// The object that an inode is taken for, of those that are known to have had it. A name of it
    /// leads to one of `versions`.
    fn choose(
        &mut self,
        ino: u32,
        found: &Found,
        versions: Option<&Versions<Option<Object>>>,
    ) -> Option<Object> {
        let world = self.world;
        let identity = (ino, found.generation);
        let mut candidates = world.candidates(identity, found.kind);
        if candidates.len() < 2 {
            return world.known(identity);
        }
        let (choice, all) = self.choices.entry(ino).or_insert_with(|| {
            candidates.sort_by_key(|&object| {
                let allowed = versions.is_some_and(|versions| versions.allows(&Some(object)));
                (!allowed, !is_like(world, object, found))
            });
            (0, candidates)
        });
        all.get(*choice).copied()
    }

    /// True if this is an object of the change under way, whose inode no reply has named.
    fn is_new(&self, object: Object, found: &Found) -> bool {
        let record = self.world.record(object);
        record.identity.is_none() && record.kind == found.kind
    }

    /// Names that should be there.
    fn missing(&mut self, ino: u32, names: &BTreeMap<Name, u32>) {
        let Some(&dir) = self.objects.get(&ino).filter(|_| self.rules.is_strict()) else { return };
        let world = self.world;
        for (name, versions) in &world.record(dir).entries {
            if !names.contains_key(name) && !versions.allows(&None) {
                self.say(Rule::NameStays, |judge| {
                    format!("{}/{name} is gone, and nothing removed it", judge.path(ino))
                });
            }
        }
    }

    fn contents(&mut self) {
        let objects: Vec<(u32, Object)> = self.objects.iter().map(|(a, b)| (*a, *b)).collect();
        for (ino, object) in objects {
            let counts = self.rules.is_strict() || self.is_kept(object);
            if let Some(found) = self.tree.objects.get(&ino).filter(|_| counts) {
                self.attributes(ino, object, found);
                if let Body::File(cells) = &found.body {
                    self.size(ino, object, found.size);
                    self.cells(ino, object, found.size, cells);
                }
            }
        }
    }

    /// True if an object has a name: what was durable of it stays, but for what a later operation
    /// replaces or cuts off.
    fn is_kept(&self, object: Object) -> bool {
        object == ROOT || !self.world.links_of(object).is_empty()
    }

    fn attributes(&mut self, ino: u32, object: Object, found: &Found) {
        let record = self.world.record(object);
        let attrs = match self.rules.is_strict() {
            true => record.attrs.allows(&found.attrs),
            false => record.attrs.only().is_none_or(|only| *only == found.attrs),
        };
        // Objects that are not durable need not be what they were, where nothing is ordered.
        let counts = self.rules.is_strict() || record.attrs.only().is_some();
        if !attrs {
            let found = found.attrs;
            self.say(Rule::Attributes, |judge| {
                let path = judge.path(ino);
                format!("{path} has mode {:o} and owner {}", found.mode, found.uid)
            });
        }
        if counts && record.kind != found.kind {
            self.say(Rule::KindKept, |judge| {
                format!("{} is a {:?}, not a {:?}", judge.path(ino), found.kind, record.kind)
            });
        }
        let text = Body::Symlink(record.text);
        if counts && record.kind == FileKind::Symlink && found.body != text {
            self.say(Rule::KindKept, |judge| {
                format!("the text of {} is wrong: {:?}", judge.path(ino), found.body)
            });
        }
    }

    fn size(&mut self, ino: u32, object: Object, size: u64) {
        let versions = &self.world.record(object).size;
        let between = |(&low, &high): (&u64, &u64)| {
            let grows = (low..=high).contains(&size);
            grows || (low - high.min(low) > STEP && (high..=low).contains(&size))
        };
        let right = match self.rules.is_strict() {
            true => {
                let between = self.rules.may(Damage::Size) && versions.steps().any(between);
                versions.allows(&size) || between
            }
            false => match versions.only() {
                Some(only) => *only == size,
                None => size >= self.least_size(object),
            },
        };
        if !right {
            self.say(Rule::SizeVersion, |judge| {
                let list: Vec<String> = versions.possible().map(u64::to_string).collect();
                format!("{} has {size} bytes; it may have {}", judge.path(ino), list.join(", "))
            });
        }
    }

    /// The least size that a crash may leave: that of the smallest version from the durable one on.
    fn least_size(&self, object: Object) -> u64 {
        let size = &self.world.record(object).size;
        let least = size.possible().copied().min().filter(|_| size.is_settled());
        least.unwrap_or(0)
    }

    fn cells(&mut self, ino: u32, object: Object, size: u64, found: &[(u32, Cell)]) {
        let world = self.world;
        let record = world.record(object);
        let changes = !record.is_untouched();
        let mut expected = record.cells.keys().copied().collect::<BTreeSet<u32>>();
        for &(sector, cell) in found {
            expected.remove(&sector);
            self.cell(ino, object, sector, (cell, size, changes));
        }
        for sector in expected {
            if u64::from(sector) * 512 < size {
                self.cell(ino, object, sector, (Cell::Zeros, size, changes));
            }
        }
    }

    fn cell(
        &mut self,
        ino: u32,
        object: Object,
        sector: u32,
        (cell, size, changes): (Cell, u64, bool),
    ) {
        let visible = (size - u64::from(sector) * 512).min(512) as u16;
        let record = self.world.record(object);
        let versions = record.cells.get(&sector);
        let is = |one: &Cell| one.cut(visible) == cell || visible < 16;
        let shows_anything = self.rules.may(Damage::Stale);
        let right = match (self.rules.is_strict(), versions) {
            (false, Some(versions)) => {
                // What lies behind the least size was not durable, and a hole that gets a block may
                // show what the block held before.
                let behind = u64::from(sector) * 512 >= self.least_size(object);
                let is_hole = |one: &Cell| matches!(one, Cell::Absent | Cell::Zeros);
                let holds = |one: &Cell| is(one) || changes && is_hole(one);
                behind || versions.only().is_none_or(holds)
            }
            (false, None) => changes || cell == Cell::Zeros,
            (true, None) => shows_anything && changes || cell == Cell::Zeros,
            (true, Some(versions)) => {
                // A fresh block may show what it held before.
                let fresh = |one: &Cell| matches!(one, Cell::Absent | Cell::Zeros);
                let may_move = changes || versions.only().is_none();
                let moved = may_move && versions.possible().any(fresh);
                versions.possible().any(is) || shows_anything && moved
            }
        };
        let own = matches!(cell, Cell::Tagged(tag, _) if tag.object == object);
        let own = own || shows_anything || !self.rules.is_strict();
        let cut = |one: &Cell| !matches!(one, Cell::Tagged(_, 512));
        let stale = record.tail.contains(&sector)
            && versions.is_none_or(|versions| versions.possible().any(cut));
        if right || own && stale {
            return;
        }
        let rule = match cell {
            Cell::Tagged(tag, _) if tag.object != object => Rule::NoForeignSector,
            _ => Rule::SectorVersion,
        };
        let what = match cell {
            Cell::Tagged(tag, _) if tag.object != object => {
                "content of another object (I8)".to_owned()
            }
            Cell::Tagged(tag, valid) => {
                format!("{valid} bytes of version {} of sector {}", tag.version, tag.sector)
            }
            other => format!("{other:?}"),
        };
        let possible: Vec<String> = versions
            .into_iter()
            .flat_map(|versions| versions.possible().map(|one| format!("{one:?}")))
            .collect();
        let may = if possible.is_empty() { "zeros".to_owned() } else { possible.join(" or ") };
        self.say(rule, |judge| {
            let path = judge.path(ino);
            format!("sector {sector} of {path} is {what}; it may be {may}")
        });
    }

    fn bonds(&mut self) {
        let world = self.world;
        for bond in &world.bonds {
            let mut alive: Vec<LinkId> = bond.links.clone();
            alive.retain(|&id| self.binds(id, bond));
            let leads = |&id: &LinkId| {
                let places = &world.links[id].places;
                places
                    .iter()
                    .any(|&(dir, name, _)| self.reached.contains(&(dir, name, bond.object)))
            };
            if alive.is_empty() || alive.iter().any(leads) {
                continue;
            }
            let names: Vec<String> = alive.iter().map(|&id| self.link_name(id)).collect();
            let moved = alive.iter().any(|&id| world.links[id].places.len() > 1);
            let (rule, number) = match moved {
                true => (Rule::RenamedName, "I11"),
                false => (Rule::FsyncedName, "I10"),
            };
            self.say(rule, |_| {
                format!("no name leads to what {} was ({number})", names.join(" or "))
            });
        }
    }

    /// True if a link must still lead to its object.
    fn binds(&self, id: LinkId, bond: &Bond) -> bool {
        let link = &self.world.links[id];
        if link.ended.is_some() {
            return false;
        }
        self.rules.is_strict() || self.stays(id, bond.upto, 0)
    }

    /// True if no operation has renamed or removed a link since, nor a directory above it.
    fn stays(&self, id: LinkId, upto: Change, depth: u32) -> bool {
        let link = &self.world.links[id];
        let Some(&(dir, _, change)) = link.places.last() else { return false };
        if link.ended.is_some() || change > upto || depth > 64 {
            return false;
        }
        dir == ROOT || self.world.links_of(dir).iter().any(|&up| self.stays(up, upto, depth + 1))
    }

    fn link_name(&self, id: LinkId) -> String {
        let places = self.world.links[id].places.iter();
        let names: Vec<String> = places.map(|(_, name, _)| name.to_string()).collect();
        names.join(", then ")
    }
}

/// True if what was found may be a version of an object.
fn is_like(world: &World, object: Object, found: &Found) -> bool {
    let record = world.record(object);
    let has_own = match &found.body {
        Body::File(cells) => {
            let mut tags = cells.iter().filter_map(|(_, cell)| match cell {
                Cell::Tagged(tag, _) => Some(tag.object),
                _ => None,
            });
            tags.all(|tagged| tagged == object) && record.size.allows(&found.size)
        }
        Body::Symlink(text) => *text == record.text,
        _ => true,
    };
    has_own && record.kind == found.kind && record.attrs.allows(&found.attrs)
}

mod content;
mod parts;
mod point;

#[cfg(test)]
mod cells;
#[cfg(test)]
#[path = "judge/tests.rs"]
mod tests;
