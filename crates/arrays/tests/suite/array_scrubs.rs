//! Repairs of arrays of which a member holds wrong bytes: the layout's checksums decide.
#![allow(clippy::disallowed_types, missing_docs)]

use crate::volumes::{CHUNK, SHAPES, geometry, holds, scrubbed, spoil, with_array};
use seekless_arrays::geometry::Geometry;
use seekless_arrays::member::MemberSuperblock;
use seekless_arrays::scrub::scrub;
use seekless_arrays::{ArrayDisk, Level, VolumeError};
use seekless_engine::data::{Body, Data};
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::IoError;
use seekless_engine::rng::Rng;
use seekless_layouts::Kind;

/// Members of an array that was written to; what a crash has left of the array itself is put right
/// first, as the command does.
fn written(level: Level, members: usize, kind: Kind, orderly: bool) -> (Vec<Cells>, Vec<Data>) {
    let (mut media, content) = crate::volumes::written(level, members, kind, orderly);
    with_array(&mut media, |_, _| {});
    (media, content)
}

/// Repairs what is spoilt, and asks for everything back.
fn repairs(media: &mut [Cells], content: &[Data], what: &str) {
    let found = scrubbed(media, true).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!((found.left.len(), found.mismatched.is_empty()), (0, false), "{what}");
    assert_eq!(scrubbed(media, false).expect("scrubs").mismatched, [], "{what}");
    holds(media, content, what);
    let problems = with_array(media, |mut array, disks| {
        seekless_layouts::check(&mut ArrayDisk::new(&mut array, disks)).expect("mounts").2
    });
    assert_eq!((problems.problems.len(), problems.damaged), (0, vec![]), "{what}");
}

/// True if a check of the volume shows that a block of a mirror is spoilt on all members.
fn is_noticed(media: &[Cells], at: u64, byte: usize) -> bool {
    let check = |mut media: Vec<Cells>| {
        let found = with_array(&mut media, |mut array, disks| {
            seekless_layouts::check(&mut ArrayDisk::new(&mut array, disks))
        });
        found.map(|(.., report)| (report.problems.len(), report.damaged.len(), report.youngest))
    };
    let mut spoilt = media.to_vec();
    spoilt.iter_mut().for_each(|medium| spoil(medium, at, byte));
    check(spoilt) != check(media.to_vec())
}

/// Every block that a member holds is spoilt in turn, on each member.
fn each_block_is_repaired(kind: Kind) {
    let shapes = SHAPES.into_iter().flat_map(|shape| [(shape, false), (shape, true)]);
    for ((level, members), orderly) in shapes {
        if kind == Kind::DCD && level == Level::Raid5 {
            continue;
        }
        let (mut media, content) = written(level, members, kind, orderly);
        let first = geometry(&mut media).first;
        for member in 0..members {
            let held = |at: &u64| media[member].get(*at) != Body::Zeros;
            for at in (first..media[member].blocks()).filter(held) {
                let bytes =
                    if members == 2 { vec![3, 2000] } else { vec![[3, 2000][at as usize % 2]] };
                for byte in bytes {
                    // Blocks at home have no checksums.
                    if kind == Kind::DCD && !is_noticed(&media, at, byte) {
                        continue;
                    }
                    let mut media = media.clone();
                    spoil(&mut media[member], at, byte);
                    let what = format!("{kind} on {level} of {members}, member {member} at {at}");
                    repairs(&mut media, &content, &format!("{what}, orderly: {orderly}"));
                }
            }
        }
    }
}

#[test]
fn a_member_with_wrong_bytes_is_put_right_under_lfs() {
    each_block_is_repaired(Kind::LFS);
}

#[test]
fn a_member_with_wrong_bytes_is_put_right_under_hylog() {
    each_block_is_repaired(Kind::HYLOG);
}

#[test]
fn a_member_with_wrong_bytes_is_put_right_under_vlog() {
    each_block_is_repaired(Kind::VLOG);
}

