//! Bugs that can be planted, to show that the prover finds them: of layouts, arrays and file
//! systems.
//!
//! In a build without debug assertions every check here is `false` at compile time: the product
//! contains none of the bugs.

/// Declares the bugs, each with its summary.
macro_rules! planted_bugs {
    ($($bug:ident: $summary:literal,)*) => {
        /// A bug that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum PlantedBug {
            $(#[doc = concat!("Planted: ", $summary, ".")] $bug,)*
        }

        impl PlantedBug {
            /// All of them.
            pub const ALL: &[PlantedBug] = &[$(PlantedBug::$bug,)*];

            /// What the bug does, for the table of bugs.
            pub fn summary(self) -> &'static str {
                match self {
                    $(PlantedBug::$bug => $summary,)*
                }
            }
        }
    };
}

planted_bugs! {
    AckBeforeDurable: "a forced write or a call for durability is answered too early",
    FreeBeforeCommit: "superseded blocks are reused at once",
    MapBeforeData: "the map names blocks before their data is durable",
    MissingFlush: "the device is not flushed",
    StaleTailAccepted: "the record of a clean shutdown outlives the next mount",
    ChecksumNotVerified: "checksums are not compared",
    CompactorFreesEarly: "the compactor frees moved blocks at once",
    ReorganiserWritesStale: "the reorganiser writes blocks that a client has replaced",
    StaleStampWins: "recovery takes an older version",
    PartialTransaction: "recovery applies a part of a transaction",
    UnitSplit: "a part of a transaction can be durable before the rest",
    PartialOverwritten: "a segment that is not full is written again where it lies",
    PartialGroup: "recovery applies a part of a scattered transaction",
    DescriptorFreedEarly: "the list of a transaction is freed too early",
    TombstoneLost: "a trim leaves no tombstone",
    ErrorSwallowed: "a failed write is answered as done",
    RefusedPlaceNamed: "the map names a place that the medium refused",
    ErrorForgotten: "writes continue after an error",
    FlushRetried: "a failed flush is retried and answered as successful",
    ReuseUnwitnessed: "blocks are reused before a commit records it",
    DigestIgnored: "a missing map block is not noticed",
    RecoveryUnrecorded: "recovery records nothing",
    DroppedNotErased: "recovery does not erase the blocks it dropped",
    DurableOverstated: "labels mark blocks as durable that may not be",
    OtherFlushTrusted: "a flush in flight with a failed one is answered as successful",
    WaiterForgotten: "a forced write waits forever after an error",
    FreeBeforeCheckpoint: "a segment that recovery follows is reused",
    CleanerFreesEarly: "the cleaner frees moved blocks at once",
    CheckpointBeforeMap: "a checkpoint is written before its map is durable",
    NoWriteLog: "stripes are written without a record in the log",
    StaleMember: "a member that missed writes is taken back",
    NoResync: "marked regions are not resynced",
    ResyncUnasked: "a resync does not ask the layout which block is right",
    RebuildNotFlushed: "a replacement counts as filled before it is durable",
    WrittenUnsettled: "writes continue before all members record a removed one",
    UnreplayedShown: "a read-only array does not replay its logs",
    ReplayedInTurn: "logs are replayed with their outdated records",
    HomedEarly: "a block is moved home before its content is durable",
    TombstoneEarly: "a tombstone is logged before the block at home is durable",
    DestageBeforeDurable: "blocks are destaged from records that are not durable",
    ProgressEarly: "blocks are recorded as home before they are durable",
    ReleasedOutOfOrder: "an origin gets its first block back too early",
    DroppedTakenLater: "a later recovery applies what an earlier one dropped",
    CrcSums: "the checksums of blocks are plain CRCs, as in older metadata",
    PunchedEarly: "space that recovery may need is given back to the host",
    GenerationKept: "a new inode has the generation of the old one",
    EntryBeforeInode: "a new name does not wait for its inode",
    InodeBeforeBitmap: "a new inode does not wait for its bit",
    PointerBeforeBitmap: "an address does not wait for the bits of its block",
    PointerBeforeContent:
        "an address does not wait for the content of a directory or an indirect block",
    PointerBeforeData: "an address does not wait for the content of a file",
    FreedAtOnce: "space is free before the disk has lost the address of it",
    LinkDroppedAtOnce: "a link count is lower on the disk before the name is gone",
    ParentCountLate: "a new directory does not wait for the link count of its parent",
    BodyLate: "what needs a name does not wait for the size of its directory",
    RenameRemovesFirst: "the old name of a rename does not wait for the new one",
    ReplacedTargetFreed: "what a rename replaces loses its link before the name leads elsewhere",
    RolledBackNotRedirtied: "a block that was written with old bytes counts as clean",
    FactOfOlderImage: "a write brings facts that came up while it was under way",
    RolledBackCounts: "a write brings facts although its bytes were put back",
    SizeNotRolledBack: "a size does not wait for the content below it",
    FragmentMoveFreesOld: "the old place of a moved tail is free at once",
    CancelForgetsReplaced: "a guard that supersedes another one forgets the older bytes",
    FsyncWithoutName: "fsync does not write the names of a file",
    FsyncWithoutParent: "fsync does not write the names of the directories above",
    FactAtCompletion:
        "a write is ordered when it is complete, though the device has a volatile cache",
    MergedGuardedRemoval: "a name takes the place of a removed one that the disk still shows",
    GrowthForgetsNeeds: "a larger size forgets what the smaller one waits for",
    ContentForgottenEarly: "content that is freed is forgotten although something waits for it",
    DirectoryBeforeLeavers: "a directory is removed before the names that leave it have gone",
    ReclaimForgetsFrees: "a reclaim frees what an operation has given up meanwhile",
    ReclaimForgetsNames: "a reclaim does not count names that an operation gives meanwhile",
    SecondCopyIgnored: "the second copy of the superblock is not read",
    ForcedTrimForgotten: "a forced trim is answered before it is durable",
    OlderRead: "a read brings what the origin holds of a block that is younger in the log",
    FsyncWithoutInode: "fsync does not write the inode of a file",
    MovedKeepsParent: "a directory that moves keeps its `..`",
    GroupSplit: "an operation is two groups of the log",
    RevokeMissing: "a recovery keeps what the log says of bytes that were given up",
    RevokeByBlock: "a recovery drops what the log says of the whole block of bytes given up",
    IntentForgotten: "the log does not have the space that an operation gives up",
    OrphanForgotten: "the log does not have the inodes that lose their last name",
    RedoStopsEarly: "a recovery leaves out the last group",
    MovedTailLate: "the end of a file that moves need not be written before the log leads there",
    FsyncWithoutLog: "fsync does not write the log",
    UnnamedCounts: "what no superblock of the log names counts, though recovery ends there",
    TransactionSplit: "an operation is two transactions of the volume",
    UnitForgetsContent: "content is not in the transaction of what wrote it",
    CutTailCounted: "an inode counts the sectors of a tail that was cut off",
    TrimReusesEarly: "the space of trimmed records is reused before a superblock says so",
    EpochReused: "a log goes on with the epoch of a crash in front of what the crash has left",
    TailPastGap: "a log is read past sectors that a crash has lost",
    BitForgotten: "a new zone is not marked in the map",
    PatchForgotten: "a spill leaves out a block that a patch has placed",
    PatchTwice: "a spill leaves a cut behind that it has carried out",
    SpillFreesEarly: "what a spill replaces is reused at once",
    CheckpointEarly: "a checkpoint names a commit that its bitmap does not have",
    FreshUnverified: "recovery does not verify what a commit has written",
}

