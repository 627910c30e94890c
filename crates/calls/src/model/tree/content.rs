//! The content of a file: pages that copies share, and a size.
//!
//! Bytes may lie behind the size: a page can reach the disk before the size that covers it. They
//! are seen once a larger size comes.

use super::radix::Radix;
use crate::model::micro::PAGE;
use bytes::Bytes;
use seekless_engine::checksum::{mix, xxh3_64};

/// The content of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    size: u64,
    /// No byte at or behind this one is held.
    end: u64,
    /// Without zeros at their end, or with some; no page means zeros.
    pages: Radix<Bytes>,
    /// The prints of all pages, those behind the size included.
    print: u128,
}

impl Content {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The file is so long at least.
    pub(super) fn grow(&mut self, to: u64) {
        self.size = self.size.max(to);
    }

    /// The file gets this size, and what lies behind it goes.
    pub(super) fn truncate(&mut self, to: u64) {
        self.cut(to);
        self.size = to;
    }

    /// Writes bytes that end on the page on which they begin.
    pub(super) fn write(&mut self, at: u64, data: &Bytes) {
        let (page, within) = (at / PAGE, (at % PAGE) as usize);
        debug_assert!(within + data.len() <= PAGE as usize, "{} bytes at {at}", data.len());
        let old = self.pages.get(page);
        let covers = within == 0 && old.is_none_or(|old| old.len() <= data.len());
        let new = if covers { data.clone() } else { patched(old, within, data) };
        self.put(page, Some(new));
        self.end = self.end.max(at + data.len() as u64);
    }

    /// Makes a range zero.
    pub(super) fn zero(&mut self, from: u64, to: u64) {
        let held = self.pages.iter(from / PAGE).map(|(page, _)| page);
        let held: Vec<u64> = held.take_while(|page| page * PAGE < to).collect();
        for page in held {
            let start = page * PAGE;
            let (first, last) = (from.max(start) - start, (to - start).min(PAGE));
            let old = self.pages.get(page).map_or(0, Bytes::len) as u64;
            let last = last.min(old);
            match first {
                0 if last == old => self.put(page, None),
                _ if last == old && first < last => {
                    let new = self.pages.get(page).map(|bytes| bytes.slice(..first as usize));
                    self.put(page, new);
                }
                _ if first < last => {
                    let zeros = Bytes::from(vec![0; (last - first) as usize]);
                    let new = patched(self.pages.get(page), first as usize, &zeros);
                    self.put(page, Some(new));
                }
                _ => {}
            }
        }
    }

    fn cut(&mut self, to: u64) {
        if to < self.end {
            self.zero(to, u64::MAX);
            self.end = to;
        }
    }

    fn put(&mut self, page: u64, new: Option<Bytes>) {
        self.print ^= new.as_ref().map_or(0, |bytes| page_print(page, bytes));
        let old = std::mem::replace(self.pages.slot(page), new);
        self.print ^= old.map_or(0, |bytes| page_print(page, &bytes));
    }

    /// The same without bytes behind the size.
    fn seen(&self) -> Content {
        let mut seen = self.clone();
        seen.cut(seen.size);
        seen
    }

    /// Tells contents apart: equal contents have equal prints.
    pub(super) fn print(&self) -> u128 {
        let print = if self.end <= self.size { self.print } else { self.seen().print };
        print ^ spread(mix(self.size ^ 0x5173), self.size)
    }

    /// The pages that are not zeros: first byte, and what is not zeros at the end, in order.
    pub(super) fn pages(&self) -> Vec<(u64, Bytes)> {
        let seen = self.seen();
        let held = |bytes: &Bytes| bytes.slice(..without_zeros(bytes).len());
        let pages = seen.pages.iter(0).map(|(page, bytes)| (page * PAGE, held(bytes)));
        pages.filter(|(_, bytes)| !bytes.is_empty()).collect()
    }

    /// The pages that differ from those of `other`: first byte, and what this content has there,
    /// without zeros at its end.
    pub(super) fn differing(&self, other: &Content) -> Vec<(u64, Bytes)> {
        let (ours, theirs) = (self.seen(), other.seen());
        let mut found = Vec::new();
        ours.pages.differing(&theirs.pages, &mut |page, ours, theirs| {
            let held = |bytes: Option<&Bytes>| {
                bytes.map_or(Bytes::new(), |bytes| bytes.slice(..without_zeros(bytes).len()))
            };
            let ours = held(ours);
            if ours != held(theirs) {
                found.push((page * PAGE, ours));
            }
        });
        found
    }
}

/// A page with other bytes in one place.
fn patched(old: Option<&Bytes>, within: usize, data: &[u8]) -> Bytes {
    let old = old.map_or(&[][..], |old| old);
    let mut new = vec![0; old.len().max(within + data.len())];
    new[..old.len()].copy_from_slice(old);
    new[within..within + data.len()].copy_from_slice(data);
    new.into()
}

/// Bytes up to the last one that is not zero.
fn without_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().rev().take_while(|&&byte| byte == 0).count();
    &bytes[..bytes.len() - zeros]
}

/// The part of a page in the print of its content; 0 for zeros.
fn page_print(page: u64, bytes: &[u8]) -> u128 {
    match without_zeros(bytes) {
        [] => 0,
        held => spread(xxh3_64(held), page),
    }
}

/// 128 bits of a hash and a place.
pub(super) fn spread(hash: u64, place: u64) -> u128 {
    let low = mix(hash ^ mix(place ^ 0x9e37_79b9_7f4a_7c15));
    let high = mix(low ^ mix(hash.rotate_left(32) ^ place));
    u128::from(high) << 64 | u128::from(low)
}
