//! Watches what a file system asks of its volume: how many requests for what, how large, and how
//! long each took.
//!
//! [`watch`] puts a layer around that of a node. It hands everything on, and counts each request
//! when it is answered: its response time is queueing and service together, as a driver of an
//! operating system sees it.

use crate::histogram::{Latencies, LatencyMs};
use seekless_engine::io::{Io, Op, Purpose, Tag};
use seekless_engine::layer::{Cx, Layer};
use seekless_engine::middleware::LayerAround;
use seekless_engine::node::Node;
use seekless_engine::shared::Shared;
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Response times for which reports show the share of shorter ones, in milliseconds.
const BOUNDS_MS: [f64; 7] = [1.0, 5.0, 10.0, 25.0, 50.0, 150.0, 1500.0];

/// What a request is for: its purpose, its kind, and whether its answer says that it is durable.
type Cause = (Purpose, Op, bool);

/// Requests that were answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    reads: Latencies,
    writes: Latencies,
    causes: Vec<(Cause, Count)>,
    write_sizes: BTreeMap<u64, u64>,
}

/// Requests and the bytes that they moved.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    requests: u64,
    bytes: u64,
}

/// A request in flight.
#[derive(Debug)]
struct Sent {
    cause: Cause,
    bytes: u64,
    at: Time,
}

/// Requests of one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// Their purpose and kind: `"metadata writes, durable"`.
    pub cause: String,
    /// How many.
    pub requests: u64,
    /// Bytes that they moved.
    pub bytes: u64,
}

/// Response times of reads or of writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResponseTimes {
    /// How many.
    pub requests: u64,
    /// Summary.
    pub latency_ms: LatencyMs,
    /// Share of those that took less than so many milliseconds.
    pub shorter: Vec<Shorter>,
}

/// A point of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shorter {
    /// Milliseconds.
    pub than_ms: f64,
    /// Share of the requests that took less.
    pub share: f64,
}

/// What a file system asked of its volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Responses {
    /// Reads.
    pub reads: ResponseTimes,
    /// Writes.
    pub writes: ResponseTimes,
    /// All requests by cause.
    pub causes: Vec<Requests>,
    /// Number of writes by their size in bytes.
    pub write_sizes: BTreeMap<u64, u64>,
}

/// The counts, shared by the layer and the run that reads them.
pub(super) type SharedSeen = Shared<Seen>;

/// A node whose requests are counted, and the counts.
pub(super) fn watch(node: Node) -> (Node, SharedSeen) {
    let seen = SharedSeen::default();
    let shared = seen.clone();
    let wrap = |inner| Box::new(Watch { inner, sent: BTreeMap::new(), seen: shared }) as _;
    (node.with_layer(wrap), seen)
}

/// The counts since they were last taken.
pub(super) fn take(seen: &SharedSeen) -> Seen {
    std::mem::take(&mut *seen.lend())
}

impl Seen {
    fn record(&mut self, sent: &Sent, now: Time) {
        let latency = now - sent.at;
        match sent.cause.1 {
            Op::Read => self.reads.record_ns(latency),
            Op::Write => {
                self.writes.record_ns(latency);
                *self.write_sizes.entry(sent.bytes).or_default() += 1;
            }
            Op::Flush | Op::Trim => {}
        }
        let at = match self.causes.iter().position(|one| one.0 == sent.cause) {
            Some(at) => at,
            None => {
                self.causes.push((sent.cause, Count::default()));
                self.causes.len() - 1
            }
        };
        let count = &mut self.causes[at].1;
        count.requests += 1;
        count.bytes += sent.bytes;
    }

    /// As a report.
    pub fn report(&self) -> Responses {
        let mut causes = self.causes.clone();
        causes.sort_by_key(|((purpose, op, durable), _)| (*purpose as usize, *op as u8, *durable));
        let requests = |&(cause, Count { requests, bytes }): &(Cause, Count)| Requests {
            cause: name(cause),
            requests,
            bytes,
        };
        Responses {
            reads: times(&self.reads),
            writes: times(&self.writes),
            causes: causes.iter().map(requests).collect(),
            write_sizes: self.write_sizes.clone(),
        }
    }
}

fn times(latencies: &Latencies) -> ResponseTimes {
    let shorter = |than_ms| Shorter { than_ms, share: latencies.share_below_ms(than_ms) };
    ResponseTimes {
        requests: latencies.count(),
        latency_ms: latencies.latency_ms(),
        shorter: BOUNDS_MS.map(shorter).to_vec(),
    }
}

