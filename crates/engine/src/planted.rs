//! Bugs that can be planted in the layouts, to show that the power-cut sweep finds them.
//!
//! In a build without debug assertions every check here is `false` at compile time: the product
//! contains none of the bugs.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlantedBug {
    /// A flush or a forced write is acknowledged before its commit is durable.
    AckBeforeDurable,
    /// Superseded blocks are reused at once, although recovery may need them.
    FreeBeforeCommit,
    /// The map names new places before the data has reached them.
    MapBeforeData,
    /// A commit counts as durable without a flush of the device.
    MissingFlush,
    /// A mount does not clear the tail record, and the mount after the next crash trusts it.
    StaleTailAccepted,
    /// Checksums of data are neither verified by recovery nor on read.
    ChecksumNotVerified,
    /// The compactor frees the old place of a block at once, and uses it for the next one.
    CompactorFreesEarly,
    /// The reorganiser writes a block that a client has overwritten since it was read.
    ReorganiserWritesStale,
    /// Of several versions of a block, recovery takes an old one.
    StaleStampWins,
    /// Recovery applies an incomplete transaction.
    PartialTransaction,
    /// Recovery applies an incomplete transaction of several requests.
    PartialGroup,
    /// The list of the blocks of a transaction is freed while recovery may need it.
    DescriptorFreedEarly,
    /// A trimmed block leaves no tombstone.
    TombstoneLost,
    /// A failed write is answered as successful.
    ErrorSwallowed,
    /// After an error the volume keeps accepting writes.
    ErrorForgotten,
    /// A failed flush is retried and answered as successful.
    FlushRetried,
    /// Superseded blocks are reused before a commit makes that final.
    ReuseUnwitnessed,
    /// A recovery does not notice that a map block is missing.
    DigestIgnored,
    /// Recovery does not record which log entries it applied and which it dropped.
    RecoveryUnrecorded,
    /// Recovery does not erase the blocks that it dropped.
    DroppedNotErased,
    /// A label states that all before it is durable, without that being known.
    DurableOverstated,
    /// A flush in flight when another one fails is answered as successful.
    OtherFlushTrusted,
    /// A forced write whose data arrives after an error elsewhere waits forever.
    WaiterForgotten,
    /// A segment is reused although recovery from the last checkpoint follows the log through it.
    FreeBeforeCheckpoint,
    /// The cleaner frees a segment before the blocks it moved are durable.
    CleanerFreesEarly,
    /// A checkpoint record is written before the map blocks that it names are durable.
    CheckpointBeforeMap,
    /// Stripes of an array are written without a record in the log or a mark in the bitmap.
    NoWriteLog,
    /// Stripes are written in place before the record in the log is durable.
    LogNotFlushed,
    /// An array takes a member back that has missed writes.
    StaleMember,
    /// A recovery replays the log but resyncs no marked regions.
    NoResync,
    /// A resync believes the data, whatever the checksums of the layout say.
    ResyncUnasked,
    /// A replacement member counts as filled before its content is durable.
    RebuildNotFlushed,
    /// Stripes are written without a member before all members record that it is removed.
    WrittenUnsettled,
    /// A read-only array returns the content of its members without replaying its logs.
    UnreplayedShown,
    /// Assembly of an array replays all records of its logs, old content before younger.
    ReplayedInTurn,
    /// A relocation moves a misplaced block home before its content is durable.
    HomedEarly,
    /// A tombstone is removed before the block that replaces it is durable.
    TombstoneEarly,
    /// Blocks are written to their home location from records that are not durable.
    DestageBeforeDurable,
    /// Blocks are recorded as home before they are durable there.
    ProgressEarly,
    /// An origin gets its first block back before the others are durable.
    ReleasedOutOfOrder,
    /// Recovery applies entries that an earlier recovery dropped, if damage hides the reason.
    DroppedTakenLater,
    /// The checksums of blocks are plain CRCs.
    CrcSums,
    /// Space is given back to the host although recovery may need what lies there.
    PunchedEarly,
}

impl PlantedBug {
    /// Bugs for update in place.
    pub const INPLACE: [PlantedBug; 6] = [
        PlantedBug::AckBeforeDurable,
        PlantedBug::MissingFlush,
        PlantedBug::ErrorSwallowed,
        PlantedBug::ErrorForgotten,
        PlantedBug::FlushRetried,
        PlantedBug::OtherFlushTrusted,
    ];

    /// Bugs for the virtual log.
    pub const VLOG: [PlantedBug; 17] = [
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
    ];

    /// Bugs for a log on a striped array: one device may have a part of a write and the other may
    /// not.
    pub const STRIPED: [PlantedBug; 1] = [PlantedBug::DroppedTakenLater];

    /// Bugs for arrays.
    pub const ARRAY: [PlantedBug; 8] = [
        PlantedBug::NoWriteLog,
        PlantedBug::LogNotFlushed,
        PlantedBug::StaleMember,
        PlantedBug::NoResync,
        PlantedBug::RebuildNotFlushed,
        PlantedBug::WrittenUnsettled,
        PlantedBug::UnreplayedShown,
        PlantedBug::ReplayedInTurn,
    ];