#[test]
fn a_member_with_wrong_bytes_is_put_right_under_loge() {
    each_block_is_repaired(Kind::LOGE);
}

#[test]
fn a_member_with_wrong_bytes_is_put_right_under_dcd() {
    each_block_is_repaired(Kind::DCD);
}

/// The member block that stands for a block of the volume's device, of a chunk of data.
fn place(geometry: &Geometry, at: u64) -> (usize, u64) {
    let place = geometry.place(at);
    (geometry.member(place.stripe, place.index), geometry.block(place.stripe, place.row))
}

/// Each member is wrong somewhere, also where the layout keeps something twice.
#[test]
fn members_that_are_wrong_in_different_places_are_put_right() {
    for kind in Kind::LOG_STRUCTURED.into_iter().chain([Kind::VLOG, Kind::LOGE]) {
        for ((level, members), orderly) in SHAPES.map(|shape| (shape, true)) {
            let (mut media, content) = written(level, members, kind, orderly);
            let geometry = geometry(&mut media);
            let mut rng = Rng::stream(2, "places");
            for round in 0..30 {
                let mut media = media.clone();
                for turn in 0..6 {
                    // Each in a stripe of its own: one row has one wrong member.
                    let stripe = rng.below(geometry.stripes / 6) * 6 + turn;
                    let at = geometry.block(stripe, rng.below(CHUNK.into()) as u32);
                    let member = (turn as usize + round) % members;
                    // Structures that a mount cannot do without are wrong on one member at most.
                    if is_content(&media[member], at, &content) {
                        spoil(&mut media[member], at, 100);
                    }
                }
                let last = geometry.blocks() - 1;
                let (member, at) = place(&geometry, 0);
                spoil(&mut media[member], at, 100);
                let (_, at) = place(&geometry, last);
                if level == Level::Raid1 {
                    spoil(&mut media[(member + 1) % members], at, 100);
                }
                repairs(&mut media, &content, &format!("{kind} on {level} of {members}: {round}"));
            }
        }
    }
}

fn is_content(medium: &Cells, at: u64, content: &[Data]) -> bool {
    let block = medium.clone().read(at, 1).expect("a block").to_bytes();
    content.iter().any(|data| data.to_bytes() == block)
}

/// Where no member holds what the layout has stored, nothing is overwritten.
#[test]
fn what_no_member_holds_is_left_as_it_is() {
    for (level, members) in SHAPES {
        let (mut media, content) = written(level, members, Kind::LFS, true);
        let first = geometry(&mut media).first;
        let mut left = 0;
        for at in first..media[0].blocks() {
            if !is_content(&media[0], at, &content) {
                continue;
            }
            let mut spoilt = media.clone();
            for (member, medium) in spoilt.iter_mut().enumerate() {
                spoil(medium, at, 100 + member);
            }
            let before = spoilt.clone();
            match scrubbed(&mut spoilt, true) {
                // On RAID-5 a block of the map may be beside it.
                Err(error) => {
                    assert_eq!(level, Level::Raid5, "{error}");
                    assert!(spoilt == before, "{level} of {members}: {at} was overwritten");
                }
                Ok(found) if !found.left.is_empty() => {
                    assert_eq!(found.left, found.mismatched);
                    assert!(spoilt == before, "{level} of {members}: {at} was overwritten");
                    left += 1;
                }
                // What was overwritten long ago.
                Ok(_) => {}
            }
        }
        assert!(left > 10, "{level} of {members}: {left}");
    }
}

#[test]
fn a_volume_that_mounts_with_no_member_believed_is_not_touched() {
    for (level, members) in SHAPES {
        let (mut media, _) = written(level, members, Kind::VLOG, true);
        let geometry = geometry(&mut media);
        for at in [0, geometry.blocks() - 1] {
            let (_, at) = place(&geometry, at);
            for (member, medium) in media.iter_mut().enumerate() {
                spoil(medium, at, 100 + member);
            }
        }
        let before = media.clone();
        let refused = scrubbed(&mut media, true);
        assert!(matches!(refused, Err(VolumeError::Undecided { .. })), "{refused:?}");
        assert!(media == before);
    }
}

