//! Which objects of a slice are in use: the attributes of its first object.

use seekless_engine::objects::{ATTRIBUTE_BYTES, SLICE_OBJECTS};
use seekless_fs::fields::{array_at, put, u16_at, u32_at};

/// Says that attributes are those of a slice.
const MARK: u16 = u16::from_le_bytes(*b"SL");

mod offset {
    pub const MARK: usize = 2;
    pub const GENERATION: usize = 4;
    pub const USED: usize = 8;
    pub const UNNAMED: usize = 24;
}

/// Bits of the objects of a slice.
pub type Bits = u128;

const _: () = assert!(Bits::BITS == SLICE_OBJECTS);

/// What a slice says of its objects. One that was never used is all zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// The generation of its youngest object.
    pub generation: u32,
    /// A bit for each object in use. The first object, which is this one, is always.
    pub used: Bits,
    /// A bit for each of them that has no name: a file that was open when it lost the last one.
    pub unnamed: Bits,
}

impl Slice {
    /// The slice of some attributes; none if they are of something else.
    pub fn decode(bytes: &[u8]) -> Option<Slice> {
        if bytes[..ATTRIBUTE_BYTES].iter().all(|&byte| byte == 0) {
            return Some(Slice::default());
        }
        let is_slice = u16_at(bytes, 0) == 0 && u16_at(bytes, offset::MARK) == MARK;
        is_slice.then(|| Slice {
            generation: u32_at(bytes, offset::GENERATION),
            used: Bits::from_le_bytes(array_at(bytes, offset::USED)),
            unnamed: Bits::from_le_bytes(array_at(bytes, offset::UNNAMED)),
        })
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; ATTRIBUTE_BYTES] {
        let mut bytes = [0; ATTRIBUTE_BYTES];
        if *self != Slice::default() {
            put(&mut bytes, offset::MARK, &MARK.to_le_bytes());
            put(&mut bytes, offset::GENERATION, &self.generation.to_le_bytes());
            put(&mut bytes, offset::USED, &self.used.to_le_bytes());
            put(&mut bytes, offset::UNNAMED, &self.unnamed.to_le_bytes());
        }
        bytes
    }

    /// The first member that is free, from one on; the first object of a slice never is.
    pub fn free_from(&self, member: u8) -> Option<u8> {
        let below = Bits::MAX.checked_shl(u32::from(member)).unwrap_or(0);
        let free = !self.used & !1 & below;
        (free != 0).then(|| free.trailing_zeros() as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_comes_back() {
        let slice = Slice { generation: 7, used: 0b1011, unnamed: 1 << 127 };
        assert_eq!(Slice::decode(&slice.encode()), Some(slice));
        assert_eq!(Slice::decode(&[0; ATTRIBUTE_BYTES]), Some(Slice::default()));
        assert_eq!(Slice::decode(&[1; ATTRIBUTE_BYTES]), None);
        assert_eq!((slice.free_from(0), slice.free_from(3)), (Some(2), Some(4)));
        let full = Slice { used: Bits::MAX << 1, ..slice };
        assert_eq!(full.free_from(0), None, "the first object is no file");
    }
}
