//! The operations of FFS as a whole file system over pages in memory, for tests.
//!
//! It does what the core does, without a disk: runs an operation again after a miss, goes on with
//! chains, counts handles and lookups, and frees what has no names and no users.

use crate::ffs::kit::memory::MemTx;
use crate::ffs::offline::check::check;
use crate::ffs::offline::check::finding::Findings;
use crate::ffs::offline::mkfs::mkfs;
use crate::ffs::ondisk::format::Superblock;
use crate::ffs::ondisk::seal::SealKind;
use crate::ffs::ops::allocate::Reached;
use crate::ffs::ops::make::Make;
use crate::ffs::ops::rename::Rename;
use crate::ffs::ops::seek::Sought;
use crate::ffs::ops::{self, Progress, Removed};
use crate::ffs::space::alloc::group;
use crate::ffs::volume::Volume;
use crate::options::MkfsOptions;
use bytes::{Bytes, BytesMut};
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use seekless_fs::call::{Answer, Call, Credentials, Errno, Handle, Ino, Reply, Request, SetAttr};
use seekless_fs::system::Runs;
use seekless_fs::tx::{Stop, Tx};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Runs of one operation at most, so that a test ends.
const MOST_RUNS: u32 = 10_000;

/// A file system in memory.
#[derive(Clone, Debug)]
pub struct MemFs {
    /// Its pages.
    pub tx: MemTx,
    /// What it knows.
    pub vol: Volume,
    /// Its superblock.
    pub superblock: Superblock,
    /// The volume as `mkfs` has left it.
    pub cells: Cells,
    handles: BTreeMap<Handle, Ino>,
    lookups: BTreeMap<Ino, u64>,
    next: Handle,
}

impl MemFs {
    /// Makes a file system on a volume of this size.
    pub fn new(bytes: u64, options: &MkfsOptions) -> MemFs {
        let blocks = bytes / BLOCK_BYTES as u64;
        let mut cells = Cells::new(blocks);
        let report = mkfs(&mut MediumDisk(&mut cells), options).expect("possible options");
        let mut tx = MemTx::new(options.block as usize);
        let each = options.block as usize / BLOCK_BYTES;
        for block in 0..blocks / each as u64 {
            let data = MediumDisk(&mut cells).read(block * each as u64, each as u32);
            let bytes = data.expect("in memory").to_bytes();
            if bytes.iter().any(|&byte| byte != 0) {
                tx.load(block, &bytes);
            }
        }
        let vol = Volume::new(&report.superblock).expect("just made");
        let mut fs = MemFs {
            tx,
            vol,
            superblock: report.superblock,
            cells,
            handles: BTreeMap::new(),
            lookups: BTreeMap::new(),
            next: 1,
        };
        fs.load_groups().expect("just made");
        fs
    }

    fn load_groups(&mut self) -> Result<(), Errno> {
        for number in 0..self.vol.geometry.groups() {
            self.op(|tx, vol| group::load(tx, vol, number))?;
        }
        Ok(())
    }

    /// Runs an operation until it succeeds or fails.
    pub fn op<T>(
        &mut self,
        mut run: impl FnMut(&mut MemTx, &mut Volume) -> Result<T, Stop>,
    ) -> Result<T, Errno> {
        for _ in 0..MOST_RUNS {
            let stop = match run(&mut self.tx, &mut self.vol) {
                Ok(done) => {
                    self.tx.commit();
                    self.vol.commit();
                    return Ok(done);
                }
                Err(stop) => stop,
            };
            self.tx.roll_back();
            self.vol.roll_back();
            match stop {
                Stop::Miss(missing) => self.tx.fetch(&missing),
                Stop::NoRoom => return Err(Errno::NoSpc),
                Stop::Refused(errno) => return Err(errno),
                Stop::Guarded(_) | Stop::Crowded => panic!("nothing is ordered here"),
                Stop::Busy(ino) => panic!("inode {ino} is locked by nothing"),
            }
        }
        panic!("an operation runs without end");
    }

    /// Recounts the summaries from the bitmaps, and compares them with what operations made.
    pub fn check_summaries(&mut self) {
        for number in 0..self.vol.geometry.groups() {
            let mut fresh = Volume::new(&self.superblock).expect("made before");
            self.op(|tx, vol| group::store(tx, vol, number)).expect("a header");
            self.op(|tx, _| group::load(tx, &mut fresh, number)).expect("a header");
            assert_eq!(fresh.group(number), self.vol.group(number), "group {number}");
        }
        let per_block = self.vol.geometry.fragments_per_block();
        let free: u64 = self.vol.groups().iter().map(|g| g.free(per_block)).sum();
        assert_eq!(free, self.vol.free_fragments());
    }

    /// Forgets what is in memory and comes back from the pages.
    pub fn remount(&mut self) -> Result<(), Errno> {
        self.vol = Volume::new(&self.superblock).expect("made before");
        self.handles.clear();
        self.lookups.clear();
        self.load_groups()
    }

