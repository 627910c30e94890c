//! What is proved: how a volume is put on its devices, and how it is mounted again.

use super::profile::Size;
use super::small_disk::CYLINDER_BLOCKS;
use seekless_arrays::member::{MemberState, MemberSuperblock};
use seekless_arrays::scrub::scrub;
use seekless_arrays::{
    Array, ArrayDisk, AssembleOptions, CreateArray, Level, VolumeError, assemble,
};
use seekless_engine::device::Device;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::layer::Layer;
use seekless_engine::layout::{FormatOptions, LayoutError, MountOptions, Promises};
use seekless_engine::nested::Nested;
use seekless_engine::node::Node;
use seekless_engine::options::Options;
use seekless_engine::rng::Rng;
use seekless_layouts::Kind;
use seekless_layouts::dcd::{self, Caching, Mode, Order, Report, Shape};
use seekless_layouts::lfs::Cleaning;
use seekless_layouts::loge::options::{HEURISTIC, SPARSE, TABLE};
use seekless_layouts::loge::{Heuristic, Order as PlaceOrder, TableForm};
use seekless_layouts::shared::SEGMENT;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// What is proved. Everything else in the prover is the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A layout on one device.
    Layout(Kind),
    /// A layout on an array.
    Array {
        /// Its level.
        level: Level,
        /// Number of members.
        members: usize,
        /// The layout.
        kind: Kind,
    },
    /// A disk caching disk whose log is on a device of its own.
    Attached,
    /// A Loge volume with more addresses than it can store blocks.
    Sparse,
}

impl From<Kind> for Subject {
    fn from(kind: Kind) -> Subject {
        Subject::Layout(kind)
    }
}

/// The arrays that each commit is held to: every level, with and without checksums on top. Loge on
/// RAID-5 is not among them: of a whole stripe that is torn when a member is lost with the power
/// nothing is left, and its labels may have been in it (`CONTRACT.md`, A3).
const ARRAYS: [(Level, usize, Kind); 12] = [
    (Level::Raid0, 3, Kind::INPLACE),
    (Level::Raid0, 2, Kind::LOGE),
    (Level::Raid0, 2, Kind::LFS),
    (Level::Raid1, 2, Kind::INPLACE),
    (Level::Raid1, 2, Kind::VLOG),
    (Level::Raid1, 2, Kind::LOGE),
    (Level::Raid1, 2, Kind::DCD),
    (Level::Raid1, 3, Kind::LFS),
    (Level::Raid5, 3, Kind::INPLACE),
    (Level::Raid5, 3, Kind::LFS),
    (Level::Raid5, 3, Kind::HYLOG),
    (Level::Raid5, 4, Kind::VLOG),
];

/// A mounted volume, to be joined with the devices it was found on.
#[derive(Debug)]
pub struct Mounted {
    layer: Box<dyn Layer>,
    /// The array below it, if the devices are its members.
    array: Option<Array>,
    /// Blocks that the mount read.
    pub blocks_read: u64,
}

impl Mounted {
    /// The volume over `devices`, in the order in which they were mounted.
    pub fn node(self, devices: Vec<Box<dyn Device>>, seed: u64) -> Node {
        let devices = match self.array {
            None => devices,
            Some(array) => {
                let array = Node::new(Box::new(array), devices, seed);
                vec![Box::new(Nested::new(array)) as Box<dyn Device>]
            }
        };
        Node::new(self.layer, devices, seed)
    }
}

/// A volume that was just made, with nothing in it.
#[derive(Debug)]
pub struct Made {
    /// Its devices.
    pub media: Vec<Cells>,
    /// Its size.
    pub blocks: u64,
    /// Blocks up to which a write is promised to take hold as a whole (`CONTRACT.md`, 2a).
    pub whole_blocks: u64,
}

/// The devices of a mount, blocking; `None` for one that is lost.
pub type Disks<'d> = [Option<&'d mut dyn Disk>];

