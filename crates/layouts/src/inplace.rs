//! Update in place: block `b` of the volume lies at device block `HEADER_BLOCKS + b`, always.
//!
//! The baseline that every other layout is compared with, and a plain disk for those who want one.
//! It keeps no map, hence no checksums, and it promises no more atomicity than the device gives.

use crate::descriptor::Descriptor;
use seekless_engine::checksum::Sums;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::io::{Breakdown, Done, Io, IoError, Op, Tag};
use seekless_engine::layer::{Cx, Layer, Port, Status};
use seekless_engine::layout::Promises;
use seekless_engine::layout::{
    CheckReport, FormatOptions, Layout, LayoutError, MountOptions, MountPath, MountReport,
};
use seekless_engine::options::Options;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::superblock::Superblock;
use seekless_engine::units::{BlockNr, Time};
use std::fmt;

/// Blocks before the first client block: the superblock, and room so that client data starts at a
/// megabyte boundary of the device on large volumes.
pub fn header_blocks(device_blocks: u64) -> u64 {
    if device_blocks >= 64 * 256 { 256 } else { 1 }
}

/// A request in flight below on behalf of one from above.
#[derive(Clone, Copy, Debug)]
enum Slot {
    Free { next: u32 },
    Busy { tag: Tag, op: Op, fua: bool, since: Time, spent: Breakdown },
}

const NONE: u32 = u32::MAX;

/// The layout.
#[derive(Clone, Debug)]
pub struct Inplace {
    blocks: u64,
    first: u64,
    volatile: bool,
    slots: Vec<Slot>,
    free: u32,
    busy: usize,
    stopping: bool,
    failed: Option<IoError>,
    blocks_written: u64,
}

impl Inplace {
    /// A volume of `blocks` blocks.
    pub fn new(superblock: &Superblock, volatile: bool) -> Inplace {
        Inplace {
            blocks: superblock.blocks,
            first: header_blocks(superblock.device_blocks),
            volatile,
            slots: Vec::new(),
            free: NONE,
            busy: 0,
            stopping: false,
            failed: None,
            blocks_written: 0,
        }
    }

    fn take_slot(&mut self, io: &Io, now: Time) -> Tag {
        self.busy += 1;
        let busy = Slot::Busy {
            tag: io.tag,
            op: io.op,
            fua: io.fua && self.volatile,
            since: now,
            spent: Breakdown::default(),
        };
        if self.free == NONE {
            self.slots.push(busy);
            return (self.slots.len() - 1) as Tag;
        }
        let slot = self.free;
        if let Slot::Free { next } = self.slots[slot as usize] {
            self.free = next;
        }
        self.slots[slot as usize] = busy;
        Tag::from(slot)
    }

    fn release_slot(&mut self, slot: Tag) {
        self.busy -= 1;
        self.slots[slot as usize] = Slot::Free { next: self.free };
        self.free = slot as u32;
    }
}

impl Layer for Inplace {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn submit(&mut self, mut io: Io, cx: &mut Cx<'_>) {
        if io.op != Op::Read
            && let Some(error) = self.failed
        {
            cx.fail(io.tag, if io.op == Op::Flush { error } else { IoError::ReadOnly });
            return;
        }
        if io.op == Op::Write {
            self.blocks_written += u64::from(io.count);
        }
        if io.op == Op::Flush && planted(PlantedBug::MissingFlush) {
            return cx.answer(Done::new(io.tag, Ok(Data::none())));
        }
        let slot = self.take_slot(&io, cx.now);
        io.tag = slot;
        if io.op != Op::Flush {
            io.at += self.first;
        }
        cx.send(0, io);
    }

    fn complete(&mut self, _port: Port, mut done: Done, cx: &mut Cx<'_>) {
        let Slot::Busy { tag, op, fua, since, mut spent } = self.slots[done.tag as usize] else {
            panic!("answer to request {} which is not in flight", done.tag);
        };
        spent.add(&done.spent);
        // What the rules of a shingled disk refuse has not happened, and ends nothing.
        if let Err(error) = done.outcome
            && op != Op::Read
            && !matches!(error, IoError::Zone { .. })
            && !planted(PlantedBug::ErrorForgotten)
            && !(op == Op::Flush && planted(PlantedBug::FlushRetried))
        {
            self.failed.get_or_insert(error);
        }
        // A flush that was on its way when another one failed proves nothing: what the failed one
        // was to cover may be gone, and part of it was this one's as well.
        if let Some(error) = self.failed
            && op != Op::Read
            && !planted(PlantedBug::OtherFlushTrusted)
        {
            done.outcome = Err(error);
        }
        if op == Op::Write && planted(PlantedBug::ErrorSwallowed) {
            done.outcome = Ok(Data::none());
        }
        // A write with forced unit access on a device with a volatile cache is durable only after
        // a flush that follows it.
        if fua && done.outcome.is_ok() && !planted(PlantedBug::AckBeforeDurable) {
            self.slots[done.tag as usize] = Slot::Busy { tag, op, fua: false, since, spent };
            cx.send(0, Io::flush(done.tag));
            return;
        }
        self.release_slot(done.tag);
        let outcome = done.outcome.map_err(|error| match error {
            IoError::Media { block } => IoError::Media { block: block.saturating_sub(self.first) },
            other => other,
        });
        cx.answer(Done { tag, outcome, spent: spent.within(cx.now - since) });
    }

    fn pump(&mut self, _cx: &mut Cx<'_>) {}

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn stop(&mut self, _cx: &mut Cx<'_>) {
        self.stopping = true;
    }

    fn stopped(&self) -> bool {
        self.stopping && self.busy == 0
    }

    fn failed(&self) -> Option<IoError> {
        self.failed
    }

    fn status(&self) -> &dyn Status {
        self
    }
}

impl Status for Inplace {
    fn in_place(&self) -> Option<BlockNr> {
        Some(self.first)
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("client_blocks_written", self.blocks_written as f64),
            ("device_blocks_written", self.blocks_written as f64),
        ]
    }
}

/// What it is to those who choose.
pub const DESCRIPTOR: Descriptor = Descriptor {
    number: 1,
    name: "inplace",
    summary: "update in place: a block has one fixed place, as on a plain disk",
    promises: Promises { atomic: false, ordered: false, checked: false, immediate: true },
    planted_bugs: &PlantedBug::INPLACE,
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
        disk.flush()?;
        Ok(())
    }

    fn mount(
        _disk: &mut dyn Disk,
        superblock: &Superblock,
        options: &MountOptions<'_>,
    ) -> Result<(Inplace, MountReport), LayoutError> {
        let report = MountReport {
            path: MountPath::Stateless,
            blocks_read: 1,
            commits_accepted: 0,
            commits_dropped: 0,
        };
        Ok((Inplace::new(superblock, options.volatile), report))
    }

    fn check(&self, disk: &mut dyn Disk) -> Result<CheckReport, LayoutError> {
        let mut report = CheckReport::default();
        let end = self.first + self.blocks;
        let mut at = self.first;
        let mut read = 0;
        while let Some(start) = disk.next_data(at).filter(|&block| block < end) {
            let count = (end - start).min(256) as u32;
            if let Err(error) = disk.read(start, count) {
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
