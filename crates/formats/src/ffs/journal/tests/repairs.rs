//! A log that is damaged goes with the repair: until that has come to its end, no mount takes the
//! file system for whole.

use super::bench::Bench;
use super::cuts::cut;
use super::damage::{flip, used};
use crate::MountOptions;
use crate::error::FsError;
use crate::ffs::{self, check, repair};
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_fs::block::Blocking;
use seekless_fs::block::plain::Plain;
use seekless_fs::policy::PolicyKind;

/// Mounts with the log, if the mount is not refused.
fn mount(cells: &Cells) -> Result<(), FsError> {
    let options =
        MountOptions { policy: PolicyKind::Wafs1Async, now: 1, ..MountOptions::default() };
    let node = Plain::node(Box::new(Ram::new(Box::new(cells.clone()))));
    Blocking::mount(node, |disk| ffs::mount(disk, &options)).map(|_| ())
}

#[test]
fn a_repair_of_a_damaged_log_that_is_cut_off_is_not_mounted() {
    let bench = Bench::new(13);
    let mut crashed = bench.crashed(|number| number.is_multiple_of(3));
    let used = used(&bench, &crashed);
    flip(&mut crashed, &bench, (used.start + used.end) / 2, 20);
    assert!(matches!(mount(&crashed), Err(FsError::LogDamaged(_))));
    let run = |disk: &mut MediumDisk<'_>| repair(disk).is_ok();
    let (mut writes, mut taken, mut refused) = (0, 0, 0);
    let mut each = |mut cells: Cells, writes: u64| {
        let found = check(&mut MediumDisk(&mut cells)).expect("it can be read");
        let mounted = mount(&cells);
        let says = found.unmounted || found.recovers;
        assert_eq!(says, mounted.is_ok(), "{writes} writes, a check and a mount differ: {found}");
        if mounted.is_ok() {
            assert!(found.is_clean(), "{writes} writes, and it is mounted: {found}");
            taken += 1;
        } else {
            refused += 1;
            repair(&mut MediumDisk(&mut cells)).expect("a repair starts over");
        }
    };
    while !cut(&crashed, writes, &run, &mut |cells| each(cells, writes)) {
        writes += 1;
    }
    assert!(taken > 0 && refused > 20, "{taken} taken, {refused} refused");
}
