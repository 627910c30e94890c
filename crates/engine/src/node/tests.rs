//! When the devices are asked for a clean shutdown.

use super::Node;
use crate::data::Data;
use crate::device::{Device, DeviceStatus};
use crate::io::{Done, Io, IoError};
use crate::layer::{Cx, Layer, Port, Status};
use crate::units::Time;

/// Answers after a while, and takes nothing once it was asked to stop.
#[derive(Debug, Default)]
struct Slow {
    due: Vec<(Time, Done)>,
    taken: u64,
    stopped: bool,
}

impl DeviceStatus for Slow {
    fn stats(&self) -> Vec<(&'static str, f64)> {
        vec![("taken", self.taken as f64)]
    }
}

impl Device for Slow {
    fn blocks(&self) -> u64 {
        8
    }

    fn submit(&mut self, now: Time, io: Io) {
        assert!(!self.stopped, "{io:?} after the end");
        self.taken += 1;
        self.due.push((now + 10, Done::new(io.tag, Ok(Data::none()))));
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        let (ready, later) =
            std::mem::take(&mut self.due).into_iter().partition(|one| one.0 <= now);
        self.due = later;
        let ready: Vec<(Time, Done)> = ready;
        done.extend(ready.into_iter().map(|one| one.1));
    }

    fn next_event(&self) -> Option<Time> {
        self.due.iter().map(|one| one.0).min()
    }

    fn volatile(&self) -> bool {
        true
    }

    fn status(&self) -> &dyn DeviceStatus {
        self
    }

    fn stop(&mut self, _now: Time) {
        self.stopped = true;
    }
}

/// A layer that has failed: it is at its end as soon as it is asked, but a record that it has
/// written before is still to be flushed.
#[derive(Debug, Default)]
struct Failed {
    stopped: bool,
    begun: bool,
}

impl Status for Failed {}

impl Layer for Failed {
    fn blocks(&self) -> u64 {
        8
    }

    fn submit(&mut self, io: Io, cx: &mut Cx<'_>) {
        cx.fail(io.tag, IoError::ReadOnly);
    }

    fn complete(&mut self, _port: Port, done: Done, cx: &mut Cx<'_>) {
        if done.tag == 1 {
            cx.send(0, Io::flush(2));
        }
    }

    fn pump(&mut self, cx: &mut Cx<'_>) {
        if !std::mem::replace(&mut self.begun, true) {
            cx.send(0, Io::write(1, 0, Data::zeros(1)));
        }
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn stop(&mut self, _cx: &mut Cx<'_>) {
        self.stopped = true;
    }

    fn stopped(&self) -> bool {
        self.stopped
    }

    fn failed(&self) -> Option<IoError> {
        Some(IoError::ReadOnly)
    }

    fn status(&self) -> &dyn Status {
        self
    }
}

#[test]
fn devices_stop_when_everything_is_answered() {
    let mut node = Node::new(Box::new(Failed::default()), vec![Box::new(Slow::default())], 1);
    let mut now: Time = 0;
    node.settle(now, &mut Vec::new());
    node.finish(&mut now);
    assert_eq!(node.stats(), [("taken", 2.0)]);
    assert_eq!(now, 20, "the flush was answered");
}

#[test]
fn a_device_that_nothing_is_in_flight_to_stops_at_once() {
    let layer = Failed { begun: true, ..Failed::default() };
    let mut node = Node::new(Box::new(layer), vec![Box::new(Slow::default())], 1);
    let mut now: Time = 0;
    node.finish(&mut now);
    assert_eq!((now, node.stopped()), (0, true));
}
