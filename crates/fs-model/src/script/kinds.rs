//! One step of each kind of script: a few calls that belong together.

use super::Kind;
use super::writer::Writer;
use bytes::Bytes;
use seekless_fs::call::{
    AllocateHow, FileKind, MOST_NAME, New, ROOT, RenameHow, Request, SeekWhat, SetAttr,
};

/// Depth to which trees grow.
const DEEP: usize = 40;

/// Adds calls of a kind.
pub fn step(kind: Kind, w: &mut Writer) {
    match kind {
        Kind::HotDirectory => hot_directory(w),
        Kind::DeepTree => deep_tree(w),
        Kind::HardLinks => hard_links(w),
        Kind::Renames => renames(w),
        Kind::Sizes => sizes(w),
        Kind::Holes => holes(w),
        Kind::Unlinked => unlinked(w),
        Kind::Users => users(w),
        Kind::FullDisk => full_disk(w),
        Kind::Lists => lists(w),
        Kind::Specials => specials(w),
        Kind::Times => times(w),
        Kind::Mixed => {
            let kinds = Kind::ALL.map(|kind| if kind.may_fill() { Kind::Sizes } else { kind });
            let kind = w.one_of(&kinds);
            step(kind, w);
        }
    }
}

fn hot_directory(w: &mut Writer) {
    let name: Bytes = match w.rng.below(8) {
        0 => "x".repeat(MOST_NAME - w.rng.below(20) as usize).into(),
        1..4 => w.fresh_name(),
        _ => w.name(200),
    };
    match w.rng.below(10) {
        0..5 => {
            w.make(ROOT, name, New::File);
        }
        5..8 => {
            let name = w.name_in(ROOT);
            w.call(Request::Unlink { dir: ROOT, name });
        }
        8 => {
            let name = w.name_in(ROOT);
            w.call(Request::Lookup { dir: ROOT, name });
        }
        _ => {
            w.call(Request::Attr { ino: ROOT });
        }
    }
}

fn deep_tree(w: &mut Writer) {
    match w.rng.below(20) {
        // A path straight down.
        0 => {
            let mut dir = w.usable_directory();
            for _ in 0..1 + w.rng.below(DEEP as u64) {
                let name = w.name(3);
                let made = w.make(dir, name.clone(), New::Directory);
                let found = if made.is_ok { made } else { w.call(Request::Lookup { dir, name }) };
                if !found.is_ok || w.node(found.id).kind() != FileKind::Directory {
                    break;
                }
                dir = found.id;
            }
        }
        1..8 => {
            let (dir, name) = (w.directory(), w.name(6));
            w.make(dir, name, New::Directory);
        }
        8..11 => {
            let (dir, name) = (w.directory(), w.fresh_name());
            w.make(dir, name, New::File);
        }
        11..16 => {
            let dir = w.full_directory();
            let name = w.name_in(dir);
            w.call(Request::RmDir { dir, name });
        }
        16..18 => rename(w),
        _ => {
            let dir = w.full_directory();
            let name = w.name_in(dir);
            w.call(Request::Unlink { dir, name });
        }
    }
}

fn hard_links(w: &mut Writer) {
    match w.rng.below(12) {
        0 => {
            let (dir, name) = (w.usable_directory(), w.name(4));
            w.make(dir, name, New::Directory);
        }
        1..3 => {
            let (dir, name) = (w.usable_directory(), w.fresh_name());
            w.make_open(dir, name);
        }
        3..7 => {
            let (dir, name) = (w.directory(), w.name(40));
            let what = if w.percent(3) { FileKind::Directory } else { FileKind::File };
            if let Some(ino) = w.object(what) {
                w.call(Request::Link { ino, dir, name });
            }
        }
        7 => rename(w),
        8 => {
            let handle = w.file_handle();
            let length = w.shape.length(&mut w.rng);
            w.write(handle, 0, length);
        }
        _ => {
            let dir = w.full_directory();
            let name = w.name_in(dir);
            w.call(Request::Unlink { dir, name });
        }
    }
}

