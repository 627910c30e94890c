//! `mkfs`: makes an empty file system on a volume.
//!
//! The old superblock goes first and the new one is written last, each behind a flush. So a crash
//! leaves the old file system, none, or the new one. Only the maps of each group and the first
//! inodes are written; the rest of the inode tables is initialised when it is used.

use crate::error::FsError;
use crate::ffs::journal::file::LogFile;
use crate::ffs::journal::place::{self, Divided};
use crate::ffs::offline::store::Store;
use crate::ffs::ondisk::entries;
use crate::ffs::ondisk::format::{
    FIRST_INODE, LogPlace, MOST_LABEL, Optimisation, Recovery, SPARE_COPIES, SUPERBLOCK_AT, State,
    Superblock,
};
use crate::ffs::ondisk::geometry::{
    Fragment, GROUP_UNIT, Geometry, MOST_GROUP, MOST_GROUP_INODES, Place, STAGGER_GROUPS, STAGGERS,
    Sizes,
};
use crate::ffs::ondisk::group::{Counters, GroupHeader};
use crate::ffs::ondisk::inode::{INODE_BYTES, Inode, SECTOR_INODES};
use crate::ffs::ondisk::seal::SealKind;
use crate::log;
use crate::options::MkfsOptions;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::size::Size;
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use seekless_fs::call::{ROOT, Timestamp};
use seekless_fs::tx::SECTOR_CONTENT;
use std::fmt;
use std::ops::Range;

/// Fragments of a group unless the options say otherwise: eight sectors of bits.
const GROUP_FRAGMENTS: u32 = 8 * 4032;
const _: () = assert!((GROUP_FRAGMENTS as u64 * 512).is_multiple_of(GROUP_UNIT));
const _: () = assert!(GROUP_FRAGMENTS as u64 * 8192 <= MOST_GROUP);
/// Bytes of the smallest volume.
const LEAST_BYTES: u64 = 1 << 20;

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsReport {
    /// The superblock.
    pub superblock: Superblock,
    /// Groups.
    pub groups: u32,
    /// Inodes that files may have.
    pub inodes: u32,
    /// Bytes that files may have.
    pub data_bytes: u64,
    /// Bytes at the end of the volume that are not used.
    pub unused_bytes: u64,
}

impl fmt::Display for MkfsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sizes { block_bytes, fragment_bytes, .. } = self.superblock.sizes;
        let MkfsReport { groups, inodes, .. } = self;
        let data = Size::from_blocks(self.data_bytes / BLOCK_BYTES as u64);
        let s = if *groups == 1 { "" } else { "s" };
        write!(
            f,
            "FFS with {data} for data and {inodes} inodes: {groups} group{s}, \
             blocks of {block_bytes} and fragments of {fragment_bytes} bytes"
        )?;
        let log = u64::from(self.superblock.log.fragments) * u64::from(fragment_bytes);
        if log > 0 {
            write!(f, ", a log of {}", Size::from_blocks(log / BLOCK_BYTES as u64))?;
        }
        if self.unused_bytes > 0 {
            write!(f, "; the last {} bytes are not used", self.unused_bytes)?;
        }
        Ok(())
    }
}

/// Makes a file system.
///
/// # Errors
/// Options that are not possible, a volume that is too small, errors of the volume.
pub fn mkfs(disk: &mut dyn Disk, options: &MkfsOptions) -> Result<MkfsReport, FsError> {
    check_options(options)?;
    let volume = disk.blocks() * BLOCK_BYTES as u64;
    let Divided { own, log } = place::divide(volume, options)?;
    let geometry = plan(own, options).map_err(|error| match error {
        FsError::TooSmall { needed, .. } => {
            FsError::TooSmall { needed: needed + (volume - own), found: volume }
        }
        other => other,
    })?;
    let log = place::in_file(&geometry, log, options)?;
    let superblock = superblock_of(*geometry.sizes(), options, log);
    let log_file = LogFile::of(&superblock)?;
    let mut store = Store::new(disk, geometry.clone(), superblock.sealer());

    let first = SUPERBLOCK_AT / u64::from(options.block);
    store.write(first, vec![0; geometry.block_bytes()])?;
    store.erase_spares()?;
    log::erase(store.disk())?;
    store.flush(Edge::MkfsEmpty)?;
    for group in 0..geometry.groups() {
        write_maps(&mut store, group, log_file.as_ref(), options.now)?;
    }
    write_root(&mut store, options)?;
    if let Some(file) = &log_file {
        file.write_indirect(&mut store)?;
        file.write_inode(&mut store)?;
    }
    place::write_new(store.disk(), &superblock, options.journal_unit)?;
    store.flush(Edge::MkfsSpares)?;
    for block in (1..geometry.groups()).filter_map(|group| geometry.superblock_of(group)) {
        store.write_superblock(&superblock, block, 0)?;
    }
    store.complete_spares(&superblock)?;
    store.flush(Edge::MkfsFirst)?;
    store.write_superblock(&superblock, first, 0)?;
    store.flush(Edge::MkfsEnd)?;
    let in_file = log_file.map_or(0, |file| file.fragments.len() as u64);
    Ok(report(&geometry, superblock, (own, in_file)))
}