    /// Writes the headers of all groups, as a clean unmount does.
    pub fn store_groups(&mut self) {
        for number in 0..self.vol.geometry.groups() {
            self.op(|tx, vol| group::store(tx, vol, number)).expect("a header");
        }
    }

    /// Ends all use as an unmount does, writes everything, and checks the volume.
    pub fn unmount_and_check(&mut self) -> Findings {
        let known: BTreeSet<Ino> =
            self.lookups.keys().chain(self.handles.values()).copied().collect();
        self.lookups.clear();
        self.handles.clear();
        for ino in known {
            self.reap(ino).expect("it can be freed");
        }
        self.check_summaries();
        let sealer = self.superblock.sealer();
        let per_block = self.vol.geometry.sectors_per_block() as u64;
        let each = u64::from(self.vol.geometry.engine_blocks());
        for (block, bytes, kinds) in self.tx.pages() {
            let mut bytes = bytes.to_vec();
            for (number, sector) in bytes.chunks_exact_mut(SECTOR_BYTES).enumerate() {
                if let Some(kind) = kinds[number].and_then(SealKind::of_page) {
                    sealer.set(sector, block * per_block + number as u64, kind, 1);
                }
            }
            let data = Data::bytes(Bytes::from(bytes));
            MediumDisk(&mut self.cells).write(block * each, data).expect("in memory");
        }
        check(&mut MediumDisk(&mut self.cells)).expect("a superblock")
    }

    fn ino(&self, handle: Handle) -> Result<Ino, Errno> {
        self.handles.get(&handle).copied().ok_or(Errno::BadF)
    }

    fn open_handle(&mut self, ino: Ino) -> Handle {
        self.next += 1;
        self.handles.insert(self.next, ino);
        self.next
    }

    fn looked_up(&mut self, ino: Ino) {
        *self.lookups.entry(ino).or_default() += 1;
    }

    /// Frees an object that nothing names, holds or knows.
    fn reap(&mut self, ino: Ino) -> Result<(), Errno> {
        if self.lookups.contains_key(&ino) || self.handles.values().any(|&held| held == ino) {
            return Ok(());
        }
        if self.op(|tx, vol| ops::attr::get(tx, vol, ino)).map_or(1, |attr| attr.links) > 0 {
            return Ok(());
        }
        while self.op(|tx, vol| ops::remove::reap(tx, vol, ino))? == Progress::More {}
        Ok(())
    }

    fn removed(&mut self, removed: Option<Removed>) -> Result<Answer, Errno> {
        if let Some(Removed { ino, last: true }) = removed {
            self.reap(ino)?;
        }
        Ok(Answer::Done)
    }

    /// Writes all of `data`, in steps.
    pub fn write(
        &mut self,
        who: Credentials,
        ino: Ino,
        place: (u64, bool),
        data: &[u8],
    ) -> Result<usize, Errno> {
        let mut place = place;
        let mut done = 0;
        loop {
            let rest = &data[done..];
            match self.op(|tx, vol| ops::write::write(tx, vol, who, ino, place, rest)) {
                Ok(written) => {
                    done += written.bytes;
                    place = (written.at + written.bytes as u64, false);
                }
                Err(_) if done > 0 => return Ok(done),
                Err(errno) => return Err(errno),
            }
            if done == data.len() {
                return Ok(done);
            }
        }
    }

    /// Reads until the end of the range or the file, in steps.
    pub fn read(&mut self, ino: Ino, at: u64, length: usize) -> Result<Bytes, Errno> {
        let mut out = BytesMut::new();
        while out.len() < length {
            let (from, left) = (at + out.len() as u64, length - out.len());
            let bytes = self.op(|tx, vol| ops::read::read(tx, vol, ino, from, left))?;
            if bytes.is_empty() {
                break;
            }
            out.extend_from_slice(&bytes);
        }
        Ok(out.freeze())
    }

    /// Changes the size, in steps.
    pub fn truncate(&mut self, who: Credentials, ino: Ino, size: u64) -> Result<(), Errno> {
        let step =
            |tx: &mut MemTx, vol: &mut Volume| ops::truncate::truncate(tx, vol, who, ino, size);
        while self.op(step)? == Progress::More {}
        Ok(())
    }

    fn set_attr(&mut self, who: Credentials, ino: Ino, set: &SetAttr) -> Result<Answer, Errno> {
        if let Some(size) = set.size {
            self.truncate(who, ino, size)?;
        }
        Ok(Answer::Attr(self.op(|tx, vol| ops::attr::set(tx, vol, ino, set))?))
    }

    fn answer(&mut self, who: Credentials, request: &Request) -> Result<Answer, Errno> {
        match request {
            Request::Read { .. }
            | Request::Write { .. }
            | Request::Allocate { .. }
            | Request::Seek { .. } => self.content(who, request),
            Request::Open { .. }
            | Request::Release { .. }
            | Request::Forget { .. }
            | Request::List { .. } => self.users(who, request),
            _ => self.tree(who, request),
        }
    }