impl Subject {
    /// Everything that each commit is held to: all layouts, alone and on arrays.
    pub fn all() -> Vec<Subject> {
        let array = |(level, members, kind)| Subject::Array { level, members, kind };
        let alone = Kind::ALL.into_iter().map(Subject::Layout);
        alone.chain([Subject::Attached, Subject::Sparse]).chain(ARRAYS.map(array)).collect()
    }

    /// The layout.
    pub fn kind(self) -> Kind {
        match self {
            Subject::Layout(kind) | Subject::Array { kind, .. } => kind,
            Subject::Attached => Kind::DCD,
            Subject::Sparse => Kind::LOGE,
        }
    }

    /// Its name in reports.
    pub fn name(self) -> String {
        match self {
            Subject::Layout(kind) => kind.name().to_owned(),
            Subject::Array { level, members, kind } => format!("{kind} on {level} of {members}"),
            Subject::Attached => "dcd, log apart".to_owned(),
            Subject::Sparse => "loge, sparse".to_owned(),
        }
    }

    /// The arguments of `seekless prove` that choose it.
    pub fn flags(self) -> String {
        match self {
            Subject::Layout(kind) => format!("--layout {kind}"),
            Subject::Array { level, members, kind } => {
                format!("--layout {kind} --raid {} --members {members}", level.number())
            }
            Subject::Attached => "--layout dcd --log".to_owned(),
            Subject::Sparse => "--layout loge --sparse".to_owned(),
        }
    }

    /// What it promises beyond what every volume does.
    pub fn promises(self) -> Promises {
        self.kind().promises()
    }

    /// True if wrong bytes on its devices are noticed. In the log of a disk caching disk those of
    /// data are; a header with wrong bytes counts as one that was never written.
    pub fn checks(self) -> bool {
        self.promises().checked
    }

    /// True if some of its runs are to have devices with heads.
    pub fn wants_heads(self) -> bool {
        match self {
            Subject::Layout(_) | Subject::Attached | Subject::Sparse => true,
            Subject::Array { .. } => false,
        }
    }

    /// How a disk caching disk is to work: anything goes. Other subjects draw nothing.
    pub fn caching(self, rng: &mut Rng) -> Caching {
        match self {
            Subject::Layout(Kind::DCD)
            | Subject::Array { kind: Kind::DCD, .. }
            | Subject::Attached => any_caching(rng),
            Subject::Layout(_) | Subject::Array { .. } | Subject::Sparse => Caching::default(),
        }
    }

    /// How a log-structured layout is to win space back. Other subjects draw nothing.
    pub fn cleaning(self, rng: &mut Rng) -> Cleaning {
        let (Subject::Layout(kind) | Subject::Array { kind, .. }) = self else {
            return Cleaning::default();
        };
        match kind {
            Kind::LFS | Kind::WOLF | Kind::HYLOG => any(&Cleaning::ALL, rng),
            _ => Cleaning::default(),
        }
    }

    /// True if damage may end writing: what cannot be read in a log cannot go home, and the ring
    /// cannot pass it; a part of a stripe cannot be written where its parity cannot be computed.
    pub fn stops_at_damage(self) -> bool {
        match self {
            Subject::Layout(kind) => kind == Kind::DCD,
            Subject::Attached => true,
            Subject::Sparse => false,
            Subject::Array { level, kind, .. } => level == Level::Raid5 || kind == Kind::DCD,
        }
    }

    /// True if its devices hold copies of each other.
    pub fn has_copies(self) -> bool {
        matches!(self, Subject::Array { level: Level::Raid1, .. })
    }

    /// Devices that it can do without.
    pub fn spare(self) -> usize {
        match self {
            Subject::Layout(_) | Subject::Attached | Subject::Sparse => 0,
            Subject::Array { level, members, .. } => level.spare(members),
        }
    }

