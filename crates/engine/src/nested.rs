//! A node as a device: what lies below one layer may itself be a layer over devices, such as an
//! array under a layout.

use crate::account::Account;
use crate::device::{Device, DeviceStatus};
use crate::disk::Disk;
use crate::io::Rebuild;
use crate::io::{Done, Io, IoError};
use crate::member::Member;
use crate::node::Node;
use crate::replaceable::Vacancy;
use crate::units::Time;
use crate::upkeep::{Scrub, Upkeep, UpkeepError};
use std::any::Any;

/// A device whose blocks are those of a volume.
#[derive(Debug)]
pub struct Nested {
    node: Node,
    ready: Vec<Done>,
    /// When something was handed in that has not been settled.
    stirred: Option<Time>,
}

impl Nested {
    /// The volume as a device.
    pub fn new(node: Node) -> Nested {
        Nested { node, ready: Vec::new(), stirred: None }
    }

    /// What is inside.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The place of a member that is out, if it is an array.
    ///
    /// # Errors
    /// Why none can be taken now.
    pub fn vacancy(&mut self) -> Result<Vacancy, UpkeepError> {
        self.node.layer.replaceable().ok_or(UpkeepError::NoArray)?.vacancy()
    }

    /// Writes to a disk what makes it a member in a place that is free.
    ///
    /// # Errors
    /// Why none can be taken now, and what the disk reports; the array is as before.
    pub fn prepare_member(&mut self, disk: &mut dyn Disk) -> Result<Vacancy, UpkeepError> {
        self.node.layer.replaceable().ok_or(UpkeepError::NoArray)?.prepare(disk)
    }

    /// Takes the disk that was just prepared as a member, which is filled from now on.
    ///
    /// # Panics
    /// If it is no array.
    pub fn admit_member(&mut self, place: Vacancy, device: Box<dyn Device>, now: Time) {
        let array = self.node.layer.replaceable().expect("an array has prepared it");
        array.admit(device.volatile());
        self.node.replace_device(place.member, device);
        self.stirred = Some(now);
    }
}

impl Device for Nested {
    fn blocks(&self) -> u64 {
        self.node.layer.blocks()
    }

    fn submit(&mut self, now: Time, io: Io) {
        if io.at + u64::from(io.count) > self.blocks() {
            let error = IoError::OutOfRange { at: io.at, count: io.count };
            self.ready.push(Done::new(io.tag, Err(error)));
        } else {
            self.node.submit(now, io);
        }
        self.stirred = Some(now);
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        self.stirred = None;
        self.node.settle(now, &mut self.ready);
        done.append(&mut self.ready);
    }

    fn next_event(&self) -> Option<Time> {
        [self.stirred, self.node.next_event()].into_iter().flatten().min()
    }

    fn is_sudden(&self) -> bool {
        self.node.devices.iter().any(|device| device.is_sudden())
    }

    fn volatile(&self) -> bool {
        self.node.devices.iter().any(|device| device.volatile())
    }

    fn upkeep(&mut self, order: Upkeep, now: Time) -> Result<(), UpkeepError> {
        self.stirred = Some(now);
        self.node.layer.upkeep(order, now)
    }

    fn as_any(&mut self) -> Option<&mut dyn Any> {
        Some(self)
    }

    fn stop(&mut self, now: Time) {
        self.node.stop(now);
        self.stirred = Some(now);
    }

    fn stopped(&self) -> bool {
        self.node.stopped()
    }

    fn status(&self) -> &dyn DeviceStatus {
        self
    }
}

impl DeviceStatus for Nested {
    fn has_copies(&self) -> bool {
        self.node.layer.status().has_copies()
    }

    fn takes_parts(&self) -> bool {
        self.node.takes_parts()
    }

    fn failed_members(&self) -> &[(usize, IoError)] {
        self.node.layer.status().failed_members()
    }

    fn members(&self) -> Vec<Member> {
        let mut members = self.node.layer.status().members();
        for (member, traffic) in members.iter_mut().zip(self.node.traffic()) {
            member.traffic = *traffic;
        }
        members
    }

    fn rebuild(&self) -> Option<Rebuild> {
        self.node.layer.status().rebuild()
    }

    fn scrub(&self) -> Option<Scrub> {
        self.node.layer.status().scrub()
    }

    fn member_faults(&self) -> u64 {
        self.node.layer.status().member_faults()
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        self.node.stats()
    }

    fn accounts(&self, each: &mut dyn FnMut(&Account)) {
        self.node.devices.iter().for_each(|device| device.status().accounts(each));
    }
}
