//! The client of a block volume: what it sends and hears, and what it says of a recovered volume.

use super::content_names::{Name, Names, UNREADABLE, ZEROS, fresh};
use super::history::{History, Tick};
use super::request::{BlockRequest, Content};
use super::volume::{exercise, read_all, read_what_can_be};
use crate::block_damage::find;
use crate::machine::Machine;
use crate::oracle::{Allowance, Excuse, Heard, Oracle, Send};
use crate::rules::{Complaint, Rule};
use crate::script::Place;
use crate::violation::{Sort, Wrong};
use seekless_engine::checksum::{crc32c, mix};
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::io::{Done, Io, IoError, Tag};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::transaction::Transaction;
use seekless_engine::units::{BLOCK_BYTES, Time};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A request in flight.
#[derive(Clone, Copy, Debug)]
enum InFlight {
    Read { at: u64, sent: Tick },
    Change { number: usize, fua: bool, sent: Tick },
    Flush { sent: Tick },
}

/// A client and all it has done and heard.
#[derive(Debug)]
pub struct BlockOracle {
    history: History,
    names: Names,
    /// Blocks up to which a write is promised to be whole.
    whole: u64,
    in_flight: BTreeMap<Tag, InFlight>,
    next_tag: Tag,
    /// When the client first heard that something cannot be written.
    refused: Option<Tick>,
}

impl BlockOracle {
    /// A client that has done nothing yet.
    pub(super) fn new(history: History, whole: u64) -> BlockOracle {
        let (names, in_flight) = (Names::default(), BTreeMap::new());
        BlockOracle { history, names, whole, in_flight, next_tag: 0, refused: None }
    }

    fn submit(&mut self, now: Time, volume: &mut Node, mut io: Io, request: InFlight) {
        io.tag = self.next_tag;
        self.next_tag += 1;
        self.in_flight.insert(io.tag, request);
        volume.submit(now, io);
    }

    fn change(&mut self, now: Time, volume: &mut Node, io: Io, number: usize, fua: bool) {
        let sent = self.history.mark();
        self.submit(now, volume, io, InFlight::Change { number, fua, sent });
    }

    /// Sends a write with this payload, which can be told from all others if it is `fresh`.
    fn write(&mut self, to: To<'_>, at: u64, data: Data, is_fresh: bool, fua: bool) {
        let distinct = is_fresh && u64::from(data.blocks()) <= self.whole;
        let names = self.names.of(at, &data);
        let number = self.history.submit(to.operation, at, &names, distinct);
        let io = Io::write(0, at, data);
        self.change(to.now, to.volume, if fua { io.with_fua() } else { io }, number, fua);
    }

    fn trim(&mut self, to: To<'_>, at: u64, count: u32, fua: bool) {
        let zeros = vec![ZEROS; count as usize];
        let number = self.history.submit(to.operation, at, &zeros, false);
        let io = Io::trim(0, at, count);
        self.change(to.now, to.volume, if fua { io.with_fua() } else { io }, number, fua);
    }

    /// A transaction of several requests, or its parts one by one where there are none.
    fn group(&mut self, to: To<'_>, request: BlockRequest, fua: bool) {
        let To { operation, now, volume } = to;
        let members = request.members(volume.layer.blocks());
        if volume.transaction_blocks() < members.len() as u64 {
            for (at, written) in members {
                let to = To { operation, now, volume };
                match written {
                    true => self.write(to, at, fresh(at, 1, operation), true, fua),
                    false => self.trim(to, at, 1, fua),
                }
            }
            return;
        }
        let mut all = Transaction::new();
        let mut names = Vec::new();
        for (at, written) in members {
            if written {
                let data = fresh(at, 1, operation);
                all.write(at, &data);
                names.extend(self.names.of(at, &data).into_iter().map(|one| (at, one)));
            } else {
                all.trim(at, 1);
                names.push((at, ZEROS));
            }
        }
        let number = self.history.submit_all(operation, names, true);
        let sent = self.history.mark();
        let tag = self.next_tag;
        self.next_tag += 1;
        self.in_flight.insert(tag, InFlight::Change { number, fua, sent });
        let taken = volume.submit_transaction(now, tag, all, fua);
        taken.expect("it is no larger than the volume says, and within it");
    }

