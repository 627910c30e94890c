//! The layouts there are, and what can be done with a volume whatever its layout.

use crate::descriptor::Descriptor;
use crate::salvage::lengthened::Lengthened;
use crate::salvage::volume::SalvagedVolume;
use crate::salvage::{Repaired, Salvage};
use crate::shared::{ALLOW_STALE, SALVAGE};
use crate::{dcd, inplace, lfs, loge, vlfs, vlog};
use seekless_engine::disk::Disk;
use seekless_engine::layer::Layer;
use seekless_engine::layout::{
    CheckReport, Clock, FormatOptions, LayoutError, MountOptions, MountPath, MountReport, Promises,
    RecoverySteps,
};
use seekless_engine::options::Options;
use seekless_engine::planted::PlantedBug;
use seekless_engine::superblock::LayoutNumber;
use seekless_engine::superblock::{Superblock, SuperblockError};
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

/// Declares the layouts: a name in capitals and a descriptor, a line each, in the order in which
/// they are listed to people.
macro_rules! layouts {
    ($($name:ident => $descriptor:expr,)+) => {
        impl Kind {
            $(
                #[doc = concat!("The layout whose descriptor is `", stringify!($descriptor), "`.")]
                pub const $name: Kind = Kind($descriptor.number);
            )+

            /// All layouts, in the order in which they are listed to people.
            pub const ALL: [Kind; [$(Kind::$name),+].len()] = [$(Kind::$name),+];
        }

        static DESCRIPTORS: &[&Descriptor] = &[$(&$descriptor),+];
    };
}

/// Layouts of objects: a file system makes them for itself, and they are no rows of blocks.
static OF_OBJECTS: &[&Descriptor] = &[&vlfs::DESCRIPTOR];

layouts! {
    INPLACE => inplace::DESCRIPTOR,
    VLOG => vlog::DESCRIPTOR,
    LOGE => loge::DESCRIPTOR,
    DCD => dcd::DESCRIPTOR,
    LFS => lfs::DESCRIPTOR,
    WOLF => lfs::WOLF,
    HYLOG => lfs::HYLOG,
    LLD => lfs::LLD,
}

/// One of the layouts. It has all that its [`Descriptor`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind(u32);

impl Deref for Kind {
    type Target = Descriptor;

    fn deref(&self) -> &Descriptor {
        self.descriptor()
    }
}

fn find(number: u32) -> Option<&'static Descriptor> {
    DESCRIPTORS.iter().chain(OF_OBJECTS).find(|one| one.number == number).copied()
}

impl Kind {
    /// The layout of a volume.
    ///
    /// # Panics
    /// If the superblock was not read by [`read_superblock`], which knows all layouts.
    pub fn of(superblock: &Superblock) -> Kind {
        let kind = Kind::from_number(superblock.layout);
        kind.expect("superblocks of unknown layouts are refused when they are read")
    }

    /// The layout with a number.
    pub fn from_number(number: LayoutNumber) -> Option<Kind> {
        find(number.0).map(|one| Kind(one.number))
    }

    /// What it declares.
    pub fn descriptor(self) -> &'static Descriptor {
        find(self.0).expect("a kind is made from a descriptor only")
    }

    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Refuses a disk that takes writes in the order of its zones, unless this layout leaves the
    /// order to its clients.
    ///
    /// # Errors
    /// [`LayoutError::InOrder`].
    pub fn check_in_order(self, disk: &str) -> Result<(), LayoutError> {
        if self.adds_no_writes {
            return Ok(());
        }
        let (disk, writer) = (disk.to_owned(), format!("layout {self}"));
        Err(LayoutError::InOrder { disk, writer })
    }

    /// What it promises beyond what every layout does.
    pub fn promises(self) -> Promises {
        self.promises
    }

    /// Bugs that can be planted in it.
    pub fn planted_bugs(self) -> &'static [PlantedBug] {
        self.planted_bugs
    }

    /// Device blocks that a volume of `logical` blocks needs unless something else is chosen.
    pub fn device_blocks(self, logical: u64) -> u64 {
        self.device_blocks_with(logical, &Options::default())
    }

    /// Device blocks that a volume of `logical` blocks needs if it is made with these options.
    pub fn device_blocks_with(self, logical: u64, options: &Options) -> u64 {
        (self.device_blocks)(logical, options)
    }

    /// The largest volume that fits on a device of `device` blocks, in blocks; 0 if none does.
    pub fn largest_volume(self, device: u64) -> u64 {
        (self.largest_volume)(device)
    }

    /// The volume that a device of `device` blocks gets unless a size is given.
    pub fn usual_volume(self, device: u64) -> u64 {
        (self.usual_volume)(device)
    }
}

