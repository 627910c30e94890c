use super::*;
use crate::registry::{Kind, format, read_superblock};
use crate::vlog::format::{Changed, seal_map};
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::MediumDisk;
use seekless_engine::units::BLOCK_BYTES;

/// The header of a map block without changes.
fn header_of(commit: u64, previous: u64, slice: u32, (index, members): (u32, u32)) -> Header {
    Header {
        sequence: 100 * commit + u64::from(slice),
        commit,
        previous,
        durable: 4,
        digest: 0,
        slice,
        index,
        members,
        changed: Changed::default(),
        pointers: SmallVec::new(),
    }
}

/// Looks at a volume on which these map blocks lie, one after the other.
fn with_map_blocks<R>(
    headers: &[Header],
    look: impl FnOnce(&mut Recovery<'_>, &[Found]) -> R,
) -> R {
    let mut cells = Cells::new(4096);
    let mut disk = MediumDisk(&mut cells);
    format(&mut disk, &FormatOptions::new(Kind::VLOG, 1000, 9)).expect("it fits");
    let superblock = read_superblock(&mut disk).expect("it was just made");
    let mut all = Vec::new();
    for (header, place) in headers.iter().zip(10..) {
        let mut block = vec![0; BLOCK_BYTES];
        seal_map(superblock.identity(), place, header, &mut block);
        disk.write(u64::from(place), Data::bytes(block.into())).expect("memory");
        all.push(Found { place, header: header.clone() });
    }
    let steps = &mut RecoverySteps::new(None);
    let mut recovery = Recovery::new(&mut disk, &superblock, steps, &FORM);
    recovery.steps.begin("verify young commits");
    look(&mut recovery, &all)
}

#[test]
fn a_commit_whose_map_blocks_disagree_does_not_hold() {
    let holds = |headers: [Header; 2]| {
        with_map_blocks(&headers, |recovery, all| recovery.holds(&[&all[0], &all[1]]))
    };
    assert!(holds([header_of(5, 4, 0, (0, 2)), header_of(5, 4, 1, (1, 2))]));
    assert!(!holds([header_of(5, 4, 0, (0, 2)), header_of(5, 4, 1, (1, 3))]));
    assert!(!holds([header_of(5, 4, 0, (0, 2)), header_of(5, 3, 1, (1, 2))]));
}

#[test]
fn of_two_commits_that_follow_one_the_younger_counts() {
    let headers = [header_of(5, 4, 0, (0, 1)), header_of(6, 4, 0, (0, 1))];
    with_map_blocks(&headers, |recovery, all| {
        let found = recovery.judge(all, 4);
        assert_eq!((found.last, found.doomed), (6, vec![10]));
    });
}
