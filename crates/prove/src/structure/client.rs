//! The client of a structure, which counts acknowledgements and asks the judge.

use super::volume::OpenStructure;
use super::{Found, State, Structure};
use crate::oracle::{Allowance, Excuse, Heard, Oracle, Send};
use crate::rules::Complaint;
use crate::script::Request;
use crate::violation::Wrong;
use seekless_engine::rng::Rng;
use std::fmt;

/// Carries out the next operation.
#[derive(Clone, Copy, Debug)]
pub struct Operate;

impl fmt::Display for Operate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("begin an operation")
    }
}

impl Request for Operate {
    fn length(&self) -> Option<u32> {
        None
    }

    fn limited(self, _most: u32) -> Operate {
        self
    }
}

/// What the client of a structure did in this epoch. `acknowledged` is at most the length of
/// `sent`.
#[derive(Debug)]
pub struct Client<S> {
    structure: Structure<S>,
    /// The structure at the begin of the epoch.
    before: S,
    sent: Vec<u64>,
    acknowledged: usize,
    revision: u64,
}

impl<S: State> Client<S> {
    pub(super) fn new(structure: Structure<S>, before: S) -> Client<S> {
        Client { structure, before, sent: Vec::new(), acknowledged: 0, revision: 0 }
    }
}

impl<S: State> Oracle for Client<S> {
    type Request = Operate;
    type Volume = OpenStructure<S>;
    type Content = S;

    fn mounted(&mut self, _volume: &OpenStructure<S>) {}

    fn send(&mut self, send: Send<'_, Operate>, volume: &mut OpenStructure<S>) {
        let number = u64::from(send.operation);
        self.revision += 1;
        self.sent.push(number);
        volume.take(number, send.now);
    }

    fn hear(&mut self, number: u64, _: &OpenStructure<S>, _: Excuse) -> Option<Wrong> {
        debug_assert_eq!(self.sent.get(self.acknowledged), Some(&number), "operations in order");
        self.revision += 1;
        self.acknowledged += 1;
        None
    }

    fn waiting(&self) -> usize {
        self.sent.len() - self.acknowledged
    }

    fn heard(&self) -> Heard {
        let durable = self.sent[..self.acknowledged].iter().map(|&number| number as u32);
        Heard { durable: durable.collect(), acknowledged: Vec::new() }
    }

    fn revision(&self) -> u64 {
        self.revision + 1
    }

    fn restart(&mut self, content: &S) {
        let revision = self.revision + 1;
        *self = Client { revision, ..Client::new(self.structure, content.clone()) };
    }

    fn read(&mut self, volume: &mut OpenStructure<S>) -> Result<S, String> {
        Ok(volume.state.clone())
    }

    fn read_what_can_be(&mut self, volume: &mut OpenStructure<S>) -> S {
        volume.state.clone()
    }

    /// FNV-1a of what it looks like.
    fn print(content: &S) -> u64 {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        format!("{content:?}").bytes().fold(0xcbf2_9ce4_8422_2325, step)
    }

    fn judge(&self, found: &S, _allowance: Allowance) -> Vec<Complaint> {
        let found = Found {
            before: &self.before,
            sent: &self.sent,
            acknowledged: self.acknowledged,
            now: found,
        };
        (self.structure.judge)(&found).err().map(Complaint::own).into_iter().collect()
    }

    fn differs(&self, found: &S, expected: &S, _errors: bool) -> Option<String> {
        (found != expected).then(|| format!("{found:?}, not {expected:?}"))
    }

    fn exercise(&self, _volume: &mut OpenStructure<S>, _rng: &mut Rng) -> Vec<Complaint> {
        Vec::new()
    }
}
