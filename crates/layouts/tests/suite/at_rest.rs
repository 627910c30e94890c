//! A volume on a device with a volatile cache that no client has used for a while: what it had made
//! durable survives the death of its server and one damage after that.
#![allow(clippy::unwrap_used, missing_docs)]

use crate::worked::Worked;
use seekless_engine::data::{Body, Data};
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::Io;
use seekless_engine::layout::MountOptions;
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::units::{BLOCK_BYTES, SECONDS, SECTOR_BYTES};
use seekless_layouts::Kind;

const VOLUME: u64 = 700;
const CHECKED: [Kind; 6] = [Kind::VLOG, Kind::LOGE, Kind::LFS, Kind::WOLF, Kind::HYLOG, Kind::LLD];

/// A volume that was flushed, rested for so many seconds, and lost its server; and what it holds.
fn worked(kind: Kind, seed: u64, rest: u64) -> (Cells, Vec<Data>) {
    let mut worked = Worked::new(kind, VOLUME, kind.device_blocks(VOLUME));
    worked.work(&mut Rng::stream(seed, "at rest"), 300);
    worked.rest(rest * SECONDS);
    (worked.cells(), worked.content)
}

/// How many blocks read as something that they do not hold, and how many are lost.
fn read_back(cells: &Cells, content: &[Data]) -> (u64, u64) {
    let mut cells = cells.clone();
    let options = MountOptions { read_only: true, volatile: true, ..MountOptions::default() };
    let mounted = seekless_layouts::mount(&mut MediumDisk(&mut cells), &options);
    let (mut wrong, mut lost) = (0, 0);
    let mut count = |found: Option<Data>, right: &Data| match found {
        None => lost += 1,
        Some(found) => wrong += u64::from(found.to_bytes() != right.to_bytes()),
    };
    if let Ok((layer, ..)) = mounted {
        let mut node = Node::new(layer, vec![Box::new(Ram::volatile(Box::new(cells)))], 1);
        for (at, right) in (0..).zip(content) {
            count(node.run(&mut 0, Io::read(0, at, 1)).ok(), right);
        }
    } else {
        let disk = &mut MediumDisk(&mut cells);
        let Ok(salvage) = seekless_layouts::open_salvage(disk) else { return (0, VOLUME) };
        for (at, right) in (0..).zip(content) {
            count(salvage.read(disk, at, false).ok(), right);
        }
    }
    (wrong, lost)
}

/// Damages a block in some way; false if it cannot be read any longer.
fn strike(cells: &mut Cells, at: u64, rng: &mut Rng) -> bool {
    if rng.below(8) == 0 {
        cells.lose(at);
        return false;
    }
    let mut bytes = cells.read(at, 1).unwrap().to_bytes().to_vec();
    if rng.below(6) == 0 {
        let sector = rng.below((BLOCK_BYTES / SECTOR_BYTES) as u64) as usize * SECTOR_BYTES;
        bytes[sector..sector + SECTOR_BYTES].fill(0);
    } else {
        bytes[rng.below(BLOCK_BYTES as u64) as usize] ^= 1 << rng.below(8);
    }
    cells.set(at, Body::Bytes(bytes.into()));
    true
}

/// Strikes blocks that are in use, one at a time, some times each. Returns how many strikes had
/// something read wrong, and the most blocks that one has lost.
fn strike_each(kind: Kind, seed: u64, rest: u64) -> (u64, u64) {
    let (cells, content) = worked(kind, seed, rest);
    assert_eq!(read_back(&cells, &content), (0, 0), "{kind}: undamaged");
    let mut rng = Rng::stream(seed, "strikes");
    let (mut all_wrong, mut most_lost) = (0, 0);
    for at in (0..cells.blocks()).filter(|&at| cells.get(at) != Body::Zeros) {
        let mut struck = cells.clone();
        let is_readable = strike(&mut struck, at, &mut rng);
        let (wrong, lost) = read_back(&struck, &content);
        all_wrong += u64::from(wrong > 0);
        // What cannot be read may have been the youngest metadata: all may have changed with it.
        if is_readable {
            most_lost = most_lost.max(lost);
        }
    }
    (all_wrong, most_lost)
}

/// Seeds of the sweep: more in a nightly run.
#[expect(clippy::disallowed_methods, reason = "a test may be told how long to run")]
fn seeds() -> u64 {
    if std::env::var("SEEKLESS_FULL").is_ok_and(|value| value == "1") { 40 } else { 3 }
}

