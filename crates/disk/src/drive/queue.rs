//! Waiting requests, in the disk and in the host before it.

use super::Request;
use super::memory::Memory;
use super::service::Service;
use crate::geometry::Run;
use crate::motion::Motion;
use crate::spec::{Discipline, Queue};
use seekless_engine::io::Op;
use seekless_engine::units::Time;
use std::collections::VecDeque;

/// A request with the data that the choice needs.
#[derive(Clone, Copy, Debug)]
struct Entry {
    request: Request,
    arrived: Time,
    /// Where its first sector is.
    run: Run,
    /// When that passes, as time since the index mark.
    target: Time,
}

/// The queues of a disk and of its host.
#[derive(Debug)]
pub(super) struct Waiting {
    disk: Queue,
    host: Queue,
    /// In the disk, in order of arrival there.
    inside: Vec<Entry>,
    /// In the host, in order of arrival.
    outside: VecDeque<Entry>,
    /// Direction of LOOK in the disk and in the host.
    upwards: [bool; 2],
    /// Where the last request of each queue lay. LOOK and C-LOOK continue from there.
    last: [u64; 2],
}

impl Waiting {
    pub(super) fn new(disk: Queue, host: Queue) -> Waiting {
        Waiting {
            disk,
            host,
            inside: Vec::new(),
            outside: VecDeque::new(),
            upwards: [true; 2],
            last: [0; 2],
        }
    }

    pub(super) fn in_order(&self) -> bool {
        self.disk.discipline == Discipline::Fcfs
            && (self.disk.depth == 0 || self.host.discipline == Discipline::Fcfs)
    }

    pub(super) fn discipline(&self) -> Discipline {
        self.disk.discipline
    }

    pub(super) fn len(&self) -> usize {
        self.inside.len() + self.outside.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.inside.is_empty() && self.outside.is_empty()
    }

    /// When the first of them came.
    pub(super) fn earliest(&self) -> Time {
        let entries = self.inside.iter().chain(&self.outside);
        entries.map(|entry| entry.arrived).min().unwrap_or(0)
    }

    pub(super) fn push(&mut self, motion: &Motion, arrived: Time, request: Request) {
        let run = motion.geometry().run(request.lbn.min(motion.geometry().sectors() - 1));
        let target = motion.target_ns(&run);
        let entry = Entry { request, arrived, run, target };
        if self.has_room() && self.outside.is_empty() {
            self.inside.push(entry);
        } else {
            self.outside.push_back(entry);
        }
    }

    fn has_room(&self) -> bool {
        self.disk.depth == 0 || self.inside.len() < self.disk.depth as usize
    }

    /// Takes the request that is served next, at time `at`.
    pub(super) fn next(&mut self, service: &Service, at: Time) -> Option<(Time, Request)> {
        while self.has_room() && !self.outside.is_empty() {
            let entries: Vec<Entry> = self.outside.iter().copied().collect();
            let index = self.choose(service, at, &entries, self.host, 1);
            self.inside.extend(self.outside.remove(index));
        }
        if self.inside.is_empty() {
            return None;
        }
        let entries = std::mem::take(&mut self.inside);
        // A flush keeps its place: earlier requests go first, later ones wait.
        let fence = entries.iter().position(|entry| entry.request.op == Op::Flush);
        let open = &entries[..fence.unwrap_or(entries.len())];
        let index = match open {
            [] => 0,
            open => self.choose(service, at, open, self.disk, 0),
        };
        self.inside = entries;
        let entry = self.inside.remove(index);
        Some((entry.arrived, entry.request))
    }

    fn choose(
        &mut self,
        service: &Service,
        at: Time,
        entries: &[Entry],
        queue: Queue,
        level: usize,
    ) -> usize {
        let best = match queue.discipline {
            Discipline::Fcfs => Some(0),
            Discipline::Sstf => smallest(entries, |entry| {
                u64::from(entry.run.cylinder.abs_diff(service.place.cylinder))
            }),
            Discipline::CLook => {
                let last = self.last[level];
                smallest(entries, |entry| entry.request.lbn.wrapping_sub(last))
            }
            Discipline::Look => self.look(entries, level),
            // No choice, which is the usual case with one client.
            _ if entries.len() == 1 => Some(0),
            Discipline::Sptf => nearest(service, at, entries, 0.0),
            Discipline::AgedSptf => nearest(service, at, entries, queue.age_weight),
        };
        let best = best.unwrap_or(0);
        self.last[level] = entries[best].request.lbn;
        best
    }

    /// The nearest in the direction of the arm; if there is none, turns round once.
    fn look(&mut self, entries: &[Entry], level: usize) -> Option<usize> {
        for _ in 0..2 {
            let (last, up) = (self.last[level], self.upwards[level]);
            let ahead = entries.iter().enumerate().filter(|(_, entry)| match up {
                true => entry.request.lbn >= last,
                false => entry.request.lbn <= last,
            });
            let nearest = ahead.min_by_key(|(_, entry)| entry.request.lbn.abs_diff(last));
            if let Some((index, _)) = nearest {
                return Some(index);
            }
            self.upwards[level] = !up;
        }
        None
    }
}

fn smallest(entries: &[Entry], key: impl Fn(&Entry) -> u64) -> Option<usize> {
    entries.iter().enumerate().min_by_key(|(_, entry)| key(entry)).map(|(index, _)| index)
}

/// The one whose first sector passes the head first, less `weight` times the time that it waited.
fn nearest(service: &Service, at: Time, entries: &[Entry], weight: f64) -> Option<usize> {
    let mut best: Option<(i64, usize)> = None;
    let memory = Memory::new(service, at);
    for (index, entry) in entries.iter().enumerate() {
        // Neither a write into the cache nor a read out of it needs the arm.
        if service.takes_at_once(&entry.request, at) || memory.has(&entry.request) {
            return Some(index);
        }
        let write = entry.request.op == Op::Write;
        let (from, start) = service.ready(entry.arrived, at, write);
        let motion = &service.motion;
        let (run, target) = match service.elsewhere(&entry.request) {
            None => (entry.run, entry.target),
            Some(place) => {
                let run = motion.geometry().run(place);
                (run, motion.target_ns(&run))
            }
        };
        let (seek, switch) = motion.travel(from, &run, write);
        let mut age = 0;
        if weight > 0.0 {
            age = ((at - entry.arrived.min(at)) as f64 * weight) as i64;
        }
        // The move is a lower bound. It rules most of them out.
        let moved = (start + seek + switch) as i64 - at as i64 - age;
        if best.is_some_and(|(time, _)| time <= moved) {
            continue;
        }
        let wait = motion.until(target, start + seek + switch);
        let time = moved + wait as i64;
        if best.is_none_or(|(other, _)| time < other) {
            best = Some((time, index));
        }
    }
    best.map(|(_, index)| index)
}
