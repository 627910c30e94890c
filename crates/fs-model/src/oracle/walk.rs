//! Compares whole trees: makes calls for everything that the model knows, and lets the judge
//! compare each reply.

use super::judge::Judge;
use bytes::Bytes;
use seekless_fs::call::{Call, Credentials, FileKind, Ino, ROOT, Request, Timestamp};
use seekless_fs::system::Runs;

/// Ids of the calls of a walk begin here, behind those of scripts.
const FIRST_ID: u64 = 1 << 40;
/// The time of the calls of a walk: behind that of scripts.
const LATE: Timestamp = 8_000_000_000_000_000_000;
/// Files up to this size are read whole.
const WHOLE: u64 = 1 << 20;
/// Bytes of a read.
const PIECE: u64 = 128 << 10;
/// Pieces in which a list may come for each name; more means that it does not end.
const MOST_PIECES: usize = 4;

/// Compares all that the root and open handles reach.
pub(super) fn walk<R: Runs>(judge: &mut Judge<R>) -> Result<(), String> {
    let mut walk = Walk { judge, next_id: FIRST_ID };
    walk.handles()?;
    walk.tree()?;
    walk.call(Request::Space).map(drop)
}

struct Walk<'j, R> {
    judge: &'j mut Judge<R>,
    next_id: u64,
}

impl<R: Runs> Walk<'_, R> {
    fn call(&mut self, request: Request) -> Result<u64, String> {
        self.next_id += 1;
        // A walk may follow another one after a remount, when its ids mean nothing.
        let (id, now) = (self.next_id, LATE + (self.next_id - FIRST_ID) as Timestamp);
        let call = Call { id, who: Credentials::default(), now, request };
        self.judge.step(&call).map_err(|what| format!("in the walk of the tree: {what}"))?;
        Ok(id)
    }

    fn ino(&self, object: u64) -> Option<Ino> {
        self.judge.ours.ino(object)
    }

    /// What scripts have left open, with or without names.
    fn handles(&mut self) -> Result<(), String> {
        let objects: Vec<u64> = self.judge.ours.objects().collect();
        for ino in objects {
            self.call(Request::Attr { ino })?;
        }
        let handles: Vec<u64> = self.judge.ours.handles().collect();
        for handle in handles {
            let real = self.judge.ours.handle(handle);
            if let Some(ino) = real.and_then(|real| self.judge.model.opened(real)) {
                self.read(handle, ino)?;
            }
        }
        Ok(())
    }

    fn tree(&mut self) -> Result<(), String> {
        let mut directories = vec![ROOT];
        while let Some(dir) = directories.pop() {
            self.list(dir)?;
            for name in self.names(dir) {
                let object = self.call(Request::Lookup { dir, name })?;
                match self.object(object)? {
                    Some(FileKind::Directory) => directories.push(object),
                    _ => drop(self.call(Request::Forget { ino: object, count: 1 })?),
                }
            }
            if dir != ROOT {
                self.call(Request::Forget { ino: dir, count: 1 })?;
            }
        }
        Ok(())
    }

    fn names(&self, dir: u64) -> Vec<Bytes> {
        let node = self.ino(dir).and_then(|ino| self.judge.model.node(ino));
        let entries = node.and_then(|node| node.entries());
        entries.map_or(Vec::new(), |entries| entries.iter().map(|(name, _)| name.clone()).collect())
    }

    fn list(&mut self, dir: u64) -> Result<(), String> {
        let handle = self.call(Request::Open { ino: dir, truncate: false })?;
        let pieces = MOST_PIECES + MOST_PIECES * self.names(dir).len();
        let mut cookie = 0;
        for _ in 0..pieces {
            self.call(Request::List { handle, cookie, most_bytes: 4096 })?;
            cookie = 1;
            if self.judge.list_ended(handle) {
                self.call(Request::Release { handle })?;
                return Ok(());
            }
        }
        Err(format!("the list of directory {dir} does not end after {pieces} pieces"))
    }

    /// Compares what an object holds; its kind.
    fn object(&mut self, ino: u64) -> Result<Option<FileKind>, String> {
        let real = self.ino(ino);
        let Some(node) = real.and_then(|real| self.judge.model.node(real)) else {
            return Ok(None);
        };
        let (kind, real) = (node.kind(), node.ino);
        match kind {
            FileKind::File => {
                let handle = self.call(Request::Open { ino, truncate: false })?;
                self.read(handle, real)?;
                self.call(Request::Release { handle })?;
            }
            FileKind::Symlink => drop(self.call(Request::ReadLink { ino })?),
            _ => {}
        }
        Ok(Some(kind))
    }

    /// Reads a small file whole; of a large one what is not zero, with some bytes around it, and
    /// its end.
    fn read(&mut self, handle: u64, ino: Ino) -> Result<(), String> {
        let Some(node) = self.judge.model.node(ino) else { return Ok(()) };
        let (size, Some(content)) = (node.size, node.content()) else { return Ok(()) };
        let ranges: Vec<(u64, u64)> = if size <= WHOLE {
            (0..size.div_ceil(PIECE)).map(|piece| (piece * PIECE, PIECE)).collect()
        } else {
            let around = content.ranges().map(|(at, length)| (at.saturating_sub(8), length + 16));
            around.chain([(size.saturating_sub(PIECE), PIECE)]).collect()
        };
        for (at, length) in ranges.into_iter().chain([(size, PIECE)]) {
            self.call(Request::Read { handle, at, length: length as u32 })?;
        }
        Ok(())
    }
}
