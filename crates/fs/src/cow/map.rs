//! An ordered map as a B+ tree of shared nodes.

use super::part::Part;
use smallvec::SmallVec;
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};

/// Entries of a node at most.
const MOST: usize = 16;

/// A node with fewer entries is joined with a neighbour.
const FEWEST: usize = MOST / 4;

/// An ordered map. A clone of a shared one counts one reference.
#[derive(Clone, Debug)]
pub struct CowMap<K, V> {
    root: Option<Child<K, V>>,
    len: usize,
}

#[derive(Debug)]
enum Node<K, V> {
    Leaf(Vec<(K, V)>),
    /// Children; each key but the first is a lower bound of its child.
    Inner(Vec<(K, Child<K, V>)>),
}

type Child<K, V> = Part<Node<K, V>>;

type Children<K, V> = [(K, Child<K, V>)];

/// The right half of a node that was split, and its lower bound.
type Split<K, V> = Option<(K, Child<K, V>)>;

impl<K: Clone, V: Clone> Clone for Node<K, V> {
    /// A copy has the memory for all entries, because it is about to be changed.
    fn clone(&self) -> Node<K, V> {
        fn copy<T: Clone>(from: &[T]) -> Vec<T> {
            let mut to = Vec::with_capacity(MOST + 1);
            to.extend_from_slice(from);
            to
        }
        match self {
            Node::Leaf(entries) => Node::Leaf(copy(entries)),
            Node::Inner(children) => Node::Inner(copy(children)),
        }
    }
}

impl<K, V> Default for CowMap<K, V> {
    fn default() -> CowMap<K, V> {
        CowMap { root: None, len: 0 }
    }
}

/// The child in which a key belongs.
fn child_of<K: Ord, V>(children: &[(K, Child<K, V>)], key: &K) -> usize {
    children.partition_point(|child| child.0 <= *key).saturating_sub(1)
}

fn halve<T>(entries: &mut Vec<T>) -> Option<Vec<T>> {
    if entries.len() <= MOST {
        return None;
    }
    let mut right = Vec::with_capacity(MOST + 1);
    right.extend(entries.drain(MOST / 2..));
    Some(right)
}

/// Moves everything to the left; gives back half of it if that is too much.
fn join<T>(left: &mut Vec<T>, right: &mut Vec<T>) -> Option<Vec<T>> {
    left.append(right);
    halve(left)
}

impl<K: Copy + Ord, V: Clone> Node<K, V> {
    fn len(&self) -> usize {
        match self {
            Node::Leaf(entries) => entries.len(),
            Node::Inner(children) => children.len(),
        }
    }

    /// Below a shared node everything is shared.
    fn share(node: &mut Child<K, V>, values: &mut impl FnMut(&mut V)) {
        node.share(|node| match node {
            Node::Leaf(entries) => entries.iter_mut().for_each(|entry| values(&mut entry.1)),
            Node::Inner(children) => {
                children.iter_mut().for_each(|child| Node::share(&mut child.1, values));
            }
        });
    }

    /// Shows `change` the value of a key; if there is none, it may give one.
    fn alter<R>(
        node: &mut Child<K, V>,
        key: K,
        change: impl FnOnce(Option<&mut V>) -> (R, Option<V>),
    ) -> (R, Split<K, V>) {
        match node.make_mut() {
            Node::Leaf(entries) => match entries.binary_search_by(|entry| entry.0.cmp(&key)) {
                Ok(at) => (change(Some(&mut entries[at].1)).0, None),
                Err(at) => {
                    let (result, value) = change(None);
                    if let Some(value) = value {
                        entries.insert(at, (key, value));
                    }
                    let right = halve(entries);
                    (result, right.map(|right| (right[0].0, Part::new(Node::Leaf(right)))))
                }
            },
            Node::Inner(children) => {
                let at = child_of(children, &key);
                let (result, split) = Node::alter(&mut children[at].1, key, change);
                let Some(right) = split else { return (result, None) };
                children.insert(at + 1, right);
                let right = halve(children);
                (result, right.map(|right| (right[0].0, Part::new(Node::Inner(right)))))
            }
        }
    }

    fn remove(node: &mut Child<K, V>, key: &K) -> Option<V> {
        match node.make_mut() {
            Node::Leaf(entries) => {
                let at = entries.binary_search_by(|entry| entry.0.cmp(key)).ok()?;
                Some(entries.remove(at).1)
            }
            Node::Inner(children) => {
                let at = child_of(children, key);
                let old = Node::remove(&mut children[at].1, key)?;
                if children[at].1.len() < FEWEST && children.len() > 1 {
                    Node::mend(children, at.min(children.len() - 2));
                }
                Some(old)
            }
        }
    }

