//! The promises of `CONTRACT.md`, each in a minimal test. The prover checks all of them together.
#![allow(clippy::unwrap_used, clippy::disallowed_types, missing_docs)]

use seekless_engine::data::{Body, Data};
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::{Io, IoError, Outcome};
use seekless_engine::layout::{FormatOptions, MountOptions, MountPath, MountReport};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::units::{BlockNr, SECONDS};
use seekless_layouts::Kind;
use std::sync::{Arc, Mutex, MutexGuard};

each_layout!(
    flushed_and_forced_writes_survive_the_loss_of_the_rest,
    trimmed_and_unwritten_blocks_read_as_zeros,
    a_failed_flush_is_never_retried_and_called_good,
    every_acknowledged_write_lasts_on_a_device_that_keeps_them,
    after_a_failed_write_nothing_more_is_taken,
    trimming_frees_space
);

/// Content of a device, and its counters.
#[derive(Clone, Debug)]
struct State {
    cells: Cells,
    /// Content when the last flush was done.
    flushed: Cells,
    /// Block by block, the later writes in order; trims are writes of zeros.
    unflushed: Vec<(BlockNr, Body)>,
    trimmed: u64,
    failing_writes: bool,
    /// What the next flush fails with.
    failing_flush: Option<IoError>,
}

/// A medium that outlives its device, fails on demand, and knows the writes that a power cut may
/// undo.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<State>>);

