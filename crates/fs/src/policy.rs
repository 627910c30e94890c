//! The seam of policies: in which order changes reach the volume, and what a call waits for.
//!
//! The core tells a policy the rules of each transaction that has ended well, asks it for the image
//! of a block that is about to be written, and tells it of writes that are settled: ordered before
//! all later ones. [`ordered::Ordered`] is soft updates, synchronous FFS, and what `async` still
//! orders.

pub mod atomic;
pub mod guard;
pub mod journal;
pub mod ordered;
pub mod patched;
pub mod planted;

use crate::call::Timestamp;
use crate::core::page::{Mask, Page};
use crate::log::{Edit, LogWrite, Lsn};
use crate::tx::{BlockNo, Deferred, Field, Freed, Need, Role};
use guard::Manifest;
use seekless_engine::units::{BlockNr, Time};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::Range;

/// The policies that a mount may choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicyKind {
    /// Writes in any order, but for the content of tails that move.
    #[default]
    Async,
    /// Metadata is written at once, in order, before a call is answered.
    Sync,
    /// Metadata is written later, in order: soft updates.
    Soft,
    /// Metadata goes to a log in a file first, later than the answer. Only what a superblock of the
    /// log names counts (paper 001, section 5.3; claim J41).
    LffsFile,
    /// Metadata goes to a log on the same volume first; a call is answered when it is there.
    Wafs1Sync,
    /// Metadata goes to a log on the same volume first, later than the answer.
    Wafs1Async,
    /// As [`PolicyKind::Wafs1Sync`], with the log on a volume of its own.
    Wafs2Sync,
    /// As [`PolicyKind::Wafs1Async`], with the log on a volume of its own.
    Wafs2Async,
    /// Metadata is written in transactions of the volume, later than the answer.
    Atomic,
    /// All that is dirty is written in transactions of the volume, content too.
    Unit,
}

impl PolicyKind {
    /// All of them.
    pub const ALL: [PolicyKind; 10] = [
        PolicyKind::Async,
        PolicyKind::Sync,
        PolicyKind::Soft,
        PolicyKind::LffsFile,
        PolicyKind::Wafs1Sync,
        PolicyKind::Wafs1Async,
        PolicyKind::Wafs2Sync,
        PolicyKind::Wafs2Async,
        PolicyKind::Atomic,
        PolicyKind::Unit,
    ];
    /// Those that write blocks one by one, in an order or in none.
    pub const UNLOGGED: [PolicyKind; 3] = [PolicyKind::Async, PolicyKind::Sync, PolicyKind::Soft];
    /// Those that keep a log.
    pub const LOGGED: [PolicyKind; 5] = [
        PolicyKind::LffsFile,
        PolicyKind::Wafs1Sync,
        PolicyKind::Wafs1Async,
        PolicyKind::Wafs2Sync,
        PolicyKind::Wafs2Async,
    ];

