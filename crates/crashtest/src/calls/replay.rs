//! Making recorded calls again, under any policy, in virtual time.
//!
//! The volume answers at once and records its blocks. The clock jumps: to the time of the next
//! call, or of what the file system does by itself. A call is made at its recorded time, or later
//! if a reply that came before it takes longer here. So the syncer writes as it would have beside
//! the program, however slow the machine is that replays. Equal calls give equal recordings.
//!
//! A pause behind each change is time for the syncer: with [`WRITTEN_BACK`] all that one change has
//! made dirty reaches the volume before the next call, in any order that the policy allows.

use crate::own;
use crate::own::device::ImageDevice;
use crate::own::policy::OwnPolicy;
use crate::record::recorder::Recorder;
use crate::replay::image::Image;
use seekless_calls::{Entry, Foreign, Told, word};
use seekless_engine::client::{Below, Exchange};
use seekless_engine::io::IoError;
use seekless_engine::node::Node;
use seekless_engine::units::{SECONDS, Time};
use seekless_formats::FsError;
use seekless_formats::MountedFs;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Call, Handle, Ino, Request, Timestamp, by_inode, inode_of};
use seekless_fs::node::FsClient;
use seekless_fs::system::FileSystem as _;
use std::collections::BTreeMap;
use std::io;
use std::slice::from_mut;
use std::sync::Arc;

/// A pause after which the syncer has written what was dirty before.
pub const WRITTEN_BACK: Time = 31 * SECONDS;
/// Turns at one instant that mean a defect: nothing asks so often.
const MOST_SPINS: u32 = 1_000_000;

/// Why calls cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file system is not what it was when the calls were recorded.
    #[error("cannot mount the file system for a replay: {0}; record the calls again")]
    Mount(#[from] FsError),
    /// A call is never answered.
    #[error("call {number} of the recording is not answered in the replay; report this defect")]
    Stalled {
        /// Its number.
        number: u64,
    },
    /// The end is not reached.
    #[error("the replayed file system does not come to its end; report this defect")]
    NoEnd,
    /// The write path failed.
    #[error("the replayed file system failed: {0}; see that there is space for the recording")]
    Failed(IoError),
    /// The recording of blocks cannot be written.
    #[error("cannot write the recording of blocks: {0}; see that there is space for it")]
    Record(#[from] io::Error),
}

/// What a replay found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Calls that were made.
    pub calls: u64,
    /// Replies from which a program would have seen a difference.
    pub differences: u64,
    /// Changes that file systems of Seekless do not know; they were left out.
    pub foreign: u64,
    /// The first difference.
    pub first: Option<String>,
    /// Virtual time that passed, in nanoseconds.
    pub took_ns: Time,
}

/// A file system in virtual time.
struct World {
    client: FsClient<Box<dyn MountedFs>>,
    node: Node,
    exchange: Exchange,
    now: Time,
    /// Replies that the recording has not come to.
    early: BTreeMap<u64, Told>,
    /// Ids of this replay, by those of the recording.
    inos: BTreeMap<Ino, Ino>,
    handles: BTreeMap<Handle, Handle>,
}

/// Replays calls on a file system that holds what it held when they were recorded, and unmounts.
/// The blocks go to `recorder`, which is not finished. `pause` is virtual time that passes behind
/// each change.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay(
    entries: &[Entry],
    base: Image,
    policy: OwnPolicy,
    pause: Time,
    recorder: &Arc<Recorder>,
) -> Result<Replayed, ReplayError> {
    let device = ImageDevice::recorded(Arc::new(base), Arc::clone(recorder));
    let first = entries.iter().find_map(|entry| match entry {
        Entry::Call { call, .. } => Some(call.now),
        _ => None,
    });
    let mut world = World::mount(Plain::node(Box::new(device)), policy, first.unwrap_or(0))?;
    let mut replayed = Replayed::default();
    let mut requests: BTreeMap<u64, &Request> = BTreeMap::new();
    let mut paused: Time = 0;
    for entry in entries {
        match entry {
            Entry::Call { call, at } => {
                world.pass(at.saturating_add(paused).max(world.now));
                requests.insert(call.id, &call.request);
                replayed.calls += 1;
                world.submit(call);
            }
            Entry::Reply { number, told } => {
                let ours = world.reply(*number)?;
                let request = requests.remove(number);
                world.learn(*told, ours);
                if !told.is_like(ours) {
                    replayed.differences += 1;
                    let word = request.map_or("call", word);
                    replayed.first.get_or_insert_with(|| difference(*number, word, *told, ours));
                }
                if request.is_some_and(Request::is_change) {
                    paused = paused.saturating_add(pause);
                    world.pass(world.now.saturating_add(pause));
                }
            }
            // Models of other file systems know such changes, those of Seekless do not.
            Entry::Foreign { change, .. } => {
                let changes = !matches!(change, Foreign::SyncedRange { .. });
                replayed.foreign += u64::from(changes);
            }
            Entry::Begin => recorder.begin()?,
            Entry::Mark(value) => recorder.mark(value)?,
        }
    }
    world.unmount()?;
    Ok(Replayed { took_ns: world.now, ..replayed })
}

