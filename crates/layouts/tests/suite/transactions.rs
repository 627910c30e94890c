//! Transactions of several requests (`CONTRACT.md`, L1), and volumes of Loge with more addresses
//! than room (L2).
#![allow(clippy::unwrap_used, clippy::disallowed_types, missing_docs)]

use crate::support::Shared;
use seekless_engine::data::{Body, Data};
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::{Io, IoError, Outcome};
use seekless_engine::layout::{FormatOptions, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::transaction::{Transaction, TransactionError};
use seekless_engine::units::{MILLIS, SECONDS};
use seekless_layouts::Kind;
use seekless_layouts::loge::options::SPARSE;
use seekless_layouts::loge::sparse_device_blocks;

struct Volume {
    node: Node,
    now: u64,
}

impl Volume {
    fn mount(medium: &Shared, volatile: bool) -> Volume {
        let options = MountOptions { volatile, ..MountOptions::default() };
        let mounted =
            seekless_layouts::mount(&mut MediumDisk(&mut medium.clone()), &options).unwrap();
        let medium = Box::new(medium.clone());
        let ram = if volatile { Ram::volatile(medium) } else { Ram::new(medium) };
        Volume { node: Node::new(mounted.0, vec![Box::new(ram)], 1), now: 0 }
    }

    fn run(&mut self, io: Io) -> Outcome {
        self.node.run(&mut self.now, io)
    }

    fn write(&mut self, at: u64, count: u32, version: u64) -> Outcome {
        self.run(Io::write(0, at, Data::stamp(count, at, version)))
    }

    fn commit(&mut self, all: Transaction) -> Outcome {
        self.node.run_transaction(&mut self.now, all).unwrap()
    }

    /// The version of a block, 0 for zeros.
    fn version(&mut self, at: u64, most: u64) -> u64 {
        let found = self.run(Io::read(0, at, 1)).unwrap();
        let is = |version: &u64| match version {
            0 => found == Data::zeros(1),
            _ => found == Data::stamp(1, at, *version),
        };
        (0..=most).find(is).expect("a version that was written")
    }

    fn stat(&self, name: &str) -> u64 {
        self.node.stats().iter().find(|stat| stat.0 == name).unwrap().1 as u64
    }

    fn finish(mut self) {
        self.node.finish(&mut self.now);
    }
}

fn format(options: &FormatOptions, device: u64) -> Shared {
    let medium = Shared::new(Cells::new(device));
    seekless_layouts::format(&mut MediumDisk(&mut medium.clone()), options).unwrap();
    medium
}

/// The layouts that have transactions.
const WITH: [Kind; 6] = [Kind::LOGE, Kind::VLOG, Kind::LFS, Kind::WOLF, Kind::HYLOG, Kind::LLD];

fn volume_of(kind: Kind, blocks: u64) -> Shared {
    format(&FormatOptions::new(kind, blocks, 5), kind.device_blocks(blocks))
}

fn loge(blocks: u64) -> Shared {
    volume_of(Kind::LOGE, blocks)
}

/// Every third of 40 blocks, one of which is trimmed.
fn scattered(version: u64) -> Transaction {
    let mut all = Transaction::new();
    for at in (100..220).step_by(3) {
        all.write(at, &Data::stamp(1, at, version));
    }
    all.trim(100, 1);
    all
}

fn holds(volume: &mut Volume, version: u64) -> bool {
    let written = (103..220).step_by(3).all(|at| volume.version(at, 3) == version);
    written && volume.version(100, 3) == if version == 1 { 1 } else { 0 }
}

#[test]
fn a_transaction_of_scattered_blocks_is_old_or_new() {
    WITH.into_iter().for_each(scattered_blocks_are_old_or_new);
}

fn scattered_blocks_are_old_or_new(kind: Kind) {
    let medium = volume_of(kind, 1000);
    let mut volume = Volume::mount(&medium, true);
    volume.write(0, 250, 1).unwrap();
    volume.run(Io::flush(0)).unwrap();
    let before = medium.with(|cells| cells.clone());
    volume.node.submit_transaction(volume.now, 7, scattered(2), false).unwrap();
    // Long enough to write its labels, without a flush.
    volume.node.idle(&mut volume.now, SECONDS);
    let after = medium.with(|cells| cells.clone());
    let mut rng = Rng::stream(1, "cuts");
    let mut seen = [0; 2];
    for round in 0..120 {
        let chance = [1.0, 0.97, 0.5][round % 3];
        let mut cut = before.clone();
        for at in 0..cut.blocks() {
            if rng.chance(chance) {
                cut.set(at, after.get(at));
            }
        }
        let mut found = Volume::mount(&Shared::new(cut), true);
        let new = holds(&mut found, 2);
        assert!(new || holds(&mut found, 1), "{kind}, round {round}: neither old nor new");
        seen[usize::from(new)] += 1;
    }
    assert!(seen[0] > 10 && seen[1] > 10, "{kind}: {seen:?}");
}

/// A crash leaves the descriptor of a transaction whose labels were never written. The next epoch
/// writes another one at the same place, and all of it except its descriptor and a block reaches
/// the device.
#[test]
fn a_descriptor_of_an_earlier_life_speaks_for_no_younger_transaction() {
    let medium = loge(1000);
    let mut volume = Volume::mount(&medium, true);
    let two = |at: u64| {
        let mut all = Transaction::new();
        [at, at + 3].into_iter().for_each(|at| all.write(at, &Data::stamp(1, at, 1)));
        all
    };
    let bytes = |cells: &Cells, at| match cells.get(at) {
        Body::Bytes(bytes) => Some(bytes),
        _ => None,
    };
    let descriptor = |cells: &Cells| {
        let is = |&at: &u64| bytes(cells, at).is_some_and(|bytes| bytes.starts_with(b"SKLSTRAN"));
        (0..cells.blocks()).find(is).expect("a descriptor has been written")
    };
    let before = medium.with(|cells| cells.clone());
    volume.node.submit_transaction(volume.now, 7, two(103), false).unwrap();
    volume.node.idle(&mut volume.now, SECONDS);
    let old = medium.with(|cells| (descriptor(cells), cells.get(descriptor(cells))));
    let mut between = before;
    between.set(old.0, old.1.clone());
    let medium = Shared::new(between);
    let mut volume = Volume::mount(&medium, true);
    volume.node.submit_transaction(volume.now, 7, two(200), false).unwrap();
    volume.node.idle(&mut volume.now, MILLIS);
    for at in [103, 106] {
        volume.write(at, 1, 2).unwrap();
    }
    volume.node.idle(&mut volume.now, SECONDS);
    let mut cut = medium.with(|cells| cells.clone());
    assert_eq!(descriptor(&cut), old.0, "it lies where the other one did");
    let data = (0..cut.blocks()).find(|&at| cut.get(at) == Data::stamp(1, 200, 1).pieces()[0].body);
    cut.set(data.expect("it has been written"), Body::Zeros);
    cut.set(old.0, old.1);
    let mut found = Volume::mount(&Shared::new(cut), true);
    let versions = [103, 106, 200, 203].map(|at| found.version(at, 2));
    assert_eq!(versions, [2, 2, 0, 0], "a transaction that is not there as a whole is not there");
}

#[test]
fn durable_transactions_outlive_a_crash() {
    for (kind, volatile) in WITH.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let medium = volume_of(kind, 300);
        let mut volume = Volume::mount(&medium, volatile);
        let most = volume.node.transaction_blocks();
        let mut rng = Rng::stream(3, "transactions");
        let mut model = vec![0; 300];
        for version in 1..400_u64 {
            let mut all = Transaction::new();
            for _ in 0..1 + rng.below(most.min(12)) {
                let at = rng.below(300);
                if rng.chance(0.2) {
                    all.trim(at, 1);
                    model[at as usize] = 0;
                } else {
                    all.write(at, &Data::stamp(1, at, version));
                    model[at as usize] = version;
                }
            }
            volume.commit(all).unwrap();
            if version % 50 == 0 {
                // Durable data survives the crash; the volume is not informed of it.
                let crashed = Shared::new(medium.with(|cells| cells.clone()));
                let mut found = Volume::mount(&crashed, volatile);
                for (at, &right) in (0..).zip(&model) {
                    assert_eq!(found.version(at, version), right, "{kind}, block {at}, {version}");
                }
            }
        }
        if kind == Kind::LOGE {
            assert!(volume.stat("descriptors") < 100, "{}", volume.stat("descriptors"));
        }
        volume.finish();
        let report = seekless_layouts::check(&mut MediumDisk(&mut medium.clone())).unwrap().2;
        assert_eq!(report.problems, Vec::<String>::new());
    }
}

