//! Tasks of arrays that are cut off: a replacement, a scrub that repairs. What has ended is durable
//! on all members.

use seekless_arrays::member::{MemberState, MemberSuperblock};
use seekless_arrays::scrub::scrub;
use seekless_arrays::{ArrayDisk, AssembleOptions, CreateArray, Level, assemble, create, replace};
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::layout::FormatOptions;
use seekless_engine::rng::Rng;
use seekless_layouts::Kind;
use seekless_prove::making::cut_task;

const MEMBER: u64 = 120;
const MEMBERS: usize = 3;
/// The member that is replaced, or wrong.
const ONE: usize = 1;

fn disks(media: &mut [Cells]) -> Vec<MediumDisk<'_>> {
    media.iter_mut().map(|medium| MediumDisk(medium)).collect()
}

/// What an array reads as, of members that are there or not.
fn content(media: &mut [Option<Cells>]) -> Result<Data, String> {
    let mut plain: Vec<_> =
        media.iter_mut().map(|medium| medium.as_mut().map(|one| MediumDisk(one))).collect();
    let mut members: Vec<_> =
        plain.iter_mut().map(|disk| disk.as_mut().map(|one| one as &mut dyn Disk)).collect();
    let options = AssembleOptions { volatile: true, degraded: true, ..Default::default() };
    let mut found = assemble(&mut members, &options).map_err(|error| error.to_string())?;
    let mut array = ArrayDisk::new(&mut found.array, &mut members);
    let blocks = array.blocks() as u32;
    array.read(0, blocks).map_err(|error| error.to_string())
}

/// Members full of data, shut down in order, and what they hold.
fn filled() -> (Vec<Cells>, Data) {
    let mut media = vec![Cells::new(MEMBER); MEMBERS];
    let mut plain = disks(&mut media);
    let mut members: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
    let shape = CreateArray { level: Level::Raid5, chunk: 2, id: 7, blank: true };
    create(&mut members, &shape).expect("it fits");
    let mut members: Vec<_> = members.into_iter().map(Some).collect();
    let mut found = assemble(&mut members, &AssembleOptions::default()).expect("it was just made");
    let mut array = ArrayDisk::new(&mut found.array, &mut members);
    let last = array.blocks() - 1;
    let format = FormatOptions::new(Kind::INPLACE, Kind::INPLACE.largest_volume(last + 1), 3);
    seekless_layouts::format(&mut array, &format).expect("it fits");
    // Stamps are linear: neighbours of one version leave nothing of themselves in parity.
    for at in 1..last {
        array.write(at, Data::stamp(1, at, 3 + at % 7)).expect("memory");
    }
    array.end().expect("memory");
    let content = content(&mut media.iter().cloned().map(Some).collect::<Vec<_>>());
    (media, content.expect("nothing is missing"))
}

/// What the members say of the state of one of them.
fn said(media: &mut [Cells]) -> Vec<Option<MemberState>> {
    let read = |disk: &mut MediumDisk<'_>| MemberSuperblock::read(disk).ok();
    disks(media).iter_mut().map(|disk| read(disk).map(|found| found.states[ONE])).collect()
}

#[test]
fn a_replacement_that_is_cut_off_costs_nothing_and_its_end_is_durable() {
    let (mut media, right) = filled();
    // The new device is the last one.
    media.push(Cells::new(MEMBER));
    let judge = |left: Vec<Cells>, ended: bool, what: &str| {
        let mut left = left;
        let new = left.pop().expect("there are four");
        let old = std::mem::replace(&mut left[ONE], new.clone());
        let all = said(&mut left);
        if ended && all != [Some(MemberState::Rebuilding); MEMBERS] {
            return Err(format!("{what}: the members say {all:?}"));
        }
        for one in [Some(new), Some(old), None] {
            let mut members: Vec<_> = left.iter().cloned().map(Some).collect();
            members[ONE] = one;
            match content(&mut members) {
                Ok(found) if found.to_bytes() != right.to_bytes() => {
                    return Err(format!("{what}: wrong content"));
                }
                Err(error) if members[ONE].is_none() => return Err(format!("{what}: {error}")),
                _ => {}
            }
        }
        Ok(())
    };
    let task = |disks: &mut [&mut dyn Disk]| {
        let [first, _, last, new] = disks else { unreachable!("four devices") };
        let (first, last): (&mut dyn Disk, &mut dyn Disk) = (&mut **first, &mut **last);
        let new: &mut dyn Disk = &mut **new;
        replace(&mut [Some(first), None, Some(last)], ONE, new).expect("the others are there");
    };
    let states = cut_task(&media, true, &mut Rng::stream(1, "replace"), task, judge);
    assert!(states.expect("a replacement") > 20);
}

#[test]
fn what_a_scrub_has_repaired_is_durable() {
    let (mut media, _) = filled();
    let superblock = MemberSuperblock::read(&mut MediumDisk(&mut media[0])).expect("a member");
    let at = superblock.geometry.block(1, 0);
    media[ONE].write(at, &Data::stamp(1, 5, 99)).expect("memory");
    let scrubbed = |disks: &mut [&mut dyn Disk], repairs: bool| {
        let check = repairs.then_some(seekless_layouts::check as _);
        scrub(disks, &superblock, check, &mut |_| {}).map_err(|error| error.to_string())
    };
    let judge = |left: Vec<Cells>, ended: bool, what: &str| {
        let mut left = left;
        let mut plain = disks(&mut left);
        let mut members: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
        let found = scrubbed(&mut members, false)?;
        match ended && !found.mismatched.is_empty() {
            true => Err(format!("{what}: stripes {:?} do not agree", found.mismatched)),
            false => Ok(()),
        }
    };
    let task = |disks: &mut [&mut dyn Disk]| {
        assert!(scrubbed(disks, true).expect("all are there").repaired > 0);
    };
    cut_task(&media, true, &mut Rng::stream(1, "scrub"), task, judge).expect("a scrub");
}
