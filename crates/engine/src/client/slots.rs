//! A slot table: names requests by tags and gives each its context back with the answer.

use crate::io::Tag;
use slab::Slab;

/// Contexts of requests in flight. A tag is the index of its slot; the slot of the request that was
/// answered last is the next one to be used, so few of them stay in the cache.
#[derive(Clone, Debug)]
pub struct Slots<T>(Slab<T>);

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots(Slab::new())
    }
}

impl<T> Slots<T> {
    /// No request in flight, and memory for `requests` of them.
    pub fn with_capacity(requests: usize) -> Slots<T> {
        Slots(Slab::with_capacity(requests))
    }

    /// Requests in flight.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if no request is in flight.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps the context of a request and gives the tag to send it under.
    #[inline]
    pub fn insert(&mut self, context: T) -> Tag {
        self.0.insert(context) as Tag
    }

    /// The context of a request in flight.
    #[inline]
    pub fn get(&self, tag: Tag) -> Option<&T> {
        self.0.get(tag as usize)
    }

    /// The context of a request that has been answered; its tag is free again.
    ///
    /// # Panics
    /// If no request of this tag is in flight: a volume has answered one that was not asked.
    #[inline]
    pub fn remove(&mut self, tag: Tag) -> T {
        self.0.remove(tag as usize)
    }

    /// The requests in flight, in the order of their tags.
    pub fn iter(&self) -> impl Iterator<Item = (Tag, &T)> {
        self.0.iter().map(|(index, context)| (index as Tag, context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_one_request_at_a_time() {
        let mut slots = Slots::with_capacity(2);
        let (a, b) = (slots.insert("a"), slots.insert("b"));
        assert_ne!(a, b);
        assert_eq!((slots.len(), slots.get(b)), (2, Some(&"b")));
        assert_eq!(slots.remove(a), "a");
        assert_eq!(slots.get(a), None);
        assert_eq!(slots.insert("c"), a, "the slot used last is used next");
        assert_eq!(slots.iter().collect::<Vec<_>>(), [(a, &"c"), (b, &"b")]);
    }

    #[test]
    #[should_panic(expected = "invalid key")]
    fn an_answer_without_a_request_is_a_defect() {
        let mut slots = Slots::default();
        let tag = slots.insert(());
        slots.remove(tag);
        slots.remove(tag);
    }
}
