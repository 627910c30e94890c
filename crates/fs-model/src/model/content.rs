//! The content of a file in memory: pages that were written, and holes between them.
//!
//! A page that is absent reads as zeros. Bytes behind the end of the file are always zeros, so a
//! file that grows reads as POSIX demands without any work.

use std::collections::BTreeMap;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Bytes by page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Content {
    /// Bytes from `at` on.
    pub fn read(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        for piece in pieces(at, length as u64) {
            if let Some(page) = self.pages.get(&piece.page) {
                let from = &page[piece.start..piece.start + piece.length];
                bytes[piece.offset..piece.offset + piece.length].copy_from_slice(from);
            }
        }
        bytes
    }

    /// Replaces bytes from `at` on.
    pub fn write(&mut self, at: u64, data: &[u8]) {
        for piece in pieces(at, data.len() as u64) {
            let page = self.pages.entry(piece.page).or_insert_with(|| vec![0; PAGE as usize]);
            let from = &data[piece.offset..piece.offset + piece.length];
            page[piece.start..piece.start + piece.length].copy_from_slice(from);
        }
    }

    /// Makes a range zeros; whole pages become holes.
    pub fn zero(&mut self, at: u64, length: u64) {
        let end = at.saturating_add(length);
        let touched: Vec<u64> =
            self.pages.range(at / PAGE..=end / PAGE).map(|(page, _)| *page).collect();
        for page in touched {
            let from = at.max(page * PAGE) - page * PAGE;
            let to = end.min((page + 1) * PAGE).saturating_sub(page * PAGE);
            if from == 0 && to == PAGE {
                self.pages.remove(&page);
            } else if let Some(bytes) = self.pages.get_mut(&page).filter(|_| from < to) {
                bytes[from as usize..to as usize].fill(0);
            }
        }
    }

    /// Forgets everything from `size` on.
    pub fn cut(&mut self, size: u64) {
        self.pages.retain(|page, _| page * PAGE < size);
        if let Some(page) = self.pages.get_mut(&(size / PAGE)) {
            page[(size % PAGE) as usize..].fill(0);
        }
    }

    /// The first byte at or behind `at` that is not zero.
    pub fn next_nonzero(&self, at: u64) -> Option<u64> {
        self.pages.range(at / PAGE..).find_map(|(page, bytes)| {
            let skip = at.saturating_sub(page * PAGE) as usize;
            let found = bytes[skip..].iter().position(|byte| *byte != 0)?;
            Some(page * PAGE + (skip + found) as u64)
        })
    }

    /// The first byte at or behind `at` that is in no page.
    pub fn next_hole(&self, at: u64) -> u64 {
        let mut page = at / PAGE;
        if !self.pages.contains_key(&page) {
            return at;
        }
        while self.pages.contains_key(&page) {
            page += 1;
        }
        page * PAGE
    }

    /// The first byte at or behind `at` that is in a page.
    pub fn next_data(&self, at: u64) -> Option<u64> {
        self.pages.range(at / PAGE..).next().map(|(page, _)| at.max(page * PAGE))
    }

    /// Number of pages.
    pub fn count(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Ranges that hold all bytes that are not zero: first byte and length, in order.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.pages.keys().map(|page| (page * PAGE, PAGE))
    }
}

/// Part of a range that lies in one page.
struct Piece {
    page: u64,
    /// First byte in the page.
    start: usize,
    /// First byte in the range.
    offset: usize,
    length: usize,
}

fn pieces(at: u64, length: u64) -> impl Iterator<Item = Piece> {
    let end = at + length;
    let mut next = at;
    std::iter::from_fn(move || {
        (next < end).then(|| {
            let (page, start) = (next / PAGE, next % PAGE);
            let length = (PAGE - start).min(end - next);
            let offset = (next - at) as usize;
            next += length;
            Piece { page, start: start as usize, offset, length: length as usize }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What may happen to content.
    #[derive(Clone, Debug)]
    enum Act {
        Write(u64, Vec<u8>),
        Zero(u64, u64),
        Cut(u64),
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            (0..20_000_u64, prop::collection::vec(any::<u8>(), 0..9000))
                .prop_map(|(at, data)| Act::Write(at, data)),
            (0..20_000_u64, 0..20_000_u64).prop_map(|(at, length)| Act::Zero(at, length)),
            (0..30_000_u64).prop_map(Act::Cut),
        ]
    }

    proptest! {
        #[test]
        fn pages_equal_a_flat_array(acts in prop::collection::vec(act(), 1..20)) {
            let mut flat = vec![0_u8; 60_000];
            let mut content = Content::default();
            for act in acts {
                match act {
                    Act::Write(at, data) => {
                        content.write(at, &data);
                        flat[at as usize..at as usize + data.len()].copy_from_slice(&data);
                    }
                    Act::Zero(at, length) => {
                        content.zero(at, length);
                        flat[at as usize..(at + length) as usize].fill(0);
                    }
                    Act::Cut(size) => {
                        content.cut(size);
                        flat[size as usize..].fill(0);
                    }
                }
                prop_assert_eq!(&content.read(0, flat.len()), &flat);
            }
            for at in [0, 4095, 4096, 9000, 59_999] {
                let next = flat[at..].iter().position(|byte| *byte != 0).map(|n| (at + n) as u64);
                prop_assert_eq!(content.next_nonzero(at as u64), next);
                let hole = content.next_hole(at as u64);
                prop_assert!(content.read(hole, 1) == [0]);
            }
        }
    }
}
