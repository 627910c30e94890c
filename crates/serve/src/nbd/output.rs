//! Bytes to be sent: small headers gathered in one buffer, payload never copied.

use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;
use std::io::IoSlice;

/// A queue of bytes.
#[derive(Debug, Default)]
pub struct Output {
    ready: VecDeque<Bytes>,
    /// Headers that no payload separates yet.
    open: BytesMut,
    length: usize,
}

impl Output {
    /// Appends a few bytes by copying them.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.open.extend_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Appends payload without copying it; short payload is copied, which is cheaper to send.
    pub(super) fn payload(&mut self, bytes: Bytes) {
        if bytes.len() <= 256 {
            return self.put(&bytes);
        }
        self.close();
        self.length += bytes.len();
        self.ready.push_back(bytes);
    }

    /// Appends zeros.
    pub(super) fn zeros(&mut self, count: usize) {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        let mut left = count;
        while left > 0 {
            let now = left.min(ZEROS.len());
            self.payload(Bytes::from_static(&ZEROS[..now]));
            left -= now;
        }
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.ready.push_back(self.open.split().freeze());
        }
    }

    /// True if there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Number of bytes to send.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Upper bound of the memory that is held: a short piece may keep a whole block.
    pub fn held(&self) -> usize {
        self.length + self.ready.len() * 4096
    }

    /// Fills `slices` with the first pieces; returns how many.
    pub fn chunks_vectored<'o>(&'o mut self, slices: &mut [IoSlice<'o>]) -> usize {
        self.close();
        let pieces = self.ready.iter();
        slices.iter_mut().zip(pieces).map(|(slice, piece)| *slice = IoSlice::new(piece)).count()
    }

    /// Drops the first `count` bytes, which have been sent.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.length, "{count} of {} bytes sent", self.length);
        self.close();
        self.length -= count;
        let mut left = count;
        while left > 0 {
            let Some(first) = self.ready.front_mut() else { break };
            if first.len() > left {
                first.advance(left);
                return;
            }
            left -= first.len();
            self.ready.pop_front();
        }
    }

    /// Takes everything, for tests.
    pub fn take(&mut self) -> Vec<u8> {
        self.close();
        let all = self.ready.iter().flat_map(|piece| piece.iter().copied()).collect();
        self.advance(self.length);
        all
    }
}
