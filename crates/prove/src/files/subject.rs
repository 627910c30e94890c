//! A file system that is proved: how its images are made, mounted, repaired and looked at.

use super::ace::{self, Ace};
use super::area;
use super::contract::Rules;
use super::image::objects;
use super::looks::{Looks, Memory};
use super::oracle::FileOracle;
use super::tree::{Attrs, Tree};
use super::volume::FileVolume;
use super::workload::{self, Profile};
use super::world::World;
use crate::block::objects::walk_below;
use crate::machine::DeviceKind;
use crate::subject::{Case, Disks, Recovery, Subject};
use crate::violation::Wrong;
use crate::volume::Mounted;
use seekless_crash::contract::{Contract, Order};
use seekless_crash::device::cut::CutMedium;
use seekless_crash::device::volatile::TRANSACTION_BLOCKS;
use seekless_crash::pending::BlockWrite;
use seekless_crash::tear::Unit;
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::IoError;
use seekless_engine::layer::Layer;
use seekless_engine::layout::{FormatOptions, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::options::{Choice, Options};
use seekless_engine::rng::Rng;
use seekless_engine::units::{BLOCK_BYTES, BlockNr, MILLIS, SECONDS};
use seekless_formats::{self as formats, FsError, Kind, MkfsOptions, MountedFs};
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::core::{CoreOptions, Ordering, WriteUnit};
use seekless_fs::policy::PolicyKind;
use seekless_fs::policy::journal::{DataMode, JournalOptions};
use seekless_layouts::vlfs::WALK_BELOW;
use std::rc::Rc;
use std::sync::OnceLock;

/// A file system under one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSubject {
    /// The format.
    pub kind: Kind,
    /// How writes of metadata are ordered.
    pub policy: PolicyKind,
    /// When content is written, under a policy with a log.
    pub data: DataMode,
    /// The promises that crash states are held to: those of the policy, unless a test asks for
    /// more.
    pub rules: Rules,
    /// Short sequences of operations, all of them, instead of workloads.
    pub ace: Option<Ace>,
    /// The file system takes completed writes for durable, as kernels of 1999 did.
    pub trusts: bool,
    /// Only devices of this class; all that are proved if none is given.
    pub device: Option<Order>,
    /// What is remembered of the images of a case.
    pub memory: Memory,
}

/// Cache and I/O of a mount.
const CORE: Choice<CoreOptions> = Choice {
    name: "core",
    value: "OPTIONS",
    help: "Cache and I/O of a mount.",
    needs_arm: false,
    default: CoreOptions::default,
    parse: |_| Err("the prover draws it".to_owned()),
    show: |_| String::new(),
};

/// How the log is written.
const JOURNAL: Choice<JournalOptions> = Choice {
    name: "journal",
    value: "OPTIONS",
    help: "How the log is written.",
    needs_arm: false,
    default: JournalOptions::default,
    parse: |_| Err("the prover draws it".to_owned()),
    show: |_| String::new(),
};

/// A log of which the start moves early, or only when half of it is used, which no workload does.
fn journal(rng: &mut Rng) -> JournalOptions {
    let group_commit = rng.chance(0.7);
    let start_moves_at = rng.chance(0.6).then(|| 4 + rng.below(60));
    JournalOptions { group_commit, start_moves_at, ..JournalOptions::default() }
}

/// Sizes of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    bytes: u64,
    group: u64,
    block: u32,
    fragment: u32,
    bytes_per_inode: u32,
}

const KIB: u64 = 1 << 10;

/// The sizes that are proved. Inodes are few where a workload uses them up.
const SHAPES: [Shape; 5] = [
    Shape {
        bytes: 2048 * KIB,
        group: 1024 * KIB,
        block: 8192,
        fragment: 1024,
        bytes_per_inode: 8192,
    },
    Shape {
        bytes: 2048 * KIB,
        group: 512 * KIB,
        block: 4096,
        fragment: 1024,
        bytes_per_inode: 8192,
    },
    Shape {
        bytes: 2048 * KIB,
        group: 1024 * KIB,
        block: 8192,
        fragment: 4096,
        bytes_per_inode: 8192,
    },
    Shape {
        bytes: 4096 * KIB,
        group: 1024 * KIB,
        block: 4096,
        fragment: 4096,
        bytes_per_inode: 16_384,
    },
    Shape {
        bytes: 1024 * KIB,
        group: 256 * KIB,
        block: 8192,
        fragment: 1024,
        bytes_per_inode: 16_384,
    },
];

