//! Update in place: block `b` of the volume lies at device block `HEADER_BLOCKS + b`, always.
//!
//! The baseline that every other layout is compared with, and a plain disk for those who want one.
//! It keeps no map, hence no checksums, and it promises no more atomicity than the device gives.

use crate::descriptor::Descriptor;
use crate::salvage::{Finder, Located, Stored};
use seekless_engine::checksum::Sums;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::io::{Done, Io, IoError, Op, Outcome, Tag};
use seekless_engine::layer::{Cx, Layer, Port, Status};
use seekless_engine::layout::Promises;
use seekless_engine::layout::{
    CheckReport, FormatOptions, Layout, LayoutError, MountOptions, RecoverySteps,
};
use seekless_engine::options::Options;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::request_table::RequestTable;
use seekless_engine::superblock::Superblock;
use seekless_engine::units::{BlockNr, Time};
use std::fmt;

/// Blocks before the first client block: the superblock, and room so that client data starts at a
/// megabyte boundary of the device on large volumes.
pub fn header_blocks(device_blocks: u64) -> u64 {
    if device_blocks >= 64 * 256 { 256 } else { 1 }
}

/// What a command below is, in the upper half of its tag; the lower half is the request.
const REQUEST: Tag = (1 << 32) - 1;
const READ: Tag = 1 << 32;
const WRITE: Tag = 2 << 32;
const FLUSH: Tag = 4 << 32;
/// A write or trim that is durable only after a flush that follows it.
const FORCED: Tag = 8 << 32;

/// The layout.
#[derive(Clone, Debug)]
pub struct Inplace {
    blocks: u64,
    first: u64,
    volatile: bool,
    requests: RequestTable,
    blocks_written: u64,
}

impl Inplace {
    /// A volume of `blocks` blocks.
    pub fn new(superblock: &Superblock, volatile: bool) -> Inplace {
        Inplace {
            blocks: superblock.blocks,
            first: header_blocks(superblock.device_blocks),
            volatile,
            requests: RequestTable::new(false),
            blocks_written: 0,
        }
    }

    /// What becomes of a request whose command has this outcome.
    fn judge(&mut self, tag: Tag, outcome: Outcome, cx: &mut Cx<'_>) -> Outcome {
        if tag & READ != 0 {
            return outcome;
        }
        if let Some(wrong) = misjudged(tag, &outcome) {
            return wrong;
        }
        // What the rules of a shingled disk refuse has not happened, and ends nothing; nor does a
        // change that finds no room. A flush that finds none has lost what it was to cover.
        let full = tag & FLUSH == 0 && matches!(outcome, Err(IoError::NoSpace));
        if let Err(error) = outcome
            && !full
            && !matches!(error, IoError::Zone { .. })
        {
            self.requests.fail_volume(error, cx);
        }
        // A flush that was on its way when another one failed proves nothing: the device may have
        // dropped what the failed one was to cover, and part of it was this one's as well.
        match self.requests.failed() {
            Some(error) => Err(error),
            None => outcome,
        }
    }
}

/// What becomes of a request whose command has this outcome if a bug is planted.
fn misjudged(tag: Tag, outcome: &Outcome) -> Option<Outcome> {
    match outcome {
        Err(error) if tag & FLUSH != 0 && planted(PlantedBug::FlushRetried) => Some(Err(*error)),
        Err(_) if tag & WRITE != 0 && planted(PlantedBug::ErrorSwallowed) => Some(Ok(Data::none())),
        Ok(data) if planted(PlantedBug::OtherFlushTrusted) => Some(Ok(data.clone())),
        _ => None,
    }
}

impl Layer for Inplace {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn submit(&mut self, mut io: Io, cx: &mut Cx<'_>) {
        let Some(request) = self.requests.accept_whole(&io, cx) else { return };
        io.tag = request as Tag
            | match io.op {
                Op::Read => READ,
                Op::Write => WRITE,
                Op::Flush => FLUSH,
                Op::Trim => 0,
            };
        let forgotten = io.op == Op::Trim && planted(PlantedBug::ForcedTrimForgotten);
        if io.fua && self.volatile && !forgotten {
            io.tag |= FORCED;
        }
        if io.op == Op::Write {
            self.blocks_written += u64::from(io.count);
        }
        if io.op != Op::Flush {
            io.at += self.first;
        }
        cx.send(0, io);
    }