impl Shared {
    fn new(cells: Cells) -> Shared {
        Shared(Arc::new(Mutex::new(State {
            flushed: cells.clone(),
            cells,
            unflushed: Vec::new(),
            trimmed: 0,
            failing_writes: false,
            failing_flush: None,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn format(kind: Kind, blocks: u64) -> Shared {
        let medium = Shared::new(Cells::new(kind.device_blocks(blocks)));
        let options = FormatOptions::new(kind, blocks, 5);
        seekless_layouts::format(&mut MediumDisk(&mut medium.clone()), &options).unwrap();
        medium
    }

    /// Cuts the power: each unflushed write is kept or lost, as `kept` decides.
    fn cut(&self, mut kept: impl FnMut() -> bool) -> Shared {
        let State { mut flushed, unflushed, .. } = self.state().clone();
        for (at, body) in unflushed.into_iter().filter(|_| kept()) {
            flushed.set(at, body);
        }
        Shared::new(flushed)
    }
}

impl Medium for Shared {
    fn blocks(&self) -> u64 {
        self.state().cells.blocks()
    }
    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.state().cells.read(at, count)
    }
    fn write(&mut self, at: BlockNr, data: &Data) -> Result<(), IoError> {
        let mut state = self.state();
        if state.failing_writes {
            return Err(IoError::Media { block: at });
        }
        for index in 0..data.blocks() {
            let body = data.block(index).body;
            state.cells.set(at + u64::from(index), body.clone());
            state.unflushed.push((at + u64::from(index), body));
        }
        Ok(())
    }
    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        self.write(at, &Data::zeros(count))?;
        self.state().trimmed += u64::from(count);
        Ok(())
    }
    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        self.state().cells.next_data(at)
    }
    fn sync(&mut self) -> Result<(), IoError> {
        let mut state = self.state();
        if let Some(error) = state.failing_flush.take() {
            return Err(error);
        }
        state.flushed = state.cells.clone();
        state.unflushed.clear();
        Ok(())
    }
}

/// A mounted volume that answers one request at a time.
struct Volume {
    node: Node,
    now: u64,
    report: MountReport,
}

impl Volume {
    fn mount(medium: &Shared, volatile: bool) -> Volume {
        let options = MountOptions { volatile, ..MountOptions::default() };
        let (layer, _, report) =
            seekless_layouts::mount(&mut MediumDisk(&mut medium.clone()), &options).unwrap();
        let boxed = Box::new(medium.clone());
        let device = if volatile { Ram::volatile(boxed) } else { Ram::new(boxed) };
        Volume { node: Node::new(layer, vec![Box::new(device)], 1), now: 0, report }
    }

    fn run(&mut self, io: Io) -> Outcome {
        self.node.run(&mut self.now, io)
    }

    fn write(&mut self, at: BlockNr, count: u32, version: u64) -> Outcome {
        self.run(Io::write(0, at, Data::stamp(count, at, version)))
    }

    fn write_fua(&mut self, at: BlockNr, count: u32, version: u64) -> Outcome {
        self.run(Io::write(0, at, Data::stamp(count, at, version)).with_fua())
    }

    fn flush(&mut self) -> Outcome {
        self.run(Io::flush(0))
    }

    fn read(&mut self, at: BlockNr) -> Data {
        self.run(Io::read(0, at, 1)).unwrap()
    }

    /// The version that a block holds, 0 for zeros.
    fn version(&mut self, at: BlockNr, newest: u64) -> Option<u64> {
        let found = self.read(at);
        (0..=newest).find(|&version| {
            found == if version == 0 { Data::zeros(1) } else { Data::stamp(1, at, version) }
        })
    }

    /// Lets a second pass, so that background work is done.
    fn pause(&mut self) {
        self.node.idle(&mut self.now, SECONDS);
    }

    /// As [`Volume::pause`], so that all writes are on the device. Not for `dcd`: its log is
    /// written at once, and a pause would destage it.
    fn settle(&mut self, kind: Kind) {
        if kind != Kind::DCD {
            self.pause();
        }
    }

    fn stop(&mut self) {
        self.node.finish(&mut self.now);
    }
}

fn flushed_and_forced_writes_survive_the_loss_of_the_rest(kind: Kind) {
    let medium = Shared::format(kind, 500);
    let mut volume = Volume::mount(&medium, true);
    for at in 0..50 {
        volume.write(at, 1, 1).unwrap();
    }
    volume.flush().unwrap();
    volume.write(100, 3, 2).unwrap();
    volume.write_fua(200, 3, 2).unwrap();
    volume.write(10, 5, 3).unwrap();
    for keep in [false, true] {
        let mut volume = Volume::mount(&medium.cut(|| keep), true);
        let flushed = (0..10).chain(15..50).all(|at| volume.version(at, 3) == Some(1));
        assert!(flushed, "{kind}: a flushed write is lost");
        let forced = (200..203).all(|at| volume.version(at, 3) == Some(2));
        assert!(forced, "{kind}: a write with FUA is lost");
    }
}

#[test]
fn a_block_is_never_torn_on_vlog() {
    never_torn(Kind::VLOG);
}

#[test]
fn a_block_is_never_torn_on_loge() {
    never_torn(Kind::LOGE);
}

#[test]
fn a_block_is_never_torn_on_lfs() {
    never_torn(Kind::LFS);
    never_torn(Kind::WOLF);
    never_torn(Kind::LLD);
}

#[test]
fn a_block_is_never_torn_on_dcd() {
    // So large that its segments hold the request.
    never_torn_on(Kind::DCD, 20_000);
}

fn never_torn(kind: Kind) {
    never_torn_on(kind, 100);
}

fn never_torn_on(kind: Kind, blocks: u64) {
    let medium = Shared::format(kind, blocks);
    let mut volume = Volume::mount(&medium, true);
    volume.write(50, 4, 1).unwrap();
    volume.flush().unwrap();
    volume.write(50, 4, 2).unwrap();
    volume.settle(kind);
    let writes = medium.state().unflushed.clone();
    assert!(writes.len() > 4, "data and map are on the device");
    // Each block in turn is torn, and all others are whole.
    for (torn, sectors) in (0..writes.len()).flat_map(|torn| (1..8).map(move |s| (torn, s))) {
        let after = medium.cut(|| true);
        let (at, ref body) = writes[torn];
        let bytes_of = |cells: &mut Cells| cells.read(at, 1).unwrap().to_bytes().to_vec();
        let mut mixed = bytes_of(&mut medium.state().flushed);
        let mut new = Cells::new(at + 1);
        new.set(at, body.clone());
        mixed[..sectors * 512].copy_from_slice(&bytes_of(&mut new)[..sectors * 512]);
        after.state().cells.set(at, Body::Bytes(mixed.into()));
        let mut volume = Volume::mount(&after, true);
        let first = volume.version(50, 2);
        assert!(first.is_some(), "write {torn}, sector {sectors}: block 50 is torn");
        assert!((51..54).all(|at| volume.version(at, 2) == first), "write {torn}: request torn");
    }
}

#[test]
fn a_request_of_a_mebibyte_is_old_or_new_on_vlog() {
    old_or_new(Kind::VLOG, 1000, 256);
}

#[test]
fn a_request_of_a_mebibyte_is_old_or_new_on_loge() {
    old_or_new(Kind::LOGE, 1000, 256);
}

#[test]
fn a_request_of_a_mebibyte_is_old_or_new_on_lfs() {
    // So large that no checkpoint makes the second write durable.
    old_or_new(Kind::LFS, 16_000, 256);
    old_or_new(Kind::WOLF, 16_000, 256);
    old_or_new(Kind::LLD, 16_000, 256);
}

#[test]
fn a_request_to_the_log_is_old_or_new_on_dcd() {
    old_or_new(Kind::DCD, 20_000, 15);
}

fn old_or_new(kind: Kind, blocks: u64, count: u32) {
    let medium = Shared::format(kind, blocks);
    let mut volume = Volume::mount(&medium, true);
    volume.write(100, count, 1).unwrap();
    volume.flush().unwrap();
    volume.write(100, count, 2).unwrap();
    volume.settle(kind);
    let mut rng = Rng::stream(1, "cuts");
    let mut seen = [0; 2];
    for round in 0..100 {
        // Keep all blocks, or all except about one in two hundred, or about half.
        let chance = [1.0, 0.995, 0.5][round % 3];
        let mut after = Volume::mount(&medium.cut(|| rng.chance(chance)), true);
        let first = after.version(100, 2).expect("old or new");
        for at in 100..100 + u64::from(count) {
            assert_eq!(after.version(at, 2), Some(first), "round {round}: block {at} is torn off");
        }
        seen[first as usize - 1] += 1;
    }
    assert!(seen[0] > 10 && seen[1] > 10, "{seen:?}");
}

#[test]
fn what_survives_is_a_prefix_on_vlog() {
    survives_in_order(Kind::VLOG);
}

#[test]
fn what_survives_is_a_prefix_on_lfs() {
    survives_in_order(Kind::LFS);
    survives_in_order(Kind::WOLF);
    survives_in_order(Kind::LLD);
}

#[test]
fn what_survives_is_a_prefix_on_dcd() {
    survives_in_order(Kind::DCD);
}

fn survives_in_order(kind: Kind) {
    let medium = Shared::format(kind, 1000);
    let mut volume = Volume::mount(&medium, true);
    for version in 1..=12 {
        // Different slices, one commit each.
        volume.write((version % 3) * 460, 1, version).unwrap();
        volume.settle(kind);
    }
    let mut rng = Rng::stream(2, "cuts");
    let mut lengths = [0; 13];
    for round in 0..300 {
        let chance = [0.95, 0.8, 1.0][round % 3];
        let mut after = Volume::mount(&medium.cut(|| rng.chance(chance)), true);
        let found: Vec<u64> = (0..3).map(|at| after.version(at * 460, 12).unwrap()).collect();
        let last = *found.iter().max().unwrap();
        let newest_up_to_last = |at: u64| (0..=last).rev().find(|v| v % 3 == at || *v == 0);
        for (at, version) in (0..).zip(&found) {
            assert_eq!(newest_up_to_last(at), Some(*version), "round {round}: {found:?}");
        }
        lengths[last as usize] += 1;
    }
    assert!(lengths.iter().filter(|&&count| count > 0).count() >= 4, "{lengths:?}");
}

#[test]
fn what_a_mount_found_lost_never_comes_back_on_dcd() {
    let medium = Shared::format(Kind::DCD, 500);
    let mut volume = Volume::mount(&medium, true);
    volume.write(10, 1, 1).unwrap();
    volume.flush().unwrap();
    volume.write(10, 1, 2).unwrap();
    // Only the header of the record reaches the device.
    let mut first = true;
    let after = medium.cut(|| std::mem::replace(&mut first, false));
    let mut volume = Volume::mount(&after, true);
    assert_eq!(volume.version(10, 2), Some(1));
    // Another record in its place writes the content, and its own header does not reach the device.
    volume.run(Io::write(0, 30, Data::stamp(1, 10, 2))).unwrap();
    let mut first = true;
    let after = after.cut(|| !std::mem::replace(&mut first, false));
    let mut volume = Volume::mount(&after, true);
    assert_eq!(volume.version(10, 2), Some(1), "a write that was lost has come back");
    assert_eq!(volume.version(30, 0), Some(0));
}

fn every_acknowledged_write_lasts_on_a_device_that_keeps_them(kind: Kind) {
    if !kind.promises().immediate {
        return;
    }
    let medium = Shared::format(kind, 1000);
    let mut volume = Volume::mount(&medium, false);
    if volume.node.layer.status().limits().reports_early {
        return;
    }
    let mut rng = Rng::stream(3, "writes");
    let mut model = [0; 1000];
    for version in 1..=60 {
        let at = rng.below(990);
        let count = 1 + rng.below(10);
        volume.write(at, count as u32, version).unwrap();
        model[at as usize..(at + count) as usize].fill(version);
        // The device keeps its content, the server dies without a flush.
        let mut after = Volume::mount(&Shared::new(medium.state().cells.clone()), false);
        for near in at.saturating_sub(20)..(at + 20).min(1000) {
            let found = after.version(near, version);
            assert_eq!(found, Some(model[near as usize]), "{kind}: block {near}");
        }
    }
}

#[test]
fn a_damaged_block_is_an_error_that_names_it_on_vlog() {
    damage_is_named(Kind::VLOG);
}

#[test]
fn a_damaged_block_is_an_error_that_names_it_on_loge() {
    damage_is_named(Kind::LOGE);
}

#[test]
fn a_damaged_block_is_an_error_that_names_it_on_lfs() {
    damage_is_named(Kind::LFS);
    damage_is_named(Kind::WOLF);
    damage_is_named(Kind::LLD);
}

fn damage_is_named(kind: Kind) {
    let medium = Shared::format(kind, 100);
    let mut volume = Volume::mount(&medium, true);
    volume.write(20, 10, 1).unwrap();
    volume.stop();
    let whole = medium.state().cells.clone();
    let is_it = |at: &BlockNr| whole.get(*at) == Data::stamp(1, 23, 1).block(0).body;
    let place = (0..whole.blocks()).find(is_it).expect("block 23 is on the device");
    for wrong in [Body::Zeros, Data::stamp(1, 24, 1).block(0).body] {
        let mut cells = whole.clone();
        cells.set(place, wrong);
        let mut volume = Volume::mount(&Shared::new(cells.clone()), true);
        assert_eq!(volume.run(Io::read(0, 23, 1)), Err(IoError::Checksum { block: 23 }));
        assert!((20..30).filter(|at| *at != 23).all(|at| volume.version(at, 1) == Some(1)));
        let (_, _, found) = seekless_layouts::check(&mut MediumDisk(&mut cells)).unwrap();
        assert_eq!(found.problems.len(), 1, "{found:?}");
        assert!(found.problems[0].contains("23"), "{found:?}");
    }
}

fn trimmed_and_unwritten_blocks_read_as_zeros(kind: Kind) {
    let medium = Shared::format(kind, 500);
    let mut volume = Volume::mount(&medium, true);
    volume.write(100, 50, 1).unwrap();
    volume.run(Io::trim(0, 110, 20)).unwrap();
    for clean in [false, true] {
        for at in 0..500 {
            let there = (100..150).contains(&at) && !(110..130).contains(&at);
            assert_eq!(volume.version(at, 1), Some(u64::from(there)), "{kind}: block {at}");
        }
        if clean {
            volume.stop()
        } else {
            volume.flush().map(|_| ()).unwrap()
        }
        volume = Volume::mount(&medium, true);
    }
}

fn trimming_frees_space(kind: Kind) {
    if !matches!(kind, Kind::INPLACE | Kind::DCD) {
        return trimmed_blocks_are_not_stored(kind);
    }
    // Layouts with fixed places trim on the device; a disk caching disk has the blocks in its log
    // first.
    let medium = Shared::format(kind, 500);
    let mut volume = Volume::mount(&medium, true);
    volume.write(0, 200, 1).unwrap();
    volume.stop();
    let before = medium.state().trimmed;
    let mut volume = Volume::mount(&medium, true);
    volume.run(Io::trim(0, 0, 200)).unwrap();
    volume.flush().unwrap();
    volume.stop();
    assert_eq!(medium.state().trimmed - before, 200, "{kind}");
}

fn trimmed_blocks_are_not_stored(kind: Kind) {
    let medium = Shared::format(kind, 500);
    let stored = || {
        let (_, _, found) = seekless_layouts::check(&mut MediumDisk(&mut medium.clone())).unwrap();
        found.facts
    };
    let mut volume = Volume::mount(&medium, true);
    let empty = stored();
    volume.write(0, 200, 1).unwrap();
    volume.flush().unwrap();
    let full = stored();
    assert_ne!(empty, full);
    volume.run(Io::trim(0, 0, 200)).unwrap();
    volume.flush().unwrap();
    let fact = |facts: &[(&str, String)]| {
        let stored = facts.iter().find(|(name, _)| *name == "stored blocks");
        stored.expect("a check tells how much is stored").1.clone()
    };
    assert_eq!(fact(&stored()), fact(&empty), "{:?}", stored());
    assert_ne!(fact(&full), fact(&empty));
}

/// After the failure all writes are refused, and durable data can be read.
fn refuses_from_now_on(volume: &mut Volume, kind: Kind) {
    for _ in 0..3 {
        assert!(volume.flush().is_err(), "{kind}: a flush after a failure was called good");
        assert_eq!(volume.write(60, 1, 9), Err(IoError::ReadOnly), "{kind}");
        assert_eq!(volume.run(Io::trim(0, 0, 1)), Err(IoError::ReadOnly), "{kind}");
    }
    assert!(volume.node.layer.failed().is_some(), "{kind}");
    assert!((0..10).all(|at| volume.version(at, 1) == Some(1)), "{kind}: reads fail as well");
}

fn after_a_failed_write_nothing_more_is_taken(kind: Kind) {
    for volatile in [false, true] {
        let medium = Shared::format(kind, 100);
        let mut volume = Volume::mount(&medium, volatile);
        volume.write(0, 10, 1).unwrap();
        volume.flush().unwrap();
        medium.state().failing_writes = true;
        assert!(volume.write_fua(50, 1, 2).is_err(), "{kind}");
        medium.state().failing_writes = false;
        refuses_from_now_on(&mut volume, kind);
    }
}

fn a_failed_flush_is_never_retried_and_called_good(kind: Kind) {
    for error in [IoError::Os { errno: 5 }, IoError::NoSpace] {
        for forced in [false, true] {
            let medium = Shared::format(kind, 100);
            let mut volume = Volume::mount(&medium, true);
            volume.write(0, 10, 1).unwrap();
            volume.flush().unwrap();
            // The device fails once and then reports success, as a page cache does.
            medium.state().failing_flush = Some(error);
            let flushed = match forced {
                true => volume.write_fua(50, 1, 2),
                false => volume.write(50, 1, 2).and_then(|_| volume.flush()),
            };
            assert!(flushed.is_err(), "{kind}, {error}");
            refuses_from_now_on(&mut volume, kind);
        }
    }
}

/// Counts what a mount reads.
struct Counting<'m>(MediumDisk<'m>, u64);

impl Disk for Counting<'_> {
    fn blocks(&self) -> u64 {
        self.0.blocks()
    }
    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.1 += u64::from(count);
        self.0.read(at, count)
    }
    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        self.0.write(at, data)
    }
    fn flush(&mut self) -> Result<(), IoError> {
        self.0.flush()
    }
    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        self.0.next_data(at)
    }
}