fn name((purpose, op, durable): Cause) -> String {
    let durable = if durable { ", durable" } else { "" };
    match op {
        Op::Read => format!("{} reads", purpose.name()),
        Op::Write => format!("{} writes{durable}", purpose.name()),
        Op::Flush => "flushes".to_owned(),
        Op::Trim => format!("{} trims{durable}", purpose.name()),
    }
}

/// The layer.
#[derive(Debug)]
struct Watch {
    inner: Box<dyn Layer>,
    sent: BTreeMap<Tag, Sent>,
    seen: SharedSeen,
}

impl LayerAround for Watch {
    fn inner(&self) -> &dyn Layer {
        self.inner.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn Layer {
        self.inner.as_mut()
    }

    /// Counts what the layer has answered.
    fn run(&mut self, cx: &mut Cx<'_>, event: impl FnOnce(&mut dyn Layer, &mut Cx<'_>)) {
        let before = cx.above.len();
        event(self.inner.as_mut(), cx);
        for done in &cx.above[before..] {
            // A transaction is none of the requests that are counted.
            if let Some(sent) = self.sent.remove(&done.tag) {
                self.seen.lend().record(&sent, cx.now);
            }
        }
    }

    fn submit(&mut self, io: Io, cx: &mut Cx<'_>) {
        let bytes = match io.part {
            Some(part) => u64::from(part.sectors) * SECTOR_BYTES as u64,
            None => u64::from(io.count) * BLOCK_BYTES as u64,
        };
        let cause = (io.purpose, io.op, io.fua && io.op != Op::Read);
        self.sent.insert(io.tag, Sent { cause, bytes, at: cx.now });
        self.run(cx, |inner, cx| inner.submit(io, cx));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::data::Data;
    use seekless_engine::io::Part;
    use seekless_engine::io::{Done, IoError};
    use seekless_engine::layer::{Port, Status};
    use seekless_engine::units::MILLIS;

    /// A layer that answers each request when it is pumped at or after the time of its block.
    #[derive(Debug)]
    struct Late(Vec<Io>);

    impl Status for Late {
        fn takes_parts(&self) -> bool {
            true
        }
    }

    impl Layer for Late {
        fn blocks(&self) -> u64 {
            1000
        }

        fn submit(&mut self, io: Io, _cx: &mut Cx<'_>) {
            self.0.push(io);
        }

        fn complete(&mut self, _port: Port, _done: Done, _cx: &mut Cx<'_>) {}

        fn pump(&mut self, cx: &mut Cx<'_>) {
            let (due, later) =
                std::mem::take(&mut self.0).into_iter().partition(|io| io.at * MILLIS <= cx.now);
            self.0 = later;
            let due: Vec<Io> = due;
            due.iter().for_each(|io| cx.answer(Done::new(io.tag, Ok(Data::none()))));
        }

        fn deadline(&self) -> Option<Time> {
            self.0.iter().map(|io| io.at * MILLIS).min()
        }

        fn stop(&mut self, _cx: &mut Cx<'_>) {}

        fn stopped(&self) -> bool {
            true
        }

        fn failed(&self) -> Option<IoError> {
            None
        }

        fn status(&self) -> &dyn Status {
            self
        }
    }

    #[test]
    fn each_request_counts_from_its_submission_to_its_answer() {
        let (mut node, seen) = watch(Node::new(Box::new(Late(Vec::new())), Vec::new(), 1));
        node.submit(0, Io::read(1, 20, 1));
        node.submit(0, Io { fua: true, ..Io::write(2, 3, Data::zeros(1)) });
        let part = Some(Part { first: 2, sectors: 4 });
        let metadata = Purpose::Metadata;
        node.submit(0, Io { part, purpose: metadata, ..Io::write(3, 3, Data::zeros(1)) });
        let mut answers = Vec::new();
        while let Some(now) = node.next_event() {
            node.settle(now, &mut answers);
        }
        assert_eq!(answers.len(), 3);
        let report = take(&seen).report();
        assert_eq!((report.reads.requests, report.writes.requests), (1, 2));
        assert_eq!((report.reads.latency_ms.max, report.writes.latency_ms.max), (20.0, 3.0));
        let below = |times: &ResponseTimes| times.shorter.iter().map(|one| one.share).sum::<f64>();
        assert_eq!((below(&report.reads), below(&report.writes)), (4.0, 6.0));
        let causes: Vec<&str> = report.causes.iter().map(|one| one.cause.as_str()).collect();
        assert_eq!(causes, ["data reads", "data writes, durable", "metadata writes"]);
        assert_eq!(report.write_sizes, BTreeMap::from([(2048, 1), (4096, 1)]));
        assert_eq!(take(&seen).report().reads.requests, 0, "taken");
    }
}
