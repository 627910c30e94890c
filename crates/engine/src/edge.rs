//! Edges: what must come before what, and what must be compared with what, each under a name.
//!
//! A flush before a record, a place that waits until nothing needs it, a checksum that is compared:
//! each of them stands in the code with its [`Edge`], so that it can be cut to see whether the
//! prover notices. A cut edge is a bug that a change could bring by leaving something out.
//! `cargo xtask mutants` cuts one after the other; `docs/proof.md` says what came of it.
//!
//! In a build without debug assertions no edge can be cut: all of this is gone at compile time.

use crate::io::{Io, Tag};
#[cfg(debug_assertions)]
use std::cell::Cell;

/// Declares the edges, by the part of the program that they belong to, each with its reason.
macro_rules! edges {
    ($($area:ident { $($edge:ident: $reason:literal,)* })*) => {
        /// An edge.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Edge {
            $($(#[doc = concat!("Holds: ", $reason, ".")] $edge,)*)*
        }

        impl Edge {
            /// All of them.
            pub const ALL: &[Edge] = &[$($(Edge::$edge,)*)*];

            /// What holds because of it.
            pub fn reason(self) -> &'static str {
                match self {
                    $($(Edge::$edge => $reason,)*)*
                }
            }

            /// The part of the program that it belongs to.
            pub fn area(self) -> Area {
                match self {
                    $($(Edge::$edge => Area::$area,)*)*
                }
            }
        }
    };
}

/// Parts of the program that edges belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Area {
    /// What all volumes share: superblock, request table.
    Volume,
    /// What `vlog` and `loge` share.
    Eager,
    /// The virtual log.
    Vlog,
    /// Loge.
    Loge,
    /// The disk caching disk.
    Dcd,
    /// The disk caching disk with its log on a device of its own.
    Apart,
    /// `lfs`, `wolf` and `hylog`.
    Lfs,
    /// Arrays.
    Array,
    /// File systems, whatever their policy.
    Files,
    /// File systems that order their writes.
    Soft,
    /// File systems that keep a log.
    Journal,
    /// File systems on transactions of their volume.
    Atomic,
    /// The log as a service.
    Log,
}

