//! What the client did and heard, and which contents of the volume that allows after a crash.

use super::content_names::{Name, Names, UNREADABLE, ZEROS};
use crate::oracle::{Allowance, Heard};
use crate::rules::{Complaint, Rule, complain};
use seekless_engine::layer::Limits;
use seekless_engine::layout::Promises;

/// Time as the client sees it: one more for each thing that it does or hears.
pub type Tick = u64;

/// A write or trim.
#[derive(Clone, Debug)]
struct Change {
    /// Number of the operation.
    operation: u32,
    /// Its blocks, in ascending order.
    blocks: Vec<u64>,
    submitted: Tick,
    /// When the client heard that it was done; `Tick::MAX` until then.
    acknowledged: Tick,
    durable: bool,
    /// Its content, zeros left out, can be told from that of all other changes.
    distinct: bool,
    /// Which version of each of its blocks it made.
    versions: Vec<usize>,
}

/// A version of a block: which change made it, and its content.
#[derive(Clone, Debug)]
struct Version {
    /// Index of the change; `None` is the content the epoch began with.
    change: Option<usize>,
    name: Name,
}

/// All versions of all blocks. Requests may overlap in flight: a version is *past* a change if it
/// was acknowledged before that change was sent, and what is past may not come back once the
/// change must hold.
#[derive(Clone, Debug)]
pub struct History {
    now: Tick,
    /// Changes whenever the verdict on a content may.
    revision: u64,
    changes: Vec<Change>,
    blocks: Vec<Vec<Version>>,
    /// What each block held in earlier epochs.
    ancient: Vec<Vec<Name>>,
    /// Acknowledged writes are durable even without a flush.
    write_through: bool,
    /// The devices keep what they have completed.
    keeps: bool,
    /// Requests take hold as a whole, and what survives is a prefix of what was sent.
    atomic: bool,
    ordered: bool,
    /// Requests of more blocks are exempt from both.
    whole_blocks: u32,
}

impl History {
    /// A volume of zeros.
    pub fn new(promises: Promises, blocks: u64, write_through: bool) -> History {
        let first = vec![Version { change: None, name: ZEROS }];
        History {
            now: 0,
            revision: 1,
            changes: Vec::new(),
            blocks: vec![first; blocks as usize],
            ancient: vec![Vec::new(); blocks as usize],
            write_through: write_through && promises.immediate,
            keeps: write_through && promises.immediate,
            atomic: promises.atomic,
            ordered: promises.ordered,
            whole_blocks: u32::MAX,
        }
    }

    /// The same volume, mounted with this content.
    pub fn restart(&mut self, content: &[Name]) {
        self.write_through = self.keeps;
        self.whole_blocks = u32::MAX;
        self.now = 0;
        self.revision += 1;
        self.changes.clear();
        for ((versions, ancient), &name) in
            self.blocks.iter_mut().zip(&mut self.ancient).zip(content)
        {
            ancient.extend(versions.iter().map(|version| version.name));
            ancient.sort_unstable();
            ancient.dedup();
            *versions = vec![Version { change: None, name }];
        }
    }

    /// The volume promises less, because of how it was mounted.
    pub fn limit(&mut self, limits: Limits) {
        self.whole_blocks = limits.whole_blocks;
        self.write_through = self.keeps && !limits.reports_early;
    }

    /// True if a change takes hold as a whole and in its turn, where that is promised at all.
    fn is_whole(&self, change: &Change) -> bool {
        change.blocks.len() as u64 <= u64::from(self.whole_blocks)
    }

    /// True if a block may hold some sectors of one version and some of another.
    fn may_be_torn(&self, block: u64) -> bool {
        let mut changes = self.blocks[block as usize].iter().filter_map(|version| version.change);
        !self.atomic || changes.any(|number| !self.is_whole(&self.changes[number]))
    }

    /// The client sends a write or a trim; returns its number. `distinct` says that no other
    /// change has the same content.
    pub fn submit(&mut self, operation: u32, at: u64, names: &[Name], distinct: bool) -> usize {
        self.submit_all(operation, (at..).zip(names.iter().copied()), distinct)
    }

    /// The same for changes of blocks anywhere, in ascending order, that are one transaction.
    pub fn submit_all(
        &mut self,
        operation: u32,
        names: impl IntoIterator<Item = (u64, Name)>,
        distinct: bool,
    ) -> usize {
        self.now += 1;
        self.revision += 1;
        let number = self.changes.len();
        let (mut blocks, mut indices) = (Vec::new(), Vec::new());
        for (block, name) in names {
            let versions = &mut self.blocks[block as usize];
            blocks.push(block);
            indices.push(versions.len());
            versions.push(Version { change: Some(number), name });
        }
        self.changes.push(Change {
            operation,
            blocks,
            submitted: self.now,
            acknowledged: Tick::MAX,
            durable: false,
            distinct,
            versions: indices,
        });
        number
    }

