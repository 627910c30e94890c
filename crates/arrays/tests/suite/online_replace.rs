//! A new member takes the place of one that is out while clients write: it is filled, and nothing
//! that was flushed is lost, whenever the power is cut.
#![allow(clippy::disallowed_types, missing_docs)]

use crate::members::{filled, fresh, is_whole, on_medium};
use crate::seen::{Seen, cut, start, with_disks};
use seekless_arrays::{AssembleOptions, Level, VolumeError, assemble};
use seekless_crash::device::volatile::{Latency, VolatileRam};
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::{Done, Io};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::shared::Shared;
use seekless_engine::units::{SECONDS, Time};
use seekless_engine::upkeep::UpkeepError;

const CHUNK: u32 = 64;
const REPLACED: usize = 1;
const SHAPES: [(Level, usize); 4] =
    [(Level::Raid1, 2), (Level::Raid1, 3), (Level::Raid5, 3), (Level::Raid5, 4)];

fn seen(medium: &Cells, seed: u64, member: usize) -> Seen {
    let rng = Rng::stream(seed, &format!("member {member}"));
    let ram = VolatileRam::new(medium.clone(), true, Latency::Random, rng);
    Seen(Shared::new(ram))
}

/// The array without the member that is to be replaced, on devices with random delays.
fn degraded(media: &mut [Cells], seed: u64) -> (Node, Vec<Seen>) {
    let options = AssembleOptions { volatile: true, degraded: true, ..AssembleOptions::default() };
    let found = with_disks(media, |disks| {
        disks[REPLACED] = None;
        assemble(disks, &options)
    });
    let found = found.expect("one may be missing");
    let devices: Vec<Seen> =
        media.iter().enumerate().map(|(member, medium)| seen(medium, seed, member)).collect();
    let boxed = devices.iter().map(|one| Box::new(one.clone()) as Box<dyn Device>).collect();
    (Node::new(Box::new(found.array), boxed, 1), devices)
}

/// Puts a new medium in the place of the member that is out.
fn put_in(node: &mut Node, devices: &mut [Seen], mut medium: Cells) {
    let array = node.layer.replaceable().expect("it is an array");
    let place = array.prepare(&mut MediumDisk(&mut medium)).expect("a place is free");
    assert_eq!((place.member, place.blocks), (REPLACED, medium_blocks(&medium)));
    devices[REPLACED] = seen(&medium, 7, REPLACED);
    array.admit(true);
    node.replace_device(REPLACED, Box::new(devices[REPLACED].clone()));
}

fn medium_blocks(medium: &Cells) -> u64 {
    use seekless_engine::device::medium::Medium as _;
    medium.blocks()
}

/// A client that writes and flushes, and what it may expect of each block.
struct Client {
    rng: Rng,
    /// Version of each block that was flushed, and the last that was sent.
    versions: Vec<(u64, u64)>,
    unflushed: Vec<usize>,
    sent: Option<(usize, usize)>,
    busy: bool,
    version: u64,
}

impl Client {
    fn new(blocks: u64, seed: u64) -> Client {
        let versions = vec![(1, 1); blocks as usize];
        let rng = Rng::stream(seed, "client");
        Client { rng, versions, unflushed: Vec::new(), sent: None, busy: false, version: 1 }
    }

    fn submit(&mut self, node: &mut Node, now: Time) {
        if std::mem::replace(&mut self.busy, true) {
            return;
        }
        if self.rng.chance(0.3) {
            return node.submit(now, Io::flush(0));
        }
        let count = 1 + self.rng.below(3 * u64::from(CHUNK) / 2) as usize;
        let at = self.rng.below((self.versions.len() - count) as u64) as usize;
        self.version += 1;
        self.versions[at..at + count].iter_mut().for_each(|one| one.1 = self.version);
        self.sent = Some((at, count));
        node.submit(
            now,
            Io::write(0, at as u64, Data::stamp(count as u32, at as u64, self.version)),
        );
    }

    fn hear(&mut self, done: Done) {
        done.outcome.expect("the others are sound");
        self.busy = false;
        match self.sent.take() {
            Some((at, count)) => self.unflushed.extend(at..at + count),
            None => {
                for block in std::mem::take(&mut self.unflushed) {
                    self.versions[block].0 = self.versions[block].1;
                }
            }
        }
    }

