//! The block volumes that are proved: layouts on devices of their own and on arrays.

use super::create::{Made, create};
use super::history::History;
use super::objects::{self, Rows};
use super::oracle::BlockOracle;
use super::redundancy::makes_up;
use super::workload::Workload;
use crate::machine::DeviceKind;
use crate::script::Operation;
use crate::subject::{Case, Disks, Subject};
use crate::volume::Mounted;
use seekless_arrays::member::{MemberState, MemberSuperblock};
use seekless_arrays::scrub::scrub;
use seekless_arrays::{Array, ArrayDisk, AssembleOptions, Level, VolumeError, assemble};
use seekless_crash::contract::{Contract, Order};
use seekless_crash::tear::Unit;
use seekless_engine::device::Device;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::layer::Layer;
use seekless_engine::layout::{Layout as _, LayoutError, MountOptions, Promises, RecoverySteps};
use seekless_engine::nested::Nested;
use seekless_engine::node::Node;
use seekless_engine::options::Options;
use seekless_engine::rng::Rng;
use seekless_engine::superblock::Superblock;
use seekless_engine::units::{BlockNr, MILLIS};
use seekless_layouts::Kind;
use seekless_layouts::dcd::{self, Caching, Mode, Report};
use seekless_layouts::lfs::{
    CLEANING, Cleaning, HOT_PERCENT, INTERVAL, PARTIAL, Partial, VICTIMS, Victims,
};
use seekless_layouts::loge::options::{CLUSTERS, SORT};
use seekless_layouts::vlfs::{Vlfs, WALK_BELOW};
use seekless_layouts::vlog::{COMPACTION, Compaction, FILL_PERCENT};
use std::collections::BTreeSet;

/// A block volume that is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSubject {
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
    /// The drive of VLFS, as a row of blocks.
    Objects,
}

