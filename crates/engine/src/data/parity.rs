//! Exclusive or of payloads: the parity of RAID-5.

use super::{Body, Data, Piece, fill_pattern};
use crate::checksum::are_zeros;
use crate::units::BLOCK_BYTES;
use bytes::Bytes;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

/// The exclusive or of some blocks, without the bytes that stamps stand for. The bytes of a stamp
/// are linear in its key and version, so the sum of any number of stamps is three numbers, and a
/// simulated array needs no memory for its parity. It stands for exactly the bytes of the sum of
/// the blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parity {
    /// Sum of the keys.
    key: u64,
    /// Sum of the versions.
    version: u64,
    /// The number of stamps is odd.
    odd: bool,
    /// Sum of the blocks of real bytes, unless it is zero.
    bytes: Option<Bytes>,
}

impl Parity {
    pub(super) fn copy_to(&self, out: &mut [u8]) {
        fill_pattern(out, self.key, self.version, self.odd);
        if let Some(bytes) = &self.bytes {
            xor_into(out, bytes);
        }
    }

    /// The first eight bytes.
    pub(super) fn first_word(&self) -> u64 {
        let mut word = [0; 8];
        if let Some(bytes) = &self.bytes {
            word.copy_from_slice(&bytes[..8]);
        }
        self.key ^ u64::from_le_bytes(word)
    }

    /// A number that distinguishes contents as the checksum of a block does, without the bytes of
    /// stamps.
    pub(crate) fn digest(&self) -> u32 {
        use crate::checksum::{mix, xxh3};
        let bytes = self.bytes.as_ref().map_or(0, |bytes| xxh3(bytes));
        let stamps = mix(self.key.rotate_left(32) ^ mix(self.version ^ u64::from(self.odd) << 63));
        bytes ^ stamps as u32
    }
}

fn xor_bytes(a: &[u8], b: &[u8]) -> Bytes {
    Bytes::from_iter(a.iter().zip(b).map(|(a, b)| a ^ b))
}

impl Data {
    /// The exclusive or with a payload of the same length, as parity needs it.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn xor(&self, other: &Data) -> Data {
        let real = |data: &Data| match data.pieces() {
            [Piece { body: Body::Bytes(bytes), .. }] => Some(bytes.clone()),
            _ => None,
        };
        assert_eq!(self.blocks(), other.blocks(), "exclusive or of different lengths");
        if let (Some(a), Some(b)) = (real(self), real(other)) {
            return Data::bytes(xor_bytes(&a, &b));
        }
        let mut out = Data::with_room(self.blocks() as usize);
        for (a, b) in self.each().zip(other.each()) {
            out.push(Piece::block(match (&a.body, &b.body) {
                (Body::Zeros, _) => b.body,
                (_, Body::Zeros) => a.body,
                // Real bytes stay real bytes, also where they sum to zero.
                (Body::Bytes(a), Body::Bytes(b)) => Body::Bytes(xor_bytes(a, b)),
                (a, b) => {
                    let mut sum = Sum::default();
                    sum.add(a, 0);
                    sum.add(b, 0);
                    sum.into_body()
                }
            }));
        }
        out
    }
}

/// True if the exclusive or of these payloads, which have one length, is zeros, as for a stripe
/// with valid parity. It generates no bytes.
pub fn cancel(all: &[&Data]) -> bool {
    let mut each: SmallVec<[_; 8]> = all.iter().map(|data| bodies(data)).collect();
    let Some(mut first) = each.pop() else { return true };
    first.all(|(body, index)| {
        let mut sum = Sum::default();
        sum.add(body, index);
        for other in &mut each {
            let (body, index) = other.next().expect("payloads of one length");
            sum.add(body, index);
        }
        sum.is_zeros()
    })
}

/// All blocks in order: a body, and which of its blocks.
fn bodies(data: &Data) -> impl Iterator<Item = (&Body, u32)> {
    let blocks = |piece: &Piece| 0..piece.blocks;
    data.pieces().iter().flat_map(move |piece| blocks(piece).map(|index| (&piece.body, index)))
}

/// Blocks that are summed without generating their bytes.
#[derive(Default)]
struct Sum<'d> {
    key: u64,
    version: u64,
    odd: bool,
    real: SmallVec<[Cow<'d, [u8]>; 8]>,
}

