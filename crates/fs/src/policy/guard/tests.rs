//! Guards over a toy disk: whatever is written in whatever order, nothing is there before what it
//! needs.

use super::{Guards, Keeps, Manifest};
use crate::core::page::{Mask, Page};
use crate::tx::Field;
use proptest::prelude::*;
use std::collections::BTreeMap;

const BLOCKS: u64 = 4;
/// Slots of 4 bytes in each block.
const SLOTS: usize = 6;

/// A slot: block and number.
type Place = (u64, usize);

fn field((block, slot): Place, slots: usize) -> Field {
    Field::new(block, slot * 4, slots * 4)
}

/// What happens in a run.
#[derive(Clone, Debug)]
enum Event {
    /// Neighbouring slots get a new version, which needs others.
    Set { at: Place, slots: usize, needs: Vec<Place>, keeps: Keeps },
    /// An action that needs slots.
    Defer { needs: Vec<Place> },
    /// A write of a block begins.
    Write { block: u64 },
    /// The write of a block in flight completes.
    Complete { block: u64 },
}

fn place() -> impl Strategy<Value = Place> {
    (0..BLOCKS, 0..SLOTS)
}

fn keeps() -> impl Strategy<Value = Keeps> {
    prop_oneof![Just(Keeps::Addition), Just(Keeps::Growth), Just(Keeps::Name)]
}

fn event() -> impl Strategy<Value = Event> {
    let needs = || proptest::collection::vec(place(), 0..3);
    prop_oneof![
        5 => (place(), 1..3usize, needs(), keeps()).prop_map(
            |((block, slot), slots, needs, keeps)| {
                let slots = if slot < SLOTS - 1 { slots } else { 1 };
                Event::Set { at: (block, slot), slots, needs, keeps }
            }
        ),
        1 => needs().prop_map(|needs| Event::Defer { needs }),
        3 => (0..BLOCKS).prop_map(|block| Event::Write { block }),
        3 => (0..BLOCKS).prop_map(|block| Event::Complete { block }),
    ]
}

type Versions = BTreeMap<Place, u32>;

/// The live blocks, the disk, and what was promised.
#[derive(Default)]
struct World {
    guards: Guards<usize>,
    live: BTreeMap<u64, Page>,
    disk: BTreeMap<u64, Page>,
    in_flight: BTreeMap<u64, (Page, Manifest)>,
    version: u32,
    /// What each version needs.
    needs: BTreeMap<u32, Vec<(Place, u32)>>,
    actions: Vec<Vec<(Place, u32)>>,
    dirty: BTreeMap<u64, bool>,
}

impl World {
    fn new() -> World {
        let zeros = || (0..BLOCKS).map(|block| (block, Page::zeros(4096))).collect();
        World { live: zeros(), disk: zeros(), ..World::default() }
    }

    fn at(pages: &BTreeMap<u64, Page>, (block, slot): Place) -> u32 {
        let bytes = &pages[&block].bytes()[slot * 4..slot * 4 + 4];
        u32::from_le_bytes(bytes.try_into().expect("4 bytes"))
    }

    fn now(&self, needs: &[Place]) -> Vec<(Place, u32)> {
        needs.iter().map(|&place| (place, World::at(&self.live, place))).collect()
    }

    fn is_dirty(&self, block: u64) -> bool {
        self.dirty.get(&block).copied().unwrap_or(false)
    }

