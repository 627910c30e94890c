//! Bugs that can be planted in the policies, to show that the prover finds them.
//!
//! In a build without debug assertions every check here is `false` at compile time: the product
//! contains none of the bugs.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bug {
    /// A name reaches the volume before its inode.
    EntryBeforeInode,
    /// An inode reaches the volume before its bit.
    InodeBeforeBitmap,
    /// A pointer reaches the volume before the bits of its block.
    PointerBeforeBitmap,
    /// A pointer reaches the volume before the directory or indirect block that it leads to.
    PointerBeforeContent,
    /// A pointer reaches the volume before the data that it leads to.
    PointerBeforeData,
    /// A block is free before its pointer is cleared.
    FreedAtOnce,
    /// A link count is lowered before the name is gone.
    LinkDroppedAtOnce,
    /// The name of a new directory does not wait for the count of its parent.
    ParentCountLate,
    /// The name of a new directory does not wait for its first block.
    BodyLate,
    /// A rename removes the old name first.
    RenameRemovesFirst,
    /// A rename within a chunk rolls back one of its names only.
    SameChunkRenameSplit,
    /// The target of a rename is freed before the new name is there.
    ReplacedTargetFreed,
    /// A block of which something was rolled back is not written again.
    RolledBackNotRedirtied,
    /// A write makes things true that came after its image.
    FactOfOlderImage,
    /// A write makes things true that its image had rolled back.
    RolledBackCounts,
    /// A pointer is rolled back, and the size is not.
    SizeNotRolledBack,
    /// The old place of a fragment is freed before the new pointer is there.
    FragmentMoveFreesOld,
    /// A name that is removed before it was written forgets what it had replaced.
    CancelForgetsReplaced,
    /// An fsync does not write the name.
    FsyncWithoutName,
    /// An fsync does not write the directories above.
    FsyncWithoutParent,
    /// On a volatile device a write counts when it completes.
    FactAtCompletion,
    /// Space of which the free is pending is used again.
    PendingSpaceReused,
    /// A removed name joins its predecessor while a guard needs it.
    MergedGuardedRemoval,
    /// A call for durability is answered before its changes are durable.
    AckBeforeDurable,
    /// A failed write counts as done.
    ErrorSwallowed,
    /// A new inode has the generation of the old one.
    GenerationKept,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 26] = [
        Bug::EntryBeforeInode,
        Bug::InodeBeforeBitmap,
        Bug::PointerBeforeBitmap,
        Bug::PointerBeforeContent,
        Bug::PointerBeforeData,
        Bug::FreedAtOnce,
        Bug::LinkDroppedAtOnce,
        Bug::ParentCountLate,
        Bug::BodyLate,
        Bug::RenameRemovesFirst,
        Bug::SameChunkRenameSplit,
        Bug::ReplacedTargetFreed,
        Bug::RolledBackNotRedirtied,
        Bug::FactOfOlderImage,
        Bug::RolledBackCounts,
        Bug::SizeNotRolledBack,
        Bug::FragmentMoveFreesOld,
        Bug::CancelForgetsReplaced,
        Bug::FsyncWithoutName,
        Bug::FsyncWithoutParent,
        Bug::FactAtCompletion,
        Bug::PendingSpaceReused,
        Bug::MergedGuardedRemoval,
        Bug::AckBeforeDurable,
        Bug::ErrorSwallowed,
        Bug::GenerationKept,
    ];

    /// Names of the policies that it can be planted in. A test hunts for it in each of them.
    pub fn policies(self) -> &'static [&'static str] {
        match self {
            Bug::AckBeforeDurable | Bug::ErrorSwallowed | Bug::GenerationKept => {
                &["async", "sync", "soft"]
            }
            _ => &[],
        }
    }
}

#[cfg(debug_assertions)]
std::thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// True if a bug is planted.
#[cfg(debug_assertions)]
pub fn is(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// True if a bug is planted.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub const fn is(_bug: Bug) -> bool {
    false
}

/// Calls `run` with a bug planted, on this thread.
#[cfg(debug_assertions)]
pub fn with<R>(bug: Option<Bug>, run: impl FnOnce() -> R) -> R {
    let before = PLANTED.replace(bug);
    let result = run();
    PLANTED.set(before);
    result
}
