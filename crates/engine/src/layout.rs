//! Layouts: where a volume puts its blocks.
//!
//! One file or folder per layout. The functions here read the superblock and hand over to the
//! layout it names, so that callers need not know which layouts exist.

pub mod dcd;
mod desk;
mod eager;
mod ending;
pub mod inplace;
pub mod lfs;
pub mod loge;
mod tuning;
pub mod vlog;

pub use tuning::{Cleaning, Compaction, Tuning, UnknownCleaning, UnknownCompaction};

use crate::arm::Arm;
use crate::checksum::{Identity, Sums};
use crate::disk::Disk;
use crate::io::IoError;
use crate::layer::Layer;
use crate::superblock::{Superblock, SuperblockError, report_lost};
use crate::units::{BLOCK_BYTES, BlockNr};
use crate::volume::VolumeError;
use std::fmt;
use std::str::FromStr;

/// Carries out an expression for the type that implements a kind of layout.
macro_rules! of_kind {
    ($kind:expr, $layout:ident => $body:expr) => {
        match $kind {
            Kind::Inplace => {
                type $layout = inplace::Inplace;
                $body
            }
            Kind::Vlog => {
                type $layout = vlog::Vlog;
                $body
            }
            Kind::Loge => {
                type $layout = loge::Loge;
                $body
            }
            Kind::Dcd => {
                type $layout = dcd::Dcd;
                $body
            }
            Kind::Lfs | Kind::Wolf | Kind::Hylog => {
                type $layout = lfs::Lfs;
                $body
            }
        }
    };
}

/// The layouts there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Every block at its fixed place: update in place.
    Inplace,
    /// The virtual log: every write goes to a free block near the head.
    Vlog,
    /// Loge: eager writing with a label beside each block instead of a log.
    Loge,
    /// The disk caching disk: small writes go to a log first and home while nobody waits.
    Dcd,
    /// Log-structured: writes are collected and appended to a log in segments.
    Lfs,
    /// Log-structured with a sorted write buffer.
    Wolf,
    /// Log-structured for blocks that are written often, in place for the others.
    Hylog,
}

impl Kind {
    /// All layouts, in the order in which they are listed to people.
    pub const ALL: [Kind; 7] =
        [Kind::Inplace, Kind::Vlog, Kind::Loge, Kind::Dcd, Kind::Lfs, Kind::Wolf, Kind::Hylog];

    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Inplace => "inplace",
            Kind::Vlog => "vlog",
            Kind::Loge => "loge",
            Kind::Dcd => "dcd",
            Kind::Lfs => "lfs",
            Kind::Wolf => "wolf",
            Kind::Hylog => "hylog",
        }
    }

    /// One line for people who choose.
    pub fn summary(self) -> &'static str {
        match self {
            Kind::Inplace => "update in place: a block has one fixed place, as on a plain disk",
            Kind::Vlog => {
                "virtual log disk: eager writing to free blocks near the head, map kept as a log"
            }
            Kind::Loge => "Loge: eager writing, a label beside each block says what it holds",
            Kind::Dcd => {
                "disk caching disk: small writes go to a log in large ones, and home when idle"
            }
            Kind::Lfs => "log-structured: writes are appended in large segments, which are cleaned",
            Kind::Wolf => {
                "log-structured with a write buffer sorted by how often blocks are written"
            }
            Kind::Hylog => {
                "a log for blocks that are written often, update in place for the others"
            }
        }
    }

    /// The number of the layout in the superblock.
    pub fn number(self) -> u32 {
        match self {
            Kind::Inplace => 1,
            Kind::Vlog => 2,
            Kind::Loge => 3,
            Kind::Dcd => 4,
            Kind::Lfs => 5,
            Kind::Wolf => 6,
            Kind::Hylog => 7,
        }
    }

    /// What it promises beyond what every layout does.
    pub fn promises(self) -> Promises {
        let all = Promises { atomic: true, ordered: true, checked: true, immediate: true };
        match self {
            Kind::Inplace => Promises { atomic: false, ordered: false, checked: false, ..all },
            Kind::Vlog => all,
            Kind::Loge => Promises { ordered: false, ..all },
            // Blocks at home have no checksums.
            Kind::Dcd => Promises { checked: false, ..all },
            Kind::Lfs | Kind::Wolf => Promises { immediate: false, ..all },
            Kind::Hylog => {
                Promises { atomic: false, ordered: false, checked: false, immediate: false }
            }
        }
    }

    /// Blocks of the largest device that it can be made on.
    pub fn most_blocks(self) -> u64 {
        of_kind!(self, L => L::MOST_DEVICE_BLOCKS)
    }

    /// Device blocks that a volume of `logical` blocks needs. Sized so that the volume can be
    /// written full and still work well.
    pub fn device_blocks(self, logical: u64) -> u64 {
        of_kind!(self, L => L::device_blocks(logical))
    }

    /// The same where the segments are to be of `segment` blocks.
    pub fn device_blocks_for(self, logical: u64, segment: Option<u32>) -> u64 {
        match (self, segment) {
            (Kind::Lfs | Kind::Wolf | Kind::Hylog, Some(segment)) => {
                lfs::device_blocks(logical, |_| segment)
            }
            _ => self.device_blocks(logical),
        }
    }

    /// The largest volume that fits on a device of `device` blocks, in blocks; 0 if none does.
    pub fn largest_volume(self, device: u64) -> u64 {
        of_kind!(self, L => L::largest_volume(device))
    }

    /// The volume that a device of `device` blocks gets if nobody says how large it is to be: the
    /// largest one that still works well when it is full, in blocks; 0 if none fits.
    pub fn usual_volume(self, device: u64) -> u64 {
        of_kind!(self, L => L::usual_volume(device))
    }
}

