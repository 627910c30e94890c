//! The superblock lies on a device twice. A damaged copy is reported, and the next writable mount
//! rewrites it without a risk to the other one.

use seekless_engine::Bytes;
use seekless_engine::data::{Body, Data};
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::IoError;
use seekless_engine::layout::{FormatOptions, MountOptions};
use seekless_engine::units::BlockNr;
use seekless_layouts::Kind;
use seekless_layouts::read_superblock;

const BLOCKS: u64 = 100;

each_layout!(a_damaged_copy_is_reported_and_written_anew, power_cuts_never_take_both_copies);

fn volume(kind: Kind) -> Cells {
    let mut cells = Cells::new(kind.device_blocks(BLOCKS));
    let options = FormatOptions::new(kind, BLOCKS, 0x5eed);
    seekless_layouts::format(&mut MediumDisk(&mut cells), &options).expect("the sizes fit");
    cells
}

fn block(cells: &Cells, at: BlockNr) -> Vec<u8> {
    cells.clone().read(at, 1).expect("a block of the device").to_bytes().to_vec()
}

fn set(cells: &mut Cells, at: BlockNr, bytes: Vec<u8>) {
    cells.set(at, Body::Bytes(Bytes::from(bytes)));
}

/// Both copies, each with one of some bits flipped, or unreadable.
fn damaged(kind: Kind) -> impl Iterator<Item = (BlockNr, Cells, Cells)> {
    let whole = volume(kind);
    [0, whole.blocks() - 1].into_iter().flat_map(move |at| {
        let whole = whole.clone();
        [Some(0), Some(70), Some(333), Some(20_000), Some(32_767), None].map(|bit| {
            let mut cells = whole.clone();
            match bit {
                Some(bit) => {
                    let mut bytes = block(&cells, at);
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    set(&mut cells, at, bytes);
                }
                None => cells.lose(at),
            }
            (at, whole.clone(), cells)
        })
    })
}

fn problems(cells: &mut Cells) -> Vec<String> {
    seekless_layouts::check(&mut MediumDisk(cells)).expect("one copy is whole").2.problems
}

fn a_damaged_copy_is_reported_and_written_anew(kind: Kind) {
    for (at, whole, mut cells) in damaged(kind) {
        let before = cells.clone();
        let found = problems(&mut cells);
        let named = format!("block {at} holds no whole copy of the superblock");
        assert!(matches!(&found[..], [one] if one.starts_with(&named)), "{kind}: {found:?}");
        let read_only = MountOptions { read_only: true, ..MountOptions::default() };
        seekless_layouts::mount(&mut MediumDisk(&mut cells), &read_only)
            .expect("one copy is whole");
        assert!(cells == before, "{kind}: who only reads has written");
        seekless_layouts::mount(&mut MediumDisk(&mut cells), &MountOptions::default())
            .expect("mounts");
        for copy in [0, whole.blocks() - 1] {
            assert!(block(&cells, copy) == block(&whole, copy), "{kind}: block {copy}");
        }
        assert_eq!(problems(&mut cells), Vec::<String>::new(), "{kind}");
    }
}

/// The power fails in the middle of a write, which is torn.
struct Dying<'m> {
    below: MediumDisk<'m>,
    writes_left: u32,
}

impl Disk for Dying<'_> {
    fn blocks(&self) -> u64 {
        self.below.blocks()
    }
    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.below.read(at, count)
    }
    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        if self.writes_left > 0 {
            self.writes_left -= 1;
            return self.below.write(at, data);
        }
        let mut torn = self.below.read(at, 1).map_or(vec![0xee; 4096], |old| old.to_bytes().into());
        torn[..512].copy_from_slice(&data.to_bytes()[..512]);
        self.below.write(at, Data::bytes(Bytes::from(torn)))?;
        Err(IoError::Media { block: at })
    }
    fn flush(&mut self) -> Result<(), IoError> {
        Ok(())
    }
}

fn power_cuts_never_take_both_copies(kind: Kind) {
    for (at, _, cells) in damaged(kind) {
        for writes_left in 0.. {
            let mut cells = cells.clone();
            let mut disk = Dying { below: MediumDisk(&mut cells), writes_left };
            let died = seekless_layouts::mount(&mut disk, &MountOptions::default()).is_err();
            let found = read_superblock(&mut MediumDisk(&mut cells));
            assert!(found.is_ok(), "{kind}: {found:?} after {writes_left} writes, block {at}");
            seekless_layouts::mount(&mut MediumDisk(&mut cells), &MountOptions::default())
                .expect("mounts");
            assert_eq!(problems(&mut cells), Vec::<String>::new(), "{kind}");
            if !died {
                break;
            }
            assert!(writes_left < 20, "{kind} goes on writing");
        }
    }
}
