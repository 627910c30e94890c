//! In which policies a bug that is planted in file systems can show.

use super::PolicyKind;
use seekless_engine::planted::PlantedBug;

/// The policies that order writes of metadata.
const ORDERED: [PolicyKind; 2] = [PolicyKind::Sync, PolicyKind::Soft];
/// The policies that write names later than calls are answered.
const LAZY: [PolicyKind; 2] = [PolicyKind::Async, PolicyKind::Soft];
/// The policy without an order.
const UNORDERED: [PolicyKind; 1] = [PolicyKind::Async];
/// The policy in which maps and content of files are ordered, too.
const SOFT: [PolicyKind; 1] = [PolicyKind::Soft];

/// The policies of transactions.
const TRANSACTIONS: [PolicyKind; 2] = [PolicyKind::Atomic, PolicyKind::Unit];

/// The policy of transactions that carry content.
const UNIT: [PolicyKind; 1] = [PolicyKind::Unit];

/// The policy whose log counts as far as a superblock names it.
const NAMED: [PolicyKind; 1] = [PolicyKind::LffsFile];

/// The policies in which a bug of [`PlantedBug::FILES`] can show.
pub fn policies(bug: PlantedBug) -> &'static [PolicyKind] {
    match bug {
        PlantedBug::AckBeforeDurable
        | PlantedBug::ErrorSwallowed
        | PlantedBug::GenerationKept
        | PlantedBug::MovedKeepsParent
        | PlantedBug::CutTailCounted => &PolicyKind::ALL,
        // Under `async` tails that move are guarded. A log needs no guards.
        PlantedBug::PointerBeforeContent
        | PlantedBug::FragmentMoveFreesOld
        | PlantedBug::SizeNotRolledBack
        | PlantedBug::RolledBackNotRedirtied
        | PlantedBug::FactAtCompletion => &PolicyKind::UNLOGGED,
        // Under an order an inode is written with what waits for it.
        PlantedBug::FsyncWithoutInode => &UNORDERED,
        // Under `sync` names are durable before their calls are answered.
        PlantedBug::FsyncWithoutName | PlantedBug::FsyncWithoutParent => &LAZY,
        // Under `sync` maps and content of files are not ordered, and each call waits for what
        // it has changed before the next one changes it again.
        PlantedBug::InodeBeforeBitmap
        | PlantedBug::PointerBeforeBitmap
        | PlantedBug::PointerBeforeData
        | PlantedBug::CancelForgetsReplaced
        | PlantedBug::GrowthForgetsNeeds
        | PlantedBug::MergedGuardedRemoval
        | PlantedBug::ContentForgottenEarly
        | PlantedBug::DirectoryBeforeLeavers
        | PlantedBug::ReclaimForgetsFrees
        | PlantedBug::ReclaimForgetsNames => &SOFT,
        PlantedBug::TransactionSplit => &TRANSACTIONS,
        PlantedBug::UnitForgetsContent => &UNIT,
        PlantedBug::UnnamedCounts => &NAMED,
        bug if PlantedBug::JOURNAL.contains(&bug) => &PolicyKind::LOGGED,
        _ => &ORDERED,
    }
}