impl PlantedBug {
    /// Bugs for update in place.
    pub const INPLACE: [PlantedBug; 8] = [
        PlantedBug::AckBeforeDurable,
        PlantedBug::MissingFlush,
        PlantedBug::ErrorSwallowed,
        PlantedBug::ErrorForgotten,
        PlantedBug::FlushRetried,
        PlantedBug::OtherFlushTrusted,
        PlantedBug::ForcedTrimForgotten,
        PlantedBug::SecondCopyIgnored,
    ];

    /// Bugs for the virtual log.
    pub const VLOG: [PlantedBug; 19] = [
        PlantedBug::AckBeforeDurable,
        PlantedBug::FreeBeforeCommit,
        PlantedBug::MapBeforeData,
        PlantedBug::MissingFlush,
        PlantedBug::StaleTailAccepted,
        PlantedBug::ChecksumNotVerified,
        PlantedBug::CompactorFreesEarly,
        PlantedBug::ReorganiserWritesStale,
        PlantedBug::ErrorSwallowed,
        PlantedBug::FlushRetried,
        PlantedBug::ReuseUnwitnessed,
        PlantedBug::DigestIgnored,
        PlantedBug::StaleStampWins,
        PlantedBug::PartialTransaction,
        PlantedBug::RecoveryUnrecorded,
        PlantedBug::WaiterForgotten,
        PlantedBug::PunchedEarly,
        PlantedBug::RefusedPlaceNamed,
        PlantedBug::UnitSplit,
    ];