/// `own` are the bytes of the volume without those of a log behind the file system, `in_file` the
/// fragments of a log in a file.
fn report(geometry: &Geometry, superblock: Superblock, (own, in_file): (u64, u64)) -> MkfsReport {
    let reserved = if geometry.groups() == 1 { geometry.block_bytes() as u64 } else { 0 };
    let data: u64 = (0..geometry.groups()).map(|g| u64::from(geometry.data_fragments(g))).sum();
    MkfsReport {
        superblock,
        groups: geometry.groups(),
        inodes: geometry.inodes() - FIRST_INODE,
        data_bytes: (data - in_file) * geometry.fragment_bytes() as u64,
        unused_bytes: (own - geometry.bytes()).saturating_sub(reserved),
    }
}

fn check_options(options: &MkfsOptions) -> Result<(), FsError> {
    let refuse = |reason: String| Err(FsError::BadOption(reason));
    let MkfsOptions { minfree, bytes_per_inode, .. } = *options;
    if options.label.len() > MOST_LABEL || options.label.contains(&0) {
        return refuse(format!("the label is too long; use at most {MOST_LABEL} bytes"));
    }
    if options.inodes.is_some() {
        return refuse("FFS has inodes in each group; use --bytes-per-inode".to_owned());
    }
    if minfree > 50 {
        return refuse(format!("{minfree} % free space is too much; use 0 to 50 %"));
    }
    if bytes_per_inode < 512 {
        return refuse(format!("{bytes_per_inode} bytes per inode are too few; use at least 512"));
    }
    let is_group =
        |bytes: u64| bytes != 0 && bytes.is_multiple_of(GROUP_UNIT) && bytes <= MOST_GROUP;
    if let Some(bytes) = options.group.filter(|&bytes| !is_group(bytes)) {
        return refuse(format!(
            "a group of {bytes} bytes is not possible; use a multiple of 256 KiB, at most 1 GiB"
        ));
    }
    Ok(())
}

/// Sizes for a volume of so many bytes.
fn plan(volume: u64, options: &MkfsOptions) -> Result<Geometry, FsError> {
    if volume < LEAST_BYTES {
        return Err(FsError::TooSmall { needed: LEAST_BYTES, found: volume });
    }
    let MkfsOptions { block, fragment, .. } = *options;
    // The units are checked before anything is divided by them.
    let probe = Sizes {
        block_bytes: block,
        fragment_bytes: fragment,
        fragments: 0,
        fragments_per_group: 0,
        inodes_per_group: 0,
        stagger: 0,
    };
    crate::ffs::ondisk::geometry::check_units(&probe).map_err(FsError::BadOption)?;
    let per_block = block / fragment;
    let fragments = volume / u64::from(block) * u64::from(per_block);
    let most = u64::from(u32::MAX / per_block * per_block);
    if fragments > most {
        let bytes = most * u64::from(fragment);
        return Err(FsError::BadOption(format!(
            "the volume has {volume} bytes, fragments of {fragment} reach {bytes}; use larger \
             fragments"
        )));
    }
    let mut fragments = fragments as u32;
    let behind = volume - u64::from(fragments) * u64::from(fragment);
    if group_fragments(options, fragments) == fragments && behind < BLOCK_BYTES as u64 {
        // A file system of one group leaves room for a copy of its superblock.
        fragments -= per_block;
    }
    let group = group_fragments(options, fragments);
    let inodes_per_group = inodes_per_group(options, group, fragments.div_ceil(group));
    let stagger = stagger(u64::from(group) * u64::from(fragment)) / fragment;
    let sizes = Sizes { fragments, fragments_per_group: group, inodes_per_group, stagger, ..probe };
    Geometry::new(sizes).or_else(|reason| {
        // The last group may be too short for its metadata: leave it out.
        let fragments = fragments / group * group;
        let shorter = Sizes { fragments, ..sizes };
        Geometry::new(shorter).map_err(|_| {
            FsError::BadOption(format!("{reason}; use larger groups, or fewer inodes"))
        })
    })
}

