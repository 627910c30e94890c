//! Two devices end to end: a volume whose first blocks lie on one device and whose last blocks lie
//! on another one, such as the log of a file system.
//!
//! A request that crosses the join is two requests below, and is answered when both are. A flush
//! flushes both devices. The layer keeps no order between the devices: a write to one that has
//! completed says nothing about the other. It promises no more than a plain disk.

use crate::data::Data;
use crate::device::Device;
use crate::edge::Edge;
use crate::io::{Done, Expected, Io, IoError, Labels, Op, Part, Tag};
use crate::layer::{Cx, Layer, Limits, Port, Status};
use crate::nested::Nested;
use crate::node::Node;
use crate::planted::{PlantedBug, planted};
use crate::request_table::{RequestNr, RequestTable};
use crate::units::{BLOCK_SECTORS, BlockNr, Time};
use slab::Slab;
use smallvec::SmallVec;
use std::sync::Arc;

/// The port of the device with the first blocks, and that of the device with the last ones.
const PORTS: [Port; 2] = [0, 1];

/// A request below.
#[derive(Clone, Copy, Debug)]
struct Piece {
    request: RequestNr,
    op: Op,
    /// It is durable only after a flush that follows it.
    is_forced: bool,
}

/// The first half of a read that crosses the join, and the second.
type Halves = [Option<Data>; 2];

/// A volume and a device behind it, the first `blocks` of each, as one volume.
pub fn join(volume: Node, behind: Box<dyn Device>, blocks: [u64; 2], seed: u64) -> Node {
    let mut sides = [Side::of_volume(&volume), Side::of(&*behind)];
    sides.iter_mut().zip(blocks).for_each(|(side, most)| side.blocks = side.blocks.min(most));
    let devices = vec![Box::new(Nested::new(volume)) as Box<dyn Device>, behind];
    Node::new(Box::new(Joined::new(sides)), devices, seed)
}

/// The volume.
#[derive(Clone, Debug)]
pub struct Joined {
    /// Blocks of each device.
    sizes: [u64; 2],
    volatile: [bool; 2],
    parts: bool,
    limits: Limits,
    requests: RequestTable,
    pieces: Slab<Piece>,
    /// What reads that cross the join have found. There are few, so a list does.
    reads: Vec<(RequestNr, Halves)>,
}

/// One device of a joined volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Its blocks.
    pub blocks: u64,
    /// It has a volatile cache.
    pub volatile: bool,
    /// It takes writes of parts of blocks.
    pub takes_parts: bool,
    /// What it promises, if it is a volume of its own.
    pub limits: Limits,
}

impl Side {
    /// A device as it is.
    pub fn of(device: &dyn Device) -> Side {
        Side {
            blocks: device.blocks(),
            volatile: device.volatile(),
            takes_parts: device.status().takes_parts(),
            limits: Limits::default(),
        }
    }

    /// A volume, which is the device that [`Nested`](crate::nested::Nested) makes of it.
    pub fn of_volume(node: &Node) -> Side {
        Side {
            blocks: node.layer.blocks(),
            volatile: node.devices.iter().any(|device| device.volatile()),
            takes_parts: node.takes_parts(),
            limits: node.layer.status().limits(),
        }
    }
}

impl Joined {
    /// The volume of two devices, in the order of their ports.
    pub fn new(sides: [Side; 2]) -> Joined {
        Joined {
            sizes: sides.map(|side| side.blocks),
            volatile: sides.map(|side| side.volatile),
            parts: sides.iter().all(|side| side.takes_parts),
            limits: Limits {
                // A request that crosses the join is two.
                whole_blocks: 1,
                may_be_full: sides.iter().any(|side| side.limits.may_be_full),
                reports_early: sides.iter().any(|side| side.limits.reports_early),
            },
            requests: RequestTable::new(false),
            pieces: Slab::new(),
            reads: Vec::new(),
        }
    }

    /// The first block of the second device.
    pub fn join(&self) -> BlockNr {
        self.sizes[0]
    }

    fn send(&mut self, request: RequestNr, port: Port, mut io: Io, cx: &mut Cx<'_>) {
        let is_forced = io.fua && self.volatile[port] && io.op != Op::Flush;
        let piece = Piece { request, op: io.op, is_forced };
        io.tag = self.pieces.insert(piece) as Tag;
        cx.send(port, io);
    }

    /// Keeps what a piece of a read has found, and gives it to the request when it is whole.
    fn found(&mut self, request: RequestNr, port: Port, data: Data) {
        let Some(index) = self.reads.iter().position(|one| one.0 == request) else {
            return self.requests.found(request, data);
        };
        self.reads[index].1[port] = Some(data);
        if let (_, [Some(first), Some(second)]) = &mut self.reads[index] {
            let mut all = std::mem::replace(first, Data::none());
            all.append(std::mem::replace(second, Data::none()));
            self.requests.found(request, all);
        }
    }

