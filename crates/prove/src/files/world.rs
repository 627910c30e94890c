//! What a client did to a file system: the versions of all names, attributes, sizes and sectors.
//!
//! Objects are known by numbers of their own, and by inode and generation once a reply names them.
//! At most one change is under way; the last version of each value is what the next one starts
//! from. A *link* is a name of an object through all renames, and a *bond* is a promise that at
//! least one of some links leads to its object after a crash.

use super::contract::operation::Operations;
use super::contract::table::Covers;
use super::names::{Name, Path};
use super::tags::Cell;
use super::tree::Attrs;
use super::versions::{Change, Versions};
use seekless_fs::call::FileKind;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Number of an object; 0 is the root.
pub type Object = u32;
/// Index of a link.
pub type LinkId = usize;
/// The root directory.
pub const ROOT: Object = 0;

/// All that is known of an object.
#[derive(Clone, Debug)]
pub struct Record {
    /// Inode and generation.
    pub identity: Option<(u32, u32)>,
    /// Its kind.
    pub kind: FileKind,
    /// Permissions and owner.
    pub attrs: Versions<Attrs>,
    /// Size in bytes.
    pub size: Versions<u64>,
    /// Sectors that were ever written.
    pub cells: BTreeMap<u32, Versions<Cell>>,
    /// Names that ever were in the directory.
    pub entries: BTreeMap<Name, Versions<Option<Object>>>,
    /// The text of a symbolic link; none if a crash has left another one.
    pub text: Option<u16>,
    /// Sectors of the last block that a crash has left behind the end: when the file grows, they
    /// may show what it held there before.
    pub tail: Range<u32>,
    /// The last change of its content or its number of names.
    touched: Change,
    /// Changes of it up to this one are durable.
    synced: Change,
}

/// A name of an object, through all renames.
#[derive(Clone, Debug)]
pub struct Link {
    /// What it leads to.
    pub object: Object,
    /// Directory and name, oldest first, and the change that put it there.
    pub places: Vec<(Object, Name, Change)>,
    /// A change removed or replaced it.
    pub ended: Option<Change>,
}

/// At least one of the links that have not ended leads to the object.
#[derive(Clone, Debug)]
pub struct Bond {
    /// The object.
    pub object: Object,
    /// Its links when it became durable.
    pub links: Vec<LinkId>,
    /// Changes up to this one are durable.
    pub upto: Change,
}

/// Something that a change does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// An object comes into being.
    Made(Object),
    /// A name leads to something else.
    Entry(Object, Name, Option<Object>),
    /// Other attributes.
    Attrs(Object, Attrs),
    /// Another size.
    Size(Object, u64),
    /// Another sector.
    Cell(Object, u32, Cell),
    /// Blocks are allocated or freed, and the content stays.
    Touched(Object),
    /// A new link.
    Linked(Object, Object, Name),
    /// A link has another place.
    Moved(LinkId, Object, Name),
    /// A link is gone.
    Ended(LinkId),
    /// A number stands for an open object, or for none.
    Held(u8, Option<Object>),
}

/// Whether a directory lies in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// By none of its names.
    No,
    /// By one of its names, or of those above it, and not by another one.
    Perhaps,
    /// By all of them.
    Yes,
}

/// The world as a client knows it.
#[derive(Clone, Debug)]
pub struct World {
    /// All objects that ever were.
    pub objects: Vec<Record>,
    /// All links of this epoch.
    pub links: Vec<Link>,
    /// Promises about links.
    pub bonds: Vec<Bond>,
    /// The last change that was sent.
    pub change: Change,
    /// The last change that was heard.
    pub heard: Change,
    /// The change under way.
    pub pending: Vec<Effect>,
    /// The operations since the mount, and those of which a crash before it has left something.
    pub done: Operations,
    held: BTreeMap<u8, Object>,
    /// Objects by identity, oldest first. With generations there is one of each.
    by_identity: BTreeMap<(u32, u32), Vec<Object>>,
    /// The disk tells objects apart that had the same inode one after the other.
    generations: bool,
}

impl Record {
    /// An object that a change makes.
    pub fn new(change: Change, kind: FileKind, attrs: Attrs, size: u64) -> Record {
        Record {
            identity: None,
            kind,
            attrs: Versions::new(change, attrs),
            size: Versions::new(change, size),
            cells: BTreeMap::new(),
            entries: BTreeMap::new(),
            text: None,
            tail: 0..0,
            touched: 0,
            synced: 0,
        }
    }