/// A rename of an existing name, mostly to a few names, so that it often meets another object.
fn rename(w: &mut Writer) {
    let dir = w.full_directory();
    let to_dir = if w.percent(50) { dir } else { w.directory() };
    let name = w.name_in(dir);
    let to_name = if w.percent(50) { w.name_in(to_dir) } else { w.name(12) };
    let how = match w.rng.below(10) {
        0..6 => RenameHow::Replace,
        6..8 => RenameHow::NoReplace,
        _ => RenameHow::Exchange,
    };
    w.call(Request::Rename { dir, name, to_dir, to_name, how });
}

fn renames(w: &mut Writer) {
    let (dir, name) = (w.usable_directory(), w.name(12));
    match w.rng.below(12) {
        0..2 => {
            w.make(dir, name, New::Directory);
        }
        2..4 => {
            let made = w.make(dir, name, New::File);
            if made.is_ok && w.percent(50) {
                let handle = w.call(Request::Open { ino: made.id, truncate: false }).id;
                let length = w.shape.length(&mut w.rng);
                w.write(handle, 0, length);
                w.call(Request::Release { handle });
            }
        }
        4 => {
            w.make(dir, name, New::Symlink("somewhere/else".into()));
        }
        5 => {
            let name = w.name_in(dir);
            w.call(Request::Lookup { dir, name });
        }
        _ => rename(w),
    }
}

fn read(w: &mut Writer, handle: u64) {
    let at = w.shape.border(&mut w.rng).saturating_sub(w.rng.below(w.shape.block));
    let length = (1 + w.rng.below(4 * w.shape.block)) as u32;
    w.call(Request::Read { handle, at, length });
}

fn sizes(w: &mut Writer) {
    let handle = w.file_handle();
    let at = w.shape.border(&mut w.rng);
    match w.rng.below(12) {
        0..3 => {
            let length = w.shape.length(&mut w.rng);
            w.write(handle, at.saturating_sub(length), length);
        }
        3..6 => {
            let data = w.data(1 + at % (3 * w.shape.fragment));
            w.call(Request::Write { handle, at: 0, data, append: true });
        }
        6..9 => {
            // Too large now and then: the limit of the file system, or no number of bytes.
            let size = match w.rng.below(40) {
                0 => w.shape.most_bytes + 1,
                1 => u64::MAX,
                _ => at,
            };
            if let Some(ino) = w.object(FileKind::File) {
                w.set(ino, SetAttr { size: Some(size), ..SetAttr::default() });
            }
        }
        9 => {
            if let Some(ino) = w.object(FileKind::File) {
                w.call(Request::Open { ino, truncate: true });
            }
        }
        10 => {
            if let Some(ino) = w.object(FileKind::File) {
                w.call(Request::Fsync { ino, data_only: at.is_multiple_of(2) });
            }
        }
        _ => read(w, handle),
    }
}

fn holes(w: &mut Writer) {
    let handle = w.file_handle();
    let at = w.shape.border(&mut w.rng);
    let length = w.shape.length(&mut w.rng);
    match w.rng.below(10) {
        0..3 => w.write(handle, at, length),
        3..6 => {
            let how = w.one_of(&[
                AllocateHow::Extend,
                AllocateHow::KeepSize,
                AllocateHow::Punch,
                AllocateHow::Punch,
                AllocateHow::Zero { keep_size: false },
                AllocateHow::Zero { keep_size: true },
            ]);
            let length = if w.percent(2) { 0 } else { length };
            w.call(Request::Allocate { handle, at, length, how });
        }
        6..8 => {
            let what = w.one_of(&[SeekWhat::Data, SeekWhat::Hole]);
            let at = if w.percent(50) { 0 } else { at };
            w.call(Request::Seek { handle, at, what });
        }
        8 => {
            if let Some(ino) = w.object(FileKind::File) {
                w.set(ino, SetAttr { size: Some(at), ..SetAttr::default() });
            }
        }
        _ => read(w, handle),
    }
}

