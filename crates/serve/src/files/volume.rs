//! The volume below a file system, before, while and after it is mounted.
//!
//! Format, mount, check and repair run alone and read and write it as a [`Disk`]; the loop takes
//! its node. One clock runs through all of that.

use super::leaving;
use super::waiting::{STUCK, Waiting};
use crate::control::Control;
use crate::device::raw;
use crate::image::array::is_member;
use crate::image::{self, ImageError};
use crate::server::backing;
use crate::server::joined::Journal;
use crate::server::{
    self, CrashOptions, Listen, MountMessages, Mounted, ServeError, ServeOptions, Source,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use seekless_disk::Spec;
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::disk::{Disk, check_range};
use seekless_engine::io::{Io, IoError};
use seekless_engine::layout::LayoutError;
use seekless_engine::node::Node;
use seekless_engine::options::Options;
use seekless_engine::superblock::SuperblockError;
use seekless_engine::transaction::Transaction;
use seekless_engine::units::{BlockNr, SECONDS, Time};
use seekless_fs::block::plain::Plain;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Blocks of one request at most.
const MOST_BLOCKS: u32 = 256;

/// Which volume, and how it is reached.
#[derive(Clone, Debug)]
pub struct VolumeOptions {
    /// One image, file or block device; or the members of an array.
    pub images: Vec<PathBuf>,
    /// Go on without members of an array that should be there.
    pub degraded: bool,
    /// The log of a disk caching disk, if it is on a device of its own.
    pub log: Option<PathBuf>,
    /// At the pace of this disk.
    pub disk: Option<Spec>,
    /// Nothing is written.
    pub read_only: bool,
    /// Bypass the page cache.
    pub direct: bool,
    /// How the layout is to work.
    pub options: Options,
    /// The disk below crashes on demand.
    pub crash: Option<CrashOptions>,
    /// Questions of Prometheus are answered on this HOST:PORT.
    pub metrics: Option<String>,
}

impl VolumeOptions {
    /// The volume in these images, as it is.
    pub fn new(images: Vec<PathBuf>, read_only: bool) -> VolumeOptions {
        VolumeOptions {
            images,
            degraded: false,
            log: None,
            disk: None,
            read_only,
            direct: false,
            options: Options::default(),
            crash: None,
            metrics: None,
        }
    }

    fn source(&self) -> Result<Source, ServeError> {
        match self.images.as_slice() {
            [path] if !self.degraded && !is_member(path)? => Ok(match holds_volume(path)? {
                true => Source::Image(path.clone()),
                false if self.log.is_some() => Source::Image(path.clone()),
                false => Source::Raw(path.clone()),
            }),
            members => Ok(Source::Array { members: members.to_vec(), degraded: self.degraded }),
        }
    }

    /// The options of a server for the same volume; it listens nowhere yet.
    ///
    /// # Errors
    /// If it cannot be told what the images hold.
    pub(crate) fn serve_options(&self) -> Result<ServeOptions, ServeError> {
        Ok(ServeOptions {
            source: self.source()?,
            // No client connects.
            listen: Listen::Unix(PathBuf::new()),
            log: self.log.clone(),
            disk: self.disk.clone(),
            log_disk: None,
            messages: MountMessages::Unusual,
            read_only: self.read_only,
            io: crate::device::file::IoMode::Auto,
            direct: self.direct,
            options: self.options.clone(),
            most_connections: 0,
            crash: self.crash.clone(),
            metrics: self.metrics.clone(),
            rebuild_rate: None,
        })
    }
}

/// True if a layout is there, however damaged; false for other content, and for none.
///
/// # Errors
/// If the file cannot be opened.
fn holds_volume(path: &std::path::Path) -> Result<bool, ImageError> {
    let mut image = image::peek(path)?;
    let found = seekless_layouts::read_superblock(&mut image);
    Ok(!matches!(found, Err(LayoutError::Superblock(SuperblockError::Foreign))))
}

/// Opens something, waiting for a mount of it that is at its end.
fn once_left<T>(mut open: impl FnMut() -> Result<T, ServeError>) -> Result<T, ServeError> {
    let mut waiting: Option<Waiting> = None;
    loop {
        match open() {
            Err(ServeError::Image(ImageError::InUse { pid: Some(pid), path }))
                if leaving::is_leaving(pid, &path) =>
            {
                let of = waiting.take().filter(|waiting| waiting.is_for(pid));
                let mut waiting_on = of.unwrap_or_else(|| Waiting::new(pid, &path));
                if !waiting_on.step() {
                    return Err(ImageError::Stuck { path, pid, seconds: STUCK.as_secs() }.into());
                }
                waiting = Some(waiting_on);
            }
            opened => return opened,
        }
    }
}

/// An open volume.
#[derive(Debug)]
pub struct Volume {
    pub(super) mounted: Mounted,
    /// Where commands to a disk that crashes on demand come from, until it is mounted.
    pub(super) control: Option<Control>,
    started: Instant,
    read_only: bool,
}

impl Volume {
    /// Opens and mounts it, locked against other processes. A file or device without a layout is
    /// a volume as it is.
    ///
    /// # Errors
    /// As for a server.
    pub fn open(options: &VolumeOptions) -> Result<Volume, ServeError> {
        // What may fail comes before the mount, which takes the mark of a clean shutdown away.
        let path = options.crash.as_ref().and_then(|crash| crash.control.as_deref());
        let control = Some(server::control(path, options.metrics.as_deref())?);
        let mounted = once_left(|| server::mount(&options.serve_options()?))?;
        let (started, read_only) = (Instant::now(), options.read_only);
        Ok(Volume { mounted, control, started, read_only })
    }

    /// Opens the device with the log of a file system, which [`Volume::join`] then puts behind a
    /// volume that is opened with the same options.
    ///
    /// # Errors
    /// If it is unusable, in use, or too large for the disk at whose pace it is to be; or if the
    /// disk below is to crash on demand.
    pub fn open_journal(options: &VolumeOptions, path: &Path) -> Result<Journal, ServeError> {
        once_left(|| Journal::open(path, options.serve_options()?))
    }

    /// Puts the device with the log of its file system behind a volume of which nothing was asked
    /// since it was opened but reads. It begins at block `at`, or where the volume ends if that
    /// comes first.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn join(self, journal: Journal, at: BlockNr) -> Result<Volume, ServeError> {
        let mounted = journal.join(self.mounted, at)?;
        Ok(Volume { mounted, ..self })
    }

    /// A device as it is. It answers from memory or says when it will: no descriptor wakes a
    /// loop that waits for it.
    pub fn of_device(device: Box<dyn Device + Send>, description: &str) -> Volume {
        let mounted = Mounted::new(Plain::node(device), description.to_owned());
        Volume { mounted, control: None, started: Instant::now(), read_only: false }
    }

    /// What it is.
    pub fn description(&self) -> &str {
        &self.mounted.description
    }

    /// True if its layout, or a device below it, reports writes before they are durable.
    pub fn is_volatile(&self) -> bool {
        let node = &self.mounted.node;
        let early = node.layer.status().limits().reports_early;
        early || node.devices.iter().any(|device| device.volatile())
    }

    /// A counter of its layout, by its name in `seekless status`; 0 if there is none.
    pub fn counter(&self, name: &str) -> f64 {
        let mut stats = self.mounted.node.layer.status().stats().into_iter();
        stats.find(|one| one.0 == name).map_or(0.0, |one| one.1)
    }

    /// The time of its clock.
    pub(super) fn now(&self) -> Time {
        // 584 years fit.
        self.started.elapsed().as_nanos() as Time
    }

    pub(super) fn node(&mut self) -> &mut Node {
        &mut self.mounted.node
    }

    /// Sleeps until a device may have an answer.
    fn wait(&self) -> Result<(), IoError> {
        self.wait_until(None)
    }

    /// Sleeps until a device may have an answer, or until a time if that comes first.
    pub(super) fn wait_until(&self, deadline: Option<Time>) -> Result<(), IoError> {
        let due = [self.mounted.node.next_event(), deadline].into_iter().flatten().min();
        let sleep = due.map(|due| due.saturating_sub(self.now())).map(|sleep| Timespec {
            tv_sec: (sleep / SECONDS) as i64,
            tv_nsec: (sleep % SECONDS) as _,
        });
        let watched = self.mounted.device_fds.iter();
        let mut watched: Vec<PollFd<'_>> =
            watched.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        match poll(&mut watched, sleep.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(raw::sync_error(errno)),
        }
    }

    fn run(&mut self, io: Io) -> Result<Data, IoError> {
        let now = self.now();
        self.mounted.node.submit(now, io);
        self.answer()
    }

    /// The answer to the request in flight.
    fn answer(&mut self) -> Result<Data, IoError> {
        let mut answers = Vec::new();
        loop {
            let now = self.now();
            self.mounted.node.settle(now, &mut answers);
            if let Some(done) = answers.pop() {
                return done.outcome;
            }
            self.wait()?;
        }
    }

    /// Brings the volume to a clean end and makes it durable. Without this, the next mount finds
    /// what a crash leaves.
    ///
    /// # Errors
    /// What the device reports, at the latest now.
    pub fn close(mut self) -> Result<(), IoError> {
        let now = self.now();
        self.mounted.node.stop(now);
        let mut none = Vec::new();
        loop {
            let now = self.now();
            self.mounted.node.settle(now, &mut none);
            if self.mounted.node.stopped() {
                break;
            }
            self.wait()?;
        }
        self.make_durable()?;
        self.release();
        Ok(())
    }

    /// Its images in one word, for messages.
    pub(super) fn images(&self) -> String {
        crate::server::names(&self.mounted.images)
    }

    /// Lets other processes have the images of a volume that is durable.
    pub(super) fn release(self) {
        let Mounted { node, files, .. } = self.mounted;
        drop(node);
        backing::release(&files);
    }

    /// Makes a volume that has come to its end durable.
    ///
    /// # Errors
    /// Why the volume failed, or what the device reports.
    pub(super) fn make_durable(&self) -> Result<(), IoError> {
        if let Some(reason) = self.mounted.node.layer.failed() {
            return Err(reason);
        }
        self.write_out()?;
        if self.read_only {
            return Ok(());
        }
        let out = backing::members_out(&self.mounted.node);
        backing::sync(&self.mounted.files, &out).map_err(|error| {
            tracing::error!("not durable: {error}");
            error.error()
        })
    }
}

