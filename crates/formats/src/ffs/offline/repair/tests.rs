//! Check and repair together: planted damage has its finding, and repair leaves none.

use super::*;
use crate::ffs::kit::sample::*;
use crate::ffs::offline::check::check;
use crate::ffs::offline::check::finding::{Bitmap, Findings};
use crate::ffs::ondisk::geometry::Geometry;
use crate::report::Severity;
use proptest::prelude::*;
use seekless_crash::device::cut::CutMedium;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::MediumDisk;
use seekless_engine::units::BLOCK_SECTORS;

const UNITS: [(u32, u32); 4] = [(8192, 4096), (8192, 1024), (4096, 1024), (4096, 4096)];

pub(super) fn checked(cells: &mut Cells) -> Findings {
    check(&mut MediumDisk(cells)).expect("a superblock")
}

fn bytes_of(cells: &mut Cells) -> Vec<u8> {
    let mut disk = MediumDisk(cells);
    let count = disk.blocks() as u32;
    disk.read(0, count).expect("memory").to_bytes().to_vec()
}

/// Repairs, and demands that nothing is left and that a second repair changes nothing.
pub(super) fn repaired(cells: &mut Cells) -> RepairReport {
    let report = repair(&mut MediumDisk(cells)).expect("repairable");
    let left = checked(cells);
    assert!(left.is_clean() && left.unmounted, "{left}\nafter {report:?}");
    let before = bytes_of(cells);
    let again = repair(&mut MediumDisk(cells)).expect("clean");
    assert_eq!(again, RepairReport::default());
    assert!(before == bytes_of(cells), "a second repair wrote something");
    report
}

/// Damages a sample, and gives what check finds before repair.
fn found(damage: impl FnOnce(&mut Cells, &Geometry)) -> (Findings, Cells) {
    let geometry = geometry(8192, 4096);
    let mut cells = sample(8192, 4096);
    damage(&mut cells, &geometry);
    let findings = checked(&mut cells);
    repaired(&mut cells);
    (findings, cells)
}

pub(super) fn direct(cells: &mut Cells, geometry: &Geometry, ino: u32) -> u32 {
    let mut disk = MediumDisk(cells);
    let mut store = Store::new(&mut disk, geometry.clone(), crate::ffs::Sealer::new(0xfeed));
    read_inode(&mut store, ino).expect("memory").expect("whole").direct[0]
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    for (block, fragment) in UNITS {
        let findings = checked(&mut empty(block, fragment));
        assert!(findings.is_clean(), "{block}/{fragment}: {findings}");
        assert_eq!((findings.inodes, findings.directories, findings.fragments), (1, 1, 1));
        let mut cells = sample(block, fragment);
        let findings = checked(&mut cells);
        assert!(findings.is_clean(), "{block}/{fragment}: {findings}");
        assert_eq!((findings.inodes, findings.directories), (9, 3));
        assert_eq!(repaired(&mut cells), RepairReport::default());
    }
}

#[test]
fn a_block_claimed_twice_names_both_owners() {
    let (findings, _) = found(|cells, geometry| {
        let address = direct(cells, geometry, SMALL);
        change_inode(cells, geometry, LONG, |inode| inode.direct[0] = address);
    });
    let is_it = |finding: &Finding| {
        matches!(finding, Finding::Duplicate { ino: LONG, other: SMALL, index: 0, .. })
    };
    assert!(findings.list.iter().any(is_it), "{findings}");
}

