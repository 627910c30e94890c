//! Recoveries of arrays that are cut off themselves, after each of their writes.
#![allow(clippy::disallowed_types, missing_docs)]

use crate::support::Shared;
use seekless_arrays::member::MemberSuperblock;
use seekless_arrays::scrub::scrub;
use seekless_arrays::{ArrayDisk, AssembleOptions, CreateArray, Level, assemble, create};
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::{Io, IoError};
use seekless_engine::node::Node;
use std::cell::RefCell;
use std::rc::Rc;

const MEMBERS: usize = 3;
const DEVICE: u64 = 32;

/// What a recovery does to the members, in its order.
#[derive(Clone, Debug)]
enum Event {
    Write { member: usize, at: u64, data: Data },
    Flush { member: usize },
}

type Tape = Rc<RefCell<Vec<Event>>>;

/// A member that takes down what is done to it.
struct Recorded {
    medium: Cells,
    member: usize,
    tape: Tape,
}

impl Disk for Recorded {
    fn blocks(&self) -> u64 {
        self.medium.blocks()
    }
    fn read(&mut self, at: u64, count: u32) -> Result<Data, IoError> {
        self.medium.read(at, count)
    }
    fn write(&mut self, at: u64, data: Data) -> Result<(), IoError> {
        self.medium.write(at, &data)?;
        self.tape.borrow_mut().push(Event::Write { member: self.member, at, data });
        Ok(())
    }
    fn flush(&mut self) -> Result<(), IoError> {
        self.tape.borrow_mut().push(Event::Flush { member: self.member });
        Ok(())
    }
}

fn disks(media: &mut [Cells]) -> Vec<MediumDisk<'_>> {
    media.iter_mut().map(|medium| MediumDisk(medium)).collect()
}

/// A RAID-5 to which these were written: first block, blocks and version. Ended in order or not.
fn written(writes: &[(u64, u32, u64)], orderly: bool) -> (Vec<Cells>, MemberSuperblock) {
    let mut media = vec![Cells::new(DEVICE); MEMBERS];
    let shape = CreateArray { level: Level::Raid5, chunk: 1, id: 5, blank: true };
    let mut plain = disks(&mut media);
    let mut members: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
    let superblock = create(&mut members, &shape).expect("it fits");
    let mut members: Vec<_> = members.into_iter().map(Some).collect();
    let options = AssembleOptions { volatile: true, ..AssembleOptions::default() };
    let found = assemble(&mut members, &options).expect("it was just made");
    let shared: Vec<Shared> = media.into_iter().map(Shared::new).collect();
    let device = |medium: &Shared| Box::new(Ram::volatile(Box::new(medium.clone()))) as Box<_>;
    let mut node = Node::new(Box::new(found.array), shared.iter().map(device).collect(), 3);
    let mut now = 0;
    for &(at, count, version) in writes {
        let io = Io::write(1, at, Data::stamp(count, at, version));
        node.run(&mut now, io).expect("it is written");
    }
    if orderly {
        node.finish(&mut now);
    }
    let media = shared.iter().map(|one| one.with(|cells| cells.clone())).collect();
    (media, superblock)
}

/// A RAID-5 whose power fails while a whole stripe and, after it, a block of it were being written:
/// the block is in the log, and of the whole stripe one block never got to its member.
fn torn() -> Vec<Cells> {
    let stripe = 2;
    let (mut media, superblock) = written(&[(2 * stripe, 2, 1), (2 * stripe, 1, 2)], false);
    let geometry = superblock.geometry;
    let lost = geometry.member(stripe, 1);
    media[lost].write(geometry.block(stripe, 0), &Data::zeros(1)).expect("it is in range");
    media
}

/// Recovers media; what it did.
fn recover(media: &[Cells]) -> (Vec<Cells>, Vec<Event>) {
    let tape = Tape::default();
    let recorded = |(member, medium): (usize, &Cells)| Recorded {
        medium: medium.clone(),
        member,
        tape: Rc::clone(&tape),
    };
    let mut members: Vec<_> = media.iter().enumerate().map(recorded).collect();
    let mut some: Vec<_> = members.iter_mut().map(|one| Some(one as &mut dyn Disk)).collect();
    assemble(&mut some, &AssembleOptions::default()).expect("all of them are there");
    let media = members.into_iter().map(|one| one.medium).collect();
    (media, tape.take())
}

