//! What the log of a file system holds: sectors that recovery writes, space to be freed, orphans.
//!
//! A log with damage holds what lies in front of the damage. Whether that is good enough is up to
//! the caller: a mount that writes refuses it.

use super::patches::{Patches, kind};
use super::place::shape;
use crate::error::FsError;
use crate::ffs::offline::superblocks::{Found, load};
use crate::ffs::ondisk::format::{LOG_IN_USE, LogPlace, PolicyAdvice, SUPERBLOCK_AT, Superblock};
use crate::ffs::ondisk::geometry::Geometry;
use crate::log::window::{AHEAD, Window};
use seekless_engine::disk::Disk;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use seekless_fs::log::format::PAYLOAD;
use seekless_fs::log::group::{HEAD, RECORD_HEAD};
use seekless_fs::log::scan::{newest, scan_to_damage, superblock as log_superblock};
use seekless_fs::log::{
    GroupView, LogError, LogSuperblock, Lsn, Record, Redo, Ring, Scanned, Space,
};
use seekless_fs::policy::PolicyKind;
use seekless_fs::tx::Field;
use std::ops::Range;

/// Space of a record: fragments.
pub const FRAGMENTS: u8 = 0;

/// Groups that a sector of the log can hold at most.
const MOST_GROUPS: u64 = (PAYLOAD / (HEAD + RECORD_HEAD)) as u64;
/// What a log holds.
#[derive(Debug)]
pub struct Held {
    /// The blocks of the volume that the log has.
    pub range: Range<BlockNr>,
    /// The superblock of the log that counts. If none does, one from which an epoch may begin.
    pub superblock: LogSuperblock,
    /// The other superblock of the log is damaged.
    pub lacks_copy: bool,
    /// A number behind all sectors of the ring, and the newest epoch.
    pub newest: (u64, u32),
    /// Groups that count.
    pub groups: u64,
    /// Groups behind the last superblock of the log that do not count for that reason.
    pub unnamed: u64,
    /// What they make of sectors of the file system.
    pub patches: Patches,
    /// Space that is to be freed in the maps.
    pub intents: Vec<Space>,
    /// Inodes without a name.
    pub orphans: Vec<u32>,
    /// Why no more groups count, if the log is damaged.
    pub damage: Option<LogError>,
    /// Operations that are lost by that at most.
    pub lost: u64,
}

/// True if groups in the log may not be in place yet. A copy of the superblock does not know, so
/// the log tells.
pub fn may_hold_groups(found: &Found) -> bool {
    let Found { superblock, at, .. } = found;
    superblock.log.exists() && (superblock.incompatible & LOG_IN_USE != 0 || *at != SUPERBLOCK_AT)
}

/// Reads the log of a file system. `counts` is false if its groups are all in place, whatever the
/// log says: a volume that was unmounted may have been mounted without the log since.
///
/// # Errors
/// [`FsError::LogMissing`], [`FsError::Truncated`] and [`FsError::LogForeign`] if the log is not on
/// the volume; errors of the volume. Damage of the log is no error here.
pub fn read(disk: &mut dyn Disk, superblock: &Superblock, counts: bool) -> Result<Held, FsError> {
    let range = range(disk, superblock)?;
    let mut source = Window::new(disk, range.clone(), AHEAD);
    let held = read_range(&mut source, superblock, range, counts);
    match source.failed() {
        Some(error) => Err(error.into()),
        None => held,
    }
}

/// Reads what a log holds that is not in place; none if there is no such log.
///
/// # Errors
/// Those of [`read`] and of [`load`].
pub fn held_by(disk: &mut dyn Disk) -> Result<Option<Held>, FsError> {
    let found = load(disk)?;
    may_hold_groups(&found).then(|| read(disk, &found.superblock, true)).transpose()
}

/// The range of the log, which lies on the volume.
fn range(disk: &dyn Disk, superblock: &Superblock) -> Result<Range<BlockNr>, FsError> {
    let range = superblock.log_range()?;
    let range = range.ok_or_else(|| FsError::Damaged("it names no log".to_owned()))?;
    let blocks = disk.blocks();
    if range.end <= blocks {
        return Ok(range);
    }
    let bytes = |blocks: u64| blocks * BLOCK_BYTES as u64;
    Err(match superblock.log.kind {
        LogPlace::ELSEWHERE => FsError::LogMissing {
            needed: bytes(range.end - range.start),
            found: bytes(blocks.saturating_sub(range.start)),
        },
        _ => FsError::Truncated { needed: bytes(range.end), found: bytes(blocks) },
    })
}

fn read_range(
    source: &mut Window<'_>,
    superblock: &Superblock,
    range: Range<BlockNr>,
    counts: bool,
) -> Result<Held, FsError> {
    let shape = shape(&range);
    let id = superblock.log.id;
    let found = log_superblock(source, shape.blocks, superblock.id);
    let found = found.and_then(|found| match found.0.id == id {
        true => Ok(found),
        false => Err(LogError::NoLog),
    });
    let (log, lacks_copy) = match found {
        Ok(found) => found,
        Err(damage) => {
            // A device that has no sector of this log is the wrong one.
            let newest = newest(source, shape, id);
            if superblock.log.kind == LogPlace::ELSEWHERE && newest.0 == 0 {
                return Err(FsError::LogForeign(damage));
            }
            let [_, blank] = Ring::format(shape, id, superblock.id);
            let held = Held::empty(range, superblock, (blank, true), newest)?;
            return Ok(match counts {
                true => held.damaged(damage),
                false => held,
            });
        }
    };
    if log.clean && !lacks_copy {
        let newest = (log.durable.number(), log.epoch);
        return Held::empty(range, superblock, (log, lacks_copy), newest);
    }
    if !counts {
        let (next, epoch) = newest(source, shape, id);
        let newest = (next.max(log.durable.number()), epoch.max(log.epoch));
        return Held::empty(range, superblock, (log, lacks_copy), newest);
    }
    match scan_to_damage(source, shape.blocks, superblock.id) {
        Ok((scanned, damage)) => Held::of(range, superblock, &scanned, damage),
        Err(damage) => {
            // The superblocks of the epoch are lost: its groups cannot be told from older ones.
            let newest = newest(source, shape, id);
            Ok(Held::empty(range, superblock, (log, lacks_copy), newest)?.damaged(damage))
        }
    }
}

