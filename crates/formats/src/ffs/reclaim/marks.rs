//! A bit, or the names, for each number of a range. Numbers outside of it have none.

use seekless_fs::cow::Part;
use std::ops::Range;

/// A bit for each number of a range.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    range: Range<u32>,
    words: Part<Vec<u64>>,
}

impl Marks {
    /// No bit is set.
    pub fn new(range: Range<u32>) -> Marks {
        let words = Part::new(vec![0; range.len().div_ceil(64)]);
        Marks { range, words }
    }

    /// Makes clones cheap.
    pub fn share(&mut self) {
        self.words.share(|_| {});
    }

    fn place(&self, number: u32) -> Option<(usize, u64)> {
        let index = self.range.contains(&number).then(|| number - self.range.start)?;
        Some((index as usize / 64, 1 << (index % 64)))
    }

    /// True if a number has its bit.
    pub fn has(&self, number: u32) -> bool {
        self.place(number).is_some_and(|(word, bit)| self.words[word] & bit != 0)
    }

    /// Sets the bit of a number.
    pub fn insert(&mut self, number: u32) {
        if let Some((word, bit)) = self.place(number) {
            self.words.make_mut()[word] |= bit;
        }
    }

    /// Clears the bits of some numbers.
    pub fn remove(&mut self, numbers: Range<u32>) {
        for number in numbers {
            if let Some((word, bit)) = self.place(number).filter(|&(w, b)| self.words[w] & b != 0) {
                self.words.make_mut()[word] &= !bit;
            }
        }
    }

    /// The first number from one on, and below another one, that has its bit.
    pub fn next(&self, from: u32, below: u32) -> Option<u32> {
        let below = below.min(self.range.end);
        let mut number = from.max(self.range.start);
        while number < below {
            let (word, bit) = self.place(number)?;
            let rest = self.words[word] & !(bit - 1);
            if rest != 0 {
                let found = self.range.start + word as u32 * 64 + rest.trailing_zeros();
                return (found < below).then_some(found);
            }
            number = self.range.start + (word as u32 + 1) * 64;
        }
        None
    }
}

/// The names of each inode of a range: of a directory the parent, of any other object a count.
#[derive(Clone, Debug)]
pub(super) struct Names {
    range: Range<u32>,
    names: Part<Vec<u32>>,
}

/// In place of a parent: there are several.
const SEVERAL: u32 = u32::MAX;

impl Names {
    /// None.
    pub fn new(range: Range<u32>) -> Names {
        let names = Part::new(vec![0; range.len()]);
        Names { range, names }
    }

    /// Makes clones cheap.
    pub fn share(&mut self) {
        self.names.share(|_| {});
    }

    /// True if they are kept of an inode.
    pub fn covers(&self, ino: u32) -> bool {
        self.range.contains(&ino)
    }

    fn get(&self, ino: u32) -> u32 {
        match self.covers(ino) {
            true => self.names[(ino - self.range.start) as usize],
            false => 0,
        }
    }

    fn change(&mut self, ino: u32, change: impl FnOnce(u32) -> u32) {
        if self.covers(ino) {
            let slot = &mut self.names.make_mut()[(ino - self.range.start) as usize];
            *slot = change(*slot);
        }
    }

    /// Names of an inode that is none of a directory.
    pub fn count(&self, ino: u32) -> u32 {
        self.get(ino)
    }

    /// Counts a name of such an inode.
    pub fn add(&mut self, ino: u32) {
        self.change(ino, |count| count.saturating_add(1));
    }

    /// The directory with the only name of a directory.
    pub fn parent(&self, ino: u32) -> Option<u32> {
        Some(self.get(ino)).filter(|&parent| parent != 0 && parent != SEVERAL)
    }

    /// True if a directory has several names.
    pub fn has_several(&self, ino: u32) -> bool {
        self.get(ino) == SEVERAL
    }

    /// Notes a name of a directory, in another one.
    pub fn lies_in(&mut self, ino: u32, parent: u32) {
        self.change(ino, |before| if before == 0 { parent } else { SEVERAL });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_of_the_range_have_no_bit() {
        let mut marks = Marks::new(100..300);
        for number in [99, 100, 163, 164, 299, 300] {
            marks.insert(number);
        }
        let has = [99, 100, 101, 163, 164, 299, 300].map(|number| marks.has(number));
        assert_eq!(has, [false, true, false, true, true, true, false]);
        assert_eq!(marks.next(0, u32::MAX), Some(100));
        assert_eq!(marks.next(101, u32::MAX), Some(163));
        assert_eq!(marks.next(165, 299), None);
        marks.remove(0..164);
        assert_eq!(marks.next(0, u32::MAX), Some(164));
    }

    #[test]
    fn names_are_counted_or_remembered() {
        let mut names = Names::new(5..8);
        (0..70_000).for_each(|_| names.add(6));
        names.add(8);
        assert_eq!([4, 5, 6, 8].map(|ino| names.count(ino)), [0, 0, 70_000, 0]);
        assert_eq!((names.parent(7), names.has_several(7)), (None, false));
        names.lies_in(7, 2);
        assert_eq!((names.parent(7), names.has_several(7)), (Some(2), false));
        names.lies_in(7, 2);
        assert_eq!((names.parent(7), names.has_several(7)), (None, true));
    }
}
