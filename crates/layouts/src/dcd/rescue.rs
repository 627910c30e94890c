//! The rescue copy: what a bound origin keeps of its own first 128 KiB, in case the log is lost.
//!
//! Blocks 2 to 31 lie in their own places with all bits inverted, so that other software does not
//! find a file system there. The places of blocks 0 and 1 belong to the log binding, which takes
//! little of them: both blocks, with their runs of zeros packed, lie behind its fields, the first
//! part in one copy and the rest in the other. A copy is as old as its last refresh. While the log
//! is there the copy is never read.

use super::format::BOUND_BLOCKS;
use bytes::Bytes;
use seekless_engine::checksum::crc32c;
use seekless_engine::data::Data;
use seekless_engine::data::sealed::CHECKED;
use seekless_engine::disk::Disk;
use seekless_engine::io::IoError;
use seekless_engine::superblock::le32;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};

/// Where a binding says what is kept.
const KEPT_AT: usize = 92;
/// Length of what is packed, in both copies together.
const LENGTH_AT: usize = 96;
/// Its CRC.
const SUM_AT: usize = 100;
/// The part in this copy.
const PART_AT: usize = 104;
/// Bytes of a part.
const PART: usize = CHECKED - PART_AT;
const _: () = assert!(PART == 3988);
/// Bytes that are packed: blocks 0 and 1.
const PACKED: usize = 2 * BLOCK_BYTES;
/// Shorter runs of zeros are not worth the two lengths.
const LEAST_RUN: usize = 8;
/// Bytes of the first blocks.
pub const FIRST_BYTES: usize = BOUND_BLOCKS as usize * BLOCK_BYTES;

/// What an origin keeps of its own first blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kept {
    /// Nothing: an earlier version wrote the binding.
    #[default]
    Nothing,
    /// All of them.
    All,
    /// All but blocks 0 and 1, which cannot be packed, or are damaged.
    AllButTwo,
    /// They are being put back from a file, and lie there only.
    InFile,
}

impl Kept {
    fn number(self) -> u32 {
        match self {
            Kept::Nothing => 0,
            Kept::All => 1,
            Kept::AllButTwo => 2,
            Kept::InFile => 3,
        }
    }

    fn of(number: u32) -> Kept {
        match number {
            1 => Kept::All,
            2 => Kept::AllButTwo,
            3 => Kept::InFile,
            _ => Kept::Nothing,
        }
    }
}

/// What a binding has beyond its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rescue {
    pub kept: Kept,
    packed: Bytes,
}

impl Rescue {
    /// Of the first blocks of a volume.
    pub fn of(first: &Data) -> Rescue {
        let packed = pack(&first.slice(0, 2).to_bytes());
        match packed.len() <= 2 * PART {
            true => Rescue { kept: Kept::All, packed: packed.into() },
            false => Rescue { kept: Kept::AllButTwo, packed: Bytes::new() },
        }
    }

    /// The first blocks are in a file only.
    pub fn in_file() -> Rescue {
        Rescue { kept: Kept::InFile, packed: Bytes::new() }
    }

    /// Writes what belongs into the copy of a binding in block `at`.
    pub fn encode(&self, block: &mut [u8], at: BlockNr) {
        let part = match at {
            0 => &self.packed[..self.packed.len().min(PART)],
            _ => &self.packed[self.packed.len().min(PART)..],
        };
        let put = |block: &mut [u8], at: usize, number: u32| {
            block[at..at + 4].copy_from_slice(&number.to_le_bytes());
        };
        put(block, KEPT_AT, self.kept.number());
        if self.packed.is_empty() {
            return;
        }
        put(block, LENGTH_AT, self.packed.len() as u32);
        put(block, SUM_AT, crc32c(&self.packed));
        block[PART_AT..PART_AT + part.len()].copy_from_slice(part);
    }

    /// Blocks 2 to 31 as they lie in an origin: inverted, and back.
    pub fn hidden(first: &Data) -> Data {
        let rest = first.slice(2, BOUND_BLOCKS as u32 - 2).to_bytes();
        Data::bytes(rest.iter().map(|byte| !byte).collect::<Vec<u8>>().into())
    }

