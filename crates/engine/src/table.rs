//! A table that takes memory only for rows with entries.

/// Entries in a row. With chunks of 16 blocks a row stands for 64 MiB, so a disk of 30 TB has
/// 450,000 rows, 11 MB.
const ROW: usize = 1024;

/// A row with more entries than this has a place for each. Fewer are a sorted list: random writes
/// to a disk of 20 TB leave one or two entries in a row.
const MOST_LISTED: usize = 32;

/// A list of optional values of fixed length. A row that was never filled takes 24 bytes, a
/// scattered entry little more than itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table<T> {
    /// Entries.
    length: usize,
    rows: Vec<Row<T>>,
}

/// Entries of a row. Rows with the same entries may differ in form, so equality is by entry.
#[derive(Clone, Debug)]
enum Row<T> {
    /// Filled entries with their places, in order.
    Listed(Vec<(u16, T)>),
    /// A place for each.
    Whole(Box<[Option<T>]>),
}

impl<T> Row<T> {
    fn get(&self, at: usize) -> Option<&T> {
        match self {
            Row::Whole(entries) => entries.get(at)?.as_ref(),
            Row::Listed(entries) => find(entries, at).ok().map(|index| &entries[index].1),
        }
    }

    fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        match self {
            Row::Whole(entries) => entries.get_mut(at)?.as_mut(),
            Row::Listed(entries) => find(entries, at).ok().map(|index| &mut entries[index].1),
        }
    }

    /// An entry, created if it is not filled; `width` is the length of the row.
    #[inline]
    fn entry(&mut self, at: usize, width: usize, make: impl FnOnce() -> T) -> &mut T {
        if let Row::Listed(entries) = self
            && entries.len() >= MOST_LISTED
            && find(entries, at).is_err()
        {
            self.widen(width);
        }
        match self {
            Row::Whole(entries) => entries[at].get_or_insert_with(make),
            Row::Listed(entries) => {
                let index = find(entries, at).unwrap_or_else(|index| {
                    entries.insert(index, (at as u16, make()));
                    index
                });
                &mut entries[index].1
            }
        }
    }

    /// Gives each entry a place of its own.
    #[cold]
    fn widen(&mut self, width: usize) {
        let Row::Listed(listed) = self else { return };
        let mut whole: Box<[Option<T>]> = (0..width).map(|_| None).collect();
        for (at, entry) in listed.drain(..) {
            whole[usize::from(at)] = Some(entry);
        }
        *self = Row::Whole(whole);
    }

    fn remove(&mut self, at: usize) {
        match self {
            Row::Whole(entries) => {
                if let Some(entry) = entries.get_mut(at) {
                    *entry = None;
                }
            }
            Row::Listed(entries) => {
                if let Ok(index) = find(entries, at) {
                    entries.remove(index);
                }
            }
        }
    }

    /// The first filled entry at or behind `at`.
    fn next(&self, at: usize) -> Option<usize> {
        match self {
            Row::Whole(entries) => {
                entries.get(at..)?.iter().position(Option::is_some).map(|index| at + index)
            }
            Row::Listed(entries) => {
                let index = find(entries, at).unwrap_or_else(|index| index);
                entries.get(index).map(|&(place, _)| usize::from(place))
            }
        }
    }

    fn entries(&self) -> impl Iterator<Item = (usize, &T)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let found = self.next(at)?;
            at = found + 1;
            Some((found, self.get(found)?))
        })
    }
}

impl<T: PartialEq> PartialEq for Row<T> {
    fn eq(&self, other: &Row<T>) -> bool {
        self.entries().eq(other.entries())
    }
}

impl<T: Eq> Eq for Row<T> {}

/// The index of an entry in a sorted list, or the one where it belongs.
fn find<T>(entries: &[(u16, T)], at: usize) -> Result<usize, usize> {
    entries.binary_search_by_key(&at, |&(place, _)| usize::from(place))
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
        let rows = (0..length.div_ceil(ROW)).map(|_| Row::Listed(Vec::new())).collect();
        Table { length, rows }
    }

    /// Bytes of the table itself, without memory that its entries own.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        let of = |row: &Row<T>| match row {
            Row::Listed(entries) => entries.capacity() * size_of::<(u16, T)>(),
            Row::Whole(entries) => size_of_val(&**entries),
        };
        size_of_val(&*self.rows) + self.rows.iter().map(of).sum::<usize>()
    }

    /// True if its length is zero.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// An entry; `None` if it is not filled or beyond the end.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        self.rows.get(index / ROW)?.get(index % ROW)
    }

    /// A filled entry, mutable.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.rows.get_mut(index / ROW)?.get_mut(index % ROW)
    }

    /// An entry, created if it is not filled.
    ///
    /// # Panics
    /// Beyond the end.
    #[inline]
    pub fn entry(&mut self, index: usize, make: impl FnOnce() -> T) -> &mut T {
        assert!(index < self.length, "entry {index} of {}", self.length);
        let first = index / ROW * ROW;
        self.rows[index / ROW].entry(index - first, ROW.min(self.length - first), make)
    }

    /// Takes an entry out.
    pub fn remove(&mut self, index: usize) {
        if let Some(row) = self.rows.get_mut(index / ROW) {
            row.remove(index % ROW);
        }
    }

    /// The first filled entry at or behind `index`.
    pub fn next(&self, index: usize) -> Option<usize> {
        let first = index / ROW;
        let rows = self.rows.get(first..)?.iter().enumerate();
        for (number, row) in rows {
            let skip = if number == 0 { index % ROW } else { 0 };
            if let Some(at) = row.next(skip) {
                return Some((first + number) * ROW + at);
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

    /// Random writes to a large disk fill one or two entries of a row. Each costs its own size, and
    /// not that of a row of places.
    #[test]
    fn scattered_entries_take_the_memory_of_entries() {
        let rows = 10_000;
        let mut table: Table<Box<u64>> = Table::new(rows * ROW as u64);
        let empty = table.bytes();
        for row in 0..rows {
            table.entry((row * ROW as u64 + row % 500) as usize, || Box::new(row));
        }
        let each = (table.bytes() - empty) as u64 / rows;
        assert!(each <= 64, "{each} bytes for an entry");
    }

    /// Both forms of a row hold the same entries.
    #[test]
    fn a_row_changes_its_form_and_keeps_its_entries() {
        let mut table = Table::new(ROW as u64);
        let places = |count: usize| (0..count).map(|number| number * 37 % ROW);
        for at in places(MOST_LISTED) {
            table.entry(at, || at);
        }
        assert!(matches!(table.rows[0], Row::Listed(_)));
        let listed = table.clone();
        table.entry(511, || 511);
        assert!(matches!(table.rows[0], Row::Whole(_)));
        assert_ne!(table, listed);
        table.remove(511);
        assert_eq!(table, listed);
        assert!(places(MOST_LISTED).all(|at| table.get(at) == Some(&at)));
        let mut sorted: Vec<usize> = places(MOST_LISTED).collect();
        sorted.sort_unstable();
        let mut at = 0;
        for place in sorted {
            assert_eq!((table.next(at), listed.next(at)), (Some(place), Some(place)));
            at = place + 1;
        }
        assert_eq!((table.next(at), listed.next(at)), (None, None));
    }

    #[test]
    #[should_panic(expected = "entry 1027 of 1027")]
    fn there_is_no_entry_beyond_the_end() {
        Table::new(ROW as u64 + 3).entry(ROW + 3, || 0);
    }
}
