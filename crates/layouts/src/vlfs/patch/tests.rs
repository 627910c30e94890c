//! Patches against a model: a plain map of what each block holds.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What a block holds: the place of its content, if not that of its inode, and bytes that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    place: Option<Entry>,
    bytes: BTreeMap<usize, u8>,
}

#[derive(Clone, Debug)]
enum Step {
    Place(u8, Within, u32),
    Cut(u8, Within, Within),
    Edit(u8, Within, u16, Vec<u8>),
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    let (member, within) = (0..3_u8, 0..24_u32);
    prop_oneof![
        (member.clone(), within.clone(), 1..60_u32)
            .prop_map(|(member, within, place)| Step::Place(member, within, place)),
        (member.clone(), within.clone(), 1..9_u32).prop_map(|(member, from, count)| Step::Cut(
            member,
            from,
            from + count
        )),
        (member, within, 0..20_u16, prop::collection::vec(any::<u8>(), 1..6))
            .prop_map(|(member, within, at, bytes)| Step::Edit(member, within, at, bytes)),
        Just(Step::Settle),
    ]
}

fn entry(place: u32) -> Entry {
    Entry::new(place, place.is_multiple_of(7), place.wrapping_mul(0x9e37_79b9))
}

fn run(steps: &[Step]) -> (Patches, BTreeMap<(u8, Within), Model>) {
    let (mut patches, mut model) = (Patches::default(), BTreeMap::new());
    for step in steps {
        match step {
            &Step::Place(member, within, place) => {
                patches.place(member, within, entry(place));
                let one = Model { place: Some(entry(place)), bytes: BTreeMap::new() };
                model.insert((member, within), one);
            }
            &Step::Cut(member, from, to) => {
                patches.cut(member, from, to);
                for within in from..to {
                    let one = Model { place: Some(Entry::UNMAPPED), bytes: BTreeMap::new() };
                    model.insert((member, within), one);
                }
            }
            Step::Edit(member, within, at, bytes) => {
                patches.edit(*member, *within, *at, bytes);
                let one = model.entry((*member, *within)).or_insert_with(Model::default);
                one.bytes.extend((usize::from(*at)..).zip(bytes.iter().copied()));
            }
            Step::Settle => patches.settle(),
        }
    }
    (patches, model)
}

fn holds(patches: &Patches, model: &BTreeMap<(u8, Within), Model>) {
    for member in 0..3 {
        for within in 0..40 {
            let wanted = model.get(&(member, within)).cloned().unwrap_or_default();
            let place = match patches.look(member, within) {
                Look::At(entry) => Some(entry),
                Look::Hole => Some(Entry::UNMAPPED),
                Look::Inode => None,
            };
            let edits = patches.edits(member, within).iter();
            let bytes = edits.flat_map(|one| (usize::from(one.at)..).zip(one.bytes.clone()));
            let found = Model { place, bytes: bytes.collect() };
            assert_eq!(found, wanted, "block {within} of member {member}");
        }
    }
}

proptest! {
    #[test]
    fn patches_say_what_was_done(steps in prop::collection::vec(step(), 0..40)) {
        let (patches, model) = run(&steps);
        holds(&patches, &model);
    }

    #[test]
    fn patches_come_back_from_their_bytes(steps in prop::collection::vec(step(), 0..40)) {
        let (mut patches, model) = run(&steps);
        patches.written(entry(900));
        patches.written(entry(901));
        patches.written(entry(77));
        let bytes = patches.encode();
        prop_assert_eq!(bytes.len(), patches.encoded_bytes());
        let back = Patches::decode(&bytes).expect("it was just made");
        prop_assert_eq!(back.fresh().collect::<Vec<_>>(), patches.fresh().collect::<Vec<_>>());
        holds(&back, &model);
        prop_assert_eq!(&back, &patches);
    }

    /// Foreign bytes are refused or are patches; what is taken can be written down again.
    #[test]
    fn no_bytes_make_it_panic(
        steps in prop::collection::vec(step(), 1..12),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        end in any::<prop::sample::Index>(),
    ) {
        let mut bytes = run(&steps).0.encode();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes.truncate(end.index(bytes.len()) + 1);
        }
        if let Some(patches) = Patches::decode(&bytes) {
            let again = Patches::decode(&patches.encode());
            prop_assert_eq!(again, Some(patches));
        }
    }
}

#[test]
fn a_run_of_blocks_is_one_patch() {
    let mut patches = Patches::default();
    for index in 0..20 {
        patches.place(3, 100 + index, Entry::new(50 + index, false, 9));
    }
    assert_eq!(patches.encoded_bytes(), RUN_HEAD + 20 * SUM_BYTES);
    patches.place(3, 110, Entry::new(7, false, 1));
    assert_eq!(patches.encoded_bytes(), 3 * RUN_HEAD + 20 * SUM_BYTES);
    let fresh = patches.fresh().count();
    patches.settle();
    assert_eq!((fresh, patches.fresh().count()), (20, 0));
}

#[test]
fn what_a_patch_named_and_no_more_is_told() {
    let mut patches = Patches::default();
    let at = |place| Entry::new(place, false, 1);
    assert_eq!(patches.place(0, 5, at(11)), None);
    assert_eq!(patches.place(0, 5, at(12)), Some(at(11)));
    patches.place(0, 7, at(13));
    patches.place(0, 9, at(14));
    assert_eq!(patches.cut(0, 5, 8), [at(12), at(13)]);
    assert_eq!(patches.cut(0, 0, ATTRIBUTES + 1), [at(14)]);
    assert_eq!(patches.of(0).map(|one| one.cuts.clone()), Some(vec![(0, ATTRIBUTES + 1)]));
}

#[test]
fn patches_that_contradict_each_other_are_refused() {
    let mut patches = Patches::default();
    patches.place(0, 5, entry(11));
    let once = patches.encode();
    assert!(Patches::decode(&once).is_some());
    assert_eq!(Patches::decode(&[once.clone(), once].concat()), None, "a block lies twice");
    let mut edit = Patches::default();
    edit.edit(0, ATTRIBUTES, 90, &[1; 6]);
    assert!(Patches::decode(&edit.encode()).is_some());
    edit.edit(0, ATTRIBUTES, 90, &[1; 7]);
    assert_eq!(Patches::decode(&edit.encode()), None, "attributes end there");
}
