//! Recordings as text, a line for each entry: what the sequences of `calibrate/sequences.py` use.

use super::shown::{bytes_of, runs};
use bytes::Bytes;
use seekless_calls::{Entry, Foreign, Told};
use seekless_fs::call::{
    AllocateHow, Call, Credentials, New, RenameHow, Request, SetAttr, by_inode, inode_of,
};

/// The modes of `fallocate` by name.
const HOW: [(&str, AllocateHow); 5] = [
    ("extend", AllocateHow::Extend),
    ("keep", AllocateHow::KeepSize),
    ("punch", AllocateHow::Punch),
    ("zero", AllocateHow::Zero { keep_size: false }),
    ("zero-keep", AllocateHow::Zero { keep_size: true }),
];

/// The kinds of renames by name.
const RENAMES: [(&str, RenameHow); 3] = [
    ("replace", RenameHow::Replace),
    ("noreplace", RenameHow::NoReplace),
    ("exchange", RenameHow::Exchange),
];

/// Times that are set: no tree shows their values.
const TIMES: SetAttr = SetAttr {
    mode: None,
    uid: None,
    gid: None,
    size: None,
    atime: Some(0),
    mtime: Some(0),
    handle: None,
};

/// What root's own object is at the start.
fn owned(mode: u16) -> SetAttr {
    SetAttr { mode: Some(mode), uid: Some(0), gid: Some(0), ..SetAttr::default() }
}

/// Sets all times to 0, as text has them.
pub fn without_times(entries: &mut [Entry]) {
    for entry in entries {
        if let Entry::Call { call: Call { request: Request::SetAttr { set, .. }, .. }, .. } = entry
        {
            set.atime = set.atime.map(|_| 0);
            set.mtime = set.mtime.map(|_| 0);
        }
    }
}

/// A recording as lines; `None` if it has what the lines cannot say.
pub fn write(entries: &[Entry]) -> Option<Vec<String>> {
    let mut lines: Vec<String> = Vec::new();
    let mut asked = None;
    for entry in entries {
        let line = match entry {
            Entry::Call { call, .. } => {
                asked = Some(call.id);
                lines.push(request(&call.request)?);
                continue;
            }
            Entry::Reply { number, told } if asked == Some(*number) => {
                let line = lines.last_mut()?;
                *line += &format!(" > {}", answer(*told)?);
                asked = None;
                continue;
            }
            Entry::Reply { number, told } => format!("reply {number} > {}", answer(*told)?),
            Entry::Foreign { change, .. } => foreign(change)?,
            Entry::Begin => "begin".to_owned(),
            Entry::Mark(value) => format!("mark {value}"),
        };
        asked = None;
        lines.push(line);
    }
    Some(lines)
}

fn name(name: &[u8]) -> Option<&str> {
    str::from_utf8(name).ok().filter(|name| !name.contains([' ', '\n']))
}

fn data(bytes: &[u8]) -> Option<String> {
    let is_plain = bytes.iter().all(|&byte| byte == 0 || byte.is_ascii_alphabetic());
    is_plain.then(|| runs(bytes, "+"))
}

