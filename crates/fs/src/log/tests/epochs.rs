//! Epochs that carry on what the one before left open, and logs that are read up to damage.

use super::*;

/// Groups that carry on orphans with these marks.
fn carrying(marks: std::ops::Range<u32>) -> Vec<GroupBuilder> {
    let group = |mark| {
        let mut group = GroupBuilder::new(0, 0, 0);
        assert!(group.push(Record::Orphan(mark)));
        (0..60).for_each(|inode| assert!(group.push(Record::Orphan(inode))));
        group
    };
    marks.map(group).collect()
}

/// Recovery is cut off after each sector that it writes, twice. Until a superblock of the new epoch
/// is there, the log of the old one counts; from then on what it carries does.
#[test]
fn what_an_epoch_carries_is_there_when_the_epoch_is() {
    for parts in [false, true] {
        let bench = fill(parts, 2);
        let found = bench.judge(&bench.range);
        let before = marks(&found);
        let newest = (found.next, found.epoch);
        let begun = Ring::begin_with(&found.superblock, newest, parts, carrying(900..920));
        let Begun { ring, carried, superblocks } = begun.expect("the writer left room");
        assert_eq!(ring.durable(), superblocks[1].durable);
        let mut range = bench.range.clone();
        for write in &carried {
            assert_eq!(write.bytes.len() % BLOCK_BYTES, 0, "whole blocks");
            for (index, sector) in write.bytes.chunks(SECTOR_BYTES).enumerate() {
                store(&mut range, write.sector + index as u64, sector);
                let again = scan_range(&range).expect("the old epoch counts");
                assert_eq!(marks(&again), before);
                assert_eq!((again.next, again.epoch), (found.next, found.epoch + 1));
                // The second recovery carries less, and is not cut off.
                let newest = (again.next, again.epoch);
                let second = Ring::begin_with(&again.superblock, newest, parts, carrying(900..903));
                let second = second.expect("the same place");
                let mut range = range.clone();
                let writes = second.carried.iter().map(|write| (write.sector, &write.bytes[..]));
                writes.for_each(|(sector, bytes)| store(&mut range, sector, bytes));
                let superblock = second.superblocks[0];
                store(&mut range, superblock.block() * 8, &superblock.encode());
                let scanned = scan_range(&range).expect("it begins where the first one began");
                assert_eq!(marks(&scanned), [900, 901, 902]);
            }
        }
        for superblock in superblocks {
            store(&mut range, superblock.block() * 8, &superblock.encode());
            let scanned = scan_range(&range).expect("the new epoch counts");
            assert_eq!(marks(&scanned), (900..920).collect::<Vec<_>>());
        }
        let place = carried[0].sector as usize * SECTOR_BYTES;
        range[place + 40] ^= 1;
        let damage = scan_range(&range).expect_err("the superblock attests it");
        assert!(matches!(damage, LogError::Damaged { .. }), "{damage}");
        let mut source = |block: u64| {
            let at = block as usize * BLOCK_BYTES;
            Some(Bytes::copy_from_slice(&range[at..at + BLOCK_BYTES]))
        };
        let newest = newest_of(&mut source);
        assert_eq!(newest.1, found.epoch + 1);
        assert!(newest.0 >= found.next, "{newest:?}");
    }
}

fn newest_of(source: &mut impl LogSource) -> (u64, u32) {
    scan::newest(source, SHAPE, 9)
}

/// A writer that says what is open leaves room for it: the ring is filled to the last byte, and
/// recovery finds a place that it does not have to share.
#[test]
fn a_full_ring_has_room_for_what_recovery_carries() {
    for parts in [false, true] {
        let groups = || carrying(1..40);
        let bytes = groups().iter().map(GroupBuilder::len).sum();
        let mut bench = Bench::new(parts);
        bench.ring.carries(bytes);
        while bench.append(60) {}
        bench.complete_all();
        let found = bench.judge(&bench.range);
        let begin =
            |groups| Ring::begin_with(&found.superblock, (found.next, found.epoch), parts, groups);
        let begun = begin(groups()).expect("there is room");
        let mut range = bench.range.clone();
        for write in &begun.carried {
            store(&mut range, write.sector, &write.bytes);
        }
        assert_eq!(marks(&scan_range(&range).expect("whole")), marks(&found));
        let more = std::iter::repeat_with(groups).take(2000).flatten().collect();
        assert_eq!(begin(more).err(), Some(Full), "nothing of the old epoch is written over");
    }
}

/// What is damaged in the middle costs the groups behind it only.
#[test]
fn a_log_up_to_damage_has_the_groups_in_front_of_it() {
    let mut bench = Bench::new(false);
    for number in 0..200_u32 {
        assert!(bench.append(900));
        if number.is_multiple_of(7) {
            bench.complete_all();
        }
    }
    bench.complete_all();
    let whole = bench.judge(&bench.range);
    let all = marks(&whole);
    let middle = whole.groups().nth(all.len() / 2).expect("there are many").lsn().number();
    let mut range = bench.range.clone();
    range[SHAPE.place(middle) as usize * SECTOR_BYTES + 100] ^= 1;
    let mut source = |block: u64| {
        let at = block as usize * BLOCK_BYTES;
        Some(Bytes::copy_from_slice(&range[at..at + BLOCK_BYTES]))
    };
    let (scanned, damage) =
        scan::scan_to_damage(&mut source, SHAPE.blocks, FILE_SYSTEM).expect("it is the log");
    let damage = damage.expect("groups are lost");
    assert!(matches!(damage, LogError::Damaged { number, .. } if number == middle), "{damage}");
    let found = marks(&scanned);
    assert_eq!(found, all[..found.len()], "a prefix");
    assert!(found.len() >= all.len() / 2 - 8, "{} of {}", found.len(), all.len());
    assert_eq!(scanned.next, whole.next, "numbers are not given twice");
}