fn unlinked(w: &mut Writer) {
    match w.rng.below(12) {
        0..2 => {
            let (dir, name) = (w.usable_directory(), w.name(20));
            let (what, mode) = (New::File, 0o644);
            w.call(Request::Make { dir, name, what, mode, open: true });
        }
        2 => {
            let (dir, name) = (w.usable_directory(), w.name(20));
            w.make(dir, name, New::Directory);
        }
        3..6 => {
            let dir = w.full_directory();
            let name = w.name_in(dir);
            let directory = w.rng.below(3) == 0;
            w.call(if directory {
                Request::RmDir { dir, name }
            } else {
                Request::Unlink { dir, name }
            });
        }
        6 => {
            let objects: Vec<u64> = w.bindings.objects().skip(1).collect();
            if !objects.is_empty() {
                let ino = w.one_of(&objects);
                w.call(Request::Forget { ino, count: 1 });
            }
        }
        7 => {
            let handles: Vec<u64> = w.bindings.handles().collect();
            if !handles.is_empty() {
                let handle = w.one_of(&handles);
                w.call(Request::Release { handle });
            }
        }
        8 => {
            // Names in a directory that may have been removed, and links to files that have.
            let (dir, name) = (w.directory(), w.fresh_name());
            match w.object(FileKind::File).filter(|_| w.percent(50)) {
                Some(ino) => w.call(Request::Link { ino, dir, name }),
                None => w.make(dir, name, New::File),
            };
        }
        9 => {
            let handle = w.file_handle();
            let length = w.shape.length(&mut w.rng);
            w.write(handle, length, length);
        }
        10 => {
            let handle = w.file_handle();
            w.call(Request::Read { handle, at: 0, length: 20_000 });
        }
        _ => attr(w),
    }
}

fn attr(w: &mut Writer) {
    let objects: Vec<u64> = w.bindings.objects().collect();
    let ino = w.one_of(&objects);
    w.call(Request::Attr { ino });
}

fn users(w: &mut Writer) {
    let who = w.user();
    let (dir, name) = (w.usable_directory(), w.name(30));
    match w.rng.below(10) {
        0..3 => {
            let what = w.one_of(&[New::File, New::File, New::Directory, New::Fifo]);
            let mode = w.one_of(&[0o644, 0o2755, 0o4755, 0o6711, 0o1777, 0o2644, 0o7777]);
            w.call_by(who, Request::Make { dir, name, what, mode, open: false });
        }
        3..6 => {
            let objects: Vec<u64> = w.bindings.objects().collect();
            let ino = w.one_of(&objects);
            let to = w.user();
            let mode = w.one_of(&[0o4755, 0o2755, 0o2644, 0o6777, 0o600]);
            let mut set = SetAttr::default();
            match w.rng.below(5) {
                0 => set.uid = Some(to.uid),
                1 => set.gid = Some(to.gid),
                2 => (set.uid, set.gid) = (Some(to.uid), Some(to.gid)),
                3 => (set.uid, set.mode) = (Some(to.uid), Some(mode)),
                _ => set.mode = Some(mode),
            }
            // Symbolic links have no permissions of their own.
            if w.node(ino).kind() != FileKind::Symlink {
                w.call_by(who, Request::SetAttr { ino, set });
            }
        }
        6..8 => {
            let handle = w.file_handle();
            let data = w.data(100);
            w.call_by(who, Request::Write { handle, at: 0, data, append: true });
        }
        8 => {
            if let Some(ino) = w.object(FileKind::File) {
                let set = SetAttr { size: Some(50), ..SetAttr::default() };
                w.call_by(who, Request::SetAttr { ino, set });
            }
        }
        _ => {
            let name = w.name_in(dir);
            w.call_by(who, Request::Unlink { dir, name });
        }
    }
}