    /// Devices of which any one may be lost together with the power without a loss of data, if
    /// those in `failing` have failed since the power came on.
    pub fn dispensable(self, media: &[Cells], failing: &BTreeSet<usize>) -> Vec<usize> {
        if self.spare() == 0 {
            return Vec::new();
        }
        let mut out = self.absent(media);
        out.extend(failing);
        match out.len().cmp(&self.spare()) {
            Ordering::Less => (0..media.len()).collect(),
            // It is missed already, though not all members may have heard of it.
            Ordering::Equal => failing.iter().copied().collect(),
            Ordering::Greater => Vec::new(),
        }
    }

    /// Members of an array that do not have what they should have.
    pub fn absent(self, media: &[Cells]) -> BTreeSet<usize> {
        if self.spare() == 0 {
            return BTreeSet::new();
        }
        let states = states(media);
        (0..media.len()).filter(|&one| states[one] != MemberState::Active).collect()
    }

    /// A stripe about which the members of an array do not agree, if all of them are there.
    pub fn disagreement(self, media: &mut [Cells]) -> Option<u64> {
        let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
        // A member that is out may not know it.
        let known = plain.iter_mut().filter_map(|disk| MemberSuperblock::read(disk).ok());
        let superblock = known.max_by_key(|one| one.events)?;
        let mut disks: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
        let found = scrub(&mut disks, &superblock, None, &mut |_| {}).ok()?;
        found.mismatched.first().copied()
    }

    /// Repairs an array of which all members are there, as [`scrub`] does.
    ///
    /// # Errors
    /// Why it cannot be assembled or repaired.
    pub fn repair(self, media: &mut [Cells]) -> Result<(), VolumeError> {
        let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
        let mut disks: Vec<_> = plain.iter_mut().map(|disk| Some(disk as &mut dyn Disk)).collect();
        let found = assemble(&mut disks, &AssembleOptions::default())?;
        let mut disks: Vec<_> = disks.into_iter().flatten().collect();
        scrub(&mut disks, found.array.superblock(), Some(seekless_layouts::check), &mut |_| {})
            .map(drop)
    }

    /// What happens to the devices while the power is off: one may be pulled out for the epoch to
    /// come, and one that was may be replaced. Returns the device that is pulled out.
    pub fn tinker(self, media: &mut [Cells], rng: &mut Rng) -> Option<usize> {
        let Subject::Array { level, members, .. } = self else { return None };
        if level.spare(members) == 0 {
            return None;
        }
        let states = states(media);
        let absent = states.iter().position(|&one| one != MemberState::Active);
        match absent {
            None if rng.chance(0.3) => Some(rng.below(members as u64) as usize),
            None if rng.chance(0.3) => {
                replace(media, rng.below(members as u64) as usize);
                None
            }
            Some(member) if states[member] == MemberState::Out && rng.chance(0.7) => {
                replace(media, member);
                None
            }
            _ => None,
        }
    }

    /// An empty volume on new media, of sizes that the case decides.
    pub fn create(self, size: Size, headed: bool, rng: &mut Rng) -> Made {
        match self {
            Subject::Layout(kind) => {
                let device = device_blocks(kind, size, rng);
                let device = if headed { device.next_multiple_of(CYLINDER_BLOCKS) } else { device };
                let mut medium = Cells::new(device);
                // Loge keeps its labels in sector headers where there are some.
                if kind == Kind::LOGE && rng.chance(0.4) {
                    medium = medium.with_labels();
                }
                let full = size == Size::Large || rng.chance(0.5);
                let blocks = format(kind, &mut MediumDisk(&mut medium), full, rng);
                Made {
                    media: vec![medium],
                    blocks,
                    whole_blocks: whole_blocks(kind, device, blocks),
                }
            }
            Subject::Array { level, members, kind } => {
                let device = match size {
                    Size::Tiny | Size::Small => device_blocks(kind, size, rng),
                    // Whatever goes through an array is many requests.
                    Size::Middle | Size::Large => 200 + rng.below(200),
                };
                create_array(level, members, kind, device, rng)
            }
            Subject::Attached => attach(size, headed, rng),
            Subject::Sparse => create_sparse(size, headed, rng),
        }
    }

