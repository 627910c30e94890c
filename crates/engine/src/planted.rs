//! Bugs that can be planted in the layouts, to show that the power-cut sweep finds them.
//!
//! Without the cargo feature `planted-bugs` every question here is answered `false` at compile
//! time; the product carries none of it.

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
    /// Of several versions of a block a recovery takes not the youngest.
    StaleStampWins,
    /// A recovery takes what is there of a transaction that is not there as a whole.
    PartialTransaction,
    /// What was forgotten leaves no tombstone.
    TombstoneLost,
    /// A tombstone goes out before what it makes way for is durable.
    TombstoneEarly,
    /// Blocks are written home from records that are not durable.
    DestageBeforeDurable,
}

impl PlantedBug {
    /// Those that can be planted in the virtual log.
    pub const VLOG: [PlantedBug; 7] = [
        PlantedBug::AckBeforeDurable,
        PlantedBug::FreeBeforeCommit,
        PlantedBug::MapBeforeData,
        PlantedBug::MissingFlush,
        PlantedBug::StaleTailAccepted,
        PlantedBug::ChecksumNotVerified,
        PlantedBug::CompactorFreesEarly,
    ];

    /// Those that can be planted in the disk caching disk.
    pub const DCD: [PlantedBug; 8] = [
        PlantedBug::AckBeforeDurable,
        PlantedBug::FreeBeforeCommit,
        PlantedBug::MissingFlush,
        PlantedBug::ChecksumNotVerified,
        PlantedBug::StaleStampWins,
        PlantedBug::TombstoneLost,
        PlantedBug::TombstoneEarly,
        PlantedBug::DestageBeforeDurable,
    ];

    /// Those that can be planted in Loge.
    pub const LOGE: [PlantedBug; 8] = [
        PlantedBug::AckBeforeDurable,
        PlantedBug::FreeBeforeCommit,
        PlantedBug::MissingFlush,
        PlantedBug::StaleTailAccepted,
        PlantedBug::ChecksumNotVerified,
        PlantedBug::StaleStampWins,
        PlantedBug::PartialTransaction,
        PlantedBug::TombstoneLost,
    ];
}

#[cfg(feature = "planted-bugs")]
std::thread_local! {
    static PLANTED: std::cell::Cell<Option<PlantedBug>> = const { std::cell::Cell::new(None) };
}

/// True if a bug is planted.
#[cfg(feature = "planted-bugs")]
pub fn planted(bug: PlantedBug) -> bool {
    PLANTED.get() == Some(bug)
}

/// True if a bug is planted.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub const fn planted(_bug: PlantedBug) -> bool {
    false
}

/// Runs something with a bug planted, on this thread.
#[cfg(feature = "planted-bugs")]
pub fn with_bug<R>(bug: Option<PlantedBug>, run: impl FnOnce() -> R) -> R {
    let before = PLANTED.replace(bug);
    let result = run();
    PLANTED.set(before);
    result
}