    fn tree(&mut self, who: Credentials, request: &Request) -> Result<Answer, Errno> {
        Ok(match *request {
            Request::Lookup { dir, ref name } => {
                let attr = self.op(|tx, vol| ops::lookup::lookup(tx, vol, dir, name))?;
                self.looked_up(attr.ino);
                Answer::Object(attr, None)
            }
            Request::Attr { ino } => Answer::Attr(self.op(|tx, vol| ops::attr::get(tx, vol, ino))?),
            Request::SetAttr { ino, ref set } => self.set_attr(who, ino, set)?,
            Request::ReadLink { ino } => {
                let text = self.op(|tx, vol| ops::attr::read_link(tx, vol, ino))?;
                self.op(|tx, vol| ops::attr::touch(tx, vol, ino))?;
                Answer::Text(text)
            }
            Request::Make { dir, ref name, ref what, mode, open } => {
                let make = Make { dir, name, what, mode };
                let attr = self.op(|tx, vol| ops::make::make(tx, vol, who, make))?;
                self.looked_up(attr.ino);
                let handle = open.then(|| self.open_handle(attr.ino));
                Answer::Object(attr, handle)
            }
            Request::Link { ino, dir, ref name } => {
                let attr = self.op(|tx, vol| ops::link::link(tx, vol, who, ino, dir, name))?;
                self.looked_up(ino);
                Answer::Object(attr, None)
            }
            Request::Unlink { dir, ref name } => {
                let removed = self.op(|tx, vol| ops::remove::unlink(tx, vol, dir, name))?;
                self.removed(Some(removed))?
            }
            Request::RmDir { dir, ref name } => {
                let removed = self.op(|tx, vol| ops::remove::rmdir(tx, vol, dir, name))?;
                self.removed(Some(removed))?
            }
            Request::Rename { dir, ref name, to_dir, ref to_name, how } => {
                let names = Rename { dir, name, to_dir, to_name, how };
                let removed = self.op(|tx, vol| ops::rename::rename(tx, vol, who, names))?;
                self.removed(removed)?
            }
            Request::Space => Answer::Space(ops::space::space(&self.vol)),
            _ => Answer::Done,
        })
    }

    fn users(&mut self, who: Credentials, request: &Request) -> Result<Answer, Errno> {
        Ok(match *request {
            Request::Open { ino, truncate } => {
                if truncate {
                    self.truncate(who, ino, 0)?;
                }
                self.op(|tx, vol| ops::attr::get(tx, vol, ino))?;
                Answer::Opened(self.open_handle(ino))
            }
            Request::Release { handle } => {
                let ino = self.handles.remove(&handle).ok_or(Errno::BadF)?;
                self.reap(ino)?;
                Answer::Done
            }
            Request::Forget { ino, count } => {
                if let Some(held) = self.lookups.get_mut(&ino) {
                    *held = held.saturating_sub(count);
                    if *held == 0 {
                        self.lookups.remove(&ino);
                        self.reap(ino)?;
                    }
                }
                Answer::Done
            }
            Request::List { handle, cookie, most_bytes } => {
                let ino = self.ino(handle)?;
                let list = self.op(|tx, vol| ops::list::list(tx, vol, ino, cookie, most_bytes))?;
                self.op(|tx, vol| ops::attr::touch(tx, vol, ino))?;
                Answer::Entries(list)
            }
            _ => Answer::Done,
        })
    }

    fn content(&mut self, who: Credentials, request: &Request) -> Result<Answer, Errno> {
        Ok(match *request {
            Request::Read { handle, at, length } => {
                let ino = self.ino(handle)?;
                let bytes = self.read(ino, at, length as usize)?;
                self.op(|tx, vol| ops::attr::touch(tx, vol, ino))?;
                Answer::Bytes(bytes)
            }
            Request::Write { handle, at, ref data, append } => {
                let ino = self.ino(handle)?;
                Answer::Written(self.write(who, ino, (at, append), data)? as u32)
            }
            Request::Allocate { handle, at, length, how } => {
                let ino = self.ino(handle)?;
                let end = at.checked_add(length).ok_or(Errno::FBig)?;
                let mut from = at;
                while let Reached::At(next) =
                    self.op(|tx, vol| ops::allocate::allocate(tx, vol, who, ino, (from, end), how))?
                {
                    from = next;
                }
                Answer::Done
            }
            Request::Seek { handle, at, what } => {
                let ino = self.ino(handle)?;
                let mut from = at;
                loop {
                    match self.op(|tx, vol| ops::seek::seek(tx, vol, ino, from, what))? {
                        Sought::At(at) => break Answer::At(at),
                        Sought::From(next) => from = next,
                    }
                }
            }
            _ => Answer::Done,
        })
    }
}

impl Runs for MemFs {
    fn run(&mut self, call: Call) -> Reply {
        self.tx.now = call.now;
        debug_assert!(self.tx.block_bytes() >= BLOCK_BYTES);
        Reply { id: call.id, result: self.answer(call.who, &call.request) }
    }
}

/// A file system that a test looks at after the oracle has used it.
#[derive(Clone, Debug)]
pub struct Shared(pub Rc<RefCell<MemFs>>);

impl Runs for Shared {
    fn run(&mut self, call: Call) -> Reply {
        self.0.borrow_mut().run(call)
    }
}
