//! Free space of a part of the map as blocks of the volume, for a trim.

use super::bits;
use crate::minix::volume::Volume;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use seekless_fs::tx::{Stop, Tx};
use std::ops::Range;

/// Parts of the map: a zone of it each.
pub fn parts(vol: &Volume) -> u64 {
    u64::from(vol.geometry.zmap().zones())
}

/// The blocks of 4,096 bytes of a part of the map that are free as a whole, in runs of at least
/// `least` bytes, as far as they lie between two bytes of the volume.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn free_space(
    tx: &mut dyn Tx,
    vol: &Volume,
    part: u32,
    (from, to): (u64, u64),
    least: u64,
) -> Result<Vec<Range<BlockNr>>, Stop> {
    let geometry = vol.geometry;
    let (map, bytes) = (geometry.zmap(), geometry.zone_bytes() as u64);
    let first = (part * map.zone_bits).max(1);
    let end = (part + 1).saturating_mul(map.zone_bits).min(map.bits);
    let mut runs: Vec<Range<u64>> = Vec::new();
    for bit in first..end {
        let zone = geometry.zone_of(bit);
        if bits::is_zone_free(tx, vol, zone)? {
            match runs.last_mut() {
                Some(last) if last.end == u64::from(zone) => last.end += 1,
                _ => runs.push(u64::from(zone)..u64::from(zone) + 1),
            }
        }
    }
    let block = BLOCK_BYTES as u64;
    let blocks = |run: Range<u64>| {
        let first = (run.start * bytes).max(from).div_ceil(block);
        first..((run.end * bytes).min(to) / block).max(first)
    };
    let is_long = |run: &Range<u64>| !run.is_empty() && (run.end - run.start) * block >= least;
    Ok(runs.into_iter().map(blocks).filter(is_long).collect())
}