fn request(request: &Request) -> Option<String> {
    Some(match request {
        Request::Make { dir, name: called, what, mode, open: false } => {
            let what = match what {
                New::File => "file".to_owned(),
                New::Directory => "directory".to_owned(),
                New::Symlink(text) => format!("symlink:{}", name(text)?),
                _ => return None,
            };
            format!("make {dir} {} {what} {mode:o}", name(called)?)
        }
        Request::Link { ino, dir, name: called } => format!("link {ino} {dir} {}", name(called)?),
        Request::Unlink { dir, name: called } => format!("unlink {dir} {}", name(called)?),
        Request::RmDir { dir, name: called } => format!("rmdir {dir} {}", name(called)?),
        Request::Rename { dir, name: from, to_dir, to_name, how } => {
            let how = RENAMES.iter().find(|(_, one)| one == how)?.0;
            format!("rename {dir} {} {to_dir} {} {how}", name(from)?, name(to_name)?)
        }
        Request::Write { handle, at, data: bytes, append: false } => {
            format!("write {} {at} {}", inode_of(*handle)?, data(bytes)?)
        }
        Request::SetAttr { ino, set } => {
            let one = SetAttr { size: set.size, mode: set.mode, ..SetAttr::default() };
            match (set.size, set.mode) {
                _ if *set == TIMES => format!("times {ino}"),
                (None, Some(mode)) if *set == owned(mode) => format!("owned {ino} {mode:o}"),
                _ if *set != one => return None,
                (Some(size), None) => format!("size {ino} {size}"),
                (None, Some(mode)) => format!("mode {ino} {mode:o}"),
                _ => return None,
            }
        }
        Request::Allocate { handle, at, length, how } => {
            let how = HOW.iter().find(|(_, one)| one == how)?.0;
            format!("allocate {} {at} {length} {how}", inode_of(*handle)?)
        }
        Request::Fsync { ino, data_only: false } => format!("fsync {ino}"),
        Request::Fsync { ino, data_only: true } => format!("fdatasync {ino}"),
        Request::Sync => "sync".to_owned(),
        Request::Forget { ino, count } => format!("forget {ino} {count}"),
        _ => return None,
    })
}

fn answer(told: Told) -> Option<String> {
    Some(match told {
        Told::Done => "done".to_owned(),
        Told::Object(ino, _, None) => format!("object {ino}"),
        Told::Attr(_) => "attributes".to_owned(),
        Told::Written(count) => format!("written {count}"),
        _ => return None,
    })
}

fn foreign(change: &Foreign) -> Option<String> {
    Some(match change {
        Foreign::Unnamed { ino, mode, .. } => format!("unnamed {ino} {mode:o}"),
        Foreign::SetAttribute { ino, name: called, value } => {
            format!("setxattr {ino} {} {}", name(called)?, data(value)?)
        }
        Foreign::SyncedRange { ino, at, length } => format!("range {ino} {at} {length}"),
        Foreign::RemoveAttribute { ino, name: called } => {
            format!("removexattr {ino} {}", name(called)?)
        }
    })
}

/// The recording of these lines; the line that is none is the error.
pub fn read<'l>(lines: impl IntoIterator<Item = &'l str>) -> Result<Vec<Entry>, String> {
    let (mut entries, mut calls) = (Vec::new(), 0);
    for line in lines {
        add(line, &mut entries, &mut calls).ok_or_else(|| line.to_owned())?;
    }
    Ok(entries)
}

fn add(line: &str, entries: &mut Vec<Entry>, calls: &mut u64) -> Option<()> {
    let (asked, told) =
        line.split_once(" > ").map_or((line, None), |(asked, told)| (asked, Some(told)));
    let words: Vec<&str> = asked.split(' ').collect();
    let told = match told {
        Some(told) => Some(get_answer(told)?),
        None => None,
    };
    match words.as_slice() {
        ["begin"] => entries.push(Entry::Begin),
        ["mark", value] => entries.push(Entry::Mark((*value).to_owned())),
        ["reply", number] => {
            entries.push(Entry::Reply { number: number.parse().ok()?, told: told? });
        }
        _ => match get_foreign(&words) {
            Some(change) => entries.push(Entry::Foreign { change, at: 0 }),
            None => {
                let (id, who) = (*calls, Credentials::default());
                *calls += 1;
                let call = Call { id, who, now: 0, request: get_request(&words)? };
                entries.push(Entry::Call { call, at: 0 });
                entries.extend(told.map(|told| Entry::Reply { number: id, told }));
            }
        },
    }
    Some(())
}

fn text(word: &str) -> Bytes {
    Bytes::copy_from_slice(word.as_bytes())
}

fn octal(word: &str) -> Option<u16> {
    u16::from_str_radix(word, 8).ok()
}

