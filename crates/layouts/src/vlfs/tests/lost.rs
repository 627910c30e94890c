//! Blocks that cannot be read, or places that cannot be written: what fails, and what goes on.

use super::*;
use crate::eager::Mapped as _;
use seekless_crash::device::faulty::{Control, Faults};
use seekless_crash::faults::{Blocks, Plan};

/// A mount of what `used` has left, on a device that fails as it is told.
fn faulty(volatile: bool, cells: Cells, model: Model) -> (Drive, Control) {
    let medium = CutMedium::new(cells);
    let options = MountOptions { volatile, ..MountOptions::default() };
    let (volume, path) = mounted(&medium, &options);
    let boxed = Box::new(medium.clone());
    let device = if volatile { Ram::volatile(boxed) } else { Ram::new(boxed) };
    let (device, control) = Faults::new(Box::new(device), Plan::default(), 1);
    let node = Node::new(Box::new(volume), vec![Box::new(device)], 1);
    (Drive { medium, node, now: 0, model, path, chosen: choices(false) }, control)
}

/// Where the first inode block of slice 0 lies.
fn first_inodes(cells: &Cells) -> BlockNr {
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let (volume, _) = mounted(&CutMedium::new(cells.clone()), &options);
    let entry = volume.objects.slice(0).expect("it has objects").content.groups[0];
    assert!(entry.is_mapped(), "it was spilled");
    BlockNr::from(entry.place())
}

#[test]
fn unreadable_inodes_fail_their_objects_only() {
    for volatile in [false, true] {
        let (cells, mut model) = used();
        let inodes = first_inodes(&cells);
        let is_lost = |at: BlockNr| address::split(at).0 < 16;
        model.retain(|&at, _| !is_lost(at));
        let (mut drive, control) = faulty(volatile, cells, model);
        control.set(Plan { unreadable: vec![Blocks::one(inodes)], ..Plan::default() });
        // Patches have room for some changes of what is lost. Then only they fail.
        let mut failed = 0;
        for round in 0..400 {
            let lost = address(1, 3 * round % 500);
            match drive.run(Io::write(0, lost, Data::stamp(1, lost, 7))) {
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error, IoError::Media { block: inodes });
                    failed += 1;
                }
            }
            drive.write(address(17, round), 1, 9).expect("another object of the slice");
            drive.write(address(200, round), 1, 9).expect("another slice");
            if round % 50 == 0 {
                drive.flush();
            }
        }
        assert!(failed > 100, "{failed} writes");
        assert!(drive.stat("spills") >= 2.0);
        assert_eq!(drive.run(Io::read(0, address(0, 5), 1)), Err(IoError::Media { block: inodes }));
        drive.verify(&[]);
        // What is given up is free again, but for that of lost objects.
        let before = drive.stat("free_blocks");
        for object in [1, 17, 200] {
            drive.trim(address(object, 0), 400);
        }
        drive.node.idle(&mut drive.now, 100 * SECONDS);
        for object in [17, 200] {
            drive.write(address(object, 1), 1, 10).expect("room");
            drive.flush();
        }
        drive.node.idle(&mut drive.now, 100 * SECONDS);
        let freed = drive.stat("free_blocks") - before;
        assert!(freed > 700.0, "{freed} blocks");
        drive.verify(&[]);
        drive.node.finish(&mut drive.now);
        assert_eq!(drive.node.layer.failed(), None);
        let mut again = drive.again_as_it_is(volatile);
        again.verify(&[]);
    }
}

/// One write in turn is refused, of data or of a map block, and its place from then on.
#[test]
fn what_a_medium_refuses_goes_elsewhere() {
    let mut refused = 0.0;
    for turn in 1..40 {
        let (cells, model) = used();
        let (mut drive, control) = faulty(true, cells, model);
        let plan = Plan { failing_write: Some(turn), failing_sticks: true, ..Plan::default() };
        control.set(plan);
        for version in 0..12 {
            for object in [1, 17, 200] {
                drive.write(address(object, version), 1, 500 + turn).expect("another place");
            }
            drive.flush();
        }
        refused += drive.stat("refused_blocks");
        drive.verify(&[]);
        let mut copy =
            Drive::mount(CutMedium::new(drive.medium.contents()), true, drive.model.clone());
        copy.verify(&[]);
        copy.is_whole();
        drive.node.finish(&mut drive.now);
        assert_eq!(drive.node.layer.failed(), None);
        let mut again = drive.again_as_it_is(true);
        assert_eq!(again.path, MountPath::Tail);
        again.verify(&[]);
    }
    assert!(refused > 30.0, "{refused} places");
}
