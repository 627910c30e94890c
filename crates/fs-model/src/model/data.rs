//! Open objects: reading, writing, listing, allocating and seeking.

use super::node::DOTS;
use super::{Body, By, Model, Node, Outcome};
use bytes::Bytes;
use seekless_fs::call::{
    AllocateHow, Answer, DirEntry, Errno, FileKind, Handle, Ino, SeekWhat, Space,
};

/// Bytes that an entry takes in the answer to a list, without its name: those of FUSE.
const ENTRY: usize = 24;

impl Model {
    pub(super) fn open(&mut self, ino: Ino, truncate: bool, by: By) -> Outcome {
        let node = self.get_mut(ino)?;
        match node.kind() {
            FileKind::File if truncate => {
                node.resize(0, u64::MAX)?;
                node.content_changed_by(by.who);
                node.changed(by.now);
            }
            FileKind::Directory if truncate => return Err(Errno::IsDir),
            FileKind::File | FileKind::Directory => {}
            // The kernel opens pipes, sockets and devices by itself, and follows links.
            _ => return Err(Errno::Inval),
        }
        Ok(Answer::Opened(self.new_handle(ino)))
    }

    pub(super) fn release(&mut self, handle: Handle) -> Outcome {
        let ino = self.handles.remove(&handle).ok_or(Errno::BadF)?;
        self.known(ino).handles -= 1;
        self.reap(ino);
        Ok(Answer::Done)
    }

    pub(super) fn read(&mut self, handle: Handle, at: u64, length: u32, by: By) -> Outcome {
        let ino = self.by_handle(handle)?;
        let node = self.known(ino);
        node.was_read(by.now);
        let content = node.content().ok_or(Errno::IsDir)?;
        let length = node.size.saturating_sub(at).min(u64::from(length));
        Ok(Answer::Bytes(content.read(at, length as usize).into()))
    }

    /// Writes at a place, or behind the end. Nothing is written if not all of it has room below
    /// the limit.
    pub(super) fn write(
        &mut self,
        handle: Handle,
        at: Option<u64>,
        data: &Bytes,
        by: By,
    ) -> Outcome {
        let most = self.limits.most_bytes;
        let node = self.open_file(handle)?;
        let at = at.unwrap_or(node.size);
        let end = at.checked_add(data.len() as u64).ok_or(Errno::FBig)?;
        // What fits is written (POSIX, write).
        let data = match most.checked_sub(at) {
            None | Some(0) if !data.is_empty() => return Err(Errno::FBig),
            Some(room) if end > most => data.slice(..room as usize),
            _ => data.clone(),
        };
        let end = at + data.len() as u64;
        if !data.is_empty() {
            if let Body::File(content) = &mut node.body {
                content.write(at, &data);
            }
            node.size = node.size.max(end);
            node.content_changed_by(by.who);
            node.changed(by.now);
        }
        Ok(Answer::Written(data.len() as u32))
    }

    /// The file of a handle, for a change of its content.
    fn open_file(&mut self, handle: Handle) -> Result<&mut Node, Errno> {
        let ino = self.by_handle(handle)?;
        let node = self.known(ino);
        // A directory is never open for writing.
        if node.content().is_some() { Ok(node) } else { Err(Errno::BadF) }
    }

    pub(super) fn list(&mut self, handle: Handle, cookie: u64, most: u32, by: By) -> Outcome {
        let ino = self.by_handle(handle)?;
        self.known(ino).was_read(by.now);
        let node = self.get(ino)?;
        let entries = node.entries().ok_or(Errno::NotDir)?;
        let removed = node.links == 0;
        let dots = [(1, Bytes::from("."), ino), (DOTS, Bytes::from(".."), entries.parent)];
        let dots = dots.into_iter().filter(|(at, ..)| *at > cookie && !removed);
        let rest = entries.behind(cookie.max(DOTS));
        let all = dots.chain(rest.map(|(cookie, name, ino)| (cookie, name.clone(), ino)));
        let mut room = most as usize;
        let (mut found, mut too_small) = (Vec::new(), false);
        for (cookie, name, ino) in all {
            let needs = ENTRY + name.len().next_multiple_of(8);
            if needs > room {
                too_small = found.is_empty();
                break;
            }
            room -= needs;
            let kind = self.nodes.get(&ino).map_or(FileKind::Directory, Node::kind);
            found.push(DirEntry { ino, kind, name, cookie });
        }
        if too_small { Err(Errno::Inval) } else { Ok(Answer::Entries(found)) }
    }

    /// Allocates or frees. All of them move the times, as a write does.
    pub(super) fn allocate(
        &mut self,
        handle: Handle,
        at: u64,
        length: u64,
        how: AllocateHow,
        by: By,
    ) -> Outcome {
        let most = self.limits.most_bytes;
        if !self.limits.allocates {
            return self.by_handle(handle).and(Err(Errno::NotSup));
        }
        let node = self.open_file(handle)?;
        if length == 0 {
            return Err(Errno::Inval);
        }
        let end = at.checked_add(length).filter(|end| *end <= most).ok_or(Errno::FBig)?;
        if let (Body::File(content), AllocateHow::Punch | AllocateHow::Zero { .. }) =
            (&mut node.body, how)
        {
            content.zero(at, length);
        }
        if matches!(how, AllocateHow::Extend | AllocateHow::Zero { keep_size: false }) {
            node.size = node.size.max(end);
        }
        node.changed(by.now);
        Ok(Answer::Done)
    }

    /// Looks for data or a hole, by pages of 4096 bytes. File systems may see larger or smaller
    /// units, so the oracle compares what the answer means, not the answer.
    pub(super) fn seek(&mut self, handle: Handle, at: u64, what: SeekWhat) -> Outcome {
        let ino = self.by_handle(handle)?;
        let node = self.get(ino)?;
        let content = node.content().ok_or(Errno::Inval)?;
        if at >= node.size {
            return Err(Errno::NxIo);
        }
        match what {
            SeekWhat::Hole => Ok(Answer::At(content.next_hole(at).min(node.size))),
            SeekWhat::Data => {
                let found = content.next_data(at).filter(|found| *found < node.size);
                found.map(Answer::At).ok_or(Errno::NxIo)
            }
        }
    }

    /// Counts without a limit: only the number of inodes in use means something.
    pub(super) fn space(&self) -> Space {
        let pages = self.nodes().filter_map(Node::content).map(|content| content.count()).sum();
        let (fragments, inodes) = (1 << 32, 1 << 32);
        let free = u64::saturating_sub(fragments, pages);
        Space {
            block_bytes: 4096,
            fragment_bytes: 4096,
            fragments,
            free,
            available: free,
            inodes,
            free_inodes: inodes - self.nodes.len() as u64,
            name_bytes: self.limits.most_name as u32,
        }
    }
}