    /// The first blocks of a bound origin as far as it keeps them, zeros for the others, and what
    /// that is.
    ///
    /// # Errors
    /// What the medium reports.
    pub fn read(origin: &mut dyn Disk) -> Result<(Kept, Data), IoError> {
        let copies = [origin.read(0, 1)?.to_bytes(), origin.read(1, 1)?.to_bytes()];
        let whole = |block: &Bytes| crc32c(&block[..CHECKED]) == le32(block, CHECKED);
        let kept = copies.iter().find(|copy| whole(copy));
        let kept = kept.map_or(Kept::Nothing, |copy| Kept::of(le32(copy, KEPT_AT)));
        if matches!(kept, Kept::Nothing | Kept::InFile) {
            return Ok((kept, Data::zeros(BOUND_BLOCKS as u32)));
        }
        let two = (kept == Kept::All).then(|| joined(&copies)).flatten();
        let kept = if two.is_some() { Kept::All } else { Kept::AllButTwo };
        let mut first = Data::bytes(two.unwrap_or_else(|| vec![0; PACKED]).into());
        // Inverted twice it is what it was.
        let rest = origin.read(2, BOUND_BLOCKS as u32 - 2)?.to_bytes();
        first.append(Data::bytes(rest.iter().map(|byte| !byte).collect::<Vec<u8>>().into()));
        Ok((kept, first))
    }
}

/// Blocks 0 and 1 from the parts in two copies of a binding, if these fit together.
fn joined(copies: &[Bytes; 2]) -> Option<Vec<u8>> {
    let [first, second] = copies.each_ref().map(|copy| (le32(copy, LENGTH_AT), le32(copy, SUM_AT)));
    let length = first.0 as usize;
    if first != second || length > 2 * PART {
        return None;
    }
    let mut packed = copies[0][PART_AT..PART_AT + length.min(PART)].to_vec();
    packed.extend(&copies[1][PART_AT..PART_AT + length - length.min(PART)]);
    if crc32c(&packed) != first.1 {
        return None;
    }
    unpack(&packed)
}

/// Packs runs of zeros: two lengths of 16 bits each, of bytes that are given and of zeros that
/// follow them, then the given bytes; again and again.
fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let zeros = |from: usize| rest[from..].iter().take_while(|&&byte| byte == 0).count();
        let ends = |from: usize| zeros(from) >= LEAST_RUN || from + zeros(from) == rest.len();
        let given = (0..rest.len()).find(|&from| ends(from)).unwrap_or(rest.len());
        let run = zeros(given);
        out.extend((given as u16).to_le_bytes());
        out.extend((run as u16).to_le_bytes());
        out.extend(&rest[..given]);
        at += given + run;
    }
    out
}

/// What was packed, if that is whole.
fn unpack(mut packed: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    while !packed.is_empty() {
        let lengths: [u8; 4] = packed.get(..4)?.try_into().ok()?;
        let given = usize::from(u16::from_le_bytes([lengths[0], lengths[1]]));
        let zeros = usize::from(u16::from_le_bytes([lengths[2], lengths[3]]));
        out.extend(packed.get(4..4 + given)?);
        out.resize(out.len() + zeros, 0);
        packed = &packed[4 + given..];
    }
    (out.len() == PACKED).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::rng::Rng;

    #[test]
    fn what_is_packed_comes_back() {
        let mut rng = Rng::stream(1, "pack");
        for round in 0..200 {
            let mut bytes = vec![0_u8; PACKED];
            let mut at = 0;
            while at < PACKED {
                let given = 1 + rng.below(1 + round * 20) as usize;
                for byte in bytes[at..].iter_mut().take(given) {
                    *byte = rng.below(256) as u8;
                }
                at += given + rng.below(300) as usize;
            }
            assert_eq!(unpack(&pack(&bytes)).as_deref(), Some(&bytes[..]), "round {round}");
        }
        for bytes in [vec![0; PACKED], vec![7; PACKED]] {
            assert_eq!(unpack(&pack(&bytes)), Some(bytes));
        }
    }

    #[test]
    fn a_dense_block_beside_a_partition_table_can_be_packed() {
        let mut rng = Rng::stream(2, "pack");
        let mut bytes: Vec<u8> = (0..PACKED).map(|_| rng.below(256) as u8).collect();
        bytes[600..BLOCK_BYTES].fill(0);
        assert!(pack(&bytes).len() <= 2 * PART, "a LUKS header and its keys");
        bytes[600..BLOCK_BYTES].fill(1);
        let dense = Data::bytes([bytes, vec![0; FIRST_BYTES - PACKED]].concat().into());
        assert_eq!(Rescue::of(&dense).kept, Kept::AllButTwo);
    }

    #[test]
    fn what_is_cut_off_is_not_unpacked() {
        let packed = pack(&[5; PACKED]);
        for length in 0..packed.len() {
            assert_eq!(unpack(&packed[..length]), None, "{length} bytes");
        }
    }
}
