//! Sets of micro-operations.

/// A set of micro-operations, by index.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    words: Vec<u64>,
}

impl Kept {
    /// All below `count`.
    pub fn below(count: usize) -> Kept {
        (0..count).collect()
    }

    /// Adds one. True if it is new.
    pub fn insert(&mut self, index: usize) -> bool {
        let (word, bit) = (index / 64, 1 << (index % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        is_new
    }

    /// Removes one.
    pub fn remove(&mut self, index: usize) {
        if let Some(word) = self.words.get_mut(index / 64) {
            *word &= !(1 << (index % 64));
        }
    }

    /// True if it is in the set.
    pub fn contains(&self, index: usize) -> bool {
        self.words.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// Its members in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(64 * at + bit)
            })
        })
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }
}

impl FromIterator<usize> for Kept {
    fn from_iter<I: IntoIterator<Item = usize>>(members: I) -> Kept {
        let mut set = Kept::default();
        set.extend(members);
        set
    }
}

impl Extend<usize> for Kept {
    fn extend<I: IntoIterator<Item = usize>>(&mut self, members: I) {
        members.into_iter().for_each(|index| {
            self.insert(index);
        });
    }
}