/// Each owner of a block claimed twice keeps what the block holds; the report says who lost it if
/// there is no space for a copy.
#[test]
fn each_owner_of_a_block_gets_a_copy() {
    let geometry = geometry(8192, 4096);
    let mut cells = sample(8192, 4096);
    let address = direct(&mut cells, &geometry, SMALL);
    change_inode(&mut cells, &geometry, LONG, |inode| inode.direct[0] = address);
    let block = geometry.place_of(address).block * 2;
    MediumDisk(&mut cells).write(block, Data::stamp(1, 1, 2)).expect("memory");
    let content = |cells: &mut Cells, ino| {
        let place = geometry.place_of(direct(cells, &geometry, ino));
        let mut disk = MediumDisk(cells);
        let mut store = Store::new(&mut disk, geometry.clone(), crate::ffs::Sealer::new(0xfeed));
        store.read(place.block, 1).expect("memory")[place.at..place.at + 4096].to_vec()
    };
    let before = content(&mut cells, SMALL);
    assert!(before.iter().any(|&byte| byte != 0), "the sample has content there");
    let report = repaired(&mut cells);
    assert!(report.lost.is_empty(), "{report:?}");
    assert_ne!(direct(&mut cells, &geometry, LONG), direct(&mut cells, &geometry, SMALL));
    assert_eq!(content(&mut cells, SMALL), before);
    assert_eq!(content(&mut cells, LONG), before);
}

/// A damaged sector of addresses costs content: the report names the file and the bytes.
#[test]
fn a_repair_names_what_files_have_lost() {
    let geometry = geometry(8192, 4096);
    let all = metadata(&geometry);
    let indirect = all.into_iter().find(|one| one.1 == Some(SealKind::Indirect));
    let (sector, _) = indirect.expect("the sample has an indirect block");
    let mut cells = sample(8192, 4096);
    overwrite(&mut cells, sector, &[0xa5; SECTOR_BYTES], None);
    let report = repaired(&mut cells);
    let [lost] = &report.lost[..] else { panic!("{report:?}") };
    assert!(lost.starts_with('/') && lost.contains("read as zeros"), "{lost}");
}

/// Of two names of a directory the one to which `..` leads stays, in whatever order they come.
#[test]
fn the_name_that_the_dots_confirm_stays() {
    let kind = FileKind::Directory;
    for (dir, name, ino, stays) in [(ROOT as u32, "old", INNER, DIR), (INNER, "x", DIR, 2)] {
        let (findings, mut cells) = found(|cells, geometry| {
            let place = geometry.place_of(direct(cells, geometry, dir));
            change(cells, geometry, place, SealKind::Directory, |chunk| {
                assert!(entries::add(chunk, ino, kind, name.as_bytes()));
            });
        });
        let is_it = |finding: &Finding| match finding {
            Finding::DirectoryTwice { dir: named, ino: other, .. } => {
                (*named, *other) == (dir, ino)
            }
            _ => false,
        };
        assert!(findings.list.iter().any(is_it), "{dir}: {findings}");
        let known = examine(&mut MediumDisk(&mut cells)).expect("clean").known;
        assert_eq!(known.folders[&ino].parent, stays, "{dir}");
    }
}

#[test]
fn impossible_addresses_are_found() {
    for address in [1, 8, u32::MAX, u32::MAX - 1, 2047] {
        let (findings, _) = found(|cells, geometry| {
            change_inode(cells, geometry, SMALL, |inode| inode.direct[0] = address);
        });
        let is_it = |finding: &Finding| matches!(finding, Finding::BadAddress { ino: SMALL, .. });
        assert!(findings.list.iter().any(is_it), "{address}: {findings}");
    }
}

/// The rebuilt chunk has its dots where the damaged one had others.
#[test]
fn a_lost_dot_is_put_back_once() {
    for lost in [0, 12] {
        for own in [0_u32, 77] {
            let (findings, _) = found(|cells, geometry| {
                let place = geometry.place_of(direct(cells, geometry, ROOT as u32));
                change(cells, geometry, place, SealKind::Directory, |chunk| {
                    chunk[lost..lost + 4].copy_from_slice(&own.to_le_bytes());
                });
            });
            let is_it = |finding: &Finding| matches!(finding, Finding::BadDots { dir: 2, .. });
            let is_seen = findings.list.iter().any(is_it);
            assert!(is_seen || (lost, own) == (12, 77), "{lost} {own}: {findings}");
            assert!(!findings.is_clean(), "{lost} {own}");
        }
    }
}

#[test]
fn link_counts_have_a_direction() {
    for (links, severity) in [(1, Severity::Repairable), (3, Severity::Harmless)] {
        let (findings, _) = found(|cells, geometry| {
            change_inode(cells, geometry, LINKED, |inode| inode.links = links);
        });
        let right = Finding::WrongLinks { ino: LINKED, stored: links, right: 2 };
        assert_eq!(findings.list, [right]);
        assert_eq!(findings.worst(), Some(severity));
    }
}

