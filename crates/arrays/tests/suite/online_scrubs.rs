//! A scrub of an array that is used: it finds what members disagree about, writes unreadable blocks
//! anew, keeps to its pace and ends with the array.
#![allow(clippy::disallowed_types, missing_docs)]

use crate::volumes::{
    BLOCKS, SHAPES, Shared, geometry, holds, mounted, mounted_on, spoil, written,
};
use seekless_engine::data::{Body, Data};
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::io::{Io, IoError};
use seekless_engine::node::Node;
use seekless_engine::units::{MILLIS, SECONDS, Time};
use seekless_engine::upkeep::{Scrub, ScrubState, Upkeep, UpkeepError};
use seekless_layouts::Kind;
use std::sync::{Arc, Mutex};

const AT_WILL: Upkeep = Upkeep::Scrub { bytes_per_second: None };

fn report(node: &Node) -> Scrub {
    node.devices[0].status().scrub().expect("a scrub")
}

/// Scrubs to the end, without clients.
fn scrubs(node: &mut Node, now: &mut Time) -> Scrub {
    node.devices[0].upkeep(AT_WILL, *now).expect("all members are there");
    for _ in 0..1000 {
        node.idle(now, 10 * MILLIS);
        if report(node).state != ScrubState::Running {
            return report(node);
        }
    }
    panic!("the scrub does not end: {:?}", report(node));
}

#[test]
fn a_scrub_between_requests_finds_what_members_disagree_about() {
    for (level, members) in SHAPES {
        let (media, content) = written(level, members, Kind::VLOG, true);
        let (mut node, shared) = mounted(&media);
        let mut now = 0;
        let first = geometry(&mut media.clone()).first;
        let whole = scrubs(&mut node, &mut now);
        assert_eq!((whole.state, whole.mismatched, whole.unreadable), (ScrubState::Ended, 0, 0));
        assert_eq!(whole.done, whole.stripes);
        let places = [first + 3, first + 4, first + 17];
        shared[1].with(|cells| places.into_iter().for_each(|at| spoil(cells, at, 5)));
        node.devices[0].upkeep(AT_WILL, now).expect("all are there");
        // A client works meanwhile.
        for (block, expected) in content.iter().enumerate() {
            let found = node.run(&mut now, Io::read(0, block as u64, 1)).expect("reads");
            assert!(found.to_bytes() == expected.to_bytes(), "{level} of {members}: block {block}");
        }
        node.idle(&mut now, SECONDS);
        let found = report(&node);
        assert_eq!(found.state, ScrubState::Ended, "{level} of {members}");
        assert_eq!((found.unreadable, found.repaired), (0, 0));
        // The client's reads have put some of it right, before the scrub came by or after.
        assert!(found.mismatched <= 3, "{found:?}");
        node.finish(&mut now);
    }
}

/// A medium of which some blocks cannot be read until they are written.
#[derive(Debug)]
struct Bad {
    medium: Shared,
    bad: Arc<Mutex<Vec<u64>>>,
}

impl Medium for Bad {
    fn blocks(&self) -> u64 {
        self.medium.blocks()
    }
    fn read(&mut self, at: u64, count: u32) -> Result<Data, IoError> {
        let bad = self.bad.lock().expect("no panic");
        match bad.iter().find(|bad| (at..at + u64::from(count)).contains(bad)) {
            Some(&block) => Err(IoError::Media { block }),
            None => self.medium.read(at, count),
        }
    }
    fn write(&mut self, at: u64, data: &Data) -> Result<(), IoError> {
        let end = at + u64::from(data.blocks());
        self.bad.lock().expect("no panic").retain(|bad| !(at..end).contains(bad));
        self.medium.write(at, data)
    }
    fn trim(&mut self, at: u64, count: u32) -> Result<(), IoError> {
        self.medium.trim(at, count)
    }
}

