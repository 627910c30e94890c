//! What the client did and heard, and which contents of the volume that allows after a crash.

use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::layer::Limits;
use seekless_engine::layout::Promises;
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};

/// Counts what the client does, in order.
pub type Tick = u64;

/// A write or trim.
#[derive(Clone, Debug)]
struct Change {
    at: u64,
    count: u32,
    submitted: Tick,
    /// When the client heard that it was done; `Tick::MAX` until then.
    acknowledged: Tick,
    durable: bool,
    /// Its content can be told from that of all other changes.
    distinct: bool,
    /// Which version of each of its blocks it made.
    versions: Vec<usize>,
}

/// A version of a block: which change made it, and its content.
#[derive(Clone, Debug)]
struct Version {
    /// Index of the change; `None` is the content the world began with.
    change: Option<usize>,
    body: Body,
}

/// Bytes that are all zero and a hole are the same content.
fn canonical(body: Body) -> Body {
    match body {
        Body::Bytes(bytes) if bytes.iter().all(|&byte| byte == 0) => Body::Zeros,
        body => body,
    }
}

/// All versions of all blocks. Requests may overlap in flight: a version is *past* a change if it
/// was acknowledged before that change was sent, and what is past may not come back once the
/// change must hold.
#[derive(Clone, Debug)]
pub struct History {
    now: Tick,
    changes: Vec<Change>,
    blocks: Vec<Vec<Version>>,
    /// Acknowledged writes are durable even without a flush.
    write_through: bool,
    /// Requests take hold as a whole, and what survives is a prefix of what was sent.
    atomic: bool,
    ordered: bool,
    /// Requests of more blocks are exempt from both.
    whole_blocks: u32,
}

impl History {
    /// A volume of zeros.
    pub fn new(promises: Promises, blocks: u64, write_through: bool) -> History {
        let content = vec![Body::Zeros; blocks as usize];
        History::restart(promises, &content, write_through)
    }

    /// A volume that has just been mounted with this content.
    pub fn restart(promises: Promises, content: &[Body], write_through: bool) -> History {
        let version = |body: &Body| vec![Version { change: None, body: canonical(body.clone()) }];
        History {
            now: 0,
            changes: Vec::new(),
            blocks: content.iter().map(version).collect(),
            write_through,
            atomic: promises.atomic,
            ordered: promises.ordered,
            whole_blocks: u32::MAX,
        }
    }

    /// The volume promises less, because of how it was mounted.
    pub fn limit(&mut self, limits: Limits) {
        self.whole_blocks = limits.whole_blocks;
        self.write_through &= !limits.reports_early;
    }

    /// True if a change takes hold as a whole and in its turn, where that is promised at all.
    fn is_whole(&self, change: &Change) -> bool {
        change.count <= self.whole_blocks
    }

    /// True if a block may hold some sectors of one version and some of another.
    fn may_be_torn(&self, block: u64) -> bool {
        let changes = self.blocks[block as usize].iter().filter_map(|version| version.change);
        !self.atomic || changes.into_iter().any(|number| !self.is_whole(&self.changes[number]))
    }