fn group_fragments(options: &MkfsOptions, fragments: u32) -> u32 {
    let wanted = options.group.map_or(GROUP_FRAGMENTS, |bytes| {
        // Both limits of a group hold: 1 GiB has at most 2^21 fragments of 512 bytes.
        (bytes / u64::from(options.fragment)) as u32
    });
    wanted.min(fragments)
}

/// Bytes of the stagger for groups of so many bytes: a cycle takes at most a quarter of a group.
fn stagger(group: u64) -> u32 {
    let steps = u64::from(STAGGER_GROUPS) - 1;
    let fits = STAGGERS.into_iter().filter(|stagger| stagger * steps <= group / 4);
    fits.max().unwrap_or(0) as u32
}

fn inodes_per_group(options: &MkfsOptions, group: u32, groups: u32) -> u32 {
    let in_block = options.block / SECTOR_BYTES as u32 * SECTOR_INODES as u32;
    let bytes = u64::from(group) * u64::from(options.fragment);
    let wanted = bytes.div_ceil(u64::from(options.bytes_per_inode));
    let most = MOST_GROUP_INODES.min(u32::MAX / groups) / in_block * in_block;
    let wanted = wanted.next_multiple_of(u64::from(in_block));
    wanted.min(u64::from(most.max(in_block))) as u32
}

fn superblock_of(sizes: Sizes, options: &MkfsOptions, log: LogPlace) -> Superblock {
    Superblock {
        compatible: SPARE_COPIES,
        read_only: 0,
        incompatible: 0,
        id: options.id,
        sizes,
        minfree: options.minfree,
        optimisation: Optimisation::Time,
        state: State::Clean,
        recovery: Recovery::None,
        policy: options.policy.into(),
        maxcontig: 65_536 / sizes.block_bytes,
        mounted_with: None,
        maxbpg: sizes.block_bytes / 4,
        mounts: 0,
        made: options.now,
        mounted: 0,
        written: options.now,
        log,
        label: options.label.clone(),
    }
}

/// Fragments of a group that are in use in an empty file system: metadata with the root directory,
/// and the file of the log.
fn used_fragments(geometry: &Geometry, group: u32, log: Option<&LogFile>) -> [Range<Fragment>; 2] {
    let metadata = geometry.metadata_of(group);
    let root = u32::from(group == 0);
    let file = log.map(|file| file.fragments.clone());
    let file = file.filter(|file| geometry.group_of_fragment(file.start) == group);
    [metadata.start..metadata.end + root, file.unwrap_or_default()]
}

fn write_maps(
    store: &mut Store<'_>,
    group: u32,
    log: Option<&LogFile>,
    now: Timestamp,
) -> Result<(), FsError> {
    let geometry = store.geometry.clone();
    let sizes = *geometry.sizes();
    let mut maps = vec![0; geometry.map_blocks() as usize * geometry.block_bytes()];
    let mut set = |bit: crate::ffs::ondisk::geometry::Bit| {
        let block = (bit.block - geometry.maps_of(group)) as usize;
        maps[block * geometry.block_bytes() + bit.at] |= bit.mask;
    };
    let used = used_fragments(&geometry, group, log);
    let rotor = used[0].end - geometry.group_start(group);
    // The file of the log is whole blocks, so what is left of blocks is as without it.
    let free =
        geometry.group_fragments(group) - used.iter().map(|one| one.len() as u32).sum::<u32>();
    used.into_iter().flatten().for_each(|fragment| set(geometry.fragment_bit(fragment)));
    let reserved = if group == 0 { FIRST_INODE } else { 0 };
    (0..reserved).for_each(|ino| set(geometry.inode_bit(ino)));
    // Bits behind the end of a short last group stay clear: they belong to no fragment.
    let header = GroupHeader {
        number: group,
        written: now,
        block_rotor: rotor,
        fragment_rotor: rotor,
        inode_rotor: reserved,
        counters: Counters {
            directories: u32::from(group == 0),
            free_blocks: free / geometry.fragments_per_block(),
            free_fragments: free % geometry.fragments_per_block(),
            free_inodes: sizes.inodes_per_group - reserved,
        },
        initialised: if group == 0 { geometry.inodes_per_block() } else { 0 },
    };
    header.encode(&mut maps);
    let first = geometry.sector_of(geometry.header_of(group));
    store.sealer.set_all(&mut maps, first, SealKind::Map, 0);
    store.write(geometry.maps_of(group), maps)
}

