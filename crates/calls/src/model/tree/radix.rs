//! A map from numbers to values of which copies share what they have in common.
//!
//! A copy costs one reference count, a change copies one node of 16 places on each level. Two maps
//! that come from one another are compared where they differ only.

use std::sync::Arc;

const BITS: u32 = 4;
const FANOUT: usize = 1 << BITS;

/// The map.
#[derive(Clone, Debug)]
pub(super) struct Radix<V> {
    /// Levels of branches above the leaves.
    height: u32,
    root: Option<Arc<Node<V>>>,
}

#[derive(Clone, Debug)]
enum Node<V> {
    Branch([Option<Arc<Node<V>>>; FANOUT]),
    Leaf([Option<V>; FANOUT]),
}

impl<V> Default for Radix<V> {
    fn default() -> Radix<V> {
        Radix { height: 0, root: None }
    }
}

/// Takes a key, and the values that two maps have there.
type Differing<'f, V> = dyn FnMut(u64, Option<&V>, Option<&V>) + 'f;

/// The place of a key in a node so many levels above the leaves.
fn place(key: u64, height: u32) -> usize {
    (key >> (BITS * height)) as usize % FANOUT
}

impl<V> Node<V> {
    fn new(height: u32) -> Node<V> {
        match height {
            0 => Node::Leaf(std::array::from_fn(|_| None)),
            _ => Node::Branch(std::array::from_fn(|_| None)),
        }
    }

    fn child(&self, at: usize) -> Option<&Arc<Node<V>>> {
        match self {
            Node::Branch(children) => children[at].as_ref(),
            Node::Leaf(_) => None,
        }
    }

    fn value(&self, at: usize) -> Option<&V> {
        match self {
            Node::Leaf(values) => values[at].as_ref(),
            Node::Branch(_) => None,
        }
    }

    /// The first key at or behind `from` in this node, whose own keys begin at `base`.
    fn next(&self, height: u32, base: u64, from: u64) -> Option<(u64, &V)> {
        let first = if from > base { place(from, height) } else { 0 };
        (first..FANOUT).find_map(|at| {
            let key = base + ((at as u64) << (BITS * height));
            match self {
                Node::Leaf(values) => values[at].as_ref().map(|value| (key, value)),
                // Behind the child that holds `from`, all keys count.
                Node::Branch(children) => {
                    children[at].as_ref()?.next(height - 1, key, from.max(key))
                }
            }
        })
    }
}

impl<V: Clone> Radix<V> {
    fn holds(&self, key: u64) -> bool {
        key.checked_shr(BITS * (self.height + 1)).unwrap_or(0) == 0
    }

    pub(super) fn get(&self, key: u64) -> Option<&V> {
        if !self.holds(key) {
            return None;
        }
        let mut node = self.root.as_ref()?;
        for height in (1..=self.height).rev() {
            node = node.child(place(key, height))?;
        }
        node.value(place(key, 0))
    }

    /// The place of a key, to be filled or emptied.
    pub(super) fn slot(&mut self, key: u64) -> &mut Option<V> {
        while !self.holds(key) {
            self.raise();
        }
        let height = self.height;
        let root = self.root.get_or_insert_with(|| Arc::new(Node::new(height)));
        slot_in(Arc::make_mut(root), height, key)
    }

    /// The first key at or behind `from`, with its value.
    pub(super) fn next(&self, from: u64) -> Option<(u64, &V)> {
        match self.holds(from) {
            true => self.root.as_ref()?.next(self.height, 0, from),
            false => None,
        }
    }

    /// All keys at or behind `from`, in order.
    pub(super) fn iter(&self, from: u64) -> impl Iterator<Item = (u64, &V)> {
        let mut next = Some(from);
        std::iter::from_fn(move || {
            let found = self.next(next?)?;
            next = found.0.checked_add(1);
            Some(found)
        })
    }

