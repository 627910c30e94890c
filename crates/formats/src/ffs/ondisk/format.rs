//! The superblock, and numbers that all structures share.
//!
//! The superblock is one sealed sector at byte 65,536. The metadata of groups 1, 3, 5 and 7 begins
//! with a copy.
//! `mkfs` and repair write the copies; mount and unmount write only the first one. So the state and
//! the times of a copy may be old, its sizes are not.

use crate::error::FsError;
use crate::ffs::ondisk::fields::{array_at, i64_at, put, u32_at};
use crate::ffs::ondisk::geometry::{Geometry, Sizes};
use crate::ffs::ondisk::seal::{SealKind, Sealer};
use bytes::Bytes;
use seekless_engine::units::{BLOCK_BYTES, BlockNr, SECTOR_BYTES};
use seekless_fs::log::format::LEAST_BLOCKS;
use seekless_fs::policy::PolicyKind;
use seekless_fs::tx::SECTOR_CONTENT;
use std::ops::Range;

/// The first bytes of a superblock.
pub const MAGIC: [u8; 8] = *b"SEEKFFS\n";
/// The version of the format that this program reads and writes.
pub const VERSION: u32 = 1;
/// Byte of the first superblock.
pub const SUPERBLOCK_AT: u64 = 65_536;
/// The block of the volume with the superblock.
pub const SUPERBLOCK_BLOCK: BlockNr = SUPERBLOCK_AT / BLOCK_BYTES as u64;
/// Groups whose metadata begins with a copy of the superblock.
pub const COPY_GROUPS: [u32; 4] = [1, 3, 5, 7];

/// Compatible feature: there are spare copies of the superblock outside of the groups.
pub const SPARE_COPIES: u32 = 1;
/// Incompatible feature: the log may hold groups. Set from a mount with a log to its clean unmount.
pub const LOG_IN_USE: u32 = 1;
/// Incompatible features that this program knows.
const KNOWN_INCOMPATIBLE: u32 = LOG_IN_USE;
/// Byte of the copy in the boot area.
pub const BOOT_COPY_AT: u64 = 32 << 10;

/// Inode of the log.
pub const LOG_INODE: u32 = 3;
/// The first inode that a file may have.
pub const FIRST_INODE: u32 = 4;
/// Links of an inode at most.
pub const MOST_LINKS: u16 = 65_000;

/// Addresses in a sector of an indirect block.
pub const SECTOR_ADDRESSES: usize = SECTOR_CONTENT / 4;
const _: () = assert!(SECTOR_ADDRESSES == 126 && SECTOR_ADDRESSES * 4 == SECTOR_CONTENT);
/// Bits in a sector of a bitmap. Bit *i* of a sector is bit *i* mod 8 of byte *i* / 8.
pub const SECTOR_BITS: u32 = SECTOR_CONTENT as u32 * 8;
const _: () = assert!(SECTOR_BITS == 4032);

/// Bytes of the label at most.
pub const MOST_LABEL: usize = 32;

/// Offset in a block of the address with this index, in an indirect block.
pub fn address_offset(index: usize) -> usize {
    index / SECTOR_ADDRESSES * SECTOR_BYTES + index % SECTOR_ADDRESSES * 4
}

/// How the file system was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// An unmount wrote everything.
    Clean = 1,
    /// It is mounted, or was when the power failed.
    InUse = 2,
    /// A mount met an error.
    Error = 3,
}

/// What must run before a mount when the file system is not clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Recovery {
    /// Nothing.
    None = 0,
    /// A check with repair.
    Fsck = 1,
    /// The log.
    Log = 2,
}

/// What the allocator prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Optimisation {
    /// To write a growing tail once: it gets a whole block.
    Time = 0,
    /// To waste no fragment.
    Space = 1,
}

/// The policy that orders writes. It is advice: a mount may choose another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)] // The names are those of the policies.
pub enum PolicyAdvice {
    Async = 0,
    Sync = 1,
    Soft = 2,
    LffsFile = 3,
    WafsSync1 = 4,
    WafsAsync1 = 5,
    WafsSync2 = 6,
    WafsAsync2 = 7,
    Atomic = 8,
    Unit = 9,
}