    /// Facts come from changes only: what is on the disk already needs no write. What changes
    /// needs others, not itself.
    fn wanted(&self, needs: &[Place], at: Option<(Place, usize)>) -> Vec<Place> {
        let is_other = |place: &Place| {
            at.is_none_or(|((block, slot), slots)| {
                place.0 != block || !(slot..slot + slots).contains(&place.1)
            })
        };
        let is_new = |place: &Place| self.is_dirty(place.0) && is_other(place);
        let mut wanted: Vec<Place> = needs.iter().copied().filter(is_new).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    fn set(&mut self, at: Place, slots: usize, needs: &[Place], (keeps, planted): (Keeps, bool)) {
        let wanted = self.wanted(needs, Some((at, slots)));
        let mut needed = self.now(&wanted);
        if keeps == Keeps::Growth {
            // It needs what the versions before it need.
            let before = (0..slots).map(|n| World::at(&self.live, (at.0, at.1 + n)));
            needed.extend(before.filter_map(|version| self.needs.get(&version)).flatten());
        }
        let whole = field(at, slots);
        let from = at.1 * 4;
        let old = self.live[&at.0].bytes()[from..from + slots * 4].to_vec();
        self.version += 1;
        let page = self.live.get_mut(&at.0).expect("a block").make_mut();
        for n in 0..slots {
            page[from + n * 4..from + n * 4 + 4].copy_from_slice(&self.version.to_le_bytes());
        }
        self.dirty.insert(at.0, true);
        let facts: Vec<Field> = wanted.iter().map(|&place| field(place, 1)).collect();
        if !planted {
            self.guards.guard(&[(whole, &old)], &facts, keeps);
        }
        self.needs.insert(self.version, needed);
    }

    fn write(&mut self, block: u64) {
        if self.in_flight.contains_key(&block) || !self.is_dirty(block) {
            return;
        }
        let mut page = self.live[&block].clone();
        let (manifest, rolled_back) = self.guards.image(block, Mask::MAX, &mut page);
        self.dirty.insert(block, rolled_back != 0);
        self.in_flight.insert(block, (page, manifest));
    }

    fn complete(&mut self, block: u64) {
        let Some((page, manifest)) = self.in_flight.remove(&block) else { return };
        self.disk.insert(block, page);
        self.guards.settled(manifest);
        self.act();
    }

    fn act(&mut self) {
        while let Some(action) = self.guards.take_ready() {
            for &(place, version) in &self.actions[action] {
                let there = World::at(&self.disk, place);
                assert!(there >= version, "action {action}: {place:?} is {there}, not {version}");
            }
        }
    }

    /// What a power cut leaves if these writes in flight reach the disk.
    fn check(&self, kept: u32) -> Result<(), String> {
        let mut disk = self.disk.clone();
        for (number, (&block, (page, _))) in self.in_flight.iter().enumerate() {
            if kept & (1 << number) != 0 {
                disk.insert(block, page.clone());
            }
        }
        let seen: Versions = (0..BLOCKS)
            .flat_map(|block| (0..SLOTS).map(move |slot| (block, slot)))
            .map(|place| (place, World::at(&disk, place)))
            .collect();
        for (place, version) in &seen {
            for (need, wanted) in self.needs.get(version).into_iter().flatten() {
                if seen[need] < *wanted {
                    return Err(format!(
                        "{place:?} is {version} and needs {need:?} at {wanted}, not {}",
                        seen[need]
                    ));
                }
            }
        }
        Ok(())
    }

    fn run(&mut self, event: &Event, planted: bool) -> Result<(), String> {
        match event {
            Event::Set { at, slots, needs, keeps } => {
                self.set(*at, *slots, needs, (*keeps, planted));
            }
            Event::Defer { needs } => {
                let wanted = self.wanted(needs, None);
                self.actions.push(self.now(&wanted));
                let facts: Vec<Field> = wanted.iter().map(|&place| field(place, 1)).collect();
                self.guards.defer(self.actions.len() - 1, &facts);
                self.act();
            }
            Event::Write { block } => self.write(*block),
            Event::Complete { block } => self.complete(*block),
        }
        (0..1 << self.in_flight.len()).try_for_each(|kept| self.check(kept))
    }

    /// Writes until nothing is dirty; the number of sweeps.
    fn sweep(&mut self) -> usize {
        for block in 0..BLOCKS {
            self.complete(block);
        }
        for sweep in 0..100 {
            if (0..BLOCKS).all(|block| !self.is_dirty(block)) {
                return sweep;
            }
            for block in 0..BLOCKS {
                self.write(block);
                self.complete(block);
            }
        }
        panic!("no end: {} guards and facts are left", self.guards.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nothing_is_there_before_what_it_needs(
        events in proptest::collection::vec(event(), 1..60),
    ) {
        let mut world = World::new();
        for event in &events {
            let outcome = world.run(event, false);
            prop_assert!(outcome.is_ok(), "{outcome:?}");
        }
        world.sweep();
        prop_assert!(world.guards.is_empty(), "{} are left", world.guards.len());
        for block in 0..BLOCKS {
            prop_assert_eq!(&world.disk[&block], &world.live[&block]);
        }
    }
}

/// The check must be able to fail: without guards it does.
#[test]
fn without_guards_something_is_there_too_early() {
    let mut world = World::new();
    world.set((0, 0), 1, &[], (Keeps::Addition, true));
    world.set((1, 0), 1, &[(0, 0)], (Keeps::Addition, true));
    world.write(1);
    assert!(world.check(1).is_err());
    assert!(world.check(0).is_ok());
}

fn image(guards: &mut Guards<&'static str>, block: u64, byte: (usize, u8)) -> (Page, Manifest) {
    let mut page = Page::zeros(4096);
    page.make_mut()[byte.0] = byte.1;
    let (manifest, _) = guards.image(block, Mask::MAX, &mut page);
    (page, manifest)
}

#[test]
fn a_guard_goes_when_its_needs_are_settled() {
    let mut guards: Guards<&str> = Guards::default();
    let (name, inode) = (Field::new(7, 16, 4), Field::new(3, 0, 4));
    guards.guard(&[(name, &[0; 4])], &[inode], Keeps::Addition);
    guards.defer("drop", &[name]);
    assert_eq!(guards.next_writes(&[name]).into_iter().collect::<Vec<_>>(), [3]);
    let (early, manifest) = image(&mut guards, 7, (16, 9));
    assert_eq!(early.bytes()[16], 0);
    guards.settled(manifest);
    let (_, inodes) = image(&mut guards, 3, (0, 1));
    assert!(guards.is_guarded(name), "not before the write is settled");
    guards.settled(inodes);
    assert!(!guards.is_guarded(name) && guards.next_writes(&[name]).is_empty());
    let (late, manifest) = image(&mut guards, 7, (16, 9));
    assert_eq!(late.bytes()[16], 9);
    assert_eq!(guards.take_ready(), None);
    guards.settled(manifest);
    assert_eq!(guards.take_ready(), Some("drop"));
    assert!(guards.is_empty());
}

#[test]
fn a_second_change_keeps_the_oldest_bytes() {
    let mut guards: Guards<&str> = Guards::default();
    let (slot, first, second) = (Field::new(0, 0, 4), Field::new(1, 0, 4), Field::new(2, 0, 4));
    guards.guard(&[(slot, &[1; 4])], &[first], Keeps::Addition);
    guards.guard(&[(slot, &[2; 4])], &[second], Keeps::Addition);
    assert_eq!(image(&mut guards, 0, (0, 9)).0.bytes()[0], 1);
    let (_, manifest) = image(&mut guards, 2, (0, 1));
    guards.settled(manifest);
    assert!(!guards.is_guarded(slot), "what needed the first never reaches the disk");
}

/// A call for durability waits for what was changed by its time. A guard that supersedes an older
/// one keeps that back as well.
#[test]
fn a_guard_that_supersedes_another_is_as_old() {
    let mut guards: Guards<&str> = Guards::default();
    let (slot, first, second) = (Field::new(0, 0, 4), Field::new(1, 0, 4), Field::new(2, 0, 4));
    guards.guard(&[(slot, &[1; 4])], &[first], Keeps::Addition);
    let mark = guards.now();
    guards.guard(&[(slot, &[2; 4])], &[second], Keeps::Addition);
    assert!(guards.keeps_back(&[slot], mark) && guards.keeps_any_back(mark));
    let (_, manifest) = image(&mut guards, 2, (0, 1));
    guards.settled(manifest);
    assert!(!guards.keeps_any_back(mark), "the first change has been superseded, and came");
}

#[test]
fn a_removal_outlives_the_next_change() {
    let mut guards: Guards<&str> = Guards::default();
    let (links, name, inode) = (Field::new(0, 2, 2), Field::new(1, 0, 4), Field::new(0, 0, 126));
    guards.guard(&[(links, &[1, 0])], &[name], Keeps::Link);
    guards.guard(&[(inode, &[7; 126])], &[], Keeps::Addition);
    assert!(guards.hider(inode).is_some());
    let (_, manifest) = image(&mut guards, 1, (0, 0));
    guards.settled(manifest);
    assert!(guards.is_empty(), "the name is gone");
}

#[test]
fn a_growth_needs_what_the_one_before_it_needs() {
    let mut guards: Guards<&str> = Guards::default();
    let (size, first, second) = (Field::new(0, 0, 4), Field::new(1, 0, 4), Field::new(2, 0, 4));
    guards.guard(&[(size, &[1; 4])], &[first], Keeps::Growth);
    let (_, in_flight) = image(&mut guards, 1, (0, 1));
    guards.guard(&[(size, &[2; 4])], &[second], Keeps::Growth);
    assert_eq!(image(&mut guards, 0, (0, 9)).0.bytes()[0], 1);
    let (_, manifest) = image(&mut guards, 2, (0, 1));
    guards.settled(manifest);
    assert!(guards.is_guarded(size), "the first is not settled");
    guards.settled(in_flight);
    assert!(guards.is_empty());
}

#[test]
fn what_is_forgotten_is_not_waited_for() {
    let mut guards: Guards<&str> = Guards::default();
    let (entry, body) = (Field::new(0, 0, 4), Field::new(1, 0, 8));
    guards.guard(&[(entry, &[0; 4])], &[body], Keeps::Addition);
    guards.defer("free", &[body]);
    assert!(guards.is_needed(Field::new(1, 0, 4096)) && !guards.is_needed(entry));
    guards.forget(Field::new(1, 0, 4096));
    assert!(!guards.is_guarded(entry));
    assert_eq!(guards.take_ready(), Some("free"));
    assert!(guards.is_empty());
}

/// A file that grows piece by piece: its size waits for one fact, whatever the number of pieces,
/// and for all of them.
#[test]
fn pieces_of_one_block_are_one_fact() {
    let mut guards: Guards<()> = Guards::default();
    let mut page = Page::zeros(4096);
    let size = Field::new(1, 0, 4);
    for piece in 0..20_usize {
        let data = Field::new(2, piece * 200, 200);
        let bits = Field::new(3, piece / 8, 1);
        let old = (piece as u32).to_le_bytes();
        guards.guard(&[(size, &old)], &[data, bits], Keeps::Growth);
    }
    assert_eq!(guards.len(), 3, "a guard, a fact of the data, and one of the bits");
    let (manifest, _) = guards.image(3, 0b1, &mut page);
    guards.settled(manifest);
    let (manifest, _) = guards.image(2, 0b0111_1111, &mut page);
    guards.settled(manifest);
    assert!(guards.is_guarded(size), "a sector is missing");
    // A piece that comes while the last sector is on its way is a fact of its own.
    let (manifest, _) = guards.image(2, 0b1000_0000, &mut page);
    guards.guard(&[(size, &[9; 4])], &[Field::new(2, 4000, 96)], Keeps::Growth);
    guards.settled(manifest);
    assert!(guards.is_guarded(size), "the last piece is missing");
    let (manifest, _) = guards.image(2, 0b1000_0000, &mut page);
    guards.settled(manifest);
    assert!(guards.is_empty());
}
