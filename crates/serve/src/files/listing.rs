//! Listings with attributes (`readdirplus`): a list of entries, then a lookup of each.
//!
//! The kernel counts a lookup for each entry that it gets. So entries that were looked up but did
//! not fit into the answer are forgotten at once.

use super::pending::{Found, list_plus};
use fuser::ReplyDirectoryPlus;
use seekless_fs::call::{Answer, Attr, DirEntry, Errno, Ino, Request};

/// Bytes of an entry with attributes without its name.
const ENTRY_BYTES: usize = 152;
/// Bytes that the kernel has room for at least.
const LEAST_ROOM: usize = 4096;

/// A listing whose entries are being looked up.
#[derive(Debug)]
pub(super) struct Listing {
    reply: ReplyDirectoryPlus,
    dir: Ino,
    found: Vec<Looked>,
    /// Lookups without a reply.
    left: usize,
}

#[derive(Debug)]
struct Looked {
    entry: DirEntry,
    result: Option<Result<Attr, Errno>>,
}

fn is_dots(entry: &DirEntry) -> bool {
    matches!(&entry.name[..], b"." | b"..")
}

impl Listing {
    /// Takes as many entries as surely fit.
    pub(super) fn new(reply: ReplyDirectoryPlus, dir: Ino, entries: Vec<DirEntry>) -> Listing {
        let mut room = LEAST_ROOM;
        let fits = |entry: &DirEntry| {
            let bytes = (ENTRY_BYTES + entry.name.len()).next_multiple_of(8);
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        };
        let chosen = entries.into_iter().take_while(fits);
        let found: Vec<Looked> = chosen.map(|entry| Looked { entry, result: None }).collect();
        let left = found.iter().filter(|looked| !is_dots(&looked.entry)).count();
        Listing { reply, dir, found, left }
    }

    /// The lookups to be made, each with the index of its entry.
    pub(super) fn lookups(&self) -> impl Iterator<Item = (usize, Request)> {
        let wanted = self.found.iter().enumerate().filter(|(_, looked)| !is_dots(&looked.entry));
        wanted.map(|(index, looked)| {
            (index, Request::Lookup { dir: self.dir, name: looked.entry.name.clone() })
        })
    }

    /// Takes the reply to a lookup.
    pub(super) fn looked_up(&mut self, index: usize, result: Result<Answer, Errno>) {
        let attr = result.and_then(|answer| match answer {
            Answer::Object(attr, _) => Ok(attr),
            _ => Err(Errno::Io),
        });
        self.found[index].result = Some(attr);
        self.left -= 1;
    }

    /// True if all lookups have replies.
    pub(super) fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// Answers the kernel that it failed.
    pub(super) fn fail(self, errno: Errno) {
        self.reply.error(super::translate::errno(errno));
    }

    /// Answers the kernel; gives the objects that it has not got, to be forgotten.
    pub(super) fn answer(self) -> Vec<Ino> {
        let mut found: Vec<Found> = Vec::with_capacity(self.found.len());
        let mut unheard = Vec::new();
        let mut failed = None;
        for Looked { entry, result } in self.found {
            match result {
                _ if failed.is_some() => unheard.extend(result.and_then(Result::ok)),
                None => found.push((entry, None)),
                Some(Ok(attr)) => found.push((entry, Some(attr))),
                // Removed since it was listed.
                Some(Err(Errno::NoEnt)) => {}
                // The listing ends here; the next one begins here and fails.
                Some(Err(errno)) => failed = Some(errno),
            }
        }
        match failed {
            Some(errno) if found.is_empty() => {
                self.reply.error(super::translate::errno(errno));
            }
            _ => {
                let fitted = list_plus(self.reply, &found);
                unheard.extend(found.drain(fitted..).filter_map(|(_, attr)| attr));
            }
        }
        unheard.into_iter().map(|attr| attr.ino).collect()
    }
}