impl From<PolicyKind> for PolicyAdvice {
    fn from(kind: PolicyKind) -> PolicyAdvice {
        match kind {
            PolicyKind::Async => PolicyAdvice::Async,
            PolicyKind::Sync => PolicyAdvice::Sync,
            PolicyKind::Soft => PolicyAdvice::Soft,
            PolicyKind::LffsFile => PolicyAdvice::LffsFile,
            PolicyKind::Wafs1Sync => PolicyAdvice::WafsSync1,
            PolicyKind::Wafs1Async => PolicyAdvice::WafsAsync1,
            PolicyKind::Wafs2Sync => PolicyAdvice::WafsSync2,
            PolicyKind::Wafs2Async => PolicyAdvice::WafsAsync2,
            PolicyKind::Atomic => PolicyAdvice::Atomic,
            PolicyKind::Unit => PolicyAdvice::Unit,
        }
    }
}

impl PolicyAdvice {
    /// All policies, by number.
    pub const ALL: [PolicyAdvice; 10] = [
        PolicyAdvice::Async,
        PolicyAdvice::Sync,
        PolicyAdvice::Soft,
        PolicyAdvice::LffsFile,
        PolicyAdvice::WafsSync1,
        PolicyAdvice::WafsAsync1,
        PolicyAdvice::WafsSync2,
        PolicyAdvice::WafsAsync2,
        PolicyAdvice::Atomic,
        PolicyAdvice::Unit,
    ];

    /// The policy.
    pub fn kind(self) -> PolicyKind {
        match self {
            PolicyAdvice::Async => PolicyKind::Async,
            PolicyAdvice::Sync => PolicyKind::Sync,
            PolicyAdvice::Soft => PolicyKind::Soft,
            PolicyAdvice::LffsFile => PolicyKind::LffsFile,
            PolicyAdvice::WafsSync1 => PolicyKind::Wafs1Sync,
            PolicyAdvice::WafsAsync1 => PolicyKind::Wafs1Async,
            PolicyAdvice::WafsSync2 => PolicyKind::Wafs2Sync,
            PolicyAdvice::WafsAsync2 => PolicyKind::Wafs2Async,
            PolicyAdvice::Atomic => PolicyKind::Atomic,
            PolicyAdvice::Unit => PolicyKind::Unit,
        }
    }

    /// The name in options and messages.
    pub fn name(self) -> &'static str {
        self.kind().name()
    }
}

/// Where the log lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPlace {
    /// 0 none, [`LogPlace::AT_END`], [`LogPlace::ELSEWHERE`], [`LogPlace::IN_FILE`].
    pub kind: u8,
    /// Id of the log.
    pub id: u128,
    /// First fragment.
    pub first: u32,
    /// Fragments.
    pub fragments: u32,
}

impl LogPlace {
    /// The log lies at the end of the volume of the file system.
    pub const AT_END: u8 = 1;
    /// The log lies on a volume of its own, which is joined behind that of the file system.
    pub const ELSEWHERE: u8 = 2;
    /// The log is the file of [`LOG_INODE`], in one piece.
    pub const IN_FILE: u8 = 3;

    /// True if a policy that keeps a log can keep it here. A log in a file serves all policies with
    /// a log on the same volume, which may have no room behind its file system.
    pub fn serves(&self, policy: PolicyKind) -> bool {
        match self.kind {
            LogPlace::AT_END => !policy.has_own_log_volume() && !policy.has_log_in_file(),
            LogPlace::ELSEWHERE => policy.has_own_log_volume(),
            LogPlace::IN_FILE => !policy.has_own_log_volume(),
            _ => false,
        }
    }

    /// True if there is a log.
    pub fn exists(&self) -> bool {
        self.kind != 0
    }
}