#[test]
fn transactions_that_cannot_be_are_refused() {
    let mut volume = Volume::mount(&loge(1000), false);
    let most = volume.node.transaction_blocks();
    let mut all = Transaction::new();
    let refused = |volume: &mut Volume, all: &Transaction| {
        volume.node.run_transaction(&mut volume.now, all.clone()).unwrap_err()
    };
    assert_eq!(refused(&mut volume, &all), TransactionError::Empty);
    all.trim(999, 2);
    let out = TransactionError::OutOfRange { end: 1001, blocks: 1000 };
    assert_eq!(refused(&mut volume, &all), out);
    let mut all = Transaction::new();
    all.write(0, &Data::stamp(most as u32 + 1, 0, 1));
    assert_eq!(refused(&mut volume, &all), TransactionError::TooLarge { blocks: most + 1, most });
    let mut plain = Volume::mount(&volume_of(Kind::INPLACE, 500), false);
    assert_eq!(refused(&mut plain, &all), TransactionError::Unsupported);
}

/// As large as the volume allows, again and again, on a volume without a free block more than it
/// needs.
#[test]
fn the_largest_transactions_find_room_on_a_full_volume() {
    for (kind, volatile) in WITH.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let device = 6000;
        let blocks = kind.largest_volume(device);
        let medium = format(&FormatOptions::new(kind, blocks, 5), device);
        let mut volume = Volume::mount(&medium, volatile);
        for at in (0..blocks).step_by(50) {
            volume.write(at, 50.min(blocks - at) as u32, 1).unwrap();
        }
        let most = volume.node.transaction_blocks();
        assert!(most >= 2, "{kind}");
        for version in 2..40 {
            let mut all = Transaction::new();
            for at in 0..most {
                let at = (at * 7 + version) % blocks;
                all.write(at, &Data::stamp(1, at, version));
            }
            assert_eq!(volume.commit(all), Ok(Data::none()), "{kind}, {version} of {most} blocks");
        }
        volume.finish();
        let report = seekless_layouts::check(&mut MediumDisk(&mut medium.clone())).unwrap().2;
        assert_eq!(report.problems, Vec::<String>::new(), "{kind}");
    }
}

