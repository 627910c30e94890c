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

    /// The array: this, or what is below it.
    pub fn array(&mut self) -> Option<&mut Nested> {
        if self.node.layer.replaceable().is_some() {
            return Some(self);
        }
        let mut below = self.node.devices.iter_mut();
        below.find_map(|device| device.as_any()?.downcast_mut::<Nested>()?.array())
    }

    /// What the devices below say of themselves.
    fn below(&self) -> impl Iterator<Item = &dyn DeviceStatus> {
        self.node.devices.iter().map(|device| device.status())
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
        let asked = self.node.layer.upkeep(order, now);
        let below = self.node.devices.iter_mut();
        match asked {
            Err(UpkeepError::NoArray) => below
                .map(|device| device.upkeep(order, now))
                .find(|answer| *answer != Err(UpkeepError::NoArray))
                .unwrap_or(asked),
            answered => answered,
        }
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
        let own = std::iter::once(self.node.layer.status().failed_members());
        let below = self.below().map(|device| device.failed_members());
        own.chain(below).find(|failed| !failed.is_empty()).unwrap_or_default()
    }

    fn members(&self) -> Vec<Member> {
        let mut members = self.node.layer.status().members();
        for (member, traffic) in members.iter_mut().zip(self.node.traffic()) {
            member.traffic = *traffic;
        }
        members.extend(self.below().flat_map(|device| device.members()));
        members
    }

    fn rebuild(&self) -> Option<Rebuild> {
        self.node.layer.status().rebuild().or_else(|| self.below().find_map(|one| one.rebuild()))
    }

    fn scrub(&self) -> Option<Scrub> {
        self.node.layer.status().scrub().or_else(|| self.below().find_map(|one| one.scrub()))
    }

    fn member_faults(&self) -> u64 {
        let below: u64 = self.below().map(|device| device.member_faults()).sum();
        self.node.layer.status().member_faults() + below
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        self.node.stats()
    }

    fn accounts(&self, each: &mut dyn FnMut(&Account)) {
        self.node.devices.iter().for_each(|device| device.status().accounts(each));
    }
}