/// Blocks of the smallest drive of objects that is proved.
const LEAST_DRIVE: u64 = 400;
/// Bytes of the log, where there is one: the smallest.
const LOG: u64 = 1 << 20;
/// Bytes for the addresses of a log in a file. A group is a multiple of it.
const LOG_ADDRESSES: u64 = 256 * KIB;

/// Images as `mkfs` of each format makes them, without and with a log; cases share them.
static IMAGES: OnceLock<Vec<(Kind, [Images; LOGS])>> = OnceLock::new();
/// Images of a shape: without a log, with one in each place.
const LOGS: usize = 4;

/// An image of each shape.
type Images = [OnceLock<Cells>; SHAPES.len()];

/// What is made of a shape. A format without fragments has blocks as large as its fragments.
fn mkfs_options(kind: Kind, shape: &Shape, log: Option<PolicyKind>) -> MkfsOptions {
    let Shape { bytes, group, block, fragment, bytes_per_inode } = *shape;
    let defaults = (kind.defaults)();
    if !kind.limits.generations {
        let inodes = Some((bytes / u64::from(bytes_per_inode)) as u32);
        return MkfsOptions { block: fragment, fragment, inodes, ..defaults };
    }
    MkfsOptions {
        block,
        fragment,
        bytes_per_inode,
        group: Some(group),
        id: 7,
        policy: log.unwrap_or_default(),
        // The more writes the log has, the more there is to cut.
        journal_unit: BLOCK_BYTES as u32,
        journal: log.map(|_| LOG),
        journal_blocks: log
            .filter(|policy| policy.has_own_log_volume())
            .map(|_| LOG / BLOCK_BYTES as u64),
        ..defaults
    }
}

/// What the mount of a drive is told. That of a crash state has checkpoints.
fn drive_options(options: &Options) -> Options {
    let is_chosen = options.names().any(|name| name == WALK_BELOW.name);
    let below = if is_chosen { options.get(&WALK_BELOW) } else { 0 };
    Options::default().with(&WALK_BELOW, below)
}

/// A new file system on a drive of its own, over so many blocks.
fn drive_of(kind: Kind, blocks: u64) -> Cells {
    let mut medium = CutMedium::new(Cells::new(blocks));
    let objects = seekless_layouts::Kind::VLFS.largest_volume(blocks);
    let format = FormatOptions::new(seekless_layouts::Kind::VLFS, objects, 7);
    let disk = &mut MediumDisk(&mut medium);
    seekless_layouts::format(disk, &format).expect("the shapes are possible");
    let mounted = seekless_layouts::mount(disk, &MountOptions::default());
    let (drive, ..) = mounted.expect("it was just made");
    let device = Ram::new(Box::new(medium.clone()));
    let (mut node, mut now) = (Node::new(drive, vec![Box::new(device)], 1), 0);
    let options = MkfsOptions { id: 7, ..(kind.defaults)() };
    let made = (kind.mkfs)(&mut NodeDisk::new(&mut node, &mut now), &options);
    made.expect("the shapes are possible");
    node.finish(&mut now);
    medium.contents()
}

fn image_of(kind: Kind, shape: usize, log: Option<PolicyKind>) -> Cells {
    let make = || {
        let Shape { bytes, mut group, .. } = SHAPES[shape];
        let mut bytes = bytes + log.map_or(0, |_| LOG);
        if log.is_some_and(PolicyKind::has_log_in_file) {
            // The first group has the log, its addresses and what it would have without them. The
            // groups behind it are as small as ever.
            group += LOG + LOG_ADDRESSES;
            bytes += LOG_ADDRESSES;
        }
        if kind.needs_objects {
            return drive_of(kind, (bytes / BLOCK_BYTES as u64).max(LEAST_DRIVE));
        }
        let mut cells = Cells::new(bytes / BLOCK_BYTES as u64);
        let options = mkfs_options(kind, &Shape { group, ..SHAPES[shape] }, log);
        (kind.mkfs)(&mut MediumDisk(&mut cells), &options).expect("the shapes are possible");
        cells
    };
    let none = || {
        Kind::all().map(|kind| (kind, [const { [const { OnceLock::new() }; SHAPES.len()] }; LOGS]))
    };
    let none = || none().collect();
    let mut images = IMAGES.get_or_init(none).iter();
    let (_, of_kind) = images.find(|(one, _)| *one == kind).expect("all formats are there");
    let which = log.map_or(0, |policy| match policy {
        PolicyKind::LffsFile => 3,
        policy if policy.has_own_log_volume() => 2,
        _ => 1,
    });
    of_kind[which][shape].get_or_init(make).clone()
}

