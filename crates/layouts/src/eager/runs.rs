//! Neighbouring blocks as runs.

use seekless_engine::units::BlockNr;

/// Neighbouring blocks of a volume: the first one, and how many.
pub type Run = (BlockNr, u32);

/// Neighbouring blocks joined; `blocks` ascend.
pub fn runs(blocks: impl IntoIterator<Item = BlockNr>) -> Vec<Run> {
    let mut out: Vec<Run> = Vec::new();
    for block in blocks {
        match out.last_mut() {
            Some((at, count)) if *at + u64::from(*count) == block => *count += 1,
            _ => out.push((block, 1)),
        }
    }
    out
}