    /// True if nothing has changed its content, nor removed a name of it, since it was durable.
    pub fn is_untouched(&self) -> bool {
        self.touched <= self.synced
    }

    fn settle(&mut self, upto: Change) {
        self.synced = self.synced.max(upto);
        self.attrs.settle(upto);
        self.size.settle(upto);
        self.cells.values_mut().for_each(|cell| cell.settle(upto));
        self.entries.values_mut().for_each(|entry| entry.settle(upto));
    }
}

impl World {
    /// An empty file system.
    pub fn new(root: Attrs) -> World {
        let mut record = Record::new(0, FileKind::Directory, root, 0);
        record.attrs = Versions::durable(root);
        record.identity = Some((seekless_fs::call::ROOT as u32, 1));
        let by_identity = BTreeMap::from([((seekless_fs::call::ROOT as u32, 1), vec![ROOT])]);
        World {
            objects: vec![record],
            links: Vec::new(),
            bonds: Vec::new(),
            change: 0,
            heard: 0,
            pending: Vec::new(),
            done: Operations::NONE,
            held: BTreeMap::new(),
            by_identity,
            generations: true,
        }
    }

    /// The same in a format that may lack generations.
    #[must_use]
    pub fn with_generations(self, generations: bool) -> World {
        World { generations, ..self }
    }

    /// An object.
    pub fn record(&self, object: Object) -> &Record {
        &self.objects[object as usize]
    }

    /// An object, to be changed.
    pub fn record_mut(&mut self, object: Object) -> &mut Record {
        &mut self.objects[object as usize]
    }

    /// The object that was the last one to have this inode and generation.
    pub fn known(&self, identity: (u32, u32)) -> Option<Object> {
        self.by_identity.get(&identity).and_then(|objects| objects.last()).copied()
    }

    /// The objects that this inode may be after a crash, the likeliest one first: all that had it
    /// since the mount, and the one under way. Nothing if the disk tells them apart.
    pub fn candidates(&self, identity: (u32, u32), kind: FileKind) -> Vec<Object> {
        let Some(known) = self.by_identity.get(&identity).filter(|_| !self.generations) else {
            return Vec::new();
        };
        let made = self.pending.iter().filter_map(|effect| match *effect {
            Effect::Made(object) => Some(object),
            _ => None,
        });
        let made = made.filter(|&object| self.record(object).kind == kind);
        known.iter().rev().copied().chain(made).collect()
    }

    /// A reply says which inode an object has; false if another object has it. Without generations
    /// an object may have the inode of one that is gone.
    pub fn identify(&mut self, object: Object, identity: (u32, u32)) -> bool {
        let before = self.by_identity.remove(&identity).unwrap_or_default();
        let mut others = before.iter().filter(|&&one| one != object);
        let is_fresh = match self.generations {
            true => others.next().is_none(),
            false => !others.any(|&one| self.is_alive(one)),
        };
        let mut all = if self.generations { Vec::new() } else { before };
        all.retain(|&one| one != object);
        all.push(object);
        self.by_identity.insert(identity, all);
        self.record_mut(object).identity = Some(identity);
        is_fresh
    }

    /// True if an object has a name, or is open.
    fn is_alive(&self, object: Object) -> bool {
        object == ROOT
            || !self.links_of(object).is_empty()
            || self.held.values().any(|&held| held == object)
    }

    /// What a name leads to now.
    pub fn entry(&self, dir: Object, name: Name) -> Option<Object> {
        self.record(dir).entries.get(&name).and_then(|versions| *versions.last())
    }

