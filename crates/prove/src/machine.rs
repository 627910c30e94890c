//! The machine of a run: devices that share one power supply, and what a power cut after each of
//! their events would find.

use crate::small_disk::SmallArm;
use seekless_crash::contract::{Contract, Order};
use seekless_crash::device::volatile::{TRANSACTION_BLOCKS, VolatileRam};
use seekless_crash::moment::{Moment, Placed, Slot, device_print};
use seekless_engine::arm::{Arm, Head, Track};
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::device::{Device, DeviceStatus, Mechanical};
use seekless_engine::io::{Done, Io};
use seekless_engine::layer::Port;
use seekless_engine::shared::Shared;
use seekless_engine::units::Time;
use std::collections::BTreeMap;

/// What the devices of a case are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceKind {
    /// What they promise: what a power cut may leave of their writes.
    pub contract: Contract,
    /// They have heads.
    pub headed: bool,
    /// Their flushes take long.
    pub slow_flushes: bool,
    /// Forced writes are durable when they complete; else they are writes like others.
    pub keeps_forced: bool,
}

impl DeviceKind {
    /// True if they forget completed writes that were not flushed.
    pub fn is_volatile(&self) -> bool {
        self.contract.order != Order::KeepsCompleted
    }
}

/// The devices of a run. They share one power supply: what is recorded after an event of one of
/// them is the state of all.
#[derive(Debug)]
pub struct Machine {
    rams: Vec<VolatileRam>,
    moments: Vec<Moment>,
    /// Events of the devices so far, and what they had changed at the last moment.
    events: u64,
    changes: u64,
}

impl Machine {
    /// A machine of these devices, and what a volume is to be given for each.
    pub(crate) fn new(
        rams: Vec<VolatileRam>,
        arms: Vec<Option<SmallArm>>,
    ) -> (Shared<Machine>, Vec<Box<dyn Device>>) {
        assert_eq!(rams.len(), arms.len(), "an arm or none for each device");
        let machine = Shared::new(Machine { rams, moments: Vec::new(), events: 0, changes: 0 });
        let probe = |(port, arm)| -> Box<dyn Device> {
            Box::new(Probe { machine: machine.clone(), port, arm, track: 0 })
        };
        let probes = arms.into_iter().enumerate().map(probe).collect();
        (machine, probes)
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.rams.len()
    }

    /// One of the devices.
    pub fn device(&self, port: Port) -> &VolatileRam {
        &self.rams[port]
    }

    /// One of the devices, to break something.
    pub(crate) fn device_mut(&mut self, port: Port) -> &mut VolatileRam {
        &mut self.rams[port]
    }

    /// Events of the devices so far.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// What a power cut now would find.
    pub(crate) fn moment(&self) -> Moment {
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
                let slots = one.write.places().map(&mut slot).collect();
                pending.push(Placed { device, pending: one.clone(), slots });
            }
        }
        // Machines are made of devices of one kind.
        let contract = self.rams.first().map_or(Contract::DISK, VolatileRam::contract);
        Moment { event: self.events, contract, durable, pending, slots, print }
    }

    /// The moments recorded since the last call.
    pub(crate) fn take_moments(&mut self) -> Vec<Moment> {
        std::mem::take(&mut self.moments)
    }

    /// After an event: what has not changed anything makes no new moment.
    fn record(&mut self) {
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

/// Stands for one device and records the moment after each of its events.
#[derive(Debug)]
struct Probe {
    machine: Shared<Machine>,
    port: Port,
    arm: Option<SmallArm>,
    /// Where the last command ended.
    track: Track,
}

impl Device for Probe {
    fn blocks(&self) -> u64 {
        self.machine.lend().rams[self.port].blocks()
    }

    fn submit(&mut self, now: Time, mut io: Io) {
        io.data = in_one_piece(io.data);
        if let Some(arm) = self.arm.as_ref().filter(|_| io.count > 0) {
            self.track = arm.track_of(io.at + u64::from(io.count) - 1);
        }
        let mut machine = self.machine.lend();
        machine.rams[self.port].submit(now, io);
        machine.record();
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        let before = done.len();
        let mut machine = self.machine.lend();
        machine.rams[self.port].reap(now, done);
        if done.len() > before {
            machine.record();
        }
    }

    fn next_event(&self) -> Option<Time> {
        self.machine.lend().rams[self.port].next_event()
    }

    fn volatile(&self) -> bool {
        self.machine.lend().rams[self.port].volatile()
    }

    fn status(&self) -> &dyn DeviceStatus {
        self
    }

    fn mechanical(&self) -> Option<&dyn Mechanical> {
        Some(self)
    }
}

impl DeviceStatus for Probe {
    fn takes_parts(&self) -> bool {
        true
    }

    fn transaction_blocks(&self) -> u64 {
        TRANSACTION_BLOCKS
    }

    /// Where it has no head: volumes then give back what they do not use, as on a file.
    fn punches(&self) -> bool {
        self.arm.is_none()
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
