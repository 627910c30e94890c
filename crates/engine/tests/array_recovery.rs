//! Recoveries of arrays that are cut off themselves, after each of their writes.
#![allow(clippy::disallowed_types, missing_docs)]

mod support;

use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::{Io, IoError};
use seekless_engine::node::Node;
use seekless_engine::volume::member::MemberSuperblock;
use seekless_engine::volume::scrub::scrub;
use seekless_engine::volume::{AssembleOptions, CreateArray, Level, assemble, create};
use std::cell::RefCell;
use std::rc::Rc;
use support::Shared;

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

/// A RAID-5 whose power fails while a whole stripe and, after it, a block of it were being written:
/// the block is in the log, and of the whole stripe one block never got to its member.
fn torn() -> Vec<Cells> {
    let mut media = vec![Cells::new(DEVICE); MEMBERS];
    let shape = CreateArray { level: Level::Raid5, chunk: 1, id: 5, blank: true };
    let mut plain = disks(&mut media);
    let mut members: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
    let superblock = create(&mut members, &shape).expect("it fits");
    let mut members: Vec<_> = members.into_iter().map(Some).collect();
    let found = assemble(&mut members, &AssembleOptions::default()).expect("it was just made");
    let shared: Vec<Shared> = media.into_iter().map(Shared::new).collect();
    let device = |medium: &Shared| Box::new(Ram::volatile(Box::new(medium.clone()))) as Box<_>;
    let mut node = Node::new(Box::new(found.array), shared.iter().map(device).collect(), 3);
    let stripe = 2;
    let mut now = 0;
    for (at, count, version) in [(2 * stripe, 2, 1), (2 * stripe, 1, 2)] {
        let io = Io::write(1, at, Data::stamp(count, at, version));
        node.run(&mut now, io).expect("it is written");
    }
    let geometry = superblock.geometry;
    let mut media: Vec<Cells> = shared.iter().map(|one| one.with(|cells| cells.clone())).collect();
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

fn disagreements(media: &mut [Cells]) -> Vec<u64> {
    let superblock = MemberSuperblock::read(&mut MediumDisk(&mut media[0])).expect("a member");
    let mut plain = disks(media);
    let mut members: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
    scrub(&mut members, &superblock, false, &mut |_| {}).expect("all are active").mismatched
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

#[test]
fn a_recovery_that_is_cut_off_leaves_members_that_agree() {
    let media = torn();
    let (mut whole, events) = recover(&media);
    assert_eq!(disagreements(&mut media.clone()), [2], "there is something to recover");
    assert!(disagreements(&mut whole).is_empty());
    let mut states = 0;
    for cut in 0..=events.len() {
        let events = &events[..cut];
        let (_, unflushed) = after(&media, events, |_| true);
        for kept in 0..1_u32 << unflushed.min(12) {
            let (left, _) = after(&media, events, |index| kept >> index & 1 == 1);
            let (mut again, _) = recover(&left);
            let found = disagreements(&mut again);
            assert!(found.is_empty(), "cut at event {cut}, writes {kept:b} kept: {found:?}");
            states += 1;
        }
    }
    assert!(states > 50, "only {states} states");
}