    /// Mounts the volume, by way of recovery where there is something to recover.
    ///
    /// # Errors
    /// What is wrong with the media.
    pub fn mount(
        self,
        disks: &mut Disks<'_>,
        options: &MountOptions<'_>,
    ) -> Result<Mounted, LayoutError> {
        match self {
            Subject::Layout(_) | Subject::Sparse => {
                let disk = disks[0].as_deref_mut().expect("the only device is never lost");
                let (layer, _, report) = seekless_layouts::mount(disk, options)?;
                Ok(Mounted { layer, array: None, blocks_read: report.blocks_read })
            }
            Subject::Array { .. } => {
                let degraded = disks.iter().any(Option::is_none);
                let MountOptions { volatile, read_only, .. } = *options;
                let options_below = AssembleOptions { volatile, read_only, degraded };
                let mut found = assemble(disks, &options_below)?;
                let mut disk = ArrayDisk::new(&mut found.array, disks);
                let (layer, _, report) = seekless_layouts::mount(&mut disk, options)?;
                let blocks_read = found.blocks_read + report.blocks_read;
                Ok(Mounted { layer, array: Some(found.array), blocks_read })
            }
            Subject::Attached => {
                let [Some(origin), Some(log)] = disks else { panic!("neither is ever lost") };
                let (layer, _, report) = dcd::mount(*origin, *log, options)?;
                Ok(Mounted { layer: Box::new(layer), array: None, blocks_read: report.blocks_read })
            }
        }
    }
}

/// Blocks of a device for a layout.
fn device_blocks(kind: Kind, size: Size, rng: &mut Rng) -> u64 {
    match size {
        Size::Tiny => least_device(kind, 12 + rng.below(30)) + rng.below(6),
        Size::Small => least_device(kind, 40 + rng.below(70)) + rng.below(24),
        Size::Middle => 250 + rng.below(350),
        Size::Large => 700 + rng.below(200),
    }
}

/// Blocks up to which a write is promised to take hold as a whole, on a device of `device` blocks
/// with a volume of `blocks`: a mebibyte, or a quarter of the blocks that stay free, of which some
/// are metadata.
fn whole_blocks(kind: Kind, device: u64, blocks: u64) -> u64 {
    match kind {
        // Two segments of the smallest size, without their summaries.
        Kind::LFS | Kind::WOLF => 14,
        // What holds as a whole is up to how it is mounted: `Limits`.
        Kind::DCD => u64::MAX,
        _ => {
            let slack = device.saturating_sub(blocks + 8 + device / 64);
            (slack / 4).clamp(1, 256)
        }
    }
}

/// The smallest device for a volume of `blocks` blocks, at the price of slack.
fn least_device(kind: Kind, blocks: u64) -> u64 {
    let fits = |device: &u64| kind.largest_volume(*device) >= blocks;
    (blocks..).find(fits).expect("a device is large enough at some size")
}

/// An origin that holds zeros, and a log in front of it.
fn attach(size: Size, headed: bool, rng: &mut Rng) -> Made {
    let round = |blocks: u64| match headed {
        true => blocks.next_multiple_of(CYLINDER_BLOCKS),
        false => blocks,
    };
    let (home, ring) = match size {
        Size::Tiny => (40 + rng.below(40), 90 + rng.below(30)),
        Size::Small => (60 + rng.below(150), 90 + rng.below(150)),
        Size::Middle | Size::Large => (150 + rng.below(400), 120 + rng.below(200)),
    };
    let mut origin = Cells::new(round(home));
    let mut log = Cells::new(round(ring));
    let blocks = MediumDisk(&mut origin).blocks();
    let options = FormatOptions::new(Kind::DCD, blocks, u128::from(rng.next()));
    let shape = Shape { segment_blocks: 4 << rng.below(3), log_blocks: None };
    let options = options.with(shape.onto(Options::default()));
    dcd::attach(&mut MediumDisk(&mut origin), &mut MediumDisk(&mut log), &options)
        .expect("both are large enough");
    Made { media: vec![origin, log], blocks, whole_blocks: u64::MAX }
}