impl Held {
    /// A log without groups.
    fn empty(
        range: Range<BlockNr>,
        superblock: &Superblock,
        (log, lacks_copy): (LogSuperblock, bool),
        newest: (u64, u32),
    ) -> Result<Held, FsError> {
        let patches = Patches::new(superblock, Redo::default())?;
        Ok(Held {
            range,
            superblock: LogSuperblock { clean: true, ..log },
            lacks_copy,
            newest,
            groups: 0,
            unnamed: 0,
            patches,
            intents: Vec::new(),
            orphans: Vec::new(),
            damage: None,
            lost: 0,
        })
    }

    /// All groups are lost.
    fn damaged(mut self, damage: LogError) -> Held {
        self.damage = Some(damage);
        self.lost = self.superblock.shape.sectors() * MOST_GROUPS;
        self
    }

    fn of(
        range: Range<BlockNr>,
        superblock: &Superblock,
        scanned: &Scanned,
        damage: Option<LogError>,
    ) -> Result<Held, FsError> {
        let geometry = superblock.geometry()?;
        let mut groups = 0;
        let mut senseless: Option<Lsn> = None;
        let named = named_end(superblock, scanned);
        let counting = scanned.groups().take_while(|group| group.lsn() < named);
        let unnamed = scanned.groups().filter(|group| group.lsn() >= named).count() as u64;
        let sound = counting.take_while(|group| {
            let is_sound = is_sound(group, &geometry);
            match is_sound {
                true => groups += 1,
                false => senseless = Some(group.lsn()),
            }
            is_sound
        });
        let redo = Redo::read(sound, |space| bytes_of(space, &geometry));
        let redo = redo.expect("groups with senseless records are left out");
        let damage = match senseless {
            Some(at) => Some(LogError::Group { number: at.number(), offset: at.offset() }),
            None => damage,
        };
        let from = damage.map(|damage| match damage {
            LogError::Damaged { number, .. } | LogError::Group { number, .. } => number,
            _ => scanned.superblock.start.number(),
        });
        Ok(Held {
            range,
            superblock: scanned.superblock,
            lacks_copy: scanned.lacks_copy,
            newest: (scanned.next, scanned.epoch),
            groups,
            unnamed,
            intents: redo.intents().collect(),
            orphans: redo.orphans().collect(),
            patches: Patches::new(superblock, redo)?,
            damage,
            lost: from.map_or(0, |from| scanned.next.saturating_sub(from) * MOST_GROUPS),
        })
    }
}

/// Where the groups end that a superblock names, if only these count. With one superblock at hand
/// all of them do: the other one may have named more.
fn named_end(superblock: &Superblock, scanned: &Scanned) -> Lsn {
    let policy = superblock.mounted_with.map(PolicyAdvice::kind);
    match policy.is_some_and(PolicyKind::counts_named_only) && !scanned.lacks_copy {
        true => scanned.superblock.durable,
        false => Lsn(u64::MAX),
    }
}

/// True if the records of a group name what this file system has.
fn is_sound(group: &GroupView<'_>, geometry: &Geometry) -> bool {
    let Ok(records) = group.records() else { return false };
    let lies_in = |block: u32, at: u16, length: usize| {
        u64::from(block) < geometry.blocks() && usize::from(at) + length <= geometry.block_bytes()
    };
    records.iter().all(|record| match *record {
        Record::Bytes { seal, at, block, bytes } => {
            kind(seal).is_some() && lies_in(block, at, bytes.len())
        }
        Record::Fresh { seal, at, block, length } => {
            kind(seal).is_some() && lies_in(block, at, length.into())
        }
        Record::Free { what, first, count } | Record::Freed { what, first, count } => {
            let most = match what {
                FRAGMENTS => geometry.fragments(),
                _ => geometry.inodes(),
            };
            first.checked_add(count.into()).is_some_and(|end| end <= most)
        }
        Record::Orphan(inode) | Record::Adopted(inode) => inode < geometry.inodes(),
        Record::Checkpoint(_) => true,
        Record::Entry(_) | Record::Epoch { .. } => false,
    })
}

/// The bytes of space that was given up. An inode keeps its place in the table.
fn bytes_of((what, first, count): Space, geometry: &Geometry) -> Vec<Field> {
    if what != FRAGMENTS {
        return Vec::new();
    }
    let end = first + u32::from(count);
    let (mut fields, mut at) = (Vec::new(), first);
    while at < end {
        let per_block = geometry.fragments_per_block();
        let until = end.min((at / per_block + 1) * per_block);
        let place = geometry.place_of(at);
        let length = (until - at) as usize * geometry.fragment_bytes();
        fields.push(Field::new(place.block, place.at, length));
        at = until;
    }
    fields
}