impl From<Kind> for BlockSubject {
    fn from(kind: Kind) -> BlockSubject {
        BlockSubject::Layout(kind)
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

/// A mounted block volume that has no devices yet.
#[derive(Debug)]
pub struct MountedBlocks {
    layer: Box<dyn Layer>,
    /// The array below it, if the devices are its members.
    array: Option<Array>,
    blocks_read: u64,
}

impl Mounted for MountedBlocks {
    type Volume = Node;

    fn blocks_read(&self) -> u64 {
        self.blocks_read
    }

    fn join(self, devices: Vec<Box<dyn Device>>, seed: u64) -> Node {
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

impl BlockSubject {
    /// Everything that each commit is held to: all layouts, alone and on arrays.
    pub fn all() -> Vec<BlockSubject> {
        let array = |(level, members, kind)| BlockSubject::Array { level, members, kind };
        let alone = Kind::ALL.into_iter().map(BlockSubject::Layout);
        alone
            .chain([BlockSubject::Attached, BlockSubject::Sparse])
            .chain(ARRAYS.map(array))
            .collect()
    }

    /// The layout.
    pub fn kind(self) -> Kind {
        match self {
            BlockSubject::Layout(kind) | BlockSubject::Array { kind, .. } => kind,
            BlockSubject::Attached => Kind::DCD,
            BlockSubject::Sparse => Kind::LOGE,
            BlockSubject::Objects => Kind::VLOG,
        }
    }

    /// What it promises beyond what every volume does.
    fn promises(self) -> Promises {
        self.kind().promises()
    }

    fn is_array(self) -> bool {
        matches!(self, BlockSubject::Array { .. })
    }

    /// How a disk caching disk is to work: anything goes. Other subjects draw nothing.
    fn caching(self, rng: &mut Rng) -> Caching {
        match self.kind() {
            Kind::DCD => any_caching(rng),
            _ => Caching::default(),
        }
    }

    /// How a log-structured layout is to win space back. Other subjects draw nothing.
    fn cleaning(self, rng: &mut Rng) -> Cleaning {
        match self.kind() {
            kind if kind.is_log_structured() => any(&Cleaning::ALL, rng),
            _ => Cleaning::default(),
        }
    }

    /// What can be chosen of the logical disk only, or is tried there only. Of a stream of its own.
    fn logical_disk(self, seed: u64) -> Options {
        let mut rng = Rng::stream(seed, "logical disk");
        match self.kind() {
            Kind::LLD => Options::default()
                .with(&VICTIMS, Some(any(&Victims::ALL, &mut rng)))
                .with(&PARTIAL, any(&[Partial::Fresh, Partial::Fresh, Partial::InPlace], &mut rng)),
            _ => Options::default(),
        }
    }

    fn mount_blocks(
        self,
        disks: &mut Disks<'_>,
        options: &MountOptions<'_>,
    ) -> Result<MountedBlocks, LayoutError> {
        match self {
            BlockSubject::Layout(_) | BlockSubject::Sparse => {
                let disk = disks[0].as_deref_mut().expect("the only device is never lost");
                let (layer, _, report) = seekless_layouts::mount(disk, options)?;
                Ok(MountedBlocks { layer, array: None, blocks_read: report.blocks_read })
            }
            BlockSubject::Objects => mount_objects(disks, options),
            BlockSubject::Array { .. } => {
                let degraded = disks.iter().any(Option::is_none);
                let MountOptions { volatile, read_only, .. } = *options;
                let volume = Some(seekless_layouts::check as _);
                let options_below = AssembleOptions { volatile, read_only, degraded, volume };
                let mut found = assemble(disks, &options_below)?;
                let mut disk = ArrayDisk::new(&mut found.array, disks);
                let (layer, _, report) = seekless_layouts::mount(&mut disk, options)?;
                let blocks_read = found.blocks_read + report.blocks_read;
                Ok(MountedBlocks { layer, array: Some(found.array), blocks_read })
            }
            BlockSubject::Attached => {
                let [Some(origin), Some(log)] = disks else { panic!("neither is ever lost") };
                let (layer, _, report) = dcd::mount(*origin, *log, options)?;
                let blocks_read = report.blocks_read;
                Ok(MountedBlocks { layer: Box::new(layer), array: None, blocks_read })
            }
        }
    }

    /// Repairs an array of which all members are there, as [`scrub`] does.
    fn scrub(self, media: &mut [Cells]) -> Result<(), VolumeError> {
        let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
        let mut disks: Vec<_> = plain.iter_mut().map(|disk| Some(disk as &mut dyn Disk)).collect();
        let volume = Some(seekless_layouts::check as _);
        let options = AssembleOptions { volume, ..AssembleOptions::default() };
        let found = assemble(&mut disks, &options)?;
        let mut disks: Vec<_> = disks.into_iter().flatten().collect();
        scrub(&mut disks, found.array.superblock(), Some(seekless_layouts::check), &mut |_| {})
            .map(drop)
    }
}

fn mount_objects(
    disks: &mut Disks<'_>,
    options: &MountOptions<'_>,
) -> Result<MountedBlocks, LayoutError> {
    let disk = disks[0].as_deref_mut().expect("the only device is never lost");
    let superblock = Superblock::read(disk, &Ok)?;
    let blocks = objects::blocks_on(superblock.device_blocks);
    let mut steps = RecoverySteps::new(None);
    let chosen = objects::options(&options.options, superblock.id);
    let options = MountOptions { options: chosen, ..*options };
    let drive = Vlfs::mount(disk, &superblock, &options, &mut steps)?;
    let layer = Box::new(Rows::new(drive, blocks));
    Ok(MountedBlocks { layer, array: None, blocks_read: steps.finish().blocks_read })
}

impl Subject for BlockSubject {
    type Mounted = MountedBlocks;
    type Oracle = BlockOracle;
    type Looks = ();
    const WORKLOADS: u64 = super::WORKLOADS;

    fn name(self) -> String {
        match self {
            BlockSubject::Layout(kind) => kind.name().to_owned(),
            BlockSubject::Array { level, members, kind } => {
                format!("{kind} on {level} of {members}")
            }
            BlockSubject::Attached => "dcd, log apart".to_owned(),
            BlockSubject::Sparse => "loge, sparse".to_owned(),
            BlockSubject::Objects => "vlog, objects".to_owned(),
        }
    }

    fn flags(self) -> String {
        match self {
            BlockSubject::Layout(kind) => format!("--layout {kind}"),
            BlockSubject::Array { level, members, kind } => {
                format!("--layout {kind} --raid {} --members {members}", level.number())
            }
            BlockSubject::Attached => "--layout dcd --log".to_owned(),
            BlockSubject::Sparse => "--layout loge --sparse".to_owned(),
            BlockSubject::Objects => "--layout vlog --objects".to_owned(),
        }
    }

    fn draw(self, kind: u64, rng: &mut Rng) -> Case<BlockSubject> {
        let mut workload = Workload::draw(kind, rng);
        if self.is_array() {
            workload = workload.of_arrays(rng);
        }
        let volatile = workload.volatile.unwrap_or_else(|| rng.chance(0.65));
        // Background work needs a head, and writes that last.
        let headed = rng.chance(if volatile { 0.2 } else { 0.9 });
        let headed = workload.headed.unwrap_or(headed) && !self.is_array();
        let order = if volatile { Order::Unordered } else { Order::KeepsCompleted };
        let contract = Contract { order, unit: Unit::Sector };
        let slow_flushes = workload.slow_flushes;
        let devices = DeviceKind { contract, headed, slow_flushes, keeps_forced: false };
        let Made { media, blocks, whole_blocks } = create(self, workload.size, headed, rng);
        let script: Vec<Operation<_>> = workload.script(self, blocks, rng);
        let history = History::new(self.promises(), blocks, !volatile);
        let oracle = BlockOracle::new(history, whole_blocks);
        Case { workload: workload.name, media, devices, script, oracle }
    }

    fn mount_options(self, seed: u64, rng: &mut Rng) -> Options {
        let compaction = any(&Compaction::ALL, rng);
        let fill_percent = if rng.chance(0.5) { 75 } else { 1 + rng.below(100) as u32 };
        // A stream of its own: what is drawn for other layouts stays as it was.
        let mut idling = Rng::stream(seed, "idling");
        let logical_disk = self.logical_disk(seed);
        let walk_below = objects::walk_below(seed);
        self.caching(rng)
            .onto(logical_disk)
            .with(&WALK_BELOW, walk_below)
            .with(&COMPACTION, Some(compaction))
            .with(&FILL_PERCENT, fill_percent)
            .with(&CLEANING, self.cleaning(rng))
            .with(&SORT, idling.chance(0.6))
            .with(&CLUSTERS, idling.chance(0.4))
            // So short that blocks become cold in the short epochs of a run.
            .with(&INTERVAL, Some(20 * MILLIS))
            .with(&HOT_PERCENT, Some(if rng.chance(0.5) { 10 } else { 40 }))
    }

    fn mount(
        self,
        disks: &mut Disks<'_>,
        options: &MountOptions<'_>,
    ) -> Result<MountedBlocks, String> {
        self.mount_blocks(disks, options).map_err(|error| error.to_string())
    }

    /// In the log of a disk caching disk wrong bytes of data are noticed; a header with wrong bytes
    /// counts as one that was never written.
    fn checks(self) -> bool {
        self.promises().checked
    }

    /// What cannot be read in a log cannot go home, and the ring cannot pass it; a part of a stripe
    /// cannot be written where its parity cannot be computed.
    fn stops_at_damage(self) -> bool {
        let parity = matches!(self, BlockSubject::Array { level: Level::Raid5, .. });
        parity || self.kind() == Kind::DCD
    }

    fn spare(self) -> usize {
        match self {
            BlockSubject::Layout(_)
            | BlockSubject::Attached
            | BlockSubject::Sparse
            | BlockSubject::Objects => 0,
            BlockSubject::Array { level, members, .. } => level.spare(members),
        }
    }

    fn makes_up(self, media: &[Cells], place: (usize, BlockNr), at_rest: bool) -> bool {
        let alone = matches!(self, BlockSubject::Layout(_) | BlockSubject::Sparse);
        alone && makes_up(self.kind(), media, place, at_rest)
    }

    fn has_copies(self) -> bool {
        matches!(self, BlockSubject::Array { level: Level::Raid1, .. })
    }

    fn is_assembled(self) -> bool {
        self.is_array()
    }

    fn absent(self, media: &[Cells]) -> BTreeSet<usize> {
        if self.spare() == 0 {
            return BTreeSet::new();
        }
        let states = states(media);
        (0..media.len()).filter(|&one| states[one] != MemberState::Active).collect()
    }

    fn tinker(self, media: &mut [Cells], rng: &mut Rng) -> Option<usize> {
        let BlockSubject::Array { level, members, .. } = self else { return None };
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

    fn replace(self, media: &mut [Cells], device: usize) {
        replace(media, device);
    }

    fn disagreement(self, media: &mut [Cells]) -> Option<String> {
        if self.spare() == 0 {
            return None;
        }
        let stripe = mismatched_stripe(media)?;
        Some(format!("the members of the recovered array do not agree about stripe {stripe}"))
    }

    fn repair(self, media: &mut [Cells]) -> Result<(), String> {
        self.scrub(media).map_err(|error| error.to_string())
    }
}

/// A stripe about which the members of an array do not agree, if all of them are there.
fn mismatched_stripe(media: &mut [Cells]) -> Option<u64> {
    let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
    // A member that is out may not know it.
    let known = plain.iter_mut().filter_map(|disk| MemberSuperblock::read(disk).ok());
    let superblock = known.max_by_key(|one| one.events)?;
    let mut disks: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
    let found = scrub(&mut disks, &superblock, None, &mut |_| {}).ok()?;
    found.mismatched.first().copied()
}

/// One of them.
pub fn any<T: Copy>(all: &[T], rng: &mut Rng) -> T {
    all[rng.below(all.len() as u64) as usize]
}

fn any_caching(rng: &mut Rng) -> Caching {
    Caching {
        // The others are hardly more than this with everything at once, or nothing of it.
        mode: if rng.chance(0.7) { Mode::Back } else { any(Mode::ALL, rng) },
        report: any(Report::ALL, rng),
        order: any(dcd::Order::ALL, rng),
        bypass_blocks: any(&[0, 2, 4, 8, 16], rng),
        sequential_blocks: any(&[0, 0, 0, 6], rng),
        buffers: 2 + rng.below(3) as u32,
    }
}

/// The states of the members by their superblocks. A change of the record may have reached some of
/// them only: a member counts as active if all superblocks that may be the newest agree on it.
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
fn replace(media: &mut [Cells], member: usize) {
    let mut new = Cells::new(media[member].blocks());
    let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
    let mut disks: Vec<_> = plain.iter_mut().map(|disk| Some(disk as &mut dyn Disk)).collect();
    seekless_arrays::replace(&mut disks, member, &mut MediumDisk(&mut new))
        .expect("the others are there");
    media[member] = new;
}
