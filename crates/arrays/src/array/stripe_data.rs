//! What is to be written to a stripe: runs of blocks that do not overlap; later ones win.

use seekless_engine::data::Data;
use std::collections::BTreeMap;

/// Runs by their first block in the stripe's data, none of them across the end of a chunk.
#[derive(Clone, Debug, Default)]
pub struct StripeData {
    runs: BTreeMap<u32, Data>,
}

impl StripeData {
    /// Puts blocks in, over what is there.
    pub fn insert(&mut self, at: u32, data: Data) {
        debug_assert!(data.blocks() > 0, "a run of no blocks");
        let end = at + data.blocks();
        while let Some((&from, _)) = self.runs.range(..end).next_back() {
            let old = &self.runs[&from];
            let until = from + old.blocks();
            if until <= at {
                break;
            }
            let old = self.runs.remove(&from).expect("it was just found");
            if from < at {
                self.runs.insert(from, old.slice(0, at - from));
            }
            if until > end {
                self.runs.insert(end, old.slice(end - from, until - end));
            }
        }
        self.runs.insert(at, data);
    }

    /// Blocks in all runs.
    pub fn blocks(&self) -> u32 {
        self.runs.values().map(Data::blocks).sum()
    }

    /// The runs in chunk `index` of `chunk` blocks, by row; those that meet are one.
    pub fn chunk(&self, index: usize, chunk: u32) -> Vec<(u32, Data)> {
        let first = index as u32 * chunk;
        let mut out: Vec<(u32, Data)> = Vec::new();
        for (&at, data) in self.runs.range(first..first + chunk) {
            let row = at - first;
            match out.last_mut() {
                Some((last, run)) if *last + run.blocks() == row => run.append(data.clone()),
                _ => out.push((row, data.clone())),
            }
        }
        out
    }

    /// The rows from the first to behind the last that any run has.
    pub fn rows(&self, chunk: u32) -> (u32, u32) {
        let span = |(at, data): (&u32, &Data)| (at % chunk, at % chunk + data.blocks());
        let join = |a: (u32, u32), b: (u32, u32)| (a.0.min(b.0), a.1.max(b.1));
        self.runs.iter().map(span).reduce(join).unwrap_or((0, 0))
    }
}

/// Lays runs over `base`, which begins at row `first`.
pub fn overlay(first: u32, base: &Data, runs: &[(u32, Data)]) -> Data {
    let end = first + base.blocks();
    let mut out = Data::none();
    let mut row = first;
    for (at, data) in runs {
        out.append(base.slice(row - first, at - row));
        out.append(data.clone());
        row = at + data.blocks();
    }
    out.append(base.slice(row - first, end - row));
    debug_assert_eq!(out.blocks(), base.blocks(), "runs lie over the base, in order");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::rng::Rng;

    #[test]
    fn later_runs_win_block_by_block() {
        let mut rng = Rng::stream(3, "spread");
        for _ in 0..300 {
            let mut stripe_data = StripeData::default();
            let mut plain = vec![None; 24];
            for version in 1..8 {
                let chunk = rng.below(3) as u32;
                let row = rng.below(8) as u32;
                let count = 1 + rng.below(u64::from(8 - row)) as u32;
                let at = chunk * 8 + row;
                stripe_data.insert(at, Data::stamp(count, u64::from(at), version));
                for block in at..at + count {
                    plain[block as usize] = Some(Data::stamp(1, u64::from(block), version));
                }
            }
            let mut found = vec![None; 24];
            for index in 0..3 {
                for (row, data) in stripe_data.chunk(index, 8) {
                    for offset in 0..data.blocks() {
                        let block = index as u32 * 8 + row + offset;
                        found[block as usize] = Some(data.slice(offset, 1));
                    }
                }
            }
            assert_eq!(found, plain);
            assert_eq!(stripe_data.blocks() as usize, plain.iter().flatten().count());
            let (first, end) = stripe_data.rows(8);
            let rows = (0..24).filter(|&at| plain[at].is_some()).map(|at| at as u32 % 8);
            assert_eq!(Some(first), rows.clone().min());
            assert_eq!(Some(end), rows.max().map(|row| row + 1));
        }
    }

    #[test]
    fn an_overlay_keeps_what_is_between() {
        let base = Data::stamp(6, 0, 1);
        let out = overlay(2, &base, &[(3, Data::zeros(2)), (7, Data::zeros(1))]);
        let mut expected = Data::stamp(1, 0, 1);
        expected.append(Data::zeros(2));
        expected.append(Data::stamp(2, 3, 1));
        expected.append(Data::zeros(1));
        assert_eq!(out, expected);
    }
}
