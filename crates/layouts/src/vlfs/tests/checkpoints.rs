//! Checkpoints: torn ones, those of others, and what a mount knows by them.

use super::*;
use crate::eager::Mapped as _;

fn areas() -> Areas {
    Areas::new(slices(Vlfs::largest_volume(DEVICE)), DEVICE)
}

fn found(cells: &Cells) -> checkpoint::Found {
    let mut medium = CutMedium::new(cells.clone());
    let superblock = superblock(&mut medium);
    checkpoint::find(&mut MediumDisk(&mut medium), &superblock).expect("memory")
}

/// Mounts a copy.
fn try_mount(cells: &Cells, checkpoints: bool) -> Result<Vlfs, LayoutError> {
    let mut medium = CutMedium::new(cells.clone());
    let superblock = superblock(&mut medium);
    let mut steps = RecoverySteps::new(None);
    let options = options(true, checkpoints);
    recover::mount(&mut MediumDisk(&mut medium), &superblock, &options, &mut steps)
}

fn mount(cells: &Cells, checkpoints: bool) -> Vlfs {
    let volume = try_mount(cells, checkpoints);
    volume.unwrap_or_else(|error| panic!("it mounts: {error}"))
}

/// A drive that was used, with two checkpoints: of two clean shutdowns.
fn twice_shut_down(volatile: bool) -> Drive {
    let mut drive = Drive::with(volatile, true);
    for round in 0..2 {
        for object in [0, 1, 17, 130] {
            for within in 0..100 {
                drive.write(address(object, within * 5), 1, 10 + round).expect("room");
            }
        }
        drive.trim(address(17, 0), 60);
        drive.node.idle(&mut drive.now, 5 * SECONDS);
        drive = drive.again(volatile, true);
    }
    drive
}

/// A device at the end of some commits after the last clean shutdown, and what it holds.
fn crashed() -> (Cells, Model) {
    let mut drive = twice_shut_down(true);
    drive.trim(address(130, 0), 300);
    drive.node.idle(&mut drive.now, 2 * SECONDS);
    assert!(drive.stat("spills") > 0.0, "what was trimmed is free");
    for within in 0..30 {
        drive.write(address(1, within * 5), 1, 99).expect("room");
        drive.flush();
    }
    (drive.medium.contents(), drive.model)
}

/// What is written after a mount harms nothing.
fn stays_whole(cells: Cells, model: Model) {
    let mut drive = Drive::mount_with(CutMedium::new(cells), (true, true), model);
    drive.verify(&[]);
    for within in 0..200 {
        drive.write(address(5, within), 1, 200).expect("room");
    }
    drive.flush();
    drive.verify(&[]);
    drive.is_whole();
    drive.node.idle(&mut drive.now, 20 * SECONDS);
    drive.flush();
    drive.verify(&[]);
    drive.is_whole();
}

#[test]
fn a_clean_shutdown_leaves_a_checkpoint_that_knows_all() {
    for volatile in [false, true] {
        let mut drive = twice_shut_down(volatile);
        drive.write(address(3, 3), 3, 3).expect("room");
        drive.node.finish(&mut drive.now);
        let cells = drive.medium.contents();
        let newest = found(&cells).newest.expect("there is one").1;
        assert!(newest.head.is_exact);
        let by_checkpoint = mount(&cells, true);
        let by_walk = mount(&cells, false);
        assert!(!by_checkpoint.reclaim.is_wanted());
        assert_eq!(by_checkpoint.free.free(), by_walk.free.free());
    }
}

#[test]
fn a_mount_by_checkpoint_reads_no_inodes() {
    let (cells, model) = crashed();
    let (by_checkpoint, by_walk) = (mount(&cells, true), mount(&cells, false));
    let entry = by_walk.objects.slice(0).expect("it has objects").content.groups[0];
    let mut damaged = cells.clone();
    damaged.set(u64::from(entry.place()), Body::Zeros);
    mount(&damaged, true);
    assert!(try_mount(&damaged, false).is_err(), "a walk finds the damage");
    // Each block in use counts as used, and the rest comes back.
    let (some, all) = (by_checkpoint.free.free(), by_walk.free.free());
    assert!(some <= all && by_checkpoint.reclaim.is_wanted(), "{some} of {all}");
    for at in by_checkpoint.pool() {
        let free = by_checkpoint.free.is_free(at);
        assert!(!free || by_walk.free.is_free(at), "block {at} is in use");
    }
    stays_whole(cells, model);
}

#[test]
fn an_idle_walk_returns_what_a_checkpoint_did_not_know() {
    let (cells, model) = crashed();
    let mut drive = Drive::mount_with(CutMedium::new(cells.clone()), (true, true), model);
    let before = drive.stat("free_blocks");
    drive.node.idle(&mut drive.now, 20 * SECONDS);
    let after = drive.stat("free_blocks");
    assert!(drive.stat("reclaimed_blocks") > 10.0, "{before} and {after} blocks are free");
    // A commit of its own may wait, and map blocks are kept for the checkpoint.
    let kept = drive.stat("kept_map_blocks");
    let by_walk = mount(&drive.medium.contents(), false);
    assert!(after + kept + 2.0 >= by_walk.free.free() as f64);
    drive.verify(&[]);
    drive.is_whole();
}

