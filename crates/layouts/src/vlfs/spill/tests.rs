//! Spills against a model of what each block of a slice holds.

use super::*;
use crate::vlfs::address::{MOST_BLOCKS, address};
use crate::vlfs::objects::Held;
use proptest::prelude::*;
use seekless_engine::checksum::Sums;
use std::collections::BTreeMap;

fn id() -> Identity {
    Identity::new(7, Sums::NEWEST)
}

/// A slice, with the blocks it was spilled to.
struct Bench {
    objects: Objects,
    next: u32,
    /// What each address holds, but for attributes.
    model: BTreeMap<u64, Vec<u8>>,
}

impl Bench {
    fn new() -> Bench {
        Bench { objects: Objects::new(id(), 1), next: 1, model: BTreeMap::new() }
    }

    fn write(&mut self, member: u8, within: Within, byte: u8) {
        let bytes = vec![byte; BLOCK_BYTES];
        let entry = Entry::new(self.next, false, 0);
        self.objects.nodes.put(self.next, bytes.clone().into());
        self.next += 1;
        self.objects.slice_mut(0).content.patches.place(member, within, entry);
        self.model.insert(address(u32::from(member), within), bytes);
    }

    fn cut(&mut self, member: u8, from: Within, to: Within) {
        self.objects.slice_mut(0).content.patches.cut(member, from, to);
        let object = u32::from(member);
        let keys: Vec<u64> = self
            .model
            .range(address(object, from)..address(object, to.min(ATTRIBUTES)))
            .map(|(&key, _)| key)
            .collect();
        keys.iter().for_each(|key| drop(self.model.remove(key)));
    }

    fn edit(&mut self, member: u8, within: Within, at: u16, bytes: &[u8]) {
        self.objects.slice_mut(0).content.patches.edit(member, within, at, bytes);
        let zeros = || vec![0; BLOCK_BYTES];
        let block = self.model.entry(address(u32::from(member), within)).or_insert_with(zeros);
        block[usize::from(at)..usize::from(at) + bytes.len()].copy_from_slice(bytes);
    }

    /// Spills; returns how many blocks were written.
    fn spill(&mut self) -> usize {
        let plan = plan(&self.objects, 0).expect("all is in memory");
        let (most, mut written) = (plan.blocks(), Vec::new());
        let next = &mut self.next;
        let spilled = plan.carry_out(id(), |bytes| {
            let entry = Entry::new(*next, false, 0);
            *next += 1;
            written.push((entry.place(), bytes));
            entry
        });
        let count = written.len();
        assert!(count <= most, "{count} blocks, {most} were planned");
        for (place, bytes) in written {
            self.objects.nodes.put(place, bytes);
        }
        for old in &spilled.released {
            self.objects.nodes.forget(old.place());
        }
        let own = self.objects.slice_mut(0);
        for (index, entry) in spilled.groups {
            own.content.groups[index] = entry;
        }
        for (object, later) in spilled.later {
            own.content.patches.take(object as u8);
            own.content.patches.put(object as u8, later);
        }
        count
    }

