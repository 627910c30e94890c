//! Making a file system: the superblock, the maps, the inodes, and a root directory.
//!
//! Bits of the maps that stand for nothing are set, as `mkfs.minix` does: a search of the kernel
//! for a free bit must not find them.

use crate::error::FsError;
use crate::minix::ondisk::entry::{self, ENTRY_BYTES};
use crate::minix::ondisk::geometry::{Geometry, Map, first_data_zone};
use crate::minix::ondisk::inode::{INODE_BYTES, Inode, ROOT_INODE, kind_bits, seconds};
use crate::minix::ondisk::superblock::{BLOCK_SIZES, MOST_FILE_BYTES, SUPERBLOCK_AT, Superblock};
use crate::options::MkfsOptions;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use seekless_fs::call::FileKind;
use seekless_fs::fields::put;
use seekless_fs::policy::PolicyKind;
use std::fmt;

/// The least zones for data: one for the root directory, and one for a file.
const LEAST_DATA: u64 = 2;

/// What was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MkfsReport {
    /// Where things lie.
    pub geometry: Geometry,
}

impl fmt::Display for MkfsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let geometry = self.geometry;
        let (zones, bytes) = (geometry.zones(), geometry.zone_bytes());
        write!(f, "Minix V3, {zones} blocks of {bytes} bytes, {} inodes", geometry.inodes())
    }
}

/// What this mkfs makes unless it is told otherwise: blocks of 4,096 bytes, and an inode for each
/// three of them, as `mkfs.minix` has it for its blocks.
pub fn defaults() -> MkfsOptions {
    MkfsOptions {
        block: 4096,
        fragment: 4096,
        bytes_per_inode: 3 * 4096,
        minfree: 0,
        ..MkfsOptions::default()
    }
}

fn bad<T>(why: impl Into<String>) -> Result<T, FsError> {
    Err(FsError::BadOption(why.into()))
}

/// Refuses what the format has no place for.
fn refuse(options: &MkfsOptions) -> Result<(), FsError> {
    if !BLOCK_SIZES.contains(&options.block) {
        return bad(format!("Minix has blocks of 1k, 2k or 4k, not of {} bytes", options.block));
    }
    if options.fragment != options.block && options.fragment != defaults().fragment {
        return bad("Minix has no fragments; leave out --fragment");
    }
    if !options.label.is_empty() {
        return bad("Minix has no place for a label; leave out --label");
    }
    if options.minfree != 0 {
        return bad("Minix keeps no space for root; leave out --minfree");
    }
    if options.policy != PolicyKind::Async {
        let policy = options.policy.name();
        return bad(format!("Minix has no place for a policy; mount with --policy {policy}"));
    }
    if options.journal.is_some() || options.journal_blocks.is_some() {
        return bad("Minix has no log; leave out --journal and --journal-size");
    }
    if options.group.is_some() {
        return bad("Minix has no groups");
    }
    Ok(())
}

/// The sizes for a volume: as many zones as it has, and maps that just hold them.
fn sizes(options: &MkfsOptions, bytes: u64) -> Result<Superblock, FsError> {
    let block = options.block;
    let zones = u32::try_from(bytes / u64::from(block)).unwrap_or(u32::MAX);
    let each = block / INODE_BYTES as u32;
    let wanted = match options.inodes {
        Some(0) => return bad("--inodes 0 leaves no inode for the root directory"),
        Some(inodes) => u64::from(inodes),
        None => (bytes / u64::from(options.bytes_per_inode.max(1))).max(u64::from(each)),
    };
    // The last zone of inodes is full of them, as mkfs.minix has it.
    let inodes = wanted.next_multiple_of(u64::from(each)).min(u64::from(u32::MAX - each));
    let inodes = inodes as u32;
    let bits = u64::from(block) * 8;
    let imap = (u64::from(inodes) + 1).div_ceil(bits);
    let mut zmap = 1;
    loop {
        let first = first_data_zone(block, inodes, (imap as u32, zmap));
        let data = u64::from(zones).saturating_sub(first);
        if data < LEAST_DATA {
            let needed = (first + LEAST_DATA) * u64::from(block);
            return Err(FsError::TooSmall { needed, found: bytes });
        }
        if (data + 1).div_ceil(bits) > u64::from(zmap) {
            zmap += 1;
            continue;
        }
        let narrow = (u16::try_from(imap), u16::try_from(zmap), u16::try_from(first));
        let (Ok(imap_blocks), Ok(zmap_blocks), Ok(first_data)) = narrow else {
            return bad(format!(
                "{inodes} inodes and the maps of {zones} blocks take {first} blocks, and Minix \
                 counts 65,535 of them; use --inodes or a larger --block"
            ));
        };
        return Ok(Superblock {
            inodes,
            imap_blocks,
            zmap_blocks,
            first_data,
            log_zone_size: 0,
            max_size: MOST_FILE_BYTES,
            zones,
            block_bytes: block as u16,
        });
    }
}