impl<'d> Sum<'d> {
    fn add(&mut self, body: &'d Body, index: u32) {
        match body {
            Body::Zeros => {}
            Body::Stamp { key, version } => {
                self.key ^= key + u64::from(index);
                self.version ^= version;
                self.odd ^= true;
            }
            Body::Parity(parity) => {
                self.key ^= parity.key;
                self.version ^= parity.version;
                self.odd ^= parity.odd;
                self.real.extend(parity.bytes.iter().map(|bytes| Cow::Borrowed(&bytes[..])));
            }
            Body::Bytes(bytes) => {
                let start = index as usize * BLOCK_BYTES;
                self.real.push(Cow::Borrowed(&bytes[start..start + BLOCK_BYTES]));
            }
            Body::Sectors(_) | Body::Lazy(_) => {
                self.real.push(Cow::Owned(Piece::block(body.clone()).to_bytes().to_vec()));
            }
        }
    }

    /// True if the sum of the stamps is not zero.
    fn has_stamps(&self) -> bool {
        (self.key, self.version, self.odd) != (0, 0, false)
    }

    fn is_zeros(&self) -> bool {
        let stamps = self.has_stamps();
        match self.real.as_slice() {
            [] => !stamps,
            [one] if !stamps => are_zeros(one),
            [one, other] if !stamps => one == other,
            all => {
                let mut sum = [0; BLOCK_BYTES];
                fill_pattern(&mut sum, self.key, self.version, self.odd);
                all.iter().for_each(|one| xor_into(&mut sum, one));
                are_zeros(&sum)
            }
        }
    }

    /// The simplest body that stands for these bytes.
    fn into_body(self) -> Body {
        let stamps = self.has_stamps();
        let Sum { key, version, odd, real } = self;
        let real = real.into_iter().map(Cow::into_owned).reduce(|mut sum, one| {
            xor_into(&mut sum, &one);
            sum
        });
        match real.filter(|bytes| !are_zeros(bytes)).map(Bytes::from) {
            None if !stamps => Body::Zeros,
            Some(bytes) if !stamps => Body::Bytes(bytes),
            None if odd => Body::Stamp { key, version },
            bytes => Body::Parity(Arc::new(Parity { key, version, odd, bytes })),
        }
    }
}

fn xor_into(sum: &mut [u8], one: &[u8]) {
    sum.iter_mut().zip(one).for_each(|(sum, byte)| *sum ^= byte);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parity_stands_for_the_bytes_that_it_sums() {
        let bytes = |byte| Data::bytes(Bytes::from(vec![byte; BLOCK_BYTES]));
        let blocks = [
            Data::stamp(1, 7, 1),
            Data::stamp(1, 9, 4),
            bytes(3),
            Data::zeros(1),
            Data::stamp(1, 7, 2),
            bytes(3),
            bytes(9),
        ];
        for choice in 0..1_u32 << blocks.len() {
            let chosen = (0..blocks.len()).filter(|bit| choice & (1 << bit) != 0);
            let mut sum = Data::zeros(1);
            let mut real = vec![0; BLOCK_BYTES];
            for index in chosen.clone() {
                sum = sum.xor(&blocks[index]);
                let bytes = blocks[index].to_bytes();
                real.iter_mut().zip(&bytes).for_each(|(out, byte)| *out ^= byte);
            }
            assert_eq!(sum.to_bytes(), real, "{choice:b}");
            let mut all: Vec<&Data> = chosen.clone().map(|index| &blocks[index]).collect();
            assert_eq!(cancel(&all), all.is_empty() || are_zeros(&real), "{choice:b}");
            let bytes = Data::bytes(Bytes::from(real));
            for sum in [&sum, &bytes] {
                all.push(sum);
                assert!(cancel(&all), "{choice:b} and their sum");
                all.pop();
            }
            // Subtracting all but one leaves that one, in its original form.
            for kept in chosen.clone().filter(|&index| index != 3) {
                let others = chosen.clone().filter(|&index| index != kept);
                let left = others.fold(sum.clone(), |sum, index| sum.xor(&blocks[index]));
                assert_eq!(left, blocks[kept], "{choice:b} without all but {kept}");
            }
        }
    }
}
