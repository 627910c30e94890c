//! Volumes whose making is cut off: there is none, or it is whole and empty.

use seekless_arrays::{
    ArrayDisk, AssembleOptions, CreateArray, Level, VolumeError, assemble, create,
};
use seekless_crash::device::cut::CutMedium;
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::Io;
use seekless_engine::layout::{FormatOptions, LayoutError, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::superblock::SuperblockError;
use seekless_formats::{FsError, Kind as Format, MkfsOptions};
use seekless_layouts::Kind;
use seekless_prove::making::{Look, Made, cut_making, cut_task};

pub const DEVICE: u64 = 260;

pub fn options(kind: Kind, id: u128) -> FormatOptions {
    FormatOptions::new(kind, kind.largest_volume(DEVICE) / 2, id)
}

fn mounted(medium: Cells) -> Result<(u128, Node), LayoutError> {
    let mut medium = medium;
    let found = seekless_layouts::mount(&mut MediumDisk(&mut medium), &MountOptions::default());
    let (layer, superblock, _) = found?;
    Ok((superblock.id, Node::new(layer, vec![Box::new(Ram::new(Box::new(medium)))], 0)))
}

/// The identity of a volume, and its blocks.
fn look(mut media: Vec<Cells>) -> Look<(u128, Data)> {
    match mounted(media.remove(0)) {
        Ok((id, mut node)) => {
            let blocks = node.layer.blocks() as u32;
            match node.run(&mut 0, Io::read(0, 0, blocks)) {
                Ok(data) => Look::Volume((id, data)),
                Err(error) => Look::Broken(error.to_string()),
            }
        }
        Err(LayoutError::Superblock(SuperblockError::Foreign | SuperblockError::Damaged)) => {
            Look::NoVolume
        }
        Err(error) => Look::Broken(error.to_string()),
    }
}

/// A device that has a volume full of data, shut down cleanly.
fn used(kind: Kind, medium: Cells, id: u128) -> Cells {
    used_at(kind, medium, &options(kind, id), true)
}

/// The same of any volume, or one that is cut off when all is durable.
pub fn used_at(kind: Kind, medium: Cells, options: &FormatOptions, is_clean: bool) -> Cells {
    let mut medium = medium;
    seekless_layouts::format(&mut MediumDisk(&mut medium), options).expect("it fits");
    let found = seekless_layouts::mount(&mut MediumDisk(&mut medium), &MountOptions::default());
    let (layer, ..) = found.unwrap_or_else(|error| panic!("{kind} was just made: {error}"));
    let cells = CutMedium::new(medium);
    let mut node = Node::new(layer, vec![Box::new(Ram::new(Box::new(cells.clone())))], 0);
    let mut now = 0;
    let blocks = node.layer.blocks();
    for at in 0..blocks {
        node.run(&mut now, Io::write(0, at, Data::stamp(1, at, 9))).expect("there is space");
    }
    node.run(&mut now, Io::flush(0)).expect("it flushes");
    if !is_clean {
        return cells.contents();
    }
    node.stop(now);
    let mut replies = Vec::new();
    while !node.stopped() {
        now = node.next_event().unwrap_or(now).max(now);
        node.settle(now, &mut replies);
    }
    cells.contents()
}

fn devices() -> [Cells; 2] {
    [Cells::new(DEVICE), Cells::new(DEVICE).with_labels()]
}

fn cut(kind: Kind, media: &[Cells], volatile: bool) -> Result<Made, String> {
    let mut rng = Rng::stream(5, kind.name());
    let make = |disks: &mut [&mut dyn Disk]| {
        seekless_layouts::format(disks[0], &options(kind, 77)).expect("it fits");
    };
    cut_making(media, volatile, &mut rng, make, look)
}

#[test]
fn a_volume_whose_making_is_cut_off_is_whole_or_not_there() {
    for kind in Kind::ALL {
        for device in devices() {
            for volatile in [false, true] {
                let made = cut(kind, std::slice::from_ref(&device), volatile);
                let made = made.unwrap_or_else(|wrong| panic!("{kind}, {volatile}: {wrong}"));
                assert!(made.none > 0 && made.new > 0, "{kind}: {made:?}");
            }
        }
    }
}

#[test]
fn a_volume_that_replaces_another_never_shows_a_part_of_it() {
    for kind in Kind::ALL {
        for before in Kind::ALL {
            for device in devices() {
                let old = used(before, device, 33);
                for volatile in [false, true] {
                    let made = cut(kind, std::slice::from_ref(&old), volatile);
                    let made = made.unwrap_or_else(|wrong| {
                        panic!("{kind} over {before}, {volatile}: {wrong}")
                    });
                    assert!(made.old > 0 && made.new > 0, "{kind} over {before}: {made:?}");
                }
            }
        }
    }
}

/// A making that writes its superblock first is noticed.
#[test]
fn a_superblock_that_comes_too_early_is_noticed() {
    let old = used(Kind::VLOG, Cells::new(DEVICE), 33);
    let superblock = {
        let mut medium = Cells::new(DEVICE);
        let format =
            seekless_layouts::format(&mut MediumDisk(&mut medium), &options(Kind::LOGE, 77));
        format.expect("it fits");
        Medium::read(&mut medium, 0, 1).expect("memory")
    };
    let make = |disks: &mut [&mut dyn Disk]| {
        disks[0].write(0, superblock.clone()).expect("memory");
        disks[0].flush().expect("memory");
        seekless_layouts::format(disks[0], &options(Kind::LOGE, 77)).expect("it fits");
    };
    let made = cut_making(&[old], true, &mut Rng::stream(1, "early"), make, look);
    assert!(made.is_err(), "{made:?}");
}

const MEMBER: u64 = 300;

fn look_at_array(media: Vec<Cells>) -> Look<(u128, Data)> {
    let mut media = media;
    let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
    let mut disks: Vec<_> = plain.iter_mut().map(|disk| Some(disk as &mut dyn Disk)).collect();
    match assemble(&mut disks, &AssembleOptions::default()) {
        Ok(mut found) => {
            let id = found.array.superblock().id;
            let mut disk = ArrayDisk::new(&mut found.array, &mut disks);
            let blocks = disk.blocks() as u32;
            match disk.read(0, blocks) {
                Ok(data) => Look::Volume((id, data)),
                Err(error) => Look::Broken(error.to_string()),
            }
        }
        Err(error) if is_no_array(&error) => Look::NoVolume,
        Err(error) => Look::Broken(error.to_string()),
    }
}

/// Members that are missing, or were not yet made, keep an array from being assembled.
fn is_no_array(error: &VolumeError) -> bool {
    let text = error.to_string();
    ["not a member", "superblock are damaged", "another array"].iter().any(|one| text.contains(one))
}

#[test]
fn an_array_whose_making_is_cut_off_is_whole_or_not_there() {
    for (level, members) in [(Level::Raid0, 2), (Level::Raid1, 2), (Level::Raid5, 3)] {
        for volatile in [false, true] {
            let media = vec![Cells::new(MEMBER); members];
            let make = |disks: &mut [&mut dyn Disk]| {
                let options = CreateArray { level, chunk: 2, id: 77, blank: true };
                create(disks, &options).expect("the sizes fit");
            };
            let mut rng = Rng::stream(5, "arrays");
            let made = cut_making(&media, volatile, &mut rng, make, look_at_array);
            let made = made.unwrap_or_else(|wrong| panic!("{level}, {volatile}: {wrong}"));
            assert!(made.none > 0 && made.new > 0, "{level}: {made:?}");
        }
    }
}

const IMAGE: u64 = 256;

fn look_at_files(mut media: Vec<Cells>) -> Look<(String, usize)> {
    let format = Format::all().next().expect("there is a format");
    let mut disk = MediumDisk(&mut media[0]);
    let found = (format.check)(&mut disk);
    // With the first superblock missing a mount asks for a repair.
    let lost = |text: String| text.starts_with("Superblock");
    if found.as_ref().is_ok_and(|found| found.list.iter().any(|one| lost(format!("{one:?}")))) {
        (format.repair)(&mut disk).expect("a copy is whole");
    }
    match (format.check)(&mut disk) {
        Ok(found) if found.is_clean() && found.unmounted => {
            Look::Volume((found.inodes.to_string(), found.superblocks as usize))
        }
        Ok(found) => Look::Broken(format!("a check finds {:?}", found.list)),
        Err(FsError::Foreign | FsError::Damaged(_)) => Look::NoVolume,
        Err(error) => Look::Broken(error.to_string()),
    }
}

#[test]
fn a_file_system_whose_making_is_cut_off_is_sound_or_not_there() {
    let format = Format::all().next().expect("there is a format");
    let options =
        |id, group: u64| MkfsOptions { group: Some(group << 10), id, ..MkfsOptions::default() };
    let mut old = Cells::new(IMAGE);
    (format.mkfs)(&mut MediumDisk(&mut old), &options(33, 256)).expect("the sizes are possible");
    for media in [Cells::new(IMAGE), old] {
        for volatile in [false, true] {
            let make = |disks: &mut [&mut dyn Disk]| {
                (format.mkfs)(disks[0], &options(77, 512)).expect("the sizes are possible");
            };
            let mut rng = Rng::stream(5, "mkfs");
            let made =
                cut_making(std::slice::from_ref(&media), volatile, &mut rng, make, look_at_files);
            let made = made.unwrap_or_else(|wrong| panic!("{volatile}: {wrong}"));
            assert!(made.none + made.old > 0 && made.new > 0, "{made:?}");
        }
    }
}

/// What has been made needs no repair.
#[test]
fn a_file_system_that_was_made_is_durable() {
    let format = Format::all().next().expect("there is a format");
    let options = MkfsOptions { group: Some(512 << 10), id: 77, ..MkfsOptions::default() };
    let judge = |left: Vec<Cells>, ended: bool, what: &str| {
        let found = (format.check)(&mut MediumDisk(&mut left[0].clone()));
        match found {
            Ok(found) if found.is_clean() && found.unmounted => Ok(()),
            found if ended => Err(format!("{what}: {found:?}")),
            _ => Ok(()),
        }
    };
    let task = |disks: &mut [&mut dyn Disk]| {
        (format.mkfs)(disks[0], &options).expect("the sizes are possible");
    };
    let mut rng = Rng::stream(5, "mkfs");
    cut_task(&[Cells::new(IMAGE)], true, &mut rng, task, judge).expect("it is durable");
}
