//! What a client writes into files: each sector says of which object, which place and which version
//! it is. So content that was never written there is known when it is read.

use bytes::Bytes;
use seekless_engine::checksum::{are_zeros, mix};
use seekless_engine::units::SECTOR_BYTES;

/// Bytes of a tag; a sector repeats it.
const TAG: usize = 16;

/// What a sector says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    /// The object, by the number that the oracle gives it.
    pub object: u32,
    /// Sector of the file.
    pub sector: u32,
    /// The change that wrote it.
    pub version: u32,
}

/// What a sector of a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cell {
    /// Nothing: it lies behind the end.
    Absent,
    /// Zeros.
    Zeros,
    /// So many bytes of a tagged sector, then zeros.
    Tagged(Tag, u16),
    /// Fewer bytes than tell what they are.
    Stub,
    /// Anything else.
    Foreign,
}

impl Tag {
    fn bytes(self) -> [u8; TAG] {
        let Tag { object, sector, version } = self;
        let mut out = [0; TAG];
        out[..4].copy_from_slice(&object.to_le_bytes());
        out[4..8].copy_from_slice(&sector.to_le_bytes());
        out[8..12].copy_from_slice(&version.to_le_bytes());
        out[12..].copy_from_slice(&self.check().to_le_bytes());
        out
    }

    /// Never zero, so that a tag is told from zeros.
    fn check(self) -> u32 {
        let Tag { object, sector, version } = self;
        let low = mix(u64::from(object) << 32 | u64::from(sector));
        mix(low ^ u64::from(version) << 7) as u32 | 1
    }

    fn parse(bytes: &[u8]) -> Option<Tag> {
        let word = |at: usize| {
            let word = bytes.get(at..at + 4)?;
            Some(u32::from_le_bytes(word.try_into().ok()?))
        };
        let tag = Tag { object: word(0)?, sector: word(4)?, version: word(8)? };
        (word(12)? == tag.check()).then_some(tag)
    }
}

impl Cell {
    /// The first bytes of a tagged sector, then zeros. Zeros at the end of those bytes belong to
    /// neither, so that a cell has one form.
    pub fn tagged(tag: Tag, length: u16) -> Cell {
        let pattern = tag.bytes();
        let mut valid = usize::from(length);
        while valid > 0 && pattern[(valid - 1) % TAG] == 0 {
            valid -= 1;
        }
        if usize::from(length) < TAG { Cell::Stub } else { Cell::Tagged(tag, valid as u16) }
    }

    /// The cell as a file of which only `length` bytes of this sector lie before the end shows it.
    pub fn cut(self, length: u16) -> Cell {
        match self {
            Cell::Tagged(tag, valid) if valid > length => Cell::tagged(tag, length),
            Cell::Tagged(..) if usize::from(length) < TAG => Cell::Stub,
            other => other,
        }
    }

    /// What the bytes of a sector are, or its first bytes if the file ends in it.
    pub fn read(bytes: &[u8]) -> Cell {
        if are_zeros(bytes) {
            return Cell::Zeros;
        }
        let Some(last) = bytes.iter().rposition(|&byte| byte != 0) else { return Cell::Zeros };
        if bytes.len() < TAG {
            return Cell::Stub;
        }
        let Some(tag) = Tag::parse(bytes) else { return Cell::Foreign };
        // The first bytes are the tag. If each byte is that of one tag before, all are.
        let length = last + 1;
        match length <= TAG || bytes[TAG..length] == bytes[..length - TAG] {
            true => Cell::Tagged(tag, length as u16),
            false => Cell::Foreign,
        }
    }
}

/// The bytes of sectors, of one version of an object.
pub fn content(object: u32, first: u32, count: u32, version: u32) -> Bytes {
    let mut out = Vec::with_capacity(count as usize * SECTOR_BYTES);
    for sector in first..first + count {
        let tag = Tag { object, sector, version }.bytes();
        for _ in 0..SECTOR_BYTES / TAG {
            out.extend_from_slice(&tag);
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_say_what_they_are() {
        let bytes = content(7, 3, 2, 9);
        let tag = |sector| Tag { object: 7, sector, version: 9 };
        assert_eq!(Cell::read(&bytes[..512]), Cell::tagged(tag(3), 512));
        assert_eq!(Cell::read(&bytes[512..]), Cell::tagged(tag(4), 512));
        for length in 16..=512 {
            let mut cut = bytes[..512].to_vec();
            cut[length..].fill(0);
            assert_eq!(Cell::read(&cut), Cell::tagged(tag(3), 512).cut(length as u16));
            assert_eq!(Cell::read(&cut[..length]), Cell::tagged(tag(3), length as u16));
        }
        for at in 0..512 {
            let mut cut = bytes[..512].to_vec();
            cut[at] ^= 1;
            assert_eq!(Cell::read(&cut), Cell::Foreign, "byte {at}");
        }
        assert_eq!(Cell::read(&[0; 512]), Cell::Zeros);
        assert_eq!(Cell::read(&bytes[..9]), Cell::Stub);
        assert_eq!(Cell::read(&[5; 512]), Cell::Foreign);
    }
}
