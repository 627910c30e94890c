//! A cache that survives a power cut: what was answered is there afterwards, without a sync, and
//! the file system is sound. The device loses every write that no flush has covered.

use crate::minix;
use seekless_crash::contract::{Contract, Order};
use seekless_crash::device::volatile::{Latency, VolatileRam};
use seekless_crash::tear::Unit;
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::io::Part;
use seekless_engine::rng::Rng;
use seekless_engine::units::{BLOCK_BYTES, BLOCK_SECTORS, BlockNr};
use seekless_formats::{Kind, MkfsOptions, MountOptions, MountedFs, Nature};
use seekless_fs::block::Blocking;
use seekless_fs::block::plain::Plain;
use seekless_fs::core::CoreOptions;
use seekless_fs::core::nvram::{Nvram, NvramFlush};
use seekless_fs::core::page::{Mask, Page, each};
use seekless_fs::policy::PolicyKind;
use seekless_fs_model::model::Limits;
use seekless_fs_model::oracle::Judge;
use seekless_fs_model::script::{Kind as ScriptKind, Script, Shape};

const BLOCKS: u64 = 64 << 8;
const LENGTH: usize = 2500;
/// Calls after which the power is cut.
const CUTS: [usize; 3] = [150, 900, LENGTH];
const NVRAM: u64 = 1 << 20;

/// Over what a medium holds.
fn node(cells: Cells) -> seekless_engine::node::Node {
    let contract = Contract { order: Order::Unordered, unit: Unit::Sector };
    let ram =
        VolatileRam::with_contract(cells, contract, Latency::Random, Rng::stream(7, "latency"));
    Plain::node(Box::new(ram.keeping_forced_writes()))
}

fn options(policy: PolicyKind, nvram: Option<Nvram>) -> MountOptions {
    let core = CoreOptions { cache_bytes: 4 << 20, nvram, ..CoreOptions::default() };
    MountOptions { core, policy, now: 1, ..MountOptions::default() }
}

type Files = Blocking<Box<dyn MountedFs>>;

fn mount(kind: Kind, policy: PolicyKind, cells: Cells, nvram: Option<Nvram>) -> Files {
    let options = options(policy, nvram);
    Blocking::mount(node(cells), |disk| (kind.mount)(disk, &options)).expect("it can be mounted")
}

/// The medium after a power cut: what is durable, with the NVRAM over it if it is kept.
fn cut(fs: Files, kind: Kind, keeps: bool) -> Cells {
    let image = fs.fs().nvram_image();
    let mut node = fs.abandon();
    let device = node.devices[0].as_any().expect("the device of this test");
    let mut cells = device.downcast_ref::<VolatileRam>().expect("it is one").durable().clone();
    let per_block = (kind.defaults)().block as u64 / BLOCK_BYTES as u64;
    for (block, sectors, page) in image.into_iter().filter(|_| keeps) {
        write(&mut cells, block * per_block, sectors, &page);
    }
    cells
}

fn write(cells: &mut Cells, at: BlockNr, sectors: Mask, page: &Page) {
    for sector in each(sectors) {
        let block = sector as u64 / BLOCK_SECTORS;
        let from = block as usize * BLOCK_BYTES;
        let data = Data::bytes(page.share(from, from + BLOCK_BYTES));
        let part = Part { first: (sector as u64 % BLOCK_SECTORS) as u32, sectors: 1 };
        cells.write_part(at + block, &data, part).expect("it is on the device");
    }
}

/// Runs a script, cuts the power, and compares.
///
/// # Errors
/// What is wrong afterwards.
fn survives(
    (kind, policy): (Kind, PolicyKind),
    (about, seed, calls): (ScriptKind, u64, usize),
    flush: NvramFlush,
    keeps: bool,
) -> Result<(), String> {
    let mut cells = Cells::new(BLOCKS);
    let mkfs: MkfsOptions = (kind.defaults)();
    (kind.mkfs)(&mut seekless_engine::disk::MediumDisk(&mut cells), &mkfs).expect("it fits");
    let limits = match kind.name {
        "minix" => minix::scripts::limits(mkfs.block),
        _ => Limits::default(),
    };
    let shape = Shape {
        block: mkfs.block.into(),
        fragment: mkfs.fragment.into(),
        capacity: BLOCKS * BLOCK_BYTES as u64,
        most_bytes: 1 << 20,
        ..Shape::default()
    };
    let script = Script::random(about, seed, LENGTH, shape);
    let nvram = Nvram { bytes: NVRAM, flush };
    let mut judge = Judge::new(mount(kind, policy, cells, Some(nvram)), limits, false);
    judge.run(&script.calls[..calls.min(script.calls.len())]).map_err(|wrong| wrong.what)?;
    let mut wrong = None;
    let mut judge = judge.remount(|fs| {
        let mut cells = cut(fs, kind, keeps);
        let disk = &mut seekless_engine::disk::MediumDisk(&mut cells);
        let found = (kind.check)(disk).expect("it can be read");
        let mut worse = found.list.iter().filter(|one| one.nature() == Nature::Other);
        wrong = worse.next().map(ToString::to_string);
        (kind.repair)(disk).expect("it can be mended");
        mount(kind, policy, cells, None)
    });
    match wrong {
        Some(wrong) => Err(wrong),
        None => judge.walk().map_err(|wrong| format!("{wrong:?}")),
    }
}

fn subjects() -> impl Iterator<Item = (Kind, PolicyKind)> {
    let policies = [PolicyKind::Async, PolicyKind::Atomic, PolicyKind::Unit];
    let kinds = Kind::all().filter(|kind| !kind.needs_objects);
    kinds.flat_map(move |kind| policies.map(|policy| (kind, policy)))
}

const ABOUT: [ScriptKind; 4] =
    [ScriptKind::Renames, ScriptKind::Sizes, ScriptKind::DeepTree, ScriptKind::HotDirectory];

#[test]
fn what_was_answered_survives() {
    for (subject, about) in subjects().flat_map(|one| ABOUT.map(|about| (one, about))) {
        for (flush, calls) in
            [NvramFlush::Whole, NvramFlush::Segment].into_iter().flat_map(|f| CUTS.map(|c| (f, c)))
        {
            let found = survives(subject, (about, 3, calls), flush, true);
            let (kind, policy) = subject;
            assert_eq!(found, Ok(()), "{kind} {policy:?}, {about:?}, {calls} calls, {flush:?}");
        }
    }
}

/// The control: without what the NVRAM holds, something that was answered is gone.
#[test]
fn without_the_nvram_it_is_lost() {
    for subject in subjects() {
        let lost = survives(subject, (ScriptKind::Sizes, 3, 900), NvramFlush::Whole, false);
        assert!(lost.is_err(), "{} {:?}", subject.0, subject.1);
    }
}