#[test]
fn many_map_blocks_lead_to_a_checkpoint_in_idle_time() {
    for volatile in [false, true] {
        let mut drive = twice_shut_down(volatile);
        for within in 0..40 {
            drive.write(address(1, within), 1, 50).expect("room");
            drive.flush();
        }
        assert!(drive.stat("kept_map_blocks") >= 40.0);
        assert_eq!(drive.stat("checkpoints"), 0.0);
        drive.node.idle(&mut drive.now, 20 * SECONDS);
        assert_eq!(drive.stat("checkpoints"), 1.0);
        assert!(drive.stat("kept_map_blocks") < 5.0);
        let cells = drive.medium.contents();
        let by_checkpoint = mount(&cells, true);
        assert!(by_checkpoint.checkpoints.kept().count() < 5);
        stays_whole(cells, drive.model);
    }
}

#[test]
fn a_full_drive_gives_up_what_it_keeps() {
    for volatile in [false, true] {
        let mut drive = Drive::with(volatile, true);
        let mut round = 1;
        let mut written = 0;
        while drive.write(address(7, written), 1, 1).is_ok() {
            written += 1;
        }
        drive.trim(address(7, written - 40), 40);
        for within in 0..400 {
            round += 1;
            drive
                .write(address(7, within), 1, round)
                .unwrap_or_else(|error| panic!("{error}: block {within} is written anew"));
        }
        drive.verify(&[]);
        let drive = drive.again(volatile, false);
        drive.is_whole();
    }
}

/// Of each block of both areas in turn nothing is left, or wrong bytes.
#[test]
fn torn_checkpoints_lead_to_the_older_one_or_to_a_walk() {
    let (cells, model) = crashed();
    let whole = found(&cells).newest.expect("there are two").1.head.number;
    let mut older = 0;
    for place in areas().start(0)..areas().end() {
        let mut damaged = cells.clone();
        damaged.set(place, Body::Zeros);
        let number = found(&damaged).newest.expect("one is left").1.head.number;
        older += u64::from(number < whole);
        stays_whole(damaged, model.clone());
    }
    assert_eq!(older, areas().blocks());
    let mut damaged = cells;
    (0..2).for_each(|area| damaged.set(areas().start(area) + 1, Body::Zeros));
    assert!(found(&damaged).newest.is_none());
    let volume = mount(&damaged, true);
    assert!(!volume.reclaim.is_wanted(), "a walk knows all");
    stays_whole(damaged, model);
}

#[test]
fn a_checkpoint_of_another_volume_counts_for_nothing() {
    let (cells, model) = crashed();
    let other = {
        let mut cells = Cells::new(DEVICE);
        let blocks = Vlfs::largest_volume(DEVICE);
        let format = FormatOptions {
            layout: LayoutNumber(9),
            ..FormatOptions::new(crate::Kind::VLOG, blocks, 78)
        };
        recover::format(&mut MediumDisk(&mut cells), &format).expect("it fits");
        let medium = CutMedium::new(cells);
        let mut drive = Drive::mount_with(medium, (true, true), Model::new());
        drive.write(address(1, 1), 1, 1).expect("room");
        drive.node.finish(&mut drive.now);
        drive.medium.contents()
    };
    let mut mixed = cells;
    for place in areas().start(0)..areas().end() {
        let block = other.clone().read(place, 1).expect("memory").to_bytes();
        mixed.set(place, Body::Bytes(block));
    }
    assert!(found(&other).newest.is_some() && found(&mixed).newest.is_none());
    stays_whole(mixed, model);
}

/// A map block since the checkpoint is gone, as if its place had been written again: the bitmap
/// lacks what it said was written, so the mount walks.
#[test]
fn a_gap_in_the_log_leads_to_a_walk() {
    let (cells, model) = crashed();
    let volume = mount(&cells, true);
    let place = volume.checkpoints.kept().next().expect("some are kept");
    let mut damaged = cells;
    damaged.set(u64::from(place), Body::Zeros);
    let volume = mount(&damaged, true);
    assert!(!volume.reclaim.is_wanted(), "a walk knows all");
    stays_whole(damaged, model);
}

#[test]
fn a_mount_for_reading_writes_no_checkpoint() {
    let (cells, model) = crashed();
    let (medium, before) = (CutMedium::new(cells.clone()), cells);
    let options = MountOptions { read_only: true, ..options(true, true) };
    let (volume, _) = mounted(&medium, &options);
    let device = Ram::volatile(Box::new(medium.clone()));
    let (mut node, mut now) = (Node::new(Box::new(volume), vec![Box::new(device)], 1), 0);
    node.idle(&mut now, 100 * SECONDS);
    let at = *model.keys().next().expect("it holds something");
    assert_eq!(node.run(&mut now, Io::read(0, at, 1)).expect("it is there").to_bytes(), model[&at]);
    node.finish(&mut now);
    let (mut before, mut after) = (before, medium.contents());
    for place in 0..DEVICE {
        assert_eq!(before.read(place, 1), after.read(place, 1), "block {place}");
    }
}
