//! The client of a file system: what it sends and hears, and what it says of a recovered tree.

use super::contract::Rules;
use super::contract::operation::{Operation, Operations};
use super::contract::table::Covers;
use super::judge::{judge, known_objects};
use super::mounted;
use super::names::Path;
use super::request::FileRequest as R;
use super::tags::Cell;
use super::tree::{Body, Found, Tree};
use super::versions::{Change, Versions};
use super::volume::{Ask, FileReply, FileVolume};
use super::world::{Bond, Effect, Object, Record, World};
use crate::oracle::{Allowance, Excuse, Heard, Oracle, Send};
use crate::rules::{Complaint, Rule, complain};
use crate::script::Request as _;
use crate::violation::{Sort, Wrong};
use seekless_engine::rng::Rng;
use seekless_fs::call::Errno;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// What a call for durability will have made durable.
#[derive(Clone, Debug)]
struct Barrier {
    upto: Change,
    /// One object; none for everything.
    object: Option<Object>,
    covers: Covers,
    bonds: Vec<Bond>,
}

/// A change under way: whether it must succeed.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    operation: u32,
    request: R,
    succeeds: bool,
    /// It may be refused all the same.
    perhaps: bool,
    /// Bytes that a write writes if there is space: up to the largest size of a file.
    whole: u32,
}

/// A client and all it has done and heard.
#[derive(Debug)]
pub struct FileOracle {
    rules: Rules,
    /// The file system may run out of space.
    may_fill: bool,
    world: World,
    revision: u64,
    /// Operations of which earlier epochs have left something.
    left: Operations,
    /// The image says whether it was unmounted, and is looked at by itself.
    marks: bool,
    /// The file system was unmounted: it must hold exactly what it should, whatever the policy.
    stopped: bool,
    change: Option<Waiting>,
    barriers: BTreeMap<u32, (Waiting, Option<Barrier>)>,
    heard: Heard,
}

fn wrong(rule: Rule, sort: Sort, sentence: String) -> Option<Wrong> {
    rule.applies().then(|| rule.wrong(sort, sentence))
}

impl FileOracle {
    /// A client of an empty file system, of which the image says whether it was unmounted, or not.
    pub fn new(rules: Rules, world: World, may_fill: bool, marks: bool) -> FileOracle {
        FileOracle {
            rules,
            may_fill,
            marks,
            world,
            revision: 1,
            left: Operations::NONE,
            stopped: false,
            change: None,
            barriers: BTreeMap::new(),
            heard: Heard::default(),
        }
    }

    /// What a tree is held to now.
    fn held_to(&self) -> Rules {
        if self.stopped { Rules::Sync } else { self.rules }
    }

    /// What a barrier sent now is to make durable.
    fn barrier(&self, request: R) -> Option<Barrier> {
        let upto = self.world.heard;
        let covers = |operation| self.rules.contract().row(operation).covers;
        let bonds =
            |covers: Covers, bonds: Vec<Bond>| if covers.names { bonds } else { Vec::new() };
        let of = |path: &Path, covers: Covers| {
            let object = self.world.resolve(path)?;
            let names = match self.rules.contract().one_point {
                true => self.world.bonds_of_all(),
                false => self.world.bonds_of(object),
            };
            let bonds = bonds(covers, names);
            Some(Barrier { upto, object: Some(object), covers, bonds })
        };
        match request {
            R::Fsync(path) => of(&path, covers(Operation::Fsync)),
            R::Fdatasync(path) => of(&path, covers(Operation::Fdatasync)),
            _ => {
                let covers = covers(Operation::Fsync);
                let bonds = bonds(covers, self.world.bonds_of_all());
                Some(Barrier { upto, object: None, covers, bonds })
            }
        }
    }

    /// What is written: the object, the first sector, and the change as the version.
    fn stamp(&self, request: R) -> (u32, u32, u32) {
        let (path, at) = match request {
            R::Write(path, at, _) => (path, Some(at)),
            R::Append(path, _) => (path, None),
            _ => return (0, 0, 0),
        };
        let Some(object) = self.world.resolve(&path) else { return (0, 0, 0) };
        let end = self.world.record(object).size.last().div_ceil(512) as u32;
        (object, at.unwrap_or(end), self.world.change + 1)
    }