    fn failed_piece(&mut self, piece: Piece, port: Port, error: IoError, cx: &mut Cx<'_>) {
        let error = match error {
            IoError::Media { block } if port == 1 => {
                IoError::Media { block: block + self.sizes[0] }
            }
            IoError::Checksum { block } if port == 1 => {
                IoError::Checksum { block: block + self.sizes[0] }
            }
            other => other,
        };
        self.requests.fail(piece.request, error);
        // A change that finds no room has not happened. A flush that finds none has lost what it
        // was to cover.
        let is_full = piece.op != Op::Flush && error == IoError::NoSpace;
        if piece.op != Op::Read && !is_full {
            self.requests.fail_volume(error, cx);
        }
    }
}

/// Cuts a request behind its first `count` blocks.
fn cut(io: &Io, count: u32) -> [Io; 2] {
    let halves = [(0, count), (count, io.count - count)];
    halves.map(|(from, count)| Io {
        at: io.at + u64::from(from),
        count,
        part: io.part.map(|part| part_of(part, from, count)),
        data: if io.data.is_empty() { Data::none() } else { io.data.slice(from, count) },
        labels: io.labels.as_ref().map(|labels| labels_of(labels, from, count)),
        expected: io.expected.as_ref().map(|expected| expected_of(expected, from, count)),
        ..io.clone()
    })
}

fn part_of(part: Part, from: u32, count: u32) -> Part {
    let block = BLOCK_SECTORS as u32;
    let (start, end) = (from * block, (from + count) * block);
    let first = part.first.max(start);
    Part { first: first - start, sectors: part.end().min(end) - first }
}

fn range(from: u32, count: u32) -> std::ops::Range<usize> {
    from as usize..(from + count) as usize
}

fn labels_of(labels: &Labels, from: u32, count: u32) -> Labels {
    Arc::new(SmallVec::from_slice(&labels[range(from, count)]))
}

fn expected_of(expected: &Expected, from: u32, count: u32) -> Arc<Expected> {
    let each = SmallVec::from_slice(&expected.each[range(from, count)]);
    Arc::new(Expected { sums: expected.sums, each })
}

impl Layer for Joined {
    fn blocks(&self) -> u64 {
        self.sizes[0] + self.sizes[1]
    }

    fn submit(&mut self, io: Io, cx: &mut Cx<'_>) {
        let join = self.join();
        let end = io.at + u64::from(io.count);
        let crosses = io.op != Op::Flush && io.at < join && end > join;
        let pieces = if io.op == Op::Flush || crosses { 2 } else { 1 };
        let Some(request) = self.requests.begin(&io, pieces, cx) else { return };
        if io.op == Op::Flush {
            return PORTS.into_iter().for_each(|port| self.send(request, port, io.clone(), cx));
        }
        if crosses {
            if io.op == Op::Read {
                self.reads.push((request, [None, None]));
            }
            let [first, mut second] = cut(&io, (join - io.at) as u32);
            second.at = 0;
            self.send(request, 0, first, cx);
            return self.send(request, 1, second, cx);
        }
        if io.at < join {
            return self.send(request, 0, io, cx);
        }
        let at = io.at - join;
        self.send(request, 1, Io { at, ..io }, cx);
    }

    fn complete(&mut self, port: Port, done: Done, cx: &mut Cx<'_>) {
        let mut piece = self.pieces.remove(done.tag as usize);
        self.requests.spend(piece.request, &done.spent);
        match done.outcome {
            Ok(_) if piece.is_forced => {
                piece = Piece { op: Op::Flush, is_forced: false, ..piece };
                let tag = self.pieces.insert(piece) as Tag;
                return cx.send(port, Edge::ForcedWriteFlush.flush(tag));
            }
            Ok(data) if piece.op == Op::Read => self.found(piece.request, port, data),
            // A flush that was on its way when another one failed proves nothing.
            Ok(_) => {
                if let Some(error) = self.requests.failed()
                    && !planted(PlantedBug::OtherFlushTrusted)
                {
                    self.requests.fail(piece.request, error);
                }
            }
            Err(error) => self.failed_piece(piece, port, error, cx),
        }
        let request = piece.request;
        let is_other = |other: &Piece| other.request == request;
        let is_last = !self.pieces.iter().any(|(_, other)| is_other(other));
        if is_last {
            self.reads.retain(|one| one.0 != request);
        }
        self.requests.part_done(request, cx);
    }