    fn complete(&mut self, _port: Port, done: Done, cx: &mut Cx<'_>) {
        let request = (done.tag & REQUEST) as usize;
        self.requests.spend_whole(request, &done.spent);
        let outcome = self.judge(done.tag, done.outcome, cx);
        // On a device with a volatile cache a forced write is durable only after a flush.
        if done.tag & FORCED != 0 && outcome.is_ok() {
            return cx.send(0, Edge::ForcedWriteFlush.flush(done.tag & !FORCED | FLUSH));
        }
        let outcome = outcome.map_err(|error| match error {
            IoError::Media { block } => IoError::Media { block: block.saturating_sub(self.first) },
            other => other,
        });
        self.requests.answer_whole(request, outcome, cx);
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

impl Status for Inplace {
    fn check(&self) {
        self.requests.check();
    }

    fn in_place(&self) -> Option<BlockNr> {
        Some(self.first)
    }

    fn takes_parts(&self) -> bool {
        true
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("client_blocks_written", self.blocks_written as f64),
            ("device_blocks_written", self.blocks_written as f64),
        ]
    }
}

/// Where blocks lie: nothing of it can be damaged.
#[derive(Debug)]
struct Places {
    first: BlockNr,
}

impl Finder for Places {
    fn find(&self, block: BlockNr) -> Located {
        let place = self.first + block;
        Located::Stored(Stored { place, sum: None, escaped: false })
    }
}

/// What it is to those who choose.
pub const DESCRIPTOR: Descriptor = Descriptor {
    number: 1,
    name: "inplace",
    summary: "update in place: a block has one fixed place, as on a plain disk",
    promises: Promises {
        atomic: false,
        ordered: false,
        checked: false,
        immediate: true,
        elsewhere: false,
    },
    adds_no_writes: true,
    planted_bugs: &PlantedBug::INPLACE,
    salvage: |_, superblock| {
        Ok(Box::new(Places { first: header_blocks(superblock.device_blocks) }))
    },
    ..Descriptor::of::<Inplace>()
};

impl Layout for Inplace {
    const MOST_DEVICE_BLOCKS: u64 = 1 << 52;

    fn device_blocks(logical: u64, _options: &Options) -> u64 {
        let small = logical + 2;
        if header_blocks(small) == 1 { small } else { logical + 257 }
    }

    fn largest_volume(device: u64) -> u64 {
        device.saturating_sub(header_blocks(device) + 1)
    }

    fn format(disk: &mut dyn Disk, options: &FormatOptions) -> Result<(), LayoutError> {
        let device = disk.blocks();
        let superblock = Superblock {
            layout: options.layout,
            version: Superblock::version_for(Sums::Crc, 1),
            id: options.id,
            blocks: options.blocks,
            device_blocks: device,
            options: 0,
            // There is none.
            sums: Sums::Crc,
        };
        superblock.write(disk)?;
        disk.flush_for(Edge::InplaceFormatFlush)?;
        Ok(())
    }

    fn mount(
        _disk: &mut dyn Disk,
        superblock: &Superblock,
        options: &MountOptions<'_>,
        _steps: &mut RecoverySteps,
    ) -> Result<Inplace, LayoutError> {
        Ok(Inplace::new(superblock, options.volatile))
    }

    fn check(&self, disk: &mut dyn Disk) -> Result<CheckReport, LayoutError> {
        let mut report = CheckReport::default();
        let end = self.first + self.blocks;
        let mut at = self.first;
        let mut read = 0;
        while let Some(start) = disk.next_data(at).filter(|&block| block < end) {
            let count = (end - start).min(256) as u32;
            if disk.is_asked(start, count)
                && let Err(error) = disk.read(start, count)
            {
                report.problems.push(format!("blocks {}+{count}: {error}", start - self.first));
            }
            read += u64::from(count);
            at = start + u64::from(count);
        }
        report.facts.push(("blocks read", read.to_string()));
        Ok(report)
    }

    fn dump(&self, _disk: &mut dyn Disk, out: &mut dyn fmt::Write) -> Result<(), LayoutError> {
        writeln!(out, "inplace: block b of the volume is block {} + b of the device", self.first)
            .map_err(|_| LayoutError::Damaged("cannot print".into()))
    }
}