    fn hear_error(&mut self, volume: &Node, error: &IoError, excuse: Excuse) -> Option<Wrong> {
        if !excuse.refuses {
            let story = format!("a request fails without need: {error}");
            return wrong(Rule::ChangeAnswered, Sort::Refusal, story);
        }
        if volume.layer.failed().is_none() {
            let story = format!("a request failed ({error}) and the volume goes on");
            return wrong(Rule::StaysFailed, Sort::Refusal, story);
        }
        let now = self.history.mark();
        self.refused.get_or_insert(now);
        None
    }

    /// After an error on the write path the volume must not acknowledge a change.
    fn hear_success(&mut self, sent: Tick, what: &str) -> Option<Wrong> {
        if self.refused.is_some_and(|refused| sent > refused) {
            let story = format!("a {what} is acknowledged after an error on the write path");
            return wrong(Rule::NoPretence, Sort::Pretence, story);
        }
        None
    }

    fn hear_read(&mut self, at: u64, sent: Tick, data: &Data, excuse: Excuse) -> Option<Wrong> {
        let names = self.names.of(at, data);
        for (block, name) in (at..).zip(names) {
            let mixed = excuse.failed && self.history.may_be_mixed(block, name, &self.names);
            if !mixed && !self.history.may_read(block, name, sent) {
                let found = self.names.text(name);
                let story = format!("block {block} reads {found}, which is wrong");
                return wrong(Rule::ReadVersion, Sort::Read, story);
            }
        }
        None
    }
}

/// Where and when a request goes.
struct To<'v> {
    operation: u32,
    now: Time,
    volume: &'v mut Node,
}

fn wrong(rule: Rule, sort: Sort, sentence: String) -> Option<Wrong> {
    rule.applies().then(|| rule.wrong(sort, sentence))
}

impl Oracle for BlockOracle {
    type Request = BlockRequest;
    type Volume = Node;
    type Content = Rc<[Name]>;

    fn mounted(&mut self, volume: &Node) {
        debug_assert!(self.in_flight.is_empty(), "no request outlives an epoch");
        self.history.limit(volume.layer.status().limits());
    }

    fn send(&mut self, send: Send<'_, BlockRequest>, volume: &mut Node) {
        let Send { request, operation, now, machine } = send;
        let to = To { operation, now, volume };
        match request {
            BlockRequest::Write { at, count, content, fua } => {
                let data = match content {
                    Content::Fresh => fresh(at, count, operation),
                    Content::Zeros => Data::zeros(count),
                    Content::Copies(choice) => copies(&machine.lend(), count, choice),
                };
                self.write(to, at, data, content == Content::Fresh, fua);
            }
            BlockRequest::Trim { at, count, fua } => self.trim(to, at, count, fua),
            BlockRequest::Group { fua, .. } => self.group(to, request, fua),
            BlockRequest::Read { at, count } => {
                let sent = self.history.mark();
                self.submit(now, to.volume, Io::read(0, at, count), InFlight::Read { at, sent });
            }
            BlockRequest::Flush => {
                let sent = self.history.mark();
                self.submit(now, to.volume, Io::flush(0), InFlight::Flush { sent });
            }
        }
    }

