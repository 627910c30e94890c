//! What a mounted file system shows through its calls, and whether it works.

use super::contract::Rules;
use super::contract::damage::{Damage, Damages};
use super::looks::{blamed, counts};
use super::names::Name;
use super::tags::{Cell, content};
use super::tree::{Attrs, Body, Found, Tree, parse_text};
use super::volume::FileVolume;
use crate::rules::{Complaint, Rule};
use bytes::Bytes;
use seekless_engine::rng::Rng;
use seekless_engine::units::{SECONDS, Time};
use seekless_formats::Finding;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::call::{
    Answer, Attr, Errno, FileKind, Ino, New, ROOT, Request, SeekWhat, by_inode,
};
use std::collections::BTreeMap;

/// Bytes of a read.
const PIECE: u32 = 64 << 10;
/// Bytes of a list.
const LIST: u32 = 4096;
const SECTOR: usize = 512;
/// Time in which a reclaim comes to its end.
const IDLE: Time = 1800 * SECONDS;
/// The object that tags of an exercise name: no script has so many.
const STRANGER: u32 = u32::MAX;

/// Reads everything that names lead to.
///
/// # Errors
/// The call that fails.
pub fn read(volume: &mut FileVolume) -> Result<Tree, String> {
    let mut objects = BTreeMap::new();
    let root = match run(volume, Request::Attr { ino: ROOT }, "stat /")? {
        Answer::Attr(attr) => attr,
        other => return Err(format!("stat / answers {other:?}")),
    };
    let mut todo = vec![root];
    while let Some(attr) = todo.pop() {
        let ino = attr.ino as u32;
        if objects.contains_key(&ino) {
            continue;
        }
        let body = match attr.kind {
            FileKind::File => Body::File(file(volume, &attr)?),
            FileKind::Directory => directory(volume, attr.ino, &mut todo)?,
            FileKind::Symlink => {
                match run(volume, Request::ReadLink { ino: attr.ino }, "readlink")? {
                    Answer::Text(text) => Body::Symlink(parse_text(&text)),
                    other => return Err(format!("readlink answers {other:?}")),
                }
            }
            _ => Body::Special,
        };
        objects.insert(ino, found(&attr, body).into());
    }
    Ok(Tree { objects, damages: Damages::NONE })
}

fn found(attr: &Attr, body: Body) -> Found {
    let size = if attr.kind == FileKind::Directory { 0 } else { attr.size };
    Found {
        generation: attr.generation,
        kind: attr.kind,
        attrs: Attrs { mode: attr.mode, uid: attr.uid },
        size,
        body,
    }
}

fn run(volume: &mut FileVolume, request: Request, what: &str) -> Result<Answer, String> {
    volume.run(request).map_err(|error| match error {
        Some(errno) => format!("{what}: {errno}"),
        None => format!("{what} is never answered"),
    })
}

fn directory(volume: &mut FileVolume, dir: Ino, todo: &mut Vec<Attr>) -> Result<Body, String> {
    let (mut names, mut strange, mut cookie) = (BTreeMap::new(), 0, 0);
    loop {
        let list = Request::List { handle: by_inode(dir), cookie, most_bytes: LIST };
        let Answer::Entries(entries) = run(volume, list, "list")? else { break };
        let Some(last) = entries.last() else { break };
        cookie = last.cookie;
        for entry in &entries {
            if &entry.name[..] == b"." || &entry.name[..] == b".." {
                continue;
            }
            let Some(name) = Name::parse(&entry.name) else {
                strange += 1;
                continue;
            };
            let what = format!("lookup {name}");
            let lookup = Request::Lookup { dir, name: entry.name.clone() };
            let Answer::Object(attr, _) = run(volume, lookup, &what)? else {
                return Err(format!("{what} brings no object"));
            };
            if attr.ino != entry.ino {
                return Err(format!("{what} finds inode {}, list {}", attr.ino, entry.ino));
            }
            if names.insert(name, attr.ino as u32).is_some() {
                return Err(format!("list shows {name} twice"));
            }
            todo.push(attr);
        }
    }
    Ok(Body::Directory(names, strange))
}

