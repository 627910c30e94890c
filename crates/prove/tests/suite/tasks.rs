//! Tasks that are cut off: a repair, a drain, and what joins a log to a disk or parts the two.
//!
//! After a cut the task is repeated, and nothing is lost by the cut; after its end its result is
//! durable.

use crate::making::{DEVICE, options, used_at};
use seekless_engine::Bytes;
use seekless_engine::data::{Body, Data};
use seekless_engine::device::Device;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::{Io, IoError};
use seekless_engine::layout::{FormatOptions, LayoutError, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::superblock::Superblock;
use seekless_layouts::{Kind, dcd};
use seekless_prove::making::cut_task;

/// What each block reads as; none where reading it is an error.
type Blocks = Vec<Option<Bytes>>;

fn read_all(node: &mut Node) -> Blocks {
    let blocks = node.layer.blocks();
    let read = |at| match node.run(&mut 0, Io::read(0, at, 1)) {
        Ok(data) => Some(data.to_bytes()),
        Err(IoError::Checksum { .. } | IoError::Media { .. }) => None,
        Err(error) => panic!("block {at}: {error}"),
    };
    (0..blocks).map(read).collect()
}

fn mounted(medium: &mut Cells) -> Result<Blocks, LayoutError> {
    let options = MountOptions { volatile: true, ..MountOptions::default() };
    let (layer, ..) = seekless_layouts::mount(&mut MediumDisk(medium), &options)?;
    let device: Box<dyn Device> = Box::new(Ram::new(Box::new(medium.clone())));
    Ok(read_all(&mut Node::new(layer, vec![device], 0)))
}

/// Blocks that are damaged, one after the other.
const STRIKES: usize = 3;

/// Three map blocks of `vlog`, two of `lfs`; the log of `dcd` is written home by each repair.
fn blocks(kind: Kind) -> u64 {
    if kind == Kind::DCD { 150 } else { 1000 }
}

/// What is there after another repair, if a mount refuses the volume. Nothing if that repair says
/// that nothing is certain: what the first one has written may pass for younger writes.
fn repaired(kind: Kind, mut medium: Cells) -> Result<Option<Blocks>, String> {
    if let Ok(blocks) = mounted(&mut medium) {
        return Ok(Some(blocks));
    }
    match seekless_layouts::repair(&mut MediumDisk(&mut medium), gives_up(kind)) {
        Ok(_) => {}
        Err(error) if error.to_string().contains("nothing of the volume is certain") => {
            return Ok(None);
        }
        Err(error) => return Err(format!("a state that another repair refuses: {error}")),
    }
    let again = mounted(&mut medium);
    again.map(Some).map_err(|error| format!("a repaired volume that is refused: {error}"))
}

/// True where lost blocks have no mark, and become zeros.
fn gives_up(kind: Kind) -> bool {
    kind == Kind::DCD
}

fn is_metadata(medium: &Cells, at: u64) -> bool {
    matches!(medium.get(at), Body::Bytes(_) | Body::Sectors(_) | Body::Lazy(_))
}

/// Damages a block and cuts the repair, if that is what the volume needs; false if it mounts.
fn cut_repair(kind: Kind, whole: &Cells, right: &Blocks, at: u64) -> bool {
    let mut damaged = whole.clone();
    damaged.lose(at);
    if mounted(&mut damaged.clone()).is_ok() {
        return false;
    }
    let mut after = damaged.clone();
    if seekless_layouts::repair(&mut MediumDisk(&mut after), gives_up(kind)).is_err() {
        return false;
    }
    let after = mounted(&mut after).expect("it was repaired");
    let judge = |left: Vec<Cells>, ended: bool, what: &str| {
        let mut left = left;
        let found = match ended {
            true => Some(mounted(&mut left[0]).map_err(|error| format!("{what}: {error}"))?),
            false => {
                repaired(kind, left.remove(0)).map_err(|error| format!("{what} leaves {error}"))?
            }
        };
        for (block, found) in found.iter().flatten().enumerate() {
            let lost = *found == after[block];
            if !lost && *found != right[block] {
                let what = format!("{what}: block {block} is lost: {}", found.is_none());
                return Err(what);
            }
        }
        Ok(())
    };
    let task = |disks: &mut [&mut dyn Disk]| {
        seekless_layouts::repair(disks[0], gives_up(kind)).expect("it was repaired before");
    };
    let mut rng = Rng::stream(at, kind.name());
    let states = cut_task(&[damaged], false, &mut rng, task, judge);
    let states = states.unwrap_or_else(|wrong| panic!("{kind}, block {at}: {wrong}"));
    assert!(states > 5, "{kind}, block {at}: {states}");
    true
}

fn a_repair_can_be_repeated(kind: Kind) {
    let mut cut = 0;
    for is_clean in [true, false] {
        let medium = Cells::new(kind.device_blocks(blocks(kind)) + blocks(kind));
        let whole = used_at(kind, medium, &FormatOptions::new(kind, blocks(kind), 33), is_clean);
        let right = mounted(&mut whole.clone()).expect("nothing is damaged");
        let metadata = (1..whole.blocks() - 1).filter(|&at| is_metadata(&whole, at));
        let needed = metadata.filter(|&at| cut_repair(kind, &whole, &right, at));
        cut += needed.take(STRIKES).count();
    }
    assert!(cut > 0, "no block of {kind} needs a repair");
}

#[test]
fn a_repair_of_vlog_that_is_cut_off_can_be_repeated() {
    a_repair_can_be_repeated(Kind::VLOG);
}

#[test]
fn a_repair_of_dcd_that_is_cut_off_can_be_repeated() {
    a_repair_can_be_repeated(Kind::DCD);
}

#[test]
fn a_repair_of_lfs_that_is_cut_off_can_be_repeated() {
    a_repair_can_be_repeated(Kind::LFS);
}

#[test]
fn a_drain_that_is_cut_off_loses_nothing_and_its_end_is_durable() {
    let volume = used_at(Kind::DCD, Cells::new(DEVICE), &options(Kind::DCD, 33), false);
    let right = mounted(&mut volume.clone()).expect("it was stopped");
    let judge = |left: Vec<Cells>, ended: bool, what: &str| {
        let mut left = left;
        let found = mounted(&mut left[0].clone()).map_err(|error| format!("{what}: {error}"))?;
        if found != right {
            return Err(format!("{what} changes what is read"));
        }
        let rest = dcd::drain(&mut [&mut MediumDisk(&mut left[0])], &mut |_, _| {});
        let rest = rest.map_err(|error| format!("{what}: {error}"))?;
        match ended && rest > 0 {
            true => Err(format!("{what}: {rest} blocks are in the log")),
            false => Ok(()),
        }
    };
    let task = |disks: &mut [&mut dyn Disk]| {
        assert!(dcd::drain(disks, &mut |_, _| {}).expect("nothing is damaged") > 0);
    };
    cut_task(&[volume], true, &mut Rng::stream(1, "drain"), task, judge).expect("a drain");
}

const ORIGIN: u64 = 80;
const LOG: u64 = 160;

fn data() -> Data {
    Data::stamp(ORIGIN as u32, 0, 1)
}

/// An origin with data, and an empty device for a log.
fn apart() -> [Cells; 2] {
    let mut origin = Cells::new(ORIGIN);
    origin.write(0, &data()).expect("memory");
    [origin, Cells::new(LOG)]
}

fn attach(disks: &mut [&mut dyn Disk]) -> Result<(), LayoutError> {
    let [origin, log] = disks else { unreachable!("an origin and a log") };
    dcd::attach(*origin, *log, &FormatOptions::new(Kind::DCD, 0, 5))
}

fn attached() -> [Cells; 2] {
    let mut media = apart();
    let [origin, log] = &mut media;
    attach(&mut [&mut MediumDisk(origin), &mut MediumDisk(log)]).expect("both are large enough");
    media
}

/// What a mount of both shows, if they are a pair.
fn pair(media: &[Cells]) -> Result<bool, LayoutError> {
    let [mut origin, mut log] = [media[0].clone(), media[1].clone()];
    let options = MountOptions { volatile: true, ..MountOptions::default() };
    let found = dcd::mount(&mut MediumDisk(&mut origin), &mut MediumDisk(&mut log), &options);
    let ram = |cells: Cells| -> Box<dyn Device> { Box::new(Ram::new(Box::new(cells))) };
    let mut node = Node::new(Box::new(found?.0), vec![ram(origin), ram(log)], 0);
    let right: Blocks = data().each().map(|piece| Some(piece.to_bytes())).collect();
    Ok(read_all(&mut node) == right)
}

/// True if an origin has all its data itself.
fn is_whole(origin: &Cells) -> bool {
    let found = MediumDisk(&mut origin.clone()).read(0, ORIGIN as u32);
    found.is_ok_and(|found| found.to_bytes() == data().to_bytes())
}

fn is_bound(origin: &Cells) -> bool {
    !matches!(dcd::abandoned(&mut MediumDisk(&mut origin.clone())), Ok(None))
}

#[test]
fn an_attachment_that_is_cut_off_is_complete_or_can_be_made_again() {
    let judge = |left: Vec<Cells>, ended: bool, what: &str| {
        let mut left = left;
        let rescued = dcd::abandoned(&mut MediumDisk(&mut left[0].clone()));
        if let Ok(Some(found)) = rescued
            && found.kept == dcd::Kept::All
            && found.first.to_bytes() != data().slice(0, 32).to_bytes()
        {
            return Err(format!("{what}: the origin keeps what it does not have"));
        }
        let before = pair(&left);
        let [origin, log] = &mut left[..] else { unreachable!("two devices") };
        let again = attach(&mut [&mut MediumDisk(origin), &mut MediumDisk(log)]);
        if before == Ok(true) && again.is_err() {
            return Ok(());
        }
        match again {
            Ok(()) if !ended && matches!(pair(&left), Ok(true)) => Ok(()),
            again => Err(format!("{what} leaves {again:?} after {before:?}")),
        }
    };
    let task = |disks: &mut [&mut dyn Disk]| attach(disks).expect("both are large enough");
    let states = cut_task(&apart(), true, &mut Rng::stream(1, "attach"), task, judge);
    assert!(states.expect("an attachment") > 20);
}

#[test]
fn a_log_that_was_detached_is_one_no_longer() {
    let judge = |left: Vec<Cells>, ended: bool, what: &str| {
        let is_pair = pair(&left);
        let alone = !is_bound(&left[0]) && is_whole(&left[0]);
        match is_pair {
            Ok(true) if !ended => Ok(()),
            Err(_) if alone => Ok(()),
            _ => Err(format!("{what}: a pair: {is_pair:?}, whole alone: {alone}")),
        }
    };
    let task = |disks: &mut [&mut dyn Disk]| {
        let [origin, log] = disks else { unreachable!("an origin and a log") };
        dcd::detach(*origin, *log).expect("it holds nothing");
    };
    let states = cut_task(&attached(), true, &mut Rng::stream(1, "detach"), task, judge);
    assert!(states.expect("a detachment") > 20);
}

#[test]
fn an_origin_that_is_not_bound_has_all_of_its_first_blocks() {
    let [origin, _] = attached();
    let first = data().slice(0, 32);
    let judge = |left: Vec<Cells>, ended: bool, what: &str| {
        let (bound, whole) = (is_bound(&left[0]), is_whole(&left[0]));
        // A torn first block belongs to nothing, and the task is repeated.
        let found = MediumDisk(&mut left[0].clone()).read(0, 1).expect("memory");
        let seems_whole = !bound && found.to_bytes() == data().slice(0, 1).to_bytes();
        if !whole && (ended || seems_whole) {
            return Err(format!("{what}: bound: {bound}, whole: {whole}"));
        }
        let mut again = left[0].clone();
        dcd::restore(&mut MediumDisk(&mut again), &first).map_err(|error| error.to_string())?;
        assert!(is_whole(&again), "{what}");
        Ok(())
    };
    let task = |disks: &mut [&mut dyn Disk]| {
        dcd::abandon(disks[0]).expect("it is bound");
        dcd::restore(disks[0], &first).expect("memory");
    };
    let states = cut_task(&[origin], true, &mut Rng::stream(1, "restore"), task, judge);
    assert!(states.expect("a restoration") > 20);
}

#[test]
fn a_copy_of_a_superblock_that_was_mended_is_durable() {
    let whole = used_at(Kind::VLOG, Cells::new(DEVICE), &options(Kind::VLOG, 33), true);
    let found = Superblock::read(&mut MediumDisk(&mut whole.clone()), &Ok);
    let superblock = found.expect("nothing is damaged");
    for at in [0, DEVICE - 1] {
        let mut damaged = whole.clone();
        damaged.lose(at);
        let judge = |left: Vec<Cells>, ended: bool, what: &str| {
            let lost = superblock.lost_copies(&mut MediumDisk(&mut left[0].clone()), &Ok);
            match lost.len() > usize::from(!ended) {
                true => Err(format!("{what}: copies at {lost:?} are lost")),
                false => Ok(()),
            }
        };
        let task = |disks: &mut [&mut dyn Disk]| {
            assert!(superblock.mend(disks[0], &Ok).expect("memory"), "a copy was lost");
        };
        let mut rng = Rng::stream(at, "mend");
        cut_task(&[damaged], true, &mut rng, task, judge).expect("a copy is whole");
    }
}