/// A member of which one block cannot be read until it is written.
struct Unreadable<'m> {
    disk: MediumDisk<'m>,
    at: Option<u64>,
}

impl Disk for Unreadable<'_> {
    fn blocks(&self) -> u64 {
        self.disk.blocks()
    }
    fn read(&mut self, at: u64, count: u32) -> Result<Data, IoError> {
        match self.at.filter(|bad| (at..at + u64::from(count)).contains(bad)) {
            Some(block) => Err(IoError::Media { block }),
            None => self.disk.read(at, count),
        }
    }
    fn write(&mut self, at: u64, data: Data) -> Result<(), IoError> {
        self.at = self.at.filter(|bad| !(at..at + u64::from(data.blocks())).contains(bad));
        self.disk.write(at, data)
    }
    fn flush(&mut self) -> Result<(), IoError> {
        self.disk.flush()
    }
}

/// What cannot be read on one member is computed, unless another one beside it is wrong.
#[test]
fn unreadable_blocks_are_computed_from_members_that_are_right() {
    for (level, members) in SHAPES {
        let (media, content) = written(level, members, Kind::VLOG, true);
        let first = geometry(&mut media.clone()).first;
        let mut left = 0;
        let stored = (first..media[0].blocks()).filter(|&at| is_content(&media[0], at, &content));
        for (at, wrong) in stored.flat_map(|at| [(at, false), (at, true)]) {
            let mut media = media.clone();
            if wrong {
                spoil(&mut media[1], at, 9);
            }
            let before = media[0].clone();
            let whole = |medium| Unreadable { disk: MediumDisk(medium), at: None };
            let mut bad: Vec<_> = media.iter_mut().map(|medium| whole(medium)).collect();
            bad[0].at = Some(at);
            let mut disks: Vec<_> = bad.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
            let superblock = MemberSuperblock::read(disks[1]).expect("a member");
            let found = scrub(&mut disks, &superblock, Some(seekless_layouts::check), &mut |_| {});
            match found {
                Ok(found) if found.left.is_empty() => {
                    assert_eq!(bad[0].at, None);
                    assert_eq!((found.unreadable.len(), found.repaired > 0), (1, true));
                    assert!(wrong || media[0] == before);
                    holds(&media, &content, &format!("{level} of {members}, {at}"));
                }
                _ => {
                    assert!(wrong && (level, members) != (Level::Raid1, 3), "{at}: {found:?}");
                    assert_eq!(bad[0].at, Some(at), "wrong bytes were written");
                    left += 1;
                }
            }
        }
        assert_eq!(left > 10, (level, members) != (Level::Raid1, 3), "{level} of {members}");
    }
}

/// Without checksums what the first member holds, or the data, counts.
#[test]
fn where_nothing_is_checked_the_first_member_counts() {
    for (level, members) in SHAPES {
        let (media, _) = written(level, members, Kind::INPLACE, true);
        let mut spoilt = media.clone();
        let geometry = geometry(&mut spoilt);
        let (_, at) = place(&geometry, 9);
        for (member, medium) in spoilt.iter_mut().enumerate() {
            spoil(medium, at, 100 + member);
        }
        let before = spoilt.clone();
        let found = scrubbed(&mut spoilt, true).expect("mounts");
        assert_eq!((found.left.len(), found.mismatched.len()), (0, 1));
        let parity = geometry.parity(found.mismatched[0]);
        for member in 0..members {
            let same = spoilt[member] == before[member];
            assert_eq!(same, parity.map_or(member == 0, |parity| member != parity));
        }
        assert_eq!(scrubbed(&mut spoilt, false).expect("scrubs").mismatched, []);
    }
}
