//! The power is cut at each write of a recovery, and of a repair, and again in the next one.

use super::bench::{Bench, content};
use crate::ffs::journal::recover::{Recovered, recover};
use crate::ffs::{check, repair};
use seekless_crash::device::cut::CutMedium;
use seekless_crash::fate::Fate;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::MediumDisk;

/// Runs something on a disk that dies after some writes. Hands over what each loss of a pending
/// write may leave. True if it came to its end.
pub(super) fn cut(
    cells: &Cells,
    writes: u64,
    run: &dyn Fn(&mut MediumDisk<'_>) -> bool,
    each: &mut dyn FnMut(Cells),
) -> bool {
    let mut medium = CutMedium::new(cells.clone());
    medium.die_after(writes);
    let ended = run(&mut MediumDisk(&mut medium));
    let pending = medium.pending();
    for lost in 0..=pending {
        each(medium.cut(|number| if number == lost { Fate::Lost } else { Fate::Kept }));
    }
    each(medium.cut(|_| Fate::Lost));
    ended
}

fn assert_recovers(bench: &Bench, mut cells: Cells, wanted: &[u8], what: &str) {
    let recovered = recover(&mut MediumDisk(&mut cells), &bench.superblock);
    let Recovered { open, orphans, .. } =
        recovered.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!((open, orphans), (vec![bench.intent], vec![bench.orphan]), "{what}");
    assert!(content(&cells, bench) == wanted, "{what}: other bytes");
}

#[test]
fn recovery_that_is_cut_off_twice_starts_over() {
    let bench = Bench::new(5);
    let crashed = bench.crashed(|number| number.is_multiple_of(5));
    let wanted = content(&bench.wanted, &bench);
    let run = |disk: &mut MediumDisk<'_>| recover(disk, &bench.superblock).is_ok();
    let (mut writes, mut states) = (0, 0);
    loop {
        let mut left = Vec::new();
        let ended = cut(&crashed, writes, &run, &mut |cells| left.push(cells));
        for cells in left {
            assert_recovers(&bench, cells.clone(), &wanted, &format!("{writes} writes"));
            // And again, somewhere in the second recovery.
            let second = (states * 7) % 12;
            cut(&cells, second, &run, &mut |cells| {
                let what = format!("{writes} writes, then {second}");
                assert_recovers(&bench, cells, &wanted, &what);
            });
            states += 1;
        }
        if ended {
            break;
        }
        writes += 1;
    }
    assert!(writes >= 10 && states > 50, "{writes} writes, {states} states");
}

#[test]
fn a_repair_that_is_cut_off_starts_over() {
    let bench = Bench::new(6);
    let crashed = bench.crashed(|_| false);
    let run = |disk: &mut MediumDisk<'_>| repair(disk).is_ok();
    let mut whole = crashed.clone();
    repair(&mut MediumDisk(&mut whole)).expect("there is nothing that cannot be repaired");
    let inodes = check(&mut MediumDisk(&mut whole)).expect("repaired").inodes;
    let mut writes = 0;
    while !cut(&crashed, writes, &run, &mut |mut cells| {
        let disk = &mut MediumDisk(&mut cells);
        repair(disk).unwrap_or_else(|error| panic!("{writes} writes: {error}"));
        let found = check(disk).expect("repaired");
        assert!(found.is_clean() && found.unmounted, "{writes} writes: {found}");
        assert!(found.journal.is_none(), "{writes} writes");
        assert_eq!(found.inodes, inodes, "{writes} writes: no file is lost");
    }) {
        writes += 1;
    }
    assert!(writes >= 10, "{writes}");
}