    fn hear_change(
        &mut self,
        waiting: Waiting,
        reply: &FileReply,
        excuse: Excuse,
    ) -> Option<Wrong> {
        match reply.result {
            Ok(told) if waiting.succeeds => {
                let short = match waiting.request {
                    R::Write(_, _, count) | R::Append(_, count) => told.written < count * 512,
                    _ => false,
                };
                let is_early = told.written < waiting.whole;
                if short && !self.shorten(told.written, excuse) && is_early {
                    let request = waiting.request;
                    let story = format!("{request}: only {} bytes were written", told.written);
                    return wrong(Rule::WrittenWhole, Sort::Refusal, story);
                }
                let effects = self.world.confirm();
                self.heard.acknowledged.push(waiting.operation);
                if let Some(wrong) = self.identify(&effects, told.attr) {
                    return Some(wrong);
                }
                let row = Operation::of(&waiting.request, &effects);
                if let Some(row) = row.filter(|&row| self.rules.contract().is_durable(row)) {
                    self.settle_effects(&effects, row);
                    // What changes nothing on the disk makes nothing durable; a name is a change.
                    let is_name = |effect: &Effect| matches!(effect, Effect::Entry(..));
                    if self.rules.contract().one_point && effects.iter().any(is_name) {
                        let (upto, bonds) = (self.world.heard, self.world.bonds_of_all());
                        self.settle_before(upto, bonds);
                    }
                }
                None
            }
            Ok(_) => {
                let request = waiting.request;
                let story = format!("{request} succeeds, and must be refused");
                wrong(Rule::Refused, Sort::Refusal, story)
            }
            Err(errno) => {
                if waiting.succeeds && excuse.refuses && self.rules.waits() {
                    // It may have been done before the volume failed.
                    self.world.confirm();
                    return None;
                }
                self.world.withdraw();
                let perhaps = waiting.perhaps && errno == Errno::Inval;
                if !waiting.succeeds || perhaps || self.is_excused(waiting.request, errno, excuse) {
                    return None;
                }
                let story = format!("{} fails: {errno}", waiting.request);
                wrong(Rule::CallAnswered, Sort::Refusal, story)
            }
        }
    }

    fn is_excused(&self, request: R, errno: Errno, excuse: Excuse) -> bool {
        excuse.refuses || self.may_fill && errno == Errno::NoSpc && request.takes_space()
    }

    /// A write came to an early end: only what was written counts. False if that must not be.
    fn shorten(&mut self, written: u32, excuse: Excuse) -> bool {
        let mut effects = self.world.pending.clone();
        let at = effects.iter().find_map(|effect| match *effect {
            Effect::Cell(_, sector, Cell::Tagged(tag, _)) if tag.version == self.world.change => {
                Some(sector)
            }
            _ => None,
        });
        let Some(first) = at else { return false };
        let end = u64::from(first) * 512 + u64::from(written);
        let grown = effects.iter().find_map(|effect| match *effect {
            Effect::Cell(object, ..) => Some(object),
            _ => None,
        });
        self.world.withdraw();
        let before = grown.map_or(0, |object| *self.world.record(object).size.last());
        effects.retain_mut(|effect| match effect {
            Effect::Cell(_, sector, cell) if *sector >= first => {
                let from = u64::from(*sector) * 512;
                let kept = end.saturating_sub(from).min(512) as u16;
                *cell = cell.cut(kept);
                kept > 0
            }
            Effect::Size(_, size) => {
                *size = (*size).min(end.max(before));
                true
            }
            _ => true,
        });
        self.world.send(effects);
        self.may_fill || excuse.refuses
    }

    /// What a reply says about the object that was made.
    fn identify(
        &mut self,
        effects: &[Effect],
        attr: Option<seekless_fs::call::Attr>,
    ) -> Option<Wrong> {
        let made = effects.iter().find_map(|effect| match effect {
            Effect::Made(object) => Some(*object),
            _ => None,
        })?;
        let Some(attr) = attr else {
            return wrong(
                Rule::FreshIdentity,
                Sort::Read,
                "an object was made, and the reply does not say it".to_owned(),
            );
        };
        let identity = (attr.ino as u32, attr.generation);
        if self.world.identify(made, identity) {
            return None;
        }
        let (ino, generation) = identity;
        wrong(
            Rule::FreshIdentity,
            Sort::Read,
            format!("a new object has inode {ino} with the generation {generation} of an old one"),
        )
    }

