//! A crash on an array of which a member holds wrong bytes: the resync asks the layout which block
//! is right before it computes parity or copies a mirror.
#![allow(clippy::disallowed_types, missing_docs)]

use crate::volumes::{SHAPES, geometry, holds, scrubbed, spoil, with_array, written};
use seekless_arrays::bitmap::{self, Bitmap};
use seekless_arrays::member::BITMAP_BLOCK;
use seekless_arrays::{ArrayDisk, AssembleOptions, Assembled, Level, assemble};
use seekless_engine::data::{Body, Data};
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::planted::{PlantedBug, with_bug};
use seekless_layouts::Kind;

/// Assembles the array after a crash as a server does, and ends it in order.
fn recovered(media: &mut [Cells]) -> Assembled {
    let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
    let mut disks: Vec<_> = plain.iter_mut().map(|disk| Some(disk as &mut dyn Disk)).collect();
    let volume = Some(seekless_layouts::check as _);
    let options = AssembleOptions { volume, ..AssembleOptions::default() };
    let mut found = assemble(&mut disks, &options).expect("all are there");
    ArrayDisk::new(&mut found.array, &mut disks).end().expect("ends");
    found
}

/// What a check of the volume finds wrong.
fn problems(media: &mut [Cells]) -> Vec<String> {
    with_array(media, |mut array, disks| {
        let checked = seekless_layouts::check(&mut ArrayDisk::new(&mut array, disks));
        checked.map_or_else(|error| vec![error.to_string()], |found| found.2.problems)
    })
}

/// Members after a crash, of which one has wrong bytes in all that it holds; all regions are
/// marked.
fn crashed(level: Level, members: usize, kind: Kind, wrong: usize) -> (Vec<Cells>, Vec<Data>) {
    let (mut media, content) = written(level, members, kind, false);
    let geometry = geometry(&mut media);
    let first = geometry.first;
    let marks = bitmap::encode(0..Bitmap::new(&geometry).regions());
    for medium in &mut media {
        medium.write(BITMAP_BLOCK, &Data::bytes(marks.clone())).expect("memory");
    }
    for at in first..media[wrong].blocks() {
        if media[wrong].get(at) != Body::Zeros {
            spoil(&mut media[wrong], at, 2000);
        }
    }
    (media, content)
}

fn wrong_bytes_do_not_become_parity(kind: Kind) {
    for (level, members) in SHAPES {
        for wrong in 0..members {
            let what = format!("{kind} on {level} of {members}, member {wrong} is wrong");
            let (mut media, content) = crashed(level, members, kind, wrong);
            let found = recovered(&mut media);
            assert!(!found.clean && found.resynced > 0, "{what}: nothing was brought into step");
            let others: u64 =
                (0..members).filter(|&one| one != wrong).map(|one| found.healed[one]).sum();
            assert_eq!(others, 0, "{what}: {:?}", found.healed);
            assert_eq!(scrubbed(&mut media, false).expect("scrubs").mismatched, [], "{what}");
            assert_eq!(problems(&mut media), [""; 0], "{what}");
            holds(&media, &content, &what);
        }
    }
}

#[test]
fn wrong_bytes_do_not_become_parity_under_lfs() {
    wrong_bytes_do_not_become_parity(Kind::LFS);
}

#[test]
fn wrong_bytes_do_not_become_parity_under_wolf() {
    wrong_bytes_do_not_become_parity(Kind::WOLF);
}

#[test]
fn wrong_bytes_do_not_become_parity_under_vlog() {
    wrong_bytes_do_not_become_parity(Kind::VLOG);
}

#[test]
fn wrong_bytes_do_not_become_parity_under_loge() {
    wrong_bytes_do_not_become_parity(Kind::LOGE);
}

/// What the resync has put right is counted for the member that was wrong.
#[test]
fn a_resync_counts_what_it_has_put_right() {
    for (level, members) in SHAPES {
        let healed: u64 = (0..members)
            .map(|wrong| recovered(&mut crashed(level, members, Kind::VLOG, wrong).0).healed[wrong])
            .sum();
        assert!(healed > 10, "{level} of {members}: {healed}");
    }
}

/// The test above can fail.
#[test]
fn a_resync_that_asks_nobody_makes_wrong_bytes_final() {
    for (level, members) in SHAPES {
        let (mut media, _) = crashed(level, members, Kind::VLOG, 0);
        let found = with_bug(Some(PlantedBug::ResyncUnasked), || recovered(&mut media));
        assert_eq!(found.healed, vec![0; members]);
        assert_eq!(scrubbed(&mut media, true).expect("scrubs").mismatched, []);
        let lost = problems(&mut media);
        assert!(!lost.is_empty(), "{level} of {members}: the resync destroyed nothing");
    }
}

/// Without checksums the data counts, and the first member. What is put right has other proof: the
/// copies of the superblock have checksums, and the array's own log has what was written last.
#[test]
fn a_resync_below_a_layout_without_checksums_believes_the_data() {
    for (level, members) in SHAPES {
        let right = written(level, members, Kind::INPLACE, false).0;
        let (mut media, _) = crashed(level, members, Kind::INPLACE, 0);
        let wrong = media[0].clone();
        let found = recovered(&mut media);
        assert_eq!(found.healed, vec![0; members]);
        let geometry = geometry(&mut media);
        let data = |at: &u64| geometry.parity(geometry.stripe_of(*at).0) != Some(0);
        let spoiled = |at: &u64| wrong.get(*at) != right[0].get(*at);
        let blocks: Vec<u64> =
            (geometry.first..media[0].blocks()).filter(data).filter(spoiled).collect();
        let (kept, changed): (Vec<u64>, Vec<u64>) =
            blocks.iter().partition(|&&at| media[0].get(at) == wrong.get(at));
        assert!(kept.len() > 2 * changed.len(), "{level} of {members}: {changed:?}, {kept:?}");
        for at in changed {
            assert!(media[0].get(at) == right[0].get(at), "{level} of {members}: block {at}");
        }
    }
}