#[test]
fn a_leak_is_harmless_and_a_used_block_marked_free_is_not() {
    let flip = |which: fn(&Geometry, u32) -> u32| {
        found(move |cells, geometry| {
            let used = direct(cells, geometry, SMALL);
            let bit = geometry.fragment_bit(which(geometry, used));
            let place = Place { block: bit.block, at: bit.at };
            let at = bit.at % SECTOR_BYTES;
            change(cells, geometry, place, SealKind::Map, |sector| sector[at] ^= bit.mask);
        })
        .0
    };
    let leak = flip(|geometry, _| geometry.metadata_of(1).end);
    assert_eq!(leak.worst(), Some(Severity::Harmless));
    let lost = flip(|_, used| used);
    assert_eq!(lost.worst(), Some(Severity::Repairable));
    assert_eq!(lost.list[0].invariant(), Some(4));
    let is_it = |finding: &Finding| {
        matches!(finding, Finding::WrongBits { what: Bitmap::Fragments, lost: 1, leaked: 0, .. })
    };
    assert!(lost.list.iter().any(is_it), "{lost}");
}

/// The names in `lost+found`.
fn names_found(cells: &mut Cells) -> Vec<String> {
    let Examined { superblock, known, .. } = examine(&mut MediumDisk(cells)).expect("readable");
    let mut disk = MediumDisk(cells);
    let mut store =
        Store::new(&mut disk, superblock.geometry().expect("made"), superblock.sealer());
    let mut names = Vec::new();
    let root = known.folders.iter().filter(|(_, folder)| folder.parent == ROOT as u32);
    for dir in root.map(|(&ino, _)| ino).filter(|&ino| ino != ROOT as u32) {
        let chunks =
            crate::ffs::offline::check::names::chunks_of(&mut store, &known, dir).expect("memory");
        for place in chunks {
            let bytes = store.read(place.block, 1).expect("memory");
            let chunk = &bytes[place.at..place.at + 504];
            let all = entries::entries(chunk).expect("well formed");
            let orphans = all.iter().filter(|entry| entry.name.starts_with(b"#"));
            names.extend(orphans.map(|entry| String::from_utf8_lossy(entry.name).into_owned()));
        }
    }
    names
}

#[test]
fn what_a_lost_directory_held_is_found_again() {
    let (findings, mut cells) = found(|cells, geometry| {
        change_inode(cells, geometry, DIR, |inode| inode.mode = 0);
    });
    assert!(findings.list.iter().any(|finding| finding.invariant() == Some(1)), "{findings}");
    let names = names_found(&mut cells);
    assert_eq!(names, ["#5", "#7", "#9", "#10", "#11"]);
}

/// The number of a removed file was used again for a directory, and the removal of the old name was
/// lost. The root, where that name is, comes first.
#[test]
fn of_two_names_of_a_directory_the_one_stays_that_its_dots_agree_with() {
    let (findings, mut cells) = found(|cells, geometry| {
        let root = geometry.place_of(direct(cells, geometry, ROOT as u32));
        let second = Place { at: root.at + SECTOR_BYTES, ..root };
        change(cells, geometry, second, SealKind::Directory, |chunk| {
            chunk[..4].copy_from_slice(&INNER.to_le_bytes());
        });
    });
    let is_it = |finding: &Finding| {
        let Finding::DirectoryTwice { dir: 2, name, ino: INNER, .. } = finding else {
            return false;
        };
        name == b"small"
    };
    assert!(findings.list.iter().any(is_it), "{findings}");
    let paths: Vec<String> = tree(&mut cells).into_iter().map(|one| one.0).collect();
    assert!(paths.contains(&"/dir/inner/two".to_string()), "{paths:?}");
    assert!(!paths.contains(&"/small".to_string()), "{paths:?}");
}

