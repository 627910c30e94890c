//! The blocks that a part of the log names, repeated by the part behind it: if a summary is
//! damaged, these blocks are lost, and not every block that it might have named.
//!
//! A word of four bytes for each block; a range that became zeros is two words, the first one with
//! bit 31 set. Where the words do not fit behind the items, they are left out.

use seekless_engine::superblock::le32;

const RANGE: u32 = 1 << 31;

/// Ranges of blocks of the volume: the first one, and how many.
pub type Named = Vec<(u32, u32)>;

/// The words of some ranges.
pub fn encode(named: &Named) -> Vec<u8> {
    let words = named.iter().flat_map(|&(first, count)| match count {
        1 => [Some(first), None],
        _ => [Some(first | RANGE), Some(count)],
    });
    words.flatten().flat_map(u32::to_le_bytes).collect()
}

/// The ranges that some words stand for; nothing if they make no sense.
pub fn decode(words: &[u8]) -> Option<Named> {
    let mut words = words.chunks_exact(4).map(|word| le32(word, 0));
    let mut named = Named::new();
    while let Some(word) = words.next() {
        let count = if word & RANGE == 0 { 1 } else { words.next()? };
        named.push((word & !RANGE, count));
    }
    Some(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_repeated_comes_back() {
        let some = vec![(7, 1), (9, 300), ((1 << 29) + 5, 1)];
        assert_eq!(decode(&encode(&some)), Some(some));
        assert_eq!(decode(&encode(&Named::new())), Some(Named::new()));
        assert_eq!(decode(&(RANGE | 3).to_le_bytes()), None, "a range without a count");
    }
}
