//! Checking and printing what a map says.

use super::Mapped;
use super::read::verify;
use seekless_engine::checksum::Sums;
use seekless_engine::disk::Disk;
use seekless_engine::io::Expected;
use seekless_engine::layout::CheckReport;
use seekless_engine::units::BlockNr;

/// Reads every stored block and compares it with the map, of which `entries` are those of the
/// blocks from 0 on. Returns how many are stored.
pub fn stored<E: Mapped>(
    entries: impl Iterator<Item = E>,
    sums: Sums,
    disk: &mut dyn Disk,
    report: &mut CheckReport,
) -> u64 {
    let mut stored = 0;
    for (block, entry) in (0..).zip(entries).filter(|(_, entry)| entry.is_mapped()) {
        stored += 1;
        if !disk.is_asked(u64::from(entry.place()), 1) {
            continue;
        }
        let outcome = disk
            .read_expecting(u64::from(entry.place()), Expected::one(sums, entry.checksum()))
            .and_then(|data| verify(sums, std::slice::from_ref(&entry), data, block));
        if let Err(error) = outcome {
            let place = entry.place();
            let problem = format!("block {block} (device block {place}): {error}");
            report.damage(u64::from(place), problem);
        }
    }
    stored
}

/// How many stored blocks from `from` on, which is stored, lie behind each other, up to the end of
/// a volume of `blocks` blocks.
pub fn run<E: Mapped>(from: BlockNr, blocks: u64, get: impl Fn(BlockNr) -> E) -> u64 {
    let first = u64::from(get(from).place());
    let follows = |count: &u64| {
        let entry = get(from + count);
        !(entry.is_mapped() && u64::from(entry.place()) == first + count)
    };
    (1..blocks - from).find(follows).unwrap_or(blocks - from)
}