/// The devices that are proved: those that keep what they complete, a prefix, or any writes, and
/// that tear at sectors or at blocks.
pub(crate) const CONTRACTS: [Contract; 6] = [
    Contract { order: Order::Unordered, unit: Unit::Sector },
    Contract { order: Order::KeepsCompleted, unit: Unit::Sector },
    Contract { order: Order::Prefix, unit: Unit::Sector },
    Contract { order: Order::Unordered, unit: Unit::Block },
    Contract { order: Order::KeepsCompleted, unit: Unit::Block },
    Contract { order: Order::Prefix, unit: Unit::Block },
];

/// A mounted file system that has no device yet.
#[derive(Debug)]
pub struct MountedFiles {
    kind: Kind,
    fs: Box<dyn MountedFs>,
    /// Its drive, if it has one.
    drive: Option<Box<dyn Layer>>,
    blocks_read: u64,
}

impl Mounted for MountedFiles {
    type Volume = FileVolume;

    fn blocks_read(&self) -> u64 {
        self.blocks_read
    }

    fn join(self, mut devices: Vec<Box<dyn Device>>, _seed: u64) -> FileVolume {
        let device = devices.pop().expect("a file system has one device");
        let node = match self.drive {
            Some(drive) => Node::new(drive, vec![device], 1),
            None => Plain::node(device),
        };
        FileVolume::new(self.kind, self.fs, node)
    }
}

/// Counts what a recovery reads.
pub(crate) struct Counting<'d> {
    pub(crate) disk: &'d mut dyn Disk,
    /// Blocks.
    pub(crate) read: u64,
}

impl Disk for Counting<'_> {
    fn blocks(&self) -> u64 {
        self.disk.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.read += u64::from(count);
        self.disk.read(at, count)
    }

    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        self.disk.write(at, data)
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.disk.flush()
    }

    /// Where the device does not, no log is drawn that would need it.
    fn takes_parts(&self) -> bool {
        true
    }

    fn transaction_blocks(&self) -> u64 {
        TRANSACTION_BLOCKS
    }

    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        self.disk.next_data(at)
    }
}

/// The classes of devices, by their names on the command line.
pub const CLASSES: [(&str, Order); 3] =
    [("keeps", Order::KeepsCompleted), ("prefix", Order::Prefix), ("unordered", Order::Unordered)];

/// The name of a class.
pub(crate) fn class(order: Order) -> &'static str {
    CLASSES.iter().find(|(_, one)| *one == order).map_or("unordered", |(name, _)| name)
}

impl FileSubject {
    /// A file system under a policy, held to its promises; none if the prover has no contract for
    /// it.
    pub fn of(kind: Kind, policy: PolicyKind) -> Option<FileSubject> {
        FileSubject::with_data(kind, policy, DataMode::Ordered)
    }

    /// The same with a mode of data.
    pub fn with_data(kind: Kind, policy: PolicyKind, data: DataMode) -> Option<FileSubject> {
        Rules::of_kind(kind, policy, data).map(|rules| FileSubject {
            kind,
            policy,
            data,
            rules,
            ace: None,
            trusts: false,
            device: None,
            memory: Memory::Whole,
        })
    }

