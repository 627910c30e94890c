//! A node as a device: what lies below one layer may itself be a layer over devices, such as an
//! array under a layout.

use crate::account::Account;
use crate::device::{Device, DeviceStatus};
use crate::io::Rebuild;
use crate::io::{Done, Io, IoError};
use crate::node::Node;
use crate::units::Time;

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

    fn rebuild(&self) -> Option<Rebuild> {
        self.node.layer.status().rebuild()
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        self.node.stats()
    }

    fn accounts(&self, each: &mut dyn FnMut(&Account)) {
        self.node.devices.iter().for_each(|device| device.status().accounts(each));
    }
}