    /// The names of a directory now.
    pub fn names(&self, dir: Object) -> impl Iterator<Item = (Name, Object)> + '_ {
        let entries = self.record(dir).entries.iter();
        entries.filter_map(|(name, versions)| versions.last().map(|object| (*name, object)))
    }

    /// The object that names lead to from the root on.
    pub fn walk(&self, names: &[Name]) -> Option<Object> {
        names.iter().try_fold(ROOT, |dir, name| self.entry(dir, *name))
    }

    /// The object of a path.
    pub fn resolve(&self, path: &Path) -> Option<Object> {
        match path {
            Path::Held(number) => self.held.get(number).copied(),
            Path::Names(..) => self.walk(path.names()),
        }
    }

    /// The directory of a path, and its last name.
    pub fn place(&self, path: &Path) -> Option<(Object, Name)> {
        let (above, name) = path.split()?;
        let dir = self.walk(above)?;
        (self.record(dir).kind == FileKind::Directory).then_some((dir, name))
    }

    /// Numbers of open objects.
    pub fn held(&self) -> impl Iterator<Item = u8> + '_ {
        self.held.keys().copied()
    }

    /// The link that a name is now.
    pub fn link_at(&self, dir: Object, name: Name) -> Option<LinkId> {
        self.links.iter().rposition(|link| {
            let place = link.places.last();
            link.ended.is_none() && place.is_some_and(|place| (place.0, place.1) == (dir, name))
        })
    }

    /// The links that an object has now.
    pub fn links_of(&self, object: Object) -> Vec<LinkId> {
        let of = |(_, link): &(LinkId, &Link)| link.object == object && link.ended.is_none();
        self.links.iter().enumerate().filter(of).map(|(id, _)| id).collect()
    }

    /// Whether a directory lies in another one, or is it. A crash in a rename leaves a directory
    /// two names, and the file system knows one of them as the way to the root.
    pub fn is_below(&self, dir: Object, above: Object) -> Below {
        let (mut some, mut all) = (false, true);
        let (mut todo, mut seen) = (vec![dir], BTreeSet::new());
        while let Some(dir) = todo.pop() {
            if dir == above {
                some = true;
            } else if dir == ROOT {
                all = false;
            } else if seen.insert(dir) {
                let links = self.links_of(dir).into_iter();
                todo.extend(links.filter_map(|id| self.links[id].places.last()).map(|at| at.0));
            }
        }
        match (some, all) {
            (false, _) => Below::No,
            (true, true) => Below::Yes,
            (true, false) => Below::Perhaps,
        }
    }

    /// A change is sent: its versions are possible from now on.
    pub fn send(&mut self, effects: Vec<Effect>) {
        let change = self.change;
        for effect in &effects {
            self.apply(effect, change);
        }
        self.pending = effects;
    }

    fn apply(&mut self, effect: &Effect, change: Change) {
        let touched = match *effect {
            Effect::Size(object, _) | Effect::Cell(object, ..) => Some(object),
            Effect::Touched(object) => Some(object),
            Effect::Ended(link) => Some(self.links[link].object),
            _ => None,
        };
        if let Some(object) = touched {
            self.record_mut(object).touched = change;
        }
        match *effect {
            Effect::Made(_) | Effect::Touched(_) => {}
            Effect::Entry(dir, name, value) => {
                let entries = &mut self.record_mut(dir).entries;
                entries.entry(name).or_insert_with(|| Versions::durable(None)).push(change, value);
            }
            Effect::Attrs(object, attrs) => self.record_mut(object).attrs.push(change, attrs),
            Effect::Size(object, size) => self.record_mut(object).size.push(change, size),
            Effect::Cell(object, sector, cell) => {
                let record = self.record_mut(object);
                // With a size that it had earlier, the file may have had a hole there.
                let is_hole = record.size.possible().any(|&size| u64::from(sector) * 512 < size);
                let before = if is_hole { Cell::Zeros } else { Cell::Absent };
                let cells = &mut record.cells;
                cells.entry(sector).or_insert_with(|| Versions::durable(before)).push(change, cell);
            }
            Effect::Linked(object, dir, name) => {
                self.links.push(Link { object, places: vec![(dir, name, change)], ended: None });
            }
            Effect::Moved(link, dir, name) => self.links[link].places.push((dir, name, change)),
            Effect::Ended(link) => self.links[link].ended = Some(change),
            Effect::Held(number, object) => {
                match object {
                    Some(object) => self.held.insert(number, object),
                    None => self.held.remove(&number),
                };
            }
        }
    }

    /// The change under way has happened. Its effects.
    pub fn confirm(&mut self) -> Vec<Effect> {
        self.heard = self.change;
        std::mem::take(&mut self.pending)
    }

    /// The change under way has not happened.
    pub fn withdraw(&mut self) {
        let change = self.change;
        for effect in std::mem::take(&mut self.pending).into_iter().rev() {
            match effect {
                Effect::Made(_) | Effect::Touched(_) => {}
                Effect::Entry(dir, name, _) => {
                    withdraw(&mut self.record_mut(dir).entries, &name, change);
                }
                Effect::Attrs(object, _) => {
                    self.record_mut(object).attrs.withdraw(change);
                }
                Effect::Size(object, _) => {
                    self.record_mut(object).size.withdraw(change);
                }
                Effect::Cell(object, sector, _) => {
                    withdraw(&mut self.record_mut(object).cells, &sector, change);
                }
                Effect::Linked(..) => _ = self.links.pop(),
                Effect::Moved(link, ..) => _ = self.links[link].places.pop(),
                Effect::Ended(link) => self.links[link].ended = None,
                Effect::Held(number, object) => {
                    if object.is_some() {
                        self.held.remove(&number);
                    }
                }
            }
        }
        self.heard = change;
    }

    /// Everything up to a change is durable. Bonds are given with it: those that links had then.
    pub fn settle_all(&mut self, upto: Change, bonds: Vec<Bond>) {
        self.objects.iter_mut().for_each(|record| record.settle(upto));
        self.bond(bonds);
    }

    /// Names, attributes and sizes up to a change are durable, of all objects.
    pub fn settle_metadata(&mut self, upto: Change, bonds: Vec<Bond>) {
        for record in &mut self.objects {
            record.attrs.settle(upto);
            record.size.settle(upto);
            record.entries.values_mut().for_each(|entry| entry.settle(upto));
        }
        self.bond(bonds);
    }

    /// What the contract names of a file, or of the entries of a directory, is durable up to a
    /// change.
    pub fn settle_object(
        &mut self,
        object: Object,
        covers: Covers,
        upto: Change,
        bonds: Vec<Bond>,
    ) {
        let record = self.record_mut(object);
        if covers.content {
            let attrs = record.attrs.clone();
            record.settle(upto);
            if !covers.attributes {
                record.attrs = attrs;
            }
        }
        self.bond(bonds);
    }

    /// Adds promises. An older one about the same links stays: a second fsync need not write what
    /// has not changed.
    pub fn bond(&mut self, bonds: Vec<Bond>) {
        for bond in bonds {
            if !self.bonds.iter().any(|one| one.links == bond.links) {
                self.bonds.push(bond);
            }
        }
        let ended = |id: &LinkId| self.links[*id].ended.is_some_and(|at| at <= self.heard);
        self.bonds.retain(|bond| !bond.links.iter().all(ended));
    }

    /// A bond for each link that there is.
    pub fn bonds_of_all(&self) -> Vec<Bond> {
        let upto = self.heard;
        let alive = self.links.iter().enumerate().filter(|(_, link)| link.ended.is_none());
        alive.map(|(id, link)| Bond { object: link.object, links: vec![id], upto }).collect()
    }

    /// What an fsync of an object promises about names: one of its own leads to it, and all names
    /// in it, if it is a directory, lead to what they led to.
    pub fn bonds_of(&self, object: Object) -> Vec<Bond> {
        let upto = self.heard;
        let own = self.links_of(object);
        let mut bonds = Vec::new();
        if !own.is_empty() {
            bonds.push(Bond { object, links: own, upto });
        }
        if self.record(object).kind == FileKind::Directory {
            for (name, child) in self.names(object) {
                let link = self.link_at(object, name);
                bonds.extend(link.map(|id| Bond { object: child, links: vec![id], upto }));
            }
        }
        bonds
    }

    /// A new epoch begins: `records` says what each object is now, none if it is gone.
    pub fn restart(&mut self, mut records: BTreeMap<Object, Record>) {
        self.change += 1;
        self.heard = self.change;
        (self.links, self.bonds) = (Vec::new(), Vec::new());
        (self.pending, self.held) = (Vec::new(), BTreeMap::new());
        self.by_identity.clear();
        for (number, record) in (0..).zip(&mut self.objects) {
            match records.remove(&number) {
                Some(now) => *record = now,
                None => record.identity = None,
            }
            if let Some(identity) = record.identity {
                self.by_identity.insert(identity, vec![number]);
            }
        }
        for (number, record) in records {
            debug_assert_eq!(number as usize, self.objects.len(), "new objects come in order");
            self.by_identity.extend(record.identity.map(|identity| (identity, vec![number])));
            self.objects.push(record);
        }
        self.relink();
    }

    /// A link for each name.
    fn relink(&mut self) {
        let alive: Vec<Object> = self.by_identity.values().flatten().copied().collect();
        for dir in alive {
            let names: Vec<(Name, Object)> = self.names(dir).collect();
            for (name, object) in names {
                self.links.push(Link { object, places: vec![(dir, name, 0)], ended: None });
            }
        }
        self.bonds = self.bonds_of_all();
    }
}

/// Takes back the version of a change; a value that has no other one is forgotten.
fn withdraw<K: Ord, T: Clone + PartialEq>(
    map: &mut BTreeMap<K, Versions<T>>,
    key: &K,
    change: Change,
) {
    if let Some(versions) = map.get_mut(key)
        && !versions.withdraw(change)
    {
        map.remove(key);
    }
}