/// The superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Features that a program may ignore.
    pub compatible: u32,
    /// Features with which a program that does not know them may only read.
    pub read_only: u32,
    /// Features with which a program that does not know them must refuse the mount.
    pub incompatible: u32,
    /// Identity of the file system, part of every seal.
    pub id: u128,
    /// Sizes, from which [`Geometry`] computes where things lie.
    pub sizes: Sizes,
    /// Percent of the data fragments that only root may allocate.
    pub minfree: u8,
    /// What the allocator prefers.
    pub optimisation: Optimisation,
    /// How the file system was left.
    pub state: State,
    /// What must run before a mount when it is not clean.
    pub recovery: Recovery,
    /// The policy to mount with if the user names none.
    pub policy: PolicyAdvice,
    /// The policy of the last mount for writing, if there was one.
    pub mounted_with: Option<PolicyAdvice>,
    /// Blocks of a cluster: allocation is contiguous, and output is joined, up to this length.
    pub maxcontig: u32,
    /// Blocks that one file may allocate in a group before it moves on.
    pub maxbpg: u32,
    /// Mounts for writing.
    pub mounts: u32,
    /// When it was made.
    pub made: i64,
    /// The last mount for writing.
    pub mounted: i64,
    /// The last write of the superblock.
    pub written: i64,
    /// Where the log lies.
    pub log: LogPlace,
    /// Name that the user gave it, without zero bytes.
    pub label: Vec<u8>,
}

const LABEL: usize = 136;
const STAGGER: usize = LABEL + MOST_LABEL;
const _: () = assert!(STAGGER + 4 <= SECTOR_CONTENT);

impl Superblock {
    /// Where things lie.
    ///
    /// # Errors
    /// [`FsError::Damaged`] if the sizes contradict each other.
    pub fn geometry(&self) -> Result<Geometry, FsError> {
        Geometry::new(self.sizes).map_err(FsError::Damaged)
    }

    /// True if what a crash has left is in place once the log is applied. A repair that was cut off
    /// may have emptied the log, and asks to be gone on with.
    pub fn recovers_from_log(&self) -> bool {
        self.state == State::InUse
            && self.incompatible & LOG_IN_USE != 0
            && self.recovery == Recovery::Log
    }

    /// True if the counters of groups may be behind the maps: the next mount counts.
    pub fn counts_at_mount(&self) -> bool {
        self.state == State::InUse
            && self.mounted_with.is_some_and(|one| one.kind().wants_transactions())
    }

    /// True if it can stand for another one: it says the same of what a mount does not change.
    pub fn describes(&self, other: &Superblock) -> bool {
        self.id == other.id && self.sizes == other.sizes && self.log == other.log
    }

    /// The blocks of the volume that the log has; none if there is no log.
    ///
    /// # Errors
    /// [`FsError::Damaged`] if no log can lie there.
    pub fn log_range(&self) -> Result<Option<Range<BlockNr>>, FsError> {
        if !self.log.exists() {
            return Ok(None);
        }
        let LogPlace { first, fragments, kind, .. } = self.log;
        let geometry = self.geometry()?;
        let unit = u64::from(self.sizes.fragment_bytes);
        let (start, bytes) = (u64::from(first) * unit, u64::from(fragments) * unit);
        let each = BLOCK_BYTES as u64;
        let lies_right = match kind {
            LogPlace::IN_FILE => {
                let per_block = geometry.fragments_per_block();
                let is_whole =
                    first.is_multiple_of(per_block) && fragments.is_multiple_of(per_block);
                is_whole && geometry.is_data(first, fragments)
            }
            _ => start >= geometry.bytes(),
        };
        let is_possible = lies_right
            && start.is_multiple_of(each)
            && bytes.is_multiple_of(each)
            && bytes / each >= u64::from(LEAST_BLOCKS);
        if !is_possible {
            return Err(FsError::Damaged("no log can lie where the log should be".to_string()));
        }
        Ok(Some(start / each..(start + bytes) / each))
    }

    /// The sealer of this file system.
    pub fn sealer(&self) -> Sealer {
        Sealer::new(self.id)
    }

