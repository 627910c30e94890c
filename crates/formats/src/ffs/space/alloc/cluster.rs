//! Runs of free blocks: a file that grows gets clusters of 64 KiB where there are any.

use crate::ffs::space::alloc::bits::{Bits, free_blocks};
use crate::ffs::volume::Volume;
use seekless_fs::tx::{Stop, Tx};

/// The first fragment (in its group) of `blocks` adjacent free blocks, searched from a fragment on
/// and then from the start. A search that finds none is not repeated until a block becomes free.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn find(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    group: u32,
    from: u32,
    blocks: u32,
) -> Result<Option<u32>, Stop> {
    if vol.group(group).free_blocks < blocks || !vol.may_have_run(group, blocks) {
        return Ok(None);
    }
    let per_block = vol.geometry.fragments_per_block();
    let bits = Bits::fragments(&vol.geometry, group);
    let from = from - from % per_block;
    let found = run(tx, bits, per_block, (from, u32::MAX), blocks)?;
    if found.is_some() {
        return Ok(found);
    }
    let until = from.saturating_add(blocks * per_block);
    let found = run(tx, bits, per_block, (0, until), blocks)?;
    if found.is_none() {
        vol.has_no_run(group, blocks);
    }
    Ok(found)
}

/// The first run of free blocks in a range.
fn run(
    tx: &mut dyn Tx,
    bits: Bits,
    per_block: u32,
    (from, to): (u32, u32),
    blocks: u32,
) -> Result<Option<u32>, Stop> {
    let wanted = blocks * per_block;
    // Where the current run begins, and where it would go on.
    let (mut start, mut next) = (from, from);
    bits.scan(tx, from, to, |base, word| {
        let mut free = free_blocks(word, per_block);
        if wanted == per_block && free != 0 {
            return Some(base + free.trailing_zeros());
        }
        while free != 0 {
            let bit = free.trailing_zeros();
            free &= free - 1;
            let at = base + bit;
            if at != next {
                start = at;
            }
            next = at + per_block;
            if next - start >= wanted {
                return Some(start);
            }
        }
        None
    })
}