fn write_root(store: &mut Store<'_>, options: &MkfsOptions) -> Result<(), FsError> {
    let geometry = store.geometry.clone();
    let body = geometry.metadata_of(0).end;
    let mut direct = [0; crate::ffs::ondisk::inode::DIRECT];
    direct[0] = body;
    let root = Inode {
        mode: 0o040_755,
        links: 2,
        uid: options.uid,
        gid: options.gid,
        generation: 1,
        size: geometry.fragment_bytes() as u64,
        sectors: (geometry.fragment_bytes() / SECTOR_BYTES) as u32,
        atime: options.now,
        mtime: options.now,
        ctime: options.now,
        btime: options.now,
        direct,
        ..Inode::default()
    };
    let mut table = vec![0; geometry.block_bytes()];
    let place = geometry.inode_place(ROOT as u32);
    table[place.at..place.at + INODE_BYTES].copy_from_slice(&root.encode());
    let first = geometry.sector_of(Place { block: place.block, at: 0 });
    store.sealer.set_all(&mut table, first, SealKind::Inodes, 0);
    store.write(place.block, table)?;

    // The whole block of the root is written, of which it owns the first fragment.
    let mut chunks = vec![0; geometry.block_bytes()];
    for chunk in chunks.chunks_exact_mut(SECTOR_BYTES) {
        entries::format_empty(&mut chunk[..SECTOR_CONTENT]);
    }
    entries::format_first(&mut chunks, ROOT as u32, ROOT as u32);
    let place = geometry.place_of(body);
    debug_assert_eq!(place.at, 0, "data begins with a block");
    store.sealer.set_all(&mut chunks, geometry.sector_of(place), SealKind::Directory, 0);
    store.write(place.block, chunks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffs::offline::superblocks::load;
    use crate::ffs::ondisk::format::BOOT_COPY_AT;
    use seekless_engine::device::medium::Cells;
    use seekless_engine::disk::MediumDisk;

    fn made(bytes: u64, options: &MkfsOptions) -> Result<MkfsReport, FsError> {
        let mut cells = Cells::new(bytes / BLOCK_BYTES as u64);
        mkfs(&mut MediumDisk(&mut cells), options)
    }

    #[test]
    fn sizes_from_a_mebibyte_to_terabytes_are_possible() {
        for (block, fragment) in [(8192, 4096), (8192, 1024), (4096, 1024), (4096, 4096)] {
            let options = MkfsOptions { block, fragment, ..MkfsOptions::default() };
            for bytes in [1 << 20, (1 << 20) + 4096, 127 << 20, 128 << 20, 1 << 30] {
                let report = made(bytes, &options).expect("possible");
                assert!(report.data_bytes * 10 > bytes * 7, "{report}");
                assert!(report.unused_bytes < 1 << 22, "{report}");
            }
        }
        let report = made(1 << 40, &MkfsOptions::default()).expect("possible");
        assert_eq!(report.groups, 8323);
    }

    #[test]
    fn impossible_options_say_what_to_do() {
        let base = MkfsOptions::default();
        let refused = |options: MkfsOptions, bytes| match made(bytes, &options) {
            Err(error) => error.to_string(),
            Ok(report) => panic!("made {report}"),
        };
        let megabytes = 16 << 20;
        for (options, bytes, remedy) in [
            (MkfsOptions { block: 1000, ..base.clone() }, megabytes, "possible"),
            (MkfsOptions { fragment: 0, ..base.clone() }, megabytes, "possible"),
            (MkfsOptions { minfree: 90, ..base.clone() }, megabytes, "use 0 to 50"),
            (MkfsOptions { label: vec![65; 33], ..base.clone() }, megabytes, "at most 32"),
            (MkfsOptions { bytes_per_inode: 1, ..base.clone() }, megabytes, "at least 512"),
            (MkfsOptions { group: Some(65_536), ..base.clone() }, megabytes, "multiple of 256 KiB"),
            (base.clone(), 4096, "larger volume"),
        ] {
            let message = refused(options, bytes);
            assert!(message.contains(remedy), "{message}");
        }
    }

    #[test]
    fn each_copy_is_found_when_those_before_it_are_lost() {
        for (group, stagger) in [(256 << 10, 0), (1 << 20, 32 << 10), (4 << 20, 128 << 10)] {
            let mut cells = Cells::new(group * 8 / BLOCK_BYTES as u64);
            let label = b"x".to_vec();
            let options =
                MkfsOptions { group: Some(group), id: 77, label, ..MkfsOptions::default() };
            let made = mkfs(&mut MediumDisk(&mut cells), &options).expect("possible");
            let mut disk = MediumDisk(&mut cells);
            let places = [0, 8, 1, 3, 5, 7].map(|number| match number {
                0 => SUPERBLOCK_AT,
                8 => BOOT_COPY_AT,
                number => number * (group + stagger),
            });
            for at in places {
                let found = load(&mut disk).expect("a copy is left");
                assert_eq!((found.at, &found.superblock), (at, &made.superblock));
                let zeros = seekless_engine::data::Data::zeros(2);
                disk.write(at / BLOCK_BYTES as u64, zeros).expect("memory");
            }
            assert_eq!(load(&mut disk), Err(FsError::Foreign));
        }
    }

    /// A volume may grow behind the file system: no copy is missed then.
    #[test]
    fn a_volume_that_grows_keeps_the_copies() {
        let mut cells = Cells::new(4096);
        mkfs(&mut MediumDisk(&mut cells), &MkfsOptions::default()).expect("possible");
        let mut grown = Cells::new(6000);
        let content = MediumDisk(&mut cells).read(0, 4096).expect("memory");
        MediumDisk(&mut grown).write(0, content).expect("memory");
        let findings = crate::ffs::check(&mut MediumDisk(&mut grown)).expect("it is whole");
        assert_eq!((findings.superblocks, findings.list.len()), (3, 0), "{findings}");
    }

    /// A file system of one group has three copies, the last of them behind its end.
    #[test]
    fn a_small_file_system_has_three_copies_far_apart() {
        for bytes in [1_u64 << 20, (1 << 20) + 4096, 16 << 20, 127 << 20] {
            let mut cells = Cells::new(bytes / BLOCK_BYTES as u64);
            let made =
                mkfs(&mut MediumDisk(&mut cells), &MkfsOptions::default()).expect("possible");
            assert_eq!(made.groups, 1);
            let mut disk = MediumDisk(&mut cells);
            let findings = crate::ffs::check(&mut disk).expect("it is whole");
            assert_eq!((findings.superblocks, findings.list.len()), (3, 0));
            let end = made.superblock.geometry().expect("made").bytes();
            assert!(end < bytes, "{end} of {bytes}");
            for at in [SUPERBLOCK_AT, BOOT_COPY_AT, end] {
                let found = load(&mut disk).expect("a copy is left");
                assert_eq!((found.at, &found.superblock), (at, &made.superblock));
                let zeros = seekless_engine::data::Data::zeros(1);
                disk.write(at / BLOCK_BYTES as u64, zeros).expect("memory");
            }
            assert_eq!(load(&mut disk), Err(FsError::Foreign));
        }
    }

    /// No two copies lie at the same place of a track, whatever power of two a track has.
    #[test]
    fn copies_of_a_usual_volume_lie_apart() {
        let report = made(2 << 30, &MkfsOptions::default()).expect("possible");
        let geometry = report.superblock.geometry().expect("made");
        let at = |group| geometry.superblock_of(group).map(|block| block * 8192 % (1 << 20));
        let places: std::collections::BTreeSet<_> = [0, 1, 3, 5, 7].map(at).into();
        assert_eq!(places.len(), 5, "{places:?}");
    }

    #[test]
    fn a_short_volume_is_refused() {
        let mut cells = Cells::new(4096);
        mkfs(&mut MediumDisk(&mut cells), &MkfsOptions::default()).expect("possible");
        let mut short = Cells::new(2048);
        let head = MediumDisk(&mut cells).read(0, 2048).expect("memory");
        let mut disk = MediumDisk(&mut short);
        disk.write(0, head).expect("memory");
        assert!(matches!(load(&mut disk), Err(FsError::Truncated { .. })));
    }
}