#[test]
fn a_lost_root_is_made_anew() {
    let (findings, mut cells) = found(|cells, geometry| {
        change_inode(cells, geometry, ROOT as u32, |inode| inode.mode = 0);
    });
    assert!(findings.list.contains(&Finding::NoRoot), "{findings}");
    // LINKED keeps its other name, in INNER.
    assert_eq!(names_found(&mut cells), ["#4", "#6"]);
}

#[test]
fn a_ring_of_directories_is_opened() {
    let (findings, mut cells) = found(|cells, geometry| {
        // DIR loses its name in the root and gets one in INNER, its child.
        let root = direct(cells, geometry, ROOT as u32);
        let inner = direct(cells, geometry, INNER);
        let place = geometry.place_of(root);
        change(cells, geometry, place, SealKind::Directory, |chunk| {
            let all = entries::entries(chunk).expect("well formed");
            let at = all.iter().find(|entry| entry.ino == DIR).expect("a name").at;
            entries::remove(chunk, at);
        });
        change(cells, geometry, geometry.place_of(inner), SealKind::Directory, |chunk| {
            assert!(entries::add(chunk, DIR, FileKind::Directory, b"up"));
        });
    });
    assert!(findings.list.iter().any(|finding| matches!(finding, Finding::Cycle { .. })));
    assert_eq!(names_found(&mut cells).len(), 1);
}

#[test]
fn many_nameless_files_go_to_more_than_one_directory() {
    let geometry = geometry(4096, 1024);
    let mut cells = sample(4096, 1024);
    for ino in 20..120 {
        change_inode(&mut cells, &geometry, ino, |inode| {
            *inode = Inode { mode: 0o100_600, links: 1, size: 10, ..Inode::default() };
        });
    }
    let report = repaired(&mut cells);
    let nameless = |finding: &&Finding| matches!(finding, Finding::Nameless { .. });
    assert_eq!(report.repaired.iter().filter(nameless).count(), 100);
    assert_eq!(names_found(&mut cells).len(), 100);
}

/// The other dot is not a finding of its own, whose repair would remove the new one.
#[test]
fn a_lost_dot_does_not_cost_the_other_one_in_each_round() {
    let (findings, _) = found(|cells, geometry| {
        let place = geometry.place_of(direct(cells, geometry, DIR));
        change(cells, geometry, place, SealKind::Directory, |chunk| {
            chunk[..4].fill(0);
        });
    });
    let [Finding::BadDots { dir: DIR, .. }] = findings.list[..] else { panic!("{findings}") };
}

#[test]
fn a_lost_superblock_comes_back_and_the_state_is_marked() {
    let mut cells = sample(8192, 4096);
    MediumDisk(&mut cells).write(16, Data::zeros(1)).expect("memory");
    let report = repaired(&mut cells);
    assert_eq!(report.repaired, [Finding::Superblock { at: 32 << 10 }]);
    assert!(report.marked_clean);
}

#[test]
fn truncated_and_foreign_images_are_errors() {
    let mut cells = sample(8192, 4096);
    let bytes = bytes_of(&mut cells);
    for blocks in [1_u64, 17, 24, 400, 2047] {
        let mut short = Cells::new(blocks);
        let part = bytes::Bytes::copy_from_slice(&bytes[..blocks as usize * 4096]);
        MediumDisk(&mut short).write(0, Data::bytes(part)).expect("memory");
        let error = check(&mut MediumDisk(&mut short)).expect_err("too short");
        assert!(matches!(error, FsError::Truncated { .. } | FsError::Foreign), "{error}");
    }
}

/// Everything that a name leads to: path and inode, links and sectors left out.
pub(super) fn tree(cells: &mut Cells) -> Vec<(String, Inode)> {
    let Examined { superblock, known, .. } = examine(&mut MediumDisk(cells)).expect("readable");
    let mut disk = MediumDisk(cells);
    let geometry = superblock.geometry().expect("made");
    let mut store = Store::new(&mut disk, geometry, superblock.sealer());
    let mut all = Vec::new();
    let mut next = vec![(ROOT as u32, String::new())];
    while let Some((ino, path)) = next.pop() {
        let inode = read_inode(&mut store, ino).expect("memory").expect("whole");
        all.push((path.clone(), Inode { links: 0, sectors: 0, ..inode }));
        if !known.folders.contains_key(&ino) {
            continue;
        }
        for place in
            crate::ffs::offline::check::names::chunks_of(&mut store, &known, ino).expect("memory")
        {
            let bytes = store.read(place.block, 1).expect("memory");
            let entries = entries::entries(&bytes[place.at..place.at + 504]).expect("well formed");
            for entry in entries.iter().filter(|entry| entry.ino != 0 && entry.name[0] != b'.') {
                next.push((entry.ino, format!("{path}/{}", entry.name.escape_ascii())));
            }
        }
    }
    all
}

