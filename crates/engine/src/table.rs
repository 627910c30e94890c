//! A table that takes memory only for rows with entries.

/// Entries in a row. With chunks of 16 blocks a row stands for 32 MiB, so a disk of 30 TB has
/// 900,000 rows, 14 MB, and a scattered entry costs 8 KiB.
const ROW: usize = 512;

/// A list of optional values of fixed length. A row that was never filled takes eight or sixteen
/// bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table<T> {
    /// Entries.
    length: usize,
    rows: Vec<Option<Box<[Option<T>]>>>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { length: 0, rows: Vec::new() }
    }
}

impl<T> Table<T> {
    /// An empty table of `length` entries.
    ///
    /// # Panics
    /// If they are more than an address can name.
    pub fn new(length: u64) -> Table<T> {
        let length = usize::try_from(length).expect("a table fits the address space");
        let rows = (0..length.div_ceil(ROW)).map(|_| None).collect();
        Table { length, rows }
    }

    /// Bytes of the table itself, without memory that its entries own.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        let rows = self.rows.iter().flatten().map(|row| size_of_val(&**row)).sum::<usize>();
        size_of_val(&*self.rows) + rows
    }

    /// True if its length is zero.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// An entry; `None` if it is not filled or beyond the end.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.rows.get(index / ROW)?.as_ref()?[index % ROW..].first()?.as_ref()
    }

    /// A filled entry, mutable.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.rows.get_mut(index / ROW)?.as_mut()?.get_mut(index % ROW)?.as_mut()
    }

    /// An entry, created if it is not filled.
    ///
    /// # Panics
    /// Beyond the end.
    pub fn entry(&mut self, index: usize, make: impl FnOnce() -> T) -> &mut T {
        assert!(index < self.length, "entry {index} of {}", self.length);
        let first = index / ROW * ROW;
        let width = ROW.min(self.length - first);
        let row = self.rows[index / ROW].get_or_insert_with(|| (0..width).map(|_| None).collect());
        row[index - first].get_or_insert_with(make)
    }

    /// Takes an entry out.
    pub fn remove(&mut self, index: usize) {
        if let Some(Some(row)) = self.rows.get_mut(index / ROW)
            && let Some(entry) = row.get_mut(index % ROW)
        {
            *entry = None;
        }
    }

    /// The first filled entry at or behind `index`.
    pub fn next(&self, index: usize) -> Option<usize> {
        let first = index / ROW;
        let rows = self.rows.get(first..)?.iter().enumerate();
        for (number, row) in rows {
            let Some(row) = row else { continue };
            let skip = if number == 0 { index % ROW } else { 0 };
            let Some(rest) = row.get(skip..) else { continue };
            if let Some(at) = rest.iter().position(Option::is_some) {
                return Some((first + number) * ROW + skip + at);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_where_they_were_put() {
        let mut table = Table::new(ROW as u64 + 3);
        assert_eq!((table.get(0), table.next(0), table.is_empty()), (None, None, false));
        *table.entry(ROW + 2, || 1) += 1;
        *table.entry(7, || 5) += 1;
        assert_eq!((table.get(7), table.get(ROW + 2), table.get(8)), (Some(&6), Some(&2), None));
        assert_eq!(
            (table.next(0), table.next(8), table.next(ROW + 3)),
            (Some(7), Some(ROW + 2), None)
        );
        // Beyond the end, but inside of what a whole row would hold.
        assert_eq!((table.get(ROW + 3), table.get(9 * ROW)), (None, None));
        table.remove(7);
        assert_eq!(table.get_mut(7), None);
        assert_eq!(table.next(0), Some(ROW + 2));
        assert!(Table::<u8>::default().is_empty());
    }

    #[test]
    #[should_panic(expected = "entry 515 of 515")]
    fn there_is_no_entry_beyond_the_end() {
        Table::new(ROW as u64 + 3).entry(ROW + 3, || 0);
    }
}
