//! A file system as a client of the volumes below it.
//!
//! Drivers hand an [`FsClient`] to a [`seekless_engine::client::Exchange`]. Replies collect in it
//! until the driver takes them.

use crate::call::{Call, Reply};
use crate::system::{FileSystem, FsCx};
use seekless_engine::client::{Below, Client};
use seekless_engine::io::Done;
use seekless_engine::layer::Port;
use seekless_engine::units::Time;
use std::convert::Infallible;

/// A file system and the replies that its driver has not taken.
#[derive(Debug)]
pub struct FsClient<F> {
    /// The file system.
    pub fs: F,
    /// Replies in the order in which they were given.
    pub replies: Vec<Reply>,
}

impl<F: FileSystem> FsClient<F> {
    /// A file system without replies.
    pub fn new(fs: F) -> FsClient<F> {
        FsClient { fs, replies: Vec::new() }
    }

    /// Hands a call in.
    pub fn submit(&mut self, call: Call, below: &mut Below<'_>) {
        self.fs.submit(call, &mut FsCx { below, replies: &mut self.replies });
    }

    /// Asks for a clean unmount.
    pub fn stop(&mut self, below: &mut Below<'_>) {
        self.fs.stop(&mut FsCx { below, replies: &mut self.replies });
    }
}

impl<F: FileSystem> Client for FsClient<F> {
    type Error = Infallible;

    fn complete(
        &mut self,
        port: Port,
        done: Done,
        below: &mut Below<'_>,
    ) -> Result<(), Infallible> {
        self.fs.complete(port, done, &mut FsCx { below, replies: &mut self.replies });
        Ok(())
    }

    fn pump(&mut self, below: &mut Below<'_>) -> Result<(), Infallible> {
        self.fs.pump(&mut FsCx { below, replies: &mut self.replies });
        Ok(())
    }

    fn deadline(&self) -> Option<Time> {
        self.fs.deadline()
    }
}