/// What a layout promises beyond the common contract (`CONTRACT.md`). The prover holds it to this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// A request takes hold as a whole or not at all.
    pub atomic: bool,
    /// What survives a crash is a prefix of what was written.
    pub ordered: bool,
    /// What is stored is checksummed: damage is an error, never wrong bytes.
    pub checked: bool,
    /// On a device that keeps completed writes, an acknowledged write is durable without a flush.
    pub immediate: bool,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = LayoutError;

    fn from_str(name: &str) -> Result<Kind, LayoutError> {
        let known = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| LayoutError::UnknownLayout(name.to_owned()))
    }
}

/// The names of all layouts, for messages.
fn known_layouts() -> String {
    Kind::ALL.map(Kind::name).join(", ")
}

/// Why a volume cannot be made, mounted or checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// No layout has this name.
    #[error("unknown layout `{0}`: known are {known}", known = known_layouts())]
    UnknownLayout(String),
    /// No heuristic has this name.
    #[error(
        "unknown heuristic `{0}`: known are soonest, ls, cr, fr, r and pl, each with or without +sg"
    )]
    UnknownHeuristic(String),
    /// No form of Loge's table has this name.
    #[error(
        "unknown table `{0}`: known are plain, sorted:N with N cylinders on either side (1 to \
         255), and compressed:P with P percent of exceptions (1 to 35)"
    )]
    UnknownTable(String),
    /// The device is too small for the volume.
    #[error(
        "the device has {device} blocks of 4 KiB, the volume needs {needed}; choose a smaller size \
         or a larger device"
    )]
    TooSmall {
        /// Blocks there are.
        device: u64,
        /// Blocks needed.
        needed: u64,
    },
    /// The size is not one that the layout can have.
    #[error("{0}")]
    BadSize(String),
    /// The superblock is missing, damaged, foreign or newer.
    #[error(transparent)]
    Superblock(#[from] SuperblockError),
    /// A volume of two parts of which one is missing or belongs elsewhere.
    #[error("{0}")]
    Apart(String),
    /// It concerns the log of an origin, not the origin.
    #[error(transparent)]
    OfLog(Box<LayoutError>),
    /// The superblock is whole but what it describes is not.
    #[error("the volume is damaged: {0}")]
    Damaged(String),
    /// The array below is not usable.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The medium failed.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl LayoutError {
    /// The same of the log of an origin.
    pub fn of_log(self) -> LayoutError {
        match self {
            LayoutError::OfLog(_) => self,
            other => LayoutError::OfLog(Box::new(other)),
        }
    }
}

