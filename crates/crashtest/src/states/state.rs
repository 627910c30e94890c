//! One outcome of a power cut, and its name.
//!
//! The name is what a report prints and a command takes: the event before which the power goes,
//! what becomes of unsettled writes in general, and the exceptions by request number:
//! `812:keep`, `812:lose,45=kept`, `812:keep,45=lost,47=0-3.6` (of request 47 only these sectors of
//! 512 bytes have reached the medium, counted from the first one that it touches).

use super::history::{Epoch, History, Kind, Write};
use seekless_calls::model::Rule;
pub use seekless_crash::Fate;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// Unit in which a write tears.
pub const SECTOR: u64 = 512;
/// Sectors of the longest write that is torn. Longer ones are kept or lost in whole.
const MOST_SECTORS: u64 = 1 << 17;

/// One outcome of a power cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The power went right before this event.
    pub cut: u64,
    /// What became of each unsettled write of the epoch, in its order.
    pub fates: Vec<Fate>,
}

/// The unit that the drive writes as a whole: where a longer write tears.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SectorSize {
    /// 512 bytes: all drives of the past, and those that say so.
    B512,
    /// 4096 bytes: drives of today, inside.
    #[default]
    B4096,
}

impl SectorSize {
    /// In bytes.
    pub fn bytes(self) -> u64 {
        match self {
            SectorSize::B512 => 512,
            SectorSize::B4096 => 4096,
        }
    }

    /// Sectors of this size that a write touches, if it can be torn.
    pub fn sectors(self, write: &Write) -> Option<usize> {
        if write.length == 0 || write.kind == Kind::Trim {
            return None;
        }
        let count = (write.end() - 1) / self.bytes() - write.offset / self.bytes() + 1;
        (2..=MOST_SECTORS).contains(&count).then_some(count as usize)
    }

    /// Turns marks of sectors of this size, counted from the first one that the write touches, into
    /// marks of sectors of 512 bytes.
    pub fn expand(self, write: &Write, marks: &[bool]) -> Vec<bool> {
        let first = write.offset / self.bytes();
        let sectors = write.offset / SECTOR..=(write.end() - 1) / SECTOR;
        sectors.map(|sector| marks[(sector * SECTOR / self.bytes() - first) as usize]).collect()
    }

    /// The reverse of [`SectorSize::expand`]; a sector survives as its first 512 bytes do.
    pub fn fold(self, write: &Write, marks: &[bool]) -> Vec<bool> {
        let mut out: Vec<bool> = Vec::new();
        let mut last = None;
        for (sector, &mark) in (write.offset / SECTOR..).zip(marks) {
            let unit = sector * SECTOR / self.bytes();
            if last.replace(unit) != Some(unit) {
                out.push(mark);
            }
        }
        out
    }
}

impl FromStr for SectorSize {
    type Err = String;

    fn from_str(text: &str) -> Result<SectorSize, String> {
        match text {
            "512" => Ok(SectorSize::B512),
            "4096" | "4k" | "4K" => Ok(SectorSize::B4096),
            _ => Err(format!("`{text}` is no sector size: known are 512 and 4096")),
        }
    }
}

/// The byte ranges of a write that have reached the medium, in order.
pub fn ranges(write: &Write, fate: &Fate) -> Vec<(u64, u64)> {
    match fate {
        Fate::Lost => Vec::new(),
        Fate::Kept if write.length == 0 => Vec::new(),
        Fate::Kept => vec![(write.offset, write.end())],
        Fate::Torn(marks) => {
            let first = write.offset / SECTOR;
            let mut out: Vec<(u64, u64)> = Vec::new();
            for (sector, _) in (first..).zip(marks).filter(|(_, mark)| **mark) {
                let from = (sector * SECTOR).max(write.offset);
                let to = ((sector + 1) * SECTOR).min(write.end());
                match out.last_mut() {
                    Some(last) if last.1 == from => last.1 = to,
                    _ => out.push((from, to)),
                }
            }
            out
        }
    }
}