    /// The name in options and messages.
    pub fn name(self) -> &'static str {
        match self {
            PolicyKind::Async => "async",
            PolicyKind::Sync => "sync",
            PolicyKind::Soft => "soft",
            PolicyKind::LffsFile => "lffs-file",
            PolicyKind::Wafs1Sync => "wafs-1sync",
            PolicyKind::Wafs1Async => "wafs-1async",
            PolicyKind::Wafs2Sync => "wafs-2sync",
            PolicyKind::Wafs2Async => "wafs-2async",
            PolicyKind::Atomic => "atomic",
            PolicyKind::Unit => "unit",
        }
    }

    /// True if it keeps a log of metadata.
    pub fn is_logged(self) -> bool {
        PolicyKind::LOGGED.contains(&self)
    }

    /// True if it answers a change of metadata when that is durable.
    pub fn answers_when_durable(self) -> bool {
        matches!(self, PolicyKind::Sync | PolicyKind::Wafs1Sync | PolicyKind::Wafs2Sync)
    }

    /// True if its log lies on a volume of its own.
    pub fn has_own_log_volume(self) -> bool {
        matches!(self, PolicyKind::Wafs2Sync | PolicyKind::Wafs2Async)
    }

    /// True if its log lies in a file of the file system, and nowhere else.
    pub fn has_log_in_file(self) -> bool {
        self == PolicyKind::LffsFile
    }

    /// True if only what a superblock of its log names counts after a crash.
    pub fn counts_named_only(self) -> bool {
        self == PolicyKind::LffsFile
    }

    /// True if its operations are transactions of the volume.
    pub fn wants_transactions(self) -> bool {
        matches!(self, PolicyKind::Atomic | PolicyKind::Unit)
    }

    /// True if content of files is of the same point in time as names and inodes after a crash.
    pub fn carries_content(self) -> bool {
        self == PolicyKind::Unit
    }

    /// True if names and inodes are those of one point in time after a crash.
    pub fn is_one_point(self) -> bool {
        self.is_logged() || self.wants_transactions()
    }

    /// The policy of a new mount. One that keeps a log is [`journal::Journal::new`].
    ///
    /// # Panics
    /// If the policy keeps a log.
    pub fn policy(self) -> Box<dyn Policy> {
        assert!(!self.is_logged(), "{} needs a log", self.name());
        match self.wants_transactions() {
            true => Box::new(atomic::Atomic::new(self, true)),
            false => Box::new(ordered::Ordered::new(self)),
        }
    }
}

/// Fields of one block with the bytes that the disk may show until the needs of a guard hold.
pub type Olds = SmallVec<[(Field, SmallVec<[u8; 16]>); 2]>;

/// What a transaction wants of the order of writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// As [`crate::tx::Tx::guard`].
    Guard {
        /// What changes.
        olds: Olds,
        /// What must be on the disk before.
        needs: SmallVec<[Need; 4]>,
        /// What it does.
        role: Role,
    },
    /// As [`crate::tx::Tx::free_later`].
    Free {
        /// The space.
        freed: Freed,
        /// Its bytes, if the cache may hold changes of them.
        content: Option<Field>,
    },
    /// Bytes to which nothing on the disk leads: the cache has forgotten them.
    Forget(Field),
    /// As [`crate::tx::Tx::writes_at_once`].
    AtOnce(Field),
    /// As [`crate::tx::Tx::content`].
    Content {
        /// The content.
        field: Field,
        /// Whatever the mode of data.
        always: bool,
    },
    /// As [`crate::tx::Tx::freed`].
    Freed(Deferred),
    /// As [`crate::tx::Tx::orphaned`].
    Orphan(u32),
    /// As [`crate::tx::Tx::adopted`].
    Adopted(u32),
    /// As [`crate::tx::Tx::cut`].
    Cut(Range<BlockNo>),
}

/// What a transaction has changed, for a log.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// Absolute bytes, as they are now.
    pub edits: Vec<Edit<'a>>,
    /// Sectors with seals that they lie in.
    pub sectors: SmallVec<[(BlockNo, Mask); 8]>,
    /// Sectors of content that were allocated and are dirty, and whether they go first whatever the
    /// mode of data.
    pub contents: SmallVec<[(BlockNo, Mask, bool); 2]>,
    /// Sectors of content that were changed, if the policy asks for them.
    pub changed_contents: SmallVec<[(BlockNo, Mask); 2]>,
    /// Bytes that were changed, and whether they are content, if the policy writes patches.
    pub changed_bytes: Vec<(BlockNo, Range<u16>, bool)>,
    /// What it wants of the order of writes.
    pub rules: &'a [Rule],
    /// When.
    pub time: Timestamp,
}

/// A write of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogIo {
    /// Sectors of the ring.
    Sectors {
        /// The first block of the range.
        at: BlockNr,
        /// The write.
        write: LogWrite,
    },
    /// A superblock. Only one is under way at a time.
    Superblock {
        /// Its block.
        at: BlockNr,
        /// Its bytes.
        bytes: Vec<u8>,
    },
}

