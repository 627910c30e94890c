//! Metadata that no program writes, under valid seals: reads and writes end, the check ends, and
//! repair leaves nothing.
//!
//! `SEEKLESS_FORGED=100000 cargo test -p seekless-fs --test suite images::forged` runs that many
//! images.

use super::flips::{Image, Kind, write_everywhere};
use super::medium::{Shared, mount};
use super::tree::Files;
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::units::{BLOCK_SECTORS, SECTOR_BYTES};
use seekless_formats::FsError;
use seekless_formats::ffs::{Finding, check, repair};

/// Images of the test unless the environment says how many.
const IMAGES: u64 = 250;

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// Replaces a field of a sector by a number that means something elsewhere, and seals it.
fn forge(image: &Image, cells: &mut Cells, random: &mut Random) -> Kind {
    let (at, kind, seal) = image.sectors[random.below(image.sectors.len() as u64) as usize];
    let mut bytes = cells.read(at / BLOCK_SECTORS, 1).expect("memory").to_bytes().to_vec();
    let start = (at % BLOCK_SECTORS) as usize * SECTOR_BYTES;
    for _ in 0..=random.below(3) {
        let length = [1, 2, 4, 8][random.below(4) as usize];
        // Inodes begin at even offsets, and most fields lie at the begin of a sector.
        let span = [16, 128, 504][random.below(3) as usize];
        let offset = random.below(span) as usize / 2 * 2;
        let value = match random.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << random.below(64),
            3 | 4 => random.below(16),
            5 => random.below(4096),
            // The number of an inode, or the length of an entry.
            6 => random.below(120),
            _ => random.below(u64::MAX),
        };
        let end = (offset + length).min(504);
        bytes[start + offset..start + end].copy_from_slice(&value.to_le_bytes()[..end - offset]);
    }
    image.sealer.set(&mut bytes[start..start + SECTOR_BYTES], at, seal, 1);
    cells.write(at / BLOCK_SECTORS, &Data::bytes(bytes.into())).expect("memory");
    kind
}

/// Checks, repairs and checks. A forged superblock may be refused.
fn repairs(cells: &Cells, is_superblock: bool, what: &str) -> bool {
    let medium = Shared::new(cells.clone());
    let found = match medium.with_disk(|disk| check(disk)) {
        Ok(found) => found,
        Err(error) if is_superblock => {
            assert!(!matches!(error, FsError::Io(_)), "{what}: {error}");
            return false;
        }
        Err(error) => panic!("{what}: {error}"),
    };
    assert!(medium.cells() == *cells, "{what}: a check wrote");
    let repaired = medium.with_disk(|disk| repair(disk).map(|_| ()));
    let left = medium.with_disk(|disk| check(disk)).expect("it was readable");
    match repaired {
        Ok(()) => assert!(left.is_clean() && left.unmounted, "{what}: {found}\nleft {left}"),
        Err(FsError::NotRepaired { .. }) => {
            // A full file system has no room for what lost its name.
            let is_room =
                |finding: &Finding| matches!(finding, Finding::Nameless { .. } | Finding::NoRoot);
            assert!(left.list.iter().any(is_room), "{what}: {found}\nleft {left}");
        }
        Err(FsError::ReadOnlyFeatures(_)) if is_superblock => return false,
        Err(error) => panic!("{what}: {error}"),
    }
    if left.is_clean() {
        let mut files = Files(mount(&medium, false).expect("repaired"));
        files.wander();
        write_everywhere(&mut files);
        files.unmount();
        let left = medium.with_disk(|disk| check(disk)).expect("repaired");
        assert!(left.is_clean(), "{what}: after repair and writes: {left}");
    }
    !found.is_clean()
}

/// One image: read, written and repaired; repaired. True if the check found something.
fn run(image: &Image, seed: u64) -> bool {
    let mut random = Random(seed);
    let mut cells = image.cells.clone();
    let mut is_superblock = false;
    for _ in 0..=random.below(4) {
        let kind = forge(image, &mut cells, &mut random);
        is_superblock |= matches!(kind, Kind::Superblock | Kind::Copy);
    }
    let what = format!("seed {seed}");
    let medium = Shared::new(cells.clone());
    if let Ok(mounted) = mount(&medium, true) {
        let mut files = Files(mounted);
        files.wander();
        files.unmount();
        assert!(medium.cells() == cells, "{what}: a mount for reading wrote");
    }
    if let Ok(mounted) = mount(&medium, false) {
        let mut files = Files(mounted);
        write_everywhere(&mut files);
        files.wander();
        // Forged maps may end it with an error.
        drop(files.0.unmount());
        repairs(&medium.cells(), is_superblock, &what);
    }
    repairs(&cells, is_superblock, &what)
}

#[test]
fn forged_metadata_ends_in_errors_and_is_repaired() {
    let wanted = std::env::var("SEEKLESS_FORGED").ok().and_then(|count| count.parse().ok());
    let images = [Image::new(8192, 1024), Image::new(4096, 4096)];
    let mut found = 0;
    let count = wanted.unwrap_or(IMAGES);
    for seed in 0..count {
        found += u64::from(run(&images[seed as usize % 2], seed));
    }
    println!("{count} images, the check found something in {found}");
    assert!(found * 2 > count, "most forgeries matter: {found} of {count}");
}