#[test]
fn one_damage_loses_little_and_is_never_read_as_data() {
    for kind in CHECKED {
        for seed in 0..seeds() {
            let (wrong, lost) = strike_each(kind, seed, 3);
            assert_eq!(wrong, 0, "{kind}, seed {seed}");
            assert!(lost < VOLUME * 2 / 3, "{kind}, seed {seed}: {lost} of {VOLUME} blocks");
        }
    }
}

/// Right after a flush there is no witness: what a damage looks like then is a crash. The check
/// above must be able to fail.
#[test]
fn without_a_rest_a_damage_passes_for_a_crash() {
    for kind in CHECKED {
        let wrong: u64 = (0..3).map(|seed| strike_each(kind, seed, 0).0).sum();
        assert!(wrong > 0, "{kind}");
    }
}

/// A label block of `loge` is rebuilt, whatever happens to it.
#[test]
fn no_label_block_of_loge_loses_anything() {
    let (cells, content) = worked(Kind::LOGE, 5, 3);
    let mut rng = Rng::stream(5, "labels");
    let areas = VOLUME.div_ceil(200) + 3;
    for group in 0..cells.blocks() / 128 {
        let at = (group * 128).max(areas);
        for _ in 0..20 {
            let mut struck = cells.clone();
            strike(&mut struck, at, &mut rng);
            assert_eq!(read_back(&struck, &content), (0, 0), "label block {at}");
        }
        let mut struck = cells.clone();
        struck.set(at, Body::Zeros);
        assert_eq!(read_back(&struck, &content), (0, 0), "label block {at} as a hole");
    }
}

/// Nor does a block of the trim map, as long as it names few blocks that are stored.
#[test]
fn tombstones_of_loge_are_found_again() {
    let (cells, content) = worked(Kind::LOGE, 6, 3);
    let mut rng = Rng::stream(6, "tombstones");
    let mut lost_some = 0;
    for at in 3..3 + VOLUME.div_ceil(200) {
        for _ in 0..40 {
            let mut struck = cells.clone();
            strike(&mut struck, at, &mut rng);
            let (wrong, lost) = read_back(&struck, &content);
            assert_eq!(wrong, 0);
            lost_some += u64::from(lost > 0);
        }
    }
    // A block that cannot be read has eight sectors, and may leave too many in doubt.
    assert!(lost_some < 40, "{lost_some} of 160");
}

/// What is written after a rest is not taken back by what the record of the rest knows: where its
/// label is damaged the volume is refused, and a salvage names what is in doubt.
#[test]
fn what_came_after_a_rest_is_not_taken_back() {
    const LABEL: usize = 32;
    let mut worked = Worked::new(Kind::LOGE, VOLUME, Kind::LOGE.device_blocks(VOLUME));
    worked.work(&mut Rng::stream(7, "at rest"), 300);
    worked.rest(3 * SECONDS);
    let before = worked.cells();
    worked.write(5, 1000);
    worked.flush();
    let after = worked.cells();
    let labels = |cells: &Cells, at| cells.clone().read(at, 1).unwrap().to_bytes().to_vec();
    let mut struck = 0;
    for at in (1..VOLUME / 128 + 8).map(|group| group * 128).filter(|&at| at < after.blocks()) {
        let (old, new) = (labels(&before, at), labels(&after, at));
        let mut both = old.chunks(LABEL).zip(new.chunks(LABEL));
        let Some(index) = both.position(|(old, new)| old != new) else { continue };
        struck += 1;
        // More than one byte: its checksum does not say what it was.
        for bytes in [&[0, 1][..], &[4, 5, 6], &[0, 5, 24, 26], &[28, 29, 30, 31]] {
            let mut bad = new.clone();
            bytes.iter().for_each(|byte| bad[index * LABEL + byte] ^= 0x5a);
            let mut cells = after.clone();
            cells.set(at, Body::Bytes(bad.into()));
            let (wrong, lost) = read_back(&cells, &worked.content);
            assert_eq!(wrong, 0, "bytes {bytes:?}");
            assert!(lost > 0, "bytes {bytes:?}: how does it know?");
        }
        let mut cells = after.clone();
        cells.lose(at);
        let (wrong, lost) = read_back(&cells, &worked.content);
        assert!(wrong == 0 && lost > 0, "{wrong} wrong, {lost} lost: it cannot be read");
    }
    assert_eq!(struck, 1, "one label is new");
}
