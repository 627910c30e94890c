//! Memory of the volatile cache, used again and again.
//!
//! A payload is a slice of what a socket received. Held for long it would keep all of that alive,
//! and the next bytes would be received in memory that has never been touched, which costs more
//! than the copy into memory that has.

use bytes::BytesMut;
use seekless_engine::data::{Body, Data};
use seekless_engine::units::BLOCK_BYTES;

/// Longer payloads, in blocks, are held as they came: they have buffers of their own.
const MOST_BLOCKS: usize = 16;
/// Buffers of one length that wait to be used.
const MOST_WAITING: usize = 64;

/// Buffers by their length in blocks.
#[derive(Debug, Default)]
pub(super) struct Slots([Vec<BytesMut>; MOST_BLOCKS + 1]);

impl Slots {
    /// The same payload in memory of the cache.
    pub fn keep(&mut self, data: Data) -> Data {
        let [piece] = data.pieces() else { return data };
        let (Body::Bytes(bytes), Some(waiting)) =
            (&piece.body, self.0.get_mut(piece.blocks as usize))
        else {
            return data;
        };
        let mut buffer = waiting.pop().unwrap_or_else(|| BytesMut::with_capacity(bytes.len()));
        buffer.clear();
        buffer.extend_from_slice(bytes);
        Data::bytes(buffer.freeze())
    }

    /// Takes the memory of a payload back that has been written out.
    pub fn give_back(&mut self, data: Data) {
        let [piece] = data.pieces() else { return };
        let Body::Bytes(bytes) = &piece.body else { return };
        let bytes = bytes.clone();
        drop(data);
        let Some(waiting) = self.0.get_mut(bytes.len() / BLOCK_BYTES) else { return };
        // Somebody may still be reading it.
        if waiting.len() < MOST_WAITING
            && let Ok(buffer) = bytes.try_into_mut()
        {
            waiting.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn memory_is_used_again_unless_it_is_still_read() {
        let mut slots = Slots::default();
        let payload = |fill: u8| Data::bytes(Bytes::from(vec![fill; 2 * BLOCK_BYTES]));
        let place = |data: &Data| match &data.pieces()[0].body {
            Body::Bytes(bytes) => bytes.as_ptr(),
            other => panic!("{other:?}"),
        };
        let first = slots.keep(payload(1));
        assert_eq!(first, payload(1));
        let at = place(&first);
        slots.give_back(first);
        let second = slots.keep(payload(2));
        assert_eq!((place(&second), &second), (at, &payload(2)));
        let reader = second.clone();
        slots.give_back(second);
        let third = slots.keep(payload(3));
        assert_ne!(place(&third), at);
        assert_eq!(reader, payload(2));
        let zeros = slots.keep(Data::zeros(2));
        assert_eq!(zeros, Data::zeros(2));
    }
}