    /// Bugs for the drive of VLFS, beside those of the virtual log.
    pub const DRIVE: [PlantedBug; 5] = [
        PlantedBug::PatchForgotten,
        PlantedBug::PatchTwice,
        PlantedBug::SpillFreesEarly,
        PlantedBug::CheckpointEarly,
        PlantedBug::FreshUnverified,
    ];

    /// Bugs for a log on a striped array: one device may have a part of a write and the other may
    /// not.
    pub const STRIPED: [PlantedBug; 1] = [PlantedBug::DroppedTakenLater];

    /// Bugs for arrays.
    pub const ARRAY: [PlantedBug; 7] = [
        PlantedBug::NoWriteLog,
        PlantedBug::StaleMember,
        PlantedBug::NoResync,
        PlantedBug::RebuildNotFlushed,
        PlantedBug::WrittenUnsettled,
        PlantedBug::UnreplayedShown,
        PlantedBug::ReplayedInTurn,
    ];

    /// Bugs for the disk caching disk.
    pub const DCD: [PlantedBug; 11] = [
        PlantedBug::AckBeforeDurable,
        PlantedBug::FreeBeforeCommit,
        PlantedBug::MapBeforeData,
        PlantedBug::MissingFlush,
        PlantedBug::ChecksumNotVerified,
        PlantedBug::StaleStampWins,
        PlantedBug::TombstoneLost,
        PlantedBug::TombstoneEarly,
        PlantedBug::DestageBeforeDurable,
        PlantedBug::ProgressEarly,
        PlantedBug::OlderRead,
    ];

    /// Bugs for a disk caching disk with its log on a device of its own.
    pub const APART: [PlantedBug; 1] = [PlantedBug::ReleasedOutOfOrder];

    /// Bugs for Loge.
    pub const LOGE: [PlantedBug; 19] = [
        PlantedBug::AckBeforeDurable,
        PlantedBug::FreeBeforeCommit,
        PlantedBug::MissingFlush,
        PlantedBug::StaleTailAccepted,
        PlantedBug::ChecksumNotVerified,
        PlantedBug::StaleStampWins,
        PlantedBug::PartialTransaction,
        PlantedBug::PartialGroup,
        PlantedBug::DescriptorFreedEarly,
        PlantedBug::TombstoneLost,
        PlantedBug::ErrorSwallowed,
        PlantedBug::FlushRetried,
        PlantedBug::DroppedNotErased,
        PlantedBug::DurableOverstated,
        PlantedBug::HomedEarly,
        PlantedBug::WaiterForgotten,
        PlantedBug::CrcSums,
        PlantedBug::PunchedEarly,
        PlantedBug::RefusedPlaceNamed,
    ];

    /// Bugs for the log-structured layouts.
    pub const LFS: [PlantedBug; 13] = [
        PlantedBug::AckBeforeDurable,
        PlantedBug::FreeBeforeCommit,
        PlantedBug::MissingFlush,
        PlantedBug::StaleTailAccepted,
        PlantedBug::ChecksumNotVerified,
        PlantedBug::PartialTransaction,
        PlantedBug::TombstoneLost,
        PlantedBug::FreeBeforeCheckpoint,
        PlantedBug::CleanerFreesEarly,
        PlantedBug::CheckpointBeforeMap,
        PlantedBug::CrcSums,
        PlantedBug::PunchedEarly,
        PlantedBug::UnitSplit,
    ];

    /// Bugs for Wolf, which shares the engine of `Lfs`: those where its policies decide what is
    /// written and cleaned, and when.
    pub const WOLF: [PlantedBug; 4] = [
        PlantedBug::AckBeforeDurable,
        PlantedBug::FreeBeforeCommit,
        PlantedBug::FreeBeforeCheckpoint,
        PlantedBug::CleanerFreesEarly,
    ];

    /// Bugs for the logical disk, which shares it as well.
    pub const LLD: [PlantedBug; 5] = [
        PlantedBug::AckBeforeDurable,
        PlantedBug::FreeBeforeCommit,
        PlantedBug::FreeBeforeCheckpoint,
        PlantedBug::CleanerFreesEarly,
        PlantedBug::PartialOverwritten,
    ];