#[test]
fn the_repair_of_what_is_harmless_changes_nothing_that_a_name_leads_to() {
    let geometry = geometry(8192, 4096);
    let mut cells = sample(8192, 4096);
    let before = tree(&mut cells);
    assert_eq!(before.len(), 10);
    let block = geometry.metadata_of(1).end;
    change_inode(&mut cells, &geometry, 30, |inode| {
        *inode = Inode { mode: 0o100_600, links: 0, size: 8192, ..Inode::default() };
        inode.direct[0] = block;
        inode.sectors = 16;
    });
    change_inode(&mut cells, &geometry, DIR, |inode| inode.links += 1);
    change_inode(&mut cells, &geometry, SMALL, |inode| inode.sectors += 8);
    for group in 1..4 {
        let place = geometry.header_of(group);
        change(&mut cells, &geometry, place, SealKind::Map, |header| header[32] ^= 1);
        let bit = geometry.fragment_bit(geometry.metadata_of(group).end + 9);
        let (place, at) = (Place { block: bit.block, at: bit.at }, bit.at % SECTOR_BYTES);
        change(&mut cells, &geometry, place, SealKind::Map, |sector| sector[at] |= bit.mask);
    }
    // The leaked inode uses what is marked free, which no ordered policy leaves.
    let is_lost = |finding: &Finding| matches!(finding, Finding::WrongBits { lost: 1.., .. });
    let findings = checked(&mut cells);
    let rest = findings.list.iter().filter(|finding| !is_lost(finding));
    assert!(rest.clone().count() >= 8, "{findings}");
    assert!(rest.clone().all(|finding| finding.severity() == Severity::Harmless), "{findings}");
    repaired(&mut cells);
    assert_eq!(tree(&mut cells), before);
}

/// The sectors of a sample that hold metadata, with their kind. Free blocks may have seals, too.
fn metadata(geometry: &Geometry) -> Vec<(u64, Option<SealKind>)> {
    let mut cells = sample(8192, 4096);
    let known = examine(&mut MediumDisk(&mut cells)).expect("readable").known;
    let in_fragment = (geometry.fragment_bytes() / SECTOR_BYTES) as u64;
    let bytes = bytes_of(&mut cells);
    let sealer = crate::ffs::Sealer::new(0xfeed);
    let kinds = [
        SealKind::Superblock,
        SealKind::Map,
        SealKind::Inodes,
        SealKind::Indirect,
        SealKind::Directory,
    ];
    let sectors = (0_u64..).zip(bytes.chunks_exact(SECTOR_BYTES));
    let end = geometry.blocks() * geometry.sectors_per_block() as u64;
    let kind = |(at, sector): (u64, &[u8])| {
        let kind = kinds.into_iter().find(|&kind| sealer.is_whole(sector, at, kind))?;
        (at < end && known.is_claimed((at / in_fragment) as u32)).then_some((at, Some(kind)))
    };
    sectors.filter_map(kind).collect()
}

/// Replaces the content of a sector; with a kind it is sealed again.
fn overwrite(cells: &mut Cells, sector: u64, content: &[u8], kind: Option<SealKind>) {
    let mut disk = MediumDisk(cells);
    let block = sector / BLOCK_SECTORS;
    let mut bytes = disk.read(block, 1).expect("memory").to_bytes().to_vec();
    let at = (sector % BLOCK_SECTORS) as usize * SECTOR_BYTES;
    bytes[at..at + content.len()].copy_from_slice(content);
    if let Some(kind) = kind {
        let sealer = crate::ffs::Sealer::new(0xfeed);
        sealer.set(&mut bytes[at..at + SECTOR_BYTES], sector, kind, 1);
    }
    disk.write(block, Data::bytes(bytes::Bytes::from(bytes))).expect("memory");
}

