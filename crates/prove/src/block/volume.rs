//! A block volume as the prover drives it, and what can be read of it.

use crate::volume::Volume;
use seekless_engine::data::Data;
use seekless_engine::io::{Done, Io, IoError};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::units::Time;

impl Volume for Node {
    type Reply = Done;

    fn describe(&self) -> String {
        format!("a volume of {} blocks", self.layer.blocks())
    }

    fn next_event(&self) -> Option<Time> {
        Node::next_event(self)
    }

    fn settle(&mut self, now: Time, replies: &mut Vec<Done>) {
        Node::settle(self, now, replies);
    }

    fn stop(&mut self, now: Time) {
        Node::stop(self, now);
    }

    fn stopped(&self) -> bool {
        Node::stopped(self)
    }

    fn has_failed(&self) -> bool {
        self.layer.failed().is_some()
    }
}

/// Carries out one request alone.
///
/// # Errors
/// What the volume answers.
fn one(node: &mut Node, io: Io) -> Result<Data, IoError> {
    node.run(&mut 0, io)
}

/// Everything a volume reads as.
///
/// # Errors
/// Why it cannot be read.
pub fn read_all(node: &mut Node) -> Result<Data, IoError> {
    let blocks = node.layer.blocks();
    one(node, Io::read(0, 0, blocks as u32))
}

/// Everything a damaged volume reads as, with the ranges that are errors: `None`.
pub fn read_what_can_be(node: &mut Node) -> Vec<(u32, Option<Data>)> {
    let mut found = Vec::new();
    let blocks = node.layer.blocks() as u32;
    let mut todo = vec![(0, blocks)];
    while let Some((at, count)) = todo.pop() {
        match one(node, Io::read(0, u64::from(at), count)) {
            Ok(data) => found.push((count, Some(data))),
            Err(_) if count == 1 => found.push((1, None)),
            Err(_) => {
                let half = count / 2;
                todo.push((at + half, count - half));
                todo.push((at, half));
            }
        }
    }
    found
}

/// What does not work in a recovered volume: it must write, flush and read back.
pub fn exercise(node: &mut Node, rng: &mut Rng) -> Vec<String> {
    let blocks = node.layer.blocks();
    for round in 0..3 {
        let at = rng.below(blocks);
        let data = Data::stamp(1, u64::MAX / 2 + at, round + 1);
        let written = one(node, Io::write(1, at, data.clone()));
        let flushed = one(node, Io::flush(2));
        let read = one(node, Io::read(3, at, 1));
        if written == Err(IoError::NoSpace) && node.layer.status().limits().may_be_full {
            continue;
        }
        if written.is_err() || flushed.is_err() || read != Ok(data) {
            return vec![format!(
                "the recovered volume does not work at block {at}: write {written:?}, \
                 flush {flushed:?}, read {read:?}"
            )];
        }
    }
    Vec::new()
}
