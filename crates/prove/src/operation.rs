//! What happens in a run, as data: requests of the client, the passing of time, faults, ends.
//! A violation shrinks by leaving some of it out.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// What a write carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Something never seen before: stamps with the number of the operation as version.
    Fresh,
    /// Zeros.
    Zeros,
    /// Copies of blocks of the device, metadata included, which must never be taken for what they
    /// are copies of. The number chooses which.
    Copies(u64),
}

/// Where a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Any block.
    Anywhere(u64),
    /// A block that holds something other than zeros and client data, or has a label.
    Metadata(u64),
    /// The first block: the superblock.
    First,
    /// The last one: its copy.
    Last,
    /// The block behind the superblock, where a clean shutdown leaves its record.
    Tail,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// After so many more writes of a device one fails.
    Write(u64),
    /// After so many more writes of a device it is full.
    Full(u64),
    /// After so many more flushes of a device one fails.
    Flush(u64),
    /// A block cannot be read.
    Unreadable(Place),
    /// A bit of a block is wrong; the number chooses which.
    Rot(Place, u64),
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The client writes.
    Write {
        /// First block.
        at: u64,
        /// Blocks.
        count: u32,
        /// What.
        content: Content,
        /// With forced unit access.
        fua: bool,
    },
    /// The client trims.
    Trim {
        /// First block.
        at: u64,
        /// Blocks.
        count: u32,
    },
    /// The client changes single blocks as one transaction: every `step`th from `at` on, modulo
    /// the size of the volume. Where there are no transactions, each on its own.
    Group {
        /// First block.
        at: u64,
        /// Blocks.
        count: u32,
        /// From one block to the next.
        step: u64,
        /// Every third one is trimmed; all others are written.
        trims: bool,
        /// Answered only when durable.
        fua: bool,
    },
    /// The client reads.
    Read {
        /// First block.
        at: u64,
        /// Blocks.
        count: u32,
    },
    /// The client flushes.
    Flush,
    /// So many device events pass.
    Pass(u32),
    /// A quarter of a second passes, then so many events of background work.
    Rest(u32),
    /// Something breaks.
    Break(Fault),
    /// What was to fail fails no more.
    Heal,
    /// The volume is stopped (`true`) or its power cut, and it is mounted again.
    End(bool),
}

/// Which operations of a case happen, with the most blocks each may have. Acts are numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    operations: Vec<(u32, Option<u32>)>,
    /// Crash states are tried from the operation with this number on.
    watch: u32,
}

impl Keep {
    /// These operations as they are.
    pub fn operations(numbers: impl IntoIterator<Item = u32>) -> Keep {
        Keep { operations: numbers.into_iter().map(|number| (number, None)).collect(), watch: 0 }
    }

    /// The same, but crash states are tried only while one of the last `most` operations is under
    /// way.
    pub(super) fn watching(&self, most: usize) -> Keep {
        let first = self.operations.len().saturating_sub(most);
        let watch = self.operations.get(first).map_or(0, |(number, _)| *number);
        Keep { watch, ..self.clone() }
    }

    /// Number of the operation from which on crash states are tried.
    pub(super) fn watch(&self) -> u32 {
        self.watch
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// True if none is kept.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The same without those at `range` of the list.
    pub(super) fn without(&self, range: std::ops::Range<usize>) -> Keep {
        let mut left = self.clone();
        left.operations.drain(range);
        left
    }

    /// The same with the operation at `index` of the list limited to so many blocks.
    pub(super) fn limited(&self, index: usize, most: u32) -> Keep {
        let mut limited = self.clone();
        limited.operations[index].1 = Some(most);
        limited
    }

    /// The numbers of the operations.
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.operations.iter().map(|(number, _)| *number).collect()
    }

    /// The operations that are kept of a script, with their numbers.
    pub(super) fn of(&self, script: &[Operation]) -> Vec<(u32, Operation)> {
        let known = self.operations.iter().filter(|(number, _)| (*number as usize) < script.len());
        known.map(|&(number, most)| (number, script[number as usize].limited(most))).collect()
    }
}

impl Operation {
    /// Blocks of a request, if it has some.
    pub fn blocks(&self) -> Option<u32> {
        match self {
            Operation::Write { count, .. }
            | Operation::Trim { count, .. }
            | Operation::Read { count, .. }
            | Operation::Group { count, .. } => Some(*count),
            _ => None,
        }
    }

    /// The blocks that a group changes in a volume of `blocks` blocks, in ascending order, and
    /// whether each is written (or trimmed).
    pub(super) fn members(self, blocks: u64) -> BTreeMap<u64, bool> {
        let Operation::Group { at, count, step, trims, .. } = self else { return BTreeMap::new() };
        let block = |index: u32| (at + u64::from(index) * step) % blocks;
        (0..count).map(|index| (block(index), !(trims && index % 3 == 2))).collect()
    }

