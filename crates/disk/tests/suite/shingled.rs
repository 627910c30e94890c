//! A host-managed shingled disk as a device.

use seekless_disk::{Disk, Spec};
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::medium::Cells;
use seekless_engine::io::{Io, IoError, Outcome, ZoneRule};
use seekless_engine::units::SECONDS;

/// Zones of 64 sectors, which are 8 blocks: one conventional, then five in order, two in part.
fn disk() -> Disk {
    let text = "name='t'\nsummary=''\nrpm=6000\nheads=2\ncylinders=4\nhead_switch_ms=1\n\
                overhead_ms=0.1\nseek={constant={ms=2}}\n\
                zones=[{sectors=48,track_skew=5,cylinder_skew=5}]\n\
                [zoned]\nzone_sectors=64\nconventional_zones=1\nmax_open=2\nmax_active=2";
    let spec = Spec::parse(text).expect("a sound specification");
    Disk::new(&spec, Box::new(Cells::new(48))).expect("a disk")
}

fn ask(disk: &mut Disk, io: Io) -> Outcome {
    disk.submit(disk.next_event().unwrap_or(0), io);
    let mut done = Vec::new();
    while let Some(at) = disk.next_event() {
        disk.reap(at, &mut done);
    }
    assert_eq!(done.len(), 1);
    done.pop().expect("an answer").outcome
}

fn write(disk: &mut Disk, at: u64, count: u32) -> Outcome {
    ask(disk, Io::write(1, at, Data::stamp(count, at, 1)))
}

fn refused(block: u64, rule: ZoneRule) -> Outcome {
    Err(IoError::Zone { block, rule })
}

#[test]
fn violations_are_refused_by_name_and_change_nothing() {
    let mut disk = disk();
    assert!(write(&mut disk, 3, 2).is_ok(), "conventional");
    assert_eq!(write(&mut disk, 7, 2), refused(7, ZoneRule::WriteBoundary));
    assert_eq!(write(&mut disk, 9, 1), refused(9, ZoneRule::UnalignedWrite));
    assert!(write(&mut disk, 8, 2).is_ok());
    assert_eq!(write(&mut disk, 8, 1), refused(8, ZoneRule::UnalignedWrite));
    assert_eq!(write(&mut disk, 10, 7), refused(10, ZoneRule::WriteBoundary));
    assert_eq!(ask(&mut disk, Io::read(1, 8, 3)), refused(8, ZoneRule::ReadInvalid));
    assert_eq!(ask(&mut disk, Io::read(1, 4, 5)), refused(4, ZoneRule::ReadBoundary));
    assert!(write(&mut disk, 16, 1).is_ok());
    assert_eq!(write(&mut disk, 24, 1), refused(24, ZoneRule::TooManyOpen));
    let found = ask(&mut disk, Io::read(1, 8, 2)).expect("written");
    assert_eq!(found.to_bytes(), Data::stamp(2, 8, 1).to_bytes());
    let error = refused(8, ZoneRule::UnalignedWrite).expect_err("an error").to_string();
    assert!(error.starts_with("block 8: UNALIGNED WRITE COMMAND"), "{error}");
}

/// The first 524 of 55,880 zones are conventional, more than a small part of the disk has.
#[test]
fn a_small_part_of_a_large_disk_has_zones_of_both_kinds() {
    let spec = seekless_disk::specs::find("hm-smr-15tb").expect("a built-in disk").outer(10 << 18);
    assert_eq!(spec.zoned.expect("shingled").conventional_zones, 1);
    let blocks = spec.capacity_blocks();
    let mut disk = Disk::new(&spec, Box::new(Cells::new(blocks))).expect("a disk");
    // A second for each, because this disk chooses among waiting commands.
    let mut now = 0;
    let mut write = |at: u64| {
        disk.submit(now, Io::write(1, at, Data::stamp(1, at, 1)));
        now += SECONDS;
        let mut done = Vec::new();
        disk.reap(now, &mut done);
        done.pop().expect("an answer").outcome
    };
    assert!(write(5).is_ok(), "conventional");
    assert!(write(1 << 16).is_ok(), "at the pointer");
    assert_eq!(write(1 << 16), refused(1 << 16, ZoneRule::UnalignedWrite));
}

#[test]
fn a_trim_of_a_whole_zone_resets_it() {
    let mut disk = disk();
    assert!(write(&mut disk, 8, 8).is_ok());
    assert_eq!(write(&mut disk, 8, 1), refused(8, ZoneRule::UnalignedWrite), "full");
    assert_eq!(ask(&mut disk, Io::trim(1, 8, 4)), refused(8, ZoneRule::PartialReset));
    assert!(ask(&mut disk, Io::trim(1, 8, 8)).is_ok());
    assert_eq!(ask(&mut disk, Io::read(1, 8, 1)), refused(8, ZoneRule::ReadInvalid));
    assert!(write(&mut disk, 8, 1).is_ok());
    assert!(ask(&mut disk, Io::trim(1, 5, 2)).is_ok(), "of a conventional zone any part");
    assert!(ask(&mut disk, Io::trim(1, 0, 48)).is_ok(), "everything");
    assert!(write(&mut disk, 40, 8).is_ok());
}