    /// The superblock as a block of 4096 bytes, for byte `at` of the file system.
    pub fn encode(&self, at: u64, counter: u16) -> Bytes {
        let mut out = vec![0; BLOCK_BYTES];
        put(&mut out, 0, &MAGIC);
        let numbers = [
            (8, VERSION),
            (12, self.compatible),
            (16, self.read_only),
            (20, self.incompatible),
            (40, self.sizes.block_bytes),
            (44, self.sizes.fragment_bytes),
            (48, self.sizes.fragments),
            (52, self.sizes.groups()),
            (56, self.sizes.fragments_per_group),
            (60, self.sizes.inodes_per_group),
            (72, self.maxcontig),
            (76, self.maxbpg),
            (80, self.mounts),
            (128, self.log.first),
            (132, self.log.fragments),
            (STAGGER, self.sizes.stagger),
        ];
        for (at, number) in numbers {
            put(&mut out, at, &number.to_le_bytes());
        }
        put(&mut out, 24, &self.id.to_le_bytes());
        let small = [
            self.minfree,
            self.optimisation as u8,
            self.state as u8,
            self.recovery as u8,
            self.policy as u8,
            self.log.kind,
            self.mounted_with.map_or(0, |policy| policy as u8 + 1),
        ];
        put(&mut out, 64, &small);
        put(&mut out, 88, &self.made.to_le_bytes());
        put(&mut out, 96, &self.mounted.to_le_bytes());
        put(&mut out, 104, &self.written.to_le_bytes());
        put(&mut out, 112, &self.log.id.to_le_bytes());
        put(&mut out, LABEL, &self.label[..self.label.len().min(MOST_LABEL)]);
        let sector = &mut out[..SECTOR_BYTES];
        self.sealer().set(sector, at / SECTOR_BYTES as u64, SealKind::Superblock, counter);
        Bytes::from(out)
    }

    /// Reads the superblock at byte `at` of the file system back from its sector.
    ///
    /// # Errors
    /// [`FsError::Foreign`] without the magic or a valid seal; versions and features that this
    /// program does not know; values that none can have written.
    pub fn decode(sector: &[u8], at: u64) -> Result<Superblock, FsError> {
        let id = u128::from_le_bytes(array_at(sector, 24));
        let address = at / SECTOR_BYTES as u64;
        if sector[..8] != MAGIC
            || !Sealer::new(id).is_whole(&sector[..SECTOR_BYTES], address, SealKind::Superblock)
        {
            return Err(FsError::Foreign);
        }
        let version = u32_at(sector, 8);
        if version != VERSION {
            return Err(FsError::Newer(version));
        }
        let incompatible = u32_at(sector, 20);
        let unknown = incompatible & !KNOWN_INCOMPATIBLE;
        if unknown != 0 {
            return Err(FsError::UnknownFeatures(unknown));
        }
        let superblock = fields_of(sector, id).ok_or_else(|| {
            FsError::Damaged("a field has a value that no program writes".to_string())
        })?;
        let geometry = superblock.geometry()?;
        if geometry.groups() != u32_at(sector, 52) {
            return Err(FsError::Damaged("the number of groups does not fit the size".to_string()));
        }
        Ok(superblock)
    }
}

