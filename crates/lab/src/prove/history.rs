//! What the client did and heard, and which contents of the volume that allows after a crash.

use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::layout::Kind;
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
    trim: bool,
}

/// A version of a block: which change made it, and its content.
#[derive(Clone, Debug)]
struct Version {
    /// Index of the change; `None` is the content the world began with.
    change: Option<usize>,
    body: Body,
}

/// All versions of all blocks.
#[derive(Clone, Debug)]
pub struct History {
    now: Tick,
    changes: Vec<Change>,
    blocks: Vec<Vec<Version>>,
    /// Oldest version of each block that may be found after a crash.
    floors: Vec<usize>,
    /// Acknowledged writes are durable even without a flush.
    write_through: bool,
    atomic: bool,
}

impl History {
    /// A volume of zeros.
    pub fn new(kind: Kind, blocks: u64, write_through: bool) -> History {
        let content = vec![Body::Zeros; blocks as usize];
        History::restart(kind, &content, write_through)
    }

    /// A volume that has just been mounted with this content.
    pub fn restart(kind: Kind, content: &[Body], write_through: bool) -> History {
        let version = |body: &Body| vec![Version { change: None, body: body.clone() }];
        History {
            now: 0,
            changes: Vec::new(),
            blocks: content.iter().map(version).collect(),
            floors: vec![0; content.len()],
            write_through,
            atomic: kind == Kind::Vlog,
        }
    }

    /// The client sends a write or a trim; returns its number.
    pub fn submit(&mut self, at: u64, data: &Data, trim: bool) -> usize {
        self.now += 1;
        let number = self.changes.len();
        let count = data.blocks();
        let submitted = self.now;
        self.changes.push(Change { at, count, submitted, acknowledged: Tick::MAX, trim });
        for index in 0..count {
            let body = data.block(index).body;
            self.blocks[at as usize + index as usize].push(Version { change: Some(number), body });
        }
        number
    }

    /// The client hears that a change is done; with `durable`, that it was forced.
    pub fn acknowledge(&mut self, number: usize, durable: bool) {
        self.now += 1;
        self.changes[number].acknowledged = self.now;
        if durable || self.write_through {
            self.make_durable(number);
        }
    }

    /// The client sends a flush; returns what to hand to [`History::flushed`].
    pub fn flush(&mut self) -> Tick {
        self.now += 1;
        self.now
    }

    /// The client hears that a flush is done: what it had heard of before it sent it is durable.
    pub fn flushed(&mut self, sent: Tick) {
        self.now += 1;
        for number in 0..self.changes.len() {
            if self.changes[number].acknowledged < sent {
                self.make_durable(number);
            }
        }
    }

    fn make_durable(&mut self, number: usize) {
        let Change { at, count, .. } = self.changes[number];
        for block in at..at + u64::from(count) {
            let versions = &self.blocks[block as usize];
            let index = versions.iter().position(|version| version.change == Some(number));
            let index = index.expect("a change made a version of each of its blocks");
            let floor = &mut self.floors[block as usize];
            *floor = (*floor).max(index);
        }
    }

    /// What the volume must read as while it runs.
    pub fn newest(&self, block: u64) -> &Body {
        let versions = &self.blocks[block as usize];
        &versions[versions.len() - 1].body
    }

