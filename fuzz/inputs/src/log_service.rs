//! The log as a service with any bytes in any of its sectors, under valid seals or not: read, and
//! continued where it can be.

use crate::log::{ID, damage};
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::disk::MediumDisk;
use seekless_engine::units::BLOCK_BYTES;
use seekless_formats::log::{Log, LogOptions, LogReader, Lsn};
use std::sync::OnceLock;

const BLOCKS: u64 = 32;

/// What a crash leaves that loses a write of a log with records in two epochs.
fn base() -> &'static Vec<u8> {
    static BASE: OnceLock<Vec<u8>> = OnceLock::new();
    BASE.get_or_init(|| {
        let mut cells = Cells::new(BLOCKS);
        let options = LogOptions { id: ID, unit: None };
        Log::create(MediumDisk(&mut cells), &options).expect("it is large enough");
        for lost in [4, 8] {
            let mut log = Log::open(MediumDisk(&mut cells)).expect("an undamaged log");
            for length in [0, 30, 700, 9000] {
                log.append(&vec![7; length]).expect("there is space");
            }
            drop(log);
            cells.write(lost, &Data::zeros(1)).expect("memory");
        }
        bytes(&mut cells)
    })
}

fn bytes(cells: &mut Cells) -> Vec<u8> {
    cells.read(0, BLOCKS as u32).expect("memory").to_bytes().to_vec()
}

/// What a fuzz target does with an input, beside the log of a file system.
pub fn run(input: &[u8]) {
    let mut range = base().clone();
    damage(&mut range, input);
    let mut cells = Cells::new(BLOCKS);
    for (at, block) in (0..).zip(range.chunks_exact(BLOCK_BYTES)) {
        cells.write(at, &Data::bytes(block.to_vec().into())).expect("memory");
    }
    if let Ok(mut reader) = LogReader::open(MediumDisk(&mut cells)) {
        let found: Vec<Lsn> =
            reader.records(Lsn(0)).map_while(Result::ok).map(|(at, _)| at).collect();
        assert!(found.is_sorted(), "positions grow");
    }
    let Ok(mut log) = Log::open(MediumDisk(&mut cells)) else { return };
    let Ok(at) = log.append(b"one more") else { return };
    log.sync().expect("memory");
    drop(log);
    let mut again = Log::open(MediumDisk(&mut cells)).expect("what goes on is whole");
    assert_eq!(again.read(at).as_deref(), Ok(&b"one more"[..]));
}