/// What a write in place brings, for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brings {
    /// A sector of which this is the oldest group that was not in place.
    Home(Lsn),
    /// So many sectors of content that this group waits for.
    Content(Lsn, u32),
}

/// What a transaction of the volume does with a block of the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// It writes the blocks of the volume in which these sectors lie.
    Sectors(Mask),
    /// It changes these bytes, ranges in ascending order.
    Bytes(SmallVec<[Range<u16>; 4]>),
}

/// A transaction of the volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeTransaction {
    /// Blocks that it forgets before it writes.
    pub cuts: Vec<Range<BlockNo>>,
    /// Blocks that it changes.
    pub blocks: Vec<(BlockNo, Carried)>,
}

/// What a transaction of a volume may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionLimits {
    /// Most blocks of 4,096 bytes.
    pub blocks: u64,
    /// As [`seekless_engine::layer::Status::patch_bytes`].
    pub patch_bytes: u64,
    /// Sectors of a block of the file system.
    pub sectors: usize,
}

/// When a call may be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settle {
    /// At once.
    Now,
    /// When these bytes are on the disk as they are now.
    Written(Vec<Field>),
    /// When the log is durable up to here.
    Logged(Lsn),
}

/// The order of writes.
pub trait Policy: Debug + Send {
    /// Which one it is.
    fn kind(&self) -> PolicyKind;

    /// True if it keeps single changes from the disk: operations say what each needs there before.
    fn guards(&self) -> bool {
        false
    }

    /// True if the end of a file stays on the disk at its old place until the disk has it at its
    /// new one.
    fn guards_moves(&self) -> bool {
        self.guards()
    }

    /// True if space that an operation gives up is freed when nothing on the disk leads there.
    fn defers_frees(&self) -> bool {
        false
    }

    /// True if calls that change names or inodes are answered when the changes are on the disk.
    fn answers_late(&self) -> bool {
        false
    }

    /// A transaction has ended well: its edits are in the cache. Takes its rules. What it adds to
    /// `forgotten` is not to be written: it means nothing, and nothing waits for it.
    fn committed(&mut self, _rules: &mut Vec<Rule>, _forgotten: &mut Vec<Field>) -> Settle {
        Settle::Now
    }

    /// Calls for durability are under way, or none is: what they have seen must not vanish.
    fn awaits(&mut self, _calls: bool) {}

    /// Makes the page of a block what a write of these sectors carries. Returns what the write
    /// brings, and the sectors that are to be written again.
    fn image(&mut self, _block: BlockNo, _sectors: Mask, _page: &mut Page) -> (Manifest, Mask) {
        (Manifest::default(), 0)
    }

    /// A copy that goes its own way.
    fn fork(&self) -> Box<dyn Policy>;

    /// Writes are ordered before all later ones: what they bring holds.
    fn settled(&mut self, _manifest: Manifest) {}

    /// Space that may be freed now.
    fn take_free(&mut self) -> Option<Vec<Deferred>> {
        None
    }

    /// Space that is still to be freed, in pieces.
    fn frees(&self) -> usize {
        0
    }

    /// True if a change of these bytes waits for something.
    fn is_guarded(&self, _field: Field) -> bool {
        false
    }

    /// Now, for [`Policy::keeps_back`].
    fn now(&self) -> u64 {
        0
    }

    /// True if a change made by `mark` is kept from the disk: one of these fields, or any.
    fn keeps_back(&self, _fields: Option<&[Field]>, _mark: u64) -> bool {
        false
    }

    /// The blocks to be written before these fields can be on the disk, as far as these can be
    /// written now.
    fn next_writes(&self, _fields: &[Field]) -> BTreeSet<BlockNo> {
        BTreeSet::new()
    }

    /// The same for all changes made by `mark`.
    fn next_writes_by(&self, _mark: u64) -> BTreeSet<BlockNo> {
        BTreeSet::new()
    }

    /// What it keeps in memory, in guards, facts and actions.
    fn load(&self) -> usize {
        0
    }

