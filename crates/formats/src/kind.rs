//! What a format declares, once: all that commands, messages and the prover need to know.

use crate::error::FsError;
use crate::options::{MkfsOptions, MountOptions, SwitchOptions};
use crate::report::{Checked, Extent, Repaired};
use seekless_engine::disk::Disk;
use seekless_engine::planted::PlantedBug;
use seekless_engine::units::BlockNr;
use seekless_fs::call::{Ino, Timestamp};
use seekless_fs::core::page::{Mask, Page};
use seekless_fs::policy::PolicyKind;
use seekless_fs::system::FileSystem;
use seekless_fs::tx::BlockNo;

/// A mounted file system, whatever its format.
pub trait MountedFs: FileSystem + Send {
    /// How writes of metadata are ordered.
    fn policy(&self) -> PolicyKind;

    /// What a cache that survives a power cut would hold after one: blocks of the file system, the
    /// sectors of them that count, and their bytes.
    fn nvram_image(&self) -> Vec<(BlockNo, Mask, Page)>;

    /// Its sizes in a few words.
    fn describe(&self) -> String;

    /// What the mount has met that asks for a repair, as a sentence without a full stop.
    fn damage(&self) -> Option<String>;

    /// What the mount has brought in place from a log after a crash, as a sentence without a full
    /// stop.
    fn recovered(&self) -> Option<String>;

    /// True if a crash before the mount may have left space in use that nothing leads to.
    fn may_leak(&self) -> bool;

    /// True while work in the background is under way that frees such space.
    fn reclaims(&self) -> bool;
}

/// What a format cannot hold, whatever the sizes of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindLimits {
    /// Bytes of a name at most.
    pub name_bytes: usize,
    /// Names of an object at most.
    pub links: u32,
    /// Bytes of a file at most; fewer where addresses of small blocks do not reach that far.
    pub file_bytes: u64,
    /// The largest number of an owner or a group.
    pub owner: u32,
    /// Space can be allocated that was not written, and holes can be made.
    pub allocates: bool,
    /// The disk tells objects apart that had the same number one after the other.
    pub generations: bool,
    /// Nanoseconds between two times that it tells apart. With whole seconds it holds those from
    /// 1970 to 2106, and no time of creation.
    pub time_step: Timestamp,
    /// The disk says whether the file system was unmounted.
    pub marks_unmounts: bool,
}

/// A format, with its code behind plain functions.
#[derive(Debug)]
pub struct KindDescriptor {
    /// The name used on the command line and in reports.
    pub name: &'static str,
    /// The name beside those of other programs' file systems.
    pub qualified: &'static str,
    /// The name in messages to people.
    pub title: &'static str,
    /// One line for people who choose.
    pub summary: &'static str,
    /// The policies that it can be mounted with.
    pub policies: &'static [PolicyKind],
    /// What it cannot hold.
    pub limits: KindLimits,
    /// It needs a volume of objects, and no other format can be on one.
    pub needs_objects: bool,
    /// The prover can judge it.
    pub is_proved: bool,
    /// The policies in which a planted bug can show.
    pub planted: fn(PlantedBug) -> &'static [PolicyKind],
    /// True if a volume holds such a file system, whole or damaged.
    ///
    /// Errors: those of the volume.
    pub is_on: fn(&mut dyn Disk) -> Result<bool, FsError>,
    /// What it makes unless it is told otherwise.
    pub defaults: fn() -> MkfsOptions,
    /// Makes one, and says in a line what was made.
    ///
    /// Errors: options that are not possible, a volume that is too small, errors of the volume.
    pub mkfs: fn(&mut dyn Disk, &MkfsOptions) -> Result<String, FsError>,
    /// Makes a volume that holds one hold none, before another format is made there.
    ///
    /// Errors: those of the volume.
    pub erase: fn(&mut dyn Disk) -> Result<(), FsError>,
    /// The policy to mount with unless the user names one.
    ///
    /// Errors: no such file system, or one that cannot be read.
    pub advice: fn(&mut dyn Disk) -> Result<PolicyKind, FsError>,
    /// The first block of its log, if that lies on another volume, which is to be joined there.
    ///
    /// Errors: no such file system, or one that cannot be read.
    pub journal_at: fn(&mut dyn Disk) -> Result<Option<BlockNr>, FsError>,
    /// Mounts it. It sends its requests to the same volume afterwards, as port 0.
    ///
    /// Errors: no such file system, damage, or a state that asks for a repair first.
    pub mount: Mount,
    /// Looks for damage, and writes nothing.
    ///
    /// Errors: no such file system, or errors of the volume.
    pub check: fn(&mut dyn Disk) -> Result<Checked, FsError>,
    /// Brings in place what a crash has left in a log, as a mount for writing does.
    ///
    /// Errors: no such file system, damage of the log, or errors of the volume.
    pub recover: fn(&mut dyn Disk) -> Result<(), FsError>,
    /// Gives up a log on another volume that is lost, before a repair. True if it may have held
    /// changes that are in no other place.
    ///
    /// Errors: no such file system, none with such a log, or errors of the volume.
    pub abandon_journal: fn(&mut dyn Disk) -> Result<bool, FsError>,
    /// Gives one that is not mounted another policy, with a log if that wants one. Says in a line
    /// what was done.
    ///
    /// Errors: one that was not unmounted or is not sound, no room for a log, errors of the volume.
    pub switch_policy: fn(&mut dyn Disk, &SwitchOptions) -> Result<String, FsError>,
    /// Repairs all that a check finds.
    ///
    /// Errors: as for the check, and findings that remain.
    pub repair: fn(&mut dyn Disk) -> Result<Repaired, FsError>,
    /// Where the bytes of a file lie, up to its end; none if what leads to them is damaged.
    ///
    /// Errors: no such file system, or errors of the volume.
    pub extents: Extents,
}

type Extents = fn(&mut dyn Disk, Ino) -> Result<Option<Vec<Extent>>, FsError>;

type Mount = fn(&mut dyn Disk, &MountOptions) -> Result<Box<dyn MountedFs>, FsError>;
