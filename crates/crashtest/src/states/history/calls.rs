//! The history of a recording of calls: its writes are the micro-operations of a model.
//!
//! The number of a write is the index of its micro-operation. A write has no place on a device, and
//! never tears. An epoch ends at the answer of each sync that makes something durable.

use super::{Epoch, History, Kind, Mark, Unsettled, Write};
use seekless_calls::model::{Barriers, Modelled};
use std::sync::Arc;

impl History {
    /// The history of a recording of calls under a model. Events are the entries of the recording.
    pub fn of_calls(calls: Arc<Modelled>) -> History {
        let recorded = calls.recorded();
        let write = |(number, micro): (u64, &seekless_calls::model::Micro)| Write {
            number,
            connection: 0,
            offset: 0,
            length: 0,
            kind: Kind::Data,
            fua: false,
            asked: micro.asked,
            answered: micro.answered,
            failed: false,
        };
        let mark = |mark: &seekless_calls::model::Mark| Mark {
            value: Arc::clone(&mark.value),
            at: mark.at,
        };
        let mut history = History::new(0, true);
        history.writes = (0..).zip(&recorded.micros).map(write).collect();
        history.marks = recorded.marks.iter().map(mark).collect();
        history.events = recorded.entries;
        history.begin = Some(recorded.begin);
        history.calls = Some(calls);
        history.cuts = history.epochs().map(|epoch| epoch.cut).collect();
        history
    }

    /// The cut of the epoch before that of this cut; what was asked before it has been tried there.
    /// 0 for the first epoch, and for a recording of a device.
    pub(in crate::states) fn cut_before(&self, cut: u64) -> u64 {
        let before = self.cuts.partition_point(|&one| one < cut);
        before.checked_sub(1).map_or(0, |last| self.cuts[last])
    }

    /// The calls that the writes are parts of; `None` for a recording of a device.
    pub fn calls(&self) -> Option<&Arc<Modelled>> {
        self.calls.as_ref()
    }
}

/// Walks from epoch to epoch of a recording of calls.
#[derive(Debug)]
pub struct CallEpochs<'h> {
    history: &'h History,
    barriers: Barriers<'h>,
    settled: Vec<usize>,
    durable: u64,
    index: u64,
    syncs: u64,
    over: bool,
}

impl<'h> CallEpochs<'h> {
    pub(super) fn new(history: &'h History, calls: &'h Modelled) -> CallEpochs<'h> {
        let barriers = calls.barriers();
        let settled: Vec<usize> = barriers.durable().iter().collect();
        let durable = settled.len() as u64;
        CallEpochs { history, barriers, settled, durable, index: 0, syncs: 0, over: false }
    }

    /// The epoch that ends before the event `cut`.
    fn close(&mut self, cut: u64, unsettled: Vec<usize>) -> Epoch {
        let as_writes = |list: Vec<usize>| -> Vec<Unsettled> {
            list.into_iter().map(|write| Unsettled { write, under: Vec::new() }).collect()
        };
        let epoch = Epoch {
            index: self.index,
            cut,
            settled: as_writes(std::mem::take(&mut self.settled)),
            unsettled: as_writes(unsettled),
            flushes: self.syncs,
            durable: self.durable,
            acked: self.history.acked(cut).count,
        };
        self.index += 1;
        epoch
    }
}

impl Iterator for CallEpochs<'_> {
    type Item = Epoch;

    fn next(&mut self) -> Option<Epoch> {
        while let Some(sync) = self.barriers.peek() {
            let unsettled: Vec<usize> = self.barriers.pending(sync.answered).collect();
            let (_, made) = self.barriers.next()?;
            // A sync that makes nothing durable forbids nothing new.
            let epoch = (!made.is_empty()).then(|| self.close(sync.answered, unsettled));
            self.syncs += 1;
            if epoch.is_some() {
                self.durable += made.len() as u64;
                self.settled = made;
                return epoch;
            }
        }
        if self.over {
            return None;
        }
        self.over = true;
        let events = self.history.events;
        let unsettled = self.barriers.pending(events).collect();
        Some(self.close(events, unsettled))
    }
}
