//! Which operations of a case are kept, as a list that people and commands write.

use crate::script::{Operation, Request};
use std::fmt;
use std::str::FromStr;

/// Which operations of a case happen, with the most blocks each may have. Operations are numbered
/// from 0.
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
    pub(super) fn of<R: Request>(&self, script: &[Operation<R>]) -> Vec<(u32, Operation<R>)> {
        let known = self.operations.iter().filter(|(number, _)| (*number as usize) < script.len());
        known.map(|&(number, most)| (number, script[number as usize].limited(most))).collect()
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
            if !ascending || first > last || last - first > MOST_OPERATIONS || most == Some(0) {
                return Err(bad());
            }
            kept.extend((first..=last).map(|number| (number, most)));
        }
        Ok(Keep { operations: kept, watch })
    }
}

/// More operations than any case has.
const MOST_OPERATIONS: u32 = 100_000;

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
    use crate::block::request::BlockRequest;

    #[test]
    fn lists_of_operations_are_read_as_they_are_written() {
        for text in ["0", "3,7:1,9-12", "0-99", "1:2,2:3", "4-6:1,8", "1,5-7:2@6"] {
            assert_eq!(text.parse::<Keep>().expect("a list").to_string(), text);
        }
        for text in ["", "3,3", "5-4", "x", "1:", "1:0", "7,2", "0-4000000000", "1@", "@3", "1@2@3"]
        {
            assert!(text.parse::<Keep>().is_err(), "{text}");
        }
    }

    #[test]
    fn requests_are_cut_short_and_unknown_operations_ignored() {
        let trim = |count| Operation::Request(BlockRequest::Trim { at: 3, count, fua: false });
        let script = [Operation::Request(BlockRequest::Flush), trim(9)];
        let keep: Keep = "1:2,7".parse().expect("a list");
        assert_eq!(keep.of(&script), [(1, trim(2))]);
    }
}