    fn check(&self, around: impl IntoIterator<Item = (u8, Within)>) {
        let named = around.into_iter().map(|(member, within)| address(member.into(), within));
        for at in named.chain(self.model.keys().copied()) {
            let bytes = match self.objects.content(at).expect("all is in memory") {
                Held::At(entry) => self.objects.nodes.get(entry).expect("in memory").to_vec(),
                Held::Bytes(bytes) => bytes,
                Held::Hole => vec![0; BLOCK_BYTES],
            };
            let wanted = self.model.get(&at).cloned().unwrap_or_else(|| vec![0; BLOCK_BYTES]);
            assert!(bytes == wanted, "address {at:#x}");
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(u8, Within, u8),
    Cut(u8, Within, Within),
    Edit(u8, Within, u16, Vec<u8>),
    Spill,
}

fn step() -> impl Strategy<Value = Step> {
    let member = prop_oneof![Just(0_u8), Just(1), Just(17), Just(127)];
    let within = || prop_oneof![0..16_u32, 520..530_u32, 524 + 512 * 511..524 + 512 * 513_u32];
    prop_oneof![
        4 => (member.clone(), within(), 1..9_u8).prop_map(|(m, w, b)| Step::Write(m, w, b)),
        1 => (member.clone(), within(), within())
            .prop_map(|(m, a, b)| Step::Cut(m, a.min(b), a.max(b) + 1)),
        1 => member.clone().prop_map(|m| Step::Cut(m, 0, ATTRIBUTES + 1)),
        2 => (member, within(), 0..4000_u16, prop::collection::vec(any::<u8>(), 1..60))
            .prop_map(|(m, w, at, bytes)| Step::Edit(m, w, at, bytes)),
        2 => Just(Step::Spill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn a_spill_changes_nothing_that_is_read(steps in prop::collection::vec(step(), 1..60)) {
        let mut bench = Bench::new();
        let mut seen = BTreeSet::new();
        for step in steps {
            match step {
                Step::Write(member, within, byte) => bench.write(member, within, byte),
                Step::Cut(member, from, to) => bench.cut(member, from, to),
                Step::Edit(member, within, at, bytes) => bench.edit(member, within, at, &bytes),
                Step::Spill => drop(bench.spill()),
            }
            let named = bench.model.keys().map(|&at| ((at >> 31) as u8, at as Within & ATTRIBUTES));
            seen.extend(named);
            bench.check(seen.iter().copied());
        }
        for _ in 0..9 {
            bench.spill();
            bench.check(seen.iter().copied());
        }
        let left = bench.objects.slice(0).map(|own| own.content.patches.encoded_bytes());
        prop_assert_eq!(left.unwrap_or(0), 0, "patches are left");
    }
}

#[test]
fn attributes_go_into_the_inode() {
    let mut bench = Bench::new();
    let attributes = |bench: &Bench| match bench.objects.content(address(3, ATTRIBUTES)) {
        Ok(Held::Bytes(bytes)) => bytes[..4].to_vec(),
        other => panic!("{other:?}"),
    };
    let patches = &mut bench.objects.slice_mut(0).content.patches;
    patches.edit(3, ATTRIBUTES, 1, &[8, 9]);
    assert_eq!(attributes(&bench), [0, 8, 9, 0]);
    assert_eq!(bench.spill(), 1);
    assert_eq!(attributes(&bench), [0, 8, 9, 0]);
    bench.objects.slice_mut(0).content.patches.edit(3, ATTRIBUTES, 0, &[7]);
    bench.spill();
    assert_eq!(attributes(&bench), [7, 8, 9, 0]);
    bench.cut(3, 0, ATTRIBUTES + 1);
    assert_eq!(attributes(&bench), [0; 4]);
    assert_eq!(bench.spill(), 0, "an object that holds nothing has no inode");
    let own = bench.objects.slice(0).expect("it has had objects");
    assert_eq!(own.content, crate::vlfs::format::Content::default());
}

#[test]
fn a_long_cut_is_carried_out_piece_by_piece() {
    let mut bench = Bench::new();
    let pieces = 5 * MOST_INDIRECT;
    for index in 0..pieces {
        bench.write(0, DIRECT + index * FAN_OUT, 1);
        if index % 60 == 59 {
            bench.spill();
        }
    }
    while bench.spill() > 0 {}
    bench.write(0, 3, 2);
    bench.cut(0, 0, MOST_BLOCKS);
    bench.write(0, 700, 3);
    let mut spills = 0;
    while bench.objects.slice(0).is_some_and(|own| !own.content.patches.is_empty()) {
        let plan = plan(&bench.objects, 0).expect("all is in memory");
        assert!(plan.blocks() as u32 <= 2 * MOST_INDIRECT, "{} blocks", plan.blocks());
        bench.spill();
        bench.check([(0, 3), (0, 700), (0, DIRECT), (0, DIRECT + FAN_OUT)]);
        spills += 1;
    }
    assert!((4..=7).contains(&spills), "{spills} spills");
}
