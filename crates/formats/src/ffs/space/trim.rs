//! Free space of a group as blocks of the volume, for a trim.

use crate::ffs::space::alloc::bits::Bits;
use crate::ffs::volume::Volume;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use seekless_fs::tx::{Stop, Tx};
use std::ops::Range;

/// The blocks of 4096 bytes of a group that are free as a whole, in runs of at least `least` bytes,
/// as far as they lie between two bytes of the volume. None of a group with damaged maps.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn free_space(
    tx: &mut dyn Tx,
    vol: &Volume,
    group: u32,
    (from, to): (u64, u64),
    least: u64,
) -> Result<Vec<Range<BlockNr>>, Stop> {
    if vol.is_closed(group) {
        return Ok(Vec::new());
    }
    let geometry = &vol.geometry;
    let bits = Bits::fragments(geometry, group);
    let start = u64::from(geometry.group_start(group));
    let fragment = geometry.fragment_bytes() as u64;
    let mut runs = Runs::default();
    bits.scan(tx, 0, u32::MAX, |base, word| {
        for bit in 0..u64::BITS {
            if word & 1 << bit == 0 {
                runs.add(start + u64::from(base + bit));
            }
        }
        None::<()>
    })?;
    let block = BLOCK_BYTES as u64;
    let blocks = |run: Range<u64>| {
        let first = (run.start * fragment).max(from).div_ceil(block);
        first..((run.end * fragment).min(to) / block).max(first)
    };
    let is_long = |run: &Range<u64>| !run.is_empty() && (run.end - run.start) * block >= least;
    Ok(runs.done.into_iter().map(blocks).filter(is_long).collect())
}

/// Numbers that come in order, as runs.
#[derive(Debug, Default)]
struct Runs {
    done: Vec<Range<u64>>,
}

impl Runs {
    fn add(&mut self, number: u64) {
        match self.done.last_mut() {
            Some(last) if last.end == number => last.end += 1,
            _ => self.done.push(number..number + 1),
        }
    }
}