    /// Adds a level.
    fn raise(&mut self) {
        self.height += 1;
        if let Some(root) = self.root.take() {
            let mut children = std::array::from_fn(|_| None);
            children[0] = Some(root);
            self.root = Some(Arc::new(Node::Branch(children)));
        }
    }

    /// Calls `found` in order for each key whose values may differ: what both maps share is left
    /// out.
    pub(super) fn differing<'r>(&'r self, other: &'r Radix<V>, found: &mut Differing<'_, V>) {
        let (mut one, mut two) = (self.clone(), other.clone());
        while one.height < two.height {
            one.raise();
        }
        while two.height < one.height {
            two.raise();
        }
        compare(one.root.as_ref(), two.root.as_ref(), one.height, 0, found);
    }
}

fn slot_in<V: Clone>(node: &mut Node<V>, height: u32, key: u64) -> &mut Option<V> {
    match node {
        Node::Leaf(values) => &mut values[place(key, 0)],
        Node::Branch(children) => {
            let child =
                children[place(key, height)].get_or_insert_with(|| Arc::new(Node::new(height - 1)));
            slot_in(Arc::make_mut(child), height - 1, key)
        }
    }
}

fn compare<V>(
    one: Option<&Arc<Node<V>>>,
    two: Option<&Arc<Node<V>>>,
    height: u32,
    base: u64,
    found: &mut Differing<'_, V>,
) {
    match (one, two) {
        (None, None) => return,
        (Some(one), Some(two)) if Arc::ptr_eq(one, two) => return,
        _ => {}
    }
    for at in 0..FANOUT {
        let key = base + ((at as u64) << (BITS * height));
        if height > 0 {
            let (one, two) = (one.and_then(|n| n.child(at)), two.and_then(|n| n.child(at)));
            compare(one, two, height - 1, key, found);
        } else {
            let (one, two) = (one.and_then(|n| n.value(at)), two.and_then(|n| n.value(at)));
            if one.is_some() || two.is_some() {
                found(key, one, two);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn any_key() -> impl Strategy<Value = u64> {
        prop_oneof![0_u64..40, 0_u64..5000, any::<u64>()]
    }

    proptest! {
        /// A radix map is a map, its copies stay as they are, and differences are found.
        #[test]
        fn it_is_a_map(
            steps in proptest::collection::vec((any_key(), any::<Option<u8>>()), 0..60),
            more in proptest::collection::vec((any_key(), any::<Option<u8>>()), 0..20),
            from in any_key(),
        ) {
            let (mut radix, mut map) = (Radix::default(), BTreeMap::new());
            let mut change = |radix: &mut Radix<u8>, (key, value): (u64, Option<u8>)| {
                *radix.slot(key) = value;
                match value {
                    Some(value) => drop(map.insert(key, value)),
                    None => drop(map.remove(&key)),
                }
                map.clone()
            };
            let mut old_map = BTreeMap::new();
            for step in steps {
                old_map = change(&mut radix, step);
            }
            let (old, mut new_map) = (radix.clone(), old_map.clone());
            for step in more {
                new_map = change(&mut radix, step);
            }
            let list = |radix: &Radix<u8>| {
                radix.iter(from).map(|(key, &value)| (key, value)).collect::<Vec<_>>()
            };
            let wanted = |map: &BTreeMap<u64, u8>| {
                map.range(from..).map(|(&key, &value)| (key, value)).collect::<Vec<_>>()
            };
            prop_assert_eq!(list(&old), wanted(&old_map));
            prop_assert_eq!(list(&radix), wanted(&new_map));
            let mut differing = Vec::new();
            old.differing(&radix, &mut |key, one, two| {
                if one != two {
                    differing.push(key);
                }
            });
            let keys = old_map.keys().chain(new_map.keys());
            let keys: BTreeSet<u64> =
                keys.filter(|key| old_map.get(key) != new_map.get(key)).copied().collect();
            prop_assert_eq!(differing, keys.into_iter().collect::<Vec<_>>());
            for key in new_map.keys() {
                prop_assert_eq!(radix.get(*key), new_map.get(key));
            }
        }
    }
}