    /// The client hears that a change is done; with `forced`, that it is durable.
    pub fn acknowledge(&mut self, number: usize, forced: bool) {
        self.now += 1;
        self.revision += 1;
        let change = &mut self.changes[number];
        change.acknowledged = self.now;
        change.durable |= forced || self.write_through;
    }

    /// The client sends a flush or a read; returns when that was.
    pub fn mark(&mut self) -> Tick {
        self.now += 1;
        self.now
    }

    /// The client hears that a flush is done: what it had heard of before it sent it is durable.
    pub fn flushed(&mut self, sent: Tick) {
        self.now += 1;
        self.revision += 1;
        for change in &mut self.changes {
            change.durable |= change.acknowledged < sent;
        }
    }

    /// Changes whenever the verdict on a content may.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Numbers of the operations whose changes are durable, and of those acknowledged only.
    pub fn heard(&self) -> Heard {
        let heard = self.changes.iter().filter(|change| change.acknowledged < Tick::MAX);
        let (durable, rest): (Vec<&Change>, Vec<&Change>) = heard.partition(|one| one.durable);
        let operations =
            |changes: Vec<&Change>| changes.iter().map(|change| change.operation).collect();
        Heard { durable: operations(durable), acknowledged: operations(rest) }
    }

    /// True if a read sent at `sent` and answered now may find that content.
    pub fn may_read(&self, block: u64, name: Name, sent: Tick) -> bool {
        let versions = self.blocks[block as usize].iter();
        let mut same = versions.filter(|version| version.name == name);
        same.any(|version| !self.is_past(block, version, |change| change.acknowledged < sent))
    }

    /// True if a block ever held that, or was to.
    pub fn knows(&self, block: u64, name: Name) -> bool {
        self.blocks[block as usize].iter().any(|version| version.name == name)
            || self.ancient[block as usize].binary_search(&name).is_ok()
    }

    fn acknowledged(&self, version: &Version) -> Tick {
        version.change.map_or(0, |number| self.changes[number].acknowledged)
    }

    /// True if a version is past some change of its block that must hold.
    fn is_past(&self, block: u64, version: &Version, must: impl Fn(&Change) -> bool) -> bool {
        let heard = self.acknowledged(version);
        self.blocks[block as usize].iter().filter_map(|other| other.change).any(|number| {
            let change = &self.changes[number];
            heard < change.submitted && must(change)
        })
    }

    /// Everything that is wrong with a content found after a crash, a sentence each.
    pub fn judge(&self, found: &[Name], names: &Names, allowance: Allowance) -> Vec<Complaint> {
        let mut wrong = Vec::new();
        let mut seen = Vec::with_capacity(self.blocks.len());
        for (block, &name) in (0..).zip(found) {
            let version = self.version(block, name);
            if version.is_none() && !self.excused(block, name, names, allowance) {
                complain(&mut wrong, Rule::BlockVersion, || self.complaint(block, name, names));
            }
            seen.push(version);
        }
        if self.atomic && !allowance.is_damaged() && wrong.is_empty() {
            self.judge_requests(&seen, &mut wrong);
            if self.ordered {
                self.judge_order(&seen, &mut wrong);
            }
        }
        wrong
    }

    /// True if a block may hold what is no allowed version of it.
    fn excused(&self, block: u64, name: Name, names: &Names, allowance: Allowance) -> bool {
        let lost = allowance.is_lost() && self.may_be_torn(block) && self.is_unsettled(block);
        let damaged = allowance.is_damaged() && (name == UNREADABLE || self.knows(block, name));
        lost || damaged || self.may_be_mixed(block, name, names)
    }

    /// The version with that content which allows most: the one heard of last. `None` if all
    /// versions with it are past.
    fn version(&self, block: u64, name: Name) -> Option<usize> {
        let versions = &self.blocks[block as usize];
        if let [only] = versions.as_slice() {
            return (only.name == name).then_some(0);
        }
        let same = (0..versions.len()).filter(|&index| versions[index].name == name);
        let best = same.max_by_key(|&index| self.acknowledged(&versions[index]))?;
        let past = self.is_past(block, &versions[best], |change| change.durable);
        (!past).then_some(best)
    }

    /// True if some change of the block is not known to be durable.
    fn is_unsettled(&self, block: u64) -> bool {
        let mut changes = self.blocks[block as usize].iter().filter_map(|version| version.change);
        changes.any(|number| !self.changes[number].durable)
    }