/// Makes a file system on all of a volume.
///
/// # Errors
/// [`FsError::BadOption`], [`FsError::TooSmall`], and errors of the volume.
pub fn mkfs(disk: &mut dyn Disk, options: &MkfsOptions) -> Result<MkfsReport, FsError> {
    refuse(options)?;
    let (uid, gid) = (u16::try_from(options.uid), u16::try_from(options.gid));
    let (Ok(uid), Ok(gid)) = (uid, gid) else {
        let (uid, gid) = (options.uid, options.gid);
        return bad(format!("Minix has owners up to 65,535, not {uid}:{gid}"));
    };
    let superblock = sizes(options, disk.blocks() * BLOCK_BYTES as u64)?;
    let geometry = Geometry::new(&superblock)?;
    let mut writer = Writer { disk, page: None };
    // What lies before the superblock, a boot block or one of another format, goes.
    let first = geometry.place_of(geometry.first_data());
    writer.zeros(0..first.page + 1)?;
    let (imap, zmap) = geometry.map_zones();
    map(&mut writer, &geometry, geometry.imap(), imap)?;
    map(&mut writer, &geometry, geometry.zmap(), zmap)?;
    let now = seconds(options.now);
    let mut root = Inode {
        mode: kind_bits(FileKind::Directory) | 0o755,
        links: 2,
        uid,
        gid,
        size: 2 * ENTRY_BYTES as u32,
        atime: now,
        mtime: now,
        ctime: now,
        ..Inode::default()
    };
    root.zones[0] = geometry.first_data();
    let place = geometry.inode_place(ROOT_INODE);
    writer.put(place.page * BLOCK_BYTES as u64 + place.at as u64, &root.encode())?;
    let mut dots = vec![0; geometry.zone_bytes()];
    put(&mut dots, 0, &entry::encode(ROOT_INODE, b"."));
    put(&mut dots, ENTRY_BYTES, &entry::encode(ROOT_INODE, b".."));
    writer.put(u64::from(geometry.first_data()) * geometry.zone_bytes() as u64, &dots)?;
    writer.flush(Edge::MkfsFirst)?;
    writer.put(SUPERBLOCK_AT as u64, &superblock.encode())?;
    writer.flush(Edge::MkfsEnd)?;
    Ok(MkfsReport { geometry })
}

/// Writes a map in which bit 0, bit 1 and what stands for nothing are set. Bit 1 is the root: its
/// inode, and its zone.
fn map(writer: &mut Writer<'_>, geometry: &Geometry, map: Map, zones: u32) -> Result<(), FsError> {
    let zone_bytes = geometry.zone_bytes();
    for zone in 0..zones {
        let mut bytes = vec![0_u8; zone_bytes];
        let first = u64::from(zone) * u64::from(map.zone_bits);
        for bit in 0..map.zone_bits {
            let number = first + u64::from(bit);
            if number < 2 || number >= u64::from(map.bits) {
                bytes[bit as usize / 8] |= 1 << (bit % 8);
            }
        }
        writer.put(u64::from(map.first + zone) * zone_bytes as u64, &bytes)?;
    }
    Ok(())
}

