//! Flushes: the requests that wait for them, and the syncs that may run in parallel.
//!
//! All flushes that arrive while every lane is taken share the next sync. Lanes exist because a
//! sync mostly waits for the device: the next one need not wait for its end as well.

use crate::image::{Image, ImageError};
use rustix::io::Errno;
use seekless_engine::io::Tag;
use std::fs::File;
use std::sync::Arc;

/// Syncs in the kernel at once.
const LANES: usize = 4;

/// One sync at a time, on an open file of its own: the kernel reports a failed write once to each
/// open file, so of two parallel syncs on the same one, only one would see it.
#[derive(Debug)]
struct Lane {
    file: Arc<File>,
    /// Tags to answer when the sync ends.
    tags: Vec<Tag>,
    busy: bool,
}

/// The flushes of one file.
#[derive(Debug)]
pub(super) struct Syncs {
    waiting: Vec<Tag>,
    lanes: Vec<Lane>,
    /// The lane of the sync that started last.
    newest: usize,
    /// A write came after the last sync started, or a sync failed.
    dirty: bool,
}

impl Syncs {
    /// For an image whose writes may not be durable. If the system cannot reopen a file by its
    /// descriptor, there is one lane.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub(super) fn new(image: &Image) -> Result<Syncs, ImageError> {
        let lane = |file| Lane { file: Arc::new(file), tags: Vec::new(), busy: false };
        let mut lanes = vec![lane(image.handle()?)];
        lanes.extend((1..LANES).map_while(|_| image.opened_anew().ok()).map(lane));
        Ok(Syncs { waiting: Vec::new(), lanes, newest: 0, dirty: true })
    }

    /// Records the end of a write or trim; even a failed one may have changed blocks.
    pub(super) fn wrote(&mut self) {
        self.dirty = true;
    }

    /// Adds a flush. True if it needs no sync.
    #[must_use]
    pub(super) fn flush(&mut self, tag: Tag) -> bool {
        let newest = &mut self.lanes[self.newest];
        if self.dirty {
            self.waiting.push(tag);
        } else if newest.busy {
            // No write came after that sync started, so it covers all writes.
            newest.tags.push(tag);
        } else {
            return true;
        }
        false
    }

    /// Adds a request that needs a sync that starts after this call.
    pub(super) fn wait(&mut self, tag: Tag) {
        self.waiting.push(tag);
    }

    /// A sync to start, if one is needed and a lane is free: the lane and its file.
    pub(super) fn start(&mut self) -> Option<(usize, Arc<File>)> {
        if self.waiting.is_empty() {
            return None;
        }
        let free = self.lanes.iter().position(|lane| !lane.busy)?;
        let lane = &mut self.lanes[free];
        std::mem::swap(&mut self.waiting, &mut lane.tags);
        lane.busy = true;
        self.newest = free;
        self.dirty = false;
        Some((free, Arc::clone(&lane.file)))
    }

    /// Ends a sync. Returns the tags to answer.
    pub(super) fn finish(&mut self, lane: usize, result: Result<(), Errno>) -> Vec<Tag> {
        let ended = &mut self.lanes[lane];
        ended.busy = false;
        if result.is_err() {
            self.dirty = true;
        }
        std::mem::take(&mut ended.tags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::open;
    use std::io::{Seek as _, SeekFrom};

    fn syncs() -> Syncs {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(1 << 16).expect("grows");
        let mut syncs = Syncs::new(&open(file.path(), false).expect("opens")).expect("lanes");
        assert_eq!(syncs.lanes.len(), LANES);
        // Earlier writes are unknown, so the first flush needs a sync.
        assert!(!syncs.flush(0));
        let (lane, _) = syncs.start().expect("a free lane");
        assert_eq!(syncs.finish(lane, Ok(())), [0]);
        syncs
    }

    /// A write and a flush that starts a sync; returns its lane.
    fn begin(syncs: &mut Syncs, tag: Tag) -> usize {
        syncs.wrote();
        assert!(!syncs.flush(tag));
        syncs.start().expect("a free lane").0
    }

    #[test]
    fn a_flush_shares_the_newest_sync_only_while_nothing_was_written_since() {
        let mut syncs = syncs();
        assert!(syncs.flush(1), "nothing to do");
        let first = begin(&mut syncs, 2);
        assert!(!syncs.flush(3));
        let second = begin(&mut syncs, 4);
        assert!(!syncs.flush(5));
        assert!(syncs.start().is_none(), "no flush waits");
        assert_eq!(syncs.finish(second, Ok(())), [4, 5]);
        assert!(syncs.flush(6), "the newest has covered everything");
        assert_eq!(syncs.finish(first, Ok(())), [2, 3]);
    }

    #[test]
    fn what_finds_no_free_lane_shares_the_next_sync() {
        let mut syncs = syncs();
        let lanes: Vec<usize> = (0..LANES as Tag).map(|tag| begin(&mut syncs, tag)).collect();
        for tag in 10..13 {
            syncs.wrote();
            assert!(!syncs.flush(tag));
            assert!(syncs.start().is_none(), "all lanes are taken");
        }
        assert_eq!(syncs.finish(lanes[2], Ok(())), [2]);
        let (lane, _) = syncs.start().expect("a free lane");
        assert_eq!((lane, syncs.finish(lane, Ok(()))), (lanes[2], vec![10, 11, 12]));
    }

    #[test]
    fn after_a_failed_sync_nothing_counts_as_durable() {
        let mut syncs = syncs();
        let (first, second) = (begin(&mut syncs, 1), begin(&mut syncs, 2));
        assert_eq!(syncs.finish(first, Err(Errno::IO)), [1]);
        assert_eq!(syncs.finish(second, Ok(())), [2]);
        assert!(!syncs.flush(3), "the failed one may have dropped something");
        assert!(syncs.start().is_some());
    }

    #[test]
    fn each_lane_has_an_open_file_of_its_own() {
        let syncs = syncs();
        for (number, lane) in (1..).zip(&syncs.lanes) {
            (&*lane.file).seek(SeekFrom::Start(number)).expect("seeks");
        }
        for (number, lane) in (1..).zip(&syncs.lanes) {
            assert_eq!((&*lane.file).stream_position().expect("tells"), number);
        }
    }
}