fn get_request(words: &[&str]) -> Option<Request> {
    Some(match words {
        ["make", dir, name, what, mode] => Request::Make {
            dir: dir.parse().ok()?,
            name: text(name),
            what: match (*what, what.strip_prefix("symlink:")) {
                ("file", _) => New::File,
                ("directory", _) => New::Directory,
                (_, Some(target)) => New::Symlink(text(target)),
                _ => return None,
            },
            mode: octal(mode)?,
            open: false,
        },
        ["link", ino, dir, name] => {
            Request::Link { ino: ino.parse().ok()?, dir: dir.parse().ok()?, name: text(name) }
        }
        ["unlink", dir, name] => Request::Unlink { dir: dir.parse().ok()?, name: text(name) },
        ["rmdir", dir, name] => Request::RmDir { dir: dir.parse().ok()?, name: text(name) },
        ["rename", dir, name, to_dir, to_name, how] => Request::Rename {
            dir: dir.parse().ok()?,
            name: text(name),
            to_dir: to_dir.parse().ok()?,
            to_name: text(to_name),
            how: RENAMES.iter().find(|(word, _)| word == how)?.1,
        },
        ["write", ino, at, data] => Request::Write {
            handle: by_inode(ino.parse().ok()?),
            at: at.parse().ok()?,
            data: bytes_of(data, '+')?.into(),
            append: false,
        },
        ["size", ino, size] => {
            let set = SetAttr { size: Some(size.parse().ok()?), ..SetAttr::default() };
            Request::SetAttr { ino: ino.parse().ok()?, set }
        }
        ["times", ino] => Request::SetAttr { ino: ino.parse().ok()?, set: TIMES },
        ["owned", ino, mode] => {
            Request::SetAttr { ino: ino.parse().ok()?, set: owned(octal(mode)?) }
        }
        ["mode", ino, mode] => {
            let set = SetAttr { mode: Some(octal(mode)?), ..SetAttr::default() };
            Request::SetAttr { ino: ino.parse().ok()?, set }
        }
        ["allocate", ino, at, length, how] => Request::Allocate {
            handle: by_inode(ino.parse().ok()?),
            at: at.parse().ok()?,
            length: length.parse().ok()?,
            how: HOW.iter().find(|(word, _)| word == how)?.1,
        },
        ["fsync", ino] => Request::Fsync { ino: ino.parse().ok()?, data_only: false },
        ["fdatasync", ino] => Request::Fsync { ino: ino.parse().ok()?, data_only: true },
        ["sync"] => Request::Sync,
        ["forget", ino, count] => {
            Request::Forget { ino: ino.parse().ok()?, count: count.parse().ok()? }
        }
        _ => return None,
    })
}

fn get_answer(told: &str) -> Option<Told> {
    let words: Vec<&str> = told.split(' ').collect();
    Some(match words.as_slice() {
        ["done"] => Told::Done,
        ["object", ino] => Told::Object(ino.parse().ok()?, 0, None),
        ["attributes"] => Told::Attr(0),
        ["written", count] => Told::Written(count.parse().ok()?),
        _ => return None,
    })
}

fn get_foreign(words: &[&str]) -> Option<Foreign> {
    Some(match words {
        ["unnamed", ino, mode] => {
            Foreign::Unnamed { ino: ino.parse().ok()?, mode: octal(mode)?, uid: 0, gid: 0 }
        }
        ["setxattr", ino, name, value] => Foreign::SetAttribute {
            ino: ino.parse().ok()?,
            name: text(name),
            value: bytes_of(value, '+')?.into(),
        },
        ["range", ino, at, length] => Foreign::SyncedRange {
            ino: ino.parse().ok()?,
            at: at.parse().ok()?,
            length: length.parse().ok()?,
        },
        ["removexattr", ino, name] => {
            Foreign::RemoveAttribute { ino: ino.parse().ok()?, name: text(name) }
        }
        _ => return None,
    })
}