    /// Bugs for the disk caching disk.
    pub const DCD: [PlantedBug; 10] = [
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
    ];

    /// Bugs for a disk caching disk with its log on a device of its own.
    pub const APART: [PlantedBug; 1] = [PlantedBug::ReleasedOutOfOrder];

    /// Bugs for Loge.
    pub const LOGE: [PlantedBug; 18] = [
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
    ];

    /// Bugs for the log-structured layouts.
    pub const LFS: [PlantedBug; 12] = [
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
    ];

    /// Bugs for Wolf, which shares the engine of `Lfs`: those where its policies decide what is
    /// written and cleaned, and when.
    pub const WOLF: [PlantedBug; 4] = [
        PlantedBug::AckBeforeDurable,
        PlantedBug::FreeBeforeCommit,
        PlantedBug::FreeBeforeCheckpoint,
        PlantedBug::CleanerFreesEarly,
    ];

    /// Bugs for HyLog.
    pub const HYLOG: [PlantedBug; 2] = [PlantedBug::AckBeforeDurable, PlantedBug::MissingFlush];

    /// What the bug does, for the table of bugs.
    pub fn summary(self) -> &'static str {
        match self {
            PlantedBug::AckBeforeDurable => "a forced write or a flush is acknowledged too early",
            PlantedBug::FreeBeforeCommit => "superseded blocks are reused at once",
            PlantedBug::MapBeforeData => "the map names blocks before their data is durable",
            PlantedBug::MissingFlush => "the device is not flushed",
            PlantedBug::StaleTailAccepted => {
                "the record of a clean shutdown outlives the next mount"
            }
            PlantedBug::ChecksumNotVerified => "checksums are not compared",
            PlantedBug::CompactorFreesEarly => "the compactor frees moved blocks at once",
            PlantedBug::ReorganiserWritesStale => {
                "the reorganiser writes blocks that a client has replaced"
            }
            PlantedBug::StaleStampWins => "recovery takes an older version",
            PlantedBug::PartialTransaction => "recovery applies a part of a transaction",
            PlantedBug::PartialGroup => "recovery applies a part of a scattered transaction",
            PlantedBug::DescriptorFreedEarly => "the list of a transaction is freed too early",
            PlantedBug::TombstoneLost => "a trim leaves no tombstone",
            PlantedBug::ErrorSwallowed => "a failed write is answered as done",
            PlantedBug::ErrorForgotten => "writes continue after an error",
            PlantedBug::FlushRetried => "a failed flush is retried and answered as successful",
            PlantedBug::ReuseUnwitnessed => "blocks are reused before a commit records it",
            PlantedBug::DigestIgnored => "a missing map block is not noticed",
            PlantedBug::RecoveryUnrecorded => "recovery records nothing",
            PlantedBug::DroppedNotErased => "recovery does not erase the blocks it dropped",
            PlantedBug::HomedEarly => "a block is moved home before its content is durable",
            PlantedBug::WaiterForgotten => "a forced write waits forever after an error",
            PlantedBug::OtherFlushTrusted => {
                "a flush in flight with a failed one is answered as successful"
            }
            PlantedBug::NoWriteLog => "stripes are written without a record in the log",
            PlantedBug::LogNotFlushed => "stripes are written before their record is durable",
            PlantedBug::StaleMember => "a member that missed writes is taken back",
            PlantedBug::NoResync => "marked regions are not resynced",
            PlantedBug::ResyncUnasked => "a resync does not ask the layout which block is right",
            PlantedBug::RebuildNotFlushed => "a replacement counts as filled before it is durable",
            PlantedBug::WrittenUnsettled => {
                "writes continue before all members record a removed one"
            }
            PlantedBug::UnreplayedShown => "a read-only array does not replay its logs",
            PlantedBug::ReplayedInTurn => "logs are replayed with their outdated records",
            PlantedBug::FreeBeforeCheckpoint => "a segment that recovery follows is reused",
            PlantedBug::CleanerFreesEarly => "the cleaner frees moved blocks at once",
            PlantedBug::CheckpointBeforeMap => "a checkpoint is written before its map is durable",
            PlantedBug::DurableOverstated => "labels mark blocks as durable that may not be",
            PlantedBug::TombstoneEarly => {
                "a tombstone is logged before the block at home is durable"
            }
            PlantedBug::DroppedTakenLater => "a later recovery applies what an earlier one dropped",
            PlantedBug::CrcSums => "the checksums of blocks are plain CRCs, as in older metadata",
            PlantedBug::ReleasedOutOfOrder => "an origin gets its first block back too early",
            PlantedBug::ProgressEarly => "blocks are recorded as home before they are durable",
            PlantedBug::PunchedEarly => "space that recovery may need is given back to the host",
            PlantedBug::DestageBeforeDurable => {
                "blocks are destaged from records that are not durable"
            }
        }
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
