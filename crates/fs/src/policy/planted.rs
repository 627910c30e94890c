//! Bugs that can be planted in the policies, to show that the prover finds them.
//!
//! In a build without debug assertions every check here is `false` at compile time: the product
//! contains none of the bugs.

use super::PolicyKind;

/// The policies that order writes of metadata.
const ORDERED: [PolicyKind; 2] = [PolicyKind::Sync, PolicyKind::Soft];
/// The policies that write names later than calls are answered.
const LAZY: [PolicyKind; 2] = [PolicyKind::Async, PolicyKind::Soft];
/// The policy in which maps and content of files are ordered, too.
const SOFT: [PolicyKind; 1] = [PolicyKind::Soft];

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bug {
    /// A call for durability is answered before its changes are durable.
    AckBeforeDurable,
    /// A failed write counts as done.
    ErrorSwallowed,
    /// A new inode has the generation of the old one.
    GenerationKept,
    /// A new name does not wait for its inode.
    EntryBeforeInode,
    /// A new inode does not wait for its bit.
    InodeBeforeBitmap,
    /// An address does not wait for the bits of its block.
    PointerBeforeBitmap,
    /// An address does not wait for the content of a directory or an indirect block.
    PointerBeforeContent,
    /// An address does not wait for the content of a file.
    PointerBeforeData,
    /// Space is free before the disk has lost the address of it.
    FreedAtOnce,
    /// A link count is lower on the disk before the name is gone.
    LinkDroppedAtOnce,
    /// A new directory does not wait for the link count of its parent.
    ParentCountLate,
    /// What needs a name does not wait for the size of its directory.
    BodyLate,
    /// The old name of a rename does not wait for the new one.
    RenameRemovesFirst,
    /// What a rename replaces loses its link before the name leads elsewhere.
    ReplacedTargetFreed,
    /// A block that was written with old bytes counts as clean.
    RolledBackNotRedirtied,
    /// A write brings facts that came up while it was under way.
    FactOfOlderImage,
    /// A write brings facts although its bytes were put back.
    RolledBackCounts,
    /// A size does not wait for the content below it.
    SizeNotRolledBack,
    /// The old place of a moved tail is free at once.
    FragmentMoveFreesOld,
    /// A guard that supersedes another one forgets the older bytes.
    CancelForgetsReplaced,
    /// fsync does not write the names of a file.
    FsyncWithoutName,
    /// fsync does not write the names of the directories above.
    FsyncWithoutParent,
    /// A write is ordered when it is complete, though the device has a volatile cache.
    FactAtCompletion,
    /// A name takes the place of a removed one that the disk still shows.
    MergedGuardedRemoval,
    /// A larger size forgets what the smaller one waits for.
    GrowthForgetsNeeds,
    /// Content that is freed is forgotten although something waits for it.
    ContentForgottenEarly,
    /// A directory is removed before the names that leave it have gone.
    DirectoryBeforeLeavers,
    /// A reclaim frees what an operation has given up meanwhile.
    ReclaimForgetsFrees,
    /// A reclaim does not count names that an operation gives meanwhile.
    ReclaimForgetsNames,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 29] = [
        Bug::AckBeforeDurable,
        Bug::ErrorSwallowed,
        Bug::GenerationKept,
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
        Bug::MergedGuardedRemoval,
        Bug::GrowthForgetsNeeds,
        Bug::ContentForgottenEarly,
        Bug::DirectoryBeforeLeavers,
        Bug::ReclaimForgetsFrees,
        Bug::ReclaimForgetsNames,
    ];

    /// The policies in which it can show.
    pub fn policies(self) -> &'static [PolicyKind] {
        match self {
            Bug::AckBeforeDurable | Bug::ErrorSwallowed | Bug::GenerationKept => &PolicyKind::ALL,
            // Under `sync` names are durable before their calls are answered.
            Bug::FsyncWithoutName | Bug::FsyncWithoutParent => &LAZY,
            // Under `sync` maps and content of files are not ordered, and each call waits for what
            // it has changed before the next one changes it again.
            Bug::InodeBeforeBitmap
            | Bug::PointerBeforeBitmap
            | Bug::PointerBeforeData
            | Bug::CancelForgetsReplaced
            | Bug::GrowthForgetsNeeds
            | Bug::MergedGuardedRemoval
            | Bug::ContentForgottenEarly
            | Bug::DirectoryBeforeLeavers
            | Bug::ReclaimForgetsFrees
            | Bug::ReclaimForgetsNames => &SOFT,
            _ => &ORDERED,
        }
    }

    /// What is wrong with it, in words.
    pub fn summary(self) -> &'static str {
        match self {
            Bug::AckBeforeDurable => {
                "a call for durability is answered before its changes are durable"
            }
            Bug::ErrorSwallowed => "a failed write counts as done",
            Bug::GenerationKept => "a new inode has the generation of the old one",
            Bug::EntryBeforeInode => "a new name does not wait for its inode",
            Bug::InodeBeforeBitmap => "a new inode does not wait for its bit",
            Bug::PointerBeforeBitmap => "an address does not wait for the bits of its block",
            Bug::PointerBeforeContent => {
                "an address does not wait for the content of a directory or an indirect block"
            }
            Bug::PointerBeforeData => "an address does not wait for the content of a file",
            Bug::FreedAtOnce => "space is free before the disk has lost the address of it",
            Bug::LinkDroppedAtOnce => "a link count is lower on the disk before the name is gone",
            Bug::ParentCountLate => {
                "a new directory does not wait for the link count of its parent"
            }
            Bug::BodyLate => "what needs a name does not wait for the size of its directory",
            Bug::RenameRemovesFirst => "the old name of a rename does not wait for the new one",
            Bug::ReplacedTargetFreed => {
                "what a rename replaces loses its link before the name leads elsewhere"
            }
            Bug::RolledBackNotRedirtied => {
                "a block that was written with old bytes counts as clean"
            }
            Bug::FactOfOlderImage => "a write brings facts that came up while it was under way",
            Bug::RolledBackCounts => "a write brings facts although its bytes were put back",
            Bug::SizeNotRolledBack => "a size does not wait for the content below it",
            Bug::FragmentMoveFreesOld => "the old place of a moved tail is free at once",
            Bug::CancelForgetsReplaced => {
                "a guard that supersedes another one forgets the older bytes"
            }
            Bug::FsyncWithoutName => "fsync does not write the names of a file",
            Bug::FsyncWithoutParent => "fsync does not write the names of the directories above",
            Bug::FactAtCompletion => {
                "a write is ordered when it is complete, though the device has a volatile cache"
            }
            Bug::MergedGuardedRemoval => {
                "a name takes the place of a removed one that the disk still shows"
            }
            Bug::GrowthForgetsNeeds => "a larger size forgets what the smaller one waits for",
            Bug::ContentForgottenEarly => {
                "content that is freed is forgotten although something waits for it"
            }
            Bug::DirectoryBeforeLeavers => {
                "a directory is removed before the names that leave it have gone"
            }
            Bug::ReclaimForgetsFrees => "a reclaim frees what an operation has given up meanwhile",
            Bug::ReclaimForgetsNames => {
                "a reclaim does not count names that an operation gives meanwhile"
            }
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