    /// The contract says that this operation is durable when it is acknowledged. What it has cut
    /// off may still be there: only its size is promised.
    fn settle_effects(&mut self, effects: &[Effect], operation: Operation) {
        let upto = self.world.heard;
        let mut bonds = Vec::new();
        for effect in effects {
            match *effect {
                Effect::Made(object) => {
                    self.world.record_mut(object).attrs.settle(upto);
                    self.world.record_mut(object).size.settle(upto);
                }
                Effect::Entry(dir, name, _) => {
                    if let Some(entry) = self.world.record_mut(dir).entries.get_mut(&name) {
                        entry.settle(upto);
                    }
                }
                Effect::Linked(object, dir, name) => {
                    let link = self.world.link_at(dir, name);
                    bonds.extend(link.map(|id| Bond { object, links: vec![id], upto }));
                }
                Effect::Size(object, _) => self.world.record_mut(object).size.settle(upto),
                Effect::Attrs(object, _) => self.world.record_mut(object).attrs.settle(upto),
                Effect::Cell(object, sector, _) if operation == Operation::Write => {
                    if let Some(cell) = self.world.record_mut(object).cells.get_mut(&sector) {
                        cell.settle(upto);
                    }
                }
                _ => {}
            }
        }
        self.world.bond(bonds);
    }

    /// What the policy brings with a durable change: all operations up to it.
    fn settle_before(&mut self, upto: Change, bonds: Vec<Bond>) {
        match self.rules.contract().content {
            true => self.world.settle_all(upto, bonds),
            false => self.world.settle_metadata(upto, bonds),
        }
    }

    fn hear_barrier(
        &mut self,
        (waiting, barrier): (Waiting, Option<Barrier>),
        reply: &FileReply,
        excuse: Excuse,
    ) -> Option<Wrong> {
        match (&reply.result, barrier) {
            (Ok(_), Some(Barrier { upto, object, covers, bonds })) => {
                if self.rules.contract().one_point {
                    self.settle_before(upto, Vec::new());
                }
                match object {
                    Some(object) => self.world.settle_object(object, covers, upto, bonds),
                    None if covers.content => self.world.settle_all(upto, bonds),
                    None => {}
                }
                self.heard.durable.push(waiting.operation);
                None
            }
            (Ok(_), None) => {
                let request = waiting.request;
                let story = format!("{request} succeeds, and must be refused");
                wrong(Rule::Refused, Sort::Refusal, story)
            }
            (Err(_), None) => None,
            (Err(errno), Some(_)) => match excuse.refuses {
                true => None,
                false => {
                    let story = format!("{} fails: {errno}", waiting.request);
                    wrong(Rule::CallAnswered, Sort::Refusal, story)
                }
            },
        }
    }
}

/// Sectors from the end of a file to that of its last block, of the largest blocks there are.
fn tail(size: u64) -> Range<u32> {
    (size / 512) as u32..(size.next_multiple_of(8192) / 512) as u32
}

/// What an epoch begins with: everything that was found is durable.
fn record_of(found: &Found, ino: u32, names: &BTreeMap<u32, Object>) -> Record {
    let mut record = Record::new(0, found.kind, found.attrs, found.size);
    record.identity = Some((ino, found.generation));
    record.attrs = Versions::durable(found.attrs);
    record.size = Versions::durable(found.size);
    match &found.body {
        Body::File(cells) => {
            record.tail = tail(found.size);
            record.cells =
                cells.iter().map(|&(sector, cell)| (sector, Versions::durable(cell))).collect();
        }
        Body::Directory(entries, _) => {
            let known = entries.iter().filter_map(|(name, ino)| Some((*name, *names.get(ino)?)));
            record.entries =
                known.map(|(name, object)| (name, Versions::durable(Some(object)))).collect();
        }
        Body::Symlink(number) => record.text = *number,
        Body::Special => {}
    }
    record
}

impl Oracle for FileOracle {
    type Request = R;
    type Volume = FileVolume;
    type Content = Rc<Tree>;

    fn mounted(&mut self, _volume: &FileVolume) {}

    fn is_ready(&self) -> bool {
        self.change.is_none()
    }

