//! Random writes to a disk alone, in units of any number of sectors (claim D20).

use crate::sim::Target;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::io::{Io, IoError, Part};
use seekless_engine::rng::Rng;
use seekless_engine::units::{BLOCK_BYTES, SECONDS, SECTOR_BYTES};
use seekless_fs::block::plain::Plain;

/// Why there is no rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RawError {
    /// A size that cannot be written.
    #[error("{0} bytes are neither sectors of one block nor whole blocks")]
    Size(u64),
    /// A write failed.
    #[error(transparent)]
    Io(#[from] IoError),
}

/// MB (10^6 bytes) per second of writes of `each` bytes at uniformly random places aligned to that,
/// one after the other, until `all` bytes are written.
///
/// # Errors
/// [`RawError::Size`]; what the disk reports.
pub fn random_writes(target: &Target, each: u64, all: u64, seed: u64) -> Result<f64, RawError> {
    let block = BLOCK_BYTES as u64;
    let is_part =
        each > 0 && block.is_multiple_of(each) && each.is_multiple_of(SECTOR_BYTES as u64);
    let is_whole = each > 0 && each.is_multiple_of(block);
    if !is_part && !is_whole {
        return Err(RawError::Size(each));
    }
    let blocks = u32::try_from(each.div_ceil(block)).map_err(|_| RawError::Size(each))?;
    let sectors = (each / SECTOR_BYTES as u64) as u32;
    let device = target.device(Box::new(Cells::new(target.blocks())));
    let (mut node, mut now) = (Plain::node(device), 0);
    let mut rng = Rng::stream(seed, "raw writes");
    let writes = (all / each).max(1);
    for _ in 0..writes {
        let place = rng.below(target.blocks() * block / each);
        let io = Io::write(0, place * each / block, Data::zeros(blocks));
        let first = (place * each % block / SECTOR_BYTES as u64) as u32;
        let part = (each < block).then_some(Part { first, sectors });
        node.run(&mut now, Io { part, ..io })?;
    }
    let seconds = now as f64 / SECONDS as f64;
    Ok((writes * each) as f64 / 1e6 / seconds.max(f64::MIN_POSITIVE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_writes_are_faster_and_odd_ones_are_refused() {
        let spec = seekless_disk::specs::find("st19101").expect("built in");
        let target = Target::disk(&spec, None).expect("it can be simulated");
        let rate = |each| random_writes(&target, each, 400 << 10, 1);
        let rates = [1024, 4096, 32 << 10].map(|each| rate(each).expect("nothing fails"));
        assert!(rates[0] * 3.0 < rates[1] && rates[1] * 3.0 < rates[2], "{rates:?}");
        for odd in [0, 100, 1536, 5000] {
            assert_eq!(rate(odd), Err(RawError::Size(odd)));
        }
    }
}
