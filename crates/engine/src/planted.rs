//! Bugs that can be planted in the layouts, to show that the power-cut sweep finds them.
//!
//! In a build without debug assertions every question here is answered `false` at compile time:
//! the product carries none of it.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlantedBug {
    /// A flush or a forced write is acknowledged before its commit is durable.
    AckBeforeDurable,
    /// Superseded blocks are reused at once, though a recovery may still need them.
    FreeBeforeCommit,
    /// The map names new places before the data has reached them.
    MapBeforeData,
    /// A commit counts as durable without a flush of the device.
    MissingFlush,
    /// The tail record is not cleared by a mount and is believed after the next crash.
    StaleTailAccepted,
    /// Checksums of data are neither verified by recovery nor on read.
    ChecksumNotVerified,
    /// The compactor frees the old place of a block at once, and uses it for the next one.
    CompactorFreesEarly,
    /// The reorganiser writes a block that a client has overwritten since it was read.
    ReorganiserWritesStale,
    /// Of several versions of a block a recovery takes not the youngest.
    StaleStampWins,
    /// A recovery takes what is there of a transaction that is not there as a whole.
    PartialTransaction,
    /// A recovery takes what is there of a transaction of several requests that is not there as a
    /// whole.
    PartialGroup,
    /// The list of the blocks of a transaction is given up before nobody can need it.
    DescriptorFreedEarly,
    /// What was forgotten leaves no tombstone.
    TombstoneLost,
    /// A write that failed is answered as done.
    ErrorSwallowed,
    /// After an error the volume goes on taking writes.
    ErrorForgotten,
    /// A flush that failed is tried again and called good.
    FlushRetried,
    /// Superseded blocks are reused before a commit says that they were superseded for good.
    ReuseUnwitnessed,
    /// A recovery does not notice that a map block is missing.
    DigestIgnored,
    /// A recovery leaves no record of what it took and what not.
    RecoveryUnrecorded,
    /// A recovery leaves what it did not take where it is.
    DroppedNotErased,
    /// A label says of what came before it that it was durable, known or not.
    DurableOverstated,
    /// A flush that was on its way when another one failed is called good.
    OtherFlushTrusted,
    /// A forced write whose data arrives after an error elsewhere waits for ever.
    WaiterForgotten,
    /// A segment is written again though the last checkpoint lets a recovery follow the log
    /// through it.
    FreeBeforeCheckpoint,
    /// The cleaner gives a segment up before what it moved is durable.
    CleanerFreesEarly,
    /// A checkpoint record is written before the map blocks that it names are durable.
    CheckpointBeforeMap,
    /// Stripes of an array are written without a record in the log or a mark in the bitmap.
    NoWriteLog,
    /// Stripes are written in place before the record in the log is durable.
    LogNotFlushed,
    /// An array takes a member back that has missed something.
    StaleMember,
    /// A recovery replays the log but resyncs no marked regions.
    NoResync,
    /// A member that replaces another one counts as filled before what fills it is durable.
    RebuildNotFlushed,
    /// Stripes are written without a member before all members know that it is out.
    WrittenUnsettled,
    /// A read-only array shows its members as they are, without what its logs tell.
    UnreplayedShown,
    /// Whoever assembles an array writes all that its logs hold, old content before younger one.
    ReplayedInTurn,
    /// A misplaced block is brought home before what it holds is durable.
    HomedEarly,
    /// A tombstone goes out before what it makes way for is durable.
    TombstoneEarly,
    /// Blocks are written home from records that are not durable.
    DestageBeforeDurable,
    /// A recovery takes what an earlier one has dropped, where damage hides why it did.
    DroppedTakenLater,
    /// The sums of blocks are CRCs.
    CrcSums,
}

impl PlantedBug {
    /// Those that can be planted in update in place.
    pub const INPLACE: [PlantedBug; 6] = [
        PlantedBug::AckBeforeDurable,
        PlantedBug::MissingFlush,
        PlantedBug::ErrorSwallowed,
        PlantedBug::ErrorForgotten,
        PlantedBug::FlushRetried,
        PlantedBug::OtherFlushTrusted,
    ];

    /// Those that can be planted in the virtual log.
    pub const VLOG: [PlantedBug; 16] = [
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
    ];

    /// Those that are planted in a log over stripes: where one device has a part of a write, the
    /// other has not.
    pub const STRIPED: [PlantedBug; 1] = [PlantedBug::DroppedTakenLater];

    /// Those that can be planted in arrays.
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

