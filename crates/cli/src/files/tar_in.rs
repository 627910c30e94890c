//! Reads a tar archive into the file system.
//!
//! Names are taken below the given directory: a leading slash is dropped, and a name with `..` is
//! refused. Directories on the way are made. Owners are the numbers in the archive.

use super::copy_in::{clear, link, target_file};
use super::list::device;
use super::path::join;
use super::{Files, Outcome, ToolError, error::shown};
use seekless_fs::call::{Attr, FileKind, New, SetAttr, Timestamp};
use seekless_fs::system::Runs;
use std::io::{self, Read};
use tar::{Archive, Entry, EntryType};

/// What an archive brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extracted {
    /// Objects.
    pub objects: u64,
    /// Names of entries of kinds that mean no file.
    pub left_out: Vec<String>,
}

/// An entry without its content.
struct Item {
    kind: EntryType,
    target: Option<Vec<u8>>,
    set: SetAttr,
    device: u32,
}

impl<R: Runs> Files<R> {
    /// Extracts an archive below a directory.
    ///
    /// # Errors
    /// If the archive is damaged, or the file system refuses.
    pub fn extract(&mut self, archive: impl Read, to: &[u8]) -> Outcome<Extracted> {
        let mut archive = Archive::new(archive);
        let (mut done, mut directories) = (Extracted::default(), Vec::new());
        for entry in archive.entries().map_err(ToolError::Archive)? {
            let mut entry = entry.map_err(ToolError::Archive)?;
            let path = below(to, &entry.path_bytes())?;
            let item = item(&mut entry).map_err(ToolError::Archive)?;
            let mark = self.mark();
            match self.extract_one(&path, &item, &mut entry, to)? {
                false => done.left_out.push(shown(&entry.path_bytes())),
                true => done.objects += 1,
            }
            self.forget_to(mark);
            if item.kind == EntryType::Directory {
                directories.push((path, item.set));
            }
        }
        // What was made in a directory has moved its times.
        for (path, set) in directories {
            let mark = self.mark();
            let attr = self.resolve(&path, true)?;
            self.set(&path, attr.ino, set)?;
            self.forget_to(mark);
        }
        Ok(done)
    }

    /// False if the entry is of a kind that means no file.
    fn extract_one(
        &mut self,
        path: &[u8],
        item: &Item,
        content: &mut impl Read,
        to: &[u8],
    ) -> Outcome<bool> {
        let what = match item.kind {
            EntryType::Directory => {
                self.extract_directory(path)?;
                return Ok(true);
            }
            EntryType::Link => {
                let place = self.make_place(path)?;
                let first = below(to, item.target.as_deref().unwrap_or_default())?;
                link(self, place, path, &first)?;
                return Ok(true);
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => New::File,
            EntryType::Symlink => New::Symlink(item.target.clone().unwrap_or_default().into()),
            EntryType::Fifo => New::Fifo,
            EntryType::Char => New::CharDevice(item.device),
            EntryType::Block => New::BlockDevice(item.device),
            _ => return Ok(false),
        };
        let place = self.make_place(path)?;
        let old = self.lookup(path, place.0, place.1)?;
        let mut set = item.set;
        let made = if what == New::File {
            let file = target_file(self, path, place, old)?;
            self.fill(path, &file, content, ToolError::Archive)?;
            file
        } else {
            clear(self, path, place, old)?;
            if what.kind() == FileKind::Symlink {
                set.mode = None;
            }
            self.make(path, place, what)?
        };
        self.set(path, made.ino, set)?;
        Ok(true)
    }

    fn extract_directory(&mut self, path: &[u8]) -> Outcome<Attr> {
        match self.try_resolve(path, true) {
            Ok(Some(attr)) if attr.kind == FileKind::Directory => return Ok(attr),
            Ok(Some(_)) => return Err(ToolError::Kinds(format!(":{}", shown(path)))),
            Ok(None) | Err(_) => {}
        }
        let place = self.make_place(path)?;
        self.directory(path, place)
    }
}

/// The path of an entry below a directory.
fn below(to: &[u8], name: &[u8]) -> Outcome<Vec<u8>> {
    let mut path = to.to_vec();
    for part in name.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err(ToolError::NoName(shown(name))),
            part => path = join(&path, part),
        }
    }
    Ok(path)
}

fn item(entry: &mut Entry<'_, impl Read>) -> io::Result<Item> {
    let target = entry.link_name_bytes().map(|name| name.into_owned());
    let exact = exact_time(entry)?;
    let header = entry.header();
    let seconds = i64::try_from(header.mtime()?).unwrap_or(i64::MAX);
    let id = |id: u64| u32::try_from(id).map_err(|_| io::Error::other("an owner is no number"));
    let set = SetAttr {
        mode: Some((header.mode()? & 0o7777) as u16),
        uid: Some(id(header.uid()?)?),
        gid: Some(id(header.gid()?)?),
        mtime: Some(exact.unwrap_or(seconds.saturating_mul(1_000_000_000))),
        ..SetAttr::default()
    };
    // Other headers may leave these fields empty.
    let device = match header.entry_type() {
        EntryType::Char | EntryType::Block => {
            let (major, minor) = (header.device_major()?, header.device_minor()?);
            device(major.unwrap_or(0), minor.unwrap_or(0))
        }
        _ => 0,
    };
    Ok(Item { kind: header.entry_type(), target, set, device })
}

/// The time in a record of its own, if there is one.
fn exact_time(entry: &mut Entry<'_, impl Read>) -> io::Result<Option<Timestamp>> {
    let Some(records) = entry.pax_extensions()? else { return Ok(None) };
    let mut found = None;
    for record in records {
        let record = record?;
        if record.key_bytes() == b"mtime" {
            found = record.value().ok().and_then(nanoseconds);
        }
    }
    Ok(found)
}

/// Nanoseconds of a decimal number of seconds; what is finer is cut off.
fn nanoseconds(text: &str) -> Option<Timestamp> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (seconds, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = decimals.chars().chain("000000000".chars()).take(9).collect();
    let (seconds, nanos) = (seconds.parse::<i64>().ok()?, digits.parse::<i64>().ok()?);
    let time = seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    Some(if negative { -time } else { time })
}

#[cfg(test)]
mod tests {
    use super::super::tar_out::decimal;
    use super::*;

    #[test]
    fn times_survive_as_text() {
        for time in [0, 1, -1, 1_500_000_000_123_456_789, -86_400_000_000_001] {
            assert_eq!(nanoseconds(&decimal(time)), Some(time));
        }
        assert_eq!(nanoseconds("12"), Some(12_000_000_000));
        assert_eq!(nanoseconds("1.5"), Some(1_500_000_000));
        assert_eq!(nanoseconds("x"), None);
    }

    #[test]
    fn names_stay_below_the_directory() {
        assert_eq!(below(b"/a", b"./b//c").expect("a path"), b"/a/b/c");
        assert_eq!(below(b"/", b"/etc").expect("a path"), b"/etc");
        assert!(below(b"/a", b"b/../../c").is_err());
    }
}