#[test]
fn each_lost_sector_is_repaired() {
    let geometry = geometry(8192, 4096);
    let all = metadata(&geometry);
    let kinds: BTreeSet<_> = all.iter().map(|(_, kind)| *kind).collect();
    assert_eq!(kinds.len(), 5, "each kind of metadata");
    let image = sample(8192, 4096);
    for (sector, kind) in all {
        let mut cells = image.clone();
        overwrite(&mut cells, sector, &[0xa5; SECTOR_BYTES], None);
        let findings = checked(&mut cells);
        assert!(!findings.is_clean(), "{kind:?} at {sector} is not missed");
        repaired(&mut cells);
    }
}

#[test]
fn a_repair_that_is_cut_is_finished_by_the_next() {
    let geometry = geometry(8192, 4096);
    let mut damaged = sample(8192, 4096);
    change_inode(&mut damaged, &geometry, DIR, |inode| inode.mode = 0);
    change_inode(&mut damaged, &geometry, SMALL, |inode| inode.direct[1] = 3);
    MediumDisk(&mut damaged).write(16, Data::zeros(1)).expect("memory");
    let mut cuts = 0;
    loop {
        let mut medium = CutMedium::new(damaged.clone());
        medium.die_after(cuts);
        let done = repair(&mut MediumDisk(&mut medium)).is_ok();
        let mut cells = medium.contents();
        repaired(&mut cells);
        assert_eq!(names_found(&mut cells), ["#5", "#7", "#9", "#10", "#11"], "cut {cuts}");
        if done {
            break;
        }
        cuts += 1;
    }
    assert!(cuts > 10, "there were {cuts} writes");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Content that no program writes, under valid seals: check ends, and repair leaves nothing.
    #[test]
    fn any_content_of_metadata_is_repaired(
        picks in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..500), 1..5),
        bytes in prop::collection::vec(any::<u8>(), 1..64),
        sealed in any::<bool>(),
    ) {
        let geometry = geometry(8192, 4096);
        let all = metadata(&geometry);
        let mut cells = sample(8192, 4096);
        for (pick, from) in picks {
            let (sector, kind) = *pick.get(&all);
            // A superblock with a valid seal and other sizes is another file system.
            if sealed && kind == Some(SealKind::Superblock) {
                continue;
            }
            let mut disk = MediumDisk(&mut cells);
            let block = disk.read(sector / BLOCK_SECTORS, 1).expect("memory").to_bytes();
            let start = (sector % BLOCK_SECTORS) as usize * SECTOR_BYTES;
            let mut content = block[start..start + 504].to_vec();
            let end = (from + bytes.len()).min(504);
            content[from..end].copy_from_slice(&bytes[..end - from]);
            overwrite(&mut cells, sector, &content, kind.filter(|_| sealed));
        }
        if checked(&mut cells).list.len() < 10_000 {
            repaired(&mut cells);
        }
    }

    /// Addresses and sizes near those that exist, which damage checks of ranges do not catch.
    #[test]
    fn plausible_inodes_are_repaired(
        edits in prop::collection::vec((4_u32..12, 0_usize..15, 0_u32..2048, any::<u8>()), 1..8),
    ) {
        let geometry = geometry(8192, 1024);
        let mut cells = sample(8192, 1024);
        let first = geometry.metadata_of(0).end;
        for (ino, slot, address, how) in edits {
            change_inode(&mut cells, &geometry, ino, |inode| match how {
                0..150 if slot < 12 => inode.direct[slot] = first + address % 200,
                0..150 => inode.indirect[slot - 12] = first + address % 200,
                150..200 => inode.size = u64::from(address) * 100,
                200..230 => inode.links = address as u16 % 5,
                _ => inode.flags = u32::from(how) % 2,
            });
        }
        repaired(&mut cells);
    }
}
