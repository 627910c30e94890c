//! No layout: a block of the volume is the same block of the device. For files that hold something
//! of their own, and for crash states that are looked at.

use seekless_engine::io::IoError;
use seekless_engine::io::{Done, Io};
use seekless_engine::layer::{Cx, Layer, Port, Status};
use seekless_engine::units::{BlockNr, Time};

/// The layer that passes everything on. What fails, fails; nothing is failed, as on a plain disk.
#[derive(Clone, Debug)]
pub struct Raw {
    blocks: u64,
    in_flight: u64,
    stopping: bool,
}

impl Raw {
    /// For a device of `blocks` blocks.
    pub fn new(blocks: u64) -> Raw {
        Raw { blocks, in_flight: 0, stopping: false }
    }
}

impl Layer for Raw {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn submit(&mut self, io: Io, cx: &mut Cx<'_>) {
        self.in_flight += 1;
        cx.send(0, io);
    }

    fn complete(&mut self, _port: Port, done: Done, cx: &mut Cx<'_>) {
        self.in_flight -= 1;
        cx.answer(done);
    }

    fn pump(&mut self, _cx: &mut Cx<'_>) {}

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn stop(&mut self, _cx: &mut Cx<'_>) {
        self.stopping = true;
    }

    fn stopped(&self) -> bool {
        self.stopping && self.in_flight == 0
    }

    fn failed(&self) -> Option<IoError> {
        None
    }

    fn status(&self) -> &dyn Status {
        self
    }
}

impl Status for Raw {
    fn in_place(&self) -> Option<BlockNr> {
        Some(0)
    }
}