fn full_disk(w: &mut Writer) {
    let piece = (w.shape.capacity / 24).clamp(1, 1 << 20);
    match w.rng.below(20) {
        0..9 => {
            let handle = w.file_handle();
            let who = w.user();
            let length = 1 + w.rng.below(piece);
            let data = w.data(length);
            w.call_by(who, Request::Write { handle, at: 0, data, append: true });
        }
        9..12 => {
            let (dir, name) = (w.usable_directory(), w.fresh_name());
            let handle = w.make_open(dir, name);
            let length = 1 + w.rng.below(w.shape.fragment);
            w.write(handle, 0, length);
            w.call(Request::Release { handle });
        }
        12..14 => {
            let (dir, name) = (w.usable_directory(), w.fresh_name());
            w.make(dir, name, New::Directory);
        }
        14 => {
            let handle = w.file_handle();
            let (at, how) = (0, AllocateHow::Extend);
            w.call(Request::Allocate { handle, at, length: piece, how });
        }
        15 => {
            w.call(Request::Sync);
            w.call(Request::Space);
        }
        16 => {
            let dir = w.full_directory();
            let name = w.name_in(dir);
            w.call(Request::RmDir { dir, name });
        }
        17 => {
            if let Some(ino) = w.object(FileKind::File) {
                w.set(ino, SetAttr { size: Some(0), ..SetAttr::default() });
            }
        }
        _ => {
            let dir = w.full_directory();
            let name = w.name_in(dir);
            w.call(Request::Unlink { dir, name });
        }
    }
}

fn lists(w: &mut Writer) {
    match w.rng.below(12) {
        0 => {
            let (dir, name) = (w.usable_directory(), w.name(4));
            w.make(dir, name, New::Directory);
        }
        1 => {
            let ino = w.directory();
            w.call(Request::Open { ino, truncate: false });
        }
        2..5 => {
            let (dir, name) = (w.usable_directory(), w.name(60));
            w.make(dir, name, New::File);
        }
        5..7 => {
            let dir = w.full_directory();
            let name = w.name_in(dir);
            w.call(Request::Unlink { dir, name });
        }
        7 => rename(w),
        _ => {
            if let Some(handle) = w.handle(FileKind::Directory) {
                let most_bytes = w.one_of(&[300, 600, 4096]);
                let cookie = w.rng.below(6).min(1);
                w.call(Request::List { handle, cookie, most_bytes });
            }
        }
    }
}

fn specials(w: &mut Writer) {
    let (dir, name) = (w.usable_directory(), w.name(100));
    match w.rng.below(10) {
        0..4 => {
            // Texts around the border between the inode and a block of their own.
            let length = w.one_of(&[1, 59, 60, 61, 62, 255, 1023, 4094, 4095]);
            w.make(dir, name, New::Symlink("t".repeat(length).into()));
        }
        4..6 => {
            let number = w.rng.next() as u32;
            let what = w.one_of(&[
                New::Fifo,
                New::Socket,
                New::CharDevice(number),
                New::BlockDevice(number),
            ]);
            w.make(dir, name, what);
        }
        6..8 => {
            let what = if w.percent(95) { FileKind::Symlink } else { FileKind::File };
            if let Some(ino) = w.object(what) {
                w.call(Request::ReadLink { ino });
            }
        }
        8 => rename(w),
        _ => {
            let dir = w.full_directory();
            let name = w.name_in(dir);
            w.call(Request::Unlink { dir, name });
        }
    }
}

fn times(w: &mut Writer) {
    let objects: Vec<u64> = w.bindings.objects().collect();
    let ino = w.one_of(&objects);
    match w.rng.below(8) {
        0..3 => {
            // Before the epoch, with nanoseconds, and beyond 2038.
            let times = [-1, 0, -86_400_000_000_001, 999_999_999, 4_102_444_800_000_000_007];
            let atime = w.percent(60).then(|| w.one_of(&times));
            let mtime = w.percent(60).then(|| w.one_of(&times));
            let set = SetAttr { atime, mtime, ..SetAttr::default() };
            // Whether a call that sets nothing is a change is left open.
            if set != SetAttr::default() {
                w.set(ino, set);
            }
        }
        3 => {
            let handle = w.file_handle();
            w.write(handle, 10, 10);
        }
        4 => {
            let handle = w.file_handle();
            w.call(Request::Read { handle, at: 0, length: 100 });
        }
        5 => {
            let (dir, name) = (w.usable_directory(), w.name(20));
            w.make(dir, name, New::File);
        }
        6 => rename(w),
        _ => attr(w),
    }
}
