//! Sizes of volumes and devices that more than one layout computes.

use seekless_engine::layout::Layout;

/// The volume that leaves an eighth of itself to a layout that needs free space to work well.
pub(crate) fn with_an_eighth_left<L: Layout>(device: u64) -> u64 {
    L::largest_volume(device).min(device / 9 * 8)
}

/// The largest number up to `limit` that fits, where all that is smaller than what fits does too.
pub(crate) fn largest(limit: u64, fits: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, limit);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    low
}