    /// Everything that is wrong with a content found after a crash, a sentence each.
    pub fn judge(&self, found: &[Piece]) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut seen = Vec::with_capacity(found.len());
        let mut block = 0;
        for piece in found {
            for index in 0..piece.blocks {
                let body =
                    if piece.blocks == 1 { piece.body.clone() } else { piece.slice(index, 1).body };
                let version = self.version(block, &body);
                if version.is_none() && !(self.may_tear(block) && self.is_mixture(block, &body)) {
                    wrong.push(self.complaint(block as u64, &body));
                }
                seen.push(version);
                block += 1;
            }
        }
        if self.atomic && wrong.is_empty() {
            self.judge_requests(&seen, &mut wrong);
            self.judge_order(&seen, &mut wrong);
        }
        wrong
    }

    /// The newest version of a block, not older than allowed, with that content.
    fn version(&self, block: usize, body: &Body) -> Option<usize> {
        let versions = &self.blocks[block];
        (self.floors[block]..versions.len()).rev().find(|&index| versions[index].body == *body)
    }

    fn may_tear(&self, block: usize) -> bool {
        !self.atomic && self.floors[block] + 1 < self.blocks[block].len()
    }

    /// True if each sector is that of some allowed version.
    fn is_mixture(&self, block: usize, body: &Body) -> bool {
        let bytes = |body: &Body| {
            let mut data = Data::none();
            data.push(Piece { blocks: 1, body: body.clone() });
            data.to_bytes()
        };
        let found = bytes(body);
        let allowed: Vec<_> =
            self.blocks[block][self.floors[block]..].iter().map(|v| bytes(&v.body)).collect();
        (0..BLOCK_BYTES).step_by(SECTOR_BYTES).all(|at| {
            let sector = at..at + SECTOR_BYTES;
            allowed.iter().any(|one| one[sector.clone()] == found[sector.clone()])
        })
    }

    /// No request may have taken hold of some of its blocks only.
    fn judge_requests(&self, seen: &[Option<usize>], wrong: &mut Vec<String>) {
        for (number, change) in self.changes.iter().enumerate().filter(|(_, c)| !c.trim) {
            let (mut new, mut old) = (None, None);
            for block in change.at..change.at + u64::from(change.count) {
                let versions = &self.blocks[block as usize];
                let Some(index) = seen[block as usize] else { continue };
                let own = versions.iter().position(|version| version.change == Some(number));
                match own {
                    Some(own) if own == index => new = Some(block),
                    Some(own) if index < own => old = Some(block),
                    _ => {}
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

    /// Whoever survived must not have outlived what was acknowledged before it was sent.
    fn judge_order(&self, seen: &[Option<usize>], wrong: &mut Vec<String>) {
        let mut latest: Option<usize> = None;
        for (block, index) in seen.iter().enumerate() {
            let Some(Version { change: Some(number), .. }) =
                index.map(|index| &self.blocks[block][index])
            else {
                continue;
            };
            // A trim looks like any other hole: it proves nothing.
            if self.changes[*number].trim {
                continue;
            }
            let newer =
                |&best: &usize| self.changes[best].submitted < self.changes[*number].submitted;
            if latest.as_ref().is_none_or(newer) {
                latest = Some(*number);
            }
        }
        let Some(latest) = latest else { return };
        let sent = self.changes[latest].submitted;
        for (number, change) in self.changes.iter().enumerate() {
            if change.acknowledged >= sent {
                continue;
            }
            for block in change.at..change.at + u64::from(change.count) {
                let own = self.blocks[block as usize].iter().position(|v| v.change == Some(number));
                if seen[block as usize] < own {
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
        let Change { at, count, submitted, acknowledged, trim } = self.changes[number];
        let what = if trim { "trim" } else { "write" };
        let heard = match acknowledged {
            Tick::MAX => "not acknowledged".to_owned(),
            tick => format!("acknowledged at {tick}"),
        };
        format!("{what} {number} of blocks {at}+{count} (sent at {submitted}, {heard})")
    }

    fn complaint(&self, block: u64, body: &Body) -> String {
        let versions = &self.blocks[block as usize];
        let floor = self.floors[block as usize];
        let by = |version: &Version| match version.change {
            None => "the content before".to_owned(),
            Some(number) => self.describe(number),
        };
        let what = match versions.iter().position(|version| version.body == *body) {
            Some(old) => format!("holds {}", by(&versions[old])),
            None => format!("holds {body:?}, which nobody wrote there"),
        };
        format!("block {block} {what}; durable is {}", by(&versions[floor]))
    }
}
