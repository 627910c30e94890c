//! The descriptor of a transaction whose blocks do not follow one another in the volume: a block
//! that lists them. It lies in the pool like data, with a label of its own.

use super::format::{DESCRIPTOR, sum_at};
use crate::eager::runs::Run;
use bytes::Bytes;
use seekless_engine::checksum::Identity;
use seekless_engine::superblock::{le32, le64};
use seekless_engine::units::{BLOCK_BYTES, BlockNr};

const MAGIC: [u8; 8] = *b"SKLSTRAN";
const CRC_AT: usize = BLOCK_BYTES - 4;
const RUNS_AT: usize = 20;
const RUN_BYTES: usize = 8;
/// Most runs that a descriptor lists, and so most blocks of a transaction that needs one.
pub const MOST_RUNS: u64 = ((CRC_AT - RUNS_AT) / RUN_BYTES) as u64;

/// The descriptor of transaction `stamp`.
///
/// # Panics
/// If there are more than [`MOST_RUNS`] runs.
pub fn encode(id: Identity, stamp: u64, runs: &[Run]) -> Bytes {
    assert!(runs.len() as u64 <= MOST_RUNS);
    let mut out = vec![0; BLOCK_BYTES];
    out[0..8].copy_from_slice(&MAGIC);
    out[8..16].copy_from_slice(&stamp.to_le_bytes());
    out[16..20].copy_from_slice(&(runs.len() as u32).to_le_bytes());
    for (run, out) in runs.iter().zip(out[RUNS_AT..CRC_AT].chunks_exact_mut(RUN_BYTES)) {
        out[..4].copy_from_slice(&(run.0 as u32).to_le_bytes());
        out[4..].copy_from_slice(&run.1.to_le_bytes());
    }
    let sum = sum_at(id, u64::from(DESCRIPTOR), &out[..CRC_AT]);
    out[CRC_AT..].copy_from_slice(&sum.to_le_bytes());
    Bytes::from(out)
}

/// The blocks that a descriptor of transaction `stamp` lists, in ascending order; `None` if it is
/// none, or lists what cannot be in a volume of `blocks` blocks.
pub fn decode(id: Identity, stamp: u64, bytes: &[u8], blocks: u64) -> Option<Vec<BlockNr>> {
    let ours = bytes[0..8] == MAGIC && le64(bytes, 8) == stamp;
    let sum = sum_at(id, u64::from(DESCRIPTOR), &bytes[..CRC_AT]);
    if !ours || sum != le32(bytes, CRC_AT) {
        return None;
    }
    let count = le32(bytes, 16) as usize;
    let mut out: Vec<BlockNr> = Vec::new();
    for run in bytes[RUNS_AT..CRC_AT].chunks_exact(RUN_BYTES).take(count) {
        let (at, length) = (u64::from(le32(run, 0)), u64::from(le32(run, 4)));
        let behind = out.last().is_none_or(|&last| last < at);
        let full = out.len() as u64 + length > MOST_RUNS;
        if !behind || full || length == 0 || at + length > blocks {
            return None;
        }
        out.extend(at..at + length);
    }
    (count as u64 <= MOST_RUNS).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eager::runs::runs;
    use seekless_engine::checksum::Sums;

    fn id(number: u128) -> Identity {
        Identity::new(number, Sums::NEWEST)
    }

    #[test]
    fn descriptors_come_back_and_damage_is_noticed() {
        let blocks = [3, 4, 5, 9, 700];
        let joined = runs(blocks);
        assert_eq!(joined, [(3, 3), (9, 1), (700, 1)]);
        let bytes = encode(id(5), 77, &joined);
        assert_eq!(decode(id(5), 77, &bytes, 701).as_deref(), Some(&blocks[..]));
        assert_eq!(decode(id(5), 77, &bytes, 700), None, "it leaves the volume");
        assert_eq!(decode(id(5), 78, &bytes, 701), None, "another transaction's");
        assert_eq!(decode(id(6), 77, &bytes, 701), None, "another volume's");
        for at in 0..BLOCK_BYTES {
            let mut bad = bytes.to_vec();
            bad[at] ^= 1;
            assert_eq!(decode(id(5), 77, &bad, 701), None, "byte {at}");
        }
        let most: Vec<Run> = (0..MOST_RUNS).map(|run| (run * 2, 1)).collect();
        let bytes = encode(id(5), 1, &most);
        assert_eq!(decode(id(5), 1, &bytes, 2000).map(|all| all.len() as u64), Some(MOST_RUNS));
    }
}
