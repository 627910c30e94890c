//! Spills against a model of what each block of a slice holds.

use super::*;
use crate::vlfs::objects::Held;
use crate::vlfs::patch::{EDIT_HEAD, Patches};
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
        self.spill_within(usize::MAX)
    }

    /// Spills into so many blocks, and writes the map block.
    fn spill_within(&mut self, blocks: usize) -> usize {
        let plan = plan(&self.objects, 0, blocks).expect("all is in memory");
        let (most, mut written) = (plan.blocks(), Vec::new());
        assert!(most <= blocks, "{most} of {blocks} blocks");
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
        spilled.written.into_iter().for_each(|entry| own.content.patches.written(entry));
        self.commit();
        count
    }

    fn patches(&mut self) -> &mut Patches {
        &mut self.objects.slice_mut(0).content.patches
    }

    /// The map block of the slice has room for what it has to say.
    fn commit(&mut self) {
        let bytes = self.patches().encode();
        assert!(bytes.len() <= PATCH_ROOM, "{} bytes", bytes.len());
        assert_eq!(Patches::decode(&bytes).as_ref(), Some(&*self.patches()));
        self.patches().settle();
    }

    /// Spills, commit by commit, until so many bytes more fit the patches.
    fn make_room(&mut self, bytes: usize, blocks: usize) {
        for _ in 0..1000 {
            if self.patches().encoded_bytes() + bytes <= PATCH_ROOM - SPILL_ROOM {
                return;
            }
            let before = self.patches().clone();
            self.spill_within(blocks);
            assert_ne!(before, *self.patches(), "each spill carries something out");
        }
        panic!("no end of spills");
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

/// A change of a slice, of which one may be far from the next.
#[derive(Clone, Debug)]
enum Far {
    Write(u8, Within, u32),
    Cut(u8, Within, Within),
    Edit(u8, Within, u16),
    Commit,
}

/// A GiB, and twice as much, are a block of the second level and one of the third.
fn far() -> impl Strategy<Value = Far> {
    let member = || prop_oneof![2 => 0..4_u8, 1 => 0..128_u8];
    let near = 0..3000_u32;
    let each_gib = (0..500_u32, 0..2_u32).prop_map(|(gib, more)| gib * FAN_OUT * FAN_OUT + more);
    let within =
        move || prop_oneof![1 => near.clone(), 1 => 0..MOST_BLOCKS - 99, 2 => each_gib.clone()];
    prop_oneof![
        8 => (member(), within(), prop_oneof![4 => Just(1_u32), 1 => 1..97_u32])
            .prop_map(|(member, within, count)| Far::Write(member, within, count)),
        2 => (member(), within(), prop_oneof![1..600_u32, 1..MOST_BLOCKS])
            .prop_map(|(member, from, count)| Far::Cut(
                member,
                from,
                from.saturating_add(count).min(ATTRIBUTES + 1)
            )),
        2 => (member(), prop_oneof![9 => within(), 1 => Just(ATTRIBUTES)], 1..90_u16)
            .prop_map(|(member, within, length)| Far::Edit(member, within, length)),
        1 => Just(Far::Commit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    /// Whatever the changes, and however far apart: a map block always has room for what its
    /// commit has written, and a few spills have room for the next change.
    #[test]
    fn far_changes_fit_their_map_block(
        steps in prop::collection::vec(far(), 1..500),
        blocks in prop_oneof![Just(7_usize), 7..40_usize, Just(300)],
    ) {
        let mut bench = Bench::new();
        for (number, step) in steps.iter().enumerate() {
            match *step {
                Far::Write(member, within, count) => {
                    bench.make_room(count as usize * (RUN_HEAD + SUM_BYTES), blocks);
                    let byte = number as u8 | 1;
                    (within..within + count).for_each(|one| bench.write(member, one, byte));
                }
                Far::Cut(member, from, to) => {
                    bench.make_room(CUT_BYTES, blocks);
                    bench.cut(member, from, to);
                }
                Far::Edit(member, ATTRIBUTES, length) => {
                    bench.make_room(EDIT_HEAD + usize::from(length), blocks);
                    bench.patches().edit(member, ATTRIBUTES, 0, &vec![1; length.into()]);
                }
                Far::Edit(member, within, length) => {
                    bench.make_room(EDIT_HEAD + usize::from(length), blocks);
                    bench.edit(member, within, length, &vec![number as u8; length.into()]);
                }
                Far::Commit => bench.commit(),
            }
        }
        bench.check([]);
        while !bench.patches().is_empty() {
            let before = bench.patches().clone();
            bench.spill_within(blocks);
            prop_assert!(before != *bench.patches(), "each spill carries something out");
        }
        bench.check([]);
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
    let pieces = 5 * MOST_INDIRECT as u32;
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
        let plan = plan(&bench.objects, 0, usize::MAX).expect("all is in memory");
        assert!(plan.blocks() <= 2 * MOST_INDIRECT, "{} blocks", plan.blocks());
        bench.spill();
        bench.check([(0, 3), (0, 700), (0, DIRECT), (0, DIRECT + FAN_OUT)]);
        spills += 1;
    }
    assert!((4..=7).contains(&spills), "{spills} spills");
}