#[test]
fn an_online_scrub_writes_unreadable_blocks_anew() {
    for (level, members) in SHAPES {
        let (media, content) = written(level, members, Kind::VLOG, true);
        let first = geometry(&mut media.clone()).first;
        let bad = Arc::new(Mutex::new(Vec::new()));
        let wrap = |member: usize, medium: Shared| -> Box<dyn Medium> {
            match member {
                1 => Box::new(Bad { medium, bad: bad.clone() }),
                _ => Box::new(medium),
            }
        };
        let (mut node, shared) = mounted_on(&media, wrap);
        let last = media[1].blocks() - 1;
        let before: Vec<Body> =
            shared[1].with(|cells| (0..=last).map(|at| cells.get(at)).collect());
        let places = [first, first + 5, first + 6, last];
        *bad.lock().expect("no panic") = places.to_vec();
        let mut now = 0;
        let found = scrubs(&mut node, &mut now);
        assert_eq!((found.unreadable, found.repaired, found.mismatched), (4, 4, 0));
        assert!(bad.lock().expect("no panic").is_empty(), "they were written");
        let member = &node.devices[0].status().members()[1];
        assert_eq!((member.unreadable_blocks, member.healed_blocks), (4, 4));
        for at in places {
            let now = shared[1].with(|cells| cells.get(at));
            let bytes = |body: &Body| Data::block_of(body.clone()).to_bytes();
            assert!(bytes(&now) == bytes(&before[at as usize]), "{level} of {members}: {at}");
        }
        node.finish(&mut now);
        let media: Vec<Cells> = shared.iter().map(|one| one.with(|it| it.clone())).collect();
        holds(&media, &content, &format!("{level} of {members}"));
    }
}

#[test]
fn a_scrub_keeps_to_its_rate_and_can_be_stopped() {
    let (level, members) = SHAPES[2];
    let (media, _) = written(level, members, Kind::VLOG, true);
    let (mut node, _) = mounted(&media);
    let mut now = 0;
    assert_eq!(node.devices[0].upkeep(Upkeep::StopScrub, now), Err(UpkeepError::NoScrub));
    let bytes = geometry(&mut media.clone()).stripes * 4 * 4096;
    let paced = Upkeep::Scrub { bytes_per_second: Some(bytes / 10) };
    node.devices[0].upkeep(paced, now).expect("all are there");
    assert_eq!(node.devices[0].upkeep(paced, now), Err(UpkeepError::UnderWay));
    // One step covers this small array, so the end is due in ten seconds.
    node.idle(&mut now, 9 * SECONDS);
    assert_eq!(report(&node).state, ScrubState::Running);
    node.idle(&mut now, 2 * SECONDS);
    assert_eq!(report(&node).state, ScrubState::Ended);
    node.devices[0].upkeep(paced, now).expect("the last one has ended");
    node.devices[0].upkeep(Upkeep::StopScrub, now).expect("it runs");
    assert_eq!(report(&node).state, ScrubState::Stopped);
    node.devices[0].upkeep(paced, now).expect("the last one was stopped");
    node.idle(&mut now, SECONDS);
    node.finish(&mut now);
    assert_eq!(report(&node).state, ScrubState::Stopped, "the array was shut down");
}

/// Requests of clients and a scrub take turns at the stripes.
#[test]
fn writes_go_on_while_an_array_is_scrubbed() {
    for (level, members) in SHAPES {
        let (media, mut content) = written(level, members, Kind::LFS, true);
        let (mut node, shared) = mounted(&media);
        let mut now = 0;
        for round in 0..20_u64 {
            let _ = node.devices[0].upkeep(AT_WILL, now);
            let at = round * 3 % (BLOCKS - 1);
            let data = Data::bytes(Data::stamp(1, at, 100 + round).to_bytes());
            for index in 0..data.blocks() {
                content[at as usize + index as usize] = data.slice(index, 1);
            }
            node.run(&mut now, Io::write(0, at, data)).expect("writes");
            node.run(&mut now, Io::flush(0)).expect("flushes");
            node.idle(&mut now, MILLIS);
        }
        node.idle(&mut now, SECONDS);
        assert_eq!(report(&node).mismatched, 0, "{level} of {members}");
        node.finish(&mut now);
        let media: Vec<Cells> = shared.iter().map(|one| one.with(|it| it.clone())).collect();
        holds(&media, &content, &format!("{level} of {members}"));
    }
}
