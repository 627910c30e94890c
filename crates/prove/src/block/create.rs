//! Makes the volumes that are proved, of sizes and shapes that the case decides.

use super::objects;
use super::stack::{BlockSubject, any};
use super::workload::Size;
use crate::small_disk::CYLINDER_BLOCKS;
use seekless_arrays::{ArrayDisk, AssembleOptions, CreateArray, Level, assemble};
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::layout::{FormatOptions, Layout as _, LayoutError};
use seekless_engine::options::Options;
use seekless_engine::rng::Rng;
use seekless_engine::superblock::LayoutNumber;
use seekless_layouts::Kind;
use seekless_layouts::dcd::{self, Shape};
use seekless_layouts::loge::options::{HEURISTIC, SPARSE, TABLE};
use seekless_layouts::loge::{Heuristic, Order as PlaceOrder, TableForm};
use seekless_layouts::shared::SEGMENT;
use seekless_layouts::vlfs::{self, Vlfs};

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

/// An empty volume on new media, of sizes that the case decides.
pub fn create(subject: BlockSubject, size: Size, headed: bool, rng: &mut Rng) -> Made {
    match subject {
        BlockSubject::Layout(kind) => {
            let device = device_blocks(kind, size, rng);
            let device = if headed { device.next_multiple_of(CYLINDER_BLOCKS) } else { device };
            let mut medium = Cells::new(device);
            // Loge keeps its labels in sector headers where there are some.
            if kind == Kind::LOGE && rng.chance(0.4) {
                medium = medium.with_labels();
            }
            let full = size == Size::Large || rng.chance(0.5);
            let blocks = format(kind, &mut MediumDisk(&mut medium), full, rng);
            Made { media: vec![medium], blocks, whole_blocks: whole_blocks(kind, device, blocks) }
        }
        BlockSubject::Array { level, members, kind } => {
            let device = match size {
                Size::Tiny | Size::Small => device_blocks(kind, size, rng),
                // A request to an array is many requests to its members.
                Size::Middle | Size::Large => 200 + rng.below(200),
            };
            create_array(level, members, kind, device, rng)
        }
        BlockSubject::Attached => attach(size, headed, rng),
        BlockSubject::Sparse => create_sparse(size, headed, rng),
        BlockSubject::Objects => create_objects(size, headed, rng),
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
        // One.
        Kind::LLD => 7,
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
    let is_log = kind.is_log_structured();
    (is_log && rng.chance(0.3)).then(|| 8 << rng.below(4))
}

/// How Loge is to choose places: anything goes.
fn any_heuristic(rng: &mut Rng) -> Heuristic {
    Heuristic { order: any(&PlaceOrder::ALL, rng), grouping: rng.chance(0.3) }
}

/// Which form its table is to have. The identity of the volume decides, so that nothing else is
/// drawn differently than without forms.
fn any_table(id: u128) -> TableForm {
    let mut rng = Rng::stream(id as u64, "table");
    match rng.below(5) {
        0 | 1 => TableForm::Plain,
        2 => TableForm::Sorted(1 + rng.below(3) as u8),
        _ => TableForm::Compressed(1 + rng.below(20) as u8),
    }
}

/// The drive of VLFS on a new medium.
fn create_objects(size: Size, headed: bool, rng: &mut Rng) -> Made {
    let device = match size {
        Size::Tiny | Size::Small => 300 + rng.below(100),
        Size::Middle => 400 + rng.below(300),
        Size::Large => 900 + rng.below(400),
    };
    let device = if headed { device.next_multiple_of(CYLINDER_BLOCKS) } else { device };
    let mut medium = Cells::new(device);
    let addresses = objects::addresses();
    let format = FormatOptions::new(Kind::VLOG, addresses, u128::from(rng.next()));
    let format = FormatOptions { layout: LayoutNumber(vlfs::DESCRIPTOR.number), ..format };
    Vlfs::format(&mut MediumDisk(&mut medium), &format).expect("it fits");
    let blocks = objects::blocks_on(device);
    Made { media: vec![medium], blocks, whole_blocks: vlfs::BLOCKS_AT_ONCE }
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
    let device = seekless_arrays::create::member_blocks(level, members, chunk, wanted)
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
