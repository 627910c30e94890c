//! Recovery over hand-made logs: what a log says of the metadata of a file system is taken from
//! that file system as real calls have left it, and the disk lacks some of it.

mod abandoned;
mod bench;
mod cuts;
mod damage;
mod large;
mod mounts;
mod repairs;
mod switched;

use super::held;
use super::overlay::Overlay;
use super::recover::recover;
use bench::{Bench, content};
use proptest::prelude::*;
use seekless_engine::checksum::mix;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::units::BlockNr;

#[test]
fn recovery_makes_the_volume_what_the_log_says() {
    let bench = Bench::new(1);
    let mut cells = bench.crashed(|_| false);
    let disk = &mut MediumDisk(&mut cells);
    let superblock = bench.superblock.clone();
    let found = crate::ffs::check(disk).expect("it can be read");
    assert!(found.is_clean() && !found.unmounted, "{found}");
    let journal = found.journal.expect("there is a log");
    assert_eq!((journal.groups, journal.intents, journal.orphans), (bench.groups, 1, 1));
    let recovered = recover(disk, &superblock).expect("whole");
    assert_eq!(recovered.groups, bench.groups);
    assert!(recovered.sectors > 20, "{recovered:?}");
    assert_eq!(recovered.open, [bench.intent]);
    assert_eq!(recovered.orphans, [bench.orphan]);
    assert_eq!(recovered.at, bench.log().start);
    assert_eq!(content(&cells, &bench), content(&bench.wanted, &bench));
    // The next mount finds what is open again, and nothing to write.
    let again = recover(&mut MediumDisk(&mut cells), &superblock).expect("whole");
    assert_eq!((again.groups, again.sectors), (1, 0));
    assert_eq!((again.open, again.orphans), (recovered.open, recovered.orphans));
}

/// A check that is told nothing of what is open calls it leaked.
#[test]
fn what_a_log_leaves_open_is_a_leak_without_the_log() {
    let bench = Bench::new(1);
    let mut cells = bench.crashed(|_| false);
    recover(&mut MediumDisk(&mut cells), &bench.superblock).expect("whole");
    bench.set_superblock(&mut cells, |superblock| superblock.incompatible = 0);
    let found = crate::ffs::check(&mut MediumDisk(&mut cells)).expect("it can be read");
    let said = found.to_string();
    assert!(said.contains(&format!("inode {} is in use, has no name", bench.orphan)), "{said}");
    assert!(said.contains("1 free ones used"), "{said}");
}

/// Each byte that an overlay shows is the byte that recovery leaves there.
#[test]
fn an_overlay_is_the_recovered_volume() {
    let bench = Bench::new(2);
    let mut cells = bench.crashed(|number| number.is_multiple_of(3));
    let before = cells.clone();
    let disk = &mut MediumDisk(&mut cells);
    let held = held::read(disk, &bench.superblock, true).expect("whole");
    let mut overlay = Overlay::new(disk, &held.patches);
    let mut recovered = before.clone();
    recover(&mut MediumDisk(&mut recovered), &bench.superblock).expect("whole");
    let end = bench.log().start;
    let step = 37;
    for at in (0..end).step_by(step as usize) {
        let count = step.min(end - at) as u32;
        let shown = overlay.read(at, count).expect("memory").to_bytes();
        let there = MediumDisk(&mut recovered).read(at, count).expect("memory").to_bytes();
        assert!(shown == there, "blocks from {at} on");
        let single = overlay.read(at, 1).expect("memory").to_bytes();
        assert!(single == there[..4096], "block {at}");
        let next = overlay.next_data(at);
        assert_eq!(next, first_data(&mut recovered, at), "behind {at}");
    }
    assert!(overlay.write(0, seekless_engine::data::Data::zeros(1)).is_err());
    assert_eq!(before.unlike(&cells).count(), 0, "nothing was written");
}

fn first_data(cells: &mut seekless_engine::device::medium::Cells, at: BlockNr) -> Option<BlockNr> {
    MediumDisk(cells).next_data(at)
}

/// Foreign bytes, and the log of an older file system on the same volume, have no part in it.
#[test]
fn what_the_ring_held_before_means_nothing() {
    for older in [false, true] {
        let bench = Bench::over(3, older);
        let mut cells = bench.crashed(|_| false);
        let recovered = recover(&mut MediumDisk(&mut cells), &bench.superblock).expect("whole");
        assert_eq!(recovered.groups, bench.groups, "older {older}");
        assert_eq!(content(&cells, &bench), content(&bench.wanted, &bench));
    }
}

/// A volume that was unmounted is not changed, whatever its log says.
#[test]
fn groups_of_a_log_that_is_not_in_use_are_in_place() {
    let bench = Bench::new(4);
    let mut cells = bench.crashed(|_| false);
    let before = content(&cells, &bench);
    bench.set_superblock(&mut cells, |superblock| superblock.incompatible = 0);
    let superblock = bench.with(|superblock| superblock.incompatible = 0);
    let recovered = recover(&mut MediumDisk(&mut cells), &superblock).expect("whole");
    assert_eq!((recovered.groups, recovered.sectors, recovered.open.len()), (0, 0, 0));
    assert_eq!(content(&cells, &bench), before);
    // Its groups are of an earlier epoch now.
    let mut again = recover(&mut MediumDisk(&mut cells), &bench.superblock).expect("whole");
    assert_eq!(again.groups, 0);
    assert!(again.ring.used_sectors() == 0 && again.ring.append(bench::group(&[])).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Whatever is in place already, and however the changes are split into groups.
    #[test]
    fn recovery_does_not_depend_on_what_is_in_place(seed in 1_u64..1000, home in any::<u64>()) {
        let bench = Bench::new(seed);
        let is_home = |number: u64| mix(home ^ number).is_multiple_of(4);
        let mut cells = bench.crashed(is_home);
        let recovered = recover(&mut MediumDisk(&mut cells), &bench.superblock);
        let recovered = recovered.expect("whole");
        prop_assert_eq!(recovered.groups, bench.groups);
        prop_assert_eq!(content(&cells, &bench), content(&bench.wanted, &bench));
        let again = recover(&mut MediumDisk(&mut cells), &bench.superblock).expect("whole");
        prop_assert_eq!(again.sectors, 0, "all is in place");
    }
}