/// What an array without one of its members reads as.
fn content_without(member: usize, media: &mut [Cells]) -> Data {
    let options = AssembleOptions { degraded: true, ..AssembleOptions::default() };
    let mut plain = disks(media);
    let mut members: Vec<_> = plain.iter_mut().map(|disk| Some(disk as &mut dyn Disk)).collect();
    members[member] = None;
    let mut found = assemble(&mut members, &options).expect("the others are there");
    let mut array = ArrayDisk::new(&mut found.array, &mut members);
    let blocks = array.blocks();
    array.read(0, blocks as u32).expect("one may be missing")
}

fn disagreements(media: &mut [Cells]) -> Vec<u64> {
    let superblock = MemberSuperblock::read(&mut MediumDisk(&mut media[0])).expect("a member");
    let mut plain = disks(media);
    let mut members: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
    scrub(&mut members, &superblock, None, &mut |_| {}).expect("all are active").mismatched
}

/// The media after the first `cut` events; of the writes that were not flushed `kept` says which
/// are there.
fn after(media: &[Cells], events: &[Event], kept: impl Fn(usize) -> bool) -> (Vec<Cells>, usize) {
    let mut left = media.to_vec();
    let mut unflushed = 0;
    for (index, event) in events.iter().enumerate() {
        let Event::Write { member, at, data } = event else { continue };
        let flush = |later: &Event| matches!(later, Event::Flush { member: one } if one == member);
        let durable = events[index..].iter().any(flush);
        if durable || kept(unflushed) {
            left[*member].write(*at, data).expect("it is in range");
        }
        unflushed += usize::from(!durable);
    }
    (left, unflushed)
}

/// Calls with what cutting a recovery off may leave: after each event, with any of its writes that
/// were not flushed.
fn cut_off(media: &[Cells], events: &[Event], mut check: impl FnMut(Vec<Cells>, &str)) {
    for cut in 0..=events.len() {
        let events = &events[..cut];
        let (_, unflushed) = after(media, events, |_| true);
        for kept in 0..1_u32 << unflushed.min(12) {
            let (left, _) = after(media, events, |index| kept >> index & 1 == 1);
            check(left, &format!("cut at event {cut}, writes {kept:b} kept"));
        }
    }
}

#[test]
fn a_recovery_that_is_cut_off_leaves_members_that_agree() {
    let media = torn();
    let (mut whole, events) = recover(&media);
    assert_eq!(disagreements(&mut media.clone()), [2], "there is something to recover");
    assert!(disagreements(&mut whole).is_empty());
    let mut states = 0;
    cut_off(&media, &events, |left, how| {
        let (mut again, _) = recover(&left);
        let found = disagreements(&mut again);
        assert!(found.is_empty(), "{how}: {found:?}");
        states += 1;
    });
    assert!(states > 50, "only {states} states");
}

/// An array that was ended in order is opened, of which one member only has heard before the power
/// goes. The next recovery takes the records of its logs for alive; it is cut off as well, and then
/// that member is lost.
#[test]
fn nothing_is_repaired_of_which_the_others_could_not_know() {
    let (media, _) = written(&[(4, 1, 1), (4, 1, 2)], true);
    let mut states = 0;
    for lost in 0..MEMBERS {
        let right = content_without(lost, &mut media.clone());
        let mut opened = media.clone();
        let disk = &mut MediumDisk(&mut opened[lost]);
        let mut superblock = MemberSuperblock::read(disk).expect("a member");
        assert!(superblock.clean);
        (superblock.clean, superblock.events) = (false, superblock.events + 1);
        superblock.write(disk, lost).expect("it is in range");
        let (_, events) = recover(&opened);
        cut_off(&opened, &events, |mut left, how| {
            let found = content_without(lost, &mut left);
            assert_eq!(found, right, "{how}, then member {lost} is lost");
            states += 1;
        });
    }
    assert!(states > 50, "only {states} states");
}
