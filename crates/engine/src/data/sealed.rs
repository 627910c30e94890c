//! Blocks that end with the checksum of their other bytes: headers of logs. Most bytes of such a
//! block are zeros, and on a simulated disk most are overwritten unread. So only the bytes that are
//! not zero are kept.

use super::{Body, Lazy};
use crate::checksum::{Identity, crc32c, crc32c_append};
use crate::units::BLOCK_BYTES;
use std::sync::Arc;

/// Bytes that the CRC covers; it takes the last four.
pub const CHECKED: usize = BLOCK_BYTES - 4;

/// A block of given bytes, zeros, and at the end the checksum of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    head: Box<[u8]>,
    sum: u32,
}

impl Sealed {
    /// A block that begins with `head`.
    ///
    /// # Panics
    /// If that leaves no room for the CRC.
    pub fn new(head: Vec<u8>) -> Sealed {
        static ZEROS: [u8; CHECKED] = [0; CHECKED];
        let sum = crc32c_append(crc32c(&head), &ZEROS[head.len()..]);
        Sealed { head: head.into(), sum }
    }

    /// A block of metadata of a volume that begins with `head`.
    ///
    /// # Panics
    /// As [`Sealed::new`].
    pub fn of_volume(id: Identity, head: Vec<u8>) -> Sealed {
        let Sealed { head, sum } = Sealed::new(head);
        Sealed { head, sum: id.of_crc(sum) }
    }

    /// The checksum.
    pub fn sum(&self) -> u32 {
        self.sum
    }

    /// The block.
    pub fn into_body(self) -> Body {
        Body::Lazy(Arc::new(self))
    }
}

impl Lazy for Sealed {
    fn render(&self, out: &mut [u8]) {
        let (head, rest) = out.split_at_mut(self.head.len());
        head.copy_from_slice(&self.head);
        rest.fill(0);
        out[CHECKED..].copy_from_slice(&self.sum.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Piece;

    #[test]
    fn the_last_word_is_the_crc_of_the_others() {
        for length in [0, 1, 100, CHECKED] {
            let sealed = Sealed::new((0..length).map(|at| at as u8).collect());
            let sum = sealed.sum();
            let bytes = Piece::block(sealed.into_body()).to_bytes();
            assert!((0..length).all(|at| bytes[at] == at as u8));
            assert!(bytes[length..CHECKED].iter().all(|&byte| byte == 0));
            assert_eq!(bytes[CHECKED..], sum.to_le_bytes());
            assert_eq!(sum, crc32c(&bytes[..CHECKED]));
        }
    }
}
