//! The fields of a call, in the order of the file.
//!
//! A field is a word of 8 bytes, or bytes behind a word with their number. What does not fit its
//! field, and a name that is none, makes the record a damaged one.

use crate::Foreign;
use bytes::Bytes;
use seekless_fs::call::{
    AllocateHow, MOST_SYMLINK, New, RenameHow, Request, SeekWhat, SetAttr, is_name,
};

/// Fields that are written.
#[derive(Debug, Default)]
pub(super) struct Out(Vec<u8>);

impl Out {
    pub(super) fn word(&mut self, word: u64) {
        self.0.extend(word.to_le_bytes());
    }

    /// Bytes without their number: the last field.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        self.raw(bytes);
    }

    fn words<const N: usize>(&mut self, words: [u64; N]) {
        words.into_iter().for_each(|word| self.word(word));
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Fields that are read.
#[derive(Debug)]
pub(super) struct Fields(Bytes);

impl Fields {
    pub(super) fn new(bytes: Bytes) -> Fields {
        Fields(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn word(&mut self) -> Option<u64> {
        let word = self.0.get(..8)?.try_into().map(u64::from_le_bytes).ok()?;
        self.0 = self.0.slice(8..);
        Some(word)
    }

    pub(super) fn half(&mut self) -> Option<u32> {
        self.word()?.try_into().ok()
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.word()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.0)
    }

    fn bytes(&mut self) -> Option<Bytes> {
        let count = usize::try_from(self.word()?).ok()?;
        (count <= self.0.len()).then(|| self.0.split_to(count))
    }

    fn name(&mut self) -> Option<Bytes> {
        self.bytes().filter(|name| is_name(name))
    }
}

/// Writes the fields of a call; gives its number among the operations.
pub(super) fn put(request: &Request, out: &mut Out) -> u8 {
    match request {
        Request::Lookup { dir, name } => named(1, *dir, name, out),
        Request::Forget { ino, count } => words(2, [*ino, *count], out),
        Request::Attr { ino } => words(3, [*ino], out),
        Request::SetAttr { ino, set } => {
            out.word(*ino);
            put_set(set, out);
            4
        }
        Request::ReadLink { ino } => words(5, [*ino], out),
        Request::Make { dir, name, what, mode, open } => {
            out.words([*dir, u64::from(*mode), u64::from(*open)]);
            out.bytes(name);
            put_new(what, out);
            6
        }
        Request::Link { ino, dir, name } => {
            out.word(*ino);
            named(7, *dir, name, out)
        }
        Request::Unlink { dir, name } => named(8, *dir, name, out),
        Request::RmDir { dir, name } => named(9, *dir, name, out),
        Request::Rename { dir, name, to_dir, to_name, how } => {
            let how = match how {
                RenameHow::Replace => 0,
                RenameHow::NoReplace => 1,
                RenameHow::Exchange => 2,
            };
            out.words([*dir, *to_dir, how]);
            out.bytes(name);
            out.bytes(to_name);
            10
        }
        Request::Open { ino, truncate } => words(11, [*ino, u64::from(*truncate)], out),
        Request::Release { handle } => words(12, [*handle], out),
        Request::Read { handle, at, length } => words(13, [*handle, *at, (*length).into()], out),
        Request::Write { handle, at, data, append } => {
            out.words([*handle, *at, u64::from(*append)]);
            out.bytes(data);
            14
        }
        Request::List { handle, cookie, most_bytes } => {
            words(15, [*handle, *cookie, (*most_bytes).into()], out)
        }
        Request::Fsync { ino, data_only } => words(16, [*ino, u64::from(*data_only)], out),
        Request::Sync => 17,
        Request::Space => 18,
        Request::Allocate { handle, at, length, how } => {
            let how = match how {
                AllocateHow::Extend => 0,
                AllocateHow::KeepSize => 1,
                AllocateHow::Punch => 2,
                AllocateHow::Zero { keep_size: false } => 3,
                AllocateHow::Zero { keep_size: true } => 4,
            };
            words(19, [*handle, *at, *length, how], out)
        }
        Request::Trim { from, to, least } => words(21, [*from, *to, *least], out),
        Request::Seek { handle, at, what } => {
            words(20, [*handle, *at, u64::from(*what == SeekWhat::Hole)], out)
        }
    }
}

fn words<const N: usize>(op: u8, words: [u64; N], out: &mut Out) -> u8 {
    out.words(words);
    op
}

fn named(op: u8, dir: u64, name: &[u8], out: &mut Out) -> u8 {
    out.word(dir);
    out.bytes(name);
    op
}

/// A word that says which attributes are set, then all of them.
fn put_set(set: &SetAttr, out: &mut Out) {
    let values = [
        set.mode.map(u64::from),
        set.uid.map(u64::from),
        set.gid.map(u64::from),
        set.size,
        set.atime.map(i64::cast_unsigned),
        set.mtime.map(i64::cast_unsigned),
        set.handle,
    ];
    let mask = values.iter().rev().fold(0, |mask, value| mask << 1 | u64::from(value.is_some()));
    out.word(mask);
    out.words(values.map(|value| value.unwrap_or(0)));
}

fn get_set(fields: &mut Fields) -> Option<SetAttr> {
    let mask = fields.word()?;
    let mut next = |bit: u32| {
        let value = fields.word()?;
        // What is not set is 0, so that each call has one form.
        match mask >> bit & 1 {
            1 => Some(Some(value)),
            _ => (value == 0).then_some(None),
        }
    };
    let [mode, uid, gid, size, atime, mtime, handle] =
        [next(0)?, next(1)?, next(2)?, next(3)?, next(4)?, next(5)?, next(6)?];
    let half = |value: Option<u64>| value.map(u32::try_from).transpose().ok();
    (mask < 1 << 7).then_some(())?;
    Some(SetAttr {
        mode: mode.map(u16::try_from).transpose().ok()?,
        uid: half(uid)?,
        gid: half(gid)?,
        size,
        atime: atime.map(u64::cast_signed),
        mtime: mtime.map(u64::cast_signed),
        handle,
    })
}

fn put_new(what: &New, out: &mut Out) {
    match what {
        New::File => out.words([0, 0]),
        New::Directory => out.words([1, 0]),
        New::Symlink(text) => {
            out.word(2);
            out.bytes(text);
        }
        New::Fifo => out.words([3, 0]),
        New::Socket => out.words([4, 0]),
        New::CharDevice(number) => out.words([5, u64::from(*number)]),
        New::BlockDevice(number) => out.words([6, u64::from(*number)]),
    }
}

fn get_new(fields: &mut Fields) -> Option<New> {
    let kind = fields.word()?;
    if kind == 2 {
        return fields.bytes().filter(|text| text.len() <= MOST_SYMLINK).map(New::Symlink);
    }
    let number = fields.half()?;
    Some(match (kind, number) {
        (0, 0) => New::File,
        (1, 0) => New::Directory,
        (3, 0) => New::Fifo,
        (4, 0) => New::Socket,
        (5, number) => New::CharDevice(number),
        (6, number) => New::BlockDevice(number),
        _ => return None,
    })
}

/// Reads the fields of the operation with this number.
pub(super) fn get(op: u8, fields: &mut Fields) -> Option<Request> {
    let f = fields;
    Some(match op {
        1 => Request::Lookup { dir: f.word()?, name: f.name()? },
        2 => Request::Forget { ino: f.word()?, count: f.word()? },
        3 => Request::Attr { ino: f.word()? },
        4 => Request::SetAttr { ino: f.word()?, set: get_set(f)? },
        5 => Request::ReadLink { ino: f.word()? },
        6 => {
            let (dir, mode) = (f.word()?, f.half()?.try_into().ok()?);
            let (open, name, what) = (f.flag()?, f.name()?, get_new(f)?);
            Request::Make { dir, name, what, mode, open }
        }
        7 => Request::Link { ino: f.word()?, dir: f.word()?, name: f.name()? },
        8 => Request::Unlink { dir: f.word()?, name: f.name()? },
        9 => Request::RmDir { dir: f.word()?, name: f.name()? },
        10 => {
            let (dir, to_dir) = (f.word()?, f.word()?);
            let how = match f.word()? {
                0 => RenameHow::Replace,
                1 => RenameHow::NoReplace,
                2 => RenameHow::Exchange,
                _ => return None,
            };
            Request::Rename { dir, name: f.name()?, to_dir, to_name: f.name()?, how }
        }
        11 => Request::Open { ino: f.word()?, truncate: f.flag()? },
        12 => Request::Release { handle: f.word()? },
        13 => Request::Read { handle: f.word()?, at: f.word()?, length: f.half()? },
        14 => {
            let (handle, at, append) = (f.word()?, f.word()?, f.flag()?);
            Request::Write { handle, at, data: f.bytes()?, append }
        }
        15 => Request::List { handle: f.word()?, cookie: f.word()?, most_bytes: f.half()? },
        16 => Request::Fsync { ino: f.word()?, data_only: f.flag()? },
        17 => Request::Sync,
        18 => Request::Space,
        19 => {
            let (handle, at, length) = (f.word()?, f.word()?, f.word()?);
            let how = match f.word()? {
                0 => AllocateHow::Extend,
                1 => AllocateHow::KeepSize,
                2 => AllocateHow::Punch,
                3 => AllocateHow::Zero { keep_size: false },
                4 => AllocateHow::Zero { keep_size: true },
                _ => return None,
            };
            Request::Allocate { handle, at, length, how }
        }
        20 => {
            let (handle, at) = (f.word()?, f.word()?);
            let what = if f.flag()? { SeekWhat::Hole } else { SeekWhat::Data };
            Request::Seek { handle, at, what }
        }
        21 => Request::Trim { from: f.word()?, to: f.word()?, least: f.word()? },
        _ => return None,
    })
}

/// Longest name of an extended attribute in bytes (Linux, `XATTR_NAME_MAX`).
const MOST_ATTRIBUTE_NAME: usize = 255;

/// Writes the fields of a foreign change; gives its number.
pub(super) fn put_foreign(change: &Foreign, out: &mut Out) -> u8 {
    match change {
        Foreign::Unnamed { ino, mode, uid, gid } => {
            words(1, [*ino, u64::from(*mode), u64::from(*uid), u64::from(*gid)], out)
        }
        Foreign::SetAttribute { ino, name, value } => {
            out.word(*ino);
            out.bytes(name);
            out.bytes(value);
            2
        }
        Foreign::RemoveAttribute { ino, name } => named(3, *ino, name, out),
        Foreign::SyncedRange { ino, at, length } => words(4, [*ino, *at, *length], out),
    }
}

/// Reads the fields of the foreign change with this number.
pub(super) fn get_foreign(op: u8, f: &mut Fields) -> Option<Foreign> {
    let attribute = |f: &mut Fields| {
        let fits = |name: &Bytes| (1..=MOST_ATTRIBUTE_NAME).contains(&name.len());
        f.bytes().filter(|name| fits(name) && !name.contains(&0))
    };
    Some(match op {
        1 => {
            let (ino, mode) = (f.word()?, f.half()?.try_into().ok()?);
            Foreign::Unnamed { ino, mode, uid: f.half()?, gid: f.half()? }
        }
        2 => Foreign::SetAttribute { ino: f.word()?, name: attribute(f)?, value: f.bytes()? },
        3 => Foreign::RemoveAttribute { ino: f.word()?, name: attribute(f)? },
        4 => Foreign::SyncedRange { ino: f.word()?, at: f.word()?, length: f.word()? },
        _ => return None,
    })
}
