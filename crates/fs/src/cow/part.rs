//! A part of a collection: owned by it alone, or shared with clones.
//!
//! A change of an owned part is a change behind a pointer: no counter is looked at, which matters
//! for a cache that is changed a hundred times in each operation. [`Part::share`] makes a part
//! cheap to clone; the first change afterwards copies it, unless the clones have gone.

use std::ops::Deref;
use std::sync::Arc;

/// A value behind a pointer. A clone of an owned part copies the value; one of a shared part counts
/// a reference.
#[derive(Debug)]
pub enum Part<T> {
    /// No clone has it.
    Owned(Box<T>),
    /// Clones may have it, and nothing changes it.
    Shared(Arc<Box<T>>),
    /// It is between the two; never seen from outside.
    Moving,
}

impl<T> Part<T> {
    /// An owned part.
    pub fn new(value: T) -> Part<T> {
        Part::Owned(Box::new(value))
    }

    /// Makes clones cheap. `inner` does the same to what the value holds, unless it is done.
    pub fn share(&mut self, inner: impl FnOnce(&mut T)) {
        if let Part::Owned(value) = self {
            inner(value);
            if let Part::Owned(value) = std::mem::replace(self, Part::Moving) {
                *self = Part::Shared(Arc::new(value));
            }
        }
    }
}

impl<T: Clone> Part<T> {
    /// The value, to be changed; copied first if clones have it.
    #[inline]
    pub fn make_mut(&mut self) -> &mut T {
        if !matches!(self, Part::Owned(_)) {
            self.own();
        }
        match self {
            Part::Owned(value) => value,
            _ => unreachable!("it was just made an owned part"),
        }
    }

    #[cold]
    fn own(&mut self) {
        let Part::Shared(shared) = std::mem::replace(self, Part::Moving) else {
            unreachable!("a part is owned or shared")
        };
        *self = Part::Owned(Arc::try_unwrap(shared).unwrap_or_else(|shared| Box::clone(&shared)));
    }
}

impl<T> Deref for Part<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match self {
            Part::Owned(value) => value,
            Part::Shared(value) => value,
            Part::Moving => unreachable!("a part is owned or shared"),
        }
    }
}

impl<T: Clone> Clone for Part<T> {
    fn clone(&self) -> Part<T> {
        match self {
            Part::Shared(value) => Part::Shared(Arc::clone(value)),
            _ => Part::new(T::clone(self)),
        }
    }
}

impl<T: Default> Default for Part<T> {
    fn default() -> Part<T> {
        Part::new(T::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(part: &Part<[u8; 9]>) -> *const [u8; 9] {
        &raw const **part
    }

    #[test]
    fn a_shared_part_is_copied_when_it_changes_and_a_clone_has_it() {
        let mut part = Part::new([1; 9]);
        assert_ne!(place(&part), place(&part.clone()), "an owned part is copied at once");
        let at = place(&part);
        part.share(|value| value[0] = 2);
        part.share(|_| panic!("it is shared"));
        let clone = part.clone();
        assert_eq!((place(&part), place(&clone)), (at, at));
        part.make_mut()[1] = 3;
        assert_eq!((part[0], part[1], clone[1], place(&clone)), (2, 3, 1, at));

        let mut last = clone;
        last.make_mut()[1] = 4;
        assert_eq!(place(&last), at, "no other has it");
    }
}
