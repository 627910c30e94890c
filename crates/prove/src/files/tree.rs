//! What a file system holds, in a form that is quick to compare: the objects that names lead to.

use super::contract::damage::Damages;
use super::names::Name;
use super::tags::Cell;
use seekless_engine::checksum::mix;
use seekless_fs::call::FileKind;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::rc::Rc;

/// The objects that names lead to, by inode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// The objects; the root is among them.
    pub objects: BTreeMap<u32, Shared>,
    /// What a check of the image has found before any repair; nothing of a mounted one.
    pub damages: Damages,
}

/// An object that trees share which hold it.
#[derive(Clone)]
pub struct Shared(Rc<(u64, Found)>);

impl From<Found> for Shared {
    fn from(found: Found) -> Shared {
        let mut sum = Sum(1);
        found.hash(&mut sum);
        Shared(Rc::new((sum.finish(), found)))
    }
}

impl Deref for Shared {
    type Target = Found;

    fn deref(&self) -> &Found {
        &self.0.1
    }
}

impl PartialEq for Shared {
    fn eq(&self, other: &Shared) -> bool {
        Rc::ptr_eq(&self.0, &other.0) || self.0.1 == other.0.1
    }
}

impl Eq for Shared {}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.1.fmt(f)
    }
}

/// For tests: the print is that of the object before.
#[cfg(test)]
impl std::ops::DerefMut for Shared {
    fn deref_mut(&mut self) -> &mut Found {
        &mut Rc::make_mut(&mut self.0).1
    }
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Found {
    /// Tells it from others that had the same inode.
    pub generation: u32,
    /// Its kind.
    pub kind: FileKind,
    /// Its attributes.
    pub attrs: Attrs,
    /// Size in bytes; 0 for directories.
    pub size: u64,
    /// What it holds.
    pub body: Body,
}

/// Attributes that a client sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attrs {
    /// Permissions.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
}

/// What an object holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// Sectors that are not zeros, in order.
    File(Vec<(u32, Cell)>),
    /// Names, and how many there are that no client gave.
    Directory(BTreeMap<Name, u32>, u32),
    /// The number of the text of a symbolic link; none if the text is none of ours.
    Symlink(Option<u16>),
    /// Nothing.
    Special,
}

impl Found {
    /// True if another one is the same but for names that no client gave.
    fn is_like(&self, other: &Found) -> bool {
        match (&self.body, &other.body) {
            (Body::Directory(ours, _), Body::Directory(theirs, _)) => {
                let known = (self.generation, self.kind, self.attrs);
                ours == theirs && known == (other.generation, other.kind, other.attrs)
            }
            _ => self == other,
        }
    }
}

impl Tree {
    /// Tells trees apart, most of the time.
    pub fn print(&self) -> u64 {
        let mut sum = Sum(1);
        for (&ino, object) in &self.objects {
            sum.write_u32(ino);
            sum.write_u64(object.0.0);
        }
        self.damages.hash(&mut sum);
        sum.finish()
    }

    /// The first difference of two trees, in words.
    pub fn difference(&self, other: &Tree, (ours, theirs): (&str, &str)) -> Option<String> {
        for (ino, one) in &self.objects {
            match other.objects.get(ino) {
                Some(found) if found.is_like(one) => {}
                Some(found) => {
                    return Some(format!("inode {ino} is {one:?} {ours}, {found:?} {theirs}"));
                }
                None => return Some(format!("inode {ino} has a name {ours} and none {theirs}")),
            }
        }
        let more = other.objects.keys().find(|ino| !self.objects.contains_key(ino));
        more.map(|ino| format!("inode {ino} has a name {theirs} and none {ours}"))
    }
}

/// Bytes of a long text of a symbolic link: more than an inode holds.
const LONG_TEXT: usize = 200;

/// The text of a symbolic link by number; one in three is long.
pub fn text(number: u16) -> String {
    match number % 3 {
        0 => format!("{:.<LONG_TEXT$}", format!("text{number}")),
        _ => format!("text{number}"),
    }
}

/// The number of a text.
pub fn parse_text(bytes: &[u8]) -> Option<u16> {
    let word = std::str::from_utf8(bytes).ok()?;
    let number = word.strip_prefix("text")?.trim_end_matches('.').parse().ok()?;
    (text(number) == word).then_some(number)
}

/// A hash that is the same in every build: it decides which trees are compared.
struct Sum(u64);

impl Hasher for Sum {
    fn finish(&self) -> u64 {
        mix(self.0)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }
    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        for number in 0..50 {
            assert_eq!(parse_text(text(number).as_bytes()), Some(number));
        }
        assert!(text(3).len() > 60 && parse_text(b"text03").is_none());
    }

    #[test]
    fn trees_differ_in_print_and_in_words() {
        let found = |size| Found {
            generation: 1,
            kind: FileKind::File,
            attrs: Attrs { mode: 0o644, uid: 0 },
            size,
            body: Body::File(Vec::new()),
        };
        let tree = |size| Tree {
            objects: BTreeMap::from([(5, found(size).into())]),
            damages: Damages::NONE,
        };
        assert_ne!(tree(1).print(), tree(2).print());
        assert!(tree(1).difference(&tree(1), ("a", "b")).is_none());
        assert!(tree(1).difference(&tree(2), ("a", "b")).is_some());
        assert!(Tree::default().difference(&tree(2), ("a", "b")).is_some());
    }
}