/// Blocks that a mount of an image reads, and its report.
fn mount_reads(medium: &Shared) -> (u64, MountReport) {
    let mut copy = Shared::new(medium.state().cells.clone());
    let mut disk = Counting(MediumDisk(&mut copy), 0);
    let options = MountOptions { volatile: true, read_only: true, ..MountOptions::default() };
    let (_, _, report) = seekless_layouts::mount(&mut disk, &options).unwrap();
    (disk.1, report)
}

#[test]
fn recovery_reads_as_much_as_is_promised() {
    const BLOCKS: u64 = 200_000;
    // Recovery verifies 128 MiB.
    const UNVERIFIED: u64 = 32 * 1024;
    let slices = BLOCKS.div_ceil(448);
    let medium = Shared::format(Kind::VLOG, BLOCKS);
    let mut volume = Volume::mount(&medium, true);
    for at in (0..BLOCKS / 2).step_by(100) {
        // The clock stands still, so nothing runs in pauses.
        volume.write(at, 100, 1).unwrap();
    }
    volume.flush().unwrap();
    // After a crash: one pass over the stored blocks, and another over the data of commits that no
    // record marks as durable.
    let (read, report) = mount_reads(&medium);
    assert_eq!(report.path, MountPath::Scan);
    let stored = BLOCKS / 2 + slices;
    let most = stored + stored / 20 + UNVERIFIED;
    assert!(read <= most, "{read} blocks read for {stored} stored");
    assert!(read >= stored);
    assert!(report.blocks_read.abs_diff(read) <= 2, "{report:?}, but {read} were read");
    // After a clean shutdown: the superblock, the tail record and the map.
    volume.stop();
    let (read, report) = mount_reads(&medium);
    assert_eq!(report.path, MountPath::Tail);
    assert!(read <= slices + 4, "{read} blocks read for {slices} slices");
    assert!(report.blocks_read.abs_diff(read) <= 2, "{report:?}, but {read} were read");
    // Update in place needs no recovery.
    let (read, report) = mount_reads(&Shared::format(Kind::INPLACE, BLOCKS));
    assert_eq!(report.path, MountPath::Stateless);
    assert!(read <= 2, "{read}");
    assert_eq!(Volume::mount(&medium, true).report.path, MountPath::Tail);
}