    /// Those that can be planted in the disk caching disk.
    pub const DCD: [PlantedBug; 9] = [
        PlantedBug::AckBeforeDurable,
        PlantedBug::FreeBeforeCommit,
        PlantedBug::MapBeforeData,
        PlantedBug::MissingFlush,
        PlantedBug::ChecksumNotVerified,
        PlantedBug::StaleStampWins,
        PlantedBug::TombstoneLost,
        PlantedBug::TombstoneEarly,
        PlantedBug::DestageBeforeDurable,
    ];

    /// Those that can be planted in Loge.
    pub const LOGE: [PlantedBug; 17] = [
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
    ];

    /// Those that can be planted in the log-structured layouts.
    pub const LFS: [PlantedBug; 11] = [
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
    ];

    /// Those that are planted in Wolf as well, whose engine is that of `Lfs`: where its policies
    /// decide what is written and cleaned when.
    pub const WOLF: [PlantedBug; 4] = [
        PlantedBug::AckBeforeDurable,
        PlantedBug::FreeBeforeCommit,
        PlantedBug::FreeBeforeCheckpoint,
        PlantedBug::CleanerFreesEarly,
    ];

    /// Those that are planted in HyLog as well.
    pub const HYLOG: [PlantedBug; 2] = [PlantedBug::AckBeforeDurable, PlantedBug::MissingFlush];

    /// What the bug does, for the table of bugs.
    pub fn summary(self) -> &'static str {
        match self {
            PlantedBug::AckBeforeDurable => "a forced write or a flush is acknowledged too early",
            PlantedBug::FreeBeforeCommit => "superseded blocks are reused at once",
            PlantedBug::MapBeforeData => "the map names places before the data is there",
            PlantedBug::MissingFlush => "the device is not flushed",
            PlantedBug::StaleTailAccepted => "the record of an orderly end outlives the next mount",
            PlantedBug::ChecksumNotVerified => "checksums are not compared",
            PlantedBug::CompactorFreesEarly => "the compactor frees what it moves at once",
            PlantedBug::ReorganiserWritesStale => {
                "the reorganiser writes what a client has replaced"
            }
            PlantedBug::StaleStampWins => "a recovery takes an older version",
            PlantedBug::PartialTransaction => "a recovery takes a part of a transaction",
            PlantedBug::PartialGroup => "a recovery takes a part of a scattered transaction",
            PlantedBug::DescriptorFreedEarly => "the list of a transaction is given up too early",
            PlantedBug::TombstoneLost => "a trim leaves no tombstone",
            PlantedBug::ErrorSwallowed => "a failed write is answered as done",
            PlantedBug::ErrorForgotten => "writes go on after an error",
            PlantedBug::FlushRetried => "a failed flush is retried and called good",
            PlantedBug::ReuseUnwitnessed => "blocks are reused before a commit witnesses it",
            PlantedBug::DigestIgnored => "a missing map block is not noticed",
            PlantedBug::RecoveryUnrecorded => "a recovery records nothing",
            PlantedBug::DroppedNotErased => "a recovery does not erase what it dropped",
            PlantedBug::HomedEarly => "a block is brought home before what it holds is durable",
            PlantedBug::WaiterForgotten => "a forced write waits for ever after an error",
            PlantedBug::OtherFlushTrusted => "a flush beside one that failed is called good",
            PlantedBug::NoWriteLog => "stripes are written without a record in the log",
            PlantedBug::LogNotFlushed => "stripes are written before their record is durable",
            PlantedBug::StaleMember => "a member that missed something is taken back",
            PlantedBug::NoResync => "marked regions are not resynced",
            PlantedBug::RebuildNotFlushed => "a replacement counts as filled before it is durable",
            PlantedBug::WrittenUnsettled => "writes go on before all know that a member is out",
            PlantedBug::UnreplayedShown => "a read-only array does not show what its logs tell",
            PlantedBug::ReplayedInTurn => "logs are replayed with what is out of date in them",
            PlantedBug::FreeBeforeCheckpoint => "a segment that a recovery follows is reused",
            PlantedBug::CleanerFreesEarly => "the cleaner frees what it moves at once",
            PlantedBug::CheckpointBeforeMap => "a checkpoint is written before its map is durable",
            PlantedBug::DurableOverstated => "labels call durable what may not be",
            PlantedBug::TombstoneEarly => "a tombstone is logged before what is at home is durable",
            PlantedBug::DroppedTakenLater => "what a recovery dropped is taken by a later one",
            PlantedBug::CrcSums => "the sums of blocks are CRCs, as older metadata has them",
            PlantedBug::DestageBeforeDurable => "blocks go home from records that are not durable",
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

/// Runs something with a bug planted, on this thread.
#[cfg(debug_assertions)]
pub fn with_bug<R>(bug: Option<PlantedBug>, run: impl FnOnce() -> R) -> R {
    let before = PLANTED.replace(bug);
    let result = run();
    PLANTED.set(before);
    result
}