    /// Each block has the version that was flushed, or one that was sent later.
    fn check(&self, node: &mut Node, what: &str) {
        let data = node.run(&mut 0, Io::read(1, 0, self.versions.len() as u32)).expect("reads");
        for (block, &(flushed, sent)) in self.versions.iter().enumerate() {
            let found = data.slice(block as u32, 1).to_bytes();
            let is = |version: u64| found == Data::stamp(1, block as u64, version).to_bytes();
            assert!((flushed..=sent).any(is), "{what}: block {block}, {flushed} to {sent}");
        }
    }
}

/// Assembles what a power cut has left, with all members and without each of the others.
fn holds(media: &[Cells], client: &Client, what: &str) {
    let (mut node, _) = start(&mut media.to_vec(), 3);
    client.check(&mut node, what);
    for gone in (0..media.len()).filter(|&member| member != REPLACED) {
        let left = [&media[..gone], &media[gone + 1..]].concat();
        let mut media = media.to_vec();
        let options =
            AssembleOptions { volatile: true, degraded: true, ..AssembleOptions::default() };
        let found = with_disks(&mut media, |disks| {
            disks[gone] = None;
            assemble(disks, &options)
        });
        match found {
            Ok(found) => {
                let boxed = |(member, medium)| Box::new(seen(medium, 4, member)) as Box<dyn Device>;
                let devices = media.iter().enumerate().map(boxed).collect();
                let mut node = Node::new(Box::new(found.array), devices, 1);
                client.check(&mut node, &format!("{what} without member {gone}"));
            }
            Err(VolumeError::TooFew { .. }) => assert!(!is_whole(&left), "{what}: member {gone}"),
            Err(error) => panic!("{what}, without member {gone}: {error}"),
        }
    }
}

#[test]
fn a_member_replaced_under_load_is_filled_and_no_power_cut_loses_anything() {
    let mut cuts = 0;
    for (seed, (level, members)) in (0..12).zip(SHAPES.into_iter().cycle()) {
        let old = filled(level, members, CHUNK);
        let (mut node, mut devices) = degraded(&mut old.clone(), seed);
        let (mut now, mut replies) = (0, Vec::new());
        let mut client = Client::new(node.layer.blocks(), seed);
        let mut rng = Rng::stream(seed, "cuts");
        let (mut events, mut there) = (0, false);
        while !there || !is_whole(&on_medium(&devices)) {
            client.submit(&mut node, now);
            node.settle(now, &mut replies);
            replies.drain(..).for_each(|done| client.hear(done));
            let taken = node.layer.replaceable().expect("an array").vacancy();
            if events >= 40 && !there && taken.is_ok() {
                there = true;
                put_in(&mut node, &mut devices, fresh(level, members, CHUNK));
                assert!(node.layer.replaceable().expect("an array").vacancy().is_err());
            }
            if there && rng.chance(0.4) {
                let what = format!("{level} of {members}, event {events}");
                holds(&cut(&devices, &mut rng), &client, &what);
                cuts += 1;
            }
            events += 1;
            assert!(events < 20_000, "{level} of {members}: it is never filled");
            now = node.next_event().unwrap_or(now).max(now);
        }
        let media = on_medium(&devices);
        holds(&media, &client, "filled");
        node.idle(&mut now, SECONDS);
        let mut media = on_medium(&devices);
        // The one that was replaced is not taken back.
        media[REPLACED] = old[REPLACED].clone();
        let options = AssembleOptions { volatile: true, ..AssembleOptions::default() };
        let found = with_disks(&mut media, |disks| assemble(disks, &options));
        assert!(found.is_err(), "{level} of {members}");
    }
    assert!(cuts > 500, "{cuts}");
}

#[test]
fn a_place_that_is_not_free_is_refused() {
    let mut media = filled(Level::Raid5, 3, CHUNK);
    let (mut node, _) = start(&mut media, 1);
    let vacancy = |node: &mut Node| node.layer.replaceable().expect("an array").vacancy();
    assert_eq!(vacancy(&mut node), Err(UpkeepError::NoneOut));
    let (mut node, mut devices) = degraded(&mut media, 1);
    let mut small = Cells::new(64);
    let place = vacancy(&mut node).expect("one is out");
    assert!(place.blocks > medium_blocks(&small));
    small = fresh(Level::Raid5, 3, CHUNK);
    put_in(&mut node, &mut devices, small);
    assert_eq!(vacancy(&mut node), Err(UpkeepError::Filling));
    node.idle(&mut 0, 60 * SECONDS);
    assert_eq!(vacancy(&mut node), Err(UpkeepError::NoneOut));
    node.finish(&mut (61 * SECONDS));
    assert_eq!(vacancy(&mut node), Err(UpkeepError::Failed));
}