    /// Every format that each commit is judged by, under each of its policies, and with each mode
    /// of data if the policy keeps a log. One above a drive of its own is judged when it is asked
    /// for: its states take too long yet.
    pub fn all() -> Vec<FileSubject> {
        let modes = |policy: PolicyKind| {
            DataMode::ALL
                .into_iter()
                .filter(move |&data| policy.is_logged() || data == DataMode::default())
        };
        let of = |kind: Kind| {
            let both = kind
                .policies
                .iter()
                .flat_map(move |&policy| modes(policy).map(move |data| (policy, data)));
            both.filter_map(move |(policy, data)| FileSubject::with_data(kind, policy, data))
        };
        let kinds = Kind::all().filter(|kind| kind.is_proved && !kind.needs_objects);
        kinds.flat_map(of).collect()
    }

    /// True if a repair comes before a mount after a crash.
    fn repairs(self) -> bool {
        self.own_rules().is_none_or(Rules::repairs)
    }

    /// The promises of the policy.
    fn own_rules(self) -> Option<Rules> {
        Rules::of_kind(self.kind, self.policy, self.data)
    }

    /// Mounts what needs no repair.
    fn mount_only(
        self,
        mut disk: Counting<'_>,
        options: &MountOptions<'_>,
    ) -> Result<MountedFiles, String> {
        let core = CoreOptions { read_only: options.read_only, ..options.options.get(&CORE) };
        let journal = JournalOptions { data: self.data, ..options.options.get(&JOURNAL) };
        let chosen = formats::MountOptions { core, policy: self.policy, journal, now: 1 };
        let cannot = |error: FsError| error.to_string();
        if self.kind.needs_objects {
            let chosen_below = drive_options(&options.options);
            let drive = MountOptions { options: chosen_below, ..*options };
            let drive = seekless_layouts::mount(&mut disk, &drive);
            let (drive, ..) = drive.map_err(|error| error.to_string())?;
            let mount = |disk: &mut dyn Disk| (self.kind.mount)(disk, &chosen);
            let fs = objects(&mut disk, mount).map_err(cannot)?;
            let (kind, drive, blocks_read) = (self.kind, Some(drive), disk.read);
            return Ok(MountedFiles { kind, fs, drive, blocks_read });
        }
        let fs = (self.kind.mount)(&mut disk, &chosen).map_err(cannot)?;
        Ok(MountedFiles { kind: self.kind, fs, drive: None, blocks_read: disk.read })
    }

    /// The workload of a case: one for each kind first.
    fn profile(self, case: u64) -> &'static Profile {
        &workload::PROFILES[(case % workload::PROFILES.len() as u64) as usize]
    }
}

impl Subject for FileSubject {
    type Mounted = MountedFiles;
    type Oracle = FileOracle;
    type Looks = Looks;
    const NOUN: &'static str = "file system";
    const WORKLOADS: u64 = workload::PROFILES.len() as u64;

    fn name(self) -> String {
        let judged = match self.own_rules() == Some(self.rules) {
            true => String::new(),
            false => format!(", judged as {}", self.rules.name()),
        };
        let ace = self.ace.map(|ace| format!(", {ace}")).unwrap_or_default();
        let data = if self.data == DataMode::Writeback { ", data written back late" } else { "" };
        let trusts = if self.trusts { ", trusting completions" } else { "" };
        let device = self.device.map(|order| format!(", on devices of class {}", class(order)));
        let device = device.unwrap_or_default();
        format!("{} {}{data}{judged}{ace}{trusts}{device}", self.kind, self.policy.name())
    }

    fn flags(self) -> String {
        let judged = match self.own_rules() == Some(self.rules) {
            true => String::new(),
            false => format!(" --judge {}", self.rules.name()),
        };
        let ace = self.ace.map(|ace| format!(" --ace {}", ace.length())).unwrap_or_default();
        let trusts = if self.trusts { " --trust-completions" } else { "" };
        let device = self.device.map(|order| format!(" --device {}", class(order)));
        let device = device.unwrap_or_default();
        let data = if self.data == DataMode::Writeback { " --data writeback" } else { "" };
        format!(
            "--fs {} --policy {}{data}{judged}{ace}{trusts}{device}",
            self.kind,
            self.policy.name()
        )
    }

    fn cases(self) -> Option<u64> {
        self.ace.map(Ace::cases)
    }

    fn damages(self) -> bool {
        false
    }