    /// True if it takes groups: metadata is durable when its group is, in a log or in a transaction
    /// of the volume, and a block waits for its groups.
    fn takes_groups(&self) -> bool {
        false
    }

    /// True if a group names the content that its transaction has changed.
    fn carries_content(&self) -> bool {
        false
    }

    /// A transaction has ended well. Adds its group to the log.
    fn group(&mut self, _group: &Group<'_>, _now: Time) -> Settle {
        Settle::Now
    }

    /// How far the log must be durable before these sectors may be written in place, if it is not.
    fn before(&self, _block: BlockNo, _sectors: Mask) -> Option<Lsn> {
        None
    }

    /// The sectors of a block that wait for the log.
    fn held(&self, _block: BlockNo) -> Mask {
        0
    }

    /// Makes the log durable up to here, as soon as the content that goes first is.
    fn force(&mut self, _to: Lsn) {}

    /// Blocks of content that keep back what [`Policy::force`] was asked for. Groups that come
    /// later may lie in the same sectors, so there may be more of them each time.
    fn take_held_up(&mut self) -> Vec<BlockNo> {
        Vec::new()
    }

    /// Behind the last group.
    fn log_end(&self) -> Lsn {
        Lsn::default()
    }

    /// Everything in front of it is durable.
    fn log_durable(&self) -> Lsn {
        Lsn::default()
    }

    /// When the log is forced if nothing asks for it before.
    fn log_due(&self) -> Option<Time> {
        None
    }

    /// The volume takes writes of single sectors.
    fn use_parts(&mut self) {}

    /// What a transaction of the volume may be.
    fn use_transactions(&mut self, _limits: TransactionLimits) {}

    /// The next transaction of the volume, if it is to go out.
    fn next_transaction(&self) -> Option<VolumeTransaction> {
        None
    }

    /// True if a group names the bytes that its transaction has changed, and what it has cut.
    fn writes_patches(&self) -> bool {
        false
    }

    /// True if a block has been cut and the volume may not know.
    fn is_cut(&self, _block: BlockNo) -> bool {
        false
    }

    /// Blocks that changes take in the volume which it may not have yet.
    fn blocks_to_come(&self) -> u64 {
        0
    }

    /// Whole blocks that the next transaction of the volume has place for beside a short operation.
    fn place_for_blocks(&self) -> u64 {
        u64::MAX
    }

    /// The next transaction has no place for an operation: it is to go out first.
    fn make_place(&mut self) {}

    /// It has gone out. Gives its number, for [`Policy::log_written`].
    fn transaction_sent(&mut self) -> u64 {
        0
    }

    /// The next write of the log, if there is one.
    fn log_write(&mut self, _now: Time) -> Option<LogIo> {
        None
    }

    /// The write of sectors, or the transaction, with this number is durable. Gives up to where the
    /// log is.
    fn log_written(&mut self, _number: u64) -> Lsn {
        Lsn::default()
    }

    /// The superblock that was under way is durable. Gives up to where the log is.
    fn superblock_written(&mut self) -> Lsn {
        Lsn::default()
    }

    /// Blocks that are to be written in place soon, so that the log has room.
    fn take_homeward(&mut self) -> Vec<BlockNo> {
        Vec::new()
    }

    /// True if the log waits until writes that have completed are flushed.
    fn waits_for_flush(&self) -> bool {
        false
    }

    /// True if the log has no room for another operation.
    fn lacks_room(&self) -> bool {
        false
    }

    /// True if a change could not be logged: nothing may be written.
    fn is_lost(&self) -> bool {
        false
    }

    /// Everything is in place: the log comes to its end.
    fn end_log(&mut self) {}

    /// True when the log says that it has ended.
    fn has_ended(&self) -> bool {
        true
    }

    /// Counters of the log for reports, in a fixed order.
    fn log_stats(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

impl Clone for Box<dyn Policy> {
    fn clone(&self) -> Box<dyn Policy> {
        (**self).fork()
    }
}