#[test]
fn recovery_of_dcd_reads_as_much_as_is_promised() {
    let medium = Shared::format(Kind::DCD, 20_000);
    let log = Kind::DCD.device_blocks(20_000) / 16;
    let mut volume = Volume::mount(&medium, true);
    for round in 0..1000 {
        volume.write(round * 37 % 19_000, 4, 1).unwrap();
        if round % 100 == 0 {
            volume.flush().unwrap();
        }
    }
    // The written part of the log once, and once more the records that no later record marks as
    // durable. After a clean shutdown these follow the record before the last flush.
    let (read, report) = mount_reads(&medium);
    assert_eq!(report.path, MountPath::Scan);
    assert!(read <= 2 * log + 8, "{read} blocks read of a log of {log}");
    assert!(report.blocks_read.abs_diff(read) <= 2, "{report:?}, but {read} were read");
    volume.stop();
    let (read, report) = mount_reads(&medium);
    assert_eq!(report.path, MountPath::Tail);
    assert!(read <= 2 * log + 8, "{read} blocks read of a log of {log}");
}

#[test]
fn recovery_of_loge_reads_as_much_as_is_promised() {
    const BLOCKS: u64 = 200_000;
    // Recovery verifies 128 MiB.
    const UNVERIFIED: u64 = 32 * 1024;
    let medium = Shared::format(Kind::LOGE, BLOCKS);
    let mut volume = Volume::mount(&medium, true);
    for at in (0..BLOCKS / 2).step_by(100) {
        volume.write(at, 100, 1).unwrap();
    }
    volume.run(Io::trim(0, 0, 1000)).unwrap();
    volume.flush().unwrap();
    // The labels of stored blocks (one block for 127), the written part of the trim map, the
    // records. After a crash also the blocks that no record marks as durable.
    let labels = BLOCKS / 2 / 127 + 2;
    let most = labels + 2 * 256 + 3;
    let (read, report) = mount_reads(&medium);
    assert_eq!(report.path, MountPath::Scan);
    assert!(read <= most + UNVERIFIED && read >= labels, "{read} blocks read, {labels} of labels");
    assert!(report.blocks_read.abs_diff(read) <= 2, "{report:?}, but {read} were read");
    volume.stop();
    let (read, report) = mount_reads(&medium);
    assert_eq!(report.path, MountPath::Tail);
    assert!(read <= most, "{read} blocks read, {labels} of labels");
    assert!(report.blocks_read.abs_diff(read) <= 2, "{report:?}, but {read} were read");
    assert_eq!(Volume::mount(&medium, true).report.path, MountPath::Tail);
    let (_, report) = mount_reads(&medium);
    assert_eq!(report.path, MountPath::Scan, "a mount for writing uses the record up");
}

