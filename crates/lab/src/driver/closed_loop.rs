//! The client of a described workload: a closed loop. A fixed number of requests are in flight,
//! and each answer lets the next one go.

use super::requests::{Part, Requests, Written};
use super::{Completion, DriveError};
use crate::workload::{Generator, Request, Upcoming, Workload};
use seekless_engine::client::{Below, Client};
use seekless_engine::io::{Done, Op};
use seekless_engine::layer::Port;
use seekless_engine::units::Time;
use std::collections::VecDeque;

/// Each of `depth` simulated users waits for an answer, or for its think time to pass.
#[derive(Debug)]
pub(super) struct ClosedLoop<'r, F> {
    workload: &'r Workload,
    upcoming: Upcoming<'r>,
    requests: Requests<'r, ()>,
    /// When each user that waits for no answer goes on; ascending.
    ready: VecDeque<Time>,
    /// Requests still to be sent, flushes not counted; of them, those of this burst.
    left: u64,
    burst_left: u64,
    observe: F,
}

impl<'r, F: FnMut(&Completion)> ClosedLoop<'r, F> {
    /// `requests` requests of `generator` from `now` on; `observe` sees each answer. Makes room
    /// beforehand, so that the loop allocates nothing.
    pub(super) fn new(
        workload: &'r Workload,
        generator: &'r mut Generator,
        requests: u64,
        written: &'r mut Written,
        now: Time,
        observe: F,
    ) -> ClosedLoop<'r, F> {
        let depth = workload.depth as usize;
        ClosedLoop {
            workload,
            upcoming: Upcoming::new(generator, requests),
            requests: Requests::new(written, depth, workload.request_blocks),
            ready: std::iter::repeat_n(now, depth).collect(),
            left: requests,
            burst_left: workload.bursts.map_or(u64::MAX, |bursts| bursts.requests),
            observe,
        }
    }

    /// Requests, flushes not counted, that may be sent before the next pause.
    fn may_send(&self) -> u64 {
        self.left.min(self.burst_left)
    }

    #[inline(always)]
    fn send(&mut self, request: Request, below: &mut Below<'_>) {
        let (count, fua) = (self.workload.request_blocks, self.workload.fua);
        let part = match request {
            Request::Read { at } => Part { op: Op::Read, at, count, fua: false },
            Request::Write { at } => Part { op: Op::Write, at, count, fua },
            Request::Flush => Part::FLUSH,
        };
        self.requests.send(part, (), below);
    }
}

impl<F: FnMut(&Completion)> Client for ClosedLoop<'_, F> {
    type Error = DriveError;

    #[inline(always)]
    fn complete(
        &mut self,
        _port: Port,
        done: Done,
        below: &mut Below<'_>,
    ) -> Result<(), DriveError> {
        let (completion, ()) = self.requests.finish(done, below.now())?;
        (self.observe)(&completion);
        self.ready.push_back(below.now() + self.workload.think_ns);
        Ok(())
    }

    #[inline(always)]
    fn pump(&mut self, below: &mut Below<'_>) -> Result<(), DriveError> {
        let now = below.now();
        // The pause counts from the last answer of the burst.
        if self.burst_left == 0
            && self.requests.is_empty()
            && let Some(bursts) = self.workload.bursts.filter(|_| self.left > 0)
        {
            self.burst_left = bursts.requests;
            self.ready.iter_mut().for_each(|at| *at = now + bursts.idle_ns);
        }
        while self.may_send() > 0 && self.ready.front().is_some_and(|&at| at <= now) {
            self.ready.pop_front();
            let (requests, node) = (&self.requests, below.node(0));
            let next = self.upcoming.next(|at| {
                node.layer.status().expect(at);
                requests.expect(at);
            });
            let Some(request) = next else { break };
            if request != Request::Flush {
                self.left -= 1;
                self.burst_left -= 1;
            }
            self.send(request, below);
        }
        debug_assert_eq!(
            self.requests.len() + self.ready.len(),
            self.workload.depth as usize,
            "each user waits for an answer or for its time"
        );
        Ok(())
    }

    #[inline(always)]
    fn deadline(&self) -> Option<Time> {
        if self.may_send() > 0 { self.ready.front().copied() } else { None }
    }
}