    /// Joins a child with its right neighbour, or shares entries between them.
    fn mend(children: &mut Vec<(K, Child<K, V>)>, left: usize) {
        let (_, mut right) = children.remove(left + 1);
        let rest = match (children[left].1.make_mut(), right.make_mut()) {
            (Node::Leaf(left), Node::Leaf(right)) => {
                join(left, right).map(|rest| (rest[0].0, Part::new(Node::Leaf(rest))))
            }
            (Node::Inner(left), Node::Inner(right)) => {
                join(left, right).map(|rest| (rest[0].0, Part::new(Node::Inner(rest))))
            }
            _ => unreachable!("children of one node have one height"),
        };
        if let Some(rest) = rest {
            children.insert(left + 1, rest);
        }
    }
}

impl<K: Copy + Ord, V: Clone> CowMap<K, V> {
    /// Makes clones cheap. `values` does so to a value that may have changed since the last time.
    pub fn share(&mut self, mut values: impl FnMut(&mut V)) {
        if let Some(root) = &mut self.root {
            Node::share(root, &mut values);
        }
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: &K) -> Option<&V> {
        let mut node = self.root.as_deref()?;
        loop {
            match node {
                Node::Inner(children) => node = &children[child_of(children, key)].1,
                Node::Leaf(entries) => {
                    let at = entries.binary_search_by(|entry| entry.0.cmp(key)).ok()?;
                    return Some(&entries[at].1);
                }
            }
        }
    }

    /// True if the key is there.
    #[inline]
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        if self.is_empty() {
            return None;
        }
        let mut node = self.root.as_mut()?.make_mut();
        loop {
            match node {
                Node::Inner(children) => {
                    let at = child_of(children, key);
                    node = children[at].1.make_mut();
                }
                Node::Leaf(entries) => {
                    let at = entries.binary_search_by(|entry| entry.0.cmp(key)).ok()?;
                    return Some(&mut entries[at].1);
                }
            }
        }
    }

    /// Sets the value of a key; gives the old one.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let old = self.alter(key, |there| match there {
            Some(there) => (Some(std::mem::replace(there, value)), None),
            None => (None, Some(value)),
        });
        self.len += usize::from(old.is_none());
        old
    }

    /// Changes the value of a key, made first if it is not there.
    pub fn update<R>(
        &mut self,
        key: K,
        make: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> R,
    ) -> R {
        let (result, is_new) = self.alter(key, |there| match there {
            Some(there) => ((change(there), false), None),
            None => {
                let mut value = make();
                ((change(&mut value), true), Some(value))
            }
        });
        self.len += usize::from(is_new);
        result
    }

    fn alter<R>(&mut self, key: K, change: impl FnOnce(Option<&mut V>) -> (R, Option<V>)) -> R {
        let root =
            self.root.get_or_insert_with(|| Part::new(Node::Leaf(Vec::with_capacity(MOST + 1))));
        let (result, split) = Node::alter(root, key, change);
        if let Some(right) = split {
            // The first key of an inner node bounds nothing, so any will do.
            let left = (right.0, std::mem::replace(root, Part::Moving));
            *root = Part::new(Node::Inner(vec![left, right]));
        }
        result
    }

    /// Removes a key; gives its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        if self.is_empty() {
            return None;
        }
        let root = self.root.as_mut()?;
        let old = Node::remove(root, key)?;
        if matches!(&**root, Node::Inner(children) if children.len() == 1)
            && let Node::Inner(children) = root.make_mut()
        {
            *root = children.remove(0).1;
        }
        self.len -= 1;
        Some(old)
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        *self = CowMap::default();
    }

    /// The first entry.
    #[inline]
    pub fn first(&self) -> Option<(&K, &V)> {
        let mut node = self.root.as_deref()?;
        while let Node::Inner(children) = node {
            node = &children[0].1;
        }
        let Node::Leaf(entries) = node else { unreachable!("the loop ends at a leaf") };
        entries.first().map(|entry| (&entry.0, &entry.1))
    }

    /// Removes the first entry.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        let key = *self.first()?.0;
        Some((key, self.remove(&key)?))
    }

    /// The entries in order.
    pub fn iter(&self) -> Range<'_, K, V> {
        self.range(..)
    }

    /// The entries with keys in a range, in order.
    pub fn range(&self, range: impl RangeBounds<K>) -> Range<'_, K, V> {
        let mut found =
            Range { rest: SmallVec::new(), leaf: [].iter(), end: range.end_bound().cloned() };
        if let Some(root) = &self.root {
            found.descend(root, range.start_bound());
        }
        found
    }

    /// Keeps the entries for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &V) -> bool) {
        let gone: Vec<K> =
            self.iter().filter(|(key, value)| !keep(key, value)).map(|entry| *entry.0).collect();
        for key in gone {
            self.remove(&key);
        }
    }
}

/// Entries in order.
#[derive(Debug)]
pub struct Range<'a, K, V> {
    /// Children that follow, from the root down.
    rest: SmallVec<[&'a Children<K, V>; 4]>,
    leaf: std::slice::Iter<'a, (K, V)>,
    end: Bound<K>,
}