/// The name of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The power goes right before this event.
    pub cut: u64,
    /// Unsettled writes are kept unless named.
    pub keep: bool,
    /// What becomes of those that are named.
    pub exceptions: BTreeMap<u64, Exception>,
}

/// What becomes of a write that is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exception {
    /// It is on the medium.
    Kept,
    /// It is not.
    Lost,
    /// Runs of sectors are: first and last of each.
    Torn(Vec<(u64, u64)>),
}

/// Why a name names no state of a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadState {
    /// It has another form.
    #[error(
        "`{0}` names no state; write EVENT:keep or EVENT:lose, then ,NUMBER=lost, ,NUMBER=kept or \
         ,NUMBER=SECTORS (as in 812:keep,45=lost,47=0-3.6)"
    )]
    Form(String),
    /// A hash of no state that is known.
    #[error(
        "no state {0} is known here; give the options with which it was found, or its whole name"
    )]
    Unknown(String),
    /// No epoch ends there.
    #[error("no flush boundary is at event {cut}; near it are {near}")]
    Cut {
        /// The event asked for.
        cut: u64,
        /// Where there are some.
        near: String,
    },
    /// A request that the cut cannot take.
    #[error(
        "request {number} is not an unsettled write at event {cut}; it is durable, comes later, \
         or is not a write"
    )]
    Write {
        /// The request.
        number: u64,
        /// The event.
        cut: u64,
    },
    /// A part of a call without another one that the model wants there.
    #[error(
        "write {number} is on the disk only if write {need} is: {model} does {rule}; name both, \
         or another model"
    )]
    Needs {
        /// The write that is kept.
        number: u64,
        /// The one that is lost.
        need: u64,
        /// Name of the model.
        model: &'static str,
        /// What it does.
        rule: Rule,
    },
    /// Sectors that a write does not have.
    #[error("request {number} touches {sectors} sectors; number them from 0")]
    Sectors {
        /// The request.
        number: u64,
        /// How many it has.
        sectors: u64,
    },
}

impl State {
    /// The name of this state, in the shorter of the two ways.
    ///
    /// # Panics
    /// If it belongs to another epoch.
    pub fn name(&self, history: &History, epoch: &Epoch) -> Name {
        assert_eq!(self.fates.len(), epoch.unsettled.len(), "a state of another epoch");
        let kept = self.fates.iter().filter(|fate| **fate == Fate::Kept).count();
        let lost = self.fates.iter().filter(|fate| **fate == Fate::Lost).count();
        let keep = kept >= lost;
        let usual = if keep { Fate::Kept } else { Fate::Lost };
        let named = epoch.unsettled.iter().zip(&self.fates).filter(|(_, fate)| **fate != usual);
        let exceptions = named
            .map(|(one, fate)| (history.writes()[one.write].number, Exception::from_fate(fate)));
        Name { cut: self.cut, keep, exceptions: exceptions.collect() }
    }
}

impl State {
    /// What the model of a recording of calls forbids in this state.
    fn unmet(&self, history: &History, epoch: &Epoch) -> Option<BadState> {
        let calls = history.calls()?;
        let fates = epoch.unsettled.iter().zip(&self.fates);
        let lost: BTreeSet<usize> =
            fates.clone().filter(|(_, fate)| !fate.is_whole()).map(|(one, _)| one.write).collect();
        fates.filter(|(_, fate)| !fate.is_nothing()).find_map(|(one, _)| {
            let mut needs = calls.needs(one.write).iter();
            let need = needs.find(|need| lost.contains(&(need.micro as usize)))?;
            let (number, model) = (one.write as u64, calls.model().name);
            Some(BadState::Needs { number, need: need.micro.into(), model, rule: need.rule })
        })
    }
}

impl Exception {
    fn from_fate(fate: &Fate) -> Exception {
        match fate {
            Fate::Kept => Exception::Kept,
            Fate::Lost => Exception::Lost,
            Fate::Torn(marks) => {
                let mut runs: Vec<(u64, u64)> = Vec::new();
                for (sector, _) in (0..).zip(marks).filter(|(_, mark)| **mark) {
                    match runs.last_mut() {
                        Some(last) if last.1 + 1 == sector => last.1 = sector,
                        _ => runs.push((sector, sector)),
                    }
                }
                Exception::Torn(runs)
            }
        }
    }
}

