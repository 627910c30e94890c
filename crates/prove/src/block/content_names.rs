//! Short names for what blocks hold, so that contents are compared by numbers.

use seekless_engine::checksum::mix;
use seekless_engine::data::{Body, Data};
use seekless_engine::units::{BLOCK_BYTES, BLOCK_SECTORS, SECTOR_BYTES};
use std::collections::BTreeMap;

/// What a block or a sector holds: 0 is zeros, other small numbers are the version of that very
/// block, everything else is a hash.
pub type Name = u64;

/// Zeros.
pub const ZEROS: Name = 0;
/// The block cannot be read.
pub const UNREADABLE: Name = u64::MAX;
/// Names from here on are hashes.
const HASHED: Name = 1 << 63;

const SECTORS: usize = BLOCK_SECTORS as usize;

/// Bits of a version that depend on the block as well.
const SALT_BITS: u32 = 16;

/// What blocks from `at` on hold that the operation with this number writes. Stamps are linear:
/// were the versions of all blocks alike, nothing of them would be left in the parity of a whole
/// stripe, and one that was written in part would look whole.
pub fn fresh(at: u64, count: u32, operation: u32) -> Data {
    let mut data = Data::none();
    for block in at..at + u64::from(count) {
        let number = u64::from(operation) + 1;
        let salt = mix(block ^ number << 32) & ((1 << SALT_BITS) - 1);
        data.append(Data::stamp(1, block, number << SALT_BITS | salt));
    }
    data
}

/// The names of a run.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Of blocks whose sectors do not all have the name of the block.
    sectors: BTreeMap<Name, [Name; SECTORS]>,
}

impl Names {
    /// The names of consecutive blocks, the first of which is block `at` of the volume.
    pub fn of(&mut self, at: u64, data: &Data) -> Vec<Name> {
        let mut names = Vec::with_capacity(data.blocks() as usize);
        for piece in data.pieces() {
            let first = at + names.len() as u64;
            match &piece.body {
                Body::Zeros => names.extend((0..piece.blocks).map(|_| ZEROS)),
                Body::Stamp { key, version } if *key == first && is_version(*version) => {
                    names.extend((0..piece.blocks).map(|_| *version));
                }
                _ => {
                    let bytes = piece.to_bytes();
                    for (block, bytes) in (first..).zip(bytes.chunks_exact(BLOCK_BYTES)) {
                        names.push(self.of_bytes(block, bytes));
                    }
                }
            }
        }
        names
    }

    fn of_bytes(&mut self, block: u64, bytes: &[u8]) -> Name {
        let mut sectors = [ZEROS; SECTORS];
        for (index, bytes) in bytes.chunks_exact(SECTOR_BYTES).enumerate() {
            sectors[index] = of_sector(block, index, bytes);
        }
        if sectors[0] < HASHED && sectors.iter().all(|&one| one == sectors[0]) {
            return sectors[0];
        }
        let name = HASHED | sectors.iter().fold(mix(block + 1), |sum, &sector| mix(sum ^ sector));
        self.sectors.insert(name, sectors);
        name
    }

    /// The names of the sectors of a block.
    pub fn sectors(&self, name: Name) -> [Name; SECTORS] {
        self.sectors.get(&name).copied().unwrap_or([name; SECTORS])
    }

    /// A name in words.
    pub fn text(&self, name: Name) -> String {
        let plain = |name| match name {
            ZEROS => "zeros".to_owned(),
            UNREADABLE => "an error".to_owned(),
            version if version < HASHED => {
                format!("the data of #{}", (version >> SALT_BITS).saturating_sub(1))
            }
            hash => format!("bytes {:08x}", hash as u32),
        };
        match self.sectors.get(&name) {
            None => plain(name),
            Some(sectors) if sectors.iter().all(|&sector| sector >= HASHED) => plain(name),
            Some(sectors) => {
                let parts: Vec<String> = sectors.iter().map(|&sector| plain(sector)).collect();
                format!("a mixture ({})", parts.join(", "))
            }
        }
    }
}

fn is_version(version: u64) -> bool {
    (1..HASHED).contains(&version)
}

fn of_sector(block: u64, index: usize, bytes: &[u8]) -> Name {
    let words = || bytes.chunks_exact(8).map(word);
    if words().all(|word| word == 0) {
        return ZEROS;
    }
    // What a stamp looks like in bytes: its key with the number of the pair, then its version.
    let version = word(&bytes[8..16]);
    let pairs = bytes.chunks_exact(16).zip(index as u64 * (SECTOR_BYTES / 16) as u64..);
    let mut stamped = pairs.map(|(pair, number)| {
        word(&pair[..8]) == block ^ number << 56 && word(&pair[8..]) == version
    });
    if is_version(version) && stamped.all(|right| right) {
        return version;
    }
    HASHED | words().fold(1, |sum, word| mix(sum ^ word))
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::Bytes;

    #[test]
    fn stamps_have_the_same_name_in_bytes() {
        let mut names = Names::default();
        let data = Data::stamp(3, 5, 9);
        assert_eq!(names.of(5, &data), [9, 9, 9]);
        assert_eq!(names.of(5, &Data::bytes(data.to_bytes())), [9, 9, 9]);
        assert!(names.of(4, &data).iter().all(|&name| name >= HASHED), "in other places");
    }

    #[test]
    fn mixtures_know_their_sectors() {
        let mut names = Names::default();
        let mut bytes = Data::stamp(1, 5, 9).to_bytes().to_vec();
        bytes[1024..1536].copy_from_slice(&Data::stamp(1, 5, 4).to_bytes()[1024..1536]);
        bytes[3584..].fill(0);
        let name = names.of(5, &Data::bytes(Bytes::from(bytes.clone())))[0];
        assert_eq!(names.sectors(name), [9, 9, 4, 9, 9, 9, 9, ZEROS]);
        bytes[7] ^= 1;
        let other = names.of(5, &Data::bytes(Bytes::from(bytes)))[0];
        let sectors = names.sectors(other);
        assert!(sectors[0] >= HASHED && sectors[1] == 9);
        assert_eq!(names.sectors(7), [7; 8]);
    }
}
