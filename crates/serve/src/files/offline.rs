//! A file system that answers one call after the other, without a mount, for tools.
//!
//! It owns the volume and the clock, as the loop of a mount does. A call exchanges with the volume
//! until its reply is there, and sleeps while only a device can go on.

use super::volume::Volume;
use seekless_engine::client::{Below, Exchange};
use seekless_engine::io::IoError;
use seekless_fs::call::{Answer, Call, Errno, Reply, Request};
use seekless_fs::node::FsClient;
use seekless_fs::system::{FileSystem, Runs};
use std::slice::from_mut;

/// A file system and its volume.
#[derive(Debug)]
pub struct Offline<F> {
    client: FsClient<F>,
    volume: Volume,
    exchange: Exchange,
}

impl<F: FileSystem> Offline<F> {
    /// A file system that was mounted on this volume.
    pub fn new(fs: F, volume: Volume) -> Offline<F> {
        Offline { client: FsClient::new(fs), volume, exchange: Exchange::new(1) }
    }

    /// The file system.
    pub fn fs(&self) -> &F {
        &self.client.fs
    }

    /// Unmounts, and brings the volume to a clean end. The volume is closed after an error, too.
    ///
    /// # Errors
    /// The first error of the write path, or what the device reports at the latest now.
    pub fn close(mut self) -> Result<(), IoError> {
        let now = self.volume.now();
        self.client.stop(&mut Below::new(now, from_mut(self.volume.node())));
        let stopped = loop {
            self.turn();
            if self.client.fs.stopped() {
                break Ok(());
            }
            if let Err(error) = self.volume.wait_until(self.client.fs.deadline()) {
                break Err(error);
            }
        };
        let failed = self.client.fs.failed().map_or(Ok(()), Err);
        let closed = self.volume.close();
        stopped.and(failed).and(closed)
    }

    /// Moves requests and answers until nothing moves at this time.
    fn turn(&mut self) {
        let now = self.volume.now();
        let node = from_mut(self.volume.node());
        match self.exchange.move_all(&mut self.client, node, now) {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }
}

impl<F: FileSystem> Runs for Offline<F> {
    fn run(&mut self, call: Call) -> Reply {
        let (id, silent) = (call.id, matches!(call.request, Request::Forget { .. }));
        let now = self.volume.now();
        self.client.submit(call, &mut Below::new(now, from_mut(self.volume.node())));
        loop {
            self.turn();
            let mut replies = self.client.replies.iter();
            if let Some(at) = replies.position(|reply| reply.id == id) {
                return self.client.replies.swap_remove(at);
            }
            if silent {
                return Reply { id, result: Ok(Answer::Done) };
            }
            if self.volume.wait_until(self.client.fs.deadline()).is_err() {
                return Reply { id, result: Err(Errno::Io) };
            }
        }
    }
}
