//! Names and paths as small values: requests are copied, and a story shows them as people write
//! them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A name, by number: a few words, then numbered names. Some of those are long, so that a chunk of
/// a directory holds few of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name(u16);

const WORDS: [&str; 5] = ["foo", "bar", "A", "B", "C"];
/// Every so many numbered names one is long.
const LONG_EVERY: u16 = 6;
const LONG: usize = 200;
/// Every so many long names one stays long in a format that refuses it.
const TOO_LONG_EVERY: u16 = 7;
/// The numbered names from here on have as many bytes as Minix takes.
const AT_LIMIT: u16 = 40_000;
const MOST_AT_LIMIT: u16 = 49_999;
/// Bytes of a name that Minix takes at most.
const LIMIT: usize = 60;

impl Name {
    /// A file.
    pub const FOO: Name = Name(0);
    /// Another file.
    pub const BAR: Name = Name(1);
    /// A directory.
    pub const A: Name = Name(2);
    /// Another directory.
    pub const B: Name = Name(3);
    /// A directory in a directory.
    pub const C: Name = Name(4);

    /// One of many names.
    pub fn numbered(number: u16) -> Name {
        Name(WORDS.len() as u16 + number)
    }

    /// One of the long ones: a chunk of a directory holds two of them.
    pub fn long(number: u16) -> Name {
        Name::numbered(number * LONG_EVERY)
    }

    /// The name that takes the place of one in a format that takes so many bytes: one of the
    /// longest where this one is too long. A few stay too long.
    #[must_use]
    pub fn within(self, most: usize) -> Name {
        let number = self.0.saturating_sub(WORDS.len() as u16);
        let stays = number.is_multiple_of(LONG_EVERY * TOO_LONG_EVERY);
        match self.text().len() > most && !stays {
            true => Name::numbered(AT_LIMIT + number),
            false => self,
        }
    }

    /// The name in a directory.
    pub fn text(self) -> String {
        if let Some(word) = WORDS.get(usize::from(self.0)) {
            return (*word).to_owned();
        }
        let number = self.0 - WORDS.len() as u16;
        match number % LONG_EVERY {
            _ if (AT_LIMIT..=MOST_AT_LIMIT).contains(&number) => {
                format!("{:_<LIMIT$}", format!("n{number}"))
            }
            0 => format!("{:_<LONG$}", format!("n{number}")),
            _ => format!("n{number}"),
        }
    }

    /// The bytes of the name.
    pub fn bytes(self) -> Bytes {
        self.text().into()
    }

    /// The name that has these bytes, if it is one of ours.
    pub fn parse(bytes: &[u8]) -> Option<Name> {
        let text = std::str::from_utf8(bytes).ok()?;
        if let Some(index) = WORDS.iter().position(|word| *word == text) {
            return Some(Name(index as u16));
        }
        let number = text.strip_prefix('n')?.trim_end_matches('_').parse::<u16>().ok()?;
        let name = Name::numbered(number.min(u16::MAX - WORDS.len() as u16));
        (name.text() == text).then_some(name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().trim_end_matches('_'))
    }
}

/// Names of a path at most.
pub const MOST_DEPTH: usize = 5;

/// A path from the root, or a file that a user holds open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PathAsData", into = "PathAsData")]
pub enum Path {
    /// Names from the root on, and how many there are.
    Names([Name; MOST_DEPTH], u8),
    /// The open file with this number.
    Held(u8),
}

impl Path {
    /// The root directory.
    pub const ROOT: Path = Path::Names([Name::FOO; MOST_DEPTH], 0);

    /// A path of so many names, at most [`MOST_DEPTH`].
    pub fn of(names: &[Name]) -> Path {
        let mut all = [Name::FOO; MOST_DEPTH];
        all[..names.len()].copy_from_slice(names);
        Path::Names(all, names.len() as u8)
    }

    /// The names; none for an open file.
    pub fn names(&self) -> &[Name] {
        match self {
            Path::Names(names, count) => &names[..usize::from(*count)],
            Path::Held(_) => &[],
        }
    }

    /// Bytes of the longest name.
    pub fn longest_name(&self) -> usize {
        self.names().iter().map(|name| name.text().len()).max().unwrap_or(0)
    }

    /// The names of the directory, and the last name; none for the root and open files.
    pub fn split(&self) -> Option<(&[Name], Name)> {
        self.names().split_last().map(|(last, above)| (above, *last))
    }

    /// A name below; the same path if it is as long as a path may be.
    pub fn join(self, name: Name) -> Path {
        let mut names = self.names().to_vec();
        names.push(name);
        if names.len() > MOST_DEPTH { self } else { Path::of(&names) }
    }
}

/// A path in a file: only its names.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum PathAsData {
    Names(Vec<Name>),
    Held(u8),
}

impl From<Path> for PathAsData {
    fn from(path: Path) -> PathAsData {
        match path {
            Path::Names(..) => PathAsData::Names(path.names().to_vec()),
            Path::Held(number) => PathAsData::Held(number),
        }
    }
}

impl TryFrom<PathAsData> for Path {
    type Error = String;

    fn try_from(data: PathAsData) -> Result<Path, String> {
        match data {
            PathAsData::Names(names) if names.len() > MOST_DEPTH => {
                Err(format!("a path has {} names; {MOST_DEPTH} are possible", names.len()))
            }
            PathAsData::Names(names) => Ok(Path::of(&names)),
            PathAsData::Held(number) => Ok(Path::Held(number)),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Path::Held(number) = self {
            return write!(f, "&{number}");
        }
        let names: Vec<String> = self.names().iter().map(Name::to_string).collect();
        if names.is_empty() { f.write_str("/") } else { f.write_str(&names.join("/")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_from_their_bytes() {
        for number in (0..200).chain([60_000]) {
            let name = Name(number);
            assert_eq!(Name::parse(&name.bytes()), Some(name), "{name}");
        }
        for foreign in ["lost+found", "n", "n07", "n6", "n1_", "#5", ""] {
            assert_eq!(Name::parse(foreign.as_bytes()), None, "{foreign}");
        }
        assert_eq!(Name::parse(&[0xff]), None);
        assert_eq!(Name::numbered(6).text().len(), LONG);
        let (long, short) = (Name::numbered(6), Name::numbered(7));
        assert_eq!((long.within(LONG), short.within(LIMIT)), (long, short));
        let within = long.within(LIMIT);
        assert_eq!((within.text().len(), Name::parse(&within.bytes())), (LIMIT, Some(within)));
        assert!(Name::numbered(0).within(LIMIT).text().len() > LIMIT);
    }

    #[test]
    fn paths_are_shown_as_people_write_them() {
        assert_eq!(Path::of(&[Name::A, Name::FOO]).to_string(), "A/foo");
        assert_eq!(Path::ROOT.to_string(), "/");
        assert_eq!(Path::Held(2).to_string(), "&2");
        assert_eq!(Path::ROOT.join(Name::B).split(), Some((&[][..], Name::B)));
    }
}
