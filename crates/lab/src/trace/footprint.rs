//! Maps the sectors of a trace to blocks of a volume.

use super::{Action, Record};
use crate::workload::MAX_REQUEST_BLOCKS;
use seekless_engine::units::{BLOCK_SECTORS, BlockNr};
use serde::Serialize;
use std::collections::BTreeMap;

/// Blocks that stay side by side when a footprint is compacted (256 KiB): so sequential requests
/// stay sequential.
const CHUNK_BLOCKS: u64 = 64;

/// How addresses of the trace map to a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mapping {
    /// Chunks of 256 KiB in the order in which the trace uses them first: chunks that it never uses
    /// take no space.
    #[default]
    FirstTouch,
    /// Block by block at the same place; a device larger than the volume begins again at its start.
    Fold,
}

/// A run of blocks.
pub type Blocks = (BlockNr, u32);

/// The trace uses more chunks than the volume holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the trace touches more than the {volume} blocks of the volume; take a larger disk or a higher \
     utilisation, or fold the trace's device onto the volume"
)]
pub struct NoRoom {
    /// Blocks of the volume.
    pub volume: u64,
}

/// Counters of the mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Footprint {
    /// Blocks of the volume that the trace uses, in whole chunks; all blocks if folded.
    pub blocks: u64,
    /// Requests that were not aligned to blocks: reads and writes became larger, trims smaller.
    pub unaligned: u64,
    /// Requests that went beyond the end of the volume and were folded.
    pub folded: u64,
}

/// Maps sectors to blocks.
#[derive(Clone, Debug)]
pub struct Mapper {
    mapping: Mapping,
    volume: u64,
    chunk: u64,
    /// The place of each used chunk. Its size is that of the footprint, whatever the length of the
    /// trace.
    chunks: BTreeMap<u64, u64>,
    footprint: Footprint,
}

impl Mapper {
    /// Onto a volume of `volume` blocks, at least one.
    pub fn new(mapping: Mapping, volume: u64) -> Mapper {
        let blocks = if mapping == Mapping::Fold { volume } else { 0 };
        let footprint = Footprint { blocks, ..Footprint::default() };
        let chunk = CHUNK_BLOCKS.min(volume).max(1);
        Mapper { mapping, volume, chunk, chunks: BTreeMap::new(), footprint }
    }

    /// Its counters so far.
    pub fn footprint(&self) -> Footprint {
        self.footprint
    }

    /// The blocks of a record, appended to `runs`: none for a flush, or for a trim of less than a
    /// block. Runs are at most [`MAX_REQUEST_BLOCKS`] long.
    ///
    /// # Errors
    /// A footprint that the volume does not hold.
    pub fn map(&mut self, record: &Record, runs: &mut Vec<Blocks>) -> Result<(), NoRoom> {
        if record.action == Action::Flush {
            return Ok(());
        }
        let end = record.sector + record.sectors;
        let aligned =
            record.sector.is_multiple_of(BLOCK_SECTORS) && end.is_multiple_of(BLOCK_SECTORS);
        self.footprint.unaligned += u64::from(!aligned);
        // A partial read or write needs the whole block. A partial trim must not change the rest of
        // the block.
        let (first, last) = match record.action {
            Action::Trim => (record.sector.div_ceil(BLOCK_SECTORS), end / BLOCK_SECTORS),
            _ => (record.sector / BLOCK_SECTORS, end.div_ceil(BLOCK_SECTORS)),
        };
        match self.mapping {
            Mapping::FirstTouch => self.touch(first, last, runs),
            Mapping::Fold => {
                self.footprint.folded += u64::from(last > self.volume);
                self.fold(first, last, runs);
                Ok(())
            }
        }
    }

    fn touch(&mut self, first: u64, last: u64, runs: &mut Vec<Blocks>) -> Result<(), NoRoom> {
        let mut at = first;
        while at < last {
            let (chunk, offset) = (at / self.chunk, at % self.chunk);
            let count = (self.chunk - offset).min(last - at);
            let next = self.chunks.len() as u64;
            let place = *self.chunks.entry(chunk).or_insert(next);
            if (place + 1) * self.chunk > self.volume {
                return Err(NoRoom { volume: self.volume });
            }
            self.footprint.blocks = self.chunks.len() as u64 * self.chunk;
            push(runs, place * self.chunk + offset, count);
            at += count;
        }
        Ok(())
    }

    fn fold(&self, first: u64, last: u64, runs: &mut Vec<Blocks>) {
        let mut at = first;
        while at < last {
            let place = at % self.volume;
            let count = (self.volume - place).min(last - at);
            push(runs, place, count);
            at += count;
        }
    }
}

/// Appends a run, or extends the last one if it continues that.
pub(crate) fn push(runs: &mut Vec<Blocks>, mut at: BlockNr, mut count: u64) {
    let most = u64::from(MAX_REQUEST_BLOCKS);
    if let Some((start, length)) = runs.last_mut()
        && *start + u64::from(*length) == at
    {
        let joined = count.min(most - u64::from(*length));
        *length += joined as u32;
        at += joined;
        count -= joined;
    }
    while count > 0 {
        let part = count.min(most);
        runs.push((at, part as u32));
        at += part;
        count -= part;
    }
}
