//! Reading a volume with a damaged log: what is certain, and which blocks are lost.
//!
//! What a missing record listed is in the log only, and the home location has older content: those
//! blocks are lost. The record behind it says which they are ([`Header::before`]). Without that,
//! all blocks are in doubt that no later record lists.

use super::super::format::{Areas, Entry, Header, escape};
use super::super::read::is_sum_of;
use super::super::table::ESCAPED;
use super::{Scan, first_addr, is_whole, recover, scan};
use crate::salvage::{Finder, Located, Stored};
use seekless_engine::checksum::{Identity, Sums};
use seekless_engine::data::Piece;
use seekless_engine::disk::Disk;
use seekless_engine::layout::{LayoutError, MountOptions, RecoverySteps};
use seekless_engine::superblock::Superblock;
use seekless_engine::units::BlockNr;
use std::collections::BTreeMap;

/// What the log says of a block of the volume.
#[derive(Clone, Copy, Debug)]
enum Known {
    Log(Stored),
    Home,
    /// Some missing record listed it, or may have. The newest content that was found is there.
    Lost(Option<Stored>),
}

/// A volume of which only what is certain is read.
#[derive(Debug)]
pub struct Salvage {
    areas: Areas,
    listed: BTreeMap<u32, Known>,
    /// A missing record may have listed any block.
    doubts_all: bool,
    damage: Vec<String>,
}

/// Finds out what is certain of a volume whose log is on the same device.
///
/// # Errors
/// If the log is on another device.
pub(in crate::dcd) fn open(
    disk: &mut dyn Disk,
    superblock: &Superblock,
) -> Result<Salvage, LayoutError> {
    let areas = super::own_areas(superblock)?;
    let id = superblock.identity();
    let (listed, damage) = (BTreeMap::new(), Vec::new());
    let mut salvage = Salvage { areas, listed, doubts_all: false, damage };
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let steps = &mut RecoverySteps::new(None);
    match recover(disk, areas, id, &options, steps) {
        Ok(recovered) => {
            let log = recovered.log;
            for block in log.table.listed(0, areas.blocks) {
                let Some(addr) = log.table.get(block) else { continue };
                let (sum, escaped) = (Some(log.table.sum(addr)), log.table.is(addr, ESCAPED));
                let stored = Stored { place: log.device_block(addr), sum, escaped };
                salvage.listed.insert(block, Known::Log(stored));
            }
        }
        Err(error) => {
            salvage.damage.push(error.to_string());
            salvage.replay(disk, id, steps);
        }
    }
    Ok(salvage)
}

impl Salvage {
    /// Does what the records say that are left.
    fn replay(&mut self, disk: &mut dyn Disk, id: Identity, steps: &mut RecoverySteps) {
        let found = scan(disk, &self.areas, id, steps);
        let Some(last) = last(&found, disk, &self.areas, steps) else {
            self.doubts_all = true;
            return;
        };
        let end = &found.records[&last];
        let tail = end.tail;
        if found.records.range(tail..last).any(|(_, header)| header.segment > end.segment) {
            // Only a forged log goes back.
            self.doubts_all = true;
            return;
        }
        for seq in tail..=last {
            match found.records.get(&seq) {
                Some(header) => self.apply(header),
                None => {
                    self.damage.push(format!("record {seq} of the log is unreadable"));
                    let next = found.records.get(&(seq + 1));
                    match next.and_then(|next| next.before.as_ref()) {
                        Some(listed) => listed.iter().for_each(|&block| self.lose(block)),
                        None => self.lose_all(),
                    }
                }
            }
        }
        // The youngest record may be where nothing can be read.
        let first = found.records.range(tail..).next().map(|(_, header)| header);
        let is_known = found.records.contains_key(&tail);
        if first.is_some_and(|first| self.is_end_unreadable(&found, first, is_known, last)) {
            self.damage.push("blocks behind the end of the log are unreadable".into());
            self.lose_all();
        }
    }