/// Writes bytes that are smaller than a page: it reads the page, and keeps the last one.
struct Writer<'d> {
    disk: &'d mut dyn Disk,
    page: Option<(BlockNr, Vec<u8>)>,
}

impl Writer<'_> {
    /// Makes pages zeros.
    fn zeros(&mut self, pages: std::ops::Range<BlockNr>) -> Result<(), FsError> {
        const MOST: u64 = 256;
        let mut at = pages.start;
        while at < pages.end {
            let count = (pages.end - at).min(MOST);
            self.disk.write(at, Data::zeros(count as u32))?;
            at += count;
        }
        Ok(())
    }

    fn put(&mut self, at: u64, bytes: &[u8]) -> Result<(), FsError> {
        let (number, within) = (at / BLOCK_BYTES as u64, (at % BLOCK_BYTES as u64) as usize);
        if self.page.as_ref().is_none_or(|(page, _)| *page != number) {
            self.write()?;
            self.page = Some((number, self.disk.read(number, 1)?.to_bytes().to_vec()));
        }
        if let Some((_, page)) = &mut self.page {
            put(page, within, bytes);
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), FsError> {
        if let Some((number, page)) = self.page.take() {
            self.disk.write(number, Data::bytes(page.into()))?;
        }
        Ok(())
    }

    fn flush(&mut self, edge: Edge) -> Result<(), FsError> {
        self.write()?;
        Ok(self.disk.flush_for(edge)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::minix::load;
    use seekless_engine::device::medium::Cells;
    use seekless_engine::disk::MediumDisk;

    fn made(blocks: u64, options: &MkfsOptions) -> Result<(Cells, MkfsReport), FsError> {
        let mut cells = Cells::new(blocks);
        let report = mkfs(&mut MediumDisk(&mut cells), options)?;
        assert_eq!(load(&mut MediumDisk(&mut cells)), Ok(report.geometry));
        Ok((cells, report))
    }

    #[test]
    fn the_sizes_of_mkfs_minix_come_out_where_its_choices_are_made() {
        let options = MkfsOptions { block: 1024, bytes_per_inode: 3072, ..defaults() };
        let (_, report) = made(1024, &options).expect("4 MiB are enough");
        // As `mkfs.minix -3` of util-linux has it for 4,096 blocks.
        assert_eq!((report.geometry.inodes(), report.geometry.first_data()), (1376, 90));
        assert_eq!(report.to_string(), "Minix V3, 4096 blocks of 1024 bytes, 1376 inodes");
    }

    #[test]
    fn the_smallest_volume_holds_a_root_and_a_file() {
        let error = made(4, &defaults()).expect_err("too small");
        assert_eq!(error, FsError::TooSmall { needed: 7 * 4096, found: 4 * 4096 });
        assert!(made(7, &defaults()).is_ok());
    }

    #[test]
    fn what_the_format_has_no_place_for_is_refused() {
        let refused =
            |options: MkfsOptions| made(256, &options).expect_err("it is not possible").to_string();
        let label = MkfsOptions { label: b"x".to_vec(), ..defaults() };
        assert!(refused(label).contains("--label"));
        let policy = MkfsOptions { policy: PolicyKind::Atomic, ..defaults() };
        assert!(refused(policy).contains("mount with --policy atomic"));
        let fragment = MkfsOptions { fragment: 1024, ..defaults() };
        assert!(refused(fragment).contains("--fragment"));
        let block = MkfsOptions { block: 8192, ..defaults() };
        assert!(refused(block).contains("1k, 2k or 4k"));
        let owner = MkfsOptions { uid: 65_536, ..defaults() };
        assert!(refused(owner).contains("65536:0"));
        let none = MkfsOptions { inodes: Some(0), ..defaults() };
        assert!(refused(none).contains("--inodes 0"));
        let many = MkfsOptions { block: 1024, inodes: Some(1 << 21), ..defaults() };
        let error = made(1 << 18, &many).expect_err("the table is too long").to_string();
        assert!(error.contains("65,535"), "{error}");
    }
}