impl Kind {
    /// The drive below VLFS. It has objects in place of blocks, so it is in no list of layouts that
    /// serve blocks: its file system makes it for itself.
    pub const VLFS: Kind = Kind(vlfs::DESCRIPTOR.number);

    /// True if its volumes hold objects in place of blocks in a row.
    pub fn has_objects(self) -> bool {
        OF_OBJECTS.iter().any(|one| one.number == self.0)
    }

    /// The log-structured layouts, which share an engine.
    pub const LOG_STRUCTURED: [Kind; 4] = [Kind::LFS, Kind::WOLF, Kind::HYLOG, Kind::LLD];

    /// True if it is log-structured.
    pub fn is_log_structured(self) -> bool {
        Kind::LOG_STRUCTURED.contains(&self)
    }
}

impl From<Kind> for LayoutNumber {
    fn from(kind: Kind) -> LayoutNumber {
        LayoutNumber(kind.0)
    }
}

impl PartialEq<Kind> for LayoutNumber {
    fn eq(&self, kind: &Kind) -> bool {
        self.0 == kind.0
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// No layout has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown layout `{0}`: known are {known}", known = known_layouts())]
pub struct UnknownLayout(String);

/// The names of all layouts, for messages.
fn known_layouts() -> String {
    Kind::ALL.map(Kind::name).join(", ")
}

impl FromStr for Kind {
    type Err = UnknownLayout;

    fn from_str(name: &str) -> Result<Kind, UnknownLayout> {
        let known = Kind::ALL.into_iter().find(|kind| kind.name == name);
        known.ok_or_else(|| UnknownLayout(name.to_owned()))
    }
}

/// Refuses superblocks that no layout can have written, and completes what only the layout knows.
///
/// # Errors
/// An unknown layout number; sizes that the layout cannot have.
pub fn known(superblock: Superblock) -> Result<Superblock, SuperblockError> {
    let LayoutNumber(number) = superblock.layout;
    let descriptor = find(number).ok_or(SuperblockError::UnknownLayout(number))?;
    let superblock = superblock.with_oldest_sums(descriptor.oldest_sums);
    if !(descriptor.accepts)(&superblock) {
        return Err(SuperblockError::Damaged);
    }
    Ok(superblock)
}

/// Reads the superblock of a volume of any layout.
///
/// # Errors
/// See [`Superblock::read`].
pub fn read_superblock(disk: &mut dyn Disk) -> Result<Superblock, LayoutError> {
    Ok(Superblock::read(disk, &known)?)
}

/// Makes a volume.
///
/// # Errors
/// Sizes that do not fit, and what the medium reports.
///
/// # Panics
/// If no layout has the number in `options`.
pub fn format(disk: &mut dyn Disk, options: &FormatOptions) -> Result<(), LayoutError> {
    let kind = Kind::from_number(options.layout).expect("the caller names a layout that exists");
    (kind.check_size)(kind.name, disk.blocks(), options)?;
    Superblock::erase(disk)?;
    (kind.format)(disk, options)
}

/// The step of a mount that has found one of the copies of the superblock damaged.
pub const MENDED: &str = "write a damaged copy of the superblock anew";

/// Mounts whatever volume the device holds. A copy of the superblock that is lost is written anew
/// unless the mount is read-only.
///
/// # Errors
/// A damaged, foreign or newer image, and what the medium reports.
pub fn mount(
    disk: &mut dyn Disk,
    options: &MountOptions<'_>,
) -> Result<(Box<dyn Layer>, Superblock, MountReport), LayoutError> {
    let mut steps = RecoverySteps::new(options.clock);
    if options.options.get(&SALVAGE) {
        return mount_salvage(disk, options, steps);
    }
    let superblock = begin_with_superblock(disk, &mut steps)?;
    let layer = (Kind::of(&superblock).mount)(disk, &superblock, options, &mut steps)?;
    if !options.read_only && superblock.mend(disk, &known)? {
        steps.begin(MENDED);
    }
    Ok((layer, superblock, steps.finish()))
}

/// Finds out what is certain of a volume, damaged or not, or cut off.
///
/// # Errors
/// If both copies of the superblock are damaged, the volume needs a second device that is not
/// given, or the power goes off.
pub fn open_salvage(disk: &mut dyn Disk) -> Result<Salvage, LayoutError> {
    let superblock = Superblock::read_of_part(disk, &known)?;
    let present = disk.blocks();
    let mut all = Lengthened::new(disk, superblock.device_blocks);
    let finder = (Kind::of(&superblock).salvage)(&mut all, &superblock)?;
    Ok(Salvage::new(superblock, finder, present))
}

/// Mounts what is certain of a damaged volume.
fn mount_salvage(
    disk: &mut dyn Disk,
    options: &MountOptions<'_>,
    mut steps: RecoverySteps,
) -> Result<(Box<dyn Layer>, Superblock, MountReport), LayoutError> {
    assert!(options.read_only, "the caller makes the mount of a salvage read-only");
    steps.begin("salvage");
    let salvage = open_salvage(disk)?;
    let superblock = *salvage.superblock();
    steps.found(MountPath::Scan, 0, 0);
    let layer = SalvagedVolume::new(salvage, options.options.get(&ALLOW_STALE));
    Ok((Box::new(layer), superblock, steps.finish()))
}

/// The first step of every mount.
fn begin_with_superblock(
    disk: &mut dyn Disk,
    steps: &mut RecoverySteps,
) -> Result<Superblock, LayoutError> {
    steps.begin("read superblock");
    steps.read(1);
    read_superblock(disk)
}

/// Mounts without writing, then checks everything the volume holds.
///
/// # Errors
/// A damaged, foreign or newer image, and what the medium reports.
pub fn check(disk: &mut dyn Disk) -> Result<(Superblock, MountReport, CheckReport), LayoutError> {
    check_timed(disk, None)
}

/// The same, with the times of the mount's steps by a clock.
///
/// # Errors
/// As for [`check`].
pub fn check_timed(
    disk: &mut dyn Disk,
    clock: Option<Clock>,
) -> Result<(Superblock, MountReport, CheckReport), LayoutError> {
    let mut steps = RecoverySteps::new(clock);
    let superblock = begin_with_superblock(disk, &mut steps)?;
    let mut found = (Kind::of(&superblock).check)(disk, &superblock, &mut steps)?;
    let report = steps.finish();
    let lost = superblock.lost_copies(disk, &known);
    found.lost_copies("the superblock", &lost);
    found.damaged.extend(lost);
    Ok((superblock, report, found))
}

/// Makes a volume that cannot be mounted mountable again. Blocks that are lost are marked, so that
/// reading them is an error, or with `give_up` become zeros.
///
/// # Errors
/// If the superblock or everything else is lost, blocks are lost that the layout cannot mark, and
/// what the medium reports.
pub fn repair(disk: &mut dyn Disk, give_up: bool) -> Result<Repaired, LayoutError> {
    let superblock = read_superblock(disk)?;
    let repaired = (Kind::of(&superblock).repair)(disk, &superblock, give_up)?;
    superblock.mend(disk, &known)?;
    Ok(repaired)
}

/// Writes the on-disk structures as text.
///
/// # Errors
/// A damaged, foreign or newer image, and what the medium reports.
pub fn dump(disk: &mut dyn Disk, out: &mut dyn fmt::Write) -> Result<(), LayoutError> {
    let superblock = read_superblock(disk)?;
    let kind = Kind::of(&superblock);
    let cannot = |_| LayoutError::Damaged("cannot print".into());
    writeln!(out, "{}", superblock.to_text(kind.name)).map_err(cannot)?;
    (kind.dump)(disk, &superblock, out)
}
