//! A slot table in shared chunks: values by small numbers that stay the same.

use super::part::Part;

/// Slots of a chunk: what the first change after a clone copies.
const CHUNK: usize = 32;

/// Chunks of a row. A clone counts a reference for each row, of 1024 slots.
const ROW: usize = 32;

/// No free slot.
const NONE: u32 = u32::MAX;

/// Values by slots. The slot that was freed last is used next.
#[derive(Clone, Debug)]
pub struct CowTable<T> {
    rows: Vec<Part<Row<T>>>,
    chunks: usize,
    /// The first free slot; each names the next one.
    free: u32,
    len: usize,
}

type Row<T> = [Option<Part<[Entry<T>; CHUNK]>>; ROW];

#[derive(Clone, Debug)]
enum Entry<T> {
    Free(u32),
    Used(T),
}

impl<T> Default for CowTable<T> {
    fn default() -> CowTable<T> {
        CowTable { rows: Vec::new(), chunks: 0, free: NONE, len: 0 }
    }
}

impl<T: Clone> CowTable<T> {
    /// Makes clones cheap.
    pub fn share(&mut self) {
        for row in &mut self.rows {
            row.share(|row| {
                row.iter_mut().flatten().for_each(|chunk| chunk.share(|_| {}));
            });
        }
    }

    /// Number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without values.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value in a slot, if there is one.
    #[inline]
    pub fn get(&self, slot: u32) -> Option<&T> {
        let row = self.rows.get(slot as usize / (CHUNK * ROW))?;
        let chunk = row[slot as usize / CHUNK % ROW].as_ref()?;
        match &chunk[slot as usize % CHUNK] {
            Entry::Used(value) => Some(value),
            Entry::Free(_) => None,
        }
    }

    /// The values, by slot.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        let chunks = self.rows.iter().flat_map(|row| row.iter().flatten());
        chunks.flat_map(|chunk| chunk.iter()).filter_map(|entry| match entry {
            Entry::Used(value) => Some(value),
            Entry::Free(_) => None,
        })
    }

    /// The value in a slot, to be changed, if there is one.
    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        match self.entry(slot)? {
            Entry::Used(value) => Some(value),
            Entry::Free(_) => None,
        }
    }

    #[inline]
    fn entry(&mut self, slot: u32) -> Option<&mut Entry<T>> {
        let row = self.rows.get_mut(slot as usize / (CHUNK * ROW))?.make_mut();
        let chunk = row[slot as usize / CHUNK % ROW].as_mut()?.make_mut();
        Some(&mut chunk[slot as usize % CHUNK])
    }

    /// Puts a value into a free slot.
    ///
    /// # Panics
    /// With 2^32 - 1 values.
    pub fn insert(&mut self, value: T) -> u32 {
        if self.free == NONE {
            self.grow();
        }
        let slot = self.free;
        let entry = self.entry(slot).expect("a free slot is in a chunk");
        let Entry::Free(next) = std::mem::replace(entry, Entry::Used(value)) else {
            unreachable!("slot {slot} is free")
        };
        self.free = next;
        self.len += 1;
        slot
    }

    /// Takes a value out; its slot is free then. `None` if it was free.
    pub fn remove(&mut self, slot: u32) -> Option<T> {
        self.get(slot)?;
        let free = Entry::Free(self.free);
        let Entry::Used(value) = std::mem::replace(self.entry(slot)?, free) else { return None };
        self.free = slot;
        self.len -= 1;
        Some(value)
    }

    fn grow(&mut self) {
        let first = u32::try_from(self.chunks * CHUNK).expect("fewer than 2^32 values");
        let last = first + CHUNK as u32 - 1;
        let next = |slot| Entry::Free(if slot == last { NONE } else { slot + 1 });
        if self.chunks.is_multiple_of(ROW) {
            self.rows.push(Part::new([const { None }; ROW]));
        }
        let row = self.rows.last_mut().expect("there is a row").make_mut();
        let chunk = std::array::from_fn(|index| next(first + index as u32));
        row[self.chunks % ROW] = Some(Part::new(chunk));
        self.chunks += 1;
        self.free = first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use slab::Slab;

    proptest! {
        /// It gives the slots that a slab gives, and clones keep what they had.
        #[test]
        fn a_table_and_its_clones_are_slabs(
            steps in prop::collection::vec((0u8..9, 0u32..1500), 1..9000),
        ) {
            let (mut table, mut model) = (CowTable::default(), Slab::new());
            let mut clones = Vec::new();
            for (what, slot) in steps {
                match what {
                    0..=5 => prop_assert_eq!(table.insert(slot) as usize, model.insert(slot)),
                    6 => prop_assert_eq!(table.remove(slot), model.try_remove(slot as usize)),
                    7 => {
                        let change = |value: &mut u32| *value += 1;
                        table.get_mut(slot).map(change);
                        model.get_mut(slot as usize).map(change);
                    }
                    _ if clones.len() < 4 => {
                        if slot % 4 > 0 {
                            table.share();
                        }
                        clones.push((table.clone(), model.clone()));
                    }
                    _ => {}
                }
            }
            clones.push((table, model));
            for (table, model) in clones {
                prop_assert_eq!((table.len(), table.is_empty()), (model.len(), model.is_empty()));
                for slot in 0..7000 {
                    prop_assert_eq!(table.get(slot), model.get(slot as usize));
                }
            }
        }
    }
}