/// The labels of every block of a trimmed range are still on the device, for older versions too. So
/// the tombstones must survive the loss of any later write.
#[test]
fn what_was_trimmed_stays_away_on_loge() {
    let medium = Shared::format(Kind::LOGE, 300);
    let mut volume = Volume::mount(&medium, true);
    for version in 1..=3 {
        volume.write(0, 100, version).unwrap();
        volume.flush().unwrap();
    }
    volume.run(Io::trim(0, 20, 50)).unwrap();
    volume.flush().unwrap();
    // Write part of it again, without durability: the earlier tombstone must stay.
    volume.write(30, 4, 4).unwrap();
    let mut mixed = Data::stamp(1, 29, 5);
    mixed.append(Data::zeros(2));
    mixed.append(Data::stamp(1, 32, 5));
    volume.run(Io::write(0, 29, mixed)).unwrap();
    volume.pause();
    let mut rng = Rng::stream(4, "cuts");
    for _ in 0..200 {
        let mut after = Volume::mount(&medium.cut(|| rng.chance(0.7)), true);
        for at in (20..29).chain(34..70) {
            assert_eq!(after.version(at, 5), Some(0), "block {at} has come back");
        }
        let found: Vec<_> = (29..34).map(|at| after.version(at, 5).unwrap()).collect();
        let allowed = [[0; 5], [0, 4, 4, 4, 4], [5, 0, 0, 5, 4], [5, 0, 0, 5, 0]];
        assert!(allowed.iter().any(|one| found == one), "{found:?}");
    }
}