/// How to make a volume.
#[derive(Clone, Copy, Debug)]
pub struct FormatOptions {
    /// Its layout.
    pub kind: Kind,
    /// Its size in blocks as seen by clients.
    pub blocks: u64,
    /// Tells volumes apart: blocks left over from an earlier volume on the same device carry
    /// another id and are never mistaken for this one's.
    pub id: u128,
    /// Addresses of a [`Kind::Loge`] volume that has more of them than it can store blocks. If not
    /// given, as many as `blocks`.
    pub addresses: Option<u64>,
    /// How [`Kind::Loge`] is to choose places.
    pub heuristic: loge::Heuristic,
    /// Form of the table of [`Kind::Loge`], which says where blocks may lie.
    pub table: loge::TableForm,
    /// How the log of [`Kind::Dcd`] is cut.
    pub shape: dcd::Shape,
    /// Blocks in a segment of a log-structured layout: a power of two. If not given, what suits
    /// the size of the device.
    pub segment: Option<u32>,
}

impl FormatOptions {
    /// How metadata of the new volume is signed.
    pub fn identity(&self) -> Identity {
        Identity::new(self.id, Sums::NEWEST)
    }

    /// A volume with everything else as it is by default.
    pub fn new(kind: Kind, blocks: u64, id: u128) -> FormatOptions {
        let (heuristic, shape) = (loge::Heuristic::default(), dcd::Shape::default());
        let table = loge::TableForm::default();
        FormatOptions { kind, blocks, id, addresses: None, heuristic, table, shape, segment: None }
    }
}

/// How to mount a volume.
#[derive(Clone, Copy, Debug, Default)]
pub struct MountOptions<'a> {
    /// Mechanics of the device; without them a nominal geometry is used.
    pub arm: Option<&'a dyn Arm>,
    /// True if the device may lose completed writes until it is flushed.
    pub volatile: bool,
    /// Mount without writing anything.
    pub read_only: bool,
    /// How the layout is to work.
    pub tuning: Tuning,
}

/// How a mount found its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountPath {
    /// The layout keeps no state that could be out of date.
    Stateless,
    /// From the record that an orderly end leaves.
    Tail,
    /// By reading the whole device after a crash.
    Scan,
}

/// What a mount did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountReport {
    /// How the state was found.
    pub path: MountPath,
    /// Blocks read to find it.
    pub blocks_read: u64,
    /// Commits found after the last one known durable and accepted, since all they name is whole.
    pub commits_accepted: u64,
    /// Commits given up because the crash had caught them unfinished.
    pub commits_dropped: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// What is wrong, a sentence each; empty if all is well.
    pub problems: Vec<String>,
    /// Facts worth knowing: name and value.
    pub facts: Vec<(&'static str, String)>,
    /// Device blocks that do not hold what the layout has stored there, as far as its checksums
    /// tell; also copies of what is kept twice, which are no problem as long as one is whole.
    pub damaged: Vec<BlockNr>,
    /// Grows with what is written, as far as the mount has found it: of two mounts of what should
    /// be the same volume, the one with the smaller number misses something.
    pub youngest: u128,
}

impl CheckReport {
    /// Notes a device block that does not hold what it should.
    fn damage(&mut self, at: BlockNr, problem: String) {
        self.damaged.push(at);
        self.problems.push(problem);
    }
}

/// A layout: a layer that can be made, mounted and checked. These run alone, in blocking style.
pub trait Layout: Layer + Sized + 'static {
    /// The largest device that it can be made on, in blocks.
    const MOST_DEVICE_BLOCKS: u64;

    /// See [`Kind::device_blocks`].
    fn device_blocks(logical: u64) -> u64;

    /// See [`Kind::largest_volume`].
    fn largest_volume(device: u64) -> u64;

    /// See [`Kind::usual_volume`].
    fn usual_volume(device: u64) -> u64 {
        Self::largest_volume(device)
    }

    /// Writes an empty volume. [`format`] has checked that its size fits.
    ///
    /// # Errors
    /// What the medium reports.
    fn format(disk: &mut dyn Disk, options: &FormatOptions) -> Result<(), LayoutError>;

    /// Recovers the state of a volume.
    ///
    /// # Errors
    /// A damaged, foreign or newer image, and what the medium reports.
    fn mount(
        disk: &mut dyn Disk,
        superblock: &Superblock,
        options: &MountOptions<'_>,
    ) -> Result<(Self, MountReport), LayoutError>;

    /// Reads everything the volume holds and compares it with the recovered state.
    ///
    /// # Errors
    /// Only what the medium reports outside stored blocks; findings go into the report.
    fn check(&self, disk: &mut dyn Disk) -> Result<CheckReport, LayoutError>;

    /// Writes the on-disk structures as text.
    ///
    /// # Errors
    /// What the medium reports.
    fn dump(&self, disk: &mut dyn Disk, out: &mut dyn fmt::Write) -> Result<(), LayoutError>;
}

