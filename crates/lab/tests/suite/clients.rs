//! The client seam with what a file system needs of it: two volumes, transactions, promises, and
//! work of its own after a while.
#![allow(clippy::disallowed_types)]

use seekless_disk::{Disk, specs};
use seekless_engine::client::{Below, Client, Exchange, Slots, in_flight, next_event};
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::Extent;
use seekless_engine::io::{Done, Io};
use seekless_engine::layer::Port;
use seekless_engine::layout::{FormatOptions, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::transaction::{Transaction, TransactionError};
use seekless_engine::units::{BlockNr, MILLIS, Time};
use seekless_layouts::Kind;

const HOME: Port = 0;
const LOG: Port = 1;
/// Changes wait so long for others before they are brought home together.
const AGE: Time = 5 * MILLIS;

/// What a request was for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Purpose {
    /// Logs a change of this block.
    Log(BlockNr),
    /// Brings these changes home.
    Checkpoint(Vec<BlockNr>),
}

/// Logs every change on one volume, and brings them home to another in one transaction.
#[derive(Default)]
struct Journal {
    /// Changes to be made.
    wanted: Vec<BlockNr>,
    requests: Slots<Purpose>,
    /// Logged and not at home, since when.
    logged: Vec<BlockNr>,
    oldest: Option<Time>,
    home: Vec<BlockNr>,
    head: BlockNr,
}

impl Client for Journal {
    type Error = String;

    fn complete(&mut self, port: Port, done: Done, below: &mut Below<'_>) -> Result<(), String> {
        done.outcome.map_err(|error| error.to_string())?;
        match self.requests.remove(done.tag) {
            Purpose::Log(block) => {
                assert_eq!(port, LOG);
                self.logged.push(block);
                self.oldest.get_or_insert(below.now());
            }
            Purpose::Checkpoint(blocks) => {
                assert_eq!(port, HOME);
                self.home.extend(blocks);
            }
        }
        Ok(())
    }

    fn pump(&mut self, below: &mut Below<'_>) -> Result<(), String> {
        for block in self.wanted.drain(..) {
            let tag = self.requests.insert(Purpose::Log(block));
            below.submit(LOG, Io::write(tag, self.head, Data::stamp(1, block, 1)).with_fua());
            self.head += 1;
        }
        if self.oldest.is_some_and(|oldest| below.now() >= oldest + AGE) {
            self.oldest = None;
            let blocks = std::mem::take(&mut self.logged);
            assert!(blocks.len() as u64 <= below.node(HOME).transaction_blocks());
            let mut all = Transaction::new();
            blocks.iter().for_each(|&block| all.write(block, &Data::stamp(1, block, 1)));
            let tag = self.requests.insert(Purpose::Checkpoint(blocks));
            below.submit_transaction(HOME, tag, all, true).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn deadline(&self) -> Option<Time> {
        self.oldest.map(|oldest| oldest + AGE)
    }
}

fn volume(kind: Kind, timed: bool) -> Node {
    let spec = specs::find("st19101").expect("built in");
    let mut cells = Cells::new(spec.capacity_blocks()).with_labels();
    let options = FormatOptions::new(kind, 1000, 1);
    seekless_layouts::format(&mut MediumDisk(&mut cells), &options).expect("fits");
    let (layer, _, _) =
        seekless_layouts::mount(&mut MediumDisk(&mut cells), &MountOptions::default())
            .expect("just formatted");
    let medium: Box<dyn Medium> = Box::new(cells);
    if timed {
        Node::new(layer, vec![Box::new(Disk::new(&spec, medium).expect("fits"))], 1)
    } else {
        Node::new(layer, vec![Box::new(Ram::new(medium))], 1)
    }
}

/// Runs a client until nothing is in flight and it has no deadline.
fn run<C: Client<Error = String>>(client: &mut C, nodes: &mut [Node], now: &mut Time) {
    let mut exchange = Exchange::new(nodes.len());
    loop {
        exchange.move_all(client, nodes, *now).expect("nothing fails");
        if in_flight(nodes) == 0 && client.deadline().is_none() {
            return;
        }
        let next = [next_event(nodes), client.deadline()].into_iter().flatten().min();
        *now = next.expect("something is under way").max(*now);
    }
}

#[test]
fn a_journal_uses_two_volumes_a_deadline_and_a_transaction() {
    for timed in [false, true] {
        let mut nodes = [volume(Kind::LOGE, timed), volume(Kind::INPLACE, timed)];
        let mut journal = Journal { wanted: vec![7, 300, 41], ..Journal::default() };
        let mut now = 0;
        run(&mut journal, &mut nodes, &mut now);
        assert!(now >= AGE, "the changes have waited");
        assert!(journal.requests.is_empty() && journal.logged.is_empty());
        journal.home.sort_unstable();
        assert_eq!(journal.home, [7, 41, 300]);
        for (port, at, key) in [(HOME, 300, 300), (LOG, 1, 300)] {
            let found = nodes[port].run(&mut now, Io::read(0, at, 1)).expect("readable");
            assert_eq!(found, Data::stamp(1, key, 1));
        }
    }
}

#[test]
fn a_refused_transaction_is_not_in_flight() {
    let mut nodes = [volume(Kind::INPLACE, false)];
    let mut below = Below::new(0, &mut nodes);
    assert_eq!(below.ports(), 1);
    let mut all = Transaction::new();
    all.trim(1, 1);
    let refused = below.submit_transaction(0, 1, all, false);
    assert_eq!(refused, Err(TransactionError::Unsupported));
    assert_eq!(below.in_flight(), 0);
    assert_eq!(below.extent(0, 0, 5), (Extent::Data, 5), "and volumes can be asked");
    assert!(!below.node(0).layer.status().limits().may_be_full);
}