#[test]
fn a_full_volume_is_overwritten_and_trimmed_on_loge() {
    full_and_in_use(Kind::LOGE);
}

#[test]
fn a_full_volume_is_overwritten_and_trimmed_on_each_log() {
    for kind in Kind::LOG_STRUCTURED {
        full_and_in_use(kind);
    }
}

fn full_and_in_use(kind: Kind) {
    let blocks = kind.largest_volume(2000);
    for volatile in [false, true] {
        let medium = Shared::new(Cells::new(2000));
        let options = FormatOptions::new(kind, blocks, 5);
        seekless_layouts::format(&mut MediumDisk(&mut medium.clone()), &options).unwrap();
        let mut volume = Volume::mount(&medium, volatile);
        let mut rng = Rng::stream(5, "full");
        let mut model = vec![1; blocks as usize];
        for at in 0..blocks {
            volume.write(at, 1, 1).unwrap();
        }
        for version in 2..3000 {
            let at = rng.below(blocks - 8);
            if rng.chance(0.02) {
                volume.run(Io::trim(0, at, 8)).unwrap();
                model[at as usize..at as usize + 8].fill(0);
            } else {
                let outcome = volume.write(at, 8, version);
                outcome.unwrap_or_else(|error| panic!("{kind}, version {version}: {error}"));
                model[at as usize..at as usize + 8].fill(version);
            }
        }
        volume.stop();
        let (_, _, found) = seekless_layouts::check(&mut MediumDisk(&mut medium.clone())).unwrap();
        assert_eq!(found.problems, Vec::<String>::new());
        let mut volume = Volume::mount(&medium, volatile);
        for (at, &version) in (0..).zip(&model) {
            let expected = if version == 0 { Data::zeros(1) } else { Data::stamp(1, at, version) };
            assert_eq!(volume.read(at), expected, "{kind}: block {at}");
        }
    }
}