    /// Bugs for HyLog.
    pub const HYLOG: [PlantedBug; 2] = [PlantedBug::AckBeforeDurable, PlantedBug::MissingFlush];

    /// Bugs for file systems.
    pub const FILES: [PlantedBug; 32] = [
        PlantedBug::AckBeforeDurable,
        PlantedBug::ErrorSwallowed,
        PlantedBug::GenerationKept,
        PlantedBug::EntryBeforeInode,
        PlantedBug::InodeBeforeBitmap,
        PlantedBug::PointerBeforeBitmap,
        PlantedBug::PointerBeforeContent,
        PlantedBug::PointerBeforeData,
        PlantedBug::FreedAtOnce,
        PlantedBug::LinkDroppedAtOnce,
        PlantedBug::ParentCountLate,
        PlantedBug::BodyLate,
        PlantedBug::RenameRemovesFirst,
        PlantedBug::ReplacedTargetFreed,
        PlantedBug::RolledBackNotRedirtied,
        PlantedBug::FactOfOlderImage,
        PlantedBug::RolledBackCounts,
        PlantedBug::SizeNotRolledBack,
        PlantedBug::FragmentMoveFreesOld,
        PlantedBug::CancelForgetsReplaced,
        PlantedBug::FsyncWithoutName,
        PlantedBug::FsyncWithoutParent,
        PlantedBug::FactAtCompletion,
        PlantedBug::MergedGuardedRemoval,
        PlantedBug::GrowthForgetsNeeds,
        PlantedBug::ContentForgottenEarly,
        PlantedBug::DirectoryBeforeLeavers,
        PlantedBug::ReclaimForgetsFrees,
        PlantedBug::ReclaimForgetsNames,
        PlantedBug::FsyncWithoutInode,
        PlantedBug::MovedKeepsParent,
        PlantedBug::CutTailCounted,
    ];

    /// Bugs for file systems that keep a log or write transactions, beside those of all.
    pub const JOURNAL: [PlantedBug; 11] = [
        PlantedBug::GroupSplit,
        PlantedBug::RevokeMissing,
        PlantedBug::RevokeByBlock,
        PlantedBug::IntentForgotten,
        PlantedBug::OrphanForgotten,
        PlantedBug::RedoStopsEarly,
        PlantedBug::MovedTailLate,
        PlantedBug::FsyncWithoutLog,
        PlantedBug::UnnamedCounts,
        PlantedBug::TransactionSplit,
        PlantedBug::UnitForgetsContent,
    ];

    /// Bugs for Minix: of the core that file systems share, and its own.
    pub const MINIX: [PlantedBug; 9] = [
        PlantedBug::AckBeforeDurable,
        PlantedBug::ErrorSwallowed,
        PlantedBug::FreedAtOnce,
        PlantedBug::BitForgotten,
        PlantedBug::MovedKeepsParent,
        PlantedBug::PointerBeforeContent,
        PlantedBug::FactAtCompletion,
        PlantedBug::TransactionSplit,
        PlantedBug::UnitForgetsContent,
    ];

    /// Bugs for the log as a service.
    pub const LOG: [PlantedBug; 4] = [
        PlantedBug::AckBeforeDurable,
        PlantedBug::TrimReusesEarly,
        PlantedBug::EpochReused,
        PlantedBug::TailPastGap,
    ];

    /// The bug of this name, as `{:?}` writes it.
    pub fn named(name: &str) -> Option<PlantedBug> {
        PlantedBug::ALL.iter().copied().find(|bug| format!("{bug:?}") == name)
    }
}

#[cfg(debug_assertions)]
std::thread_local! {
    static PLANTED: std::cell::Cell<Option<PlantedBug>> = const { std::cell::Cell::new(None) };
}

/// True if a bug is planted.
#[cfg(debug_assertions)]
pub fn planted(bug: PlantedBug) -> bool {
    PLANTED.get() == Some(bug)
}

/// True if a bug is planted.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub const fn planted(_bug: PlantedBug) -> bool {
    false
}

/// Calls `run` with a bug planted, on this thread.
#[cfg(debug_assertions)]
pub fn with_bug<R>(bug: Option<PlantedBug>, run: impl FnOnce() -> R) -> R {
    let before = PLANTED.replace(bug);
    let result = run();
    PLANTED.set(before);
    result
}