impl Name {
    /// The epoch and the state that are meant.
    ///
    /// # Errors
    /// If the recording has no such state.
    pub fn resolve(&self, history: &History) -> Result<(Epoch, State), BadState> {
        let cut = self.cut;
        let epoch = history.epoch_at(cut).ok_or_else(|| {
            let mut cuts: Vec<u64> = history.epochs().map(|epoch| epoch.cut).collect();
            cuts.sort_by_key(|at| at.abs_diff(cut));
            cuts.truncate(4);
            cuts.sort_unstable();
            let near: Vec<String> = cuts.iter().map(u64::to_string).collect();
            BadState::Cut { cut, near: near.join(", ") }
        })?;
        let usual = if self.keep { Fate::Kept } else { Fate::Lost };
        let mut fates = vec![usual; epoch.unsettled.len()];
        for (&number, exception) in &self.exceptions {
            let place = history.find(number).and_then(|index| {
                epoch.unsettled.iter().position(|one| one.write == index).map(|at| (at, index))
            });
            let (at, index) = place.ok_or(BadState::Write { number, cut })?;
            fates[at] = exception.fate(&history.writes()[index])?;
        }
        let state = State { cut, fates };
        match state.unmet(history, &epoch) {
            Some(bad) => Err(bad),
            None => Ok((epoch, state)),
        }
    }
}

impl Exception {
    fn fate(&self, write: &Write) -> Result<Fate, BadState> {
        let runs = match self {
            Exception::Kept => return Ok(Fate::Kept),
            Exception::Lost => return Ok(Fate::Lost),
            Exception::Torn(runs) => runs,
        };
        let number = write.number;
        let count =
            SectorSize::B512.sectors(write).ok_or(BadState::Sectors { number, sectors: 1 })?;
        let mut marks = vec![false; count];
        for &(first, last) in runs {
            let bad = BadState::Sectors { number, sectors: count as u64 };
            if first > last || last >= count as u64 {
                return Err(bad);
            }
            marks[first as usize..=last as usize].fill(true);
        }
        Ok(Fate::Torn(marks))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.cut, if self.keep { "keep" } else { "lose" })?;
        for (number, exception) in &self.exceptions {
            match exception {
                Exception::Kept => write!(f, ",{number}=kept")?,
                Exception::Lost => write!(f, ",{number}=lost")?,
                Exception::Torn(runs) => {
                    let run = |&(first, last): &(u64, u64)| match first == last {
                        true => first.to_string(),
                        false => format!("{first}-{last}"),
                    };
                    let runs: Vec<String> = runs.iter().map(run).collect();
                    write!(f, ",{number}={}", runs.join("."))?;
                }
            }
        }
        Ok(())
    }
}

impl FromStr for Name {
    type Err = BadState;

    fn from_str(text: &str) -> Result<Name, BadState> {
        parse(text).ok_or_else(|| BadState::Form(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Name> {
    let (cut, rest) = text.split_once(':')?;
    let mut parts = rest.split(',');
    let keep = match parts.next()? {
        "keep" => true,
        "lose" => false,
        _ => return None,
    };
    let mut exceptions = BTreeMap::new();
    for part in parts {
        let (number, fate) = part.split_once('=')?;
        let exception = match fate {
            "kept" => Exception::Kept,
            "lost" => Exception::Lost,
            runs => Exception::Torn(runs.split('.').map(run).collect::<Option<_>>()?),
        };
        if exceptions.insert(number.parse().ok()?, exception).is_some() {
            return None;
        }
    }
    Some(Name { cut: cut.parse().ok()?, keep, exceptions })
}

fn run(text: &str) -> Option<(u64, u64)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((first.parse().ok()?, last.parse().ok()?))
}