impl<'a, K: Copy + Ord, V> Range<'a, K, V> {
    fn descend(&mut self, mut node: &'a Node<K, V>, from: Bound<&K>) {
        while let Node::Inner(children) = node {
            let at = match from {
                Bound::Included(key) | Bound::Excluded(key) => child_of(children, key),
                Bound::Unbounded => 0,
            };
            self.rest.push(&children[at + 1..]);
            node = &children[at].1;
        }
        let Node::Leaf(entries) = node else { unreachable!("the loop ends at a leaf") };
        let at = match from {
            Bound::Included(key) => entries.partition_point(|entry| entry.0 < *key),
            Bound::Excluded(key) => entries.partition_point(|entry| entry.0 <= *key),
            Bound::Unbounded => 0,
        };
        self.leaf = entries[at..].iter();
    }
}

impl<'a, K: Copy + Ord, V> Iterator for Range<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<(&'a K, &'a V)> {
        loop {
            if let Some((key, value)) = self.leaf.next() {
                let is_in = match &self.end {
                    Bound::Included(end) => key <= end,
                    Bound::Excluded(end) => key < end,
                    Bound::Unbounded => true,
                };
                if !is_in {
                    (self.leaf, self.rest) = ([].iter(), SmallVec::new());
                    return None;
                }
                return Some((key, value));
            }
            let siblings = self.rest.last_mut()?;
            match siblings.split_first() {
                None => {
                    self.rest.pop();
                }
                Some((next, others)) => {
                    *siblings = others;
                    self.descend(&next.1, Bound::Unbounded);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn entries(map: &CowMap<u16, u32>) -> Vec<(u16, u32)> {
        map.iter().map(|(&key, &value)| (key, value)).collect()
    }

    /// Depth of the tree below a node, and whether bounds and sizes are right.
    fn depth(node: &Node<u16, u32>, is_root: bool) -> usize {
        assert!(is_root || (FEWEST..=MOST).contains(&node.len()), "{} entries", node.len());
        let Node::Inner(children) = node else { return 0 };
        assert!(children.len() > 1, "a node leads somewhere");
        let depths: Vec<usize> = children.iter().map(|child| depth(&child.1, false)).collect();
        assert!(depths.iter().all(|&one| one == depths[0]), "leaves lie at one depth");
        depths[0] + 1
    }

    proptest! {
        /// It does what a map of the standard library does, and clones keep what they had.
        #[test]
        fn a_map_and_its_clones_are_maps(
            steps in prop::collection::vec((0u8..8, 0u16..600, any::<u32>()), 1..3000),
        ) {
            let (mut map, mut model) = (CowMap::default(), BTreeMap::new());
            let mut clones = Vec::new();
            for (what, key, value) in steps {
                match what {
                    0..=3 => prop_assert_eq!(map.insert(key, value), model.insert(key, value)),
                    4 | 5 => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                    6 if value % 2 == 0 => {
                        prop_assert_eq!(map.get_mut(&key), model.get_mut(&key));
                    }
                    6 => {
                        let add = |there: &mut u32| { *there ^= value; *there };
                        let expected = add(model.entry(key).or_insert(5));
                        prop_assert_eq!(map.update(key, || 5, add), expected);
                    }
                    _ if value % 64 == 0 => prop_assert_eq!(map.pop_first(), model.pop_first()),
                    _ if value % 64 == 1 => {
                        map.retain(|key, _| key % 3 == 0);
                        model.retain(|key, _| key % 3 == 0);
                    }
                    _ if clones.len() < 8 => {
                        if value % 4 > 0 {
                            map.share(|_| {});
                        }
                        clones.push((map.clone(), model.clone()));
                    }
                    _ => {
                        let range = (Bound::Excluded(key), Bound::Included(key + 40));
                        prop_assert!(map.range(range).eq(model.range(range)));
                        prop_assert!(map.range(key..key + 70).eq(model.range(key..key + 70)));
                    }
                }
                prop_assert_eq!(map.len(), model.len());
                prop_assert_eq!(map.first(), model.first_key_value());
            }
            clones.push((map, model));
            for (map, model) in &clones {
                map.root.as_ref().inspect(|root| { depth(root, true); });
                prop_assert_eq!(entries(map), model.clone().into_iter().collect::<Vec<_>>());
                for key in 0..600 {
                    prop_assert_eq!(map.get(&key), model.get(&key));
                }
            }
        }
    }

    #[test]
    fn a_map_shrinks_to_a_leaf() {
        let mut map = CowMap::default();
        (0..5000).for_each(|key| assert_eq!(map.insert(key, u32::from(key)), None));
        assert!(depth(map.root.as_ref().expect("it has entries"), true) > 1);
        (0..5000).for_each(|key| assert_eq!(map.remove(&key), Some(u32::from(key))));
        assert_eq!((depth(map.root.as_ref().expect("a leaf"), true), map.is_empty()), (0, true));
    }
}