    fn pump(&mut self, _cx: &mut Cx<'_>) {
        // There is no state that a clean shutdown would have to write.
        if self.requests.must_leave_clean() {
            self.requests.end_shutdown();
        }
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn stop(&mut self, _cx: &mut Cx<'_>) {
        self.requests.ask_shutdown();
    }

    fn stopped(&self) -> bool {
        self.requests.is_shut_down()
    }

    fn failed(&self) -> Option<IoError> {
        self.requests.failed()
    }

    fn status(&self) -> &dyn Status {
        self
    }
}

impl Status for Joined {
    fn check(&self) {
        self.requests.check();
    }

    fn takes_parts(&self) -> bool {
        self.parts
    }

    fn limits(&self) -> Limits {
        self.limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::medium::Cells;
    use crate::device::ram::Ram;
    use bytes::Bytes;

    const SIZES: [u64; 2] = [16, 8];

    fn side(blocks: u64, volatile: bool) -> Side {
        Side { blocks, volatile, takes_parts: true, limits: Limits::default() }
    }

    fn node(volatile: bool) -> Node {
        let sides = SIZES.map(|blocks| side(blocks, volatile));
        let device = |blocks| -> Box<dyn Device> {
            let cells = Box::new(Cells::new(blocks));
            Box::new(if volatile { Ram::volatile(cells) } else { Ram::new(cells) })
        };
        Node::new(Box::new(Joined::new(sides)), SIZES.map(device).into(), 1)
    }

    fn blocks(count: u8) -> Data {
        let bytes: Vec<u8> = (0..count).flat_map(|fill| [fill + 1; 4096]).collect();
        Data::bytes(Bytes::from(bytes))
    }

    #[test]
    fn each_range_reads_what_was_written_there() {
        let mut node = node(false);
        let mut now = 0;
        let mut model = vec![0_u8; 24 * 4096];
        for at in 0..24_u64 {
            for count in 1..=(24 - at).min(5) {
                let data = blocks(count as u8);
                let bytes = data.to_bytes();
                node.run(&mut now, Io::write(0, at, data)).expect("it is written");
                model[at as usize * 4096..][..bytes.len()].copy_from_slice(&bytes);
                let all = node.run(&mut now, Io::read(0, 0, 24)).expect("it is read");
                assert_eq!(all.to_bytes(), model, "{count} blocks at {at}");
            }
        }
    }

    #[test]
    fn a_part_across_the_join_changes_its_sectors_only() {
        let mut node = node(false);
        let mut now = 0;
        assert!(node.takes_parts());
        let part = Part { first: 6, sectors: 5 };
        node.run(&mut now, Io::write(0, 15, blocks(2)).of_part(part)).expect("it is written");
        let found = node.run(&mut now, Io::read(0, 14, 4)).expect("it is read").to_bytes();
        let wanted = |sector: usize| match sector {
            14..16 => 1,
            16..19 => 2,
            _ => 0,
        };
        for (sector, bytes) in found.chunks_exact(512).enumerate() {
            assert!(bytes.iter().all(|&byte| byte == wanted(sector)), "sector {sector}");
        }
    }

    #[test]
    fn an_error_names_the_block_of_the_volume() {
        let sides = SIZES.map(|blocks| side(blocks, false));
        let device = |blocks| -> Box<dyn Device> {
            let mut cells = Cells::new(blocks);
            cells.lose(3);
            Box::new(Ram::new(Box::new(cells)))
        };
        let mut node = Node::new(Box::new(Joined::new(sides)), SIZES.map(device).into(), 1);
        let mut read = |at, count| node.run(&mut 0, Io::read(0, at, count)).err();
        assert_eq!(read(0, 5), Some(IoError::Media { block: 3 }));
        assert_eq!(read(14, 8), Some(IoError::Media { block: 19 }), "of the second device");
        assert_eq!(read(14, 4), None, "the rest can be read");
    }

    #[test]
    fn a_flush_and_a_forced_write_reach_both_devices() {
        let mut node = node(true);
        let mut now = 0;
        let flushes = |node: &Node| PORTS.map(|port| node.traffic()[port].flushes);
        node.run(&mut now, Io::flush(0)).expect("both are flushed");
        assert_eq!(flushes(&node), [1, 1]);
        node.run(&mut now, Io::write(0, 15, blocks(2)).with_fua()).expect("it is durable");
        assert_eq!(flushes(&node), [2, 2]);
        node.run(&mut now, Io::write(0, 16, blocks(1)).with_fua()).expect("it is durable");
        assert_eq!(flushes(&node), [2, 3]);
    }
}
