//! Compares what two replies say, and shows calls in few words.

use crate::model::Node;
use seekless_fs::call::{Answer, Attr, Call, Errno, FileKind, New, Request};
use std::fmt;

/// Bytes of a name or text that are shown.
const SHOWN: usize = 24;

/// A call on one line, without its data.
#[derive(Debug)]
pub struct Show<'c>(pub &'c Call);

impl fmt::Display for Show<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call { id, who, request, .. } = self.0;
        write!(f, "{id}: ")?;
        if who.uid != 0 || who.gid != 0 {
            write!(f, "[{}:{}] ", who.uid, who.gid)?;
        }
        match request {
            Request::Write { handle, at, data, append } => {
                let length = data.len();
                write!(f, "Write {{ handle: {handle}, at: {at}, {length} bytes")?;
                write!(f, "{} }}", if *append { ", append" } else { "" })
            }
            Request::Make { dir, name, what, mode, open } => {
                let name = String::from_utf8_lossy(name);
                write!(f, "Make {{ dir: {dir}, name: {name}, mode: {mode:o}, ")?;
                match what {
                    New::Symlink(text) => write!(f, "symlink of {} bytes", text.len())?,
                    what => write!(f, "{what:?}")?,
                }
                write!(f, "{} }}", if *open { ", open" } else { "" })
            }
            request => write!(f, "{request:?}"),
        }
    }
}

/// A result in few words.
pub(super) fn brief(result: &Result<Answer, Errno>) -> String {
    match result {
        Ok(Answer::Bytes(bytes)) => format!("{} bytes", bytes.len()),
        Ok(Answer::Text(text)) => {
            let shown = String::from_utf8_lossy(&text[..text.len().min(SHOWN)]);
            format!("a text of {} bytes, `{shown}`", text.len())
        }
        Ok(answer) => format!("{answer:?}"),
        Err(errno) => format!("{errno:?} ({errno})"),
    }
}

/// Compares bytes that were read.
pub(super) fn bytes(ours: &[u8], theirs: &[u8]) -> Result<(), String> {
    if ours.len() != theirs.len() {
        let (theirs, ours) = (theirs.len(), ours.len());
        return Err(format!("it reads {theirs} bytes, {ours} are there"));
    }
    match ours.iter().zip(theirs).position(|(ours, theirs)| ours != theirs) {
        Some(at) => {
            let (read, is) = (theirs[at], ours[at]);
            Err(format!("byte {at} of what it reads is {read:#04x}, it must be {is:#04x}"))
        }
        None => Ok(()),
    }
}

/// Compares attributes with the model's object. Sizes of directories and space in use are the
/// system's own; the time of access may be that of any read.
pub(super) fn attr(node: &Node, theirs: &Attr) -> Result<(), String> {
    let ours = node.attr();
    let mut differ = Vec::new();
    let mut compare = |name: &str, ours: String, theirs: String| {
        if ours != theirs {
            differ.push(format!("{name} is {theirs}, it must be {ours}"));
        }
    };
    compare("the kind", format!("{:?}", ours.kind), format!("{:?}", theirs.kind));
    compare("the mode", format!("{:o}", ours.mode), format!("{:o}", theirs.mode));
    let numbers = [
        ("the link count", u64::from(ours.links), u64::from(theirs.links)),
        ("the owner", u64::from(ours.uid), u64::from(theirs.uid)),
        ("the group", u64::from(ours.gid), u64::from(theirs.gid)),
        ("the device", u64::from(ours.device), u64::from(theirs.device)),
    ];
    for (name, ours, theirs) in numbers {
        compare(name, ours.to_string(), theirs.to_string());
    }
    if ours.kind != FileKind::Directory {
        compare("the size", ours.size.to_string(), theirs.size.to_string());
    }
    let times = [
        ("mtime", ours.mtime, theirs.mtime),
        ("ctime", ours.ctime, theirs.ctime),
        ("btime", ours.btime, theirs.btime),
    ];
    for (name, ours, theirs) in times {
        compare(name, ours.to_string(), theirs.to_string());
    }
    let read = node.reads.is_some_and(|(first, last)| (first..=last).contains(&theirs.atime));
    if theirs.atime != ours.atime && !read {
        compare("atime", ours.atime.to_string(), theirs.atime.to_string());
    }
    if differ.is_empty() { Ok(()) } else { Err(differ.join("; ")) }
}