/// The flag NO_HOLE of NBD.
#[test]
fn zeros_that_keep_their_room_are_stored_on_a_sparse_volume() {
    for volatile in [false, true] {
        let mut options = FormatOptions::new(Kind::LOGE, 400, 5);
        options.options.set(&SPARSE, Some(40_000));
        let medium = format(&options, sparse_device_blocks(400, 40_000));
        let mut volume = Volume::mount(&medium, volatile);
        let capacity = volume.stat("capacity_blocks");
        volume.run(Io::write(0, 0, Data::zeros(40)).with_room()).unwrap();
        assert_eq!(volume.stat("stored_blocks"), 40);
        for block in 40..capacity {
            volume.write(block * 90, 1, 1).unwrap();
        }
        assert_eq!(volume.write(39_999, 1, 1), Err(IoError::NoSpace));
        let more = Io::write(0, 39_000, Data::zeros(2)).with_room();
        assert_eq!(volume.run(more), Err(IoError::NoSpace));
        volume.finish();
        let report = seekless_layouts::check(&mut MediumDisk(&mut medium.clone())).unwrap().2;
        assert_eq!(report.problems, Vec::<String>::new());
        let mut volume = Volume::mount(&medium, volatile);
        assert_eq!(volume.stat("stored_blocks"), capacity);
        let zeros = volume.run(Io::read(0, 0, 40)).unwrap();
        assert!(zeros.to_bytes().iter().all(|&byte| byte == 0));
        // There is space.
        for block in 0..40 {
            volume.write(block, 1, 2).unwrap();
        }
        volume.run(Io::trim(0, 0, 10)).unwrap();
        volume.write(39_990, 10, 1).unwrap();
        volume.finish();
    }
}

#[test]
fn a_sparse_volume_says_when_it_is_full_and_goes_on() {
    for volatile in [false, true] {
        let mut options = FormatOptions::new(Kind::LOGE, 400, 5);
        options.options.set(&SPARSE, Some(40_000));
        let medium = format(&options, sparse_device_blocks(400, 40_000));
        let mut volume = Volume::mount(&medium, volatile);
        assert_eq!(volume.node.layer.blocks(), 40_000);
        let capacity = volume.stat("capacity_blocks");
        assert!((400..410).contains(&capacity), "{capacity}");
        for block in 0..capacity {
            volume.write(block * 97, 1, 1).unwrap();
        }
        assert_eq!(volume.write(39_999, 1, 1), Err(IoError::NoSpace));
        assert_eq!(volume.run(Io::write(0, 39_998, Data::zeros(1))), Ok(Data::none()));
        let mut all = Transaction::new();
        all.write(39_999, &Data::stamp(1, 39_999, 1));
        assert_eq!(volume.commit(all), Err(IoError::NoSpace));
        assert_eq!(volume.node.layer.failed(), None, "it is full, not broken");
        for block in 0..capacity {
            volume.write(block * 97, 1, 2).unwrap();
        }
        volume.run(Io::trim(0, 0, 97 * 10)).unwrap();
        assert_eq!(volume.stat("stored_blocks"), capacity - 10);
        for block in 0..10 {
            volume.write(30_000 + block * 1000 + 1, 1, 3).unwrap();
        }
        assert_eq!(volume.write(7, 1, 3), Err(IoError::NoSpace));
        volume.finish();
        let mut volume = Volume::mount(&medium, volatile);
        assert_eq!(volume.stat("stored_blocks"), capacity);
        assert_eq!((volume.version(97 * 10, 3), volume.version(97 * 9, 3)), (2, 0));
        assert_eq!(volume.version(39_001, 3), 3);
        volume.finish();
        let report = seekless_layouts::check(&mut MediumDisk(&mut medium.clone())).unwrap().2;
        assert_eq!(report.problems, Vec::<String>::new());
    }
}