/// Makes a volume.
///
/// # Errors
/// Sizes that do not fit, and what the medium reports.
pub fn format(disk: &mut dyn Disk, options: &FormatOptions) -> Result<(), LayoutError> {
    if let Some(addresses) = options.addresses {
        loge::check_sparse(options.kind, disk.blocks(), options.blocks, addresses)?;
        return loge::Loge::format(disk, options);
    }
    of_kind!(options.kind, L => {
        check_size::<L>(options.kind, disk.blocks(), options.blocks)?;
        L::format(disk, options)
    })
}

/// Refuses sizes that the layout cannot have.
fn check_size<L: Layout>(kind: Kind, device: u64, blocks: u64) -> Result<(), LayoutError> {
    if blocks == 0 {
        return Err(LayoutError::BadSize("a volume needs at least one block of 4 KiB".into()));
    }
    if device > L::MOST_DEVICE_BLOCKS {
        let gibibytes = L::MOST_DEVICE_BLOCKS >> (30 - BLOCK_BYTES.trailing_zeros());
        let most = match gibibytes % 1024 {
            0 => format!("{} TiB", gibibytes / 1024),
            _ => format!("{gibibytes} GiB"),
        };
        let reason =
            format!("layout {kind} is limited to devices of {most}; choose a smaller size");
        return Err(LayoutError::BadSize(reason));
    }
    if L::largest_volume(device) < blocks {
        return Err(LayoutError::TooSmall { device, needed: L::device_blocks(blocks) });
    }
    Ok(())
}

/// Mounts whatever volume the device holds. A copy of the superblock that is lost is written anew
/// unless the mount is read-only.
///
/// # Errors
/// A damaged, foreign or newer image, and what the medium reports.
pub fn mount(
    disk: &mut dyn Disk,
    options: &MountOptions<'_>,
) -> Result<(Box<dyn Layer>, Superblock, MountReport), LayoutError> {
    let superblock = Superblock::read(disk)?;
    of_kind!(superblock.kind, L => {
        let (layer, report) = L::mount(disk, &superblock, options)?;
        if !options.read_only {
            superblock.mend(disk)?;
        }
        Ok((Box::new(layer), superblock, report))
    })
}

/// Mounts without writing, then checks everything the volume holds.
///
/// # Errors
/// A damaged, foreign or newer image, and what the medium reports.
pub fn check(disk: &mut dyn Disk) -> Result<(Superblock, MountReport, CheckReport), LayoutError> {
    let superblock = Superblock::read(disk)?;
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    of_kind!(superblock.kind, L => {
        let (layout, report) = L::mount(disk, &superblock, &options)?;
        let mut found = layout.check(disk)?;
        let lost = superblock.lost_copies(disk);
        report_lost("the superblock", &lost, &mut found);
        found.damaged.extend(lost);
        Ok((superblock, report, found))
    })
}

/// Writes the on-disk structures as text.
///
/// # Errors
/// A damaged, foreign or newer image, and what the medium reports.
pub fn dump(disk: &mut dyn Disk, out: &mut dyn fmt::Write) -> Result<(), LayoutError> {
    let superblock = Superblock::read(disk)?;
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    writeln!(out, "{superblock}").map_err(|_| LayoutError::Damaged("cannot print".into()))?;
    of_kind!(superblock.kind, L => L::mount(disk, &superblock, &options)?.0.dump(disk, out))
}

/// The first block of a range that lies outside `0..blocks`, as an error.
pub(crate) fn check_range(blocks: u64, at: BlockNr, count: u32) -> Result<(), IoError> {
    if at + u64::from(count) > blocks {
        return Err(IoError::OutOfRange { at, count });
    }
    Ok(())
}

/// The volume that leaves an eighth of itself to a layout that needs room to work well.
fn with_an_eighth_left<L: Layout>(device: u64) -> u64 {
    L::largest_volume(device).min(device / 9 * 8)
}

/// The largest number up to `limit` that fits, where whatever is smaller than what fits does too.
fn largest(limit: u64, fits: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, limit);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    low
}
