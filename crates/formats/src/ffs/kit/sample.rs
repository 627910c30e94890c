//! A file system with some of everything, for tests.
//!
//! The builder writes inodes, directories and indirect blocks itself, not through the operations,
//! and lets the code of phase 5 compute the maps.

use crate::ffs::offline::check::{examine, write_group};
use crate::ffs::offline::mkfs::mkfs;
use crate::ffs::offline::store::Store;
use crate::ffs::ondisk::entries;
use crate::ffs::ondisk::format::address_offset;
use crate::ffs::ondisk::geometry::{Fragment, Geometry, Place};
use crate::ffs::ondisk::inode::{INODE_BYTES, Inode, type_bits};
use crate::ffs::ondisk::seal::{SealKind, Sealer};
use crate::options::MkfsOptions;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::MediumDisk;
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use seekless_fs::call::{FileKind, ROOT};
use seekless_fs::tx::SECTOR_CONTENT;

/// Inodes of the sample.
pub(crate) const DIR: u32 = 4;
pub(crate) const INNER: u32 = 5;
pub(crate) const SMALL: u32 = 6;
pub(crate) const LARGE: u32 = 7;
pub(crate) const LINKED: u32 = 8;
pub(crate) const SHORT: u32 = 9;
pub(crate) const LONG: u32 = 10;
pub(crate) const PIPE: u32 = 11;

/// Options of small groups.
pub(crate) fn options(block: u32, fragment: u32) -> MkfsOptions {
    MkfsOptions { block, fragment, group: Some(2 << 20), id: 0xfeed, ..MkfsOptions::default() }
}

/// A medium of 8 MiB with an empty file system.
pub(crate) fn empty(block: u32, fragment: u32) -> Cells {
    let mut cells = Cells::new((8 << 20) / BLOCK_BYTES as u64);
    mkfs(&mut MediumDisk(&mut cells), &options(block, fragment)).expect("possible");
    cells
}

struct Builder<'b> {
    store: Store<'b>,
    next: Fragment,
}

impl Builder<'_> {
    /// Allocates whole blocks in the first group, one behind the other.
    fn block(&mut self) -> Fragment {
        self.next += self.store.geometry.fragments_per_block();
        assert!(self.store.geometry.is_data(self.next, 1));
        self.next
    }

    fn sealed(&mut self, address: Fragment, kind: SealKind, mut bytes: Vec<u8>) {
        let place = self.store.geometry.place_of(address);
        let first = self.store.geometry.sector_of(place);
        self.store.sealer.set_all(&mut bytes, first, kind, 0);
        self.store.write(place.block, bytes).expect("memory");
    }

    fn put(&mut self, ino: u32, inode: &Inode) {
        let place = self.store.geometry.inode_place(ino);
        let edit = |sector: &mut [u8], _| {
            let at = place.at % SECTOR_BYTES;
            sector[at..at + INODE_BYTES].copy_from_slice(&inode.encode());
        };
        self.store.edit(place, SealKind::Inodes, edit).expect("memory");
    }

    /// An indirect block with these addresses.
    fn indirect(&mut self, addresses: &[Fragment]) -> Fragment {
        let mut bytes = vec![0; self.store.geometry.block_bytes()];
        for (index, address) in addresses.iter().enumerate() {
            bytes[address_offset(index)..][..4].copy_from_slice(&address.to_le_bytes());
        }
        let at = self.block();
        self.sealed(at, SealKind::Indirect, bytes);
        at
    }

    fn directory(&mut self, ino: u32, parent: u32, links: u16, names: &[(u32, FileKind, &str)]) {
        let block_bytes = self.store.geometry.block_bytes();
        let mut bytes = vec![0; block_bytes];
        for chunk in bytes.chunks_exact_mut(SECTOR_BYTES) {
            entries::format_empty(chunk);
        }
        entries::format_first(&mut bytes, ino, parent);
        for (number, &(ino, kind, name)) in names.iter().enumerate() {
            let chunk = &mut bytes[number % 2 * SECTOR_BYTES..][..SECTOR_CONTENT];
            assert!(entries::add(chunk, ino, kind, name.as_bytes()));
        }
        let mut inode = new(FileKind::Directory, links, block_bytes as u64);
        inode.direct[0] = self.block();
        inode.sectors = (block_bytes / SECTOR_BYTES) as u32;
        self.sealed(inode.direct[0], SealKind::Directory, bytes);
        self.put(ino, &inode);
    }

    fn files(&mut self) {
        let unit = (self.store.geometry.fragment_bytes() / SECTOR_BYTES) as u32;
        let in_block = self.store.geometry.sectors_per_block() as u32;
        let block = self.store.geometry.block_bytes() as u64;
        let each = self.store.geometry.addresses_per_block() as u64;
        let mut small = new(FileKind::File, 1, block + 100);
        small.direct[0] = self.block();
        small.direct[1] = self.block();
        small.sectors = in_block + unit;
        self.put(SMALL, &small);
        let mut large = new(FileKind::File, 1, (12 + each + 5) * block);
        large.direct[3] = self.block();
        let data = [self.block(), self.block(), 0, self.block()];
        large.indirect[0] = self.indirect(&data);
        let below = [self.block(), 0, self.block()];
        let below = self.indirect(&below);
        large.indirect[1] = self.indirect(&[below]);
        large.sectors = 9 * in_block;
        self.put(LARGE, &large);
        self.put(LINKED, &new(FileKind::File, 2, 0));
        let mut short = new(FileKind::Symlink, 1, 3);
        short.direct[0] = u32::from_le_bytes(*b"abc\0");
        self.put(SHORT, &short);
        let mut long = new(FileKind::Symlink, 1, 400);
        long.direct[0] = self.block();
        long.sectors = unit;
        self.put(LONG, &long);
        self.put(PIPE, &new(FileKind::Fifo, 1, 0));
    }
}