    /// The client sends a write or a trim; returns its number. `distinct` says that no other
    /// change has the same content.
    pub fn submit(&mut self, at: u64, data: &Data, distinct: bool) -> usize {
        self.now += 1;
        let number = self.changes.len();
        let count = data.blocks();
        let mut indices = Vec::with_capacity(count as usize);
        for index in 0..count {
            let body = canonical(data.block(index).body);
            let versions = &mut self.blocks[at as usize + index as usize];
            indices.push(versions.len());
            versions.push(Version { change: Some(number), body });
        }
        self.changes.push(Change {
            at,
            count,
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
        for change in &mut self.changes {
            change.durable |= change.acknowledged < sent;
        }
    }

    /// True if a read sent at `sent` and answered now may find that content.
    pub fn may_read(&self, block: u64, body: &Body, sent: Tick) -> bool {
        let body = &canonical(body.clone());
        let versions = self.blocks[block as usize].iter();
        let mut same = versions.filter(|version| version.body == *body);
        same.any(|version| !self.is_past(block, version, |change| change.acknowledged < sent))
    }

    /// The content of a block after an orderly end; none of its changes is in flight.
    pub fn newest(&self, block: u64) -> &Body {
        let versions = &self.blocks[block as usize];
        &versions[versions.len() - 1].body
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

    /// Everything that is wrong with a content found after a crash, a sentence each. With a device
    /// `lost` at the same time, what was being written may be anything where the layout promises
    /// no more than its device does.
    pub fn judge(&self, found: &[Piece], lost: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut seen = Vec::with_capacity(self.blocks.len());
        let mut block = 0;
        for piece in found {
            for index in 0..piece.blocks {
                let body =
                    if piece.blocks == 1 { piece.body.clone() } else { piece.slice(index, 1).body };
                let body = canonical(body);
                let version = self.version(block, &body);
                let weak = || {
                    self.may_be_torn(block)
                        && (self.is_mixture(block, &body) || lost && self.is_unsettled(block))
                };
                if version.is_none() && !weak() {
                    wrong.push(self.complaint(block, &body));
                }
                seen.push(version);
                block += 1;
            }
        }
        if self.atomic && wrong.is_empty() {
            self.judge_requests(&seen, &mut wrong);
            if self.ordered {
                self.judge_order(&seen, &mut wrong);
            }
        }
        wrong
    }

    /// The version with that content which allows most: the one heard of last. `None` if all
    /// versions with it are past.
    fn version(&self, block: u64, body: &Body) -> Option<usize> {
        let versions = &self.blocks[block as usize];
        let same = (0..versions.len()).filter(|&index| versions[index].body == *body);
        let best = same.max_by_key(|&index| self.acknowledged(&versions[index]))?;
        let past = self.is_past(block, &versions[best], |change| change.durable);
        (!past).then_some(best)
    }

    /// True if some change of the block is not known to be durable.
    fn is_unsettled(&self, block: u64) -> bool {
        let changes = self.blocks[block as usize].iter().filter_map(|version| version.change);
        changes.into_iter().any(|number| !self.changes[number].durable)
    }

    /// True if each sector is that of some allowed version.
    fn is_mixture(&self, block: u64, body: &Body) -> bool {
        let bytes = |body: &Body| Piece::block(body.clone()).to_bytes();
        let found = bytes(body);
        let allowed: Vec<_> = self.blocks[block as usize]
            .iter()
            .filter(|version| !self.is_past(block, version, |change| change.durable))
            .map(|version| bytes(&version.body))
            .collect();
        (0..BLOCK_BYTES).step_by(SECTOR_BYTES).all(|at| {
            let sector = at..at + SECTOR_BYTES;
            allowed.iter().any(|one| one[sector.clone()] == found[sector.clone()])
        })
    }

    /// No request may have taken hold of some of its blocks only.
    fn judge_requests(&self, seen: &[Option<usize>], wrong: &mut Vec<String>) {
        let whole = |(_, change): &(usize, &Change)| change.distinct && self.is_whole(change);
        for (number, change) in self.changes.iter().enumerate().filter(whole) {
            let (mut new, mut old) = (None, None);
            for (block, &own) in (change.at..).zip(&change.versions) {
                let Some(index) = seen[block as usize] else { continue };
                if index == own {
                    new = Some(block);
                } else if self.is_before(block, index, change) {
                    old = Some(block);
                }
            }
            if let (Some(new), Some(old)) = (new, old) {
                wrong.push(format!(
                    "{} took hold of block {new} but not of block {old}",
                    self.describe(number)
                ));
            }
        }
    }

    /// True if a version was heard of before a change was sent.
    fn is_before(&self, block: u64, index: usize, change: &Change) -> bool {
        self.acknowledged(&self.blocks[block as usize][index]) < change.submitted
    }

    /// Whoever survived must not have outlived what was acknowledged before it was sent.
    fn judge_order(&self, seen: &[Option<usize>], wrong: &mut Vec<String>) {
        let survivors = seen.iter().zip(&self.blocks).filter_map(|(index, versions)| {
            let change = versions[(*index)?].change?;
            let one = &self.changes[change];
            (one.distinct && self.is_whole(one)).then_some(change)
        });
        // Changes are numbered in the order in which they are sent.
        let Some(latest) = survivors.max() else { return };
        let sent = self.changes[latest].submitted;
        let before = self.changes[..latest].iter().enumerate();
        let before =
            before.filter(|(_, change)| change.acknowledged < sent && self.is_whole(change));
        for (number, change) in before {
            for block in change.at..change.at + u64::from(change.count) {
                if seen[block as usize].is_some_and(|index| self.is_before(block, index, change)) {
                    wrong.push(format!(
                        "{} survived, but {}, acknowledged before it was sent, \
                         is lost in block {block}",
                        self.describe(latest),
                        self.describe(number)
                    ));
                    return;
                }
            }
        }
    }

    fn describe(&self, number: usize) -> String {
        let Change { at, count, submitted, acknowledged, durable, distinct, .. } =
            self.changes[number];
        let what = if distinct { "write" } else { "trim or repeated content" };
        let heard = match acknowledged {
            Tick::MAX => "not acknowledged".to_owned(),
            tick => format!("acknowledged at {tick}"),
        };
        let durable = if durable { ", durable" } else { "" };
        format!("{what} {number} of blocks {at}+{count} (sent at {submitted}, {heard}{durable})")
    }

    fn complaint(&self, block: u64, body: &Body) -> String {
        let versions = &self.blocks[block as usize];
        let by = |version: &Version| match version.change {
            None => format!("the content before {:?}", version.body),
            Some(number) => format!("{} {:?}", self.describe(number), version.body),
        };
        let found = match versions.iter().rposition(|version| version.body == *body) {
            Some(old) => format!("holds {}", by(&versions[old])),
            None => format!("holds {body:?}, which nobody wrote there"),
        };
        let allowed: Vec<String> = versions
            .iter()
            .filter(|version| !self.is_past(block, version, |change| change.durable))
            .map(by)
            .collect();
        format!("block {block} {found}; allowed: {}", allowed.join(", or "))
    }
}
