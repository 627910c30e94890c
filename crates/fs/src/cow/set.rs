//! An ordered set over [`CowMap`].

use super::map::CowMap;
use std::ops::RangeBounds;

/// An ordered set. A clone of a shared one counts one reference.
#[derive(Clone, Debug)]
pub struct CowSet<K>(CowMap<K, ()>);

impl<K> Default for CowSet<K> {
    fn default() -> CowSet<K> {
        CowSet(CowMap::default())
    }
}

impl<K: Copy + Ord> CowSet<K> {
    /// Makes clones cheap.
    pub fn share(&mut self) {
        self.0.share(|()| {});
    }

    /// Number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True without keys.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if the key is there.
    #[inline]
    pub fn contains(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// Adds a key; false if it was there.
    pub fn insert(&mut self, key: K) -> bool {
        // Most keys are there already, and then nothing is copied.
        !self.contains(&key) && self.0.insert(key, ()).is_none()
    }

    /// Removes a key; false if it was not there.
    pub fn remove(&mut self, key: &K) -> bool {
        self.0.remove(key).is_some()
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The first key.
    #[inline]
    pub fn first(&self) -> Option<&K> {
        self.0.first().map(|entry| entry.0)
    }

    /// Removes the first key.
    pub fn pop_first(&mut self) -> Option<K> {
        self.0.pop_first().map(|entry| entry.0)
    }

    /// The keys in order.
    pub fn iter(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|entry| entry.0)
    }

    /// The keys in a range, in order.
    pub fn range(&self, range: impl RangeBounds<K>) -> impl Iterator<Item = &K> {
        self.0.range(range).map(|entry| entry.0)
    }
}