fn new(kind: FileKind, links: u16, size: u64) -> Inode {
    Inode { mode: type_bits(kind) | 0o644, links, size, generation: 1, ..Inode::default() }
}

/// A medium with directories, files, links and symbolic links: nothing is wrong with it.
pub(crate) fn sample(block: u32, fragment: u32) -> Cells {
    let mut cells = empty(block, fragment);
    let mut disk = MediumDisk(&mut cells);
    let geometry = geometry(block, fragment);
    let next = geometry.metadata_of(0).end;
    let store = Store::new(&mut disk, geometry.clone(), Sealer::new(0xfeed));
    let mut builder = Builder { store, next };
    let (file, dir) = (FileKind::File, FileKind::Directory);
    let names = [(DIR, dir, "dir"), (SMALL, file, "small"), (LINKED, file, "one")];
    builder.directory(ROOT as u32, ROOT as u32, 3, &names);
    let names = [
        (INNER, dir, "inner"),
        (LARGE, file, "large"),
        (SHORT, FileKind::Symlink, "short"),
        (LONG, FileKind::Symlink, "long"),
        (PIPE, FileKind::Fifo, "a pipe with a longer name"),
    ];
    builder.directory(DIR, ROOT as u32, 3, &names);
    builder.directory(INNER, DIR, 2, &[(LINKED, file, "two")]);
    builder.files();
    let known = examine(&mut disk).expect("readable").known;
    let mut store = Store::new(&mut disk, geometry.clone(), Sealer::new(0xfeed));
    for group in 0..geometry.groups() {
        write_group(&mut store, &known, group).expect("memory");
    }
    cells
}

/// The geometry of the samples.
pub(crate) fn geometry(block: u32, fragment: u32) -> Geometry {
    let mut cells = empty(block, fragment);
    let found = crate::ffs::offline::superblocks::load(&mut MediumDisk(&mut cells)).expect("made");
    found.superblock.geometry().expect("made")
}

/// Changes the content of a sealed sector and seals it again.
pub(crate) fn change(
    cells: &mut Cells,
    geometry: &Geometry,
    place: Place,
    kind: SealKind,
    change: impl FnOnce(&mut [u8]),
) {
    let mut disk = MediumDisk(cells);
    let mut store = Store::new(&mut disk, geometry.clone(), Sealer::new(0xfeed));
    store.edit(place, kind, |content, _| change(content)).expect("memory");
}

/// Changes an inode.
pub(crate) fn change_inode(
    cells: &mut Cells,
    geometry: &Geometry,
    ino: u32,
    edit: impl FnOnce(&mut Inode),
) {
    let place = geometry.inode_place(ino);
    change(cells, geometry, place, SealKind::Inodes, |sector| {
        let at = place.at % SECTOR_BYTES;
        let mut inode = Inode::decode(&sector[at..at + INODE_BYTES]);
        edit(&mut inode);
        sector[at..at + INODE_BYTES].copy_from_slice(&inode.encode());
    });
}
