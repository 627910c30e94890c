//! A medium whose power can be cut: what it has not flushed may be lost.
//!
//! For tests that run a program over it until it dies, then look at what a cut may have left. Its
//! copies are the same medium, so that a test keeps one beside the volume that uses it.

use crate::fate::Fate;
use crate::faults::Injector;
use crate::pending::{BlockWrite, PendingWrites};
use crate::tear::apply;
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::io::IoError;
use seekless_engine::shared::Shared;
use seekless_engine::units::BlockNr;

/// The medium.
#[derive(Clone, Debug)]
pub struct CutMedium(Shared<State>);

#[derive(Debug)]
struct State {
    /// What was there at the last flush.
    flushed: Cells,
    /// What reads see.
    current: Cells,
    /// The writes since the last flush. Trims take hold with it.
    pending: PendingWrites<BlockWrite>,
    faults: Injector,
}

impl CutMedium {
    /// A medium that holds all this already.
    pub fn new(cells: Cells) -> CutMedium {
        let (flushed, pending) = (cells.clone(), PendingWrites::default());
        CutMedium(Shared::new(State {
            flushed,
            current: cells,
            pending,
            faults: Injector::default(),
        }))
    }

    /// After `more` further writes it is dead.
    pub fn die_after(&self, more: u64) {
        self.0.lend().faults.die_after(more);
    }

    /// What reads see: all writes so far.
    pub fn contents(&self) -> Cells {
        self.0.lend().current.clone()
    }

    /// Number of the writes that a power cut may undo.
    pub fn pending(&self) -> usize {
        self.0.lend().pending.len()
    }

    /// What a power cut leaves; `fate` is that of each pending write, counted in their order.
    pub fn cut(&self, fate: impl Fn(usize) -> Fate) -> Cells {
        let state = self.0.lend();
        let mut cells = state.flushed.clone();
        for (number, one) in state.pending.iter().enumerate() {
            apply(&mut cells, &one.write, &fate(number));
        }
        cells
    }
}

impl Medium for CutMedium {
    fn blocks(&self) -> u64 {
        self.0.lend().current.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.0.lend().current.read(at, count)
    }

    fn write(&mut self, at: BlockNr, data: &Data) -> Result<(), IoError> {
        let state = &mut *self.0.lend();
        if let Some(outcome) = state.faults.write(at, data.blocks()) {
            return outcome.map(|_| ());
        }
        let write = BlockWrite { at, data: data.clone(), labels: None, part: None, places: None };
        state.pending.admit(state.faults.writes(), write);
        state.current.write(at, data)
    }

    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        self.0.lend().current.trim(at, count)
    }

    fn sync(&mut self) -> Result<(), IoError> {
        let state = &mut *self.0.lend();
        if let Some(outcome) = state.faults.flush() {
            return outcome.map(|_| ());
        }
        state.pending.take();
        state.flushed = state.current.clone();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_undoes_what_was_not_flushed_and_no_more() {
        let mut medium = CutMedium::new(Cells::new(4));
        let block = |version| Data::stamp(1, 0, version);
        medium.write(0, &block(1)).expect("memory");
        medium.sync().expect("memory");
        medium.write(1, &block(2)).expect("memory");
        medium.write(2, &block(3)).expect("memory");
        assert_eq!(medium.pending(), 2);
        let only = |kept| move |number| if number == kept { Fate::Kept } else { Fate::Lost };
        let mut left = medium.cut(only(1));
        assert_eq!(left.read(0, 1), Ok(block(1)));
        assert_eq!(left.read(1, 1), Ok(Data::zeros(1)));
        assert_eq!(left.read(2, 1), Ok(block(3)));
        assert_eq!(medium.contents().read(1, 1), Ok(block(2)));
    }

    #[test]
    fn a_dead_medium_takes_no_write_and_no_flush() {
        let mut medium = CutMedium::new(Cells::new(4));
        medium.die_after(1);
        assert_eq!(medium.write(0, &Data::zeros(1)), Ok(()));
        assert!(medium.sync().is_err(), "it died with the last write");
        assert!(medium.write(1, &Data::zeros(1)).is_err());
        assert_eq!(medium.pending(), 1);
    }
}
