//! The rules of the judges: every complaint names the one that it is about.
//!
//! A rule that never objects looks like a volume without defects. So a test plants a bug for each
//! rule, silences all others with [`alone`], and expects a violation
//! (`crates/prove/tests/suite/rules.rs`). The bug must be one that this rule finds by itself.

use std::fmt;

/// Declares the rules, each with its judge and what it says.
macro_rules! rules {
    ($($rule:ident, $judge:ident, $summary:literal;)*) => {
        /// A rule of a judge.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Rule {
            $(#[doc = concat!($summary, ".")] $rule,)*
            /// A rule of a subject outside this crate.
            Own,
        }

        impl Rule {
            /// Those of this crate.
            pub const ALL: &[Rule] = &[$(Rule::$rule,)*];

            /// Who applies it.
            pub fn judge(self) -> Judge {
                match self {
                    $(Rule::$rule => Judge::$judge,)*
                    Rule::Own => Judge::Subject,
                }
            }

            /// What it asks for.
            pub fn summary(self) -> &'static str {
                match self {
                    $(Rule::$rule => $summary,)*
                    Rule::Own => "A subject says what it asks for",
                }
            }
        }
    };
}

/// Who applies a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Judge {
    /// What blocks may hold after a crash (`block/history.rs`).
    History,
    /// What a client of a block volume hears (`block/oracle.rs`).
    BlockClient,
    /// The mount, the reads and the writes of a crash state (`check.rs`).
    State,
    /// The end of a run (`run.rs`, `run/faults.rs`).
    Run,
    /// An image before and after its repair (`files/looks.rs`).
    Image,
    /// The findings of a check of FFS.
    Check,
    /// The tree that a crash has left (`files/judge.rs`).
    Tree,
    /// What a client of a file system hears (`files/oracle.rs`).
    FileClient,
    /// The records that a crash has left of a log (`log/oracle.rs`).
    Records,
    /// A subject outside this crate.
    Subject,
}

impl Judge {
    /// Its name in the table of `docs/proof.md`.
    pub fn name(self) -> &'static str {
        match self {
            Judge::History => "history of blocks",
            Judge::BlockClient => "client of blocks",
            Judge::State => "crash state",
            Judge::Run => "run",
            Judge::Image => "image",
            Judge::Check => "check of FFS",
            Judge::Tree => "tree",
            Judge::FileClient => "client of files",
            Judge::Records => "records of a log",
            Judge::Subject => "subject",
        }
    }
}