/// The fields of a sector with a valid seal; none if an enumeration has an unknown value.
fn fields_of(sector: &[u8], id: u128) -> Option<Superblock> {
    let label = &sector[LABEL..LABEL + MOST_LABEL];
    let used = label.iter().position(|&byte| byte == 0).unwrap_or(MOST_LABEL);
    Some(Superblock {
        compatible: u32_at(sector, 12),
        read_only: u32_at(sector, 16),
        incompatible: u32_at(sector, 20),
        id,
        sizes: Sizes {
            block_bytes: u32_at(sector, 40),
            fragment_bytes: u32_at(sector, 44),
            fragments: u32_at(sector, 48),
            fragments_per_group: u32_at(sector, 56),
            inodes_per_group: u32_at(sector, 60),
            stagger: u32_at(sector, STAGGER),
        },
        minfree: Some(sector[64]).filter(|&percent| percent < 100)?,
        optimisation: match sector[65] {
            0 => Optimisation::Time,
            1 => Optimisation::Space,
            _ => return None,
        },
        state: match sector[66] {
            1 => State::Clean,
            2 => State::InUse,
            3 => State::Error,
            _ => return None,
        },
        recovery: match sector[67] {
            0 => Recovery::None,
            1 => Recovery::Fsck,
            2 => Recovery::Log,
            _ => return None,
        },
        policy: *PolicyAdvice::ALL.get(usize::from(sector[68]))?,
        mounted_with: match sector[70] {
            0 => None,
            number => Some(*PolicyAdvice::ALL.get(usize::from(number) - 1)?),
        },
        maxcontig: u32_at(sector, 72),
        maxbpg: u32_at(sector, 76),
        mounts: u32_at(sector, 80),
        made: i64_at(sector, 88),
        mounted: i64_at(sector, 96),
        written: i64_at(sector, 104),
        log: LogPlace {
            kind: Some(sector[69]).filter(|&kind| kind <= LogPlace::IN_FILE)?,
            id: u128::from_le_bytes(array_at(sector, 112)),
            first: u32_at(sector, 128),
            fragments: u32_at(sector, 132),
        },
        label: label[..used].to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Superblock {
        Superblock {
            compatible: 1,
            read_only: 0,
            incompatible: 0,
            id: 0x1234_5678_9abc_def0,
            sizes: Sizes {
                block_bytes: 8192,
                fragment_bytes: 1024,
                fragments: 16 * 1024,
                fragments_per_group: 4096,
                inodes_per_group: 256,
                stagger: 32,
            },
            minfree: 10,
            optimisation: Optimisation::Space,
            state: State::InUse,
            recovery: Recovery::Fsck,
            policy: PolicyAdvice::Soft,
            mounted_with: Some(PolicyAdvice::Atomic),
            maxcontig: 8,
            maxbpg: 2048,
            mounts: 7,
            made: -5,
            mounted: 6,
            written: 7,
            log: LogPlace { kind: 1, id: 99, first: 100, fragments: 50 },
            label: b"scratch".to_vec(),
        }
    }

    #[test]
    fn a_superblock_comes_back() {
        let block = example().encode(SUPERBLOCK_AT, 4);
        assert_eq!(Superblock::decode(&block, SUPERBLOCK_AT), Ok(example()));
        assert_eq!(Superblock::decode(&block, 0), Err(FsError::Foreign), "another place");
    }

    #[test]
    fn newer_and_unknown_ones_are_refused_by_name() {
        let sealed = |at: usize, value: u32| {
            let mut block = example().encode(SUPERBLOCK_AT, 0).to_vec();
            put(&mut block, at, &value.to_le_bytes());
            let sealer = example().sealer();
            sealer.set(&mut block[..SECTOR_BYTES], 128, SealKind::Superblock, 0);
            Superblock::decode(&block, SUPERBLOCK_AT)
        };
        assert_eq!(sealed(8, 2), Err(FsError::Newer(2)));
        assert_eq!(sealed(20, 8 | LOG_IN_USE), Err(FsError::UnknownFeatures(8)));
        assert!(sealed(20, LOG_IN_USE).is_ok_and(|one| one.incompatible == LOG_IN_USE));
        assert!(matches!(sealed(40, 5000), Err(FsError::Damaged(_))));
        assert!(matches!(sealed(52, 3), Err(FsError::Damaged(_))));
        assert!(matches!(sealed(64, 0xffff_ffff), Err(FsError::Damaged(_))));
    }

    #[test]
    fn a_log_lies_in_whole_blocks_behind_the_file_system_or_in_the_data_of_a_group() {
        let range = |kind, first, fragments| {
            let log = LogPlace { kind, id: 9, first, fragments };
            Superblock { log, ..example() }.log_range()
        };
        assert_eq!(range(0, 100, 50), Ok(None));
        assert_eq!(range(3, 5120, 1024), Ok(Some(1280..1536)));
        for (first, fragments) in [(0, 1024), (5121, 1024), (5120, 1020), (8000, 1024)] {
            assert!(matches!(range(3, first, fragments), Err(FsError::Damaged(_))));
        }
        assert_eq!(range(1, 16 * 1024, 1024), Ok(Some(4096..4352)));
        assert_eq!(range(2, 16 * 1024 + 4, 1028), Ok(Some(4097..4354)));
        for (first, fragments) in [(16 * 1024 - 4, 1024), (16 * 1024 + 1, 1024), (1 << 15, 1020)] {
            assert!(matches!(range(1, first, fragments), Err(FsError::Damaged(_))));
        }
        assert!(matches!(range(1, 1 << 15, 1025), Err(FsError::Damaged(_))));
    }

    #[test]
    fn addresses_leave_the_seals_alone() {
        assert_eq!(address_offset(0), 0);
        assert_eq!(address_offset(125), 500);
        assert_eq!(address_offset(126), 512);
        assert_eq!(address_offset(2015), 15 * 512 + 500);
    }
}
