//! Devices around devices.

use crate::device::{Device, DeviceStatus, Mechanical};
use crate::io::{Done, Extent, Io};
use crate::units::{BlockNr, Time};
use crate::upkeep::{Upkeep, UpkeepError};
use std::any::Any;
use std::fmt::Debug;

/// A device around another one. It says which requests and answers it handles; all else is handed
/// on.
pub trait DeviceAround: Debug + Send {
    /// The device inside.
    fn inner(&self) -> &dyn Device;

    /// The device inside.
    fn inner_mut(&mut self) -> &mut dyn Device;

    /// See [`Device::submit`].
    fn submit(&mut self, now: Time, io: Io) {
        self.inner_mut().submit(now, io);
    }

    /// See [`Device::reap`].
    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        self.inner_mut().reap(now, done);
    }

    /// See [`Device::next_event`].
    fn next_event(&self) -> Option<Time> {
        self.inner().next_event()
    }
}

impl<D: DeviceAround> Device for D {
    fn blocks(&self) -> u64 {
        self.inner().blocks()
    }

    fn submit(&mut self, now: Time, io: Io) {
        DeviceAround::submit(self, now, io);
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        DeviceAround::reap(self, now, done);
    }

    fn next_event(&self) -> Option<Time> {
        DeviceAround::next_event(self)
    }

    fn volatile(&self) -> bool {
        self.inner().volatile()
    }

    fn status(&self) -> &dyn DeviceStatus {
        self.inner().status()
    }

    fn mechanical(&self) -> Option<&dyn Mechanical> {
        self.inner().mechanical()
    }

    fn is_sudden(&self) -> bool {
        self.inner().is_sudden()
    }

    fn extent(&mut self, at: BlockNr, limit: u64) -> (Extent, u64) {
        self.inner_mut().extent(at, limit)
    }

    fn upkeep(&mut self, order: Upkeep, now: Time) -> Result<(), UpkeepError> {
        self.inner_mut().upkeep(order, now)
    }

    fn as_any(&mut self) -> Option<&mut dyn Any> {
        self.inner_mut().as_any()
    }

    fn stop(&mut self, now: Time) {
        self.inner_mut().stop(now);
    }

    fn stopped(&self) -> bool {
        self.inner().stopped()
    }
}