    /// The versions of a block that are not past what must hold.
    fn allowed(&self, block: u64) -> impl Iterator<Item = &Version> {
        let versions = self.blocks[block as usize].iter();
        versions.filter(move |version| !self.is_past(block, version, |change| change.durable))
    }

    /// True if each sector is that of some allowed version.
    fn is_mixture(&self, block: u64, name: Name, names: &Names) -> bool {
        let allowed: Vec<_> =
            self.allowed(block).map(|version| names.sectors(version.name)).collect();
        let mut found = names.sectors(name).into_iter().enumerate();
        found.all(|(at, sector)| allowed.iter().any(|one| one[at] == sector))
    }

    /// True if a read may find a mixture of versions there: a write to it has failed.
    pub fn may_be_mixed(&self, block: u64, name: Name, names: &Names) -> bool {
        self.may_be_torn(block) && self.is_mixture(block, name, names)
    }

    /// No request may have taken hold of some of its blocks only.
    fn judge_requests(&self, seen: &[Option<usize>], wrong: &mut Vec<Complaint>) {
        let whole = |change: &&Change| change.distinct && self.is_whole(change);
        for change in self.changes.iter().filter(whole) {
            let (mut new, mut old) = (None, None);
            for (&block, &own) in change.blocks.iter().zip(&change.versions) {
                let versions = &self.blocks[block as usize];
                let Some(index) = seen[block as usize] else { continue };
                // Zeros may be those of any change.
                if index == own && versions[own].name != ZEROS {
                    new = Some(block);
                } else if index != own && self.is_before(block, index, change) {
                    old = Some(block);
                }
            }
            if let (Some(new), Some(old)) = (new, old) {
                complain(wrong, Rule::WholeRequest, || {
                    format!("{} took hold of block {new} but not of block {old}", describe(change))
                });
            }
        }
    }

    /// True if a version was heard of before a change was sent.
    fn is_before(&self, block: u64, index: usize, change: &Change) -> bool {
        self.acknowledged(&self.blocks[block as usize][index]) < change.submitted
    }

    /// No change survives one that was acknowledged before it was sent.
    fn judge_order(&self, seen: &[Option<usize>], wrong: &mut Vec<Complaint>) {
        let survivors = seen.iter().zip(&self.blocks).filter_map(|(index, versions)| {
            let version = &versions[(*index)?];
            let change = version.change?;
            let one = &self.changes[change];
            // Zeros may be those of any change.
            (one.distinct && version.name != ZEROS && self.is_whole(one)).then_some(change)
        });
        // Changes are numbered in the order in which they are sent.
        let Some(latest) = survivors.max() else { return };
        let sent = self.changes[latest].submitted;
        let before = |change: &&Change| change.acknowledged < sent && self.is_whole(change);
        for change in self.changes[..latest].iter().filter(before) {
            for &block in &change.blocks {
                if seen[block as usize].is_some_and(|index| self.is_before(block, index, change)) {
                    return complain(wrong, Rule::RequestOrder, || {
                        let [survived, lost] = [&self.changes[latest], change].map(describe);
                        format!(
                            "{survived} survived, but {lost}, acknowledged before it was sent, \
                             is lost in block {block}"
                        )
                    });
                }
            }
        }
    }

    fn complaint(&self, block: u64, name: Name, names: &Names) -> String {
        let by = |version: &Version| match version.change {
            None => format!("what was there at the mount ({})", names.text(version.name)),
            Some(number) => describe(&self.changes[number]),
        };
        let versions = &self.blocks[block as usize];
        let found = match versions.iter().rposition(|version| version.name == name) {
            Some(old) => format!("holds {}", by(&versions[old])),
            None => format!("holds {}, which was never written there", names.text(name)),
        };
        let allowed: Vec<String> = self.allowed(block).map(by).collect();
        format!("block {block} {found}; allowed: {}", allowed.join(", or "))
    }
}

fn describe(change: &Change) -> String {
    let Change { operation, acknowledged, durable, ref blocks, .. } = *change;
    let state = match acknowledged {
        _ if durable => "acknowledged and durable",
        Tick::MAX => "not acknowledged",
        _ => "acknowledged",
    };
    let (at, count) = (blocks.first().map_or(0, |&at| at), blocks.len());
    let scattered = blocks.last().is_some_and(|&last| last + 1 > at + count as u64);
    match scattered {
        true => format!("#{operation} ({count} blocks from {at} on, {state})"),
        false => format!("#{operation} (blocks {at}+{count}, {state})"),
    }
}
