//! Lists directories.

use super::path::join;
use super::{Entry, Files, Outcome, error::shown};
use seekless_fs::call::{Attr, FileKind, Ino, Timestamp};
use seekless_fs::system::Runs;
use serde_json::{Value, json};
use std::io::Write;

/// How a list is printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListStyle {
    /// With attributes.
    pub long: bool,
    /// With everything below.
    pub recursive: bool,
}

/// An object that a list names.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its path.
    pub path: Vec<u8>,
    /// Its attributes.
    pub attr: Attr,
    /// Where it leads, for a symbolic link.
    pub target: Option<Vec<u8>>,
}

impl<R: Runs> Files<R> {
    /// Entries of a directory, ordered by name. Their lookups are forgotten: numbers only serve to
    /// tell them apart.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn entries(&mut self, path: &[u8], dir: Ino) -> Outcome<Vec<Entry>> {
        let mut entries = Vec::new();
        for name in self.names(path, dir)? {
            let mark = self.mark();
            if let Some(attr) = self.lookup(&join(path, &name), dir, &name)? {
                entries.push(Entry { name, attr });
            }
            self.forget_to(mark);
        }
        Ok(entries)
    }

    /// What a path names: a file itself, or what is in a directory.
    ///
    /// # Errors
    /// If there is no such path.
    pub fn list(&mut self, path: &[u8], recursive: bool) -> Outcome<Vec<Listed>> {
        let attr = self.resolve(path, true)?;
        if attr.kind != FileKind::Directory {
            return Ok(vec![Listed { path: path.to_vec(), attr, target: None }]);
        }
        let (mut found, mut stack) = (Vec::new(), vec![path.to_vec()]);
        while let Some(path) = stack.pop() {
            let mark = self.mark();
            let dir = self.resolve(&path, true)?;
            let mut below = Vec::new();
            for Entry { name, attr } in self.entries(&path, dir.ino)? {
                let path = join(&path, &name);
                if recursive && attr.kind == FileKind::Directory {
                    below.push(path.clone());
                }
                let mark = self.mark();
                let target = match attr.kind {
                    FileKind::Symlink => {
                        self.lookup(&path, dir.ino, &name)?;
                        Some(self.read_link(&path, attr.ino)?)
                    }
                    _ => None,
                };
                self.forget_to(mark);
                found.push(Listed { path, attr, target });
            }
            self.forget_to(mark);
            stack.extend(below.into_iter().rev());
        }
        Ok(found)
    }
}

/// The letter of a kind, as `ls -l` prints it.
pub fn letter(kind: FileKind) -> char {
    match kind {
        FileKind::File => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
        FileKind::CharDevice => 'c',
        FileKind::BlockDevice => 'b',
    }
}

/// The letters of permission bits, as `ls -l` prints them.
pub fn permissions(mode: u16) -> String {
    let special = [(0o4000, 's', 'S'), (0o2000, 's', 'S'), (0o1000, 't', 'T')];
    let mut letters = String::with_capacity(9);
    for (class, (bit, with, without)) in special.into_iter().enumerate() {
        let rights = mode >> (6 - 3 * class);
        letters.push(if rights & 4 != 0 { 'r' } else { '-' });
        letters.push(if rights & 2 != 0 { 'w' } else { '-' });
        letters.push(match (mode & bit != 0, rights & 1 != 0) {
            (true, true) => with,
            (true, false) => without,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    letters
}

/// A time in UTC, to the second.
pub fn time(at: Timestamp) -> String {
    let seconds = at.div_euclid(1_000_000_000);
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Year, month and day of a day since the epoch. Years begin in March here, so that the leap day
/// is the last one.
fn date(days: i64) -> (i64, i64, i64) {
    const ERA: i64 = 146_097;
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// A list as a JSON array. Bytes of names that are no UTF-8 become replacement characters.
pub fn as_json(listed: &[Listed]) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let object = |Listed { path, attr, target }: &Listed| {
        let mut object = json!({
            "path": text(path),
            "inode": attr.ino,
            "kind": kind_name(attr.kind),
            "mode": format!("{:04o}", attr.mode),
            "links": attr.links,
            "uid": attr.uid,
            "gid": attr.gid,
            "size": attr.size,
            "sectors": attr.sectors,
            "atime_ns": attr.atime,
            "mtime_ns": attr.mtime,
            "ctime_ns": attr.ctime,
            "btime_ns": attr.btime,
        });
        if let Some(target) = target {
            object["target"] = text(target).into();
        }
        if matches!(attr.kind, FileKind::CharDevice | FileKind::BlockDevice) {
            object["device"] = format!("{}:{}", major(attr.device), minor(attr.device)).into();
        }
        object
    };
    listed.iter().map(object).collect()
}

/// The name of a kind in JSON.
fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::CharDevice => "char device",
        FileKind::BlockDevice => "block device",
    }
}

/// Prints a list.
///
/// # Errors
/// Those of the output.
pub fn print(listed: &[Listed], style: ListStyle, out: &mut dyn Write) -> std::io::Result<()> {
    for Listed { path, attr, target } in listed {
        let whole = style.recursive || listed.len() == 1;
        let name = super::path::last_name(path).filter(|_| !whole).unwrap_or(path);
        if style.long {
            let (kind, mode) = (letter(attr.kind), permissions(attr.mode));
            let size = match attr.kind {
                FileKind::CharDevice | FileKind::BlockDevice => {
                    format!("{},{}", major(attr.device), minor(attr.device))
                }
                _ => attr.size.to_string(),
            };
            let Attr { links, uid, gid, mtime, .. } = *attr;
            write!(out, "{kind}{mode} {links:>3} {uid:>5} {gid:>5} {size:>10} {} ", time(mtime))?;
        }
        // Names need not be text.
        out.write_all(name)?;
        if let Some(target) = target.as_ref().filter(|_| style.long) {
            write!(out, " -> {}", shown(target))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The major number of a device, of a number as Linux packs it into 32 bits.
pub fn major(device: u32) -> u32 {
    (device >> 8) & 0xfff
}

/// The minor number.
pub fn minor(device: u32) -> u32 {
    (device & 0xff) | ((device >> 12) & 0xf_ff00)
}

/// The number of a device.
pub fn device(major: u32, minor: u32) -> u32 {
    ((major & 0xfff) << 8) | (minor & 0xff) | ((minor & 0xf_ff00) << 12)
}