    fn draw(self, case: u64, rng: &mut Rng) -> Case<FileSubject> {
        let (workload, shape, slow_flushes, may_fill, script) = match self.ace {
            Some(ace) => ("a short sequence", 0, false, false, ace::script(ace, case)),
            None => {
                let profile = self.profile(case);
                let shape = profile.shape.unwrap_or_else(|| rng.below(4) as usize);
                let script = workload::script(profile, self.kind.limits, rng);
                (profile.name, shape, profile.slow_flushes, profile.may_fill, script)
            }
        };
        let mut contract = CONTRACTS[rng.below(CONTRACTS.len() as u64) as usize];
        contract.order = self.device.unwrap_or(contract.order);
        if self.policy.has_own_log_volume() && contract.order == Order::Prefix {
            // Two devices keep no order between them, but each keeps what it has completed.
            contract.order = Order::Unordered;
        }
        if self.policy.is_one_point() && SHAPES[shape].fragment < BLOCK_BYTES as u32 {
            // Names and content in one block must be written apart.
            contract.unit = Unit::Sector;
        }
        let devices = DeviceKind { contract, headed: false, slow_flushes, keeps_forced: true };
        let log = self.policy.is_logged().then_some(self.policy);
        let world = World::new(Attrs { mode: 0o755, uid: 0 });
        let world = world.with_generations(self.kind.limits.generations);
        let oracle = FileOracle::new(self.rules, world, may_fill, self.kind.limits.marks_unmounts);
        Case { workload, media: vec![image_of(self.kind, shape, log)], devices, script, oracle }
    }

    fn mount_options(self, seed: u64, rng: &mut Rng) -> Options {
        // From one that is over before the first operation to one that lasts to the end.
        let paces = [10 * MILLIS, 300 * MILLIS, 2 * SECONDS];
        let pace = Rng::stream(seed, "pace of background work").below(paces.len() as u64);
        let any = |all: &[u64], rng: &mut Rng| all[rng.below(all.len() as u64) as usize];
        let core = CoreOptions {
            cache_bytes: any(&[64 << 20, 64 << 20, 512 << 10, 128 << 10], rng),
            writes: any(&[32, 32, 8, 2], rng) as usize,
            cluster_bytes: any(&[64 << 10, 16 << 10, 8 << 10], rng) as u32,
            write_unit: if rng.chance(0.5) { WriteUnit::Fragments } else { WriteUnit::Dirty },
            ordering: if self.trusts { Ordering::Trusted } else { Ordering::Flush },
            idle_step: paces[pace as usize],
            ..CoreOptions::default()
        };
        let options = Options::default().with(&CORE, core);
        let options = match self.kind.needs_objects {
            true => options.with(&WALK_BELOW, walk_below(seed)),
            false => options,
        };
        match self.policy.is_one_point() {
            true => options.with(&JOURNAL, journal(rng)),
            false => options,
        }
    }

    fn mount(
        self,
        disks: &mut Disks<'_>,
        options: &MountOptions<'_>,
    ) -> Result<MountedFiles, String> {
        let disk = disks[0].as_deref_mut().expect("the only device is never lost");
        let mut disk = Counting { disk, read: 0 };
        if self.repairs() && !options.read_only {
            (self.kind.repair)(&mut disk).map_err(|error| format!("repair: {error}"))?;
        }
        self.mount_only(disk, options)
    }

    fn recovery(self, media: &[Cells], looks: &mut Looks) -> Option<Recovery> {
        if self.repairs() { looks.recovery(self.kind, self.memory, &media[0]) } else { None }
    }

    fn mount_recovered(
        self,
        disks: &mut Disks<'_>,
        options: &MountOptions<'_>,
    ) -> Result<MountedFiles, String> {
        let disk = disks[0].as_deref_mut().expect("the only device is never lost");
        self.mount_only(Counting { disk, read: 0 }, options)
    }

    fn inspect(
        self,
        media: &[Cells],
        looks: &mut Looks,
        again: bool,
    ) -> Option<Result<Rc<Tree>, Wrong>> {
        Some(looks.look((self.kind, self.rules), self.memory, &media[0], again))
    }

    fn area(self, media: &[Cells], write: &BlockWrite) -> Option<String> {
        area::of(&mut media[0].clone(), write)
    }

    /// Data has no checksums.
    fn checks(self) -> bool {
        false
    }

    fn stops_at_damage(self) -> bool {
        true
    }
}
