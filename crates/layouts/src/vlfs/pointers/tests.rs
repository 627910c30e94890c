//! Pointers of an object against a model.

use super::*;
use crate::vlfs::format::Inode;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// An object with all its blocks in memory.
#[derive(Clone, Debug, Default)]
struct Disk {
    nodes: Nodes,
    next: u32,
    used: BTreeSet<u32>,
}

impl Disk {
    fn entry(&mut self) -> Entry {
        self.next += 1;
        self.used.insert(self.next);
        Entry::new(self.next, false, self.next ^ 0xabcd)
    }

    /// Writes what has changed; what is released must have been in use.
    fn write(&mut self, changed: Changed) -> Inode {
        let (most, mut written) = (changed.copies.len(), 0);
        let (inode, released) = changed.write(|bytes| {
            let entry = self.entry();
            self.nodes.put(entry.place(), bytes);
            written += 1;
            entry
        });
        assert!(written <= most);
        for old in released {
            assert!(self.used.remove(&old.place()), "{old:?} is released twice");
            self.nodes.forget(old.place());
        }
        inode
    }
}

#[derive(Clone, Debug)]
enum Step {
    Place(Within),
    Cut(Within, Within),
    Write,
}

/// Blocks of each kind: direct, and below trees of each height.
fn within() -> impl Strategy<Value = Within> {
    let double = DIRECT + FAN_OUT;
    let triple = double + FAN_OUT * FAN_OUT;
    prop_oneof![
        0..20_u32,
        500..540_u32,
        double + 510..double + 1030,
        triple - 3..triple + 3,
        triple + FAN_OUT * FAN_OUT - 2..triple + FAN_OUT * FAN_OUT + 2,
        MOST_BLOCKS - 2..MOST_BLOCKS,
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => within().prop_map(Step::Place),
        1 => (within(), within()).prop_map(|(a, b)| Step::Cut(a.min(b), a.max(b) + 1)),
        1 => within().prop_map(|from| Step::Cut(from, from + 1)),
        1 => Just(Step::Write),
    ]
}

fn check(disk: &Disk, inode: &Inode, model: &BTreeMap<Within, Entry>) {
    for (&within, &entry) in model {
        assert_eq!(find(&disk.nodes, inode, within), Ok(entry), "block {within}");
    }
    // All that is in use is content or leads to it.
    let pointers = Pointers::new(&disk.nodes, *inode);
    let mut met = BTreeSet::new();
    let mut todo: Vec<(Child, Entry)> =
        (0..).map(inode_child).zip(inode.pointers.iter().copied()).collect();
    while let Some((child, entry)) = todo.pop() {
        if !entry.is_mapped() {
            continue;
        }
        assert!(met.insert(entry.place()));
        match child {
            Child::Block(within) => assert_eq!(model.get(&within), Some(&entry)),
            Child::Indirect(one) => {
                let bytes = disk.nodes.get(entry).expect("in memory");
                let all: Vec<Entry> = decode_indirect(bytes).collect();
                assert!(!leads_nowhere(&all), "{one:?} leads nowhere");
                todo.extend((0..).map(|index| one.child(index)).zip(all));
            }
        }
    }
    assert_eq!(met, disk.used, "blocks in use");
    for (from, to) in [(0, MOST_BLOCKS), (DIRECT, 600), (1000, MOST_BLOCKS - 1)] {
        let last = model.range(from..to).next_back().map(|(&within, _)| within);
        assert_eq!(pointers.last(from, to), Ok(last), "{from}..{to}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn pointers_lead_where_blocks_were_placed(steps in prop::collection::vec(step(), 1..40)) {
        let (mut disk, mut model) = (Disk::default(), BTreeMap::new());
        let mut inode = Inode::EMPTY;
        let mut steps = steps.into_iter().peekable();
        while steps.peek().is_some() {
            let mut placed = Vec::new();
            let is_one = |one: &Step| !matches!(one, Step::Write);
            let part: Vec<Step> = steps.by_ref().take_while(is_one).collect();
            for step in &part {
                if let Step::Place(within) = step {
                    placed.push((*within, disk.entry()));
                }
            }
            let mut placed = placed.into_iter();
            let mut pointers = Pointers::new(&disk.nodes, inode);
            for step in part {
                match step {
                    Step::Place(_) => {
                        let (within, entry) = placed.next().expect("one for each");
                        pointers.place(within, entry).expect("in memory");
                        model.insert(within, entry);
                        prop_assert_eq!(pointers.find(within), Ok(entry));
                    }
                    Step::Cut(from, to) => {
                        pointers.cut(from, to).expect("in memory");
                        model.retain(|within, _| !(from..to).contains(within));
                    }
                    Step::Write => {}
                }
            }
            let changed = pointers.changed();
            inode = disk.write(changed);
            check(&disk, &inode, &model);
        }
    }
}

#[test]
fn what_is_not_in_memory_is_missing() {
    let mut disk = Disk::default();
    let entry = disk.entry();
    let mut pointers = Pointers::new(&disk.nodes, Inode::EMPTY);
    pointers.place(600, entry).expect("nothing is needed");
    let changed = pointers.changed();
    let inode = disk.write(changed);
    let none = Nodes::default();
    assert_eq!(find(&none, &inode, 600), Err(Missing(inode.pointers[13])));
    assert_eq!(find(&none, &inode, 30), Ok(Entry::UNMAPPED));
    let mut pointers = Pointers::new(&none, inode);
    assert!(pointers.cut(0, 600).is_err() && pointers.cut(0, 500).is_ok());
    assert!(pointers.reserve(601).is_err());
}
