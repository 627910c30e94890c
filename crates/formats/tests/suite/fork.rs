//! Forks of a mounted file system: each goes on as the original would, and neither sees what the
//! other does.
//!
//! Random calls, answers of the volume and times run over a volume that the test answers itself, so
//! that forks are made with requests in flight. What a world does is its replies and its requests.

use seekless_engine::client::Below;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::{Ram, carry_out};
use seekless_engine::io::{Done, Io, IoError, Tag};
use seekless_engine::layer::{Cx, Layer, Port, Status, Transactions};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::shared::Shared;
use seekless_engine::transaction::Transaction;
use seekless_engine::units::{SECONDS, Time};
use seekless_formats::ffs::{self, Ffs, check, mkfs};
use seekless_formats::{MkfsOptions, MountOptions};
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Call, Reply};
use seekless_fs::core::CoreOptions;
use seekless_fs::policy::PolicyKind;
use seekless_fs::system::{FileSystem, FsCx};
use seekless_fs_model::script::{Bindings, Kind, Script, Shape};
use std::slice::from_mut;

const BLOCKS: u64 = 2048;
/// Blocks of the log, behind those of the file system: the fewest there can be.
const LOG_BLOCKS: u64 = 256;

/// A volume that hands its requests to the test and answers none.
#[derive(Debug)]
struct Outside(Shared<Vec<Io>>);

impl Layer for Outside {
    fn blocks(&self) -> u64 {
        BLOCKS + LOG_BLOCKS
    }

    fn submit(&mut self, io: Io, _cx: &mut Cx<'_>) {
        self.0.lend().push(io);
    }