/// The sectors of a file that are not zeros; holes are passed over.
fn file(volume: &mut FileVolume, attr: &Attr) -> Result<Vec<(u32, Cell)>, String> {
    let handle = by_inode(attr.ino);
    let mut cells = Vec::new();
    let mut at = 0;
    while at < attr.size {
        match volume.run(Request::Seek { handle, at, what: SeekWhat::Data }) {
            Ok(Answer::At(next)) => at = next / SECTOR as u64 * SECTOR as u64,
            Err(Some(Errno::NxIo)) => break,
            other => return Err(format!("seek answers {other:?}")),
        }
        let read = Request::Read { handle, at, length: PIECE };
        let bytes = match run(volume, read, "read")? {
            Answer::Bytes(bytes) if !bytes.is_empty() => bytes,
            other => return Err(format!("read at {at} of {} answers {other:?}", attr.size)),
        };
        for (sector, bytes) in (at / SECTOR as u64..).zip(bytes.chunks(SECTOR)) {
            let cell = Cell::read(bytes);
            if cell != Cell::Zeros {
                cells.push((sector as u32, cell));
            }
        }
        at += bytes.len() as u64;
    }
    Ok(cells)
}

/// What does not work in a file system that was recovered: a file is made, written, synced, read
/// back and removed; then it is unmounted, and a check finds nothing. Without a file time passes
/// first, in which what has leaked is freed.
pub fn exercise(volume: &mut FileVolume, rng: &mut Rng) -> Vec<Complaint> {
    let made = match rng.below(3) {
        0 => {
            volume.pass(IDLE);
            let ends = !volume.fs().reclaims();
            ends.then_some(()).ok_or_else(|| "the reclaim never ends".to_owned())
        }
        _ => use_it(volume, 1 + rng.below(20) as u32),
    };
    let reclaims = volume.fs().reclaims();
    let works = |wrong| Some((Rule::Works, wrong));
    let wrong = match made {
        Err(wrong) => works(wrong),
        Ok(()) if !volume.unmount() => works("the unmount never ends".to_owned()),
        Ok(()) => is_clean(volume, reclaims).err(),
    };
    let complaint = |(rule, wrong)| {
        let sentence = format!("after the recovery, {wrong}");
        Complaint { rule, sentence }
    };
    wrong.map(complaint).into_iter().collect()
}

fn use_it(volume: &mut FileVolume, sectors: u32) -> Result<(), String> {
    let name = Bytes::from_static(b"exercise");
    let make =
        Request::Make { dir: ROOT, name: name.clone(), what: New::File, mode: 0o600, open: false };
    let attr = match volume.run(make) {
        Ok(Answer::Object(attr, _)) => attr,
        // A full file system has no room for another file.
        Err(Some(Errno::NoSpc)) => return Ok(()),
        other => return Err(format!("a file cannot be made: {other:?}")),
    };
    let handle = by_inode(attr.ino);
    let data = content(STRANGER, 0, sectors, 1);
    let written = volume.run(Request::Write { handle, at: 0, data: data.clone(), append: false });
    let length = match written {
        Ok(Answer::Written(length)) => length,
        Err(Some(Errno::NoSpc)) => 0,
        other => return Err(format!("a write answers {other:?}")),
    };
    run(volume, Request::Fsync { ino: attr.ino, data_only: false }, "fsync")?;
    let read = run(volume, Request::Read { handle, at: 0, length: data.len() as u32 }, "read")?;
    if read != Answer::Bytes(data.slice(..length as usize)) {
        return Err("a file does not read as it was written".to_owned());
    }
    run(volume, Request::Unlink { dir: ROOT, name }, "rm")?;
    volume.forget(attr.ino);
    Ok(())
}

/// The medium after an unmount, which may have ended a reclaim too early.
fn is_clean(volume: &mut FileVolume, reclaims: bool) -> Result<(), (Rule, String)> {
    let may_leak = volume.fs().may_leak();
    let (check, marks) = (volume.kind().check, volume.kind().limits.marks_unmounts);
    let (node, clock) = volume.node_mut();
    let findings =
        check(&mut NodeDisk::new(node, clock)).map_err(|error| (Rule::Works, error.to_string()))?;
    // Only a repair drops the older one of two names of a directory, and the links for it.
    let stays = |one: &dyn Finding| matches!(Damage::of(one), Damage::TwoParents | Damage::Count);
    let may_be = |one: &dyn Finding| match reclaims {
        true => Rules::Soft.allows(one),
        false => stays(one),
    };
    let counted = findings.list.iter().map(|one| &**one).filter(|one| counts(*one, Rule::Works));
    let mut wrong = counted.filter(|one| !may_leak || !may_be(*one));
    match (wrong.next(), findings.unmounted) {
        (None, unmounted) if unmounted != may_leak || !marks => Ok(()),
        (Some(finding), _) => {
            let wrong = format!("a check after the unmount finds: {finding}");
            Err((blamed(finding, Rule::Works), wrong))
        }
        (None, _) => Err((Rule::Works, "the unmount leaves the wrong mark".to_owned())),
    }
}