edges! {
    Volume {
        SuperblockLast: "a superblock follows what it describes",
        SuperblockErased: "a new volume begins when the superblock of the old one is gone for good",
        SuperblockMended: "a copy of a superblock that was written anew is durable",
        ForcedWriteFlush: "a forced write is durable when it is answered",
        ShutdownRecordFlush: "a clean shutdown ends when its record is durable",
        SuperblockSum: "a superblock has its checksum",
        InplaceFormatFlush: "a new volume is durable",
    }
    Eager {
        CommitFlush: "commits are durable when the device has been flushed",
        FlushCoversCommitted: "a flush covers what was on the device when it began",
        WaiterNeedsCommit: "who waits needs the last commit durable",
        ReadHoldsPlaces: "a place that a read uses is not free",
        HeldWhilePunched: "a place that is given back is not free before the device has answered",
        PunchedUnitFree: "all of a unit that is given back is free",
    }
    Vlog {
        VlogFormatFlush: "a new volume is durable",
        VlogMountFlush: "nothing is written before what the mount found is durable",
        VlogMapSum: "the header of a map block has its checksum",
        VlogEntriesSum: "the entries of a map block have their checksum",
        VlogMapPlace: "a map block lies where it was written",
        VlogMapOwner: "a map block is of this volume",
        VlogTailSum: "the tail record has its checksum",
        VlogTailLive: "the tail record leads to as many map blocks as it says",
        VlogTailDigest: "the tail record leads to the map blocks of its digest",
        VlogTailFresh: "the tail record gives out no number again",
        VlogPointerSequence: "a pointer leads to the map block of its number",
        VlogNewestFirst: "of two versions of a map block the first one found by number counts",
        VlogOneCommit: "map blocks of one commit say the same of it",
        VlogDataSum: "a young commit holds only with its data",
        VlogOfTwoYounger: "of two commits that follow one the younger counts",
        VlogNumbersOfDropped: "the numbers of dropped commits are not given out again",
        VlogKeptForAnother: "the record of a recovery spares what another recovery needs",
        VlogTornErased: "torn map blocks are erased",
        VlogMarkerFlush: "dropped map blocks stay until the record of the recovery is durable",
        VlogEraseFlush: "nothing is written before erased map blocks are gone for good",
        VlogTailCleared: "nothing is written before the tail record is gone for good",
        VlogUnreadable: "a block that cannot be read may have been a young commit",
        VlogMovedSince: "the compactor leaves a block that has moved since it was read",
        VlogEscaped: "data that looks like a map block is stored in another form",
        VlogTornData: "a block that begins as a map block and is none counts as torn",
        VlogTailLast: "the tail record is written when all is durable",
        VlogWitnessLast: "the tail record follows a commit that says what is durable",
        VlogRepairFlush: "the tail record of a repair follows its map",
        VlogRepairEnd: "a repair is durable",
    }
    Loge {
        LogeFormatFlush: "a new volume is durable",
        LogeRecordYounger: "of two records of a mount the younger counts",
        LogeRecordSum: "a record of a mount has its checksum",
        LogeDescriptorSum: "a descriptor has its checksum",
        LogeDataSum: "a young transaction holds only with its data",
        LogeForged: "a young transaction whose members disagree does not hold",
        LogeStampGap: "the stamps of what did not survive are not given out again",
        LogeMountFlush: "nothing is erased before what was found is durable",
        LogeErasedFlush: "the record of a mount follows what it erases",
        LogeRecordFlush: "nothing is written before the record of the mount is durable",
        LogeTrimsDurable: "a tombstone is not written again before it is durable",
        LogeRestDurable: "a record that ends the rest follows that of the rest",
        LogeDescriptorNoted: "a descriptor stays until its transaction is known to be durable",
        LogeRecordsApart: "a record is not written before the last one is durable",
        LogeCleanLast: "the record of a clean shutdown is written when all is durable",
        LogeRestLast: "a volume rests when all is durable",
        LogeRepairFlush: "the record of a repair follows its labels",
        LogeRepairEnd: "a repair is durable",
    }
    Dcd {
        DcdFormatFlush: "a new volume is durable",
        DcdHeaderSum: "the header of a record has its checksum",
        DcdHeaderPlace: "a header counts where it was written",
        DcdLaterLife: "of two records with one number that of the later life counts",
        DcdLivesInOrder: "a record of a later life is not followed by one of an earlier",
        DcdWholeData: "a young record counts only with its data",
        DcdMountFlush: "nothing is erased before what was found is durable",
        DcdEraseFlush: "nothing is written before dropped records are gone for good",
        DcdDroppedErased: "dropped records are erased",
        DcdUnreadable: "a block of the log that cannot be read may have been a young record",
        DcdNewLife: "each mount has a life of its own",
        DcdTornErased: "torn records are erased",
        DcdFlush: "records and writes home are durable when the device has been flushed",
        DcdFlushCoversRecords: "a flush covers the records that were written when it began",
        DcdFlushCoversHomes: "a flush covers the writes home that were done when it began",
        DcdDirectLasting: "a direct write lasts when its tombstone is durable",
        DcdDrainFlush: "a drain ends when its record is durable",
        DcdDrainHomes: "records are released when their blocks are durable at home",
        DcdRepairHomes: "the record of a repair follows the blocks at home",
        DcdRepairRecord: "nothing is erased before the record of the repair is durable",
        DcdRepairEnd: "a repair is durable",
    }
    Apart {
        BindingOlderFirst: "the copy of a binding that counts is written last",
        BindingCopies: "one copy of a binding is durable before the other is written",
        LogMarksOlderFirst: "the copy of the marks of a log that counts is written last",
        LogMarksCopies: "one copy of the marks of a log is durable before the other is written",
        AttachLogFirst: "an origin is bound when its log is durable",
        BindFirst: "the rest of a binding follows its first block",
        BindRest: "the rescue of a binding follows the rest",
        BindEnd: "a binding is durable before the log says so",
        JoinFlush: "a mount writes nothing before the origin is durable",
        MoveFlush: "each step of a move follows the ones before",
        DetachEnd: "a log that is detached is one no longer",
        RestoreRest: "the first block of an origin goes back last",
        RestoreEnd: "a restored origin is durable",
    }
    Lfs {
        LfsFormatFlush: "a new volume is durable",
        LfsMountFlush: "nothing is written before what the mount found is durable",
        LfsRecordSum: "a checkpoint record has its checksum",
        LfsRecordNewer: "of two checkpoint records the newer counts",
        LfsSummarySum: "the summary of a part has its checksum",
        LfsSummaryPlace: "a summary counts where it was written",
        LfsMapSum: "a block of the map has its checksum",
        LfsPartFollows: "a part follows the one of its link",
        LfsPartMount: "a part is of a mount that may have written it",
        LfsLaterMount: "of two parts that follow that of the later mount counts",
        LfsSoundPart: "a part names only what exists",
        LfsJudgedLink: "the log ends where a mount has found its end",
        LfsPartData: "a young part holds only with its data",
        LfsPlugData: "a young part holds only with its plugs",
        LfsJudgedFound: "a part that a mount has found is not missing",
        VlfsCheckpointFlush: "the older checkpoint is given up when the newer one is durable",
        LfsCheckpointFlush: "a checkpoint counts when its record is durable",
        LfsFlush: "commits are durable when the device has been flushed",
        LfsFlushCoversCompleted: "a flush covers what was on the device when it began",
        LfsWaiterNeedsCommit: "who waits needs the last commit durable",
        LfsBusySegment: "a segment with a command in it is not free",
        LfsFreeAtMount: "a segment that the checkpoint needs is not free at the mount",
        LfsOverwriteChecked: "no recovery compares what is overwritten in place",
        LfsOverwriteSettled: "what is overwritten in place is marked on the device",
        LfsOverwriteMark: "only what is marked is overwritten in place",
        LfsMountEnd: "nothing is written before the record of the mount is durable",
        LfsRepairFlush: "the record of a repair follows its map",
        LfsRepairEnd: "a repair is durable",
    }
    Array {
        MemberFlush: "what was acknowledged is durable on each member when it has been flushed",
        MemberFlushCovers: "a flush of the members covers what had ended when it began",
        BroadcastFlush: "what all members are told is durable before it counts",
        LogFlush: "stripes are written when their record in the log is durable",
        LogBatchSum: "a batch of the intent log counts only with its content",
        LogRecordEnded: "a record of the log stays until its writes are durable in their places",
        LogCoversStripe: "a stripe with a record in the log is not written without another one",
        LogWholeShort: "a whole stripe is logged where a member is missing",
        LogNumbers: "a log that is opened anew gives out numbers of its own",
        MarkBeforeWrite: "a write waits for the mark of its region",
        MarkStaysBusy: "the mark of a region with a write under way is not cleared",
        MarkBeingCleared: "a write waits where the mark of its region is being cleared",
        MarkSectorDamaged: "a damaged sector of the bitmap counts as marked",
        InformBehind: "members that have not heard the last word hear it first",
        InformFlush: "nothing is changed before all have heard the last word",
        RepairedFlush: "what was repaired is durable before the array is signed",
        SignFlush: "marks and logs go when all members are signed",
        SignLogFlush: "marks go after the logs",
        SignEnd: "nothing is written before the marks are gone for good",
        OutInBothCopies: "who is out stands in both copies of a superblock",
        StopTwice: "the end of an array is told twice",
        ClearAfterFlush: "marks are cleared after a flush of what they marked",
        StopFlush: "the clean shutdown of an array begins with a flush",
        ReplacedFilled: "a replaced member is filled from the start",
        ReplaceFlush: "a replacement is durable before the others hear of it",
        TellOthersFlush: "the others know of a replacement for good",
        ScrubFlush: "what a scrub has repaired is durable",
        MemberYoungerFirst: "the copy of a new member's superblock that counts is durable first",
        CreateFlush: "the superblocks of a new member are durable",
    }
    Files {
        FilesFlush: "what a call has written is durable when the volume has been flushed",
        FilesWaitWritten: "a call for durability waits until its blocks are written",
        FilesWaitEpoch: "a call for durability waits for all changes before it",
        FilesMissedWrite: "a write that completes after a flush was sent is flushed again",
        MkfsSpares: "the copies of the superblock of a new file system follow its maps",
        MkfsEmpty: "nothing of a new file system is written before the old one is gone for good",
        MkfsFirst: "the first superblock of a new file system is written last",
        MkfsEnd: "a new file system is durable",
        MountMark: "nothing is written before the mark of the mount is durable",
        UnmountMark: "the clean mark is written when all is durable",
        UnmountRaw: "the flush of an unmount follows the clean mark",
        RepairFound: "a repair writes nothing before what it found is durable",
        RepairRound: "each round of a repair is durable before the next",
        RepairMark: "the clean mark of a repair follows what it vouches for",
        RepairMarkEnd: "the clean mark of a repair is durable",
        RepairChunks: "a repaired directory is durable before an inode names it",
        RepairTable: "new inodes are durable before they count",
        RepairCopies: "copies of shared blocks are durable before an inode names them",
        LogRedone: "what a log holds is durable in place before its next epoch begins",
        LogCarried: "groups that carry on what is open are durable before their epoch begins",
        LogEpoch: "the first superblock of an epoch is durable before the second is written",
        LogBegun: "no group is written before both superblocks of its epoch are durable",
        LogRepairMark: "a log that was applied goes when the file system asks for a repair",
        LogEmptied: "the file system says that its log holds nothing when that is durable",
        SwitchMark: "a switch of the policy writes nothing before the file system may leak",
        SwitchLog: "a new log is whole before an inode or the superblock leads to it",
        SwitchOwner: "space of a new log has its owner before the superblock names the log",
        SwitchCopies: "all copies of the superblock name a new log before the clean mark",
        SwitchEnd: "a switch of the policy is durable",
        SparesEnd: "completed copies of the superblock are durable",
        FsyncOwned: "fsync writes the content of a file",
        FsyncLosers: "fsync writes what lets go of the blocks of a file",
        FsyncGroup: "fsync writes the header of a group that has grown",
        FsyncBodies: "fsync writes moved tails of directories first",
        FsyncMoved: "fsync writes everything where a directory has moved",
    }
    Soft {
        FactsOfFailedFlush: "a failed flush orders nothing",
        OldestGuardLast: "guards are rolled back youngest first",
        OverlapHolds: "a guard that an older one overlaps stays",
        SupersededWaited: "a guard that something waits for is not superseded",
        KeepsAge: "a guard that supersedes another is as old as its bytes",
        ForgetAwaited: "content that a call for durability may need is not forgotten",
        ReclaimDisturbed: "a reclaim looks again where space changes",
        ReclaimLeaving: "the number of a directory that leaves is not free",
    }
    Journal {
        LogHomeAfter: "a sector is written in place after the log has its changes",
        LogDataFirst: "the log has a group after the content that it leads to is on the disk",
        LogFreeAfter: "space is used again after the log says that it was given up",
        LogStartHome: "the start of the log passes a group after its changes are in place",
        LogCheckpoint: "what is open goes into a checkpoint before the start of the log passes it",
        LogClosed: "the start of the log passes what is closed after the log says so",
        LogReserve: "an operation begins only where the log has room for its group",
        UnmountLog: "the clean mark is written when the log has ended",
    }
    Atomic {
        TransactionDataFirst: "a transaction goes out after the content that it leads to",
        TransactionHolds: "what belongs to a transaction is not written alone",
    }
    Log {
        RecordsFlush: "records are durable when a sync returns",
        RecordsFound: "records that a mount finds in a cache are durable before they count",
        StartStated: "space is used again after both superblocks of a log say that it is free",
        LogMade: "a new log is durable",
    }
}