    fn hear(&mut self, done: Done, volume: &Node, excuse: Excuse) -> Option<Wrong> {
        let request = self.in_flight.remove(&done.tag).expect("each answer has its request");
        match (request, done.outcome) {
            (InFlight::Read { at, sent }, Ok(data)) => self.hear_read(at, sent, &data, excuse),
            (InFlight::Read { .. }, Err(_)) if excuse.damaged => None,
            (InFlight::Read { at, .. }, Err(error)) => {
                let story = format!("a read at {at} fails without cause: {error}");
                wrong(Rule::ReadAnswered, Sort::Read, story)
            }
            (InFlight::Change { number, fua, sent }, Ok(_)) => {
                self.history.acknowledge(number, fua);
                self.hear_success(sent, "write or trim")
            }
            (InFlight::Flush { sent }, Ok(_)) => {
                self.history.flushed(sent);
                self.hear_success(sent, "flush")
            }
            (InFlight::Change { .. }, Err(IoError::NoSpace))
                if volume.layer.status().limits().may_be_full =>
            {
                None
            }
            // It has not happened, and nothing else is the worse for it.
            (InFlight::Change { .. }, Err(IoError::NoSpace))
                if excuse.refuses && volume.layer.failed().is_none() =>
            {
                None
            }
            (InFlight::Change { .. } | InFlight::Flush { .. }, Err(error)) => {
                self.hear_error(volume, &error, excuse)
            }
        }
    }

    fn waiting(&self) -> usize {
        self.in_flight.len()
    }

    fn heard(&self) -> Heard {
        self.history.heard()
    }

    fn revision(&self) -> u64 {
        self.history.revision()
    }

    fn restart(&mut self, content: &Rc<[Name]>) {
        self.in_flight.clear();
        self.refused = None;
        self.history.restart(content);
    }

    fn read(&mut self, volume: &mut Node) -> Result<Rc<[Name]>, String> {
        let data = read_all(volume).map_err(|error| error.to_string())?;
        Ok(self.names.of(0, &data).into())
    }

    fn read_what_can_be(&mut self, volume: &mut Node) -> Rc<[Name]> {
        let mut names = Vec::new();
        for (count, data) in read_what_can_be(volume) {
            match data {
                Some(data) => names.extend(self.names.of(names.len() as u64, &data)),
                None => names.extend((0..count).map(|_| UNREADABLE)),
            }
        }
        names.into()
    }

    fn print(content: &Rc<[Name]>) -> u64 {
        content.iter().fold(1, |sum, &name| mix(sum ^ name))
    }

    fn judge(&self, found: &Rc<[Name]>, allowance: Allowance) -> Vec<Complaint> {
        self.history.judge(found, &self.names, allowance)
    }

    fn differs(&self, found: &Rc<[Name]>, expected: &Rc<[Name]>, errors: bool) -> Option<String> {
        let pairs = found.iter().zip(expected.iter()).enumerate();
        let mut wrong = pairs.filter(|(_, (found, expected))| {
            found != expected && !(errors && **found == UNREADABLE)
        });
        let (block, names) = wrong.next()?;
        let [found, right] = [*names.0, *names.1].map(|name| self.names.text(name));
        Some(format!("block {block} reads {found}, not {right}"))
    }

    fn exercise(&self, volume: &mut Node, rng: &mut Rng) -> Vec<Complaint> {
        let wrong = exercise(volume, rng).into_iter();
        wrong.map(|sentence| Complaint { rule: Rule::Works, sentence }).collect()
    }
}

/// Copies of blocks of the devices; the number chooses which.
fn copies(machine: &Machine, count: u32, choice: u64) -> Data {
    let mut rng = Rng::stream(choice, "copies");
    let mut copies = Data::none();
    for _ in 0..count {
        let device = machine.device(rng.below(machine.devices() as u64) as usize);
        let place = match rng.below(3) {
            0 => Place::Anywhere(rng.next()),
            _ => Place::Metadata(rng.next()),
        };
        let body = device.durable().get(find(place, device.durable()));
        // A stamp has another checksum than its bytes, so what is one stays one: a layout that
        // finds the same bytes there may leave them as they are.
        let body = match body {
            Body::Stamp { .. } => body,
            body => {
                let mut bytes = Piece::block(body).to_bytes().to_vec();
                // Many blocks of file systems end with their CRC: all of those have one CRC.
                if rng.chance(0.75) {
                    let (head, tail) = bytes.split_at_mut(BLOCK_BYTES - 4);
                    tail.copy_from_slice(&crc32c(head).to_le_bytes());
                }
                Body::Bytes(bytes.into())
            }
        };
        copies.push(Piece::block(body));
    }
    copies
}