    fn complete(&mut self, _port: Port, _done: Done, _cx: &mut Cx<'_>) {}

    fn pump(&mut self, _cx: &mut Cx<'_>) {}

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn stop(&mut self, _cx: &mut Cx<'_>) {}

    fn stopped(&self) -> bool {
        false
    }

    fn failed(&self) -> Option<IoError> {
        None
    }

    fn status(&self) -> &dyn Status {
        self
    }

    fn transactions(&mut self) -> Option<&mut dyn Transactions> {
        Some(self)
    }
}

impl Transactions for Outside {
    fn submit(&mut self, tag: Tag, all: Transaction, fua: bool, _cx: &mut Cx<'_>) {
        self.0.lend().push(Io { fua, ..Io::write_all(tag, &all) });
    }
}

impl Status for Outside {
    fn takes_parts(&self) -> bool {
        true
    }

    fn transaction_blocks(&self) -> u64 {
        256
    }
}

/// What comes from outside.
#[derive(Clone, Debug)]
enum Step {
    Call(Call),
    /// The answer to a request in flight.
    Answer(u64),
    Pass(Time),
}

/// What a world does.
#[derive(Clone, Debug, PartialEq)]
enum Event {
    Reply(Reply),
    Request(Io),
}

struct World {
    fs: Ffs,
    cells: Shared<Cells>,
    sent: Shared<Vec<Io>>,
    node: Node,
    in_flight: Vec<Io>,
    bindings: Bindings,
    /// Calls without a reply.
    calls: Vec<Call>,
    now: Time,
    events: Vec<Event>,
}

fn outside() -> (Shared<Vec<Io>>, Node) {
    let sent = Shared::default();
    (sent.clone(), Node::new(Box::new(Outside(sent)), vec![], 1))
}

impl World {
    fn new(policy: PolicyKind, sizes: (u32, u32), cache_bytes: u64) -> World {
        let log = if policy.is_logged() { LOG_BLOCKS } else { 0 };
        let blocks = BLOCKS + log;
        let mut disk = Plain::node(Box::new(Ram::new(Box::new(Cells::new(blocks)))));
        let options = MkfsOptions {
            block: sizes.0,
            fragment: sizes.1,
            policy,
            journal: policy.is_logged().then_some(log * 4096),
            journal_blocks: policy.has_own_log_volume().then_some(log),
            ..MkfsOptions::default()
        };
        mkfs(&mut NodeDisk::new(&mut disk, &mut 0), &options).expect("fits");
        let core = CoreOptions { cache_bytes, writes: 4, ..CoreOptions::default() };
        let options = MountOptions { core, policy, now: 1, ..MountOptions::default() };
        let fs = ffs::mount(&mut NodeDisk::new(&mut disk, &mut 0), &options).expect("just made");
        let mut cells = Cells::new(blocks);
        for at in 0..blocks {
            let mut answers = Vec::new();
            disk.submit(0, Io::read(0, at, 1));
            disk.settle(0, &mut answers);
            let data = answers.remove(0).outcome.expect("in memory");
            carry_out(&mut cells, &Io::write(0, at, data)).expect("in memory");
        }
        let (sent, node) = outside();
        World {
            fs,
            cells: Shared::new(cells),
            sent,
            node,
            in_flight: Vec::new(),
            bindings: Bindings::default(),
            calls: Vec::new(),
            now: 0,
            events: Vec::new(),
        }
    }

    fn fork(&mut self) -> World {
        let cells = self.cells.lend().clone();
        self.fork_over(Shared::new(cells))
    }

    fn fork_over(&mut self, cells: Shared<Cells>) -> World {
        let (sent, node) = outside();
        World {
            fs: self.fs.fork(),
            cells,
            sent,
            node,
            in_flight: self.in_flight.clone(),
            bindings: self.bindings.clone(),
            calls: self.calls.clone(),
            now: self.now,
            events: Vec::new(),
        }
    }

    fn with_fs(&mut self, run: impl FnOnce(&mut Ffs, &mut FsCx<'_, '_>)) {
        let mut below = Below::new(self.now, from_mut(&mut self.node));
        let mut replies = Vec::new();
        let mut cx = FsCx { below: &mut below, replies: &mut replies };
        run(&mut self.fs, &mut cx);
        self.fs.pump(&mut cx);
        for io in self.sent.lend().drain(..) {
            self.events.push(Event::Request(io.clone()));
            self.in_flight.push(io);
        }
        for reply in replies {
            let call = self.calls.iter().position(|call| call.id == reply.id);
            let call = self.calls.remove(call.expect("a reply has a call"));
            self.bindings.learn(&call, &reply.result);
            self.events.push(Event::Reply(reply));
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Call(call) => {
                let Some(real) = self.bindings.call(call) else { return };
                self.calls.push(call.clone());
                self.with_fs(|fs, cx| fs.submit(real, cx));
            }
            Step::Answer(_) if self.in_flight.is_empty() => self.with_fs(|_, _| {}),
            Step::Answer(which) => {
                let io = self.in_flight.remove(*which as usize % self.in_flight.len());
                let data = carry_out(&mut *self.cells.lend(), &io);
                self.with_fs(|fs, cx| fs.complete(0, Done::new(io.tag, data), cx));
            }
            Step::Pass(span) => {
                self.now += span;
                self.with_fs(|_, _| {});
            }
        }
    }

    /// Unmounts, and checks what it leaves.
    fn end(mut self) -> Vec<Event> {
        self.with_fs(|fs, cx| fs.stop(cx));
        while !self.fs.stopped() {
            assert!(!self.in_flight.is_empty(), "the unmount waits for something");
            self.step(&Step::Answer(0));
        }
        let cells = self.cells.lend().clone();
        let mut node = Plain::node(Box::new(Ram::new(Box::new(cells))));
        let findings = check(&mut NodeDisk::new(&mut node, &mut 0)).expect("a superblock");
        assert!(findings.is_clean(), "{findings:#?}");
        self.events
    }
}

fn steps(kind: Kind, seed: u64) -> Vec<Step> {
    let mut rng = Rng::stream(seed, "fork");
    let mut steps = Vec::new();
    for call in Script::random(kind, seed, 500, Shape::default()).calls {
        // Now and then calls run while others wait.
        let answers = if rng.below(4) == 0 { rng.below(2) } else { 12 };
        steps.push(Step::Call(call));
        steps.extend((0..answers).map(|_| Step::Answer(rng.below(1 << 20))));
        if rng.below(8) == 0 {
            steps.push(Step::Pass(rng.below(20 * SECONDS)));
        }
    }
    steps
}

/// Runs a world that is forked again and again. Forks that go another way must not disturb it.
/// Forks that go the same way much later must do what it did.
fn compare(
    mut world: impl FnMut() -> World,
    fork: impl Fn(&mut World) -> World,
    steps: &[Step],
    other: &[Step],
) -> Result<(), String> {
    let mut alone = world();
    let mut done = Vec::new();
    for step in steps {
        done.push(alone.events.len());
        alone.step(step);
    }
    let expected = alone.end();

    let (mut forked, mut twins) = (world(), Vec::new());
    let (mut strays, mut ways) = (Vec::new(), other.iter().cycle());
    let spacing = steps.len() / 10;
    for (number, step) in steps.iter().enumerate() {
        if number % spacing == spacing / 2 {
            strays.push(fork(&mut forked));
            twins.push((number, fork(&mut forked)));
        }
        // Strays run in between, so that something that they share has no time to settle.
        if let Some(stray) = strays.last_mut() {
            ways.by_ref().take(number % 3).for_each(|step| stray.step(step));
        }
        forked.step(step);
    }
    if forked.end() != expected {
        return Err("a world is disturbed by its forks".to_owned());
    }
    for (number, mut twin) in twins {
        steps[number..].iter().for_each(|step| twin.step(step));
        if twin.end() != expected[done[number]..] {
            return Err(format!("a fork before step {number} goes another way"));
        }
    }
    Ok(())
}

fn check_forks(kind: Kind, seed: u64) {
    let (steps, other) = (steps(kind, seed), steps(Kind::Mixed, seed + 100));
    for policy in PolicyKind::ALL {
        for (sizes, cache) in [((8192, 1024), 8 << 20), ((4096, 1024), 128 << 10)] {
            let world = || World::new(policy, sizes, cache);
            let result = compare(world, World::fork, &steps, &other);
            let name = policy.name();
            assert_eq!(result, Ok(()), "{kind:?}, seed {seed}, {name}, {sizes:?}, {cache}");
        }
    }
}

#[test]
fn a_fork_goes_on_as_the_original_and_disturbs_nothing() {
    for kind in Kind::ALL.into_iter().filter(|kind| !kind.may_fill()) {
        check_forks(kind, 1);
    }
}

#[test]
fn forks_of_mixed_work_go_on() {
    (2..8).for_each(|seed| check_forks(Kind::Mixed, seed));
}

/// Calls are under way when the unmount begins. What they unlink is deleted even if a client still
/// refers to it: no client forgets it afterwards.
#[test]
fn an_unmount_among_calls_leaves_nothing_without_a_name() {
    for seed in 0..40 {
        let steps = steps(Kind::Mixed, seed);
        let until = steps.len() / 2 + seed as usize * 10;
        for policy in PolicyKind::ALL {
            let mut world = World::new(policy, (4096, 1024), 128 << 10);
            steps[..until].iter().for_each(|step| world.step(step));
            let calls = steps[until..].iter().filter(|step| matches!(step, Step::Call(_)));
            calls.take(30).for_each(|step| world.step(step));
            world.end();
        }
    }
}

/// The comparison sees it if forks share something: here the blocks of the volume.
#[test]
fn a_volume_that_forks_share_is_noticed() {
    let (steps, other) = (steps(Kind::Mixed, 1), steps(Kind::Mixed, 101));
    let world = || World::new(PolicyKind::Async, (4096, 1024), 128 << 10);
    let shared = |world: &mut World| {
        let cells = world.cells.clone();
        world.fork_over(cells)
    };
    let seen = std::panic::catch_unwind(|| compare(world, shared, &steps, &other));
    assert!(!matches!(seen, Ok(Ok(()))), "two file systems wrote to one volume");
}
