//! What can be chosen when a file system is made, and at each mount.

use seekless_fs::call::Timestamp;
use seekless_fs::core::CoreOptions;
use seekless_fs::log::format::MOST_UNIT;
use seekless_fs::policy::PolicyKind;
use seekless_fs::policy::journal::JournalOptions;

/// What to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsOptions {
    /// Bytes of a block: 4096 or 8192, of Minix 1024, 2048 or 4096.
    pub block: u32,
    /// Bytes of a fragment: a block, or a half, quarter or eighth of one.
    pub fragment: u32,
    /// Bytes of the volume for each inode.
    pub bytes_per_inode: u32,
    /// Inodes, in place of those that `bytes_per_inode` leads to. FFS spreads its inodes over
    /// groups, and does not take it.
    pub inodes: Option<u32>,
    /// Bytes of a group; none for the default.
    pub group: Option<u64>,
    /// Identity, random.
    pub id: u128,
    /// Name for people, at most 32 bytes.
    pub label: Vec<u8>,
    /// Percent of the data that only root may allocate.
    pub minfree: u8,
    /// The policy to mount with if the user names none.
    pub policy: PolicyKind,
    /// Bytes of the log of a file system that is to have one; none for the default.
    pub journal: Option<u64>,
    /// Blocks at the end of the volume that are another device, for the log.
    pub journal_blocks: Option<u64>,
    /// Bytes of the largest write of the log: a power of two from 4,096 to 65,536. The log writes
    /// as much on its own account; less goes out when a call waits for it, and once a second.
    pub journal_unit: u32,
    /// Owner of the root directory.
    pub uid: u32,
    /// Group of the root directory.
    pub gid: u32,
    /// The time.
    pub now: Timestamp,
}

impl Default for MkfsOptions {
    fn default() -> MkfsOptions {
        MkfsOptions {
            block: 8192,
            fragment: 4096,
            bytes_per_inode: 16_384,
            inodes: None,
            group: None,
            id: 0,
            label: Vec::new(),
            minfree: 8,
            policy: PolicyKind::Async,
            journal: None,
            journal_blocks: None,
            journal_unit: MOST_UNIT,
            uid: 0,
            gid: 0,
            now: 0,
        }
    }
}

/// Another policy for a file system that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchOptions {
    /// The policy to mount with if the user names none.
    pub policy: PolicyKind,
    /// Bytes of a log that is made; none for the default.
    pub journal: Option<u64>,
    /// Blocks at the end of the volume that are another device, for the log.
    pub journal_blocks: Option<u64>,
    /// As [`MkfsOptions::journal_unit`].
    pub journal_unit: u32,
    /// The time.
    pub now: Timestamp,
}

/// How to mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Cache and I/O.
    pub core: CoreOptions,
    /// How writes of metadata are ordered.
    pub policy: PolicyKind,
    /// How the log is written, if the policy keeps one.
    pub journal: JournalOptions,
    /// The time, for the superblock.
    pub now: Timestamp,
}