    fn send(&mut self, send: Send<'_, R>, volume: &mut FileVolume) {
        let Send { request, operation, now, .. } = send;
        self.revision += 1;
        let stamp = self.stamp(request);
        if request.is_sync() {
            let barrier = self.barrier(request);
            let succeeds = barrier.is_some();
            let waiting = Waiting { operation, request, succeeds, perhaps: false, whole: 0 };
            self.barriers.insert(operation, (waiting, barrier));
        } else {
            // No order of writes makes an exchange, so policies with an order refuse it.
            let has_no_order = matches!(request, R::Exchange(..))
                && self.rules.contract().refuses(Operation::Exchange);
            let limits = &volume.kind().limits;
            let left = limits.file_bytes.saturating_sub(u64::from(stamp.1) * 512);
            let whole = (u64::from(request.length().unwrap_or(0)) * 512).min(left) as u32;
            let is_behind = matches!(request, R::Append(..)) && left == 0;
            let refused = has_no_order || is_behind || request.exceeds(limits);
            let perhaps = self.world.may_be_refused(request);
            let planned = self.world.plan(request).ok().filter(|_| !refused);
            let succeeds = planned.is_some();
            let waiting = Waiting { operation, request, succeeds, perhaps, whole };
            self.world.send(planned.unwrap_or_default());
            self.change = Some(waiting);
        }
        volume.ask(now, Ask { operation, request, stamp });
    }

    fn hear(&mut self, reply: FileReply, volume: &FileVolume, excuse: Excuse) -> Option<Wrong> {
        use crate::volume::Volume as _;
        self.revision += 1;
        // After an error of the write path the file system refuses everything.
        let excuse = Excuse { refuses: excuse.refuses && volume.has_failed(), ..excuse };
        if let Some(barrier) = self.barriers.remove(&reply.operation) {
            return self.hear_barrier(barrier, &reply, excuse);
        }
        let waiting = self.change.take()?;
        self.hear_change(waiting, &reply, excuse)
    }

    fn waiting(&self) -> usize {
        self.barriers.len() + usize::from(self.change.is_some())
    }

    fn heard(&self) -> Heard {
        self.heard.clone()
    }

    fn revision(&self) -> u64 {
        self.revision
    }

    /// Everything is durable that the client has heard of.
    fn stopped(&mut self) {
        self.revision += 1;
        self.stopped = true;
        let (upto, bonds) = (self.world.heard, self.world.bonds_of_all());
        self.world.settle_all(upto, bonds);
    }

    fn restart(&mut self, content: &Rc<Tree>) {
        self.revision += 1;
        let mut names = known_objects(&self.world, content, self.held_to());
        // What is found and not known came from a repair, or lost its name to one.
        let mut next = self.world.objects.len() as Object;
        for ino in content.objects.keys() {
            names.entry(*ino).or_insert_with(|| {
                next += 1;
                next - 1
            });
        }
        let records = content.objects.iter().map(|(ino, found)| {
            let object = names[ino];
            (object, record_of(found, *ino, &names))
        });
        let records: BTreeMap<Object, Record> = records.collect();
        self.world.restart(records);
        // What was left is repaired, or stays; a clean end adds nothing to it.
        if self.rules.repairs() {
            self.left = Operations::NONE;
        } else if !self.stopped {
            self.left = Operations::ALL;
        }
        self.world.done = self.left;
        (self.change, self.heard) = (None, Heard::default());
        self.stopped = false;
        self.barriers.clear();
    }

    fn read(&mut self, volume: &mut FileVolume) -> Result<Rc<Tree>, String> {
        mounted::read(volume).map(Rc::new)
    }

    fn read_what_can_be(&mut self, volume: &mut FileVolume) -> Rc<Tree> {
        Rc::new(mounted::read(volume).unwrap_or_default())
    }

    fn print(content: &Rc<Tree>) -> u64 {
        content.print()
    }

    fn judge(&self, found: &Rc<Tree>, _allowance: Allowance) -> Vec<Complaint> {
        let mut wrong = judge(&self.world, found, self.held_to());
        if self.stopped && !self.marks {
            for damage in found.damages.iter() {
                complain(&mut wrong, Rule::MarkedClean, || {
                    let word = damage.word();
                    format!("it was unmounted, and a check of the image finds damage ({word})")
                });
            }
        }
        wrong
    }

    fn judges_ends(&self) -> bool {
        !self.marks
    }

    fn differs(&self, found: &Rc<Tree>, expected: &Rc<Tree>, _errors: bool) -> Option<String> {
        found.difference(expected, ("when mounted", "on the medium"))
    }

    fn exercise(&self, volume: &mut FileVolume, rng: &mut Rng) -> Vec<Complaint> {
        mounted::exercise(volume, rng)
    }
}
