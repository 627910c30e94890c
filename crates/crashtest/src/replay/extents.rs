//! Ranges of bytes and where their content lies: the newest one on top.

use crate::record::tape::Payload;
use std::collections::BTreeMap;

/// Where the bytes of a range are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    end: u64,
    source: Payload,
}

/// Ranges that do not overlap, by their first byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents(BTreeMap<u64, Extent>);

impl Extents {
    /// Puts the bytes `start..end` on top of what is there.
    pub fn insert(&mut self, start: u64, end: u64, source: Payload) {
        if start >= end {
            return;
        }
        // What begins before and reaches in loses its end, or its middle.
        if let Some((&first, &extent)) = self.0.range(..start).next_back()
            && extent.end > start
        {
            self.0.insert(first, Extent { end: start, source: extent.source });
            if extent.end > end {
                let source = extent.source.skip(end - first);
                self.0.insert(end, Extent { end: extent.end, source });
            }
        }
        while let Some((&first, &extent)) = self.0.range(start..end).next() {
            self.0.remove(&first);
            if extent.end > end {
                let source = extent.source.skip(end - first);
                self.0.insert(end, Extent { end: extent.end, source });
            }
        }
        self.0.insert(start, Extent { end, source });
    }

    /// The ranges in `start..end` and their sources, in order.
    pub fn pieces(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64, Payload)> + '_ {
        let before = self.0.range(..start).next_back();
        let before = before.filter(|(_, extent)| start < end && extent.end > start);
        before.into_iter().chain(self.0.range(start..end.max(start))).map(
            move |(&first, extent)| {
                let from = first.max(start);
                (from, extent.end.min(end), extent.source.skip(from - first))
            },
        )
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::rng::Rng;

    #[test]
    fn the_newest_bytes_are_on_top() {
        const SPACE: usize = 200;
        for seed in 0..200 {
            let mut rng = Rng::stream(seed, "extents");
            let mut extents = Extents::default();
            let mut model = [None; SPACE];
            for turn in 0..30_u64 {
                let start = rng.below(SPACE as u64);
                let end = (start + rng.below(60)).min(SPACE as u64);
                let source = match rng.below(4) {
                    0 => Payload::Zeros,
                    _ => Payload::At(turn * 1000),
                };
                extents.insert(start, end, source);
                for at in start..end {
                    model[at as usize] = Some(source.skip(at - start));
                }
                let (from, to) = (rng.below(SPACE as u64), rng.below(SPACE as u64 + 1));
                let mut found = [None; SPACE];
                for (start, end, source) in extents.pieces(from, to) {
                    assert!(from <= start && start < end && end <= to, "{start}..{end}");
                    (start..end).for_each(|at| found[at as usize] = Some(source.skip(at - start)));
                }
                for at in from..to {
                    assert_eq!(found[at as usize], model[at as usize], "seed {seed}, byte {at}");
                }
            }
        }
    }
}
