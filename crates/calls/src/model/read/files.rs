//! Calls that change the content, the size or the attributes of an object.

use super::{Reader, Unmodelled};
use crate::model::micro::{Attributes, Change, ObjectId, PAGE};
use bytes::Bytes;
use seekless_fs::call::{AllocateHow, Handle, Ino, New, SetAttr};
use std::sync::Arc;

impl Reader {
    pub(super) fn open(&mut self, ino: Ino, truncate: bool) -> Result<(), Unmodelled> {
        // Opening what the recording does not show is an error only once it is written.
        if let (false, None) = (truncate, self.inos.get(&ino)) {
            return Ok(());
        }
        let object = self.object(ino)?;
        self.given.extend(self.call.map(|call| (call, object)));
        if truncate {
            let object = self.wanted(object, &New::File)?;
            let said = format!("open({:?}, O_TRUNC)", self.path(object));
            self.set_size(&said.into(), object, 0);
        }
        Ok(())
    }

    /// A write at a place, or at the end of the file.
    pub(super) fn write(
        &mut self,
        handle: Handle,
        at: Option<u64>,
        data: Bytes,
    ) -> Result<(), Unmodelled> {
        let object = self.wanted(self.handled(handle)?, &New::File)?;
        let at = at.unwrap_or(self.seen[object as usize].size);
        let (count, path) = (data.len(), self.path(object));
        let said: Arc<str> = format!("write({path:?}, {count} bytes at {at})").into();
        self.end(at, count as u64)?;
        self.pages(&said, object, at, data);
        Ok(())
    }

    /// The pages of a write, each with the size that it brings: a kernel writes pages one by one,
    /// so the disk may have a size in between.
    fn pages(&mut self, said: &Arc<str>, object: ObjectId, mut at: u64, mut data: Bytes) {
        while !data.is_empty() {
            let left = (PAGE - at % PAGE) as usize;
            let part = data.split_to(left.min(data.len()));
            let next = at + part.len() as u64;
            self.push(said, Change::Page { object, at, data: part });
            if next > self.seen[object as usize].size {
                self.seen[object as usize].size = next;
                self.push(said, Change::Grow { object, to: next });
            }
            at = next;
        }
    }

    pub(super) fn set_attributes(&mut self, ino: Ino, set: &SetAttr) -> Result<(), Unmodelled> {
        let object = self.object(ino)?;
        let path = self.path(object);
        if let Some(size) = set.size {
            let object = self.wanted(object, &New::File)?;
            let size = self.end(size, 0)?;
            self.set_size(&format!("truncate({path:?}, {size})").into(), object, size);
        }
        let attributes = Attributes {
            mode: set.mode,
            uid: set.uid,
            gid: set.gid,
            atime: set.atime,
            mtime: set.mtime,
        };
        if attributes != Attributes::default() {
            let word = match (set.mode, set.uid.or(set.gid)) {
                (Some(_), _) => "chmod",
                (None, Some(_)) => "chown",
                (None, None) => "utimens",
            };
            let said = format!("{word}({path:?})");
            self.push(&said.into(), Change::Attributes { object, set: attributes });
        }
        Ok(())
    }

    pub(super) fn allocate(
        &mut self,
        handle: Handle,
        at: u64,
        length: u64,
        how: AllocateHow,
    ) -> Result<(), Unmodelled> {
        let object = self.wanted(self.handled(handle)?, &New::File)?;
        let (size, end) = (self.seen[object as usize].size, self.end(at, length)?);
        let path = self.path(object);
        let said: Arc<str> = format!("fallocate({path:?}, {length} bytes at {at})").into();
        let zeros = matches!(how, AllocateHow::Punch | AllocateHow::Zero { .. });
        if zeros && at < end.min(size) {
            self.zeros(&said, object, at, end.min(size));
        }
        // Allocated space by itself is nothing that a program finds.
        if matches!(how, AllocateHow::Extend | AllocateHow::Zero { keep_size: false }) {
            self.set_size(&said, object, size.max(end));
        }
        Ok(())
    }

    /// Zeros: parts of pages are written as pages, whole ones are unmapped.
    fn zeros(&mut self, said: &Arc<str>, object: ObjectId, from: u64, to: u64) {
        let whole = from.next_multiple_of(PAGE)..to - to % PAGE;
        let (head, tail) = (whole.start.min(to), whole.end.max(from));
        let parts = match head < tail {
            true => [(from, head), (head, tail), (tail, to)],
            false => [(from, head), (head, to), (to, to)],
        };
        for (from, to) in parts.into_iter().filter(|(from, to)| from < to) {
            self.push(said, Change::Zeros { object, from, to });
        }
    }

    fn set_size(&mut self, said: &Arc<str>, object: ObjectId, to: u64) {
        let from = std::mem::replace(&mut self.seen[object as usize].size, to);
        // What is cut of the last page becomes zeros in the page cache, which may be written back
        // before the size.
        let page_end = to.next_multiple_of(PAGE).min(from);
        if to < page_end {
            self.push(said, Change::Zeros { object, from: to, to: page_end });
        }
        if from != to {
            self.push(said, Change::SetSize { object, from, to });
        }
    }
}