    fn limited(mut self, most: Option<u32>) -> Operation {
        if let (
            Some(most),
            Operation::Write { count, .. }
            | Operation::Trim { count, .. }
            | Operation::Read { count, .. }
            | Operation::Group { count, .. },
        ) = (most, &mut self)
        {
            *count = most.clamp(1, *count);
        }
        self
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Operation::Write { at, count, content, fua } => {
                let what = match content {
                    Content::Fresh => "",
                    Content::Zeros => "zeros to ",
                    Content::Copies(_) => "copies of device blocks to ",
                };
                let forced = if fua { ", FUA" } else { "" };
                write!(f, "write {what}{at}+{count}{forced}")
            }
            Operation::Trim { at, count } => write!(f, "trim {at}+{count}"),
            Operation::Group { at, count, step, trims, fua } => {
                let trims = if trims { ", every third one trimmed" } else { "" };
                let forced = if fua { ", FUA" } else { "" };
                write!(
                    f,
                    "transaction of {count} blocks from {at} in steps of {step}{trims}{forced}"
                )
            }
            Operation::Read { at, count } => write!(f, "read {at}+{count}"),
            Operation::Flush => f.write_str("flush"),
            Operation::Pass(u32::MAX) => f.write_str("wait for all answers"),
            Operation::Pass(events) => write!(f, "wait for {events} device events"),
            Operation::Rest(_) => f.write_str("leave the volume alone for a while"),
            Operation::Break(Fault::Write(after)) => write!(f, "a write fails, after {after} more"),
            Operation::Break(Fault::Full(after)) => {
                write!(f, "the device is full after {after} writes")
            }
            Operation::Break(Fault::Flush(after)) => write!(f, "a flush fails, after {after} more"),
            Operation::Break(Fault::Unreadable(place)) => write!(f, "unreadable: {place}"),
            Operation::Break(Fault::Rot(place, _)) => write!(f, "rotten: {place}"),
            Operation::Heal => f.write_str("nothing is to fail any more"),
            Operation::End(true) => f.write_str("stop and mount again"),
            Operation::End(false) => f.write_str("cut the power and mount again"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Place::Anywhere(_) => "any block",
            Place::Metadata(_) => "a block of metadata",
            Place::First => "the superblock",
            Place::Last => "the last block",
            Place::Tail => "the tail record",
        })
    }
}

/// Not a list of operations.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a list of operations: numbers and ranges in ascending order are wanted, each \
     with a colon and the most blocks of a request if need be, and at the end an @ and the \
     operation from which on the power is cut, such as 3,7:1,9-12 or 3,7:1,9-12@9"
)]
pub struct NoKeep(String);

impl FromStr for Keep {
    type Err = NoKeep;

    fn from_str(text: &str) -> Result<Keep, NoKeep> {
        let mut kept: Vec<(u32, Option<u32>)> = Vec::new();
        let (text, watch) = match text.split_once('@') {
            Some((operations, watch)) => {
                (operations, watch.parse().map_err(|_| NoKeep(text.to_owned()))?)
            }
            None => (text, 0),
        };
        for part in text.split(',').map(str::trim) {
            let bad = || NoKeep(part.to_owned());
            let number = |word: &str| word.parse::<u32>().map_err(|_| bad());
            let (range, most) = match part.split_once(':') {
                Some((range, most)) => (range, Some(number(most)?)),
                None => (part, None),
            };
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (number(first)?, number(last)?);
            let ascending = kept.last().is_none_or(|&(before, _)| before < first);
            if !ascending || first > last || last - first > MOST_ACTS || most == Some(0) {
                return Err(bad());
            }
            kept.extend((first..=last).map(|number| (number, most)));
        }
        Ok(Keep { operations: kept, watch })
    }
}

/// More operations than any case has.
const MOST_ACTS: u32 = 100_000;

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut index = 0;
        while index < self.operations.len() {
            let (first, most) = self.operations[index];
            let follows = |(ahead, one): &(usize, &(u32, Option<u32>))| {
                one.0 == first + *ahead as u32 && one.1 == most
            };
            let run = self.operations[index..].iter().enumerate().take_while(follows).count();
            let comma = if index == 0 { "" } else { "," };
            match run {
                1 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{}", first + run as u32 - 1)?,
            }
            if let Some(most) = most {
                write!(f, ":{most}")?;
            }
            index += run;
        }
        match self.watch {
            0 => Ok(()),
            watch => write!(f, "@{watch}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_acts_are_read_as_they_are_written() {
        for text in ["0", "3,7:1,9-12", "0-99", "1:2,2:3", "4-6:1,8", "1,5-7:2@6"] {
            assert_eq!(text.parse::<Keep>().expect("a list").to_string(), text);
        }
        for text in ["", "3,3", "5-4", "x", "1:", "1:0", "7,2", "0-4000000000", "1@", "@3", "1@2@3"]
        {
            assert!(text.parse::<Keep>().is_err(), "{text}");
        }
    }

    #[test]
    fn requests_are_cut_short_and_unknown_acts_ignored() {
        let script = [Operation::Flush, Operation::Trim { at: 3, count: 9 }];
        let keep: Keep = "1:2,7".parse().expect("a list");
        assert_eq!(keep.of(&script), [(1, Operation::Trim { at: 3, count: 2 })]);
    }
}