fn any<T: Copy>(all: &[T], rng: &mut Rng) -> T {
    all[rng.below(all.len() as u64) as usize]
}

fn any_caching(rng: &mut Rng) -> Caching {
    Caching {
        // The others are hardly more than this with everything at once, or nothing of it.
        mode: if rng.chance(0.7) { Mode::Back } else { any(Mode::ALL, rng) },
        report: any(Report::ALL, rng),
        order: any(Order::ALL, rng),
        bypass_blocks: any(&[0, 2, 4, 8, 16], rng),
        sequential_blocks: any(&[0, 0, 0, 6], rng),
        buffers: 2 + rng.below(3) as u32,
    }
}

/// Makes a volume that fills the device or half of it; returns its size.
fn format(kind: Kind, disk: &mut dyn Disk, full: bool, rng: &mut Rng) -> u64 {
    let largest = kind.largest_volume(disk.blocks());
    let blocks = if full { largest } else { largest / 2 };
    let mut options = FormatOptions::new(kind, blocks, u128::from(rng.next()));
    if kind == Kind::DCD && blocks < largest {
        let segment_blocks = 4 << rng.below(4);
        let most = disk.blocks() - blocks - 2;
        let log_blocks = (8 * u64::from(segment_blocks) + rng.below(64)).min(most);
        let shape = Shape { segment_blocks, log_blocks: Some(log_blocks) };
        options = options.with(shape.onto(Options::default()));
    }
    if kind == Kind::LOGE {
        options.options.set(&HEURISTIC, any_heuristic(rng));
        options.options.set(&TABLE, any_table(options.id));
    }
    let usual = options.clone();
    let segment = any_segment(kind, options.id);
    if segment.is_some() {
        options.options.set(&SEGMENT, segment);
    }
    let made = seekless_layouts::format(disk, &options);
    if segment.is_some() && matches!(made, Err(LayoutError::BadSize(_))) {
        seekless_layouts::format(disk, &usual).expect("the size was asked for");
    } else {
        made.expect("the size was asked for");
    }
    blocks
}

/// How large the segments of a log are to be, if not as usual. The identity of the volume decides,
/// so that nothing else is drawn differently than before.
fn any_segment(kind: Kind, id: u128) -> Option<u32> {
    let mut rng = Rng::stream(id as u64, "segments");
    let is_log = matches!(kind, Kind::LFS | Kind::WOLF | Kind::HYLOG);
    (is_log && rng.chance(0.3)).then(|| 8 << rng.below(4))
}

/// How Loge is to choose places: anything goes.
fn any_heuristic(rng: &mut Rng) -> Heuristic {
    Heuristic { order: any(&PlaceOrder::ALL, rng), grouping: rng.chance(0.3) }
}

/// Which form its table is to have. The identity of the volume decides, so that nothing else is
/// drawn differently than before there were forms.
fn any_table(id: u128) -> TableForm {
    let mut rng = Rng::stream(id as u64, "table");
    match rng.below(5) {
        0 | 1 => TableForm::Plain,
        2 => TableForm::Sorted(1 + rng.below(3) as u8),
        _ => TableForm::Compressed(1 + rng.below(20) as u8),
    }
}