fn difference(number: u64, word: &str, told: Told, ours: Told) -> String {
    format!("call {number} ({word}): {told:?} when it was recorded, {ours:?} now")
}

impl World {
    fn mount(mut node: Node, policy: OwnPolicy, time: Timestamp) -> Result<World, FsError> {
        let mut now = 0;
        let fs = own::mount(&mut NodeDisk::new(&mut node, &mut now), policy, time)?;
        let (client, exchange) = (FsClient::new(fs), Exchange::new(1));
        let (early, inos, handles) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Ok(World { client, node, exchange, now, early, inos, handles })
    }

    /// Moves all that can be moved now.
    fn turn(&mut self) {
        let moved = self.exchange.move_all(&mut self.client, from_mut(&mut self.node), self.now);
        match moved {
            Ok(()) => {}
            Err(never) => match never {},
        }
        let replies = self.client.replies.drain(..);
        self.early.extend(replies.map(|reply| (reply.id, Told::of(&reply.result))));
    }

    /// When something happens by itself.
    fn next(&self) -> Option<Time> {
        [self.node.next_event(), self.client.fs.deadline()].into_iter().flatten().min()
    }

    /// Lets time pass.
    fn pass(&mut self, until: Time) {
        let mut spins = 0;
        loop {
            self.turn();
            match self.next().filter(|&next| next <= until) {
                Some(next) if next > self.now => (self.now, spins) = (next, 0),
                Some(_) if spins < MOST_SPINS => spins += 1,
                _ => break,
            }
        }
        self.now = self.now.max(until);
    }

    /// Lets time pass until `is_there`; false if nothing is going to happen.
    fn wait(&mut self, is_there: impl Fn(&World) -> bool) -> bool {
        let mut spins = 0;
        loop {
            self.turn();
            if is_there(self) {
                return true;
            }
            match self.next() {
                Some(next) if next > self.now => (self.now, spins) = (next, 0),
                Some(_) if spins < MOST_SPINS => spins += 1,
                _ => return false,
            }
        }
    }

    fn submit(&mut self, call: &Call) {
        let mut call = call.clone();
        self.translate(&mut call.request);
        self.client.submit(call, &mut Below::new(self.now, from_mut(&mut self.node)));
    }

    fn reply(&mut self, number: u64) -> Result<Told, ReplayError> {
        match self.wait(|world| world.early.contains_key(&number)) {
            true => self.early.remove(&number).ok_or(ReplayError::Stalled { number }),
            false => Err(ReplayError::Stalled { number }),
        }
    }

    /// Objects that were there before have the number that the recording has.
    fn ino(&self, ino: Ino) -> Ino {
        self.inos.get(&ino).copied().unwrap_or(ino)
    }

    fn handle(&self, handle: Handle) -> Handle {
        match inode_of(handle) {
            Some(ino) => by_inode(self.ino(ino)),
            None => self.handles.get(&handle).copied().unwrap_or(handle),
        }
    }

    fn translate(&self, request: &mut Request) {
        match request {
            Request::Lookup { dir, .. }
            | Request::Make { dir, .. }
            | Request::Unlink { dir, .. }
            | Request::RmDir { dir, .. } => *dir = self.ino(*dir),
            Request::Forget { ino, .. }
            | Request::Attr { ino }
            | Request::ReadLink { ino }
            | Request::Open { ino, .. }
            | Request::Fsync { ino, .. } => *ino = self.ino(*ino),
            Request::SetAttr { ino, set } => {
                *ino = self.ino(*ino);
                set.handle = set.handle.map(|handle| self.handle(handle));
            }
            Request::Link { ino, dir, .. } => (*ino, *dir) = (self.ino(*ino), self.ino(*dir)),
            Request::Rename { dir, to_dir, .. } => {
                (*dir, *to_dir) = (self.ino(*dir), self.ino(*to_dir));
            }
            Request::Release { handle }
            | Request::Read { handle, .. }
            | Request::Write { handle, .. }
            | Request::List { handle, .. }
            | Request::Allocate { handle, .. }
            | Request::Seek { handle, .. } => *handle = self.handle(*handle),
            Request::Sync | Request::Space | Request::Trim { .. } => {}
        }
    }

    /// Takes over the ids that a reply gives.
    fn learn(&mut self, theirs: Told, ours: Told) {
        match (theirs, ours) {
            (Told::Object(their, _, their_handle), Told::Object(our, _, our_handle)) => {
                self.inos.insert(their, our);
                self.handles.extend(their_handle.zip(our_handle));
            }
            (Told::Opened(their), Told::Opened(our)) => drop(self.handles.insert(their, our)),
            _ => {}
        }
    }

    fn unmount(&mut self) -> Result<(), ReplayError> {
        self.client.stop(&mut Below::new(self.now, from_mut(&mut self.node)));
        if !self.wait(|world| world.client.fs.stopped()) {
            return Err(ReplayError::NoEnd);
        }
        match self.client.fs.failed() {
            Some(error) => Err(ReplayError::Failed(error)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
