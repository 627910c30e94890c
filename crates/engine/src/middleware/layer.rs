//! Layers around layers.

use crate::io::{Done, Io, IoError};
use crate::layer::{Cx, Layer, Port, Status, Transactions};
use crate::replaceable::Replaceable;
use crate::units::Time;
use crate::upkeep::{Upkeep, UpkeepError};
use std::fmt::Debug;

/// A layer around another one. It says what it does before and after the layer inside runs; all
/// else is handed on. Transactions go past it.
pub trait LayerAround: Debug + Send {
    /// The layer inside.
    fn inner(&self) -> &dyn Layer;

    /// The layer inside.
    fn inner_mut(&mut self) -> &mut dyn Layer;

    /// Lets the layer inside handle one event. What it answers is in [`Cx::above`] afterwards.
    fn run(&mut self, cx: &mut Cx<'_>, event: impl FnOnce(&mut dyn Layer, &mut Cx<'_>)) {
        event(self.inner_mut(), cx);
    }

    /// See [`Layer::submit`].
    fn submit(&mut self, io: Io, cx: &mut Cx<'_>) {
        self.run(cx, |inner, cx| inner.submit(io, cx));
    }

    /// See [`Layer::pump`].
    fn pump(&mut self, cx: &mut Cx<'_>) {
        self.run(cx, |inner, cx| inner.pump(cx));
    }

    /// See [`Layer::stop`].
    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.run(cx, |inner, cx| inner.stop(cx));
    }
}

impl<L: LayerAround> Layer for L {
    fn blocks(&self) -> u64 {
        self.inner().blocks()
    }

    fn submit(&mut self, io: Io, cx: &mut Cx<'_>) {
        LayerAround::submit(self, io, cx);
    }

    fn complete(&mut self, port: Port, done: Done, cx: &mut Cx<'_>) {
        self.run(cx, |inner, cx| inner.complete(port, done, cx));
    }

    fn pump(&mut self, cx: &mut Cx<'_>) {
        LayerAround::pump(self, cx);
    }

    fn deadline(&self) -> Option<Time> {
        self.inner().deadline()
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        LayerAround::stop(self, cx);
    }

    fn stopped(&self) -> bool {
        self.inner().stopped()
    }

    fn failed(&self) -> Option<IoError> {
        self.inner().failed()
    }

    fn upkeep(&mut self, order: Upkeep, now: Time) -> Result<(), UpkeepError> {
        self.inner_mut().upkeep(order, now)
    }

    fn status(&self) -> &dyn Status {
        self.inner().status()
    }

    fn replaceable(&mut self) -> Option<&mut dyn Replaceable> {
        self.inner_mut().replaceable()
    }

    fn transactions(&mut self) -> Option<&mut dyn Transactions> {
        self.inner_mut().transactions()
    }
}
