//! The epochs of a recording of a device.

use super::{Epoch, Flush, History, Unsettled, Write};
use seekless_crash::pending::{Pending, PendingWrites};

impl History {
    pub(super) fn device_epochs(&self) -> DeviceEpochs<'_> {
        let mut changes: Vec<(u64, Change)> = Vec::new();
        for (index, write) in self.writes.iter().enumerate() {
            changes.push((write.asked, Change::Asked(index)));
            changes.extend(write.answered.map(|at| (at, Change::Answered(index))));
        }
        let flushes = self.flushes.iter().enumerate().filter(|(_, flush)| !flush.failed);
        changes
            .extend(flushes.filter_map(|(i, flush)| Some((flush.answered?, Change::Flushed(i)))));
        changes.sort_unstable_by_key(|(at, _)| *at);
        DeviceEpochs {
            history: self,
            changes,
            next: 0,
            over: false,
            unsettled: PendingWrites::default(),
            settled: Vec::new(),
            index: 0,
            flushes: 0,
            durable: 0,
        }
    }
}

/// An event that changes what a power cut may take, by the index of its write or flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// A write was asked for.
    Asked(usize),
    /// A write was answered.
    Answered(usize),
    /// A flush was answered and has not failed.
    Flushed(usize),
}

/// Walks from epoch to epoch of a device. Time is the index of an event.
#[derive(Debug)]
pub struct DeviceEpochs<'h> {
    history: &'h History,
    changes: Vec<(u64, Change)>,
    next: usize,
    over: bool,
    /// What the pending writes of the kernel know of each is where it stands in the history.
    unsettled: PendingWrites<Unsettled>,
    settled: Vec<Unsettled>,
    index: u64,
    flushes: u64,
    durable: u64,
}

impl DeviceEpochs<'_> {
    /// The epoch that ends before the event `cut`.
    fn close(&mut self, cut: u64) -> Epoch {
        let unsettled = self.unsettled.completed_first().map(|one| one.write.clone()).collect();
        let epoch = Epoch {
            index: self.index,
            cut,
            settled: std::mem::take(&mut self.settled),
            unsettled,
            flushes: self.flushes,
            durable: self.durable,
            acked: self.history.acked(cut).count,
        };
        self.index += 1;
        epoch
    }

    /// Notes the writes that have become durable, oldest first.
    fn settle(&mut self, done: Vec<Pending<Unsettled>>) {
        let writes = &self.history.writes;
        for newer in &done {
            let write = &writes[newer.write.write];
            for older in self.unsettled.writes_mut() {
                let other = &writes[older.write];
                if other.overlaps(write) && other.rank() < write.rank() {
                    older.under.push(newer.write.write);
                }
            }
        }
        self.durable += done.len() as u64;
        self.settled = done.into_iter().map(|one| one.write).collect();
    }

    /// A write was answered at `at`. The epoch that ends there, if it is durable now.
    fn answer(&mut self, index: usize, at: u64) -> Option<Epoch> {
        let Write { asked, fua, failed, .. } = self.history.writes[index];
        let forced = fua && !failed;
        let epoch = forced.then(|| self.close(at));
        let one = self.unsettled.remove(asked).expect("no flush covers what was not answered");
        if forced {
            self.settle(vec![one]);
        } else if failed {
            self.unsettled.fail(one, at);
        } else {
            self.unsettled.complete(one, at);
        }
        epoch
    }

    /// A flush was answered at `at`. The epoch that ends there, if it makes something durable: a
    /// flush that does not forbids nothing new, but a check may ask how many there were.
    fn flush(&mut self, index: usize, at: u64) -> Option<Epoch> {
        let history = self.history;
        let Flush { connection, asked, .. } = history.flushes[index];
        let about = |one: &Unsettled| {
            history.multi_conn || history.writes[one.write].connection == connection
        };
        let epoch = self.unsettled.has_covered(asked, about).then(|| self.close(at));
        if epoch.is_some() {
            let done = self.unsettled.flush(asked, about);
            self.settle(done);
        }
        self.flushes += 1;
        epoch
    }
}

impl Iterator for DeviceEpochs<'_> {
    type Item = Epoch;

    fn next(&mut self) -> Option<Epoch> {
        while let Some(&(at, change)) = self.changes.get(self.next) {
            self.next += 1;
            let epoch = match change {
                Change::Asked(write) => {
                    self.unsettled.submit(at, Unsettled { write, under: Vec::new() });
                    None
                }
                Change::Answered(write) => self.answer(write, at),
                Change::Flushed(flush) => self.flush(flush, at),
            };
            if epoch.is_some() {
                return epoch;
            }
        }
        if self.over {
            return None;
        }
        self.over = true;
        Some(self.close(self.history.events))
    }
}