rules! {
    BlockVersion, History, "A block holds a version that no durable one has replaced";
    WholeRequest, History, "All blocks of a request are there, or none";
    RequestOrder, History, "No request survives one acknowledged before it was sent";
    ReadVersion, BlockClient, "A read brings a version that no acknowledged one has replaced";
    ReadAnswered, BlockClient, "A read fails only where a block is damaged";
    ChangeAnswered, BlockClient, "A change or a flush fails only after an error of a device";
    StaysFailed, BlockClient, "A volume that reports an error has failed";
    NoPretence, BlockClient, "Nothing is acknowledged after an error on the write path";
    Mounts, State, "Every crash state can be mounted";
    CanBeRead, State, "Every block of a crash state can be read";
    MembersAgree, State, "The members of a recovered array agree";
    ReadOnlyShows, State, "A read-only mount writes nothing and shows what a recovery leaves";
    MountShows, State, "A mount shows the tree that the image holds";
    Works, State, "A recovered volume can be written, flushed, read and unmounted";
    DamageNoticed, State, "Damage with a power cut reads as an error or as an older version";
    DamageAtRest, Run, "Damage after a clean shutdown reads as right data or as an error";
    DamageLookedPast, Run, "A read-only mount of an array shows no damage of one member";
    DamageMended, Run, "A scrub with repair mends the damage of one member";
    Answers, Run, "Every request is answered";
    ShutsDown, Run, "A clean shutdown ends";
    ImageSound, Image, "A check before repair finds only what the policy may leave";
    MarkedClean, Image, "An image marked as unmounted is sound";
    Repairable, Image, "A repair of an image succeeds, and its tree can be read";
    SectorCounts, Check, "The sectors that an inode counts are those that it has";
    ParentEntries, Check, "`..` leads to the directory that has the name";
    NamesInUse, Check, "A name leads to an inode that is in use";
    OneOwner, Check, "A block has one owner";
    AddressRange, Check, "An address lies within the data of the volume";
    MarkedInUse, Check, "What is in use is marked as such in the maps";
    EnoughLinks, Check, "A count of links is not lower than the number of names";
    DirectoryForm, Check, "The entries of a directory are well formed";
    OneParent, Check, "A directory has one name and is not its own ancestor";
    NothingLeaked, Check, "After an unmount all that is in use has a name";
    KnownName, Tree, "Every name is one that a client gave";
    RootThere, Tree, "The root directory is there";
    NameLeads, Tree, "A name leads to an object that it may lead to";
    NameStays, Tree, "A durable name that nothing removed is there";
    Attributes, Tree, "Mode and owner are those of a version that may be there";
    KindKept, Tree, "Kind and link text are those of the object";
    SizeVersion, Tree, "A size is one that the file may have";
    SectorVersion, Tree, "A sector holds a version of its own that may be there";
    NoForeignSector, Tree, "A file shows no content of another file (I8)";
    FsyncedName, Tree, "A name leads to an object that was synced (I10)";
    RenamedName, Tree, "A renamed object keeps a name (I11)";
    ImageDamage, Tree, "An image has no damage that no operation since the mount may leave";
    OneName, Tree, "A rename leaves one name where the policy promises it";
    OnePoint, Tree, "Where the policy promises it, names, modes and sizes are of one point in time";
    WholeWrite, Tree, "A write is there as a whole where the policy promises it";
    WrittenWhole, FileClient, "A write writes all its bytes unless space runs out";
    Refused, FileClient, "A call that must fail fails";
    CallAnswered, FileClient, "A call fails only with a cause";
    FreshIdentity, FileClient, "A new object is told, and has no identity of an old one";
    LogDurable, Records, "A log holds all records that a sync covers";
    LogPrefix, Records, "A log holds records without a gap, and none that was trimmed";
}

impl Rule {
    /// True unless a test has silenced it.
    pub fn applies(self) -> bool {
        the_one().is_none_or(|one| one == self)
    }

    /// The same for a rule about findings of a check, applied by any judge.
    pub(crate) fn applies_by(self, judge: Rule) -> bool {
        the_one().is_none_or(|one| one == self || one == judge)
    }
}

/// Something that is wrong, in a sentence, and the rule that it breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The rule.
    pub rule: Rule,
    /// The sentence.
    pub sentence: String,
}

impl Complaint {
    /// A complaint of a subject outside this crate.
    pub fn own(sentence: impl Into<String>) -> Complaint {
        Complaint { rule: Rule::Own, sentence: sentence.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

/// What a list of complaints says about one rule is added to it, unless that rule is silenced.
pub(crate) fn complain(
    complaints: &mut Vec<Complaint>,
    rule: Rule,
    sentence: impl FnOnce() -> String,
) {
    if rule.applies() {
        complaints.push(Complaint { rule, sentence: sentence() });
    }
}

#[cfg(debug_assertions)]
std::thread_local! {
    static ALONE: std::cell::Cell<Option<Rule>> = const { std::cell::Cell::new(None) };
}

#[cfg(debug_assertions)]
fn the_one() -> Option<Rule> {
    ALONE.get()
}

/// No rule is silenced in a build without debug assertions.
#[cfg(not(debug_assertions))]
#[inline(always)]
const fn the_one() -> Option<Rule> {
    None
}

/// Calls `run`, whose complaints a rule makes its own: they are silenced with it, and only with it.
pub(crate) fn on_behalf<R>(rule: Rule, run: impl FnOnce() -> R) -> R {
    #[cfg(debug_assertions)]
    if ALONE.get() == Some(rule) {
        ALONE.set(None);
        let result = run();
        ALONE.set(Some(rule));
        return result;
    }
    let _ = rule;
    run()
}

/// Calls `run` with all rules but one silenced, on this thread.
#[cfg(debug_assertions)]
pub fn alone<R>(rule: Rule, run: impl FnOnce() -> R) -> R {
    let before = ALONE.replace(Some(rule));
    let result = run();
    ALONE.set(before);
    result
}
