//! The devices of a run, and what a power cut after each of their events would find.

use super::small_disk::SmallArm;
use seekless_crash::contract::Contract;
use seekless_crash::device::volatile::VolatileRam;
use seekless_crash::moment::{Moment, Placed, Slot, device_print};
use seekless_engine::arm::{Arm, Head, Track};
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::device::{Device, DeviceStatus, Mechanical};
use seekless_engine::io::{Done, Io};
use seekless_engine::layer::Port;
use seekless_engine::units::Time;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The devices of a run. They share one power supply: what is taken down after an event of one
/// of them is the state of all.
#[derive(Debug)]
pub struct Bench {
    rams: Vec<VolatileRam>,
    moments: Vec<Moment>,
    /// Events of the devices so far, and what they had changed at the last moment.
    events: u64,
    changes: u64,
}

impl Bench {
    /// A bench of these devices, and what a node is to be given for each.
    pub fn new(
        rams: Vec<VolatileRam>,
        arms: Vec<Option<SmallArm>>,
    ) -> (Rc<RefCell<Bench>>, Vec<Box<dyn Device>>) {
        assert_eq!(rams.len(), arms.len(), "an arm or none for each device");
        let bench =
            Rc::new(RefCell::new(Bench { rams, moments: Vec::new(), events: 0, changes: 0 }));
        let probe = |(port, arm)| -> Box<dyn Device> {
            Box::new(Probe { bench: Rc::clone(&bench), port, arm, track: 0 })
        };
        let probes = arms.into_iter().enumerate().map(probe).collect();
        (bench, probes)
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.rams.len()
    }

    /// One of the devices.
    pub fn ram(&self, port: Port) -> &VolatileRam {
        &self.rams[port]
    }

    /// One of the devices, to break something.
    pub fn ram_mut(&mut self, port: Port) -> &mut VolatileRam {
        &mut self.rams[port]
    }

    /// Events of the devices so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// What a power cut now would find.
    pub fn moment(&self) -> Moment {
        let durable = self.rams.iter().map(|ram| ram.durable().clone()).collect();
        let mut slots = Vec::new();
        let mut known = BTreeMap::new();
        let mut pending = Vec::new();
        let mut print = 0;
        for (device, ram) in self.rams.iter().enumerate() {
            print ^= device_print(device, ram.print());
            for one in ram.pending().iter() {
                let mut slot = |at| {
                    *known.entry((device, at)).or_insert_with(|| {
                        slots.push(Slot { device, at, origin: ram.origin(at) });
                        slots.len() - 1
                    })
                };
                let end = one.write.at + u64::from(one.write.blocks());
                let slots = (one.write.at..end).map(&mut slot).collect();
                pending.push(Placed { device, pending: one.clone(), slots });
            }
        }
        // Machines are made of devices of one kind.
        let contract = self.rams.first().map_or(Contract::DISK, VolatileRam::contract);
        Moment { event: self.events, contract, durable, pending, slots, print }
    }

    /// The moments taken down since the last call.
    pub fn take_moments(&mut self) -> Vec<Moment> {
        std::mem::take(&mut self.moments)
    }

    /// After an event: what has not changed anything makes no new moment.
    fn take_down(&mut self) {
        self.events += 1;
        let changes = self.rams.iter().map(VolatileRam::events).sum();
        if changes != self.changes {
            self.changes = changes;
            let moment = self.moment();
            self.moments.push(moment);
        }
    }
}

/// Blocks in shared sectors, or still to be put together, as plain bytes: a sweep writes a block
/// once and reads it in each of thousands of recoveries.
fn in_one_piece(data: Data) -> Data {
    let composed = |piece: &Piece| matches!(piece.body, Body::Sectors(_) | Body::Lazy(_));
    if !data.pieces().iter().any(composed) {
        return data;
    }
    let mut plain = Data::none();
    for piece in data.pieces() {
        plain.push(match &piece.body {
            Body::Sectors(_) | Body::Lazy(_) => Piece::block(Body::Bytes(piece.to_bytes())),
            _ => piece.clone(),
        });
    }
    plain
}

/// Stands for one device and takes down the moment after each of its events.
#[derive(Debug)]
struct Probe {
    bench: Rc<RefCell<Bench>>,
    port: Port,
    arm: Option<SmallArm>,
    /// Where the last command ended.
    track: Track,
}

impl Device for Probe {
    fn blocks(&self) -> u64 {
        self.bench.borrow().rams[self.port].blocks()
    }

    fn submit(&mut self, now: Time, mut io: Io) {
        io.data = in_one_piece(io.data);
        if let Some(arm) = self.arm.as_ref().filter(|_| io.count > 0) {
            self.track = arm.track_of(io.at + u64::from(io.count) - 1);
        }
        let mut bench = self.bench.borrow_mut();
        bench.rams[self.port].submit(now, io);
        bench.take_down();
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        let before = done.len();
        let mut bench = self.bench.borrow_mut();
        bench.rams[self.port].reap(now, done);
        if done.len() > before {
            bench.take_down();
        }
    }

    fn next_event(&self) -> Option<Time> {
        self.bench.borrow().rams[self.port].next_event()
    }

    fn volatile(&self) -> bool {
        self.bench.borrow().rams[self.port].volatile()
    }

    fn status(&self) -> &dyn DeviceStatus {
        self
    }

    fn mechanical(&self) -> Option<&dyn Mechanical> {
        Some(self)
    }
}

impl Mechanical for Probe {
    fn arm(&self) -> Option<&dyn Arm> {
        self.arm.as_ref().map(|arm| arm as &dyn Arm)
    }

    fn head(&self, now: Time) -> Option<Head> {
        self.arm.as_ref().map(|_| Head { track: self.track, free_at: now })
    }
}

impl DeviceStatus for Probe {}