impl Edge {
    /// The edge of this name, as `{:?}` writes it.
    pub fn named(name: &str) -> Option<Edge> {
        Edge::ALL.iter().copied().find(|edge| format!("{edge:?}") == name)
    }

    /// What the edge demands: `met`, and true where it is cut. Comparisons and waits go through
    /// this.
    #[inline(always)]
    pub fn allows(self, met: bool) -> bool {
        met || self.is_cut()
    }

    /// What stands in the way: `blocked`, and false where the edge is cut.
    #[inline(always)]
    pub fn blocks(self, blocked: bool) -> bool {
        blocked && !self.is_cut()
    }

    /// What a flush covers, that of when it began: `then`, and `now` where the edge is cut.
    #[inline(always)]
    pub fn covers<T: PartialEq>(self, then: T, now: T) -> T {
        if then != now && self.is_cut() { now } else { then }
    }

    /// False where the edge is cut: the step that it stands for is left out.
    #[inline(always)]
    pub fn stands(self) -> bool {
        !self.is_cut()
    }

    /// A flush of a device. Where the edge is cut it is a read, which makes nothing durable.
    #[inline(always)]
    pub fn flush(self, tag: Tag) -> Io {
        if self.stands() { Io::flush(tag) } else { Io::read(tag, 0, 1) }
    }

