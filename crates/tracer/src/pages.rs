//! The bytes of a file in memory; chunks that were never written take no room.

use std::collections::BTreeMap;

/// Bytes of a chunk.
pub(crate) const CHUNK: usize = 64 << 10;

/// The content of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages {
    /// By number; what is behind the end of one reads as zeros.
    chunks: BTreeMap<u64, Vec<u8>>,
    size: u64,
}

/// The chunk of an offset, and the place in it.
fn place(at: u64) -> (u64, usize) {
    (at / CHUNK as u64, (at % CHUNK as u64) as usize)
}

impl Pages {
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn write(&mut self, at: u64, mut data: &[u8]) {
        self.size = self.size.max(at + data.len() as u64);
        let mut at = at;
        while !data.is_empty() {
            let (number, from) = place(at);
            let (piece, rest) = data.split_at(data.len().min(CHUNK - from));
            let chunk = self.chunks.entry(number).or_default();
            let end = from + piece.len();
            if chunk.len() < end {
                chunk.resize(end, 0);
            }
            chunk[from..end].copy_from_slice(piece);
            (at, data) = (at + piece.len() as u64, rest);
        }
    }

    /// Makes bytes of the file read as zeros; the size stays.
    pub(crate) fn zero(&mut self, at: u64, length: u64) {
        let end = at.saturating_add(length).min(self.size);
        for number in self.numbers(at, end) {
            let base = number * CHUNK as u64;
            let Some(chunk) = self.chunks.get_mut(&number) else { continue };
            let from = (at.saturating_sub(base) as usize).min(chunk.len());
            let to = ((end - base) as usize).min(chunk.len());
            chunk[from..to].fill(0);
        }
    }

    fn numbers(&self, at: u64, end: u64) -> Vec<u64> {
        if at >= end {
            return Vec::new();
        }
        self.chunks.range(place(at).0..=place(end - 1).0).map(|(&number, _)| number).collect()
    }

    pub(crate) fn resize(&mut self, size: u64) {
        let (last, length) = place(size);
        self.chunks.retain(|&number, _| number < last || number == last && length > 0);
        if let Some(chunk) = self.chunks.get_mut(&last) {
            chunk.truncate(length);
        }
        self.size = size;
    }

    /// Lets the file grow.
    pub(crate) fn extend(&mut self, size: u64) {
        self.size = self.size.max(size);
    }

    /// True if bytes of the file are these. They lie in one chunk.
    pub(crate) fn holds(&self, at: u64, bytes: &[u8]) -> bool {
        let (number, from) = place(at);
        debug_assert!(from + bytes.len() <= CHUNK, "{} bytes at {at}: two chunks", bytes.len());
        let known = self.chunks.get(&number).and_then(|chunk| chunk.get(from..)).unwrap_or(&[]);
        let (same, rest) = bytes.split_at(known.len().min(bytes.len()));
        known.starts_with(same) && rest.iter().all(|&byte| byte == 0)
    }

    /// Reads bytes at a multiple of [`CHUNK`], at most so many.
    pub(crate) fn read(&self, at: u64, out: &mut [u8]) {
        debug_assert!(at.is_multiple_of(CHUNK as u64), "byte {at} begins no chunk");
        out.fill(0);
        if let Some(chunk) = self.chunks.get(&place(at).0) {
            let length = chunk.len().min(out.len());
            out[..length].copy_from_slice(&chunk[..length]);
        }
    }

    /// The first chunk at or behind an offset that was written, as an offset.
    pub(crate) fn next(&self, at: u64) -> Option<u64> {
        self.chunks.range(place(at).0..).next().map(|(number, _)| number * CHUNK as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_cut_off_read_as_zeros_when_the_file_grows_again() {
        let mut pages = Pages::default();
        pages.write(CHUNK as u64 - 2, b"abcd");
        pages.resize(CHUNK as u64 - 1);
        pages.resize(2 * CHUNK as u64);
        let mut out = vec![1; CHUNK];
        pages.read(0, &mut out);
        assert_eq!(out[CHUNK - 3..], *b"\0a\0");
        pages.read(CHUNK as u64, &mut out);
        assert_eq!(out, vec![0; CHUNK]);
    }

    #[test]
    fn zeros_stay_within_their_range() {
        let mut pages = Pages::default();
        pages.write(0, &[7; 3 * CHUNK]);
        pages.zero(CHUNK as u64 - 1, CHUNK as u64 + 2);
        let sum = |at: usize| {
            let mut out = vec![0; CHUNK];
            pages.read((at * CHUNK) as u64, &mut out);
            out.iter().filter(|&&byte| byte == 7).count()
        };
        assert_eq!([sum(0), sum(1), sum(2)], [CHUNK - 1, 0, CHUNK - 1]);
        assert_eq!(pages.size(), 3 * CHUNK as u64);
        assert!(pages.holds(0, &[7; 4096]) && !pages.holds(0, &[0; 4096]));
        assert!(pages.holds(CHUNK as u64, &[0; 4096]) && pages.holds(9 * CHUNK as u64, &[0; 9]));
        pages.write(4 * CHUNK as u64, b"ab");
        assert!(pages.holds(4 * CHUNK as u64, b"ab\0"));
        assert!(!pages.holds(4 * CHUNK as u64, b"ab\x01"));
    }
}