impl Disk for Volume {
    fn blocks(&self) -> u64 {
        self.mounted.node.layer.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        check_range(self.blocks(), at, count)?;
        let mut all = Data::none();
        for from in (0..count).step_by(MOST_BLOCKS as usize) {
            let here = MOST_BLOCKS.min(count - from);
            all.append(self.run(Io::read(0, at + u64::from(from), here))?);
        }
        Ok(all)
    }

    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        check_range(self.blocks(), at, data.blocks())?;
        if self.read_only {
            return Err(IoError::ReadOnly);
        }
        for from in (0..data.blocks()).step_by(MOST_BLOCKS as usize) {
            let here = MOST_BLOCKS.min(data.blocks() - from);
            self.run(Io::write(0, at + u64::from(from), data.slice(from, here)))?;
        }
        Ok(())
    }

    fn takes_parts(&self) -> bool {
        self.mounted.node.takes_parts()
    }

    fn transaction_blocks(&self) -> u64 {
        self.mounted.node.transaction_blocks()
    }

    fn patch_bytes(&self) -> u64 {
        self.mounted.node.patch_bytes()
    }

    fn transact(&mut self, all: Transaction) -> Result<(), IoError> {
        if self.read_only {
            return Err(IoError::ReadOnly);
        }
        let now = self.now();
        let sent = self.mounted.node.submit_transaction(now, 0, all, true);
        sent.expect("the caller keeps to what the volume takes");
        self.answer().map(|_| ())
    }

    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        self.mounted.node.next_data(at)
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.run(Io::flush(0)).map(|_| ())
    }
}