/// A Loge volume with more addresses than it can store blocks on a new medium, with or without
/// labels in sector headers.
fn create_sparse(size: Size, headed: bool, rng: &mut Rng) -> Made {
    let device = match size {
        Size::Tiny => 100 + rng.below(40),
        Size::Small => 140 + rng.below(160),
        Size::Middle | Size::Large => 300 + rng.below(400),
    };
    let mut medium =
        Cells::new(if headed { device.next_multiple_of(CYLINDER_BLOCKS) } else { device });
    if rng.chance(0.4) {
        medium = medium.with_labels();
    }
    let device = medium.blocks();
    let blocks = format_sparse(&mut MediumDisk(&mut medium), rng);
    Made { media: vec![medium], blocks, whole_blocks: whole_blocks(Kind::LOGE, device, blocks) }
}

/// Makes a Loge volume with more addresses than it can store blocks; returns their number.
fn format_sparse(disk: &mut dyn Disk, rng: &mut Rng) -> u64 {
    let addresses = disk.blocks() * (1 + rng.below(2)) + rng.below(100);
    let fits = |capacity: &u64| {
        let needed = capacity + 72 + capacity / 64 + addresses / 200 + disk.blocks() / 64;
        needed <= disk.blocks()
    };
    let capacity = (1..disk.blocks()).take_while(fits).last().unwrap_or(1).min(addresses);
    let mut options = FormatOptions::new(Kind::LOGE, capacity, u128::from(rng.next()));
    options.options.set(&SPARSE, Some(addresses));
    options.options.set(&HEURISTIC, any_heuristic(rng));
    seekless_layouts::format(disk, &options).expect("the size was asked for");
    addresses
}

/// An array of small members with small chunks, of at least `wanted` blocks in all, and a volume on
/// it.
fn create_array(level: Level, members: usize, kind: Kind, wanted: u64, rng: &mut Rng) -> Made {
    let chunk = 1 + rng.below(4) as u32;
    let device = seekless_arrays::assemble::member_blocks(level, members, chunk, wanted)
        .expect("members and chunk are in range");
    let mut media = vec![Cells::new(device); members];
    let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
    let mut disks: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
    let options = CreateArray { level, chunk, id: u128::from(rng.next()), blank: true };
    seekless_arrays::create(&mut disks, &options).expect("the sizes fit");
    let mut disks: Vec<_> = disks.into_iter().map(Some).collect();
    let mut found = assemble(&mut disks, &AssembleOptions::default()).expect("it was just made");
    let full = rng.chance(0.5);
    let mut disk = ArrayDisk::new(&mut found.array, &mut disks);
    let room = disk.blocks();
    let blocks = format(kind, &mut disk, full, rng);
    Made { media, blocks, whole_blocks: whole_blocks(kind, room, blocks) }
}

/// What the superblocks say of the members. The change of a record may have reached some of them
/// only: a member counts as active where all say so that may have the last word.
fn states(media: &[Cells]) -> Vec<MemberState> {
    let read = |medium: &Cells| MemberSuperblock::read(&mut MediumDisk(&mut medium.clone()));
    let found: Vec<MemberSuperblock> = media.iter().filter_map(|one| read(one).ok()).collect();
    let events = found.iter().map(|one| one.events).max().unwrap_or(0);
    let recent: Vec<_> = found.iter().filter(|one| one.events + 1 >= events).collect();
    let state = |member: usize| {
        let said = recent.iter().map(|one| one.states[member]);
        said.into_iter().find(|&one| one != MemberState::Active).unwrap_or(MemberState::Active)
    };
    (0..media.len()).map(state).collect()
}

/// Puts an empty device in the place of a member.
pub fn replace(media: &mut [Cells], member: usize) {
    let mut new = Cells::new(media[member].blocks());
    let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
    let mut disks: Vec<_> = plain.iter_mut().map(|disk| Some(disk as &mut dyn Disk)).collect();
    seekless_arrays::replace(&mut disks, member, &mut MediumDisk(&mut new))
        .expect("the others are there");
    media[member] = new;
}
