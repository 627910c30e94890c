//! A file system run in process, one call after the other, for tools and tests.
//!
//! [`Blocking`] owns a mounted file system and the node below it. Its clock stands still while a
//! call runs without I/O, and jumps to the next event of the node otherwise; ages of dirty blocks
//! pass only through [`Blocking::idle`].

pub mod disk;
pub mod plain;

use crate::call::{Answer, Call, Credentials, Errno, Reply, Request, Timestamp};
use crate::node::FsClient;
use crate::system::{FileSystem, Runs};
use disk::NodeDisk;
use seekless_engine::client::{Below, Client, Exchange};
use seekless_engine::io::IoError;
use seekless_engine::node::Node;
use seekless_engine::units::Time;
use std::slice::from_mut;

/// A mounted file system and its node.
#[derive(Debug)]
pub struct Blocking<F> {
    client: FsClient<F>,
    node: Node,
    exchange: Exchange,
    now: Time,
    calls: u64,
}

impl<F: FileSystem> Runs for Blocking<F> {
    fn run(&mut self, call: Call) -> Reply {
        self.run_call(call)
    }
}

impl<F: FileSystem> Blocking<F> {
    /// Mounts over a node at time zero: `mount` sees it as a disk.
    ///
    /// # Errors
    /// Those of `mount`.
    pub fn mount<E>(
        node: Node,
        mount: impl FnOnce(&mut NodeDisk<'_>) -> Result<F, E>,
    ) -> Result<Blocking<F>, E> {
        Blocking::mount_at(node, 0, mount)
    }

    /// Mounts over a node that has reached this time.
    ///
    /// # Errors
    /// Those of `mount`.
    pub fn mount_at<E>(
        mut node: Node,
        mut now: Time,
        mount: impl FnOnce(&mut NodeDisk<'_>) -> Result<F, E>,
    ) -> Result<Blocking<F>, E> {
        let fs = mount(&mut NodeDisk::new(&mut node, &mut now))?;
        let (client, exchange) = (FsClient::new(fs), Exchange::new(1));
        Ok(Blocking { client, node, exchange, now, calls: 0 })
    }

    /// The file system.
    pub fn fs(&self) -> &F {
        &self.client.fs
    }

    /// The file system, to be changed between two calls.
    pub fn fs_mut(&mut self) -> &mut F {
        &mut self.client.fs
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The time of the driver.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Runs a request of root at the time of the driver.
    ///
    /// # Errors
    /// Why it failed.
    pub fn run(&mut self, request: Request) -> Result<Answer, Errno> {
        self.calls += 1;
        let now = Timestamp::try_from(self.now).unwrap_or(Timestamp::MAX);
        let call = Call { id: self.calls, who: Credentials::default(), now, request };
        self.run_call(call).result
    }

    /// Runs a call to its reply. [`Request::Forget`] has none: its reply here is [`Answer::Done`].
    ///
    /// # Panics
    /// If the file system comes to a halt without a reply, which is a defect of it.
    pub fn run_call(&mut self, call: Call) -> Reply {
        let (id, silent) = (call.id, matches!(call.request, Request::Forget { .. }));
        self.client.submit(call, &mut Below::new(self.now, from_mut(&mut self.node)));
        loop {
            self.turn();
            if let Some(at) = self.client.replies.iter().position(|reply| reply.id == id) {
                return self.client.replies.remove(at);
            }
            if silent {
                return Reply { id, result: Ok(Answer::Done) };
            }
            self.advance();
        }
    }

    /// Lets time pass.
    pub fn idle(&mut self, span: Time) {
        let end = self.now + span;
        loop {
            self.turn();
            match self.next().filter(|&at| at <= end) {
                Some(at) if at > self.now => self.now = at,
                Some(_) => {}
                None => break,
            }
        }
        self.now = end;
        self.turn();
    }

    /// Unmounts. The node is given back, its layer still mounted, with the first error of the write
    /// path if there was one: then the file system is not clean.
    ///
    /// # Panics
    /// If the unmount comes to a halt, which is a defect of the file system.
    pub fn unmount(mut self) -> (Node, Result<(), IoError>) {
        self.client.stop(&mut Below::new(self.now, from_mut(&mut self.node)));
        loop {
            self.turn();
            if self.client.fs.stopped() {
                break;
            }
            self.advance();
        }
        let failed = self.client.fs.failed();
        (self.node, failed.map_or(Ok(()), Err))
    }

    /// The node as it is now, as after a crash: what the file system has not written is lost.
    pub fn abandon(self) -> Node {
        self.node
    }

    /// Moves requests and answers until nothing moves at this time.
    fn turn(&mut self) {
        let moved = self.exchange.move_all(&mut self.client, from_mut(&mut self.node), self.now);
        match moved {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }

    fn next(&self) -> Option<Time> {
        let events = [self.node.next_event(), self.client.deadline()];
        events.into_iter().flatten().min()
    }

    fn advance(&mut self) {
        let next = self.next().expect("the file system waits for something");
        self.now = next.max(self.now);
    }
}