/// Commits are followed from the last checkpoint on: a quarter of the device at most, of which only
/// the commits that no record marks as durable are read twice.
#[test]
fn recovery_of_lfs_reads_as_much_as_is_promised() {
    for kind in Kind::LOG_STRUCTURED {
        recovery_of_a_log_is_bounded(kind);
    }
}

fn recovery_of_a_log_is_bounded(kind: Kind) {
    const BLOCKS: u64 = 200_000;
    const UNVERIFIED: u64 = 32 * 1024;
    let medium = Shared::format(kind, BLOCKS);
    let mut volume = Volume::mount(&medium, true);
    for at in (0..BLOCKS / 2).step_by(100) {
        volume.write(at, 100, 1).unwrap();
    }
    volume.flush().unwrap();
    // The superblock, four copies of the record, the map; summaries, one for each mebibyte at
    // least; two segments behind the end of the log.
    let map = BLOCKS.div_ceil(512) + 2 + 5;
    let log = (BLOCKS / 2).div_ceil(100) * 4 + 4 * 256;
    let (read, report) = mount_reads(&medium);
    assert_eq!(report.path, MountPath::Scan);
    assert!(read <= map + log + UNVERIFIED, "{read} blocks read");
    assert!(report.blocks_read.abs_diff(read) <= 2, "{report:?}, but {read} were read");
    volume.stop();
    let (read, report) = mount_reads(&medium);
    assert_eq!(report.path, MountPath::Tail);
    assert!(read <= map + 4, "{read} blocks read, {map} of the map");
    assert_eq!(Volume::mount(&medium, true).report.path, MountPath::Tail);
    let (_, report) = mount_reads(&medium);
    assert_eq!(report.path, MountPath::Scan, "a mount for writing uses the record up");
}