    /// True if a block cannot be read where a record behind the last one may be. `first` is the
    /// oldest record that counts, or the one behind it if that is missing.
    fn is_end_unreadable(&self, found: &Scan, first: &Header, is_known: bool, last: u64) -> bool {
        let Areas { segment, segments, .. } = self.areas;
        let end = &found.records[&last];
        let mut from = first.segment;
        if !is_known && end.segment + 2 < from + u64::from(segments) {
            // The missing one may be in the segment before.
            from = from.saturating_sub(1);
        }
        let all = self.areas.log_blocks();
        let start = from % u64::from(segments) * u64::from(segment);
        let used = (end.segment - from) * u64::from(segment);
        let used = used + u64::from(end.offset + 1 + end.data_blocks());
        found.unreadable.iter().any(|&addr| (u64::from(addr) + all - start) % all >= used)
    }

    fn lose(&mut self, block: u32) {
        let before = match self.listed.get(&block) {
            Some(Known::Log(stored)) => Some(*stored),
            Some(Known::Lost(before)) => *before,
            Some(Known::Home) | None => None,
        };
        self.listed.insert(block, Known::Lost(before));
    }

    fn lose_all(&mut self) {
        self.doubts_all = true;
        let all: Vec<u32> = self.listed.keys().copied().collect();
        all.into_iter().for_each(|block| self.lose(block));
    }

    fn apply(&mut self, header: &Header) {
        let mut addr = first_addr(header, &self.areas);
        for entry in &header.entries {
            let (block, known) = match *entry {
                Entry::Gone { block } => (block, Known::Home),
                Entry::Data { block, sum, escaped } => {
                    let place = self.areas.log_first + u64::from(addr);
                    addr += 1;
                    (block, Known::Log(Stored { place, sum: Some(sum), escaped }))
                }
            };
            self.listed.insert(block, known);
        }
    }

    /// The blocks that the log says something of.
    pub(super) fn in_log(&self) -> impl Iterator<Item = u32> + '_ {
        let is_there =
            |(&block, known): (&u32, &Known)| matches!(known, Known::Log(_)).then_some(block);
        self.listed.iter().filter_map(is_there)
    }

    fn home(&self, block: BlockNr) -> Located {
        let place = self.areas.origin_first + block;
        Located::Stored(Stored { place, sum: None, escaped: false })
    }
}

/// The last record that holds, though records before it may be missing: all that are not known to
/// be durable must be there, whole.
fn last(
    found: &Scan,
    disk: &mut dyn Disk,
    areas: &Areas,
    steps: &mut RecoverySteps,
) -> Option<u64> {
    let mut last = found.records.range(..=found.durable).next_back().map(|(&seq, _)| seq);
    let mut next = found.durable + 1;
    while let Some(header) = found.records.get(&next)
        && is_whole(header, disk, areas, steps)
    {
        last = Some(next);
        next += 1;
    }
    // What is behind a missing record states an older tail, and what is before that may be home.
    last.filter(|&last| last >= found.durable)
}

impl Finder for Salvage {
    fn find(&self, block: BlockNr) -> Located {
        match self.listed.get(&(block as u32)) {
            Some(Known::Log(stored)) => Located::Stored(*stored),
            Some(Known::Home) => self.home(block),
            Some(Known::Lost(_)) => Located::Lost,
            None if self.doubts_all => Located::Lost,
            None => self.home(block),
        }
    }

    fn find_stale(&self, block: BlockNr) -> Located {
        match self.listed.get(&(block as u32)) {
            Some(Known::Log(stored) | Known::Lost(Some(stored))) => Located::Stored(*stored),
            Some(Known::Home | Known::Lost(None)) | None => self.home(block),
        }
    }

    /// The checksum is that of the content before its first byte was inverted.
    fn content(&self, _sums: Sums, stored: Stored, piece: Piece) -> Option<Piece> {
        let piece = if stored.escaped { escape(&piece) } else { piece };
        let is_right = |sum| is_sum_of(self.areas.sums, sum, &piece);
        stored.sum.is_none_or(is_right).then_some(piece)
    }

    /// No copy of a block in the log can be told from others by this.
    fn expected(&self, _stored: Stored) -> Option<u32> {
        None
    }

    fn damage(&self) -> &[String] {
        &self.damage
    }
}