    /// True where the edge is cut. Asked only when it matters, so it also notes that it was asked.
    #[cfg(debug_assertions)]
    fn is_cut(self) -> bool {
        CUT.with(|cut| {
            let (edge, reached) = cut.get();
            let is_it = edge == Some(self);
            if is_it && !reached {
                cut.set((edge, true));
            }
            is_it
        })
    }

    #[cfg(not(debug_assertions))]
    #[inline(always)]
    const fn is_cut(self) -> bool {
        false
    }
}

/// The variable that names the edge to be cut in every thread of a program: a test of a part is
/// shown to fail without the edge, and need not know of it.
pub const VARIABLE: &str = "SEEKLESS_CUT";

#[cfg(debug_assertions)]
std::thread_local! {
    /// The edge that is cut, and whether it has mattered since.
    static CUT: Cell<(Option<Edge>, bool)> = Cell::new((cut_from_outside(), false));
}

/// The edge that the environment of a test names.
#[cfg(debug_assertions)]
#[expect(clippy::disallowed_methods, reason = "a switch of tests, and not in the product")]
fn cut_from_outside() -> Option<Edge> {
    let name = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty())?;
    Some(Edge::named(&name).unwrap_or_else(|| panic!("{VARIABLE}: there is no edge `{name}`")))
}

/// Calls `run` with an edge cut, on this thread. Also says whether the edge ever mattered: if not,
/// nothing that ran comes to it.
#[cfg(debug_assertions)]
pub fn with_cut<R>(edge: Option<Edge>, run: impl FnOnce() -> R) -> (R, bool) {
    let before = CUT.replace((edge, false));
    let result = run();
    let (_, reached) = CUT.replace(before);
    (result, reached)
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;
    use crate::io::Op;

    #[test]
    fn only_the_edge_that_is_cut_gives_way() {
        let all = || {
            let (cut, other) = (Edge::SuperblockSum, Edge::ShutdownRecordFlush);
            (cut.allows(false), cut.blocks(true), other.allows(false), other.flush(1).op)
        };
        assert_eq!(
            with_cut(Some(Edge::SuperblockSum), all),
            ((true, false, false, Op::Flush), true)
        );
        assert_eq!(with_cut(None, all), ((false, true, false, Op::Flush), false));
    }

    #[test]
    fn an_edge_matters_where_its_demand_is_not_met() {
        let met = || Edge::SuperblockSum.allows(true) && !Edge::SuperblockSum.blocks(false);
        assert_eq!(with_cut(Some(Edge::SuperblockSum), met), (true, false));
        let flush = || Edge::ShutdownRecordFlush.flush(1).op;
        assert_eq!(with_cut(Some(Edge::ShutdownRecordFlush), flush), (Op::Read, true));
    }

    #[test]
    fn every_edge_is_found_by_its_name() {
        for &edge in Edge::ALL {
            assert_eq!(Edge::named(&format!("{edge:?}")), Some(edge));
            assert!(!edge.reason().is_empty());
        }
    }
}
